"""Means over time: of the last seconds, and of some looks. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

_INSTANT = 1e-6


class Window:
    """Values of the last seconds, each with the time for which it held; sums are kept, so that asking costs little."""

    def __init__(self, length_s: float) -> None:
        self._length_s = length_s
        self._entries: deque[tuple[float, float, Mapping[str, float]]] = deque()
        self._sums: dict[str, list[float]] = {}
        self.seconds = 0.0

    def add(self, now: float, seconds: float, values: Mapping[str, float]) -> None:
        """Take values in that held for the last `seconds`."""
        self._entries.append((now, seconds, values))
        self.seconds += seconds
        known = self._sums
        for key, value in values.items():
            sums = known.get(key)
            if sums is None:
                sums = known[key] = [0.0, 0.0]
            sums[0] += value * seconds
            sums[1] += seconds
        self.drop(now)

    def drop(self, now: float) -> None:
        """Let go of what is too old."""
        entries, oldest = self._entries, now - self._length_s
        while entries and entries[0][0] <= oldest:
            _, seconds, values = entries.popleft()
            self.seconds -= seconds
            known = self._sums
            for key, value in values.items():
                sums = known[key]
                sums[0] -= value * seconds
                sums[1] -= seconds
        if not entries:
            # What rounding has left must not stay for ever.
            self._sums.clear()
            self.seconds = 0.0

    def means(self) -> dict[str, float]:
        """Means over time of every value that was available."""
        return {key: max(0.0, total / held) for key, (total, held) in self._sums.items() if held > _INSTANT}


def mean_of(looks: Sequence[Mapping[str, float]], spans: Sequence[float]) -> dict[str, float]:
    """Mean over time of each value that was there in every look; of others, of the looks that had it."""
    sums: dict[str, list[float]] = {}
    for look, seconds in zip(looks, spans, strict=True):
        for key, value in look.items():
            known = sums.setdefault(key, [0.0, 0.0])
            known[0] += value * seconds
            known[1] += seconds
    return {key: total / held for key, (total, held) in sums.items() if held > 0}
