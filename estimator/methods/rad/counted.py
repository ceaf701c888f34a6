"""Which model's hidden blocks are most like a program's, told by how much torchinfo counts inside them. Pure.

Somebody who takes a library's model apart (without its head, only its stages) keeps its blocks, but his model has
other types of layers than any that was noted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from estimator.breath import breathe

_NEAR: Final = 0.0005
"""By how much what is counted may differ, as a share: torchinfo rounds it."""
AGREE: Final = 1.1
"""By how much the most that blocks keep may be more than the least for them to be alike."""


class Noted(Protocol):
    """What is noted of hidden blocks: see `estimator.methods.rad.own_code.Hidden`."""

    @property
    def counted(self) -> float:
        """Elements that torchinfo counts, for each of a block's size."""

    @property
    def kept(self) -> tuple[float, float, float]:
        """Bytes that autograd keeps for each of these."""

    @property
    def kept_more(self) -> tuple[float, float, float]:
        """What of this grows with the tokens."""


def as_counted(blocks: Sequence[tuple[Mapping[str, Noted], int]], inside: float, several: int = 1) -> str:
    """Name a model in whose blocks as much would be counted as in a program's; "" where none is, or these differ.

    Args:
        blocks: what is noted of each hidden block's type, by models (under "" of all), and its size in elements.
        inside: elements that torchinfo counts in all of them.
        several: how many models must agree.

    Returns:
        The one whose blocks keep neither more nor less than most.
    """
    sizes: dict[int, int] = {}
    tables: dict[int, Mapping[str, Noted]] = {}
    for types, size in blocks:
        tables[id(types)] = types
        sizes[id(types)] = sizes.get(id(types), 0) + size
    found: list[tuple[float, str]] = []
    for key in tables[max(sizes, key=lambda each: sizes[each])] if sizes and inside > 0 else ():
        breathe()
        counted = kept = 0.0
        for at, types in tables.items():
            noted = types.get(key) or types.get("")
            if noted is None:
                break
            elements = sizes[at] * noted.counted
            counted += elements
            kept += elements * (noted.kept[0] + noted.kept_more[0])
        else:
            if key and abs(counted - inside) <= _NEAR * inside:
                found.append((kept, key))
    found.sort()
    # A few may count the same by chance.
    least, middle, most = (found[len(found) * quarter // 4] for quarter in (1, 2, 3)) if found else ((0.0, ""),) * 3
    return middle[1] if len(found) >= several and most[0] <= AGREE * least[0] else ""
