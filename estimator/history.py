"""What was measured of a model run before wins over every model. Pure.

radd fills a mapping from the jobs' records; this module only decides what follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from estimator.types import Estimate

# A run's peak hardly varies: cuDNN may choose another algorithm, an allocator may fragment otherwise.
_MARGIN_ONE = 0.06
_MARGIN_MANY = 0.03
_MANY = 3
_LEAST_MIB = 128


def from_history(estimate: Estimate, history: Mapping[str, Sequence[float]]) -> Estimate:
    """Replace an estimate by what its fingerprint's earlier runs needed.

    Args:
        estimate: what the method says.
        history: peaks in MiB by fingerprint, oldest first; peaks of runs that ended well or at the cap.

    Returns:
        The estimate from the largest peak measured, or the method's where nothing was measured.
    """
    peaks = [float(peak) for peak in history.get(estimate.fingerprint, ()) if 0 < peak < 1e9]
    if not peaks:
        return estimate
    top = max(peaks)
    margin = _MARGIN_MANY if len(peaks) >= _MANY else _MARGIN_ONE
    upper = max(round(top * (1 + margin)), round(top) + _LEAST_MIB)
    runs = "1 earlier run" if len(peaks) == 1 else f"{len(peaks)} earlier runs"
    return replace(
        estimate,
        expected_mib=round(top),
        upper_mib=upper,
        method="history",
        reasons=(
            f"measured: {runs} of this model needed up to {top:.0f} MiB",
            f"{estimate.method} would have said {estimate.expected_mib} MiB, {estimate.upper_mib} MiB reserved",
        ),
        note="",
    )
