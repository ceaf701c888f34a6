"""Feeds the torch model of a configuration: what goes into it, and the loss of what comes out. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from estimator.dataset import libraries, plain
from estimator.dataset.catalogues.catalogue import entry_of
from estimator.dataset.catalogues.entries import Entry
from estimator.dataset.feeds_transformers import inputs_of
from estimator.dataset.maker import Maker
from estimator.dataset.plain.model import loss_of
from estimator.dataset.plans import plan_of
from estimator.dataset.specs import Spec
from estimator.dataset.trace import Inputs

_FRAMES = 16
_THINGS, _CLASSES = 5, 80


@dataclass(frozen=True)
class Fed:
    """A model and how a step feeds it.

    Attributes:
        model: the module.
        inputs: makes the arguments for a batch size.
        loss: makes a loss from the model's output and the batch size.
    """

    model: nn.Module
    inputs: Callable[[int], Inputs]
    loss: Callable[[Any, int], torch.Tensor]


def feed(spec: Spec, model: nn.Module) -> Fed:
    """Say how a step of a configuration feeds its model; tensors are made on the model's device."""
    first = next(model.parameters())
    maker = Maker(first.device, first.dtype)
    if spec.source == "synthetic":
        return _feed_synthetic(spec, model, maker)
    entry = entry_of(spec)
    if spec.source == "plain":
        return _feed_plain(spec, model, maker)
    if entry.given:
        return _feed_given(spec, entry, model, maker)
    if spec.source != "transformers":
        special = {"boxes": _feed_boxes, "flow": _feed_flow}.get(entry.feed, _feed_pictures)
        return special(spec, entry, model, maker)
    return Fed(model, lambda batch: ((), inputs_of(spec, entry, model.config, maker, batch)), _own_loss)


def _own_loss(out: Any, _: int) -> torch.Tensor:
    """Return the model's own loss, or squares of the first numbers of a model that has none."""
    loss = getattr(out, "loss", None)
    if loss is None:
        numbers = next(v for v in out.values() if isinstance(v, torch.Tensor) and v.is_floating_point())
        loss = numbers.square()
    return loss.mean() if loss.dim() else loss


def _feed_synthetic(spec: Spec, model: nn.Module, make: Maker) -> Fed:
    _, shape = plan_of(spec.family, spec.arch)
    targets: dict[int, torch.Tensor] = {}

    def inputs(batch: int) -> Inputs:
        if spec.family == "transformer":
            return (make.labels(spec.arch["vocab"], batch, *shape),), {}
        return (make.numbers(batch, *shape),), {}

    def loss(out: torch.Tensor, batch: int) -> torch.Tensor:
        if batch not in targets:
            places = (batch, *out.shape[1:-1])
            targets[batch] = make.labels(out.shape[-1], *places).reshape(-1)
        return nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]), targets[batch])

    return Fed(model, inputs, loss)


def _feed_pictures(spec: Spec, entry: Entry, model: nn.Module, make: Maker) -> Fed:
    size = spec.arch["size"]
    targets: dict[tuple[int, ...], torch.Tensor] = {}

    def target(logits: torch.Tensor) -> torch.Tensor:
        key = (logits.shape[0], *logits.shape[2:])
        if key not in targets:
            targets[key] = make.labels(logits.shape[1], *key)
        return targets[key]

    def loss(out: Any, batch: int) -> torch.Tensor:
        # Auxiliary heads (Inception, GoogLeNet, segmentation) count with 0.4, as their papers do.
        main, *aux = _logits(out)
        total = nn.functional.cross_entropy(main, target(main))
        for logits in aux:
            total = total + 0.4 * nn.functional.cross_entropy(logits, target(logits))
        return total

    shape = (3, _FRAMES, size, size) if entry.feed == "video" else (3, size, size)
    return Fed(model, lambda batch: ((make.numbers(batch, *shape),), {}), loss)


def _feed_boxes(spec: Spec, entry: Entry, model: nn.Module, make: Maker) -> Fed:
    """Feed torchvision's detectors: lists of pictures and of what is in them."""
    size = spec.arch["size"]

    def inputs(batch: int) -> Inputs:
        corners = torch.tensor([[0.1, 0.1, 0.6, 0.6]], device=make.device).repeat(_THINGS, 1) * size
        thing: dict[str, torch.Tensor] = {"boxes": corners, "labels": make.labels(_CLASSES, _THINGS) + 1}
        if entry.name.startswith("mask"):
            thing["masks"] = torch.ones(_THINGS, size, size, device=make.device, dtype=torch.uint8)
        if entry.name.startswith("keypoint"):
            thing["labels"] = torch.ones_like(thing["labels"])
            thing["keypoints"] = torch.full((_THINGS, 17, 3), size / 3.0, device=make.device)
        return ([make.numbers(3, size, size) for _ in range(batch)], [dict(thing) for _ in range(batch)]), {}

    return Fed(model, inputs, lambda out, _: torch.stack(list(out.values())).sum())


def _feed_flow(spec: Spec, _: Entry, model: nn.Module, make: Maker) -> Fed:
    """Feed models that say what moved between two pictures; each of their rounds counts."""
    shape = (3, spec.arch["size"], spec.arch["size"])
    return Fed(
        model,
        lambda batch: ((make.numbers(batch, *shape), make.numbers(batch, *shape)), {}),
        lambda out, _: torch.stack([flow.abs().mean() for flow in out]).sum(),
    )


def _feed_plain(spec: Spec, model: nn.Module, make: Maker) -> Fed:
    about = plain.MODELS[spec.name]
    shape = about.shape or (spec.seq_len or 1,)

    def inputs(batch: int) -> Inputs:
        return ((make.labels(about.words, batch, *shape) if about.words else make.numbers(batch, *shape)),), {}

    return Fed(model, inputs, lambda out, _: loss_of(about, out, make.labels))


def _feed_given(spec: Spec, entry: Entry, model: nn.Module, make: Maker) -> Fed:
    def inputs(batch: int) -> Inputs:
        return libraries.inputs(entry.given, batch, spec.seq_len or 0, make.numbers, make.labels)

    return Fed(model, inputs, lambda out, _: libraries.loss(entry, out, make.labels))


def _logits(out: Any) -> list[torch.Tensor]:
    if isinstance(out, torch.Tensor):
        return [out]
    values: Iterator[Any] = iter(out.values() if isinstance(out, dict) else out)
    return [value for value in values if isinstance(value, torch.Tensor)]
