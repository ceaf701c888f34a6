"""What goes into transformers' models, by the feed that the catalogue names. Needs torch, not transformers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from estimator.dataset.catalogues.entries import Entry, Feed
from estimator.dataset.maker import Maker
from estimator.dataset.specs import Spec

_RATE = 16000  # numbers of a second of sound
_FRAMES_A_SECOND = 50
_SPOKEN = 64  # words of what is listened to
_WHISPER_FRAMES = 3000
_AST_FRAMES = (1024, 128)
_MEL_FRAMES = 1000
_CHARACTERS = 2**16
_THINGS = 5  # in a picture
_SIDE = 224


@dataclass(frozen=True)
class _Batch:
    """A batch for a model, and what it is made of.

    Attributes:
        spec: how the model is run.
        entry: what the catalogue says of it.
        config: its configuration, as the library made it.
        make: makes tensors.
        size: samples.
    """

    spec: Spec
    entry: Entry
    config: Any
    make: Maker
    size: int

    @property
    def length(self) -> int:
        """Tokens of a sample, or its seconds."""
        return self.spec.seq_len or 0

    def numbers(self, *shape: int) -> torch.Tensor:
        """Make numbers; of one sample they have this shape."""
        return self.make.numbers(self.size, *shape)

    def labels(self, classes: int, *shape: int) -> torch.Tensor:
        """Make whole numbers below ``classes``."""
        return self.make.labels(classes, self.size, *shape)

    def classes(self, *shape: int) -> torch.Tensor:
        """Make one of the configuration's classes for each sample, or each place of it."""
        return self.labels(self.spec.arch["classes"], *shape)

    def words(self, vocabulary: int, *shape: int) -> torch.Tensor:
        """Make words that are neither the first nor the last of the vocabulary."""
        return self.labels(vocabulary - 2, *shape) + 1

    def pictures(self, *axes: int) -> torch.Tensor:
        """Make pictures of the configuration's size; films with frames before the channels."""
        side = self.spec.arch["size"]
        return self.numbers(*(axes or (3,)), side, side)

    def ones(self, *shape: int) -> torch.Tensor:
        """Make a mask that masks nothing."""
        return torch.ones(self.size, *shape, device=self.make.device, dtype=torch.long)


_Given = dict[str, Any]


def inputs_of(spec: Spec, entry: Entry, config: Any, make: Maker, size: int) -> _Given:
    """Make the named arguments of a model of transformers.

    Args:
        spec: how the model is run.
        entry: what the catalogue says of it.
        config: its configuration, as the library made it.
        make: makes tensors.
        size: samples.

    Raises:
        KeyError: the catalogue names a feed that transformers' models do not have.
    """
    return _FEEDS[entry.feed](_Batch(spec, entry, config, make, size))


def _clip(b: _Batch) -> _Given:
    pixels = b.numbers(3, _SIDE, _SIDE)
    ids = b.labels(b.config.text_config.vocab_size, b.length)
    return {"input_ids": ids, "pixel_values": pixels, "return_loss": True}


def _segment(b: _Batch) -> _Given:
    side = b.spec.arch["size"]
    return {"pixel_values": b.pictures(), "labels": b.labels(b.config.num_labels, side, side)}


def _listen(b: _Batch) -> _Given:
    words = b.words(b.config.vocab_size, _SPOKEN)
    return {"input_values": b.numbers(_RATE * b.length), "labels": words}


def _series(b: _Batch) -> _Given:
    past, future = b.config.context_length, b.config.prediction_length
    if hasattr(b.config, "num_input_channels"):
        channels = b.config.num_input_channels
        return {"past_values": b.numbers(past, channels), "future_values": b.numbers(future, channels)}
    past += max(b.config.lags_sequence)
    return {
        "past_values": b.numbers(past),
        "past_time_features": b.numbers(past, b.config.num_time_features),
        "past_observed_mask": b.ones(past).to(b.make.dtype),
        "future_values": b.numbers(future),
        "future_time_features": b.numbers(future, b.config.num_time_features),
    }


def _read(b: _Batch) -> _Given:
    ids = b.words(getattr(b.config, "vocab_size", _CHARACTERS), b.length)
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if b.entry.head.endswith("QuestionAnswering"):
        ends = ("start_positions", "end_positions")
        return {**given, **{end: b.labels(b.length) for end in ends}}
    if b.entry.head.endswith("SequenceClassification"):
        return {**given, "labels": b.classes()}
    return {**given, "labels": b.classes(b.length) if b.entry.head.endswith("TokenClassification") else ids}


def _detect(b: _Batch) -> _Given:
    boxes = torch.tensor([[0.5, 0.5, 0.3, 0.3]], device=b.make.device, dtype=b.make.dtype).repeat(_THINGS, 1)
    things = [{"class_labels": b.make.labels(b.config.num_labels, _THINGS), "boxes": boxes} for _ in range(b.size)]
    return {"pixel_values": b.pictures(), "labels": things}


def _masks(b: _Batch) -> _Given:
    side = b.spec.arch["size"]
    return {
        "pixel_values": b.pictures(),
        "mask_labels": [b.make.labels(2, _THINGS, side, side).to(b.make.dtype) for _ in range(b.size)],
        "class_labels": [b.make.labels(b.config.num_labels, _THINGS) for _ in range(b.size)],
    }


def _depth(b: _Batch) -> _Given:
    pixels = b.pictures()
    return {"pixel_values": pixels, "labels": pixels[:, 0].abs() + 1}


def _caption(b: _Batch) -> _Given:
    words = b.words(b.config.decoder.vocab_size, b.length)
    return {"pixel_values": b.pictures(), "labels": words}


def _read_picture(b: _Batch) -> _Given:
    ids = b.words(getattr(b.config, "vocab_size", 0) or b.config.text_config.vocab_size, b.length or 40)
    labels = {} if b.config.model_type == "vilt" else {"labels": ids}
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "pixel_values": b.pictures(), **labels}


def _tokens_of_picture(config: Any, side: int) -> int:
    """How many places among the words a picture takes."""
    if config.model_type == "blip-2":
        return int(config.num_query_tokens)
    patch = config.vision_config.patch_size
    across = side // (patch if isinstance(patch, int) else patch[0])
    shrunk = getattr(config, "scale_factor", 0) or getattr(config, "downsample_factor", 0)
    shrunk = shrunk or round(1 / getattr(config, "downsample_ratio", 1))
    return int((across // shrunk) ** 2)


def _words_behind(b: _Batch, places: int) -> _Given:
    """Words behind the places that a picture takes among them."""
    image, most = b.config.image_token_id, b.config.text_config.vocab_size
    words = b.words(min(image, most), max(8, b.length - places))
    ids = torch.cat([torch.full((b.size, places), image, device=b.make.device), words], 1)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


def _placed(b: _Batch) -> _Given:
    given = _words_behind(b, _tokens_of_picture(b.config, b.spec.arch["size"]))
    if b.config.model_type == "paligemma":
        given["token_type_ids"] = (given["input_ids"] != b.config.image_token_id).long()
    pixels = b.pictures()
    return {**given, "pixel_values": pixels[:, None] if b.config.model_type in ("idefics3", "smolvlm") else pixels}


def _gridded(b: _Batch) -> _Given:
    """A picture cut into patches of two moments each, as Qwen2-VL and its kin take it."""
    seen = b.config.vision_config
    across = b.spec.arch["size"] // seen.patch_size
    width = 3 * seen.temporal_patch_size * seen.patch_size**2
    given = _words_behind(b, (across // seen.spatial_merge_size) ** 2)
    return {
        **given,
        "mm_token_type_ids": (given["input_ids"] == b.config.image_token_id).int(),
        "pixel_values": b.make.numbers(b.size * across**2, width),
        "image_grid_thw": torch.tensor([[1, across, across]] * b.size, device=b.make.device),
    }


def _mel(b: _Batch) -> _Given:
    bins = getattr(getattr(b.config, "encoder_config", b.config), "num_mel_bins", 80)
    words = b.words(b.config.vocab_size, b.length)
    return {"input_features": b.numbers(_MEL_FRAMES, bins), "attention_mask": b.ones(_MEL_FRAMES), "labels": words}


def _trajectory(b: _Batch) -> _Given:
    length = b.spec.seq_len or 1
    return {
        "states": b.numbers(length, b.config.state_dim),
        "actions": b.numbers(length, b.config.act_dim),
        "rewards": b.numbers(length, 1),
        "returns_to_go": b.numbers(length, 1),
        "timesteps": b.labels(b.config.max_ep_len, length),
        "attention_mask": b.ones(length),
    }


_FEEDS: dict[Feed, Callable[[_Batch], _Given]] = {
    "audio": lambda b: {"input_values": b.numbers(_RATE * b.length), "labels": b.classes()},
    "caption": _caption,
    "clip": _clip,
    "clip_video": lambda b: {
        "pixel_values": b.numbers(b.config.num_frames, 3, _SIDE, _SIDE),
        "labels": b.classes(),
    },
    "depth": _depth,
    "detect": _detect,
    "features": lambda b: {
        "input_features": b.numbers(_FRAMES_A_SECOND * b.length, b.config.feature_projection_input_dim),
        "labels": b.classes(),
    },
    "films": lambda b: {
        "pixel_values_videos": b.pictures(b.config.frames_per_clip, 3),
        "labels": b.labels(b.config.num_labels),
    },
    "gridded": _gridded,
    "image": lambda b: {"pixel_values": b.numbers(3, _SIDE, _SIDE), "labels": b.classes()},
    "listen": _listen,
    "masked_image": lambda b: {"pixel_values": b.numbers(3, _SIDE, _SIDE)},
    "masks": _masks,
    "mel": _mel,
    "pixels": lambda b: {"pixel_values": b.pictures()},
    "placed": _placed,
    "read_picture": _read_picture,
    "segment": _segment,
    "seq2seq": _read,
    "series": _series,
    "spectrogram": lambda b: {"input_values": b.numbers(*_AST_FRAMES), "labels": b.classes()},
    "speech_seq2seq": lambda b: {
        "input_features": b.numbers(b.config.num_mel_bins, _WHISPER_FRAMES),
        "labels": b.labels(b.config.vocab_size, b.length),
    },
    "timed_series": _series,
    "tokens": _read,
    "trajectory": _trajectory,
}
