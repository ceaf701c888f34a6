"""radd's socket: many connections, bounded messages, time limits; answers come from the service.

A client that sends garbage, half a message or nothing costs its own connection and no more.
"""

from __future__ import annotations

import asyncio
import contextlib
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


class Server:
    """Serves one Unix socket."""

    def __init__(self, settings: Radd, answer: Answerer) -> None:
        self._settings = settings
        self._answer = answer
        self._open = 0
        self._allowed = {0, os.getuid(), *_uid(settings.slurm_user)}

    async def start(self) -> asyncio.Server:
        """Bind the socket so that only slurmctld's user, root and radd's own user can write to it.

        Raises:
            OSError: if the socket cannot be made.
        """
        path = Path(self._settings.socket)
        if path.exists() and stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
        old = os.umask(0o177)
        try:
            server = await asyncio.start_unix_server(self._serve, path, limit=2 * protocol.LONGEST_HEAD, backlog=256)
        finally:
            os.umask(old)
        _give_to(path, self._settings.slurm_user)
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open > self._settings.max_connections or not self._trusted(writer):
                return
            await asyncio.wait_for(self._exchange(reader, writer), self._settings.read_timeout_s)
        except protocol.ProtocolError as error:
            log.warning("a message was dropped: %s", error)
        except (asyncio.TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            log.debug("a connection was dropped: %r", error)
        except Exception:
            # Whatever a submission triggers, radd goes on: the hook lets that job through as written.
            log.exception("a request failed")
        finally:
            self._open -= 1
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fields = await self._read(reader)
        writer.write(protocol.encode(self._answer(fields)))
        await writer.drain()

    async def _read(self, reader: asyncio.StreamReader) -> dict[str, str]:
        try:
            head = await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            raise protocol.ProtocolError("the head line is too long") from error
        length = protocol.body_length(head, self._settings.max_request_kib * 1024)
        return protocol.decode(await reader.readexactly(length))

    def _trusted(self, writer: asyncio.StreamWriter) -> bool:
        peer: socket.socket = writer.get_extra_info("socket")
        data = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, uid, _ = _CREDENTIALS.unpack(data)
        if uid in self._allowed:
            return True
        log.warning("user %d may not ask: only %s may", uid, self._settings.slurm_user)
        return False


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
