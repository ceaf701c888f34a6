"""What all tests share."""

from __future__ import annotations

import gc
import os

from hypothesis import HealthCheck, settings

# Models and data sets are many small lists, none of them garbage: to go through them takes a fifth of the time.
gc.set_threshold(100_000, 50, 100)
# How busy the machine is says nothing of what is tested.
settings.register_profile("rad", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rad")
# SlipCover (scripts/test) has forked children write what they covered when they end. Here they are to end as they do
# elsewhere: threads may hold its locks in them for ever.
for _name in ("fork", "_exit"):
    _own = getattr(os, _name)
    setattr(os, _name, getattr(_own, "__wrapped__", _own))
