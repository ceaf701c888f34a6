"""What running a model once shows of it: its modules and its calls. Pure data, no torch.

Every text that users paste (torchsummary, torchinfo, ``print(model)``) can be made from this, see
``printers``; so the data set stores one ``Trace`` for each architecture instead of several texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Dim = int | str
"""A size: a number, or ``"k*B"`` (``"B"`` for k = 1) where it grows with the batch."""

Shape = tuple[Dim, ...]


@dataclass(frozen=True)
class Module:
    """One module of a model, as ``print`` shows it.

    Attributes:
        name: attribute name in its parent (``"0"`` in a list); empty for the root.
        type: class name.
        repr: what the module prints between its parentheses.
        params: parameters of this module itself, without its children's, tied ones counted again.
        children: the modules inside it, in order of definition.
        base: ``Sequential``, ``ModuleList`` or ``Module``: which of them its class is made from; empty in traces of
            the first five collections, which do not say.
        text: what ``print`` shows of it, where its class says that itself; empty if it does not.
        counted: parameters called weight or bias, which alone torchsummary counts; None in earlier traces.
        frozen: how many of ``params`` are not trained; the data set's models train all.
        again: whether it stands under another name before; the data set's traces do not say.
    """

    name: str
    type: str
    repr: str
    params: int
    children: tuple[Module, ...] = ()
    base: str = ""
    text: str = ""
    counted: int | None = None
    frozen: int = 0
    again: bool = False


@dataclass(frozen=True)
class Call:
    """One call of one module.

    Attributes:
        module: index of the module, counted in depth-first order of ``Trace.root``.
        depth: how many calls enclose this one.
        input_shape: shape of the first tensor that went in, or None if none did.
        output_shape: shape of the first tensor that came out, or None if none did.
    """

    module: int
    depth: int
    input_shape: Shape | None
    output_shape: Shape | None


@dataclass(frozen=True)
class Trace:
    """A model's modules and, in the order in which they began, its calls.

    Attributes:
        root: the tree of modules.
        calls: calls in pre-order; the first is the root's.
        total_params: parameters of the model, tied ones counted once.
        frozen_params: how many of these are not trained.
    """

    root: Module
    calls: tuple[Call, ...]
    total_params: int
    frozen_params: int = 0

    def modules(self) -> tuple[Module, ...]:
        """Return the modules in depth-first order: ``Call.module`` is an index into this."""
        found: list[Module] = []
        todo = [self.root]
        while todo:
            module = todo.pop()
            found.append(module)
            todo.extend(reversed(module.children))
        return tuple(found)

    def sample(self) -> tuple[int, ...]:
        """Return the shape of one sample of the first tensor that goes in; () where none does."""
        return resolve(self.calls[0].input_shape or (), 1)[1:]


def resolve(shape: Shape, batch: int | None) -> tuple[int, ...]:
    """Replace the dimensions that grow with the batch by numbers.

    Args:
        shape: the shape as traced.
        batch: batch size, or None to write -1 for the batch as torchsummary does.

    Returns:
        The shape in numbers.
    """
    return tuple(_resolve_dim(dim, batch) for dim in shape)


def _resolve_dim(dim: Dim, batch: int | None) -> int:
    if isinstance(dim, int):
        return dim
    factor = 1 if dim == "B" else int(dim.removesuffix("*B"))
    return -1 if batch is None else factor * batch


def grow(one: tuple[int, ...], other: tuple[int, ...], batch_one: int, batch_other: int) -> Shape:
    """Say which dimensions of a shape grow with the batch, from the shapes at two batch sizes.

    A dimension that changes with the batch, but not in proportion, keeps its value at ``batch_one``.
    """
    if len(one) != len(other):
        return one
    dims: list[Dim] = []
    for a, b in zip(one, other, strict=True):
        factor, rest = divmod(a, batch_one)
        if a != b and rest == 0 and factor * batch_other == b:
            dims.append("B" if factor == 1 else f"{factor}*B")
        else:
            dims.append(a)
    return tuple(dims)


def to_json(trace: Trace) -> dict[str, Any]:
    """Turn a trace into plain lists and dicts, short because thousands of layers are stored."""

    def module(item: Module) -> list[Any]:
        first = [item.name, item.type, item.repr, item.params, [module(child) for child in item.children]]
        return first if item.counted is None else [*first, item.base, item.text, item.counted]

    return {
        "total_params": trace.total_params,
        "root": module(trace.root),
        "calls": [[c.module, c.depth, c.input_shape, c.output_shape] for c in trace.calls],
    }


def from_json(data: dict[str, Any]) -> Trace:
    """Read what ``to_json`` wrote."""

    def module(item: list[Any]) -> Module:
        name, kind, text, params, children, *more = item
        inside = tuple(module(child) for child in children)
        base, whole, counted = more or ("", "", None)
        return Module(str(name), str(kind), str(text), int(params), inside, str(base), str(whole), counted)

    def shape(item: list[Dim] | None) -> Shape | None:
        return None if item is None else tuple(item)

    calls = tuple(Call(int(m), int(d), shape(i), shape(o)) for m, d, i, o in data["calls"])
    return Trace(module(data["root"]), calls, int(data["total_params"]))


class Recorder:
    """Collects calls while a model, real or planned, runs.

    A container that is never called itself (``ModuleList``) gets a call without shapes around the
    calls of its children, as torchinfo shows it.
    """

    def __init__(self, parents: list[int]) -> None:
        """Start.

        Args:
            parents: for each module in depth-first order the index of its parent, -1 for the root.
        """
        self._parents = parents
        self._calls: list[Call] = []
        self._open: list[tuple[int, bool]] = []  # indices of calls; True for a container's

    def enter(self, module: int, input_shape: Shape | None) -> int:
        """Note that a call begins; returns what ``leave`` needs."""
        ancestors = []
        parent = self._parents[module]
        while parent >= 0:
            ancestors.append(parent)
            parent = self._parents[parent]
        while self._open and self._open[-1][1] and self._calls[self._open[-1][0]].module not in ancestors:
            self._open.pop()
        if self._open:
            around = self._calls[self._open[-1][0]].module
            missing = ancestors[: ancestors.index(around)] if around in ancestors else []
            for container in reversed(missing):
                self._push(container, None, virtual=True)
        return self._push(module, input_shape, virtual=False)

    def _push(self, module: int, input_shape: Shape | None, *, virtual: bool) -> int:
        self._calls.append(Call(module, len(self._open), input_shape, None))
        self._open.append((len(self._calls) - 1, virtual))
        return len(self._calls) - 1

    def leave(self, token: int, output_shape: Shape | None) -> None:
        """Note that the call that ``enter`` returned ``token`` for has ended."""
        while self._open and self._open[-1][0] >= token:
            self._open.pop()
        call = self._calls[token]
        self._calls[token] = Call(call.module, call.depth, call.input_shape, output_shape)

    def calls(self) -> tuple[Call, ...]:
        """Return all calls so far, in pre-order."""
        return tuple(self._calls)


def parents_of(root: Module) -> list[int]:
    """Return for each module in depth-first order the index of its parent, -1 for the root."""
    parents: list[int] = []

    def visit(module: Module, parent: int) -> None:
        index = len(parents)
        parents.append(parent)
        for child in module.children:
            visit(child, index)

    visit(root, -1)
    return parents
