"""Models of the nineteenth collection: widely used families in sizes that were drawn at random. Pure data.

Who trains a BERT, a Llama or a ResNet from the start often writes down sizes of his own: fewer layers, another width,
a vocabulary of his language. Such a model is kin of measured ones. A third of the models, by their names, only judge.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, Final

from estimator.dataset.catalogues.configs import decoder, halves
from estimator.dataset.catalogues.entries import Entry, Feed
from estimator.dataset.catalogues.heads import CLM, CLS, MLM, QA, S2S, TOK
from estimator.types import Family

_EACH: Final = 6
"""Models of each family."""
_HEAD: Final = 64
_VOCABULARIES: Final = (8000, 16000, 30522, 32000, 50257, 64000, 100000, 128000)
_TV: Final = "torchvision.models"

_Draw = Callable[[random.Random], dict[str, Any]]
"""Draws what differs from the defaults."""


def _reader(rng: random.Random, most: int = 14) -> dict[str, Any]:
    """Draw sizes as configurations of BERT and its kin name them."""
    heads = rng.randint(3, most)
    width = heads * rng.choice((32, _HEAD, _HEAD))
    return {
        "hidden_size": width,
        "num_hidden_layers": rng.randint(2, 16),
        "num_attention_heads": heads,
        "intermediate_size": width * rng.choice((2, 3, 4, 4)),
    }


def _words(rng: random.Random) -> dict[str, Any]:
    return {**_reader(rng), "vocab_size": rng.choice(_VOCABULARIES)}


def _behind_padding(rng: random.Random) -> dict[str, Any]:
    """Draw sizes of a model whose positions begin behind padding's."""
    return {**_words(rng), "max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 1}


def _short_names(rng: random.Random) -> dict[str, Any]:
    sizes = _words(rng)
    return {
        "dim": sizes["hidden_size"],
        "n_layers": sizes["num_hidden_layers"],
        "n_heads": sizes["num_attention_heads"],
        "hidden_dim": sizes["intermediate_size"],
        "vocab_size": sizes["vocab_size"],
    }


def _continued(rng: random.Random) -> dict[str, Any]:
    """Draw sizes of a decoder as configurations of Llama and its kin name them; several queries may share a key."""
    groups, times = rng.choice((1, 2, 3, 4, 6, 8)), rng.choice((1, 1, 2, 3, 4))
    heads = min(groups * times, 16)
    heads -= heads % groups
    width = heads * _HEAD
    hidden = rng.choice((4 * width, 64 * round(width * 8 / 3 / 64)))
    return decoder(width, hidden, rng.randint(2, 20), heads, groups, rng.choice(_VOCABULARIES), head_dim=_HEAD)


def _alone(rng: random.Random) -> dict[str, Any]:
    """Draw the same where each query has its own key."""
    sizes = _continued(rng)
    return {**sizes, "num_key_value_heads": sizes["num_attention_heads"]}


def _gpt2(rng: random.Random) -> dict[str, Any]:
    heads = rng.randint(3, 20)
    return {
        "n_embd": heads * _HEAD,
        "n_layer": rng.randint(2, 20),
        "n_head": heads,
        "vocab_size": rng.choice(_VOCABULARIES),
    }


def _opt(rng: random.Random) -> dict[str, Any]:
    sizes = _words(rng)
    hidden = sizes.pop("intermediate_size")
    return {**sizes, "ffn_dim": hidden, "word_embed_proj_dim": sizes["hidden_size"]}


def _bloom(rng: random.Random) -> dict[str, Any]:
    sizes = _gpt2(rng)
    return {"hidden_size": sizes.pop("n_embd"), **sizes}


def _t5(rng: random.Random) -> dict[str, Any]:
    heads = rng.randint(4, 12)
    width = heads * _HEAD
    return {
        "d_model": width,
        "d_ff": width * rng.choice((2, 4)),
        "num_layers": rng.randint(2, 10),
        "num_heads": heads,
        "vocab_size": rng.choice(_VOCABULARIES),
    }


def _halves(rng: random.Random) -> dict[str, Any]:
    heads = rng.randint(4, 14)
    return halves(heads * _HEAD, heads * _HEAD * rng.choice((2, 4)), rng.randint(2, 8), heads)


def _translated(rng: random.Random) -> dict[str, Any]:
    return {**_halves(rng), "vocab_size": 32000, "pad_token_id": 0, "decoder_start_token_id": 0}


def _patches(rng: random.Random) -> dict[str, Any]:
    return {**_reader(rng), "patch_size": rng.choice((14, 16, 16, 32)), "image_size": 224}


def _dinov2(rng: random.Random) -> dict[str, Any]:
    sizes = _patches(rng)
    return {**sizes, "mlp_ratio": sizes.pop("intermediate_size") // sizes["hidden_size"]}


def _stages(rng: random.Random) -> tuple[int, int, int, int]:
    return rng.randint(1, 3), rng.randint(1, 4), rng.randint(2, 12), rng.randint(1, 3)


def _windows(rng: random.Random) -> dict[str, Any]:
    heads = rng.randint(2, 4)
    return {
        "embed_dim": heads * rng.choice((16, 24, 32)),
        "depths": [2, 2, 2 * rng.randint(1, 9), 2],
        "num_heads": [heads, 2 * heads, 4 * heads, 8 * heads],
    }


def _widths(rng: random.Random) -> tuple[int, int, int, int]:
    width = 8 * rng.randint(5, 16)
    return width, 2 * width, 4 * width, 8 * width


def _vit(rng: random.Random) -> dict[str, Any]:
    heads = rng.randint(3, 16)
    return {"embed_dim": heads * _HEAD, "depth": rng.randint(4, 20), "num_heads": heads}


def _layers(rng: random.Random) -> dict[str, Any]:
    return {"layers": list(_stages(rng))}


def _wider(rng: random.Random) -> dict[str, Any]:
    return {**_layers(rng), "base_width": rng.choice((32, 48, 64, 96, 128))}


def _resnet(block: str) -> _Draw:
    made = {"named": f"{_TV}.resnet.{block}"}
    widths = (64,) if block == "BasicBlock" else (32, 64, 96, 128)
    return lambda rng: {"block": made, "layers": list(_stages(rng)), "width_per_group": rng.choice(widths)}


def _dense(rng: random.Random) -> dict[str, Any]:
    blocks = tuple(rng.randint(4, 20) for _ in range(4))
    return {"growth_rate": 8 * rng.randint(2, 6), "block_config": blocks}


def _multiplied(rng: random.Random) -> dict[str, Any]:
    return {"width_mult": rng.choice((0.35, 0.6, 0.75, 0.9, 1.1, 1.3, 1.4, 1.75, 2.0))}


def _tv_vit(rng: random.Random) -> dict[str, Any]:
    heads = rng.randint(3, 14)
    width = heads * _HEAD
    return {
        "image_size": 224,
        "patch_size": rng.choice((16, 16, 32)),
        "num_layers": rng.randint(4, 18),
        "num_heads": heads,
        "hidden_dim": width,
        "mlp_dim": width * rng.choice((2, 4)),
    }


def _tv_swin(rng: random.Random) -> dict[str, Any]:
    return {**_windows(rng), "patch_size": [4, 4], "window_size": [7, 7]}


def _tv_convnext(rng: random.Random) -> dict[str, Any]:
    widths: tuple[int | None, ...] = (*_widths(rng), None)
    stages = zip(widths, widths[1:], _stages(rng), strict=False)
    block = f"{_TV}.convnext.CNBlockConfig"
    return {
        "block_setting": [
            {"class": block, "input_channels": taken, "out_channels": given, "num_layers": many}
            for taken, given, many in stages
        ]
    }


# Name, model type, architecture family, heads, sizes, longest sequence.
_TEXT: Final[tuple[tuple[str, str, str, tuple[str, ...], _Draw, int], ...]] = (
    ("bert", "bert", "bert", (MLM, CLS, TOK, QA), _words, 512),
    ("bert-small", "bert", "bert", (MLM, CLS), _words, 512),
    ("roberta", "roberta", "bert", (MLM, CLS, TOK), _behind_padding, 512),
    ("distilbert", "distilbert", "distilbert", (MLM, CLS, QA), _short_names, 512),
    ("electra", "electra", "electra", (CLS, TOK), lambda rng: {**_words(rng), "embedding_size": 128}, 512),
    ("albert", "albert", "albert", (MLM, CLS), lambda rng: {**_words(rng), "embedding_size": 128}, 512),
    ("deberta-v3", "deberta-v2", "deberta", (CLS, TOK), lambda rng: {**_words(rng), "relative_attention": True}, 512),
    ("modernbert", "modernbert", "modernbert", (MLM, CLS), lambda rng: {**_reader(rng), "vocab_size": 50368}, 1024),
    (
        "esm2",
        "esm",
        "esm",
        (MLM,),
        lambda rng: {
            **_reader(rng),
            "vocab_size": 33,
            "position_embedding_type": "rotary",
            "pad_token_id": 1,
            "mask_token_id": 32,
            "token_dropout": False,
        },
        1024,
    ),
    ("gpt2", "gpt2", "gpt2", (CLM, CLM, CLS), _gpt2, 1024),
    ("gpt2-small", "gpt2", "gpt2", (CLM,), _gpt2, 1024),
    ("llama", "llama", "llama", (CLM, CLM, CLS), _continued, 2048),
    ("llama-small", "llama", "llama", (CLM,), _alone, 2048),
    ("mistral", "mistral", "llama", (CLM,), _continued, 2048),
    ("qwen2", "qwen2", "llama", (CLM, CLM, CLS), _continued, 2048),
    ("qwen3", "qwen3", "qwen3", (CLM,), _continued, 2048),
    ("gemma", "gemma", "gemma", (CLM,), _continued, 1024),
    ("phi", "phi", "phi", (CLM,), _alone, 1024),
    ("pythia", "gpt_neox", "gpt_neox", (CLM,), _words, 1024),
    ("opt", "opt", "opt", (CLM,), _opt, 1024),
    ("bloom", "bloom", "bloom", (CLM,), _bloom, 1024),
    ("t5", "t5", "t5", (S2S,), _t5, 512),
    ("bart", "bart", "bart", (S2S,), _halves, 1024),
    ("marian", "marian", "bart", (S2S,), _translated, 512),
)
# Name, model type, architecture family, family, sizes.
_PICTURES: Final[tuple[tuple[str, str, str, Family, _Draw], ...]] = (
    ("hf-vit", "vit", "vit", "transformer", _patches),
    ("hf-dinov2", "dinov2", "vit", "transformer", _dinov2),
    ("hf-swin", "swin", "swin", "transformer", _windows),
    (
        "hf-convnext",
        "convnext",
        "convnext",
        "cnn",
        lambda rng: {"hidden_sizes": list(_widths(rng)), "depths": list(_stages(rng))},
    ),
)
# Name in timm, architecture family, family, sizes.
_TIMM: Final[tuple[tuple[str, str, Family, _Draw], ...]] = (
    ("vit_base_patch16_224", "vit", "transformer", _vit),
    ("vit_small_patch32_224", "vit", "transformer", _vit),
    ("deit3_small_patch16_224", "vit", "transformer", _vit),
    (
        "swin_tiny_patch4_window7_224",
        "swin",
        "transformer",
        lambda rng: {key: tuple(value) if isinstance(value, list) else value for key, value in _windows(rng).items()},
    ),
    ("resnet18", "resnet", "cnn", _layers),
    ("resnet50", "resnet", "cnn", _wider),
    ("seresnet50", "resnet", "cnn", _layers),
    ("convnext_tiny", "convnext", "cnn", lambda rng: {"depths": _stages(rng), "dims": _widths(rng)}),
    ("convnextv2_tiny", "convnext", "cnn", lambda rng: {"depths": _stages(rng), "dims": _widths(rng)}),
    ("densenet121", "densenet", "cnn", _dense),
)
# Name, class in torchvision.models, architecture family, family, sizes.
_VISION: Final[tuple[tuple[str, str, str, Family, _Draw], ...]] = (
    ("resnet-basic", "resnet.ResNet", "resnet", "cnn", _resnet("BasicBlock")),
    ("resnet-bottleneck", "resnet.ResNet", "resnet", "cnn", _resnet("Bottleneck")),
    ("mobilenet-v2", "mobilenet_v2", "mobilenet", "cnn", _multiplied),
    ("mobilenet-v3-large", "mobilenet_v3_large", "mobilenet", "cnn", _multiplied),
    ("densenet", "DenseNet", "densenet", "cnn", _dense),
    ("vit", "VisionTransformer", "vit", "transformer", _tv_vit),
    ("swin", "SwinTransformer", "swin", "transformer", _tv_swin),
    ("convnext", "ConvNeXt", "convnext", "cnn", _tv_convnext),
)


def _drawn(name: str, draw: _Draw) -> Iterator[tuple[int, random.Random, dict[str, Any]]]:
    """Draw the sizes of a family's models; those that came before are not drawn again."""
    seen: set[str] = set()
    for number in range(1, _EACH + 1):
        rng = random.Random(f"rad-sized:{name}:{number}")  # noqa: S311 - a draw, no secret
        sizes = draw(rng)
        while str(sizes) in seen:
            sizes = draw(rng)
        seen.add(str(sizes))
        yield number, rng, sizes


def entries() -> Iterator[Entry]:
    """Yield every model."""
    for name, kind, group, heads, draw, longest in _TEXT:
        for number, rng, sizes in _drawn(name, draw):
            head = rng.choice(heads)
            feed: Feed = "seq2seq" if head == S2S else "tokens"
            full = f"{name}-sized-{number}-{head}"
            yield Entry(
                "transformers", full, group, "transformer", feed, 0, False, kind, f"AutoModelFor{head}", sizes, longest
            )
    for name, kind, group, family, draw in _PICTURES:
        for number, _, sizes in _drawn(name, draw):
            head = "AutoModelForImageClassification"
            yield Entry(
                "transformers", f"{name}-sized-{number}", group, family, "image", 224, False, kind, head, sizes, 0
            )
    for name, group, family, draw in _TIMM:
        for number, _, sizes in _drawn(f"timm-{name}", draw):
            config = {"model_name": name, **sizes}
            yield _of_library(f"timm/{name}-sized-{number}", group, family, "timm.create_model", config)
    for name, path, group, family, draw in _VISION:
        for number, _, sizes in _drawn(f"torchvision-{name}", draw):
            yield _of_library(f"torchvision/{name}-sized-{number}", group, family, f"{_TV}.{path}", sizes)


def _of_library(name: str, group: str, family: Family, head: str, config: dict[str, Any]) -> Entry:
    return Entry("library", name, group, family, "image", 224, head=head, config=config)
