"""`radctl top`: rows, one look, the live screen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from slurm_hooks import top
from slurm_hooks.cluster import ClusterView, Gpu, Node, Resident, SlurmPartition
from slurm_hooks.config import Monitor
from slurm_hooks.monitor import client
from slurm_hooks.monitor.client import Measured
from slurm_hooks.radctl import top as command
from slurm_hooks.radctl.main import cli
from slurm_hooks.slurm.commands import SlurmError
from slurm_hooks.slurm.view import ResidentRow, build, parse_nodes
from tests.slurm_hooks.test_view import NODE

SHARED = Gpu("node0", "g0", 79, (Resident(4711, "alice", 38, 13_414, 0.3), Resident(4712, "bob", 41, None, 0.25)))
VIEW = ClusterView(
    taken=0.0,
    nodes=(
        Node("node0", True, frozenset({"gpu"}), frozenset(), 8, 8, (SHARED, Gpu("node0", "g1", 0, number=1))),
        Node(
            "node1", False, frozenset({"big"}), frozenset(), 8, 8, (Gpu("node1", "g0", 100, (Resident(9, "c", 100),)),)
        ),
    ),
    waiting={"gpu": 3},
    waiting_jobs=3,
    partitions={"gpu": SlurmPartition(), "big": SlurmPartition()},
)


def test_lines() -> None:
    shared, free, whole = top.lines(VIEW, Measured())
    assert (shared.used_shares, shared.reserved_mib, shared.smact) == (79, 13_414, 0.55)
    assert (free.residents, free.reserved_mib, free.smact) == ((), None, None)
    assert (whole.node, whole.available) == ("node1", False)
    assert [line.node for line in top.lines(VIEW, Measured(), "big")] == ["node1"]
    assert top.residents(shared) == "4711 alice 38 (13.1 GiB), 4712 bob 41"
    assert top.summary(top.lines(VIEW, Measured()), VIEW) == "3 GPUs, 1.79 held by 3 jobs, 1 shared now, 3 jobs wait"


def test_a_job_on_two_gpus_is_one_and_what_is_only_spoken_for_is_held_by_nobody() -> None:
    both = (Resident(7, "alice", 100),)
    nodes = [replace(VIEW.nodes[0], gpus=(Gpu("node0", "g0", 100, both), Gpu("node0", "g1", 100, both, number=1)))]
    nodes.append(replace(VIEW.nodes[1], gpus=(Gpu("node1", "g0", 70, (Resident(8, "bob", 30),)),)))
    view = replace(VIEW, nodes=tuple(nodes), waiting_jobs=1)
    assert top.summary(top.lines(view, Measured()), view) == "3 GPUs, 2.30 held by 2 jobs, 0 shared now, 1 job waits"
    one = top.lines(view, Measured())[2:]
    assert top.summary(one, view).startswith("1 GPU, 0.30 held by 1 job, 0 shared now, ")


def test_what_monitors_measured() -> None:
    seen = Measured(
        gpus={("node0", 0): 0.62, ("node1", 1): 0.9}, memory_mib={("node0", 0): 20_480.0, ("node0", 1): 0.4}
    )
    shared, free, whole = top.lines(VIEW, seen)
    assert (top.smact(shared), top.memory(shared)) == ("0.62", "20.0 / 13.1")
    assert (top.smact(free), top.memory(free)) == ("-", "0.0 / -")
    assert (top.smact(whole), top.memory(whole)) == ("-", "- / -")
    assert top.smact(top.lines(VIEW, Measured())[0]) == "~0.55"


def test_gpus_without_shares_stand_in_their_place_among_those_that_have_some() -> None:
    text = NODE.replace("mps:g0:100,mps:g1:100,", "")
    rows = [ResidentRow(9, "node0", "cpu=1,gres/gpu=1,gres/gpu:g1=1", "carol", "")]
    view = build(parse_nodes(text), [], rows, taken=0, can_retype=False)
    seen = Measured(gpus={("node0", 1): 0.7, ("node0", 2): 0.2})
    shown = top.lines(view, seen)
    assert [(line.gpu, line.used_shares, line.smact) for line in shown] == [
        ("g0", 0, None),
        ("g1", 100, 0.7),
        ("g2", 0, 0.2),
        ("g3", 0, None),
    ]
    assert top.residents(shown[1]) == "9 carol 100"
    assert [gpu.type for gpu in view.nodes[0].gpus] == ["g2", "g3"]  # of these one may be pinned


def test_gpus_that_cannot_be_told_apart_are_counted_by_nodes() -> None:
    gres = "gpu:g0:1,gpu:g1:1,gpu:g2:1,gpu:g3:1,mps:g0:100,mps:g1:100,mps:g2:100,mps:g3:100"
    assert gres in NODE
    view = build(parse_nodes(f"{NODE.replace(gres, 'gpu:4')}\n{NODE}"), [], [], taken=0, can_retype=False)
    told = top.summary(top.lines(view, Measured()), view)
    assert told.endswith("\n1 node has GPUs without Types of their own, which are not shown")
    assert told.startswith("4 GPUs")
    assert "\n" not in top.summary(top.lines(view, Measured()), view, "cpu")


@pytest.mark.parametrize(("used", "shown"), [(0, "░░░░"), (38, "██░░"), (100, "████"), (140, "████"), (-1, "░░░░")])
def test_bars(used: int, shown: str) -> None:
    assert top.bar(used, 4) == shown


class _Slurm:
    """Answers three looks and is then interrupted; the second finds no Slurm."""

    looks = 0
    asked: Sequence[str] = ()

    def __init__(self, timeout_s: float) -> None:
        pass

    def look(self, partitions: Sequence[str]) -> ClusterView:
        _Slurm.looks += 1
        _Slurm.asked = partitions
        if _Slurm.looks == 2:
            raise SlurmError("squeue: no controller")
        return VIEW


@pytest.fixture(autouse=True)
def slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "SlurmCommands", _Slurm)
    monkeypatch.setattr(_Slurm, "looks", 0)


def _radctl(tmp_path: Path, *args: str) -> Result:
    path = tmp_path / "rad.toml"
    path.write_text("[partitions.gpu]\n[partitions.big]\n")
    return CliRunner().invoke(cli, ["--config", str(path), "top", *args])


@pytest.mark.parametrize(("columns", "bar"), [("80", 10), ("120", 20)])
def test_one_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str, bar: int) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    shown = _radctl(tmp_path)
    assert shown.exit_code == 0
    lines = shown.output.splitlines()
    assert lines[0] == "3 GPUs, 1.79 held by 3 jobs, 1 shared now, 3 jobs wait"
    assert any(line.split()[:6] == ["node0", "g0", top.bar(79, bar), "79", "~0.55", "-"] for line in lines)
    assert _Slurm.asked == ("gpu", "big")


@pytest.mark.parametrize("columns", ["1", "40"])
def test_a_narrow_terminal_cuts_no_name_and_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    wide = _radctl(tmp_path).output
    monkeypatch.setattr(_Slurm, "looks", 2)
    monkeypatch.setenv("COLUMNS", columns)
    assert _radctl(tmp_path, "--once").output == wide
    assert "…" not in wide


def test_a_terminal_without_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "rad.toml"
    path.touch()
    shown = CliRunner(charset="latin-1").invoke(cli, ["--config", str(path), "top", "--once"])
    assert shown.exit_code == 0
    assert "|########..  79 " in shown.output


def test_one_partition(tmp_path: Path) -> None:
    shown = _radctl(tmp_path, "--once", "--partition", "big").stdout
    assert "node1" in shown
    assert "node0" not in shown
    assert _Slurm.asked == ("big",)


def test_a_partition_that_slurm_does_not_have(tmp_path: Path) -> None:
    result = _radctl(tmp_path, "--once", "--partition", "bug")
    assert (result.exit_code, result.stderr) == (2, "radctl: no partition bug: Slurm has big, gpu\n")


def test_json(tmp_path: Path) -> None:
    made = json.loads(_radctl(tmp_path, "--json").output)
    assert made["waiting"] == {"gpu": 3}
    assert made["gpus"][0]["residents"] == [[4711, "alice", 38, 13414], [4712, "bob", 41, None]]


def test_monitors_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(settings: Monitor, nodes: Sequence[str]) -> tuple[Measured, list[str]]:
        assert list(nodes) == ["node0", "node1"]
        return Measured(gpus={("node0", 1): 0.5}), ["node1: no answer"]

    monkeypatch.setattr(client, "read", read)
    made = json.loads(_radctl(tmp_path, "--json").output)
    assert [gpu["measured"] for gpu in made["gpus"]] == [False, True, False]


def test_no_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Slurm, "looks", 1)
    result = _radctl(tmp_path, "--once")
    assert (result.exit_code, result.stderr) == (2, "radctl: squeue: no controller\n")


def test_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr(
        command, "Console", lambda highlight: Console(highlight=highlight, force_terminal=True, width=90)
    )
    monkeypatch.setenv("TERM", "dumb")
    assert _radctl(tmp_path, "--interval", "2").output.count("3 GPUs, 1.79 held") == 1
    assert not waited
    monkeypatch.setenv("TERM", "xterm")
    shown = _radctl(tmp_path, "--interval", "2")
    assert shown.exit_code == 0
    assert waited == [2.0, 2.0, 2.0]
    assert "Slurm does not answer: squeue: no controller" in shown.output
    assert shown.output.count("3 GPUs, 1.79 held") == 2
