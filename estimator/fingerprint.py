"""One name for a model run in one way, under which its measured memory is found again. Pure."""

from __future__ import annotations

import hashlib

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
    known: dict[int, str] = {}
    shapes: dict[tuple[int, ...] | None, str] = {}
    said_by: dict[int, str] = {}  # by id: layers of equal arguments mostly share them, and the summary keeps them
    stack: list[Layer | None] = [summary.root]
    while stack:
        layer = stack.pop()
        if layer is None:
            parts.append(")")
            continue
        text = known.get(id(layer))
        if text is None:
            shape = shapes.get(layer.output_shape)
            if shape is None:
                shape = shapes[layer.output_shape] = str(layer.output_shape)
            said = said_by.get(id(layer.args))
            if said is None:
                said = said_by[id(layer.args)] = str(layer.args) if layer.args else ""
            text = known[id(layer)] = f"{layer.type}|{layer.params}|{shape}|{said}"
        parts.append(text)
        if layer.children:
            parts.append("(")
            stack.append(None)
            stack.extend(reversed(layer.children))
    parts.append(
        f"{workload.batch_size}|{workload.seq_len}|{workload.optimizer if workload.kind == 'train' else ''}|"
        f"{workload.precision}|{workload.kind}|{canonical(workload.gpu)}|{summary.total_params}"
    )
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
