"""The methods by name. Importing this imports none of them: inference of one never loads the libraries of another."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import cast

from estimator.types import Method

METHODS: tuple[str, ...] = ("rad", "horus", "gpumemnet", "faketensor")
DEFAULT = "rad"

# Module and class of each; a class that learns has a `load(models_dir)`.
_PLACES = {
    "rad": ("estimator.methods.rad", "Rad"),
    "horus": ("estimator.methods.horus", "Horus"),
    "gpumemnet": ("estimator.gpumemnet", "GpuMemNet"),
    "faketensor": ("estimator.faketensor", "FakeTensor"),
}


def load_method(name: str, models_dir: Path | None = None) -> Method:
    """Make a method ready to predict.

    Args:
        name: one of `METHODS`.
        models_dir: folder of learned models; None takes those that come with the package.

    Raises:
        ValueError: no method has this name.
        ImportError: the method needs a package that is not installed; the message names it.
        OSError: the folder holds no model of this method.
    """
    place = _PLACES.get(name)
    if place is None:
        raise ValueError(f"no method is called {name!r}: choose one of {', '.join(METHODS)}")
    module, class_ = place
    try:
        made = getattr(import_module(module), class_)
    except ImportError as error:
        raise ImportError(
            f"the method {name} cannot be loaded ({error}): it needs torch: pip install 'torch>=2.6'"
        ) from error
    load = getattr(made, "load", None)
    return cast("Method", made() if load is None else load(models_dir))
