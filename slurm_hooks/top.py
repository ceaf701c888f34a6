"""The live view of GPUs that `radctl top` shows. Pure: a view of the cluster in, rows out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_hooks.amounts import gib, many
from slurm_hooks.cluster import ClusterView, Gpu
from slurm_hooks.monitor.client import Measured
from slurm_hooks.shares import SHARES_PER_GPU

BAR_WIDTH = 20
MARKS = "\u2588\u2591"
PLAIN_MARKS = "#."  # for a terminal whose encoding lacks the others


@dataclass(frozen=True)
class Line:
    """One GPU.

    Attributes:
        node: its node.
        gpu: its device type, for example ``g2``.
        available: whether its node takes jobs.
        used_shares: shares that are held or spoken for.
        residents: job id, user, share and reserved memory in MiB (None where unknown) of each job on it.
        reserved_mib: memory that the residents' estimates reserve, in MiB; None where none is known.
        used_mib: measured memory in use, in MiB; None where not measured.
        smact: measured SMACT, else the sum of the residents' as radd reckons with it; None where none is known.
        measured: whether `smact` was measured.
    """

    node: str
    gpu: str
    available: bool
    used_shares: int
    residents: tuple[tuple[int, str, int, int | None], ...]
    reserved_mib: int | None
    used_mib: int | None
    smact: float | None
    measured: bool


def lines(view: ClusterView, seen: Measured, partition: str = "") -> list[Line]:
    """All GPUs of a partition (or of all), in the order of nodes and devices.

    Args:
        view: the cluster as Slurm shows it.
        seen: what monitors measured; they count a node's GPUs as Slurm lists them.
        partition: its name, or the empty string.
    """
    return [
        _line(gpu, node.available, seen.gpus.get((node.name, gpu.number)), seen.memory_mib.get((node.name, gpu.number)))
        for node in view.nodes
        if partition in ("", *node.partitions)
        for gpu in sorted((*node.gpus, *node.whole), key=lambda gpu: gpu.number)
    ]


def _line(gpu: Gpu, available: bool, smact: float | None, used_mib: float | None) -> Line:
    reserved = [r.memory_mib for r in gpu.residents if r.memory_mib is not None]
    declared = [r.smact for r in gpu.residents if r.smact is not None]
    return Line(
        node=gpu.node,
        gpu=gpu.type,
        available=available,
        used_shares=gpu.used_shares,
        residents=tuple((r.job_id, r.user, r.share, r.memory_mib) for r in gpu.residents),
        reserved_mib=sum(reserved) if reserved else None,
        used_mib=None if used_mib is None else round(used_mib),
        smact=smact if smact is not None else sum(declared) if declared else None,
        measured=smact is not None,
    )


def bar(used: int, width: int = BAR_WIDTH, marks: str = MARKS) -> str:
    """Shares of a GPU as a bar of two marks: what is used, and what is free."""
    full = round(width * max(0, min(used, SHARES_PER_GPU)) / SHARES_PER_GPU)
    return marks[0] * full + marks[1] * (width - full)


def smact(line: Line) -> str:
    """SMACT; what is only reckoned with is marked."""
    if line.smact is None:
        return "-"
    return f"{line.smact:.2f}" if line.measured else f"~{line.smact:.2f}"


def memory(line: Line) -> str:
    """Memory in use, of what is reserved, in GiB."""
    return f"{gib(line.used_mib)} / {gib(line.reserved_mib)}"


def residents(line: Line) -> str:
    """The jobs on a GPU, for example ``4711 alice 38 (13.1 GiB), 4712 bob 41``."""
    words = []
    for job_id, user, share, mib in line.residents:
        memory = f" ({gib(mib)} GiB)" if mib is not None else ""
        words.append(f"{job_id} {user} {share}{memory}")
    return ", ".join(words)


def summary(shown: Sequence[Line], view: ClusterView, partition: str = "") -> str:
    """One line about all of them, and one about those of a partition (or of all) that cannot be shown."""
    held = sum(min(SHARES_PER_GPU, sum(share for _, _, share, _ in line.residents)) for line in shown) / SHARES_PER_GPU
    jobs = len({job_id for line in shown for job_id, *_ in line.residents})
    shared = sum(len(line.residents) > 1 for line in shown)
    waits = f"{many(view.waiting_jobs, 'job')} wait{'s' if view.waiting_jobs == 1 else ''}"
    told = f"{many(len(shown), 'GPU')}, {held:.2f} held by {many(jobs, 'job')}, {shared} shared now, {waits}"
    untold = sum(bool(node.several) and partition in ("", *node.partitions) for node in view.nodes)
    have = f"{many(untold, 'node')} {'has' if untold == 1 else 'have'}"
    return f"{told}\n{have} GPUs without Types of their own, which are not shown" if untold else told
