"""One name for a model run in one way, under which its measured memory is found again. Pure."""

from __future__ import annotations

import hashlib
from functools import lru_cache

from estimator.compiled import breathe
from estimator.gpus import canonical
from estimator.types import Layer, ModelSummary, Workload


def fingerprint(summary: ModelSummary, workload: Workload) -> str:
    """Hash what decides a job's memory: layers, batch size, sequence length, optimizer, precision, kind and GPU.

    The names of layers, the batch size that the summary was printed with and everything around the table do not count,
    and neither does the optimizer of a job that only infers.

    Returns:
        32 hexadecimal digits.
    """
    parts: list[str] = []
    _write((summary.root,), parts, {}, {})
    parts.append(
        f"{workload.batch_size}|{workload.seq_len}|{workload.optimizer if workload.kind == 'train' else ''}|"
        f"{workload.precision}|{workload.kind}|{canonical(workload.gpu)}|{summary.total_params}"
    )
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _write(found: tuple[Layer, ...], parts: list[str], known: dict[int, str], said: dict[int, str]) -> None:
    """Add the texts of layers, each followed by those of its children in parentheses.

    Args:
        found: layers of one parent.
        parts: gets the texts.
        known: texts so far, by the layer's id: equal layers mostly are one object, and the summary keeps them.
        said: texts of arguments so far, likewise.
    """
    breathe()
    for layer in found:
        text = known.get(id(layer))
        if text is None:
            type_, params, shape, _, args, _, _ = layer
            arguments = ""
            if args:
                arguments = said.get(id(args)) or said.setdefault(id(args), str(args))
            text = known[id(layer)] = f"{type_}|{params}|{_shape(shape)}|{arguments}"
        parts.append(text)
        if layer.children:
            parts.append("(")
            _write(layer.children, parts, known, said)
            parts.append(")")


@lru_cache(maxsize=4096)  # shapes come from users: a bounded cache
def _shape(shape: tuple[int, ...] | None) -> str:
    return str(shape)
