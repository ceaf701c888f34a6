"""The packed data set: rows of measurements and traces of models, and how to read them; `packing` writes it. No torch.

A folder holds ``meta.json``, ``rows.jsonl.xz``, ``traces.jsonl.xz`` and what was measured in processes of their own
(``isolated.jsonl.xz``). Rows hold the configuration and what was measured; the model's summary is made from the trace
(real models) or from the plan (synthetic ones). Ours also holds what autograd keeps inside of models
(``saved.jsonl.xz``) and what their rehearsals say (``rehearsed.jsonl.xz``).
"""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO, TextIOWrapper
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from estimator import files
from estimator.dataset.plans import plan_of, trace_of
from estimator.dataset.specs import Spec, Split, spec_from_json
from estimator.dataset.tree import Trace, from_json
from estimator.types import (
    Family,
    Kind,
    Libraries,
    Optimizer,
    Point,
    Precision,
    Rehearsal,
    Workload,
    libraries,
)

DEFAULT = Path(__file__).parent / "h200"
ROW_FILE, TRACE_FILE, META_FILE = "rows.jsonl.xz", "traces.jsonl.xz", "meta.json"
CHECK_FILE = "isolated.jsonl.xz"
SAVED_FILE = "saved.jsonl.xz"
REHEARSED_FILE = "rehearsed.jsonl.xz"
_TRACE = re.compile(r'\{"model":"([^"]+)","trace":(.*)\}')

# Types of layers, or parts of their names, that load one of them; a LinearBottleneck is made of convolutions.
_RECURRENT: Final = ("LSTM", "GRU", "RNN")
_CUBLAS: Final = ('Linear"', "Conv1D", "MultiheadAttention", *_RECURRENT)
_CUDNN: Final = ("Conv1d", "Conv2d", "Conv3d", "ConvTranspose", *_RECURRENT)
_OF_PLANS: Final[Mapping[Family, Libraries]] = {"mlp": "cublas", "cnn": "both", "transformer": "cublas"}


@dataclass(frozen=True)
class Row:
    """One measured configuration.

    Attributes:
        spec: the configuration.
        status: ``ok``, or ``oom`` where the process needed more than the data set's limit.
        memory_mib: the label: peak of NVML's used memory of the process, CUDA context included; None for ``oom``.
        peak_allocated_mib: peak of the caching allocator's allocated bytes (tensors and workspaces).
        peak_reserved_mib: peak of what the allocator took from the GPU.
        smact, smocc, dram: activity between 0 and 1 while alone on the GPU; None where not measured.
        steps_per_s: steps a second while alone on the GPU; None where not measured.
        held_mib: what tensors took between the forward and the backward pass; None where not measured.
        apart: the split that this row alone belongs to: ``kin``, another model of a measured family, or ``known``,
            a measured model in another configuration; None where its family's split holds.
        drawn: it was ``known`` when it was measured: a configuration drawn at random, as users might ask, for a model
            that was measured already. Stays true when the row is fitted to; what only fills gaps is not drawn so.
        libraries: which of CUDA's libraries the model loads.
    """

    spec: Spec
    status: str
    memory_mib: float | None
    peak_allocated_mib: float
    peak_reserved_mib: float
    smact: float | None = None
    smocc: float | None = None
    dram: float | None = None
    steps_per_s: float | None = None
    held_mib: float | None = None
    apart: Split | None = None
    drawn: bool = False
    libraries: Libraries = "both"

    @property
    def workload(self) -> Workload:
        """The configuration as the estimator's users state it."""
        s = self.spec
        return Workload(s.batch_size, s.seq_len, s.optimizer, s.precision, s.kind)

    @property
    def split(self) -> Split:
        """Part of the data set that the row belongs to."""
        return self.apart or self.spec.split


@dataclass(frozen=True)
class Check:
    """One configuration measured twice: by a long-lived process, and by a process of its own.

    Attributes:
        spec: the configuration.
        long_lived_mib: label of the long-lived process.
        own_mib: NVML's used memory of the process of its own, at its peak.
        own_context_mib: the part of it that the allocator did not reserve.
        libraries: which of CUDA's libraries the model loads.
    """

    spec: Spec
    long_lived_mib: float
    own_mib: float
    own_context_mib: float
    libraries: Libraries


@dataclass(frozen=True)
class Dataset:
    """A packed data set.

    Attributes:
        rows: the measured configurations, in a fixed order.
        traces: traces of the real models by ``Spec.model_id``: JSON of what ``tree.to_json`` makes. Reading all of
            them takes ten seconds, so each is read when it is asked for.
        meta: GPU, versions, label constant and limits, as ``meta.json`` holds them.
        checks: configurations that a process of their own measured again.
        saved: by ``Spec.model_id`` and precision, the bytes that autograd keeps for each sample in each call of the
            trace while no other call runs inside of it.
        rehearsed: by ``Spec.model_id``, what steps of the model's own code take on tensors without data.
    """

    rows: tuple[Row, ...]
    traces: Mapping[str, str]
    meta: dict[str, Any]
    checks: tuple[Check, ...] = ()
    saved: Mapping[tuple[str, Precision], Sequence[int]] = field(default_factory=dict)
    rehearsed: Mapping[str, tuple[Rehearsal, ...]] = field(default_factory=dict)

    def trace(self, spec: Spec) -> Trace:
        """Return the trace of a configuration's model.

        Raises:
            KeyError: the model is real and the data set holds no trace of it.
        """
        if spec.source == "synthetic":
            return trace_of(*plan_of(spec.family, spec.arch))
        return from_json(json.loads(self.traces[spec.model_id]))

    def of(self, rows: Sequence[Row]) -> Dataset:
        """Return what some of the rows need to be accounted for: them and their traces."""
        models = {row.spec.model_id for row in rows}
        traces = {model: text for model, text in self.traces.items() if model in models}
        return Dataset(tuple(rows), traces, self.meta)


class DataError(ValueError):
    """A packed data set that is damaged; the message names the folder and the cure."""


def load(folder: Path = DEFAULT) -> Dataset:
    """Read a packed data set.

    Raises:
        FileNotFoundError: the folder holds none.
        DataError: a file of it is damaged.
    """
    try:
        return _load(folder)
    except (LookupError, TypeError, ValueError, EOFError, RecursionError, lzma.LZMAError) as error:
        why = f"{type(error).__name__}: {error}"
        raise DataError(f"{folder} is no whole data set ({why}): pack it anew with `radctl dataset pack`") from None


def _load(folder: Path) -> Dataset:
    meta = json.loads(files.read(folder / META_FILE, files.MIB))
    traces = dict(_trace(line) for line in _lines(folder / TRACE_FILE))
    loaded = {model: libraries_of(trace) for model, trace in traces.items()}
    rows = tuple(_row(item, meta["context_mib"], loaded) for item in items_of(folder / ROW_FILE))
    by_id = {row.spec.id: row for row in rows}
    checks = tuple(_check(item, by_id) for item in items_of(folder / CHECK_FILE) if item["id"] in by_id)
    saved = {(item["model"], item["precision"]): item["saved"] for item in items_of(folder / SAVED_FILE)}
    rehearsed = {item["model"]: _rehearsals(item["runs"]) for item in items_of(folder / REHEARSED_FILE)}
    return Dataset(rows, traces, meta, checks, saved, rehearsed)


def _rehearsals(runs: Iterable[Sequence[Any]]) -> tuple[Rehearsal, ...]:
    points: dict[tuple[Kind, Precision, Optimizer | None], list[Point]] = {}
    for optimizer, precision, batch, *mib in runs:
        used, held, most = accumulate([*mib, 0][:3])
        point = Point(batch, used, held, most)
        points.setdefault(("train" if optimizer else "infer", precision, optimizer or None), []).append(point)
    return tuple(Rehearsal(*of, tuple(sorted(found))) for of, found in points.items())


def libraries_of(trace: str) -> Libraries:
    """Tell which of CUDA's libraries a model loads, by the JSON of its trace."""
    return libraries(*(any(mark in trace for mark in marks) for marks in (_CUBLAS, _CUDNN)))


def libraries_of_spec(spec: Spec, loaded: Mapping[str, Libraries]) -> Libraries:
    """Tell which of CUDA's libraries a configuration's model loads, by what the traces of real ones (`loaded`) say."""
    return _OF_PLANS[spec.family] if spec.source == "synthetic" else loaded.get(spec.model_id, "both")


@lru_cache(maxsize=1)
def committed() -> Dataset:
    """Read the data set that comes with RAD, once; it is not to be changed."""
    return load(DEFAULT)


def _check(item: dict[str, Any], rows: dict[str, Row]) -> Check:
    row = rows[item["id"]]
    peak = float(item["nvml"]) + float(item["reserved"]) - float(item["reserved_now"])
    return Check(row.spec, row.memory_mib or 0.0, peak, peak - float(item["reserved"]), row.libraries)


def _row(item: dict[str, Any], contexts: dict[str, dict[str, float]], loaded: Mapping[str, Libraries]) -> Row:
    spec = spec_from_json(item["spec"])
    reserved = float(item["reserved"])
    own = libraries_of_spec(spec, loaded)
    memory = reserved + contexts[spec.kind][own] if item["status"] == "ok" else None
    counters = {name: item.get(name) for name in ("smact", "smocc", "dram", "steps_per_s")}
    held, apart, drawn = item.get("held"), item.get("split"), item.get("drawn", False)
    return Row(
        spec,
        item["status"],
        memory,
        float(item["allocated"]),
        reserved,
        **counters,
        held_mib=held,
        apart=apart,
        drawn=drawn,
        libraries=own,
    )


def _trace(line: str) -> tuple[str, str]:
    """Divide a line of the traces' file, as `packing` writes it, into the model's id and the JSON of its trace."""
    found = _TRACE.fullmatch(line.rstrip("\n"))
    if found is None:
        raise ValueError(f"{line[:60]!r} is no trace")
    return found[1], found[2]


def items_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a packed file; none where it is one of those that only our data set has.

    Raises:
        FileNotFoundError: it is another file, and missing.
        FileRefusedError: it is no regular file, or longer unpacked than any of ours.
    """
    if path.exists() or path.name not in (SAVED_FILE, REHEARSED_FILE):
        yield from map(json.loads, _lines(path))


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a packed file; somebody else's may be a few bytes that stand for all of this machine's memory.

    Raises:
        FileRefusedError: it is no regular file, or longer unpacked than any of ours.
    """
    left = files.MAX_DATA_BYTES
    with TextIOWrapper(lzma.LZMAFile(BytesIO(files.read(path, left))), "utf-8") as file:
        while line := file.readline(left + 1):
            left -= len(line)
            if left < 0:
                raise files.FileRefusedError(f"{path}: longer than {files.MAX_DATA_BYTES // files.MIB} MiB unpacked")
            yield line
