"""Models of the tenth collection that other libraries than transformers build, through import alone. Pure data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from estimator.dataset.catalogues.configs import WIDTHS, convolved
from estimator.dataset.catalogues.entries import Entry
from estimator.dataset.catalogues.rows import LibraryRow, of_diffusers, of_graphs, of_library

_S = "spandrel.architectures"
_SHARP = "3x64x64"
_RESTORED: tuple[LibraryRow, ...] = (  # of spandrel: pictures made larger or cleaner
    (
        "atd",
        f"{_S}.ATD.ATD",
        _SHARP,
        {
            "embed_dim": 60,
            "depths": (4, 4),
            "num_heads": (4, 4),
            "window_size": 8,
            "category_size": 128,
            "reducted_dim": 8,
            "upscale": 2,
            "upsampler": "pixelshuffledirect",
        },
    ),
    ("craft_sr", f"{_S}.CRAFT.CRAFT", _SHARP, {}),
    ("dctlsa", f"{_S}.DCTLSA.DCTLSA", _SHARP, {}),
    ("ditn", f"{_S}.DITN.__arch.DITN_Real.DITN_Real", _SHARP, {}),
    ("fdat", f"{_S}.FDAT.FDAT", _SHARP, {"embed_dim": 96}),
    (
        "gfpgan",
        f"{_S}.GFPGAN.__arch.gfpganv1_clean_arch.GFPGANv1Clean",
        "3x256x256",
        {"out_size": 256, "channel_multiplier": 1},
    ),
    ("cidnet", f"{_S}.HVICIDNet.__arch.cidnet.CIDNet", "3x128x128", {}),
    ("ipt", f"{_S}.IPT.IPT", "3x48x48", {"num_heads": 8, "num_layers": 4, "scale": [2]}),
    (
        "mmrealsr",
        f"{_S}.MMRealSR.__arch.mmrealsr_arch.MMRRDBNet_test",
        _SHARP,
        {"num_in_ch": 3, "num_out_ch": 3, "num_block": 6},
    ),
    ("moesr", f"{_S}.MoESR.MoESR", _SHARP, {}),
    ("mosr", f"{_S}.MoSR.MoSR", _SHARP, {}),
    ("rgt", f"{_S}.RGT.RGT", _SHARP, {"embed_dim": 96, "depth": [4, 4, 4], "num_heads": [4, 4, 4]}),
    (
        "restoreformer",
        f"{_S}.RestoreFormer.RestoreFormer",
        "3x128x128",
        {"resolution": 128, "ch_mult": (1, 2, 4, 4), "fix_codebook": False},
    ),
    ("seemore", f"{_S}.SeemoRe.SeemoRe", _SHARP, {}),
    ("swift_srgan", f"{_S}.SwiftSRGAN.SwiftSRGAN", _SHARP, {}),
    # Of a known family.
    ("safmn", f"{_S}.SAFMNBCIE.__arch.safmn_bcie.SAFMN_BCIE", _SHARP, {"dim": 48}),
)
_TEXT, _STEP = "encoder_hidden_states@77x512", "timestep@1000:"
_HEADS: Mapping[str, Any] = {"num_attention_heads": 8, "attention_head_dim": 64}
_UNET: Mapping[str, Any] = {"block_out_channels": (64, 128, 256, 256), "cross_attention_dim": 512}
_PLACED = f"256x64 {_TEXT} {_STEP} img_ids@!256x3 txt_ids@!77x3"
_DIFFUSED: tuple[LibraryRow, ...] = (  # of diffusers
    (
        "hunyuan_dit",
        "HunyuanDiT2DModel",
        f"4x32x32 timestep@#1000: {_TEXT} text_embedding_mask@=1:77 encoder_hidden_states_t5@64x512 "
        "text_embedding_mask_t5@=1:64",
        {
            **_HEADS,
            "in_channels": 4,
            "patch_size": 2,
            "hidden_size": 512,
            "num_layers": 8,
            "cross_attention_dim": 512,
            "cross_attention_dim_t5": 512,
            "pooled_projection_dim": 512,
            "text_len_t5": 64,
            "use_style_cond_and_image_meta_size": False,
        },
    ),
    (
        "hunyuan_image",
        "HunyuanImageTransformer2DModel",
        f"64x16x16 timestep@#1000: {_TEXT} encoder_attention_mask@=1:77",
        {
            **_HEADS,
            "num_layers": 3,
            "num_single_layers": 6,
            "num_refiner_layers": 1,
            "text_embed_dim": 512,
            "rope_axes_dim": (32, 32),
        },
    ),
    (
        "longcat_image",
        "LongCatImageTransformer2DModel",
        _PLACED,
        {
            **_HEADS,
            "num_layers": 3,
            "num_single_layers": 6,
            "joint_attention_dim": 512,
            "pooled_projection_dim": 512,
            "axes_dims_rope": [8, 28, 28],
        },
    ),
    (
        "ovis_image",
        "OvisImageTransformer2DModel",
        _PLACED,
        {**_HEADS, "num_layers": 2, "num_single_layers": 6, "joint_attention_dim": 512, "axes_dims_rope": [8, 28, 28]},
    ),
    (
        "ernie_image",
        "ErnieImageTransformer2DModel",
        f"128x16x16 {_STEP} text_bth@77x512 text_lens@=77",
        {
            "hidden_size": 512,
            "num_attention_heads": 8,
            "num_layers": 8,
            "ffn_hidden_size": 1536,
            "text_in_dim": 512,
            "rope_axes_dim": (16, 24, 24),
        },
    ),
    (
        "krea",
        "Krea2Transformer2DModel",
        "256x64 encoder_hidden_states@77x4x512 timestep@#1: position_ids@!333x3",
        {
            **_HEADS,
            "num_layers": 8,
            "num_key_value_heads": 4,
            "intermediate_size": 1536,
            "text_hidden_dim": 512,
            "num_text_layers": 4,
            "text_num_attention_heads": 8,
            "text_num_key_value_heads": 8,
            "text_intermediate_size": 1536,
            "axes_dims_rope": (16, 24, 24),
        },
    ),
    (
        "motif_video",
        "MotifVideoTransformer3DModel",
        f"33x3x32x32 {_STEP} {_TEXT}",
        {**_HEADS, "num_layers": 3, "num_single_layers": 6, "text_embed_dim": 512, "rope_axes_dim": (8, 28, 28)},
    ),
    (
        "consisid",
        "ConsisIDTransformer3DModel",
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
        "joy_image",
        "JoyImageEditTransformer3DModel",
        f"16x3x32x32 {_STEP} {_TEXT}",
        {"hidden_size": 512, "num_attention_heads": 8, "text_dim": 512, "num_layers": 6, "rope_dim_list": [16, 24, 24]},
    ),
    (
        "magvit_vae",
        "AutoencoderKLMagvit",
        "3x9x64x64",
        {"block_out_channels": [64, 128, 256, 256], "layers_per_block": 1},
    ),
    (
        "mochi_vae",
        "AutoencoderKLMochi",
        "3x7x64x64",
        {
            "encoder_block_out_channels": (32, 64, 128, 128),
            "decoder_block_out_channels": (64, 128, 128, 256),
            "layers_per_block": (2, 2, 2, 2, 2),
        },
    ),
    (
        "cosmos_vae",
        "AutoencoderKLCosmos",
        "3x9x64x64",
        {
            "encoder_block_out_channels": (64, 128, 256, 256),
            "decode_block_out_channels": (128, 256, 256, 256),
            "resolution": 64,
            "attention_resolutions": (8,),
        },
    ),
    ("qwen_image_vae", "AutoencoderKLQwenImage", "3x1x128x128", {"base_dim": 64}),
    ("vidtok", "AutoencoderVidTok", "3x9x64x64", {"ch": 64}),
    (
        "rae",
        "AutoencoderRAE",
        "3x224x224",
        {
            "encoder_hidden_size": 384,
            "encoder_num_hidden_layers": 6,
            "decoder_hidden_size": 384,
            "decoder_num_hidden_layers": 6,
            "decoder_num_attention_heads": 6,
            "decoder_intermediate_size": 1536,
        },
    ),
    ("kvae", "AutoencoderKLKVAE", "3x128x128", {"channels": 64}),
    # Of known families.
    (
        "sana",
        "SanaVideoTransformer3DModel",
        f"16x3x32x32 {_TEXT} {_STEP}",
        {
            **_HEADS,
            "num_layers": 8,
            "num_cross_attention_heads": 8,
            "cross_attention_head_dim": 64,
            "cross_attention_dim": 512,
            "caption_channels": 512,
        },
    ),
    (
        "vqvae",
        "VQModel:deep",
        "3x64x64",
        {
            "down_block_types": ("DownEncoderBlock2D",) * 3,
            "up_block_types": ("UpDecoderBlock2D",) * 3,
            "block_out_channels": (64, 128, 128),
            "num_vq_embeddings": 1024,
        },
    ),
    ("unet", "UNet2DModel:own", "3x64x64 1000:", {"block_out_channels": (64, 128, 256, 256)}),
)
_P = "pypots.nn.modules"
_NF: Mapping[str, Any] = {"h": 24, "input_size": 96}
_WINDOW = ".insample_y@96x1 .insample_mask@96x1 .futr_exog@~ .hist_exog@~ .stat_exog@~"
_MANY = ".insample_y@96x16 .futr_exog@~ .hist_exog@~ .stat_exog@~"
_STEPS: Mapping[str, Any] = {"n_steps": 96, "n_features": 32}
_SELF: Mapping[str, Any] = {"n_layers": 2, "d_model": 128, "n_heads": 8, "d_ffn": 512, "dropout": 0.1}
_SERIES: tuple[LibraryRow, ...] = (  # windows of a series
    (
        "etsformer",
        f"{_P}.etsformer.ETSformerEncoder",
        "96x128 96x32",
        {
            "layers": [
                {
                    "class": f"{_P}.etsformer.ETSformerEncoderLayer",
                    "d_model": 128,
                    "n_heads": 8,
                    "d_out": 32,
                    "seq_len": 96,
                    "pred_len": 24,
                    "k": 3,
                    "d_ffn": 512,
                }
                for _ in range(2)
            ]
        },
    ),
    ("gru_d", f"{_P}.grud.BackboneGRUD", "96x32 #1:96x32 96x32 !32 96x32", {**_STEPS, "rnn_hidden_size": 256}),
    (
        "pyraformer",
        f"{_P}.pyraformer.PyraformerEncoder",
        "96x128",
        {**_SELF, "n_steps": 96, "attn_dropout": 0.1, "window_size": [2, 2], "inner_size": 3},
    ),
    ("seft", f"{_P}.seft.BackboneSeFT", "96x32 =1:96x32", {**_STEPS, **_SELF, "n_classes": 10, "n_heads": 4}),
    ("tefn", f"{_P}.tefn.BackboneTEFN", "120x32", {**_STEPS, "n_pred_steps": 24, "n_fod": 2}),
    ("tkan", f"{_P}.tkan.BackboneTKAN", "24x32", {"input_size": 32, "hidden_size": 64}),
    (
        "ts2vec",
        f"{_P}.ts2vec.TS2VecEncoder",
        "96x32",
        {"n_features": 32, "n_pred_features": 320, "d_hidden": 64, "n_layers": 8},
    ),
    (
        "csdi",
        f"{_P}.csdi.CsdiDiffusionModel",
        "2x16x48 144x16x48 50:",
        {
            "n_diffusion_steps": 50,
            "d_diffusion_embedding": 128,
            "d_input": 2,
            "d_side": 144,
            "n_channels": 64,
            "n_heads": 8,
            "n_layers": 4,
        },
    ),
    (
        "helix",
        f"{_P}.helix.BackboneHELIX",
        "96x32 #1:96x32",
        {
            "n_features": 32,
            "d_pe": 32,
            "d_feature_embed": 32,
            "d_model": 128,
            "n_heads": 8,
            "n_layers": 2,
            "dropout": 0.1,
        },
    ),
    (
        "mixlinear",
        f"{_P}.mixlinear.BackboneMixLinear",
        "96x32",
        {**_STEPS, "n_pred_steps": 24, "period_len": 24, "lpf": 3, "alpha": 0.5},
    ),
    ("tide", "neuralforecast.models.TiDE", _WINDOW, {**_NF}),
    ("timemixer", "neuralforecast.models.TimeMixer", _MANY, {**_NF, "n_series": 16}),
    ("rmok", "neuralforecast.models.RMoK", _MANY, {**_NF, "n_series": 16}),
    ("dilated_rnn", "neuralforecast.models.DilatedRNN", _WINDOW, {**_NF}),
    ("nlinear", "neuralforecast.models.NLinear", _WINDOW, {**_NF}),
    ("xlinear", "neuralforecast.models.XLinear", _MANY, {**_NF, "n_series": 16}),
    # Of known families.
    ("kan", "neuralforecast.models.KAN", _WINDOW, {**_NF}),
    ("informer", "neuralforecast.models.Informer", _WINDOW, {**_NF}),
    ("autoformer", "neuralforecast.models.Autoformer", _WINDOW, {**_NF}),
    ("stemgnn", "neuralforecast.models.StemGNN", _MANY, {**_NF, "n_series": 16}),
    ("lstm", "neuralforecast.models.LSTM", _WINDOW, {**_NF}),
    ("gru", "neuralforecast.models.GRU", _WINDOW, {**_NF}),
    ("fedformer", "neuralforecast.models.FEDformer", _WINDOW, {**_NF}),
    ("nbeats", "neuralforecast.models.NBEATSx", _WINDOW, {**_NF}),
    ("tsmixer", "neuralforecast.models.TSMixerx", _MANY, {**_NF, "n_series": 16}),
)
_LM: Mapping[str, Any] = {"num_tokens": 20000, "dim": 512, "depth": 6}
_NUMBERS = "20000:L"
_ATTENDED: tuple[LibraryRow, ...] = (  # words and other sequences
    ("gateloop", "gateloop_transformer.Transformer", _NUMBERS, {**_LM}),
    ("infini_transformer", "infini_transformer_pytorch.InfiniTransformer", _NUMBERS, {**_LM, "dim_head": 64}),
    ("token_shift", "token_shift_gpt.TokenShiftGPT", "20000:512", {**_LM, "max_seq_len": 512}),
    ("rela_transformer", "rela_transformer.ReLATransformer", _NUMBERS, {**_LM, "max_seq_len": 512}),
    ("tranception", "tranception_pytorch.Tranception", "21:L", {"dim": 512, "depth": 6}),
    (
        "titans",
        "titans_pytorch.MemoryAsContextTransformer",
        "256:L",
        {
            "num_tokens": 256,
            "dim": 384,
            "depth": 2,
            "segment_len": 64,
            "num_persist_mem_tokens": 4,
            "num_longterm_mem_tokens": 8,
        },
    ),
    ("protein_bert", "protein_bert_pytorch.ProteinBERT", "26:L 1000", {"num_annotation": 1000}),
    ("charformer", "charformer_pytorch.GBST", "257:L", {"num_tokens": 257, "dim": 512, "max_block_size": 4}),
    ("feedback_transformer", "feedback_transformer_pytorch.FeedbackTransformer", "20000:64", {**_LM, "mem_len": 64}),
    (
        "perceiver_ar",
        "perceiver_ar_pytorch.PerceiverAR",
        "20000:512",
        {**_LM, "max_seq_len": 512, "cross_attn_seq_len": 256},
    ),
    (
        "colt5",
        "colt5_attention.ConditionalRoutedTransformerBlock",
        "512x512",
        {"dim": 512, "num_heavy_attn_tokens_q": 64, "num_heavy_attn_tokens_kv": 128, "num_heavy_ff_tokens": 64},
    ),
    (
        "agent_attention",
        "agent_attention_pytorch.AgentTransformer",
        "512x512",
        {"dim": 512, "num_agent_tokens": 64, "depth": 6},
    ),
    (
        "bidirectional_cross_attention",
        "bidirectional_cross_attention.BidirectionalCrossAttentionTransformer",
        "512x512 256x384",
        {"dim": 512, "depth": 4, "context_dim": 384},
    ),
    ("set_transformer", "isab_pytorch.ISAB", "1024x512", {"dim": 512, "num_latents": 128}),
    ("peer", "PEER_pytorch.PEER", "128x512", {"dim": 512, "num_experts": 16384}),
    (
        "graph_transformer",
        "graph_transformer_pytorch.GraphTransformer",
        "64x256 64x64x128",
        {"dim": 256, "depth": 6, "edge_dim": 128},
    ),
    (
        "en_transformer",
        "en_transformer.EnTransformer",
        "24:64 64x3",
        {"num_tokens": 24, "dim": 128, "depth": 4, "neighbors": 16},
    ),
    ("glom", "glom_pytorch.Glom", "3x224x224", {"dim": 256, "levels": 5}),
    # Of known families.
    (
        "mamba",
        "mambapy.mamba.Mamba",
        "256x256",
        {"config": {"class": "mambapy.mamba.MambaConfig", "d_model": 256, "n_layers": 4}},
    ),
)
_LOOKED: tuple[LibraryRow, ...] = (
    ("halonet", "halonet_pytorch.HaloAttention", "256x32x32", {"dim": 256, "block_size": 8, "halo_size": 4}),
    (
        "lambda_net",
        "lambda_networks.LambdaLayer",
        "256x32x32",
        {"dim": 256, "dim_out": 256, "r": 15, "dim_k": 16, "dim_u": 4},
    ),
    ("uniformer", "uniformer_pytorch.Uniformer", "3x8x112x112", {"num_classes": 400}),
    ("inception", "facenet_pytorch.InceptionResnetV1", "3x160x160", {"classify": True, "num_classes": 1000}),
    (
        "dints",
        "monai.networks.nets.DiNTS",
        "1x64x64x64",
        {
            "dints_space": {
                "class": "monai.networks.nets.TopologyInstance",
                "channel_mul": 0.5,
                "num_blocks": 6,
                "num_depths": 3,
            },
            "in_channels": 1,
            "num_classes": 3,
        },
    ),
    # Of known families.
    ("tcn", "pytorch_tcn.TCN", "32x256", {"num_inputs": 32, "num_channels": [64, 64, 128, 128]}),
)
_F = "ptlflow.models"
_PAIR = ".images@2x3x192x256"
_MOVED: tuple[LibraryRow, ...] = (  # of ptlflow: what moved between two pictures
    ("flownet", f"{_F}.flownet.flownets.FlowNetS", _PAIR, {}),
    ("pwcnet", f"{_F}.pwcnet.pwcnet.PWCNet", _PAIR, {}),
    ("liteflownet", f"{_F}.liteflownet.liteflownet.LiteFlowNet", _PAIR, {}),
    ("gma", f"{_F}.gma.gma.GMA", _PAIR, {}),
    ("gmflow", f"{_F}.gmflow.gmflow.GMFlow", _PAIR, {}),
    ("irr_pwc", f"{_F}.irr.irr_pwc.IRRPWC", _PAIR, {}),
    ("flow1d", f"{_F}.flow1d.flow1d.Flow1D", _PAIR, {}),
    ("skflow", f"{_F}.skflow.skflow.SKFlow", _PAIR, {}),
    ("csflow", f"{_F}.csflow.csflow.CSFlow", _PAIR, {}),
    ("rapidflow", f"{_F}.rapidflow.rapidflow.RAPIDFlow", _PAIR, {}),
    ("rpknet", f"{_F}.rpknet.rpknet.RPKNet", _PAIR, {}),
    ("neuflow", f"{_F}.neuflow.neuflow.NeuFlow", _PAIR, {}),
    ("hd3", f"{_F}.hd3.hd3.HD3", _PAIR, {}),
    ("fastflownet", f"{_F}.fastflownet.fastflownet.FastFlowNet", _PAIR, {}),
    ("unimatch", f"{_F}.unimatch.unimatch.UniMatch", _PAIR, {}),
    ("raft", f"{_F}.raft.raft.RAFT", _PAIR, {}),
)
_K = "pykt.models"
_ANSWERS = "100:100 2:100"
_MEMORY: Mapping[str, Any] = {"num_c": 100, "dim_s": 200, "size_m": 50}
_TAUGHT: tuple[LibraryRow, ...] = (  # what a pupil knows, and other recurrent ones
    ("knowledge_tracing", f"{_K}.dkt.DKT", _ANSWERS, {"num_c": 100, "emb_size": 256}),
    (
        "sakt",
        f"{_K}.sakt.SAKT",
        "100:100 2:100 100:100",
        {"num_c": 100, "seq_len": 100, "emb_size": 256, "num_attn_heads": 8, "dropout": 0.1},
    ),
    (
        "saint_kt",
        f"{_K}.saint.SAINT",
        "1000:100 100:100 2:99",
        {
            "num_q": 1000,
            "num_c": 100,
            "seq_len": 100,
            "emb_size": 256,
            "num_attn_heads": 8,
            "dropout": 0.1,
            "n_blocks": 2,
        },
    ),
    ("akt", f"{_K}.akt.AKT", _ANSWERS, {"n_question": 100, "n_pid": 0, "d_model": 256, "n_blocks": 2, "dropout": 0.1}),
    ("dkvmn", f"{_K}.dkvmn.DKVMN", _ANSWERS, {**_MEMORY}),
    (
        "kqn",
        f"{_K}.kqn.KQN",
        "100:100 2:100 100:100",
        {"n_skills": 100, "n_hidden": 128, "n_rnn_hidden": 128, "n_mlp_hidden": 128, "dropout": 0.1},
    ),
    ("deep_irt", f"{_K}.deep_irt.DeepIRT", _ANSWERS, {**_MEMORY}),
    ("cfc", "ncps.torch.CfC", "64x32", {"input_size": 32, "units": 128}),
    ("ltc", "ncps.torch.LTC", "32x32", {"input_size": 32, "units": 64}),
)


_GRAPHS: Mapping[str, Mapping[str, Any]] = {
    "feast_net": convolved("FeaStConv", heads=4),
    "antisymmetric_gnn": convolved("AntiSymmetricConv", same=False, in_channels=256),
    "mf_conv": convolved("MFConv"),
    "hypergraph_conv": convolved("HypergraphConv"),
    "ssgc": convolved("SSGConv", alpha=0.1, K=4),
    "general_conv": convolved("GeneralConv"),
    "dir_gnn": convolved("DirGNNConv", same=False, conv={"class": "torch_geometric.nn.SAGEConv", **WIDTHS}),
}
_EEG: Mapping[str, str] = {  # of braindecode: signals of 22 channels
    "attention_base_net": "AttentionBaseNet",
    "eeg_miner": "EEGMiner",
    "eeg_pt": "EEGPT",
    "fb_light_conv": "FBLightConvNet",
    "luna": "LUNA",
    "patched_brain_transformer": "PBT",
    "signal_jepa": "SignalJEPA_PreLocal",
    "sst_dpn": "SSTDPN",
    "tcformer": "TCFormer",
    "steegformer": "STEEGFormer",
    "brain_module": "BrainModule",
    "code_brain": "CodeBrain",
}


def entries() -> Iterator[Entry]:
    """Yield every model."""
    yield from of_library("", _RESTORED, "cnn", "volume", "mean")
    yield from of_diffusers(_DIFFUSED)
    yield from of_library("", _SERIES, "mlp", "given", "mean")
    yield from of_library("", _ATTENDED, "transformer", "words", "mean")
    yield from of_library("", _LOOKED, "cnn", "volume", "mean")
    yield from of_library("", _MOVED, "cnn", "volume", "mean")
    yield from of_library("", _TAUGHT, "mlp", "given", "mean")
    yield from of_graphs(_GRAPHS)
    signals: Mapping[str, Any] = {"n_chans": 22, "n_outputs": 4, "n_times": 1000, "sfreq": 250}
    heard = tuple((group, f"models.{name}", "22x1000", signals) for group, name in _EEG.items())
    yield from of_library("braindecode", heard, "cnn", "given", "class")
