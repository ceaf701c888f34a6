"""What of scripts/gpu-cluster needs neither a GPU nor root: packages, payload, page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts.gpucluster import packages
from scripts.gpucluster import page as pages
from scripts.gpucluster.__main__ import main, show, write

ROOT = Path(__file__).parents[2]
PAYLOAD = ROOT / "scripts" / "gpucluster" / "payload.py"


@pytest.fixture
def measured() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((pages.RESULTS / "results.json").read_text("utf-8"))
    return read


def run(*argv: str, restart: str = "0") -> subprocess.CompletedProcess[str]:
    # Isolated, so that no PyTorch is found and the payload is the stand-in everywhere.
    env = {"SLURM_RESTART_COUNT": restart, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        [sys.executable, "-S", "-I", str(PAYLOAD), *argv], env=env, capture_output=True, text=True, check=False
    )


def test_the_payload_makes_the_steps_it_is_told() -> None:
    done = run("small", "mlp", "--steps", "7")
    result = json.loads(done.stdout.partition("RESULT ")[2])
    assert (result["steps"], result["name"], result["stand_in"]) == (7, "small", True)
    assert result["longest_step_ms"] >= result["median_step_ms"] > 0
    assert result["begin"] < result["longest_step_at"] <= result["end"]


def test_the_greedy_stand_in_fails_in_its_first_run_only() -> None:
    first, second = run("greedy", "mlp", "--steps", "1"), run("greedy", "mlp", "--steps", "1", restart="1")
    assert (first.returncode, second.returncode) == (1, 0)
    assert "torch.OutOfMemoryError: CUDA out of memory" in first.stdout


def test_a_library_that_the_machine_has_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "libyaml-0.so.2.0.9").write_text("")
    (tmp_path / "libyaml-0.so.2").symlink_to("libyaml-0.so.2.0.9")
    (tmp_path / "slurmd").write_text("")
    have = frozenset({"libyaml-0.so.2"})
    assert packages.skipped("libyaml-0.so.2", tmp_path, have)
    assert packages.skipped("libyaml-0.so.2.0.9", tmp_path, have)
    assert not packages.skipped("libyaml-0.so.2.0.9", tmp_path, frozenset())
    assert not packages.skipped("slurmd", tmp_path, have | {"slurmd"})


@pytest.mark.parametrize(
    ("name", "left_out"),
    [("libc6", True), ("libpam0g", True), ("mysql-common", True), ("slurmd", False), ("libhwloc15", False)],
)
def test_packages_that_every_machine_has_are_not_fetched(name: str, left_out: bool) -> None:
    assert bool(packages.LEFT_OUT.fullmatch(name)) is left_out


def test_without_package_files_the_cure_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "COMMANDS", ("no-such-command-of-slurm",))
    with pytest.raises(packages.PackageError, match="gpu-cluster fetch"):
        packages.unpack(tmp_path)


def test_an_unknown_scenario_names_the_known_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "nonsense", "--out", str(tmp_path / "out")]) == 2
    assert "burst" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_page_in_docs_is_what_the_results_give(tmp_path: Path) -> None:
    made = tmp_path / "gpu.md"
    assert pages.main(["--page", str(made)]) == 0
    assert made.read_text("utf-8") == pages.RESULTS.with_suffix(".md").read_text("utf-8")


def test_what_did_not_hold_or_was_not_shown_stands_on_the_page(measured: dict[str, Any]) -> None:
    measured["scenarios"]["burst"]["checks"]["all completed"] = False
    measured["scenarios"]["learned"] = {"error": "ClusterError: no answer"}
    measured["scenarios"]["two-users"] = {"not_begun": True}
    text = pages.page(measured, None, None)
    assert "| all completed | **no** |" in text
    assert "Not shown: ClusterError: no answer" in text
    assert "Not shown: the time was over" in text
    assert "rad-monitor costs" not in text


def test_the_screen_says_what_did_not_hold(measured: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    facts = measured["scenarios"]["collocated"]
    facts["checks"]["all eight jobs completed"] = False
    show("collocated", facts, print)
    show("burst", {"error": "ClusterError: radd ended"}, print)
    said = capsys.readouterr().out
    assert "NO   all eight jobs completed" in said
    assert "transformer" in said
    assert "burst: ClusterError: radd ended" in said


def test_results_are_replaced_whole(tmp_path: Path) -> None:
    write(tmp_path / "results.json", {"up_s": 1.0})
    write(tmp_path / "results.json", {"up_s": 2.0})
    assert json.loads((tmp_path / "results.json").read_text()) == {"up_s": 2.0}
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]
