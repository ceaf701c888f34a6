"""radd's socket: many connections, bounded messages, time limits; answers come from the service.

A client that sends garbage, half a message or nothing costs its own connection and no more.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
import socket
import stat
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

from slurm_hooks.config import Radd
from slurm_hooks.radd import protocol

log = logging.getLogger("rad.server")

Answerer = Callable[[Mapping[str, str]], Mapping[str, str]]
_CREDENTIALS = struct.Struct("3i")
_BACKLOG = 256
_CHUNK = 262_144
_PAUSE_S = 1.0
_IDLE_S = 600.0


class Server:
    """Serves one Unix socket from the running event loop.

    Callbacks on sockets, neither tasks nor streams: slurmctld waits for an answer with its locks held, and asyncio's
    streams took longer than everything else together (`scripts/bench/run exchange`).
    """

    def __init__(self, settings: Radd, answer: Answerer) -> None:
        self._settings = settings
        self._answer = answer
        self._allowed = {0, os.getuid(), *_uid(settings.slurm_user)}
        self._loop = asyncio.get_running_loop()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._open: set[_Connection] = set()

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._open)

    def start(self) -> None:
        """Bind the socket so that only slurmctld's user, root and radd's own user can write to it.

        Raises:
            OSError: if the socket cannot be made.
        """
        path = Path(self._settings.socket)
        if path.exists() and stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
        old = os.umask(0o177)
        try:
            self._listener.bind(str(path))
        finally:
            os.umask(old)
        _give_to(path, self._settings.slurm_user)
        self._listener.listen(_BACKLOG)
        self._listen()

    def close(self) -> None:
        """Stop listening, and drop what is open."""
        self._loop.remove_reader(self._listener)
        self._listener.close()
        for connection in list(self._open):
            connection.close()

    def _listen(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        try:
            peer, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:  # no file descriptor left, most likely
            log.warning("no connection is taken for %g s: %s", _PAUSE_S, error)
            self._loop.remove_reader(self._listener)
            self._loop.call_later(_PAUSE_S, self._listen)
            return
        peer.setblocking(False)
        if self.connections >= self._settings.max_connections or not self._trusted(peer):
            peer.close()
            return
        connection = _Connection(self._loop, peer, self._settings, self._answer, self._open.discard)
        self._open.add(connection)
        connection.go_on()  # the hook has sent its whole request by now, as a rule

    def _trusted(self, peer: socket.socket) -> bool:
        data = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, uid, _ = _CREDENTIALS.unpack(data)
        if uid in self._allowed:
            return True
        log.warning("user %d may not ask: only %s may", uid, self._settings.slurm_user)
        return False


class _Connection:
    """One client: a request comes in and its answer goes out, all within `read_timeout_s`; then the next may come.

    slurmctld keeps its connection, since making one for each job takes longer than reading the request.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        peer: socket.socket,
        settings: Radd,
        answer: Answerer,
        closed: Callable[[_Connection], None],
    ) -> None:
        self._loop = loop
        self._peer = peer
        self._settings = settings
        self._answer = answer
        self._closed = closed
        self._data = bytearray()  # of the request, then of the answer
        self._body: slice | None = None  # where in the request it stands, once its head is there
        self._reading = True
        self._between = False  # two requests
        self._listening = False  # whether the loop calls when there is something to read
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """End it, however far it has come."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._peer)
        self._loop.remove_writer(self._peer)
        self._peer.close()
        self._closed(self)

    def go_on(self) -> None:
        """Read and write as far as the socket lets; the loop calls again when it lets more."""
        try:
            while self._reading:
                self._read()
            while self._data:
                del self._data[: self._peer.send(self._data)]
            self._begin_anew()
            self._wait()
            return
        except BlockingIOError:
            self._wait()
            return
        except protocol.ProtocolError as error:
            log.warning("a message was dropped: %s", error)
        except ConnectionError as error:
            log.debug("a connection was dropped: %r", error)
        except Exception:
            # Whatever a submission triggers, radd goes on: the hook lets that job through as written.
            log.exception("a request failed")
        self.close()

    def _begin_anew(self) -> None:
        self._body, self._reading, self._between = None, True, True
        self._limit(_IDLE_S)

    def _limit(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self.close)

    def _wait(self) -> None:
        if self._timer is None or (self._between and (self._data or not self._reading)):
            self._between = False
            self._limit(self._settings.read_timeout_s)
        if self._reading and not self._listening:
            self._loop.remove_writer(self._peer)
            self._loop.add_reader(self._peer, self.go_on)
        elif not self._reading:
            self._loop.remove_reader(self._peer)
            self._loop.add_writer(self._peer, self.go_on)
        self._listening = self._reading

    def _read(self) -> None:
        data = self._peer.recv(_CHUNK)
        if not data:
            raise ConnectionError("closed before the request was whole")
        self._data += data
        if self._body is None:
            stop = self._data.find(b"\n", 0, protocol.LONGEST_HEAD) + 1
            if stop == 0 and len(self._data) >= protocol.LONGEST_HEAD:
                raise protocol.ProtocolError("the head line is too long")
            if stop == 0:
                return
            length = protocol.body_length(bytes(self._data[:stop]), self._settings.max_request_kib * 1024)
            self._body = slice(stop, stop + length)
        if len(self._data) > self._body.stop:
            raise protocol.ProtocolError("there is more behind the request")
        if len(self._data) == self._body.stop:
            fields = protocol.decode(bytes(self._data[self._body]))
            self._data = bytearray(protocol.encode(self._answer(fields)))
            self._reading = False


def _uid(name: str) -> set[int]:
    try:
        return {pwd.getpwnam(name).pw_uid}
    except KeyError:
        log.warning("there is no user %r: only root and radd's own user may ask", name)
        return set()


def _give_to(path: Path, user: str) -> None:
    """Let `user`'s group write to the socket; radd must be in that group (systemd: SupplementaryGroups)."""
    try:
        os.chown(path, -1, pwd.getpwnam(user).pw_gid)
        path.chmod(0o660)
    except (KeyError, PermissionError) as error:
        log.warning("%s cannot be given to the group of %s: %s", path, user, error)
