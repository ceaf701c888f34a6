"""From when until when: the options of commands that look back, and what they mean. Touches nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import click

_SPAN = re.compile(r"(\d{1,6})([mhdw])")
_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}

UNTIL = click.option("--until", default="now", show_default=True, help="End, likewise.")


class MomentError(ValueError):
    """A time that cannot be told of; the message says why."""


def since_option(default: str) -> Callable[[Any], Any]:
    """The option that says where a time starts."""
    text = "Start: a date, a time, or how long ago (7d, 12h)."
    return click.option("--since", default=default, show_default=True, help=text)


def moment(text: str, now: int) -> int:
    """Unix time of ``now``, ``7d`` (that long ago; also w, h, m) or an ISO date or time of this machine's zone.

    Raises:
        MomentError: if `text` is none of these.
    """
    if text == "now":
        return now
    if span := _SPAN.fullmatch(text):
        return max(0, now - int(span.group(1)) * _SECONDS[span.group(2)])
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError, OSError) as error:
        raise MomentError(f"{text!r} is no time: write 2026-01-31, 2026-01-31T12:00, 7d, 12h or now") from error


def span(since: str, until: str, now: int) -> tuple[int, int]:
    """Unix times of a start and an end as `moment` reads them; an end that is still to come is now.

    Raises:
        MomentError: if one is no time, the end is not after the start, or the start is still to come.
    """
    first, last = moment(since, now), moment(until, now)
    if first >= last:
        raise MomentError(f"--since {since} is not before --until {until}")
    if first >= now:
        raise MomentError(f"--since {since} is still to come")
    return first, min(last, now)  # what runs has not run until then yet
