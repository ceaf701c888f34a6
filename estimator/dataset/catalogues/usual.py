"""How widely used models are usually run: the models, and a grid of batch sizes, optimizers and precisions. Pure.

What the allocator reserves beyond what it hands out follows no rule that a neighbouring run would tell; a configuration
that was measured itself is known. So those that many jobs run are measured one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from estimator.dataset.catalogues.entries import Entry
from estimator.dataset.specs import Spec
from estimator.types import Kind, Optimizer, Precision

_NAMES: Final = {
    "torchvision": "resnet50 resnet18 vgg16 mobilenet_v2 efficientnet_b0 vit_b_16 densenet121 resnet34 resnet101 "
    "alexnet vgg19 convnext_tiny swin_t inception_v3 mobilenet_v3_large mobilenet_v3_small resnet152 "
    "vgg11 vgg16_bn googlenet shufflenet_v2_x1_0 squeezenet1_1 efficientnet_b1 efficientnet_b3 "
    "efficientnet_v2_s wide_resnet50_2 resnext50_32x4d regnet_y_400mf densenet169 densenet201 "
    "mnasnet1_0 vgg13 vgg19_bn efficientnet_b2 efficientnet_b4 convnext_small convnext_base swin_s "
    "swin_b vit_b_32 vit_l_16 resnext101_32x8d wide_resnet101_2 regnet_y_3_2gf regnet_x_400mf "
    "efficientnet_v2_m densenet161 vgg11_bn squeezenet1_0 shufflenet_v2_x0_5 efficientnet_b5 "
    "maxvit_t",
    "timm": "vit_base_patch16_224 resnet50 efficientnet_b0 vit_small_patch16_224 vit_tiny_patch16_224 "
    "deit_small_patch16_224 swin_tiny_patch4_window7_224 convnext_tiny mixer_b16_224 "
    "deit_base_patch16_224 mobilenetv3_large_100 resnet18 swin_base_patch4_window7_224 "
    "beit_base_patch16_224 convnext_nano xception41 inception_v4 regnety_032 pvt_v2_b2 mobilevit_s "
    "tf_efficientnetv2_s vit_large_patch16_224 resnet101 resnet34 densenet121 seresnet50 "
    "convnext_small convnext_base efficientnet_b3 mixer_s16_224 ghostnet_100 hrnet_w18 dla34 "
    "cspdarknet53 nfnet_l0 levit_256 volo_d1_224 coatnet_0_rw_224 vgg16",
    "transformers": "bert-base-SequenceClassification gpt2-CausalLM bert-base-MaskedLM "
    "distilbert-base-SequenceClassification roberta-base-SequenceClassification t5-small-Seq2SeqLM "
    "hf-vit-base bert-large-SequenceClassification t5-base-Seq2SeqLM bart-base-Seq2SeqLM "
    "gpt2-medium-CausalLM distilgpt2-CausalLM albert-base-SequenceClassification "
    "electra-small-SequenceClassification opt-125m-CausalLM roberta-base-MaskedLM "
    "bert-base-TokenClassification bert-base-QuestionAnswering "
    "deberta-v3-base-SequenceClassification qwen2-0.5b-CausalLM tinyllama-1.1b-CausalLM "
    "pythia-160m-CausalLM whisper-tiny wav2vec2-base hf-swin-tiny hf-resnet-50 hf-deit-base "
    "distilbert-base-MaskedLM electra-base-SequenceClassification gpt-neo-125m-CausalLM "
    "opt-350m-CausalLM pythia-70m-CausalLM whisper-base whisper-small hf-convnext-tiny hf-deit-small "
    "xlm-roberta-base-MaskedLM gpt2-SequenceClassification roberta-large-SequenceClassification "
    "bert-large-MaskedLM albert-base-MaskedLM bloom-560m-CausalLM llama-3.2-1b-CausalLM "
    "bart-large-Seq2SeqLM gpt2-large-CausalLM pythia-410m-CausalLM hf-segformer-b0 hf-beit-base "
    "clip-base hf-vit-large hubert-base modernbert-base-MaskedLM "
    "deberta-v3-small-SequenceClassification distilroberta-MaskedLM mt5-small-Seq2SeqLM "
    "flan-t5-small-Seq2SeqLM xlm-roberta-base-TokenClassification electra-base-MaskedLM "
    "minilm-l6-SequenceClassification t5-large-Seq2SeqLM qwen3-0.6b-CausalLM",
}
"""Names by library, the most widely used first."""
PLACES: Final = {(source, name): place for source, names in _NAMES.items() for place, name in enumerate(names.split())}
"""Place of each of these models in its library."""

_PICTURES: Final = (8, 16, 32, 64, 128, 256)
_WORDS: Final = (4, 8, 16, 32, 64)
_LENGTHS: Final = (128, 512)
# With the optimizers that are told apart by what they hold for each parameter: Adam and AdamW hold the same.
_TRAINED: Final[tuple[tuple[Precision, tuple[Optimizer, ...]], ...]] = (
    ("fp32", ("adam", "sgd_momentum", "sgd")),
    ("amp", ("adamw", "sgd_momentum")),
    ("bf16", ("adamw",)),
)
_INFERRED: Final[tuple[Precision, ...]] = ("fp32", "amp")
_MOST_TOKENS: Final = 32 * 512


def widely_used(entry: Entry) -> bool:
    """Tell whether a model is one of these, as its library runs it."""
    return (entry.source, entry.name) in PLACES and not entry.attention


def usual(entries: Iterable[Entry]) -> Iterator[Spec]:
    """Yield the usual configurations of widely used models: one model after the other, the most widely used first.

    Args:
        entries: models; others are left out.
    """
    for entry in sorted(filter(widely_used, entries), key=lambda entry: PLACES[entry.source, entry.name]):
        found = [
            Spec(entry.source, entry.family, entry.name, entry.group, _arch(entry), batch, length, *way)
            for length in _lengths(entry)
            for batch in (_PICTURES if entry.size else _WORDS)
            for way in _ways()
            if batch * (length or 1) <= _MOST_TOKENS
        ]
        order: list[Precision] = [precision for precision, _ in _TRAINED]
        yield from sorted(found, key=lambda s: (order.index(s.precision), s.batch_size * (s.seq_len or 1)))


def _ways() -> Iterator[tuple[Optimizer, Precision, Kind]]:
    for precision, optimizers in _TRAINED:
        yield from ((optimizer, precision, "train") for optimizer in optimizers)
    yield from (("sgd", precision, "infer") for precision in _INFERRED)


def _lengths(entry: Entry) -> tuple[int | None, ...]:
    if not entry.longest:
        return (None,)
    return tuple(length for length in _LENGTHS if length <= entry.longest) or (entry.longest,)


def _arch(entry: Entry) -> dict[str, Any]:
    arch: dict[str, Any] = {"size": entry.size} if entry.size else {}
    return {**arch, "classes": 2 if entry.feed == "tokens" else 1000}
