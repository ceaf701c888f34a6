"""Builds the torch model of a configuration: synthetic plans, models of users, and of libraries. Needs torch.

torchvision, timm and transformers are imported only when one of their models is asked for. Nothing is
downloaded: every model starts from its configuration with random weights.
"""

from __future__ import annotations

import importlib
from copy import deepcopy
from typing import Any

from torch import nn

from estimator.dataset import libraries, modules, plain
from estimator.dataset.catalogues.catalogue import entry_of
from estimator.dataset.catalogues.entries import Entry
from estimator.dataset.plans import plan_of
from estimator.dataset.specs import Spec


def build_model(spec: Spec) -> nn.Module:
    """Build the model of a configuration on torch's default device, in fp32.

    Raises:
        ImportError: the library of a real model is not installed.
        Exception: whatever the library raises for a name or a configuration that it does not know.
    """
    if spec.source == "synthetic":
        return modules.build(plan_of(spec.family, spec.arch)[0])
    entry = entry_of(spec)
    if spec.source == "plain":
        return plain.MODELS[entry.name].make()
    if spec.source == "library":
        return libraries.build(entry)
    library = importlib.import_module(spec.source)
    if spec.source == "timm":
        made = library.create_model(
            entry.name, pretrained=False, num_classes=spec.arch["classes"], **_timm_size(spec, entry)
        )
    elif spec.source == "torchvision":
        made = _torchvision(entry, spec.arch["classes"])
    else:
        made = _transformers(library, entry, spec)
    model: nn.Module = made
    return model


def _timm_size(spec: Spec, entry: Entry) -> dict[str, Any]:
    """Return the picture's side as timm's vision transformers want it; convolutional ones take any."""
    return {} if entry.family == "cnn" or spec.arch["size"] == 224 else {"img_size": spec.arch["size"]}


def _torchvision(entry: Entry, classes: int) -> Any:
    models = importlib.import_module("torchvision.models")
    if entry.feed == "video":
        return models.get_model(entry.name, weights=None, num_classes=classes)
    if entry.feed == "flow":
        return models.get_model(entry.name, weights=None)
    if entry.feed == "boxes":
        return models.get_model(entry.name, weights=None, weights_backbone=None)
    if entry.feed == "dense_image":
        return models.get_model(entry.name, weights=None, weights_backbone=None, num_classes=21)
    extra = {"init_weights": False} if entry.name in ("inception_v3", "googlenet") else {}
    return models.get_model(entry.name, weights=None, num_classes=classes, **extra)


def _transformers(library: Any, entry: Entry, spec: Spec) -> Any:
    config = library.AutoConfig.for_model(entry.model_type, **deepcopy(entry.config))  # it may take dicts apart
    if "Classification" in entry.head:
        config.num_labels = spec.arch["classes"]
    if getattr(config, "pad_token_id", None) is None and entry.head.endswith("SequenceClassification"):
        config.pad_token_id = 0
    if entry.feed == "seq2seq" and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = 0
    extra = {"attn_implementation": entry.attention} if entry.attention else {}
    head = getattr(library, entry.head)
    return head.from_config(config, **extra) if entry.head.startswith("AutoModel") else head(config)
