"""`radctl config`: check a configuration, print its reference page or an example. Reads the file it is given."""

from __future__ import annotations

from pathlib import Path

import click

from slurm_hooks import config as settings
from slurm_hooks import config_reference
from slurm_hooks.decision import memory_of
from slurm_hooks.radctl.main import Site


@click.group()
def config() -> None:
    """Check rad.toml, print its reference page or an example."""


@config.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.pass_obj
def check(site: Site, file: Path | None) -> None:
    """Check FILE (default: the site's configuration); name section, key and cure of the first error."""
    path = file or site.path
    loaded = settings.load(path)
    if not loaded.partitions:
        click.echo(f"{path}: ok, but it names no partition: RAD leaves every job alone; add [partitions.NAME]")
        return
    names = ", ".join(f"{name} ({part.mode}, {part.method})" for name, part in loaded.partitions.items())
    click.echo(f"{path}: ok: partitions {names}")
    for name, part in loaded.partitions.items():
        if part.method != "off" and not memory_of(part):
            click.echo(f"{path}: [partitions.{name}]: memory of its GPUs is not known: set gpu_model or gpu_memory_mib")


@config.command()
def reference() -> None:
    """Print the reference page (docs/configuration.md)."""
    click.echo(config_reference.reference(), nl=False)


@config.command()
def example() -> None:
    """Print a configuration with every key (etc/rad.toml.example)."""
    click.echo(config_reference.example(), nl=False)


COMMANDS = [config]
