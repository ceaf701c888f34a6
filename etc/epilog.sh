#!/bin/sh
# Slurm's Epilog (slurm.conf: Epilog=): how the run ended, recovery, the record, the idle MPS daemon.
# An Epilog that fails drains the node: it never does, also over a rad.env that no shell can read.
trap 'exit 0' EXIT
# Copy it beside a file rad.env, or set the two lines below there:
[ -r "${0%/*}/rad.env" ] && . "${0%/*}/rad.env"
RAD_PYTHON=${RAD_PYTHON:-/opt/rad/bin/python} # the Python that RAD is installed for
RAD_CONFIG=${RAD_CONFIG:-/etc/rad/rad.toml}
RAD_KEPT=${RAD_KEPT:-/var/cache/rad} # what the node keeps of it
# No GPU, nothing to do. Just after a start of slurmctld Slurm 22.05 tells of no job's GPUs: Prolog has noted them.
[ -n "${SLURM_JOB_GPUS:-}" ] || [ -e "$RAD_KEPT/${SLURM_JOB_ID:-}.json" ] || exit 0
PATH=${RAD_PATH:-/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin} # of the Slurm commands
export PATH
export RAD_CONFIG RAD_KEPT
main=${0%/*}/../slurm_hooks/node/main.py # in a checkout
if [ -r "$main" ]; then set -- "$main"; else set -- -m slurm_hooks.node.main; fi
# Slurm drains a node whose Epilog it has to end: where slurm.conf grants less than it may take, it ends before.
most=45
granted='s/^[[:space:]]*(Prolog)?EpilogTimeout[[:space:]]*=[[:space:]]*0*([0-9]{1,6}).*/\2/Ip'
for limit in $(sed -nE "$granted" "${SLURM_CONF:-}" 2>/dev/null); do
    [ "$limit" -eq 0 ] || [ $((limit - 4)) -ge "$most" ] || most=$((limit > 4 ? limit - 4 : 1))
done
/usr/bin/timeout -k 1 "$most" "$RAD_PYTHON" -I "$@" epilog </dev/null
status=$?
# RAD's log is written by its Python. Where that cannot be run the system's log says so; 124: its time was up.
case $status in
    0 | 124) ;;
    *) /usr/bin/timeout 2 logger -p daemon.err -t rad \
        "epilog: $RAD_PYTHON ended with $status: no outcome is recorded, no job recovered; run scripts/install again" ;;
esac
