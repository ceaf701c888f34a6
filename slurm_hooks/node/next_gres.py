"""The request of a job's next run, as `scontrol update gres=` takes it. Pure: text in, text out."""

from __future__ import annotations

import re
from collections.abc import Callable

from slurm_hooks import mig


def next_gres(tres_per_node: str, share: int, instance: str = "") -> str | None:
    """A request with another number of shares, or another MIG instance; None where it asks for nothing of that kind.

    The device type of shares stays: Slurm 22.05 would add another one to it.
    """
    if instance:
        return _changed(tres_per_node, lambda words: f"gpu:{instance}:1" if _is_instance(words) else None)
    return _changed(tres_per_node, lambda words: _with_share(words, share))


def asks_for_shares(tres_per_node: str) -> bool:
    """Whether a request is for shares of a GPU."""
    return next_gres(tres_per_node, 1) is not None


def asks_for_instance(tres_per_node: str) -> bool:
    """Whether a request is for a MIG instance."""
    return any(map(_is_instance, _entries(tres_per_node)))


def _changed(tres_per_node: str, change: Callable[[str], str | None]) -> str | None:
    entries = _entries(tres_per_node)
    changed = [change(words) for words in entries]
    return ",".join(new or old for new, old in zip(changed, entries, strict=True)) if any(changed) else None


def _entries(tres_per_node: str) -> list[str]:
    return [re.sub(r"^gres[:/]", "", entry) for entry in tres_per_node.split(",")]


def _with_share(words: str, share: int) -> str | None:
    name, *rest = words.split(":")
    kind = [part for part in rest[:1] if part and not part.isdigit()]
    return ":".join([name, *kind, str(share)]) if name == "mps" else None


def _is_instance(words: str) -> bool:
    name, _, kind = words.partition(":")
    return name == "gpu" and mig.instance(re.sub(r":1$", "", kind)) is not None
