"""What blocks keep in their own code, beside what their layers do: gates, sums, products that no row shows. Pure.

It was noted of the libraries' models what autograd keeps in each call (`estimator/dataset/saved.py`); by how much that
is more, or less, than the account of a block's steps is tabulated by the type of the block and the types of the layers
in it. A block of another library with the same name and the same layers is taken for the same.

Of blocks that torchinfo hides it was noted what they keep in all (`estimator.methods.rad.unopened`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Final, NamedTuple

from estimator.breath import OFTEN, breathe
from estimator.kept import keep
from estimator.layer import Layer
from estimator.methods.rad.familiar import without
from estimator.methods.rad.kinds import Kind, kind_of
from estimator.methods.rad.known import blocks_of, held
from estimator.methods.rad.program import End, Program
from estimator.methods.rad.unopened import (
    LISTS,
    TOKENS,
    Hidden,
    Models,
    Values,
    alike,
    around,
    as_large,
    hidden_blocks,
    insides,
    left,
    like,
    of_type,
    read_hidden,
    read_values,
    tokens_of,
)
from estimator.types import Precision
from estimator.walk import layers

Table = Mapping[str, Mapping[str, Values]]
"""By type and by `inside`."""
HIDDEN: Final = "hidden"
"""The table of hidden blocks, among those of the formats."""
OF_MODEL: Final = "|"
"""Behind it stands whose models' blocks are meant, where others of the type do something else."""

_PLACE: Final[Mapping[Precision, int]] = {"fp32": 0, "amp": 1, "bf16": 2, "fp16": 2}
# These have no code of their own.
NO_CODE: Final = frozenset(
    ("Sequential", "ModuleList", "ModuleDict", "Identity", "Flatten", "Parameter", "ParameterList")
)
_ROWS: Final = 3
_AMP: Final = 1
# So many classes may be around a library's model.
_DEEP: Final = 3
_BARE: Final = ("Identity", "Parameter", "ParameterList")
_VIEW: Final = Kind.VIEW
# Whether layers of a type with none inside have code of their own.
_CODE: Final[dict[str, bool]] = {}
_NORMS: Final = frozenset((Kind.BATCH_NORM, Kind.LAYER_NORM, Kind.RMS_NORM))
# PyTorch's own norms; others may hold an activation, or work in another order of dimensions.
_PLAIN_NORMS: Final = frozenset(("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LayerNorm", "GroupNorm", "RMSNorm"))


class Own(NamedTuple):
    """What the blocks of a program keep of their own.

    Attributes:
        steps: by step, bytes for one sample; empty where nothing is known.
        share: share of the blocks, by size, of which it is known; the model itself is one of which it is not.
        inside: by step, bytes for one sample that a hidden block keeps in all.
        works: by step, elements of one sample that it works with beside its input and output, where nothing is kept.
        cache: elements of keys and values that hidden blocks of one sample give out for the next token.
    """

    steps: list[float]
    share: float
    inside: Mapping[int, float] = MappingProxyType({})
    works: Mapping[int, float] = MappingProxyType({})
    cache: float = 0.0


NOTHING: Final = Own([], 0.0)


class OwnCode:
    """The tables, one for each format."""

    def __init__(
        self, tables: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]], measured: Set[str] | None = None
    ) -> None:
        """Take what `estimator.methods.rad.fit.blocks` makes: tables by format.

        Args:
            tables: what was noted.
            measured: the names of measured models (`known.blocks_of`). Blocks of others are looked up in the models
                that they hold, too; where these names are not given, none are.

        Raises:
            ValueError, TypeError, AttributeError, OverflowError: they are damaged.
        """
        self._measured = measured
        self._tables: dict[str, Table] = {
            format_: {
                type_: {inner: read_values(each) for inner, each in found.items()} for type_, found in table.items()
            }
            for format_, table in tables.items()
            if format_ != HIDDEN
        }
        self._hidden: dict[str, dict[str, Hidden]] = {
            type_: {names: read_hidden(each) for names, each in found.items()}
            for type_, found in tables.get(HIDDEN, {}).items()
        }
        self._alike: dict[str, Hidden] = {
            type_: noted for type_, found in self._hidden.items() if (noted := alike(found)) is not None
        }

    def of(self, program: Program, format_: str, precision: Precision) -> Own:
        """Look up the blocks of a program."""
        table = self._tables.get(format_)
        if not program.ops or (not table and not self._hidden):
            return NOTHING
        place, last = _PLACE[precision], len(program.ops)
        steps = [0.0] * last
        known = blocks = 0.0
        names = _Names(program, format_, self._measured)
        inside, left, works, cache = self._inside(program, format_, place, names)
        seen: dict[int, Values | None] = {}  # by layer: in a tree, equal ones hold the same
        for number, (layer, _, at, size) in enumerate(program.ends):
            if not number & OFTEN:
                breathe()
            if not layer.children and _CODE.get(layer.type) is False:
                continue  # as most are
            if not at or not is_block(layer):
                continue
            blocks += size
            if at - 1 in inside and not layer.children:
                known += size
                continue
            if not table:
                continue
            key = number if program.flat else id(layer)
            if key not in seen:
                seen[key] = _found(table, program, number, layer.type, names)
            values = seen[key]
            if values is not None:
                known += size
                steps[at - 1] += values[place] * size
        return Own(steps, known / blocks, {**inside, **left}, works, cache) if known or inside else NOTHING

    def _inside(
        self, program: Program, format_: str, place: int, names: _Names
    ) -> tuple[dict[int, float], dict[int, float], dict[int, float], float]:
        """Look up the hidden blocks of a program.

        Returns:
            What each keeps that is known, what these leave to each of the others, what each works with, and what all of
            them cache.
        """
        inside: dict[int, float] = {}
        works: dict[int, float] = {}
        cache = 0.0
        if not self._hidden or format_ != "torchinfo" or not program.hidden_params:
            return inside, {}, works, cache
        found: list[tuple[int, int, int, Hidden]] = []
        unknown: list[int] = []
        counted = 0.0
        blocks = hidden_blocks(program)
        lists = program.owner and any(program.ends[number][0].type in LISTS for number, _ in blocks)
        outers = around(program.ends) if lists else {}
        for step, (number, at) in enumerate(blocks):
            if not step & OFTEN:
                breathe()
            layer, _, _, size = program.ends[number]
            types = of_type(self._hidden, program, layer)
            noted = None
            if layer.type in LISTS and program.owner:  # of blocks that one model alone has
                noted = self._of_family(as_large(outers.get(id(layer)), size), program.owner)
                if noted is not None and noted.kept_more[0] and not tokens_of(program, at):
                    noted = None
            if noted is None and types:
                noted = names.hidden(types, self._hidden, blocks)
            if noted is None and program.owner:
                noted = self._of_family(layer.type, program.owner)
            if noted is None:
                unknown.append(at)
            else:
                counted += noted.counted * size
                found.append((number, at, size, noted))
        # Unknown blocks have what is left of what is printed; known ones no more than all of it.
        sums = counted and program.inside > 0 and (not unknown or program.inside < counted)
        scale = program.inside / counted if sums else 1.0
        rest = left(program, [at for _, at in blocks], unknown, counted, place) if names.new else {}
        breathe()
        for number, at, size, noted in found:
            long = (tokens_of(program, at) or TOKENS) / TOKENS
            kept = noted.kept[place] + noted.kept_more[place] * long
            inside[at] = kept * size * (noted.counted * scale or 1.0)
            way = int(place == _AMP)
            # A list that shows no shape is of no size: what is printed tells how large all in it is. One that is shown
            # again and again stands for all of them.
            layer = program.ends[number][0]
            larger = scale if layer.output_shape is None else 1.0
            if not layer.said("recursive"):
                works[at] = (noted.work[way] + noted.work_more[way] * long) * size * larger
            cache += noted.cached * size if program.caches else 0.0
        return inside, rest, works, cache

    def _of_family(self, type_: str, owner: str) -> Hidden | None:
        """Look up what blocks of a type that is one model's own hold in all models that have them, if that is alike."""
        return self._alike.get(type_) if type_.startswith(owner) else None


class _Names:
    """Names of the models whose blocks a program's may be: its own, and those that a class of the user's holds.

    Attributes:
        new: whether nothing was measured of a model of its own name.
    """

    def __init__(self, program: Program, format_: str, measured: Set[str] | None) -> None:
        self._program = program
        self._format = format_
        self._own = blocks_of(format_, program.names)
        self._held: list[str] | None = None
        self._measured = measured or frozenset()
        # What was measured of a model was compared with an account by its own name alone.
        self.new = not program.flat and measured is not None and self._own not in measured
        self._keys: dict[str, list[str]] = {}
        self._like: str | None = None

    def hidden(self, types: Models, tables: Mapping[str, Models], blocks: Sequence[tuple[int, int]]) -> Hidden | None:
        """Find what is noted of hidden blocks of one type in these models, else in one like them, else in any.

        Args:
            types: what is noted, by models.
            tables: of all types.
            blocks: all that are hidden.
        """
        for name in self._names():
            keys = self._keys.get(name)
            if keys is None:
                keys = [of_model("", each) for each in (*insides(self._program, blocks, name), name)]
                self._keys[name] = keys
            for key in keys:
                if key in types:
                    return types[key]
        if self._like is None:
            self._like = like(tables, self._program, blocks) if self.new else ""
        return types.get(self._like) or types.get("")

    def shown(self, inner: Mapping[str, Values], key: str) -> Values | None:
        """Find what is noted of blocks that are shown, by what is in them."""
        for name in self._names():
            values = inner.get(of_model(key, name))
            if values is not None:
                return values
        return inner.get(key)

    def _names(self) -> Iterator[str]:
        """Yield them; those behind the first are made when they are asked for, as mostly none is."""
        yield self._own
        if not self.new:
            return
        if self._held is None:
            breathe()
            program = self._program
            holder = without(program.owner, program.ends[-1][0].type)
            models = [blocks_of(self._format, types) for types in held(program.names, holder)]
            known = [name for name in models if name in self._measured][:1]  # as `Known` finds it
            self._held = known or [blocks_of(self._format, types) for types in _inner(program)]
        yield from self._held


def _inner(program: Program) -> list[frozenset[str]]:
    """Give the types of layers in parts that have most of a model's parameters, each of which holds the next.

    One may be a library's model, around which somebody put a class of his own.
    """
    found: list[frozenset[str]] = []
    part = program.ends[-1][0]
    most = sum([layer.params for layer in layers(part)])
    while len(found) < _DEEP:
        sizes = [(sum([layer.params for layer in layers(inner)]), inner) for inner in part.children if inner.children]
        size, part = max(sizes, key=lambda each: each[0], default=(0, part))
        if 2 * size <= most:
            break
        found.append(frozenset([without(program.owner, layer.type) for layer in layers(part)]))
    return found


def of_model(inner: str, names: str) -> str:
    """Give the key of blocks in models whose layers are of some types alone."""
    return inner + OF_MODEL + names


def _found(table: Table, program: Program, number: int, type_: str, names: _Names) -> Values | None:
    inner = table.get(type_)
    if inner is not None:
        key = inside(program.ends, number, "", program.flat)
        values = names.shown(inner, key)
        if values is not None:
            return values
    if program.owner:
        inner = table.get(without(program.owner, type_) + "~")
        if inner is not None:
            return inner.get(inside(program.ends, number, program.owner, program.flat))
    return None


def is_block(layer: Layer) -> bool:
    """Tell whether a layer has code of its own: a block, or a layer whose type says nothing."""
    type_ = layer.type
    if layer.children:
        return type_ not in NO_CODE
    known = _CODE.get(type_)
    return keep(_CODE, type_, _has_code(type_)) if known is None else known


def _has_code(type_: str) -> bool:
    """Tell whether a layer of this type with none inside has code of its own."""
    kind = kind_of(type_)
    return type_ not in NO_CODE and (kind is _VIEW or (kind in _NORMS and type_ not in _PLAIN_NORMS))


def inside(ends: Sequence[End], number: int, owner: str, flat: bool) -> str:
    """Describe what is in a block: the types of its layers, or those of the three rows before where there is no tree.

    Args:
        ends: layers in the order in which they are done.
        number: the block's place.
        owner: what is taken from the types.
        flat: whether there is no tree.
    """
    if flat:
        return ",".join([without(owner, end[0].type) for end in ends[max(number - _ROWS, 0) : number]])
    return ",".join(sorted({_named(owner, child) for child in ends[number][0].children}))


def _named(owner: str, layer: Layer) -> str:
    """Name a layer; one that hides layers with parameters is another than one that shows them."""
    type_ = layer.type
    hides = layer.params and not layer.children and type_ not in _BARE and kind_of(type_) is _VIEW
    return without(owner, type_) + ("*" if hides else "")
