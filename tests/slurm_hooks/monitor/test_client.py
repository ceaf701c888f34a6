"""radd's reading of monitors: right numbers, and endpoints that are slow, huge, wrong or not there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from slurm_hooks.cluster import ClusterView, Gpu, Node, Resident, with_smact
from slurm_hooks.config import Monitor
from slurm_hooks.monitor import client
from slurm_hooks.monitor.client import Measured, Reader, measured, parse_page, parse_query, read

PAGE = """\
# TYPE rad_gpu_sm_active_mean gauge
rad_gpu_sm_active_mean{gpu="0",UUID="GPU-a",modelName="NVIDIA {H200} \\"x\\"",Hostname="liar"} 0.5
rad_gpu_sm_active_mean{gpu="1",UUID="GPU-b",Hostname="liar"} 7
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",Hostname="liar"} 1500.5
DCGM_FI_DEV_FB_USED{gpu="1",UUID="GPU-b",Hostname="liar"} -1
DCGM_FI_DEV_FB_USED{gpu="2",UUID="GPU-c",Hostname="liar"} 1e300
DCGM_FI_DEV_FB_USED{UUID="GPU-b",Hostname="liar"} 5
rad_job_sm_active{hpc_job="42",gpu="0",UUID="GPU-a",Hostname="liar"} 0.25
rad_job_sm_active{hpc_job="42",gpu="1",UUID="GPU-b",Hostname="liar"} 0.75
rad_job_sm_active{hpc_job="43",gpu="0",UUID="GPU-a",Hostname="liar"} 0.1
rad_job_sm_active{hpc_job="44",gpu="0",UUID="GPU-a",Hostname="liar"} NaN
rad_job_sm_active{hpc_job="45",gpu="0",UUID="GPU-a",Hostname="liar"} -0.5
rad_job_window_seconds{hpc_job="42",gpu="0",UUID="GPU-a",Hostname="liar"} 90
rad_job_window_seconds{hpc_job="42",gpu="1",UUID="GPU-b",Hostname="liar"} 85.5
rad_job_window_seconds{hpc_job="43",gpu="0",UUID="GPU-a",Hostname="liar"} 30
rad_job_window_seconds{hpc_job="45",gpu="0",UUID="GPU-a",Hostname="liar"} 90
rad_job_sm_active_of_another{hpc_job="46"} 0.5
rad_job_sm_active{hpc_job="x",gpu="0"} 0.5
rad_job_sm_active{hpc_job="99999999999999999999"} 0.5
rad_job_sm_active{hpc_job="47" 0.5
rad_job_sm_active 0.5
"""


def test_a_page() -> None:
    found = measured([("node1", sample) for sample in parse_page(PAGE)], 90.0)
    assert found.gpus == {("node1", 0): 0.5}
    assert found.memory_mib == {("node1", 0): 1500.5}
    assert found.jobs == {42: 0.5}, "the mean of its GPUs; young jobs and wrong numbers do not count"


@pytest.mark.parametrize(
    "line",
    [
        f'rad_gpu_sm_active_mean{{gpu="{"0" * 3000}"}} 0.5',
        f'rad_gpu_sm_active_mean{{gpu="0",modelName="{"x" * client.MAX_LINE}"}} 0.5',
        'rad_gpu_sm_active_mean{aaaaaaaa gpu="0"} 0.5',
        'rad_gpu_sm_active_mean{gpu="0",""} 0.5',
    ],
    ids=["digits", "long", "words before a label", "no label"],
)
def test_a_line_that_no_monitor_writes_is_passed_over(line: str) -> None:
    # Where the pattern for labels may begin anywhere, a line of a megabyte keeps radd busy for hours, and nobody else
    # in it runs meanwhile.
    good = 'rad_gpu_sm_active_mean{gpu="1",} 0.25'
    samples = [("node1", sample) for sample in parse_page(f"{line}\n{good}\n")]
    assert measured(samples, 90.0) == Measured({("node1", 1): 0.25})


@pytest.mark.parametrize("digits", [4000, 5000])
def test_a_number_of_thousands_of_digits_spoils_nobodys_measurements(digits: int) -> None:
    labels = {"gpu": "0" * digits, "hpc_job": "0" * digits, "Hostname": "node1"}
    text = query(("rad_gpu_sm_active_mean", labels, "0.5"), ("rad_gpu_sm_active_mean", labels | {"gpu": "1"}, "0.25"))
    assert measured([("", s) for s in parse_query(text)], 90.0) == Measured({("node1", 1): 0.25})


def query(*samples: tuple[str, dict[str, str], Any]) -> str:
    result = [{"metric": {"__name__": name, **labels}, "value": [1.0, value]} for name, labels, value in samples]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})


def test_an_answer_of_prometheus() -> None:
    labels = {"hpc_job": "42", "gpu": "0", "UUID": "GPU-a", "Hostname": "node1"}
    text = query(
        ("rad_job_sm_active", labels, "0.5"),
        ("rad_job_window_seconds", labels, "90"),
        ("rad_gpu_sm_active_mean", {"gpu": "2", "Hostname": "node1"}, "0.25"),
        ("up", {}, "1"),
        ("rad_job_sm_active", labels | {"hpc_job": "43"}, 5),
        ("rad_job_sm_active", labels | {"hpc_job": "44"}, "x"),
    )
    assert measured([("", s) for s in parse_query(text)], 90.0) == Measured({("node1", 2): 0.25}, {42: 0.5})


@pytest.mark.parametrize(
    "text",
    ["", "[]", "<html>", '{"status":"error"}', '{"status":"success","data":[]}', '{"status":"success"}', "[" * 100_000],
)
def test_what_is_no_answer_of_prometheus(text: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        parse_query(text)


@pytest.mark.parametrize(
    "result", [5, None, [5], [{}], [{"metric": {}, "value": [1]}], [{"metric": 1, "value": [1, "2"]}]]
)
def test_results_of_another_kind(result: object) -> None:
    assert parse_query(json.dumps({"status": "success", "data": {"result": result}})) == []


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def reading(serve: Serve | None, settings: Monitor, nodes: list[str]) -> tuple[Measured, list[str], float]:
    async def run() -> tuple[Measured, list[str], float]:
        server = await asyncio.start_server(serve or (lambda *_: asyncio.sleep(0)), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        if serve is None:
            server.close()
            await server.wait_closed()
        begin = time.monotonic()
        asked = replace(
            settings, url=f"http://127.0.0.1:{port}/{{node}}/", prometheus_url=f"http://127.0.0.1:{port}/p/"
        )
        found, problems = await read(asked, nodes)
        took = time.monotonic() - begin
        server.close()
        return found, [problem.replace(str(port), "PORT") for problem in problems], took

    return asyncio.run(run())


MONITORS = Monitor(source="monitors", read_timeout_s=5.0)


def test_many_monitors_are_read_at_once() -> None:
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b" ")[1])
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + PAGE.encode())
        writer.close()

    found, problems, _ = reading(serve, MONITORS, [f"n{i}" for i in range(200)] + ["bad/../name"])
    assert sorted(asked) == sorted(f"/n{i}/metrics".encode() for i in range(200))
    assert problems == []
    assert len(found.gpus) == 200 and found.gpus["n199", 0] == 0.5 and found.jobs == {42: 0.5}


def test_a_prometheus_server() -> None:
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        text = query(("rad_gpu_sm_active_mean", {"gpu": "2", "Hostname": "n"}, "0.25"))
        writer.write(b"HTTP/1.0 200 OK\r\nX: y\r\n\r\n" + text.encode())
        writer.close()

    found, problems, _ = reading(serve, replace(MONITORS, source="prometheus"), ["n1", "n2"])
    assert (found.gpus, problems) == ({("n", 2): 0.25}, [])
    assert len(asked) == 1 and asked[0].startswith(b"GET /p/api/v1/query?query=%7B__name__%3D~%22rad_gpu")


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await reader.read()
    finally:
        writer.transport.abort()


async def _trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, chunk: bytes = b"x") -> None:
    try:
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(chunk)
                await writer.drain()
                await asyncio.sleep(0.01)
    finally:
        writer.transport.abort()


async def _flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await _trickle(reader, writer, b"x" * 1_000_000)


def _answer(data: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        writer.close()

    return serve


@pytest.mark.parametrize(
    ("serve", "timeout_s", "problem"),
    [
        (_silent, 0.2, "no answer within 0.2 s"),
        (_trickle, 0.2, "no answer within 0.2 s"),
        (_flood, 5.0, "more than 1 MiB"),
        (_answer(b""), 5.0, "answered b''"),
        (_answer(b"SSH-2.0-OpenSSH\r\n"), 5.0, "answered b'SSH-2.0-OpenSSH"),
        (_answer(b"HTTP/1.1 500 Oops\r\n\r\n"), 5.0, "answered b'HTTP/1.1 500 Oops'"),
        (None, 5.0, "Connect call failed"),
    ],
)
def test_endpoints_that_misbehave(
    monkeypatch: pytest.MonkeyPatch, serve: Serve | None, timeout_s: float, problem: str
) -> None:
    monkeypatch.setattr(client, "MAX_BYTES", 1 << 20)
    found, problems, took = reading(serve, replace(MONITORS, read_timeout_s=timeout_s), ["n1"])
    assert found == Measured()
    assert (
        len(problems) == 1 and problem in problems[0] and problems[0].startswith("http://127.0.0.1:PORT/n1/metrics: ")
    )
    assert took < 4.0


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://", "nonsense", "http://x:99999", "http://[::1"])
def test_addresses_that_are_none(url: str) -> None:
    found, problems = asyncio.run(read(replace(MONITORS, url=url), ["n1"]))
    assert found == Measured() and len(problems) == 1


def test_a_reader_remembers_for_a_while(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    answers = [
        (Measured({}, {1: 0.5}), []),
        (Measured(), ["n1: no answer"]),
        (Measured(), ["n1: no answer"]),
        (Measured({}, {1: 0.25}), ["n2: no answer"]),
        (Measured(), []),
    ]

    async def answer(settings: Monitor, nodes: list[str]) -> tuple[Measured, list[str]]:
        return answers.pop(0)

    monkeypatch.setattr(client, "read", answer)
    made = Reader(replace(MONITORS, stale_s=60.0), lambda: ["n1"], lambda: now[0])
    assert made.latest() == Measured()
    seen = []
    for now[0] in (10.0, 40.0, 71.0, 80.0, 90.0):
        made.once(["n1"])
        seen.append(dict(made.latest().jobs))
    assert seen == [{1: 0.5}, {1: 0.5}, {}, {1: 0.25}, {}]
    assert [record.message for record in caplog.records] == [
        "not measured: n1: no answer",
        "not measured: n2: no answer",
    ]


def test_the_reader_runs_until_cancelled_or_where_nobody_is_asked_not_at_all(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> list[tuple[str, ...]]:
        asked: list[tuple[str, ...]] = []
        await Reader(Monitor(), lambda: []).run()
        made = Reader(replace(MONITORS, read_s=0.01), lambda: ["bad/name"])

        def once(nodes: Sequence[str]) -> None:
            asked.append(tuple(nodes))
            raise ZeroDivisionError

        made.once = once  # type: ignore[method-assign]
        task = asyncio.create_task(made.run())
        while len(asked) < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return asked

    assert asyncio.run(run()) == [("bad/name",)] * 2
    assert "monitors cannot be read" in caplog.text


def test_nobody_is_asked() -> None:
    assert asyncio.run(read(Monitor(), ["n1"])) == (Measured(), [])


def test_what_is_measured_takes_the_place_of_what_was_declared() -> None:
    gpu = Gpu("n1", "g0", 60, (Resident(42, "a", 30, smact=0.9), Resident(43, "b", 30), Resident(0, "c", 5, smact=0.1)))
    node = Node("n1", True, frozenset({"gpu"}), frozenset(), 8, 1000, (gpu, Gpu("n1", "g1", 0)))
    view = with_smact(ClusterView(5.0, (node,), {"gpu": 1}), {42: 0.25, 77: 0.5})
    assert [r.smact for r in view.nodes[0].gpus[0].residents] == [0.25, None, 0.1]
    assert (view.taken, view.waiting, view.nodes[0].gpus[1]) == (5.0, {"gpu": 1}, Gpu("n1", "g1", 0))
    assert with_smact(view, {}) is view
