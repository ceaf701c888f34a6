"""The wire format: round trips, and bytes that are no message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_hooks.radd.protocol import MAX_FIELDS, ProtocolError, body_length, decode, encode

NAMES = st.from_regex(r"[a-z_.]{1,20}", fullmatch=True)


@given(st.dictionaries(NAMES, st.binary(max_size=200)))
def test_round_trip(fields: dict[str, bytes]) -> None:
    texts = {name: data.decode("utf-8", "surrogateescape") for name, data in fields.items()}
    head, _, body = encode(texts).partition(b"\n")
    assert body_length(head, 1 << 20) == len(body)
    assert decode(body) == texts


@given(st.binary(max_size=200))
def test_any_bytes_are_fields_or_refused(data: bytes) -> None:
    try:
        decode(data)
    except ProtocolError:
        return
    assert data == b"" or data.endswith(b"\n")


@pytest.mark.parametrize(
    "head", [b"", b"GET / HTTP/1.1", b"RAD1", b"RAD1 x", b"RAD1 -1", b"RAD2 3", b"RAD1 " + b"9" * 20]
)
def test_not_a_head(head: bytes) -> None:
    with pytest.raises(ProtocolError):
        body_length(head, 100)


def test_too_long() -> None:
    with pytest.raises(ProtocolError, match="more than 100"):
        body_length(b"RAD1 101\n", 100)


@pytest.mark.parametrize(
    "body", [b"x", b"x\n", b"x 1\n", b"x 1\nab\n", b"x 9\na\n", b"\xff 1\na\n", b" 1\na\n", b"x 0\n\n" * 2]
)
def test_not_fields(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(body)


def test_too_many_fields() -> None:
    body = b"".join(b"x%d 0\n\n" % number for number in range(MAX_FIELDS))
    assert len(decode(body)) == MAX_FIELDS
    with pytest.raises(ProtocolError):
        decode(body + b"x 0\n\n")
