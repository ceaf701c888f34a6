"""Builds the torch model of a configuration and feeds it: synthetic plans and real libraries. Needs torch.

torchvision, timm and transformers are imported only when one of their models is asked for. Nothing is
downloaded: every model starts from its configuration with random weights.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from estimator.dataset import libraries, modules
from estimator.dataset.catalogues.catalogue import entry_of
from estimator.dataset.catalogues.entries import Entry
from estimator.dataset.plain import more, others, own, pictures, read, seen
from estimator.dataset.plans import plan_of
from estimator.dataset.specs import Spec
from estimator.dataset.trace import Inputs

AUDIO_RATE = 16000
_WHISPER_FRAMES = 3000
_FRAMES = 16
_CHARACTERS = 2**16
_AST_FRAMES = (1024, 128)
_FRAMES_A_SECOND = 50
_SPOKEN = 64
_THINGS, _CLASSES = 5, 80
_MEL_FRAMES = 1000
_PLAIN = {
    **own.MODELS,
    **more.MODELS,
    **seen.MODELS,
    **read.MODELS,
    **pictures.MODELS,
    **others.MODELS,
}


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
        return _PLAIN[entry.name].make()
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


def feed(spec: Spec, model: nn.Module) -> Fed:
    """Say how a step of a configuration feeds its model; tensors are made on the model's device."""
    first = next(model.parameters())
    maker = _Maker(first.device, first.dtype)
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
    return Fed(model, lambda batch: ((), _hf_inputs(spec, entry, model, maker, batch)), _hf_loss)


def _hf_loss(out: Any, _: int) -> torch.Tensor:
    """Return the model's own loss, or squares of the first numbers of a model that has none."""
    loss = getattr(out, "loss", None)
    if loss is None:
        numbers = next(v for v in out.values() if isinstance(v, torch.Tensor) and v.is_floating_point())
        loss = numbers.square()
    return loss.mean() if loss.dim() else loss


@dataclass(frozen=True)
class _Maker:
    """Makes random tensors of one device and dtype."""

    device: torch.device
    dtype: torch.dtype

    def numbers(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=self.device, dtype=self.dtype)

    def labels(self, classes: int, *shape: int) -> torch.Tensor:
        return torch.randint(0, classes, shape, device=self.device)


def _feed_synthetic(spec: Spec, model: nn.Module, make: _Maker) -> Fed:
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


def _feed_pictures(spec: Spec, entry: Entry, model: nn.Module, make: _Maker) -> Fed:
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


def _feed_boxes(spec: Spec, entry: Entry, model: nn.Module, make: _Maker) -> Fed:
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


def _feed_flow(spec: Spec, _: Entry, model: nn.Module, make: _Maker) -> Fed:
    """Feed models that say what moved between two pictures; each of their rounds counts."""
    shape = (3, spec.arch["size"], spec.arch["size"])
    return Fed(
        model,
        lambda batch: ((make.numbers(batch, *shape), make.numbers(batch, *shape)), {}),
        lambda out, _: torch.stack([flow.abs().mean() for flow in out]).sum(),
    )


def _feed_plain(spec: Spec, model: nn.Module, make: _Maker) -> Fed:
    about = _PLAIN[spec.name]
    shape = about.shape or (spec.seq_len or 1,)

    def inputs(batch: int) -> Inputs:
        return ((make.labels(about.words, batch, *shape) if about.words else make.numbers(batch, *shape)),), {}

    return Fed(model, inputs, lambda out, _: own.loss_of(about, out, make.labels))


def _feed_given(spec: Spec, entry: Entry, model: nn.Module, make: _Maker) -> Fed:
    def inputs(batch: int) -> Inputs:
        return libraries.inputs(entry.given, batch, spec.seq_len or 0, make.numbers, make.labels)

    return Fed(model, inputs, lambda out, _: libraries.loss(entry, out, make.labels))


def _logits(out: Any) -> list[torch.Tensor]:
    if isinstance(out, torch.Tensor):
        return [out]
    values: Iterator[Any] = iter(out.values() if isinstance(out, dict) else out)
    return [value for value in values if isinstance(value, torch.Tensor)]


def _hf_inputs(spec: Spec, entry: Entry, model: Any, make: _Maker, batch: int) -> dict[str, Any]:
    if entry.feed in _OTHER_FEEDS:
        return _OTHER_FEEDS[entry.feed](spec, model.config, make, batch)
    if entry.feed in ("series", "timed_series"):
        return _series(model.config, make, batch)
    if entry.feed in ("image", "masked_image", "segment", "clip", "clip_video"):
        return _seen(spec, entry, model.config, make, batch)
    if entry.feed not in ("tokens", "seq2seq"):
        return _heard(spec, entry, model.config, make, batch)
    return _read(spec, entry, model.config, make, batch)


def _seen(spec: Spec, entry: Entry, config: Any, make: _Maker, batch: int) -> dict[str, Any]:
    classes = spec.arch["classes"]
    if entry.feed == "segment":
        side = spec.arch["size"]
        return {
            "pixel_values": make.numbers(batch, 3, side, side),
            "labels": make.labels(config.num_labels, batch, side, side),
        }
    if entry.feed == "clip_video":
        return {
            "pixel_values": make.numbers(batch, config.num_frames, 3, 224, 224),
            "labels": make.labels(classes, batch),
        }
    given: dict[str, Any] = {"pixel_values": make.numbers(batch, 3, 224, 224)}
    if entry.feed == "clip":
        ids = make.labels(config.text_config.vocab_size, batch, spec.seq_len or 0)
        return {"input_ids": ids, **given, "return_loss": True}
    return given if entry.feed == "masked_image" else {**given, "labels": make.labels(classes, batch)}


def _heard(spec: Spec, entry: Entry, config: Any, make: _Maker, batch: int) -> dict[str, Any]:
    classes, length = spec.arch["classes"], spec.seq_len or 0
    if entry.feed == "listen":
        words = make.labels(config.vocab_size - 2, batch, _SPOKEN) + 1
        return {"input_values": make.numbers(batch, AUDIO_RATE * length), "labels": words}
    if entry.feed == "features":
        width = config.feature_projection_input_dim
        return {
            "input_features": make.numbers(batch, _FRAMES_A_SECOND * length, width),
            "labels": make.labels(classes, batch),
        }
    if entry.feed == "audio":
        return {"input_values": make.numbers(batch, AUDIO_RATE * length), "labels": make.labels(classes, batch)}
    if entry.feed == "spectrogram":
        return {"input_values": make.numbers(batch, *_AST_FRAMES), "labels": make.labels(classes, batch)}
    features = make.numbers(batch, config.num_mel_bins, _WHISPER_FRAMES)
    return {"input_features": features, "labels": make.labels(config.vocab_size, batch, length)}


def _series(config: Any, make: _Maker, batch: int) -> dict[str, Any]:
    past, future = config.context_length, config.prediction_length
    if hasattr(config, "num_input_channels"):
        channels = config.num_input_channels
        return {
            "past_values": make.numbers(batch, past, channels),
            "future_values": make.numbers(batch, future, channels),
        }
    past += max(config.lags_sequence)
    return {
        "past_values": make.numbers(batch, past),
        "past_time_features": make.numbers(batch, past, config.num_time_features),
        "past_observed_mask": torch.ones(batch, past, device=make.device, dtype=make.dtype),
        "future_values": make.numbers(batch, future),
        "future_time_features": make.numbers(batch, future, config.num_time_features),
    }


def _read(spec: Spec, entry: Entry, config: Any, make: _Maker, batch: int) -> dict[str, Any]:
    classes, length = spec.arch["classes"], spec.seq_len or 0
    vocabulary = getattr(config, "vocab_size", _CHARACTERS)
    ids = make.labels(vocabulary - 2, batch, length) + 1
    given: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if entry.head.endswith("SequenceClassification"):
        given["labels"] = make.labels(classes, batch)
    elif entry.head.endswith("TokenClassification"):
        given["labels"] = make.labels(classes, batch, length)
    elif entry.head.endswith("QuestionAnswering"):
        given["start_positions"] = make.labels(length, batch)
        given["end_positions"] = make.labels(length, batch)
    else:
        given["labels"] = ids
    return given


def _pixels(spec: Spec, make: _Maker, batch: int) -> torch.Tensor:
    return make.numbers(batch, 3, spec.arch["size"], spec.arch["size"])


def _detect(spec: Spec, config: Any, make: _Maker, batch: int) -> dict[str, Any]:
    boxes = torch.tensor([[0.5, 0.5, 0.3, 0.3]], device=make.device, dtype=make.dtype).repeat(_THINGS, 1)
    things = [{"class_labels": make.labels(config.num_labels, _THINGS), "boxes": boxes} for _ in range(batch)]
    return {"pixel_values": _pixels(spec, make, batch), "labels": things}


def _masks(spec: Spec, config: Any, make: _Maker, batch: int) -> dict[str, Any]:
    side = spec.arch["size"]
    return {
        "pixel_values": _pixels(spec, make, batch),
        "mask_labels": [make.labels(2, _THINGS, side, side).to(make.dtype) for _ in range(batch)],
        "class_labels": [make.labels(config.num_labels, _THINGS) for _ in range(batch)],
    }


def _depth(spec: Spec, _: Any, make: _Maker, batch: int) -> dict[str, Any]:
    pixels = _pixels(spec, make, batch)
    return {"pixel_values": pixels, "labels": pixels[:, 0].abs() + 1}


def _caption(spec: Spec, config: Any, make: _Maker, batch: int) -> dict[str, Any]:
    words = make.labels(config.decoder.vocab_size - 2, batch, spec.seq_len or 0) + 1
    return {"pixel_values": _pixels(spec, make, batch), "labels": words}


def _read_picture(spec: Spec, config: Any, make: _Maker, batch: int) -> dict[str, Any]:
    words = getattr(config, "vocab_size", 0) or config.text_config.vocab_size
    ids = make.labels(words - 2, batch, spec.seq_len or 40) + 1
    labels = {} if config.model_type == "vilt" else {"labels": ids}
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "pixel_values": _pixels(spec, make, batch),
        **labels,
    }


def _tokens_of_picture(config: Any, side: int) -> int:
    """How many places among the words a picture takes."""
    if config.model_type == "blip-2":
        return int(config.num_query_tokens)
    patch = config.vision_config.patch_size
    across = side // (patch if isinstance(patch, int) else patch[0])
    shrunk = getattr(config, "scale_factor", 0) or getattr(config, "downsample_factor", 0)
    shrunk = shrunk or round(1 / getattr(config, "downsample_ratio", 1))
    return int((across // shrunk) ** 2)


def _words_behind(spec: Spec, config: Any, make: _Maker, batch: int, places: int) -> dict[str, Any]:
    """Words behind the places that a picture takes among them."""
    image, most = config.image_token_id, config.text_config.vocab_size
    words = make.labels(min(image, most) - 2, batch, max(8, (spec.seq_len or 0) - places)) + 1
    ids = torch.cat([torch.full((batch, places), image, device=make.device), words], 1)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


def _placed(spec: Spec, config: Any, make: _Maker, batch: int) -> dict[str, Any]:
    given = _words_behind(spec, config, make, batch, _tokens_of_picture(config, spec.arch["size"]))
    if config.model_type == "paligemma":
        given["token_type_ids"] = (given["input_ids"] != config.image_token_id).long()
    pixels = _pixels(spec, make, batch)
    return {**given, "pixel_values": pixels[:, None] if config.model_type in ("idefics3", "smolvlm") else pixels}


def _gridded(spec: Spec, config: Any, make: _Maker, batch: int) -> dict[str, Any]:
    """A picture cut into patches of two moments each, as Qwen2-VL and its kin take it."""
    seen = config.vision_config
    across = spec.arch["size"] // seen.patch_size
    width = 3 * seen.temporal_patch_size * seen.patch_size**2
    given = _words_behind(spec, config, make, batch, (across // seen.spatial_merge_size) ** 2)
    return {
        **given,
        "mm_token_type_ids": (given["input_ids"] == config.image_token_id).int(),
        "pixel_values": make.numbers(batch * across**2, width),
        "image_grid_thw": torch.tensor([[1, across, across]] * batch, device=make.device),
    }


def _films(spec: Spec, config: Any, make: _Maker, batch: int) -> dict[str, Any]:
    side = spec.arch["size"]
    films = make.numbers(batch, config.frames_per_clip, 3, side, side)
    return {"pixel_values_videos": films, "labels": make.labels(config.num_labels, batch)}


def _mel(spec: Spec, config: Any, make: _Maker, batch: int) -> dict[str, Any]:
    about = getattr(config, "encoder_config", config)
    bins = getattr(about, "num_mel_bins", 80)
    words = make.labels(config.vocab_size - 2, batch, spec.seq_len or 0) + 1
    heard = torch.ones(batch, _MEL_FRAMES, device=make.device, dtype=torch.long)
    return {"input_features": make.numbers(batch, _MEL_FRAMES, bins), "attention_mask": heard, "labels": words}


def _trajectory(spec: Spec, config: Any, make: _Maker, batch: int) -> dict[str, Any]:
    length = spec.seq_len or 1
    return {
        "states": make.numbers(batch, length, config.state_dim),
        "actions": make.numbers(batch, length, config.act_dim),
        "rewards": make.numbers(batch, length, 1),
        "returns_to_go": make.numbers(batch, length, 1),
        "timesteps": make.labels(config.max_ep_len, batch, length),
        "attention_mask": torch.ones(batch, length, device=make.device, dtype=torch.long),
    }


_OTHER_FEEDS: dict[str, Callable[[Spec, Any, _Maker, int], dict[str, Any]]] = {
    "pixels": lambda spec, _, make, batch: {"pixel_values": _pixels(spec, make, batch)},
    "detect": _detect,
    "masks": _masks,
    "depth": _depth,
    "caption": _caption,
    "read_picture": _read_picture,
    "placed": _placed,
    "gridded": _gridded,
    "films": _films,
    "mel": _mel,
    "trajectory": _trajectory,
}
