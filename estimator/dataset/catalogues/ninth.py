"""Models of the ninth collection: transformers' that no collection before drew from, and of more libraries. Pure data.

As in the sixth and the seventh, a family is fresh if nothing that any collection before measured has the name of its
architecture; else the model is kin of that family, in another implementation. That was decided by names, before any was
measured: the fresh ones are in `fresh.py`. Sizes are the library's defaults, smaller where such a model
is trained on many GPUs. The models of libraries are in `ninth_libraries.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from estimator.dataset.catalogues import ninth_libraries
from estimator.dataset.catalogues.configs import CHAT, LATENT, NARROW, PATCHES, WORDS, decoder, encoder, t5
from estimator.dataset.catalogues.entries import Entry, Other, others
from estimator.dataset.catalogues.rows import TransformersRow, of_transformers

_BEHIND: Mapping[str, Any] = {"text_config": {"model_type": "llama", **CHAT}, "image_token_id": 31999}
_SMALL_SWIN: Mapping[str, Any] = {"embed_dim": 64, "depths": [2, 2, 4, 2], "num_heads": [2, 4, 8, 16]}
_DINO: Mapping[str, Any] = {**PATCHES, "model_type": "dinov2", "patch_size": 14}

_CONTINUED = "input_ids@32000:L attention_mask@=1:L labels@32000:L"

_PAIRED: tuple[TransformersRow, ...] = (  # words with pictures, sounds or boxes
    (
        "flava",
        "flava",
        "FlavaModel",
        "input_ids@30522:77 attention_mask@=1:77 pixel_values@3x224x224",
        {"image_config": PATCHES, "text_config": WORDS, "multimodal_config": WORDS, "hidden_size": 384},
    ),
    (
        "visual_bert",
        "visual_bert",
        "VisualBertForPreTraining",
        "input_ids@30522:64 attention_mask@=1:64 visual_embeds@36x512 visual_attention_mask@=1:36 "
        "visual_token_type_ids@=1:36 labels@30522:100",
        {},
    ),
    (
        "lxmert",
        "lxmert",
        "LxmertModel",
        "input_ids@30522:20 visual_feats@36x2048 visual_pos@36x4 attention_mask@=1:20",
        {},
    ),
    (
        "clap",
        "clap",
        "ClapModel",
        "input_ids@50265:64 attention_mask@=1:64 input_features@1x1001x64 return_loss@~1",
        {
            "text_config": {**WORDS, "projection_dim": 256},
            "audio_config": {"projection_dim": 256, "enable_fusion": False},
            "projection_dim": 256,
        },
    ),
    (
        "x_clip",
        "xclip",
        "XCLIPModel",
        "input_ids@49408:77 attention_mask@=1:77 pixel_values@8x3x224x224",
        {
            "text_config": {"num_hidden_layers": 6},
            "vision_config": {**PATCHES, "num_frames": 8, "mit_hidden_size": 512, "mit_intermediate_size": 2048},
        },
    ),
    (
        "bros",
        "bros",
        "BrosForTokenClassification",
        "input_ids@30522:L bbox@Lx8 attention_mask@=1:L labels@2:L",
        {**WORDS, "hidden_size": 768, "num_attention_heads": 12},
    ),
    (
        "udop",
        "udop",
        "UdopForConditionalGeneration",
        "input_ids@33000:L attention_mask@=1:L bbox@=0:Lx4 pixel_values@3x224x224 labels@33000:64",
        t5(512, 2048, 6, 8, d_kv=64, image_size=224, decoder_start_token_id=0),
    ),
    (
        "florence2",
        "florence2",
        "Florence2ForConditionalGeneration",
        "input_ids@=51289:50|1000:L pixel_values@3x224x224 labels@51289:64",
        {
            "text_config": {"model_type": "bart", "vocab_size": 51328, "d_model": 768},
            "vision_config": {"projection_dim": 768},
            "image_token_id": 51289,
        },
    ),
    (
        "instructblip",
        "instructblip",
        "InstructBlipForConditionalGeneration",
        "pixel_values@3x224x224 qformer_input_ids@30522:32 input_ids@=49999:32|49000:L",
        {
            "vision_config": {**PATCHES, "patch_size": 14},
            "qformer_config": {**WORDS, "encoder_hidden_size": 384},
            "text_config": {
                "model_type": "opt",
                "hidden_size": 512,
                "word_embed_proj_dim": 512,
                "num_hidden_layers": 6,
                "num_attention_heads": 8,
                "ffn_dim": 2048,
            },
            "image_token_index": 49999,
        },
    ),
    (
        "kosmos_2",
        "kosmos-2",
        "Kosmos2ForConditionalGeneration",
        "pixel_values@3x224x224 input_ids@65037:L image_embeds_position_mask@=1:64|=0:64",
        {
            "text_config": {"embed_dim": 512, "layers": 6, "ffn_dim": 2048, "attention_heads": 8},
            "vision_config": {**PATCHES, "patch_size": 14},
        },
    ),
    (
        "mllama",
        "mllama",
        "MllamaForConditionalGeneration",
        "input_ids@32000:L attention_mask@=1:L labels@32000:L pixel_values@1x1x3x224x224 aspect_ratio_ids@=1:1 "
        "aspect_ratio_mask@=1:1x1 cross_attention_mask@=1:Lx1x1",
        {
            "text_config": {**CHAT, "num_hidden_layers": 8, "cross_attention_layers": [3, 6], "pad_token_id": 0},
            "vision_config": {
                "hidden_size": 384,
                "attention_heads": 6,
                "num_hidden_layers": 6,
                "num_global_layers": 2,
                "intermediate_size": 1536,
                "vision_output_dim": 384 * 4,
                "intermediate_layers_indices": [1, 3, 5],
                "image_size": 224,
                "max_num_tiles": 1,
                "supported_aspect_ratios": [[1, 1]],
            },
            "image_token_index": 31999,
        },
    ),
    (
        "chameleon",
        "chameleon",
        "ChameleonForConditionalGeneration",
        "input_ids@8000:L attention_mask@=1:L labels@8000:L",
        {
            **decoder(512, 1536, 8, 8, 8, 65536),
            "vq_config": {"base_channels": 64, "embed_dim": 128},
            "vocabulary_map": {"<image>": 8711, "IMGIMGA": 4},
        },
    ),
    (
        "idefics2",
        "idefics2",
        "Idefics2ForConditionalGeneration",
        "input_ids@=32001:64|1000:L pixel_values@1x3x224x224",
        {
            "text_config": {"model_type": "mistral", **CHAT, "vocab_size": 32003},
            "vision_config": {**PATCHES, "patch_size": 14},
            "perceiver_config": {
                "hidden_size": 512,
                "resampler_n_heads": 8,
                "resampler_head_dim": 64,
                "num_key_value_heads": 4,
            },
            "image_token_id": 32001,
        },
    ),
    (
        "vipllava",
        "vipllava",
        "VipLlavaForConditionalGeneration",
        "input_ids@=31999:256|1000:L pixel_values@3x224x224",
        {
            "text_config": {"model_type": "llama", **CHAT},
            "vision_config": {"model_type": "clip_vision_model", **PATCHES, "patch_size": 14},
            "image_token_index": 31999,
            "vision_feature_layers": [-2, -3, -4],
        },
    ),
    (
        "video_llava",
        "video_llava",
        "VideoLlavaForConditionalGeneration",
        "input_ids@=31998:1028|1000:L pixel_values_videos@4x3x224x224",
        {
            "text_config": {"model_type": "llama", **CHAT},
            "vision_config": {"model_type": "clip_vision_model", **PATCHES, "patch_size": 14},
            "image_token_index": 31999,
            "video_token_index": 31998,
        },
    ),
    (
        "llava_onevision",
        "llava_onevision",
        "LlavaOnevisionForConditionalGeneration",
        "input_ids@=31998:65|1000:L pixel_values_videos@4x3x112x112",
        {
            "text_config": {"model_type": "qwen2", **CHAT},
            "vision_config": {"model_type": "siglip_vision_model", **PATCHES, "image_size": 112},
            "image_token_id": 31999,
            "video_token_id": 31998,
        },
    ),
    (
        "janus",
        "janus",
        "JanusForConditionalGeneration",
        "input_ids@=31999:196|1000:L pixel_values@3x224x224",
        {
            **_BEHIND,
            "vision_config": {**PATCHES, "projection_dim": 512, "mlp_ratio": 4},
            "vq_config": {"base_channels": 64, "num_patches": 14, "projection_dim": 512},
        },
    ),
    (
        "perception_lm",
        "perception_lm",
        "PerceptionLMForConditionalGeneration",
        "input_ids@=31999:64|1000:L pixel_values@1x3x224x224",
        {
            **_BEHIND,
            "vision_config": {
                "architecture": "vit_pe_lang_large_patch14_448",
                "model_args": {
                    "embed_dim": 384,
                    "depth": 6,
                    "num_heads": 6,
                    "img_size": [224, 224],
                    "init_values": 0.1,
                    "global_pool": "",
                    "use_post_transformer_norm": False,
                    "ref_feat_shape": [16, 16],
                },
                "initializer_range": 0.02,
            },
            "vision_use_cls_token": True,
            "projector_pooling_ratio": 2,
            "image_token_id": 31999,
        },
    ),
    (
        "mistral3",
        "mistral3",
        "Mistral3ForConditionalGeneration",
        "input_ids@=31999:64|1000:L pixel_values@3x224x224 image_sizes@=224:2",
        {
            "text_config": {"model_type": "mistral", **CHAT},
            "vision_config": {"model_type": "pixtral", **PATCHES, "patch_size": 14, "head_dim": 64},
            "image_token_index": 31999,
        },
    ),
    (
        "got_ocr2",
        "got_ocr2",
        "GotOcr2ForConditionalGeneration",
        "input_ids@=31999:64|1000:L pixel_values@3x512x512",
        {
            "text_config": {"model_type": "qwen2", **CHAT},
            "vision_config": {
                "hidden_size": 384,
                "num_hidden_layers": 6,
                "num_attention_heads": 6,
                "image_size": 512,
                "mlp_dim": 1536,
                "global_attn_indexes": [2, 5],
            },
            "image_token_index": 31999,
            "image_seq_length": 64,
        },
    ),
    (
        "qwen2_audio",
        "qwen2_audio",
        "Qwen2AudioForConditionalGeneration",
        "input_ids@=31999:750|1000:L attention_mask@=1:750|=1:L input_features@128x3000 feature_attention_mask@=1:3000",
        {
            "text_config": {"model_type": "qwen2", **CHAT},
            "audio_config": {
                "d_model": 384,
                "encoder_layers": 6,
                "encoder_attention_heads": 6,
                "encoder_ffn_dim": 1536,
            },
            "audio_token_index": 31999,
        },
    ),
    (
        "voxtral",
        "voxtral",
        "VoxtralForConditionalGeneration",
        "input_ids@=31999:375|1000:L input_features@128x3000",
        {"text_config": {"model_type": "llama", **CHAT}, "audio_config": encoder(384, 6, 6), "audio_token_id": 31999},
    ),
    (
        "modernvbert",
        "modernvbert",
        "ModernVBertModel",
        "input_ids@=31999:49|1000:L attention_mask@=1:49|=1:L pixel_values@1x3x224x224",
        {
            "text_config": {"model_type": "modernbert", **WORDS, "vocab_size": 32000, "pad_token_id": 0},
            "vision_config": {"model_type": "siglip_vision_model", **PATCHES, "patch_size": 16},
            "image_token_id": 31999,
            "pixel_shuffle_factor": 2,
        },
    ),
)
_SEEN: tuple[TransformersRow, ...] = (  # pictures
    ("dinov3", "dinov3_vit", "DINOv3ViTModel", "pixel_values@3x224x224", {"num_register_tokens": 4}),
    (
        "dinov3",
        "dinov3_vit",
        "DINOv3ViTModel:base",
        "pixel_values@3x224x224",
        encoder(768, 12, 12, num_register_tokens=4),
    ),
    (
        "radio",
        "radio",
        "RadioModel",
        "pixel_values@3x224x224",
        {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6},
    ),
    ("sapiens", "sapiens2", "Sapiens2Model", "pixel_values@3x256x192", encoder(384, 8, 6)),
    (
        "seggpt",
        "seggpt",
        "SegGptForImageSegmentation",
        "pixel_values@3x224x224 prompt_pixel_values@3x224x224 prompt_masks@3x224x224 labels@3x224x224",
        {
            "image_size": [448, 224],
            "hidden_size": 384,
            "num_hidden_layers": 8,
            "num_attention_heads": 6,
            "intermediate_hidden_state_indices": [3, 5, 6, 7],
            "pretrain_image_size": 224,
            "merge_index": 2,
        },
    ),
    ("mgp_str", "mgp-str", "MgpstrForSceneTextRecognition", "pixel_values@3x32x128", {}),
    (
        "pixtral",
        "pixtral",
        "PixtralVisionModel",
        "pixel_values@3x224x224 image_sizes@=224:2",
        {**PATCHES, "head_dim": 64},
    ),
    (
        "sam3",
        "sam3_vision_model",
        "Sam3VisionModel",
        "pixel_values@3x336x336",
        {
            "backbone_config": encoder(
                384,
                8,
                6,
                model_type="sam3_vit_model",
                image_size=336,
                pretrain_image_size=336,
                window_size=12,
                global_attn_indexes=[3, 7],
            ),
            "backbone_feature_sizes": [[96, 96], [48, 48], [24, 24]],
        },
    ),
    ("pp_ocr_rec", "pp_ocrv5_server_rec", "PPOCRV5ServerRecForTextRecognition", "pixel_values@3x48x320", {}),
    (
        "prompt_depth",
        "prompt_depth_anything",
        "PromptDepthAnythingForDepthEstimation",
        "pixel_values@3x224x224 prompt_depth@1x48x64",
        {},
    ),
    (
        "videoprism",
        "videoprism_vision_model",
        "VideoPrismVisionModel",
        "pixel_values_videos@8x3x144x144",
        {**NARROW, "image_size": 144, "num_frames": 8, "num_spatial_layers": 8, "num_temporal_layers": 2},
    ),
    ("tipsv2", "tipsv2_vision_model", "Tipsv2VisionModel", "pixel_values@3x224x224", {}),
)
_FOUND: tuple[TransformersRow, ...] = (  # large pictures, and what is made of convolutions
    (
        "depth_pro",
        "depth_pro",
        "DepthProForDepthEstimation",
        "pixel_values@3x384x384",
        {
            "patch_size": 96,
            "scaled_images_ratios": [0.25, 0.5, 1],
            "image_model_config": {**_DINO, "patch_size": 16, "image_size": 96},
            "patch_model_config": {**_DINO, "patch_size": 16, "image_size": 96},
            "fov_model_config": {**_DINO, "patch_size": 16, "image_size": 96},
            "intermediate_hook_ids": [5, 3],
            "intermediate_feature_dims": [128, 128],
            "scaled_images_feature_dims": [256, 256, 128],
            "fusion_hidden_size": 128,
            "use_fov_model": True,
        },
    ),
    (
        "sam2",
        "sam2_vision_model",
        "Sam2VisionModel",
        "pixel_values@3x512x512",
        {"backbone_feature_sizes": [[128, 128], [64, 64], [32, 32]]},
    ),
    ("deimv2", "deimv2", "Deimv2ForObjectDetection", "pixel_values@3x640x640", {}),
    (
        "grounding_dino",
        "grounding-dino",
        "GroundingDinoForObjectDetection",
        "pixel_values@3x384x384 input_ids@=101:1|30000:14|=102:1",
        {
            "backbone_config": {"model_type": "swin", **_SMALL_SWIN, "out_features": ["stage2", "stage3", "stage4"]},
            "text_config": {"model_type": "bert", **WORDS},
            "encoder_layers": 3,
            "decoder_layers": 3,
            "num_queries": 300,
        },
    ),
    ("pp_ocr_det", "pp_ocrv5_mobile_det", "PPOCRV5MobileDetForObjectDetection", "pixel_values@3x640x640", {}),
    ("pp_doclayout", "pp_doclayout_v3", "PPDocLayoutV3ForObjectDetection", "pixel_values@3x640x640", {}),
    (
        "vibevoice_codec",
        "vibevoice_acoustic_tokenizer",
        "VibeVoiceAcousticTokenizerModel",
        "input_values@1x32000",
        {"num_filters": 16},
    ),
    (
        "owlvit",
        "owlv2",
        "Owlv2Model",
        "input_ids@49408:16 pixel_values@3x768x768 attention_mask@=1:16",
        {"vision_config": {**PATCHES, "image_size": 768}, "text_config": {"num_hidden_layers": 6}},
    ),
    (
        "sam",
        "sam_hq_vision_model",
        "SamHQVisionModel",
        "pixel_values@3x512x512",
        {
            "hidden_size": 384,
            "num_hidden_layers": 8,
            "num_attention_heads": 6,
            "mlp_dim": 1536,
            "image_size": 512,
            "global_attn_indexes": [3, 7],
        },
    ),
    ("lcnet", "pp_lcnet", "PPLCNetForImageClassification", "pixel_values@3x224x224", {}),
)
_HEARD: tuple[TransformersRow, ...] = (
    ("dac", "dac", "DacModel", "1x8192", {}),
    ("encodec", "encodec", "EncodecModel", "1x8192", {}),
    ("mimi", "mimi", "MimiModel", "1x9600", {}),
    ("xcodec", "xcodec", "XcodecModel", "1x9600", {}),
    ("univnet", "univnet", "UnivNetModel", "64x100", {}),
    (
        "seamless",
        "seamless_m4t",
        "SeamlessM4TForSpeechToText",
        "input_features@256x160 attention_mask@=1:256 labels@10000:L",
        {
            "vocab_size": 10082,
            "hidden_size": 512,
            "encoder_layers": 6,
            "decoder_layers": 6,
            "encoder_ffn_dim": 2048,
            "decoder_ffn_dim": 2048,
            "speech_encoder_layers": 6,
            "speech_encoder_attention_heads": 8,
            "speech_encoder_intermediate_size": 2048,
            "encoder_attention_heads": 8,
            "decoder_attention_heads": 8,
        },
    ),
    (
        "pop2piano",
        "pop2piano",
        "Pop2PianoForConditionalGeneration",
        "input_features@128x512 labels@2400:L",
        {"decoder_start_token_id": 0},
    ),
    (
        "musicgen",
        "musicgen_decoder",
        "MusicgenForCausalLM",
        "2048:4xL",
        {"hidden_size": 512, "num_hidden_layers": 8, "ffn_dim": 2048, "num_attention_heads": 8},
    ),
    ("pe_audio", "pe_audio_encoder", "PeAudioEncoder", "input_values@1x32000", {}),
    (
        "dia",
        "dia",
        "DiaForConditionalGeneration",
        "input_ids@256:L decoder_input_ids@1024:128x9",
        {
            "encoder_config": encoder(512, 6, 8, num_key_value_heads=8, head_dim=64),
            "decoder_config": encoder(
                512,
                6,
                8,
                num_key_value_heads=4,
                head_dim=64,
                cross_hidden_size=512,
                cross_num_attention_heads=8,
                cross_num_key_value_heads=8,
                cross_head_dim=64,
            ),
        },
    ),
    (
        "speech_encoder_decoder",
        "speech-encoder-decoder",
        "SpeechEncoderDecoderModel",
        "inputs@32000 labels@30000:L",
        {
            "encoder": {"model_type": "wav2vec2", **WORDS},
            "decoder": {"model_type": "bert", **WORDS, "is_decoder": True, "add_cross_attention": True},
            "decoder_start_token_id": 1,
            "pad_token_id": 0,
        },
    ),
    ("timesfm", "timesfm", "TimesFmModelForPrediction", "past_values@512 freq@=0:1", encoder(640, 8, 8, 640)),
    (
        "timesfm",
        "timesfm2_5",
        "TimesFm2_5ModelForPrediction",
        "past_values@512",
        encoder(640, 8, 8, 640, num_key_value_heads=8, head_dim=80),
    ),
)
_READ: tuple[TransformersRow, ...] = (  # words alone
    (
        "mimo_v2",
        "mimo_v2_flash",
        "MiMoV2FlashForCausalLM",
        _CONTINUED,
        {
            **decoder(512, 1536, 6, 8, 4, 32000),
            "moe_intermediate_size": 512,
            "n_routed_experts": 8,
            "num_experts_per_tok": 2,
            "head_dim": 64,
            "v_head_dim": 64,
        },
    ),
    (
        "glm_moe_dsa",
        "glm_moe_dsa",
        "GlmMoeDsaForCausalLM",
        _CONTINUED,
        {
            **decoder(512, 1536, 6, 8, 8, 32000),
            **LATENT,
            "moe_intermediate_size": 512,
            "n_routed_experts": 8,
            "num_experts_per_tok": 2,
            "index_topk": 64,
            "index_n_heads": 4,
            "index_head_dim": 64,
        },
    ),
    ("hrm_text", "hrm_text", "HrmTextForCausalLM", _CONTINUED, encoder(512, 8, 8, 1536, head_dim=64, vocab_size=32000)),
    # Of known families.
    ("granite", "granite_swa", "GraniteSWAForCausalLM", _CONTINUED, decoder(512, 1536, 8, 8, 4, 32000)),
    ("convnext", "dinov3_convnext", "DINOv3ConvNextModel", "pixel_values@3x224x224", {}),
)
_DRAWN = {"hidden_size": 512, "depth": 6, "num_heads": 8, "out_hidden_size": 512, "intermediate_size": 1536}
_GRIDDED: tuple[Other, ...] = (  # a picture cut into patches, words behind it
    (
        "qwen3_vl",
        "qwen3_vl",
        "qwen3_vl",
        "transformer",
        "gridded",
        "Qwen3VLForConditionalGeneration",
        {
            "text_config": {
                **CHAT,
                "head_dim": 64,
                "rope_parameters": {"rope_type": "default", "mrope_section": [12, 10, 10]},
            },
            "vision_config": {**_DRAWN, "deepstack_visual_indexes": [1, 3, 5]},
            "image_token_id": 31999,
        },
        224,
        512,
    ),
    (
        "glm4v",
        "glm4v",
        "glm4v",
        "transformer",
        "gridded",
        "Glm4vForConditionalGeneration",
        {
            "text_config": {
                **CHAT,
                "head_dim": 64,
                "rope_parameters": {"rope_type": "default", "mrope_section": [8, 12, 12], "partial_rotary_factor": 1.0},
            },
            "vision_config": _DRAWN,
            "image_token_id": 31999,
        },
        224,
        512,
    ),
)


def entries() -> Iterator[Entry]:
    """Yield every model."""
    yield from of_transformers(_PAIRED, "words")
    yield from of_transformers(_SEEN, "words")
    yield from of_transformers(_FOUND, "volume", "cnn")
    yield from of_transformers(_HEARD, "words")
    yield from of_transformers(_READ, "words")
    yield from others(_GRIDDED)
    yield from ninth_libraries.entries()
