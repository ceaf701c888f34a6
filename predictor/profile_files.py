"""Profiles as JSON files. Touches only the file it is given."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from estimator import files
from predictor.types import MAX_SHAPES, KernelMetrics, Profile, ProfileError, Shape

FORMAT = "rad-profile-1"
MAX_BYTES = 64 * 1024


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN: a metric that was not measured is null."""
    return {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in values.items()}


def dumps(profile: Profile) -> str:
    """A profile as JSON text."""
    values = asdict(profile)
    kernel = _plain(values.pop("kernel"))
    kernel["shapes"] = [_plain(shape._asdict()) for shape in profile.kernel.shapes]
    return json.dumps({"format": FORMAT, **_plain(values), "kernel": kernel}, indent=1) + "\n"


def loads(text: str, where: str) -> Profile:
    """A profile from JSON text; ``where`` names its file in errors.

    Raises:
        ProfileError: the text is no profile, or a value is out of range.
    """
    try:
        content = json.loads(text)
        if content["format"] != FORMAT:
            raise ProfileError(f"{where}: format {content['format']!r}, expected {FORMAT!r}: profile it again")
        kernel = _numbers(KernelMetrics, content["kernel"], where)
        shapes = tuple(_shape(shape, where) for shape in content["kernel"].get("shapes", [])[:MAX_SHAPES])
        values = _numbers(Profile, content, where)
        return Profile(
            **values,
            kernel=KernelMetrics(**kernel, shapes=shapes),
            origin=_origin(content, where),
            name=str(content.get("name", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        if isinstance(error, ProfileError):
            raise
        raise ProfileError(f"{where}: not a profile ({error}): make one with `radctl profile`") from error


def _origin(content: dict[str, Any], where: str) -> Any:
    origin = content.get("origin", "measured")
    if origin not in ("measured", "estimated"):
        raise ProfileError(f"{where}: origin {origin!r} must be 'measured' or 'estimated'")
    return origin


def _numbers(kind: type[Profile | KernelMetrics], content: dict[str, Any], where: str) -> dict[str, float]:
    if not isinstance(content, dict):
        raise ProfileError(f"{where}: not a profile: make one with `radctl profile`")
    found = {}
    for field in fields(kind):
        if field.name not in ("kernel", "shapes", "origin", "name") and field.name in content:
            found[field.name] = _number(content, field.name, where)
    return found


def _number(content: dict[str, Any], name: str, where: str) -> float:
    value = content[name]
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ProfileError(f"{where}: {name} is {value!r}, it must be a number or null")
    return float(value)


def _shape(content: dict[str, Any], where: str) -> Shape:
    return Shape(*(_number(content, name, where) for name in Shape._fields))


def load(path: Path) -> Profile:
    """Read a profile.

    Raises:
        ProfileError: the file is missing, too large, or no profile.
    """
    try:
        return loads(files.read(path, MAX_BYTES).decode(), str(path))
    except files.FileRefusedError as error:
        raise ProfileError(f"{error}: no profile") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path}: cannot be read: {error}") from error
