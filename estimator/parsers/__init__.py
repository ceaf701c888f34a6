"""Summary text to `ModelSummary`, whichever tool printed it. Pure; raises `SummaryError` and nothing else."""

from __future__ import annotations

from estimator.breath import OFTEN, breathe
from estimator.parsers import keras, module, torchinfo, torchsummary
from estimator.parsers.text import clean, fail, first_line, from_notebook, is_rule, unprefixed
from estimator.sharing import share, unwrap
from estimator.types import ModelSummary, SummaryError

__all__ = ["SummaryError", "parse_summary"]

_HEADER = "Layer (type"
_MOST_OTHERS = 20
# How a line ends that stands in a notebook's file.
_IN_JSON = '\\n"'


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
    lines = clean(text)
    try:
        return _parse(lines)
    except SummaryError:
        if _IN_JSON in text:
            return _parse(clean(from_notebook(text)))
        bare = unprefixed(lines, _HEADER)
        if bare is None:
            raise
        return _parse(bare)


def _parse(lines: list[str]) -> ModelSummary:
    empty = -1
    others = 0
    for at, line in enumerate(lines):
        if not at & OFTEN:
            breathe()
        if _HEADER in line:
            return share(unwrap(_table(lines, at)))
        if line.rstrip().endswith(("(", ")", module.COUNTED)) and module.starts(line) and others < _MOST_OTHERS:
            summary = module.parse(lines, at)
            if summary.total_params:
                return share(unwrap(summary))
            empty = at if empty < 0 else empty
            others += 1
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


def _table(lines: list[str], start: int) -> ModelSummary:
    """Choose the reader for a table by its header and its first row."""
    header = lines[start]
    if "┃" in header or "│" in header:
        return keras.parse(lines, start)
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
