"""What all tests share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How busy the machine is says nothing of what is tested.
settings.register_profile("rad", suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rad")
