"""What radd and rad-monitor begin with: their options, where they find programs, and their log."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import click

from slurm_hooks.config import DEFAULT_PATH
from slurm_hooks.search import take_path

HELP = {"help_option_names": ["-h", "--help"]}
CONFIG = click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    default=DEFAULT_PATH,
    show_default=True,
    help="Configuration of the site.",
)


def begin(*, verbose: bool) -> None:
    """Take Slurm's programs into PATH, and log to standard error."""
    take_path(os.environ)
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s"
    )
