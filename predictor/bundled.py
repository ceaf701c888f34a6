"""Fits what ships with the project to our measurements: predictors' weights and the correction of estimates."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from predictor import weights
from predictor.collection.specs import SPECS
from predictor.measurements import family, load_profiles, load_runs, shared
from predictor.profiles import CORRECTED, raw_profile
from predictor.training import TRAINERS, families_left_out, fit_correction, load_groups, load_measured, weights_text
from predictor.types import Profile

KERNEL_METRICS = ("threads", "turn_us", "mean_us", "blocking_us")


def fit_bundled(data: Path) -> list[str]:
    """Fit the weights that ship with the project to our measurements; says what was written."""
    colocations = load_measured(data)
    lines = []
    for name, trainer in TRAINERS.items():
        total, _ = families_left_out(shared(load_runs(data), 2), trainer)
        note = f"one H200, {len(colocations)} colocations; pairs with families left out: MAE {total.mean_abs:.4f}"
        path = weights.BUNDLED / f"{name}.json"
        path.write_text(weights_text(name, colocations, note, load_groups(data)), encoding="utf-8")
        lines.append(f"{path.name}: {note}")
    return lines


def fit_estimates(data: Path) -> str:
    """Fit the correction of estimated profiles to the measured workloads whose summaries can be taken here."""
    real = {name: _metrics(profile) for name, profile in load_profiles(data).items()}
    raws = _estimates(real)
    names = sorted(raws)
    content = {
        "note": "slope and offset on logarithms, from the chip's rates to one H200's measurements",
        "workloads": len(names),
        "correction": fit_correction([raws[name] for name in names], [real[name] for name in names]),
        "factors": _factors(raws, real),
    }
    path = weights.BUNDLED / "estimate.json"
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return f"{path.name}: {len(names)} workloads"


def _metrics(profile: Profile) -> dict[str, float]:
    """What was measured of what is corrected."""
    found = {"busy": profile.busy, "smact": profile.smact, "dram": profile.dram, "seconds": 1.0 / profile.throughput}
    return found | {key: getattr(profile.kernel, key) for key in KERNEL_METRICS}


def _estimates(measured: Mapping[str, object]) -> dict[str, dict[str, float]]:
    """What is estimated of the measured workloads that have a summary, before any correction."""
    from predictor.collection.summaries import summary_of, workload_of  # noqa: PLC0415 - needs PyTorch

    found = {}
    for spec in (spec for spec in SPECS if spec.name in measured):
        summary = summary_of(spec)
        if summary is not None:
            raw = raw_profile(summary, workload_of(spec), "h200")
            found[spec.name] = {key: float(getattr(raw, key)) for key in CORRECTED}
    return found


def _factors(
    raws: Mapping[str, Mapping[str, float]], real: Mapping[str, Mapping[str, float]]
) -> dict[str, Sequence[float]]:
    """Geometric mean factors between estimated and measured, by the chip's rates alone and corrected.

    The correction of a workload is fitted without its family.
    """
    names = sorted(raws)
    alone: dict[str, list[float]] = {key: [] for key in CORRECTED}
    fixed: dict[str, list[float]] = {key: [] for key in CORRECTED}
    for left_out in sorted({family(name) for name in names}):
        kept = [name for name in names if family(name) != left_out]
        correction = fit_correction([raws[name] for name in kept], [real[name] for name in kept])
        for name in (name for name in names if family(name) == left_out):
            for key in (key for key in CORRECTED if math.isfinite(real[name][key])):
                slope, offset = correction[key]
                log_raw, log_real = math.log(max(raws[name][key], 1e-9)), math.log(real[name][key])
                alone[key].append(abs(log_raw - log_real))
                fixed[key].append(abs(slope * log_raw + offset - log_real))
    return {key: [math.exp(float(np.mean(each[key]))) for each in (alone, fixed)] for key in CORRECTED}
