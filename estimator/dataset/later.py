"""Real models of the second collection: architecture families that the first one lacks. Pure data.

About half of these families are fresh: nothing was ever fitted to them, nor looked at while the method was made.
Which ones is decided by their names (`estimator.dataset.specs.split_of`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from estimator.dataset.entries import Entry, Feed, decoder, language, library, pictures, plain, sounds
from estimator.types import Family

# Architecture family: models of timm, each with the side of its pictures where that is not 224.
_CNN = {
    "byoanet": "botnet26t_256:256 halonet26t:256 sebotnet33ts_256:256 lambda_resnet26t:256 eca_halonext26ts:256",
    "rdnet": "rdnet_tiny rdnet_small rdnet_base",
    "repghost": "repghostnet_050 repghostnet_100 repghostnet_200",
    "senet": "legacy_seresnet18 legacy_seresnet50 legacy_seresnext26_32x4d legacy_senet154",
    "shvit": "shvit_s1 shvit_s2 shvit_s3 shvit_s4:256",
    "csatv2": "csatv2:512",
    "mobilenetv5": "mobilenetv5_base:256",
    "lcnetv2": "lcnetv2_small lcnetv2_base lcnetv2_large",
    "lowformer": "lowformer_b0 lowformer_b1 lowformer_b3",
    "cpubone": "cpubone_b0_bfrobust cpubone_b1_bfrobust cpubone_b1_dwnorm",
}
_ATTENTION = {
    "vit_hybrid": "vit_tiny_r_s16_p8_224 vit_small_r26_s32_224 vit_base_r50_s16_224",
    "vit_relpos": "vit_relpos_small_patch16_224 vit_relpos_base_patch16_clsgap_224 vit_srelpos_small_patch16_224",
    "samvit": "samvit_base_patch16_224",
    "vitamin": "vitamin_small_224 vitamin_base_224",
    "hieradet": "hieradet_small",
    "naflexvit": "naflexvit_base_patch16_gap:384",
}
# More models of families that the first collection has.
_MORE_CNN = {
    "resnet": "resnet50_gn resnet50t:288 seresnext26d_32x4d",
    "resnetv2": "resnetv2_34d",
    "res2net": "res2next50 res2net101d",
    "resnest": "resnest26d resnest50d_4s2x40d",
    "sknet": "skresnext50_32x4d",
    "mixnet": "mixnet_m mixnet_xl",
    "fbnet": "fbnetv3_d",
    "tinynet": "tinynet_c",
    "mobilenet": "mobilenetv4_conv_large mobilenetv3_rw mobilenetv2_110d",
    "efficientnet": "efficientnet_b0_gn efficientnet_el efficientnetv2_s",
    "dpn": "dpn107",
    "dla": "dla102x2 dla60_res2net dla46x_c",
    "hrnet": "hrnet_w40 hrnet_w18_small_v2",
    "nfnet": "nf_ecaresnet50 eca_nfnet_l1 dm_nfnet_f1",
    "ghostnet": "ghostnet_130 ghostnetv2_160",
    "vovnet": "ese_vovnet39b_evos eca_vovnet39b",
    "cspnet": "cs3darknet_m cspresnet50d cs3sedarknet_x",
    "byobnet": "repvgg_b1g4 gernet_l mobileone_s2 gcresnext26ts:256 resnet51q:256",
    "regnet": "regnetv_040 regnetz_c16:256 regnety_320",
    "rexnet": "rexnet_150 rexnetr_200",
    "tresnet": "tresnet_l",
    "selecsls": "selecsls84",
    "convnext": "convnext_atto convnext_pico_ols convnextv2_atto",
    "inception_next": "inception_next_atto inception_next_base",
    "hgnet": "hgnet_base hgnetv2_b5",
    "starnet": "starnet_s2 starnet_s3",
    "repvit": "repvit_m1_5",
    "fasternet": "fasternet_t2 fasternet_m",
    "metaformer": "convformer_s36 caformer_b36 poolformer_m36 poolformerv2_s36",
    "mobilevit": "mobilevit_xxs:256 mobilevitv2_150:256",
    "edgenext": "edgenext_x_small edgenext_small_rw",
    "efficientformer": "efficientformerv2_s2 efficientformer_l7",
    "efficientvit": "efficientvit_b3 efficientvit_m4 efficientvit_l2",
    "fastvit": "fastvit_t12 fastvit_ma36",
    "swiftformer": "swiftformer_s swiftformer_l3",
    "mambaout": "mambaout_kobe mambaout_small mambaout_base",
    "nextvit": "nextvit_base",
    "tinyvit": "tiny_vit_21m_224",
    "convmixer": "convmixer_1536_20",
}
_MORE_ATTENTION = {
    "vit": "vit_medium_patch16_gap_240:240 vit_small_patch14_dinov2 vit_so150m_patch16_reg4_gap_256:256 "
    "deit3_medium_patch16_224 deit_small_distilled_patch16_224 vit_wee_patch16_reg1_gap_256:256",
    "beit": "beit_large_patch16_224",
    "eva": "eva02_small_patch14_224 eva02_base_patch16_clip_224 vit_small_patch16_rope_224",
    "cait": "cait_xxs36_224",
    "xcit": "xcit_tiny_24_p16_224 xcit_medium_24_p16_224 xcit_tiny_12_p8_224",
    "coat": "coat_lite_tiny coat_lite_medium coat_small",
    "pit": "pit_ti_224 pit_s_distilled_224",
    "levit": "levit_192 levit_conv_256",
    "tnt": "tnt_b_patch16_224",
    "twins": "twins_pcpvt_base twins_svt_large",
    "crossvit": "crossvit_small_240:240 crossvit_18_dagger_240:240",
    "nest": "nest_small nest_base_jx",
    "mlp_mixer": "gmixer_24_224 mixer_l16_224 resmlp_big_24_224",
    "maxvit": "coatnet_bn_0_rw_224 coatnet_2_rw_224 maxvit_nano_rw_256:256 maxxvit_rmlp_nano_rw_256:256",
    "swin": "swin_small_patch4_window7_224 swinv2_small_window8_256:256 swinv2_cr_small_224 swin_s3_tiny_224",
    "volo": "volo_d2_224",
    "focalnet": "focalnet_tiny_lrf focalnet_base_srf",
    "davit": "davit_base",
    "gcvit": "gcvit_xtiny gcvit_small",
    "pvt": "pvt_v2_b1 pvt_v2_b3 pvt_v2_b2_li",
    "mvit": "mvitv2_base mvitv2_small_cls",
    "hiera": "hiera_small_224",
    "sequencer": "sequencer2d_m",
}
# torchvision's models of videos: sixteen pictures of this side.
_VIDEO: dict[str, tuple[Family, str]] = {
    "video_resnet": ("cnn", "r3d_18:112 mc3_18:112 r2plus1d_18:112"),
    "s3d": ("cnn", "s3d"),
    "mvit": ("transformer", "mvit_v1_b"),
    "swin": ("transformer", "swin3d_t"),
}
# Models that users write themselves, see `estimator.dataset.plain`: family, models, longest sequence (0: none).
_PLAIN: dict[str, tuple[Family, str, int]] = {
    "lenet": ("cnn", "mnist_cnn lenet5 cifar_cnn", 0),
    "unet": ("cnn", "unet32 unet64", 0),
    "dcgan": ("cnn", "dcgan_generator dcgan_discriminator", 0),
    "vae": ("cnn", "conv_autoencoder vae64", 0),
    "edsr": ("cnn", "edsr16 srresnet", 0),
    "wrn": ("cnn", "wrn28_4 wrn28_10", 0),
    "pointnet": ("cnn", "pointnet pointnet_wide", 0),
    "tcn": ("cnn", "tcn8 tcn8_wide", 1024),
    "conv3d": ("cnn", "conv3d_small conv3d_large", 0),
    "crnn": ("cnn", "crnn256 crnn512", 0),
    "lstm": ("mlp", "lstm_classifier bilstm_tagger", 512),
    "gru": ("mlp", "gru_forecast:0 gru_words", 512),
    "dlrm": ("mlp", "dlrm_small dlrm_large", 0),
    "torch_transformer": ("transformer", "torch_encoder torch_encoder_deep torch_seq2seq", 512),
    "nanogpt": ("transformer", "nanogpt_small nanogpt_base", 1024),
    "plain_vit": ("transformer", "plain_vit_small plain_vit_base", 0),
    "unet_attention": ("cnn", "diffusion_unet diffusion_unet_wide", 0),
}

_MLM, _CLS, _TOK, _CLM, _S2S = (
    "MaskedLM",
    "SequenceClassification",
    "TokenClassification",
    "CausalLM",
    "Seq2SeqLM",
)


_MOE = {"num_experts_per_tok": 2}
_TEXT: tuple[tuple[str, str, str, tuple[str, ...], dict[str, Any], int], ...] = (
    # name, model type, architecture family, heads, configuration, longest sequence
    ("funnel-base", "funnel", "funnel", (_MLM, _CLS), {}, 512),
    ("longformer-base", "longformer", "longformer", (_MLM, _CLS), {"attention_window": 512}, 2048),
    ("rembert-small", "rembert", "rembert", (_CLS, _TOK), {"num_hidden_layers": 12}, 512),
    ("canine-small", "canine", "canine", (_CLS,), {}, 1024),
    ("flaubert-base", "flaubert", "xlm", (_CLS,), {"emb_dim": 768, "n_layers": 12, "n_heads": 12}, 512),
    ("xlm-small", "xlm", "xlm", (_CLS,), {"emb_dim": 1024, "n_layers": 6, "n_heads": 8}, 512),
    (
        "esm2-35m",
        "esm",
        "esm",
        (_MLM, _CLS),
        {
            "vocab_size": 33,
            "hidden_size": 480,
            "num_hidden_layers": 12,
            "num_attention_heads": 20,
            "intermediate_size": 1920,
            "position_embedding_type": "rotary",
            "pad_token_id": 1,
            "mask_token_id": 32,
            "emb_layer_norm_before": False,
            "token_dropout": False,
        },
        1024,
    ),
    ("nystromformer-base", "nystromformer", "nystromformer", (_MLM, _CLS), {}, 512),
    (
        "megatron-bert-medium",
        "megatron-bert",
        "megatron_bert",
        (_MLM, _CLS),
        {"num_hidden_layers": 12},
        512,
    ),
    ("roberta-preln-base", "roberta-prelayernorm", "roberta_preln", (_CLS, _MLM), {}, 512),
    ("nomic-bert-base", "nomic_bert", "nomic_bert", (_MLM, _CLS), {}, 1024),
    ("eurobert-210m", "eurobert", "eurobert", (_MLM, _CLS), decoder(768, 3072, 12, 12, 12, 128256), 1024),
    ("luke-base", "luke", "luke", (_CLS,), {"entity_vocab_size": 5000}, 512),
    ("lilt-base", "lilt", "lilt", (_CLS,), {}, 512),
    ("gptj-small", "gptj", "gptj", (_CLM, _CLS), {"n_embd": 1024, "n_layer": 12, "n_head": 16, "rotary_dim": 64}, 1024),
    (
        "starcoder-small",
        "gpt_bigcode",
        "gpt_bigcode",
        (_CLM, _CLS),
        {"n_embd": 1024, "n_layer": 16, "n_head": 16},
        1024,
    ),
    ("biogpt-small", "biogpt", "biogpt", (_CLM,), {"num_hidden_layers": 12}, 1024),
    ("ctrl-small", "ctrl", "ctrl", (_CLM,), {"n_layer": 8, "n_embd": 1024, "dff": 4096, "vocab_size": 50000}, 512),
    ("openai-gpt", "openai-gpt", "openai_gpt", (_CLM, _CLS), {}, 512),
    (
        "falcon-small",
        "falcon",
        "falcon",
        (_CLM, _CLS),
        {"hidden_size": 1024, "num_hidden_layers": 16, "num_attention_heads": 16},
        1024,
    ),
    ("mpt-small", "mpt", "mpt", (_CLM,), {"d_model": 1024, "n_layers": 12, "n_heads": 16}, 1024),
    ("persimmon-small", "persimmon", "persimmon", (_CLM,), decoder(1024, 4096, 12, 16, 16, 100000), 1024),
    ("cohere-small", "cohere", "cohere", (_CLM,), decoder(1024, 3584, 12, 16, 16, 128000), 1024),
    ("olmo2-small", "olmo2", "olmo2", (_CLM,), decoder(1024, 4096, 16, 16, 16, 100352), 1024),
    ("gemma2-small", "gemma2", "gemma2", (_CLM, _CLS), decoder(768, 3072, 14, 8, 4, 128000, head_dim=128), 1024),
    ("gemma3-270m", "gemma3_text", "gemma3", (_CLM,), decoder(640, 2048, 18, 4, 1, 262144, head_dim=256), 1024),
    ("phi3-small", "phi3", "phi3", (_CLM,), decoder(1024, 2816, 16, 16, 8, 32064), 2048),
    ("starcoder2-small", "starcoder2", "starcoder2", (_CLM,), decoder(1024, 4096, 16, 16, 4, 49152), 2048),
    ("glm-small", "glm", "glm", (_CLM,), decoder(1024, 3584, 14, 16, 4, 64000, head_dim=64, pad_token_id=0), 1024),
    ("glm4-small", "glm4", "glm", (_CLM,), decoder(1024, 3584, 12, 16, 4, 64000, head_dim=64, pad_token_id=0), 1024),
    ("nemotron-small", "nemotron", "nemotron", (_CLM,), decoder(1024, 4096, 14, 16, 8, 64000), 1024),
    ("exaone4-small", "exaone4", "exaone4", (_CLM,), decoder(1024, 3584, 14, 16, 4, 102400), 1024),
    ("diffllama-small", "diffllama", "diffllama", (_CLM,), decoder(1024, 2816, 12, 16, 8, 32000), 1024),
    ("apertus-small", "apertus", "apertus", (_CLM,), decoder(1024, 4096, 12, 16, 4, 64000), 1024),
    ("bitnet-small", "bitnet", "bitnet", (_CLM,), decoder(1024, 2816, 12, 16, 4, 64000), 1024),
    ("lfm2-350m", "lfm2", "lfm2", (_CLM,), decoder(1024, 4608, 16, 16, 8, 65536), 1024),
    ("helium-small", "helium", "helium", (_CLM,), decoder(1024, 2816, 14, 16, 16, 48000, head_dim=64), 1024),
    (
        "hunyuan-small",
        "hunyuan_v1_dense",
        "hunyuan",
        (_CLM,),
        decoder(1024, 3584, 14, 16, 4, 120000, head_dim=64),
        1024,
    ),
    ("mixtral-small", "mixtral", "mixtral", (_CLM,), decoder(512, 1792, 8, 8, 4, 32000, num_local_experts=8), 1024),
    (
        "qwen2-moe-small",
        "qwen2_moe",
        "qwen2_moe",
        (_CLM,),
        decoder(
            768,
            2048,
            10,
            12,
            4,
            64000,
            num_experts=8,
            moe_intermediate_size=768,
            shared_expert_intermediate_size=1536,
            **_MOE,
        ),
        1024,
    ),
    ("olmoe-small", "olmoe", "olmoe", (_CLM,), decoder(768, 768, 10, 12, 12, 50304, num_experts=16, **_MOE), 1024),
    (
        "granitemoe-small",
        "granitemoe",
        "granitemoe",
        (_CLM,),
        decoder(768, 768, 12, 12, 4, 49152, num_local_experts=8, **_MOE),
        1024,
    ),
    ("minicpm3-small", "minicpm3", "minicpm3", (_CLM,), decoder(1024, 2816, 12, 16, 16, 73448), 1024),
    (
        "modernbert-decoder-small",
        "modernbert-decoder",
        "modernbert_decoder",
        (_CLM,),
        {"hidden_size": 576, "intermediate_size": 864, "num_hidden_layers": 14, "num_attention_heads": 9},
        1024,
    ),
    (
        "gpt-oss-small",
        "gpt_oss",
        "gpt_oss",
        (_CLM,),
        decoder(768, 768, 10, 12, 4, 100000, num_local_experts=8, head_dim=64, **_MOE),
        1024,
    ),
    ("ministral-small", "ministral", "ministral", (_CLM,), decoder(1024, 3584, 12, 16, 4, 65536, head_dim=64), 1024),
    ("nanochat-small", "nanochat", "nanochat", (_CLM,), decoder(768, 3072, 12, 6, 6, 50304), 1024),
    ("doge-small", "doge", "doge", (_CLM,), decoder(768, 2048, 12, 12, 4, 32768), 1024),
    ("arcee-small", "arcee", "arcee", (_CLM,), decoder(1024, 4096, 12, 16, 4, 64000), 1024),
)
_SEQ2SEQ: tuple[tuple[str, str, str, dict[str, Any], int], ...] = (
    (
        "led-base",
        "led",
        "led",
        {
            "d_model": 768,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "encoder_ffn_dim": 3072,
            "decoder_ffn_dim": 3072,
            "encoder_attention_heads": 12,
            "decoder_attention_heads": 12,
            "attention_window": 256,
        },
        1024,
    ),
    (
        "prophetnet-small",
        "prophetnet",
        "prophetnet",
        {"hidden_size": 768, "num_encoder_layers": 6, "num_decoder_layers": 6},
        512,
    ),
    (
        "fsmt-small",
        "fsmt",
        "fsmt",
        {
            "d_model": 512,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "encoder_ffn_dim": 2048,
            "decoder_ffn_dim": 2048,
            "encoder_attention_heads": 8,
            "decoder_attention_heads": 8,
        },
        512,
    ),
    ("longt5-small", "longt5", "longt5", {"d_model": 512, "num_layers": 6, "num_heads": 8}, 1024),
    (
        "switch-small",
        "switch_transformers",
        "switch",
        {"d_model": 512, "num_layers": 6, "num_decoder_layers": 6, "num_heads": 8},
        512,
    ),
    (
        "m2m100-small",
        "m2m_100",
        "m2m_100",
        {"d_model": 768, "encoder_layers": 6, "decoder_layers": 6, "vocab_size": 128112},
        512,
    ),
    (
        "pegasus-x-small",
        "pegasus_x",
        "pegasus_x",
        {"d_model": 768, "encoder_layers": 6, "decoder_layers": 6, "vocab_size": 96103},
        1024,
    ),
    ("blenderbot-400m", "blenderbot", "blenderbot", {"d_model": 1280, "encoder_layers": 2, "decoder_layers": 12}, 128),
)
# transformers' models of pictures: name, model type, architecture family, family, class, feed, configuration.
_PICTURES: tuple[tuple[str, str, str, Family, str, Feed, dict[str, Any]], ...] = (
    ("hf-mobilenet-v1", "mobilenet_v1", "mobilenet_v1", "cnn", "", "image", {}),
    ("hf-textnet-base", "textnet", "textnet", "cnn", "", "image", {}),
    ("hf-siglip-base", "siglip", "siglip", "transformer", "", "image", {}),
    ("hf-ijepa-base", "ijepa", "ijepa", "transformer", "", "image", {"image_size": 224}),
    (
        "hf-perceiver",
        "perceiver",
        "perceiver",
        "transformer",
        "PerceiverForImageClassificationConvProcessing",
        "image",
        {"num_cross_attention_heads": 1, "num_self_attends_per_block": 6},
    ),
    (
        "hf-dinov2-registers-small",
        "dinov2_with_registers",
        "dinov2_registers",
        "transformer",
        "",
        "image",
        {"image_size": 224, "hidden_size": 384, "num_attention_heads": 6},
    ),
    ("hf-mae-base", "vit_mae", "vit_mae", "transformer", "ViTMAEForPreTraining", "masked_image", {}),
    (
        "hf-videomae-small",
        "videomae",
        "videomae",
        "transformer",
        "VideoMAEForVideoClassification",
        "clip_video",
        {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536},
    ),
    (
        "hf-timesformer-base",
        "timesformer",
        "timesformer",
        "transformer",
        "TimesformerForVideoClassification",
        "clip_video",
        {"num_frames": 8},
    ),
    (
        "hf-vivit-small",
        "vivit",
        "vivit",
        "transformer",
        "VivitForVideoClassification",
        "clip_video",
        {"num_frames": 16, "hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536},
    ),
    ("siglip-pair", "siglip", "siglip", "transformer", "AutoModel", "clip", {}),
    ("groupvit-pair", "groupvit", "groupvit", "transformer", "AutoModel", "clip", {}),
    ("metaclip2-pair", "metaclip_2", "metaclip", "transformer", "AutoModel", "clip", {}),
)
_AUDIO: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("wav2vec2-conformer-base", "wav2vec2-conformer", "conformer", {"num_hidden_layers": 8}),
    ("sew-d-tiny", "sew-d", "sew_d", {}),
    ("unispeech-base", "unispeech", "unispeech", {}),
)
_SERIES: tuple[tuple[str, str, str, str, dict[str, Any], int], ...] = (
    (
        "patchtst",
        "patchtst",
        "patchtst",
        "PatchTSTForPrediction",
        {"num_input_channels": 7, "patch_length": 16, "patch_stride": 8, "d_model": 256, "prediction_length": 96},
        512,
    ),
    (
        "patchtsmixer",
        "patchtsmixer",
        "patchtsmixer",
        "PatchTSMixerForPrediction",
        {"num_input_channels": 7, "patch_length": 16, "patch_stride": 8, "d_model": 128, "prediction_length": 96},
        512,
    ),
)


def entries() -> Iterator[Entry]:
    """Yield every real model of the second collection."""
    by_family: tuple[tuple[Family, dict[str, str]], ...] = (
        ("cnn", _CNN),
        ("transformer", _ATTENTION),
        ("cnn", _MORE_CNN),
        ("transformer", _MORE_ATTENTION),
    )
    for family, groups in by_family:
        yield from library("timm", family, groups)
    for group, (family, names) in _VIDEO.items():
        yield from library("torchvision", family, {group: names}, "video")
    yield from plain(_PLAIN)
    yield from language(_TEXT)
    yield from language((name, kind, group, (_S2S,), config, most) for name, kind, group, config, most in _SEQ2SEQ)
    yield from pictures(_PICTURES)
    yield from sounds(_AUDIO)
    for name, model_type, group, head, config, longest in _SERIES:
        whole = {**config, "context_length": longest}
        yield Entry("transformers", name, group, "transformer", "series", 0, False, model_type, head, whole, longest)
