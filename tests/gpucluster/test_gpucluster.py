"""What of scripts/gpu-cluster needs neither a GPU nor root: packages, payload, page."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from scripts.gpucluster import faults, packages, stage
from scripts.gpucluster import page as pages
from scripts.gpucluster.__main__ import main, show, write
from scripts.gpucluster.stage import Life, Process

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


@pytest.mark.parametrize("words", [["up"], ["run", "all"]])
def test_an_ordinary_user_is_told_that_it_needs_root(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.chdir(tmp_path)
    assert main(words) == 1
    assert "error: a cluster needs root" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_page_in_docs_is_what_the_results_give(tmp_path: Path) -> None:
    made = tmp_path / "gpu.md"
    assert pages.main(["--page", str(made)]) == 0
    assert made.read_text("utf-8") == pages.RESULTS.with_suffix(".md").read_text("utf-8")


def test_what_did_not_hold_or_was_not_shown_stands_on_the_page(measured: dict[str, Any]) -> None:
    measured["scenarios"]["burst"]["checks"]["no node was drained"] = False
    measured["scenarios"]["learned"] = {"error": "ClusterError: no answer"}
    measured["scenarios"]["two-users"] = {"not_begun": True}
    text = pages.page([measured], None, [], None, None)
    assert "| no node was drained | **no** |" in text
    assert "Not shown: ClusterError: no answer" in text
    assert "Not shown: the time was over" in text
    assert "rad-monitor costs" not in text


def test_a_cancelled_job_on_the_page(measured: dict[str, Any]) -> None:
    row = {"job": "beside-cancelled", "state": "COMPLETED", "runs": "mps_victim, completed", "evidence": "a fault"}
    facts = {"table": [row], "explain_beside": "job 7", "checks": {"it was cancelled": True}}
    text = pages.page([{**measured, "scenarios": {"cancelled": facts}}], None, [], None, None)
    assert "| beside-cancelled | COMPLETED | mps_victim, completed | a fault |" in text


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


def life(pipe: str, pid: int, first: float, last: float) -> Life:
    return Life(Process(pid, pipe), first, last)


def test_daemons_of_one_slot_at_the_same_time() -> None:
    lives = [life("a", 1, 0, 10), life("a", 2, 10, 20), life("b", 3, 5, 15)]
    assert faults.most_at_once([]) == 0
    assert faults.most_at_once(lives) == 1
    assert faults.most_at_once([*lives, life("a", 4, 9, 12)]) == 2


def test_a_job_that_had_two_daemons_had_not_one_all_the_time() -> None:
    lives = [life("a", 1, 0, 10), life("a", 2, 10, 20)]
    assert faults.covered((0.1, 9.9), lives, 0.2)
    assert faults.covered((10.0, 20.1), lives, 0.2)
    assert not faults.covered((9.0, 11.0), lives, 0.2)
    assert not faults.covered((19.0, 21.0), lives, 0.2)
    assert faults.covered((19.0, 21.0), lives, 1.0)


def test_a_watcher_sees_daemons_that_stay(tmp_path: Path) -> None:
    program = tmp_path / stage.CONTROL
    program.write_text(f"#!{sys.executable} -IS\nimport sys\nprint('up', flush=True)\nsys.stdin.read()\n")
    program.chmod(0o755)
    env = {"CUDA_MPS_PIPE_DIRECTORY": f"{tmp_path}/pipe"}
    through = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": env}
    with (
        subprocess.Popen([program, "-d"], **through) as daemon,  # type: ignore[call-overload]
        subprocess.Popen([program], **through) as client,  # type: ignore[call-overload]
        stage.Watcher() as watcher,
    ):
        for process in (daemon, client):
            assert process.stdout.readline() == b"up\n"
        found = [process for process in stage.running(stage.CONTROL) if process.pipe == env["CUDA_MPS_PIPE_DIRECTORY"]]
        assert [process.pid for process in found] == [daemon.pid]
        assert stage.alive(daemon.pid)
        deadline = time.monotonic() + 10
        while daemon.pid not in [seen.process.pid for seen in watcher.lives(0.0)] and time.monotonic() < deadline:
            time.sleep(0.01)
        daemon.communicate()
        client.communicate()
    assert daemon.pid in [seen.process.pid for seen in watcher.lives(0.0)]
    assert client.pid not in [seen.process.pid for seen in watcher.lives(0.0)]
    assert not stage.alive(daemon.pid)


def results(date: str, users: str, scenarios: dict[str, Any], gpus: int = 1) -> dict[str, Any]:
    about = {"date": date, "gpu": "H200", "gpus": gpus, "mps_users": users}
    return {"about": about, "up_s": 14.0, "scenarios": scenarios}


def test_a_page_names_its_own_files(tmp_path: Path) -> None:
    folder = tmp_path / "gpu-x"
    folder.mkdir()
    facts = {"races": {"table": [], "checks": {"held": True}}}
    (folder / "results.json").write_text(json.dumps(results("2026-11-20", "single", facts)), "utf-8")
    assert pages.main(["--results", str(folder)]) == 0
    assert "[gpu-x](gpu-x/results.json)" in (tmp_path / "gpu-x.md").read_text("utf-8")


def test_scenarios_of_several_files_stand_on_one_page() -> None:
    two = {"overlap_s": 5.0, "daemons": 2, "slots": ["u1001", "u1002"], "checks": {"both completed": True}}
    spread = {"not_shown": "it needs two GPUs, and this machine has 1", "checks": {}}
    rows = [{"grace_s": 0, "looks": 7}]
    one = {"gpus": 4, "processes": 32, "seconds": 60.0, "core_percent": 0.3, "peak_mib": 70.5}
    text = pages.page(
        [
            results("2026-11-20", "single", {"two-users": two, "races": {"table": [], "checks": {"old": True}}}),
            results("2026-11-21", "multi", {"two-users": {**two, "daemons": 1}, "spread": spread}),
            results("2026-11-21", "single", {"races": {"table": rows, "checks": {"new": False}}}, gpus=2),
        ],
        None,
        [{"gpus": 8, "processes": 64, "core_percent": 0.4}, {**one, "core_percent_at_8_gpus": 0.5, "monitors": [one]}],
        None,
        {"kernels": {"SIGKILL": {"ends": 12, "broke": 3, "met": ["an illegal access", "it stood still"]}}},
    )
    assert "| kernels | SIGKILL | 12 | 3 | an illegal access; it stood still |" in text
    assert '## Two users on one GPU, `[mps] users = "single"`' in text
    assert '## Two users on one GPU, `[mps] users = "multi"`\n\nRun apart: date 2026-11-21.\n' in text
    assert "Not shown: it needs two GPUs" in text
    assert "| new | **no** |" in text and "| old |" not in text
    assert "Run apart: date 2026-11-21, gpus 2." in text
    assert "What rad-monitor costs with 8 GPUs and 64 processes" in text
    assert "| core percent at 8 gpus | 0.50 |" in text and "| 4 | 32 | 60.00 | 0.30 | 70.50 |" in text
