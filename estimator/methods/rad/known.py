"""What was measured of the same architecture, or of others with the same blocks, and what follows from it. Pure.

Each measured run of a real model leaves by how much its activations were larger than what the corrected account said.
A request takes the mean of what runs left whose model has the same types of layers in the same format, those near to
it counting most: in how the model was run, and in its size. Where that changes with the batch size, a line is taken
through them. Where the very configuration was measured, that run alone is followed: what the allocator reserves beyond
what it hands out follows no rule that others would tell. It is a matter of a dictionary and a few dozen numbers.
"""

from __future__ import annotations

import hashlib
import struct
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from math import exp, isfinite, log, log2, sqrt
from typing import Any, Final, Literal, NamedTuple

from estimator.inputs import RESIZES
from estimator.methods.rad.familiar import without
from estimator.methods.rad.kinds import Kind, kind_of
from estimator.methods.rad.program import Program
from estimator.methods.rad.resemblance import Resembling, written
from estimator.types import PRECISIONS, ModelSummary, Workload

Level = Literal["repeated", "measured", "kin", "similar", "new"]
LEVELS: Final[tuple[Level, ...]] = ("repeated", "measured", "kin", "similar", "new")
KNOWLEDGE: Final = (
    "weight",
    "nearest",
    "scatter",
    "shift",
    "runs",
    "alike",
    "share",
    "level",
    "unlike",
    "resemblance",
)
"""What the size of an error is told from, beside the features of the request."""

# How far two runs are apart: for each doubling of batch size, of parameters, of a sample's activations, and of steps;
# for another precision, for training instead of inference, and for each state that an optimizer holds more for each
# parameter. A run counts e to the negative power of its distance, and those that are near so many times the cube of
# that beside. All chosen by leaving runs and models out.
_BATCH: Final = 0.4
_PARAMS: Final = 1.0
_ELEMENTS: Final = 0.6
_STEPS: Final = 3.0
_PRECISION: Final = 1.5
_KIND: Final = 5.0
_STATE: Final = 0.1
_NEAR: Final = 20.0
# Models further away than this say nothing.
_FARTHEST: Final = 4.6
# A run that says nothing, with which the mean is taken; and one at twice the batch size and one at half of it that say
# nothing changes with the batch size.
_DOUBT: Final = 0.005
_LEVEL: Final = 1.0
# A line through them is followed for so many doublings of the batch size.
_REACH: Final = 2.0
# Less weight than this is as good as none.
_LEAST: Final = 0.05
# The same for runs of models whose layers are of almost the same types; and how far apart those are whose types are all
# others.
_LEAST_SIMILAR: Final = 0.1
_UNLIKE_TYPES: Final = 3.0
# The same for runs of the same architecture: in training where it inferred, or at some thousand times the batch size.
_LEAST_MEASURED: Final = 0.005
# The same architecture: as many steps, and parameters as near as a head for other classes leaves them.
_SAME: Final = 0.05
_AS_MANY: Final = 0.001
# The same configuration: samples and batch sizes as near as that head and the rounding of the table leave them.
_AS_LARGE: Final = 0.006
_MOST_SHIFT: Final = 4.0
# A user's class around a library's model may leave out a layer or add one of these. A head has so many rows at most.
_EITHER: Final = (frozenset[str](), frozenset({"Identity"}), frozenset({"Dropout"}), frozenset({"Identity", "Dropout"}))
# Two steps of what torchvision's detectors do first that some measured prints show, and others not; and by how much, as
# a power of two, a model may be larger that resizes to the same side.
_SHOWN: Final = frozenset({"Normalize", "Resize"})
_RESIZED: Final = 0.5
_VIEWS: Final = ("Flatten", "Identity", "Unflatten", "Parameter", "Sequential", "ModuleList", "ModuleDict", "Model")
_HEAD: Final = 6
# How models are written: three sizes, and how many runs; how runs are: batch size, way of running, shift; sizes, batch
# sizes and shifts in these parts of one.
_SIZES: Final = struct.Struct("<IIII")
_SIZE_UNIT: Final = 10_000
_PACKED: Final = struct.Struct("<hBh")
_BATCH_UNIT: Final = 100
_SHIFT_UNIT: Final = 8_000
# Optimizers that take the same memory are one; how many numbers each holds for a parameter. Inference is as the first.
_OPTIMIZERS: Final = {"sgd": 0, "sgd_momentum": 1, "rmsprop": 2, "adam": 3, "adamw": 3}
_STATES: Final = (0, 1, 1, 2)
_WAYS: Final = {
    (2 * precision + training) * len(_STATES) + optimizer: (precision, training, optimizer)
    for precision in range(len(PRECISIONS))
    for training in range(2)
    for optimizer in range(len(_STATES))
}
# Added to activations before they are compared, in MiB: few are measured badly.
_FEW_MIB: Final = 50.0


class Run(NamedTuple):
    """A request, as it is compared with measured runs.

    Attributes:
        blocks: stands for format and types of layers; "" for what is never compared.
        log_params, log_elements, log_steps: size of the model, as powers of two.
        log_batch: batch size, as a power of two.
        precision: its place among the precisions.
        training: 1, or 0 for inference.
        optimizer: stands for all optimizers that take the same memory; 0 for inference.
        around: format, types of layers, and which of them is a class that may only hold a library's model; None where
            there is none.
    """

    blocks: str = ""
    log_params: float = 0.0
    log_elements: float = 0.0
    log_steps: float = 0.0
    log_batch: float = 0.0
    precision: int = 0
    training: int = 0
    optimizer: int = 0
    around: tuple[str, frozenset[str], str] | None = None


class Knowledge(NamedTuple):
    """What measured runs say of a request.

    Attributes:
        level: ``repeated``: it was measured itself, in all that decides about memory; ``measured``: its architecture
            was; ``kin``: others of the same blocks were; ``similar``: others of almost the same blocks were; ``new``.
        shift: logarithm by which its activations are larger than accounted.
        weight: how many runs like it that rests on.
        nearest: distance of the nearest.
        scatter: by how much they differ, as a standard deviation.
        runs: runs of the same architecture.
        alike: those of the same precision that trained, or inferred, too.
        unlike: distance of the sizes of the nearest model of the same architecture: another may be printed the same.
        resemblance: share of types of layers that are those of measured models.
    """

    level: Level
    shift: float
    weight: float
    nearest: float
    scatter: float
    runs: int
    alike: int
    unlike: float
    resemblance: float

    def features(self, share: float) -> list[float]:
        """Describe this; the order is `KNOWLEDGE`.

        Args:
            share: share of the expected memory that ``shift`` is about.
        """
        return [
            log(self.weight + 0.001),
            self.nearest,
            self.scatter,
            self.shift,
            float(self.runs),
            float(self.alike),
            share,
            float(LEVELS.index(self.level)),
            self.unlike,
            self.resemblance,
        ]


_FAR: Final = 20.0
NOTHING: Final = Knowledge("new", 0.0, 0.0, _FAR, 0.0, 0, 0, _FAR, 0.0)


def run_of(program: Program, summary: ModelSummary, workload: Workload) -> Run:
    """Describe a request so that it can be compared."""
    training = workload.kind == "train"
    return Run(
        blocks_of(summary.format, program.names),
        log2(summary.total_params + summary.made_anew + 1),  # what makes weights anew is no model that was measured
        log2(sum(program.tensors) + 1),
        log2(len(program.ops) + 1),
        log2(max(workload.batch_size, 1)),
        PRECISIONS.index(workload.precision),
        int(training),
        _OPTIMIZERS[workload.optimizer] if training else 0,
        (summary.format, program.names, _holder(summary, program)),
    )


def _holder(summary: ModelSummary, program: Program) -> str:
    """Name the class around a model: the model's own, or where no tree is shown the block whose row is the last one."""
    if not program.flat:
        return without(program.owner, summary.root.type)
    for row in reversed(summary.root.children[-_HEAD:]):
        if not row.params and kind_of(row.type) is Kind.VIEW and row.type not in _VIEWS:
            return row.type
    return ""


def held(types: frozenset[str], holder: str) -> list[frozenset[str]]:
    """Give the types of layers of models that a class may hold which does nothing else, or adds what a head has."""
    return [types - left - {holder} for left in _EITHER if left <= types]


@lru_cache(maxsize=16)  # names come from users, and a set of them may be large: few are kept
def blocks_of(format_: str, names: frozenset[str]) -> str:
    """Give what stands for a format and types of layers."""
    text = "\n".join((format_, *sorted(names)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def finite(value: Any) -> float:
    """Read a number of a learned model.

    Raises:
        TypeError, ValueError, OverflowError: it is none that can be reckoned with.
    """
    number = float(value)
    if not isfinite(number):
        raise ValueError(f"{number} is no number")
    return number


# Batch, precision, training, optimizer, shift.
_Measured = tuple[float, int, int, int, float]


class _Model(NamedTuple):
    """Measured runs of models of one size.

    Attributes:
        params, elements, steps: size of the model, as in `Run`.
        runs: what was measured.
    """

    params: float
    elements: float
    steps: float
    runs: tuple[_Measured, ...]


class _Blocks:
    """Measured models with the same types of layers."""

    def __init__(self, sizes: str, runs: str) -> None:
        """Take what `tabulate` wrote.

        Raises:
            ValueError, TypeError: it is damaged.
        """
        self._sizes = b64decode(sizes, validate=True)
        self._runs = b64decode(runs, validate=True)
        self._models: list[_Model] | None = None
        if len(self._sizes) % _SIZES.size or len(self._runs) % _PACKED.size:
            raise ValueError("measured runs are damaged")
        counted = sum(count for _, _, _, count in _SIZES.iter_unpack(self._sizes))
        if counted * _PACKED.size != len(self._runs) or max(self._runs[2 :: _PACKED.size], default=0) >= len(_WAYS):
            raise ValueError("measured runs are damaged")

    def models(self) -> list[_Model]:
        """Give the models; they are unpacked when they are first asked for, as most never are."""
        if self._models is None:
            runs = [
                (batch / _BATCH_UNIT, *_WAYS[way], shift / _SHIFT_UNIT)
                for batch, way, shift in _PACKED.iter_unpack(self._runs)
            ]
            made, at = [], 0
            for params, elements, steps, count in _SIZES.iter_unpack(self._sizes):
                of = tuple(runs[at : at + count])
                made.append(_Model(params / _SIZE_UNIT, elements / _SIZE_UNIT, steps / _SIZE_UNIT, of))
                at += count
            self._models = made
        return self._models


class Known:
    """Measured runs by their models' blocks."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        """Read what `tabulate` made.

        Raises:
            ValueError, TypeError, LookupError, OverflowError, AttributeError: it is damaged.
        """
        self._table: dict[str, _Blocks] = {
            str(blocks): _Blocks(sizes, runs) for blocks, (sizes, runs) in table["runs"].items()
        }
        self._resembling = Resembling(table["types"], table["sets"])
        if not self._table.keys() >= self._resembling.blocks:
            raise ValueError("types of layers are noted of models without runs")

    @property
    def blocks(self) -> Set[str]:
        """The measured models, by what stands for their types of layers."""
        return self._table.keys()

    def about(self, run: Run) -> Knowledge:
        """Say what is known of a request."""
        models = (self._table.get(run.blocks) or self._inside(run.around), self._resizing(run))
        found = _said(run, [(blocks, 1.0) for blocks in models if blocks is not None])
        if found.level != "new" or run.around is None:
            return found
        alike = self._resembling.to(run.around[0], run.around[1], run.blocks)
        if not alike:
            return found
        said = _said(run, tuple((self._table[blocks], resemblance) for blocks, resemblance in alike))
        if said.weight <= _LEAST_SIMILAR:
            return found._replace(resemblance=alike[0][1])
        return said._replace(level="similar")

    def _resizing(self, run: Run) -> _Blocks | None:
        """Find the runs of a detector whose prints show what this one's hides, or hide what it shows.

        Those that show nothing are taken to resize pictures as most do; another's pictures are of another size there.
        """
        if run.around is None or RESIZES not in run.around[1]:
            return None
        blocks = self._table.get(blocks_of(run.around[0], run.around[1] ^ _SHOWN))
        if blocks is None or all(abs(model.elements - run.log_elements) > _RESIZED for model in blocks.models()):
            return None
        return blocks

    def _inside(self, around: tuple[str, frozenset[str], str] | None) -> _Blocks | None:
        """Find the runs of the model that a class of the user's holds."""
        if around is None or not around[2]:
            return None
        format_, types, holder = around
        for rest in held(types, holder):
            models = self._table.get(blocks_of(format_, rest))
            # Networks of layers alone are alike by chance: only a block's type tells which one it is.
            if models is not None and any(kind_of(type_) is Kind.VIEW and type_ not in _VIEWS for type_ in rest):
                return models
        return None


def _said(run: Run, asked: Sequence[tuple[_Blocks, float]]) -> Knowledge:
    """Say what measured runs say of a request.

    Args:
        run: the request.
        asked: measured models, and how much the types of their layers resemble the request's; the most alike first.
    """
    _, log_params, log_elements, log_steps, log_batch, precision, training, optimizer, _ = run
    states = _STATES[optimizer]
    weight = counted = total = squares = batches = spread = product = 0.0
    nearest, unlike = _FAR, _FAR
    count = alike = 0
    repeated, repeats = -_MOST_SHIFT, 0
    for blocks, resemblance in asked:
        for model in blocks.models():
            larger_by, longer_by = abs(model.params - log_params), abs(model.steps - log_steps)
            wider_by = abs(model.elements - log_elements)
            sizes = _PARAMS * larger_by + _ELEMENTS * wider_by
            far = sizes + _STEPS * longer_by + _UNLIKE_TYPES * (1.0 - resemblance)
            if far > _FARTHEST:
                continue
            same = larger_by < _SAME and longer_by < _AS_MANY
            if same and sizes < unlike:
                unlike = sizes
            itself = same and wider_by < _AS_LARGE and resemblance >= 1.0
            for batch, p, t, o, shift in model.runs:
                larger = batch - log_batch
                apart = far + _BATCH * abs(larger) + _STATE * abs(_STATES[o] - states)
                if p != precision:
                    apart += _PRECISION
                if t != training:
                    apart += _KIND
                nearest = apart if apart < nearest else nearest
                counts = exp(-apart)
                weight += counts
                counts += _NEAR * counts * counts * counts
                counted += counts
                total += counts * shift
                squares += counts * shift * shift
                batches += counts * larger
                spread += counts * larger * larger
                product += counts * larger * shift
                if same:
                    count += 1
                    if p == precision and t == training:
                        alike += 1
                        if itself and o == optimizer and abs(larger) < _AS_LARGE:
                            repeats += 1
                            repeated = max(repeated, shift)
    if weight <= 0:
        return NOTHING
    mean, larger = total / counted, batches / counted
    # What these runs leave may change with the batch size: a line through them, at this one's.
    slope = (product - mean * batches) / (spread - larger * batches + _LEVEL)
    shift = total / (counted + _DOUBT) - slope * min(max(larger, -_REACH), _REACH)
    scatter = sqrt(max(squares / counted - mean * mean, 0.0))
    if repeats:
        return Knowledge("repeated", repeated, weight, nearest, scatter, count, alike, unlike, asked[0][1])
    # Runs that are too far away, by batch size perhaps, say nothing even where the architecture is the same.
    level: Level = "measured" if count and weight > _LEAST_MEASURED else "kin" if weight > _LEAST else "new"
    return Knowledge(level, shift, weight, nearest, scatter, count, alike, unlike, asked[0][1])


def tabulate(runs: Iterable[tuple[Run, float]]) -> dict[str, Any]:
    """Write measured runs and their shifts as `Known` reads them: plain lists. Equal runs become one, with the largest.

    The models of the same types of layers are packed into two strings, their sizes with numbers of runs, and all these
    runs: a table holds hundreds of thousands, and few are asked for.
    """
    found: dict[str, dict[tuple[int, ...], dict[tuple[int, int], float]]] = {}
    sets: dict[str, tuple[str, str, frozenset[str]]] = {}
    for run, shift in runs:
        if run.blocks:
            size = tuple(round(value * _SIZE_UNIT) for value in run[1:4])
            way = (2 * run.precision + run.training) * len(_STATES) + run.optimizer
            key = (round(run.log_batch * _BATCH_UNIT), way)
            ways = found.setdefault(run.blocks, {}).setdefault(size, {})
            ways[key] = max(shift, ways.get(key, shift))
            if run.around is not None:
                sets[run.blocks] = (run.around[0], run.blocks, run.around[1])
    tables = {blocks: _packed(models) for blocks, models in sorted(found.items())}
    return {"runs": tables, **written(sets.values())}


def _packed(models: Mapping[tuple[int, ...], Mapping[tuple[int, int], float]]) -> list[str]:
    sizes, runs = [], []
    for size, ways in sorted(models.items()):
        sizes.append(_SIZES.pack(*size, len(ways)))
        runs += [_PACKED.pack(*way, round(_SHIFT_UNIT * shift)) for way, shift in sorted(ways.items())]
    return [b64encode(b"".join(packed)).decode() for packed in (sizes, runs)]


def shifted(corrected: float, fixed: float, shift: float) -> tuple[float, float]:
    """Change a corrected account by what is known.

    Args:
        corrected: the account, in MiB.
        fixed: what of it is certain: context, weights, gradients and optimizer state, in MiB.
        shift: what is known of the rest.

    Returns:
        The account in MiB, and which share of it the shift is about.
    """
    rest = max(corrected - fixed, 0.0) + _FEW_MIB
    made = max(corrected + rest * (exp(shift) - 1.0), 1.0)
    return made, min(rest * exp(shift) / made, 1.0)


def shift_of(measured: float, corrected: float, fixed: float) -> float:
    """Tell what a measured run leaves for others; all in MiB."""
    ratio = (max(measured - fixed, 0.0) + _FEW_MIB) / (max(corrected - fixed, 0.0) + _FEW_MIB)
    return min(max(log(ratio), -_MOST_SHIFT), _MOST_SHIFT)
