"""Options and kinds of arguments that several commands have; touches nothing."""

from __future__ import annotations

from pathlib import Path

import click

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
THERE = click.Path(exists=True, file_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
NEW_FILE = click.Path(dir_okay=False, path_type=Path)

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
CSV = click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")


def examples(*lines: str) -> str:
    """What stands below a command's options: command lines that work."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


class Whole(click.IntRange):
    """Whole numbers within bounds, and called so where a word is none."""

    name = "whole number"


class Number(click.FloatRange):
    """The same for any numbers."""

    name = "number"
