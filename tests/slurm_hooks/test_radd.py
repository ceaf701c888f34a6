"""radd's socket and its background look: garbage, half messages, slow writers, and a Slurm that does not answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_hooks.cluster import ClusterView, Gpu, Node, PinnedJob, Resident
from slurm_hooks.config import Config, Radd, parse
from slurm_hooks.radd import protocol
from slurm_hooks.radd import server as radd_server
from slurm_hooks.radd.main import monitored_nodes
from slurm_hooks.radd.poller import Poller
from slurm_hooks.radd.server import Server
from slurm_hooks.records import Record
from slurm_hooks.service import Service
from slurm_hooks.slurm.commands import SlurmError


def echo(request: bytes) -> Mapping[str, str]:
    fields = protocol.decode(request)
    if "fail" in fields:
        raise RuntimeError("a bug")
    return {"status": "pass", **fields}


@contextlib.contextmanager
def serving(settings: Radd) -> Iterator[Server]:
    server = Server(settings, echo)
    server.start()
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()
        assert server.connections == 0


async def one(reader: asyncio.StreamReader) -> bytes:
    """One answer, or what came of it before the end."""
    head = await reader.readline()
    return head + await reader.readexactly(protocol.body_length(head, 1 << 20)) if head else b""


async def exchange(path: str, data: bytes, *, half: bool = False) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(data)
    if not half:
        writer.write_eof()
    try:
        answer = await asyncio.wait_for(one(reader), 10)
    except ConnectionError:  # the server was done with it while it was still being written
        answer = b""
    await close(writer)
    return answer


async def close(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def with_server(settings: Radd, *messages: bytes, half: bool = False) -> list[bytes]:
    async def talk() -> list[bytes]:
        with serving(settings):
            return [await exchange(settings.socket, message, half=half) for message in messages]

    return asyncio.run(talk())


@pytest.fixture
def settings() -> Iterator[Radd]:
    """Settings with a socket in a folder that everybody may enter; pytest's own may be closed to other users."""
    with tempfile.TemporaryDirectory(prefix="rad-test-radd-") as name:
        Path(name).chmod(0o755)
        yield Radd(socket=f"{name}/radd.sock", slurm_user="nobody")


GOOD = protocol.encode({"script": "#RAD x"})
ANSWER = protocol.encode({"status": "pass", "script": "#RAD x"})


def test_an_answer(settings: Radd) -> None:
    assert with_server(settings, GOOD, GOOD) == [ANSWER, ANSWER]


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00" * 5000,
        b"x" * 100_000,
        b"RAD1 99999999\n",
        b"RAD1 10\nabc",
        b"RAD1 3\nabc",
        GOOD[:-3],
        protocol.encode({"fail": "1"}),
    ],
)
def test_garbage_costs_its_own_connection_only(settings: Radd, garbage: bytes) -> None:
    assert with_server(settings, garbage, GOOD) == [b"", ANSWER]


def test_a_slow_writer_is_dropped(settings: Radd) -> None:
    quick = replace(settings, read_timeout_s=0.1)
    assert with_server(quick, GOOD[:-3], GOOD, half=True) == [b"", ANSWER]


def test_one_connection_carries_many_requests(settings: Radd) -> None:
    async def talk() -> tuple[list[bytes], int]:
        with serving(replace(settings, read_timeout_s=0.1)) as server:
            reader, writer = await asyncio.open_unix_connection(settings.socket)
            answers = []
            for _ in range(3):
                writer.write(GOOD)
                answers.append(await asyncio.wait_for(one(reader), 10))
                await asyncio.sleep(0.15)  # between requests there is more time than within one
            writer.write(GOOD[:-3])
            answers.append(await asyncio.wait_for(one(reader), 10))
            await close(writer)
            return answers, server.connections

    assert asyncio.run(talk()) == ([ANSWER, ANSWER, ANSWER, b""], 0)


def test_a_connection_that_idles_for_long_is_closed(settings: Radd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(radd_server, "_IDLE_S", 0.05)

    async def talk() -> bytes:
        with serving(settings):
            reader, writer = await asyncio.open_unix_connection(settings.socket)
            writer.write(GOOD)
            answer = await one(reader) + await asyncio.wait_for(reader.read(), 10)
            await close(writer)
            return answer

    assert asyncio.run(talk()) == ANSWER


def test_a_connection_that_had_a_long_answer_sleeps_until_the_next_request(
    settings: Radd, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    go_on = radd_server._Connection.go_on

    def counted(connection: radd_server._Connection) -> bool:
        calls.append(connection)
        return go_on(connection)

    monkeypatch.setattr(radd_server._Connection, "go_on", counted)
    long = {"script": "x" * 900_000}

    async def talk() -> tuple[int, bytes]:
        with serving(settings):
            reader, writer = await asyncio.open_unix_connection(settings.socket)
            writer.write(protocol.encode(long))
            await asyncio.wait_for(one(reader), 10)
            before = len(calls)
            await asyncio.sleep(0.05)
            idle = len(calls) - before
            writer.write(GOOD)
            answer = await asyncio.wait_for(one(reader), 10)
            await close(writer)
            return idle, answer

    assert asyncio.run(talk()) == (0, ANSWER)


def test_two_requests_at_once_are_dropped(settings: Radd) -> None:
    assert with_server(settings, GOOD + GOOD, GOOD) == [b"", ANSWER]


def test_an_answer_longer_than_the_sockets_buffer(settings: Radd) -> None:
    long = {"script": "#RAD " + "x" * 900_000}
    assert with_server(settings, protocol.encode(long)) == [protocol.encode({"status": "pass", **long})]


def test_who_does_not_take_the_answer_is_dropped(settings: Radd) -> None:
    long = protocol.encode({"script": "x" * 900_000})

    async def talk() -> int:
        loop = asyncio.get_running_loop()
        with serving(replace(settings, read_timeout_s=0.1)) as server, socket.socket(socket.AF_UNIX) as client:
            client.setblocking(False)
            await loop.sock_connect(client, settings.socket)
            await loop.sock_sendall(client, long)
            assert await exchange(settings.socket, GOOD) == ANSWER
            while server.connections:
                await asyncio.sleep(0.01)
            got = 0
            while data := await loop.sock_recv(client, 100_000):
                got += len(data)
            return got

    assert 0 < asyncio.run(talk()) < len(long)


def test_a_message_in_pieces(settings: Radd) -> None:
    async def talk() -> bytes:
        with serving(settings):
            reader, writer = await asyncio.open_unix_connection(settings.socket)
            for byte in GOOD:
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
            answer = await asyncio.wait_for(one(reader), 10)
            await close(writer)
            return answer

    assert asyncio.run(talk()) == ANSWER


def test_no_file_descriptor_is_left_for_a_moment(
    settings: Radd, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("slurm_hooks.radd.server._PAUSE_S", 0.05)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def talk() -> bytes:
        loop = asyncio.get_running_loop()
        with serving(settings), socket.socket(socket.AF_UNIX) as client:
            client.setblocking(False)
            lowest = os.dup(0)
            os.close(lowest)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
            try:
                await loop.sock_connect(client, settings.socket)
                while "no connection is taken" not in caplog.text:
                    await asyncio.sleep(0)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            await loop.sock_sendall(client, GOOD)
            return await loop.sock_recv(client, 1000)

    assert asyncio.run(asyncio.wait_for(talk(), 10)) == ANSWER


def test_a_connection_of_which_the_kernel_tells_nothing_is_closed_and_others_are_served(
    settings: Radd, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    trusted, asked = radd_server.Server._trusted, []

    def first_fails(server: Server, peer: socket.socket) -> bool:
        asked.append(peer)
        if len(asked) == 1:
            raise OSError("no memory for that")
        return trusted(server, peer)

    monkeypatch.setattr(radd_server.Server, "_trusted", first_fails)
    assert with_server(settings, GOOD, GOOD) == [b"", ANSWER]
    assert "a connection was not taken: no memory for that" in caplog.text


def test_slow_writers_hold_nobody_up(settings: Radd) -> None:
    async def talk() -> bytes:
        with serving(replace(settings, max_connections=5)):
            idle = [await asyncio.open_unix_connection(settings.socket) for _ in range(4)]
            answer = await exchange(settings.socket, GOOD)
            await close(*(writer for _, writer in idle))
            return answer

    assert asyncio.run(talk()) == ANSWER


def test_too_many_connections_are_closed(settings: Radd) -> None:
    async def talk() -> bytes:
        with serving(replace(settings, max_connections=2)):
            idle = [await asyncio.open_unix_connection(settings.socket) for _ in range(2)]
            await exchange(settings.socket, b"")
            answer = await exchange(settings.socket, GOOD)
            await close(*(writer for _, writer in idle))
            return answer

    assert asyncio.run(talk()) == b""


def test_a_stale_socket_is_replaced_and_a_file_is_not(settings: Radd, tmp_path: Path) -> None:
    old = socket.socket(socket.AF_UNIX)
    old.bind(settings.socket)
    old.close()
    assert with_server(settings, GOOD) == [ANSWER]
    file = tmp_path / "file"
    file.write_text("precious")
    with pytest.raises(OSError, match="in use"):
        with_server(replace(settings, socket=str(file)), GOOD)
    assert file.read_text() == "precious"


def test_a_socket_at_which_somebody_listens_is_left_alone(settings: Radd) -> None:
    with serving(settings):
        with pytest.raises(OSError, match="another radd answers there"):
            Server(settings, echo).start()
        assert asyncio.run(exchange(settings.socket, GOOD)) == ANSWER
    assert not Path(settings.socket).exists()


def test_the_socket_of_the_one_that_came_after_stays(settings: Radd) -> None:
    path = Path(settings.socket)
    with serving(settings):
        path.rename(f"{path}.old")
        with serving(settings):
            path.rename(f"{path}.new")
            Path(f"{path}.old").rename(path)
        assert path.exists()
        Path(f"{path}.new").rename(path)
    assert path.exists()


def test_of_two_that_start_at_once_one_ends(settings: Radd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurm_hooks.radd.server._MISSED_S", 0.02)
    first, second = Server(settings, echo), Server(settings, echo)
    ended: list[str] = []

    def start_the_second(*_: object) -> None:
        monkeypatch.setattr("slurm_hooks.radd.server._give_to", lambda *_: None)
        second.start()  # the first has a socket, and does not listen at it yet

    def serve() -> None:
        with pytest.raises(OSError, match="another radd answers there") as error:
            first.serve()
        ended.append(str(error.value))

    monkeypatch.setattr("slurm_hooks.radd.server._give_to", start_the_second)
    first.start()
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    thread.join(20)
    try:
        assert ended
        assert Path(settings.socket).exists()
    finally:
        second.stop()
        second.serve()


def test_a_socket_that_somebody_removed_is_made_anew(
    settings: Radd, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("slurm_hooks.radd.server._MISSED_S", 0.02)
    folder = Path(settings.socket).parent
    away = folder.with_name(f"{folder.name}-away")

    async def said(words: str) -> None:
        while words not in caplog.text:
            await asyncio.sleep(0.01)

    async def talk() -> list[bytes]:
        with serving(settings):
            reader, writer = await asyncio.open_unix_connection(settings.socket)
            folder.rename(away)  # the whole of its folder
            await said("cannot be made anew")
            folder.mkdir(0o755)
            shutil.rmtree(away)
            await said("radd has made it anew")
            Path(settings.socket).unlink()
            caplog.clear()
            await said("radd has made it anew")
            with socket.socket(socket.AF_UNIX) as killed:  # another radd took its place, and is no more
                killed.bind(f"{settings.socket}.new")
            caplog.clear()
            Path(f"{settings.socket}.new").rename(settings.socket)
            await said("radd has made it anew")
            writer.write(GOOD)  # who was connected stays so
            answers = [await one(reader), await exchange(settings.socket, GOOD)]
            await close(writer)
            return answers

    assert asyncio.run(asyncio.wait_for(talk(), 20)) == [ANSWER, ANSWER]
    assert not Path(settings.socket).exists()


def test_only_slurmctlds_user_may_ask(settings: Radd, caplog: pytest.LogCaptureFixture) -> None:
    async def talk() -> tuple[int, str]:
        with serving(settings):
            status = Path(settings.socket).stat()
            program = (
                "import os,socket,sys; os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[3]));"
                "s=socket.socket(socket.AF_UNIX)\n"
                "try: s.connect(sys.argv[1]); s.sendall(b'RAD1 0\\n'); print(s.recv(99))\n"
                "except PermissionError: print('refused')\n"
                "except ConnectionError: print('closed')\n"
            )
            said = []
            for gid, uid in ((54321, 54321), (status.st_gid, 54321), (status.st_gid, 65534)):
                child = await asyncio.create_subprocess_exec(
                    "/usr/bin/python3",
                    "-c",
                    program,
                    settings.socket,
                    str(gid),
                    str(uid),
                    stdout=asyncio.subprocess.PIPE,
                )
                out, _ = await child.communicate()
                said.append(out.decode().strip())
            return stat.S_IMODE(status.st_mode), " ".join(said)

    mode, said = asyncio.run(talk())
    assert mode == 0o660
    first, second, third = said.split()[0], said.split()[1], " ".join(said.split()[2:])
    assert first == "refused"
    assert second in ("b''", "closed")
    assert third == repr(protocol.encode({"status": "pass"}))
    assert "user 54321 may not ask" in caplog.text


def test_a_user_that_does_not_exist(settings: Radd, caplog: pytest.LogCaptureFixture) -> None:
    assert with_server(replace(settings, slurm_user="no-such-user"), GOOD) == [ANSWER]
    assert "no user 'no-such-user'" in caplog.text


class FakeSlurm:
    """A Slurm whose answers a test sets."""

    def __init__(self, *views: ClusterView | Exception) -> None:
        self.views = list(views)
        self.unpinned: list[tuple[int, int | None, bool]] = []
        self.released: list[int] = []
        self.records: dict[int, Record] = {}

    def look(self, partitions: object) -> ClusterView:
        view = self.views.pop(0)
        if isinstance(view, Exception):
            raise view
        return view

    def record(self, job_id: int) -> Record | None:
        return self.records.get(job_id)

    def unpin(self, job_id: int, share: int | None, *, node: bool) -> None:
        if job_id == 9:
            raise SlurmError("scontrol: Access denied")
        self.unpinned.append((job_id, share, node))

    def release(self, job_id: int) -> None:
        if job_id == 9:
            raise SlurmError("scontrol: Access denied")
        self.released.append(job_id)


class Nothing:
    name = "nothing"


CONFIG: Config = parse({"partitions": {"gpu": {}}, "radd": {"unpin_after_s": 60}}, "test")


def poller(slurm: FakeSlurm) -> tuple[Poller, Service]:
    service = Service(CONFIG, Nothing())  # type: ignore[arg-type]
    return Poller(CONFIG, service, slurm), service


def test_a_silent_slurm_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    slurm = FakeSlurm(SlurmError("squeue: no"), SlurmError("squeue: no"), ClusterView(5.0))
    made, service = poller(slurm)
    for _ in range(3):
        made.once()
    assert [r.message for r in caplog.records] == [
        "Slurm does not answer, no job is pinned meanwhile: squeue: no",
        "Slurm answers again",
    ]
    assert service.view.taken == 5.0


def test_pins_that_hold_a_job_up_are_taken_back() -> None:
    pins = (PinnedJob(7, "g1", 30), PinnedJob(8, "g1", 20), PinnedJob(9, "g1", 10), PinnedJob(10, "g1", 5))
    views = [ClusterView(at, pinned=pins, can_retype=True) for at in (0.0, 59.0, 61.0, 62.0)]
    slurm = FakeSlurm(*views)
    # 8 is not RAD's, 9 is refused by Slurm, 10 was pinned elsewhere by RAD and moved by its user.
    slurm.records = {7: Record("share", pin="g1"), 9: Record("share", pin="g1"), 10: Record("share", pin="g2")}
    made, _ = poller(slurm)
    for _ in range(4):
        made.once()
    assert slurm.unpinned == [(7, 30, False)]


def test_a_pin_holds_nothing_up_before_slurm_has_looked_at_its_job() -> None:
    unseen, seen = (PinnedJob(7, "g1", 30, seen=seen) for seen in (False, True))
    looks = [(unseen, 0.0), (unseen, 61.0), (seen, 62.0), (seen, 121.0), (seen, 123.0)]
    slurm = FakeSlurm(*[ClusterView(at, pinned=(pin,), can_retype=True) for pin, at in looks])
    slurm.records = {7: Record("share", pin="g1")}
    made, _ = poller(slurm)
    for _ in looks[1:]:
        made.once()
    assert slurm.unpinned == []
    made.once()
    assert slurm.unpinned == [(7, 30, False)]


TWO_NODES = tuple(Node(name, True, frozenset(), frozenset(), 1, 1, ()) for name in ("n1", "n2"))


@pytest.mark.parametrize(
    ("can_retype", "asked", "asked_nodes", "nodes", "released"),
    [
        (True, "gpu:1", "", "n1", [(7, 30, True)]),
        (True, "gpu:1", "n1", "n1", [(7, 30, False)]),
        (True, "gpu:1", "", "n2", [(7, 30, False)]),  # its user has named another since
        (True, "gpu:g1:1", "", "n1", [(7, None, True)]),
        (True, "gpu:g1:1", "n1", "n1", []),
        (False, "gpu:1", "", "n1", [(7, None, True)]),
        (False, "gpu:1", "n1", "n1", []),
        (False, "gpu:1", "", "", []),
    ],
)
def test_what_a_user_asked_for_is_not_taken_back(
    can_retype: bool, asked: str, asked_nodes: str, nodes: str, released: list[tuple[int, int | None, bool]]
) -> None:
    pins = (PinnedJob(7, "g1", 30, nodes),)
    views = [ClusterView(at, nodes=TWO_NODES, pinned=pins, can_retype=can_retype) for at in (0.0, 61.0)]
    slurm = FakeSlurm(*views)
    slurm.records = {7: Record("share", asked=asked, asked_nodes=asked_nodes, pin="g1", node="n1")}
    made, _ = poller(slurm)
    made.once()
    made.once()
    assert slurm.unpinned == released


def test_a_clock_that_was_set_back_keeps_no_pin_and_no_hold() -> None:
    looks = [ClusterView(at, TWO_NODES, pinned=(PinnedJob(7, "g1", 30, "n1"),), held=(8,)) for at in (7200.0, 60.0)]
    slurm = FakeSlurm(*looks)
    slurm.records = {7: Record("share", pin="g1", node="n1"), 8: Record("share")}
    made, _ = poller(slurm)
    made.once()
    assert (slurm.unpinned, slurm.released) == ([], [8])
    made.once()
    assert (slurm.unpinned, slurm.released) == ([(7, None, True)], [8, 8])


def test_many_pins_do_not_hold_up_the_looks() -> None:
    pins = tuple(PinnedJob(job, "g1", 30) for job in (7, 8, 10))
    slurm = FakeSlurm(*[ClusterView(at, pinned=pins, can_retype=True) for at in (0.0, 61.0, 62.0, 63.0)])
    slurm.records = {job: Record("share", pin="g1") for job in (7, 8, 10)}
    config = replace(CONFIG, radd=replace(CONFIG.radd, poll_s=0.0))
    made = Poller(config, Service(CONFIG, Nothing()), slurm)  # type: ignore[arg-type]
    after = []
    for _ in range(4):
        made.once()
        after.append([job for job, *_ in slurm.unpinned])
    assert after == [[], [7], [7, 8], [7, 8, 10]], "one at a time where a look may take no time"


def test_where_slurm_cannot_retype_pins_stay() -> None:
    slurm = FakeSlurm(*[ClusterView(at, TWO_NODES[:1], pinned=(PinnedJob(7, "g1", 30, "n1"),)) for at in (0.0, 100.0)])
    slurm.records = {7: Record("share", pin="g1", node="n1")}
    made, _ = poller(slurm)
    made.once()
    made.once()
    assert slurm.unpinned == []


def test_jobs_that_slurm_holds_for_want_of_shares_are_released(caplog: pytest.LogCaptureFixture) -> None:
    # 8 is not RAD's, 9 is refused by Slurm, 10 was left as written.
    looks = [ClusterView(float(at), held=(7, 8, 9, 10)) for at in (0, 5, 60, 65, 120, 180, 240)]
    slurm = FakeSlurm(*looks)
    slurm.records = {7: Record("share"), 9: Record("exclusive"), 10: Record("left_alone")}
    made, _ = poller(slurm)
    after = []
    for _ in looks:
        made.once()
        after.append(len(slurm.released))
    assert after == [1, 1, 2, 2, 3, 3, 3], "at once, then once in a while, and not for ever"
    assert set(slurm.released) == {7}
    assert "job 9 stays held: scontrol: Access denied" in caplog.text


def test_what_monitors_measured_takes_the_place_of_what_jobs_declared() -> None:
    gpu = Gpu("n1", "g0", 60, (Resident(7, "a", 30, smact=0.9), Resident(8, "b", 30, smact=0.2)))
    node = Node("n1", True, frozenset({"gpu"}), frozenset(), 8, 1000, (gpu,))
    other = replace(node, name="n2", partitions=frozenset({"cpu"}))
    service = Service(CONFIG, Nothing())  # type: ignore[arg-type]
    Poller(CONFIG, service, FakeSlurm(ClusterView(5.0, (node, other))), smact=lambda: {7: 0.25}).once()
    assert [r.smact for r in service.view.nodes[0].gpus[0].residents] == [0.25, 0.2]
    assert monitored_nodes(CONFIG, service) == ["n1"]


@pytest.mark.parametrize("first", [[], [ZeroDivisionError("a fault of ours")]])
def test_the_poller_goes_on_until_cancelled(first: list[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurm_hooks.radd.poller._SHORTEST_PAUSE_S", 0.0)

    async def run() -> float:
        service = Service(CONFIG, Nothing())  # type: ignore[arg-type]
        config = replace(CONFIG, radd=replace(CONFIG.radd, poll_s=0.0))
        made = Poller(config, service, FakeSlurm(*first, ClusterView(3.0)))
        task = asyncio.create_task(made.run())
        while service.view.taken != 3.0:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return service.view.taken

    assert asyncio.run(run()) == 3.0


def test_slurm_is_asked_again_at_once_where_a_job_may_be_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurm_hooks.radd.poller._SHORTEST_PAUSE_S", 0.0)
    unplaced, asked = [False], []

    def waits(self: Service) -> bool:
        asked.append(self)
        return unplaced[0]

    monkeypatch.setattr(Service, "unplaced", property(waits))

    async def run() -> None:
        slurm = FakeSlurm(ClusterView(1.0), ClusterView(2.0))  # poll_s is 5 s
        service = Service(CONFIG, Nothing())  # type: ignore[arg-type]
        task = asyncio.create_task(Poller(CONFIG, service, slurm).run())
        while len(asked) < 50:
            await asyncio.sleep(0)
        assert service.view.taken == 1.0
        began, unplaced[0] = time.monotonic(), True
        while service.view.taken != 2.0:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert time.monotonic() - began < CONFIG.radd.poll_s / 2

    asyncio.run(run())


@pytest.mark.parametrize(("every_s", "times"), [(0.0, 3), (60.0, 0)])
def test_garbage_is_collected_once_in_a_while(every_s: float, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[None] = []
    monkeypatch.setattr("slurm_hooks.radd.poller._SHORTEST_PAUSE_S", 0.0)
    monkeypatch.setattr("slurm_hooks.radd.poller._COLLECT_S", every_s)
    monkeypatch.setattr("slurm_hooks.radd.poller.gc.collect", lambda: collected.append(None))

    async def run() -> int:
        config = replace(CONFIG, radd=replace(CONFIG.radd, poll_s=0.0))
        slurm = FakeSlurm(ClusterView(1.0), ClusterView(2.0), ClusterView(3.0))
        task = asyncio.create_task(Poller(config, Service(CONFIG, Nothing()), slurm).run())  # type: ignore[arg-type]
        while slurm.views:
            await asyncio.sleep(0)
        while len(collected) < times:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return len(collected)

    made = asyncio.run(asyncio.wait_for(run(), 20))
    assert made >= times if times else made == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may go before others")
def test_commands_do_not_go_before_slurmctld_as_radd_does() -> None:
    code = (
        "import os; from slurm_hooks.slurm.commands import run; os.setpriority(os.PRIO_PROCESS, 0, -10);"
        "until_it_stands_back = 'while [ \"$(nice)\" != 0 ]; do :; done; nice';"
        "print(run(['sh', '-c', until_it_stands_back], 10).strip(), os.getpriority(os.PRIO_PROCESS, 0))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["0", "-10"], done.stderr
