"""What the node's hooks add to a job.

Starts etc/prolog.sh, etc/task_prolog.sh and etc/epilog.sh as slurmd does, for jobs of the user `nobody` that end well,
and measures the wall time of each. No Slurm and no GPU take part: what they take themselves (the start of an MPS
daemon, a question to slurmctld after a failure) comes on top.
"""

from __future__ import annotations

import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scripts.bench.common import Table, note, percentile

ROOT = Path(__file__).parents[2]
CONFIG = """\
[mps]
run_dir = "{place}/mps"
control = "{place}/none"
[node]
state_dir = "{place}/jobs"
spool_dir = "{place}/spool"
log = "{place}/node.log"
send_for_s = 0.0
[partitions.gpu]
gpu_memory_mib = 81920
"""


def measure(place: Path, runs: int) -> dict[str, list[float]]:
    """Wall times in milliseconds of each hook, with a job of its own each time."""
    (place / "rad.toml").write_text(CONFIG.format(place=place), encoding="utf-8")
    user = pwd.getpwnam("nobody")
    env = {
        "RAD_CONFIG": f"{place}/rad.toml",
        "RAD_KEPT": f"{place}/kept",
        "RAD_PYTHON": sys.executable,
        "RAD_PATH": "/nowhere",  # no Slurm commands: the background process that sends records ends at once
        "SLURM_JOB_UID": str(user.pw_uid),
        "SLURM_JOB_GID": str(user.pw_gid),
        "SLURM_JOB_USER": user.pw_name,
        "SLURM_JOB_PARTITION": "gpu",
        "SLURM_JOB_WORK_DIR": "/",
        "SLURMD_NODENAME": "node0",
        "SLURM_JOB_EXIT_CODE2": "0:0",
    }
    gpu = {"SLURM_JOB_GPUS": "0", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "30"}
    hooks = {
        "prolog, no GPU": ("prolog.sh", {}),
        "prolog": ("prolog.sh", gpu),
        "task prolog": ("task_prolog.sh", gpu),
        "epilog": ("epilog.sh", gpu),
    }
    times: dict[str, list[float]] = {name: [] for name in hooks}
    for run in range(-2, runs):  # two to warm up
        for name, (script, more) in hooks.items():
            job = {"SLURM_JOB_ID": str(1000 + run)}
            begin = time.perf_counter()
            subprocess.run([ROOT / "etc" / script], env={**env, **more, **job}, stdout=subprocess.DEVNULL, check=True)
            if run >= 0:
                times[name].append(1000 * (time.perf_counter() - begin))
    return times


def run(count: int) -> Table:
    """Measure; needs root."""
    place = Path(tempfile.mkdtemp(prefix="rad-bench-"))
    place.chmod(0o755)
    note(f"{count} runs of each hook")
    try:
        times = measure(place, count)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    rows = [
        [name, str(len(values)), *(f"{percentile(values, p):.1f}" for p in (50, 95))] for name, values in times.items()
    ]
    return Table("Time of a node's hooks without a GPU, in milliseconds", ("hook", "n", "p50", "p95"), rows)
