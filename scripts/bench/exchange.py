"""One exchange with radd's socket, beside the same answers given otherwise; no decision, no Slurm.

The least that any Python process takes is what a loop of receive and send takes, which can serve one client alone.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from scripts.bench.common import Table, percentile
from slurm_hooks.config import Radd
from slurm_hooks.radd import protocol
from slurm_hooks.radd.server import Server

REQUEST = protocol.encode({"script": "#RAD memory=12G\n" + "x" * 12_000})
ANSWER = protocol.encode({"status": "pass"})
PAUSE_S = 0.02  # radd sleeps between two submits
ROUNDS = 5


def run(count: int) -> Table:
    """Measure, in turn."""
    with tempfile.TemporaryDirectory(prefix="rad-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        kinds: dict[str, tuple[Callable[[str], None], bool]] = {
            "a loop of receive and send": (_bare, True),
            "radd's server": (_ours, True),
            "radd's server, each time a new connection": (_ours, False),
            "asyncio's streams, each time a new connection": (_streams, False),
        }
        paths = {kind: f"{folder}/{number}.sock" for number, kind in enumerate(kinds)}
        servers = [multiprocessing.Process(target=serve, args=(paths[kind],)) for kind, (serve, _) in kinds.items()]
        try:
            for server in servers:
                server.start()
            took: dict[str, list[float]] = {kind: [] for kind in kinds}
            for kind in kinds:
                _until_there(paths[kind])
            for _ in range(ROUNDS):
                for kind, path in paths.items():
                    took[kind] += _exchanges(path, count // ROUNDS, keep=kinds[kind][1])
        finally:
            for server in servers:
                server.terminate()
                server.join()
    rows = [
        [kind, str(len(values)), *(f"{percentile(values, p):.0f}" for p in (50, 95, 99))]
        for kind, values in took.items()
    ]
    return Table("One exchange, in microseconds", ("server", "n", "p50", "p95", "p99"), rows)


def _exchanges(path: str, count: int, *, keep: bool) -> list[float]:
    """Microseconds of each, over one connection or each over its own."""
    if not keep:
        return [took for _ in range(count) for took in _exchanges(path, 1, keep=True)]
    took: list[float] = []
    time.sleep(PAUSE_S)
    begin = time.perf_counter()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        for _ in range(count):
            if took:
                time.sleep(PAUSE_S)
                begin = time.perf_counter()
            client.sendall(REQUEST)
            got = b""
            while len(got) < len(ANSWER):
                got += client.recv(4096)
            took.append((time.perf_counter() - begin) * 1e6)
    return took


def _until_there(path: str) -> None:
    end = time.monotonic() + 30
    while True:
        try:
            _exchanges(path, 1, keep=True)
        except OSError:
            if time.monotonic() > end:
                raise
        else:
            return


def _bare(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        while True:
            peer, _ = listener.accept()
            with peer:
                data = b""
                while more := peer.recv(65536):
                    data += more
                    if len(data) == len(REQUEST):
                        peer.sendall(ANSWER)
                        data = b""


def _ours(path: str) -> None:
    server = Server(replace(Radd(), socket=path, slurm_user="root"), lambda _: {"status": "pass"})
    server.start()
    server.serve()


def _streams(path: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def exchange() -> None:
            length = protocol.body_length(await reader.readuntil(b"\n"), 1 << 20)
            protocol.decode(await reader.readexactly(length))
            writer.write(ANSWER)
            await writer.drain()

        await asyncio.wait_for(exchange(), 5)
        writer.close()
        await writer.wait_closed()

    async def serve() -> None:
        async with await asyncio.start_unix_server(answer, path) as server:
            await server.serve_forever()

    asyncio.run(serve())
