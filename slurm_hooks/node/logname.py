"""Names of a job's logs: sbatch's filename patterns, expanded as Slurm does it. Pure.

slurmd hands Prolog and Epilog the name as the user wrote it, and squeue shows it so too: we expand it ourselves.
The rules were checked against the files that Slurm 22.05, 24.11 and 26.05 make.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

NOT_AN_ARRAY = 4294967294  # what Slurm writes for %a in a job that is no task of an array
MAX_WIDTH = 10
_PATTERN = re.compile(r"%(?:%|(\d*)([AabjJNnrSstux])|\d*(\d))")


@dataclass(frozen=True)
class LogNames:
    """What the patterns stand for.

    Attributes:
        job: the job's own number (``%j``, ``%J``).
        array_job, array_task: ``%A`` and ``%a``; None outside an array.
        user, name: ``%u`` and ``%x``; None where they are not known.
        node: ``%N``.
        restart: ``%r``, how often the job was requeued.
        sluid: ``%S``, the run's own identifier; empty where Slurm has none, as before 25.11. Then ``%r`` and ``%S``
            are no patterns.
    """

    job: int
    user: str | None = None
    name: str | None = None
    node: str = ""
    array_job: int | None = None
    array_task: int | None = None
    restart: int = 0
    sluid: str = ""


def default(names: LogNames) -> str:
    """The pattern of a job whose user named no log."""
    return "slurm-%j.out" if names.array_task is None else "slurm-%A_%a.out"


def expand(pattern: str, names: LogNames, work_dir: str) -> str | None:
    """The absolute path of a log, or None where a pattern stands for something unknown.

    A backslash in the name switches all patterns off and is taken away, as slurmd does.
    """
    pattern = pattern or default(names)
    if "\\" in pattern:
        path: str | None = re.sub(r"\\(.?)", r"\1", pattern, flags=re.DOTALL)
    else:
        path = _expanded(pattern, names)
    return None if path is None else posixpath.join(work_dir, path)


def names_job(pattern: str) -> bool:
    """Whether a log's name holds the job's number, or its array's and its task's, so that no other job writes there."""
    letters = _letters(pattern)
    return not pattern or not letters.isdisjoint("jJ") or letters.issuperset("Aa")


def names_array(pattern: str) -> bool:
    """Whether a log's name depends on the job's array or its task, of which slurmd does not tell hooks."""
    return not _letters(pattern).isdisjoint("Aab")


def _letters(pattern: str) -> set[str]:
    """The letters of a name that stand for something."""
    return set() if "\\" in pattern else {found[2] for found in _PATTERN.finditer(pattern) if found[2]}


def _expanded(pattern: str, names: LogNames) -> str | None:
    task = NOT_AN_ARRAY if names.array_task is None else names.array_task
    values = {
        "A": str(names.job if names.array_job is None else names.array_job),
        "a": str(task),
        "b": str(task % 10),  # to 22.05 this is no pattern: nobody writes it there
        "j": str(names.job),
        "J": str(names.job),
        "N": names.node,
        "n": "0",
        "s": "batch",
        "t": "0",
        "u": names.user,
        "x": names.name,
    }
    if names.sluid:
        values |= {"r": str(names.restart), "S": names.sluid}
    known = True

    def value(found: re.Match[str]) -> str:
        nonlocal known
        width, letter, digit = found.groups()
        if letter is None:
            return digit or "%"  # of a width without a letter its last digit stays
        if letter not in values:
            return width[-1:] + letter if width else found[0]
        text = values[letter]
        if text is None:
            known = False
            return ""
        return text.zfill(min(int(width), MAX_WIDTH)) if width and letter in "AabjJnrt" else text

    path = _PATTERN.sub(value, pattern)
    return path if known else None
