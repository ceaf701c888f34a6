"""Models of the tenth collection: more of transformers, and of more libraries. Pure data.

As in the collections before, a family is fresh if nothing that any of them measured has the name of its architecture;
else the model is kin of that family, in another implementation or another size. That was decided by names, before any
was measured: the fresh ones are in `fresh.py`. Sizes are the library's defaults, smaller where such a
model is trained on many GPUs. The models of libraries are in `tenth_libraries.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from estimator.dataset.catalogues import tenth_libraries
from estimator.dataset.catalogues.configs import CHAT, LATENT, NARROW, PATCHES, WORDS, decoder, encoder, halves, t5
from estimator.dataset.catalogues.entries import Collection, Entry, classifier
from estimator.dataset.catalogues.heads import CLM, CLS, MLM, S2S, TOK
from estimator.dataset.catalogues.rows import TransformersRow, of_transformers

_LISTENING: Mapping[str, Any] = {**WORDS, "num_key_value_heads": 6, "head_dim": 64}
_ROUTED: Mapping[str, Any] = {"moe_intermediate_size": 512, "n_routed_experts": 8, "num_experts_per_tok": 2}
_CONTINUED = "input_ids@32000:L attention_mask@=1:L labels@32000:L"
_HEARD: Mapping[str, Any] = encoder(384, 6, 6, num_key_value_heads=6)

_READ: tuple[TransformersRow, ...] = (  # words alone
    (
        "mistral4",
        "mistral4",
        "Mistral4ForCausalLM",
        _CONTINUED,
        {**decoder(512, 1536, 6, 8, 8, 32000), **LATENT, **_ROUTED, "num_experts_per_tok": 2, "pad_token_id": 0},
    ),
    ("axk2", "axk2", "AXK2ForCausalLM", _CONTINUED, {**decoder(512, 1536, 6, 8, 8, 32000), **LATENT, **_ROUTED}),
    (
        "hy_v4",
        "hy_v4",
        "HYV4ForCausalLM",
        _CONTINUED,
        {**decoder(512, 1536, 6, 8, 8, 32000), **LATENT, **_ROUTED, "pad_token_id": 0},
    ),
    (
        "qwen3_5_moe",
        "qwen3_5_moe_text",
        "Qwen3_5MoeForCausalLM",
        _CONTINUED,
        {
            **CHAT,
            "head_dim": 64,
            "moe_intermediate_size": 512,
            "shared_expert_intermediate_size": 512,
            "num_experts": 8,
            "num_experts_per_tok": 2,
            "linear_num_key_heads": 4,
            "linear_num_value_heads": 8,
        },
    ),
    (
        "cpmant",
        "cpmant",
        "CpmAntForCausalLM",
        "input_ids@30000:L labels@30000:L",
        {"hidden_size": 512, "num_attention_heads": 8, "dim_head": 64, "dim_ff": 2048, "num_hidden_layers": 6},
    ),
)
_PAIRED: tuple[TransformersRow, ...] = (  # words with pictures
    (
        "bridgetower",
        "bridgetower",
        "BridgeTowerModel",
        "input_ids@50265:64 attention_mask@=1:64 pixel_values@3x224x224 pixel_mask@=1:224x224",
        {
            **WORDS,
            "num_hidden_layers": 3,
            "text_config": WORDS,
            "vision_config": {"hidden_size": 384, "num_hidden_layers": 6, "image_size": 224},
        },
    ),
    (
        "deepseek_vl",
        "deepseek_vl",
        "DeepseekVLForConditionalGeneration",
        "input_ids@=31999:196|1000:L pixel_values@3x224x224",
        {
            "text_config": {"model_type": "llama", **CHAT},
            "vision_config": {"model_type": "siglip_vision_model", **PATCHES},
            "image_token_id": 31999,
        },
    ),
    (
        "cohere2_vision",
        "cohere2_vision",
        "Cohere2VisionForConditionalGeneration",
        "input_ids@=31999:49|1000:L pixel_values@3x224x224",
        {
            "text_config": {"model_type": "cohere2", **CHAT, "sliding_window": 128, "pad_token_id": 0},
            "vision_config": {"model_type": "siglip_vision_model", **PATCHES},
            "image_token_id": 31999,
            "alignment_intermediate_size": 2048,
        },
    ),
    (
        "ovis2",
        "ovis2",
        "Ovis2ForConditionalGeneration",
        "input_ids@=31999:49|1000:L pixel_values@3x224x224",
        {
            "text_config": {"model_type": "qwen2", **CHAT},
            "vision_config": {**PATCHES, "vocab_size": 4096, "hidden_stride": 2},
            "image_token_id": 31999,
            "visual_indicator_token_ids": [31990, 31991, 31992, 31993, 31994],
            "hidden_size": 512,
            "vocab_size": 32000,
        },
    ),
    (
        "aria",
        "aria",
        "AriaForConditionalGeneration",
        "input_ids@=31999:64|1000:L pixel_values@3x224x224",
        {
            "text_config": {
                "model_type": "aria_text",
                **CHAT,
                "moe_num_experts": 8,
                "moe_topk": 2,
                "moe_num_shared_experts": 1,
                "pad_token_id": 0,
            },
            "vision_config": {"model_type": "idefics3_vision", **PATCHES},
            "projector_patch_to_query_dict": {196: 64},
            "image_token_index": 31999,
        },
    ),
    (
        "idefics",
        "idefics",
        "IdeficsForVisionText2Text",
        "input_ids@32000:L attention_mask@=1:L pixel_values@1x3x224x224 image_attention_mask@=1:Lx1 labels@32000:L",
        encoder(
            512,
            6,
            8,
            1536,
            vocab_size=32000,
            cross_layer_interval=2,
            vision_config={
                "embed_dim": 384,
                "image_size": 224,
                "intermediate_size": 1536,
                "num_hidden_layers": 6,
                "num_attention_heads": 6,
                "patch_size": 16,
            },
        ),
    ),
    (
        "fuyu",
        "fuyu",
        "FuyuForCausalLM",
        _CONTINUED,
        encoder(512, 8, 8, vocab_size=32000, text_config=encoder(512, 8, 8, model_type="persimmon", vocab_size=32000)),
    ),
    (
        "kosmos_2_5",
        "kosmos-2.5",
        "Kosmos2_5ForConditionalGeneration",
        "input_ids@30000:L attention_mask@=1:L labels@30000:L",
        {
            "text_config": {"vocab_size": 32000, "embed_dim": 512, "layers": 6, "ffn_dim": 2048, "attention_heads": 8},
            "vision_config": {"hidden_size": 384, "num_hidden_layers": 4, "num_attention_heads": 6},
        },
    ),
)
_SEEN: tuple[TransformersRow, ...] = (  # pictures
    ("efficientloftr", "efficientloftr", "EfficientLoFTRModel", "pixel_values@2x3x192x256", {}),
    ("slanet", "slanet", "SLANetForTableRecognition", "pixel_values@3x256x256", {}),
    (
        "tvp",
        "tvp",
        "TvpModel",
        "input_ids@30522:16 pixel_values@8x3x224x224 attention_mask@=1:16",
        {**WORDS, "num_frames": 8, "max_img_size": 224, "visual_prompt_size": 32},
    ),
    # Of known families.
    ("lcnet", "pp_lcnet_v3", "PPLCNetV3Backbone", "pixel_values@3x224x224", {}),
    (
        "eomt",
        "eomt_dinov3",
        "EomtDinov3ForUniversalSegmentation",
        "pixel_values@3x256x256",
        {**WORDS, "image_size": 256, "num_blocks": 2, "num_queries": 100},
    ),
    (
        "naflexvit",
        "siglip2_vision_model",
        "Siglip2VisionModel",
        "pixel_values@196x768 pixel_attention_mask@=1:196 spatial_shapes@=14:2",
        {**WORDS},
    ),
)
_SOUNDS: tuple[TransformersRow, ...] = (
    (
        "lasr",
        "lasr_ctc",
        "LasrForCTC",
        "input_features@512x128 attention_mask@=1:512 labels@500:32",
        {"encoder_config": {**_HEARD, "hidden_size": 384}},
    ),
    (
        "moonshine_streaming",
        "moonshine_streaming",
        "MoonshineStreamingForConditionalGeneration",
        "input_values@32000 attention_mask@=1:32000 labels@32000:L",
        {"decoder_start_token_id": 1, "num_key_value_heads": 8},
    ),
    (
        "glmasr",
        "glmasr_encoder",
        "GlmAsrEncoder",
        "input_features@128x1000",
        {**_HEARD, "max_position_embeddings": 500},
    ),
    (
        "audioflamingo3",
        "audioflamingo3_encoder",
        "AudioFlamingo3Encoder",
        "input_features@128x3000 input_features_mask@=1:3000",
        {"d_model": 384, "encoder_layers": 6, "encoder_attention_heads": 6, "encoder_ffn_dim": 1536},
    ),
    (
        "voxtral_realtime",
        "voxtral_realtime_encoder",
        "VoxtralRealtimeEncoder",
        "input_features@128x1000",
        {**_HEARD, "head_dim": 64},
    ),
    (
        "qwen3_asr",
        "qwen3_asr_encoder",
        "Qwen3ASREncoder",
        "input_features@128x1000 input_features_mask@=1:1000",
        {"d_model": 384, "encoder_layers": 6, "encoder_attention_heads": 6, "encoder_ffn_dim": 1536},
    ),
    (
        "canary",
        "canary",
        "CanaryForConditionalGeneration",
        "input_features@512x80 attention_mask@=1:512 labels@16000:L",
        {"encoder_config": {**_HEARD, "num_mel_bins": 80}, "decoder_config": {**_LISTENING, "num_hidden_layers": 4}},
    ),
    (
        "cohere_asr",
        "cohere_asr",
        "CohereAsrForConditionalGeneration",
        "input_features@512x80 attention_mask@=1:512 labels@16000:L",
        {**_HEARD, "head_dim": 64, "encoder_config": {**_HEARD, "num_mel_bins": 80}, "decoder_start_token_id": 4},
    ),
    # Of known families.
    (
        "encodec",
        "encodec",
        "EncodecModel:small",
        "1x16000",
        {"num_filters": 16, "num_residual_layers": 2, "hidden_size": 64, "codebook_dim": 64},
    ),
    ("dac", "dac", "DacModel:small", "1x16384", {"encoder_hidden_size": 32, "decoder_hidden_size": 768}),
    ("univnet", "univnet", "UnivNetModel:wide", "64x100", {"model_hidden_channels": 64}),
)
_MINI: Mapping[str, Any] = encoder(512, 8, 8)
_SIZES = Collection(  # of known families, in sizes that were not measured
    vision=(
        (
            "timm",
            "cnn",
            "image",
            {
                "resnet": "resnet32ts resnetblur50 resnet101s resnext26ts",
                "convnext": "convnext_zepto_rms_ols convnext_small convnextv2_small",
                "efficientnet": "efficientnet_b4:320 efficientnet_cc_b1_8e efficientnet_lite1",
                "mobilenet": "mobilenetv2_075 mobilenetv3_small_075 mobilenet_edgetpu_100",
                "regnet": "regnetx_008 regnety_016",
                "densenet": "densenet169",
            },
        ),
        (
            "timm",
            "transformer",
            "image",
            {
                "vit": "vit_betwixt_patch16_gap_256:256 vit_base_patch32_clip_256:256 vit_base_patch16_18x2_224",
                "swin": "swinv2_base_window12_192:192 swin_large_patch4_window7_224",
                "eva": "eva02_tiny_patch14_336:336",
                "maxvit": "maxvit_rmlp_pico_rw_256:256",
            },
        ),
    ),
    text=(
        ("bert-compact", "bert", "bert", (MLM,), {**_MINI}, 512),
        ("electra-compact", "electra", "electra", (TOK,), {**_MINI}, 512),
        ("deberta-v2-compact", "deberta-v2", "deberta", (CLS,), {**_MINI, "vocab_size": 64000}, 512),
        ("distilbert-compact", "distilbert", "distilbert", (CLS,), {"dim": 384, "n_layers": 4, "n_heads": 6}, 512),
        ("gpt2-compact", "gpt2", "gpt2", (CLM,), {"n_embd": 512, "n_layer": 8, "n_head": 8}, 1024),
        ("llama-compact", "llama", "llama", (CLM,), decoder(640, 1792, 10, 10, 2, 32000), 1024),
        ("qwen2-compact", "qwen2", "qwen2", (CLM,), decoder(768, 2304, 8, 12, 2, 64000), 1024),
        ("mistral-compact", "mistral", "mistral", (CLM,), decoder(512, 1536, 8, 8, 2, 32000), 1024),
        ("t5-compact", "t5", "t5", (S2S,), t5(384, 1536, 6, 6), 512),
        ("bart-compact", "bart", "bart", (S2S,), halves(512, 2048, 4, 8), 512),
    ),
    pictures=(
        classifier("hf-vit-compact", "vit", {**NARROW}),
        classifier("hf-swin-compact", "swin", {"embed_dim": 64, "depths": [2, 2, 4, 2], "num_heads": [2, 4, 8, 16]}),
        classifier("hf-resnet-compact", "resnet", {"depths": [2, 2, 4, 2]}, family="cnn"),
    ),
)


def entries() -> Iterator[Entry]:
    """Yield every model."""
    yield from of_transformers(_READ, "words")
    yield from of_transformers(_PAIRED, "words")
    yield from of_transformers(_SEEN, "volume", "cnn")
    yield from of_transformers(_SOUNDS, "words")
    yield from _SIZES.entries()
    yield from tenth_libraries.entries()
