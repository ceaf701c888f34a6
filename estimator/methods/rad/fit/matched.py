"""Finds the call or module of a model's trace that each layer of an account stands for, for `own`. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final

from estimator.dataset.tree import Call, Module, Trace, resolve
from estimator.layer import Layer
from estimator.methods.rad.own_code import is_block
from estimator.methods.rad.program import Program

_SKIPPED: Final = ("Sequential", "ModuleList")  # by torchsummary


@dataclass
class Node:
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
    children: list[Node] = field(default_factory=list)

    def all_saved(self) -> list[float]:
        """Sum up what is kept of it and of all inside."""
        sums = list(self.saved)
        for child in self.children:
            sums = [one + other for one, other in zip(sums, child.all_saved(), strict=True)]
        return sums

    def all_counted(self) -> int:
        """Sum up what torchinfo counts of it and of all inside."""
        return self.counted + sum(child.all_counted() for child in self.children)


def calls_of(trace: Trace, saved: Sequence[Sequence[int] | None]) -> Node:
    """Give the model's own call, with all calls inside.

    Args:
        trace: of the model.
        saved: by precision, what autograd keeps in each call beside those inside; None where it was not noted.
    """
    modules = trace.modules()
    nodes: list[Node] = []
    open_: list[Node] = []
    for number, call in enumerate(trace.calls):
        kept = [float(each[number]) if each else 0.0 for each in saved]
        module = modules[call.module]
        node = Node(module.type, kept, *sizes_of(call))
        node.counted = node.given if module.params and not module.children else 0
        del open_[call.depth :]
        if open_:
            open_[-1].children.append(node)
        open_.append(node)
        nodes.append(node)
    return nodes[0]


def sizes_of(call: Call) -> tuple[int, int]:
    """Count the elements of a call's input and output, of one sample."""
    taken, given = (resolve(shape or (0,), 1) for shape in (call.input_shape, call.output_shape))
    return prod(taken), prod(given)


def modules_of(trace: Trace, saved: Sequence[Sequence[int] | None]) -> Node:
    """Give the model's own module, with all modules inside: of their first calls the sizes, of all what is kept."""
    nodes: list[Node] = []

    def visit(module: Module) -> Node:
        node = Node(module.type, [0.0] * len(saved), 0, 0)
        nodes.append(node)
        node.children.extend(visit(child) for child in module.children)
        return node

    root = visit(trace.root)
    for number, call in enumerate(trace.calls):
        node = nodes[call.module]
        if not node.given:
            node.taken, node.given = sizes_of(call)
        for place, each in enumerate(saved):
            node.saved[place] += float(each[number]) if each else 0.0
    return root


Pair = tuple[Node, int, int]
"""What a layer is in the trace, and by their numbers the block that it belongs to or is, and the block around that."""


class _Pairs:
    """Layers in the order in which they end, and the blocks that they belong to; -1 is the model itself."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._owners: list[int] = []
        self._outer: list[int] = []

    def end(self, node: Node, first: int, *, block: bool) -> None:
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

    def all(self) -> list[Pair]:
        """Give all."""
        return list(zip(self.nodes, self._owners, self._outer, strict=True))


def pairs_of_rows(root: Node, program: Program) -> list[Pair] | None:
    """Find the calls of a table's rows."""
    pairs, ends = _Pairs(), program.ends

    def visit(node: Node, *, top: bool) -> None:
        first = len(pairs.nodes)
        for child in node.children:
            visit(child, top=False)
        number = len(pairs.nodes)
        if not top and node.type not in _SKIPPED and number < len(ends) and ends[number][0].type == node.type:
            pairs.end(node, first, block=is_block(ends[number][0]))

    visit(root, top=True)
    return pairs.all() if len(pairs.nodes) >= len(ends) - 1 else None


def pairs_of_tree(root: Node, shaped: Layer, program: Program) -> list[Pair] | None:
    """Find the node of each layer of a tree."""
    pairs = _Pairs()

    def visit(layer: Layer, node: Node, *, top: bool) -> bool:
        first = len(pairs.nodes)
        waiting: dict[str, list[Node]] = defaultdict(list)
        for child in node.children:
            waiting[child.type].append(child)
        for inner in layer.children:
            if not waiting[inner.type] or not visit(inner, waiting[inner.type].pop(0), top=False):
                return False
        pairs.end(node, first, block=not top and is_block(layer))
        return True

    return pairs.all() if visit(shaped, root, top=True) and len(pairs.nodes) == len(program.ends) else None
