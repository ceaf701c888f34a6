"""The models of a text: where each begins, what reads it, which one counts. Pure."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import Final

from estimator.breath import OFTEN, breathe
from estimator.packed import PACKED, unpacked
from estimator.parallel import MARKS, SYNCED, alone, unsynced
from estimator.parametrized import BEFORE, as_layers
from estimator.parsers import keras, module, torchinfo, torchsummary
from estimator.parsers.text import (
    HEADER,
    about,
    clean,
    fail,
    first_line,
    from_notebook,
    is_rule,
    read_totals,
    total_params,
    unprefixed,
)
from estimator.sharing import share, unwrap
from estimator.types import ModelSummary, SummaryError
from estimator.walk import layers

_PRINT: Final = "module"
# What quantisation-aware training puts behind each layer.
_FAKED: Final = "FakeQuantize"
_MOST_OTHERS: Final = 20
# Models of one text that are read.
_MOST_MODELS: Final = 8
_REFUSED: Final = 4
# By so much may a print and a table of one class differ: they count what is tied, or bare, otherwise.
_NAMED: Final = 0.6
# How a line ends that stands in a notebook's file, and how such a file begins.
_END_IN_JSON: Final = "\\n"
_LINE_IN_JSON: Final = f'{_END_IN_JSON}"'
_JSON: Final = re.compile(r'\s{0,99}(?:[\[{]\s{0,99}){0,9}"')


def parse_summary(text: str) -> ModelSummary:
    """Read a model summary as torchsummary, torchinfo, ``print(model)`` or Keras write it.

    Text before and after the summary, ANSI colours, CRLF, box characters, wrapped lines, what a log or a quotation puts
    before each line, and a notebook's JSON are allowed. What prints itself as a module does and has no parameters (a
    loss, ``Namespace(lr=0.1)``) is text before the summary.

    Args:
        text: the summary.

    Raises:
        SummaryError: no summary is found, or a line of it cannot be understood; the message quotes the line.
    """
    summary = _read(text)
    summary = share(unwrap(alone(summary) if any(mark in text for mark in MARKS) else summary))
    if _FAKED in text and any(_FAKED in layer.type for layer in layers(summary.root)):
        raise SummaryError(
            f"{_FAKED} layers imitate quantisation, for which a training keeps copies that no estimate knows: "
            "claim `#RAD memory=12G`"
        )
    if BEFORE in text:
        summary = as_layers(summary)
    if SYNCED in text:
        summary = unsynced(summary)
    return unpacked(summary) if any(mark in text for mark in PACKED) else summary


def _read(text: str) -> ModelSummary:
    if _JSON.match(text) and _END_IN_JSON in text:
        with suppress(SummaryError):
            return _parse(clean(from_notebook(text)))
    lines = clean(text)
    try:
        return _parse(lines)
    except SummaryError:
        if _LINE_IN_JSON in text:
            return _parse(clean(from_notebook(text)))
        bare = unprefixed(lines, HEADER)
        if bare is None:
            raise
        return _parse(bare)


def _parse(lines: list[str]) -> ModelSummary:
    models = _Models()
    empty = -1
    others = 0
    at = 0
    while at < len(lines) and models.tried <= _MOST_MODELS:
        line = lines[at]
        at += 1
        if not at & OFTEN:
            breathe()
        table = HEADER in line
        begins = _begins if models.tried else _may_begin
        if not (table or (others < _MOST_OTHERS and begins(line))):
            continue
        start = at - 1
        try:
            summary, at = _table(lines, start) if table else module.parse(lines, start)
        except SummaryError as error:
            models.refuse(error, total_params(read_totals(lines, at)) if table else None)
            continue
        if table or summary.total_params:
            models.take(summary)
        else:
            empty = start if empty < 0 else empty
            others += 1
    chosen = models.chosen()
    if chosen is not None:
        return chosen
    if empty >= 0:
        raise fail(
            empty + 1,
            lines[empty],
            "nothing in this print has parameters of a size that it shows: give what torchinfo (of graph networks with "
            "a graph) or else `radctl summarize` prints, or claim `#RAD memory=12G`",
        )
    at = first_line(lines)
    raise fail(
        at + 1,
        lines[at],
        "no model summary starts here: give the output of torchsummary, torchinfo, print(model) or Keras' summary()",
    )


class _Models:
    """The models of one text: the largest counts, and of one that is there twice its table.

    Attributes:
        tried: how many there were; one that could not be read, and may have to be read again, counts for several.
    """

    def __init__(self) -> None:
        self.tried = 0
        self._chosen: ModelSummary | None = None
        self._left: list[int] = []  # parameters of the others
        self._wrong = ""  # a message: an error that is kept keeps, through its traceback, all that was read
        self._stated: int | None = None

    def refuse(self, error: SummaryError, stated: int | None) -> None:
        """Remember the first that could not be read: why, and its total if it is a table. Parts of one are none."""
        if not self.tried or isinstance(error, module.PartsError):
            self._chosen = None
            self._wrong, self._stated = str(error), stated
        self.tried += _REFUSED

    def take(self, summary: ModelSummary) -> None:
        """Choose between a model and those before it."""
        self.tried += 1
        before = self._chosen
        if before is None:
            # A table that could not be read may stand there again as a print.
            again = summary.format == _PRINT and about(self._stated or 0, summary.total_params)
            if not self._wrong or again:
                self._chosen = summary
        elif _same(before, summary):
            self._chosen = max(before, summary, key=lambda model: (model.format != _PRINT, model.total_params))
        else:
            self._left.append(min(before.total_params, summary.total_params))
            self._chosen = max(before, summary, key=lambda model: model.total_params)

    def chosen(self) -> ModelSummary | None:
        """Give the one that counts, with a note of the others; None if there was none.

        Raises:
            SummaryError: the first could not be read.
        """
        if self._chosen is None:
            if self._wrong:
                raise SummaryError(self._wrong)
            return None
        if not self._left:
            return self._chosen
        one = len(self._left) == 1
        many = "another model" if one else f"{len(self._left)} other models"
        note = f"{many} of {sum(self._left):,} parameters beside it {'is' if one else 'are'} not counted"
        return replace(self._chosen, note=note, unused=note)


def _may_begin(line: str) -> bool:
    """Tell whether the first print of a text may begin here."""
    return line.rstrip().endswith(("(", ")", module.COUNTED)) and module.starts(line)


def _begins(line: str) -> bool:
    """Tell whether another model's print begins here; layers of one line are no model beside one."""
    return line.rstrip().endswith("(") and module.starts(line)


def _same(one: ModelSummary, other: ModelSummary) -> bool:
    """Tell whether two summaries are of one model: about as large, as a print shows no bare weights.

    A print and a table of one class may differ by more.
    """
    named = one.format != other.format and one.root.type == other.root.type
    return about(one.total_params, other.total_params, *([_NAMED] if named else ()))


def _table(lines: list[str], start: int) -> tuple[ModelSummary, int]:
    """Read a table with the reader that its header and its first row call for."""
    header = lines[start]
    if "┃" in header or "│" in header:
        return keras.parse(lines, start)
    if header[: header.find(HEADER)].strip():  # what begins each line would be taken for a branch of the tree
        raise fail(start + 1, header, "something stands before this header in its line: paste the table alone")
    if "depth-idx" in header or "(var_name)" in header:
        return torchinfo.parse(lines, start)
    at = first_line(lines, start + 1)
    while at < len(lines) and is_rule(lines[at]):
        at = first_line(lines, at + 1)
    first = lines[at] if at < len(lines) else ""
    label = first.strip().partition("  ")[0]
    if "(None" in first or "[(" in first or ("(" in label and not first.lstrip().startswith(("├", "└", "+"))):
        return keras.parse(lines, start)
    type_, dash, index = label.partition(" ")[0].rpartition("-")
    if dash and type_ and index.isdecimal():
        return torchsummary.parse(lines, start)
    return torchinfo.parse(lines, start)
