"""Models of the twelfth collection: measured families in sizes that were not, and more of libraries. Pure data.

As in the collections before, a family is fresh if nothing that any of them measured has the name of its architecture;
else the model is kin of that family. That was decided by names, before any was measured: the fresh ones are in
`fresh.py`, the models of libraries in `twelfth_libraries.py`. The kin are sizes that
users write down themselves (other widths and depths than the published ones), and published ones of transformers'
models that were not measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from estimator.dataset.catalogues import twelfth_libraries
from estimator.dataset.catalogues.configs import CHAT, WORDS, decoder, encoder, halves, t5
from estimator.dataset.catalogues.entries import Collection, Entry, Text, classifier, labeller, pair, whisper
from estimator.dataset.catalogues.heads import CLM, CLS, MLM, QA, S2S, TOK
from estimator.dataset.catalogues.rows import TransformersRow, made, of_transformers
from estimator.types import Family

_Sized = tuple[str, str, int, Mapping[str, Any]]
"""Architecture family, name of a model, side of its pictures, what is changed of it."""

_CONVOLVED: tuple[_Sized, ...] = (  # of timm
    ("resnet", "resnet18", 224, {"layers": [3, 3, 3, 3]}),
    ("resnet", "resnet34", 224, {"layers": [2, 3, 4, 2]}),
    ("resnet", "resnet50", 224, {"layers": [2, 3, 5, 2]}),
    ("resnet", "resnet50d", 224, {"base_width": 96}),
    ("resnet", "resnext50_32x4d", 224, {"layers": [2, 2, 4, 2], "cardinality": 16}),
    ("resnet", "seresnet50", 192, {"layers": [3, 4, 10, 3]}),
    ("resnet", "ecaresnet50d", 224, {"layers": [2, 3, 3, 2]}),
    ("resnetv2", "resnetv2_50", 224, {"layers": [2, 3, 5, 2]}),
    ("sknet", "skresnet18", 224, {"layers": [3, 3, 3, 3]}),
    ("res2net", "res2net50_26w_4s", 224, {"layers": [2, 3, 4, 2]}),
    ("resnest", "resnest26d", 224, {"layers": [2, 3, 3, 2]}),
    ("densenet", "densenet121", 224, {"growth_rate": 24, "block_config": (6, 12, 18, 12)}),
    ("densenet", "densenet169", 192, {"growth_rate": 48, "block_config": (4, 8, 16, 8)}),
    ("convnext", "convnext_tiny", 224, {"dims": (64, 128, 256, 512)}),
    ("convnext", "convnext_small", 224, {"depths": (3, 3, 15, 3), "dims": (72, 144, 288, 576)}),
    ("convnext", "convnextv2_nano", 224, {"depths": (2, 2, 6, 2), "dims": (96, 192, 384, 768)}),
    ("inception_next", "inception_next_tiny", 224, {"depths": (2, 2, 6, 2), "dims": (64, 128, 256, 512)}),
    ("edgenext", "edgenext_small", 224, {"depths": (2, 2, 6, 2), "dims": (48, 96, 192, 384)}),
    ("fastvit", "fastvit_sa12", 224, {"embed_dims": (48, 96, 192, 384)}),
    ("starnet", "starnet_s3", 224, {"base_dim": 40, "depths": (2, 2, 10, 4)}),
    ("fasternet", "fasternet_t1", 224, {"embed_dim": 80}),
    ("mambaout", "mambaout_tiny", 224, {"depths": (2, 2, 6, 2), "dims": (72, 144, 288, 432)}),
    ("rexnet", "rexnet_100", 224, {"width_mult": 1.7}),
    ("dla", "dla34", 224, {"channels": [24, 48, 96, 192, 384, 768]}),
    ("dpn", "dpn68", 224, {"num_init_features": 24, "k_sec": (2, 3, 8, 3)}),
)
_ATTENDED: tuple[_Sized, ...] = (
    ("vit", "vit_small_patch16_224", 224, {"embed_dim": 512, "depth": 8, "num_heads": 8}),
    ("vit", "vit_base_patch16_224", 224, {"depth": 8}),
    ("vit", "vit_base_patch32_224", 224, {"embed_dim": 640, "depth": 16, "num_heads": 10}),
    ("vit", "vit_tiny_patch16_224", 224, {"embed_dim": 256, "depth": 6, "num_heads": 4}),
    ("vit", "deit3_small_patch16_224", 224, {"embed_dim": 576, "num_heads": 9}),
    ("vit", "vit_large_patch16_224", 224, {"depth": 12}),
    ("beit", "beit_base_patch16_224", 224, {"embed_dim": 512, "num_heads": 8}),
    ("eva", "eva02_small_patch14_224", 224, {"embed_dim": 256, "depth": 8, "num_heads": 4}),
    ("cait", "cait_xxs24_224", 224, {"depth": 12, "embed_dim": 256, "num_heads": 8}),
    ("xcit", "xcit_small_12_p16_224", 224, {"depth": 8, "embed_dim": 256}),
    (
        "swin",
        "swin_tiny_patch4_window7_224",
        224,
        {"embed_dim": 64, "depths": (2, 2, 4, 2), "num_heads": (2, 4, 8, 16)},
    ),
    ("swin", "swin_small_patch4_window7_224", 224, {"depths": (2, 2, 12, 2)}),
    ("swin", "swinv2_tiny_window8_256", 256, {"embed_dim": 72, "num_heads": (3, 6, 12, 24)}),
    ("davit", "davit_tiny", 224, {"depths": (1, 1, 5, 1), "embed_dims": (72, 144, 288, 576)}),
    ("pvt", "pvt_v2_b1", 224, {"depths": (3, 3, 3, 3), "embed_dims": (48, 96, 240, 384)}),
    ("hiera", "hiera_small_224", 224, {"embed_dim": 72}),
    ("twins", "twins_svt_small", 224, {"depths": (2, 2, 6, 2)}),
    ("twins", "twins_pcpvt_small", 224, {"embed_dims": (48, 96, 240, 384), "num_heads": (1, 2, 5, 6)}),
    ("tnt", "tnt_s_patch16_224", 224, {"depth": 8}),
    ("crossvit", "crossvit_9_240", 240, {"embed_dim": [160, 320]}),
    ("coat", "coat_lite_small", 224, {"serial_depths": [2, 2, 4, 4]}),
    ("sequencer", "sequencer2d_s", 224, {"layers": [3, 2, 6, 2]}),
)
_TV = "torchvision.models"
_BLOCKS: Mapping[str, Any] = {name: {"named": f"{_TV}.resnet.{name}"} for name in ("BasicBlock", "Bottleneck")}
_PLAIN_CONVOLUTIONS = [64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, "M"]
_VISION: tuple[_Sized, ...] = (  # of torchvision
    ("resnet", "ResNet:slim", 224, {"block": _BLOCKS["Bottleneck"], "layers": [3, 4, 6, 3], "width_per_group": 32}),
    ("resnet", "ResNet:ten", 224, {"block": _BLOCKS["BasicBlock"], "layers": [1, 1, 1, 1]}),
    (
        "resnet",
        "ResNet:grouped",
        192,
        {"block": _BLOCKS["Bottleneck"], "layers": [3, 4, 8, 3], "groups": 16, "width_per_group": 8},
    ),
    ("mobilenet", "mobilenet_v2:half", 224, {"width_mult": 0.5}),
    ("mobilenet", "mobilenet_v2:wide", 192, {"width_mult": 1.5}),
    ("mobilenet", "mobilenet_v3_large:wide", 224, {"width_mult": 1.25}),
    ("mobilenet", "mobilenet_v3_small:wide", 224, {"width_mult": 1.5}),
    ("mnasnet", "MNASNet:slim", 224, {"alpha": 0.35}),
    (
        "shufflenet",
        "ShuffleNetV2:mid",
        224,
        {"stages_repeats": [3, 6, 3], "stages_out_channels": [24, 88, 176, 352, 512]},
    ),
    ("densenet", "DenseNet:slim", 224, {"growth_rate": 16, "block_config": (6, 12, 24, 16)}),
    (
        "vgg",
        "vgg.VGG:nine",
        224,
        {"features": {"class": f"{_TV}.vgg.make_layers", "cfg": _PLAIN_CONVOLUTIONS, "batch_norm": True}},
    ),
    (
        "vit",
        "VisionTransformer:mid",
        224,
        {"image_size": 224, "patch_size": 16, "num_layers": 8, "num_heads": 8, "hidden_dim": 512, "mlp_dim": 2048},
    ),
    (
        "vit",
        "VisionTransformer:coarse",
        256,
        {"image_size": 256, "patch_size": 32, "num_layers": 16, "num_heads": 6, "hidden_dim": 384, "mlp_dim": 1536},
    ),
    (
        "swin",
        "SwinTransformer:slim",
        224,
        {
            "patch_size": [4, 4],
            "embed_dim": 64,
            "depths": [2, 2, 6, 2],
            "num_heads": [2, 4, 8, 16],
            "window_size": [7, 7],
        },
    ),
    (
        "convnext",
        "ConvNeXt:slim",
        224,
        {
            "block_setting": [
                {"class": f"{_TV}.convnext.CNBlockConfig", "input_channels": n, "out_channels": out, "num_layers": many}
                for n, out, many in ((64, 128, 3), (128, 256, 3), (256, 512, 6), (512, None, 3))
            ]
        },
    ),
)


_ROBERTA: Mapping[str, Any] = {
    "vocab_size": 50265,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "pad_token_id": 1,
}
_READ: tuple[Text, ...] = (
    ("bert-l4-h256", "bert", "bert", (MLM, CLS), encoder(256, 4, 4), 512),
    ("bert-l6-h512", "bert", "bert", (CLS, TOK), encoder(512, 6, 8), 512),
    ("bert-l2-h768", "bert", "bert", (CLS,), encoder(768, 2, 12), 512),
    ("bert-l10-h768", "bert", "bert", (MLM,), encoder(768, 10, 12), 512),
    ("bert-l12-h512", "bert", "bert", (QA,), encoder(512, 12, 8), 512),
    ("bert-l6-h1024", "bert", "bert", (CLS,), encoder(1024, 6, 16), 512),
    ("labse", "bert", "bert", (CLS,), {**encoder(768, 12, 12), "vocab_size": 501153}, 512),
    ("multilingual-minilm-l12", "bert", "bert", (CLS, TOK), {**encoder(384, 12, 12, 1536), "vocab_size": 250037}, 512),
    ("scibert-like", "bert", "bert", (TOK,), {**encoder(640, 9, 10), "vocab_size": 31090}, 512),
    ("roberta-mid", "roberta", "bert", (MLM, CLS), {**encoder(512, 8, 8), **_ROBERTA}, 512),
    ("bertweet-like", "roberta", "bert", (CLS,), {**encoder(768, 12, 12), **_ROBERTA, "vocab_size": 64001}, 128),
    ("xlm-roberta-slim", "xlm-roberta", "bert", (TOK,), {**encoder(384, 6, 6), **_ROBERTA, "vocab_size": 250002}, 512),
    (
        "distilbert-mid",
        "distilbert",
        "distilbert",
        (CLS, MLM),
        {"dim": 512, "n_layers": 6, "n_heads": 8, "hidden_dim": 2048},
        512,
    ),
    ("distilbert-deep", "distilbert", "distilbert", (QA,), {"n_layers": 9}, 512),
    ("albert-mid", "albert", "albert", (CLS,), {**encoder(512, 8, 8), "embedding_size": 128}, 512),
    ("electra-mid", "electra", "electra", (CLS, TOK), {**encoder(512, 12, 8), "embedding_size": 256}, 512),
    (
        "deberta-v3-slim",
        "deberta-v2",
        "deberta",
        (CLS,),
        {**encoder(512, 6, 8), "relative_attention": True, "vocab_size": 64000},
        512,
    ),
    ("mpnet-mid", "mpnet", "mpnet", (CLS,), encoder(512, 6, 8), 512),
    ("roformer-small", "roformer", "roformer", (CLS,), encoder(384, 6, 6), 512),
    ("roformer-mid", "roformer", "roformer", (MLM,), encoder(512, 8, 8), 512),
    (
        "fnet-small",
        "fnet",
        "fnet",
        (CLS,),
        {"hidden_size": 512, "num_hidden_layers": 6, "intermediate_size": 2048},
        512,
    ),
    ("convbert-small", "convbert", "convbert", (CLS,), encoder(256, 12, 4, 1024, embedding_size=128), 512),
    ("modernbert-mid", "modernbert", "modernbert", (CLS,), encoder(512, 12, 8, 768), 1024),
    ("layoutlm-mid", "layoutlm", "layoutlm", (TOK,), encoder(512, 8, 8), 512),
    (
        "esm2-12m",
        "esm",
        "esm",
        (MLM,),
        encoder(
            384,
            8,
            12,
            vocab_size=33,
            position_embedding_type="rotary",
            pad_token_id=1,
            mask_token_id=32,
            token_dropout=False,
        ),
        1024,
    ),
    ("nomic-bert-mid", "nomic_bert", "nomic_bert", (CLS,), encoder(512, 8, 8), 512),
)
_CONTINUED: tuple[Text, ...] = (
    ("gpt2-l4", "gpt2", "gpt2", (CLM, CLS), {"n_embd": 384, "n_layer": 4, "n_head": 6}, 1024),
    ("gpt2-l16", "gpt2", "gpt2", (CLM,), {"n_embd": 640, "n_layer": 16, "n_head": 10}, 1024),
    (
        "gpt-neo-mid",
        "gpt_neo",
        "gpt_neo",
        (CLM,),
        {"hidden_size": 640, "num_layers": 8, "num_heads": 10, "attention_types": [[["global", "local"], 4]]},
        1024,
    ),
    ("pythia-100m", "gpt_neox", "gpt_neox", (CLM,), encoder(640, 8, 10), 1024),
    ("pythia-250m", "gpt_neox", "gpt_neox", (CLM,), encoder(896, 16, 14), 1024),
    (
        "opt-60m",
        "opt",
        "opt",
        (CLM,),
        {
            "hidden_size": 512,
            "ffn_dim": 2048,
            "num_hidden_layers": 8,
            "num_attention_heads": 8,
            "word_embed_proj_dim": 512,
        },
        1024,
    ),
    (
        "bloom-mid",
        "bloom",
        "bloom",
        (CLM,),
        {"hidden_size": 640, "n_layer": 10, "n_head": 10, "vocab_size": 64000},
        1024,
    ),
    (
        "codegen-small",
        "codegen",
        "codegen",
        (CLM,),
        {"n_embd": 768, "n_layer": 12, "n_head": 12, "rotary_dim": 32},
        1024,
    ),
    ("starcoder-164m", "gpt_bigcode", "gpt_bigcode", (CLM,), {"n_embd": 768, "n_layer": 20, "n_head": 12}, 1024),
    ("llama-30m", "llama", "llama", (CLM, CLS), decoder(448, 1216, 7, 7, 7, 32000), 1024),
    ("llama-250m", "llama", "llama", (CLM,), decoder(896, 2560, 20, 14, 14, 32000), 1024),
    ("llama-410m-gqa", "llama", "llama", (CLM,), decoder(1152, 3072, 18, 18, 6, 50304), 1024),
    ("qwen2-150m", "qwen2", "llama", (CLM,), decoder(640, 1728, 14, 10, 2, 100000), 1024),
    ("qwen3-150m", "qwen3", "qwen3", (CLM,), decoder(640, 1920, 14, 10, 5, 64000, head_dim=64), 1024),
    ("mistral-100m", "mistral", "llama", (CLM,), decoder(704, 1920, 10, 11, 11, 32000, head_dim=64), 1024),
    ("gemma-150m", "gemma", "gemma", (CLM,), decoder(576, 2304, 10, 4, 1, 64000, head_dim=144), 1024),
    ("gemma3-150m", "gemma3_text", "gemma3", (CLM,), decoder(512, 2048, 12, 4, 1, 128000, head_dim=128), 1024),
    ("phi-160m", "phi", "phi", (CLM,), decoder(768, 3072, 12, 12, 12, 51200), 1024),
    ("phi3-160m", "phi3", "phi3", (CLM,), decoder(768, 2048, 12, 12, 12, 32064), 1024),
    ("stablelm-160m", "stablelm", "stablelm", (CLM,), decoder(768, 2048, 12, 12, 12, 50304), 1024),
    ("olmo2-190m", "olmo2", "olmo2", (CLM,), decoder(768, 3072, 12, 12, 12, 100278), 1024),
    ("granite-mid", "granite", "granite", (CLM,), decoder(640, 1792, 12, 10, 2, 49155), 1024),
    ("starcoder2-mid", "starcoder2", "starcoder2", (CLM,), decoder(640, 2560, 10, 10, 2, 49152), 1024),
)
_REWRITTEN: tuple[Text, ...] = (
    ("t5-l8", "t5", "t5", (S2S,), t5(512, 2048, 8, 8), 512),
    ("t5-efficient-mini", "t5", "t5", (S2S,), t5(384, 1536, 4, 8), 512),
    ("t5-efficient-tiny", "t5", "t5", (S2S,), t5(256, 1024, 4, 4), 512),
    ("bart-l4", "bart", "bart", (S2S,), halves(640, 2560, 4, 10), 1024),
    ("distilbart-12-3", "bart", "bart", (S2S,), {**halves(1024, 4096, 12, 16), "decoder_layers": 3}, 1024),
    (
        "marian-l4",
        "marian",
        "bart",
        (S2S,),
        {**halves(384, 1536, 4, 6), "vocab_size": 32000, "pad_token_id": 0, "decoder_start_token_id": 0},
        512,
    ),
    ("pegasus-mid", "pegasus", "bart", (S2S,), {**halves(512, 2048, 8, 8), "vocab_size": 64000}, 512),
    ("led-small", "led", "led", (S2S,), halves(512, 2048, 4, 8), 1024),
)
_SIZED = Collection(
    vision=(),
    text=(*_READ, *_CONTINUED, *_REWRITTEN),
    pictures=(
        classifier("hf-vit-l8", "vit", encoder(512, 8, 8)),
        classifier("hf-deit-l6", "deit", encoder(384, 6, 6), group="vit", head="DeiTForImageClassification"),
        classifier(
            "hf-dinov2-l8",
            "dinov2",
            {"hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8, "image_size": 224},
            group="vit",
        ),
        classifier("hf-beit-l8", "beit", encoder(512, 8, 8)),
        classifier("hf-swin-mid", "swin", {"embed_dim": 72, "depths": [2, 2, 8, 2]}),
        classifier(
            "hf-swinv2-mid",
            "swinv2",
            {"embed_dim": 64, "depths": [2, 2, 4, 2], "num_heads": [2, 4, 8, 16]},
            group="swin",
        ),
        classifier("hf-convnext-slim", "convnext", {"hidden_sizes": [64, 128, 256, 512]}, family="cnn"),
        classifier(
            "hf-convnextv2-nano",
            "convnextv2",
            {"depths": [2, 2, 8, 2], "hidden_sizes": [80, 160, 320, 640]},
            group="convnext",
            family="cnn",
        ),
        classifier(
            "hf-resnet-slim", "resnet", {"depths": [3, 4, 6, 3], "hidden_sizes": [128, 256, 512, 1024]}, family="cnn"
        ),
        classifier(
            "hf-efficientnet-b2",
            "efficientnet",
            {"width_coefficient": 1.1, "depth_coefficient": 1.2, "hidden_dim": 1408, "image_size": 260},
            family="cnn",
        ),
        classifier(
            "hf-efficientnet-lean",
            "efficientnet",
            {"width_coefficient": 0.75, "depth_coefficient": 1.0, "hidden_dim": 960, "image_size": 224},
            family="cnn",
        ),
        classifier("hf-mobilenet-v2-035", "mobilenet_v2", {"depth_multiplier": 0.35}, group="mobilenet", family="cnn"),
        classifier("hf-mobilenet-v1-050", "mobilenet_v1", {"depth_multiplier": 0.5}, group="mobilenet", family="cnn"),
        labeller(
            "hf-segformer-lean-seg",
            "segformer",
            {"image_size": 256, "depths": [2, 2, 4, 2], "hidden_sizes": [48, 96, 192, 384]},
        ),
        classifier(
            "hf-poolformer-lean",
            "poolformer",
            {"depths": [2, 2, 4, 2], "hidden_sizes": [48, 96, 240, 384]},
            group="metaformer",
            family="cnn",
        ),
        classifier(
            "hf-pvt-v2-lean", "pvt_v2", {"depths": [2, 2, 4, 2], "hidden_sizes": [48, 96, 240, 384]}, group="pvt"
        ),
        classifier(
            "hf-levit-192",
            "levit",
            {"hidden_sizes": [192, 288, 384], "num_attention_heads": [3, 5, 6], "key_dim": [32, 32, 32]},
            head="LevitForImageClassification",
        ),
        (
            "hf-mae-small",
            "vit_mae",
            "vit_mae",
            "transformer",
            "ViTMAEForPreTraining",
            "masked_image",
            {
                **encoder(384, 12, 6),
                "decoder_hidden_size": 256,
                "decoder_num_hidden_layers": 4,
                "decoder_num_attention_heads": 8,
                "decoder_intermediate_size": 1024,
            },
        ),
        pair("clip-mid", "clip", {"vision_config": encoder(512, 8, 8), "text_config": encoder(384, 8, 6)}),
        pair("siglip-mid", "siglip", {"vision_config": encoder(512, 8, 8), "text_config": encoder(512, 8, 8)}),
    ),
    audio=(
        ("wav2vec2-l6", "wav2vec2", "wav2vec2", encoder(512, 6, 8)),
        ("hubert-l8", "hubert", "wav2vec2", encoder(640, 8, 10)),
        ("wavlm-l6", "wavlm", "wavlm", encoder(512, 6, 8)),
        ("unispeech-l6", "unispeech", "unispeech", encoder(512, 6, 8)),
        ("sew-small", "sew", "sew", encoder(384, 12, 6)),
    ),
    others=(whisper("whisper-l5", halves(448, 1792, 5, 7)),),
)

_GIVEN = "input_ids@32000:L attention_mask@=1:L labels@32000:L"
_WRITING: tuple[TransformersRow, ...] = (  # words alone, of new families
    (
        "minimax_m3",
        "minimax_m3_vl_text",
        "MiniMaxM3VLForCausalLM",
        _GIVEN,
        {**CHAT, "head_dim": 64, "num_local_experts": 8, "num_experts_per_tok": 2},
    ),
    ("gemma4_unified", "gemma4_unified_text", "Gemma4UnifiedForCausalLM", _GIVEN, {**CHAT, "head_dim": 64}),
    (
        "glm5_next",
        "glm5_next_text",
        "Glm5NextTextModel",
        "input_ids@32000:L attention_mask@=1:L",
        {**CHAT, "num_key_value_heads": 8, "pad_token_id": 0},
    ),
    ("muse_glimmer", "muse_glimmer_text", "MuseGlimmerTextModel", "input_ids@32000:L attention_mask@=1:L", {**CHAT}),
    ("moshi", "moshi", "MoshiForCausalLM", _GIVEN, {**CHAT, "ffn_dim": 2048}),
)
_HEARD: tuple[TransformersRow, ...] = (
    (
        "nemotron_asr",
        "nemotron_asr_streaming_encoder",
        "NemotronAsrStreamingEncoder",
        "input_features@512x80 attention_mask@=1:512",
        {**WORDS, "num_mel_bins": 80},
    ),
    ("gemma4_audio", "gemma4_audio", "Gemma4AudioModel", "input_features@512x128 attention_mask@=1:512", {**WORDS}),
)
_LOOKED: tuple[TransformersRow, ...] = (
    ("superpoint", "superpoint", "SuperPointForKeypointDetection", "pixel_values@3x240x320", {}),
    ("pp_ocrv6_rec", "pp_ocrv6_tiny_rec", "PPOCRV6TinyRecModel", "pixel_values@3x48x320", {}),
)


def entries() -> Iterator[Entry]:
    """Yield every model."""
    yield from of_transformers(_WRITING, "words")
    yield from of_transformers(_HEARD, "words")
    yield from of_transformers(_LOOKED, "volume", "cnn")
    yield from _sized(_CONVOLVED, "cnn")
    yield from _sized(_ATTENDED, "transformer")
    for group, key, side, config in _VISION:
        path, _, variant = key.partition(":")
        family: Family = "transformer" if group in ("vit", "swin") else "cnn"
        name = f"torchvision/{path.rpartition('.')[2]}-{variant}"
        yield made(name, group, f"{_TV}.{path}", config, family=family, size=side)
    yield from _SIZED.entries()
    yield from twelfth_libraries.entries()


def _sized(rows: tuple[_Sized, ...], family: Family) -> Iterator[Entry]:
    """Yield timm's models in sizes of one's own."""
    for group, name, side, changes in rows:
        sizes = "-".join(
            str(n) for value in changes.values() for n in (value if isinstance(value, list | tuple) else [value])
        )
        told = {"model_name": name, **changes}
        yield made(f"timm/{name}-{sizes}", group, "timm.create_model", told, family=family, size=side)
