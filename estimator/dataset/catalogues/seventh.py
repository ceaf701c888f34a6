"""Models of the seventh collection: of libraries that no collection before drew from, through import alone. Pure data.

As in the sixth, a family is fresh if nothing that any collection before measured has the name of its architecture,
whatever library or own code it came from; else the model is kin of that family, in another implementation. That was
decided by names, before any was measured: the fresh ones are in `fresh.py`. Sizes are the library's
defaults or those of its documentation; models that are trained on many GPUs are smaller, as one fits on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from estimator.dataset.catalogues.configs import convolved, encoder
from estimator.dataset.catalogues.entries import Entry, named
from estimator.dataset.catalogues.rows import LibraryRow, made, of_diffusers, of_graphs, of_library
from estimator.types import Family

_TEXT, _STEP = "encoder_hidden_states@77x512", "timestep@1000:"
_HEADS: Mapping[str, Any] = {"num_attention_heads": 8, "attention_head_dim": 64}
_JOINT: Mapping[str, Any] = {**_HEADS, "joint_attention_dim": 512}
_UNET: Mapping[str, Any] = {"block_out_channels": (64, 128, 256, 256), "cross_attention_dim": 512}
_DIFFUSED: tuple[LibraryRow, ...] = (  # of diffusers: what denoises
    (
        "pixart",
        "PixArtTransformer2DModel",
        f"4x32x32 {_TEXT} {_STEP}",
        {**_HEADS, "num_layers": 12, "cross_attention_dim": 512, "sample_size": 32, "caption_channels": 512},
    ),
    (
        "mmdit",
        "SD3Transformer2DModel",
        f"16x32x32 {_TEXT} pooled_projections@512 {_STEP}",
        {**_JOINT, "sample_size": 32, "num_layers": 12, "caption_projection_dim": 512, "pooled_projection_dim": 512},
    ),
    (
        "flux",
        "FluxTransformer2DModel",
        f"256x64 {_TEXT} pooled_projections@512 {_STEP} img_ids@!256x3 txt_ids@!77x3",
        {
            **_JOINT,
            "num_layers": 4,
            "num_single_layers": 8,
            "pooled_projection_dim": 512,
            "axes_dims_rope": (8, 28, 28),
        },
    ),
    (
        "chroma",
        "ChromaTransformer2DModel",
        f"256x64 {_TEXT} {_STEP} img_ids@!256x3 txt_ids@!77x3 attention_mask@#1:333",
        {
            **_JOINT,
            "num_layers": 4,
            "num_single_layers": 8,
            "axes_dims_rope": (8, 28, 28),
            "approximator_hidden_dim": 512,
        },
    ),
    (
        "aura_flow",
        "AuraFlowTransformer2DModel",
        f"4x32x32 {_TEXT} {_STEP}",
        {**_JOINT, "sample_size": 32, "num_mmdit_layers": 2, "num_single_dit_layers": 8, "caption_projection_dim": 512},
    ),
    (
        "sana",
        "SanaTransformer2DModel",
        f"32x32x32 {_TEXT} {_STEP}",
        {
            "num_attention_heads": 16,
            "attention_head_dim": 32,
            "num_layers": 10,
            "num_cross_attention_heads": 8,
            "cross_attention_head_dim": 64,
            "cross_attention_dim": 512,
            "caption_channels": 512,
        },
    ),
    (
        "lumina",
        "Lumina2Transformer2DModel",
        "16x32x32 1000: 77x512 =1:77",
        {
            "sample_size": 32,
            "hidden_size": 512,
            "num_layers": 8,
            "num_attention_heads": 8,
            "num_kv_heads": 4,
            "axes_dim_rope": (16, 24, 24),
            "cap_feat_dim": 512,
        },
    ),
    (
        "cogview",
        "CogView4Transformer2DModel",
        f"16x32x32 {_TEXT} {_STEP} original_size@2 target_size@2 crop_coords@2",
        {**_HEADS, "num_layers": 8, "text_embed_dim": 512, "time_embed_dim": 256, "sample_size": 32},
    ),
    (
        "cogvideox",
        "CogVideoXTransformer3DModel",
        f"3x16x32x32 {_TEXT} {_STEP}",
        {
            **_HEADS,
            "time_embed_dim": 256,
            "text_embed_dim": 512,
            "num_layers": 8,
            "sample_width": 32,
            "sample_height": 32,
            "sample_frames": 9,
            "max_text_seq_length": 77,
        },
    ),
    (
        "mochi",
        "MochiTransformer3DModel",
        f"12x3x32x32 {_TEXT} {_STEP} encoder_attention_mask@=1:77",
        {**_HEADS, "num_layers": 8, "pooled_projection_dim": 256, "text_embed_dim": 512},
    ),
    (
        "ltx_video",
        "LTXVideoTransformer3DModel",
        f"768x128 {_TEXT} {_STEP} encoder_attention_mask@=1:77 num_frames@~3 height@~16 width@~16",
        {**_HEADS, "cross_attention_dim": 512, "num_layers": 10, "caption_channels": 512},
    ),
    (
        "wan",
        "WanTransformer3DModel",
        f"16x3x32x32 {_STEP} {_TEXT}",
        {**_HEADS, "text_dim": 512, "ffn_dim": 2048, "num_layers": 10},
    ),
    (
        "hunyuan_video",
        "HunyuanVideoTransformer3DModel",
        f"16x3x32x32 {_STEP} {_TEXT} encoder_attention_mask@=1:77 pooled_projections@256",
        {
            **_HEADS,
            "num_layers": 4,
            "num_single_layers": 6,
            "text_embed_dim": 512,
            "pooled_projection_dim": 256,
            "guidance_embeds": False,
            "rope_axes_dim": (16, 24, 24),
        },
    ),
    (
        "latte",
        "LatteTransformer3DModel",
        f"4x8x32x32 {_STEP} {_TEXT}",
        {
            **_HEADS,
            "in_channels": 4,
            "out_channels": 8,
            "num_layers": 6,
            "cross_attention_dim": 512,
            "attention_bias": True,
            "sample_size": 32,
            "patch_size": 2,
            "activation_fn": "gelu-approximate",
            "num_embeds_ada_norm": 1000,
            "norm_type": "ada_norm_single",
            "norm_elementwise_affine": False,
            "caption_channels": 512,
            "video_length": 8,
        },
    ),
    (
        "allegro",
        "AllegroTransformer3DModel",
        f"4x4x32x32 {_TEXT} {_STEP}",
        {
            **_HEADS,
            "num_layers": 8,
            "cross_attention_dim": 512,
            "sample_height": 32,
            "sample_width": 32,
            "sample_frames": 4,
            "caption_channels": 512,
        },
    ),
    (
        "prior_transformer",
        "PriorTransformer",
        "512 1000: 512 77x512",
        {**_HEADS, "num_layers": 12, "embedding_dim": 512},
    ),
    ("amused", "UVit2DModel", "8192:16x16 77x768 768 5", encoder(512, 8, 8, 1408)),
    (
        "stable_audio",
        "StableAudioDiTModel",
        f"64x256 {_STEP} {_TEXT} global_hidden_states@1x512",
        {
            "sample_size": 256,
            "num_layers": 10,
            "num_attention_heads": 8,
            "num_key_value_attention_heads": 4,
            "cross_attention_dim": 512,
            "global_states_input_dim": 512,
            "cross_attention_input_dim": 512,
        },
    ),
    (
        "prx",
        "PRXTransformer2DModel",
        f"16x32x32 {_STEP} {_TEXT}",
        {"context_in_dim": 512, "hidden_size": 512, "num_heads": 8, "depth": 8, "axes_dim": (32, 32)},
    ),
    (
        "stable_video",
        "UNetSpatioTemporalConditionModel",
        "8x8x32x32 1000: 1x512 3",
        {**_UNET, "num_attention_heads": (2, 4, 8, 8), "projection_class_embeddings_input_dim": 768, "num_frames": 8},
    ),
    (
        "kandinsky",
        "Kandinsky3UNet",
        "4x32x32 1000: 77x512 =1:77",
        {
            "time_embedding_dim": 256,
            "layers_per_block": 2,
            "block_out_channels": (64, 128, 256, 512),
            "cross_attention_dim": 512,
            "encoder_hid_dim": 512,
        },
    ),
    (
        "stable_cascade",
        "StableCascadeUNet",
        "16x24x24 #2: 1x512",
        {
            "conditioning_dim": 512,
            "block_out_channels": (512, 512),
            "num_attention_heads": (8, 8),
            "down_num_layers_per_block": (2, 4),
            "up_num_layers_per_block": (4, 2),
            "clip_text_pooled_in_channels": 512,
        },
    ),
    ("controlnet", "ControlNetModel", "4x32x32 1000: 77x512 3x256x256", _UNET),
    ("unet_1d", "UNet1DModel", "2x16384 1000:", {"sample_size": 16384, "extra_in_channels": 64}),
    # Of known families, in another implementation.
    ("latent_unet", "UNet2DConditionModel", "4x32x32 1000: 77x512", _UNET),
    ("unet_attention", "UNet2DModel", "3x64x64 1000:", {"block_out_channels": (64, 128, 256, 512), "sample_size": 64}),
    ("unet3d", "UNet3DConditionModel", "4x8x32x32 1000: 77x512", {**_UNET, "attention_head_dim": 32}),
)
_STAGES: Mapping[str, Any] = {
    "down_block_types": ("DownEncoderBlock2D",) * 3,
    "up_block_types": ("UpDecoderBlock2D",) * 3,
    "block_out_channels": (64, 128, 256),
    "layers_per_block": 2,
}
_ENCODED: tuple[LibraryRow, ...] = (  # of diffusers: what makes latents and pictures of them again
    (
        "dc_ae",
        "AutoencoderDC",
        "3x256x256",
        {
            "encoder_block_out_channels": (64, 128, 256, 256),
            "decoder_block_out_channels": (64, 128, 256, 256),
            "encoder_layers_per_block": (1, 1, 2, 2),
            "decoder_layers_per_block": (2, 2, 2, 2),
            "encoder_block_types": ("ResBlock", "ResBlock", "EfficientViTBlock", "EfficientViTBlock"),
            "decoder_block_types": ("ResBlock", "ResBlock", "EfficientViTBlock", "EfficientViTBlock"),
            "encoder_qkv_multiscales": ((), (), (5,), (5,)),
            "decoder_qkv_multiscales": ((), (), (5,), (5,)),
        },
    ),
    (
        "oobleck",
        "AutoencoderOobleck",
        "2x32768",
        {"encoder_hidden_size": 64, "decoder_channels": 64, "decoder_input_channels": 32},
    ),
    ("wan_vae", "AutoencoderKLWan", "3x5x64x64", {"base_dim": 48, "z_dim": 16}),
    (
        "cogvideox_vae",
        "AutoencoderKLCogVideoX",
        "3x5x64x64",
        {"block_out_channels": (64, 128, 128, 256), "layers_per_block": 2},
    ),
    # Of known families.
    ("vae", "AutoencoderKL", "3x128x128", _STAGES),
    ("vqvae", "VQModel", "3x128x128", {**_STAGES, "num_vq_embeddings": 1024}),
)
_EEG = "22x1000"
_BRAIN: Mapping[str, Any] = {"n_chans": 22, "n_outputs": 4, "n_times": 1000, "sfreq": 250}
_BRAINS = {  # of braindecode: 22 electrodes for four seconds
    "atcnet": "ATCNet",
    "bendr": "BENDR",
    "biot": "BIOT",
    "cbramod": "CBraMod",
    "contrawr": "ContraWR",
    "ctnet": "CTNet",
    "deep4": "Deep4Net",
    "eeg_conformer": "EEGConformer",
    "eeg_inception": "EEGInceptionERP EEGInceptionMI",
    "eeg_itnet": "EEGITNet",
    "eegnex": "EEGNeX",
    "eeg_simple_conv": "EEGSimpleConv",
    "eeg_tcnet": "EEGTCNet",
    "fbcnet": "FBCNet",
    "fbmsnet": "FBMSNet",
    "ifnet": "IFNet",
    "medformer": "MEDFormer",
    "msvtnet": "MSVTNet",
    "sccnet": "SCCNet",
    "shallow_fbcsp": "ShallowFBCSPNet",
    "sinc_shallow": "SincShallowNet",
    "sparcnet": "SPARCNet",
    "syncnet": "SyncNet",
    "tidnet": "TIDNet",
    "ts_inception": "TSception",
    # Of known families.
    "eegnet": "EEGNet",
    "tcn": "BDTCN",
}
_NIGHT: Mapping[str, Any] = {"n_chans": 2, "n_outputs": 5, "n_times": 3000, "sfreq": 100}
_SLEEPS: tuple[LibraryRow, ...] = (  # of braindecode: two electrodes for thirty seconds, and 128
    ("attn_sleep", "AttnSleep", "2x3000", _NIGHT),
    ("deep_sleep", "DeepSleepNet", "2x3000", _NIGHT),
    ("sleep_stager", "SleepStagerChambon2018", "2x3000", _NIGHT),
    ("sleep_stager", "SleepStagerBlanco2020", "2x3000", _NIGHT),
    ("usleep", "USleep", "2x3000", _NIGHT),
    ("labram", "Labram", "128x1000", {**_BRAIN, "n_chans": 128, "sfreq": 200}),
)
_BLOCK: Mapping[str, Any] = {
    "class": "speechbrain.lobes.models.dual_path.SBTransformerBlock",
    "num_layers": 4,
    "d_model": 256,
    "nhead": 8,
    "d_ffn": 1024,
    "use_positional_encoding": True,
    "norm_before": True,
}
_LOBES = "speechbrain.lobes.models"
_HEARD: tuple[LibraryRow, ...] = (  # which hear or speak
    ("xvector", f"{_LOBES}.Xvector.Xvector", "300x40", {"in_channels": 40}),
    ("crdnn", f"{_LOBES}.CRDNN.CRDNN", "400x40", {"input_shape": [None, None, 40]}),
    (
        "sepformer",
        f"{_LOBES}.dual_path.Dual_Path_Model:sepformer",
        "256x2000",
        {
            "in_channels": 256,
            "out_channels": 256,
            "num_layers": 2,
            "K": 250,
            "intra_model": _BLOCK,
            "inter_model": _BLOCK,
        },
    ),
    (
        "segan",
        f"{_LOBES}.segan_model.Generator:segan",
        "16384x1",
        {"kernel_size": 31, "latent_vae": False, "z_prob": False},
    ),
    (
        "diffwave",
        f"{_LOBES}.DiffWave.DiffWave",
        "1x8192 50: 80x32",
        {
            "input_channels": 80,
            "residual_layers": 30,
            "residual_channels": 64,
            "dilation_cycle_length": 10,
            "total_steps": 50,
        },
    ),
    (
        "branchformer",
        f"{_LOBES}.transformer.TransformerASR.TransformerASR:branchformer",
        "200x640 1000:40",
        {
            "tgt_vocab": 1000,
            "input_size": 640,
            "d_model": 256,
            "nhead": 4,
            "num_encoder_layers": 8,
            "num_decoder_layers": 4,
            "d_ffn": 1024,
            "encoder_module": "branchformer",
            "attention_type": "RelPosMHAXL",
            "csgu_linear_units": 1024,
            "causal": False,
        },
    ),
    ("enhance_resnet", f"{_LOBES}.EnhanceResnet.EnhanceResnet", "16000", {}),
    (
        "wavernn",
        "torchaudio.models.WaveRNN",
        "1x6800 1x128x38",
        {"upsample_scales": [5, 5, 8], "n_classes": 512, "hop_length": 200},
    ),
    ("rnnt", "torchaudio.models.emformer_rnnt_base", "132x80 =128 1000:20 =20", {"num_symbols": 1000}),
    (
        "emformer",
        "torchaudio.models.Emformer",
        "260x512 =256",
        {
            "input_dim": 512,
            "num_heads": 8,
            "ffn_dim": 2048,
            "num_layers": 10,
            "segment_length": 16,
            "right_context_length": 4,
            "left_context_length": 30,
        },
    ),
    ("squim", "torchaudio.models.squim_objective_base", "16000", {}),
    ("dptnet", "asteroid.models.DPTNet", "8000", {"n_src": 2}),
    ("sudormrf", "asteroid.models.SuDORMRFNet", "16000", {"n_src": 2}),
    ("dcunet", "asteroid.models.DCUNet", "16384", {"architecture": "DCUNet-20", "fix_length_mode": "pad"}),
    ("demask", "asteroid.models.DeMask", "16000", {}),
    ("lstm_tasnet", "asteroid.models.LSTMTasNet", "8000", {"n_src": 2}),
    ("open_unmix", "openunmix.model.OpenUnmix", "2x2049x255", {"nb_bins": 2049, "max_bin": 1487}),
    ("passt", "hear21passt.models.passt.get_model:passt_s", "1x128x998", {"pretrained": False}),
    # Of known families.
    ("ecapa", f"{_LOBES}.ECAPA_TDNN.ECAPA_TDNN", "300x80", {"input_size": 80}),
    ("resnet", f"{_LOBES}.ResNet.ResNet:speaker", "300x80", {}),
    (
        "conformer",
        f"{_LOBES}.transformer.TransformerASR.TransformerASR:conformer",
        "200x640 1000:40",
        {
            "tgt_vocab": 1000,
            "input_size": 640,
            "d_model": 256,
            "nhead": 4,
            "num_encoder_layers": 8,
            "num_decoder_layers": 4,
            "d_ffn": 1024,
            "encoder_module": "conformer",
            "attention_type": "RelPosMHAXL",
            "normalize_before": True,
            "causal": False,
        },
    ),
    (
        "conformer",
        "torchaudio.models.Conformer",
        "400x144 =400",
        {"input_dim": 144, "num_heads": 4, "ffn_dim": 576, "num_layers": 16, "depthwise_conv_kernel_size": 31},
    ),
    ("demucs", "torchaudio.models.hdemucs_low", "2x44100", {"sources": ["drums", "bass", "other", "vocals"]}),
    ("wav2vec2", "torchaudio.models.wav2vec2_base", "32000", {"encoder_layer_drop": 0.0}),
    ("wav2vec2", "torchaudio.models.hubert_base", "32000", {"encoder_layer_drop": 0.0}),
    ("wavlm", "torchaudio.models.wavlm_base", "32000", {"encoder_layer_drop": 0.0}),
    ("deep_speech", "torchaudio.models.DeepSpeech", "1x200x80", {"n_feature": 80}),
    ("conv_tasnet", "torchaudio.models.ConvTasNet", "1x16000", {}),
    ("tacotron", "torchaudio.models.Tacotron2", "148:60 =60 80x200 =200", {}),
    ("conv_tasnet", "asteroid.models.ConvTasNet", "16000", {"n_src": 2}),
    ("dprnn", "asteroid.models.DPRNNTasNet", "8000", {"n_src": 2}),
)


_GRAPHS: Mapping[str, Mapping[str, Any]] = {  # of torch_geometric, by family
    "cheb_net": convolved("ChebConv", K=3),
    "appnp": convolved("APPNP", same=False, K=10, alpha=0.1),
    "sgc": convolved("SGConv", K=2),
    "tagcn": convolved("TAGConv"),
    "arma_gnn": convolved("ARMAConv", num_stacks=2, num_layers=2),
    "unimp": convolved("TransformerConv", heads=4, concat=False),
    "ggnn": convolved("GatedGraphConv", same=False, out_channels=256, num_layers=3),
    "resgated_gcn": convolved("ResGatedGraphConv"),
    "gnn_film": convolved("FiLMConv"),
    "cluster_gcn": convolved("ClusterGCNConv"),
    "deeper_gcn": convolved("GENConv", aggr="softmax"),
    "egc": convolved("EGConv"),
    "graph_conv": convolved("GraphConv"),
    "gcnii": convolved("GCN2Conv", given="x, x, edge_index", same=False, channels=256, alpha=0.1, theta=0.5, layer=1),
    "pna": convolved(
        "PNAConv",
        aggregators=["mean", "min", "max", "std"],
        scalers=["identity", "amplification", "attenuation"],
        deg={"class": "torch.tensor", "data": [0, 10, 20, 40, 80, 90, 100, 90, 80, 40, 20]},
    ),
    "dense_gat": convolved("GATv2Conv", heads=4, concat=False),  # of a known family
}


def field(name: str, kind: str = "Sparse", **more: Any) -> dict[str, Any]:
    """A field of torch_rechub."""
    return {
        "class": f"torch_rechub.basic.features.{kind}Feature",
        "name": name,
        "vocab_size": 10000,
        "embed_dim": 32,
        **more,
    }


_FIELDS = [field(f"f{i}") for i in range(16)]
_CROSSED = [field(f"f{i}", vocab_size=160000, embed_dim=10) for i in range(16)]
_SEEN = field("seen", "Sequence", pooling="concat", shared_with="item")
_NEXT = field("next", "Sequence", pooling="concat", shared_with="item")
_ONE = [field("user"), field("age")]
_ITEM = [field("item")]
_DEEP: Mapping[str, Any] = {"dims": [256, 128], "dropout": 0.1}
_CLICKED = " ".join(f".f{i}@10000:" for i in range(16))
_FOLLOWED = ".user@10000: .age@10000: .item@10000: .seen@10000:50"
_OFFERED = ".user@10000: .age@10000: .seen@10000:50 .item@10000: .next@10000:20"
_WIDE: tuple[LibraryRow, ...] = (  # of torch_rechub.models
    (
        "deep_ffm",
        "ranking.DeepFFM",
        _CLICKED,
        {"linear_features": _FIELDS, "cross_features": _CROSSED, "embed_dim": 10, "mlp_params": _DEEP},
    ),
    ("edcn", "ranking.EDCN", _CLICKED, {"features": _FIELDS, "n_cross_layers": 3, "mlp_params": {"dims": [256, 128]}}),
    (
        "bst",
        "ranking.BST",
        _FOLLOWED,
        {"features": _ONE, "history_features": [_SEEN], "target_features": _ITEM, "mlp_params": {"dims": [256, 128]}},
    ),
    (
        "aitm",
        "multi_task.AITM",
        _CLICKED,
        {
            "features": _FIELDS,
            "n_task": 2,
            "bottom_params": {"dims": [512, 256]},
            "tower_params_list": [{"dims": [128, 64]}, {"dims": [128, 64]}],
        },
    ),
    (
        "dien",
        "ranking.DIEN",
        ".user@10000: .age@10000: .item@10000: .seen@10000:50 .other@10000:50",
        {
            "features": _ONE,
            "history_features": [_SEEN],
            "neg_history_features": [{**_SEEN, "name": "other"}],
            "target_features": _ITEM,
            "mlp_params": {"dims": [256, 128]},
        },
    ),
    (
        "youtube_dnn",
        "matching.YoutubeDNN",
        _OFFERED,
        {
            "user_features": [*_ONE, {**_SEEN, "pooling": "mean"}],
            "item_features": _ITEM,
            "neg_item_feature": [_NEXT],
            "user_params": {"dims": [256, 128, 32]},
        },
    ),
    (
        "gru4rec",
        "matching.GRU4Rec",
        _OFFERED,
        {
            "user_features": _ONE,
            "history_features": [_SEEN],
            "item_features": _ITEM,
            "neg_item_feature": [_NEXT],
            "user_params": {"dims": [256, 128, 32]},
        },
    ),
    (
        "mind",
        "matching.MIND",
        _OFFERED,
        {
            "user_features": _ONE,
            "history_features": [_SEEN],
            "item_features": _ITEM,
            "neg_item_feature": [_NEXT],
            "max_length": 50,
        },
    ),
    (
        "narm",
        "matching.NARM",
        _FOLLOWED,
        {
            "item_history_feature": field("seen", "Sequence", pooling="concat"),
            "hidden_dim": 100,
            "emb_dropout_p": 0.25,
            "session_rep_dropout_p": 0.5,
        },
    ),
    (
        "stamp",
        "matching.STAMP",
        _FOLLOWED,
        {"item_history_feature": field("seen", "Sequence", pooling="concat"), "weight_std": 0.05, "emb_std": 0.002},
    ),
    ("hstu", "generative.HSTUModel", "10000:200", {"vocab_size": 10000, "d_model": 256, "max_seq_len": 200}),
    # Of known families.
    (
        "deep_interest",
        "ranking.DIN",
        _FOLLOWED,
        {
            "features": _ONE,
            "history_features": [_SEEN],
            "target_features": _ITEM,
            "mlp_params": {"dims": [256, 128]},
            "attention_mlp_params": {"dims": [256, 128]},
        },
    ),
    (
        "dcn",
        "ranking.DCNv2",
        _CLICKED,
        {"features": _FIELDS, "n_cross_layers": 3, "mlp_params": _DEEP, "use_low_rank_mixture": False},
    ),
)
_TIMES = "pypots.nn.modules"
_SERIES: tuple[LibraryRow, ...] = (  # of pypots, windows of a series
    (
        "timesnet",
        f"{_TIMES}.timesnet.BackboneTimesNet",
        "96x64",
        {"n_layers": 2, "n_steps": 96, "n_pred_steps": 0, "top_k": 5, "d_model": 64, "d_ffn": 64, "n_kernels": 6},
    ),
    (
        "scinet",
        f"{_TIMES}.scinet.BackboneSCINet",
        "96x32",
        {
            "n_out_steps": 24,
            "n_in_steps": 96,
            "n_in_features": 32,
            "d_hidden": 128,
            "n_stacks": 2,
            "n_levels": 3,
            "n_decoder_layers": 1,
            "n_groups": 1,
        },
    ),
    (
        "micn",
        f"{_TIMES}.micn.BackboneMICN",
        "96x128",
        {
            "n_steps": 96,
            "n_features": 128,
            "n_pred_steps": 96,
            "n_pred_features": 32,
            "n_layers": 2,
            "d_model": 128,
            "decomp_kernel": [13, 17],
            "isometric_kernel": [9, 7],
            "conv_kernel": [12, 16],
        },
    ),
    (
        "film_series",
        f"{_TIMES}.film.BackboneFiLM",
        "96x32",
        {
            "n_steps": 96,
            "in_channels": 32,
            "n_pred_steps": 96,
            "window_size": [128],
            "multiscale": [1, 2],
            "modes1": 32,
            "ratio": 0.5,
            "mode_type": 0,
        },
    ),
    (
        "stemgnn",
        f"{_TIMES}.stemgnn.BackboneStemGNN",
        "96x64",
        {"units": 64, "stack_cnt": 2, "time_step": 96, "multi_layer": 5},
    ),
    ("segrnn", f"{_TIMES}.segrnn.BackboneSegRNN", "96x32", {"n_steps": 96, "n_features": 32, "n_pred_steps": 96}),
    (
        "modern_tcn",
        f"{_TIMES}.moderntcn.BackboneModernTCN",
        "32x96",
        {
            "n_steps": 96,
            "n_features": 32,
            "n_predict_features": 32,
            "patch_size": 8,
            "patch_stride": 4,
            "downsampling_ratio": 2,
            "ffn_ratio": 2,
            "num_blocks": [1, 1],
            "large_size": [51, 49],
            "small_size": [5, 5],
            "dims": [64, 128],
        },
    ),
    (
        "tslanet",
        f"{_TIMES}.tslanet.BackboneTSLANet",
        "96x32",
        {
            "task_name": "forecasting",
            "seq_len": 96,
            "num_channels": 32,
            "pred_len": 48,
            "n_layers": 3,
            "patch_size": 16,
            "emb_dim": 128,
            "dropout": 0.1,
            "mask_ratio": 0.4,
        },
    ),
    (
        "saits",
        f"{_TIMES}.saits.BackboneSAITS",
        "96x32 96x32",
        {
            "n_steps": 96,
            "n_features": 32,
            "n_layers": 3,
            "d_model": 256,
            "n_heads": 4,
            "d_k": 64,
            "d_v": 64,
            "d_ffn": 512,
            "dropout": 0.1,
            "attn_dropout": 0.1,
        },
    ),
)
_MASKED: Mapping[str, Any] = {"features": 63, "hidden_features": 512, "num_blocks": 2, "use_batch_norm": False}
_MONAI = "monai.networks.nets"
_GIVEN: tuple[tuple[Family, str, LibraryRow], ...] = (  # of smaller libraries: family, target, the rest
    (
        "mlp",
        "mean",
        (
            "maf",
            "nflows.transforms.CompositeTransform:maf",
            "63",
            {"transforms": [{"class": "nflows.transforms.MaskedAffineAutoregressiveTransform", **_MASKED}] * 10},
        ),
    ),
    (
        "mlp",
        "mean",
        (
            "spline_flow",
            "nflows.transforms.CompositeTransform:spline",
            "63",
            {
                "transforms": [
                    {
                        "class": "nflows.transforms.MaskedPiecewiseRationalQuadraticAutoregressiveTransform",
                        **_MASKED,
                        "hidden_features": 256,
                        "num_bins": 8,
                        "tails": "linear",
                        "tail_bound": 3.0,
                    }
                ]
                * 5
            },
        ),
    ),
    (
        "mlp",
        "mean",
        (
            "tabm",
            "tabm.TabM",
            "64",
            {
                "n_num_features": 64,
                "d_out": 10,
                "n_blocks": 3,
                "d_block": 512,
                "dropout": 0.1,
                "k": 32,
                "arch_type": "tabm",
                "start_scaling_init": "random-signs",
            },
        ),
    ),
    (
        "transformer",
        "mean",
        (
            "egnn",
            "egnn_pytorch.EGNN_Network",
            "21:128 128x3",
            {"depth": 4, "dim": 64, "num_tokens": 21, "num_nearest_neighbors": 8},
        ),
    ),
    (
        "transformer",
        "mean",
        (
            "rin",
            "rin_pytorch.RIN",
            "3x64x64 #2:",
            {"dim": 256, "image_size": 64, "patch_size": 8, "depth": 4, "dim_latent": 512, "num_latents": 128},
        ),
    ),
    (
        "transformer",
        "mean",
        (
            "enformer",
            "enformer_pytorch.modeling_enformer.Enformer",
            "5:16384",
            {
                "config": {
                    "class": "enformer_pytorch.config_enformer.EnformerConfig",
                    "dim": 384,
                    "depth": 4,
                    "heads": 4,
                    "target_length": 96,
                }
            },
        ),
    ),
    (
        "cnn",
        "mean",
        (
            "karras_unet",
            "denoising_diffusion_pytorch.karras_unet.KarrasUnet",
            "3x64x64 #2:",
            {"image_size": 64, "channels": 3, "dim": 64, "dim_max": 256, "num_blocks_per_stage": 2},
        ),
    ),
    (
        "mlp",
        "mean",
        ("siren", "siren_pytorch.SirenNet", "1024x2", {"dim_in": 2, "dim_hidden": 256, "dim_out": 3, "num_layers": 5}),
    ),
    (
        "cnn",
        "mean",
        ("quicknat", f"{_MONAI}.Quicknat", "1x128x128", {"num_classes": 2, "num_channels": 1, "num_filters": 64}),
    ),
    (
        "cnn",
        "mean",
        ("mil", f"{_MONAI}.MILModel", "16x3x128x128", {"num_classes": 2, "pretrained": False, "mil_mode": "att"}),
    ),
    # Of known families.
    (
        "transformer",
        "mean",
        (
            "vit_mae",
            f"{_MONAI}.MaskedAutoEncoderViT",
            "3x128x128",
            {
                "in_channels": 3,
                "img_size": 128,
                "patch_size": 16,
                "hidden_size": 384,
                "mlp_dim": 1536,
                "num_layers": 8,
                "num_heads": 6,
                "decoder_hidden_size": 192,
                "decoder_mlp_dim": 768,
                "decoder_num_heads": 6,
                "spatial_dims": 2,
            },
        ),
    ),
    ("cnn", "mean", ("unet_attention", "denoising_diffusion_pytorch.Unet", "3x64x64 1000:", {"dim": 64})),
    ("cnn", "mean", ("unet_1d", "denoising_diffusion_pytorch.Unet1D", "16x1024 1000:", {"dim": 64, "channels": 16})),
    ("cnn", "mean", ("unet3d", "video_diffusion_pytorch.Unet3D", "3x8x32x32 1000:", {"dim": 64})),
    (
        "transformer",
        "mean",
        (
            "sam",
            "segment_anything.modeling.image_encoder.ImageEncoderViT",
            "3x512x512",
            {
                "img_size": 512,
                "embed_dim": 384,
                "depth": 8,
                "num_heads": 6,
                "use_rel_pos": True,
                "window_size": 14,
                "global_attn_indexes": (3, 7),
            },
        ),
    ),
    (
        "mlp",
        "mean",
        (
            "tab_resnet",
            "rtdl_revisiting_models.ResNet",
            "64",
            {
                "d_in": 64,
                "d_out": 10,
                "n_blocks": 4,
                "d_block": 256,
                "d_hidden_multiplier": 2.0,
                "dropout1": 0.2,
                "dropout2": 0.0,
            },
        ),
    ),
    (
        "transformer",
        "mean",
        (
            "ft_transformer",
            "rtdl_revisiting_models.FTTransformer",
            "8 100:12",
            {
                "n_cont_features": 8,
                "cat_cardinalities": [100] * 12,
                "d_out": 1,
                "n_blocks": 3,
                "d_block": 192,
                "attention_n_heads": 8,
                "attention_dropout": 0.2,
                "ffn_d_hidden_multiplier": 4 / 3,
                "ffn_dropout": 0.1,
                "residual_dropout": 0.0,
            },
        ),
    ),
    (
        "mlp",
        "mean",
        (
            "tabnet",
            "pytorch_tabnet.tab_network.TabNet",
            "64",
            {
                "input_dim": 64,
                "output_dim": 10,
                "n_d": 64,
                "n_a": 64,
                "n_steps": 5,
                "group_attention_matrix": {"class": "torch.eye", "n": 64},
            },
        ),
    ),
)
_WORDS: tuple[LibraryRow, ...] = (  # which read or continue words
    (
        "megabyte",
        "MEGABYTE_pytorch.MEGABYTE",
        "256:L",
        {"num_tokens": 256, "dim": (512, 256), "max_seq_len": (64, 16), "depth": (6, 4)},
    ),
    (
        "block_recurrent_transformer",
        "block_recurrent_transformer_pytorch.BlockRecurrentTransformer",
        "20000:L",
        {"num_tokens": 20000, "dim": 512, "depth": 6, "max_seq_len": 1024, "block_width": 512},
    ),
    (
        "recurrent_memory_transformer",
        "recurrent_memory_transformer_pytorch.RecurrentMemoryTransformer",
        "20000:L",
        {"num_tokens": 20000, "dim": 512, "depth": 6, "num_memory_tokens": 64, "seq_len": 1024},
    ),
    (
        "h_transformer",
        "h_transformer_1d.HTransformer1D",
        "20000:L",
        {"num_tokens": 20000, "dim": 512, "depth": 6, "max_seq_len": 1024, "block_size": 16},
    ),
    (
        "mega",
        "mega_pytorch.Mega",
        "20000:L",
        {"num_tokens": 20000, "dim": 256, "depth": 6, "ema_heads": 16, "attn_dim_qk": 64, "attn_dim_value": 256},
    ),
    ("min_gru", "minGRU_pytorch.minLM.minLM", "20000:L", {"num_tokens": 20000, "dim": 512, "depth": 6}),
    # Of known families.
    (
        "gpt_neox",
        "litgpt.model.GPT:pythia",
        "20000:L",
        {
            "config": {
                "class": "litgpt.config.Config",
                "n_layer": 12,
                "n_embd": 768,
                "n_head": 12,
                "vocab_size": 20000,
                "padded_vocab_size": 20000,
                "block_size": 1024,
            }
        },
    ),
    (
        "llama",
        "litgpt.model.GPT:llama",
        "20000:L",
        {
            "config": {
                "class": "litgpt.config.Config",
                "n_layer": 12,
                "n_embd": 768,
                "n_head": 12,
                "n_query_groups": 4,
                "vocab_size": 20000,
                "padded_vocab_size": 20000,
                "block_size": 1024,
                "rotary_percentage": 1.0,
                "parallel_residual": False,
                "bias": False,
                "norm_class_name": "RMSNorm",
                "mlp_class_name": "LLaMAMLP",
                "intermediate_size": 2048,
            }
        },
    ),
    ("word_lm", f"{_LOBES}.RNNLM.RNNLM", "20000:L", {"output_neurons": 20000}),
)
_CLIPS: Mapping[str, str] = {  # of open_clip: pictures and their words
    "coca": "coca_ViT-B-32",
    "mobile_clip": "MobileCLIP-S1",
    # Of a known family.
    "clip": "RN50 RN101 ViT-S-32 ViT-S-16 ViT-M-32 ViT-B-32 ViT-B-16 convnext_tiny convnext_base",
    "vitamin": "ViTamin-S",
    "eva": "EVA02-B-16",
}
_LEARNED: Mapping[str, str] = {  # of torchreid: pictures of 256 x 128
    "osnet": "osnet_x1_0 osnet_ibn_x1_0 osnet_ain_x1_0",
    "mlfn": "mlfn",
    "hacnn": "hacnn",
    "mudeep": "mudeep",
    "pcb": "pcb_p6",
    # Of known families.
    "ibn": "resnet50_ibn_a",
    "resnet": "resnet50mid resnet50_fc512",
    "senet": "se_resnet50_fc512",
    "mobilenet": "mobilenetv2_x1_4",
    "shufflenet": "shufflenet",
    "densenet": "densenet121_fc512",
}
_YOLO: Mapping[str, str] = {  # of ultralytics, of known families: task, with its models
    "DetectionModel": "yolov3-tiny yolov5n yolov5s yolov5m yolov6n yolov8n yolov8s yolov8m yolov8n-p2 yolov8n-ghost "
    "yolov9t yolov9s yolov9c yolov10n yolov10s yolo11n yolo11s yolo11m yolo12n yolo12s yolo26n yolo26s",
    "SegmentationModel": "yolov8n-seg yolov8s-seg yolo11n-seg yolo26n-seg",
    "PoseModel": "yolov8n-pose yolo11n-pose",
    "OBBModel": "yolov8n-obb yolo11n-obb",
}
_JUDGED: Mapping[str, str] = {  # of ultralytics, of known families: pictures of 224 x 224, pictures with things in them
    "own_yolo": "yolov8n-cls yolov8s-cls yolo11n-cls yolo11m-cls yolo26n-cls",
    "resnet": "yolov8-cls-resnet50",
    "rt_detr": "rtdetr-resnet50 rtdetr-l",
}
_PICTURES: Mapping[str, str] = {  # of pretrainedmodels, of known families
    "senet": "se_resnet50 se_resnet101 se_resnext50_32x4d se_resnext101_32x4d senet154",
    "resnet": "cafferesnet101 fbresnet152 resnext101_32x4d",
    "nasnet": "nasnetamobile pnasnet5large:331",
    "inception": "inceptionv4:299 inceptionresnetv2:299",
    "xception": "xception:299",
    "bninception": "bninception",
    "dpn": "dpn68 dpn92",
    "polynet": "polynet:331",
}


def _called(name: str) -> dict[str, str]:
    """What is given as it is, uncalled."""
    return {"named": name}


def _selfmade(dims: int, **more: Any) -> dict[str, Any]:
    """What nnU-Net plans for small pictures or volumes."""
    return {
        "input_channels": 1,
        "n_stages": 5,
        "features_per_stage": (32, 64, 128, 256, 320),
        "conv_op": _called(f"torch.nn.Conv{dims}d"),
        "kernel_sizes": 3,
        "strides": (1, 2, 2, 2, 2),
        "num_classes": 2,
        "n_conv_per_stage_decoder": (1, 1, 1, 1),
        "conv_bias": True,
        "norm_op": _called(f"torch.nn.InstanceNorm{dims}d"),
        "norm_op_kwargs": {"eps": 1e-5, "affine": True},
        "nonlin": _called("torch.nn.LeakyReLU"),
        "nonlin_kwargs": {"inplace": True},
        "deep_supervision": True,
        **more,
    }


_NNUNET = "dynamic_network_architectures.architectures.unet"
_PLANNED: tuple[LibraryRow, ...] = (  # nnU-Net's, of a known family
    ("dynunet", f"{_NNUNET}.PlainConvUNet", "1x64x64x64", _selfmade(3, n_conv_per_stage=(2, 2, 2, 2, 2))),
    ("dynunet", f"{_NNUNET}.PlainConvUNet:2d", "1x256x256", _selfmade(2, n_conv_per_stage=(2, 2, 2, 2, 2))),
    ("dynunet", f"{_NNUNET}.ResidualEncoderUNet", "1x64x64x64", _selfmade(3, n_blocks_per_stage=(1, 3, 4, 6, 6))),
)


def entries() -> Iterator[Entry]:
    """Yield every model."""
    yield from of_diffusers((*_DIFFUSED, *_ENCODED))
    for group, names in _BRAINS.items():
        rows = tuple((group, name, _EEG, _BRAIN) for name in names.split())
        yield from of_library("braindecode.models", rows, "cnn", "given", "class")
    yield from of_library("braindecode.models", _SLEEPS, "cnn", "given", "class")
    yield from of_library("", _HEARD, "cnn", "volume", "mean")
    yield from of_graphs(_GRAPHS)
    yield from of_library("torch_rechub.models", _WIDE, "mlp", "given", "mean")
    yield from of_library("", _SERIES, "mlp", "given", "mean")
    for family, target, row in _GIVEN:
        yield from of_library("", (row,), family, "given", target)
    yield from of_library("", _WORDS, "transformer", "words", "class")
    yield from of_library("", _PLANNED, "cnn", "volume", "pixels")
    yield from _seen()


def _seen() -> Iterator[Entry]:
    """Yield the models of pictures that a library makes by their names."""
    for group, name, _ in named(_CLIPS):
        side = 256 if group == "mobile_clip" else 224
        given = f"3x{side}x{side} 49408:{76 if group == 'coca' else 77}"
        yield _given("open_clip.create_model", {"model_name": name}, group, name, given, "mean", "transformer")
    for group, name, _ in named(_LEARNED):
        given = "3x160x64" if name == "hacnn" else "3x256x128"
        told = {"name": name, "num_classes": 751, "pretrained": False}
        yield _given("torchreid.reid.models.build_model", told, group, name, given, "class")
    tasks = "ultralytics.nn.tasks"
    for task, name, _ in named(_YOLO):
        told = {"cfg": f"{name}.yaml", "verbose": False}
        yield _given(f"{tasks}.{task}", told, "own_yolo", name, "3x640x640", "mean")
    for group, name, _ in named(_JUDGED):
        told = {"cfg": f"{name}.yaml", "verbose": False}
        task, side = ("RTDETRDetectionModel", 640) if group == "rt_detr" else ("ClassificationModel", 224)
        yield _given(f"{tasks}.{task}", told, group, name, f"3x{side}x{side}", "mean")
    for group, name, side in named(_PICTURES):
        head = f"pretrainedmodels.models.{name}"
        yield made(f"pretrainedmodels/{name}", group, head, {"pretrained": None}, size=side)


def _given(
    head: str, told: Mapping[str, Any], group: str, name: str, given: str, target: str, family: Family = "cnn"
) -> Entry:
    full = f"{head.partition('.')[0]}/{name}"
    return made(full, group, head, told, family=family, feed="given", given=given, target=target)
