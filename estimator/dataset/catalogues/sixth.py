"""Models of the sixth collection: of other libraries than the first five drew from, through import alone. Pure data.

A family is fresh if nothing that any collection before measured has the name of its architecture, whatever library or
own code it came from; else the model is kin of that family, in another implementation. That was decided by names,
before any was measured: the fresh ones are in `fresh.py`. Sizes are the library's defaults or those of
its documentation, smaller where a step would be too long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from estimator.dataset.catalogues.entries import Entry, Feed
from estimator.dataset.catalogues.rows import GET, made, of_pytorchcv, of_segmenters
from estimator.types import Family

Built = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""By architecture family and class (or ``class:variant``): what the class is built with."""

_PICTURES = {  # of pytorchcv, with the pictures' side
    "zfnet": "zfnet zfnetb",
    "bninception": "bninception",
    "airnet": "airnet50_1x64d_r2 airnet101_1x64d_r2",
    "airnext": "airnext50_32x4d_r2",
    "bam": "bam_resnet18 bam_resnet50",
    "resattnet": "resattnet56 resattnet92",
    "scnet": "scnet50 scneta50",
    "ibn": "ibn_resnet50 ibnb_resnet50 ibn_resnext50_32x4d ibn_densenet121",
    "dianet": "diaresnet18 diaresnet50 diapreresnet26",
    "pyramidnet": "pyramidnet101_a360 pyramidnet110_a48_cifar10:32 pyramidnet164_a270_bn_cifar10:32",
    "diracnet": "diracnet18v2 diracnet34v2",
    "sharesnet": "sharesnet18 sharesnet50",
    "condensenet": "condensenet74_c4_g4 condensenet74_c8_g8",
    "sparsenet": "sparsenet121 sparsenet201",
    "peleenet": "peleenet",
    "drn": "drnc26 drnd38",
    "channelnet": "channelnet",
    "revnet": "revnet38 irevnet301",
    "bagnet": "bagnet9 bagnet33",
    "msdnet": "msdnet22",
    "fishnet": "fishnet99 fishnet150",
    "espnet": "espnetv2_w1 espnetv2_w2",
    "dicenet": "dicenet_w1 dicenet_w2",
    "hardnet": "hardnet39ds hardnet68",
    "xdensenet": "xdensenet121_2 xdensenet40_2_k24_bc_cifar10:32",
    "squeezenext": "sqnxt23_w1 sqnxt23v5_w2",
    "menet": "menet228_12x1_g3 menet456_24x1_g3",
    "igcv3": "igcv3_w1 igcv3_wd2",
    "darts": "darts",
    "proxylessnas": "proxylessnas_gpu proxylessnas_mobile",
    "polynet": "polynet:331",
    "ror": "ror3_56_cifar10:32 ror3_110_cifar10:32",
    "rir": "rir_cifar10:32",
    "resdrop": "resdropresnet20_cifar10:32",
    "shakeshake": "shakeshakeresnet20_2x16d_cifar10:32 shakeshakeresnet26_2x32d_cifar10:32",
    "shakedrop": "shakedropresnet20_cifar10:32",
    "fractalnet": "fractalnet_cifar10:32",
    "isqrtcov": "isqrtcovresnet18 isqrtcovresnet50",
    "octresnet": "octresnet10_ad2 octresnet50b_ad2",
    # Of known families, in another implementation.
    "alexnet": "alexnet",
    "vgg": "bn_vgg13b",
    "resnet": "resnet14 resnet26 resnet50b resneta50b resnetd50b resnext38_32x4d seresnet26 fastseresnet101b",
    "resnetv2": "preresnet18 preresnet50 sepreresnet34",
    "own_preact": "preresnet56_cifar10:32 preresnet164bn_cifar10:32",
    "own_resnet": "resnet56_cifar10:32 seresnet110_cifar10:32",
    "own_resnext": "resnext29_32x4d_cifar10:32",
    "own_cbam": "cbam_resnet18 cbam_resnet50",
    "own_nin": "nin_cifar10:32",
    "own_dense": "densenet40_k12_cifar10:32 densenet100_k12_bc_cifar10:32",
    "wrn": "wrn50_2 wrn16_10_cifar10:32 wrn20_10_1bit_cifar10:32",
    "senet": "senet28",
    "resnest": "resnesta18 resnesta50",
    "sknet": "sknet50",
    "regnet": "regnetx008 regnety032",
    "densenet": "densenet121 densenet169",
    "dpn": "dpn68",
    "darknet": "darknet19 darknet53",
    "dla": "dla34 dla60x",
    "hrnet": "hrnetv2_w18",
    "vovnet": "vovnet39",
    "selecsls": "selecsls60",
    "squeezenet": "squeezenet_v1_0 squeezeresnet_v1_1",
    "shufflenet": "shufflenet_g3_w1 shufflenetv2b_w1",
    "mobilenet": "mobilenetb_w1 fdmobilenet_w1 mobilenetv2b_w1 mobilenetv3_large_w1",
    "ghostnet": "ghostnet",
    "mnasnet": "mnasnet_a1",
    "fbnet": "fbnet_cb",
    "xception": "xception:299",
    "inception": "inceptionv3:299 inceptionv4:299 inceptionresnetv1:299",
    "nasnet": "nasnet_4a1056 pnasnet5large:331",
    "spnasnet": "spnasnet",
    "efficientnet": "efficientnet_b1b:240 efficientnet_edge_small_b",
    "mixnet": "mixnet_m",
    "tresnet": "tresnet_m",
}
_SCENES = {  # of pytorchcv, which label pixels
    "icnet": "icnet_resnetd50b_cityscapes:480",
    "fast_scnn": "fastscnn_cityscapes:512",
    "cgnet": "cgnet_cityscapes:512",
    "dabnet": "dabnet_cityscapes:512",
    "sinet": "sinet_cityscapes:512",
    "bisenet": "bisenet_resnet18_celebamaskhq:512",
    "fpenet": "fpenet_cityscapes:512",
    "contextnet": "ctxnet_cityscapes:512",
    "lednet": "lednet_cityscapes:512",
    "esnet": "esnet_cityscapes:512",
    "edanet": "edanet_cityscapes:512",
    "enet": "enet_cityscapes:512",
    "erfnet": "erfnet_cityscapes:512",
    "sqnet": "sqnet_cityscapes:512",
    "espnet": "espcnet_cityscapes:512",
    # Of known families.
    "own_pspnet": "pspnet_resnetd50b_voc:480",
    "deeplab": "deeplabv3_resnetd50b_voc:480",
    "own_fcn": "fcn8sd_resnetd50b_voc:480",
    "own_linknet": "linknet_cityscapes:512",
    "segnet": "segnet_cityscapes:512",
    "unet": "unet_cityscapes:512",
}
_HEAT = {  # of pytorchcv: maps of where things are; their squares are the loss
    "simple_pose": "simplepose_mobile_resnet18_coco:256 simplepose_mobile_mobilenetv2b_w1_coco:256",
    "alphapose": "alphapose_fastseresnet101b_coco:256",
    # Of a known family.
    "deconvolved": "simplepose_resnet18_coco:256 centernet_resnet18_voc:512",
}
_POINTS = {  # of pytorchcv: the same, which need not be asked for them
    "lw_openpose": "lwopenpose2d_mobilenet_cmupan_coco:368",
    "ibppose": "ibppose_coco:256",
    "prnet": "prnet:256",
    "lffd": "lffd20x5s320v2_widerface:640",
}
_VIT: Mapping[str, Any] = {"image_size": 224, "patch_size": 16, "num_classes": 1000, "dim": 512, "depth": 8}
_HEADED: Mapping[str, Any] = {**_VIT, "heads": 8, "mlp_dim": 2048}
_STAGES: Mapping[str, Any] = {"num_classes": 1000, "dim": 64, "depth": (2, 2, 8, 2), "heads": (2, 4, 8, 16)}
_ATTENTIVE: Built = {  # of vit_pytorch
    "deepvit": {"deepvit.DeepViT": _HEADED, "deepvit.DeepViT:deep": {**_HEADED, "depth": 16, "dim": 384}},
    "t2t_vit": {
        "t2t.T2TViT": {
            **{name: value for name, value in _HEADED.items() if name != "patch_size"},
            "t2t_layers": ((7, 4), (3, 2), (3, 2)),
        }
    },
    "cct": {
        "cct.cct_7": {"img_size": 224, "kernel_size": 7, "n_conv_layers": 2, "num_classes": 1000},
        "cct.cct_14": {"img_size": 224, "kernel_size": 7, "n_conv_layers": 2, "num_classes": 1000},
    },
    "regionvit": {"regionvit.RegionViT": {"dim": (64, 128, 256, 512), "depth": (2, 2, 8, 2)}},
    "crossformer": {"crossformer.CrossFormer": {}},
    "rvt": {"rvt.RvT": _HEADED},
    "scalable_vit": {
        "scalable_vit.ScalableViT": {**_STAGES, "reduction_factor": (8, 4, 2, 1), "window_size": (14, 7, None, None)}
    },
    "sep_vit": {"sep_vit.SepViT": {**_STAGES, "dim": 32, "depth": (1, 2, 6, 2), "heads": (1, 2, 4, 8)}},
    "small_data_vit": {"vit_for_small_dataset.ViT": _HEADED},
    "patch_merger": {"vit_with_patch_merger.ViT": {**_HEADED, "depth": 12, "patch_merge_layer": 6}},
    "look_vit": {"look_vit.LookViT": {"image_size": 224, "num_classes": 1000, "dim": 512, "highres_patch_size": 8}},
    "u_vit": {"simple_uvit.SimpleUViT": _HEADED},
    "ats_vit": {"ats_vit.ViT": {**_HEADED, "depth": 6, "heads": 16, "max_tokens_per_depth": (256, 128, 64, 32, 16, 8)}},
    # Of known families, in another implementation.
    "vit": {
        "vit.ViT": {**_HEADED, "dropout": 0.1, "emb_dropout": 0.1},
        "simple_vit.SimpleViT": _HEADED,
        "simple_vit_with_register_tokens.SimpleViT:registers": _HEADED,
        "parallel_vit.ViT:parallel": _HEADED,
        "vit_with_patch_dropout.ViT:dropped": {**_HEADED, "patch_dropout": 0.25},
    },
    "cait": {"cait.CaiT": {**_HEADED, "depth": 12, "cls_depth": 2}},
    "pit": {"pit.PiT": {**_HEADED, "patch_size": 14, "dim": 256, "depth": (3, 3, 3)}},
    "levit": {
        "levit.LeViT": {
            "image_size": 224,
            "num_classes": 1000,
            "stages": 3,
            "dim": (256, 384, 512),
            "depth": 4,
            "heads": (4, 6, 8),
            "mlp_mult": 2,
        }
    },
    "cvt": {"cvt.CvT": {"num_classes": 1000}},
    "twins": {"twins_svt.TwinsSVT": {"num_classes": 1000}},
    "nest": {
        "nest.NesT": {
            "image_size": 224,
            "patch_size": 4,
            "num_classes": 1000,
            "dim": 96,
            "heads": 3,
            "num_hierarchies": 3,
            "block_repeats": (2, 2, 8),
        }
    },
    "xcit": {"xcit.XCiT": {**_HEADED, "depth": 12, "cls_depth": 2, "local_patch_kernel_size": 3}},
    "maxvit": {"max_vit.MaxViT": {"num_classes": 1000, "dim": 96, "depth": (2, 2, 5, 2), "dim_conv_stem": 64}},
}
_SOLID: Mapping[str, Any] = {"spatial_dims": 3, "in_channels": 1, "out_channels": 2}
_STEPS: Mapping[str, Any] = {"channels": (16, 32, 64, 128, 256), "strides": (2, 2, 2, 2)}
_VOLUMES: Built = {  # of monai, which label the voxels of 64 x 64 x 64
    "ahnet": {"AHNet": {"layers": (3, 4, 6, 3), "spatial_dims": 3, "out_channels": 2, "psp_block_num": 3}},
    "daf3d": {"DAF3D": {"in_channels": 1, "out_channels": 2}},
    "dynunet": {
        "DynUNet": {
            **_SOLID,
            "kernel_size": [3, 3, 3, 3, 3],
            "strides": [1, 2, 2, 2, 2],
            "upsample_kernel_size": [2, 2, 2, 2],
        },
        "DynUNet:residual": {
            **_SOLID,
            "kernel_size": [3, 3, 3, 3],
            "strides": [1, 2, 2, 2],
            "upsample_kernel_size": [2, 2, 2],
            "res_block": True,
        },
    },
    "highresnet": {"HighResNet": _SOLID},
    "mednext": {"MedNeXt": {**_SOLID, "init_filters": 16, "kernel_size": 3}},
    "segresnet": {
        "SegResNet": {**_SOLID, "init_filters": 16},
        "SegResNetDS": {**_SOLID, "init_filters": 16},
        "SegResNetVAE": {**_SOLID, "input_image_size": (64, 64, 64)},
    },
    "swin_unetr": {
        "SwinUNETR": {"in_channels": 1, "out_channels": 2, "feature_size": 24},
        "SwinUNETR:v2": {"in_channels": 1, "out_channels": 2, "feature_size": 12, "use_v2": True},
    },
    "vnet": {"VNet": _SOLID},
    # Of known families.
    "unet3d": {
        "UNet": {**_SOLID, **_STEPS, "num_res_units": 2},
        "BasicUNet": {**_SOLID, "features": (16, 32, 64, 128, 256, 16)},
    },
    "unet_pp": {"BasicUNetPlusPlus": {**_SOLID, "features": (16, 16, 32, 64, 128, 16)}},
    "attention_unet": {"AttentionUnet": {**_SOLID, **_STEPS}},
    "unetr": {"UNETR": {"in_channels": 1, "out_channels": 2, "img_size": (64, 64, 64), "hidden_size": 384}},
}
_JUDGED: Built = {  # of monai, which classify 64 x 64 x 64 voxels
    "densenet": {"DenseNet121": _SOLID},
    "senet": {"SEResNet50": {"spatial_dims": 3, "in_channels": 1, "num_classes": 2}},
    "video_resnet": {"resnet18": {"n_input_channels": 1, "num_classes": 2}},
    "efficientnet": {
        "EfficientNetBN": {
            "model_name": "efficientnet-b0",
            "pretrained": False,
            "spatial_dims": 3,
            "in_channels": 1,
            "num_classes": 2,
        }
    },
}
_RESTORED: Built = {  # of monai, pictures of 128 x 128 that come out again
    "restormer": {"restormer.Restormer": {"dim": 24, "num_blocks": (2, 2, 2, 2), "heads": (1, 2, 4, 8)}},
    "conv_autoencoder": {
        "AutoEncoder": {
            "spatial_dims": 2,
            "in_channels": 3,
            "out_channels": 3,
            "channels": (32, 64, 128, 256),
            "strides": (2, 2, 2, 2),
            "num_res_units": 2,
        }
    },
    "vit_autoencoder": {
        "ViTAutoEnc": {
            "spatial_dims": 2,
            "in_channels": 3,
            "img_size": (128, 128),
            "patch_size": (16, 16),
            "hidden_size": 384,
            "num_heads": 6,
        }
    },
    # Of known families.
    "vqvae": {
        "VQVAE": {
            "spatial_dims": 2,
            "in_channels": 3,
            "out_channels": 3,
            "channels": (96, 192),
            "num_res_channels": (96, 192),
            "downsample_parameters": ((2, 4, 1, 1), (2, 4, 1, 1)),
            "upsample_parameters": ((2, 4, 1, 1, 0), (2, 4, 1, 1, 0)),
        }
    },
}
_SEGMENTED = {  # of segmentation_models_pytorch: class:encoder
    "manet": "MAnet:resnet34 MAnet:efficientnet-b0 MAnet:mobilenet_v2",
    "pan": "PAN:resnet34 PAN:resnet50 PAN:mobilenet_v2",
    # Of known families.
    "unet": "Unet:resnet34 Unet:resnet50 Unet:efficientnet-b3 Unet:mobilenet_v2 Unet:vgg16_bn",
    "unet_pp": "UnetPlusPlus:resnet34 UnetPlusPlus:efficientnet-b0",
    "own_linknet": "Linknet:resnet34 Linknet:densenet121",
    "own_fpn": "FPN:resnet34 FPN:resnext50_32x4d FPN:efficientnet-b1",
    "own_pspnet": "PSPNet:resnet34 PSPNet:resnet50",
    "deeplab": "DeepLabV3:resnet34 DeepLabV3Plus:resnet50 DeepLabV3Plus:efficientnet-b0",
    "upernet": "UPerNet:resnet34",
    "segformer": "Segformer:mit_b0 Segformer:resnet34",
}


def _layers(kind: str, depth: int, **more: Any) -> dict[str, Any]:
    """Layers of x_transformers, 512 wide."""
    return {"class": f"x_transformers.{kind}", "dim": 512, "depth": depth, "heads": 8, **more}


def _wrapped(layers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"num_tokens": 20000, "max_seq_len": 1024, "attn_layers": layers, **more}


_LATENT: Mapping[str, Any] = {"num_tokens": 20000, "dim": 512, "max_seq_len": 1024}
_LM: Mapping[str, Any] = {"num_tokens": 20000, "dim": 512, "depth": 8, "max_seq_len": 1024, "heads": 8}
_WORDS: Built = {  # which read or continue 20,000 kinds of words; the first name is the library's
    "memory_transformer": {
        "x_transformers.TransformerWrapper:memory": _wrapped(_layers("Decoder", 8), num_memory_tokens=20)
    },
    "talking_heads": {
        "x_transformers.TransformerWrapper:talking": _wrapped(_layers("Encoder", 8, attn_pre_talking_heads=True))
    },
    "hyper_connections": {
        "x_transformers.TransformerWrapper:streams": _wrapped(_layers("Decoder", 6, num_residual_streams=4))
    },
    "performer": {
        "performer_pytorch.PerformerLM": {**_LM, "causal": False},
        "performer_pytorch.PerformerLM:narrow": {**_LM, "dim": 256, "depth": 12, "causal": False},
    },
    "linear_attention": {
        "linear_attention_transformer.LinearAttentionTransformerLM": _LM,
        "linear_attention_transformer.LinearAttentionTransformerLM:local": {**_LM, "n_local_attn_heads": 4},
    },
    "sinkhorn_transformer": {"sinkhorn_transformer.SinkhornTransformerLM": _LM},
    "routing_transformer": {"routing_transformer.RoutingTransformerLM": {**_LM, "window_size": 64}},
    "local_transformer": {
        "local_attention.LocalTransformer": {
            "num_tokens": 20000,
            "dim": 512,
            "depth": 8,
            "max_seq_len": 1024,
            "local_attn_window_size": 64,
        }
    },
    # Of known families.
    "torch_transformer": {
        "x_transformers.TransformerWrapper:encoder": _wrapped(_layers("Encoder", 8)),
        "x_transformers.TransformerWrapper:decoder": _wrapped(_layers("Decoder", 8)),
    },
    "own_llama": {
        "x_transformers.TransformerWrapper:llama": _wrapped(
            _layers("Decoder", 10, rotary_pos_emb=True, ff_glu=True, ff_swish=True, use_rmsnorm=True, attn_kv_heads=2),
            use_abs_pos_emb=False,
        )
    },
    "reformer": {"reformer_pytorch.ReformerLM": {**_LM, "depth": 6, "causal": True}},
}
_LATENTS: Built = {  # of words, with a loss of their own
    "gpt_vae": {"x_transformers.gpt_vae.GPTVAE": {**_LATENT, "depth": 6, "enc_depth": 3}},
    "free_transformer": {
        "x_transformers.free_transformer.FreeTransformer": {
            **_LATENT,
            "dec_head_depth": 4,
            "dec_tail_depth": 4,
            "enc_depth": 1,
            "latent_bits": 8,
        }
    },
}
_GRAPH: Mapping[str, Any] = {"in_channels": 128, "hidden_channels": 256, "out_channels": 40}
_GRAPHS: Built = {  # of torch_geometric: 512 nodes of 128 numbers each, and eight edges for each node
    "graph_sage": {
        "GraphSAGE": {**_GRAPH, "num_layers": 3},
        "GraphSAGE:jumping": {**_GRAPH, "num_layers": 4, "jk": "cat"},
    },
    "edge_cnn": {"EdgeCNN": {**_GRAPH, "num_layers": 3}},
    "graph_unet": {"GraphUNet": {**_GRAPH, "depth": 3}},
    "pmlp": {"PMLP": {**_GRAPH, "num_layers": 4}},
    # Of known families.
    "dense_gcn": {"GCN": {**_GRAPH, "num_layers": 3}, "GCN:deep": {**_GRAPH, "num_layers": 8}},
    "dense_gat": {"GAT": {**_GRAPH, "num_layers": 3, "heads": 4}},
    "gin": {"GIN": {**_GRAPH, "num_layers": 3}},
}
_FIELDS = [
    {"class": "deepctr_torch.inputs.SparseFeat", "name": f"f{i}", "vocabulary_size": 10240, "embedding_dim": 16}
    for i in range(26)
]
_BOTH: Mapping[str, Any] = {"linear_feature_columns": _FIELDS, "dnn_feature_columns": _FIELDS}
_DEEP: Mapping[str, Any] = {"dnn_feature_columns": _FIELDS}
_CLICKS: Built = {  # of deepctr_torch: 26 fields
    "afm": {"AFM": _BOTH},
    "nfm": {"NFM": {**_BOTH, "dnn_hidden_units": (400, 400)}},
    "fibinet": {"FiBiNET": _BOTH},
    "onn": {"ONN": _BOTH},
    "pnn": {"PNN": _DEEP},
    "ccpm": {"CCPM": _BOTH},
    "ifm": {"IFM": _BOTH},
    "difm": {"DIFM": _BOTH},
    "afn": {"AFN": _BOTH},
    "ple": {"PLE": _DEEP},
    "esmm": {"ESMM": _DEEP},
    "shared_bottom": {"SharedBottom": _DEEP},
    # Of known families.
    "dcn": {"DCNMix": _BOTH},
    "deepfm": {"DeepFM": {**_BOTH, "dnn_hidden_units": (400, 400, 400)}},
    "xdeepfm": {"xDeepFM": _BOTH},
    "wide_deep": {"WDL": {**_BOTH, "dnn_hidden_units": (1024, 512, 256)}},
    "auto_int": {"AutoInt": _BOTH},
    "mmoe": {"MMOE": _DEEP},
}
_OTHERS: tuple[tuple[str, Family, str, str, str, Mapping[str, Any]], ...] = (
    ("hovernet", "cnn", "monai.networks.nets.HoVerNet", "3x256x256", "mean", {"out_classes": 5}),
    ("voxelmorph", "cnn", "monai.networks.nets.VoxelMorph", "1x64x64x64 1x64x64x64", "mean", {}),
    (
        "localnet",
        "cnn",
        "monai.networks.nets.LocalNet",
        "2x64x64x64",
        "mean",
        {"spatial_dims": 3, "in_channels": 2, "num_channel_initial": 16, "extract_levels": (0, 1, 2, 3)},
    ),
    (
        "globalnet",
        "cnn",
        "monai.networks.nets.GlobalNet",
        "2x64x64x64",
        "mean",
        {"spatial_dims": 3, "image_size": (64, 64, 64), "in_channels": 2, "num_channel_initial": 16, "depth": 4},
    ),
    (
        "spade",
        "cnn",
        "monai.networks.nets.SPADENet",
        "4x128x128 3x128x128",
        "mean",
        {
            "spatial_dims": 2,
            "in_channels": 3,
            "out_channels": 3,
            "label_nc": 4,
            "input_shape": (128, 128),
            "channels": [32, 64, 128, 256],
            "z_dim": 64,
        },
    ),
    (
        "unet_attention",
        "cnn",
        "monai.networks.nets.DiffusionModelUNet",
        "3x64x64 1000:",
        "mean",
        {
            "spatial_dims": 2,
            "in_channels": 3,
            "out_channels": 3,
            "channels": (128, 256, 256),
            "attention_levels": (False, True, True),
            "num_res_blocks": 1,
            "num_head_channels": 64,
        },
    ),
    (
        "tab_transformer",
        "transformer",
        "tab_transformer_pytorch.TabTransformer",
        "100:12 8",
        "mean",
        {
            "categories": (100,) * 12,
            "num_continuous": 8,
            "dim": 32,
            "depth": 6,
            "heads": 8,
            "mlp_act": {"class": "torch.nn.ReLU"},
        },
    ),
    (
        "ft_transformer",
        "transformer",
        "tab_transformer_pytorch.FTTransformer",
        "100:12 8",
        "mean",
        {"categories": (100,) * 12, "num_continuous": 8, "dim": 64, "depth": 4, "heads": 8},
    ),
    (
        "neo_mlp",
        "mlp",
        "x_transformers.neo_mlp.NeoMLP",
        "64",
        "mean",
        {"dim_in": 64, "dim_hidden": 32, "dim_out": 10, "dim_model": 256, "depth": 6},
    ),
    (
        "axial_transformer",
        "transformer",
        "axial_attention.AxialImageTransformer",
        "128x32x32",
        "mean",
        {"dim": 128, "depth": 6, "reversible": False, "axial_pos_emb_shape": (32, 32)},
    ),
    (
        "jasper",
        "cnn",
        "pytorchcv.model_provider.get_model",
        "64x512 =512",
        "mean",
        {"name": "jasper5x3", "from_audio": False},
    ),
    (
        "quartznet",
        "cnn",
        "pytorchcv.model_provider.get_model",
        "64x512 =512",
        "mean",
        {"name": "quartznet5x5_en_ls", "from_audio": False},
    ),
    (
        "jasper",
        "cnn",
        "pytorchcv.model_provider.get_model",
        "64x512 =512",
        "mean",
        {"name": "jasperdr10x5_en", "from_audio": False},
    ),
    ("pfpcnet", "cnn", "pytorchcv.model_provider.get_model", "1x320x240", "mean", {"name": "pfpcnet"}),
    (
        "unet",
        "cnn",
        "x_unet.XUnet",
        "3x64x64",
        "mean",
        {
            "dim": 64,
            "channels": 3,
            "dim_mults": (1, 2, 4, 8),
            "nested_unet_depths": (4, 2, 1, 0),
            "consolidate_upsample_fmaps": True,
        },
    ),
    ("conformer", "transformer", "conformer.Conformer", "256x256", "mean", {"dim": 256, "depth": 8}),
    (
        "nystromformer",
        "transformer",
        "nystrom_attention.Nystromformer",
        "512x256",
        "mean",
        {"dim": 256, "depth": 6, "num_landmarks": 64},
    ),
    (
        "mlp_mixer",
        "transformer",
        "g_mlp_pytorch.gMLP",
        "20000:256",
        "class",
        {"num_tokens": 20000, "dim": 512, "depth": 8, "seq_len": 256},
    ),
    (
        "mlp_mixer",
        "transformer",
        "mlp_mixer_pytorch.MLPMixer",
        "3x224x224",
        "class",
        {"image_size": 224, "channels": 3, "patch_size": 16, "dim": 512, "depth": 12, "num_classes": 1000},
    ),
    (
        "perceiver",
        "transformer",
        "perceiver_pytorch.Perceiver",
        "224x224x3",
        "class",
        {
            "input_channels": 3,
            "num_freq_bands": 6,
            "max_freq": 10.0,
            "depth": 4,
            "num_latents": 128,
            "latent_dim": 256,
            "num_classes": 1000,
        },
    ),
)


def _mapped(groups: Mapping[str, str], **config: Any) -> Iterator[Entry]:
    """Yield pytorchcv's models that give out numbers of any kind."""
    for entry in of_pytorchcv(groups, **config):
        yield replace(entry, feed="given", size=0, given=f"3x{entry.size}x{entry.size}", target="mean")


def _built(
    library: str, groups: Built, family: Family, feed: Feed, given: str = "", target: str = "", size: int = 0
) -> Iterator[Entry]:
    """Yield the models of a table of classes."""
    for group, models in groups.items():
        for key, config in models.items():
            path, _, variant = key.partition(":")
            head = f"{library}.{path}" if library else path
            name = head.replace("monai.networks.nets", "monai").replace(".", "/", 1) + "-" * bool(variant) + variant
            yield made(name, group, head, config, family=family, feed=feed, given=given, target=target, size=size)


def entries() -> Iterator[Entry]:
    """Yield every model."""
    yield from of_pytorchcv(_PICTURES)
    yield from of_pytorchcv(_SCENES, sides=True)
    yield from _mapped(_HEAT, return_heatmap=True)
    yield from _mapped(_POINTS)
    yield from _built("vit_pytorch", _ATTENTIVE, "transformer", "image", size=224)
    monai = "monai.networks.nets"
    yield from _built(monai, _VOLUMES, "cnn", "volume", "1x64x64x64", "pixels")
    yield from _built(monai, _JUDGED, "cnn", "volume", "1x64x64x64", "class")
    yield from _built(monai, _RESTORED, "cnn", "given", "3x128x128", "mean")
    yield from of_segmenters(_SEGMENTED)
    yield from _built("", _WORDS, "transformer", "words", "20000:L", "class")
    yield from _built("", _LATENTS, "transformer", "words", "20000:L", "own")
    yield from _built("torch_geometric.nn", _GRAPHS, "mlp", "given", "graph", "class")
    yield from _built("deepctr_torch.models", _CLICKS, "mlp", "given", "#10000:26", "mean")
    for group, family, head, given, target, config in _OTHERS:
        library, last = head.split(".")[0], config["name"] if head == GET else head.split(".")[-1]
        feed: Feed = "volume" if given.count("x") > 2 else "given"
        yield made(f"{library}/{last}", group, head, config, family=family, feed=feed, given=given, target=target)
