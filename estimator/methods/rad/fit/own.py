"""Fits what blocks keep in their own code to what autograd was seen to keep in the libraries' models: `own_code`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from statistics import median, median_high, median_low
from typing import Final, NamedTuple

from estimator.dataset import printers
from estimator.dataset.specs import FITTED, Spec
from estimator.dataset.store import Dataset
from estimator.dataset.tree import Call, Module, Trace, resolve
from estimator.layer import Layer
from estimator.methods.rad import Rad
from estimator.methods.rad.familiar import without
from estimator.methods.rad.fit.processes import forked
from estimator.methods.rad.kinds import Kind, kind_of
from estimator.methods.rad.known import blocks_of
from estimator.methods.rad.liveness import INSIDE_SHARE, kept_by, matrices_at_work, matrix_kept, moved_by
from estimator.methods.rad.own_code import HIDDEN, NO_CODE, OF_MODEL, OwnCode, inside, is_block, of_model
from estimator.methods.rad.program import Program
from estimator.methods.rad.unopened import INSIDE, TOKENS, hidden_blocks, insides, tokens_of
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
_KEPT: Final = 1  # place of the first of what hidden blocks keep; before it is what torchinfo counts
_NEAR: Final = 0.02
# Bytes for each element by which a model's blocks differ from others of their type, so that they are noted apart.
_APART: Final = 0.5
# Hidden blocks of one name are alike where families differ by this factor at most.
_ALIKE: Final = 2.0
_NOTHING_MOVED: Final = ((0.0, 0.0), (0.0, 0.0))
# In types of models whose attention is among the tokens of a window.
_WINDOWS: Final = ("Window", "Swin")
# What hidden blocks hold, without what grows with the tokens.
_FIXED: Final = 6
_SKIPPED: Final = ("Sequential", "ModuleList")  # by torchsummary
# Fewer elements counted of a hidden block's one, as inside of gates of one pixel, say nothing of its size.
_LEAST_COUNTED: Final = 0.01
# More than this for each element is no property of a block: its output is far smaller than what it works on.
_MOST: Final = 200.0


@dataclass(frozen=True)
class Noted:
    """What the blocks of one type keep of their own in one model.

    Attributes:
        format: of the summary.
        type, inside: of the block; nothing is inside one that is hidden.
        names: stands for the types of all layers that the summary shows.
        general: by which types and insides it is known, too: without the name that transformers puts before them.
        group: the model's architecture family.
        bytes: by precision, for each element; None where it was not noted. Of hidden blocks, what `own_code.Hidden`
            says.
    """

    format: str
    type: str
    inside: str
    names: str
    general: tuple[tuple[str, str], ...]
    group: str
    bytes: tuple[float | None, ...]


@dataclass
class _Node:
    """A call, or a module.

    Attributes:
        type: its class.
        saved: by precision, what autograd keeps of it beside its children.
        taken, given: elements of its input and its output.
        counted: elements that torchinfo counts of it.
        children: inside of it.
    """

    type: str
    saved: list[float]
    taken: int
    given: int
    counted: int = 0
    children: list[_Node] = field(default_factory=list)

    def all_saved(self) -> list[float]:
        """Sum up what is kept of it and of all inside."""
        sums = list(self.saved)
        for child in self.children:
            sums = [one + other for one, other in zip(sums, child.all_saved(), strict=True)]
        return sums

    def all_counted(self) -> int:
        """Sum up what torchinfo counts of it and of all inside."""
        return self.counted + sum(child.all_counted() for child in self.children)


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
    whole = printers.torchinfo_text(trace, _BATCH, depth=20)
    cut = {printers.torchinfo_text(trace, _BATCH, depth=depth): None for depth in _DEPTHS}
    texts = [
        ("torchinfo", whole),
        ("torchsummary", printers.torchsummary_text(trace)),
        ("module", printers.module_text(trace, with_params=True)),
        *(("torchinfo", text) for text in cut if text != whole),
    ]
    calls = _calls(trace, saved)
    moved: dict[int, tuple[_Moved, ...]] = {}
    matrices: dict[int, list[float]] = {}
    cached: dict[int, int] = {}
    for format_, text in texts:
        try:
            shaped, program, _ = account.account(parse_summary(text), Workload(_BATCH, spec.seq_len))
        except SummaryError:
            continue
        if printers.of_another_size(shaped, trace.sample()):
            continue
        root = _modules(trace, saved) if format_ == "module" else calls
        pairs = _rows(root, program) if program.flat else _pairs(root, shaped.root, program)
        if pairs is None:
            continue
        hidden: dict[int, list[float]] = {}
        if format_ == "torchinfo":
            nodes = [node for node, _, _ in pairs]
            hidden = {at: nodes[number].all_saved() for number, at in hidden_blocks(program)}
            moved = moved or _moved(nodes, program, hidden if None not in saved else {})
            matrices = matrices or _matrices(nodes, program)
            cached = cached or _cached(nodes, program)
            yield from _hidden_of(nodes, program, _Whole(moved, matrices, cached), saved, spec.group)
        own = _own(format_, pairs, program, hidden)
        sums: dict[tuple[str, str, tuple[tuple[str, str], ...]], tuple[list[float], list[float]]] = {}
        for number, values in own.items():
            key = (
                program.ends[number][0].type,
                inside(program.ends, number, "", program.flat),
                _general(program, number),
            )
            sizes, total = sums.setdefault(key, ([0.0], [0.0] * len(PRECISIONS)))
            sizes[0] += program.ends[number][3]
            for place, value in enumerate(values):
                total[place] += value
        for (type_, inner, general), (sizes, total) in sums.items():
            each = tuple(
                None if kept is None else value / max(sizes[0], 1) for kept, value in zip(saved, total, strict=True)
            )
            yield Noted(format_, type_, inner, blocks_of(format_, program.names), general, spec.group, each)


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
            once = _HALF * _sizes(call)[0]
            if found[number] in (-once, _TWO * once):
                found[number] = once
    return found


def _moved(
    nodes: Sequence[_Node], program: Program, hidden: Mapping[int, Sequence[float]]
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


def _matrices(nodes: Sequence[_Node], program: Program) -> dict[int, list[float]]:
    """Give for each call, by its node, the bytes that are kept of attentions' matrices in it, by precision.

    Where attention is among the tokens of a window, or where no layers are shown, they do not grow with the tokens.
    """
    if any(mark in layer.type for layer, _, _, _ in program.ends for mark in _WINDOWS):
        return {}
    return {
        id(node): [float(sum(matrix_kept(op, each) for op in program.ops[start:at])) for each in PRECISIONS]
        for node, (_, start, at, _) in zip(nodes, program.ends, strict=True)
    }


def _cached(nodes: Sequence[_Node], program: Program) -> dict[int, int]:
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


def _hidden_of(
    nodes: Sequence[_Node],
    program: Program,
    whole: _Whole,
    saved: Sequence[Sequence[int] | None],
    group: str,
) -> Iterator[Noted]:
    """Note what hidden blocks hold in all; the sums of those of one type."""
    moved, matrices, cached = whole
    shown = {at: 0.0 for _, at in hidden_blocks(program)}
    before = [moved_by(program, precision, shown) for precision, _ in _MOVED]
    found: dict[str, list[tuple[_Node, int, int]]] = defaultdict(list)
    for number, at in hidden_blocks(program):
        layer, _, _, size = program.ends[number]
        found[layer.type].append((nodes[number], at, size))
    names = blocks_of("torchinfo", program.names)
    exact = next(iter(insides(program, hidden_blocks(program), names)), names)
    owners = [program.owner] if program.owner else []
    for type_, blocks in found.items():
        size = max(sum(size for _, _, size in blocks), 1)
        largest = max(*(size for _, _, size in blocks), 1)
        counted = sum(node.all_counted() for node, _, _ in blocks)
        counted = counted if counted >= _LEAST_COUNTED * size else 0
        kept = [
            sum(node.all_saved()[place] for node, _, _ in blocks) / (counted or size)
            for place in range(len(PRECISIONS))
        ]
        more = [0.0] * len(PRECISIONS)
        longer = [0.0] * len(PRECISIONS)  # for each `TOKENS`
        for node, at, _ in blocks:
            tokens = tokens_of(program, at)
            for place, value in enumerate(matrices.get(id(node), ()) if tokens else ()):
                more[place] += value / (counted or size)
                longer[place] += value / (counted or size) * TOKENS / tokens
        works: list[_Moved] = []
        for way, each in enumerate(before):
            most = (0.0, 0.0)
            for node, at, _ in blocks:
                at_once, squares = moved.get(id(node), _NOTHING_MOVED)[way]
                tokens = tokens_of(program, at) if id(node) in matrices else 0
                work = max(at_once - each[at], 0.0)
                squares = min(squares, work) if tokens else 0.0
                most = max(most, ((work - squares) / largest, squares / largest * TOKENS / max(tokens, 1)), key=sum)
            works.append(most)
        fits = [value is None or most <= value for value, most in zip(kept, more, strict=True)]
        values = (
            counted / size,
            *(
                None if each is None else value - most * fit
                for value, most, fit, each in zip(kept, more, fits, saved, strict=True)
            ),
            *(usual for usual, _ in works),
            *(value * fit for value, fit in zip(longer, fits, strict=True)),
            *(square for _, square in works),
            sum(cached.get(id(node), 0) for node, _, _ in blocks) / size,
        )
        general = tuple((without(owner, type_) + "~", "") for owner in owners if type_ not in NO_CODE)
        yield Noted(HIDDEN, type_, "", exact, ((type_, of_model("", names)), *general), group, values)


def _general(program: Program, number: int) -> tuple[tuple[str, str], ...]:
    if not program.owner:
        return ()
    type_ = without(program.owner, program.ends[number][0].type)
    return ((type_ + "~", inside(program.ends, number, program.owner, program.flat)),)


def _own(
    format_: str, pairs: Sequence[_Pair], program: Program, hidden: Mapping[int, Sequence[float]]
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


def _sized(node: _Node, program: Program, number: int) -> bool:
    """Tell whether the account knows the true size of a block."""
    size = max(node.taken, node.given)
    return abs(program.ends[number][3] - size) <= _NEAR * size


def _calls(trace: Trace, saved: Sequence[Sequence[int] | None]) -> _Node:
    modules = trace.modules()
    nodes: list[_Node] = []
    open_: list[_Node] = []
    for number, call in enumerate(trace.calls):
        kept = [float(each[number]) if each else 0.0 for each in saved]
        module = modules[call.module]
        node = _Node(module.type, kept, *_sizes(call))
        node.counted = node.given if module.params and not module.children else 0
        del open_[call.depth :]
        if open_:
            open_[-1].children.append(node)
        open_.append(node)
        nodes.append(node)
    return nodes[0]


def _sizes(call: Call) -> tuple[int, int]:
    taken, given = (resolve(shape or (0,), 1) for shape in (call.input_shape, call.output_shape))
    return prod(taken), prod(given)


def _modules(trace: Trace, saved: Sequence[Sequence[int] | None]) -> _Node:
    nodes: list[_Node] = []

    def visit(module: Module) -> _Node:
        node = _Node(module.type, [0.0] * len(saved), 0, 0)
        nodes.append(node)
        node.children.extend(visit(child) for child in module.children)
        return node

    root = visit(trace.root)
    for number, call in enumerate(trace.calls):
        node = nodes[call.module]
        if not node.given:
            node.taken, node.given = _sizes(call)
        for place, each in enumerate(saved):
            node.saved[place] += float(each[number]) if each else 0.0
    return root


_Pair = tuple[_Node, int, int]
"""What a layer is in the trace, and by their numbers the block that it belongs to or is, and the block around that."""


class _Pairs:
    """Layers in the order in which they end, and the blocks that they belong to; -1 is the model itself."""

    def __init__(self) -> None:
        self.nodes: list[_Node] = []
        self._owners: list[int] = []
        self._outer: list[int] = []

    def end(self, node: _Node, first: int, *, block: bool) -> None:
        """Note that a layer ended whose layers are those from ``first`` on."""
        self.nodes.append(node)
        self._owners.append(-1)
        self._outer.append(-1)
        number = len(self.nodes) - 1
        if block:
            for place in range(first, number + 1):
                if self._owners[place] < 0:
                    self._owners[place] = number
                elif place < number and self._outer[place] < 0:
                    self._outer[place] = number

    def all(self) -> list[_Pair]:
        """Give all."""
        return list(zip(self.nodes, self._owners, self._outer, strict=True))


def _rows(root: _Node, program: Program) -> list[_Pair] | None:
    """Find the calls of a table's rows."""
    pairs, ends = _Pairs(), program.ends

    def visit(node: _Node, *, top: bool) -> None:
        first = len(pairs.nodes)
        for child in node.children:
            visit(child, top=False)
        number = len(pairs.nodes)
        if not top and node.type not in _SKIPPED and number < len(ends) and ends[number][0].type == node.type:
            pairs.end(node, first, block=is_block(ends[number][0]))

    visit(root, top=True)
    return pairs.all() if len(pairs.nodes) >= len(ends) - 1 else None


def _pairs(root: _Node, shaped: Layer, program: Program) -> list[_Pair] | None:
    """Find the node of each layer of a tree."""
    pairs = _Pairs()

    def visit(layer: Layer, node: _Node, *, top: bool) -> bool:
        first = len(pairs.nodes)
        waiting: dict[str, list[_Node]] = defaultdict(list)
        for child in node.children:
            waiting[child.type].append(child)
        for inner in layer.children:
            if not waiting[inner.type] or not visit(inner, waiting[inner.type].pop(0), top=False):
                return False
        pairs.end(node, first, block=not top and is_block(layer))
        return True

    return pairs.all() if visit(shaped, root, top=True) and len(pairs.nodes) == len(program.ends) else None


def tables(items: Iterable[Noted], without_group: str = "") -> dict[str, dict[str, dict[str, list[float]]]]:
    """Tabulate what was noted, by format, type and what is inside.

    Blocks of one name do not always do the same: models in which they keep something else are tabulated apart.

    Args:
        items: what was noted.
        without_group: an architecture family that is left out.
    """
    seen: dict[tuple[str, str, str], dict[str, list[Noted]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        if item.group != without_group:
            seen[item.format, item.type, of_model(item.inside, item.names)][item.group].append(item)
            others = item.general if item.type in NO_CODE else ((item.type, item.inside), *item.general)
            for type_, inner in others:
                seen[item.format, type_, inner][item.group].append(item)
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for (format_, type_, inner), groups in sorted(seen.items()):
        hidden = format_ == HIDDEN
        if hidden and OF_MODEL not in inner and not _agree(groups):
            continue
        places = len(next(iter(groups.values()))[0].bytes)
        values = [_middle(groups, place) for place in range(places)]
        first = next((value for value in values[_KEPT if hidden else 0 :] if value is not None), None)
        if first is None:
            continue
        made = [round(first if value is None else value, 3) for value in values]
        known = found.setdefault(format_, {}).setdefault(type_, {})
        usual, apart, _ = inner.partition(OF_MODEL)
        like = known.get(inner.partition(INSIDE)[0]) or known.get(usual)
        if _near(made, like, hidden) if apart else not hidden and max(map(abs, made)) > _MOST:
            continue
        known[inner] = made[:_FIXED] if hidden and not any(made[_FIXED:]) else made
    return found


def _agree(groups: Mapping[str, Sequence[Noted]]) -> bool:
    """Tell whether hidden blocks of one name keep as much in several families: else the name says nothing of others."""
    kept = [median((item.bytes[0] or 1.0) * (item.bytes[_KEPT] or 0.0) for item in items) for items in groups.values()]
    return len(kept) > 1 and max(kept) <= _ALIKE * min(kept)


def _near(made: Sequence[float], usual: Sequence[float] | None, hidden: bool) -> bool:
    """Tell whether a model's blocks do what blocks of their type do anywhere."""
    if usual is None:
        return False
    share, least = (_NEAR, _NEAR) if hidden else (0.0, _APART)
    like = [*usual, *[0.0] * (len(made) - len(usual))]
    return all(abs(one - other) <= least + share * abs(other) for one, other in zip(made, like, strict=True))


def _middle(groups: Mapping[str, list[Noted]], place: int) -> float | None:
    """Take the median over families of the median over models; of two in the middle the smaller one."""
    each = []
    for items in groups.values():
        values = [value for item in items if (value := item.bytes[place]) is not None]
        if values:
            each.append(median(values))
    return min(median_low(each), median_high(each), key=abs) if each else None


class Blocks:
    """What was noted of blocks: all of it, and without what one architecture family adds."""

    def __init__(self, items: Sequence[Noted]) -> None:
        self.tables = tables(items)
        self._by_type: dict[tuple[str, str], list[Noted]] = defaultdict(list)
        self._of_group: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for item in items:
            for type_ in {item.type, *(other for other, _ in item.general)}:
                self._by_type[item.format, type_].append(item)
                self._of_group[item.group].add((item.format, type_))
        self._without: dict[str, OwnCode] = {}

    def without(self, group: str) -> OwnCode:
        """Give the tables as they were if an architecture family had not been noted."""
        if group not in self._without:
            changed = {format_: dict(types) for format_, types in self.tables.items()}
            for format_, type_ in self._of_group.get(group, ()):
                others = tables(self._by_type[format_, type_], group)
                changed[format_][type_] = others.get(format_, {}).get(type_, {})
            self._without[group] = OwnCode(changed)
        return self._without[group]
