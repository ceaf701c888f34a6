"""What measured workloads are beyond their profiles, found again by profile. Pure: arrays in, arrays out.

A workload that was measured beside others showed how it presses on them and how it suffers, and that differs from
what its profile suggests. A job with the profile of such a workload gets what the workload showed; the farther its
profile, the less of it.

The pressure stays monotone. Each measured workload bounds it: whoever is at least as busy in everything presses at
least as much, and where something is less, the bound falls steeply with it (McShane's extension of a function, kept
monotone). Between the bounds the fitted law holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from predictor.types import Floats

STEEP = 2.0
"""By how much more than the law itself a bound falls with the logarithm of a metric."""
REACH = 0.2
"""Sum of differences in the logarithms of metrics beyond which a profile is a stranger's."""

BLOCK = 256


@dataclass(frozen=True)
class Known:
    """Measured workloads.

    Attributes:
        places: shape (workloads, features), their encoded profiles.
        suffer: shape (workloads,), added to the logarithm of the contention that they feel.
        press: shape (workloads,), added to the logarithm of the pressure that they exert.
        alone: shape (workloads,), logarithm of what their progress is to be multiplied by: an exclusive throughput that
            all colocations contradict was measured in a lucky or an unlucky moment.
        variance: shape (workloads,), posterior variance of either of the first two.
    """

    places: Floats
    suffer: Floats
    press: Floats
    alone: Floats
    variance: Floats

    def alike(self, values: Floats, stranger: float) -> tuple[Floats, Floats, Floats]:
        """What profiles have of the measured workloads' ``suffer`` and ``alone``, and the variance of what they have.

        Args:
            values: shape (profiles, features), encoded.
            stranger: variance of what nobody measured.
        """
        suffer, alone, variance = np.zeros(len(values)), np.zeros(len(values)), np.full(len(values), stranger)
        for part in _blocks(values):
            near = self._nearness(values[part])
            total = np.maximum(near.sum(axis=0), 1.0)
            suffer[part] = (self.suffer @ near) / total
            alone[part] = (self.alone @ near) / total
            variance[part] += ((self.variance - stranger)[:, None] * near).min(axis=0, initial=0.0)
        return suffer, alone, variance

    def _nearness(self, values: Floats) -> Floats:
        """1 where a profile is a workload's, 0 from REACH on; shape (workloads, profiles)."""
        near = np.ones((len(self.places), len(values)))
        for feature in range(self.places.shape[1]):
            near -= np.abs(values[:, feature] / REACH - self.places[:, feature, None] / REACH)
        return np.maximum(near, 0.0, out=near)

    def pressure(self, values: Floats, weights: Floats) -> Floats:
        """Logarithm of the pressure of profiles, shape (profiles,): never less for more of any feature that counts.

        Args:
            values: shape (profiles, features), encoded.
            weights: shape (features,), of the fitted law, never negative; 0 for features that do not press.
        """
        law: Floats = values @ weights
        counts = np.flatnonzero(weights > 0.0)
        if not len(self.places) or not len(counts):
            return law
        slopes = weights[counts] + STEEP
        places, here = self.places[:, counts] * slopes, values[:, counts] * slopes
        shown = self.places @ weights + self.press
        more, less = _excess(places, places)
        # Workloads that contradict each other meet halfway.
        shown = ((shown[:, None] + more).min(axis=0) + (shown[:, None] - less).max(axis=0)) / 2.0
        for part in _blocks(values):
            more, less = _excess(places, here[part])
            least = (shown[:, None] - less).max(axis=0)
            most = (shown[:, None] + more).min(axis=0)
            law[part] = np.minimum(np.maximum(law[part], least), most)
        return law


def nobody() -> Known:
    """No workload at all."""
    none = np.zeros(0)
    return Known(np.zeros((0, 0)), none, none, none, none)


def _blocks(values: Floats) -> Iterator[slice]:
    """Rows in parts small enough that what is computed of them stays in the processor's cache."""
    return (slice(start, start + BLOCK) for start in range(0, len(values), BLOCK))


def _excess(ones: Floats, others: Floats) -> tuple[Floats, Floats]:
    """What each of the others has more than each one, summed over features, and what it has less.

    Args:
        ones: shape (ones, features).
        others: shape (others, features).

    Returns:
        Two arrays of shape (ones, others).
    """
    more = np.zeros((len(ones), len(others)))
    for feature in range(ones.shape[1]):
        more += np.maximum(others[:, feature] - ones[:, feature, None], 0.0)
    # What is less is what is more, less the difference of the sums.
    return more, more - (others.sum(axis=1) - ones.sum(axis=1)[:, None])
