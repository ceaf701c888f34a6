"""Texts of a traced model in the formats that users paste. Pure: needs neither torch nor the tools themselves.

The layouts follow torchsummary 1.5, torchinfo 1.8 and ``torch.nn.Module.__repr__`` of torch 2.
"""

from __future__ import annotations

from math import prod

from estimator.dataset.tree import Call, Module, Shape, Trace, resolve
from estimator.types import ModelSummary

_MIB = 1024.0 * 1024.0
_PICTURE = 3  # axes of a picture's sample, channels included; a film has more
# torchsummary skips whatever is a Sequential or a ModuleList. An older trace does not say what a class is made from:
# the children of such a class have numbers for names, unless it was given names; these were.
_TORCHSUMMARY_SKIPS = (
    "Sequential",
    "ModuleList",
    "AnyStage",
    "BottleneckTransform",
    "ConvBN",
    "DenseStage",
    "DenseTransition",
    "_Transition",
)
# These have numbered children and are made from ModuleDict, or from Module itself.
_TORCHSUMMARY_SHOWS = ("IntermediateLayerGetter", "MixedConv2d", "ModuleDict", "PredictionBlock")


def module_text(trace: Trace, *, collapse: bool = True, with_params: bool = False) -> str:
    """Return what ``print(model)`` shows.

    Args:
        trace: the model.
        collapse: write equal neighbours in a ``ModuleList`` once (``(0-11): 12 x ...``), as torch 2 does.
        with_params: append ``, N params`` to every line that ends a module, as users' own printers do.
    """
    return _module_text(trace.root, collapse, with_params)[0]


def of_another_size(shaped: ModelSummary, sample: tuple[int, ...]) -> bool:
    """Tell whether a print, which shows no sizes, was taken for another size of picture than its model ran on.

    Args:
        shaped: what was read, with the shapes that were taken.
        sample: shape of one sample that went in.
    """
    return shaped.format == "module" and len(sample) >= _PICTURE and shaped.root.input_shape != sample


def _module_text(module: Module, collapse: bool, with_params: bool) -> tuple[str, int]:
    """Return the text of one module and its parameters with its children's."""
    texts = [(child.name, *_module_text(child, collapse, with_params)) for child in module.children]
    total = module.params + sum(params for _, _, params in texts)
    suffix = f", {total:,} params" if with_params else ""
    if module.text:
        return module.text + suffix, total
    if not texts and "\n" not in module.repr:
        return f"{module.type}({module.repr}){suffix}", total
    if collapse and "ModuleList" in (module.type, module.base):
        entries = _collapsed(_in_places({name: text for name, text, _ in texts}))
    else:
        entries = [f"({name}): {text}" for name, text, _ in texts]
    lines = module.repr.split("\n") if module.repr else []
    for entry in entries:
        lines.extend(entry.split("\n"))
    body = "\n".join(f"  {line}" for line in lines)
    return f"{module.type}(\n{body}\n){suffix}", total


def _in_places(texts: dict[str, str]) -> list[str]:
    """Put the texts of a list in their places; what is not there is None."""
    places = max(int(name) for name in texts) + 1 if all(name.isdecimal() for name in texts) else 0
    return [texts.get(str(place), "None") for place in range(places)] or list(texts.values())


def _collapsed(texts: list[str]) -> list[str]:
    entries: list[str] = []
    start = 0
    while start < len(texts):
        end = start
        while end + 1 < len(texts) and texts[end + 1] == texts[start]:
            end += 1
        if end == start:
            entries.append(f"({start}): {texts[start]}")
        else:
            entries.append(f"({start}-{end}): {end - start + 1} x {texts[start]}")
        start = end + 1
    return entries


def torchsummary_text(trace: Trace, batch: int | None = None) -> str:
    """Return what torchsummary prints: one line for each call, in the order in which the calls ended.

    Args:
        trace: the model.
        batch: batch size given to ``summary``; None prints -1, torchsummary's default.
    """
    modules = trace.modules()
    rule = "-" * 64
    lines = [rule, "{:>20}  {:>25} {:>15}".format("Layer (type)", "Output Shape", "Param #"), "=" * 64]
    total = 0
    numbers = 0.0
    count = 0
    for index in _post_order(trace):
        call = trace.calls[index]
        module = modules[call.module]
        if call.depth == 0 or _is_list(module) or call.output_shape is None:
            continue
        count += 1
        shape = (-1 if batch is None else batch, *resolve(call.output_shape, batch)[1:])  # whatever comes first
        # Only what is called weight or bias is counted; blocks have tables and scales of other names.
        counted = module.counted
        if counted is None:
            counted = 0 if module.children and "Norm" not in module.type else module.params
        total += counted
        numbers += abs(prod(shape))
        lines.append(f"{f'{module.type}-{count}':>20}  {list(shape)!s:>25} {f'{counted:,}':>15}")
    inputs = _mib(trace.calls[0].input_shape, batch) if trace.calls else 0.0
    passes = 2.0 * numbers * 4.0 / _MIB
    params = total * 4.0 / _MIB
    lines += [
        "=" * 64,
        f"Total params: {total:,}",
        f"Trainable params: {total:,}",
        "Non-trainable params: 0",
        rule,
        f"Input size (MB): {inputs:.2f}",
        f"Forward/backward pass size (MB): {passes:.2f}",
        f"Params size (MB): {params:.2f}",
        f"Estimated Total Size (MB): {inputs + passes + params:.2f}",
        rule,
    ]
    return "\n".join(lines) + "\n"


def _is_list(module: Module) -> bool:
    """Tell whether a module is a Sequential or a ModuleList, or of a class made from one."""
    if module.base:
        return module.base != "Module"
    if module.type in _TORCHSUMMARY_SKIPS:
        return True
    numbered = bool(module.children) and all(child.name.isdecimal() for child in module.children)
    return numbered and module.type not in _TORCHSUMMARY_SHOWS


def _mib(shape: Shape | None, batch: int | None) -> float:
    return 0.0 if shape is None else abs(prod(resolve(shape, batch))) * 4.0 / _MIB


def _post_order(trace: Trace) -> list[int]:
    """Return indices of ``trace.calls`` in the order in which the calls ended."""
    order: list[int] = []
    running: list[int] = []
    for index, call in enumerate(trace.calls):
        while len(running) > call.depth:
            order.append(running.pop())
        running.append(index)
    return order + running[::-1]


ALL_LAYERS = 1000
"""A depth of torchinfo's that hides nothing: no model is so deep."""
_TORCHINFO_COLUMNS = {"input_size": "Input Shape", "output_size": "Output Shape", "num_params": "Param #"}
_TORCHINFO_COLUMN_WIDTH = 25


def torchinfo_text(
    trace: Trace,
    batch: int,
    *,
    depth: int = 3,
    columns: tuple[str, ...] = ("output_size", "num_params"),
    var_names: bool = False,
) -> str:
    """Return what torchinfo prints.

    Args:
        trace: the model.
        batch: batch size of the input that ``summary`` was given.
        depth: levels of the tree that are shown.
        columns: any of ``input_size``, ``output_size``, ``num_params``, in the order wanted.
        var_names: write ``Type (name): depth-index`` as with ``row_settings=["depth", "var_names"]``.
    """
    modules = trace.modules()
    params = _params_cells(trace, depth)
    names: list[tuple[str, Module, Shape | None, Shape | None, str]] = []
    numbers = _torchinfo_numbers(trace)
    for position, call in enumerate(trace.calls):
        if call.depth > depth:
            continue
        module = modules[call.module]
        label = f"{module.type} ({module.name or module.type})" if var_names else module.type
        if call.depth:
            label = f"{'│    ' * (call.depth - 1)}{'├─' if call.depth == 1 else '└─'}{label}"
            label += f": {call.depth}-{numbers[position]}"
        names.append((label, module, call.input_shape, call.output_shape, params[position]))
    width = max([40, *(len(name[0]) for name in names)]) + 1
    line = width + _TORCHINFO_COLUMN_WIDTH * len(columns)
    title = "Layer (type (var_name):depth-idx)" if var_names else "Layer (type:depth-idx)"
    lines = ["=" * line, _torchinfo_row(title, [_TORCHINFO_COLUMNS[c] for c in columns], width), "=" * line]
    for label, _, into, out, count in names:
        cells = {"input_size": _listed(into, batch), "output_size": _listed(out, batch), "num_params": count}
        lines.append(_torchinfo_row(label, [cells[c] for c in columns], width))
    return "\n".join([*lines, *_torchinfo_totals(trace, batch, line)]) + "\n"


def _torchinfo_numbers(trace: Trace) -> list[int]:
    """Count the calls of each depth; a container that is not called has one number, that of its last row."""
    counts: dict[int, int] = {}
    numbers: list[int] = []
    for call in trace.calls:
        counts[call.depth] = counts.get(call.depth, 0) + 1
        numbers.append(counts[call.depth])
    last = {call.module: number for call, number in zip(trace.calls, numbers, strict=True)}
    return [last[c.module] if _is_around(c) else n for c, n in zip(trace.calls, numbers, strict=True)]


def _is_around(call: Call) -> bool:
    """Tell whether a call is none, but the container around calls."""
    return call.input_shape is None and call.output_shape is None


def _params_cells(trace: Trace, depth: int) -> list[str]:
    """Return what torchinfo writes as parameters of each call: for a block, those that no row inside of it has."""
    modules = trace.modules()
    subtree = _subtree_params(trace.root)
    times: dict[int, int] = {}
    again: list[bool] = []
    for call in trace.calls:
        times[call.module] = times.get(call.module, 0) + 1
        again.append(times[call.module] > 1)
    inside = [0] * len(trace.calls)
    cells = [""] * len(trace.calls)
    parents = _callers(trace)
    for position in range(len(trace.calls) - 1, -1, -1):
        call = trace.calls[position]
        total, whole = subtree[call.module], not modules[call.module].children
        own = total if whole else total - inside[position]
        if parents[position] >= 0:
            inside[parents[position]] += inside[position] + (0 if again[position] else own)
        shown = total if whole or call.depth == depth else own
        repeated = again[position] or (_is_around(call) and times[call.module] > 1)
        cells[position] = "--" if not total else "(recursive)" if repeated else f"{shown:,}" if shown > 0 else "--"
        if 0 < shown == modules[call.module].frozen and not repeated:
            cells[position] = f"({shown:,})"
    return cells


def _callers(trace: Trace) -> list[int]:
    """Return for each call the index of the one that encloses it, -1 for the first."""
    running: list[int] = []
    callers: list[int] = []
    for position, call in enumerate(trace.calls):
        del running[call.depth :]
        callers.append(running[-1] if running else -1)
        running.append(position)
    return callers


def _torchinfo_totals(trace: Trace, batch: int, line: int) -> list[str]:
    modules = trace.modules()
    outputs = sum(
        _mb(c.output_shape, batch) for c in trace.calls if not modules[c.module].children and modules[c.module].params
    )
    inputs = _mb(trace.calls[0].input_shape, batch)
    params = trace.total_params * 4.0 / 1e6
    return [
        "=" * line,
        f"Total params: {trace.total_params:,}",
        f"Trainable params: {trace.total_params - trace.frozen_params:,}",
        f"Non-trainable params: {trace.frozen_params:,}",
        "=" * line,
        f"Input size (MB): {inputs:.2f}",
        f"Forward/backward pass size (MB): {2 * outputs:.2f}",
        f"Params size (MB): {params:.2f}",
        f"Estimated Total Size (MB): {inputs + 2 * outputs + params:.2f}",
        "=" * line,
    ]


def _mb(shape: Shape | None, batch: int) -> float:
    return 0.0 if shape is None else abs(prod(resolve(shape, batch))) * 4.0 / 1e6


def _torchinfo_row(label: str, cells: list[str], width: int) -> str:
    return (label.ljust(width) + "".join(cell.ljust(_TORCHINFO_COLUMN_WIDTH) for cell in cells)).rstrip()


def _listed(shape: Shape | None, batch: int) -> str:
    return "--" if shape is None else str(list(resolve(shape, batch)))


def _subtree_params(root: Module) -> list[int]:
    """Parameters of each module with its children's, by depth-first index; of one with several names at the first."""
    sizes: list[int] = []

    def visit(module: Module) -> int:
        index = len(sizes)
        sizes.append(0)
        sizes[index] = (0 if module.again else module.params) + sum(visit(child) for child in module.children)
        return sizes[index]

    visit(root)
    return sizes
