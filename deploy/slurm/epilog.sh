#!/bin/sh
# Slurm Epilog (slurm.conf: Epilog=…): writes allocation.end for the run that task-prolog.sh named, and forgets the job.
#
# An epilog that fails drains its node. This one can't: it does its work in a bounded child and always exits 0. What the
# job's user wrote is read, and the event written, as that user: nothing there can lead root anywhere.
jobs="${TACHOGRAPH_JOBS:-/run/tachograph/jobs}"
spool="${TACHOGRAPH_SPOOL:-/var/spool/tachograph}"

taken_back() {
    job="$jobs/$SLURM_JOB_ID"
    run=$(head -c 1000 "$job/run" | head -n 1)
    gpus=$(head -c 20 "$job/gpus")
    case "$gpus" in *[!0-9]*) gpus= ;; esac
    [ -n "$run" ] || return
    exec tachograph-agent notice allocation.end --spool "$spool" --run "$run" --node "${SLURMD_NODENAME:-$(hostname)}" \
        ${gpus:+--gpus "$gpus"}
}

as_user() {
    if [ "$(id -u)" = "$SLURM_JOB_UID" ]; then
        "$@"
    else
        setpriv --reuid "$SLURM_JOB_UID" --regid "${SLURM_JOB_GID:-$SLURM_JOB_UID}" --clear-groups "$@"
    fi
}

case "$1" in
taken-back) taken_back ;;
*)
    if [ -n "$SLURM_JOB_ID" ] && [ -n "$SLURM_JOB_UID" ] && [ -d "$jobs/$SLURM_JOB_ID" ]; then
        as_user timeout --kill-after=1 "${TACHOGRAPH_HOOK_SECONDS:-3}" /bin/sh "$0" taken-back \
            </dev/null >/dev/null 2>&1
        rm -rf "${jobs:?}/$SLURM_JOB_ID" >/dev/null 2>&1
    fi
    ;;
esac
exit 0
