"""What a layer's number of parameters says of its sizes: inputs, kernels, groups, depth. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from estimator import sizes
from estimator.kept import keep
from estimator.layer import Layer
from estimator.methods.rad.program.steps import DEEP, PICTURE, Shape
from estimator.walk import elements

_MOST_DEPTH: Final = 100
_FEW_LAYERS: Final = 16
_DIGITS: Final = 4
_SQUARES: Final = {
    1,
    3,
    4,
    5,
    7,
    9,
    15,
    16,
    21,
    25,
    27,
    35,
    36,
    49,
    64,
    81,
    121,
    169,
    196,
    225,
    256,
    289,
    441,
    961,
    1024,
}
# Of kernels over time and place.
_CUBES: Final = {1, 3, 5, 7, 8, 9, 27, 32, 49, 75, 98, 125, 147, 343, 512}
# Of kernels that join what several layers gave out, by the axes of pictures, channels included: the likeliest first.
_USUAL: Final[Mapping[int, tuple[int, ...]]] = {2: (3, 5, 7, 9), PICTURE: (9, 25, 49), DEEP: (27, 125, 9, 3)}
_FEW_GROUPS: Final = 8
# Areas of kernels with groups.
_GROUPED: Final[tuple[int, ...]] = (9, 25, 49, 1)
_DEPTHWISE: Final = {1, 3, 5, 7, 9, 11, 21, 25, 49, 81, 121}


def inputs_of(layer: Layer, shape: Shape) -> int:
    """Read or solve the inputs of a linear layer; 0 where neither works."""
    for key, value in layer.args:
        if key in ("in_features", "nx") and value.isdecimal() and len(value) < 12:
            return int(value)
    outputs = shape[-1] if shape else 0
    if not outputs or not layer.params:
        return 0
    if layer.params % outputs:
        return 0
    inputs = layer.params // outputs
    # With a bias the quotient is one too large; an even width is the likelier one.
    return inputs - 1 if inputs % 2 and inputs > 1 else inputs


def weight_counts(params: int, outputs: int, args: dict[str, str]) -> tuple[int, ...]:
    """List how many of a convolution's parameters may be weights: with a bias first, where nothing says."""
    if args:
        if args.get("bias") == "False":
            return (params,)
        if "kernel_size" in args:
            return (params - outputs,)
    # Last with a bias and a gain for each channel, as weights have that are normalised.
    return (params - outputs, params, params - 2 * outputs)


def printed_kernel(args: dict[str, str]) -> tuple[int, int]:
    """Read the kernel's area and the groups from what is printed; (0, 1) where nothing is."""
    text = args.get("kernel_size") or args.get("kernel") or args.get("2")
    if text is None:
        return 0, 1
    try:
        values = sizes.numbers(text)
        groups = sizes.number(args, "groups") if "groups" in args else 1
    except ValueError:
        return 0, 1
    if "kernel" in args and len(values) > 3:
        values = values[2:]  # older torchinfo prints channels too
    area = 1
    for value in values if len(values) > 1 or text[0] in "([" else values * 2:  # (3,) looks along one axis, 3 is a side
        area *= value
    if not 0 < area < 10**6:
        return 0, 1
    if "groups" in args or "kernel_size" in args:
        return area, max(groups, 1)
    return 0, 1  # torchinfo's column of kernels says nothing of groups; the weights do


def asked_for(weights: tuple[int, ...], outputs: int, area: int, groups: int, axes: int) -> tuple[int, int]:
    """Tell how many channels the weights ask for, and the kernel's area, where no tensor so far has that many."""
    each = 1
    for size in weights:
        if size % outputs == 0:
            each = size // outputs
            break
    if not area:
        area = next((area for area in _USUAL.get(axes, ()) if each % area == 0), 1)
    return max(each * groups // area, 1), area


def each_of(weights: tuple[int, ...], outputs: int) -> list[int]:
    """List how many weights each output may have."""
    if outputs <= 0:
        return []
    return [each for size in weights if not size % outputs and (each := size // outputs) > 0]


def may_be_along(each_output: list[int], inputs: int, outputs: int) -> bool:
    """Tell whether `solve_along` has anything to try."""
    if inputs <= 0:
        return False
    if not outputs % inputs:
        return True
    for each in each_output:  # noqa: SIM110
        if not each % inputs:
            return True
    return False


def solve_along(each_output: list[int], before: Shape, after: Shape) -> tuple[int, int]:
    """Find area and groups of a kernel that looks along one axis, however long it is; (0, 1) where it can be none.

    Args:
        each_output: how many weights each output may have.
        before: the picture, or series, that goes in.
        after: what comes out.
    """
    inputs, outputs = before[0], after[0]
    for each in each_output:
        if not each % inputs and _steps_along(before[1:], after[1:], each // inputs):
            return each // inputs, 1
        if outputs % inputs == 0 and _steps_along(before[1:], after[1:], each):
            return each, inputs
    return 0, 1


def _steps_along(before: Shape, after: Shape, area: int) -> bool:
    """Tell whether a kernel of so many places along one axis makes places of these."""
    if area <= 1:
        return False
    changed = [at for at in range(len(before)) if before[at] != after[at]]
    if not changed:  # padded, which is done the same at both ends of a series
        return area < 2 * (max(before) if before else 0) and (len(before) > 1 or area % 2 == 1)
    old, new = before[changed[0]], after[changed[0]]
    if len(changed) > 1 or new <= 0:
        return False
    steps = {1, max(old // new, 1), -(-old // new)}
    return any((old + 2 * pad - area) // step + 1 == new for pad in (0, (area - 1) // 2, area // 2) for step in steps)


def solve(
    weights: tuple[int, ...], inputs: int, outputs: int, area: int = 0, groups: int = 1, axes: int = 3
) -> tuple[int, int]:
    """Find area and groups for the first number of weights that has a solution; (0, 1) where none has.

    Args:
        weights: how many there may be.
        inputs: channels that go in.
        outputs: channels that come out.
        area: the kernel's, where it is printed; 0 else.
        groups: of channels, where the area is printed.
        axes: of what comes out, channels included: 4 over time and place.
    """
    if area:
        return (area, groups) if inputs * outputs * area // groups in weights else (0, 1)
    if axes == DEEP:
        return solve_deep(weights, inputs, outputs)
    return solve_each(each_of(weights, outputs), inputs, outputs)


def solve_each(each_output: list[int], inputs: int, outputs: int) -> tuple[int, int]:
    """Find the area of a kernel of so many weights for each output, with all channels joined or each by itself."""
    if inputs > 0:
        for each in each_output:
            if not each % inputs and each // inputs in _SQUARES:
                return each // inputs, 1
            if each in _DEPTHWISE and not outputs % inputs:
                return each, inputs
    return 0, 1


# Areas and groups by parameters, channels that come out and channels that go in.
_KERNELS: Final[dict[tuple[int, int, int], tuple[int, int]]] = {}


def kernel_of(params: int, outputs: int, inputs: int) -> tuple[int, int]:
    """Find area and groups of a convolution's kernel as `solve` does, where nothing is said of it but its parameters.

    It is not over time and place.
    """
    key = (params, outputs, inputs)
    kernel = _KERNELS.get(key)
    if kernel is None:
        kernel = solve(weight_counts(params, outputs, {}), inputs, outputs)
        keep(_KERNELS, key, kernel)
    return kernel


class Solvable:
    """Kernels that some numbers of weights for each output may be of, for whichever channels go in.

    Attributes:
        alone: whether a kernel may look at each channel alone, however many there are.
    """

    __slots__ = ("_asked", "_each_output", "_grouped", "_joined", "alone")

    def __init__(self, each_output: list[int]) -> None:
        self._each_output = each_output
        self.alone = not _DEPTHWISE.isdisjoint(each_output)
        # Areas by the channels that a kernel without groups takes.
        self._joined: dict[int, int] = {}
        # Channels of each of several groups, with areas.
        self._grouped: list[tuple[int, int]] = []
        self._asked: dict[int, list[tuple[int, int]]] = {}
        for each in each_output:
            for area in _SQUARES:
                if not each % area:
                    self._joined.setdefault(each // area, area)
            self._grouped += [(each // area, area) for area in _GROUPED if not each % area]

    def plain(self, inputs: int, outputs: int) -> tuple[int, int]:
        """Find area and groups as `solve` does."""
        return solve_each(self._each_output, inputs, outputs) if self.alone else (self._joined.get(inputs, 0), 1)

    def grouped(self, inputs: int) -> tuple[int, int]:
        """Find area and groups for several groups of channels."""
        for each, area in self._grouped:
            if each < inputs and not inputs % each and (area > 1 or inputs // each <= _FEW_GROUPS):
                return area, inputs // each
        return 0, 1

    def of(self, inputs: int, outputs: int, grouped: bool) -> tuple[int, int]:
        """Find area and groups with several groups of channels, or else as `solve` does."""
        return self.grouped(inputs) if grouped else self.plain(inputs, outputs)

    def asked(self, axes: int) -> list[tuple[int, int]]:
        """List the channels that may be asked for, each with the kernel's area: the usual kernels first."""
        asked = self._asked.get(axes)
        if asked is None:
            areas = (*_USUAL.get(axes, ()), 1)
            asked = [(each // area, area) for each in self._each_output for area in areas if not each % area]
            self._asked[axes] = asked
        return asked


_SOLVABLE: Final[dict[tuple[int, ...], Solvable]] = {}


def solvable(each_output: list[int]) -> Solvable:
    """Tell which kernels so many weights for each output may be of."""
    key = tuple(each_output)
    return _SOLVABLE.get(key) or keep(_SOLVABLE, key, Solvable(each_output))


def solve_deep(weights: tuple[int, ...], inputs: int, outputs: int) -> tuple[int, int]:
    """Solve a convolution over time and place; groups are of one channel, or there are none."""
    for size in weights:
        area, rest = divmod(size, max(inputs * outputs, 1))
        if not rest and area in _CUBES:
            return area, 1
        area, rest = divmod(size, max(outputs, 1))
        if not rest and area in _CUBES and inputs and outputs % inputs == 0:
            return area, inputs
    return 0, 1


def stride_between(size_in: int, size_out: int, sides: int) -> int:
    """Tell the step along each side."""
    step: float = (size_in / max(size_out, 1)) ** (1 / max(sides, 1))
    return max(round(step), 1)


def cannot_step(before: Shape, after: Shape, area: int) -> bool:
    """Tell whether no step of a square kernel makes one picture of the other, but one does behind pooling."""
    side = round(area**0.5)
    if len(before) != PICTURE or len(after) != PICTURE or side * side != area or before[1] // 2 < after[1]:
        return False
    pads = range(side // 2 + 1)
    steps = any((before[1] + 2 * pad - side) // step + 1 == after[1] for step in (1, 2, 4) for pad in pads)
    return not steps and any(before[1] // 2 + 2 * pad - side + 1 == after[1] for pad in pads)


def halved(before: Shape, after: Shape, area: int) -> bool:
    """Tell whether a square kernel that keeps places makes one picture of the other, made half as large before."""
    if len(before) != PICTURE or len(after) != PICTURE or after[1] < 2:
        return False
    return area in _USUAL[PICTURE] and all(size // 2 == half for size, half in zip(before[1:], after[1:], strict=True))


def recurrent_depth(layer: Layer, before: Shape, shape: Shape) -> tuple[int, int]:
    """Tell how many layers a recurrent network has, as it says, or solve its parameters for them.

    Args:
        layer: the network.
        before: what came before it.
        shape: what it gives out.

    Returns:
        The number, and the features that it takes; 0 of them where it is not known.
    """
    inputs, outputs = before[-1] if before else 1, shape[-1]
    taken, steps = elements(before), elements(shape[:-1])
    count = next((value for key, value in layer.args if key == "num_layers"), "")
    if count.isdecimal() and len(count) < _DIGITS:
        return int(count), 0
    gates = _gates(layer.type)
    for directions in (1, 2):
        hidden = outputs // directions
        each = directions * gates * hidden
        more, rest = divmod(layer.params - each * (inputs + hidden + 2), max(each * (outputs + hidden + 2), 1))
        if not rest and 0 <= more < _MOST_DEPTH:
            return more + 1, inputs
    if layer.args:  # a print says how many there are, where there are several
        return 1, 0
    found = recurrent_sizes(layer, outputs)
    for more, wide in found:
        if wide * steps == taken:  # turned or flattened on its way
            return more + 1, wide
    # Joined with others of its kind, or with something narrower; or pooled.
    joined = [(wide % inputs > 0, wide, more) for more, wide in found if wide >= inputs]
    if joined:
        _, wide, more = min(joined)
        return more + 1, wide
    return (found[0][0] + 1, found[0][1]) if found else (1, 0)


def _gates(type_: str) -> int:
    return 4 if "LSTM" in type_ else 3 if "GRU" in type_ else 1


def recurrent_sizes(layer: Layer, outputs: int) -> list[tuple[int, int]]:
    """Solve a recurrent network's parameters for its layers but the first and the features that it takes.

    Returns:
        All that fit: one direction or two, a layer more or wider inputs; those of few layers first.
    """
    gates = _gates(layer.type)
    found: list[tuple[int, int]] = []
    rows, rest = divmod(layer.params, max(gates * outputs, 1))
    for directions in (1, 2):
        hidden, odd = divmod(outputs, directions)
        inputs = rows - hidden - 2
        if not rest and not odd:
            found += [
                (more, wide) for more in range(_FEW_LAYERS) if (wide := inputs - more * (outputs + hidden + 2)) > 0
            ]
    return sorted(found)
