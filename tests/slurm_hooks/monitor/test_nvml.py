"""GPUs through NVML: what is available, what is not, and a GPU that is lost."""

from __future__ import annotations

import inspect
import logging
import sys

import pytest

from predictor.nvml import GPM_METRICS, NvmlMissingError, load, quiet
from scripts.bench import nvml_calls
from scripts.bench.standin_nvml import GPU_IS_LOST, Device, StandInNvml
from slurm_hooks.config import Monitor
from slurm_hooks.monitor import nvml as module
from slurm_hooks.monitor.choose import choose
from slurm_hooks.monitor.metrics import BackendError, ProcessUse
from slurm_hooks.monitor.nvml import NvmlBackend

PERCENT = {"busy": 90.0, "smact": 50.0, "dram": 130.0, "pcie_tx": 3.0}


def test_gpm_gives_what_dcgm_gives() -> None:
    backend = NvmlBackend(gpm=True, nvml=StandInNvml(Device("GPU-a", 2, percent=PERCENT)), clock=Clock())
    (first,) = backend.read()
    assert "smact" not in first.values, "one look alone spans no time"
    (reading,) = backend.read()
    assert (reading.index, reading.uuid, reading.name, reading.lost) == (2, "GPU-a", "Stand-in 2", False)
    assert reading.values == {
        "gract": 0.9,
        "smact": 0.5,
        "dram": 1.0,
        "pcie_tx": 3.0 * 2**20,
        "used_mib": 1000.0,
        "power_w": 500.0,
        "energy_mj": 0.0,
        "util": 97.0,
    }


def test_what_is_not_available_is_left_out() -> None:
    missing = (
        "nvmlDeviceGetMinorNumber",
        "nvmlDeviceGetName",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetTotalEnergyConsumption",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetMPSComputeRunningProcesses",
        "nvmlDeviceGetProcessUtilization",
        "nvmlGpmQueryDeviceSupport",
    )
    backend = NvmlBackend(gpm=True, nvml=StandInNvml(Device("GPU-a", 2), missing=missing))
    (reading,) = backend.read()
    assert (reading.index, reading.name, reading.values, reading.processes) == (0, "", {}, None)
    assert backend.activity(0, [1]) == {}
    assert backend.name == "nvml"


def test_processes_of_both_lists_count_once() -> None:
    device = Device("GPU-a", 0, direct={1: 66.0, 2: 500.0, 4: None}, clients={2: 700.0, 3: 100.0, 4: 5.0})
    (reading,) = NvmlBackend(gpm=False, nvml=StandInNvml(device)).read()
    assert reading.processes == (
        ProcessUse(1, 66.0),
        ProcessUse(2, 700.0),
        ProcessUse(4, 5.0),
        ProcessUse(3, 100.0),
    )


def test_a_process_whose_memory_is_not_told() -> None:
    device = Device("GPU-a", 0, direct={4: None})
    (reading,) = NvmlBackend(
        gpm=False, nvml=StandInNvml(device, missing=("nvmlDeviceGetMPSComputeRunningProcesses",))
    ).read()
    assert reading.processes == (ProcessUse(4, None),)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """How often the costly questions are asked in these tests."""
    paces = {"_ENERGY_S": 60.0, "_GRACT_S": 30.0, "_LISTS_S": 30.0, "_SAMPLES_S": 30.0, "_NO_SAMPLES_S": 60.0}
    for name, seconds in paces.items():
        monkeypatch.setattr(module, name, seconds)


@pytest.mark.usefixtures("pace")
def test_samples_of_processes_are_added_up_and_asked_for_seldom() -> None:
    device, clock = Device("GPU-a", 3, samples=[(1, 10, 40), (1, 20, 50), (2, 20, 5)]), Clock()
    nvml = StandInNvml(device)
    backend = NvmlBackend(gpm=False, nvml=nvml, clock=clock)
    assert backend.activity(3, [1, 2]) == {1: 90.0, 2: 5.0}
    device.samples.append((2, 30, 7))
    clock.now = 29.0
    assert backend.activity(3, [1, 2]) == backend.activity(3, [2]) == {1: 90.0, 2: 5.0}
    assert nvml.calls["nvmlDeviceGetProcessUtilization"] == 1
    clock.now = 30.0
    assert backend.activity(3, [1, 2]) == {2: 7.0}
    clock.now = 31.0
    assert backend.activity(3, [1, 2, 3]) == {2: 7.0}, "one that came a second ago has done nothing yet"
    device.samples.append((3, 40, 9))
    clock.now = 32.0
    assert backend.activity(3, [1, 2, 3]) == {3: 9.0}
    clock.now = 62.0
    assert backend.activity(3, [1, 2, 3]) == {}
    device.samples.append((3, 50, 1))
    clock.now = 121.0
    assert backend.activity(3, [1, 2, 3]) == {}, "where there are none, they are looked for still more seldom"
    clock.now = 122.0
    assert backend.activity(3, [1, 2, 3]) == {3: 1.0}


@pytest.mark.usefixtures("pace")
def test_a_clock_that_is_set_back_ends_no_samples() -> None:
    device, clock, wall = Device("GPU-a", 0, samples=[(1, 5_000_000, 40)]), Clock(), Clock()
    backend = NvmlBackend(gpm=False, nvml=StandInNvml(device), clock=clock, wall=wall)
    wall.now = 5.0
    assert backend.activity(0, [1]) == {1: 40.0}
    wall.now, clock.now = 2.0, 30.0
    device.samples = []
    assert backend.activity(0, [1]) == {}
    device.samples = [(1, 3_000_000, 30)]
    wall.now, clock.now = 3.0, 90.0
    assert backend.activity(0, [1]) == {1: 30.0}


def test_samples_that_no_process_can_have_are_left_out() -> None:
    device = Device("GPU-a", 0, samples=[(1, 217_144_956, 37100), (1, 300_000_000, 20), (2, 300_000_000, 100)])
    backend = NvmlBackend(gpm=False, nvml=StandInNvml(device))
    assert backend.activity(0, [1, 2]) == {1: 20.0, 2: 100.0}


@pytest.mark.usefixtures("pace")
def test_the_engines_activity_is_asked_for_seldom() -> None:
    device, clock = Device("GPU-a", 0, percent=dict(PERCENT)), Clock()
    nvml = StandInNvml(device)
    backend = NvmlBackend(gpm=True, nvml=nvml, clock=clock)
    backend.read()
    backend.read()
    device.percent |= {"busy": 10.0, "smact": 20.0}
    seen = []
    for _ in range(31):
        clock.now += 1.0
        (reading,) = backend.read()
        seen.append((reading.values["gract"], reading.values["smact"]))
    assert seen == [(0.9, 0.2)] * 29 + [(0.1, 0.2)] * 2
    assert nvml.calls["nvmlGpmMetricsGet"] == 32


@pytest.mark.usefixtures("pace")
def test_power_that_reads_too_high_does_not_add_up() -> None:
    device, clock = Device("GPU-a", 0, energy_mj=0.0, power_w=510.0), Clock()
    backend = NvmlBackend(gpm=False, nvml=StandInNvml(device), clock=clock)
    found = []
    for second in range(301):
        clock.now, device.energy_mj = float(second), second * 500e3
        found.append(backend.read()[0].values["energy_mj"])
    assert found == sorted(found)
    # Two percent of one pause between two readings of the counter, however many there were.
    assert found[-1] - 300 * 500e3 <= 0.02 * 30 * 500e3


@pytest.mark.usefixtures("pace")
def test_an_energy_counter_that_began_anew_still_counts() -> None:
    device, clock = Device("GPU-a", 0, energy_mj=9e9, power_w=550.0), Clock()
    backend = NvmlBackend(gpm=False, nvml=StandInNvml(device), clock=clock)
    found = []
    for second in range(1201):
        clock.now, device.energy_mj = float(second), second * 500e3 + (9e9 if second < 300 else 0.0)
        found.append(backend.read()[0].values["energy_mj"])
    assert found == sorted(found)
    # Power that reads ten percent too high counts for one pause on each side, not ever since.
    assert 0.0 <= found[-1] - found[480] - 720 * 500e3 <= 0.1 * 2 * 120 * 500e3


@pytest.mark.usefixtures("pace")
@pytest.mark.parametrize("what", ["the GPU is lost", "the question fails once", "a reset GPU counts from 0"])
def test_energy_never_goes_back(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr(module, "_LOOKS_BEFORE_RETRY", 1)
    device, clock = Device("GPU-a", 0, energy_mj=0.0, power_w=550.0), Clock()
    nvml = StandInNvml(device)
    backend = NvmlBackend(gpm=False, nvml=nvml, clock=clock)
    found = []
    for second in range(301):
        # The counter is due to be read at 60, 120, .. seconds: just before that power has added most to it.
        clock.now, device.energy_mj = float(second), second * 500e3
        if what == "the question fails once":
            nvml.missing = ("nvmlDeviceGetTotalEnergyConsumption",) if second == 120 else ()
        else:
            device.error = GPU_IS_LOST if second == 119 else 0
        if what == "a reset GPU counts from 0" and second > 119:
            device.energy_mj -= 119 * 500e3
        energy = backend.read()[0].values.get("energy_mj")
        found += [] if energy is None else [energy]
    assert found == sorted(found)
    assert len(found) >= 299
    assert 0.95 * 300 * 500e3 <= found[-1] <= 1.1 * 300 * 500e3


@pytest.mark.usefixtures("pace")
def test_processes_are_listed_anew_where_that_matters() -> None:
    device, clock = Device("GPU-a", 0, clients={7: 500.0, 8: 300.0}), Clock()
    backend = NvmlBackend(gpm=False, nvml=StandInNvml(device), clock=clock)
    backend.read()
    device.clients = {7: 300.0, 8: 500.0}
    clock.now += 1.0
    assert backend.read()[0].processes == (ProcessUse(7, 500.0), ProcessUse(8, 300.0))
    assert backend.read(anew=True)[0].processes == (ProcessUse(7, 300.0), ProcessUse(8, 500.0))


@pytest.mark.usefixtures("pace")
@pytest.mark.parametrize(
    ("failing", "left"),
    [
        (("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses"), None),
        (("nvmlDeviceGetComputeRunningProcesses",), (ProcessUse(7, 500.0),)),
    ],
)
def test_a_list_that_fails_once_is_asked_for_in_the_next_look(
    failing: tuple[str, ...], left: tuple[ProcessUse, ...] | None
) -> None:
    device, clock = Device("GPU-a", 0, clients={7: 500.0}, direct={8: 300.0}), Clock()
    nvml = StandInNvml(device)
    backend = NvmlBackend(gpm=False, nvml=nvml, clock=clock)
    both = backend.read()[0].processes
    assert both is not None and {use.pid for use in both} == {7, 8}
    clock.now, nvml.missing = 30.0, failing
    assert backend.read()[0].processes == left
    clock.now, nvml.missing = 31.0, ()
    assert backend.read()[0].processes == both
    asked = nvml.calls[failing[0]]
    clock.now = 32.0
    assert backend.read()[0].processes == both
    assert nvml.calls[failing[0]] == asked


@pytest.mark.usefixtures("pace")
def test_processes_are_listed_when_the_gpus_memory_has_changed() -> None:
    device, clock = Device("GPU-a", 0, clients={7: 500.0}), Clock()
    nvml = StandInNvml(device)
    backend = NvmlBackend(gpm=False, nvml=nvml, clock=clock)

    def listed() -> tuple[ProcessUse, ...] | None:
        clock.now += 1.0
        return backend.read()[0].processes

    first = listed()
    assert first == (ProcessUse(7, 500.0),)
    assert [listed() is first for _ in range(29)] == [True] * 29
    assert nvml.calls["nvmlDeviceGetMPSComputeRunningProcesses"] == 1
    device.clients[8] = 0.0
    assert listed() == (ProcessUse(7, 500.0), ProcessUse(8, 0.0)), "once in a while they are looked at in any case"
    device.clients[8] = 300.0
    assert listed() == (ProcessUse(7, 500.0), ProcessUse(8, 300.0))
    del device.clients[8]
    assert listed() == first


def test_without_the_gpus_memory_processes_are_listed_each_time() -> None:
    device = Device("GPU-a", 0, clients={7: 500.0})
    backend = NvmlBackend(gpm=False, nvml=StandInNvml(device, missing=("nvmlDeviceGetMemoryInfo",)), clock=Clock())
    backend.read()
    device.clients[8] = 300.0
    assert backend.read()[0].processes == (ProcessUse(7, 500.0), ProcessUse(8, 300.0))


@pytest.mark.usefixtures("pace")
def test_the_energy_counter_is_read_seldom_and_power_fills_the_time_between() -> None:
    devices, clock = [Device("GPU-a", 0, energy_mj=1000.0), Device("GPU-b", 1, energy_mj=0.0)], Clock()
    nvml = StandInNvml(*devices)
    backend = NvmlBackend(gpm=False, nvml=nvml, clock=clock)

    def energies() -> list[float | None]:
        return [reading.values.get("energy_mj") for reading in backend.read()]

    assert energies() == [1000.0, 0.0]
    for _ in range(29):
        clock.now += 1.0
        energies()
    assert nvml.calls["nvmlDeviceGetTotalEnergyConsumption"] == 2
    assert energies() == [1000.0 + 29 * 500e3, 29 * 500e3]
    devices[0].energy_mj, devices[1].energy_mj = 20e6, 21e6
    clock.now = 30.0
    assert energies() == [20e6, 30 * 500e3], "the GPUs take turns"
    clock.now = 31.0
    devices[0].power_w = 100.0
    assert energies() == [20e6 + 100e3, 31 * 500e3]
    clock.now = 60.0
    assert energies()[1] == 21e6
    clock.now = 90.0
    devices[0].energy_mj = 5e6
    assert energies()[0] == 20e6 + 100e3, "it never goes back"
    devices[1].energy_mj = None
    clock.now = 200.0
    assert energies()[1] is None


def test_a_lost_gpu_and_one_that_goes_on(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(module, "_LOOKS_BEFORE_RETRY", 2)
    lost, other = Device("GPU-a", 0, percent=PERCENT), Device("GPU-b", 1, percent=PERCENT)
    backend = NvmlBackend(gpm=True, nvml=StandInNvml(lost, other))
    backend.read()
    lost.error = GPU_IS_LOST
    for _ in range(4):
        first, second = backend.read()
        assert first.lost and first.values == {} and first.processes is None
        assert not second.lost and second.values["smact"] == 0.5
    assert len([r for r in caplog.records if "does not answer: GPU is lost" in r.message]) == 1
    lost.error = 0
    caplog.set_level(logging.INFO)
    answers = [backend.read()[0] for _ in range(4)]
    assert [answer.lost for answer in answers].count(False) >= 1
    assert "smact" in backend.read()[0].values
    assert "GPU 0 answers again" in caplog.text


def test_gpm_that_fails_takes_nothing_else_with_it(caplog: pytest.LogCaptureFixture) -> None:
    nvml = StandInNvml(Device("GPU-a", 0, percent=PERCENT, clients={7: 100.0}))
    backend = NvmlBackend(gpm=True, nvml=nvml)
    backend.read()
    nvml.missing = ("nvmlGpmSampleGet",)
    for _ in range(3):
        (reading,) = backend.read()
        assert not reading.lost and reading.processes == (ProcessUse(7, 100.0),)
        assert "smact" not in reading.values and reading.values["used_mib"] == 1100.0
    assert caplog.text.count("GPM gives nothing (Not Supported)") == 1
    nvml.missing = ()
    backend.read()
    assert backend.read()[0].values["smact"] == 0.5


def test_another_gpu_in_the_lost_ones_place_is_not_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOKS_BEFORE_RETRY", 0)
    device = Device("GPU-a", 0)
    backend = NvmlBackend(gpm=False, nvml=StandInNvml(device))
    device.error = GPU_IS_LOST
    backend.read()
    device.error, device.uuid = 0, "GPU-z"
    assert backend.read()[0].lost


def test_a_driver_that_goes_away() -> None:
    nvml = StandInNvml(Device("GPU-a", 0))
    backend = NvmlBackend(gpm=False, nvml=nvml)
    nvml.no_driver = True
    with pytest.raises(BackendError, match="Uninitialized: the driver is gone"):
        backend.read()
    backend.close()


def test_no_driver_no_gpu_no_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = StandInNvml(Device("GPU-a", 0))
    nvml.no_driver = True
    with pytest.raises(BackendError, match="is an NVIDIA driver loaded"):
        NvmlBackend(gpm=True, nvml=nvml)
    gone = StandInNvml(Device("GPU-a", 0, error=GPU_IS_LOST))
    with pytest.raises(BackendError, match="no GPU that answers"):
        NvmlBackend(gpm=True, nvml=gone)
    assert gone.open == 0
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(BackendError, match="pip install nvidia-ml-py"):
        NvmlBackend(gpm=True)


def test_the_choice_is_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    hopper, older = StandInNvml(Device("GPU-a", 0)), StandInNvml(Device("GPU-a", 0, gpm=False))
    nowhere = Monitor(dcgmi="/nowhere/dcgmi")
    assert choose(nowhere, hopper).name == "gpm"
    assert choose(nowhere, older).name == "nvml"
    assert choose(Monitor(backend="nvml"), hopper).name == "nvml"
    assert [r.message.split(":")[0] for r in caplog.records] == ["backend gpm", "backend nvml", "backend nvml"]
    with pytest.raises(BackendError, match="no GPU of this node has GPM"):
        choose(Monitor(backend="gpm"), older)
    assert older.open == 1


def test_close_gives_everything_back() -> None:
    nvml = StandInNvml(Device("GPU-a", 0, percent=PERCENT))
    backend = NvmlBackend(gpm=True, nvml=nvml)
    backend.read()
    backend.close()
    assert (nvml.open, nvml.calls["nvmlGpmSampleFree"]) == (0, 2)


def test_the_stand_in_has_the_shape_of_the_real_binding() -> None:
    real = load()
    for name in vars(StandInNvml):
        if name.startswith("nvml"):
            ours = list(inspect.signature(getattr(StandInNvml, name)).parameters)[1:]
            required = [p for p in inspect.signature(getattr(real, name)).parameters.values() if p.default is p.empty]
            assert len(required) <= len(ours) <= len(inspect.signature(getattr(real, name)).parameters), name
    constants = [getattr(real, constant) for _, constant in GPM_METRICS]
    assert len(set(constants)) == len(GPM_METRICS)
    request = real.c_nvmlGpmMetricsGet_t()
    assert len(request.metrics) >= len(GPM_METRICS)
    for name in vars(StandInNvml(Device("GPU-a", 0)).c_nvmlGpmMetricsGet_t()):
        assert hasattr(request, name)
    assert {"metricId", "nvmlReturn", "value"} <= {name for name, *_ in type(request.metrics[0])._fields_}
    assert {"pid", "timeStamp", "smUtil"} <= {name for name, *_ in real.c_nvmlProcessUtilizationSample_t._fields_}
    codes = (real.NVML_ERROR_GPU_IS_LOST, real.NVML_ERROR_RESET_REQUIRED, real.NVML_ERROR_UNKNOWN)
    assert codes == (*module._LOST, module._UNKNOWN)
    gone = (
        real.NVML_ERROR_UNINITIALIZED,
        real.NVML_ERROR_DRIVER_NOT_LOADED,
        real.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    )
    assert gone == module._DRIVER_GONE
    assert real.NVMLError(real.NVML_ERROR_GPU_IS_LOST).value == GPU_IS_LOST


def test_what_an_older_driver_does_not_have_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = load()

    def lacking(handle: object) -> None:
        raise real.NVMLError(real.NVML_ERROR_FUNCTION_NOT_FOUND)

    monkeypatch.setattr(real, "nvmlDeviceGetComputeRunningProcesses_v3", lacking)
    assert quiet(real, "nvmlDeviceGetComputeRunningProcesses", None) is None


def test_a_gpu_that_did_not_answer_at_the_start_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_LOOKS_BEFORE_RETRY", 2)
    first, second = Device("GPU-a", 0, error=GPU_IS_LOST), Device("GPU-b", 1)
    backend = NvmlBackend(gpm=True, nvml=StandInNvml(first, second), clock=Clock())
    seen = [[reading.uuid for reading in backend.read()] for _ in range(8)]
    assert seen == [["GPU-b"]] * 8
    assert [record.getMessage() for record in caplog.records] == ["GPU 0 cannot be opened: GPU is lost"]
    first.error = 0
    seen = [sorted(reading.uuid for reading in backend.read()) for _ in range(3)]
    assert seen[-1] == ["GPU-a", "GPU-b"]


@pytest.mark.parametrize("words", [[], ["--ways"]])
def test_what_nvml_costs_cannot_be_told_without_it(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise NvmlMissingError("NVML's Python binding is missing")

    monkeypatch.setattr(nvml_calls, "load", missing)
    monkeypatch.setattr("sys.argv", ["nvml_calls", *words])
    with pytest.raises(SystemExit, match="nvml_calls: NVML's Python binding is missing"):
        nvml_calls.main()
