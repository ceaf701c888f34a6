"""Models of the ninth collection that other libraries than transformers build, through import alone. Pure data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from estimator.dataset.catalogues.configs import WIDTHS, convolved, encoder
from estimator.dataset.catalogues.entries import Entry
from estimator.dataset.catalogues.rows import (
    LibraryRow,
    of_diffusers,
    of_graphs,
    of_library,
    of_pytorchcv,
    of_segmenters,
)
from estimator.dataset.catalogues.seventh import field

_S = "spandrel.architectures"
_SHARP = "3x64x64"
_WINDOWED = {
    "embed_dim": 60,
    "depths": [6] * 4,
    "num_heads": [6] * 4,
    "window_size": 8,
    "mlp_ratio": 2.0,
    "upscale": 2,
    "upsampler": "pixelshuffledirect",
}
_RESTORED: tuple[LibraryRow, ...] = (  # of spandrel: pictures made larger or cleaner
    ("swinir", f"{_S}.SwinIR.SwinIR", _SHARP, _WINDOWED),
    (
        "hat",
        f"{_S}.HAT.HAT",
        _SHARP,
        {
            "embed_dim": 96,
            "depths": [6] * 4,
            "num_heads": [6] * 4,
            "window_size": 8,
            "upscale": 4,
            "upsampler": "pixelshuffle",
        },
    ),
    (
        "dat",
        f"{_S}.DAT.DAT",
        _SHARP,
        {"embed_dim": 60, "depth": [6] * 3, "num_heads": [6] * 3, "split_size": [8, 16], "expansion_factor": 2.0},
    ),
    ("scunet", f"{_S}.SCUNet.SCUNet", "3x128x128", {"config": [2] * 7}),
    ("uformer", f"{_S}.Uformer.Uformer", "3x128x128", {"img_size": 128, "modulator": True}),
    (
        "grl",
        f"{_S}.GRL.GRL",
        _SHARP,
        {
            "embed_dim": 64,
            "upscale": 2,
            "upsampler": "pixelshuffledirect",
            "depths": [4] * 4,
            "num_heads_window": [2] * 4,
            "num_heads_stripe": [2] * 4,
            "stripe_size": [8, 8],
        },
    ),
    (
        "drct",
        f"{_S}.DRCT.DRCT",
        _SHARP,
        {"depths": (6,) * 3, "num_heads": (6,) * 3, "upscale": 4, "upsampler": "pixelshuffle"},
    ),
    ("drunet", f"{_S}.DRUNet.DRUNet", "4x128x128", {"in_nc": 4, "out_nc": 3}),
    ("fbcnn", f"{_S}.FBCNN.FBCNN", "3x128x128", {}),
    (
        "fftformer",
        f"{_S}.FFTformer.FFTformer",
        "3x128x128",
        {"dim": 32, "num_blocks": [2, 2, 4], "num_refinement_blocks": 2},
    ),
    ("lama", f"{_S}.LaMa.LaMa", "3x256x256 1x256x256", {"in_nc": 4}),
    ("kbnet", f"{_S}.KBNet.KBNet_s", "3x128x128", {"width": 32, "middle_blk_num": 4, "enc_blk_nums": [2, 2, 2, 2]}),
    ("retinexformer", f"{_S}.RetinexFormer.RetinexFormer", "3x128x128", {"stage": 1, "num_blocks": [1, 2, 2]}),
    ("safmn", f"{_S}.SAFMN.SAFMN", _SHARP, {"dim": 36}),
    ("span", f"{_S}.SPAN.SPAN", _SHARP, {"num_in_ch": 3, "num_out_ch": 3}),
    ("omnisr", f"{_S}.OmniSR.OmniSR", _SHARP, {"res_num": 5}),
    ("plksr", f"{_S}.PLKSR.PLKSR", _SHARP, {}),
    ("mixdehazenet", f"{_S}.MixDehazeNet.MixDehazeNet", "3x128x128", {}),
    ("realcugan", f"{_S}.RealCUGAN.UpCunet2x", _SHARP, {}),
    ("srvgg", f"{_S}.Compact.__arch.SRVGG.SRVGGNetCompact", _SHARP, {}),
    # Of known families, in another implementation.
    ("swin2sr", f"{_S}.Swin2SR.Swin2SR", _SHARP, _WINDOWED),
    (
        "nafnet",
        f"{_S}.NAFNet.NAFNet",
        "3x128x128",
        {"width": 32, "middle_blk_num": 4, "enc_blk_nums": [2, 2, 4, 8], "dec_blk_nums": [2, 2, 2, 2]},
    ),
    ("esrgan", f"{_S}.ESRGAN.__arch.RRDB.RRDBNet", _SHARP, {"num_blocks": 8}),
    ("rcan", f"{_S}.RCAN.RCAN", _SHARP, {"n_resgroups": 4, "n_resblocks": 10}),
    ("dncnn", f"{_S}.DnCNN.DnCNN", "3x128x128", {"in_nc": 3, "out_nc": 3}),
)
_TEXT, _STEP = "encoder_hidden_states@77x512", "timestep@1000:"
_HEADS: Mapping[str, Any] = {"num_attention_heads": 8, "attention_head_dim": 64}
_UNET: Mapping[str, Any] = {"block_out_channels": (64, 128, 256, 256), "cross_attention_dim": 512}
_DIFFUSED: tuple[LibraryRow, ...] = (  # of diffusers
    (
        "flux2",
        "Flux2Transformer2DModel",
        f"256x128 {_TEXT} {_STEP} img_ids@!256x4 txt_ids@!77x4 guidance@#5:",
        {
            **_HEADS,
            "joint_attention_dim": 512,
            "num_layers": 3,
            "num_single_layers": 8,
            "axes_dims_rope": (16, 16, 16, 16),
        },
    ),
    (
        "bria",
        "BriaTransformer2DModel",
        f"256x64 {_TEXT} {_STEP} img_ids@!256x3 txt_ids@!77x3",
        {**_HEADS, "joint_attention_dim": 512, "num_layers": 4, "num_single_layers": 8, "axes_dims_rope": [8, 28, 28]},
    ),
    (
        "cosmos",
        "CosmosTransformer3DModel",
        f"16x3x32x32 {_STEP} {_TEXT} padding_mask@!1x1x32x32",
        {**_HEADS, "text_embed_dim": 512, "num_layers": 8, "max_size": (16, 64, 64), "adaln_lora_dim": 64},
    ),
    (
        "skyreels",
        "SkyReelsV2Transformer3DModel",
        f"16x3x32x32 {_STEP} {_TEXT}",
        {**_HEADS, "text_dim": 512, "ffn_dim": 2048, "num_layers": 10},
    ),
    (
        "easyanimate",
        "EasyAnimateTransformer3DModel",
        f"16x3x32x32 {_STEP} {_TEXT}",
        {
            **_HEADS,
            "text_embed_dim": 512,
            "num_layers": 6,
            "mmdit_layers": 6,
            "sample_width": 32,
            "sample_height": 32,
            "patch_size": 2,
            "in_channels": 16,
            "out_channels": 16,
        },
    ),
    (
        "ace_step",
        "AceStepTransformer1DModel",
        "256x64 timestep@#1: timestep_r@#1: encoder_hidden_states@77x512 context_latents@256x128",
        encoder(512, 8, 8, 1536, num_key_value_heads=4, head_dim=64, encoder_hidden_size=512),
    ),
    (
        "i2vgen",
        "I2VGenXLUNet",
        "4x8x32x32 1000: fps@=8 image_latents@4x8x32x32 image_embeddings@512 encoder_hidden_states@77x512",
        {**_UNET, "attention_head_dim": 32},
    ),
    ("tiny_vae", "AutoencoderTiny", "3x256x256", {}),
    (
        "ltx_vae",
        "AutoencoderKLLTXVideo",
        "3x9x64x64",
        {
            "block_out_channels": (64, 128, 256, 256),
            "decoder_block_out_channels": (64, 128, 256, 256),
            "layers_per_block": (2, 2, 2, 2, 2),
            "decoder_layers_per_block": (2, 2, 2, 2, 2),
        },
    ),
    (
        "hunyuan_vae",
        "AutoencoderKLHunyuanVideo",
        "3x5x64x64",
        {"block_out_channels": (64, 128, 128, 128), "layers_per_block": 1},
    ),
    ("t2i_adapter", "T2IAdapter", "3x256x256", {}),
    # Of known families.
    (
        "dit",
        "DiTTransformer2DModel",
        "4x32x32 1000: 1000:",
        {"num_layers": 12, "num_attention_heads": 6, "attention_head_dim": 64},
    ),
    (
        "latent_unet",
        "UNet2DConditionModel:deep",
        "4x64x64 1000: 77x768",
        {
            "block_out_channels": (128, 256, 512),
            "cross_attention_dim": 768,
            "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
            "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
            "transformer_layers_per_block": (1, 2, 4),
            "attention_head_dim": 8,
        },
    ),
    (
        "vae",
        "AsymmetricAutoencoderKL",
        "3x128x128",
        {
            "down_block_types": ("DownEncoderBlock2D",) * 3,
            "down_block_out_channels": (64, 128, 256),
            "layers_per_down_block": 2,
            "up_block_types": ("UpDecoderBlock2D",) * 3,
            "up_block_out_channels": (96, 192, 384),
            "layers_per_up_block": 2,
        },
    ),
)
_P = "pypots.nn.modules"
_NF: Mapping[str, Any] = {"h": 24, "input_size": 96}
_WINDOW = ".insample_y@96x1 .insample_mask@96x1 .futr_exog@~ .hist_exog@~ .stat_exog@~"
_MANY = ".insample_y@96x16 .futr_exog@~ .hist_exog@~ .stat_exog@~"
_SERIES: tuple[LibraryRow, ...] = (  # windows of a series
    (
        "fedformer",
        f"{_P}.fedformer.FEDformerEncoder",
        "96x128",
        {
            "n_steps": 96,
            "n_layers": 2,
            "d_model": 128,
            "n_heads": 8,
            "d_ffn": 512,
            "moving_avg_window_size": 25,
            "dropout": 0.1,
        },
    ),
    (
        "frets",
        f"{_P}.frets.BackboneFreTS",
        "96x32",
        {"n_steps": 96, "n_features": 32, "embed_size": 64, "n_pred_steps": 24, "hidden_size": 128},
    ),
    (
        "fits",
        f"{_P}.fits.BackboneFITS",
        "96x32",
        {"n_steps": 96, "n_features": 32, "n_pred_steps": 24, "cut_freq": 24, "individual": False},
    ),
    ("nhits", "neuralforecast.models.NHITS", _WINDOW, {**_NF}),
    ("tft", "neuralforecast.models.TFT", _WINDOW, {**_NF}),
    ("tsmixer", "neuralforecast.models.TSMixer", _MANY, {**_NF, "n_series": 16, "dropout": 0.1}),
    ("timexer", "neuralforecast.models.TimeXer", _MANY, {**_NF, "n_series": 16}),
    ("softs", "neuralforecast.models.SOFTS", _MANY, {**_NF, "n_series": 16}),
    ("bitcn", "neuralforecast.models.BiTCN", _WINDOW, {**_NF, "hidden_size": 64}),
    ("deepnpts", "neuralforecast.models.DeepNPTS", _WINDOW, {**_NF, "hidden_size": 256}),
    # Of known families.
    ("itransformer", "neuralforecast.models.iTransformer", _MANY, {**_NF, "n_series": 16}),
    ("patchtst", "neuralforecast.models.PatchTST", _WINDOW, {**_NF}),
    ("nbeats", "neuralforecast.models.NBEATS", _WINDOW, {**_NF}),
    ("timesnet", "neuralforecast.models.TimesNet", _WINDOW, {**_NF}),
    ("dlinear", "neuralforecast.models.DLinear", _WINDOW, {**_NF}),
    ("tcn", "neuralforecast.models.TCN", _WINDOW, {**_NF}),
)
_D = "doctr.models"
_OCR: Mapping[str, Any] = {"pretrained": False, "pretrained_backbone": False, "exportable": True}
_SCANNED: tuple[LibraryRow, ...] = (  # of docTR: text on pictures
    ("dbnet", f"{_D}.detection.db_resnet50", "3x512x512", _OCR),
    ("dbnet", f"{_D}.detection.db_mobilenet_v3_large", "3x512x512", _OCR),
    ("fast_text_detector", f"{_D}.detection.fast_base", "3x512x512", _OCR),
    ("own_linknet", f"{_D}.detection.linknet_resnet18", "3x512x512", _OCR),
    ("craft", "easyocr.craft.CRAFT", "3x512x512", {}),
    (
        "efficientdet",
        "effdet.create_model:d0",
        "3x512x512",
        {"model_name": "tf_efficientdet_d0", "pretrained_backbone": False},
    ),
)
_V = "vit_pytorch"
_VIT: Mapping[str, Any] = {
    "image_size": 224,
    "patch_size": 16,
    "num_classes": 1000,
    "dim": 384,
    "depth": 8,
    "heads": 6,
    "mlp_dim": 1536,
}
_PICTURED: tuple[LibraryRow, ...] = (
    (
        "cross_vit",
        f"{_V}.cross_vit.CrossViT",
        "3x256x256",
        {
            "image_size": 256,
            "num_classes": 1000,
            "sm_dim": 192,
            "lg_dim": 384,
            "depth": 4,
            "sm_patch_size": 16,
            "lg_patch_size": 64,
        },
    ),
    ("normalized_vit", f"{_V}.normalized_vit.nViT", "3x224x224", {**_VIT, "dim_head": 64}),
    (
        "botnet",
        "bottleneck_transformer_pytorch.BottleStack",
        "256x56x56",
        {"dim": 256, "fmap_size": 56, "rel_pos_emb": True},
    ),
    ("slot_attention", "slot_attention.SlotAttention", "1024x512", {"num_slots": 16, "dim": 512}),
    ("soft_moe", "soft_moe_pytorch.SoftMoE", "1024x512", {"dim": 512, "seq_len": 1024, "num_experts": 8}),
    (
        "vit",
        f"{_V}.vit_3d.ViT:3d",
        "3x16x112x112",
        {
            "image_size": 112,
            "frames": 16,
            "image_patch_size": 16,
            "frame_patch_size": 2,
            "num_classes": 1000,
            "dim": 384,
            "depth": 6,
            "heads": 6,
            "mlp_dim": 1536,
        },
    ),
    (
        "mobilevit",
        f"{_V}.mobile_vit.MobileViT",
        "3x256x256",
        {
            "image_size": (256, 256),
            "dims": [96, 120, 144],
            "channels": [16, 32, 48, 48, 64, 64, 80, 80, 96, 96, 384],
            "num_classes": 1000,
        },
    ),
)
_AUDIO: tuple[LibraryRow, ...] = (
    (
        "snac",
        "snac.SNAC",
        "1x16384",
        {
            "sampling_rate": 24000,
            "encoder_rates": [2, 4, 8, 8],
            "decoder_rates": [8, 8, 4, 2],
            "attn_window_size": None,
            "vq_strides": [4, 2, 1],
            "encoder_dim": 48,
            "decoder_dim": 1024,
        },
    ),
    (
        "vocos",
        "vocos.models.VocosBackbone",
        "100x256",
        {"input_channels": 100, "dim": 512, "intermediate_dim": 1536, "num_layers": 8},
    ),
    (
        "htdemucs",
        "demucs.htdemucs.HTDemucs",
        "2x88200",
        {"sources": ["drums", "bass", "other", "vocals"], "segment": 2, "samplerate": 44100},
    ),
    ("fasnet", "asteroid.models.FasNetTAC", "2x16000", {"n_src": 2}),
)
_KNOWN_PICTURES: Mapping[str, str] = {  # of pytorchcv, of known families: with the pictures' side
    "resnet": "resnet18 resnet101 resnext50_32x4d seresnet50",
    "resnetv2": "preresnet34",
    "vgg": "vgg16 bn_vgg16",
    "densenet": "densenet161",
    "mobilenet": "mobilenet_wd2 mobilenetv2_w1 mobilenetv3_small_w1",
    "efficientnet": "efficientnet_b0",
    "shufflenet": "shufflenetv2_w1",
    "squeezenet": "squeezeresnet_v1_0",
    "regnet": "regnetx032",
    "vovnet": "vovnet57",
    "wrn": "wrn28_10_cifar10:32",
    "own_resnet": "resnet20_cifar10:32",
    "pyramidnet": "pyramidnet110_a84_cifar10:32",
}
_LABELLED: Mapping[str, str] = {  # of segmentation_models_pytorch, of known families: class:encoder
    "unet": "Unet:resnet18 Unet:densenet121 Unet:efficientnet-b0 Unet:mit_b0",
    "unet_pp": "UnetPlusPlus:resnet50",
    "own_fpn": "FPN:resnet50 FPN:mobilenet_v2",
    "deeplab": "DeepLabV3Plus:resnet34 DeepLabV3Plus:mobilenet_v2",
    "own_pspnet": "PSPNet:efficientnet-b0",
    "own_linknet": "Linknet:resnet50",
    "manet": "MAnet:resnet50",
    "upernet": "UPerNet:resnet50",
    "segformer": "Segformer:mit_b1",
}


def _lit(**more: Any) -> dict[str, Any]:
    """What litgpt's models are built with."""
    return {
        "config": {
            "class": "litgpt.config.Config",
            "n_layer": 8,
            "n_embd": 512,
            "n_head": 8,
            "vocab_size": 32000,
            "padded_vocab_size": 32000,
            "block_size": 1024,
            **more,
        }
    }


_GATED: Mapping[str, Any] = {
    "rotary_percentage": 1.0,
    "parallel_residual": False,
    "bias": False,
    "norm_class_name": "RMSNorm",
    "mlp_class_name": "LLaMAMLP",
    "intermediate_size": 1536,
    "n_query_groups": 2,
}
_LIT: Mapping[str, dict[str, Any]] = {  # of litgpt, by family, all known
    "gemma": _lit(**_GATED, scale_embeddings=True, gelu_approximate="tanh"),
    "qwen3": _lit(**_GATED, norm_qk=True, head_size=64),
    "mixtral": _lit(**{**_GATED, "mlp_class_name": "LLaMAMoE"}, n_expert=4, n_expert_per_token=2),
    "phi": _lit(rotary_percentage=0.5, shared_attention_norm=True, lm_head_bias=True, gelu_approximate="tanh"),
    "falcon": _lit(rotary_percentage=1.0, n_query_groups=1, bias=False, shared_attention_norm=True),
    "stablelm": _lit(**{**_GATED, "norm_class_name": "LayerNorm", "rotary_percentage": 0.25}),
}
_R = "torch_rechub.models"


_SEQ = field("seen", "Sequence", pooling="concat", shared_with="item")
_NEXT = field("next", "Sequence", pooling="concat", shared_with="item")
_ONE, _ITEM = [field("user"), field("age")], [field("item")]
_OFFERED = ".user@10000: .age@10000: .seen@10000:50 .item@10000: .next@10000:20"
_CHOSEN: tuple[LibraryRow, ...] = (  # of torch_rechub
    (
        "comirec",
        f"{_R}.matching.ComirecSA",
        _OFFERED,
        {"user_features": _ONE, "history_features": [_SEQ], "item_features": _ITEM, "neg_item_feature": [_NEXT]},
    ),
    (
        "sine",
        f"{_R}.matching.SINE",
        ".seen@10000:50 .item@10000: .next@10000:20",
        {
            "history_features": ["seen"],
            "item_features": ["item"],
            "neg_item_features": ["next"],
            "num_items": 10000,
            "embedding_dim": 64,
            "hidden_dim": 128,
            "num_concept": 10,
            "num_intention": 2,
            "seq_max_len": 50,
        },
    ),
    (
        "rqvae",
        f"{_R}.generative.RQVAEModel",
        "768",
        {"in_dim": 768, "num_emb_list": [256] * 3, "layers": [512, 256, 128], "e_dim": 64, "sk_epsilons": [0.0] * 3},
    ),
    (
        "dssm",
        f"{_R}.matching.DSSM",
        ".user@10000: .age@10000: .item@10000:",
        {
            "user_features": _ONE,
            "item_features": _ITEM,
            "user_params": {"dims": [256, 128, 64]},
            "item_params": {"dims": [256, 128, 64]},
        },
    ),
)


_GRAPHS: Mapping[str, Mapping[str, Any]] = {
    "supergat": convolved("SuperGATConv", heads=4, concat=False),
    "le_conv": convolved("LEConv"),
    "agnn": convolved("AGNNConv", same=False),
    "gps": convolved(
        "GPSConv", same=False, channels=256, conv={"class": "torch_geometric.nn.SAGEConv", **WIDTHS}, heads=4
    ),
}


def entries() -> Iterator[Entry]:
    """Yield every model."""
    yield from of_library("", _RESTORED, "cnn", "volume", "mean")
    yield from of_diffusers(_DIFFUSED)
    yield from of_library("", _SERIES, "mlp", "given", "mean")
    yield from of_library("", _SCANNED, "cnn", "volume", "mean")
    yield from of_library("", _PICTURED, "transformer", "words", "mean")
    yield from of_library("", _AUDIO, "cnn", "volume", "mean")
    yield from of_pytorchcv(_KNOWN_PICTURES)
    yield from of_segmenters(_LABELLED)
    for group, config in _LIT.items():
        rows = ((group, f"litgpt.model.GPT:{group}", "32000:L", config),)
        yield from of_library("", rows, "transformer", "words", "class")
    yield from of_library("", _CHOSEN, "mlp", "given", "mean")
    yield from of_graphs(_GRAPHS)
