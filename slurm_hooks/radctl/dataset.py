"""radctl's commands around the data set: draw configurations, measure them on a GPU, pack and describe the rows.

Reads and writes the files that the user names; ``collect`` starts processes on this machine's GPU.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from math import inf
from pathlib import Path
from typing import Any, get_args

import click

from estimator import files
from estimator.dataset import coverage, packing, store
from estimator.dataset.catalogues import first
from estimator.dataset.catalogues.draws import generate_real
from estimator.dataset.collect import Collector, Options
from estimator.dataset.raw import ROWS, read_jsonl
from estimator.dataset.specs import Spec, generate_synthetic, spec_from_json
from estimator.types import Family
from slurm_hooks.radctl.main import at_most_one
from slurm_hooks.radctl.options import FILE, FOLDER, JSON, NEW_FILE, THERE, Number, Whole


@click.group()
def dataset() -> None:
    """Draw configurations, measure them, show what they cover."""


@dataset.command()
@click.argument("file", type=NEW_FILE)
@click.option("--mlp", type=Whole(0), default=3200, show_default=True, help="Synthetic MLPs.")
@click.option("--cnn", type=Whole(0), default=3200, show_default=True, help="Synthetic CNNs.")
@click.option("--transformer", type=Whole(0), default=2200, show_default=True, help="Synthetic Transformers.")
@click.option("--real", type=Whole(0), default=5, show_default=True, help="Workloads of each real model.")
@click.option("--seed", type=int, default=0, show_default=True, help="Equal seeds draw equal configurations.")
def generate(file: Path, mlp: int, cnn: int, transformer: int, real: int, seed: int) -> None:
    """Write configurations to FILE, one JSON object a line."""
    specs: list[Spec] = list(generate_real(real, seed, first.entries(), most_tokens=inf))
    for family, count in zip(get_args(Family), (mlp, cnn, transformer), strict=True):
        specs += generate_synthetic(family, count, seed)
    specs = _mixed(specs, seed)
    file.write_text("".join(json.dumps(s.to_json(), separators=(",", ":")) + "\n" for s in specs), "utf-8")
    click.echo(f"{len(specs)} configurations in {file}: {_counts(specs)}")


def _mixed(specs: list[Spec], seed: int) -> list[Spec]:
    """Mix models, so that a collection that ends early covers all families; a model's rows keep their order."""
    rng = random.Random(seed)  # noqa: S311 - an order, no secret
    keys = {(s.source, s.name, json.dumps(s.arch, sort_keys=True)): rng.random() for s in specs}
    return sorted(specs, key=lambda s: keys[(s.source, s.name, json.dumps(s.arch, sort_keys=True))])


def _counts(specs: list[Spec]) -> str:
    found = Counter(s.family if s.source == "synthetic" else s.source for s in specs)
    return ", ".join(f"{count} {name}" for name, count in sorted(found.items()))


@dataset.command()
@click.argument("file", type=FILE)
@click.option("--into", type=FOLDER, required=True, help="Folder of raw results; what it holds is not measured again.")
@click.option("--workers", type=Whole(1, 64), default=8, show_default=True, help="Processes on the GPU.")
@click.option("--capacity-gib", type=Number(1), default=120.0, show_default=True, help="Memory for all of them.")
@click.option("--minutes", type=Number(0), default=600.0, show_default=True, help="Hand out nothing new after.")
@click.option("--seconds", type=Number(0), default=0.0, help="Measure speed and counters for so long each.")
@click.option("--isolated", is_flag=True, help="A new process for each configuration.")
@click.option(
    "--device", type=click.Choice(["cuda", "cpu"]), default="cuda", show_default=True, help="cpu only rehearses."
)
def collect(
    file: Path,
    into: Path,
    workers: int,
    capacity_gib: float,
    minutes: float,
    seconds: float,
    isolated: bool,
    device: str,
) -> None:
    """Measure the configurations of FILE on this machine's GPU.

    That needs torch.
    """
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        raise click.ClickException("measuring needs torch: pip install 'torch>=2.6'") from None
    if seconds and workers > 1:
        raise click.UsageError("counters need a quiet GPU: give --workers 1 with --seconds")
    specs = [_spec(file, number, item) for number, item in enumerate(read_jsonl(file), 1)]
    if device == "cuda" and not torch.cuda.is_available():
        raise click.ClickException("torch sees no GPU on this machine; --device cpu rehearses a collection")
    options = Options(workers, capacity_gib * 1024, device, minutes, seconds, isolated)
    Collector(specs, into, options).run(click.echo)


def _spec(file: Path, number: int, item: dict[str, Any]) -> Spec:
    try:
        return spec_from_json(item)
    except ValueError as error:
        raise click.ClickException(f"{file}:{number}: {error}") from None


@dataset.command()
@click.argument("raw", type=THERE)
@click.option("--into", type=FOLDER, required=True, help="Folder of the packed data set.")
@click.option("--meta", type=FILE, required=True, help="JSON object: gpu, versions, limit_mib.")
def pack(raw: Path, into: Path, meta: Path) -> None:
    """Pack the raw results in the folder RAW."""
    text = files.read_text(meta, files.MIB)
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.ClickException(f"{meta} holds no JSON: {error}") from None
    if not isinstance(facts, dict):
        raise click.ClickException(f"{meta} holds no JSON object")
    try:
        counts = packing.pack(raw, into, facts)
    except (ValueError, RecursionError) as error:
        raise click.ClickException(str(error)) from None
    size = sum(path.stat().st_size for path in into.iterdir())
    click.echo(", ".join(f"{n} {name}" for name, n in counts.items()) + f"; {size / 2**20:.2f} MiB")


@dataset.command()
@click.option("--raw", type=THERE, help="Folder of a running or broken off collection instead of the packed rows.")
@click.option("--data", type=FOLDER, help="Folder of a packed data set [default: what comes with RAD].")
@click.option("--plot", type=NEW_FILE, help="Draw the coverage, with matplotlib.")
@JSON
def status(raw: Path | None, data: Path | None, plot: Path | None, as_json: bool) -> None:
    """Say what was measured and what it covers."""
    at_most_one(raw=raw is not None, data=data is not None)
    if raw is not None and not (raw / ROWS).exists():
        raise click.ClickException(f"{raw} holds no {ROWS}: name the folder that `radctl dataset collect --into` had")
    rows = coverage.raw_rows(raw / ROWS) if raw else list(store.load(data or store.DEFAULT).rows)
    if plot:
        try:
            coverage.plot(rows, plot)
        except ImportError:
            raise click.ClickException("a plot needs matplotlib: pip install 'matplotlib>=3.7'") from None
        except ValueError as error:  # no format of matplotlib's
            raise click.ClickException(f"{plot}: {error}") from None
    table = coverage.table(rows)
    click.echo(json.dumps(table) if as_json else coverage.text(table))


COMMANDS: list[click.Command] = [dataset]
