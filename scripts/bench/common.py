"""What the measurements share: clusters that come and go, many submits at once, percentiles, tables."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts import markdown
from scripts.demo_data import cnn
from scripts.devcluster import Cluster, ClusterError, Layout, Rad, free_base_port

CHECKOUT = Path(__file__).resolve().parents[2]
# Folders that RAD could run from: the last one it does.
SOURCES = [CHECKOUT]
USER = "alice"
LAYERS = 100
CONFIG = """
[radd]
poll_s = {poll_s}

[defaults]
default_smact = 0.05
"""


def note(text: str) -> None:
    """Progress, apart from the tables."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def cluster(*, rad: bool, gpus: int = 4, poll_s: float = 5) -> Iterator[Cluster]:
    """A fresh one-node cluster, ended and removed afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="rad-bench-"))
    directory.chmod(0o755)
    config = directory / "site.toml"
    config.write_text(CONFIG.format(poll_s=poll_s), encoding="utf-8")
    layout = Layout(directory, free_base_port(directory, 1), gpus=gpus)
    made = Cluster(layout, Rad(SOURCES[-1], Path(sys.executable), config) if rad else None)
    note(f"starting a cluster {'with' if rad else 'without'} RAD in {directory}")
    try:
        made.up()
        yield made
    finally:
        made.destroy()


@contextmanager
def clusters(*rad: bool) -> Iterator[list[Cluster]]:
    """Fresh one-node clusters, with RAD or without, that come and go at the same time."""
    contexts = [cluster(rad=each) for each in rad]
    with ThreadPoolExecutor(len(contexts)) as pool:
        starts = [pool.submit(context.__enter__) for context in contexts]
        try:
            yield [start.result() for start in starts]
        finally:
            begun = [context for context, start in zip(contexts, starts, strict=True) if start.exception() is None]
            for end in [pool.submit(context.__exit__, None, None, None) for context in begun]:
                end.result()


@contextmanager
def compiled() -> Iterator[None]:
    """Run RAD from a copy of this checkout with the estimator compiled (`setup.py`).

    Raises:
        ClusterError: if it cannot be built here.
    """
    with tempfile.TemporaryDirectory(prefix="rad-compiled-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for part in ("estimator", "predictor", "slurm_hooks", "etc"):
            shutil.copytree(CHECKOUT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        for part in ("setup.py", "setup.cfg", "pyproject.toml"):
            shutil.copy(CHECKOUT / part, folder)
        note("compiling the estimator")
        argv = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        env = {**os.environ, "RAD_COMPILE": "1"}
        done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            said = f"{done.stdout.strip()}\n{done.stderr.strip()}".strip()  # mypy speaks on the one, gcc on the other
            raise ClusterError(f"the estimator was not compiled (exit status {done.returncode}): {said[-500:]}")
        SOURCES.append(folder)
        try:
            yield
        finally:
            SOURCES.pop()


def script(directives: str, command: str = "true") -> str:
    """A batch script that asks for one GPU."""
    return f"#!/bin/bash\n#SBATCH --gres=gpu:1 --output=/dev/null\n{directives}{command}\n"


def inline_summary(number: int) -> str:
    """Directives with the summary of a convolutional network of 100 layers; for each `number` another one.

    What radd remembers of a summary that it has seen before would flatter the figures.
    """
    lines = "".join(f"# {line}\n" for line in cnn(LAYERS, 16 + number).splitlines())
    return f"#RAD batch_size=32 optimizer=adam\n#RAD summary-begin\n{lines}#RAD summary-end\n"


def submit(
    target: Cluster, scripts: Iterable[str], clients: int, *options: str, env: Mapping[str, str] | None = None
) -> float:
    """Submit scripts from `clients` clients at once, with `env` in their environment; returns seconds.

    Raises:
        ClusterError: if a submit fails.
    """
    paths = []
    for number, text in enumerate(scripts):
        paths.append(target.home(USER) / f"job{number}.sh")
        paths[-1].write_text(text, encoding="utf-8")
        shutil.chown(paths[-1], USER)

    def one(path: Path) -> str:
        said = target.run(["sbatch", *options, str(path)], user=USER, env=env)
        return "" if said.code == 0 else said.err

    begin = time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        failed = [text for text in pool.map(one, paths) if text]
    if failed:
        raise ClusterError(f"{len(failed)} of {len(paths)} submits failed; the first: {failed[0]}")
    return time.monotonic() - begin


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` % of the values do not exceed."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(len(ranked) * percent / 100) - 1)]


@dataclass(frozen=True)
class Table:
    """What a measurement found; the first column is text, the others are right-aligned."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        """For a terminal."""
        lines = [self.heads, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.heads))]
        shown = [self.heads, ["-" * width for width in widths], *self.rows]
        cells = [
            [line[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True)]
            for line in shown
        ]
        return "\n".join([f"\n{self.title}", *("  ".join(line) for line in cells)])

    def markdown(self) -> str:
        """For a page."""
        return markdown.table(self.heads, self.rows, right=True)
