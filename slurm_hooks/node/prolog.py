"""Prolog: note how things are when a run starts, and put the MPS daemon of the job's GPU in place.

Touches the state folder and the one of `kept`, the ends of the job's logs (as its user) and, through `mps`, the GPU's
daemon.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from slurm_hooks.memory import is_smaller, memory_here
from slurm_hooks.node import commands, context, gpus, loglist, logs, mps, mps_daemon, sharedlogs, state
from slurm_hooks.node.context import Context
from slurm_hooks.node.loglist import Log
from slurm_hooks.shares import WHOLE_GPU, cap_of


def hook(env: Mapping[str, str]) -> None:
    """Slurm's Prolog."""
    scene = context.of_job("prolog", env)
    if scene is None:
        return
    try:
        start(scene)
    except Exception as error:  # a hook fails open
        scene.say(f"{type(error).__name__}: {error}")


def start(scene: Context) -> None:
    """Note the start of a run, and let the job use its GPU's daemon.

    Raises:
        StateError: if the state folder cannot be used.
    """
    job = scene.job
    state.folder(scene.config.node.state_dir)
    for path in (scene.note, scene.task_note):  # of an earlier run whose Epilog never came
        state.remove(path)
    known = _logs(scene)
    paths = [log.path for log in known]
    marks = scene.with_user(lambda: logs.mark(job, paths), logs.unknown(paths))
    if not all(mark.known for mark in marks):
        scene.say("how its logs end is not known: they could not be looked at in time")
    note = {
        "restart": job.restart,
        "uid": job.uid,
        "gpus": job.gpus,
        "share": job.share,
        "allotment_mib": _allotment(scene),
        "start": int(time.time()),
        "node": job.node,
        "logs": [dataclasses.asdict(mark) for mark in marks],
    }
    state.write(scene.note, note)
    try:
        scene.kept.begin(job.id, scene.config)
    except (state.StateError, OSError) as error:
        scene.say_once(
            "kept", f"a change of [node] or [mps] in rad.toml would take MPS away from running jobs: {error}"
        )
    task: dict[str, Any] = {"share": job.share}
    if scene.partition.method == "mps" and job.gpu is not None and job.share is not None and job.share < WHOLE_GPU:
        task.update(_join(scene, job.gpu, job.share))
    state.write(scene.task_note, task, 0o644)
    sharedlogs.note(scene, known)


def _allotment(scene: Context) -> int | None:
    """Memory that the job's shares stand for, in MiB: what the monitor holds it to, also where MPS sets no cap."""
    if scene.job.share is None:
        return None
    measured = gpus.least_memory_mib(f"{scene.config.mps.run_dir}/gpus.json")
    if is_smaller(scene.partition, measured):
        text = f"a GPU here has {measured} MiB, less than rad.toml says of partition {scene.job.partition}"
        scene.say_once("memory", f"{text}: jobs are held to their parts of that; name its smallest model as gpu_model")
    return cap_of(scene.job.share, memory_here(scene.partition, measured))


def _logs(scene: Context) -> list[Log]:
    found = loglist.before_start(scene.job)
    if found is None:
        shown, problem = commands.show_job(scene.job.id, scene.config.node.command_timeout_s)
        if shown is None:
            scene.say(f"its logs are not known for sure: {problem}")
            return loglist.of_no_task(scene.job)
        found = loglist.of_job(scene.job, shown)
    return found


def _join(scene: Context, gpu: int, share: int) -> dict[str, Any]:
    """Let a job use its GPU's daemon; what its tasks must know, or nothing where there is no daemon."""
    settings = scene.config.mps
    if not mps.available(settings):
        scene.say_once("no-mps", f"{settings.control} is not on this node: jobs get neither MPS nor memory caps")
        return {}
    try:
        found = gpus.gpu(gpu, settings.nvidia_smi, f"{state.folder(settings.run_dir)}/gpus.json")
        cap = cap_of(share, memory_here(scene.partition, found.memory_mib if found else 0))
        if cap is None:
            scene.say_once("no-memory", "the GPU's memory is not known: set gpu_memory_mib; jobs get no memory caps")
        visible = found.uuid if found else str(gpu)
        limit = scene.config.node.command_timeout_s
        slot = mps.join(
            settings, gpu, scene.job.uid, scene.job.id, visible, cap, lambda: commands.jobs_have_name_spaces(limit)
        )
    except Exception as error:  # a daemon that hangs may take all of Prolog's time: what else it notes is noted
        scene.say(f"no MPS: {error}")
        return {}
    if settings.log_mib and not mps_daemon.is_bounded(slot):
        scene.say_once("mps-logs", f"{slot.path}: no tmpfs is mounted there: users can fill the file system of run_dir")
    # The daemon shows its clients one GPU, whose index is 0 there; the UUID is right without the daemon, too.
    return {"pipe": slot.pipe, "visible": found.uuid if found else "0", "cap_mib": cap}
