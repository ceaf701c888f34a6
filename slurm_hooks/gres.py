"""GPUs and their shares in lists of generic resources, however Slurm writes them. Pure."""

from __future__ import annotations

import re
from typing import Final

# A device's type has a letter, perhaps behind digits (1g.18gb, 2080ti). Read once, however long a user makes it.
DEVICE_TYPE: Final = r"(?=[\w.+-]*[A-Za-z])[\w.+-]+"
_ITEM: Final = re.compile(rf"(?<![\w.+-])(gpu|mps)(?::({DEVICE_TYPE}))?[:=](\d{{1,18}})")


def counted(resources: str) -> list[tuple[str, str, int]]:
    """``gpu`` or ``mps``, device type or the empty string, and number, of those whose number stands there.

    They are what a node has (``gpu:g0:1(S:0),mps:g0:100``), a job asks for (``gres/mps:g0:30``) or holds
    (``gres/mps:g0=30``).
    """
    return [(kind, device, int(count)) for kind, device, count in _ITEM.findall(resources)]
