"""`radd`: reads the configuration, looks at Slurm in the background, serves the socket until it is told to stop."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

import click

from estimator.compiled import is_compiled
from slurm_hooks.answer import Answer
from slurm_hooks.config import Config, load
from slurm_hooks.daemon import CONFIG, HELP, begin
from slurm_hooks.loading import ModelWatch, load_service
from slurm_hooks.monitor.client import Reader
from slurm_hooks.radd.learner import Learner
from slurm_hooks.radd.limit import OutOfTime, at_most
from slurm_hooks.radd.poller import Poller
from slurm_hooks.radd.protocol import ProtocolError, decode
from slurm_hooks.radd.server import Server
from slurm_hooks.reading import Reading, read
from slurm_hooks.service import Service
from slurm_hooks.slurm.accounting import SlurmAccounting
from slurm_hooks.slurm.commands import SlurmCommands

log = logging.getLogger("rad")

_ACCOUNTING_TIMEOUT_S = 120.0
_SWITCH_S = 0.0001
_SHORT = 65_536
_ANEW = "radd goes on as it is: it reads rad.toml when it starts (radctl config check && systemctl restart radd)"
_NO_PLACE = (
    ": radd's user must be able to make files in its folder: systemd-tmpfiles --create makes /run/rad; "
    "name another in ReadWritePaths of radd's unit (systemctl edit radd)"
)


@click.command(context_settings=HELP)
@CONFIG
@click.option("--verbose", is_flag=True, help="Log each look at Slurm too.")
def main(path: Path, verbose: bool) -> None:
    """Decide what becomes of `#RAD` jobs; asked by job_submit.lua over a Unix socket."""
    begin(verbose=verbose)
    if os.geteuid() == 0:
        raise click.ClickException("radd does not run as root: start it as user rad (etc/systemd/radd.service)")
    try:
        config = load(path)
        service = load_service(config)
    except (ValueError, ImportError) as error:
        raise click.ClickException(str(error)) from error
    serve(config, service)
    # Not the usual end, which waits for what still asks Slurm, for as long as that takes.
    logging.shutdown()
    os._exit(0)


def serve(config: Config, service: Service) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        ClickException: if the socket cannot be made, or is another radd's.
    """
    monitors = Reader(config.monitor, lambda: monitored_nodes(config, service))
    slurm = SlurmCommands(config.radd.command_timeout_s)
    poller = Poller(config, service, slurm, ModelWatch(config), lambda: monitors.latest().jobs)
    learner = Learner(config, service, SlurmAccounting(_ACCOUNTING_TIMEOUT_S))
    service.update(slurm.unseen())
    service.warm_up()
    server = Server(config.radd, lambda request: answer(service, request).to_fields(), service.settle)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: server.stop())
    # slurmctld reads its files anew when it gets this. It would end radd, and over a wrong rad.toml none starts.
    signal.signal(signal.SIGHUP, lambda *_: log.warning(_ANEW))
    try:
        server.start()
    except OSError as error:
        cure = _NO_PLACE if error.errno in (errno.ENOENT, errno.EACCES, errno.EROFS) else ""
        raise click.ClickException(f"{config.radd.socket}: {error.strerror or error}{cure}") from error
    # A thread that looks at Slurm hands the interpreter over this soon when a request comes in.
    sys.setswitchinterval(_SWITCH_S)
    # Collecting garbage holds every answer up: the poller does it, once in a while.
    gc.collect()
    gc.freeze()
    gc.disable()
    log.info("radd serves %s, estimator %s", config.radd.socket, "compiled" if is_compiled() else "in plain Python")
    with in_background(poller.run, monitors.run, learner.run):
        try:
            server.serve()
        except OSError as error:
            raise click.ClickException(f"{config.radd.socket}: {error.strerror or error}") from error
    log.info("radd stops")


@contextmanager
def in_background(*parts: Callable[[], Coroutine[None, None, None]]) -> Iterator[None]:
    """Run coroutines in a thread of their own for as long as what is inside lasts; what they wait for then is left."""
    loop = asyncio.new_event_loop()

    async def run() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*map(_said, parts))

    task = loop.create_task(run())
    thread = threading.Thread(target=loop.run_until_complete, args=(task,), name="background", daemon=True)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()


async def _said(part: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run one of several: the others go on when it fails, and the log says why."""
    try:
        await part()
    except Exception:
        log.exception("%s ends, the rest goes on", getattr(part, "__qualname__", part))


def answer(service: Service, request: bytes) -> Answer:
    """The service's answer within `radd.decide_s`, or one that lets the job through and says why.

    A dropped connection would count as a failure of radd, and three of them let everybody's jobs through unseen.

    Raises:
        ProtocolError: where a request's bytes are none.
    """
    try:
        with at_most(service.config.radd.decide_s):
            return service.decide(_known(request) if len(request) <= _SHORT else read(decode(request)))
    except OutOfTime:
        return service.too_late(decode(request))
    except ProtocolError:
        raise
    except Exception as error:
        log.exception("a decision failed")
        return service.give_up(decode(request), f"the decision failed ({type(error).__name__})")


# Users submit the same script over and over. Bounded in length and number: whoever submits fills this memory.
@lru_cache(maxsize=64)
def _known(request: bytes) -> Reading:
    return read(decode(request))


def monitored_nodes(config: Config, service: Service) -> list[str]:
    """Nodes whose monitors may know jobs of RAD's."""
    return [node.name for node in service.view.nodes if not node.partitions.isdisjoint(config.partitions)]


if __name__ == "__main__":
    main()
