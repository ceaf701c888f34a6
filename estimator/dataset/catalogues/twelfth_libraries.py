"""Models of the twelfth collection that other libraries than transformers build, through import alone. Pure data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from estimator.dataset.catalogues.configs import convolved
from estimator.dataset.catalogues.entries import Entry
from estimator.dataset.catalogues.rows import LibraryRow, of_diffusers, of_graphs, of_library

_V = "vit_pytorch"
_SMALL: Mapping[str, Any] = {
    "image_size": 224,
    "patch_size": 16,
    "num_classes": 1000,
    "dim": 384,
    "depth": 8,
    "heads": 6,
    "mlp_dim": 1536,
}
_FACES = "face_alignment.detection"
_CLASSED: tuple[LibraryRow, ...] = (  # a picture in one of many classes
    ("xresnet", "fastai.vision.models.xresnet.xresnet34", "3x224x224", {}),
    ("parallel_vit", f"{_V}.parallel_vit.ViT:parallel", "3x224x224", {**_SMALL}),
    ("vit_5", f"{_V}.vit_5.ViT:fifth", "3x224x224", {**_SMALL}),
    ("acoustic_resnet", "pytorchvideo.models.resnet.create_acoustic_resnet", "1x128x1x80", {"model_num_class": 400}),
)
_SEEN: tuple[LibraryRow, ...] = (  # pictures to numbers
    ("dexined", "kornia.models.dexined.DexiNed", "3x256x256", {"pretrained": False}),
    ("hynet", "kornia.feature.HyNet", "1x32x32", {"pretrained": False}),
    ("tfeat", "kornia.feature.TFeat", "1x32x32", {"pretrained": False}),
    ("sosnet", "kornia.feature.SOSNet", "1x32x32", {"pretrained": False}),
    ("xfeat", "kornia.feature.XFeatModel", "3x256x256", {}),
    ("keynet", "kornia.feature.KeyNet", "1x192x192", {"pretrained": False}),
    ("defmo", "kornia.feature.DeFMO", "6x64x80", {"pretrained": False}),
    ("yunet", "kornia.models.yunet.YuNet", "3x320x320", {"phase": "train", "pretrained": False}),
    ("retinaface", "facexlib.detection.retinaface.RetinaFace", "3x320x320", {"phase": "train", "device": "cpu"}),
    ("modnet", "facexlib.matting.modnet.MODNet", "3x256x256 ~0", {"backbone_pretrained": False}),
    ("parsenet", "facexlib.parsing.parsenet.ParseNet", "3x128x128", {"in_size": 128, "out_size": 128}),
    ("arcface", "facexlib.recognition.arcface_arch.Backbone", "3x112x112", {"num_layers": 50, "drop_ratio": 0.4}),
    (
        "hopenet",
        "facexlib.headpose.hopenet_arch.HopeNet",
        "3x224x224",
        {"block": {"named": "torchvision.models.resnet.Bottleneck"}, "layers": [3, 4, 6, 3], "num_bins": 66},
    ),
    ("s3fd", f"{_FACES}.sfd.net_s3fd.s3fd", "3x256x256", {}),
    ("blazeface", f"{_FACES}.blazeface.net_blazeface.BlazeFace", "3x128x128", {}),
    (
        "ganomaly",
        "anomalib.models.image.ganomaly.torch_model.GanomalyModel",
        "3x256x256",
        {"input_size": (256, 256), "num_input_channels": 3, "n_features": 64, "latent_vec_size": 100},
    ),
    ("draem", "anomalib.models.image.draem.torch_model.DraemModel", "3x128x128", {}),
)
_R = "spandrel_extra_arches.architectures"
_SHARP = "3x64x64"
_RESTORED: tuple[LibraryRow, ...] = (  # pictures made larger or cleaner
    ("m3snet", f"{_R}.M3SNet.M3SNet", "3x128x128", {"width": 16, "enc_blk_nums": [1, 1, 1, 8]}),
    ("mirnet", f"{_R}.MIRNet2.MIRNet2", _SHARP, {"n_feat": 48}),
    ("mprnet", f"{_R}.MPRNet.MPRNet", "3x128x128", {}),
    (
        "srformer",
        f"{_R}.SRFormer.SRFormer",
        _SHARP,
        {"embed_dim": 60, "window_size": 8, "img_size": 64, "upscale": 2, "upsampler": "pixelshuffledirect"},
    ),
    ("femasr", f"{_R}.FeMaSR.FeMaSR", "3x128x128", {}),
    ("adacode", f"{_R}.AdaCode.AdaCode", "3x128x128", {}),
)
_K = "pytorchvideo.models"
_FILMS: tuple[LibraryRow, ...] = (
    ("x3d", f"{_K}.x3d.create_x3d", "3x13x160x160", {}),
    ("csn", f"{_K}.csn.create_csn", "3x8x112x112", {"head_pool_kernel_size": (1, 4, 4)}),
    (
        "c2d",
        f"{_K}.resnet.create_resnet",
        "3x8x112x112",
        {"stage_conv_a_kernel_size": ((1, 1, 1),) * 4, "head_pool_kernel_size": (8, 4, 4)},
    ),
    (
        "i3d",
        f"{_K}.resnet.create_resnet:inflated",
        "3x8x112x112",
        {
            "stem_conv_kernel_size": (5, 7, 7),
            "stage_conv_a_kernel_size": ((3, 1, 1),) * 4,
            "head_pool_kernel_size": (8, 4, 4),
        },
    ),
)
_T = "tsai.models"
_MADE: Mapping[str, Any] = {"c_in": 16, "c_out": 10}
_LONG: Mapping[str, Any] = {**_MADE, "seq_len": 200}
_STEPS: Mapping[str, Any] = {"n_steps": 96, "n_features": 32}
_P = "pypots.nn.modules"
_TIMED: tuple[LibraryRow, ...] = (  # windows of a series in one of ten classes
    ("omniscale_cnn", f"{_T}.OmniScaleCNN.OmniScaleCNN", "16x200", {**_LONG}),
    ("res_cnn", f"{_T}.ResCNN.ResCNN", "16x200", {**_MADE}),
    ("tst", f"{_T}.TST.TST", "16x200", {**_LONG}),
    ("ts_fcn", f"{_T}.FCN.FCN", "16x200", {**_MADE}),
    ("lstm_fcn", f"{_T}.RNN_FCN.LSTM_FCN", "16x200", {**_LONG}),
    ("xcm", f"{_T}.XCM.XCM", "16x200", {**_LONG}),
    ("tsit", f"{_T}.TSiTPlus.TSiTPlus", "16x200", {**_LONG}),
    ("convtran", f"{_T}.ConvTranPlus.ConvTranPlus", "16x200", {**_LONG}),
    ("ts_perceiver", f"{_T}.TSPerceiver.TSPerceiver", "16x200", {**_LONG}),
    ("rnn_attention", f"{_T}.RNNAttention.RNNAttention", "16x200", {**_LONG}),
    ("ts_sequencer", f"{_T}.TSSequencerPlus.TSSequencerPlus", "16x200", {**_LONG}),
    ("transformer_lstm", f"{_T}.TransformerRNNPlus.TransformerLSTMPlus", "16x200", {**_LONG}),
)
_FORECAST: tuple[LibraryRow, ...] = (  # windows of a series, and what follows or was missing
    ("gp_vae", f"{_P}.gpvae.BackboneGPVAE", "96x32 #1:96x32", {"input_dim": 32, "time_length": 96, "latent_dim": 32}),
    (
        "vader",
        f"{_P}.vader.BackboneVaDER",
        "96x32 =1:96x32",
        {"n_steps": 96, "d_input": 32, "n_clusters": 5, "d_rnn_hidden": 128, "d_mu_stddev": 16},
    ),
    (
        "crli",
        f"{_P}.crli.BackboneCRLI",
        "96x32 =1:96x32",
        {**_STEPS, "n_generator_layers": 2, "rnn_hidden_size": 128, "decoder_fcn_output_dims": [128, 64]},
    ),
    (
        "totem",
        f"{_P}.totem.VQVAE",
        "96",
        {
            "block_hidden_size": 128,
            "num_residual_layers": 2,
            "res_hidden_size": 64,
            "embedding_dim": 64,
            "num_embeddings": 256,
            "commitment_cost": 0.25,
            "compression_factor": 4,
        },
    ),
    (
        "lag_tst",
        "gluonts.torch.model.lag_tst.LagTSTModel",
        "99 =1:99",
        {
            "prediction_length": 24,
            "context_length": 96,
            "freq": "h",
            "d_model": 64,
            "nhead": 4,
            "dim_feedforward": 256,
            "dropout": 0.1,
            "activation": "relu",
            "norm_first": False,
            "num_encoder_layers": 2,
            "scaling": "mean",
            "lags_seq": [1, 2, 3],
        },
    ),
    (
        "simple_feed_forward",
        "gluonts.torch.model.simple_feedforward.SimpleFeedForwardModel",
        "96",
        {"prediction_length": 24, "context_length": 96, "hidden_dimensions": [256, 256]},
    ),
)
_FIELDS: Mapping[str, Any] = {"field_dims": [1000] * 24, "embed_dim": 16}
_DEEP: Mapping[str, Any] = {**_FIELDS, "mlp_dims": (256, 128)}
_RATED: tuple[LibraryRow, ...] = (  # of torchfm: rows of a table
    ("field_aware_fm", "torchfm.model.ffm.FieldAwareFactorizationMachineModel", "1000:24", {**_FIELDS}),
    (
        "fm_supported_nn",
        "torchfm.model.fnn.FactorizationSupportedNeuralNetworkModel",
        "1000:24",
        {**_DEEP, "dropout": 0.2},
    ),
    ("logistic_regression", "torchfm.model.lr.LogisticRegressionModel", "1000:24", {"field_dims": [1000] * 24}),
    ("factorization_machine", "torchfm.model.fm.FactorizationMachineModel", "1000:24", {**_FIELDS}),
)
_HEARD: tuple[LibraryRow, ...] = (
    ("metric_gan", "speechbrain.lobes.models.MetricGAN.EnhancementGenerator", "200x257 =1:", {}),
    (
        "awd_lstm",
        "fastai.text.models.awdlstm.AWD_LSTM",
        "20000:L",
        {"vocab_sz": 20000, "emb_sz": 400, "n_hid": 1152, "n_layers": 3},
    ),
)
_TEXT = "encoder_hidden_states@77x512"
_MOVING: Mapping[str, Any] = {
    "num_attention_heads": 8,
    "attention_head_dim": 64,
    "text_dim": 512,
    "ffn_dim": 2048,
    "num_layers": 6,
}
_WIDTHS: Mapping[str, Any] = {"block_out_channels": (64, 128, 256, 256), "layers_per_block": 1}
_DIFFUSED: tuple[LibraryRow, ...] = (  # of diffusers
    ("chrono_edit", "ChronoEditTransformer3DModel", f"16x3x32x32 1000: {_TEXT}", {**_MOVING}),
    ("helios", "HeliosTransformer3DModel", f"16x3x32x32 1000: {_TEXT}", {**_MOVING, "rope_dim": (24, 20, 20)}),
    (
        "temporal_vae",
        "AutoencoderKLTemporalDecoder",
        "3x128x128 num_frames@~1",
        {**_WIDTHS, "down_block_types": ("DownEncoderBlock2D",) * 4},
    ),
    (
        "hunyuan_image_vae",
        "AutoencoderKLHunyuanImage",
        "3x128x128",
        {
            **_WIDTHS,
            "in_channels": 3,
            "out_channels": 3,
            "latent_channels": 32,
            "spatial_compression_ratio": 8,
            "sample_size": 128,
        },
    ),
    ("flux2_vae", "AutoencoderKLFlux2", "3x128x128", {**_WIDTHS}),
    (
        "stable_audio3",
        "StableAudio3DiTModel",
        "64x256 1000: 77x512 512",
        {
            "io_channels": 64,
            "embed_dim": 512,
            "depth": 6,
            "num_heads": 8,
            "cond_token_dim": 512,
            "global_cond_dim": 512,
            "local_add_cond_dim": 0,
        },
    ),
)
_MOLECULES: tuple[LibraryRow, ...] = (  # atoms: what they are and where
    (
        "equiformer",
        "equiformer_pytorch.Equiformer",
        "28:24 24x3",
        {
            "num_tokens": 28,
            "dim": (32, 16),
            "dim_head": (16, 8),
            "heads": (4, 2),
            "num_degrees": 2,
            "depth": 2,
            "num_neighbors": 8,
        },
    ),
)
_GRAPHS: Mapping[str, Mapping[str, Any]] = {
    "gatv2": convolved("GATv2Conv"),
    "cgcnn": convolved("CGConv", same=False, channels=256),
    "light_gcn": convolved("LGConv", same=False),
    "mix_hop": convolved("MixHopConv", same=False, in_channels=256, out_channels=256, powers=[1]),
}


def entries() -> Iterator[Entry]:
    """Yield every model."""
    yield from of_library("", _CLASSED, "cnn", "volume", "class")
    yield from of_library("", _SEEN, "cnn", "volume", "mean")
    yield from of_library("", _RESTORED, "cnn", "volume", "mean")
    yield from of_library("", _FILMS, "cnn", "volume", "class")
    yield from of_library("", _TIMED, "mlp", "given", "class")
    yield from of_library("", _FORECAST, "mlp", "given", "mean")
    yield from of_library("", _RATED, "mlp", "given", "mean")
    yield from of_library("", _HEARD, "transformer", "words", "mean")
    yield from of_diffusers(_DIFFUSED)
    yield from of_library("", _MOLECULES, "transformer", "given", "mean")
    yield from of_graphs(_GRAPHS)
