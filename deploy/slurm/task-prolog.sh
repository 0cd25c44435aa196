#!/bin/sh
# Slurm TaskProlog (slurm.conf: TaskProlog=…): tells each task, also one in a container, where to record and under which
# name, and writes allocation.start once a job and node. Runs as the job's user; what it prints as "export NAME=value"
# Slurm puts into the task's environment.
#
# A task prolog that fails stops the task. This one can't: its work is bounded, its errors go nowhere, it exits 0.
jobs="${TACHOGRAPH_JOBS:-/run/tachograph/jobs}"
spool="${TACHOGRAPH_SPOOL:-/var/spool/tachograph}"
user="${SLURM_JOB_USER:-${USER:-$(id -un 2>/dev/null)}}"
run="${TACHOGRAPH_RUN:-$user/${SLURM_JOB_NAME:-job}}"
# One line: a newline in a job's name would end the export, and begin another.
run=$(printf %s "$run" | tr '[:cntrl:]' '?')
node="${SLURMD_NODENAME:-$(hostname)}"

count_gpus() {
    case "$SLURM_GPUS_ON_NODE" in
    '' | *[!0-9]*) printf %s "$SLURM_JOB_GPUS" | tr , '\n' | grep -c . ;;
    *) printf %s "$SLURM_GPUS_ON_NODE" ;;
    esac
}

allocated() {
    job="$jobs/$SLURM_JOB_ID"
    # mkdir succeeds for one task of the node only.
    [ -d "$job" ] && mkdir "$job/told" || return
    printf '%s\n' "$run" >"$job/run"
    begun=$(cat "$job/begun")
    gpus=$(count_gpus)
    [ "$gpus" -gt 0 ] || gpus=
    printf '%s\n' "$gpus" >"$job/gpus"
    exec tachograph-agent notice allocation.start --spool "$spool" --run "$run" --node "$node" \
        ${begun:+--t "$begun"} ${gpus:+--gpus "$gpus"}
}

case "$1" in
allocated) allocated ;;
*)
    if [ "$TACHOGRAPH" != off ] && [ -d "$spool" ]; then
        printf 'export TACHOGRAPH_SPOOL=%s\n' "$spool"
        printf 'export TACHOGRAPH_RUN=%s\n' "$run"
        printf 'export TACHOGRAPH_NODE=%s\n' "$node"
        # Apptainer takes both from here. Pyxis and enroot pass the variables on, and mount by enroot.fstab.
        printf 'export APPTAINER_BIND=%s\n' "${APPTAINER_BIND:+$APPTAINER_BIND,}$spool"
        for name in SPOOL RUN NODE; do
            case "$name" in
            SPOOL) value=$spool ;;
            RUN) value=$run ;;
            NODE) value=$node ;;
            esac
            printf 'export APPTAINERENV_TACHOGRAPH_%s=%s\n' "$name" "$value"
        done
        timeout --kill-after=1 "${TACHOGRAPH_HOOK_SECONDS:-3}" /bin/sh "$0" allocated </dev/null >/dev/null 2>&1
    fi
    ;;
esac
exit 0
