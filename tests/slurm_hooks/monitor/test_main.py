"""rad-monitor as a process, and its loop when the driver comes and goes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts.bench.monitor import FirstGpus, Task, extrapolated, look_on, measure, stand_in
from scripts.bench.standin_nvml import Device, StandInNvml
from slurm_hooks.config import Config, Monitor, Node
from slurm_hooks.monitor import main as module
from slurm_hooks.monitor.client import Measured, read
from slurm_hooks.monitor.guard import Notice
from slurm_hooks.monitor.main import Daemon, main, serve
from slurm_hooks.monitor.metrics import Backend, BackendError
from slurm_hooks.monitor.nvml import NvmlBackend
from slurm_hooks.node import mps
from slurm_hooks.node.kept import Kept

ROOT = Path(__file__).parents[3]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def page(port: int, process: subprocess.Popen[str]) -> str:
    deadline = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)


def test_a_node_on_which_nothing_counts_serves_an_empty_page(tmp_path: Path) -> None:
    port, config = free_port(), tmp_path / "rad.toml"
    config.write_text(
        f"[monitor]\nport = {port}\ndcgmi = '/nowhere'\nbackend = 'dcgm'\ninterval_s = 0.1\n"
        f"[node]\nstate_dir = '{tmp_path}/jobs'\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "slurm_hooks.monitor.main", "--config", str(config)],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert 'rad_monitor_info{backend="none"} 1' in page(port, process)
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert said.count("no GPU is measured") == 1
    assert "rad-monitor stops" in said


def config(tmp_path: Path, **settings: object) -> Config:
    monitor = Monitor(**{"interval_s": 0.1, "port": 0, **settings})  # type: ignore[arg-type]
    return Config(monitor=monitor, node=Node(state_dir=f"{tmp_path}/jobs"))


def test_a_driver_that_comes_and_goes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    nvml = StandInNvml(Device("GPU-a", 0))
    nvml.no_driver = True
    daemon = Daemon(config(tmp_path), lambda: NvmlBackend(gpm=True, nvml=nvml), retry_s=0.0)
    for _ in range(3):
        assert daemon.once() == []
    assert caplog.text.count("no GPU is measured") == 1
    assert daemon.sampler.view().backend == "none"
    nvml.no_driver = False
    daemon.once()
    assert daemon.sampler.view().backend == "gpm"
    assert len(daemon.sampler.view().gpus) == 1
    nvml.no_driver = True
    for _ in range(2):
        daemon.once()
    assert (daemon.sampler.view().backend, daemon.sampler.view().gpus) == ("none", ())
    assert "the driver is gone; tried again every" in caplog.text
    nvml.no_driver = False
    daemon.once()
    assert daemon.sampler.view().backend == "gpm"
    daemon.close()


def test_a_backend_is_not_tried_at_every_look(tmp_path: Path) -> None:
    tries: list[int] = []

    def fail() -> Backend:
        tries.append(1)
        raise BackendError("no")

    daemon = Daemon(config(tmp_path), fail, retry_s=1000.0)
    for _ in range(5):
        daemon.once()
    assert len(tries) == 1


def test_notices_are_acted_on_while_the_looks_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    acted: list[Notice] = []
    taken: list[tuple[object, ...]] = []

    def act(notice: Notice, job_of: Callable[[int], int | None], disconnect: Callable[[int, int], object]) -> None:
        disconnect(notice.job, 10)
        acted.append(notice)

    monkeypatch.setattr(module, "act", act)
    monkeypatch.setattr(mps, "disconnect", lambda *asked: taken.append(asked))

    async def run() -> int:
        daemon = Daemon(config(tmp_path), lambda: NvmlBackend(gpm=True, nvml=StandInNvml(Device("GPU-a", 0))))
        looks = [0]

        def once() -> list[Notice]:
            looks[0] += 1
            return [Notice(looks[0], "over")]

        daemon.once = once  # type: ignore[method-assign]
        task = asyncio.create_task(daemon.run())
        while len(acted) < 3:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return looks[0]

    assert asyncio.run(run()) >= 3
    assert [notice.job for notice in acted[:3]] == [1, 2, 3]
    assert taken[:3] == [(config(tmp_path).mps, job, 10) for job in (1, 2, 3)]


def test_what_hangs_for_a_job_is_not_done_again_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    acted: list[int] = []
    answers = threading.Event()

    def act(notice: Notice, *_: object) -> None:
        acted.append(notice.job)
        if notice.job == 7:
            answers.wait()

    monkeypatch.setattr(module, "act", act)

    async def run() -> None:
        daemon = Daemon(config(tmp_path), lambda: NvmlBackend(gpm=True, nvml=StandInNvml(Device("GPU-a", 0))))
        daemon.once = lambda: [Notice(7, "over"), Notice(8, "over")]  # type: ignore[method-assign]
        task = asyncio.create_task(daemon.run())
        try:
            while acted.count(8) < 3:
                await asyncio.sleep(0.01)
            assert acted.count(7) == 1
            answers.set()
            while acted.count(7) < 2:
                await asyncio.sleep(0.01)
        finally:
            answers.set()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def test_what_it_costs_can_be_measured(tmp_path: Path) -> None:
    result = asyncio.run(measure(config(tmp_path), stand_in(2, [os.getpid()]), 0.0, 0.3))
    assert (result["gpus"], result["jobs"]) == (2, 0)
    assert result["looks"] >= 2 and result["core_percent"] >= 0


def test_old_jobs_are_what_is_measured() -> None:
    result = look_on(Task("stand-in", 2, (os.getpid(),), 0.0, 0.3))
    assert (result["backend"], result["gpus"], result["peak_mib"] > 1) == ("stand-in", 2, True)


def test_a_part_of_the_gpus_is_shown() -> None:
    nvml = FirstGpus(StandInNvml(*(Device(f"GPU-{place}", place) for place in range(3))), 2)
    assert [reading.uuid for reading in NvmlBackend(gpm=False, nvml=nvml).read()] == ["GPU-0", "GPU-1"]


def test_what_eight_gpus_would_cost() -> None:
    costs = [{"gpus": count, "core_percent": 0.1 + 0.02 * count} for count in (4, 1, 2)]
    assert extrapolated(costs) == {"core_percent_a_gpu": 0.02, "core_percent_at_8_gpus": 0.26}


def test_wrong_settings_and_a_port_that_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "rad.toml"
    path.write_text("[monitor]\nport = 0\n")
    result = CliRunner().invoke(main, ["--config", str(path)])
    assert result.exit_code == 1 and "[monitor] port: 0 must lie between 1 and 65535" in result.output
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        path.write_text(f'[monitor]\nport = {one.getsockname()[1]}\n[node]\nstate_dir = "{tmp_path}/jobs"\n')
        result = CliRunner().invoke(main, ["--config", str(path)])
    assert result.exit_code == 1 and "see [monitor] listen and port" in result.output


def test_it_goes_by_the_last_configuration_that_could_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept, path = Kept(f"{tmp_path}/kept"), tmp_path / "rad.toml"
    kept.keep(b"[monitor]\nport = 4711\n")
    monkeypatch.setenv("RAD_KEPT", kept.path)
    served: list[Config] = []

    async def serve(config: Config, daemon: Daemon) -> None:
        served.append(config)

    monkeypatch.setattr(module, "serve", serve)
    path.write_text("[monitor]\nport = 0\n")
    assert CliRunner().invoke(main, ["--config", str(path)]).exit_code == 0
    assert [config.monitor.port for config in served] == [4711]
    assert f"this node goes on with {kept.copy} of " in caplog.text
    path.unlink()
    assert CliRunner().invoke(main, ["--config", str(path)]).exit_code == 1


def test_it_serves_what_it_sees_until_it_is_told_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "n1.site.example")
    port = free_port()
    settings = config(tmp_path, port=port)
    daemon = Daemon(settings, lambda: stand_in(2, []))

    async def run() -> Measured:
        serving = asyncio.create_task(serve(settings, daemon))
        where = replace(settings.monitor, source="monitors", url=f"http://127.0.0.1:{port}")
        while not (seen := (await read(where, ["n1"]))[0]).gpus:
            assert not serving.done()
            await asyncio.sleep(0.02)
        with await asyncio.to_thread(urllib.request.urlopen, f"http://127.0.0.1:{port}/metrics") as page:
            assert b'Hostname="n1"' in page.read(), "Slurm's name of the node"
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(serving, 20)
        return seen

    seen = asyncio.run(run())
    assert set(seen.gpus) == {("n1", 0), ("n1", 1)}
    assert daemon.sampler.view().backend == "none", "the backend was given back"


def test_a_loop_that_breaks_ends_the_process(tmp_path: Path) -> None:
    daemon = Daemon(config(tmp_path, listen=""), lambda: stand_in(1, []))

    def broken() -> list[Notice]:
        raise ZeroDivisionError

    daemon.once = broken  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        asyncio.run(serve(config(tmp_path, listen=""), daemon))
