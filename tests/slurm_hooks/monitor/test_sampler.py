"""From what NVML says to counters of GPUs and jobs, with a stand-in NVML and a folder that looks like /proc."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from scripts.bench.standin_nvml import GPU_IS_LOST, Device, StandInNvml
from slurm_hooks.config import Config, Monitor, Node
from slurm_hooks.monitor import counters, prometheus
from slurm_hooks.monitor import sampler as module
from slurm_hooks.monitor.guard import LOOKS, Notice
from slurm_hooks.monitor.metrics import BackendError
from slurm_hooks.monitor.nvml import NvmlBackend
from slurm_hooks.monitor.sampler import Sampler
from slurm_hooks.monitor.views import JobView
from slurm_hooks.monitor.window import Window

WINDOW_S = 10.0


class Site:
    """A node with two GPUs."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.proc, self.jobs = folder / "proc", folder / "jobs"
        self.devices = [Device(f"GPU-{i}", i, percent={"smact": 60.0, "smocc": 30.0, "dram": 20.0}) for i in range(2)]
        self.nvml = StandInNvml(*self.devices)
        self.config = Config(
            monitor=Monitor(window_s=WINDOW_S, **{"slack_mib": 0, **settings}), node=Node(state_dir=str(self.jobs))
        )
        self.now = 100.0
        self.sampler = self.start()

    def start(self) -> Sampler:
        backend = NvmlBackend(gpm=True, nvml=self.nvml, clock=lambda: self.now)
        self.sampler = Sampler(self.config, backend, str(self.proc), lambda: 5.0)
        return self.sampler

    def process(self, pid: int, job: int) -> None:
        folder = self.proc / str(pid)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup").write_text(f"0::/system.slice/slurmstepd.scope/job_{job}/step_batch\n" if job else "0::/\n")

    def prolog(self, job: int, restart: int = 0, **task: int) -> None:
        self.jobs.mkdir(exist_ok=True)
        note = {"restart": restart, "uid": 0, "allotment_mib": task.get("allotment_mib")}
        (self.jobs / f"{job}.json").write_text(json.dumps(note))
        (self.jobs / f"{job}.task.json").write_text(json.dumps(task))

    def epilog(self, job: int) -> None:
        for name in (f"{job}.json", f"{job}.task.json"):
            (self.jobs / name).unlink()

    def look(self, count: int = 1, watts: Sequence[float] = (100.0, 100.0)) -> list[Notice]:
        notices = []
        for _ in range(count):
            self.now += 1.0
            for device, power in zip(self.devices, watts, strict=True):
                if device.energy_mj is not None:
                    device.energy_mj += power * 1000
                device.power_w = power
            notices += self.sampler.look(self.now)
        return notices

    def job(self, job: int) -> JobView | None:
        return next((view for view in self.sampler.view().jobs if view.job == job), None)

    def stored(self, job: int, restart: int = 0) -> counters.JobCounters:
        found = counters.read(str(self.jobs), job, restart)
        assert found is not None
        return found


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_job_alone_has_all_of_its_gpu(site: Site) -> None:
    site.process(10, 42)
    site.process(11, 42)
    site.devices[0].clients = {10: 1000.0, 11: 500.0}
    site.look(6, (200.0, 50.0))
    job = site.job(42)
    assert job is not None
    (part,) = job.gpus
    assert (part.gpu, part.mib, part.processes, job.peak_mib) == (0, 1500.0, 2, 1500.0)
    assert part.means == pytest.approx({"smact": 0.6, "smocc": 0.3, "dram": 0.2, "power_w": 200.0})
    assert (job.seconds, job.energy_j, part.window_s) == (5.0, 1000.0, 5.0)
    view = site.sampler.view()
    assert [(gpu.jobs, gpu.processes, gpu.lost) for gpu in view.gpus] == [(1, 2, False), (0, 0, False)]
    assert view.gpus[1].means["smact"] == pytest.approx(0.6)
    assert (view.backend, view.looks, view.taken) == ("gpm", 6, 5.0)


def test_residents_share_by_what_nvml_says_of_their_processes(site: Site) -> None:
    site.process(10, 42)
    site.process(20, 43)
    site.devices[0].direct = {10: 1000.0, 20: 2000.0}
    for stamp in range(1, 6):
        site.devices[0].samples += [(10, stamp, 75), (20, stamp, 25)]
        site.look(1, (100.0, 0.0))
    one, other = site.job(42), site.job(43)
    assert one is not None and other is not None
    assert one.gpus[0].means["smact"] == pytest.approx(0.45)
    assert other.gpus[0].means["smact"] == pytest.approx(0.15)
    assert one.energy_j == pytest.approx(300.0)
    assert other.energy_j == pytest.approx(100.0)
    # The looks end the jobs' run in the file: the neighbours stand there.
    site.devices[0].direct = {}
    site.look()
    assert (site.stored(42).neighbours, site.stored(43).neighbours) == ((43,), (42,))
    assert site.stored(42).smact_mean == pytest.approx(0.45)


def test_without_samples_residents_share_alike_and_strangers_take_part(site: Site) -> None:
    for pid, job in ((10, 42), (20, 43), (30, 0)):
        site.process(pid, job)
    site.devices[0].clients = {10: 1000.0, 20: 2000.0}
    site.look(3)
    one = site.job(42)
    assert one is not None and one.gpus[0].means["smact"] == pytest.approx(0.3)
    site.devices[1].clients = {10: 100.0, 30: 100.0}
    site.look(2)
    one = site.job(42)
    assert one is not None and one.gpus[1].means["smact"] == pytest.approx(0.3)
    assert site.job(0) is None
    assert "nvmlDeviceGetProcessUtilization" in site.nvml.calls
    site.devices[0].clients = site.devices[1].clients = {}
    site.look()
    assert site.stored(42).neighbours == (43, 0), "what was measured of it is not all its own"
    assert site.stored(43).neighbours == (42,)


def test_a_process_that_ends_before_it_is_looked_at_takes_no_part(site: Site) -> None:
    site.process(10, 42)
    site.devices[0].clients = {10: 1000.0, 11: 1000.0}
    site.look(3)
    job = site.job(42)
    assert job is not None and job.gpus[0].means["smact"] == pytest.approx(0.6)


def test_nobody_is_asked_for_samples_while_jobs_are_alone(site: Site) -> None:
    site.process(10, 42)
    site.devices[0].clients = {10: 1000.0}
    site.look(5)
    assert "nvmlDeviceGetProcessUtilization" not in site.nvml.calls


def test_a_job_on_two_gpus(site: Site) -> None:
    site.process(10, 42)
    site.devices[1].percent = {"smact": 20.0}
    site.devices[0].clients, site.devices[1].clients = {10: 1000.0}, {10: 500.0}
    site.look(3, (100.0, 200.0))
    job = site.job(42)
    assert job is not None
    assert (job.peak_mib, job.energy_j, job.seconds) == (1500.0, 600.0, 2.0)
    site.devices[1].clients = {}
    site.look(1)
    job = site.job(42)
    assert job is not None and job.peak_mib == 1500.0
    assert [(part.mib, part.processes) for part in job.gpus] == [(1000.0, 1), (0.0, 0)]
    stored = site.stored(42)
    assert stored.smact_mean == pytest.approx((2 * 0.4 + 0.6) / 3), "the mean of its GPUs, then over time"
    assert stored.peak_mib == 1500
    site.look(int(WINDOW_S))
    job = site.job(42)
    assert job is not None and [part.gpu for part in job.gpus] == [0]


def test_energy_from_power_where_there_is_no_counter(site: Site) -> None:
    site.process(10, 42)
    site.devices[0].energy_mj = None
    site.devices[0].clients = {10: 1000.0}
    site.look(4, (100.0, 0.0))
    job = site.job(42)
    assert job is not None and job.energy_j == pytest.approx(300.0)


def test_a_counter_that_starts_anew_costs_one_look_at_most(site: Site) -> None:
    site.process(10, 42)
    site.devices[0].clients = {10: 1000.0}
    site.look(3)
    site.devices[0].energy_mj = 0.0
    site.look(2)
    job = site.job(42)
    assert job is not None and job.energy_j == pytest.approx(400.0)


def test_what_nobody_counts_is_not_in_the_record(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for device in site.devices:
        device.gpm, device.energy_mj = False, None
    site.nvml.missing = ("nvmlDeviceGetPowerUsage",)
    site.start()
    site.process(10, 42)
    site.devices[0].clients = {10: None}
    site.look(3)
    stored = site.stored(42)
    assert (stored.smact_mean, stored.energy_j, stored.peak_mib) == (None, None, None)


def test_memory_that_nvml_does_not_tell_is_none_and_not_zero(site: Site) -> None:
    for pid in (10, 11):
        site.process(pid, 42)
    site.devices[0].clients = {10: None}
    site.look(3)
    page = prometheus.render(site.sampler.view(), "node0")
    assert "rad_job_processes{" in page
    assert "rad_job_memory_used_bytes" not in page
    assert "rad_job_memory_peak_bytes" not in page
    site.devices[0].clients = {10: None, 11: 500.0}  # less than all of it is no peak either
    site.look(3)
    site.devices[0].clients = {}
    site.look()
    assert site.stored(42).seconds > 0
    assert site.stored(42).peak_mib is None


def test_a_lost_gpu_is_shown_and_the_other_goes_on(site: Site) -> None:
    site.process(10, 42)
    site.process(20, 43)
    site.devices[0].clients, site.devices[1].clients = {10: 1000.0}, {20: 1000.0}
    site.look(3)
    site.devices[0].error = GPU_IS_LOST
    site.look(2)
    view = site.sampler.view()
    assert [(gpu.lost, gpu.values.get("smact"), gpu.processes) for gpu in view.gpus] == [
        (True, None, None),
        (False, 0.6, 1),
    ]
    assert [job.job for job in view.jobs] == [43]
    assert site.stored(42).peak_mib == 1000, "what was measured before stays"


def test_the_window_forgets_and_the_run_does_not(site: Site) -> None:
    site.process(10, 42)
    site.prolog(42)
    site.devices[0].clients = {10: 1000.0}
    site.look(11)
    site.devices[0].percent = {"smact": 0.0}
    site.look(int(WINDOW_S))
    job = site.job(42)
    assert job is not None
    assert (job.gpus[0].means["smact"], job.gpus[0].window_s) == (0.0, WINDOW_S)
    site.devices[0].clients = {}
    site.look()
    assert site.stored(42).smact_mean == pytest.approx(0.3)
    assert site.job(42) is None, "it holds nothing now"


def test_counters_are_there_when_the_processes_are_gone(site: Site) -> None:
    site.prolog(42)
    site.process(10, 42)
    site.devices[0].clients = {10: 1000.0}
    site.look(200)
    before = site.stored(42).seconds
    assert 199 - 30 <= before <= 199, "kept at least every write_s"
    site.devices[0].clients = {10: 5000.0}
    site.look()
    assert site.stored(42).peak_mib == 5000, "a new peak is kept at once"
    site.devices[0].clients = {}
    site.look()
    assert site.stored(42).seconds == 200.0


def test_a_monitor_that_was_killed_goes_on_where_it_was(site: Site) -> None:
    site.prolog(42)
    site.process(10, 42)
    site.devices[0].clients = {10: 1000.0}
    site.look(5)
    before = site.stored(42)
    site.start()
    site.look(2)
    after = site.stored(42)
    assert before.seconds == 4.0 and after.seconds == 5.0
    assert after.peak_mib == 1000


def test_each_run_has_counters_of_its_own(site: Site) -> None:
    site.prolog(42, restart=0)
    site.process(10, 42)
    site.devices[0].clients = {10: 5000.0}
    site.look(3)
    site.devices[0].clients = {}
    site.look()
    site.prolog(42, restart=1)
    site.process(11, 42)
    site.devices[0].clients = {11: 100.0}
    site.look(3)
    assert counters.read(str(site.jobs), 42, 0) is None
    assert site.stored(42, 1).peak_mib == 100


def test_a_job_that_rests_is_kept_and_one_that_has_ended_is_forgotten(site: Site) -> None:
    site.prolog(42)
    site.process(10, 42)
    site.devices[0].clients = {10: 5000.0}
    site.look(3)
    site.devices[0].clients = {}
    site.look(30)
    assert site.stored(42).peak_mib == 5000
    site.epilog(42)
    site.look()
    assert counters.read(str(site.jobs), 42, 0) is None
    assert not Path(counters.path(str(site.jobs), 42)).exists()
    site.devices[0].clients = {10: 100.0}
    site.look(2)
    assert site.stored(42).peak_mib == 100


def test_a_process_over_its_jobs_allotment(tmp_path: Path) -> None:
    site = Site(tmp_path, over_allotment="end")
    site.prolog(42, cap_mib=4000)
    site.prolog(43, allotment_mib=9000)
    site.process(10, 42)
    site.process(20, 43)
    site.devices[0].clients = {10: 4500.0, 20: 8000.0}
    (notice,) = site.look(LOOKS)
    assert (notice.job, notice.pid) == (42, 10)
    assert site.stored(42).evidence == (
        "rad-monitor: job 42 uses 4500 MiB of GPU memory, 4000 MiB allotted: process 10 (4500 MiB) was ended"
    )
    job, other = site.job(42), site.job(43)
    assert job is not None and (job.over, job.cap_mib) == (1, 4000.0)
    assert other is not None and (other.over, other.cap_mib) == (0, 9000.0)


def test_nothing_is_done_by_a_list_that_may_be_old(tmp_path: Path) -> None:
    site = Site(tmp_path, over_allotment="end")
    for job, pid in ((42, 10), (43, 20)):
        site.prolog(job, cap_mib=4000)
        site.process(pid, job)
    site.devices[0].clients = {10: 4500.0, 20: 3000.0}
    assert site.look() == []
    # It gives back what another takes, so that the GPU's memory in use stays the same.
    site.devices[0].clients = {10: 3000.0, 20: 4500.0}
    assert [notice.job for notice in site.look(LOOKS + 1)] == [43]


def test_a_folder_that_cannot_be_written_is_said_once(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.jobs.write_text("a file")
    site.process(10, 42)
    site.devices[0].clients = {10: 5000.0}
    site.look(5)
    assert len([r for r in caplog.records if "not kept for Epilog" in r.message]) == 1
    site.jobs.unlink()
    site.look(3)
    assert site.stored(42).peak_mib == 5000


def test_who_else_counts_after_a_driver_was_gone(site: Site) -> None:
    site.process(10, 42)
    site.devices[0].clients = {10: 1000.0}
    site.look(3)
    site.nvml.no_driver = True
    with pytest.raises(BackendError):
        site.look()
    site.nvml.no_driver = False
    site.sampler.replace_backend(NvmlBackend(gpm=True, nvml=site.nvml, clock=lambda: site.now))
    site.look(2)
    job = site.job(42)
    assert job is not None and job.peak_mib == 1000.0


def test_a_driver_that_hangs_shows_nothing_old(site: Site) -> None:
    clock = [1000.0]
    backend = NvmlBackend(gpm=True, nvml=site.nvml, clock=lambda: site.now)
    site.sampler = Sampler(site.config, backend, str(site.proc), lambda: clock[0])
    site.process(10, 42)
    site.devices[0].clients = {10: 1000.0}
    site.look(3)
    for age, shown in ((site.config.monitor.stale_s, 1), (site.config.monitor.stale_s + 1, 0), (-3600, 0)):
        clock[0] = 1000.0 + age
        view = site.sampler.view()
        assert (len(view.gpus), len(view.jobs), view.looks, view.taken) == (2 * shown, shown, 3, 1000.0)


def test_a_users_word_counts_for_his_own_jobs(site: Site) -> None:
    folder = site.proc / "10"
    folder.mkdir(parents=True)
    (folder / "cgroup").write_text("0::/\n")
    (folder / "environ").write_bytes(b"SLURM_JOB_ID=42\0")
    owner = folder.stat().st_uid
    site.prolog(42)
    (site.jobs / "42.json").write_text(json.dumps({"restart": 0, "uid": owner + 1}))
    site.devices[0].clients = {10: 1000.0}
    site.look(4)
    assert site.job(42) is None
    (site.jobs / "42.json").write_text(json.dumps({"restart": 0, "uid": owner}))
    site.look(4)
    assert site.job(42) is not None


def test_windows() -> None:
    window = Window(3.0)
    assert (window.seconds, window.means()) == (0.0, {})
    window.add(1.0, 1.0, {"a": 1.0})
    window.add(4.0, 3.0, {"a": 0.5, "b": 2.0})
    assert (window.seconds, window.means()) == (3.0, {"a": 0.5, "b": 2.0})
    window.drop(7.0)
    assert (window.seconds, window.means()) == (0.0, {})


def _eventful(site: Site, monkeypatch: pytest.MonkeyPatch, step_s: float) -> dict[int, tuple[Any, ...]]:
    """Four jobs that come, grow and go on two GPUs, divided among them `step_s` apart; what the records got."""
    monkeypatch.setattr(module, "_JOBS_S", step_s)
    monkeypatch.setattr(module, "_YOUNG_S", 0.0)
    monkeypatch.setattr(module, "_NEW_S", 0.0)
    site.start()
    chance = random.Random(7)
    for pid, job in ((10, 42), (11, 42), (20, 43), (30, 44), (40, 45)):
        site.process(pid, job)
    one, two = site.devices
    grown = {0: (one, {10: 1000.0}), 13: (one, {20: 500.0}), 27: (two, {11: 100.0, 30: 70.0}), 35: (one, {10: 1500.0})}
    for job in (42, 43, 44, 45):
        site.prolog(job)
    for second in range(90):
        if second in grown:
            grown[second][0].clients.update(grown[second][1])
        if second == 41:
            del one.clients[20]
        if second == 58:
            two.clients = {40: 7.0}
        if second == 73:
            two.clients = {}
        for device in site.devices:
            device.percent = {"smact": chance.uniform(0, 100), "smocc": 30.0}
            if second % 3:
                device.percent["dram"] = chance.uniform(0, 50)
        site.look(1, (chance.uniform(100, 700), chance.uniform(100, 700)))
    one.clients.clear()
    site.look()
    found = {}
    for job in (42, 43, 44, 45):
        stored = site.stored(job)
        found[job] = (*(getattr(stored, name) for name in COUNTED), sorted(stored.neighbours))
    return found


COUNTED = ("seconds", "peak_mib", "energy_j", *(f"{key}_{what}" for key in counters.SERIES for what in ("mean", "p95")))


def test_dividing_several_looks_at_once_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sites = [Site(tmp_path / name) for name in ("each", "several")]
    each, several = _eventful(sites[0], monkeypatch, 0.0), _eventful(sites[1], monkeypatch, 5.0)
    for job, values in each.items():
        assert several[job][:-1] == pytest.approx(values[:-1]), job
        assert several[job][-1] == values[-1]
    assert each[42][0] == 89.0


def test_it_is_done_seldom_where_nothing_changes(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[int]] = []
    site.process(10, 42)
    site.devices[0].clients = {10: 1000.0}
    site.look(75)
    through = site.sampler.processes.jobs

    def spy(pids: Iterable[int]) -> dict[int, int | None]:
        asked.append(list(pids))
        return through(asked[-1])

    monkeypatch.setattr(site.sampler.processes, "jobs", spy)
    site.look(20)
    assert len(asked) == 7  # a quarter of the window apart
    site.process(20, 43)
    site.devices[0].clients[20] = 1.0
    site.look(5)
    assert len(asked) == 12
    assert site.job(43) is not None
