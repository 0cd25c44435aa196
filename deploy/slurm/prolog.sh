#!/bin/sh
# Slurm Prolog (slurm.conf: Prolog=…): remembers when this node was given to the job. The event itself is written by
# task-prolog.sh, which knows the run's name.
#
# A prolog that fails drains its node. This one can't: it does its work in a bounded child and always exits 0.
jobs="${TACHOGRAPH_JOBS:-/run/tachograph/jobs}"

remember() {
    [ -n "$SLURM_JOB_ID" ] && [ -n "$SLURM_JOB_UID" ] || return
    umask 022
    mkdir -p "$jobs" || return
    rm -rf "${jobs:?}/$SLURM_JOB_ID" # left over from before a requeue
    mkdir -m 0700 "$jobs/$SLURM_JOB_ID" || return
    date +%s >"$jobs/$SLURM_JOB_ID/begun"
    chown -R -h "$SLURM_JOB_UID" "$jobs/$SLURM_JOB_ID"
}

case "$1" in
remember) remember ;;
*) timeout --kill-after=1 "${TACHOGRAPH_HOOK_SECONDS:-3}" /bin/sh "$0" remember </dev/null >/dev/null 2>&1 ;;
esac
exit 0
