"""Whether the compiled build runs. Never compiled itself; touches nothing outside."""

from __future__ import annotations

from importlib.util import find_spec


def is_compiled() -> bool:
    """Tell whether the modules on the way to an estimate were compiled (`setup.py`)."""
    found = find_spec("estimator.parsers.text")
    return found is not None and found.origin is not None and not found.origin.endswith(".py")
