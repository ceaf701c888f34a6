"""The text of a record's fields, bounded, and which letters of a token are capitals. Pure.

Written out here, and not by `json`: a record has few kinds of values, and most of its fields say nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Final

MAX_TEXT: Final = 156  # bytes of one string, in UTF-8
MAX_ITEMS: Final = 12  # entries of one list; the first are kept, of runs the last
DECIMALS: Final = 4

_CAPITAL_BITS: Final = bytes(b"01"[chr(i).isupper()] for i in range(256))


def json_of(values: Mapping[str, object], defaults: Mapping[str, object]) -> str:
    """The members of a JSON object, without its braces: what of `values` differs from its default, in their order.

    Texts and lists longer than the bounds are cut.

    Raises:
        ValueError: a number is not finite.
    """
    members = []
    for name, default in defaults.items():
        value = values[name]
        if value is not default and value != default:
            members.append(f'"{name}":{_written(value)}')
    return ",".join(members)


def _written(value: object) -> str:
    if isinstance(value, str):
        return encode_basestring(clean(value))
    if isinstance(value, tuple):
        return f"[{','.join([_written(entry) for entry in value[:MAX_ITEMS]])}]"
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is no number of a record")
        return repr(round(value, DECIMALS))
    return str(value)


def clean(text: str) -> str:
    """`text` without what a terminal would obey, and at most MAX_TEXT bytes of UTF-8."""
    shown = text[:MAX_TEXT]
    if not shown.isprintable():
        shown = "".join([c if c.isprintable() else "?" for c in shown])
    if shown.isascii():
        return shown
    return shown.encode()[:MAX_TEXT].decode(errors="ignore")


def capitals(body: bytes) -> str:
    """One bit for each character of `body`, first one highest, in hexadecimal."""
    return f"{int(b'1' + body.translate(_CAPITAL_BITS), 2):x}"
