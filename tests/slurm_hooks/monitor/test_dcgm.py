"""What dcgmi prints, in the form that DCGM 3 and 4 print it, and a dcgmi that misbehaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.bench.standin_nvml import GPU_IS_LOST, Device, StandInNvml
from slurm_hooks.config import Monitor
from slurm_hooks.monitor.choose import choose
from slurm_hooks.monitor.dcgm import DcgmBackend, DmonParser, parse_discovery
from slurm_hooks.monitor.metrics import BackendError

DISCOVERY = """\
2 GPUs found.
+--------+----------------------------------------------------------------------+
| GPU ID | Device Information                                                   |
+--------+----------------------------------------------------------------------+
| 0      | Name: NVIDIA H200                                                    |
|        | PCI Bus ID: 00000000:18:00.0                                         |
|        | Device UUID: GPU-bbbbbbbb-1111-2222-3333-444444444444                |
+--------+----------------------------------------------------------------------+
| 1      | Name: NVIDIA H200                                                    |
|        | PCI Bus ID: 00000000:2A:00.0                                         |
|        | Device UUID: GPU-aaaaaaaa-1111-2222-3333-444444444444                |
+--------+----------------------------------------------------------------------+
0 NvSwitches found.
+-----------+
| Switch ID |
+-----------+
+-----------+
"""
DMON = """\
#Entity   GRACT        SMACT        POWER                TOTEC                GPUTL        XYZZY
ID                                  W                    mJ
GPU 1     1.000        0.926        312.204              93412001             100          7
GPU 0     0.984        N/A          75.110               N/A                  99           N/A
"""
A, B = "GPU-aaaaaaaa-1111-2222-3333-444444444444", "GPU-bbbbbbbb-1111-2222-3333-444444444444"


def rows(text: str) -> list[tuple[int, dict[str, float]]]:
    parser = DmonParser()
    return [row for row in map(parser.feed, text.splitlines()) if row is not None]


def test_discovery() -> None:
    assert parse_discovery(DISCOVERY) == {0: B, 1: A}
    assert parse_discovery("Error: unable to establish a connection") == {}


def test_rows_come_in_any_order_and_unknown_columns_are_passed_over() -> None:
    assert rows(DMON) == [
        (1, {"gract": 1.0, "smact": 0.926, "power_w": 312.204, "energy_mj": 93412001.0, "util": 100.0}),
        (0, {"gract": 0.984, "power_w": 75.11, "util": 99.0}),
    ]


def test_a_ratio_is_never_more_than_all() -> None:
    """radd passes over a GPU that says so, and a job's part of it."""
    text = "# Entity  SMACT  DRAMA  FP16A  POWER\nGPU 0  1.004  1.2  1.0001  300.5\n"
    assert rows(text) == [(0, {"smact": 1.0, "dram": 1.0, "fp16": 1.0, "power_w": 300.5})]


def test_a_head_may_come_again_with_other_columns() -> None:
    text = "# Entity  SMACT\n  Id\nGPU 0  0.5\n# Entity  SMOCC  SMACT\nGPU 0  0.1  0.6\r\n"
    assert rows(text) == [(0, {"smact": 0.5}), (0, {"smocc": 0.1, "smact": 0.6})]


def test_right_aligned_columns_of_dcgm_2_and_a_first_row_without_values() -> None:
    text = "# Entity      GRACT      SMACT\n      Id\n   GPU 0        N/A        N/A\n   GPU 0      0.250      0.125\n"
    assert rows(text) == [(0, {}), (0, {"gract": 0.25, "smact": 0.125})]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "GPU 0",
        "GPU 0 0.5",
        "GPU 0 0.5 0.6 0.7",
        "GPU-I 0 0.5 0.6",
        "GPU x 0.5 0.6",
        "Error setting watches. Result: -33",
        "\x00\xff" * 1000,
    ],
)
def test_garbage_is_passed_over(line: str) -> None:
    assert rows(f"#Entity SMACT SMOCC\n{line}\n") == []


@pytest.mark.parametrize(
    "cell",
    ["nan", "inf", "-1", "9223372036854775792", "140737488355330.000", "12345678...", "abc", "N/A", "<<<NULL>>>"],
)
def test_what_is_no_value(cell: str) -> None:
    assert rows(f"#Entity SMACT SMOCC\nGPU 3 {cell} 0.25\n") == [(3, {"smocc": 0.25})]


def program(tmp_path: Path, dmon: str, discovery: str = DISCOVERY) -> str:
    """A stand-in for dcgmi."""
    (tmp_path / "discovery").write_text(discovery)
    (tmp_path / "dmon").write_text(DMON)
    path = tmp_path / "dcgmi"
    path.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n'
        f'case "$1" in discovery) cat {tmp_path}/discovery ;; *) {dmon} ;; esac\n'
    )
    path.chmod(0o755)
    return str(path)


def test_metrics_by_dcgm_and_processes_by_nvml(tmp_path: Path) -> None:
    first = Device(A, 0, gpm=False, clients={7: 100.0}, samples=[(7, 1, 30)])
    nvml = StandInNvml(first, Device(B, 1, gpm=False, energy_mj=5.0))
    backend = choose(Monitor(dcgmi=program(tmp_path, f"cat {tmp_path}/dmon; exec sleep 60")), nvml)
    try:
        # The first row has been read; the second follows at once.
        one, two = backend.read()
        while "gract" not in two.values:
            one, two = backend.read()
        assert (one.values["smact"], one.values["power_w"], one.values["used_mib"]) == (0.926, 312.204, 1100.0)
        # What DCGM does not have is NVML's, which adds the power drawn since to a counter that stands still.
        assert "smact" not in two.values and 5.0 <= two.values["energy_mj"] < 93412001
        assert [use.pid for use in one.processes or ()] == [7]
        assert backend.activity(0, [7]) == {7: 30.0}
        first.error = GPU_IS_LOST
        assert backend.read()[0].lost and backend.read()[0].values == {}
    finally:
        backend.close()
    fields = "1001,1002,1003,1004,1005,1006,1007,1008,1009,1010,155,156,203,252"
    assert (tmp_path / "asked").read_text().splitlines()[1] == f"dmon -i 0,1 -e {fields} -d 1000"
    assert nvml.open == 0


def test_old_rows_count_no_more(tmp_path: Path) -> None:
    now = [0.0]
    nvml = StandInNvml(Device(A, 0, gpm=False))
    made = choose(Monitor(backend="nvml"), nvml)
    program_path = program(tmp_path, f"cat {tmp_path}/dmon; exec sleep 60")
    backend = DcgmBackend(program_path, 1.0, made, clock=lambda: now[0])
    try:
        assert backend.read()[0].values["smact"] == 0.926
        now[0] = 20.0
        assert "smact" not in backend.read()[0].values
        now[0] = 31.0
        with pytest.raises(BackendError, match="dmon has said nothing for 30 s"):
            backend.read()
    finally:
        backend.close()


def test_dmon_that_ends(tmp_path: Path) -> None:
    nvml = StandInNvml(Device(A, 0))
    backend = choose(Monitor(backend="dcgm", dcgmi=program(tmp_path, f"cat {tmp_path}/dmon; exit 3")), nvml)
    with pytest.raises(BackendError, match="dmon ended with exit status 3"):
        while True:
            backend.read()
    backend.close()


@pytest.mark.parametrize(
    ("dmon", "discovery", "message"),
    [
        ("exit 1", "0 GPUs found.\n", "it shows no GPU"),
        ("echo Error; exit 1", DISCOVERY, "dmon shows nothing"),
    ],
)
def test_a_dcgm_that_does_not_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, dmon: str, discovery: str, message: str
) -> None:
    nvml = StandInNvml(Device(A, 0))
    path = program(tmp_path, dmon, discovery)
    with pytest.raises(BackendError, match=message):
        choose(Monitor(backend="dcgm", dcgmi=path), nvml)
    assert nvml.open == 0
    assert choose(Monitor(dcgmi=path), nvml).name == "gpm"
    assert "NVML is used instead" in caplog.text


def test_no_dcgm_at_all() -> None:
    with pytest.raises(BackendError, match="/nowhere/dcgmi: No such file"):
        choose(Monitor(backend="dcgm", dcgmi="/nowhere/dcgmi"), StandInNvml(Device(A, 0)))
