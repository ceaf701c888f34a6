"""TaskProlog: MPS variables for a task. Runs as the job's user, so it reads two files and prints.

Of a step that was attached from outside the job (`srun --jobid`) it asks slurmctld whether the job's shares are RAD's.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from slurm_hooks.config import Config, ConfigError
from slurm_hooks.node import context, notes, state
from slurm_hooks.node.kept import Kept
from slurm_hooks.shares import FULL_THREADS

# What sbatch leaves for each srun in the script: it would ask for GPUs in a job that holds shares of one.
_OF_STEPS = ("SLURM_GPU_BIND", "SLURM_TRES_BIND")
# The same, but scripts count by these: they stay where cli_filter.lua sees to it that no srun minds. What they were it
# leaves in RAD_COUNTED. The second ones it has to hide from srun, and for that it needs lua-posix.
_COUNTED = ("SLURM_GPUS", "SLURM_GPUS_PER_NODE")
_HIDDEN = ("SLURM_GPUS_PER_TASK", "SLURM_MEM_PER_GPU", "SLURM_CPUS_PER_GPU")
_COUNT = re.compile(rf"({'|'.join(_COUNTED + _HIDDEN)})=[\w.:-]{{1,64}}", re.ASCII)
_LUA_DIRS = (Path("/usr/share/lua"), Path("/usr/local/share/lua"))
_LONGEST_FILTER = 256 * 1024
# Where slurm.conf includes other files, one of these may say it.
_FILTERS = re.compile(rb"^[ \t]*(CliFilterPlugins[ \t]*=[^\n#]*\blua\b|Include[ \t])", re.IGNORECASE | re.MULTILINE)


def hook(env: Mapping[str, str]) -> None:
    """Slurm's TaskProlog."""
    task, attached = None, {}
    if env.get("SLURM_JOB_ID", "").isdigit():
        config = _config(env, int(env["SLURM_JOB_ID"]))
        task = state.read(notes.of_tasks(config.node.state_dir, int(env["SLURM_JOB_ID"])))
        if task and _may_be_attached(task, env):
            attached = of_attached(int(env["SLURM_JOB_ID"]), config.node.command_timeout_s)
    env = {**env, **attached}
    kept = kept_counts(Path(env.get("SLURM_CONF") or "/etc/slurm/slurm.conf").parent) if "RAD_SHARE" in env else ()
    lines = [f"export {name}={value}" for name, value in attached.items()] + task_lines(task, env, kept=kept)
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _may_be_attached(task: Mapping[str, Any], env: Mapping[str, str]) -> bool:
    """Whether a step with shares may be of a job that is RAD's without looking so.

    What the script of a job that asked for shares itself starts is not asked for: it has the daemon's pipes from there,
    and such a step may have as many tasks as the node has cores.
    """
    if not task.get("pipe") or "RAD_SHARE" in env or "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in env:
        return False
    return env.get("CUDA_MPS_PIPE_DIRECTORY") != str(task["pipe"])


def _config(env: Mapping[str, str], job: int) -> Config:
    """By what the job's Prolog went; else the site's configuration, or RAD's defaults: steps must start in any case."""
    kept = Kept.of(env)
    begun = kept.begun(job)
    if begun is not None:
        return begun
    try:
        return kept.read(context.rad_toml(env)).config
    except ConfigError:
        return Config()


def of_attached(job: int, timeout_s: float) -> dict[str, str]:
    """What job_submit.lua put into the environment of a job whose shares are RAD's; empty for any other job."""
    from slurm_hooks.node import commands  # noqa: PLC0415 - seldom needed
    from slurm_hooks.records import decode  # noqa: PLC0415

    shown, _ = commands.show_job(job, timeout_s)
    record = decode(shown.admin_comment) if shown is not None else None
    if shown is None or record is None or not record.is_rewritten:
        return {}
    threads = str(record.thread_percentage or FULL_THREADS)
    place = f"@{record.node}:{record.pin}" if record.pin and threads != str(FULL_THREADS) else ""
    return {
        "RAD_SHARE": str(record.share),
        "RAD_THREAD_PERCENTAGE": threads + place,
        "SLURM_RESTART_COUNT": str(shown.restarts),
    }


def kept_counts(folder: Path, lua_dirs: Sequence[Path] = _LUA_DIRS) -> tuple[str, ...]:
    """What may stay in the environment as cli_filter.lua sees to it; beside slurm.conf it lies."""
    if not filters_steps(folder):
        return ()
    hides = any(True for lua in lua_dirs for _ in lua.glob("5.*/posix/init.lua"))
    return _COUNTED + _HIDDEN if hides else _COUNTED


def filters_steps(folder: Path) -> bool:
    """Whether srun is told of the cli_filter.lua beside slurm.conf, and that loads RAD."""
    try:
        with (folder / "cli_filter.lua").open("rb") as file:
            text = file.read(_LONGEST_FILTER)
        told = _FILTERS.search((folder / "slurm.conf").read_bytes())
    except OSError:
        return False
    return told is not None and (b'"rad"' in text or b"'rad'" in text)


def task_lines(task: Mapping[str, Any] | None, env: Mapping[str, str], *, kept: Collection[str] = ()) -> list[str]:
    """What a TaskProlog prints to set and unset variables of a task. Pure.

    Args:
        task: what Prolog noted for tasks, or None where it noted nothing.
        env: the task's environment.
        kept: variables that stay, though they ask for a GPU.
    """
    lines = []
    # job_submit.lua sets RAD_SHARE. Slurm makes the share a ceiling on compute as well, which RAD does not want;
    # a job that asked for shares itself keeps what Slurm gives it.
    ours = "RAD_SHARE" in env
    if ours and task and _got_a_gpu(task, env):
        lines += ["unset RAD_SHARE", "unset RAD_THREAD_PERCENTAGE"]
        ours = False
    if ours:
        lines += _steps(env, kept)
        held = task.get("share") if task else None
        if held and str(held) != env["RAD_SHARE"]:  # queued again with more: its steps ask for all of it
            lines.append(f"export RAD_SHARE={held}")
    if task and task.get("pipe"):
        lines.append(f"export CUDA_MPS_PIPE_DIRECTORY={task['pipe']}")
        # Some programs take numbers alone (vLLM, DeepSpeed). The daemon's one GPU is 0, and where Slurm says so too, as
        # with ConstrainDevices, that means the job's GPU without the daemon as well. Else the UUID does.
        visible = "0" if env.get("CUDA_VISIBLE_DEVICES") == "0" else task["visible"]
        lines.append(f"export CUDA_VISIBLE_DEVICES={visible}")
        if task.get("cap_mib"):
            lines.append(f"export CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0={task['cap_mib']}M")
        else:
            lines.append("unset CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")
        if ours:
            lines.append(f"export CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={_percentage(env, task['pipe'])}")
        return lines
    if ours:
        lines.append("unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
    if _is_slot(env.get("CUDA_MPS_PIPE_DIRECTORY", "")):  # inherited: the job was submitted from within another
        lines += ["unset CUDA_MPS_PIPE_DIRECTORY", "unset CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"]
    return lines


def _got_a_gpu(task: Mapping[str, Any], env: Mapping[str, str]) -> bool:
    """Whether a job that was given shares holds a GPU now: its user, or a script of the site, turned them back."""
    return task.get("share", 0) is None and "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in env


def _steps(env: Mapping[str, str], kept: Collection[str]) -> list[str]:
    """Make steps take the job's shares, as they do where nothing asks for GPUs, and the processors of its GPU."""
    lines = [f"unset {name}" for name in (*_COUNTED, *_HIDDEN, *_OF_STEPS) if name in env and name not in kept]
    # Empty it is where cli_filter.lua took away that a step asks for the one GPU; later versions write it then.
    lines += [f"export {name}=1" for name in _COUNTED if env.get(name) == ""]
    counts = [count for count in map(_COUNT.fullmatch, env.get("RAD_COUNTED", "").split(" ")) if count]
    if "RAD_COUNTED" in env:
        lines += ["unset RAD_COUNTED", *(f"export {count.group()}" for count in counts)]
        if "SRUN_CPUS_PER_TASK" in env["RAD_COUNTED"].split(" "):  # set for this srun alone
            lines.append("unset SRUN_CPUS_PER_TASK")
    stays = {name for name in kept if name in env} | {count.group(1) for count in counts}
    # Memory per GPU became the job's own. No srun takes both, and a job that is submitted from here inherits them.
    if "SLURM_MEM_PER_GPU" in stays and "SLURM_MEM_PER_NODE" in env:
        lines.append("unset SLURM_MEM_PER_NODE")
    per_gpu = env.get("SLURM_CPUS_PER_GPU", "") if "SLURM_CPUS_PER_GPU" not in kept else ""
    if per_gpu.isascii() and per_gpu.isdigit() and "SRUN_CPUS_PER_TASK" not in env:
        lines.append(f"export SRUN_CPUS_PER_TASK={per_gpu}")
    if env.get("SLURM_EXPORT_ENV", "").upper() in ("NONE", "NIL"):  # TaskProlog of a step looks for these
        lines.append("export SLURM_EXPORT_ENV=RAD_SHARE,RAD_THREAD_PERCENTAGE")
    per_task = env.get("SLURM_TRES_PER_TASK", "").split(",")
    rest = ",".join(item for item in per_task if not item.startswith(("gres/gpu", "gres:gpu")))
    if rest != ",".join(per_task):
        lines.append(f"export SLURM_TRES_PER_TASK={rest}" if rest else "unset SLURM_TRES_PER_TASK")
    return lines


def _percentage(env: Mapping[str, str], pipe: str) -> int:
    """The thread percentage that was decided; a limit such as ``50@node07:g2`` holds on that GPU, in the first run.

    It was chosen for the jobs that were there. A job that Slurm put elsewhere, or queued again, meets others.
    """
    text, limited, where = env.get("RAD_THREAD_PERCENTAGE", "").partition("@")
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= FULL_THREADS):
        return FULL_THREADS
    here = f"{env.get('SLURMD_NODENAME', '')}:{''.join(pipe.split('/')[-3:-2])}"
    first = env.get("SLURM_RESTART_COUNT", "0") == "0"
    return FULL_THREADS if limited and not (first and where == here) else int(text)


def _is_slot(pipe: str) -> bool:
    """Whether a pipe directory is one of ours, of whichever job: .../g2/u1003/pipe."""
    parts = pipe.split("/")
    return len(parts) >= 4 and parts[-1] == "pipe" and parts[-3][:1] == "g" and parts[-3][1:].isdigit()
