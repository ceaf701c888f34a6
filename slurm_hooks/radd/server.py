"""radd's socket: many connections, bounded messages, time limits; answers come from the service.

A client that sends garbage, half a message or nothing costs its own connection and no more.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import pwd
import select
import socket
import stat
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from slurm_hooks.config import Radd
from slurm_hooks.radd import protocol

log = logging.getLogger("rad.server")

Answerer = Callable[[bytes], Mapping[str, str]]
_CREDENTIALS = struct.Struct("3i")
_BACKLOG = 256
_CHUNK = 65_536
_PAUSE_S = 1.0
_IDLE_S = 600.0
_MISSED_S = 10.0
_FOREVER = float("inf")


class Server:
    """Serves one Unix socket from the thread that calls `serve`.

    slurmctld waits for an answer with its locks held, so between the kernel and the service stands one epoll and
    nothing else: an event loop of asyncio's took longer than the exchange itself (`scripts/bench/run exchange`).

    Args:
        settings: [radd].
        answer: a request, without its head line, to the fields of its answer; ProtocolError where it is none.
        between: called when an answer is on its way, for work that can wait until then.
    """

    def __init__(self, settings: Radd, answer: Answerer, between: Callable[[], None] = lambda: None) -> None:
        self._settings = settings
        self._answer = answer
        self._between = between
        self._allowed = {0, os.getuid(), *_uid(settings.slurm_user)}
        self._listener = _new_listener()
        self._stop, self._stopped = socket.socketpair()
        self._epoll = select.epoll()
        self._epoll.register(self._stopped, select.EPOLLIN)
        self._open: dict[int, _Connection] = {}
        self._bound: tuple[int, int] | None = None  # device and inode of its path
        self._look_at = _FOREVER  # when the next connection's time may be up
        self._listen_at = _FOREVER  # when connections are taken again
        self._missed_at = 0.0  # when it is looked whether its path is still there

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._open)

    def start(self) -> None:
        """Bind the socket so that only slurmctld's user, root and radd's own user can write to it.

        Raises:
            OSError: if the socket cannot be made, or another radd answers at its path.
        """
        path = Path(self._settings.socket)
        if _somebody_listens(path):
            self._close()
            raise _another(path)
        try:
            self._listen(path)
        except OSError:
            self._close()
            raise

    def _listen(self, path: Path) -> None:
        """Listen there, in place of a socket at which nobody does."""
        with contextlib.suppress(FileNotFoundError):  # or another radd has just removed it
            if stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink()
        old = os.umask(0o177)
        try:
            self._listener.bind(str(path))
        finally:
            os.umask(old)
        self._bound = _file_at(path)
        _give_to(path, self._settings.slurm_user)
        self._listener.listen(_BACKLOG)
        self._epoll.register(self._listener, select.EPOLLIN)
        self._missed_at = time.monotonic() + _MISSED_S

    def _listen_anew(self) -> None:
        """Make the socket anew where somebody has removed it: radd would run, and answer nobody who comes.

        Raises:
            OSError: another radd answers there, as where both were started at once.
        """
        path = Path(self._settings.socket)
        self._missed_at = time.monotonic() + _MISSED_S
        there = _file_at(path)
        if there == self._bound:
            return
        if there is not None and _somebody_listens(path):
            raise _another(path)
        self._listen_at = _FOREVER
        try:
            self._listener.close()
            self._listener = _new_listener()
            self._listen(path)
            log.warning("%s was removed: radd has made it anew", path)
        except OSError as error:
            log.warning("%s was removed, and cannot be made anew: %s", path, error)

    def serve(self) -> None:
        """Answer until `stop`; then nothing is open any more.

        Raises:
            OSError: another radd has taken its place at the socket.
        """
        stopped = self._stopped.fileno()
        try:
            while True:
                wait = min(self._look_at, self._listen_at, self._missed_at)
                events = self._epoll.poll(max(0.0, wait - time.monotonic()))
                for fd, _ in events:
                    connection = self._open.get(fd)
                    if connection is not None:
                        self._go_on(connection)
                    elif fd == self._listener.fileno():
                        self._accept()
                    elif fd == stopped:
                        return
                if time.monotonic() >= wait:
                    self._look_at_the_clock()
        finally:
            self._close()

    def stop(self) -> None:
        """Have `serve` return; from any thread, or a signal's handler."""
        with contextlib.suppress(OSError):  # closed already
            self._stop.send(b".")

    def _close(self) -> None:
        path = Path(self._settings.socket)
        if self._bound is not None and _file_at(path) == self._bound:  # not that of the radd that came after
            path.unlink(missing_ok=True)
        for connection in list(self._open.values()):
            self._drop(connection)
        for end in (self._listener, self._epoll, self._stop, self._stopped):
            end.close()

    def _look_at_the_clock(self) -> None:
        """Drop connections whose time is up, and listen again, or anew."""
        now = time.monotonic()
        if self._missed_at <= now:
            self._listen_anew()
        for connection in [one for one in self._open.values() if one.until <= now]:
            self._drop(connection)
        self._look_at = min((one.until for one in self._open.values()), default=_FOREVER)
        if self._listen_at <= now:
            self._listen_at = _FOREVER
            self._epoll.modify(self._listener, select.EPOLLIN)

    def _accept(self) -> None:
        try:
            peer, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:  # no file descriptor left, most likely
            log.warning("no connection is taken for %g s: %s", _PAUSE_S, error)
            self._epoll.modify(self._listener, 0)
            self._listen_at = time.monotonic() + _PAUSE_S
            return
        try:
            peer.setblocking(False)
            if self.connections >= self._settings.max_connections or not self._trusted(peer):
                peer.close()
                return
            self._epoll.register(peer, select.EPOLLIN)
        except OSError as error:
            log.warning("a connection was not taken: %s", error)
            peer.close()
            return
        connection = self._open[peer.fileno()] = _Connection(peer, self._settings, self._answer)
        self._go_on(connection)  # the hook has sent its whole request by now, as a rule

    def _trusted(self, peer: socket.socket) -> bool:
        data = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, uid, _ = _CREDENTIALS.unpack(data)
        if uid in self._allowed:
            return True
        log.warning("user %d may not ask: only %s may", uid, self._settings.slurm_user)
        return False

    def _go_on(self, connection: _Connection) -> None:
        """Let a connection read and write what it can; whatever it triggers, the others are served."""
        try:
            answered = connection.go_on()
            if connection.waits_for != connection.listens_for:
                connection.listens_for = connection.waits_for
                self._epoll.modify(connection.peer, connection.waits_for)
            self._look_at = min(self._look_at, connection.until)
            if answered:
                self._between()
            return
        except protocol.ProtocolError as error:
            log.warning("a message was dropped: %s", error)
        except ConnectionError as error:
            log.debug("a connection was dropped: %r", error)
        except Exception:
            # Whatever a submission triggers, radd goes on: the hook lets that job through as written.
            log.exception("a request failed")
        self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        self._open.pop(connection.peer.fileno(), None)
        connection.peer.close()


class _Connection:
    """One client: a request comes in and its answer goes out, all within `read_timeout_s`; then the next may come.

    slurmctld keeps its connection, since making one for each job takes longer than reading the request.

    Attributes:
        until: clock reading at which it is dropped, in seconds.
        waits_for: what of the socket it waits for, as epoll names it.
        listens_for: what epoll was told of that.
    """

    def __init__(self, peer: socket.socket, settings: Radd, answer: Answerer) -> None:
        self.peer = peer
        self._settings = settings
        self._answer = answer
        self._data = b""  # of the request, then of the answer
        self._body: slice | None = None  # where in the request it stands, once its head is there
        self._between = False  # two requests
        self.until = time.monotonic() + settings.read_timeout_s
        self.waits_for = self.listens_for = select.EPOLLIN

    def go_on(self) -> bool:
        """Read and write as far as the socket lets; whether an answer is on its way now.

        Raises:
            ProtocolError: where what came is no request.
            ConnectionError: where the client has gone.
        """
        try:
            while self.waits_for == select.EPOLLIN:
                self._read()
            while self._data:
                self._data = self._data[self.peer.send(self._data) :]
        except BlockingIOError:
            return False
        self._body, self._between, self.waits_for = None, True, select.EPOLLIN
        self.until = time.monotonic() + _IDLE_S
        return True

    def _read(self) -> None:
        data = self.peer.recv(_CHUNK)
        if not data:
            raise ConnectionError("closed before the request was whole")
        if self._between:
            self._between, self.until = False, time.monotonic() + self._settings.read_timeout_s
        self._data = self._data + data if self._data else data
        if self._body is None:
            stop = self._data.find(b"\n", 0, protocol.LONGEST_HEAD) + 1
            if stop == 0 and len(self._data) >= protocol.LONGEST_HEAD:
                raise protocol.ProtocolError("the head line is too long")
            if stop == 0:
                return
            length = protocol.body_length(self._data[:stop], self._settings.max_request_kib * 1024)
            self._body = slice(stop, stop + length)
        if len(self._data) > self._body.stop:
            raise protocol.ProtocolError("there is more behind the request")
        if len(self._data) == self._body.stop:
            self._data = protocol.encode(self._answer(self._data[self._body]))
            self.waits_for = select.EPOLLOUT


def _new_listener() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)


def _another(path: Path) -> OSError:
    return OSError(errno.EADDRINUSE, "another radd answers there: stop it first", str(path))


def _somebody_listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        try:
            client.connect(str(path))
        except BlockingIOError:  # so many wait already
            return True
        except OSError:
            return False
    return True


def _file_at(path: Path) -> tuple[int, int] | None:
    """Device and inode, or None where nothing lies there."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


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
        log.warning("%s cannot be given to the group of %s, which radd must be in: %s", path, user, error)
