"""The compiled build (`setup.py`) says what plain Python says, and heeds radd's time limit; how it is asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from estimator.compiled import is_compiled
from tests.estimator import said

CHECKOUT = Path(__file__).resolve().parents[2]
PARTS = ("estimator", "predictor", "slurm_hooks")


def has_compiler() -> bool:
    """Whether there is a tcc that takes Python's headers: those of 3.14 it does not."""
    if shutil.which("tcc") is None:
        return False
    argv = ["tcc", "-E", f"-I{sysconfig.get_path('include')}", "-include", "Python.h", "-"]
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def build(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    for part in PARTS:
        shutil.copytree(CHECKOUT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "setup.cfg", "pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(CHECKOUT / name, folder)
    # What the compiler could make faster is nothing to wait for here.
    env = {**os.environ, "CFLAGS": "-O0 -g0", "RAD_COMPILE_LEVEL": "0", **environment}
    argv = [sys.executable, "setup.py", "-q", *arguments]
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=300)


def told(*folders: Path) -> list[str]:
    """What the modules of the first folder that has them say, in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.estimator.said"],
        env={**os.environ, "PYTHONPATH": ":".join(map(str, folders))},
        cwd=folders[0],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def plain() -> list[str]:
    return told(CHECKOUT)


def libraries(folder: Path) -> list[Path]:
    return [path for part in PARTS for path in (folder / part).rglob("*.so")]


def test_a_checkout_runs_what_is_written_in_it() -> None:
    assert libraries(CHECKOUT) == []
    assert not is_compiled()


def test_plain_python_unless_asked_for(tmp_path: Path) -> None:
    done = build(tmp_path, "build_ext", "--inplace", RAD_COMPILE="0", PATH="/nonexistent")
    assert (done.returncode, libraries(tmp_path)) == (0, [])
    assert "mypy" not in done.stdout + done.stderr


def test_an_editable_install_is_never_compiled(tmp_path: Path) -> None:
    done = build(tmp_path, "editable_wheel", RAD_COMPILE="1")
    assert done.returncode != 0
    assert "not for an editable install" in done.stderr
    assert libraries(tmp_path) == []


def test_without_mypy_the_cure_is_named(tmp_path: Path) -> None:
    (tmp_path / "mypyc").mkdir()
    (tmp_path / "mypyc" / "__init__.py").touch()  # found first, and empty
    done = build(tmp_path, "build_ext", "--inplace", RAD_COMPILE="1")
    assert done.returncode != 0
    assert "pip install mypy setuptools" in done.stderr


def test_reading_and_estimates_heed_the_time_limit(plain: list[str]) -> None:
    works = {f"{name}: {work}" for name in ("cnn", "keras", "mlp", "transformer") for work in ("reading", "estimate")}
    assert works <= set(plain)


def test_what_loops_over_layers_lets_signals_in() -> None:
    """Compiled loops would hear of the limit at their end only."""
    counts = {line.partition(":")[0]: int(line.split()[1]) for line in said.breaths()}
    each_row = said.LONG // 64
    for module in ("keras", "module", "torchinfo", "torchsummary"):
        assert counts[f"estimator.parsers.{module}"] >= each_row
    for module in ("estimator.shapes.follower", "estimator.methods.rad.program.builder", "predictor.profiles"):
        assert counts[module] >= each_row
    assert counts["estimator.fingerprint"] >= len(said.LONG_TEXTS)


@pytest.mark.skipif(not has_compiler(), reason="needs python3-dev, and a tcc that takes its headers")
def test_compiled_says_the_same(tmp_path: Path, plain: list[str]) -> None:
    # TCC takes a second for what takes gcc most of a minute.
    done = build(tmp_path, "build_ext", "--inplace", RAD_COMPILE="1", CC="tcc", LDSHARED="tcc -shared")
    assert done.returncode == 0, done.stderr
    assert len(libraries(tmp_path)) > 15
    first, *lines = plain
    assert first == "compiled: False"
    assert told(tmp_path, CHECKOUT) == ["compiled: True", *lines]
