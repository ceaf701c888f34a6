"""The click groups that several parts add commands to; defines groups only and touches nothing."""

from __future__ import annotations

import click


@click.group()
def evaluate() -> None:
    """Compare what RAD said with what was measured."""


@click.group()
def retrain() -> None:
    """Fit RAD's models again, from measurements."""
