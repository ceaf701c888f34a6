"""Installed predictors: which there are, and their files of weights. Reads only the folder of weights."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from estimator import files
from predictor import kace, rad
from predictor.types import Predictor, WeightsError

MAX_WEIGHTS_BYTES = 1 << 20
BUNDLED = Path(__file__).resolve().parent / "data"


READERS: Mapping[str, Callable[[str, str, str], Predictor]] = {"rad": rad.from_json, "kace": kace.from_json}


def load_predictor(name: str, models_dir: Path | None = None) -> Predictor:
    """The predictor ``name`` with the weights of ``models_dir``, or the bundled ones where it has none.

    Raises:
        WeightsError: no such predictor, or its file of weights cannot be used.
    """
    if name not in READERS:
        raise WeightsError(f"no predictor {name!r}; there are {', '.join(READERS)}")
    bundled = BUNDLED / f"{name}.json"
    path = bundled if models_dir is None else models_dir / bundled.name
    try:
        if not _is_there(path):
            path = bundled
        data = files.read(path, MAX_WEIGHTS_BYTES)
        text = data.decode()
    except files.FileRefusedError as error:
        raise WeightsError(f"{error}: run `radctl retrain interference`") from error
    except (OSError, UnicodeDecodeError) as error:
        raise WeightsError(f"{path}: cannot be read ({error}): run `radctl retrain interference`") from error
    return READERS[name](text, str(path), hashlib.sha256(data).hexdigest()[:12])


def _is_there(path: Path) -> bool:
    """Whether there is such a file; that nobody lets us look does not say so.

    Raises:
        OSError: it cannot be told.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
