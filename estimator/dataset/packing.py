"""Packs what collections measured, and adds to what is packed. Writes only the folder that it is given. No torch.

`estimator.dataset.store` says what a packed folder holds, `estimator.dataset.raw` what a collection wrote.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from estimator.dataset.raw import FAILURES, ISOLATED, PROFILES, ROWS, TRACES, read_each, read_jsonl
from estimator.dataset.specs import Split, spec_from_json
from estimator.dataset.store import (
    CHECK_FILE,
    META_FILE,
    REHEARSED_FILE,
    ROW_FILE,
    SAVED_FILE,
    TRACE_FILE,
    items_of,
    libraries_of,
    libraries_of_spec,
    load,
)
from estimator.dataset.tree import from_json
from estimator.rehearsals.lines import like
from estimator.types import KINDS, LIBRARIES, Kind, Libraries

_ALIKE = 4000
"""So many letters tell which traces are alike."""


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
    rows = {spec_from_json(item["spec"]).id: item for item in items_of(folder / ROW_FILE)}
    new = {key: item for key, item in _rows(raw).items() if key not in rows}
    for key, item in new.items():
        marks = {**({"split": apart[key]} if key in apart else {}), **({"drawn": True} if key in drawn else {})}
        rows[key] = {**item, **marks}
    traces = dict(read_each(raw / TRACES, _known)) | {item["model"]: item for item in items_of(folder / TRACE_FILE)}
    before = list(items_of(folder / CHECK_FILE))
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
    traces = {item["model"]: item["trace"] for item in items_of(folder / TRACE_FILE)}
    found = {(item["model"], item["precision"]): item for item in items_of(folder / SAVED_FILE)}
    new = others = 0
    for row in items_of(results):
        spec, new = spec_from_json(row["spec"]), new + 1
        trace = traces.get(spec.model_id)
        if trace is None or [call[:2] for call in trace["calls"]] != row["calls"]:
            others += 1
            continue
        item = {"model": spec.model_id, "precision": spec.precision, "saved": row["saved"]}
        found[spec.model_id, spec.precision] = item
    _write(folder / SAVED_FILE, [found[key] for key in sorted(found)])
    return {"new": new, "other calls": others, "all": len(found)}


def add_rehearsed(results: Path, folder: Path) -> dict[str, int]:
    """Add what runs take on tensors without data to a packed data set.

    Args:
        results: compressed rows of a collection of it.
        folder: the packed data set.

    Returns:
        How many there were, and are there now.
    """
    found = {(item["model"], *run[:3]): run[3:] for item in items_of(folder / REHEARSED_FILE) for run in item["runs"]}
    new = list(items_of(results))
    for row in new:
        spec = spec_from_json(row["spec"])
        optimizer = like(spec.optimizer) if spec.kind == "train" else None
        used, held, most = map(round, row["rehearsed"])
        key = spec.model_id, optimizer or "", spec.precision, spec.batch_size
        found[key] = [used, held - used] if most == held else [used, held - used, most - held]
    models: dict[str, list[Any]] = {}
    for (model, *run), sizes in sorted(found.items()):
        models.setdefault(model, []).append([*run, *sizes])
    _write(folder / REHEARSED_FILE, [{"model": model, "runs": runs} for model, runs in models.items()])
    return {"new": len(new), "all": len(found)}


def add_checks(results: Path, folder: Path) -> dict[str, int]:
    """Add runs of processes of their own to a packed data set, and take the CUDA contexts in its labels from all.

    Args:
        results: compressed rows of a collection with a process for each configuration.
        folder: the packed data set, which holds the same configurations.

    Returns:
        How many there were and are now.
    """
    checks = {item["id"]: item for item in items_of(folder / CHECK_FILE)}
    new = [_own(item) for item in items_of(results) if item["status"] == "ok" and item["device"] == "cuda"]
    checks |= {item["id"]: item for item in new}
    _write(folder / CHECK_FILE, checks.values())
    dataset = load(folder)
    contexts = contexts_of((check.spec.kind, check.libraries, check.own_context_mib) for check in dataset.checks)
    _write_meta(folder, {**dataset.meta, "context_mib": contexts})
    return {"new": len(new), "checks": len(checks)}


def _write(path: Path, items: Iterable[dict[str, Any]]) -> None:
    text = {"lc": 4, "lp": 0, "pb": 0}  # letters follow letters, at any place
    most = {"preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 27, "nice_len": 273}
    filters = [{"id": lzma.FILTER_LZMA2, **most, **text}]
    with lzma.open(path, "wt", encoding="utf-8", filters=filters) as file:
        for item in items:
            file.write(json.dumps(item, separators=(",", ":")) + "\n")


def _write_meta(folder: Path, meta: Mapping[str, Any]) -> None:
    (folder / META_FILE).write_text(json.dumps(meta, indent=2, sort_keys=True) + "\n", "utf-8")


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
    _write(folder / ROW_FILE, sorted(rows.values(), key=lambda r: ([str(r["spec"][k]) for k in order], str(r))))
    _write(folder / TRACE_FILE, [traces[key] for key in kept])
    _write(folder / CHECK_FILE, checks)
    return len(kept)


def _contexts(raw: Path, traces: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the CUDA contexts that runs in processes of their own had, of a folder of raw results."""
    loaded = {model: libraries_of(json.dumps(item["trace"])) for model, item in traces.items()}
    found: list[tuple[Kind, Libraries, float]] = []
    for item in read_jsonl(raw / ISOLATED):
        if item["status"] == "ok":
            spec = spec_from_json(item["spec"])
            found.append((spec.kind, libraries_of_spec(spec, loaded), item["nvml_mib"] - item["reserved_mib"]))
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
