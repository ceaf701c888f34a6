#!/bin/sh
# Slurm's Prolog (slurm.conf: Prolog=): notes the run's start, starts the MPS daemon of the job's GPU.
# A Prolog that fails or hangs drains the node: it never fails, also over a rad.env that no shell can read.
trap 'exit 0' EXIT
# Copy it beside a file rad.env, or set the two lines below there:
[ -r "${0%/*}/rad.env" ] && . "${0%/*}/rad.env"
RAD_PYTHON=${RAD_PYTHON:-/opt/rad/bin/python} # the Python that RAD is installed for
RAD_CONFIG=${RAD_CONFIG:-/etc/rad/rad.toml}
RAD_KEPT=${RAD_KEPT:-/var/cache/rad} # what the node keeps of it
[ -n "${SLURM_JOB_GPUS:-}" ] || exit 0 # no GPU, nothing to do
PATH=${RAD_PATH:-/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin} # of the Slurm commands
export PATH
export RAD_CONFIG RAD_KEPT
main=${0%/*}/../slurm_hooks/node/main.py # in a checkout
if [ -r "$main" ]; then set -- "$main"; else set -- -m slurm_hooks.node.main; fi
# Slurm drains a node whose Prolog it has to end: where slurm.conf grants less than it may take, it ends before.
most=25
granted='s/^[[:space:]]*Prolog(Epilog)?Timeout[[:space:]]*=[[:space:]]*0*([0-9]{1,6}).*/\2/Ip'
for limit in $(sed -nE "$granted" "${SLURM_CONF:-}" 2>/dev/null); do
    [ "$limit" -eq 0 ] || [ $((limit - 4)) -ge "$most" ] || most=$((limit > 4 ? limit - 4 : 1))
done
/usr/bin/timeout -k 1 "$most" "$RAD_PYTHON" -I "$@" prolog </dev/null
status=$?
# RAD's log is written by its Python. Where that cannot be run the system's log says so; 124: its time was up.
case $status in
    0 | 124) ;;
    *) /usr/bin/timeout 2 logger -p daemon.err -t rad \
        "prolog: $RAD_PYTHON ended with $status: jobs get neither MPS nor caps; run scripts/install again" ;;
esac
