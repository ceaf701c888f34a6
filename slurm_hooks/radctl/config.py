"""`radctl config`: check a configuration, print its reference page or an example. Reads the file it is given."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import click

from slurm_hooks import config as settings
from slurm_hooks import config_reference
from slurm_hooks.gpus import unknown_gpu
from slurm_hooks.hook import LONGEST_REQUEST, LONGEST_SUMMARY, LUA_DEADLINE_S
from slurm_hooks.memory import memory_of, without_memory
from slurm_hooks.radctl.main import Site

_PATTERN = re.compile(r"[*?,\[\s]")  # as what stands for several partitions has, and hardly the name of one
_PORT = re.compile(r":(\d{1,5})(?:/|$)")
_NODE = "{node}"
_LONGEST_SOCKET = 107  # as Linux has it
_HERE = ("", "127.0.0.1", "::1", "localhost")


@click.group()
def config() -> None:
    """Check rad.toml; print all its keys, or an example."""


@config.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.pass_obj
def check(site: Site, file: Path | None) -> None:
    """Check FILE [default: the site's]: each error and its cure."""
    path = file or site.path
    text = settings.read(path)
    loaded = settings.loads(text, str(path))
    if len(os.fsencode(loaded.radd.socket)) > _LONGEST_SOCKET:
        raise settings.ConfigError(
            f"{path}: [radd] socket: longer than the {_LONGEST_SOCKET} bytes of a socket's name: radd does not start"
        )
    for doubt in _doubts(loaded):
        click.echo(f"{path}: {doubt}")
    if not text.strip():
        click.echo(
            f"{path}: is empty, which nodes take for damage: they go on with the last; a comment switches RAD off"
        )
    if not loaded.partitions:
        click.echo(f"{path}: ok, but it names no partition: RAD leaves every job alone; add [partitions.NAME]")
        return
    names = ", ".join(f"{name} ({part.mode}, {part.method})" for name, part in loaded.partitions.items())
    click.echo(f"{path}: ok: partitions {names}")
    for name, part in loaded.partitions.items():
        if _PATTERN.search(name):
            click.echo(f"{path}: [partitions.{name}]: means a partition of just this name: write a section for each")
        doubt = without_memory(part) if part.method != "off" and not memory_of(part) else unknown_gpu(part)
        if doubt:
            click.echo(f"{path}: [partitions.{name}]: {doubt}")


def _doubts(loaded: settings.Config) -> Iterator[str]:
    """Values that are allowed each, but not beside each other."""
    radd, monitor, summary_kib = loaded.radd, loaded.monitor, loaded.estimator.max_summary_kib
    if radd.max_request_kib * 1024 < LONGEST_REQUEST:
        yield (
            f"[radd] max_request_kib: {radd.max_request_kib} is less than the {LONGEST_REQUEST // 1000} KB that "
            "job_submit.lua sends: after three such jobs all go through as written for ten seconds"
        )
    if summary_kib * 1024 > LONGEST_SUMMARY:
        most = LONGEST_SUMMARY // 1024
        yield f"[estimator] max_summary_kib: {summary_kib} is more than the {most} KiB that cli_filter.lua hands on"
    if radd.decide_s >= LUA_DEADLINE_S:
        yield f"[radd] decide_s: {radd.decide_s} is not below job_submit.lua's deadline of {LUA_DEADLINE_S}"
    if radd.poll_s >= radd.stale_s:
        yield f"[radd] poll_s: {radd.poll_s} is not below stale_s = {radd.stale_s}: jobs will not be pinned"
    if monitor.source != "none" and monitor.read_s >= monitor.stale_s:
        yield f"[monitor] read_s: {monitor.read_s} is not below stale_s = {monitor.stale_s}: readings will not count"
    if monitor.source == "monitors":
        port = _PORT.search(monitor.url)
        if _NODE not in monitor.url:
            yield f"[monitor] url: {monitor.url} has no {_NODE}: one monitor would be read for all nodes"
        if port and int(port.group(1)) != monitor.port:
            yield f"[monitor] url: {monitor.url} does not lead to port = {monitor.port}"
        if monitor.listen in _HERE:
            yield f"[monitor] listen: {monitor.listen!r} is the node's own: radd on another machine reads nothing"


@config.command()
def reference() -> None:
    """Print the page of all keys (docs/configuration.md)."""
    click.echo(config_reference.reference(), nl=False)


@config.command()
def example() -> None:
    """Print a file with all keys (etc/rad.toml.example)."""
    click.echo(config_reference.example(), nl=False)


COMMANDS = [config]
