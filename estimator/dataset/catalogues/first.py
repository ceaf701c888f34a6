"""Real models of the first collection: of torchvision, timm and transformers. Pure data.

An architecture family never stands in two splits, so models that differ in name only (RoBERTa and BERT,
Mistral and Llama, DeiT and ViT) share one family here, across libraries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from estimator.dataset.catalogues.configs import decoder, encoder, halves, t5
from estimator.dataset.catalogues.entries import (
    Audio,
    Entry,
    Feed,
    Other,
    Picture,
    Text,
    classifier,
    language,
    named,
    others,
    pictures,
    sounds,
    whisper,
)
from estimator.dataset.catalogues.heads import CLM, CLS, MLM, QA, S2S, TOK
from estimator.dataset.specs import Source
from estimator.types import Family

_TORCHVISION = {
    "alexnet": "alexnet",
    "vgg": "vgg11 vgg13 vgg16 vgg19 vgg11_bn vgg16_bn vgg19_bn",
    "resnet": "resnet18 resnet34 resnet50 resnet101 resnet152 resnext50_32x4d resnext101_32x8d resnext101_64x4d "
    "wide_resnet50_2 wide_resnet101_2",
    "densenet": "densenet121 densenet161 densenet169 densenet201",
    "inception": "inception_v3:299 googlenet",
    "mobilenet": "mobilenet_v2 mobilenet_v3_small mobilenet_v3_large",
    "shufflenet": "shufflenet_v2_x0_5 shufflenet_v2_x1_0 shufflenet_v2_x1_5 shufflenet_v2_x2_0",
    "squeezenet": "squeezenet1_0 squeezenet1_1",
    "mnasnet": "mnasnet0_5 mnasnet0_75 mnasnet1_0 mnasnet1_3",
    "efficientnet": "efficientnet_b0 efficientnet_b1 efficientnet_b2 efficientnet_b3:300 efficientnet_b4:380 "
    "efficientnet_b5 efficientnet_b7 efficientnet_v2_s efficientnet_v2_m efficientnet_v2_l",
    "regnet": "regnet_y_400mf regnet_y_800mf regnet_y_1_6gf regnet_y_3_2gf regnet_y_8gf regnet_y_16gf regnet_x_400mf "
    "regnet_x_800mf regnet_x_1_6gf regnet_x_3_2gf regnet_x_8gf",
    "convnext": "convnext_tiny convnext_small convnext_base convnext_large",
    "vit": "vit_b_16 vit_b_32 vit_l_16 vit_l_32",
    "swin": "swin_t swin_s swin_b swin_v2_t:256 swin_v2_s:256",
    "maxvit": "maxvit_t",
}
_TORCHVISION_DENSE = {
    "fcn": "fcn_resnet50 fcn_resnet101",
    "deeplab": "deeplabv3_resnet50 deeplabv3_resnet101 deeplabv3_mobilenet_v3_large",
    "lraspp": "lraspp_mobilenet_v3_large",
}
_TIMM = {
    "resnet": "resnet26d resnet50d seresnet50 ecaresnet50d resnetrs50 resnet14t",
    "resnetv2": "resnetv2_50 resnetv2_50x1_bit",
    "sknet": "skresnet18 skresnet34",
    "res2net": "res2net50_26w_4s res2net50_14w_8s",
    "resnest": "resnest14d resnest50d",
    "efficientnet": "efficientnet_lite0 efficientnetv2_rw_s tf_efficientnetv2_b0 efficientnet_es",
    "mixnet": "mixnet_s mixnet_l",
    "fbnet": "fbnetc_100 fbnetv3_b",
    "spnasnet": "spnasnet_100",
    "tinynet": "tinynet_a",
    "mnasnet": "semnasnet_100",
    "mobilenet": "mobilenetv2_100 mobilenetv2_140 mobilenetv3_large_100 mobilenetv4_conv_small mobilenetv4_conv_medium",
    "vit": "vit_tiny_patch16_224 vit_small_patch16_224 vit_small_patch32_224 vit_base_patch16_224 "
    "vit_base_patch32_224 vit_large_patch16_224 deit_tiny_patch16_224 deit_base_patch16_224 deit3_small_patch16_224",
    "beit": "beit_base_patch16_224 beitv2_base_patch16_224",
    "eva": "eva02_tiny_patch14_224",
    "cait": "cait_xxs24_224 cait_s24_224",
    "xcit": "xcit_nano_12_p16_224 xcit_small_12_p16_224",
    "convit": "convit_tiny convit_small convit_base",
    "coat": "coat_tiny coat_mini coat_lite_small",
    "pit": "pit_xs_224 pit_s_224 pit_b_224",
    "levit": "levit_128 levit_256 levit_384",
    "tnt": "tnt_s_patch16_224",
    "twins": "twins_pcpvt_small twins_svt_small twins_svt_base",
    "visformer": "visformer_tiny visformer_small",
    "crossvit": "crossvit_9_240:240 crossvit_15_240:240",
    "nest": "nest_tiny",
    "mobilevit": "mobilevit_xs:256 mobilevit_s:256 mobilevitv2_100:256",
    "edgenext": "edgenext_small edgenext_base",
    "metaformer": "poolformer_s12 poolformer_s24 poolformerv2_s12 convformer_s18 caformer_s18",
    "mlp_mixer": "mixer_s16_224 mixer_b16_224 gmlp_s16_224 resmlp_12_224 resmlp_24_224",
    "convmixer": "convmixer_768_32 convmixer_1024_20_ks9_p14",
    "nfnet": "dm_nfnet_f0 nfnet_l0 eca_nfnet_l0 nf_resnet50 nf_regnet_b1",
    "ghostnet": "ghostnet_100 ghostnetv2_100",
    "xception": "xception41:299 xception65:299 legacy_xception:299",
    "inception": "inception_v4:299 inception_resnet_v2:299",
    "dpn": "dpn68 dpn92 dpn98",
    "hrnet": "hrnet_w18_small hrnet_w18 hrnet_w32",
    "densenet": "densenetblur121d",
    "vovnet": "ese_vovnet19b_dw ese_vovnet39b",
    "cspnet": "cspresnet50 cspdarknet53 cspresnext50 darknet53",
    "dla": "dla34 dla60 dla102",
    "regnet": "regnetz_b16 regnety_032",
    "byobnet": "repvgg_a2 repvgg_b0 gernet_s gernet_m mobileone_s1",
    "rexnet": "rexnet_100 rexnet_200",
    "hardcorenas": "hardcorenas_a",
    "tresnet": "tresnet_m",
    "selecsls": "selecsls42b selecsls60",
    "nasnet": "nasnetalarge:331 pnasnet5large:331",
    "sequencer": "sequencer2d_s",
    "efficientformer": "efficientformer_l1 efficientformer_l3 efficientformerv2_s0",
    "fastvit": "fastvit_t8 fastvit_sa12",
    "maxvit": "maxvit_tiny_tf_224 coatnet_0_rw_224 coatnet_nano_rw_224",
    "swin": "swin_tiny_patch4_window7_224 swin_base_patch4_window7_224 swinv2_tiny_window8_256:256 "
    "swinv2_cr_tiny_ns_224",
    "volo": "volo_d1_224",
    "focalnet": "focalnet_tiny_srf focalnet_small_srf",
    "davit": "davit_tiny davit_small",
    "gcvit": "gcvit_xxtiny gcvit_tiny",
    "pvt": "pvt_v2_b0 pvt_v2_b2",
    "mvit": "mvitv2_tiny mvitv2_small",
    "convnext": "convnext_nano convnextv2_nano convnextv2_tiny convnextv2_base",
    "inception_next": "inception_next_tiny inception_next_small",
    "hgnet": "hgnet_tiny hgnet_small hgnetv2_b0 hgnetv2_b3",
    "lcnet": "lcnet_100",
    "tinyvit": "tiny_vit_5m_224 tiny_vit_11m_224",
    "repvit": "repvit_m1 repvit_m2_3",
    "starnet": "starnet_s1 starnet_s4",
    "hiera": "hiera_tiny_224 hiera_base_224",
    "efficientvit": "efficientvit_b1 efficientvit_b2 efficientvit_m2",
    "mambaout": "mambaout_tiny",
    "nextvit": "nextvit_small",
    "fasternet": "fasternet_t0 fasternet_s",
    "swiftformer": "swiftformer_xs",
}
_VISION: tuple[tuple[Source, Mapping[str, str], Feed], ...] = (
    ("torchvision", _TORCHVISION, "image"),
    ("torchvision", _TORCHVISION_DENSE, "dense_image"),
    ("timm", _TIMM, "image"),
)
# Families that attend, and those whose pictures may have any side.
_ATTENDING = (
    "vit beit eva cait xcit convit coat pit levit tnt twins visformer crossvit nest mlp_mixer maxvit swin volo "
    "focalnet davit gcvit pvt mvit hiera sequencer"
)
_FLEXIBLE = "vgg resnet densenet mobilenet efficientnet regnet convnext mnasnet nfnet dpn dla resnetv2 vovnet byobnet"
_BASE = encoder(768, 12, 12)
_LARGE = encoder(1024, 24, 16)
_SMALL = encoder(512, 4, 8)
_MEDIUM = encoder(512, 8, 8)
_ROBERTA = {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 1}


_TEXT: tuple[Text, ...] = (
    ("bert-base", "bert", "bert", (MLM, CLS, TOK, QA), {}, 512),
    ("bert-large", "bert", "bert", (MLM, CLS), _LARGE, 512),
    ("bert-small", "bert", "bert", (MLM, CLS), _SMALL, 512),
    ("bert-medium", "bert", "bert", (CLS,), _MEDIUM, 512),
    ("roberta-base", "roberta", "bert", (MLM, CLS), {**_BASE, **_ROBERTA}, 512),
    ("roberta-large", "roberta", "bert", (CLS,), {**_LARGE, **_ROBERTA}, 512),
    ("xlm-roberta-base", "xlm-roberta", "bert", (MLM, TOK), {**_BASE, **_ROBERTA, "vocab_size": 250002}, 512),
    ("distilbert-base", "distilbert", "distilbert", (MLM, CLS, QA), {}, 512),
    ("albert-base", "albert", "albert", (MLM, CLS), {**_BASE, "embedding_size": 128}, 512),
    ("albert-large", "albert", "albert", (CLS,), {**_LARGE, "embedding_size": 128}, 512),
    ("electra-small", "electra", "electra", (MLM, CLS), {}, 512),
    ("electra-base", "electra", "electra", (MLM, CLS), {**_BASE, "embedding_size": 768}, 512),
    ("mpnet-base", "mpnet", "mpnet", (MLM, CLS), {}, 512),
    ("deberta-v3-base", "deberta-v2", "deberta", (MLM, CLS), {**_BASE, "relative_attention": True}, 512),
    ("deberta-base", "deberta", "deberta", (CLS,), {**_BASE, "relative_attention": True}, 512),
    ("xlnet-base", "xlnet", "xlnet", (CLS,), {"d_model": 768, "n_layer": 12, "n_head": 12, "d_inner": 3072}, 512),
    ("big_bird-base", "big_bird", "big_bird", (CLS,), {"attention_type": "original_full"}, 1024),
    ("roformer-base", "roformer", "roformer", (CLS,), {}, 512),
    ("squeezebert", "squeezebert", "squeezebert", (CLS,), {}, 512),
    ("mobilebert", "mobilebert", "mobilebert", (MLM, CLS), {}, 512),
    ("convbert-base", "convbert", "convbert", (CLS,), {}, 512),
    ("fnet-base", "fnet", "fnet", (MLM, CLS), {}, 512),
    ("modernbert-base", "modernbert", "modernbert", (MLM, CLS), {}, 1024),
    ("gpt2", "gpt2", "gpt2", (CLM, CLS), {}, 1024),
    ("gpt2-medium", "gpt2", "gpt2", (CLM,), {"n_embd": 1024, "n_layer": 24, "n_head": 16}, 1024),
    ("gpt2-large", "gpt2", "gpt2", (CLM,), {"n_embd": 1280, "n_layer": 36, "n_head": 20}, 1024),
    ("gpt2-xl", "gpt2", "gpt2", (CLM,), {"n_embd": 1600, "n_layer": 48, "n_head": 25}, 1024),
    ("distilgpt2", "gpt2", "gpt2", (CLM,), {"n_layer": 6}, 1024),
    (
        "gpt-neo-125m",
        "gpt_neo",
        "gpt_neo",
        (CLM,),
        {"hidden_size": 768, "num_layers": 12, "num_heads": 12, "attention_types": [[["global", "local"], 6]]},
        1024,
    ),
    ("pythia-70m", "gpt_neox", "gpt_neox", (CLM,), encoder(512, 6, 8), 1024),
    ("pythia-160m", "gpt_neox", "gpt_neox", (CLM,), _BASE, 1024),
    ("pythia-410m", "gpt_neox", "gpt_neox", (CLM,), _LARGE, 1024),
    ("opt-125m", "opt", "opt", (CLM, CLS), {}, 1024),
    (
        "opt-1.3b",
        "opt",
        "opt",
        (CLM,),
        {
            "hidden_size": 2048,
            "ffn_dim": 8192,
            "num_hidden_layers": 24,
            "num_attention_heads": 32,
            "word_embed_proj_dim": 2048,
        },
        1024,
    ),
    ("bloom-560m", "bloom", "bloom", (CLM,), {"hidden_size": 1024, "n_layer": 24, "n_head": 16}, 1024),
    (
        "codegen-350m",
        "codegen",
        "codegen",
        (CLM,),
        {"n_embd": 1024, "n_layer": 20, "n_head": 16, "rotary_dim": 32},
        1024,
    ),
    ("smollm-135m", "llama", "llama", (CLM,), decoder(576, 1536, 30, 9, 3, 49152), 2048),
    ("smollm-360m", "llama", "llama", (CLM,), decoder(960, 2560, 32, 15, 5, 49152), 2048),
    ("tinyllama-1.1b", "llama", "llama", (CLM,), decoder(2048, 5632, 22, 32, 4, 32000), 2048),
    ("mistral-small", "mistral", "llama", (CLM,), decoder(1024, 3584, 12, 16, 4, 32000), 2048),
    ("qwen2-0.5b", "qwen2", "llama", (CLM, CLS), decoder(896, 4864, 24, 14, 2, 151936), 2048),
    ("qwen3-0.6b", "qwen3", "qwen3", (CLM,), decoder(1024, 3072, 28, 16, 8, 151936), 2048),
    ("gemma-small", "gemma", "gemma", (CLM,), {**decoder(640, 2048, 18, 4, 1, 256000), "head_dim": 256}, 2048),
    ("phi-small", "phi", "phi", (CLM,), decoder(1024, 4096, 20, 16, 16, 51200), 2048),
    ("stablelm-small", "stablelm", "stablelm", (CLM,), decoder(1024, 2816, 16, 16, 16, 50304), 2048),
    ("olmo-small", "olmo", "olmo", (CLM,), decoder(1024, 4096, 16, 16, 16, 50304), 2048),
    (
        "xglm-564m",
        "xglm",
        "xglm",
        (CLM,),
        {"d_model": 1024, "ffn_dim": 4096, "num_layers": 24, "attention_heads": 16},
        1024,
    ),
)
_SEQ2SEQ: tuple[Text, ...] = (
    ("t5-small", "t5", "t5", (S2S,), {}, 512),
    ("t5-base", "t5", "t5", (S2S,), t5(768, 3072, 12, 12), 512),
    ("t5-large", "t5", "t5", (S2S,), t5(1024, 4096, 24, 16), 512),
    ("mt5-small", "mt5", "t5", (S2S,), {"vocab_size": 250112}, 512),
    (
        "bart-base",
        "bart",
        "bart",
        (S2S,),
        {
            "d_model": 768,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "encoder_attention_heads": 12,
            "decoder_attention_heads": 12,
            "encoder_ffn_dim": 3072,
            "decoder_ffn_dim": 3072,
        },
        1024,
    ),
    ("bart-large", "bart", "bart", (S2S,), {}, 1024),
    ("mbart-large", "mbart", "bart", (S2S,), {"vocab_size": 250027}, 1024),
    ("marian-base", "marian", "bart", (S2S,), {"d_model": 512, "encoder_layers": 6, "decoder_layers": 6}, 512),
    ("pegasus-large", "pegasus", "bart", (S2S,), {"d_model": 1024, "encoder_layers": 16, "decoder_layers": 16}, 512),
    ("blenderbot-small", "blenderbot-small", "bart", (S2S,), {}, 512),
)
_PICTURES: tuple[Picture, ...] = (
    classifier("hf-vit-base", "vit"),
    classifier("hf-vit-large", "vit", _LARGE),
    classifier("hf-deit-base", "deit", group="vit", head="DeiTForImageClassification"),
    classifier("hf-dinov2-base", "dinov2", {"image_size": 224}, group="vit"),
    classifier("hf-beit-base", "beit"),
    classifier("hf-swin-tiny", "swin"),
    classifier("hf-convnext-tiny", "convnext", family="cnn"),
    classifier(
        "hf-segformer-b2",
        "segformer",
        {"depths": [3, 4, 6, 3], "hidden_sizes": [64, 128, 320, 512], "decoder_hidden_size": 768},
    ),
    classifier("hf-resnet-50", "resnet", family="cnn"),
    classifier("hf-mobilevit-small", "mobilevit", {"image_size": 224}, family="cnn"),
    classifier("hf-poolformer-s12", "poolformer", group="metaformer", family="cnn"),
    classifier("hf-cvt-13", "cvt"),
    classifier("hf-pvt-tiny", "pvt"),
    classifier("hf-levit-128", "levit", head="LevitForImageClassification"),
)
_HEARS = "AutoModelForAudioClassification"
_AUDIO: tuple[Audio, ...] = (
    ("wav2vec2-base", "wav2vec2", "wav2vec2", {}),
    ("hubert-base", "hubert", "wav2vec2", {}),
    ("wavlm-base", "wavlm", "wavlm", {}),
    ("data2vec-audio-base", "data2vec-audio", "wav2vec2", {}),
    ("sew-tiny", "sew", "sew", {}),
)
_OTHERS: tuple[Other, ...] = (
    whisper("whisper-tiny", {}),
    whisper("whisper-base", halves(512, 2048, 6, 8)),
    whisper("whisper-small", halves(768, 3072, 12, 12)),
    ("ast-base", "audio-spectrogram-transformer", "ast", "transformer", "spectrogram", _HEARS, {}, 0, 0),
    ("clip-base", "clip", "clip", "transformer", "clip", "AutoModel", {}, 224, 77),
)


def entries() -> Iterator[Entry]:
    """Yield every model; those of words with plain products too, in place of the library's own choice of attention."""
    attending, flexible = _ATTENDING.split(), _FLEXIBLE.split()
    for source, groups, feed in _VISION:
        for group, name, size in named(groups):
            family: Family = "transformer" if group in attending else "cnn"
            yield Entry(source, name, group, family, feed, size, flexible=group in flexible)
    yield from pictures(_PICTURES)
    yield from language((*_TEXT, *_SEQ2SEQ), ("", "eager"))
    yield from sounds(_AUDIO)
    yield from others(_OTHERS)
