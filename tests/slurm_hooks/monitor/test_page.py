"""The page for Prometheus: its text, and readers who misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable

import pytest

from slurm_hooks.config import Monitor
from slurm_hooks.monitor.client import parse_page
from slurm_hooks.monitor.prometheus import render
from slurm_hooks.monitor.server import Page
from slurm_hooks.monitor.views import GpuView, JobGpuView, JobView, View

GPUS = (
    GpuView(0, "GPU-a", 'NVIDIA "H200"\n\\', False, {"smact": 0.9, "energy_mj": 2.0**40}, {"smact": 0.5}, 2, 1),
    GpuView(1, "GPU-b", "NVIDIA H200", True, {}, {}, None, 0),
)
JOBS = (
    JobView(
        42,
        (JobGpuView(0, "GPU-a", {"smact": 0.25, "power_w": 123.4}, 90.0, 1500.0, 2),),
        2000.0,
        4000.0,
        99.5,
        91.0,
        1,
    ),
    JobView(43, (JobGpuView(1, "GPU-b", {}, 0.0, 10.0, 1),), None, None, None, 0.0, 0),
)
VIEW = View("gpm", GPUS, JOBS, 7, 1_790_000_000.5)
SAMPLE = re.compile(
    r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*"(,[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*")*\})? '
    r"-?\d+(\.\d+)?(e[+-]?\d+)?"
)


def test_every_line_is_prometheus_text() -> None:
    lines = render(VIEW, 'node"1').splitlines()
    for line in lines:
        assert SAMPLE.fullmatch(line) or re.fullmatch(r"# (HELP|TYPE) [a-zA-Z_:]\w* .+", line), line
    typed = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(typed) == len(set(typed)), "a metric stands in one place"


def test_what_stands_on_it() -> None:
    text = render(VIEW, "node07")
    labels = 'gpu="0",UUID="GPU-a",device="nvidia0",modelName="NVIDIA \\"H200\\"?\\\\",Hostname="node07"'
    assert f"DCGM_FI_PROF_SM_ACTIVE{{{labels}}} 0.9\n" in text
    assert f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{labels}}} 1099511627776\n" in text
    assert f"rad_gpu_sm_active_mean{{{labels}}} 0.5\n" in text
    assert "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n" in text
    assert "DCGM_FI_PROF_SM_OCCUPANCY" not in text, "nobody has it"
    job = 'hpc_job="42",gpu="0",UUID="GPU-a",Hostname="node07"'
    assert f"rad_job_sm_active{{{job}}} 0.25\n" in text
    assert f"rad_job_power_watts{{{job}}} 123.4\n" in text
    assert f"rad_job_memory_used_bytes{{{job}}} {1500 * 2**20}\n" in text
    whole = 'hpc_job="42",Hostname="node07"'
    assert f"rad_job_memory_cap_bytes{{{whole}}} {4000 * 2**20}\n" in text
    assert f"rad_job_energy_joules_total{{{whole}}} 99.5\n" in text
    assert f"rad_job_over_cap_total{{{whole}}} 1\n" in text
    assert 'rad_job_energy_joules_total{hpc_job="43"' not in text
    assert 'rad_gpu_lost{gpu="1"' in text and 'rad_gpu_processes{gpu="1"' not in text
    assert 'rad_monitor_info{backend="gpm"} 1\n' in text and "rad_monitor_looks_total 7\n" in text
    assert "rad_monitor_last_look_timestamp_seconds 1790000000\n" in text


def test_our_own_reader_reads_it() -> None:
    names = {(name, labels.get("hpc_job"), value) for name, labels, value in parse_page(render(VIEW, "n"))}
    assert names == {
        ("rad_gpu_sm_active_mean", None, 0.5),
        ("rad_job_sm_active", "42", 0.25),
        ("rad_job_window_seconds", "42", 90.0),
        ("rad_job_window_seconds", "43", 0.0),
    }


def with_page(
    talk: Callable[[int], Awaitable[bytes]], text: str = "rad 1\n", connections: int = 16, timeout_s: float = 5.0
) -> bytes:
    async def run() -> bytes:
        settings = Monitor(port=0, max_connections=connections)
        server = await Page(settings, lambda: text, timeout_s).start()
        async with server:
            return await asyncio.wait_for(talk(server.sockets[0].getsockname()[1]), 20)

    return asyncio.run(run())


async def ask(port: int, request: bytes, *, half: bool = False) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    if half:
        writer.write_eof()
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"200 OK"),
        (b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", b"200 OK"),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", b"200 OK"),
        (b"GET / HTTP/1.1\r\n\r\n", b"404 Not Found"),
        (b"GET /metrics/../../etc/passwd HTTP/1.1\r\n\r\n", b"404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405 Method Not Allowed"),
        (b"\xff\x00\r\n\r\n", b"405 Method Not Allowed"),
    ],
)
def test_answers(request_: bytes, answer: bytes) -> None:
    got = with_page(lambda port: ask(port, request_))
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + answer)
    if answer == b"200 OK":
        assert b"Content-Length: 6\r\n" in head
        assert body == (b"" if request_.startswith(b"HEAD") else b"rad 1\n")


def test_a_request_without_end_is_dropped() -> None:
    assert with_page(lambda port: ask(port, b"GET /metrics HTTP/1.1\r\n", half=True)) == b""
    assert with_page(lambda port: ask(port, b"G" * 20_000)) == b""
    assert with_page(lambda port: ask(port, b"GET /metrics"), timeout_s=0.1) == b""


def test_who_does_not_read_is_dropped_in_time() -> None:
    async def run() -> None:
        page = Page(Monitor(port=0), lambda: "x" * 30_000_000, 0.3)
        async with await page.start() as server:
            _, lazy = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
            lazy.transport.pause_reading()  # type: ignore[attr-defined]
            lazy.write(b"GET /metrics HTTP/1.0\r\n\r\n")
            while not page._open:
                await asyncio.sleep(0.01)
            while page._open:
                await asyncio.sleep(0.01)
            lazy.transport.abort()

    asyncio.run(asyncio.wait_for(run(), 20))


def test_who_keeps_connections_open_keeps_nobody_out() -> None:
    async def talk(port: int) -> bytes:
        waiting = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
        served = await ask(port, b"GET /metrics HTTP/1.0\r\n\r\n")
        for reader, _ in waiting[:2]:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        waiting[3][1].write(b"GET /none HTTP/1.0\r\n\r\n")
        assert (await waiting[3][0].read()).startswith(b"HTTP/1.1 404")
        for _, writer in waiting:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        return served

    assert with_page(talk, connections=3).startswith(b"HTTP/1.1 200 OK")
