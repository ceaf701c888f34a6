"""How widely used models are usually run: the models, and a grid of batch sizes, optimizers and precisions. Pure.

What the allocator reserves beyond what it hands out follows no rule that a neighbouring run would tell; a configuration
that was measured itself is known. So those that many jobs run are measured one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from estimator.dataset.catalogues.entries import Entry, Feed
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
_MORE: Final = {
    "torchvision": "deeplabv3_resnet50 fasterrcnn_resnet50_fpn regnet_y_800mf shufflenet_v2_x1_5 swin_v2_t "
    "fcn_resnet50 efficientnet_b7 efficientnet_b6 convnext_large vgg13_bn mnasnet0_5 regnet_y_1_6gf regnet_x_800mf "
    "r3d_18 efficientnet_v2_l swin_v2_s maskrcnn_resnet50_fpn retinanet_resnet50_fpn ssd300_vgg16 "
    "vit_l_32 resnext101_64x4d regnet_x_1_6gf regnet_y_8gf regnet_x_3_2gf regnet_x_8gf shufflenet_v2_x2_0 "
    "mnasnet1_3 mnasnet0_75 deeplabv3_resnet101 deeplabv3_mobilenet_v3_large lraspp_mobilenet_v3_large "
    "fcn_resnet101 r2plus1d_18 mc3_18 swin_v2_b ssdlite320_mobilenet_v3_large "
    "fasterrcnn_mobilenet_v3_large_fpn regnet_y_16gf regnet_x_16gf vit_h_14",
    "timm": "tf_efficientnet_b0 resnet50d convnextv2_tiny mobilenetv2_100 efficientnet_b1 efficientnet_b2 "
    "swin_small_patch4_window7_224 deit_tiny_patch16_224 vit_base_patch32_224 resnet152 resnext50_32x4d "
    "wide_resnet50_2 regnety_016 mobilenetv3_small_100 swinv2_tiny_window8_256 vit_base_patch16_clip_224 "
    "eva02_small_patch14_224 inception_v3 inception_resnet_v2 res2net50_26w_4s resnest50d densenet201 "
    "densenet169 vgg19 vgg16_bn vgg13 hrnet_w32 dla60 dpn68 regnety_008 regnety_040 rexnet_100 repvgg_a2 "
    "mobileone_s1 nfnet_f0 mnasnet_100 semnasnet_100 tf_efficientnetv2_b0 tf_efficientnet_b3 "
    "efficientnet_b4 lcnet_100 tinynet_a cait_xxs24_224 xcit_small_12_p16_224 convit_base convit_small "
    "crossvit_15_240 twins_svt_small pvt_v2_b0 pvt_v2_b1 beitv2_base_patch16_224 convmixer_768_32 "
    "gmlp_s16_224 resmlp_24_224 cspresnet50 darknet53 ese_vovnet39b legacy_seresnet50 resnet26d resnet14t "
    "mobilenetv4_conv_small mobilenetv4_conv_medium mobilevitv2_100 mobilevit_xs edgenext_small "
    "efficientformer_l1 poolformer_s12 maxvit_tiny_tf_224 hiera_tiny_224 fastvit_t8 fastvit_sa12 "
    "efficientvit_b1 tiny_vit_21m_224 tiny_vit_5m_224 convnext_atto convnext_pico convnext_large "
    "convnextv2_nano convnextv2_base swin_large_patch4_window7_224 vit_small_patch14_dinov2 "
    "deit3_small_patch16_224 vit_small_patch32_224 mvitv2_tiny davit_tiny focalnet_tiny_srf gcvit_tiny "
    "coat_tiny inception_next_tiny repvit_m1 nextvit_small seresnext50_32x4d ecaresnet50d skresnet18 "
    "xception65 caformer_s18 convformer_s18",
    "transformers": "bert-base-cased-SequenceClassification distilbert-base-TokenClassification "
    "roberta-base-QuestionAnswering smollm-135m-CausalLM-SequenceClassification "
    "bert-tiny-SequenceClassification gemma3-270m-CausalLM flan-t5-base-Seq2SeqLM qwen2-1.5b-CausalLM "
    "hf-segformer-b0-seg xlnet-base-SequenceClassification distilbert-base-QuestionAnswering "
    "mpnet-base-SequenceClassification camembert-base-SequenceClassification bert-large-QuestionAnswering "
    "roberta-base-TokenClassification deberta-v3-base-TokenClassification "
    "deberta-v3-large-SequenceClassification electra-base-QuestionAnswering albert-base-QuestionAnswering "
    "distilroberta-SequenceClassification-QuestionAnswering xlm-roberta-large-SequenceClassification "
    "roberta-large-MaskedLM modernbert-base-SequenceClassification "
    "modernbert-large-SequenceClassification bert-small-SequenceClassification "
    "longformer-base-SequenceClassification big_bird-base-SequenceClassification "
    "mobilebert-SequenceClassification squeezebert-SequenceClassification esm2-8m-MaskedLM "
    "esm2-35m-MaskedLM smollm-360m-CausalLM gemma3-1b-CausalLM pythia-1b-CausalLM pythia-31m-CausalLM "
    "pythia-14m-CausalLM cerebras-111m-CausalLM gpt-neo-1.3b-CausalLM opt-1.3b-CausalLM gpt2-xl-CausalLM "
    "biogpt-small-CausalLM mamba-130m-CausalLM llama-3.2-1b-SequenceClassification "
    "qwen2-0.5b-SequenceClassification marian-base-Seq2SeqLM codet5-small-Seq2SeqLM codet5-base-Seq2SeqLM "
    "byt5-small-Seq2SeqLM nllb-600m-Seq2SeqLM distilbart-Seq2SeqLM mbart-large-Seq2SeqLM "
    "pegasus-large-Seq2SeqLM mt5-base-Seq2SeqLM flan-t5-large-Seq2SeqLM hf-dinov2-base hf-dinov2-small "
    "hf-vit-small hf-deit-tiny hf-swin-small hf-swin-base hf-convnext-base hf-convnext-small hf-resnet-18 "
    "hf-resnet-101 hf-segformer-b1-seg hf-segformer-b2-seg hf-mobilevit-small clip-base-16 clip-large "
    "wav2vec2-large hubert-large wavlm-base whisper-medium-thin hf-detr-50 hf-yolos-small trocr-small "
    "hf-mae-base hf-videomae-small smollm-1.7b-CausalLM bloom-1b1-CausalLM qwen3-1.7b-CausalLM",
}
"""More of them, in the same order."""

# The side that a library's pictures have.
_OWN: Final = 0
_PICTURES: Final = {_OWN: (8, 16, 32, 64, 128, 256)}
_WORDS: Final = {128: (4, 8, 16, 32, 64), 512: (4, 8, 16, 32, 64)}
# CIFAR's and TinyImageNet's pictures, and large ones.
_OTHER_PICTURES: Final = {32: (64, 128, 256, 512), 64: (64, 128, 256), 384: (16, 32)}
_OTHER_WORDS: Final = {64: (16, 32, 64), 256: (8, 16, 32)}
# Of PASCAL VOC's and Cityscapes' pieces.
_DENSE_PICTURES: Final = {256: (4, 8, 16, 32), 512: (2, 4, 8, 16)}
_MANY_WORDS: Final = {1024: (1, 2, 4, 8, 16), 2048: (1, 2, 4)}
# Seconds of speech.
_SECONDS: Final = {10: (2, 4, 8, 16), 15: (2, 4, 8, 16), 30: (1, 2, 4, 8)}
_MOST_TOKENS: Final = 32 * 512
# Positions of these begin behind padding's, so that their tables of positions end two tokens earlier.
_BEHIND_PADDING: Final = {"camembert", "data2vec-text", "longformer", "mpnet"}
# Of the data sets that such models are usually trained on: COCO, PASCAL VOC, ADE20K and Kinetics; ImageNet otherwise.
_CLASSES: Final[dict[Feed, int]] = {
    "tokens": 2,
    "boxes": 91,
    "detect": 91,
    "dense_image": 21,
    "segment": 150,
    "video": 400,
}


@dataclass(frozen=True)
class Usual:
    """Widely used models, and the ways in which they are usually run.

    Attributes:
        places: place of each model, named by source and name, among those of its library, the most widely used first.
        trained: precisions, the first ones first, and the optimizers of each.
        inferred: precisions of inference.
        pictures: batch sizes by the pictures' side; 0: the side that its library gives a model.
        words: batch sizes by the number of tokens; a model that takes fewer than all of these takes its most.
    """

    places: Mapping[tuple[str, str], int]
    trained: tuple[tuple[Precision, tuple[Optimizer, ...]], ...]
    inferred: tuple[Precision, ...]
    pictures: Mapping[int, tuple[int, ...]] = field(default_factory=lambda: _PICTURES)
    words: Mapping[int, tuple[int, ...]] = field(default_factory=lambda: _WORDS)

    def has(self, entry: Entry) -> bool:
        """Tell whether a model is one of these, as its library runs it."""
        return (entry.source, entry.name) in self.places and not entry.attention

    def specs(self, entries: Iterable[Entry]) -> Iterator[Spec]:
        """Yield these models' usual configurations: one model after the other, the most widely used first.

        Args:
            entries: models; others are left out.
        """
        order = [precision for precision, _ in self.trained]
        for entry in sorted(filter(self.has, entries), key=lambda entry: self.places[entry.source, entry.name]):
            found = [
                Spec(entry.source, entry.family, entry.name, entry.group, _arch(entry, side), batch, length, *way)
                for side, length, batches in self._inputs(entry)
                for batch in batches
                for way in self._ways()
                if batch * (length or 1) <= _MOST_TOKENS
            ]
            yield from sorted(found, key=lambda s: (order.index(s.precision), s.tokens))

    def _inputs(self, entry: Entry) -> Iterator[tuple[int, int | None, tuple[int, ...]]]:
        """Yield what goes into a model: the side of its pictures, the number of tokens, and the batch sizes."""
        if not entry.longest:
            yield from ((side, None, batches) for side, batches in self.pictures.items())
            return
        most = entry.longest - 2 if entry.model_type in _BEHIND_PADDING else entry.longest
        few = next(iter(self.words.values()))
        for length in [length for length in self.words if length <= most] or [most]:
            yield _OWN, length, self.pictures[_OWN] if entry.size else self.words.get(length, few)

    def _ways(self) -> Iterator[tuple[Optimizer, Precision, Kind]]:
        for precision, optimizers in self.trained:
            yield from ((optimizer, precision, "train") for optimizer in optimizers)
        yield from (("sgd", precision, "infer") for precision in self.inferred)


def _arch(entry: Entry, side: int) -> dict[str, Any]:
    arch: dict[str, Any] = {"size": side or entry.size} if entry.size else {}
    return {**arch, "classes": _CLASSES.get(entry.feed, 1000)}


def _places(names: Mapping[str, str]) -> dict[tuple[str, str], int]:
    return {(source, name): place for source, listed in names.items() for place, name in enumerate(listed.split())}


# With the optimizers that are told apart by what they hold for each parameter: Adam and AdamW hold the same.
FIRST: Final = Usual(
    _places(_NAMES),
    (("fp32", ("adam", "sgd_momentum", "sgd")), ("amp", ("adamw", "sgd_momentum")), ("bf16", ("adamw",))),
    ("fp32", "amp"),
)
"""Those that most jobs train."""
SECOND: Final = Usual(_places(_MORE), (("fp32", ("adam", "sgd_momentum")), ("amp", ("adamw",))), ("fp32",))
"""The next, in fewer ways."""
ELSEWHERE: Final = replace(
    FIRST,
    trained=(("fp32", ("adam", "sgd_momentum")), ("amp", ("adamw", "sgd_momentum"))),
    inferred=("fp32",),
    pictures=_OTHER_PICTURES,
    words=_OTHER_WORDS,
)
"""The first ones on pictures of other sides, and on fewer or more words."""


DENSE: Final = replace(SECOND, pictures=_DENSE_PICTURES)
"""The next that say something of each pixel, on other pictures than ImageNet's."""
SMALL: Final = replace(SECOND, pictures={32: (128, 256), 64: (64, 128)})
"""The next on small pictures."""
LONG: Final = replace(
    SECOND,
    places={**FIRST.places, **{model: len(FIRST.places) + place for model, place in SECOND.places.items()}},
    trained=(("fp32", ("adamw",)), ("amp", ("adamw",)), ("bf16", ("adamw",))),
    words=_MANY_WORDS,
)
"""Both on many words."""
HEARD: Final = replace(LONG, trained=SECOND.trained, words=_SECONDS)
"""Both on more seconds of speech than a model is mostly measured with."""


def goes_elsewhere(entry: Entry) -> bool:
    """Tell whether a model takes pictures of any side, or words alone."""
    return entry.flexible or entry.feed == "tokens"
