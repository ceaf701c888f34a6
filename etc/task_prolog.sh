#!/bin/sh
# Slurm's TaskProlog (slurm.conf: TaskProlog=): MPS variables for each task. Runs as the job's user.
# A TaskProlog that fails ends the task: it never does, also over a rad.env that no shell can read.
trap 'exit 0' EXIT
# Copy it beside a file rad.env, or set the two lines below there:
[ -r "${0%/*}/rad.env" ] && . "${0%/*}/rad.env"
RAD_PYTHON=${RAD_PYTHON:-/opt/rad/bin/python} # the Python that RAD is installed for
RAD_CONFIG=${RAD_CONFIG:-/etc/rad/rad.toml}
RAD_KEPT=${RAD_KEPT:-/var/cache/rad} # what the node keeps of it
# No GPU, nothing to do. Of a step that no batch script starts (srun, salloc, srun --jobid) only the second is set.
[ -n "${SLURM_JOB_GPUS:-}${SLURM_STEP_GPUS:-}${CUDA_MPS_PIPE_DIRECTORY:-}" ] || exit 0
export RAD_CONFIG RAD_KEPT
main=${0%/*}/../slurm_hooks/node/main.py # in a checkout
if [ -r "$main" ]; then set -- "$main"; else set -- -m slurm_hooks.node.main; fi
/usr/bin/timeout -k 1 5 "$RAD_PYTHON" -I "$@" task-prolog 2>/dev/null </dev/null
