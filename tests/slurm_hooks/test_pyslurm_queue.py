"""The queue through pyslurm. The package here is a stand-in with the attributes of pyslurm 25.11's jobs: the real one
builds against Slurm 25.11 only."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_hooks.cluster import PinnedJob, Resident
from slurm_hooks.records import Record, encode
from slurm_hooks.slurm import pyslurm_queue
from slurm_hooks.slurm.commands import SlurmCommands
from tests.slurm_hooks.test_view import NODE, RESIDENTS


def job(number: int, state: str, **fields: Any) -> SimpleNamespace:
    def tres(names: dict[str, int] | None) -> SimpleNamespace | None:
        return names and SimpleNamespace(gres={k: SimpleNamespace(count=v) for k, v in names.items()})  # type: ignore[return-value]

    base = {
        "partition": "gpu",
        "user_name": "alice",
        "state_reason": "None",
        "allocated_nodes": None,
        "required_nodes": None,
    }
    shown = {**base, "admin_comment": None, **fields}
    return SimpleNamespace(
        **{**shown, "requested_tres": tres(shown.get("asked")), "allocated_tres": tres(shown.get("held"))},
        id=number,
        state=state,
    )


JOBS = {
    1: job(1, "PENDING", asked={"mps": 30, "mps:g2": 30}, state_reason="Resources", required_nodes="node0"),
    2: job(2, "PENDING", partition="other", asked={"mps:g1": 30}, state_reason="Resources"),
    3: job(
        3,
        "RUNNING",
        held={"mps": 25, "mps:g0": 25},
        allocated_nodes="node0",
        admin_comment=encode(Record("share", upper_mib=9)),
    ),
    4: job(4, "RUNNING", allocated_nodes="node9"),
    5: job(5, "COMPLETED"),
}


def stand_in(monkeypatch: pytest.MonkeyPatch, version: str, jobs: Any = JOBS) -> None:
    package = SimpleNamespace(__version__=version, Jobs=SimpleNamespace(load=lambda: jobs))
    monkeypatch.setitem(sys.modules, "pyslurm", package)


def commands(asked: list[Sequence[str]]) -> SlurmCommands:
    answers = {"--version": "slurm 25.11.2\n", "node": NODE, "partition": "", "config": "", "-o": "", "-O": RESIDENTS}

    def recorded(command: Sequence[str], _: float) -> str:
        asked.append(command)
        return next(text for word, text in answers.items() if word in command)

    return SlurmCommands(3.0, recorded, lambda: 7.0)


def test_a_matching_pyslurm_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "25.11.2")
    asked: list[Sequence[str]] = []
    view = commands(asked).look(["gpu"])
    assert [command[0] for command in asked] == [*["scontrol"] * 2, "squeue", *["scontrol"] * 2]
    assert view.nodes[0].gpus[0].residents == (Resident(3, "alice", 25, 9),)
    assert view.waiting == {"gpu": 1}
    assert view.pinned == (PinnedJob(1, "g2", 30, "node0"),)


def test_a_job_that_its_user_has_stopped_holds_what_it_held(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "25.11.2", {3: job(3, "STOPPED", held={"mps:g0": 25}, allocated_nodes="node0")})
    assert commands([]).look(["gpu"]).nodes[0].gpus[0].used_shares == 25


@pytest.mark.parametrize(("version", "jobs"), [("24.11.0", JOBS), ("nonsense", JOBS), ("25.11.2", {1: object()})])
def test_else_the_commands(monkeypatch: pytest.MonkeyPatch, version: str, jobs: Any) -> None:
    stand_in(monkeypatch, version, jobs)
    asked: list[Sequence[str]] = []
    view = commands(asked).look(["gpu"])
    assert [command[0] for command in asked] == [*["scontrol"] * 2, *["squeue"] * 3, *["scontrol"] * 2]
    assert view.nodes[0].gpus[2].used_shares == 30


def test_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyslurm", None)
    assert pyslurm_queue.matching((25, 11)) is None
