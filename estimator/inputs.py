"""What a print's layers tell of the input that they were made for: the side of pictures, frames of films, tokens. Pure.

A print shows no input. Tables of positions have a row for each place, a flattened picture has as many features as the
first linear layer takes, and networks that halve a picture only a few times are made for small ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod
from typing import Final, NamedTuple

from estimator import sizes
from estimator.breath import breathe
from estimator.layer import Layer
from estimator.walk import layers

_SMALL: Final = 32
_SMALLER: Final = 28
# Denoisers, and latent pictures: between CIFAR's 32 and what is published at 256 in latents of 32 to 64.
_NOISY: Final = 64
_FILM_FRAMES: Final = 8
_LONG_FILM_FRAMES: Final = 16
_USUAL_SIDES: Final[tuple[int, ...]] = (32, 28, 64, 96, 224, 112, 128, 256, 299)
# Digits, and games as four pictures one after the other.
_OF_CHANNELS: Final[dict[int, tuple[int, ...]]] = {1: (28,), 4: (84,)}
# Rows of a table of positions that stand for no place: class tokens, registers.
_MOST_EXTRA: Final = 17
_LEAST_PLACES: Final = 4
_LEAST_PATCH: Final = 4
_FEW_STEPS: Final = 4
_MORE_STEPS: Final = 8
# Linear layers of gates, which stand inside of blocks.
_INSIDE: Final[tuple[str, ...]] = ("fc1", "fc2", "0", "2")
_MOST_SIDE: Final = 2048
_MOST_FRAMES: Final = 4096
RESIZES: Final = "GeneralizedRCNNTransform"
"""What torchvision's detectors do first, whatever comes; most resize the shorter side to this."""
_RESIZED_TO: Final = 800
_MOST_RESIZED: Final = 1333
_SSD_SIDE: Final = 300
_AVERAGES: Final = "AvgPool2d"
_RESIZING: Final = frozenset(("Conv2d", "MaxPool2d", _AVERAGES))
_RESIZING_ANY: Final = ("Conv", "MaxPool", "AvgPool")
Step = tuple[int, int, int]


class Seen(NamedTuple):
    """What a picture's or film's input is.

    Attributes:
        side: of a picture, in pixels.
        frames: of a film; 1 for a picture.
        why: what tells it; the empty string where it is only what is usual.
    """

    side: int
    frames: int = 1
    why: str = ""


def resizing(root: Layer) -> tuple[int, int]:
    """Tell what torchvision's detectors make of every picture: the least shorter side, the largest longer one; or 0, 0.

    Those that make all pictures alike are not meant.
    """
    resized = next((layer for layer in layers(root) if layer.type == RESIZES), None)
    if resized is None or root.type.startswith("SSD"):
        return 0, 0
    for part in resized.children:
        least, most = max(axes(part, "min_size"), default=0), max(axes(part, "max_size"), default=0)
        if 0 < least <= most:
            return min(least, _MOST_SIDE), min(most, _MOST_SIDE)
    return _RESIZED_TO, _MOST_RESIZED


def picture(root: Layer, stem: Layer, usual: int, *, flattens: bool) -> Seen:
    """Tell how large pictures are, or how long films.

    Args:
        root: the model.
        stem: its first convolution.
        usual: side of the pictures that such models are published with.
        flattens: whether its linear layers take whole pictures, as those of convolutional networks do.
    """
    kernel, stride = axes(stem, "kernel_size"), axes(stem, "stride")
    found = layers(root)
    resized = next((layer for layer in found if layer.type == RESIZES), None)
    if resized is not None:
        sides = [side for part in resized.children if (side := max(axes(part, "min_size"), default=0)) > 0]
        if sides:
            return Seen(min(sides[0], _MOST_SIDE), 1, "what it resizes them to")
        return Seen(_SSD_SIDE if root.type.startswith("SSD") else _RESIZED_TO)
    places = _positions(root, stem)
    patch = stride[-1] if _cuts(stem) else 0
    if len(kernel) == 3:
        return _film(places, patch, max(stride[0], 1) if stride else 1, root, usual)
    if places and sum(_cuts(layer) and number(layer, "0") == number(stem, "0") for layer in found) > 1:
        places = 0  # a table for each of several branches
    by_frames = root.type.startswith(("Timesformer", "TimeSformer"))
    if patch and places:
        side = isqrt(places - 1)
        extra = places - side * side
        if side >= _LEAST_PLACES and extra <= _MOST_EXTRA and side * patch <= _MOST_SIDE:
            frames = max(extra - 2, 1) if by_frames else 1
            return Seen(side * patch, frames, "its table of positions")
    if by_frames:
        return Seen(usual, _FILM_FRAMES)
    if patch:
        return Seen(usual)
    if noisy(found):
        return Seen(_NOISY)
    return (_flattened(found, stem) or _small(found) or _pooled(found) if flattens else None) or Seen(usual)


def noisy(found: Sequence[Layer]) -> bool:
    """Tell whether a network takes a time step beside its picture: a denoiser."""
    for layer in found:  # noqa: SIM110
        if layer.name.startswith("time") or layer.type.startswith("Time"):
            return True
    return False


def along(found: Sequence[Layer]) -> tuple[int, int]:
    """Tell along which axis the first kernel of several places looks, and over how many; (-1, 0) where over both.

    Such a network takes no pictures but series, one beside the other: the channels of an EEG, features over time.
    """
    for layer in found:
        kernel = axes(layer, "kernel_size") if "Conv2d" in layer.type else ()
        if len(kernel) == 2 and max(kernel) > 1:
            return (kernel.index(max(kernel)), max(kernel)) if min(kernel) == 1 else (-1, 0)
    return -1, 0


def side_of(stem: Layer) -> int:
    """Read how large a convolution's kernel is; 1 where it does not say."""
    return max(axes(stem, "kernel_size"), default=1)


def reduces(found: Sequence[Layer]) -> int:
    """Tell how much smaller a network makes its pictures, along a side, before it makes them larger again, if it does.

    Layers of equal width that make them smaller lie beside each other (the ways around blocks), but pooling does not.
    """
    pools = 1
    strides: dict[int, int] = {}
    for layer in found:
        if layer.children or not ("Conv2d" in layer.type or "MaxPool2d" in layer.type or "AvgPool2d" in layer.type):
            continue
        step = _step(layer)
        if step is None or "Adaptive" in layer.type:
            continue
        if "Pool" in layer.type:
            pools *= step[1]
        else:
            strides[number(layer, "1")] = max(strides.get(number(layer, "1"), 1), step[1])
    return min(prod(strides.values()) * pools, _MOST_SIDE)


def tokens(root: Layer, first: Layer) -> int:
    """Tell how many tokens a transformer takes whose first layer is linear, from its table of positions; 0 if unknown.

    Args:
        root: the model.
        first: its first linear layer.
    """
    places = _positions(root, first)
    side = isqrt(places)
    return side * side if places - side * side <= 2 and side >= _LEAST_PLACES else places


def patches(first: Layer, rows: int, columns: int) -> int:
    """Tell how many patches a picture is cut into where the first layer takes patches' pixels.

    Args:
        first: first linear layer.
        rows: of the picture.
        columns: of the picture.

    Returns:
        Number of patches; 0 where the layer takes something else.
    """
    side = isqrt(_inputs(first) // 3)
    if side < _LEAST_PATCH or 3 * side * side != _inputs(first):
        return 0
    return (rows // side) * (columns // side)


def _cuts(layer: Layer) -> bool:
    """Tell whether a convolution cuts pictures into patches."""
    if "Conv" not in layer.type:
        return False
    breathe()
    stride = axes(layer, "stride")
    return bool(stride) and stride[-1] >= _LEAST_PATCH and stride == axes(layer, "kernel_size")


def _film(places: int, patch: int, step: int, root: Layer, usual: int) -> Seen:
    if patch and places:
        for side in (usual, 112, 256, 160, 128):
            grid = (side // patch) ** 2
            frames, extra = divmod(places, max(grid, 1))
            if side % patch == 0 and 0 < frames * step <= _MOST_FRAMES and extra <= 2:
                return Seen(side, frames * step, "its table of positions")
    side = 112 if root.type == "VideoResNet" else usual
    return Seen(side, _LONG_FILM_FRAMES)


def _positions(root: Layer, first: Layer) -> int:
    """Count the rows of a bare table beside the first layer, where the print says how many parameters a block owns."""
    width = _outputs(first)
    for layer in _around(root, first):
        if layer.type.endswith("MultiheadAttention"):
            continue  # its projections are no table
        rows, rest = divmod(layer.params, max(width, 1))
        if rows >= _LEAST_PLACES * _LEAST_PLACES and not rest:
            return rows
    return 0


def _around(root: Layer, inner: Layer) -> list[Layer]:
    """Return the containers around a layer, the nearest first."""
    for child in root.children:
        if child is inner:
            return [root]
        if child.children and (found := _around(child, inner)):
            return [*found, root]
    return []


def _flattened(found: Sequence[Layer], stem: Layer) -> Seen | None:
    """Find the usual side whose picture, flattened, has as many features as the first linear layer takes."""
    chain: list[Step] = []
    channels = 0
    flattens = False
    for layer in found:
        if layer.children:
            continue
        flattens |= layer.type == "Flatten"
        if "Adaptive" in layer.type or "Global" in layer.type:
            return None
        if layer.type == "Conv2d":
            taken, given = number(layer, "0"), number(layer, "1")
            if chain and taken != channels:
                return None
            channels = given
        if layer.type in _RESIZING:
            step = _step(layer)
            if step is None:
                return None
            chain.append(step)
        elif layer.type == "Linear":
            area, rest = divmod(_inputs(layer), max(channels, 1))
            last = isqrt(area)
            if rest or last * last != area or not (last > 1 or flattens):  # one pixel may be a mean
                return None
            return _side(chain, last, stem) if last > 1 else _one_pixel(chain, stem)
    return None


def _side(chain: list[Step], last: int, stem: Layer) -> Seen | None:
    for times in (1, 2, 4, 8, 16):  # pooling may be done in no layer
        side = _usual_side(chain, last * times, number(stem, "0"))
        if side:
            return Seen(side, 1, "what its first linear layer takes")
    return None


def _one_pixel(chain: list[Step], stem: Layer) -> Seen | None:
    side = _usual_side(chain, 1, number(stem, "0"))
    return Seen(side, 1, "what its first linear layer takes") if side else None


def _usual_side(chain: list[Step], last: int, channels: int) -> int:
    for side in _OF_CHANNELS.get(channels, ()) + _USUAL_SIDES:
        if _behind(chain, side) == last:
            return side
    return 0


def _behind(chain: Sequence[Step], side: int) -> int:
    for kernel, stride, padding in chain:
        side = (side + 2 * padding - kernel) // stride + 1
    return side


def flattened_side(chain: Sequence[Layer], area: int, said: tuple[int, ...] = ()) -> int:
    """Find the usual side whose pictures have so many places behind convolutions and pooling; 0 where there is none.

    Args:
        chain: layers, those among them that make pictures smaller.
        area: places behind them.
        said: sides of what goes in, where they are known: no others are tried.
    """
    resizing = [layer for layer in chain if layer.type.startswith(_RESIZING_ANY) and layer.type.endswith("d")]
    steps = [step for layer in resizing if (step := _step(layer)) is not None]
    if not len(steps) == len(resizing) > 0:
        return 0
    if said:
        return said[0] if prod([_behind(steps, side) for side in said]) == area else 0
    last = isqrt(area)
    return _usual_side(steps, last, number(resizing[0], "0")) if last * last == area else 0


def _small(found: Sequence[Layer]) -> Seen | None:
    """Tell a classifier of small pictures: it halves them three times or less, not at once, and pools nowhere."""
    begins = 0
    strides: dict[int, int] = {}
    for layer in found:
        if layer.children or ("Conv" not in layer.type and "Pool" not in layer.type):
            continue
        if "Transpose" in layer.type or "Upsample" in layer.type:
            return None
        if "Pool" in layer.type and "Adaptive" not in layer.type:
            return None
        step = _step(layer)
        begins = begins or (step[1] if step is not None else 1)
        if step is not None and step[1] > 1 and step[0] > 1:
            given = number(layer, "1")
            strides[given] = max(strides.get(given, 1), step[1])
    steps = prod(strides.values())
    linear = [layer for layer in found if layer.type == "Linear"]
    few = steps <= _FEW_STEPS or (begins == 1 and steps <= _MORE_STEPS)
    inside = sum(layer.name in _INSIDE for layer in linear)
    return Seen(_SMALL, 1, "how seldom it halves them") if steps > 1 and few and len(linear) - inside == 1 else None


def _pooled(found: Sequence[Layer]) -> Seen | None:
    """Tell a classifier of small pictures whose last layer before the answer pools all that is left of one."""
    if not any(layer.type == _AVERAGES for layer in found):
        return None
    steps = 1
    strides: dict[int, int] = {}
    last: Step = (1, 1, 0)
    for layer in found:
        if layer.children or layer.type not in _RESIZING or (step := _step(layer)) is None:
            continue
        if layer.type == "Conv2d":
            last = last if step[0] == 1 else (1, 1, 0)
            if step[0] > 1:
                given = number(layer, "1")
                strides[given] = max(strides.get(given, 1), step[1])
        elif layer.type == _AVERAGES and step[0] >= _LEAST_PATCH and step[1] in (1, step[0]) and not step[2]:
            last = step
        elif not layer.name.startswith("identity"):
            steps *= step[1]
    side = last[0] * steps * prod(strides.values())
    return Seen(side, 1, "what its last pooling takes") if side in (_SMALL, _SMALLER) and last[0] > 1 else None


def _step(layer: Layer) -> Step | None:
    """Read kernel, stride and padding; None where the print does not say."""
    breathe()
    kernel = axes(layer, "kernel_size")
    if not kernel:
        return None
    stride, padding = axes(layer, "stride") or kernel, axes(layer, "padding") or (0,)
    return (kernel[-1], max(stride[-1], 1), padding[-1])


def axes(layer: Layer, name: str) -> tuple[int, ...]:
    """Read an argument of a layer that is a number for each axis; () where there is none."""
    try:
        return sizes.numbers(layer.said(name))
    except ValueError:
        return ()


def number(layer: Layer, name: str) -> int:
    """Read an argument of a layer that is one number; 0 where there is none."""
    said = layer.said(name)
    try:
        return sizes.integer(said) if said else 0
    except ValueError:
        return 0


def _inputs(layer: Layer) -> int:
    return number(layer, "in_features")


def _outputs(layer: Layer) -> int:
    return number(layer, "out_features") or number(layer, "1")
