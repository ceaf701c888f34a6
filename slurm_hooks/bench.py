"""How long an estimate and a decision take, from a submission's text on, as radd makes them; a prediction within it.

Touches the clock and the predictor's weights.
"""

from __future__ import annotations

import dataclasses
import gc
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from estimator.layer import Layer
from estimator.parsers import parse_summary
from estimator.types import ModelSummary, SummaryError, Workload
from predictor.types import KernelMetrics, Profile, WeightsError
from predictor.weights import load_predictor
from slurm_hooks.cluster import ClusterView, Gpu, Node, Resident
from slurm_hooks.config import Config
from slurm_hooks.directives import parse_script
from slurm_hooks.embed import embed
from slurm_hooks.interference import Interference, pack
from slurm_hooks.service import Service

ServiceLoader = Callable[[Config, Callable[[], float]], Service]

PARTITION = "bench"
_SCRIPT = "#!/bin/bash\n#SBATCH --gres=gpu:1\n#RAD batch_size=64 optimizer=adam\n"
_WORKLOAD = Workload(64, gpu="h200")
_WARM_UP = 20
_STEP_S = 100.0
_COLLECT_EVERY = 50


@dataclass(frozen=True)
class Row:
    """Times of one summary.

    Attributes:
        summary: its name.
        layers: layers in it, containers included.
        p50_us, p99_us: median and 99th percentile of the time from script to decision, in microseconds.
        estimate_p50_us, estimate_p99_us: the part of it from script to estimate: directives, summary, method.
        parse_p50_us, parse_p99_us: the part of that from the summary's text to its layers.
    """

    summary: str
    layers: int
    p50_us: float
    p99_us: float
    estimate_p50_us: float
    estimate_p99_us: float
    parse_p50_us: float
    parse_p99_us: float


def mlp(layers: int) -> str:
    """A module print of a fully connected network, as PyTorch writes it."""
    lines = [f"  ({n}): Linear(in_features=1024, out_features=1024, bias=True)" for n in range(layers)]
    return "\n".join(["Sequential(", *lines, ")"]) + "\n"


def cnn(layers: int) -> str:
    """A torchsummary table of convolutions, norms and activations on 3 x 64 x 64 images; no two rows are alike."""
    rule = "-" * 64
    lines = [rule, "        Layer (type)               Output Shape         Param #", "=" * 64]
    total, before = 0, 3
    for n in range(1, layers + 1):
        channels = 16 + (n + 2) // 3
        type_, params = (("Conv2d", before * 9 * channels), ("BatchNorm2d", 2 * channels), ("ReLU", 0))[(n - 1) % 3]
        lines.append(f"{f'{type_}-{n}':>20} {f'[-1, {channels}, 64, 64]':>26} {params:>15,}")
        total, before = total + params, channels
    lines += ["=" * 64, f"Total params: {total:,}", f"Trainable params: {total:,}", "Non-trainable params: 0", rule]
    return "\n".join(lines) + "\n"


_BLOCK = (
    ("LayerNorm", 512, 1_024),
    ("Linear", 1_536, 787_968),
    ("Linear", 512, 262_656),
    ("LayerNorm", 512, 1_024),
    ("Linear", 2_048, 1_050_624),
    ("GELU", 2_048, 0),
    ("Linear", 512, 1_049_088),
)


def transformer(layers: int) -> str:
    """A torchinfo table of a transformer with equal blocks, on 128 tokens."""
    rule = "=" * 90
    lines = [rule, f"{'Layer (type:depth-idx)':<40} {'Output Shape':<25} {'Param #':<15}", rule]
    rows = [f"{'Net':<40} {'[32, 128, 512]':<25} --"]
    for n in range(layers):
        block, part = divmod(n, len(_BLOCK) + 1)
        if part == 0:
            rows.append(f"{f'├─Block: 1-{block + 1}':<40} {'[32, 128, 512]':<25} --")
            continue
        type_, width, params = _BLOCK[part - 1]
        shown = f"{params:,}" if params else "--"
        rows.append(f"{f'│    └─{type_}: 2-{n - block}':<40} {f'[32, 128, {width}]':<25} {shown}")
    return "\n".join([*lines, *rows, rule]) + "\n"


def keras(layers: int, inputs: int = 0) -> str:
    """Keras' table of a stack of convolutions.

    Args:
        layers: how many.
        inputs: channels that each of them takes; 0: those that the one before gives, as in a network. No network has a
            stack whose layers all take the same and give more: their inputs are searched for everywhere.
    """
    lines = [
        "┏━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━┓",
        "┃ Layer (type)            ┃ Output Shape           ┃     Param # ┃",
        "┡━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━┩",
    ]
    before = 3
    for n in range(layers):
        channels = 16 + n % 64
        params = 9 * (inputs or before) * channels + (0 if inputs else channels)
        shape = f"(None, 32, 32, {channels})"
        lines.append(f"│ {f'conv2d_{n} (Conv2D)':<23} │ {shape:<22} │ {params:>11,} │")
        lines.append("├─────────────────────────┼────────────────────────┼─────────────┤")
        before = channels
    lines[-1] = "└─────────────────────────┴────────────────────────┴─────────────┘"
    return "\n".join(lines) + "\n"


MADE_UP: Mapping[str, str] = {
    "mlp-3": mlp(3),
    "cnn-100": cnn(100),
    "transformer-100": transformer(100),
    "mlp-300": mlp(300),
    "mlp-600": mlp(600),
    "cnn-600": cnn(600),
    "transformer-600": transformer(600),
    "keras-600": keras(600),
    "no-network-600": keras(600, inputs=17),
}


def decide(
    summaries: Mapping[str, str], load: ServiceLoader, config: Config, *, repeat: int, nodes: int, gpus: int
) -> list[Row]:
    """Time decisions on a made-up cluster, half of whose GPUs are taken by another job.

    Args:
        summaries: texts of summaries by name.
        load: makes a service from a configuration and a clock, as radd does.
        config: how decisions are made; its defaults hold for the made-up partition.
        repeat: decisions for each summary.
        nodes: nodes of the cluster.
        gpus: GPUs of each node.

    Raises:
        SummaryError: if a summary cannot be understood.
    """
    part = dataclasses.replace(
        config.defaults, mode="enforce", method="mps", gpu_model=config.defaults.gpu_model or "h200"
    )
    site = dataclasses.replace(config, partitions={PARTITION: part})
    layers = {name: _count(_read(name, text).root) for name, text in summaries.items()}
    rows = []
    for name, text in summaries.items():
        decided, estimated, parsed = _times(text, load, site, repeat, _cluster(nodes, gpus))
        stages = (_at(times, share) for times in (decided, estimated, parsed) for share in (0.50, 0.99))
        rows.append(Row(name, layers[name], *stages))
    return rows


def _read(name: str, text: str) -> ModelSummary:
    try:
        return parse_summary(text)
    except SummaryError as error:
        raise SummaryError(f"{name}: {error}") from error


def _times(
    text: str, load: ServiceLoader, config: Config, repeat: int, view: ClusterView
) -> tuple[list[float], list[float], list[float]]:
    """Sorted times in microseconds of decisions on a summary, of its estimates, and of reading it."""
    now = 0.0
    service = load(config, lambda: now)
    fields = {"partition": PARTITION, "tres_per_node": "gres:gpu:1", "user_name": "bench"}
    decided, estimated, parsed = [], [], []
    collects = gc.isenabled()
    gc.collect()
    gc.freeze()  # as radd does, which collects between its looks at Slurm, and never in an answer
    gc.disable()
    try:
        for n in range(repeat + _WARM_UP):
            # Each summary differs a little, since radd remembers those that it has read; and each finds the cluster
            # as it was, not filled by the decisions before.
            script = embed(_SCRIPT, f"run {n}\n{text}")
            now += _STEP_S
            service.update(dataclasses.replace(view, taken=now))
            begin = time.perf_counter_ns()
            service.answer({"script": script, **fields})
            decided.append((time.perf_counter_ns() - begin) / 1000)
            begin = time.perf_counter_ns()
            directives = parse_script(script)
            read = time.perf_counter_ns()
            summary = parse_summary((directives and directives.summary) or "")
            parsed.append((time.perf_counter_ns() - read) / 1000)
            service.method.predict(summary, _WORKLOAD)
            estimated.append((time.perf_counter_ns() - begin) / 1000)
            if n % _COLLECT_EVERY == 0:
                gc.collect()
    finally:
        gc.unfreeze()
        if collects:
            gc.enable()
    return sorted(decided[_WARM_UP:]), sorted(estimated[_WARM_UP:]), sorted(parsed[_WARM_UP:])


def _cluster(nodes: int, gpus: int) -> ClusterView:
    taken = (Resident(1, "other", 50),)
    made = []
    for n in range(nodes):
        name = f"node{n}"
        devices = tuple(Gpu(name, f"g{g}", 50 * (g % 2), taken if g % 2 else ()) for g in range(gpus))
        made.append(Node(name, True, frozenset({PARTITION}), frozenset(), 128, 1_000_000, devices))
    return ClusterView(0.0, tuple(made))


@dataclass(frozen=True)
class Predicted:
    """Time of one prediction for a job on many GPUs with residents.

    Attributes:
        gpus: GPUs of the made-up cluster, all with residents.
        residents: jobs on them, one to three each.
        p50_ms, p99_ms: median and 99th percentile, in milliseconds.
    """

    gpus: int
    residents: int
    p50_ms: float
    p99_ms: float


def predict(config: Config, *, repeat: int, gpus: int) -> Predicted:
    """Time what policy kace asks of the installed predictor for one job: the best of all GPUs.

    Args:
        config: names the predictor.
        repeat: predictions.
        gpus: GPUs of the cluster.

    Raises:
        WeightsError: if no predictor is configured, or it cannot be used.
    """
    settings = config.predictor
    if settings.model == "off":
        raise WeightsError("predictor.model is off: name rad or kace in rad.toml")
    predictor = load_predictor(settings.model, Path(settings.models_dir))
    interference = Interference(predictor, settings.min_gain, settings.min_progress)
    made = [_with_residents(number) for number in range(gpus)]
    job = _workload(0)
    times = []
    for _ in range(repeat + _WARM_UP):
        begin = time.perf_counter_ns()
        interference.best(job, made, config.defaults.default_smact)
        times.append((time.perf_counter_ns() - begin) / 1e6)
    times = sorted(times[_WARM_UP:])
    return Predicted(gpus, sum(len(gpu.residents) for gpu in made), _at(times, 0.50), _at(times, 0.99))


def _with_residents(number: int) -> Gpu:
    residents = tuple(
        Resident(3 * number + n, "other", 25, 8000, activity=pack(_workload(3 * number + n + 1)))
        for n in range(number % 3 + 1)
    )
    return Gpu(f"node{number // 8}", f"g{number % 8}", 25 * len(residents), residents)


def _workload(number: int) -> Profile:
    """One of many different profiles."""
    part = (number * 0.618) % 1.0
    kernel = KernelMetrics(
        threads=10 ** (4 + 3 * part), turn_us=30 + 300 * part, mean_us=5 + 100 * part, blocking_us=3 + 80 * part
    )
    return Profile(0.1 + 0.9 * part, 0.3 * part, 0.0, 0.4 * part, 0.0, 8000.0, 5 + 100 * part, kernel=kernel)


def _at(times: list[float], fraction: float) -> float:
    """The nearest-rank percentile of sorted times."""
    return round(times[max(0, math.ceil(fraction * len(times)) - 1)], 2)


def _count(layer: Layer) -> int:
    return len(layer.children) + sum(_count(child) for child in layer.children)
