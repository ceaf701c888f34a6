"""The packed data set: rows of measurements and traces of models, and how to read them. Imports no torch.

A folder holds ``meta.json``, ``rows.jsonl.xz`` and ``traces.jsonl.xz``. Rows hold the configuration and what
was measured; the model's summary is made from the trace (real models) or from the plan (synthetic ones).
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from estimator.dataset.collect import FAILURES, ROWS, TRACES, read_jsonl
from estimator.dataset.plans import plan_of, trace_of
from estimator.dataset.specs import Spec, Split, spec_from_json
from estimator.dataset.tree import Trace, from_json
from estimator.types import Workload

DEFAULT = Path(__file__).parent / "h200"
PROFILES = "profiles.jsonl"
_ROW_FILE, _TRACE_FILE, _META_FILE = "rows.jsonl.xz", "traces.jsonl.xz", "meta.json"


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

    @property
    def workload(self) -> Workload:
        """The configuration as the estimator's users state it."""
        s = self.spec
        return Workload(s.batch_size, s.seq_len, s.optimizer, s.precision, s.kind)

    @property
    def split(self) -> Split:
        """Part of the data set that the row belongs to."""
        return self.spec.split


@dataclass(frozen=True)
class Dataset:
    """A packed data set.

    Attributes:
        rows: the measured configurations, in a fixed order.
        traces: traces of the real models by ``Spec.model_id``.
        meta: GPU, versions, label constant and limits, as ``meta.json`` holds them.
    """

    rows: tuple[Row, ...]
    traces: dict[str, Trace]
    meta: dict[str, Any]

    def trace(self, spec: Spec) -> Trace:
        """Return the trace of a configuration's model.

        Raises:
            KeyError: the model is real and the data set holds no trace of it.
        """
        if spec.source == "synthetic":
            return trace_of(*plan_of(spec.family, spec.arch))
        return self.traces[spec.model_id]


def load(folder: Path = DEFAULT) -> Dataset:
    """Read a packed data set.

    Raises:
        FileNotFoundError: the folder holds none.
        ValueError: a row is no configuration.
    """
    meta = json.loads((folder / _META_FILE).read_text("utf-8"))
    rows = tuple(_row(item, meta["context_mib"]) for item in _read(folder / _ROW_FILE))
    traces = {item["model"]: from_json(item["trace"]) for item in _read(folder / _TRACE_FILE)}
    return Dataset(rows, traces, meta)


def _row(item: dict[str, Any], context_mib: float) -> Row:
    spec = spec_from_json(item["spec"])
    reserved = float(item["reserved"])
    memory = reserved + context_mib if item["status"] == "ok" else None
    counters = {name: item.get(name) for name in ("smact", "smocc", "dram", "steps_per_s")}
    return Row(spec, item["status"], memory, float(item["allocated"]), reserved, **counters)


def _read(path: Path) -> Iterator[dict[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _write(path: Path, items: Iterable[dict[str, Any]]) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 26}]
    with lzma.open(path, "wt", encoding="utf-8", filters=filters) as file:
        for item in items:
            file.write(json.dumps(item, separators=(",", ":")) + "\n")


def pack(raw: Path, folder: Path, meta: dict[str, Any]) -> dict[str, int]:
    """Pack a folder of raw results.

    Args:
        raw: what a collection wrote; ``profiles.jsonl``, rows with counters, may lie beside.
        folder: where the packed data set goes.
        meta: what is known of the machine; ``context_mib`` is the part of the label that the allocator does not see.

    Returns:
        How many rows, traces and profiles were packed.

    Raises:
        ValueError: rows were rehearsed on the CPU: they are no measurements.
    """
    rows: dict[str, dict[str, Any]] = {}
    profiles = 0
    for item in read_jsonl(raw / ROWS):
        if item["device"] != "cuda":
            raise ValueError(f"{raw / ROWS} holds a rehearsal on {item['device']}: only a GPU's rows are packed")
        spec = spec_from_json(item["spec"])
        rows[spec.id] = {
            "spec": spec.to_json(),
            "status": item["status"],
            "allocated": round(item["peak_allocated_mib"], 2),
            "reserved": round(item["peak_reserved_mib"]),
        }
    for item in read_jsonl(raw / PROFILES):
        key = spec_from_json(item["spec"]).id
        if key in rows and item.get("activity"):
            profiles += 1
            rows[key].update({k: None if v is None else round(v, 4) for k, v in item["activity"].items()})
    needed = {spec_from_json(row["spec"]).model_id for row in rows.values() if row["spec"]["source"] != "synthetic"}
    traces = {item["model"]: item for item in read_jsonl(raw / TRACES) if item["model"] in needed}
    folder.mkdir(parents=True, exist_ok=True)
    order = ("source", "family", "name", "kind", "precision", "batch_size")
    _write(folder / _ROW_FILE, sorted(rows.values(), key=lambda r: ([str(r["spec"][k]) for k in order], str(r))))
    _write(folder / _TRACE_FILE, [traces[key] for key in sorted(traces)])
    text = json.dumps(meta, indent=2, sort_keys=True) + "\n"
    (folder / _META_FILE).write_text(text, "utf-8")
    failures = sum(1 for _ in read_jsonl(raw / FAILURES))
    return {"rows": len(rows), "traces": len(traces), "profiles": profiles, "failures": failures}
