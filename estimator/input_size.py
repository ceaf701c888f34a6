"""How large one sample is where a user says it: its text, and what it means to the first layer of a model. Pure.

A size is written without the batch, as torchinfo and torchsummary take it: ``3x512x1024``. Channels may be left out, or
stand anywhere; ``512`` is a square picture.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isqrt
from typing import Final

from estimator.layer import Layer
from estimator.types import ModelSummary
from estimator.walk import elements, layers

Size = tuple[int, ...]

LARGEST: Final = 10_000_000
_MOST_ELEMENTS: Final = 10**10
_MOST_NUMBERS: Final = 4
_FORM: Final = "write input_size=3x224x224, for example"
_SIZE: Final = re.compile(r"[0-9]{1,9}(?:[xX][0-9]{1,9})*")
_NUMBERS: Final = re.compile(r"[0-9]{1,9}")
_LISTED: Final = r"\s*[0-9]{1,9}(?:\s*[,*x\u00d7;/]\s*[0-9]{1,9})*\s*,?\s*"
_OTHER_SIGNS: Final = re.compile(rf"{_LISTED}|\[{_LISTED}\]|\({_LISTED}\)", re.IGNORECASE)
_COLOURS: Final = 3
_PICTURE: Final = 2
# Tokens, and the width of each.
_TOKENS: Final = 2
# Pictures have so many channels at most.
_MOST_CHANNELS: Final = 16
# By how much a printed size in MB may be wrong.
_ROUNDED: Final = 0.0055
_ABOUT: Final = 0.01
# Pictures' sides behind a detector's own resizing are multiples of this.
_DIVISIBLE: Final = 32


class InputSizeError(ValueError):
    """A text that is no size of an input; the message says what to write."""


def read(text: str) -> Size:
    """Read ``3x512x1024``, ``512x1024``, ``512``, ``3x16x112x112`` or ``1x16000``.

    Raises:
        InputSizeError: it is none, or no computer holds such a sample.
    """
    if _SIZE.fullmatch(text) is None:
        cure = _FORM
        if len(text) <= 80 and _OTHER_SIGNS.fullmatch(text):
            cure = f"write input_size={'x'.join(_NUMBERS.findall(text))}"
        raise InputSizeError(f"not numbers with x between them: {cure}")
    size = tuple(map(int, re.split("[xX]", text)))
    if len(size) > _MOST_NUMBERS:
        raise InputSizeError(f"more than {_MOST_NUMBERS} numbers: one sample, without the batch: {_FORM}")
    if min(size) < 1 or max(size) > LARGEST or elements(size) > _MOST_ELEMENTS:
        raise InputSizeError(f"numbers must lie between 1 and {LARGEST}, and their product below {_MOST_ELEMENTS}")
    return size


def written(size: Sequence[int]) -> str:
    """Write a size as users do."""
    return "x".join(map(str, size))


def sides(said: Size, channels: int, axes: int) -> Size:
    """Take the channels off what was said.

    Args:
        said: what the user said.
        channels: of the model's first layer.
        axes: on how many axes that layer works: 1 for a series, 2 for pictures, 3 for films and volumes.

    Returns:
        The other numbers. There may be fewer than axes, where some were left out, or one more: pictures side by side.
    """
    coloured = len(said) == axes == 3 and channels == _COLOURS == said[0]  # pictures, of which a film is made
    if len(said) <= axes and not coloured:
        return said
    place = said.index(channels) if channels in said else said.index(min(said[:2]))
    return (*said[:place], *said[place + 1 :])


def folded(said: Size, channels: int) -> int:
    """Tell how many rows of pixels of a coloured picture became channels before its first layer; 1 where none did."""
    rows = isqrt(channels // _COLOURS)
    return rows if len(said) == 3 and said[0] == _COLOURS and rows > 1 and channels == _COLOURS * rows * rows else 1


def length(said: Size, width: int) -> int:
    """Tell how long a series of so many features is; 0 where what was said is none."""
    if len(said) == 1:
        return said[0]
    rest = sides(said, width, 1)
    return rest[0] if len(said) == 2 and width in said else 0


def resized(said: Size, least: int, most: int) -> Size:
    """Give the size that a detector makes of a picture: its shorter side the least, unless the longer were too large.

    Args:
        said: rows and columns.
        least: what its transform prints for the shorter side.
        most: and for the longer.
    """
    scale = min(least / min(said), most / max(said))
    return tuple(-(-max(int(side * scale), 1) // _DIVISIBLE) * _DIVISIBLE for side in said)


def contradiction(summary: ModelSummary, said: Size) -> str:
    """Say that a summary which shows its shapes was printed for another input than what was said.

    Returns:
        A sentence; the empty string where it was not, or where nothing tells.
    """
    shown = _shown(summary)
    if shown is None:
        return ""
    count, error = shown
    whole = elements(said)
    fits = [whole]
    if len(said) <= _PICTURE:  # channels, or sides, were left out
        squares = (whole, said[0] ** 2, said[0] ** 3) if len(said) == 1 else (whole,)
        fits = [size * times for size in squares for times in range(1, _MOST_CHANNELS + 1)]
    if any(abs(count - size) <= error for size in fits):
        return ""
    return f"the summary counts: it is for another input than input_size={written(said)}"


def other_length(found: Sequence[Layer], seq_len: int) -> str:
    """Say that a number of tokens is none that the model takes, or another than its summary was printed for.

    Args:
        found: the model's layers, with the shapes that its summary shows.
        seq_len: what the user said.

    Returns:
        A sentence; the empty string where it is, or where nothing tells. Only models that look up words first are
        judged, and those that begin with pictures and look up none; others take pictures or sounds beside words.
    """
    if any(seq_len in layer.output_shape for layer in found if layer.output_shape):
        return ""
    first = next((layer for layer in found if layer.params and not layer.children), found[0])
    shape = first.output_shape
    if first.type.startswith("Conv") and first.type.lower().endswith(("2d", "3d")):
        words = any(layer.type == "Embedding" for layer in found)
        return "" if words else f"seq_len={seq_len} does not count: the first layer, {first.type}, takes no tokens"
    if first.type != "Embedding" or shape is None or len(shape) != _TOKENS:
        return ""
    return f"the summary counts: it is for {shape[0]} tokens, not seq_len={seq_len}"


def _shown(summary: ModelSummary) -> tuple[float, float] | None:
    """Give the elements of one sample that a summary was printed for, and by how many they may be wrong."""
    first = next((layer for layer in layers(summary.root) if not layer.children), summary.root)
    shape = summary.root.input_shape or first.input_shape
    if first.type == "InputLayer":
        shape = first.output_shape
    if shape:
        return float(elements(shape)), 0.0
    if summary.input_mb is None:
        return None
    count = summary.input_mb * 1e6 / 4 / max(summary.batch_size or 1, 1)
    return count, max(_ROUNDED * 1e6 / 4 / max(summary.batch_size or 1, 1), count * _ABOUT)
