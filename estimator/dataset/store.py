"""The packed data set: rows of measurements and traces of models, and how to read them. Imports no torch.

A folder holds ``meta.json``, ``rows.jsonl.xz`` and ``traces.jsonl.xz``. Rows hold the configuration and what
was measured; the model's summary is made from the trace (real models) or from the plan (synthetic ones). Ours also
holds what was measured in processes of their own (``isolated.jsonl.xz``), what autograd keeps inside of models
(``saved.jsonl.xz``) and what their rehearsals say (``rehearsed.jsonl.xz``).
"""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO, TextIOWrapper
from itertools import accumulate
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from estimator import files
from estimator.dataset.collect import FAILURES, ROWS, TRACES, read_each, read_jsonl
from estimator.dataset.plans import plan_of, trace_of
from estimator.dataset.specs import Spec, Split, spec_from_json
from estimator.dataset.tree import Trace, from_json
from estimator.rehearsal import like
from estimator.types import (
    KINDS,
    LIBRARIES,
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
PROFILES, ISOLATED = "profiles.jsonl", "isolated.jsonl"
_ROW_FILE, _TRACE_FILE, _META_FILE = "rows.jsonl.xz", "traces.jsonl.xz", "meta.json"
_CHECK_FILE = "isolated.jsonl.xz"
_SAVED_FILE = "saved.jsonl.xz"
_REHEARSED_FILE = "rehearsed.jsonl.xz"
_TRACE = re.compile(r'\{"model":"([^"]+)","trace":(.*)\}')

_ALIKE = 4000
"""So many letters tell which traces are alike."""

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
    meta = json.loads(files.read(folder / _META_FILE, files.MIB))
    traces = dict(_trace(line) for line in _lines(folder / _TRACE_FILE))
    loaded = {model: libraries_of(trace) for model, trace in traces.items()}
    rows = tuple(_row(item, meta["context_mib"], loaded) for item in _read(folder / _ROW_FILE))
    by_id = {row.spec.id: row for row in rows}
    checks = tuple(_check(item, by_id) for item in _read(folder / _CHECK_FILE) if item["id"] in by_id)
    saved = {(item["model"], item["precision"]): item["saved"] for item in _read(folder / _SAVED_FILE)}
    rehearsed = {item["model"]: _rehearsals(item["runs"]) for item in _read(folder / _REHEARSED_FILE)}
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


def _libraries(spec: Spec, loaded: Mapping[str, Libraries]) -> Libraries:
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
    own = _libraries(spec, loaded)
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
    """Divide a line of the traces' file, as `_write` writes it, into the model's id and the JSON of its trace."""
    found = _TRACE.fullmatch(line.rstrip("\n"))
    if found is None:
        raise ValueError(f"{line[:60]!r} is no trace")
    return found[1], found[2]


def _read(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists() or path.name not in (_SAVED_FILE, _REHEARSED_FILE):
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


def _write(path: Path, items: Iterable[dict[str, Any]]) -> None:
    text = {"lc": 4, "lp": 0, "pb": 0}  # letters follow letters, at any place
    most = {"preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 27, "nice_len": 273}
    filters = [{"id": lzma.FILTER_LZMA2, **most, **text}]
    with lzma.open(path, "wt", encoding="utf-8", filters=filters) as file:
        for item in items:
            file.write(json.dumps(item, separators=(",", ":")) + "\n")


def _write_meta(folder: Path, meta: Mapping[str, Any]) -> None:
    (folder / _META_FILE).write_text(json.dumps(meta, indent=2, sort_keys=True) + "\n", "utf-8")


def pack(raw: Path, folder: Path, meta: dict[str, Any]) -> dict[str, int]:
    """Pack a folder of raw results.

    Args:
        raw: what a collection wrote; ``profiles.jsonl``, rows with counters, and ``isolated.jsonl``, rows of
            processes of their own, may lie beside.
        folder: where the packed data set goes.
        meta: what is known of the machine. ``context_mib``, the part of the label that the allocator does not
            see, is added: the median over the checks, by kind and by the libraries that a model loads.

    Returns:
        How many rows, traces, profiles and checks were packed, and how many configurations failed.

    Raises:
        ValueError: rows were rehearsed on the CPU: they are no measurements; or no check says how large the
            CUDA context is.
    """
    rows = _rows(raw)
    profiles = 0
    for key, activity in read_each(raw / PROFILES, _activity):
        if key in rows and activity:
            profiles += 1
            rows[key].update(activity)
    checks = _own_rows(raw)
    if not checks:
        raise ValueError(f"{raw / ISOLATED} has no row: measure some configurations with --isolated first")
    known = dict(read_each(raw / TRACES, _known))
    contexts = _contexts(raw, known)
    with _put_together(folder) as new:
        traces = _write_all(new, rows, known, checks)
        _write_meta(new, {**meta, "context_mib": contexts})
    failures = sum(1 for _ in read_jsonl(raw / FAILURES))
    counts = {"rows": len(rows), "traces": traces, "profiles": profiles}
    return {**counts, "checks": len(checks), "failures": failures}


def add(raw: Path, folder: Path, apart: Mapping[str, Split], drawn: Set[str] = frozenset()) -> dict[str, int]:
    """Add a folder of raw results to a packed data set, whose meta data stay as they are.

    Args:
        raw: what a collection wrote.
        folder: the packed data set; rows that it has stay as they are.
        apart: the split of new rows, by id, that do not belong to their family's.
        drawn: ids of new rows that are draws for measured models, see ``Row``.

    Returns:
        How many rows and checks were added, and how many rows and traces there are now.

    Raises:
        ValueError: rows were rehearsed on the CPU: they are no measurements.
    """
    rows = {spec_from_json(item["spec"]).id: item for item in _read(folder / _ROW_FILE)}
    new = {key: item for key, item in _rows(raw).items() if key not in rows}
    for key, item in new.items():
        marks = {**({"split": apart[key]} if key in apart else {}), **({"drawn": True} if key in drawn else {})}
        rows[key] = {**item, **marks}
    traces = dict(read_each(raw / TRACES, _known)) | {item["model"]: item for item in _read(folder / _TRACE_FILE)}
    before = list(_read(folder / _CHECK_FILE))
    checked = {item["id"] for item in before}
    checks = [item for item in _own_rows(raw) if item["id"] in rows and item["id"] not in checked]
    kept = _write_all(folder, rows, traces, [*before, *checks])
    return {"added": len(new), "checks": len(checks), "rows": len(rows), "traces": kept}


def add_saved(results: Path, folder: Path) -> dict[str, int]:
    """Add what autograd keeps inside of models to a packed data set.

    Args:
        results: compressed rows of a collection of it.
        folder: the packed data set. Models whose calls are not those of their trace are left out.

    Returns:
        How many there were, were left out, and are there now.
    """
    traces = {item["model"]: item["trace"] for item in _read(folder / _TRACE_FILE)}
    found = {(item["model"], item["precision"]): item for item in _read(folder / _SAVED_FILE)}
    new = others = 0
    for row in _read(results):
        spec, new = spec_from_json(row["spec"]), new + 1
        trace = traces.get(spec.model_id)
        if trace is None or [call[:2] for call in trace["calls"]] != row["calls"]:
            others += 1
            continue
        item = {"model": spec.model_id, "precision": spec.precision, "saved": row["saved"]}
        found[spec.model_id, spec.precision] = item
    _write(folder / _SAVED_FILE, [found[key] for key in sorted(found)])
    return {"new": new, "other calls": others, "all": len(found)}


def add_rehearsed(results: Path, folder: Path) -> dict[str, int]:
    """Add what runs take on tensors without data to a packed data set.

    Args:
        results: compressed rows of a collection of it.
        folder: the packed data set.

    Returns:
        How many there were, and are there now.
    """
    found = {(item["model"], *run[:3]): run[3:] for item in _read(folder / _REHEARSED_FILE) for run in item["runs"]}
    new = list(_read(results))
    for row in new:
        spec = spec_from_json(row["spec"])
        optimizer = like(spec.optimizer) if spec.kind == "train" else None
        used, held, most = map(round, row["rehearsed"])
        key = spec.model_id, optimizer or "", spec.precision, spec.batch_size
        found[key] = [used, held - used] if most == held else [used, held - used, most - held]
    models: dict[str, list[Any]] = {}
    for (model, *run), sizes in sorted(found.items()):
        models.setdefault(model, []).append([*run, *sizes])
    _write(folder / _REHEARSED_FILE, [{"model": model, "runs": runs} for model, runs in models.items()])
    return {"new": len(new), "all": len(found)}


def add_checks(results: Path, folder: Path) -> dict[str, int]:
    """Add runs of processes of their own to a packed data set, and take the CUDA contexts in its labels from all.

    Args:
        results: compressed rows of a collection with a process for each configuration.
        folder: the packed data set, which holds the same configurations.

    Returns:
        How many there were and are now.
    """
    checks = {item["id"]: item for item in _read(folder / _CHECK_FILE)}
    new = [_own(item) for item in _read(results) if item["status"] == "ok" and item["device"] == "cuda"]
    checks |= {item["id"]: item for item in new}
    _write(folder / _CHECK_FILE, checks.values())
    dataset = load(folder)
    contexts = contexts_of((check.spec.kind, check.libraries, check.own_context_mib) for check in dataset.checks)
    _write_meta(folder, {**dataset.meta, "context_mib": contexts})
    return {"new": len(new), "checks": len(checks)}


@contextmanager
def _put_together(folder: Path) -> Iterator[Path]:
    """Yield a folder for files that take their places in another one when all are there, or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix=".new-") as name:
        yield Path(name)
        for path in Path(name).iterdir():
            path.replace(folder / path.name)


def _activity(item: dict[str, Any]) -> tuple[str, dict[str, float | None]]:
    """Return the id of a row with counters, and these."""
    activity = item.get("activity") or {}
    return spec_from_json(item["spec"]).id, {k: None if v is None else round(v, 4) for k, v in activity.items()}


def _known(item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a model's id, and the row with its trace."""
    from_json(item["trace"])
    return item["model"], item


def _rows(raw: Path) -> dict[str, dict[str, Any]]:
    """Return the packed form of a folder's rows, by id."""
    return dict(read_each(raw / ROWS, _packed))


def _packed(item: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if item["device"] != "cuda":
        raise ValueError(f"a rehearsal on {item['device']}: only a GPU's rows are packed")
    spec = spec_from_json(item["spec"])
    return spec.id, {
        "spec": spec.to_json(),
        "status": item["status"],
        "allocated": round(item["peak_allocated_mib"], 2),
        "reserved": round(item["peak_reserved_mib"]),
        **({"held": round(item["held_mib"], 2)} if item.get("held_mib") else {}),
    }


def _own_rows(raw: Path) -> list[dict[str, Any]]:
    found = read_each(raw / ISOLATED, lambda item: _own(item) if item["status"] == "ok" else None)
    return [item for item in found if item is not None]


def _write_all(
    folder: Path, rows: dict[str, dict[str, Any]], traces: dict[str, dict[str, Any]], checks: list[dict[str, Any]]
) -> int:
    """Write a data set's files, with the traces that its rows need; returns how many those are."""
    needed = {spec_from_json(row["spec"]).model_id for row in rows.values() if row["spec"]["source"] != "synthetic"}
    # Models that begin with the same layers stand together: a fifth less.
    kept = sorted(needed & set(traces), key=lambda key: (json.dumps(traces[key]["trace"]["root"])[:_ALIKE], key))
    order = ("source", "family", "name", "kind", "precision", "batch_size")
    _write(folder / _ROW_FILE, sorted(rows.values(), key=lambda r: ([str(r["spec"][k]) for k in order], str(r))))
    _write(folder / _TRACE_FILE, [traces[key] for key in kept])
    _write(folder / _CHECK_FILE, checks)
    return len(kept)


def _contexts(raw: Path, traces: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the CUDA contexts that runs in processes of their own had, of a folder of raw results."""
    loaded = {model: libraries_of(json.dumps(item["trace"])) for model, item in traces.items()}
    found: list[tuple[Kind, Libraries, float]] = []
    for item in read_jsonl(raw / ISOLATED):
        if item["status"] == "ok":
            spec = spec_from_json(item["spec"])
            found.append((spec.kind, _libraries(spec, loaded), item["nvml_mib"] - item["reserved_mib"]))
    return contexts_of(found)


def contexts_of(measured: Iterable[tuple[Kind, Libraries, float]]) -> dict[str, dict[str, float]]:
    """Return medians of CUDA contexts in MiB, by kind and libraries; of the kind, or of all, where one is missing."""
    found: dict[tuple[str, str], list[float]] = {}
    for kind, loaded, context in measured:
        for key in ((kind, loaded), (kind, ""), ("", "")):
            found.setdefault(key, []).append(context)
    return {
        kind: {
            loaded: median(found.get((kind, loaded)) or found.get((kind, "")) or found["", ""]) for loaded in LIBRARIES
        }
        for kind in KINDS
    }


def _own(item: dict[str, Any]) -> dict[str, Any]:
    identity = spec_from_json(item["spec"]).id
    reserved, now = round(item["peak_reserved_mib"]), round(item["reserved_mib"])
    return {"id": identity, "nvml": item["nvml_mib"], "reserved": reserved, "reserved_now": now}
