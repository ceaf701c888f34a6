"""The schema of rad.toml: what is accepted, what is refused and how that is said."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_hooks import config
from slurm_hooks.config import Config, ConfigError, Partition

_KEYS = sorted(
    (section.name, key.name)
    for section in dataclasses.fields(Config)
    if section.name != "partitions"
    for key in dataclasses.fields(getattr(Config(), section.name))
)
_ANY = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.lists(st.integers())


def _message(data: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        config.parse(data, "rad.toml")
    return str(caught.value)


def test_nothing_said_is_the_default() -> None:
    assert config.parse({}, "rad.toml") == Config()


def test_partitions_take_defaults() -> None:
    made = config.parse(
        {"defaults": {"mode": "shadow", "smact_cap": 1}, "partitions": {"a": {}, "b": {"mode": "advise"}}}, "rad.toml"
    )
    assert made.partitions == {
        "a": Partition(mode="shadow", smact_cap=1.0),
        "b": Partition(mode="advise", smact_cap=1.0),
    }
    assert type(made.defaults.smact_cap) is float


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"rad": {}}, "rad.toml: [rad]: no such section: did you mean 'radd'?"),
        ({"zzz": {}}, "rad.toml: [zzz]: no such section: known are radd, "),
        ({"mode": "shadow"}, "rad.toml: mode: stands in no section: write it below [defaults]"),
        ({"stale_s": 5}, "rad.toml: stale_s: stands in no section: write it below [radd] or [monitor]"),
        ({"zzz": 5}, "rad.toml: zzz: stands in no section: no section has such a key"),
        ({"radd": 5}, "rad.toml: radd: is a section: write [radd]"),
        ({"partitions": {"gpu": "mps"}}, "rad.toml: partitions.gpu: is a section: write [partitions.gpu]"),
        ({"partitions": []}, "rad.toml: partitions: is a section: write [partitions]"),
        (  # part of one name, part of another
            {"defaults": {"memory_margin": 5}},
            "rad.toml: [defaults] memory_margin: no such key: did you mean 'gpu_memory_mib' or 'margin_mib'?",
        ),
        ({"partitions": {"a": {"cap": 1}}}, "[partitions.a] cap: no such key: did you mean 'smact_cap'?"),
        ({"radd": {"max_conections": 5}}, "[radd] max_conections: no such key: did you mean 'max_connections'?"),
        ({"radd": {"pol_s": 5}}, "rad.toml: [radd] pol_s: no such key: did you mean 'poll_s'?"),
        ({"radd": {"poll_s": "5"}}, "rad.toml: [radd] poll_s: '5' must be a number"),
        ({"radd": {"poll_s": True}}, "rad.toml: [radd] poll_s: True must be a number"),
        ({"radd": {"poll_s": 0.5}}, "rad.toml: [radd] poll_s: 0.5 must lie between 1 and 600"),
        ({"radd": {"poll_s": 10**400}}, "rad.toml: [radd] poll_s: the number is too large"),
        ({"radd": {"max_connections": -(16**5000)}}, "rad.toml: [radd] max_connections: the number is too large"),
        ({"radd": {"poll_s": float("nan")}}, "rad.toml: [radd] poll_s: nan must lie between 1 and 600"),
        ({"radd": {"max_connections": 2.0}}, "rad.toml: [radd] max_connections: 2.0 must be a whole number"),
        ({"radd": {"socket": 7}}, "rad.toml: [radd] socket: 7 must be a string"),
        ({"radd": {"socket": "radd.sock"}}, "rad.toml: [radd] socket: 'radd.sock' must be an absolute path"),
        ({"estimator": {"models_dir": "m"}}, "rad.toml: [estimator] models_dir: 'm' must be an absolute path"),
        ({"predictor": {"models_dir": "m"}}, "rad.toml: [predictor] models_dir: 'm' must be an absolute path"),
        ({"radd": {"socket": "/a\0b"}}, "rad.toml: [radd] socket: '/a\\x00b' must hold no NUL"),
        ({"mps": {"control": "\0"}}, "rad.toml: [mps] control: '\\x00' must hold no NUL"),
        ({"node": {"state_dir": ""}}, "rad.toml: [node] state_dir: '' must be an absolute path"),
        ({"recovery": {"enabled": 1}}, "rad.toml: [recovery] enabled: 1 must be true or false"),
        ({"defaults": {"mode": "enforced"}}, "[defaults] mode: 'enforced' must be one of enforce, advise, shadow: did"),
        ({"mps": {"users": 3}}, "rad.toml: [mps] users: 3 must be one of single, multi"),
    ],
)
def test_messages_name_file_key_and_cure(data: dict[str, Any], message: str) -> None:
    assert message in _message(data)


def test_all_problems_are_told_at_once() -> None:
    message = _message({"radd": {"poll_s": 0, "x": 1}, "partitions": {"gpu": {"mode": "off"}}, "y": {}})
    assert [line.split(":")[1].strip() for line in message.splitlines()] == [
        "[y]",
        "[radd] poll_s",
        "[radd] x",
        "[partitions.gpu] mode",
    ]


@given(st.sampled_from(_KEYS), _ANY)
def test_any_value_is_taken_or_refused(key: tuple[str, str], value: object) -> None:
    section, name = key
    try:
        made = config.parse({section: {name: value}}, "rad.toml")
    except ConfigError as error:
        assert f"[{section}] {name}" in str(error)
    else:
        assert getattr(getattr(made, section), name) == value


def test_numbers_have_a_range_and_every_key_a_meaning() -> None:
    for section, name in _KEYS:
        f = next(f for f in dataclasses.fields(getattr(Config(), section)) if f.name == name)
        assert f.metadata["doc"].endswith("."), name
        if type(f.default) in (int, float):
            assert f.metadata["low"] <= f.default <= f.metadata["high"], name


def test_load(tmp_path: Path) -> None:
    path = tmp_path / "rad.toml"
    path.write_text("\ufeff[partitions.gpu]\nmode = 'advise'\n")  # as some editors begin a file
    assert config.load(path).partitions["gpu"].mode == "advise"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[radd", "not TOML"),
        (b"[defaults]\nmode=shadow", "not TOML: .*a word as a value needs quotes"),
        (b"\xff\x00", "not TOML"),
        (b"a=" + b"[" * 99_999, "not TOML"),
        (b"[radd]\npoll_s=" + b"9" * 9_999, "(not TOML: Exceeds the limit|the number is too large)"),
    ],
)
def test_load_of_what_is_not_toml(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "rad.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"rad.toml: {message}"):
        config.load(path)


def test_load_of_a_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a regular file"):
        config.load(tmp_path)
