"""What the compiled build needs of Python, and whether it is there. Never compiled itself; touches nothing outside."""

from __future__ import annotations

from importlib.util import find_spec


def breathe() -> None:
    """Let signals in. Loops over users' layers call this now and then.

    Python runs a signal's handler between steps of its own code. Compiled loops have none, so that radd's time limit
    (`slurm_hooks.radd.limit`) would wait for their end; a call of this function is such a step.
    """


def is_compiled() -> bool:
    """Tell whether the modules on the way to an estimate were compiled (`setup.py`)."""
    found = find_spec("estimator.parsers.text")
    return found is not None and found.origin is not None and not found.origin.endswith(".py")
