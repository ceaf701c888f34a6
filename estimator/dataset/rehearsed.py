"""Rehearses the data set's real models: steps of their own code on tensors without data. Needs torch."""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from estimator.dataset.models import build_model, feed
from estimator.dataset.specs import Spec, spec_from_json
from estimator.dataset.trace import Inputs
from estimator.dataset.worker import Pipe, describe
from estimator.faketensor import fake_model
from estimator.rehearse import rehearse

BATCHES = (16, 32)


def rehearsed(spec: Spec) -> list[list[Any]]:
    """Rehearse the model of a configuration.

    Args:
        spec: how it is run; only the model and the shape of one sample matter.

    Returns:
        For each rehearsal kind, precision, and batch size and MiB of both points.
    """
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    model = fake_model(lambda: build_model(spec), fake)

    def inputs(model: Any, batch: int) -> Inputs:
        return feed(spec, model).inputs(batch)

    found = []
    for item in rehearse(model, fake, inputs, BATCHES):
        points = [number for batch, mib in item.points for number in (batch, round(mib, 1))]
        found.append([item.kind, item.precision, *points])
    return found


def main(pipe: Pipe, device: str, seconds: float, traces: bool) -> None:
    """Work for a `Collector`: rows hold what was rehearsed; the other arguments mean nothing here."""
    del device, seconds, traces
    torch.set_num_threads(1)
    with suppress(EOFError, BrokenPipeError):
        while True:
            pipe.send(("next", 0.0))
            specs = pipe.recv()
            if specs is None:
                return
            for spec in map(spec_from_json, specs):
                try:
                    row = {"spec": spec.to_json(), "rehearsed": rehearsed(spec)}
                except Exception as error:  # a library's model may raise anything
                    pipe.send(("failed", spec.id, describe(error)))
                    continue
                pipe.send(("row", row))
            gc.collect()
