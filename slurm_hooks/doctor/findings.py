"""One thing that was looked at and judged, and what the checks share. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slurm_hooks.config import Config


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        subject: what it is, for example ``JobSubmitPlugins``.
        ok: whether it is as RAD needs it.
        found: what was found.
        cure: what to do about it; the empty string where nothing is to be done.
        needed: False for advice: RAD works without it.
        later: whether it is of use only once RAD changes requests, which it does not yet.
    """

    subject: str
    ok: bool
    found: str
    cure: str = ""
    needed: bool = True
    later: bool = False


def when(acts: bool, findings: Sequence[Finding]) -> list[Finding]:
    """`findings`, as hints for later where RAD does not act yet."""
    return [f if acts or f.ok else replace(f, needed=False, later=True) for f in findings]


def enforcing(config: Config) -> frozenset[str]:
    """Partitions whose jobs' requests RAD changes; `advise` and `shadow` leave them as they are."""
    return frozenset(n for n, part in config.partitions.items() if part.mode == "enforce" and part.method != "off")


def sharing(config: Config) -> list[str]:
    """Partitions whose jobs hold shares (gres/mps)."""
    return [name for name, part in config.partitions.items() if part.method in ("mps", "streams")]


def some(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
