"""`rad-monitor`: looks at the node's GPUs until it is told to stop, and serves what it sees."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

import click

from slurm_hooks.config import Config, ConfigError
from slurm_hooks.daemon import CONFIG, HELP, begin
from slurm_hooks.monitor import prometheus
from slurm_hooks.monitor.choose import choose
from slurm_hooks.monitor.guard import Notice, act
from slurm_hooks.monitor.metrics import Backend, BackendError, Reading
from slurm_hooks.monitor.sampler import Sampler
from slurm_hooks.monitor.server import Page
from slurm_hooks.node import mps
from slurm_hooks.node.kept import Kept

log = logging.getLogger("rad.monitor")

# A node whose driver is gone is looked at this seldom.
RETRY_S = 30.0
# A look that hangs in the driver does not keep the daemon from ending.
STOP_TIMEOUT_S = 5.0


class _Nobody:
    """No backend works yet: no GPUs."""

    name = "none"

    def read(self, *, anew: bool = False) -> list[Reading]:
        """Nothing."""
        del anew
        return []

    def activity(self, index: int, pids: Collection[int]) -> dict[int, float]:
        """Nothing."""
        del index, pids
        return {}

    def close(self) -> None:
        """Nothing to give back."""


class Daemon:
    """Looks in time, and goes on whatever happens to the driver.

    Args:
        config: all settings.
        open_backend: opens a backend, or raises BackendError.
        retry_s: time between two tries to open one.
    """

    def __init__(self, config: Config, open_backend: Callable[[], Backend], retry_s: float = RETRY_S) -> None:
        self._config = config
        self._open = open_backend
        self._retry_s = retry_s
        self._backend: Backend | None = None
        self._tried = float("-inf")
        self._said = ""
        self.sampler = Sampler(config, _Nobody())
        self._acting: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Look until cancelled, in a thread of its own: handing each look to a pool would cost as much as the look."""
        loop, stop = asyncio.get_running_loop(), threading.Event()
        ended: asyncio.Future[None] = loop.create_future()

        def tell(error: Exception) -> None:
            if not ended.done():
                ended.set_exception(error)

        def look() -> None:
            try:
                self._look_on(stop, lambda notice: loop.call_soon_threadsafe(self._act, notice))
            except Exception as error:  # whoever awaits us is to know
                loop.call_soon_threadsafe(tell, error)

        thread = threading.Thread(target=look, name="looks", daemon=True)
        thread.start()
        try:
            await ended
        finally:
            stop.set()
            await asyncio.to_thread(thread.join, STOP_TIMEOUT_S)

    def _look_on(self, stop: threading.Event, act_on: Callable[[Notice], object]) -> None:
        interval = self._config.monitor.interval_s
        due = time.monotonic()
        while not stop.is_set():
            for notice in self.once():
                act_on(notice)
            due = max(due + interval, time.monotonic())
            stop.wait(due - time.monotonic())

    def _act(self, notice: Notice) -> None:
        """Slurm may be slow to tell a user: the looks go on meanwhile. What is done about a job is done first."""
        if notice.job in self._acting:
            return
        disconnect = partial(mps.disconnect, self._config.mps)
        task = asyncio.create_task(asyncio.to_thread(act, notice, self.sampler.processes.job, disconnect))
        self._acting[notice.job] = task
        task.add_done_callback(lambda _: self._acting.pop(notice.job))

    def once(self) -> list[Notice]:
        """One look; a backend that failed is opened again later."""
        now = time.monotonic()
        if self._backend is None and now - self._tried >= self._retry_s:
            self._tried = now
            self._try_open()
        try:
            return self.sampler.look(now)
        except BackendError as error:
            log.warning("%s; tried again every %g s", error, self._retry_s)
            self.close()
            return []

    def _try_open(self) -> None:
        try:
            self._backend = self._open()
        except BackendError as error:
            if str(error) != self._said:
                log.warning("no GPU is measured: %s; tried again every %g s", error, self._retry_s)
            self._said = str(error)
        else:
            self._said = ""
            self.sampler.replace_backend(self._backend)

    def close(self) -> None:
        """Give the backend back."""
        if self._backend is not None:
            backend, self._backend = self._backend, None
            self.sampler.replace_backend(_Nobody())
            backend.close()


async def serve(config: Config, daemon: Daemon) -> None:
    """Look and serve until SIGTERM or SIGINT.

    Raises:
        OSError: if the address cannot be had.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    host = socket.gethostname().partition(".")[0]  # as Slurm calls the node unless it is told otherwise
    server = None
    if config.monitor.listen:
        server = await Page(config.monitor, lambda: prometheus.render(daemon.sampler.view(), host)).start()
        log.info("page http://%s:%d/metrics", config.monitor.listen, config.monitor.port)
    looking = asyncio.create_task(daemon.run())
    waiting = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((looking, waiting), return_when=asyncio.FIRST_COMPLETED)
        if looking.done():
            looking.result()
    finally:
        looking.cancel()
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking
        if server is not None:
            server.close()
        daemon.close()
    log.info("rad-monitor stops")


@click.command(context_settings=HELP)
@CONFIG
@click.option("--verbose", is_flag=True, help="Log connections too.")
def main(path: Path, verbose: bool) -> None:
    """Measure this node's GPUs and the jobs on them; serve Prometheus."""
    begin(verbose=verbose)
    try:
        found = Kept.of(os.environ).read(path)
    except ConfigError as error:
        raise click.ClickException(str(error)) from error
    if found.problem:
        log.warning("%s", found.problem)
    config = found.config
    try:
        asyncio.run(serve(config, Daemon(config, lambda: choose(config.monitor))))
    except OSError as error:
        where = f"{config.monitor.listen}:{config.monitor.port}"
        raise click.ClickException(f"{where}: {error.strerror}: see [monitor] listen and port") from error


if __name__ == "__main__":
    main()
