from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from predictor import ncu, profiling
from predictor.counters import Counters
from predictor.hook import MARKER
from predictor.profiling import Request, profile_command
from predictor.types import ProfileError

GOOD = Counters(busy=0.8, smact=0.6, smocc=0.3, tensor=0.1, dram=0.2, pcie=0.01, power_w=300.0, used_mib=5000.0)


class Gpu:
    """Counters that say what they are told."""

    def __init__(self, found: Counters = GOOD, others: int = 0) -> None:
        self.found, self.others, self.started = found, others, 0

    def processes(self) -> int:
        return self.others

    def used_mib(self) -> float:
        return 600.0

    def start(self) -> None:
        self.started += 1

    def stop(self) -> Counters:
        return self.found


LOOP = """
import sys, time
from predictor.hook import iteration
for _ in range(100000):
    time.sleep(0.01)
    iteration()
"""


def request(code: str, seconds: float = 0.6, **more: object) -> Request:
    return Request((sys.executable, "-c", code), seconds=seconds, warm_up_s=20.0, **more)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    monkeypatch.setattr(profiling, "GRACE_S", 2.0)
    monkeypatch.setattr(profiling, "SETTLE_S", 0.1)


def test_a_profile_of_a_workload_with_the_hook() -> None:
    said: list[str] = []
    found = profile_command(request(LOOP, name="loop"), Gpu(), said.append)
    assert 20 < found.throughput < 105
    assert (found.smact, found.dram, found.memory_mib, found.power_w) == (0.6, 0.2, 4400.0, 300.0)
    assert (found.origin, found.name) == ("measured", "loop")
    assert any("warming up" in text for text in said)


def test_the_command_is_gone_afterwards(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = f"import os, pathlib; pathlib.Path({str(note)!r}).write_text(str(os.getpid()))\n" + LOOP
    profile_command(request(code, seconds=0.3), Gpu())
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_a_command_that_ignores_the_polite_signal_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "GRACE_S", 0.2)
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + LOOP
    begin = time.monotonic()
    profile_command(request(code, seconds=0.3), Gpu())
    assert time.monotonic() - begin < 15


def test_a_marker_of_its_own() -> None:
    code = "import time\nfor i in range(10**6):\n    time.sleep(0.01); print(f'step {i}: loss 0.1')"
    found = profile_command(request(code).with_marker(r"^step \d+"), Gpu())
    assert found.throughput > 20
    assert request(code).with_marker(None).marker == request(code).marker


def test_lines_that_a_program_keeps_back_for_a_while_count_as_often_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [10.0]
    monkeypatch.setattr(profiling, "time", SimpleNamespace(monotonic=lambda: now[0]))
    watched = profiling._Watched(re.compile("step"))
    watched.feed("step 1\n" * 200)
    assert profiling._rate(watched.iterations) is None, "how long these took is not known"
    for now[0] in (12.0, 14.0):
        watched.feed("step 1\n" * 200)
    assert profiling._rate(watched.iterations) == 100.0
    assert profiling._rate([1.0, 1.5, 2.0]) == 2.0
    assert profiling._rate([]) is None


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import sys; print('CUDA out of memory'); sys.exit(3)", "code 3 while warming up.*CUDA out of memory"),
        ("print('done')", "code 0 while warming up .*more to do.*done"),
        (f"for _ in range(5): print({MARKER!r}, flush=True)\nimport time; time.sleep(0.3); exit(1)", "code 1 after"),
    ],
)
def test_a_workload_that_fails_gives_no_profile(code: str, says: str) -> None:
    with pytest.raises(ProfileError, match=says):
        profile_command(request(code, seconds=10.0), Gpu())


def test_a_workload_without_iterations() -> None:
    code = f"for _ in range(3): print({MARKER!r}, flush=True)\nimport time; time.sleep(60)"
    with pytest.raises(ProfileError, match=r"iterations in.*--marker"):
        profile_command(request(code, seconds=0.3), Gpu())


def test_a_busy_gpu_is_refused_before_anything_runs(tmp_path: Path) -> None:
    note = tmp_path / "ran"
    gpu = Gpu(others=2)
    with pytest.raises(ProfileError, match="another process"):
        profile_command(request(f"open({str(note)!r}, 'w')"), gpu)
    assert not note.exists() and gpu.started == 0


@pytest.mark.parametrize(
    ("found", "says"),
    [(Counters(busy=0.5), "does not count smact, dram"), (Counters(smact=0.0, dram=0.0), "used no GPU")],
)
def test_counters_that_make_no_profile(found: Counters, says: str) -> None:
    with pytest.raises(ProfileError, match=says):
        profile_command(request(LOOP, seconds=0.2), Gpu(found))


def test_commands_that_cannot_run() -> None:
    with pytest.raises(ProfileError, match="cannot be started"):
        profile_command(Request(("/no/such/program",)), Gpu())
    with pytest.raises(ProfileError, match="no regular expression"):
        profile_command(Request(("true",), marker="("), Gpu())


TRACED = """
import json, os, time
from predictor.hook import iteration
args = {"grid": [2], "block": [64], "registers per thread": 8, "shared memory": 1}
kernel = {"cat": "kernel", "dur": 4.0, "args": args}
for turn in range(100000):
    time.sleep(0.01)
    where = os.environ.pop("RAD_PROFILE_TRACE", None)
    if where:
        with open(where, "w") as stream:
            json.dump({"traceEvents": [kernel] * EVENTS}, stream)
    iteration()
"""


def test_kernels_by_the_profiler_come_from_a_run_of_their_own() -> None:
    gpu = Gpu()
    found = profile_command(request(TRACED.replace("EVENTS", "10"), kernels="torch"), gpu)
    assert found.kernel.threads == 128 and found.kernel.registers == 1024
    assert found.kernel.launches_per_s == pytest.approx(2 * found.throughput)
    assert found.kernel.shapes == ((2.0, 64.0, 8.0, 1.0, 10.0, 4.0),)
    assert gpu.started == 1


def test_a_trace_without_kernels_is_an_error() -> None:
    with pytest.raises(ProfileError, match="no kernel on a GPU"):
        profile_command(request(TRACED.replace("EVENTS", "0"), kernels="torch"), Gpu())


def test_no_trace_at_all() -> None:
    code = "import time\nfor _ in range(200): print('x', flush=True); time.sleep(0.01)"
    with pytest.raises(ProfileError, match="while its kernels were traced"):
        profile_command(request(code, kernels="torch"), Gpu())


NCU = """==PROF== Connected
"ID","Kernel Name","gpu__time_duration.sum","launch__grid_size","launch__block_size","launch__registers_per_thread",\
"launch__shared_mem_per_block_static","launch__waves_per_multiprocessor","sm__throughput.avg.pct_of_peak_sustained_elapsed",\
"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",\
"gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
"","","ns","","","register/thread","byte/block","","%","%","%"
"0","a","1,000","10","100","32","0","0.25","20","40","60"
"1","b","3000","20","100","64","8","1","60","0","20"
"2","c","n/a","20","100","64","8","1","60","0","20"
"""


def test_nsight_computes_raw_page() -> None:
    found = ncu.kernel_metrics(NCU)
    assert found.threads == pytest.approx((1000 + 3 * 2000) / 4)
    assert found.sm_throughput == pytest.approx(0.5)
    assert found.dram_throughput == pytest.approx(0.1)
    assert found.memory_throughput == pytest.approx(0.3)
    assert found.mean_us == pytest.approx(2.0)
    assert found.turn_us == pytest.approx(2.5)
    assert [(shape.grid, shape.block, shape.mean_us) for shape in found.shapes] == [(20, 100, 3.0), (10, 100, 1.0)]
    assert found.blocking_us == pytest.approx((0.2 * 1.0 + 0.5 * 3.0) / 2)
    with pytest.raises(ProfileError, match="profiled no kernel"):
        ncu.kernel_metrics("==ERROR== no permission")


def test_nsight_compute_runs_the_command_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "ncu"
    # Like the real one, it writes its page to a file of its own and lets the command write to the output.
    takes = 'echo "$@" | grep -q -- "--launch-count 500 --kill yes" || exit 3\n'
    takes += 'while [ "$1" != --log-file ]; do shift; done; echo "rad: iteration"\n'
    fake.write_text(f"#!/bin/sh\n{takes}cat > $2 <<'END'\n{NCU}END\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert profile_command(request(LOOP, seconds=0.2, kernels="ncu"), Gpu()).kernel.mean_us == pytest.approx(2.0)
    fake.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    monkeypatch.setattr(profiling, "NCU_S", -20.0)
    with pytest.raises(ProfileError, match="took over"):
        profile_command(request(LOOP, seconds=0.2, kernels="ncu"), Gpu())
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(ProfileError, match="ncu is not installed"):
        profile_command(request(LOOP, seconds=0.2, kernels="ncu"), Gpu())
