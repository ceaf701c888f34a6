"""Read the table of Keras' ``model.summary()``, version 2 (rules and blanks) and 3 (box characters). Pure."""

from __future__ import annotations

from estimator.parsers import text as t
from estimator.parsers.tree import RawShape, batch_of, per_sample
from estimator.types import Layer, ModelSummary

_BARS = "│┃|"
_DRAWN = "└├─ "
_MAX_WRAPPED = 32


def parse(lines: list[str], start: int) -> ModelSummary:
    """Parse the table whose header is ``lines[start]``.

    Raises:
        SummaryError: a row cannot be read, or there is none.
    """
    boxed = any(bar in lines[start] for bar in _BARS[:2])
    bounds = [] if boxed else _bounds(lines[start])
    columns = 0
    rows: list[tuple[list[str], int]] = []
    fresh = True
    at = start + 1
    while at < len(lines):
        line = lines[at]
        at += 1
        stripped = line.strip()
        if stripped.lstrip("│┃ ").startswith(("Total params", "Trainable params")):
            at -= 1
            break
        if t.is_rule(line):
            fresh = True
            if rows and stripped[:1] in ("=", "└", "╘"):
                break
            continue
        if not stripped:
            fresh = True
            continue
        cells = _boxed(line) if boxed else _sliced(line, bounds)
        columns = max(columns, len(cells))
        if not any(cells):
            fresh = True
            continue
        if rows and _continues(cells, fresh and boxed):
            if at - rows[-1][1] > _MAX_WRAPPED:
                raise t.fail(rows[-1][1], lines[rows[-1][1] - 1], "this row has no end: paste the whole table")
            rows[-1] = (_joined(rows[-1][0], cells), rows[-1][1])
        elif not rows and len(cells) > 1 and not cells[0].endswith(")") and "param" in line.lower():
            continue  # the second line of a wrapped header
        else:
            rows.append((cells, at))
        fresh = False
        if len(rows) > t.MAX_LAYERS:
            raise t.fail(at, line, f"more than {t.MAX_LAYERS:,} layers")
    if not rows:
        raise t.fail(start + 1, lines[start], "no layer follows this header: paste the whole table")
    return _summary(lines, at, rows)


def _bounds(header: str) -> list[int]:
    """Find where the columns of a Keras 2 table start."""
    titles = ("Layer (type)", "Output Shape", "Param #", "Connected to", "Trainable")
    return sorted(header.find(title) for title in titles if title in header)


def _boxed(line: str) -> list[str]:
    text = line.strip()
    for bar in _BARS[1:]:
        text = text.replace(bar, _BARS[0])
    return [cell.strip() for cell in text.strip(_BARS[0]).split(_BARS[0])]


def _sliced(line: str, bounds: list[int]) -> list[str]:
    """Cut a row at the columns; a cell may reach over its column when it is one word too long."""
    cells = []
    for index, begin in enumerate(bounds):
        end = bounds[index + 1] if index + 1 < len(bounds) else len(line)
        cells.append(line[begin if index else 0 : end].strip(" |"))
    return cells


def _continues(cells: list[str], fresh: bool) -> bool:
    """Tell whether this line goes on with the row before: it brings no number of parameters of its own."""
    if fresh:
        return False
    return len(cells) < 3 or not cells[2]


def _joined(cells: list[str], more: list[str]) -> list[str]:
    size = max(len(cells), len(more))
    left = cells + [""] * (size - len(cells))
    right = more + [""] * (size - len(more))
    # A wrapped shape needs its blank back; a wrapped name was cut inside a word or before its type.
    return [
        (f"{one} {two}" if index == 1 or two.startswith("(") else one + two).strip()
        for index, (one, two) in enumerate(zip(left, right, strict=True))
    ]


def _summary(lines: list[str], at: int, rows: list[tuple[list[str], int]]) -> ModelSummary:
    read: list[tuple[str, str, RawShape | None, int]] = []
    for cells, number in rows:
        label = cells[0].lstrip(_DRAWN + _BARS)
        name, open_, type_ = label.partition("(")
        type_ = type_.rstrip(") ").strip().replace(" ", "")
        if not open_ or not t.is_name(type_) or len(cells) < 3:
            raise t.fail(number, lines[number - 1], "expected `name (Type)  (output shape)  parameters`")
        shape_text = cells[1]
        shape = t.read_shape(shape_text)
        if shape is None and shape_text not in ("multiple", "?", "-", "", "unknown", "[]", "()"):
            raise t.fail(number, lines[number - 1], f"{t.short(shape_text)} is not an output shape")
        count_text = cells[2].partition(" ")[0]
        params = 0 if count_text in ("-", "?", "") else t.read_count(count_text)
        if params is None:
            raise t.fail(number, lines[number - 1], f"{t.short(cells[2])} is not a number of parameters")
        read.append((type_, name.strip(), shape, params))
    batch = batch_of((shape for _, _, shape, _ in read), None)
    children = tuple(Layer(type_, params, per_sample(shape, batch), name=name) for type_, name, shape, params in read)
    counted = sum(params for _, _, _, params in read)
    totals = t.read_totals(lines, at)
    stated = t.total_params(totals)
    optimizer = t.read_count(totals.get("optimizer params", "").partition(" ")[0])
    if stated is not None and optimizer:
        stated -= optimizer  # Keras 3 counts a compiled optimizer's state into the total
    inferred: tuple[str, ...] = ()
    if stated is not None and stated != counted:
        inferred = (f"the rows add up to {counted:,} parameters; the stated total of {stated:,} was taken",)
    return ModelSummary(
        format="keras",
        root=Layer("Model", 0, None, children),
        batch_size=batch,
        total_params=counted if stated is None else stated,
        inferred=inferred,
        frozen_params=t.frozen_params(totals),
    )
