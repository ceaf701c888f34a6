"""The page for Prometheus and radd: plain HTTP, GET /metrics and nothing else, bounded in size, time and number."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from slurm_hooks.config import Monitor
from slurm_hooks.monitor.prometheus import CONTENT_TYPE

log = logging.getLogger("rad.monitor")

MAX_REQUEST = 8192
TIMEOUT_S = 5.0


class Page:
    """Serves one page.

    Args:
        settings: [monitor].
        render: gives the page's text.
        timeout_s: a reader that has not sent its request and taken the page by then is dropped.
    """

    def __init__(self, settings: Monitor, render: Callable[[], str], timeout_s: float = TIMEOUT_S) -> None:
        self._settings = settings
        self._render = render
        self._timeout_s = timeout_s
        self._open: dict[asyncio.StreamWriter, None] = {}  # in the order in which they came

    async def start(self) -> asyncio.Server:
        """Listen.

        Raises:
            OSError: if the address cannot be had.
        """
        return await asyncio.start_server(
            self._serve, self._settings.listen, self._settings.port, limit=MAX_REQUEST, backlog=64
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = None
        if len(self._open) > self._settings.max_connections:
            # Whoever wants the page asks for it at once: those who only keep others out have been there longest.
            longest = next(iter(self._open))
            del self._open[longest]
            longest.transport.abort()
        try:
            await asyncio.wait_for(self._exchange(reader, writer), self._timeout_s)
        except (asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError) as error:
            log.debug("a connection was dropped: %r", error)
        finally:
            if writer.transport.get_write_buffer_size():
                writer.transport.abort()  # what a reader does not take is thrown away, not waited for
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            self._open.pop(writer, None)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        # drain() then waits until all of it is on its way.
        writer.transport.set_write_buffer_limits(0)
        writer.write(self._answer(head))
        await writer.drain()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        target = rest.split(b" ", 1)[0].split(b"?", 1)[0]
        if method not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed", "only GET\n")
        if target != b"/metrics":
            return _response("404 Not Found", "the page is /metrics\n")
        return _response("200 OK", self._render(), body=method == b"GET")


def _response(status: str, text: str, *, body: bool = True) -> bytes:
    data = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (data if body else b"")
