"""Rehearses the data set's runs: steps of each model's own code on tensors without data. Needs torch."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from typing import Any

import torch

from estimator.dataset.feeds import feed
from estimator.dataset.models import build_model
from estimator.dataset.specs import Spec
from estimator.dataset.trace import Inputs
from estimator.dataset.worker import Pipe, ask, describe
from estimator.faketensor import fake_mode, fake_model
from estimator.methods.rad import Rad
from estimator.methods.rad.convolutions import Convolves
from estimator.rehearsals.lines import PRECISIONS, like
from estimator.rehearsals.rehearse import Subject, points_of
from estimator.types import Kind, Point, Precision


def rehearsed(specs: Iterable[Spec], convolves: Convolves) -> Iterator[tuple[Spec, Point | str]]:
    """Rehearse runs of one model; what is alike is done once.

    Args:
        specs: how it is run.
        convolves: says how much workspace convolutions take.

    Returns:
        What each run takes, or why that cannot be told.
    """
    todo = sorted(specs, key=_alike)
    fake = fake_mode()
    model = fake_model(lambda: build_model(todo[0]), fake)
    for (_, kind, batch, _), group in groupby(todo, _alike):
        runs = list(group)
        precision: Precision = runs[0].precision

        def inputs(model: Any, batch: int, spec: Spec = runs[0]) -> Inputs:
            args, kwargs = feed(spec, model).inputs(batch)
            # It masks nothing, which transformers sees in its values; here it has none.
            return args, {name: value for name, value in kwargs.items() if name != "attention_mask"}

        optimizers = {like(run.optimizer) for run in runs}
        try:
            points = points_of(Subject(model, fake, inputs, convolves), kind, precision, batch, sorted(optimizers))
        except Exception as error:  # a library's model may raise anything
            yield from ((run, describe(error)) for run in runs)
            continue
        yield from ((run, points[None if kind == "infer" else like(run.optimizer)]) for run in runs)


def _alike(spec: Spec) -> tuple[int, Kind, int, int]:
    return PRECISIONS.index(spec.precision), spec.kind, spec.batch_size, spec.seq_len or 0


def main(pipe: Pipe, device: str, seconds: float, traces: bool) -> None:
    """Work for a `Collector`: rows hold what was rehearsed; the other arguments mean nothing here."""
    del device, seconds, traces
    torch.set_num_threads(1)
    convolves = Rad.load().convolves
    with suppress(EOFError, BrokenPipeError):
        while (specs := ask(pipe)) is not None:
            _work(pipe, specs, convolves)
            gc.collect()


def _work(pipe: Pipe, specs: list[Spec], convolves: Convolves) -> None:
    left = {spec.id for spec in specs}
    try:
        for spec, found in rehearsed(specs, convolves):
            left.discard(spec.id)
            if isinstance(found, str):
                pipe.send(("failed", spec.id, found))
            else:
                pipe.send(("row", {"spec": spec.to_json(), "rehearsed": list(found[1:])}))
    except Exception as error:  # where it is built
        for spec_id in left:
            pipe.send(("failed", spec_id, describe(error)))
