"""The table of catalogues in their package's docstring."""

from __future__ import annotations

from pathlib import Path

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


def test_every_module_is_named() -> None:
    for path in Path(catalogues.__file__).parent.glob("[a-z]*.py"):
        assert path.stem in (catalogues.__doc__ or "")
