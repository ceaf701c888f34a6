"""`radctl bench`: what estimates, decisions and predictions take on this machine.

Reads the summaries that the user names and the models' folders; starts a process for each method.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

from estimator import files, footprint
from estimator.compiled import is_compiled
from slurm_hooks import bench as timing
from slurm_hooks import loading
from slurm_hooks.radctl.main import Site
from slurm_hooks.radctl.options import JSON, Whole, examples

_FOOTPRINT_LAYERS = 100


@click.group()
def bench() -> None:
    """Measure RAD on this machine."""


@bench.command("decide", epilog=examples("radctl bench decide", "radctl bench decide net.txt --repeat 100"))
@click.argument("summaries", nargs=-1, type=click.Path(path_type=Path))
@click.option("--repeat", type=Whole(10, 100_000), default=500, show_default=True, help="Decisions each.")
@click.option("--nodes", type=Whole(1, 10_000), default=16, show_default=True, help="Nodes of the cluster.")
@click.option("--gpus", type=Whole(1, 64), default=8, show_default=True, help="GPUs of a node.")
@JSON
@click.pass_obj
def bench_decide(site: Site, *, summaries: tuple[Path, ...], repeat: int, nodes: int, gpus: int, as_json: bool) -> None:
    """Time estimates and decisions, from script text on.

    For each of SUMMARIES, else for made-up networks of up to 600 layers, in one process. The estimator's memory and
    time to load are measured in a process of its own, and beside it GPUMemNet's, with torch too where that is
    installed.
    """
    config = site.load()
    cases = {path.name: files.read_text(path, config.estimator.max_summary_kib * 1024) for path in summaries}
    rows = timing.decide(cases or timing.MADE_UP, loading.load_service, config, repeat=repeat, nodes=nodes, gpus=gpus)
    models_dir = Path(config.estimator.models_dir)
    names = dict.fromkeys((config.estimator.method, "gpumemnet", footprint.WITH_TORCH))
    costs = [footprint.measure(name, timing.cnn(_FOOTPRINT_LAYERS), repeat, models_dir) for name in names]
    known = [cost for cost in costs if cost is not None]
    if as_json:
        made = {"repeat": repeat, "nodes": nodes, "gpus": gpus, "compiled": is_compiled()}
        said = {**made, "rows": [dataclasses.asdict(row) for row in rows]}
        click.echo(json.dumps({**said, "methods": [dataclasses.asdict(cost) for cost in known]}))
        return
    build = "compiled" if is_compiled() else "plain Python"
    click.echo(f"{repeat} decisions each, {nodes} nodes with {gpus} GPUs, method {config.estimator.method}, {build}")
    click.echo(f"{'':<35} {'to decision':>19} {'to estimate':>19} {'summary read':>19}")
    click.echo(f"{'summary':<28} {'layers':>6} " + " ".join([f"{'p50 us':>9} {'p99 us':>9}"] * 3))
    for row in rows:
        times = (row.p50_us, row.p99_us, row.estimate_p50_us, row.estimate_p99_us, row.parse_p50_us, row.parse_p99_us)
        click.echo(f"{row.summary:<28} {row.layers:>6} " + " ".join(f"{time_us:>9.0f}" for time_us in times))
    click.echo(f"\nalone in a process, cnn-{_FOOTPRINT_LAYERS}, summary to estimate")
    click.echo(f"{'method':<28} {'load s':>6} {'MiB':>9} {'p50 us':>9} {'p99 us':>9}")
    for cost in known:
        click.echo(
            f"{cost.method:<28} {cost.load_s:>6.2f} {cost.memory_mib:>9.0f} {cost.p50_us:>9.0f} {cost.p99_us:>9.0f}"
        )
    if len(known) < len(costs):
        click.echo(f"{footprint.WITH_TORCH}: torch is not installed")


@bench.command("predict")
@click.option("--repeat", type=Whole(10, 100_000), default=200, show_default=True, help="Predictions.")
@click.option("--gpus", type=Whole(1, 100_000), default=1000, show_default=True, help="GPUs of the cluster.")
@JSON
@click.pass_obj
def bench_predict(site: Site, *, repeat: int, gpus: int, as_json: bool) -> None:
    """Time predictions for one job on many GPUs.

    Each GPU has one to three residents; the configured predictor is asked.
    """
    config = site.load()
    row = timing.predict(config, repeat=repeat, gpus=gpus)
    if as_json:
        click.echo(json.dumps({"repeat": repeat, "model": config.predictor.model, **dataclasses.asdict(row)}))
        return
    click.echo(
        f"one job on {row.gpus} GPUs with {row.residents} residents, predictor {config.predictor.model}: "
        f"p50 {row.p50_ms:.2f} ms, p99 {row.p99_ms:.2f} ms"
    )


COMMANDS = [bench]
