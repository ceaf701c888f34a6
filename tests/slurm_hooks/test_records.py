"""Records in AdminComments: round trips, other tools' text, hostile input."""

from __future__ import annotations

import base64
import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_hooks import records
from slurm_hooks.record_text import DECIMALS
from slurm_hooks.records import Record, Run

_PRINTABLE = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=70)
_NUMBER = st.none() | st.integers(0, records.MAX_NUMBER)
_FLOAT = st.none() | st.floats(0, 1e6).map(lambda value: round(value, DECIMALS))


def _runs(text: st.SearchStrategy[str]) -> st.SearchStrategy[Run]:
    return st.builds(
        Run,
        share=_NUMBER,
        cap_mib=_NUMBER,
        start=_NUMBER,
        exit_code=_NUMBER,
        outcome=text,
        evidence=text,
        peak_mib=_NUMBER,
    )


def _records(text: st.SearchStrategy[str], size: int) -> st.SearchStrategy[Record]:
    return st.builds(
        Record,
        action=st.sampled_from(["share", "exclusive", "left_alone", "advised", "shadowed"]),
        asked=text,
        model=text,
        batch_size=_NUMBER,
        expected_mib=_NUMBER,
        smact=_FLOAT,
        share=_NUMBER,
        residents=st.lists(st.integers(0, 2**31), max_size=size).map(tuple),
        reasons=st.lists(text, max_size=size).map(tuple),
        runs=st.lists(_runs(text), max_size=size).map(tuple),
    )


def _token(data: object) -> str:
    return records.PREFIX + base64.b64encode(json.dumps(data).encode()).decode()


@given(_records(_PRINTABLE, 6), st.text(max_size=30).filter(lambda text: "rad1:" not in text.lower()))
def test_round_trip_beside_other_tools(record: Record, others: str) -> None:
    comment = records.merge(others, record)
    assert records.decode(comment) == record
    assert records.strip(comment) == others
    assert comment.startswith(others)
    assert '"' not in comment[len(others) :]


@given(_records(_PRINTABLE, 6))
def test_a_record_survives_small_letters(record: Record) -> None:
    comment = records.merge("JS1:H4sI=", record).lower()
    assert records.decode(comment) == record
    assert records.strip(comment) == "js1:h4si="


@pytest.mark.parametrize("others", ["see RAD1: notes", "RAD1:bm8gcmVjb3Jk", "rad1:x.1"])
def test_text_that_looks_like_a_record_hides_none(others: str) -> None:
    record = Record(action="share", share=38)
    assert records.decode(f"{others} {records.encode(record)}") == record


def test_base64_alone_is_a_record() -> None:
    token = records.encode(Record(action="share", share=38))
    assert records.decode(token.partition(".")[0]) == Record(action="share", share=38)


@given(_records(st.text(), 6), _records(_PRINTABLE, 3))
def test_merge_replaces_the_record(old: Record, new: Record) -> None:
    comment = records.merge(records.merge("JS1:H4sIAAAA=", old), new)
    assert comment.count("RAD1:") == 1
    assert records.decode(comment) == new


@given(_records(st.text(max_size=400), 40))
def test_any_record_is_bounded_and_read_back(record: Record) -> None:
    token = records.encode(record)
    assert len(token) <= records.MAX_BYTES
    back = records.decode(token)
    assert back is not None
    assert all(text.isprintable() for text in (back.asked, back.model, *back.reasons))
    assert back.runs[-1:] == () or back.runs[-1].share == record.runs[-1].share


@pytest.mark.parametrize("character", ["\U0001f600", '"', "\x00"])
def test_the_largest_record_fits(character: str) -> None:
    long = character * 400
    many = {"str": long, "int | None": records.MAX_NUMBER, "float | None": 0.1234567, "tuple[int, ...]": (2**31,) * 50,
            "tuple[float, ...]": (0.1234567,) * 50, "tuple[str, ...]": (long,) * 50}  # fmt: skip
    run = Run(**{f.name: many[str(f.type)] for f in dataclasses.fields(Run)})  # type: ignore[arg-type]
    rest = {f.name: many[str(f.type)] for f in dataclasses.fields(Record) if str(f.type) in many}
    record = Record(action="share", runs=(run,) * 50, **rest)  # type: ignore[arg-type]
    assert len(records.encode(record)) <= records.MAX_BYTES
    assert records.decode(records.encode(record)) is not None


@given(st.text())
def test_any_text_is_no_record(comment: str) -> None:
    assert records.decode(comment) is None
    assert records.decode("RAD1:" + comment) is None


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
def test_any_json_is_no_record(data: object) -> None:
    assert records.decode(_token(data)) is None


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"action": "destroy"},
        {"action": "share", "share": "40"},
        {"action": "share", "share": True},
        {"action": "share", "share": 1e400},
        {"action": "share", "share": 10**30},
        {"action": "share", "smact": float("nan")},
        {"action": "share", "smact": 10**400},
        {"action": "share", "model": None},
        {"action": "share", "residents": 5},
        {"action": "share", "residents": ["4711"]},
        {"action": "share", "residents": [1] * 1000},
        {"action": "share", "reasons": "abc"},
        {"action": "share", "runs": [None]},
        {"action": "share", "runs": [{"share": []}]},
        {"action": ["share"]},
    ],
)
def test_wrong_types_are_no_record(data: object) -> None:
    assert records.decode(_token(data)) is None


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "RAD1:",
        "RAD1:====",
        "RAD1:e30",
        "xRAD1:e30=",
        "RAD1:" + "A" * 100_000,
        "rad1:e30=",
        "rad1:e30=.1",
        "rad1:e30=.g",
        _token({"action": "share", "from a later version": "x" * records.MAX_BYTES}),
        records.encode(Record("share")).lower() + "0",  # the capitals of another text
    ],
)
def test_broken_tokens(comment: str) -> None:
    assert records.decode(comment) is None


def test_deep_json() -> None:
    deep = base64.b64encode(b"[" * 40_000).decode()
    assert records.decode(f"RAD1:{deep}") is None


def test_what_a_later_version_adds_is_left_out() -> None:
    record = records.decode(_token({"action": "share", "share": 38, "colour": "red", "runs": [{"share": 38, "x": 1}]}))
    assert record == Record(action="share", share=38, runs=(Run(share=38),))


def test_a_terminal_gets_nothing_to_obey() -> None:
    record = records.decode(_token({"action": "share", "model": "\x1b[2Jnet\u202e"}))
    assert record is not None
    assert record.model == "?[2Jnet?"


def test_text_of_other_tools_stays() -> None:
    old = records.encode(Record(action="share"))
    assert records.strip(f"a {old} b") == "a b"
    assert records.strip(f"JS1:abc= {old}") == "JS1:abc="
    assert records.strip("MYRAD1:abc") == "MYRAD1:abc"


def test_runs_of_a_row_of_before_are_put_in_order_also_where_one_knows_no_start() -> None:
    record = Record("share", runs=(Run(restart=1, start=200), Run(restart=0, start=90)))
    earlier = Record("share", runs=(Run(restart=0), Run(restart=1, start=200)))
    both = records.with_earlier(record, earlier)
    assert [(run.restart, run.start) for run in both.runs] == [(0, None), (0, 90), (1, 200)]
