"""Somebody else answers in radd's place: every job goes through as its user wrote it, and is told so."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scripts.devcluster import Cluster
from tests.cluster.conftest import whole
from tests.cluster.test_failures import SCRIPT, must_go_through, wait_until_decided


def _field(name: str, value: str) -> bytes:
    return f"{name} {len(value)}\n{value}\n".encode()


def _message(*fields: bytes) -> bytes:
    body = b"".join(fields)
    return b"RAD1 %d\n" % len(body) + body


PASS = _message(_field("status", "pass"))
NONSENSE = {
    "nothing": b"",
    "garbage": bytes(range(256)) * 8,
    "another protocol": b"HTTP/1.1 200 OK\r\n\r\n",
    "half a message": b"RAD1 5000\nstatus 4\npass\n",
    "a length that is no number": b"RAD1 -1\n",
    "a length beyond all bounds": b"RAD1 99999999999\n",
    "a field longer than the message": b"RAD1 14\nstatus 900\nno\n",
    "no status": _message(_field("message", "hello")),
    "an unknown status": _message(_field("status", "maybe")),
    "a field that may not be set": _message(_field("status", "pass"), _field("set.user_id", "0")),
    "a field that cannot be set": _message(_field("status", "pass"), _field("set.tres_per_node", "\0")),
    "a line without end": b"RAD1 " + b"9" * 100_000,
}


@contextmanager
def impostor(path: Path, answer: bytes) -> Iterator[list[int]]:
    """Listens in radd's place, reads nothing, says `answer` and hangs until it is closed."""
    path.unlink(missing_ok=True)
    open_connections: list[socket.socket] = []
    calls: list[int] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o666)
        server.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                calls.append(1)
                open_connections.append(connection)
                try:
                    connection.sendall(answer)
                except OSError:
                    continue

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield calls
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in open_connections:
                connection.close()
            path.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def place(rad_cluster: Cluster) -> Iterator[Path]:
    """Where radd's socket was: it is away meanwhile."""
    whole(rad_cluster).stop("radd")
    yield rad_cluster.layout.run / "rad" / "radd.sock"
    wait_until_decided(whole(rad_cluster))
    rad_cluster.cancel_all()


@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE.keys())
def test_nonsense_from_radds_socket_changes_no_job(rad_cluster: Cluster, place: Path, answer: bytes) -> None:
    with impostor(place, answer) as calls:
        must_go_through(rad_cluster)
        assert calls
    assert rad_cluster.run(["scontrol", "ping"]).out.count("UP")
    with impostor(place, PASS) as calls:  # an answer that is one: the breaker does not count further
        assert rad_cluster.submit(SCRIPT).err == ""
        assert calls
