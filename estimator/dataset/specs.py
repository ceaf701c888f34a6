"""Configurations of the data set: what one measurement runs, drawn over the dissertation's ranges. Pure.

Ranges: tables 5.2, 5.4 and 5.6 of the dissertation. Wider where jobs of today are: larger batches,
strided and separable convolutions, gated feed-forward layers, language-model heads.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Literal, get_args

from estimator.dataset.catalogues.fresh import FRESH
from estimator.dataset.plans import ACTIVATIONS, plan_of, trace_of
from estimator.dataset.tree import Trace, resolve
from estimator.types import OPTIMIZERS, Family, Kind, Optimizer, Precision

Source = Literal["synthetic", "torchvision", "timm", "transformers", "plain", "library"]
Split = Literal["train", "val", "test", "fresh", "kin", "known"]
FITTED: tuple[Split, ...] = ("train", "val", "test")
"""The splits that are fitted to; the others only judge."""

PRECISIONS: tuple[Precision, ...] = ("fp32", "amp", "bf16")
MLP_SHAPES = ("pyramid", "uniform", "bottleneck", "gradual")
CNN_SHAPES = ("pyramid", "uniform", "bottleneck", "gradual", "hourglass", "residual", "dense")

_KNOWN = {"source": get_args(Source), "family": get_args(Family), "kind": get_args(Kind)}
_KNOWN["precision"] = get_args(Precision)
_PLAIN = json.JSONEncoder(sort_keys=True, separators=(",", ":"))

LIMIT_MIB = 80 * 1024
"""Memory of the GPU that the data set imitates: a process that needs more runs out of memory."""

_MAX_EXPECTED_MIB = 110 * 1024
# A GPU hour has to be shared by thousands of rows: most steps are short, some may be long.
_SECONDS_A_STEP = (0.04, 0.3)
_LONG_SHARE = 0.12
_FLOPS = {"fp32": 4e13, "amp": 8e13, "bf16": 1e14, "fp16": 1e14}
_BYTES_A_SECOND = 1.5e12


@dataclass(frozen=True)
class Spec:
    """One configuration: a model and how it is run.

    Attributes:
        source: where the model comes from; ``synthetic`` ones are built from ``arch`` alone.
        family: the family the memory estimator takes it for.
        name: name of the model in its library, or the pattern of a synthetic one.
        group: architecture family that is never divided between splits.
        arch: JSON parameters of the architecture: of a synthetic plan, or changes to a library's model.
        batch_size: examples in a step.
        seq_len: tokens an example, None where inputs are no sequences.
        optimizer: ``adam`` and its kin; ignored by ``infer``.
        precision: ``fp32``; ``amp``: autocast to fp16 with a gradient scaler; ``bf16``: weights and all in bf16.
        kind: ``train`` or ``infer``.
    """

    source: Source
    family: Family
    name: str
    group: str
    arch: dict[str, Any]
    batch_size: int
    seq_len: int | None
    optimizer: Optimizer
    precision: Precision
    kind: Kind

    @cached_property
    def id(self) -> str:
        """Sixteen hex digits that stand for this configuration."""
        return _digest({field.name: getattr(self, field.name) for field in fields(self)})

    @cached_property
    def model_id(self) -> str:
        """Sixteen hex digits that stand for the model and the shape of one example."""
        return _digest([self.source, self.family, self.name, self.arch, self.seq_len])

    @property
    def tokens(self) -> int:
        """Tokens of a batch; its examples where these are no sequences."""
        return self.batch_size * (self.seq_len or 1)

    @cached_property
    def split(self) -> Split:
        """Part of the data set: decided by the architecture family, never by the row."""
        return split_of(self.group)

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict."""
        return asdict(self)


def spec_from_json(data: dict[str, Any]) -> Spec:
    """Read what ``Spec.to_json`` wrote.

    Raises:
        ValueError: a field is missing, unknown, or not one of the values it may have.
    """
    try:
        spec = Spec(**data)
    except TypeError as error:
        raise ValueError(f"not a configuration: {error}; generate the list again") from None
    for name, known in _KNOWN.items():
        if getattr(spec, name) not in known:
            raise ValueError(f"configuration has {name}={getattr(spec, name)!r}; known: {known}")
    return spec


def _digest(value: Any) -> str:
    return hashlib.sha256(_PLAIN.encode(value).encode()).hexdigest()[:16]


def place_of(name: str, parts: int) -> int:
    """Tell in which of so many equal parts a name falls: the same whatever other names there are."""
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % parts


def split_of(group: str) -> Split:
    """Put a family into training (65 %), validation (10 %) or test (25 %) by its name, if it is not fresh."""
    if group in FRESH:
        return "fresh"
    place = place_of(f"rad-split:{group}", 100)
    return "train" if place < 65 else "val" if place < 75 else "test"


def _log_uniform(rng: random.Random, low: float, high: float) -> int:
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def _draw_mlp(rng: random.Random) -> dict[str, Any]:
    inp = _log_uniform(rng, 4, 4096)
    out = _log_uniform(rng, 1, max(2, min(1024, inp)))
    return {
        "shape": rng.choice(MLP_SHAPES),
        "inp": inp,
        "out": out,
        "width": rng.choice([inp, inp, _log_uniform(rng, 16, 8192)]),
        "depth": rng.randint(1, 11),
        "act": rng.choice(ACTIVATIONS),
        "bn": rng.random() < 0.5,
        "drop": round(rng.uniform(0.1, 0.5), 2) if rng.random() < 0.5 else 0.0,
        "softmax": rng.random() < 0.2,
    }


def _draw_cnn(rng: random.Random) -> dict[str, Any]:
    real = rng.random() < 0.5  # half shrink the picture as they go, as today's networks do
    shape = rng.choice(CNN_SHAPES)
    return {
        "shape": shape,
        "chans": rng.choice([1, 3]),
        "classes": _log_uniform(rng, 2, 22000),
        "base": _log_uniform(rng, 16, 512 if not real else 128),
        "cap": rng.choice([512, 1024, 2048]),
        "depth": rng.randint(1, 29),
        "k": rng.choice([3, 3, 3, 5, 7]),
        "size": rng.randint(28, 128) if not real else rng.choice([64, 96, 112, 128, 160, 192, 224, 256, 299]),
        "every": rng.randint(2, 6) if real else 0,
        "strided": rng.random() < 0.5,
        "separable": rng.random() < (0.25 if real else 0.1),
        "act": rng.choice(["ReLU", "ReLU", *ACTIVATIONS]),
        "inplace": rng.random() < 0.5,
        "bn": rng.random() < 0.6,
        "drop": round(rng.uniform(0.1, 0.5), 2) if rng.random() < 0.3 else 0.0,
    }


def _draw_transformer(rng: random.Random) -> dict[str, Any]:
    heads = rng.choice([2, 4, 8, 16])
    width = max(1, _log_uniform(rng, 128, 2048) // (8 * heads)) * 8 * heads
    lm = rng.random() < 0.4
    return {
        "shape": "decoder" if lm else "encoder",
        "vocab": _log_uniform(rng, 30000, 130000) if lm else _log_uniform(rng, 50000, 1000000),
        "width": max(128, width),
        "depth": rng.randint(2, 39) if rng.random() < 0.5 else rng.randint(1, 12),
        "heads": heads,
        "ff": max(128, width) * rng.choice([2, 3, 4]),
        "seq": rng.choice([128, 256, 512, 1024]),
        "classes": rng.randint(2, 1000),
        "drop": round(rng.uniform(0.1, 0.5), 2) if rng.random() < 0.7 else 0.0,
        "act": rng.choice(["ReLU", "GELU", "SiLU"]),
        "gated": rng.random() < 0.25,
        "prenorm": rng.random() < 0.6,
        "eager": rng.random() < 0.4,
        "lm": lm,
    }


_DRAW: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "mlp": _draw_mlp,
    "cnn": _draw_cnn,
    "transformer": _draw_transformer,
}
_BATCHES = {"mlp": (4, 1024), "cnn": (2, 512), "transformer": (1, 256)}


def generate_synthetic(family: Family, count: int, seed: int) -> Iterator[Spec]:
    """Draw configurations of synthetic models.

    Configurations whose steps would take long on the measuring GPU, or that need far more than its
    memory, are drawn again.

    Args:
        family: the family.
        count: how many configurations.
        seed: equal seeds give equal configurations.
    """
    rng = random.Random(f"{family}:{seed}")  # noqa: S311 - a seeded draw of configurations, no secret
    made: set[str] = set()
    while len(made) < count:
        spec = _draw_spec(family, rng)
        if spec is not None and spec.id not in made:
            made.add(spec.id)
            yield spec


def _draw_spec(family: Family, rng: random.Random) -> Spec | None:
    arch = _DRAW[family](rng)
    plan, shape = plan_of(family, arch)
    kind: Kind = "infer" if rng.random() < 0.12 else "train"
    precision = rng.choices(PRECISIONS, (0.6, 0.25, 0.15))[0]
    optimizer = rng.choice(("adam", *OPTIMIZERS))
    trace = trace_of(plan, shape)
    cost = costs(trace)
    low, high = _BATCHES[family]
    if family == "mlp" and rng.random() < 0.25:
        high = 65536
    bytes_a_number = 4 if precision == "fp32" else 2
    fixed = trace.total_params * 16 / 2**20
    each = cost.numbers * bytes_a_number * (1.3 if kind == "train" else 0.2) / 2**20
    # Half of the batches are drawn evenly over the memory that they lead to, so that 80 GiB is reached.
    batch = _log_uniform(rng, low, high)
    if rng.random() < 0.5:
        batch = max(1, min(high, int((_log_uniform(rng, 256, 95 * 1024) - fixed) / max(each, 1e-9))))
    passes = 3 if kind == "train" else 1
    seconds = cost.flops * batch * passes / _FLOPS[precision]
    seconds += cost.numbers * batch * bytes_a_number * 2 * passes / _BYTES_A_SECOND
    longest = _SECONDS_A_STEP[rng.random() < _LONG_SHARE]
    if fixed + each * batch > _MAX_EXPECTED_MIB or seconds > longest:
        return None
    group = f"{family}:{_digest(arch)}"
    seq = int(arch["seq"]) if family == "transformer" else None
    return Spec("synthetic", family, str(arch["shape"]), group, arch, batch, seq, optimizer, precision, kind)


@dataclass(frozen=True)
class Cost:
    """What one example costs: numbers that layers put out, and floating-point operations of a forward pass."""

    numbers: int
    flops: int


def costs(trace: Trace) -> Cost:
    """Add up what one example of a model costs, for scheduling only."""
    modules = trace.modules()
    numbers = flops = 0
    for call in trace.calls:
        module, out = modules[call.module], call.output_shape
        if module.children or out is None:
            continue
        sizes = resolve(out, 1)
        size = math.prod(sizes)
        numbers += size
        places = size // max(1, sizes[1 if module.type == "Conv2d" else -1])
        if module.type in ("Conv2d", "Linear"):
            flops += 2 * module.params * places
    return Cost(numbers, flops)


def claim_mib(spec: Spec) -> float:
    """Guess a synthetic configuration's memory for scheduling: rather too much, and never stored."""
    trace = trace_of(*plan_of(spec.family, spec.arch))
    guess = claim_of(spec, costs(trace).numbers, trace.total_params)
    return guess * 2.5 if spec.name == "dense" else guess


def claim_of(spec: Spec, numbers: int, params: int) -> float:
    """Guess memory for scheduling from what one example's layers put out and the parameters, in MiB."""
    weights = params * (20 if spec.kind == "train" else 6) / 2**20
    a_number = 4 if spec.precision == "fp32" else 2.4
    each = numbers * a_number * (1.7 if spec.kind == "train" else 0.35)
    return 120 + weights + each * spec.batch_size / 2**20
