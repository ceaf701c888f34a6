"""Fills in the shapes that a summary does not show. Pure."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import Final

from estimator import input_size, pools
from estimator.layer import Layer
from estimator.shapes.folded import unfolded
from estimator.shapes.follower import Follower
from estimator.shapes.start import sides_said
from estimator.shapes.tables import (
    ATTENDS,
    GATHERS,
    batch_found,
    from_inputs,
    hidden_graphs,
    nodes_of,
    windows,
    with_length,
)
from estimator.shapes.time_first import with_steps
from estimator.types import ModelSummary, SummaryError, Workload
from estimator.walk import layers

# Learned arrays that take the input's place.
_LATENT: Final[tuple[str, ...]] = ("PerceiverEmbeddings",)


def with_shapes(summary: ModelSummary, workload: Workload) -> ModelSummary:
    """Fill in the output shapes that the summary does not show.

    Args:
        summary: the model.
        workload: gives ``seq_len`` and ``input_size``.

    Returns:
        The same summary where every layer without children shows its shape already, else one with shapes and with a
        sentence for each assumption. Where the workload's input size or length is none that the summary was printed
        for, its note says so.

    Raises:
        SummaryError: a print says too little of this kind of model, or the input size is none for it.
    """
    summary = with_length(summary, workload.seq_len)
    found = layers(summary.root)
    types = {layer.type for layer in found}
    turned = with_steps(summary, found, types, workload)
    batched = _with_batch(turned, found if turned.root is summary.root else layers(turned.root), types, workload)
    if batched is not summary:
        summary, found = batched, layers(batched.root)
    if workload.input_size and any(layer.output_shape or layer.input_shape for layer in found):
        note = input_size.contradiction(summary, workload.input_size)
        if note:
            summary = replace(summary, note=_both(note, summary.unused), inferred=(*summary.inferred, note))
    if workload.seq_len and (note := input_size.other_length(found, workload.seq_len)):
        note = _both(note, summary.unused)
        summary = replace(summary, note=note, unused=note)
    missing = [layer for layer in found if layer.output_shape is None and not layer.children]
    if not missing:
        if summary.format == "torchsummary" and (rows := unfolded(summary)) is not summary.root.children:
            return replace(summary, root=summary.root.but(children=rows))
        if summary.format == "torchsummary" and any(ATTENDS in type_ for type_ in types):
            return replace(summary, root=summary.root.but(children=windows(summary.root.children)))
        return summary
    if any(layer.output_shape for layer in found):
        return summary  # what has no shape there is a list of layers, or was never called
    if any(layer.input_shape for layer in found):
        return replace(summary, root=from_inputs(summary.root))
    if not types.isdisjoint(_LATENT):
        raise SummaryError(
            f"a print of {found[0].type[:80]} shows neither its latent array nor how often its blocks run: "
            "paste what torchinfo prints with depth=20"
        )
    said = sides_said(found, workload)
    pooled = pools.repeated(pools.in_stages(summary.root, found, said), said)
    pooled = pools.grown_again(pools.behind_transitions(pools.called_again(pooled, found, types), types), types)
    if pooled is not summary.root:
        found = layers(pooled)
    follower = Follower(found, workload)
    root, _ = follower.follow(pooled, follower.begins.shape)
    inferred = (*summary.inferred, *follower.begins.inferred)
    note = _both(follower.begins.note, summary.unused)
    return replace(summary, root=root, inferred=inferred, guessed=follower.sources.guessed, note=note)


def _both(note: str, other: str) -> str:
    return f"{note}; {other}" if note and other else note or other


def _with_batch(summary: ModelSummary, found: list[Layer], types: Set[str], workload: Workload) -> ModelSummary:
    """Give a table of samples where its first dimensions are something else: nodes, or the tokens of a batch."""
    if any(type_.endswith(GATHERS) for type_ in types) or hidden_graphs(summary, found, types):
        return nodes_of(summary, found, workload.batch_size)
    return batch_found(summary, found, workload.batch_size) if summary.format == "torchinfo" else summary
