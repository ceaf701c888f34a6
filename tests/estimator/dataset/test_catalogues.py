"""The tables of modules in their packages' docstrings."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

import estimator
import scripts
from estimator import dataset, rehearsals
from estimator.dataset import catalogues
from estimator.dataset.catalogues.catalogue import COLLECTIONS


def test_the_table_says_what_each_module_holds() -> None:
    lines = [line.strip("| ").split(" | ") for line in (catalogues.__doc__ or "").splitlines() if line.startswith("|")]
    assert len(lines) == 2 + len(COLLECTIONS)
    for (module, models, origin), entries in zip(lines[2:], COLLECTIONS, strict=True):
        found = list(entries())
        assert int(models) == len(found), module
        words = origin.replace("_libraries", ", library").replace(":", ",").split(", ")
        missing = {entry.source for entry in found} - {word.split()[-1] for word in words}
        assert not missing, module


@pytest.mark.parametrize("package", [estimator, dataset, catalogues, rehearsals, scripts])
def test_every_module_is_named(package: ModuleType) -> None:
    folder = Path(package.__file__ or "").parent
    names = {path.stem for path in folder.glob("[a-z]*.py")}
    names |= {path.parent.name for path in folder.glob("*/__init__.py")}
    assert names
    assert not {name for name in names if not re.search(rf"\b{name}\b", package.__doc__ or "")}
