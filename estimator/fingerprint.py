"""One name for a model run in one way, under which its measured memory is found again. Pure."""

from __future__ import annotations

import hashlib
from typing import Final

from estimator.breath import OFTEN, breathe
from estimator.gpus import canonical
from estimator.kept import keep
from estimator.types import Layer, ModelSummary, Workload

# What is written of shapes, between two bars.
_SHAPES: Final[dict[tuple[int, ...] | None, str]] = {}


def fingerprint(summary: ModelSummary, workload: Workload) -> str:
    """Hash what decides a job's memory: layers, batch size and lengths, optimizer, precision, kind, GPU, input size.

    The names of layers, the batch size that the summary was printed with and everything around the table do not count,
    and neither does the optimizer of a job that only infers.

    Returns:
        32 hexadecimal digits.
    """
    parts: list[str] = []
    _Writer(parts).write((summary.root,))
    parts.append(
        f"{workload.batch_size}|{workload.seq_len}|{workload.optimizer if workload.kind == 'train' else ''}|"
        f"{workload.precision}|{workload.kind}|{canonical(workload.gpu)}|{summary.total_params}"
    )
    if workload.input_size:
        parts.append(str(workload.input_size))
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


class _Writer:
    """Adds the texts of layers, each followed by those of its children in parentheses.

    Equal layers mostly are one object, and so are equal arguments and children; the summary keeps them.
    """

    def __init__(self, parts: list[str]) -> None:
        self._parts = parts
        self._known: dict[int, str] = {}
        self._said: dict[int, str] = {}
        self._spans: dict[int, tuple[int, int]] = {}

    def write(self, found: tuple[Layer, ...]) -> None:
        """Add layers of one parent."""
        parts, known, said = self._parts, self._known, self._said
        start = len(parts)
        for number, layer in enumerate(found):
            if not number & OFTEN:
                breathe()
            text = known.get(id(layer))
            if text is None:
                type_, params, shape, _, args, _, _ = layer
                size = _SHAPES.get(shape) or keep(_SHAPES, shape, f"|{shape}|")
                arguments = (said.get(id(args)) or self._say(args)) if args else ""
                text = known[id(layer)] = f"{type_}|{params}{size}{arguments}"
            parts.append(text)
            if layer.children:
                parts.append("(")
                span = self._spans.get(id(layer.children))
                if span is None:
                    self.write(layer.children)
                else:
                    parts += parts[span[0] : span[1]]
                parts.append(")")
        self._spans[id(found)] = start, len(parts)

    def _say(self, args: tuple[tuple[str, str], ...]) -> str:
        said = self._said[id(args)] = str(args)
        return said
