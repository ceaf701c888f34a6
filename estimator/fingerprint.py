"""One name for a model run in one way, under which its measured memory is found again. Pure."""

from __future__ import annotations

import hashlib
from typing import Final

from estimator.breath import OFTEN, breathe
from estimator.gpus import canonical
from estimator.kept import keep
from estimator.layer import Layer
from estimator.types import ModelSummary, Workload

Args = tuple[tuple[str, str], ...]

# What is written of shapes, between two bars, and of arguments; what is longer is not kept.
_SHAPES: Final[dict[tuple[int, ...] | None, str]] = {}
_ARGS: Final[dict[Args, str]] = {}
_MOST_KEPT: Final = 200


def fingerprint(summary: ModelSummary, workload: Workload) -> str:
    """Hash what decides a job's memory: layers, how many parameters are not trained, the workload.

    What is around the model to train it on several GPUs is a part of it, and so is what the job holds beside it. The
    names of layers, the batch size that the summary was printed with and everything around the table do not count, and
    neither does the optimizer of a job that only infers.

    Returns:
        32 hexadecimal digits.
    """
    parts: list[str] = []
    _Writer(parts).write((summary.root,))
    parts.append(
        f"{workload.batch_size}|{workload.seq_len}|{workload.optimizer if workload.kind == 'train' else ''}|"
        f"{workload.precision}|{workload.kind}|{canonical(workload.gpu)}|{summary.total_params}"
    )
    if summary.frozen_params:
        parts.append(f"frozen {summary.frozen_params}")
    if summary.parallel:
        parts.append(summary.parallel)
    if summary.beside_mib:
        parts.append(f"beside {summary.beside_mib:.0f}")
    if workload.input_size:
        parts.append(str(workload.input_size))
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


class _Writer:
    """Adds the texts of layers, each followed by those of its children in parentheses.

    Equal layers mostly are one object, and so are equal arguments and children; the summary keeps them.
    """

    def __init__(self, parts: list[str]) -> None:
        self._parts = parts
        self._said: dict[int, str] = {}
        self._spans: dict[int, tuple[int, int]] = {}

    def write(self, found: tuple[Layer, ...]) -> None:
        """Add layers of one parent."""
        parts = self._parts
        start = len(parts)
        for number, layer in enumerate(found):
            if not number & OFTEN:
                breathe()
            parts.append(layer.text or self._say(layer))
            if layer.children:
                parts.append("(")
                span = self._spans.get(id(layer.children))
                if span is None:
                    self.write(layer.children)
                else:
                    parts += parts[span[0] : span[1]]
                parts.append(")")
        self._spans[id(found)] = start, len(parts)

    def _say(self, layer: Layer) -> str:
        shape, args = layer.output_shape, layer.args
        size = _SHAPES.get(shape) or keep(_SHAPES, shape, f"|{shape}|")
        said = (self._said.get(id(args)) or self._written(args)) if args else ""
        layer.text = f"{layer.type}|{layer.params}{size}{said}"
        return layer.text

    def _written(self, args: Args) -> str:
        written = _ARGS.get(args)
        if written is None:
            written = "\0".join([part for pair in args for part in pair])  # parsers leave no NUL in a text
            if len(written) <= _MOST_KEPT:
                keep(_ARGS, args, written)
        self._said[id(args)] = written
        return written
