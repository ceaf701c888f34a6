"""Notes what blocks keep in their own code: what autograd was seen to keep in libraries' models, less the account."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from estimator.dataset import printers
from estimator.dataset.specs import FITTED, Spec
from estimator.dataset.store import Dataset
from estimator.dataset.tree import Trace
from estimator.methods.rad import Rad
from estimator.methods.rad.familiar import without
from estimator.methods.rad.fit.blocks import Noted
from estimator.methods.rad.fit.matched import Node, Pair, calls_of, modules_of, pairs_of_rows, pairs_of_tree, sizes_of
from estimator.methods.rad.fit.processes import forked
from estimator.methods.rad.keeping import kept_by, matrix_kept
from estimator.methods.rad.kinds import Kind, kind_of
from estimator.methods.rad.known import blocks_of
from estimator.methods.rad.liveness import INSIDE_SHARE, matrices_at_work, moved_by
from estimator.methods.rad.own_code import HIDDEN, NO_CODE, inside, of_model
from estimator.methods.rad.program import Program
from estimator.methods.rad.unopened import TOKENS, hidden_blocks, insides, tokens_of
from estimator.parsers import parse_summary
from estimator.types import Precision, SummaryError, Workload

PRECISIONS: Final[tuple[Precision, ...]] = ("fp32", "amp", "bf16")
_BATCH: Final = 2
_CHUNK: Final = 20  # models for a process at a time
# Depths at which users print with torchinfo, beside all.
_DEPTHS: Final = (2, 3, 4, 5)
# Elements at work are counted without autocast and under it; in bytes of these.
_MOVED: Final[tuple[tuple[Precision, int], ...]] = (("fp32", 4), ("amp", 2))
_TWO: Final = 2
_HALF: Final = 2  # bytes of a number
_NEAR: Final = 0.02
_NOTHING_KEPT: Final = (0.0,) * len(PRECISIONS)
_NOTHING_MOVED: Final = ((0.0, 0.0), (0.0, 0.0))
# In types of models whose attention is among the tokens of a window.
_WINDOWS: Final = ("Window", "Swin")
# Fewer elements counted of a hidden block's one, as inside of gates of one pixel, say nothing of its size.
_LEAST_COUNTED: Final = 0.01


def noted(dataset: Dataset, account: Rad, splits: Collection[str] = FITTED) -> list[Noted]:
    """Compare what autograd kept with the account, block by block.

    Args:
        dataset: with ``saved``.
        account: a model that knows of no own code.
        splits: parts of the data set; what judges is not looked at.
    """
    models: dict[str, Spec] = {}
    for row in dataset.rows:
        if row.split in splits and any((row.spec.model_id, precision) in dataset.saved for precision in PRECISIONS):
            models.setdefault(row.spec.model_id, row.spec)
    specs = list(models.values())
    parts = forked([partial(_noted, dataset, account, specs[at : at + _CHUNK]) for at in range(0, len(specs), _CHUNK)])
    return [item for part in parts for item in part]


def _noted(dataset: Dataset, account: Rad, specs: Sequence[Spec]) -> list[Noted]:
    return [item for spec in specs for item in _of_model(dataset, account, spec)]


def _of_model(dataset: Dataset, account: Rad, spec: Spec) -> Iterator[Noted]:
    trace = dataset.trace(spec)
    saved = [dataset.saved.get((spec.model_id, precision)) for precision in PRECISIONS]
    saved = [saved[0], *(each and _whole_inputs(trace, each) for each in saved[1:])]
    calls = calls_of(trace, saved)
    whole = _Whole({}, {}, {})
    for format_, text in _texts(trace):
        try:
            shaped, program, _ = account.account(parse_summary(text), Workload(_BATCH, spec.seq_len))
        except SummaryError:
            continue
        if printers.of_another_size(shaped, trace.sample()):
            continue
        root = modules_of(trace, saved) if format_ == "module" else calls
        pairs = pairs_of_rows(root, program) if program.flat else pairs_of_tree(root, shaped.root, program)
        if pairs is None:
            continue
        hidden: dict[int, list[float]] = {}
        if format_ == "torchinfo":
            nodes = [node for node, _, _ in pairs]
            hidden = {at: nodes[number].all_saved() for number, at in hidden_blocks(program)}
            whole = _Whole(
                whole.moved or _moved(nodes, program, hidden if None not in saved else {}),
                whole.matrices or _matrices(nodes, program),
                whole.cached or _cached(nodes, program),
            )
            yield from _hidden_of(nodes, program, whole, saved, spec.group)
        yield from _shown(format_, pairs, program, hidden, saved, spec.group)


def _texts(trace: Trace) -> Iterator[tuple[str, str]]:
    """Print a model in each format; with torchinfo all of its layers first, then as users do."""
    whole = printers.torchinfo_text(trace, _BATCH, depth=20)
    yield "torchinfo", whole
    yield "torchsummary", printers.torchsummary_text(trace)
    yield "module", printers.module_text(trace, with_params=True)
    cut = {printers.torchinfo_text(trace, _BATCH, depth=depth): None for depth in _DEPTHS}
    yield from (("torchinfo", text) for text in cut if text != whole)


def _shown(
    format_: str,
    pairs: Sequence[Pair],
    program: Program,
    hidden: Mapping[int, Sequence[float]],
    saved: Sequence[Sequence[int] | None],
    group: str,
) -> Iterator[Noted]:
    """Note what blocks keep whose layers are shown; the sums of those of one type."""
    sizes: dict[tuple[str, str, tuple[tuple[str, str], ...]], float] = defaultdict(float)
    totals: dict[tuple[str, str, tuple[tuple[str, str], ...]], list[float]] = {}
    for number, values in _own(format_, pairs, program, hidden).items():
        layer, _, _, elements = program.ends[number]
        key = layer.type, inside(program.ends, number, "", program.flat), _general(program, number)
        sizes[key] += elements
        totals[key] = [one + other for one, other in zip(totals.get(key, _NOTHING_KEPT), values, strict=True)]
    names = blocks_of(format_, program.names)
    for (type_, inner, general), total in totals.items():
        size = max(sizes[type_, inner, general], 1)
        each = tuple(None if kept is None else value / size for kept, value in zip(saved, total, strict=True))
        yield Noted(format_, type_, inner, names, general, group, each)


_Moved = tuple[float, float]
"""Elements that are there at once, and those of them that are an attention's matrices."""


def _whole_inputs(trace: Trace, saved: Sequence[int]) -> list[int]:
    """Give what was noted in half precision, with the inputs of linear layers that were taken for their weights.

    They were left out where they had the shape of a parameter, which happened for one of the two batch sizes that were
    compared: an input seems to be kept twice, or to give back what it takes.
    """
    modules, found = trace.modules(), list(saved)
    for number, call in enumerate(trace.calls):
        if kind_of(modules[call.module].type) is Kind.LINEAR:
            once = _HALF * sizes_of(call)[0]
            if found[number] in (-once, _TWO * once):
                found[number] = once
    return found


def _moved(
    nodes: Sequence[Node], program: Program, hidden: Mapping[int, Sequence[float]]
) -> dict[int, tuple[_Moved, ...]]:
    """Give for each call, by its node, the elements that are there at once in it: usually, and under autocast.

    What has no layers inside holds half of what autograd would keep of it.
    """
    each: list[list[_Moved]] = []
    for precision, size in _MOVED:
        place = PRECISIONS.index(precision)
        works = {at: INSIDE_SHARE * kept[place] / size for at, kept in hidden.items()}
        times = matrices_at_work(program, precision)
        squares = [times * op.matrix if matrix_kept(op, precision) else 0 for op in program.ops]
        each.append(list(zip(moved_by(program, precision, works), squares, strict=True)))
    return {
        id(node): tuple(max(moved[start:at], default=(0.0, 0.0)) for moved in each)
        for node, (_, start, at, _) in zip(nodes, program.ends, strict=True)
    }


def _matrices(nodes: Sequence[Node], program: Program) -> dict[int, list[float]]:
    """Give for each call, by its node, the bytes that are kept of attentions' matrices in it, by precision.

    Where attention is among the tokens of a window, or where no layers are shown, they do not grow with the tokens.
    """
    if any(mark in layer.type for layer, _, _, _ in program.ends for mark in _WINDOWS):
        return {}
    return {
        id(node): [float(sum(matrix_kept(op, each) for op in program.ops[start:at])) for each in PRECISIONS]
        for node, (_, start, at, _) in zip(nodes, program.ends, strict=True)
    }


def _cached(nodes: Sequence[Node], program: Program) -> dict[int, int]:
    """Give for each call, by its node, the elements of keys and values that it gives out for the next token."""
    if not program.cached:
        return {}
    return {
        id(node): sum(program.cached.get(step, 0) for step in range(start, at))
        for node, (_, start, at, _) in zip(nodes, program.ends, strict=True)
    }


class _Whole(NamedTuple):
    """What the summary that shows all layers tells of each call, by its node.

    Attributes:
        moved: what is there at once.
        matrices: what is kept of attentions' matrices.
        cached: elements of keys and values that are given out.
    """

    moved: Mapping[int, tuple[_Moved, ...]]
    matrices: Mapping[int, Sequence[float]]
    cached: Mapping[int, int]


_Block = tuple[Node, int, int]
"""A hidden block: its call, its step, and the elements that it gives out."""


def _hidden_of(
    nodes: Sequence[Node],
    program: Program,
    whole: _Whole,
    saved: Sequence[Sequence[int] | None],
    group: str,
) -> Iterator[Noted]:
    """Note what hidden blocks hold in all; the sums of those of one type."""
    places = hidden_blocks(program)
    shown = {at: 0.0 for _, at in places}
    before = [moved_by(program, precision, shown) for precision, _ in _MOVED]
    found: dict[str, list[_Block]] = defaultdict(list)
    for number, at in places:
        layer, _, _, size = program.ends[number]
        found[layer.type].append((nodes[number], at, size))
    names = blocks_of("torchinfo", program.names)
    exact = next(iter(insides(program, places, names)), names)
    for type_, blocks in found.items():
        alike = [(type_, of_model("", names))]
        if program.owner and type_ not in NO_CODE:
            alike.append((without(program.owner, type_) + "~", ""))
        yield Noted(HIDDEN, type_, "", exact, tuple(alike), group, _held(blocks, program, whole, before, saved))


def _held(
    blocks: Sequence[_Block],
    program: Program,
    whole: _Whole,
    before: Sequence[Sequence[float]],
    saved: Sequence[Sequence[int] | None],
) -> tuple[float | None, ...]:
    """Give what hidden blocks of one type hold for each element, as `own_code.Hidden` says it.

    Args:
        blocks: those of the type.
        program: of the summary that hides them.
        whole: what the summary that shows all layers tells.
        before: usually, and under autocast, what is there at each step beside hidden blocks.
        saved: by precision, what autograd keeps in each call; None where it was not noted.
    """
    size = max(sum(size for _, _, size in blocks), 1)
    counted = sum(node.all_counted() for node, _, _ in blocks)
    counted = counted if counted >= _LEAST_COUNTED * size else 0
    each = counted or size
    sums = [node.all_saved() for node, _, _ in blocks]
    kept = [sum(one[place] for one in sums) / each for place in range(len(PRECISIONS))]
    more, longer = _growing(blocks, program, whole.matrices, each)
    works = [_working(blocks, program, whole, way, before[way]) for way in range(len(_MOVED))]
    fits = [square <= value for value, square in zip(kept, more, strict=True)]
    return (
        counted / size,
        *(
            None if noted is None else value - square * fit
            for value, square, fit, noted in zip(kept, more, fits, saved, strict=True)
        ),
        *(usual for usual, _ in works),
        *(value * fit for value, fit in zip(longer, fits, strict=True)),
        *(square for _, square in works),
        sum(whole.cached.get(id(node), 0) for node, _, _ in blocks) / size,
    )


def _growing(
    blocks: Sequence[_Block], program: Program, matrices: Mapping[int, Sequence[float]], each: int
) -> tuple[list[float], list[float]]:
    """Give by precision what is kept of attentions' matrices for each element, as it is and at `TOKENS` tokens."""
    more, longer = [0.0] * len(PRECISIONS), [0.0] * len(PRECISIONS)
    for node, at, _ in blocks:
        tokens = tokens_of(program, at)
        for place, value in enumerate(matrices.get(id(node), ()) if tokens else ()):
            more[place] += value / each
            longer[place] += value / each * TOKENS / tokens
    return more, longer


def _working(blocks: Sequence[_Block], program: Program, whole: _Whole, way: int, before: Sequence[float]) -> _Moved:
    """Give the most at work in one block for each element: without attention's matrices, and these at `TOKENS`."""
    largest = max(*(size for _, _, size in blocks), 1)
    most = (0.0, 0.0)
    for node, at, _ in blocks:
        at_once, squares = whole.moved.get(id(node), _NOTHING_MOVED)[way]
        tokens = tokens_of(program, at) if id(node) in whole.matrices else 0
        work = max(at_once - before[at], 0.0)
        squares = min(squares, work) if tokens else 0.0
        most = max(most, ((work - squares) / largest, squares / largest * TOKENS / max(tokens, 1)), key=sum)
    return most


def _general(program: Program, number: int) -> tuple[tuple[str, str], ...]:
    if not program.owner:
        return ()
    type_ = without(program.owner, program.ends[number][0].type)
    return ((type_ + "~", inside(program.ends, number, program.owner, program.flat)),)


def _own(
    format_: str, pairs: Sequence[Pair], program: Program, hidden: Mapping[int, Sequence[float]]
) -> dict[int, list[float]]:
    """Give by place of a block among the ends what it keeps more than accounted, by precision; one sample, in bytes.

    What its layers without code of their own keep more, or less, is the block's. What the model itself does around its
    blocks is left out: the loss is in it.
    """
    marks = [
        [0.0, *kept_by(program, precision, {at: kept[place] for at, kept in hidden.items()})]
        for place, precision in enumerate(PRECISIONS)
    ]
    hidden_here = {number: hidden[at] for number, at in hidden_blocks(program) if at in hidden}
    found: dict[int, list[float]] = {}
    done = 0
    for number, ((node, owner, outer), (_, start, at, _)) in enumerate(zip(pairs, program.ends, strict=False)):
        # What the block around this layer did before it began is that block's.
        around, begin = outer if owner == number else owner, max(done, min(start, at))
        kept = hidden_here.get(number) or node.saved
        for block, first, last, saved_here in ((around, done, begin, False), (owner, begin, at, True)):
            if block >= 0:
                total = found.setdefault(block, [0.0] * len(PRECISIONS))
                for place, mark in enumerate(marks):
                    total[place] += (kept[place] if saved_here else 0.0) - (mark[last] - mark[first])
        done = at
    if format_ == "module":  # its shapes are derived
        return {number: total for number, total in found.items() if _sized(pairs[number][0], program, number)}
    return found


def _sized(node: Node, program: Program, number: int) -> bool:
    """Tell whether the account knows the true size of a block."""
    size = max(node.taken, node.given)
    return abs(program.ends[number][3] - size) <= _NEAR * size
