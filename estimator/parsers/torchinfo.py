"""Read the table of ``torchinfo.summary`` (and its older name torch-summary), whatever its columns and depth. Pure.

Rows stand in depth-first order, drawn with ``├─`` or, in ASCII, ``+``. A row whose children are hidden shows the
parameters of all of them; a row whose children are shown has only its own. Rows of single weights (``verbose=2``) are
not layers.
"""

from __future__ import annotations

import re
from collections import Counter
from math import prod
from typing import Final, NamedTuple

from estimator import sizes, versions
from estimator.adapters import FROZEN
from estimator.breath import OFTEN, breathe
from estimator.layer import Layer
from estimator.parametrized import LIST
from estimator.parsers import text as t
from estimator.parsers import whole
from estimator.parsers.tree import RawShape, batch_of, nest, per_sample, root_of
from estimator.rehearsals import lines as rehearsal
from estimator.types import ModelSummary, SummaryError
from estimator.walk import elements

_TITLES: Final = {
    "Kernel Shape": "kernel",
    "Groups": "groups",
    "Input Shape": "input",
    "Output Shape": "output",
    "Param #": "params",
    "Param %": "percent",
    "Mult-Adds": "macs",
    "Trainable": "trainable",
}
_DRAWN: Final = "│├└─|+ "
_BRANCHES: Final = "│├└|+"
_BARS: Final = "│|"  # one for each level above
_RECURRENT: Final = ("LSTM", "GRU", "RNN")
_MAX_WRAPPED: Final = 8
# What a row shows and no header.
_NO_TITLE: Final = re.compile(r"[\[│├└|+]|--")
_RULE: Final = "=="
_NO_SIZES: Final = (
    "this table shows no sizes, so nothing tells the activations: give summary() an input_size, or take print(model)"
)
_NO_PARAMETERS: Final = (
    'no column of this table tells the parameters: print it with col_names=("output_size", "num_params"), '
    "and paste all of its width"
)
_GUESSED: Final = (
    'the line "Forward/backward pass size" is missing below the table: what the blocks that it does not open keep is '
    "a guess"
)
_NO_TREE: Final = "what is drawn before layers is lost, so nothing tells what holds them: print it with ascii_only"
_NONE: Final = ("--", "[]")
_LINEAR: Final = "Linear"
_SAYS_WORDS: Final = ("ForCausalLM", "LMHead")
_WORDS: Final = 1000
_PACKS: Final = "MultiheadAttention"
# Models that give out codes of sounds: pieces first, then samples.
_CODES: Final = ("EncodecModel",)
_TWO: Final = 2
_RECURSIVE: Final = ("recursive", "True")
# By so much the rows of a table that is whole may add up to something else than its total.
_CUT_SHARE: Final = 0.01
# A printed size of parameters that tells their precision, in MB, and by which part it may differ.
_LEAST_MB: Final = 0.5
_HALVES: Final = 0.04
# By which part such a size may differ from that of layers that are called, in four bytes for each number.
_ROUNDED: Final = 0.01
# From so many times what a table shows its printed pass counts calls that are hidden.
_TWICE: Final = 1.9
# So many layers with parameters may give out what the model does: a linear one and a norm.
_MOST_ENDS: Final = 2
# Share of the parameters in what may be layers of the model's own.
_FEW: Final = 0.1
# What may have parameters and no mult-adds, and how many for each channel.
_UNCOUNTED: Final = (("BatchNorm", 2), ("Scale", 1))
# From this share of the parameters on blocks that are not opened hold most of a model.
_MOST_HIDDEN: Final = 0.5
_BLOCKS: Final = ("Block", "Stage", "Encoder", "Decoder", "Bottleneck")
# What is called so and holds no layers: ``DropBlock``, ``ShuffleBlock``, ``PositionalEncoder``.
_NO_LAYERS: Final = ("Drop", "Shuffle", "Position", "Fourier")
_ONE_LAYER: Final[tuple[str, ...]] = (
    "1d",
    "2d",
    "3d",
    "1D",
    "Linear",
    "Norm",
    "Embedding",
    "LSTM",
    "GRU",
    "RNN",
    "ReLU",
)


# What is drawn before a row, class, attribute, depth (and index, which does not matter), values.
_LABEL: Final = re.compile(
    r"([│├└─|+ ]*)([^\s:(│├└─|+][^\s:(]*)(?: \((\w[^)]*)\))?(?:: *(\d{1,4})(?:-\S*)?)?(?: (.*))?"
)
_GAPS: Final = re.compile("  +")  # between columns
_DEPTHS: Final = {str(depth): depth for depth in range(t.MAX_DEPTH + 1)}


class _Row(NamedTuple):
    """A row that is different from those before it, by more than its index.

    Attributes:
        type: class of the layer.
        name: attribute that holds it, or "".
        cells: its values by column.
        number: line of the first such row.
    """

    type: str
    name: str
    cells: dict[str, str]
    number: int


# A row's depth, and its place among the different ones.
_Place = tuple[int, int]


class _Table(NamedTuple):
    """A table as it was read.

    Attributes:
        lines: of the whole text.
        end: index of the line behind the last row.
        columns: what they show: values of `_TITLES`.
        rows: all of them.
        different: those that are not as one before but for their index.
        indices: of all rows, such as ``2-8``; "" where none is shown.
        ruled: whether it begins with the rule that torchinfo draws.
    """

    lines: list[str]
    end: int
    columns: list[str]
    rows: list[_Place]
    different: list[_Row]
    indices: list[str]
    ruled: bool


def _fail(lines: list[str], row: _Row, why: str) -> SummaryError:
    """Build the error for a row."""
    return t.fail(row.number, lines[row.number - 1], why)


class _Columns:
    """Splits the values of rows by the header; rows with equal text share one dictionary."""

    def __init__(self, names: list[str], has_index: bool) -> None:
        self.names = names
        self.has_index = has_index
        self._made: dict[str, dict[str, str]] = {}

    def read(self, rest: str) -> dict[str, str] | None:
        """Give the values by column; None if there are not as many as columns."""
        made = self._made.get(rest)
        if made is not None:
            return made
        values = _GAPS.split(rest.strip())
        if len(values) != len(self.names):
            values = _cells(rest)
            if len(values) != len(self.names):
                return None
        made = self._made[rest] = {name: values[at] for at, name in enumerate(self.names)}
        return made


class _Seen:
    """What was read of rows. Most are as one before but for their index; others begin, or end, as one before.

    Attributes:
        rows: the different ones.
        places: of rows, by what stands before and behind the index, with how that begins.
    """

    def __init__(self, columns: _Columns) -> None:
        self.rows: list[_Row] = []
        self.places: dict[tuple[str, str], tuple[str, _Place]] = {}
        self._columns = columns
        # Class and attribute by what stands before the index.
        self._labels: dict[str, _Row] = {}

    def find(self, head: str, index: str, rest: str, same: tuple[str, _Place] | None, number: int) -> _Place | None:
        """Give a row's place and its depth where that is known of its parts.

        Args:
            head: what stands before the index.
            index: of the row.
            rest: what stands behind it.
            same: the place of these, where another index stood between them.
            number: line of the row.
        """
        if not index:
            return None if same is None else same[1]
        level = index.partition("-")[0]
        depth = _DEPTHS.get(level)
        if depth is None:
            return None
        if same is not None:
            return depth, same[1][1]
        label = self._labels.get(head)
        if label is None:
            return None
        alike = self.places.get((head, rest.lstrip()))
        if alike is not None:
            found = depth, alike[1][1]
        else:
            cells = self._columns.read(rest)
            if cells is None:
                return None
            found = self.add(depth, _Row(label.type, label.name, cells, number))
        self._put(head, level + "-", rest, found)
        return found

    def add(self, depth: int, row: _Row) -> _Place:
        """Take one more row."""
        self.rows.append(row)
        return depth, len(self.rows) - 1

    def keep(self, head: str, index: str, rest: str, found: _Place) -> None:
        """Keep what was read of a line, which reads the same wherever it stands."""
        level = index.partition("-")[0]
        self._put(head, level + "-" if level else "\n", rest, found)
        if index:
            self._labels[head] = self.rows[found[1]]

    def _put(self, head: str, begins: str, rest: str, found: _Place) -> None:
        """Put a row where it is found, also behind an index of another length, which other blanks fill up."""
        self.places[head, rest] = self.places[head, rest.lstrip()] = begins, found


def parse(lines: list[str], start: int) -> tuple[ModelSummary, int]:
    """Parse the table whose header starts at ``lines[start]``.

    Returns:
        The model, and the index of the line behind it.

    Raises:
        SummaryError: a row cannot be read, or there is none.
    """
    header = lines[start]
    indent = len(header) - len(header.lstrip())
    if indent:
        lines = _unindented(lines, start, indent)
    at = start + 1
    while at < len(lines) and at - start < _MAX_WRAPPED and _continues(header, lines[at]):
        # A terminal breaks inside of words, too.
        header = max(f"{header} {lines[at].strip()}", header + lines[at].strip(), key=lambda both: len(_titles(both)))
        at += 1
    columns = _Columns([key for _, key in _titles(header)], "depth-idx" in header)
    if not columns.names:
        raise t.fail(start + 1, header, "no known column stands in this header: paste it as torchinfo prints it")
    if "output" not in columns.names and "input" not in columns.names:
        raise t.fail(start + 1, header, _NO_SIZES)
    if "params" not in columns.names and "macs" not in columns.names:
        raise t.fail(start + 1, header, _NO_PARAMETERS)
    rows, different, at, indices = _rows(lines, at, columns)
    if not rows:
        raise t.fail(start + 1, header, "no layer follows this header: paste the whole table")
    lost = next((different[place] for depth, place in rows[1:] if not depth), None)
    if lost is not None:
        raise _fail(lines, lost, _NO_TREE)
    if not any(map(_sized, different)):
        raise t.fail(start + 1, header, _NO_SIZES)
    if rows[0][0]:  # without a row of the model itself, which would say what its last layer gives out
        t.check_end(lines, start, at)
    return _summary(_Table(lines, at, columns.names, rows, different, indices, t.is_ruled(lines, start))), at


def _continues(header: str, line: str) -> bool:
    """Tell whether a header that is wrapped may go on with this line: neither rule nor row stands there."""
    return not (t.is_rule(line) or header.endswith(_RULE) or _NO_TITLE.search(line))


def _titles(header: str) -> list[tuple[int, str]]:
    """Find the known columns of a header, in order."""
    return sorted((header.find(title), key) for title, key in _TITLES.items() if title in header)


def _unindented(lines: list[str], start: int, indent: int) -> list[str]:
    """Take the blanks before a table from it, and from what stands behind it."""
    bare = lines[:start]
    for at in range(start, len(lines)):
        if not at & OFTEN:
            breathe()
        line = lines[at]
        bare.append(line[indent:] if line[:indent].isspace() else line)
    return bare


def _rows(lines: list[str], at: int, columns: _Columns) -> tuple[list[_Place], list[_Row], int, list[str]]:
    """Read the rows from line index ``at`` on, the different ones, the index of the line behind them, their indices."""
    rows: list[_Place] = []
    indices: list[str] = []
    seen = _Seen(columns)
    places, has_index = seen.places, columns.has_index
    count, most = len(lines), t.MAX_LAYERS
    while at < count and len(rows) <= most:
        if not at & OFTEN:
            breathe()
        line = lines[at]
        head, _, tail = line.partition(": ") if has_index else (line, "", "")
        index, _, rest = tail.partition(" ")
        same = places.get((head, rest))
        if same is not None and index.startswith(same[0]):  # as most are
            rows.append(same[1])
            indices.append(index)
            at += 1
            continue
        found = seen.find(head, index, rest, same, at + 1)
        if found is not None:
            rows.append(found)
            indices.append(index)
            at += 1
            continue
        if not index and (not line.strip() or (t.is_rule(line) and not _is_branch(line) and line.strip() not in _NONE)):
            if rows and line.strip() and not _goes_on(lines, at + 1, columns):
                break
            at += 1
            continue
        if line.startswith(("Total params", "Trainable params")):
            break
        at += 1
        number = at
        row = _row(line, columns, number)
        if row is None:
            if _is_weight(line, lines[at] if at < count else "", columns.has_index):
                continue
            row, at = _whole(lines, at, columns)
        found = seen.add(*row)
        rows.append(found)
        indices.append(index)
        if at == number and (head[-1:] == ")" or "(" not in head):
            seen.keep(head, index, rest, found)
    if len(rows) > t.MAX_LAYERS:
        raise t.fail(at, lines[at - 1], f"more than {t.MAX_LAYERS:,} layers: print the model with a smaller depth")
    return rows, seen.rows, at, indices


def _goes_on(lines: list[str], at: int, columns: _Columns) -> bool:
    """Tell whether a row follows the rule before line index ``at``: somebody drew it between the rows."""
    at = t.first_line(lines, at)
    return at < len(lines) and lines[at][0] in _BRANCHES and _row(lines[at], columns, at + 1) is not None


def _is_branch(line: str) -> bool:
    """Tell whether this is what is drawn before a row that was cut off."""
    return line[0] in _BRANCHES and not line.strip(_DRAWN)


def _whole(lines: list[str], at: int, columns: _Columns) -> tuple[tuple[int, _Row], int]:
    """Read a row that is wrapped, of which the first line ends at index ``at``, and the index of the line behind it.

    Raises:
        SummaryError: the lines do not make a row.
    """
    number = at
    line = lines[at - 1]
    if t.is_cut(line):
        raise t.fail(number, line, t.CUT)
    while at < len(lines) and at - number < _MAX_WRAPPED and len(line) <= t.MAX_LINE:
        more = lines[at].strip()
        if not more or more[0] in "├│└|+" or more.startswith("Total params"):
            break
        if t.is_rule(more) and not all(cell in _NONE for cell in more.split()):
            break
        inside = line.count("[") > line.count("]") and line[-1].isdecimal() and more[0].isdecimal()
        line = f"{line}{more}" if inside else f"{line} {more}"
        at += 1
        row = _row(line, columns, number)
        if row is not None:
            return row, at
    raise t.fail(
        number, line, f"expected a layer and {len(columns.names)} columns: paste the table as torchinfo prints it"
    )


def _row(line: str, columns: _Columns, number: int) -> tuple[int, _Row] | None:
    """Read one row and its depth; None if it is not whole or not a layer.

    Raises:
        SummaryError: the row is nested too deep.
    """
    breathe()
    found = _LABEL.fullmatch(line)
    if found is None:
        return None
    drawn, type_, name, level, rest = found.groups("")
    if level:
        depth = int(level)
    else:
        depth = sum(map(drawn.count, _BARS)) + 1 if len(drawn) >= 2 else 0
        if depth > 0 and (columns.has_index or not drawn.strip()):
            return None
    if not t.is_name(type_):
        return None
    if depth > t.MAX_DEPTH:
        raise t.fail(number, line, f"nested deeper than {t.MAX_DEPTH}: print the model with a smaller depth")
    cells = columns.read(rest)
    return None if cells is None else (depth, _Row(type_, name, cells, number))


def _sized(row: _Row) -> bool:
    """Tell whether a row shows the size of what comes out, or goes in."""
    return row.cells.get("output", "--") not in _NONE or row.cells.get("input", "--") not in _NONE


def _cells(rest: str) -> list[str]:
    """Split the values of a row at blanks outside of brackets."""
    values: list[list[str]] = []
    open_ = 0
    for part in rest.split():
        if open_ > 0:
            values[-1].append(part)
        else:
            values.append([part])
        open_ += part.count("[") - part.count("]")
    return list(map(" ".join, values))


def _is_weight(line: str, after: str, has_index: bool) -> bool:
    """Tell whether this is a row of one weight (``│    └─weight  [3, 64]  ├─192``), as ``verbose=2`` prints.

    Layers have numbers, or names in parentheses. Where a table shows neither, the line after it tells whether a class
    that is written as a weight is (``_DenseBlock``) has its columns there.
    """
    body = line.lstrip(_DRAWN)
    if len(line) - len(body) < 2 or t.is_cut(line) or ": " in body or " (" in body:
        return False
    cells = body.split()
    if not cells or has_index or "." in cells[0] or cells[-1][0] in _BRANCHES:
        return True
    more = after.strip()
    goes_on = more != "" and more[0] not in _BRANCHES and (more in _NONE or not t.is_rule(more))
    return not body[0].isupper() and not goes_on


def _summary(table: _Table) -> ModelSummary:
    lines, columns, rows, different = table.lines, table.columns, table.rows, table.different
    shapes = _shapes(table)
    depth, first = rows[0][0], different[rows[0][1]]
    root_shape = shapes[first.cells.get("output", "--")] or shapes[first.cells.get("input", "--")]
    main = "output" if "output" in columns else "input"
    root = root_shape if depth == 0 else None
    witnesses = different if root else [different[place] for _, place in rows]
    shown = Counter([row.cells.get(main, "--") for row in witnesses])
    types = {row.type for row in different}
    second = root[1] if root and len(root) > _TWO and first.type in _CODES else None
    batch = second or batch_of([(shapes[text], count) for text, count in shown.items()], root, types)
    breathe()
    samples = {text: per_sample(shape, batch) for text, shape in shapes.items()}
    layers: list[Layer] = []
    for number, row in enumerate(different):
        if not number & OFTEN:
            breathe()
        params, args = _params(row, lines, batch or 1, shapes)
        output, input_ = samples[row.cells.get("output", "--")], samples[row.cells.get("input", "--")]
        layers.append(Layer(row.type, params, output, (), args, row.name, input_))
    layers[rows[0][1]] = _fed(layers[rows[0][1]], shapes[first.cells.get("input", "--")], batch or 0)
    breathe()
    totals = t.read_totals(lines, table.end)
    params_mb = t.params_mb(totals)
    flat = [(depth, layers[place]) for depth, place in rows]
    counted = sum([layer.params for _, layer in flat])
    stated = t.stated_params(totals, counted)
    halves = (
        stated is not None
        and _PACKS not in types
        and _of_halves(stated, params_mb)
        and not t.about(round((params_mb or 0.0) * 1e6), 4 * _called(flat), _ROUNDED)
    )
    pass_mb = t.pass_mb(totals)
    if pass_mb is not None and halves:
        pass_mb *= 2
    # Mult-adds tell nothing of blocks that are hidden in lists, and too much of others that are hidden.
    if "params" not in columns and not (stated and abs(counted - stated) <= _FEW * stated):
        raise _fail(lines, first, _NO_PARAMETERS)
    inferred: list[str] = []
    if depth == 0 and "params" in columns:
        if batch == 0:
            raise _fail(lines, first, "this is of no samples: print it with a batch of one")
        _check_whole(table, shapes, counted, stated, totals)
        flat, inferred = _all_calls(table, shapes, flat, counted, pass_mb, stated)
    if depth == 1 and "params" in columns:
        _check_hidden(table, flat)
    if LIST in types and "params" in columns:
        _check_made(table, layers)
    if root is None and _PACKS in types:
        flat, packed = _packed(flat)
        if packed:
            inferred.append(f"this version counts no packed projections of attention; {packed:,} parameters were added")
            counted += packed
            stated = None if stated is None else stated + packed
    inferred += [*_taken(columns, counted, stated), *_guessed(flat, pass_mb)]
    hides = next((said for said in (whole.UNSURE, _GUESSED) if said in inferred), "")
    return ModelSummary(
        format="torchinfo",
        root=_with_logits(versions.today(root_of(nest(flat)), types, in_order=True)),
        batch_size=batch,
        total_params=counted if stated is None else stated,
        inferred=tuple(inferred),
        note=hides,
        unused=hides,
        pass_mb=pass_mb,
        input_mb=None if halves else t.input_mb(totals),
        frozen_params=t.frozen_params(totals) or sum([layer.params for _, layer in flat if FROZEN in layer.args]),
        rehearsals=rehearsal.read(totals),
        loads=rehearsal.loads(totals),
        beside_mib=rehearsal.beside_mib(totals),
        apart=bool(root and root[0] != batch),
    )


def _fed(root: Layer, taken: RawShape | None, batch: int) -> Layer:
    """Give a model what goes into it for each of so many steps, where it takes series: ``[8, 20, 4, 84, 84]``."""
    if not taken or len(taken) <= _TWO or taken[0] == batch or (taken[0] or 0) * (taken[1] or 0) != batch:
        return root
    return root.but(input_shape=tuple([size or 1 for size in taken[2:]]))


def _taken(columns: list[str], counted: int, stated: int | None) -> list[str]:
    """Say what was taken for what a table does not show, and which number where it shows two."""
    said: list[str] = []
    if "params" not in columns:
        said.append("the summary has no column of parameters; they follow from mult-adds")
    if stated is not None and stated != counted:
        said.append(f"the rows add up to {counted:,} parameters; the stated total of {stated:,} was taken")
    if "output" not in columns:
        said.append("the summary has no output shapes; the input of the next layer stands for them")
    return said


def _with_logits(root: Layer) -> Layer:
    """Give a model what its head gives out, where the row shows what the part before gives.

    Of outputs that have names the row shows the last: behind logits, what an encoder made.
    """
    shape, parts = root.output_shape, root.children
    if len(parts) == 1:  # peft's, and a class around a model
        inner = _with_logits(parts[0])
        return root if inner is parts[0] else root.but(output_shape=inner.output_shape, children=(inner,))
    if shape is None or not parts:
        return root
    head, made = parts[-1], parts[-1].output_shape
    if not made or made[-1] < _WORDS or elements(made) <= elements(shape):
        return root
    names_words = head.type == _LINEAR or any(mark in head.type for mark in _SAYS_WORDS)
    if not names_words or not any(part.output_shape == shape and part.type != _LINEAR for part in parts[:-1]):
        return root
    return root.but(output_shape=made)


def _check_whole(
    table: _Table, shapes: dict[str, RawShape | None], counted: int, stated: int | None, totals: dict[str, str]
) -> None:
    """Refuse a table that ends before what the model gives out, and one with another's rows.

    Raises:
        SummaryError: it cannot be whole.
    """
    lines, at, rows, different = table.lines, table.end, table.rows, table.different
    # Of the rules that torchinfo draws above the header and behind the last row, the second is not there.
    unended = at >= len(lines) and not totals and table.ruled and (len(rows) > 1 or not counted)
    if unended or (stated is not None and counted * 2 < stated):
        first = different[rows[0][1]]
        sizes_of = [(shapes[different[place].cells.get("output", "--")], place) for _, place in rows[1:]]
        own, other = (
            shapes[first.cells.get("output", "--")],
            next((size for size, _ in reversed(sizes_of) if size), None),
        )
        differs = _elements(own) != _elements(other) if own and other else unended
        if differs:
            gives = list(own) if own else "which it does not show"
            raise t.fail(at, lines[at - 1], f"the table ends before what the model gives out, {gives}: {whole.CURE}")
        # Blocks that give out what the model does tell nothing of those behind them.
        ends = sum([size == own and bool(_own_count(different[place])) for size, place in sizes_of])
        if unended and ends > _MOST_ENDS:
            raise t.fail(at, lines[at - 1], t.NO_END)
    why = t.too_many(counted, t.total_params(totals))
    if why:
        raise t.fail(*t.total_line(lines, at), why)


def _own_count(row: _Row) -> int:
    """Give the parameters that a row shows; 0 for none."""
    return t.read_count(row.cells["params"].strip("()├└─|+ ")) or 0


def _elements(shape: RawShape) -> int:
    return prod([size or 1 for size in shape])


def _of_halves(params: int, params_mb: float | None) -> bool:
    """Tell whether a table is of a model in bf16 or fp16, whose printed sizes are of two bytes for each number."""
    if params_mb is None or params_mb < _LEAST_MB:
        return False
    return abs(params_mb * 1e6 - 2 * params) <= _HALVES * params


def _called(flat: list[tuple[int, Layer]]) -> int:
    """Count the parameters of rows that hold no others: those that hold some show what is never called, too."""
    breathe()
    ends = [depth for depth, _ in flat[1:]] + [0]
    return sum([layer.params for (depth, layer), below in zip(flat, ends, strict=True) if below <= depth])


def _all_calls(
    table: _Table,
    shapes: dict[str, RawShape | None],
    flat: list[tuple[int, Layer]],
    counted: int,
    pass_mb: float | None,
    stated: int | None,
) -> tuple[list[tuple[int, Layer]], list[str]]:
    """Give all calls in order, those too that the table hides, and a sentence where it hides any.

    Raises:
        SummaryError: rows are missing that are no calls of others, or nothing tells which calls they were; or some
            stand there twice.
    """
    different = table.different
    depths = [depth for depth, _ in table.rows]
    missing = whole.gaps(depths, table.indices)
    if stated is not None and counted > stated and whole.surplus(depths, table.indices):
        sized = [different[place].cells.get("output", "--") not in _NONE for _, place in table.rows]
        if twice := whole.twice(depths, sized, table.indices):
            raise _missing(table, twice, "rows stand there twice: paste each part of the table once")
    if not missing and not _may_repeat(table, shapes, pass_mb or 0.0):
        return flat, []
    if missing and (stated is None or not t.about(stated, counted, _CUT_SHARE)):
        raise _missing(table, missing[0][0], f"rows before this one are missing: {whole.CURE}")
    full = [
        whole.Row(depth, row.type, row.cells["params"] != "--", shapes[row.cells.get("output", "--")])
        for depth, row in [(depth, different[place]) for depth, place in table.rows]
    ]
    again = whole.called_again(full, missing, pass_mb or 0.0)
    if again is None:
        if missing and whole.is_open(full):
            raise _missing(table, missing[0][0], whole.HIDDEN)
        return flat, [whole.UNSURE] if missing else []
    if len(again) == len(flat):
        return flat, [whole.WITHOUT] if missing else []
    recursive = {id(layer): layer.but(params=0, args=(*layer.args, _RECURSIVE)) for _, layer in flat if layer.params}
    made: list[tuple[int, Layer]] = []
    seen: set[int] = set()
    for number in again:
        depth, layer = flat[number]
        made.append((depth, recursive.get(id(layer), layer) if number in seen else layer))
        seen.add(number)
    return made, [whole.SAID]


def _may_repeat(table: _Table, shapes: dict[str, RawShape | None], pass_mb: float) -> bool:
    """Tell whether the printed pass is twice what a table shows, or more, which shows no second call of a layer."""
    if not pass_mb:
        return False
    counts = Counter([place for _, place in table.rows])
    visible = 0
    for place, row in enumerate(table.different):
        cell = row.cells["params"]
        if cell == "(recursive)":
            return False
        if cell != "--" and whole.counts(row.type):
            shape = shapes[row.cells.get("output", "--")]
            visible += counts[place] * prod([size or 1 for size in shape]) if shape else 0
    return 0 < visible * _TWICE < pass_mb * 1e6 / 8


def _missing(table: _Table, behind: int, why: str) -> SummaryError:
    """Build the error for rows that are missing before this one."""
    mark = f": {table.indices[behind]} "
    number = next((number for number, line in enumerate(table.lines, 1) if mark in f"{line} "), 1)
    return t.fail(number, table.lines[number - 1], why)


def _shapes(table: _Table) -> dict[str, RawShape | None]:
    """Read the shapes of rows, by what is written.

    Raises:
        SummaryError: a cell is none.
    """
    shapes: dict[str, RawShape | None] = {"--": None, "[]": None}
    reader = t.Shapes()
    columns = [key for key in ("output", "input") if key in table.columns]
    for number, row in enumerate(table.different):
        if not number & OFTEN:
            breathe()
        for key in columns:
            cell = row.cells[key]
            if cell not in shapes:
                shapes[cell] = shape = reader.read(cell)
                if shape is None:
                    raise _fail(table.lines, row, f"{t.short(cell)} is not a shape")
    return shapes


def _packed(flat: list[tuple[int, Layer]]) -> tuple[list[tuple[int, Layer]], int]:
    """Add the packed projections of PyTorch's attention, bare parameters, which torchinfo counts since version 1.7.

    Returns:
        The layers, and how many parameters were added.
    """
    made: list[tuple[int, Layer]] = []
    known: dict[tuple[int, int], Layer] = {}
    added = 0
    shown = -1  # the place of a projection that attention counts for its own, as in later versions
    for at, (depth, layer) in enumerate(flat):
        if not at & OFTEN:
            breathe()
        now = layer
        if at == shown:
            continue
        if layer.type == _PACKS and not layer.params and layer.output_shape and not layer.args:
            each = layer.output_shape[-1] * (layer.output_shape[-1] + 1)
            now = known.setdefault((id(layer), each), layer.but(params=4 * each))
            inner = flat[at + 1] if at + 1 < len(flat) else (0, layer)
            shown = at + 1 if inner[0] > depth and inner[1].params == each else -1
            added += (4 if shown < 0 else 3) * each
        made.append((depth, now))
    return made, added


def _check_hidden(table: _Table, flat: list[tuple[int, Layer]]) -> None:
    """Refuse a table of torch-summary that hides most of the model: unlike torchinfo it counts little of what it hides.

    It draws branches of two kinds, and shows no row of the model itself.

    Raises:
        SummaryError: blocks below the printed depth hold many of the parameters.
    """
    breathe()
    deepest = max(depth for depth, _ in flat)
    hiding = [at for at, (depth, layer) in enumerate(flat) if depth == deepest and _hides(layer)]
    below = [depth for depth, _ in flat[1:]] + [0]
    # Of a block that holds nothing but a list, which is not called itself, nothing is counted at all.
    empty = [at for at, (depth, layer) in enumerate(flat) if below[at] <= depth and _is_empty(layer)]
    if sum(flat[at][1].params for at in hiding) > sum(layer.params for _, layer in flat) * _FEW or empty:
        row = table.different[table.rows[(empty or hiding)[0]][1]]
        if deepest == 1 or table.lines[row.number - 1].lstrip().startswith("|"):
            why = "torch-summary tells nothing of what is inside: print the model with depth=20"
            raise _fail(table.lines, row, why)


def _guessed(flat: list[tuple[int, Layer]], pass_mb: float | None) -> list[str]:
    """Say of a table without its printed pass, which tells how much hidden blocks give out, that it hides most of all.

    Returns:
        A sentence, or none.
    """
    if pass_mb is not None:
        return []
    breathe()
    below = [depth for depth, _ in flat[1:]] + [0]
    hidden = sum([layer.params for at, (depth, layer) in enumerate(flat) if below[at] <= depth and _hides(layer)])
    return [_GUESSED] if hidden > sum([layer.params for _, layer in flat]) * _MOST_HIDDEN else []


def _is_empty(layer: Layer) -> bool:
    if layer.params or not layer.output_shape or not layer.type.endswith(_BLOCKS):
        return False
    return not any(mark in layer.type for mark in _NO_LAYERS)


def _check_made(table: _Table, layers: list[Layer]) -> None:
    """Refuse a table of a torchinfo before 1.7 that counts no weights which are made anew at each call.

    Raises:
        SummaryError: no such weights have parameters.
    """
    breathe()
    made = [at for at, row in enumerate(table.different) if row.type == LIST]
    if not any(layers[at].params for at in made):
        why = "this version counts no parametrized weights: take torchinfo 1.8, or print(model)"
        raise _fail(table.lines, table.different[made[0]], why)


def _hides(layer: Layer) -> bool:
    breathe()
    return layer.params > 0 and not (layer.type.endswith(_ONE_LAYER) and sizes.knows(layer.type))


def _params(
    row: _Row, lines: list[str], batch: int, shapes: dict[str, RawShape | None]
) -> tuple[int, tuple[tuple[str, str], ...]]:
    """Read a row's parameters and what else it says: kernel, groups, recursive, frozen.

    Raises:
        SummaryError: the cell is no number.
    """
    cells = row.cells
    args: tuple[tuple[str, str], ...] = ()
    if "kernel" in cells or "groups" in cells:
        args = tuple([(key, cells[key]) for key in ("kernel", "groups") if cells.get(key, "--") != "--"])
    cell = cells.get("params")
    if cell is None:
        return _params_from_macs(row, batch, shapes), args
    if cell == "(recursive)":
        return 0, (*args, _RECURSIVE)
    params = 0 if cell == "--" else t.read_count(cell.strip("()├└─|+ "))
    if params is None:
        raise _fail(lines, row, f"{t.short(cell)} is not a number of parameters")
    if cell[0] == "(" or row.cells.get("trainable") == "False":
        args = (*args, FROZEN)
    return params, args


def _params_from_macs(row: _Row, batch: int, shapes: dict[str, RawShape | None]) -> int:
    """Undo torchinfo's mult-adds: parameters x outputs of one channel (convolutions), x steps or x batch."""
    macs = t.read_count(row.cells.get("macs", ""))
    shape = shapes.get(row.cells.get("output", "--"))
    if not shape:
        return 0
    if not macs:  # as of a norm that holds its activation, and of a bare factor for each channel
        return next((each * (shape[1] or 0) for name, each in _UNCOUNTED if name in row.type and len(shape) > 1), 0)
    times = shape[0] or batch
    if "Conv" in row.type:
        for size in shape[2:]:
            times *= size or 1
    elif row.type in _RECURRENT and len(shape) > 2:
        times *= shape[1] or 1
    return macs // times if times > 0 else 0
