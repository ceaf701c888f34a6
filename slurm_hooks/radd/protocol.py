"""The wire format between job_submit.lua and radd. Pure: bytes to fields and back.

A request and its answer, one pair after the other on one connection. Both are a head line ``RAD1 LENGTH`` and LENGTH
bytes of fields; a field is a line ``NAME LENGTH``, LENGTH bytes and a newline. Lua 5.1 reads and writes this without a
library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MAGIC: Final = b"RAD1"
LONGEST_HEAD: Final = 32
MAX_FIELDS: Final = 200


class ProtocolError(ValueError):
    """Bytes that are not a message."""


def encode(fields: Mapping[str, str]) -> bytes:
    """A whole message."""
    parts = []
    for name, value in fields.items():
        length = len(value) if value.isascii() else len(value.encode("utf-8", "surrogateescape"))
        parts.append(f"{name} {length}\n{value}\n")
    body = "".join(parts).encode("utf-8", "surrogateescape")
    return b"%s %d\n%s" % (MAGIC, len(body), body)


def body_length(head: bytes, limit: int) -> int:
    """Length of the body that a head line announces.

    Raises:
        ProtocolError: if the line is not a head, or announces more than `limit` bytes.
    """
    magic, _, number = head.rstrip(b"\n").partition(b" ")
    if magic != MAGIC or not number.isdigit() or len(number) > 12:
        raise ProtocolError("not a RAD1 message")
    length = int(number)
    if length > limit:
        raise ProtocolError(f"{length} bytes are more than {limit}")
    return length


def decode(body: bytes) -> dict[str, str]:
    """The fields of a body; bytes that are not UTF-8 are kept as surrogates.

    Raises:
        ProtocolError: if the body is not a sequence of fields.
    """
    fields: dict[str, str] = {}
    position = 0
    while position < len(body):
        end = body.find(b"\n", position, position + 128)
        if end < 0 or len(fields) >= MAX_FIELDS:
            raise ProtocolError("not a field")
        name, _, number = body[position:end].partition(b" ")
        if not name or not number.isdigit() or len(number) > 12:
            raise ProtocolError("not a field's head")
        start, stop = end + 1, end + 1 + int(number)
        if body[stop : stop + 1] != b"\n":
            raise ProtocolError("a field ends where it should not")
        key = name.decode("ascii", "replace")
        if not key.isascii() or key in fields:
            raise ProtocolError("a field's name is not ASCII, or stands twice")
        fields[key] = body[start:stop].decode("utf-8", "surrogateescape")
        position = stop + 1
    return fields
