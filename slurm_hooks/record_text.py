"""What a record keeps of its fields, bounded, and may show, and which letters of a token are capitals. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MAX_TEXT: Final = 156  # bytes of one string, in UTF-8
MAX_ITEMS: Final = 12  # entries of one list; the first are kept, of runs the last
DECIMALS: Final = 4

_CAPITAL_BITS: Final = bytes(b"01"[chr(i).isupper()] for i in range(256))


def compact(values: Mapping[str, object], defaults: Mapping[str, object]) -> dict[str, Any]:
    """What of `values` differs from its default, in their order; texts and lists longer than the bounds are cut."""
    made: dict[str, Any] = {}
    for name, default in defaults.items():
        value = values[name]
        if value is not default and value != default:
            made[name] = _bounded(value)
    return made


def _bounded(value: object) -> object:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, tuple):
        return [_bounded(entry) for entry in value[:MAX_ITEMS]]
    return round(value, DECIMALS) if isinstance(value, float) else value


def printable(text: str, keep: str = "") -> str:
    """`text` with a question mark for each character that a terminal would obey, but for those in `keep`."""
    return text if text.isprintable() else "".join([c if c.isprintable() or c in keep else "?" for c in text])


def clean(text: str) -> str:
    """`text` without what a terminal would obey, and at most MAX_TEXT bytes of UTF-8."""
    shown = printable(text[:MAX_TEXT])
    if shown.isascii():
        return shown
    return shown.encode()[:MAX_TEXT].decode(errors="ignore")


def capitals(body: bytes) -> str:
    """One bit for each character of `body`, first one highest, in hexadecimal."""
    return f"{int(b'1' + body.translate(_CAPITAL_BITS), 2):x}"
