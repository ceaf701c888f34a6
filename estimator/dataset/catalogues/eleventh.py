"""Models of the eleventh collection: what timm has besides, and sizes in which transformers' models are published.

Pure data. Most are of architecture families that were measured, in sizes that were not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimator.dataset.catalogues.configs import BASE, decoder, encoder, halves, t5
from estimator.dataset.catalogues.entries import (
    Audio,
    Collection,
    Other,
    Picture,
    Text,
    classifier,
    labeller,
    pair,
    whisper,
)
from estimator.dataset.catalogues.heads import CLM, CLS, MLM, QA, S2S, TOK

_CONVOLVED: Mapping[str, str] = {
    "byoanet": (
        "botnet50ts_256:256 halo2botnet50ts_256:256 halonet_h1:256 lamhalobotnet50ts_256:256 sehalonet33ts:256"
    ),
    "byobnet": (
        "bat_resnext26ts:256 gcresnext50ts:256 mobileone_s3 mobileone_s4 repvgg_a0 repvgg_b1 repvgg_b2 repvgg_b2g4 "
        "repvgg_b3g4 repvgg_d2se:320 resnet50_clip resnet50_clip_gap resnet50_mlp:256 resnet50x4_clip:288 "
        "resnet50x16_clip:384 resnet50x16_clip_gap:320 resnet50x64_clip:448 resnet50x64_clip_gap:320 "
        "resnet101_clip resnet101_clip_gap"
    ),
    "convnext": (
        "convnext_base convnext_large convnext_large_mlp:320 convnext_tiny convnext_xlarge convnext_xxlarge:256 "
        "convnextv2_huge:320 convnextv2_large"
    ),
    "cpubone": "cpubone_b3 cpubone_nano cpubone_s0 cpubone_t0",
    "cspnet": (
        "cs3darknet_focus_l:256 cs3darknet_focus_s:256 cs3darknet_focus_x:256 cs3darknet_l:256 cs3darknet_x:256 "
        "cs3se_edgenet_x:256 cs3sedarknet_l:256 cs3sedarknet_xdw:256 cspresnet50w:256 darknet17:256 "
        "sedarknet21:256"
    ),
    "cspnext": "cspnext_l cspnext_m cspnext_s cspnext_tiny cspnext_x",
    "densenet": "densenet121 densenet161",
    "dla": "dla60x_c dla102x",
    "dpn": "dpn131",
    "efficientnet": (
        "efficientnet_b0 efficientnet_b0_g8_gn efficientnet_b1_pruned:240 efficientnet_b3_gn:288 "
        "efficientnet_b5:320 efficientnet_b6:320 efficientnet_b7:320 efficientnet_b8:320 efficientnet_blur_b0 "
        "efficientnet_cc_b0_4e efficientnet_el_pruned:300 efficientnet_es_pruned efficientnet_h_b5:320 "
        "efficientnet_l2:320 efficientnet_lite4:320 efficientnet_x_b3:288 efficientnet_x_b5:320 "
        "efficientnetv2_l:320 efficientnetv2_m:320 efficientnetv2_rw_m:320 efficientnetv2_xl:320 "
        "gc_efficientnetv2_rw_t tf_efficientnet_b0 tf_efficientnet_b1:240 tf_efficientnet_b2:260 "
        "tf_efficientnet_b3:300 tf_efficientnet_b4:320 tf_efficientnet_b5:320 tf_efficientnet_b6:320 "
        "tf_efficientnet_b7:320 tf_efficientnet_b8:320 tf_efficientnet_cc_b0_8e tf_efficientnet_cc_b1_8e:240 "
        "tf_efficientnet_el:300 tf_efficientnet_em:240 tf_efficientnet_es tf_efficientnet_l2:320 "
        "tf_efficientnet_lite0 tf_efficientnet_lite2:260 tf_efficientnet_lite3:300 tf_efficientnet_lite4:320 "
        "tf_efficientnetv2_b1:192 tf_efficientnetv2_b2:208 tf_efficientnetv2_l:320 tf_efficientnetv2_m:320 "
        "tf_efficientnetv2_xl:320"
    ),
    "efficientvim": (
        "efficientvim_m1 efficientvim_m1_dist efficientvim_m2 efficientvim_m2_dist efficientvim_m3 "
        "efficientvim_m3_dist efficientvim_m4:256 efficientvim_m4_dist:256"
    ),
    "efficientvit": "efficientvit_l3 efficientvit_m1",
    "fastvit": "fastvit_mci1:256 fastvit_mci2:256 fastvit_mci3:256 fastvit_mci4:256",
    "ghostnet": "ghostnetv2_130 ghostnetv3_130",
    "hardcorenas": "hardcorenas_c",
    "hgnet": "hgnetv2_b6",
    "hrnet": "hrnet_w18_ssld hrnet_w48 hrnet_w48_ssld",
    "iformer": (
        "iformer_h iformer_l iformer_l2 iformer_l2_distilled iformer_l_distilled iformer_m iformer_m_distilled "
        "iformer_s iformer_t"
    ),
    "lcnet": "lcnet_075 lcnet_150",
    "lowformer": "lowformer_b15 lowformer_e3",
    "mambaout": "mambaout_base_short_rw mambaout_base_tall_rw mambaout_small_rw",
    "metaformer": "poolformer_m48 poolformerv2_m48",
    "mixnet": "tf_mixnet_l tf_mixnet_m tf_mixnet_s",
    "mnasnet": "mnasnet_050 mnasnet_075 mnasnet_100 mnasnet_140 mnasnet_small semnasnet_050",
    "mobilenet": (
        "mobilenet_edgetpu_v2_l mobilenet_edgetpu_v2_m mobilenetv1_100 mobilenetv2_035 mobilenetv2_120d "
        "mobilenetv3_large_150d:256 mobilenetv3_small_050 mobilenetv4_conv_aa_large:320 "
        "mobilenetv4_conv_aa_medium:256 mobilenetv4_conv_blur_medium mobilenetv4_hybrid_large:320 "
        "mobilenetv4_hybrid_medium_075 mobilenetv5_300m:320 mobilenetv5_300m_enc:320 tf_mobilenetv3_large_075 "
        "tf_mobilenetv3_large_100 tf_mobilenetv3_large_minimal_100 tf_mobilenetv3_small_075 "
        "tf_mobilenetv3_small_100 tf_mobilenetv3_small_minimal_100"
    ),
    "nfnet": (
        "dm_nfnet_f2:256 dm_nfnet_f3:320 dm_nfnet_f4:320 dm_nfnet_f5:320 dm_nfnet_f6:320 eca_nfnet_l2:320 "
        "eca_nfnet_l3:320 nf_regnet_b0:192 nf_regnet_b3:288 nf_regnet_b4:320 nf_regnet_b5:320 nf_resnet26 "
        "nf_seresnet50 nf_seresnet101 nfnet_f1 nfnet_f2:256 nfnet_f3:320 nfnet_f4:320 nfnet_f5:320 nfnet_f6:320 "
        "nfnet_f7:320"
    ),
    "regnet": (
        "regnetx_002 regnetx_004 regnetx_004_tv regnetx_006 regnetx_032 regnetx_040 regnetx_064 regnetx_080 "
        "regnetx_120 regnetx_160 regnetx_320 regnety_002 regnety_004 regnety_006 regnety_008_tv regnety_040 "
        "regnety_040_sgn regnety_080 regnety_080_tv regnety_120 regnety_160 regnety_640:320 regnety_1280:320 "
        "regnetz_005 regnetz_040:256 regnetz_040_h:256"
    ),
    "repghost": "repghostnet_058",
    "repvit": "repvit_m1_1",
    "res2net": "res2net50_48w_2s",
    "resnest": "resnest200e:320 resnest269e:320",
    "resnet": (
        "ecaresnet50d_pruned ecaresnet50t:256 ecaresnet101d ecaresnet101d_pruned ecaresnet200d:256 "
        "ecaresnet269d:320 ecaresnext50t_32x4d resnet10t:176 resnet18 resnet34 resnet34d resnet50 resnet50c "
        "resnet50s resnet101 resnet101c resnet152 resnet152c resnet152d:256 resnet152s resnet200 resnet200d:256 "
        "resnetaa50d resnetaa101d resnetblur18 resnetblur50d resnetblur101d resnetrs101:192 resnetrs200:256 "
        "resnetrs270:256 resnetrs350:288 resnetrs420:320 resnext50_32x4d resnext101_32x4d resnext101_32x8d "
        "resnext101_32x16d resnext101_32x32d resnext101_64x4d senet154 seresnet18 seresnet34 seresnet152d:256 "
        "seresnet200d:256 seresnet269d:256 seresnext26t_32x4d seresnext26ts:256 seresnext50_32x4d "
        "seresnext101_32x4d seresnext101_32x8d seresnext101d_32x8d seresnextaa101d_32x8d:288 "
        "seresnextaa201d_32x8d:320 wide_resnet50_2 wide_resnet101_2"
    ),
    "resnetv2": (
        "resnetv2_18d resnetv2_34 resnetv2_50d resnetv2_50d_frn resnetv2_50t resnetv2_50x3_bit:320 "
        "resnetv2_101x1_bit:320 resnetv2_101x3_bit:320 resnetv2_152d resnetv2_152x2_bit resnetv2_152x4_bit:320"
    ),
    "rexnet": "rexnet_130 rexnetr_100 rexnetr_130 rexnetr_300",
    "senet": "legacy_seresnet101",
    "tinynet": "tinynet_b:188",
    "tinyvit": "tiny_vit_21m_384:320 tiny_vit_21m_512:320",
    "vgg": "vgg11 vgg11_bn vgg13_bn vgg16 vgg19 vgg19_bn",
    "vovnet": "ese_vovnet19b_slim_dw ese_vovnet99b",
}
_ATTENDED: Mapping[str, str] = {
    "beit": "beit_base_patch16_384:384 beit_large_patch16_384:384 beit_large_patch16_512:512",
    "cait": (
        "cait_m36_384:384 cait_m48_448:448 cait_s24_384:384 cait_s36_384:384 cait_xxs24_384:384 cait_xxs36_384:384"
    ),
    "coat": "coat_lite_medium_384:384",
    "crossvit": (
        "crossvit_9_dagger_240:240 crossvit_15_dagger_408:408 crossvit_18_dagger_408:408 crossvit_base_240:240"
    ),
    "davit": "davit_huge davit_huge_fl davit_large",
    "deepseek_vit": "deepseek_vit_412m:546 deepseek_vit_412m_align:546 deepseek_vit_412m_enc:546",
    "eva": (
        "eva02_base_patch14_448:448 eva02_large_patch14_224 eva02_large_patch14_448:448 "
        "eva02_large_patch14_clip_224 eva02_large_patch14_clip_336:336 eva02_small_patch14_336:336 "
        "eva_giant_patch14_224 eva_giant_patch14_336:336 eva_giant_patch14_560:560 eva_giant_patch14_clip_224 "
        "vit_base_patch16_dinov3_qkvb:256 vit_base_patch16_lingbot:512 vit_base_patch16_rope_ape_224 "
        "vit_base_patch16_rope_mixed_ape_224 vit_base_patch16_rope_reg1_gap_256:256 vit_base_patch16_sapiens2:768 "
        "vit_giant_patch16_lingbot:512 vit_huge_patch16_sapiens2:768 vit_huge_plus_patch16_dinov3:256 "
        "vit_huge_plus_patch16_dinov3_qkvb:256 vit_large_patch16_dinov3:256 vit_large_patch16_dinov3_qkvb:256 "
        "vit_large_patch16_lingbot:512 vit_large_patch16_rope_224 vit_large_patch16_rope_ape_224 "
        "vit_large_patch16_rope_mixed_224 vit_large_patch16_rope_mixed_ape_224 vit_large_patch16_sapiens2:768 "
        "vit_medium_patch16_rope_reg1_gap_256:256 vit_mediumd_patch16_rope_reg1_gap_256:256 "
        "vit_pe_core_large_patch14_336:336 vit_pe_core_small_patch16_384:384 vit_pe_core_tiny_patch16_384:384 "
        "vit_pe_lang_large_patch14_448:448 vit_pe_spatial_base_patch16_512:512 "
        "vit_pe_spatial_large_patch14_448:448 vit_pe_spatial_small_patch16_512:512 "
        "vit_pe_spatial_tiny_patch16_512:512 vit_small_patch16_lingbot:512 vit_small_patch16_rope_ape_224 "
        "vit_small_patch16_rope_mixed_224 vit_small_patch16_rope_mixed_ape_224 "
        "vit_small_plus_patch16_dinov3_qkvb:256 vit_tiny_patch16_dinov3_qkvb:256"
    ),
    "focalnet": (
        "focalnet_huge_fl3 focalnet_huge_fl4 focalnet_large_fl3 focalnet_large_fl4 focalnet_xlarge_fl3 "
        "focalnet_xlarge_fl4"
    ),
    "gemma4_vit": "gemma4_vit_167m:768 gemma4_vit_167m_enc:768 gemma4_vit_570m:768 gemma4_vit_570m_enc:768",
    "hiera": "hiera_huge_224 hiera_large_224",
    "hieradet": "sam2_hiera_base_plus sam2_hiera_large sam2_hiera_small sam2_hiera_tiny",
    "levit": (
        "levit_128s levit_256d levit_384_s8 levit_512 levit_512_s8 levit_512d levit_conv_256d levit_conv_384 "
        "levit_conv_384_s8 levit_conv_512 levit_conv_512_s8 levit_conv_512d"
    ),
    "maxvit": (
        "coatnet_0_224 coatnet_1_224 coatnet_1_rw_224 coatnet_3_224 coatnet_3_rw_224 coatnet_4_224 coatnet_5_224 "
        "coatnet_nano_cc_224 coatnet_rmlp_1_rw2_224 coatnet_rmlp_2_rw_384:384 coatnet_rmlp_3_rw_224 "
        "coatnet_rmlp_nano_rw_224 maxvit_base_tf_224 maxvit_base_tf_384:384 maxvit_base_tf_512:512 "
        "maxvit_large_tf_224 maxvit_large_tf_384:384 maxvit_large_tf_512:512 maxvit_pico_rw_256:256 "
        "maxvit_rmlp_base_rw_384:384 maxvit_rmlp_small_rw_224 maxvit_rmlp_small_rw_256:256 "
        "maxvit_rmlp_tiny_rw_256:256 maxvit_small_tf_224 maxvit_small_tf_384:384 maxvit_small_tf_512:512 "
        "maxvit_tiny_pm_256:256 maxvit_tiny_rw_256:256 maxvit_tiny_tf_384:384 maxvit_tiny_tf_512:512 "
        "maxvit_xlarge_tf_224 maxvit_xlarge_tf_384:384 maxvit_xlarge_tf_512:512 maxxvit_rmlp_tiny_rw_256:256 "
        "maxxvitv2_rmlp_base_rw_224 maxxvitv2_rmlp_base_rw_384:384 maxxvitv2_rmlp_large_rw_224"
    ),
    "mlp_mixer": "gmixer_12_224 mixer_l32_224",
    "mvit": "mvitv2_huge_cls mvitv2_large_cls",
    "naflexvit": (
        "naflexvit_base_patch16_map:384 naflexvit_base_patch16_par_gap:384 naflexvit_base_patch16_parfac_gap:384 "
        "naflexvit_base_patch16_radio_v3:512 naflexvit_base_patch16_siglip:384 "
        "naflexvit_giant_patch16_radio_v3:512 naflexvit_huge_patch16_radio_v3:512 "
        "naflexvit_huge_patch16_radio_v4:512 naflexvit_large_patch16_radio_v3:512 "
        "naflexvit_so150m2_patch16_reg1_gap:384 naflexvit_so150m2_patch16_reg1_map:384 "
        "naflexvit_so400m_patch16_radio_v4:512 naflexvit_so400m_patch16_siglip:384"
    ),
    "nest": "nest_base nest_small_jx",
    "qwen3_vit": (
        "qwen3_vit_88m:768 qwen3_vit_88m_enc:768 qwen3_vit_88m_merge:768 qwen3_vit_306m:768 qwen3_vit_306m_enc:768 "
        "qwen3_vit_306m_merge:768 qwen3_vit_416m:768 qwen3_vit_416m_enc:768 qwen3_vit_416m_merge:768"
    ),
    "samvit": "samvit_base_patch16:1024 samvit_huge_patch16:1024 samvit_large_patch16:1024",
    "swin": (
        "swin_base_patch4_window12_384:384 swin_large_patch4_window12_384:384 "
        "swinv2_base_window12to16_192to256:256 swinv2_base_window12to24_192to384:384 swinv2_base_window16_256:256 "
        "swinv2_cr_base_384:384 swinv2_cr_huge_224 swinv2_cr_huge_384:384 swinv2_cr_large_224 "
        "swinv2_cr_large_384:384 swinv2_cr_small_384:384 swinv2_cr_small_ns_224 swinv2_cr_tiny_384:384 "
        "swinv2_large_window12_192:192 swinv2_large_window12to16_192to256:256 "
        "swinv2_large_window12to24_192to384:384 swinv2_small_window16_256:256"
    ),
    "vit": (
        "aimv2_huge_patch14_224 aimv2_huge_patch14_336:336 aimv2_huge_patch14_448:448 aimv2_large_patch14_224 "
        "aimv2_large_patch14_336:336 aimv2_large_patch14_448:448 beit3_base_patch16_224 beit3_giant_patch14_224 "
        "beit3_giant_patch14_336:336 beit3_large_patch16_224 deit3_base_patch16_224 deit3_base_patch16_384:384 "
        "deit3_huge_patch14_224 deit3_large_patch16_224 deit3_large_patch16_384:384 deit3_small_patch16_384:384 "
        "deit_base_distilled_patch16_224 deit_base_distilled_patch16_384:384 deit_base_patch16_384:384 "
        "eva_large_patch14_196:196 eva_large_patch14_336:336 flexivit_base:240 flexivit_large:240 "
        "vit_base_patch14_dinov2:518 vit_base_patch14_reg1_tipsv2:448 vit_base_patch14_reg4_dinov2:518 "
        "vit_base_patch16_224_miil vit_base_patch16_384:384 vit_base_patch16_clip_384:384 "
        "vit_base_patch16_clip_quickgelu_224 vit_base_patch16_gap_224 vit_base_patch16_plus_240:240 "
        "vit_base_patch16_plus_clip_240:240 vit_base_patch16_radio_v3:512 vit_base_patch16_reg4_gap_256:256 "
        "vit_base_patch16_siglip_256:256 vit_base_patch16_siglip_384:384 vit_base_patch16_siglip_512:512 "
        "vit_base_patch16_siglip_gap_384:384 vit_base_patch16_siglip_gap_512:512 vit_base_patch32_384:384 "
        "vit_base_patch32_clip_384:384 vit_base_patch32_clip_448:448 vit_base_patch32_clip_quickgelu_224 "
        "vit_base_patch32_plus_256:256 vit_base_patch32_siglip_256:256 vit_base_patch32_siglip_gap_256:256 "
        "vit_betwixt_patch16_reg1_gap_256:256 vit_betwixt_patch16_reg4_gap_256:256 "
        "vit_betwixt_patch16_reg4_gap_384:384 vit_betwixt_patch32_clip_224 vit_giant_patch14_224 "
        "vit_giant_patch14_clip_224 vit_giant_patch14_dinov2:518 vit_giant_patch14_reg1_tipsv2:448 "
        "vit_giant_patch14_reg4_dinov2:518 vit_giant_patch16_gap_224 vit_giant_patch16_radio_v3:512 "
        "vit_giantopt_patch16_siglip_256:256 vit_giantopt_patch16_siglip_384:384 "
        "vit_giantopt_patch16_siglip_gap_256:256 vit_giantopt_patch16_siglip_gap_384:384 vit_huge_patch14_224 "
        "vit_huge_patch14_clip_224 vit_huge_patch14_clip_336:336 vit_huge_patch14_clip_378:378 "
        "vit_huge_patch14_clip_quickgelu_224 vit_huge_patch14_clip_quickgelu_378:378 vit_huge_patch14_gap_224 "
        "vit_huge_patch14_xp_224 vit_huge_patch16_gap_448:448 vit_huge_patch16_radio_v3:512 "
        "vit_huge_patch16_radio_v4:512 vit_intern300m_patch14_448:448 vit_large_patch14_224 "
        "vit_large_patch14_clip_224 vit_large_patch14_clip_336:336 vit_large_patch14_clip_quickgelu_224 "
        "vit_large_patch14_clip_quickgelu_336:336 vit_large_patch14_dinov2:518 vit_large_patch14_reg1_tipsv2:448 "
        "vit_large_patch14_reg4_dinov2:518 vit_large_patch14_xp_224 vit_large_patch16_384:384 "
        "vit_large_patch16_radio_v3:512 vit_large_patch16_siglip_256:256 vit_large_patch16_siglip_384:384 "
        "vit_large_patch16_siglip_512:512 vit_large_patch16_siglip_gap_256:256 "
        "vit_large_patch16_siglip_gap_384:384 vit_large_patch16_siglip_gap_512:512 vit_large_patch32_224 "
        "vit_large_patch32_384:384 vit_little_patch16_reg1_gap_256:256 vit_little_patch16_reg4_gap_256:256 "
        "vit_medium_patch16_gap_384:384 vit_medium_patch32_clip_224 vit_mediumd_patch16_reg4_gap_256:256 "
        "vit_mediumd_patch16_reg4_gap_384:384 vit_small_patch14_reg4_dinov2:518 vit_small_patch16_384:384 "
        "vit_small_patch32_384:384 vit_so150m2_patch16_reg1_gap_256:256 vit_so150m2_patch16_reg1_gap_384:384 "
        "vit_so150m2_patch16_reg1_gap_448:448 vit_so150m_patch16_reg4_gap_384:384 "
        "vit_so150m_patch16_reg4_map_256:256 vit_so400m_patch14_reg1_tipsv2:448 vit_so400m_patch14_siglip_224 "
        "vit_so400m_patch14_siglip_378:378 vit_so400m_patch14_siglip_384:384 vit_so400m_patch14_siglip_gap_224 "
        "vit_so400m_patch14_siglip_gap_378:378 vit_so400m_patch14_siglip_gap_384:384 "
        "vit_so400m_patch14_siglip_gap_448:448 vit_so400m_patch14_siglip_gap_896:896 "
        "vit_so400m_patch16_radio_v4:512 vit_so400m_patch16_siglip_256:256 vit_so400m_patch16_siglip_384:384 "
        "vit_so400m_patch16_siglip_512:512 vit_so400m_patch16_siglip_gap_256:256 "
        "vit_so400m_patch16_siglip_gap_384:384 vit_so400m_patch16_siglip_gap_512:512 vit_tiny_patch16_384:384"
    ),
    "vit_hybrid": (
        "vit_base_r26_s32_224 vit_base_r50_s16_384:384 vit_large_r50_s32_224 vit_large_r50_s32_384:384 "
        "vit_small_r26_s32_384:384 vit_small_resnet26d_224 vit_tiny_r_s16_p8_384:384"
    ),
    "vit_relpos": (
        "vit_relpos_base_patch16_224 vit_relpos_base_patch16_cls_224 vit_relpos_base_patch16_plus_240:240 "
        "vit_relpos_medium_patch16_cls_224 vit_relpos_small_patch16_rpn_224 vit_srelpos_medium_patch16_224"
    ),
    "vitamin": (
        "vitamin_large2_224 vitamin_large2_256:256 vitamin_large2_336:336 vitamin_large2_384:384 "
        "vitamin_large_256:256 vitamin_large_336:336 vitamin_large_384:384 vitamin_xlarge_256:256 "
        "vitamin_xlarge_336:336 vitamin_xlarge_384:384"
    ),
    "volo": (
        "volo_d1_384:384 volo_d2_384:384 volo_d3_448:448 volo_d4_224 volo_d4_448:448 volo_d5_224 volo_d5_448:448 "
        "volo_d5_512:512"
    ),
    "xcit": (
        "xcit_large_24_p8_224 xcit_large_24_p8_384:384 xcit_large_24_p16_224 xcit_large_24_p16_384:384 "
        "xcit_medium_24_p8_384:384 xcit_medium_24_p16_384:384 xcit_nano_12_p8_384:384 xcit_nano_12_p16_384:384 "
        "xcit_small_12_p8_224 xcit_small_12_p8_384:384 xcit_small_12_p16_384:384 xcit_small_24_p8_224 "
        "xcit_small_24_p8_384:384 xcit_small_24_p16_224 xcit_small_24_p16_384:384 xcit_tiny_12_p8_384:384 "
        "xcit_tiny_12_p16_224 xcit_tiny_12_p16_384:384 xcit_tiny_24_p8_384:384 xcit_tiny_24_p16_384:384"
    ),
}
_WIDE: Mapping[str, Any] = encoder(1024, 24, 16)
_SMALL: Mapping[str, Any] = encoder(384, 12, 6)
_HUGE: Mapping[str, Any] = encoder(1280, 32, 16)
_ROBERTA: Mapping[str, Any] = {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}
_PROTEINS: dict[str, Any] = {
    "vocab_size": 33,
    "position_embedding_type": "rotary",
    "pad_token_id": 1,
    "mask_token_id": 32,
    "token_dropout": False,
}
_READ: tuple[Text, ...] = (
    ("bert-base-cased", "bert", "bert", (CLS, TOK), {**BASE, "vocab_size": 28996}, 512),
    ("bert-large", "bert", "bert", (QA, TOK), {**_WIDE}, 512),
    ("bge-small", "bert", "bert", (CLS,), {**_SMALL, "num_attention_heads": 12}, 512),
    ("minilm-l6", "bert", "bert", (CLS, MLM), {**_SMALL, "num_hidden_layers": 6, "num_attention_heads": 12}, 512),
    ("roberta-base", "roberta", "bert", (QA, TOK), {**BASE, **_ROBERTA}, 512),
    ("roberta-large", "roberta", "bert", (MLM, QA), {**_WIDE, **_ROBERTA}, 512),
    ("xlm-roberta-base", "xlm-roberta", "bert", (CLS, QA), {**BASE, **_ROBERTA, "vocab_size": 250002}, 512),
    ("xlm-roberta-large", "xlm-roberta", "bert", (MLM, TOK), {**_WIDE, **_ROBERTA, "vocab_size": 250002}, 512),
    ("distilbert-base", "distilbert", "distilbert", (TOK,), {}, 512),
    ("distilroberta", "roberta", "bert", (CLS,), {**BASE, **_ROBERTA, "num_hidden_layers": 6}, 512),
    ("albert-base", "albert", "albert", (QA, TOK), {**BASE, "intermediate_size": 3072, "embedding_size": 128}, 512),
    ("albert-xxlarge", "albert", "albert", (CLS,), encoder(4096, 12, 64, embedding_size=128), 512),
    ("electra-base", "electra", "electra", (TOK, QA), {**BASE, "intermediate_size": 3072, "embedding_size": 768}, 512),
    ("electra-large", "electra", "electra", (QA,), {**_WIDE, "embedding_size": 1024}, 512),
    (
        "deberta-v3-xsmall",
        "deberta-v2",
        "deberta",
        (CLS, TOK),
        {**_SMALL, "vocab_size": 128100, "relative_attention": True},
        512,
    ),
    (
        "deberta-v3-base",
        "deberta-v2",
        "deberta",
        (TOK, QA),
        {**BASE, "vocab_size": 128100, "relative_attention": True},
        512,
    ),
    (
        "deberta-v2-xlarge",
        "deberta-v2",
        "deberta",
        (CLS,),
        {**_WIDE, "hidden_size": 1536, "num_attention_heads": 24, "intermediate_size": 6144},
        256,
    ),
    ("deberta-large", "deberta", "deberta", (CLS,), {**_WIDE, "relative_attention": True}, 512),
    ("xlnet-large", "xlnet", "xlnet", (CLS,), {"d_model": 1024, "n_layer": 24, "n_head": 16, "d_inner": 4096}, 512),
    ("longformer-large", "longformer", "longformer", (CLS,), {**_WIDE, "attention_window": 512}, 1024),
    ("big_bird-large", "big_bird", "big_bird", (CLS,), {**_WIDE, "attention_type": "original_full"}, 1024),
    ("convbert-medium", "convbert", "convbert", (CLS,), {**_SMALL, "num_attention_heads": 8}, 512),
    ("fnet-large", "fnet", "fnet", (CLS,), {**_WIDE}, 512),
    ("nystromformer-small", "nystromformer", "nystromformer", (CLS,), {**_SMALL}, 512),
    (
        "esm2-8m",
        "esm",
        "esm",
        (MLM, CLS),
        encoder(320, 6, 20, **_PROTEINS),
        1024,
    ),
    (
        "esm2-150m",
        "esm",
        "esm",
        (MLM, CLS),
        encoder(640, 30, 20, **_PROTEINS),
        1024,
    ),
)
_CONTINUED: tuple[Text, ...] = (
    ("gpt2-medium", "gpt2", "gpt2", (CLS,), {"n_embd": 1024, "n_layer": 24, "n_head": 16}, 1024),
    ("cerebras-111m", "gpt2", "gpt2", (CLM,), {"n_embd": 768, "n_layer": 10, "n_head": 12, "n_positions": 2048}, 1024),
    ("cerebras-256m", "gpt2", "gpt2", (CLM,), {"n_embd": 1088, "n_layer": 14, "n_head": 17, "n_positions": 2048}, 1024),
    ("cerebras-590m", "gpt2", "gpt2", (CLM,), {"n_embd": 1536, "n_layer": 18, "n_head": 12, "n_positions": 2048}, 1024),
    (
        "gpt-neo-1.3b",
        "gpt_neo",
        "gpt_neo",
        (CLM,),
        {"hidden_size": 2048, "num_layers": 24, "num_heads": 16, "attention_types": [[["global", "local"], 12]]},
        1024,
    ),
    ("pythia-2.8b", "gpt_neox", "gpt_neox", (CLM,), encoder(2560, 32, 32), 1024),
    (
        "opt-2.7b",
        "opt",
        "opt",
        (CLM,),
        {
            "hidden_size": 2560,
            "ffn_dim": 10240,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "word_embed_proj_dim": 2560,
        },
        1024,
    ),
    ("bloom-1b7", "bloom", "bloom", (CLM,), {"hidden_size": 2048, "n_layer": 24, "n_head": 16}, 1024),
    ("codegen-2b", "codegen", "codegen", (CLM,), {"n_embd": 2560, "n_layer": 32, "n_head": 32, "rotary_dim": 64}, 1024),
    ("starcoder-1b", "gpt_bigcode", "gpt_bigcode", (CLM,), {"n_embd": 2048, "n_layer": 24, "n_head": 16}, 1024),
    ("starcoder2-3b", "starcoder2", "starcoder2", (CLM,), decoder(3072, 12288, 30, 24, 2, 49152), 1024),
    ("smollm-1.7b", "llama", "llama", (CLM,), decoder(2048, 8192, 24, 32, 32, 49152), 2048),
    ("llama-3.2-3b", "llama", "llama", (CLM,), decoder(3072, 8192, 28, 24, 8, 128256, head_dim=128), 1024),
    ("llama-3.2-1b", "llama", "llama", (CLS,), decoder(2048, 8192, 16, 32, 8, 128256, head_dim=64), 1024),
    ("tinyllama-1.1b", "llama", "llama", (CLS,), decoder(2048, 5632, 22, 32, 4, 32000), 1024),
    ("deepseek-coder-1.3b", "llama", "llama", (CLM,), decoder(2048, 5504, 24, 16, 16, 32256), 1024),
    ("open-llama-3b", "llama", "llama", (CLM,), decoder(3200, 8640, 26, 32, 32, 32000), 1024),
    ("minitron-2b", "nemotron", "nemotron", (CLM,), decoder(2048, 9216, 24, 16, 8, 100000), 1024),
    ("qwen2-3b", "qwen2", "llama", (CLM,), decoder(2048, 11008, 36, 16, 2, 151936), 1024),
    ("qwen2-1.5b", "qwen2", "llama", (CLS,), decoder(1536, 8960, 28, 12, 2, 151936), 1024),
    ("qwen3-0.6b", "qwen3", "qwen3", (CLS,), decoder(1024, 3072, 28, 16, 8, 151936, head_dim=128), 1024),
    ("qwen3-4b", "qwen3", "qwen3", (CLM,), decoder(2560, 9728, 36, 32, 8, 151936, head_dim=128), 1024),
    ("gemma-2b", "gemma", "gemma", (CLM, CLS), decoder(2048, 16384, 18, 8, 1, 256000, head_dim=256), 1024),
    ("gemma2-2b", "gemma2", "gemma2", (CLM,), decoder(2304, 9216, 26, 8, 4, 256000, head_dim=256), 1024),
    ("gemma3-4b", "gemma3_text", "gemma3", (CLM,), decoder(2560, 10240, 34, 8, 4, 262208, head_dim=256), 1024),
    ("phi-2", "phi", "phi", (CLM,), decoder(2560, 10240, 32, 32, 32, 51200), 1024),
    ("phi3-mini", "phi3", "phi3", (CLM,), decoder(3072, 8192, 32, 32, 32, 32064), 1024),
    ("stablelm-1.6b", "stablelm", "stablelm", (CLM,), decoder(2048, 5632, 24, 32, 32, 100352), 1024),
    ("olmo-1b", "olmo", "olmo", (CLM,), decoder(2048, 8192, 16, 16, 16, 50304), 1024),
    ("olmo2-1b", "olmo2", "olmo2", (CLM,), decoder(2048, 8192, 16, 16, 16, 100352), 1024),
    (
        "falcon-rw-1b",
        "falcon",
        "falcon",
        (CLM,),
        {
            "hidden_size": 2048,
            "num_hidden_layers": 24,
            "num_attention_heads": 32,
            "vocab_size": 50304,
            "alibi": True,
            "bias": True,
            "multi_query": False,
            "parallel_attn": False,
            "new_decoder_architecture": False,
        },
        1024,
    ),
    ("granite-2b", "granite", "granite", (CLM,), decoder(2048, 8192, 40, 32, 8, 49155), 1024),
    (
        "xglm-1.7b",
        "xglm",
        "xglm",
        (CLM,),
        {"d_model": 2048, "ffn_dim": 8192, "num_layers": 24, "attention_heads": 16},
        1024,
    ),
    ("mamba-790m", "mamba", "mamba", (CLM,), {"hidden_size": 1536, "num_hidden_layers": 48}, 128),
    ("rwkv-169m", "rwkv", "rwkv", (CLM,), {"hidden_size": 768, "num_hidden_layers": 12, "context_length": 1024}, 256),
)
_GATED: Mapping[str, Any] = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
_REWRITTEN: tuple[Text, ...] = (
    ("t5-3b", "t5", "t5", (S2S,), t5(1024, 16384, 24, 32), 512),
    ("flan-t5-large", "t5", "t5", (S2S,), {**_GATED, **t5(1024, 2816, 24, 16)}, 512),
    ("mt5-large", "mt5", "t5", (S2S,), t5(1024, 2816, 24, 16, vocab_size=250112), 256),
    ("codet5-small", "t5", "t5", (S2S,), {"vocab_size": 32100}, 512),
    ("codet5-base", "t5", "t5", (S2S,), t5(768, 3072, 12, 12, vocab_size=32100), 512),
    (
        "byt5-small",
        "t5",
        "t5",
        (S2S,),
        {**_GATED, "vocab_size": 384, **t5(1472, 3584, 12, 6), "num_decoder_layers": 4},
        1024,
    ),
    (
        "byt5-base",
        "t5",
        "t5",
        (S2S,),
        {**_GATED, "vocab_size": 384, **t5(1536, 3968, 18, 12), "num_decoder_layers": 6},
        1024,
    ),
    ("mbart-50", "mbart", "bart", (S2S,), {"vocab_size": 250054}, 512),
    ("nllb-600m", "m2m_100", "m2m_100", (S2S,), {**halves(1024, 4096, 12, 16), "vocab_size": 256206}, 512),
    ("m2m100-418m", "m2m_100", "m2m_100", (S2S,), {**halves(1024, 4096, 12, 16), "vocab_size": 128112}, 512),
    ("opus-mt", "marian", "bart", (S2S,), {**halves(512, 2048, 6, 8), "vocab_size": 65001}, 512),
    ("distilbart-6-6", "bart", "bart", (S2S,), halves(1024, 4096, 6, 16), 1024),
    ("pegasus-xsum", "pegasus", "bart", (S2S,), {**halves(1024, 4096, 16, 16), "vocab_size": 96103}, 512),
    ("led-large", "led", "led", (S2S,), halves(1024, 4096, 12, 16), 1024),
    ("longt5-base", "longt5", "longt5", (S2S,), {**_GATED, **t5(768, 2048, 12, 12)}, 1024),
)
_SEEN: tuple[Picture, ...] = (
    classifier("hf-vit-huge", "vit", {**_HUGE, "patch_size": 14}),
    classifier("hf-vit-large-32", "vit", {**_WIDE, "patch_size": 32}),
    classifier(
        "hf-dinov2-giant-thin",
        "dinov2",
        {
            "image_size": 224,
            "hidden_size": 1536,
            "num_attention_heads": 24,
            "num_hidden_layers": 20,
            "use_swiglu_ffn": True,
        },
        group="vit",
    ),
    classifier("hf-dinov2-registers-base", "dinov2_with_registers", {"image_size": 224}, group="dinov2_registers"),
    classifier("hf-swin-large", "swin", {"embed_dim": 192, "depths": [2, 2, 18, 2], "num_heads": [6, 12, 24, 48]}),
    classifier("hf-swinv2-small", "swinv2", {"depths": [2, 2, 18, 2]}, group="swin"),
    classifier(
        "hf-swinv2-base",
        "swinv2",
        {"embed_dim": 128, "depths": [2, 2, 18, 2], "num_heads": [4, 8, 16, 32]},
        group="swin",
    ),
    classifier(
        "hf-convnext-large", "convnext", {"depths": [3, 3, 27, 3], "hidden_sizes": [192, 384, 768, 1536]}, family="cnn"
    ),
    classifier(
        "hf-convnext-xlarge",
        "convnext",
        {"depths": [3, 3, 27, 3], "hidden_sizes": [256, 512, 1024, 2048]},
        family="cnn",
    ),
    classifier(
        "hf-convnextv2-atto",
        "convnextv2",
        {"depths": [2, 2, 6, 2], "hidden_sizes": [40, 80, 160, 320]},
        group="convnext",
        family="cnn",
    ),
    classifier(
        "hf-convnextv2-base",
        "convnextv2",
        {"depths": [3, 3, 27, 3], "hidden_sizes": [128, 256, 512, 1024]},
        group="convnext",
        family="cnn",
    ),
    classifier("hf-segformer-b1", "segformer", {"depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 320, 512]}),
    classifier(
        "hf-segformer-b4",
        "segformer",
        {"depths": [3, 8, 27, 3], "hidden_sizes": [64, 128, 320, 512], "decoder_hidden_size": 768},
    ),
    classifier(
        "hf-segformer-b5",
        "segformer",
        {"depths": [3, 6, 40, 3], "hidden_sizes": [64, 128, 320, 512], "decoder_hidden_size": 768},
    ),
    classifier("hf-resnet-26", "resnet", {"depths": [2, 2, 2, 2]}, family="cnn"),
    classifier(
        "hf-regnet-y-160",
        "regnet",
        {"hidden_sizes": [224, 448, 1232, 3024], "depths": [2, 4, 11, 1], "groups_width": 112},
        family="cnn",
    ),
    classifier(
        "hf-mobilevit-x-small",
        "mobilevit",
        {"image_size": 224, "hidden_sizes": [96, 120, 144], "neck_hidden_sizes": [16, 32, 48, 64, 80, 96, 384]},
        family="cnn",
    ),
    classifier(
        "hf-mobilevit-xx-small",
        "mobilevit",
        {
            "image_size": 224,
            "hidden_sizes": [64, 80, 96],
            "neck_hidden_sizes": [16, 16, 24, 48, 64, 80, 320],
            "expand_ratio": 2.0,
        },
        family="cnn",
    ),
    classifier(
        "hf-mobilevitv2-150",
        "mobilevitv2",
        {"image_size": 224, "width_multiplier": 1.5},
        group="mobilevit",
        family="cnn",
    ),
    classifier(
        "hf-levit-256",
        "levit",
        {
            "hidden_sizes": [256, 384, 512],
            "num_attention_heads": [4, 6, 8],
            "depths": [4, 4, 4],
            "key_dim": [32, 32, 32],
        },
        head="LevitForImageClassification",
    ),
    classifier(
        "hf-levit-384",
        "levit",
        {
            "hidden_sizes": [384, 512, 768],
            "num_attention_heads": [6, 9, 12],
            "depths": [4, 4, 4],
            "key_dim": [32, 32, 32],
        },
        head="LevitForImageClassification",
    ),
    classifier("hf-cvt-21", "cvt", {"depth": [1, 4, 16]}),
    classifier("hf-poolformer-s24", "poolformer", {"depths": [4, 4, 12, 4]}, group="metaformer", family="cnn"),
    classifier("hf-poolformer-s36", "poolformer", {"depths": [6, 6, 18, 6]}, group="metaformer", family="cnn"),
    classifier(
        "hf-poolformer-m36",
        "poolformer",
        {"depths": [6, 6, 18, 6], "hidden_sizes": [96, 192, 384, 768]},
        group="metaformer",
        family="cnn",
    ),
    classifier("hf-pvt-small", "pvt", {"depths": [3, 4, 6, 3]}),
    classifier("hf-pvt-medium", "pvt", {"depths": [3, 4, 18, 3]}),
    classifier("hf-pvt-v2-b1", "pvt_v2", {"hidden_sizes": [64, 128, 320, 512]}, group="pvt"),
    classifier("hf-pvt-v2-b2", "pvt_v2", {"hidden_sizes": [64, 128, 320, 512], "depths": [3, 4, 6, 3]}, group="pvt"),
    classifier(
        "hf-efficientnet-b1",
        "efficientnet",
        {"width_coefficient": 1.0, "depth_coefficient": 1.1, "hidden_dim": 1280, "image_size": 240},
        family="cnn",
    ),
    classifier(
        "hf-efficientnet-b3",
        "efficientnet",
        {"width_coefficient": 1.2, "depth_coefficient": 1.4, "hidden_dim": 1536, "image_size": 300},
        family="cnn",
    ),
    classifier("hf-focalnet-small", "focalnet", {"depths": [2, 2, 18, 2]}, family="cnn"),
    classifier("hf-focalnet-base", "focalnet", {"embed_dim": 128, "depths": [2, 2, 18, 2]}, family="cnn"),
    classifier("hf-hiera-base", "hiera", {"depths": [2, 3, 16, 3]}),
    classifier("hf-mobilenet-v2-075", "mobilenet_v2", {"depth_multiplier": 0.75}, group="mobilenet", family="cnn"),
    classifier("hf-mobilenet-v1-075", "mobilenet_v1", {"depth_multiplier": 0.75}, group="mobilenet", family="cnn"),
    classifier("hf-bit-101", "bit", {"depths": [3, 4, 23, 3]}, group="resnetv2", family="cnn"),
    classifier(
        "hf-swiftformer-s", "swiftformer", {"depths": [3, 3, 9, 6], "embed_dims": [48, 64, 168, 224]}, family="cnn"
    ),
    classifier(
        "hf-swiftformer-l1", "swiftformer", {"depths": [4, 3, 10, 5], "embed_dims": [48, 96, 192, 384]}, family="cnn"
    ),
    classifier("hf-data2vec-vision-large", "data2vec-vision", {**_WIDE}, group="beit"),
    classifier("hf-ijepa-huge-thin", "ijepa", {**_HUGE, "num_hidden_layers": 16, "patch_size": 14}),
    classifier("hf-deit-base-distilled", "deit", group="vit", head="DeiTForImageClassificationWithTeacher"),
    ("hf-mae-large", "vit_mae", "vit_mae", "transformer", "ViTMAEForPreTraining", "masked_image", {**_WIDE}),
    labeller(
        "hf-segformer-b5-seg",
        "segformer",
        {"image_size": 512, "depths": [3, 6, 40, 3], "hidden_sizes": [64, 128, 320, 512], "decoder_hidden_size": 768},
    ),
    pair(
        "clip-large-336",
        "clip",
        {
            "projection_dim": 768,
            "vision_config": {**_WIDE, "patch_size": 14, "projection_dim": 768},
            "text_config": {
                "hidden_size": 768,
                "num_attention_heads": 12,
                "intermediate_size": 3072,
                "projection_dim": 768,
            },
        },
    ),
    pair(
        "clip-huge-thin",
        "clip",
        {
            "vision_config": {**_HUGE, "num_hidden_layers": 16, "patch_size": 14},
            "text_config": {**_WIDE, "num_hidden_layers": 12},
        },
    ),
    pair("siglip-large", "siglip", {"vision_config": {**_WIDE}, "text_config": {**_WIDE}}),
)
_HEARD: tuple[Audio, ...] = (
    (
        "wav2vec2-xlsr",
        "wav2vec2",
        "wav2vec2",
        {**_WIDE, "feat_extract_norm": "layer", "conv_bias": True, "do_stable_layer_norm": True},
    ),
    (
        "hubert-xlarge-thin",
        "hubert",
        "wav2vec2",
        {
            **_HUGE,
            "num_hidden_layers": 24,
            "feat_extract_norm": "layer",
            "conv_bias": True,
            "do_stable_layer_norm": True,
        },
    ),
    ("data2vec-audio-large", "data2vec-audio", "wav2vec2", {**_WIDE}),
    (
        "unispeech-large",
        "unispeech",
        "unispeech",
        {**_WIDE, "feat_extract_norm": "layer", "do_stable_layer_norm": True},
    ),
    (
        "unispeech-sat-large",
        "unispeech-sat",
        "unispeech",
        {**_WIDE, "feat_extract_norm": "layer", "do_stable_layer_norm": True},
    ),
    ("wav2vec2-conformer-large", "wav2vec2-conformer", "conformer", {**_WIDE, "num_hidden_layers": 12}),
    ("sew-mid", "sew", "sew", encoder(512, 24, 8)),
)
_WRITTEN: tuple[Other, ...] = (  # what is spoken
    whisper("whisper-medium", halves(1024, 4096, 24, 16)),
    whisper("whisper-large", {**halves(1280, 5120, 32, 20), "num_mel_bins": 128}),
    whisper("whisper-turbo", {**halves(1280, 5120, 32, 20), "decoder_layers": 4, "num_mel_bins": 128}),
    whisper("distil-whisper-large", {**halves(1280, 5120, 32, 20), "decoder_layers": 2, "num_mel_bins": 128}),
)


entries = Collection(
    vision=(("timm", "cnn", "image", _CONVOLVED), ("timm", "transformer", "image", _ATTENDED)),
    text=(*_READ, *_CONTINUED, *_REWRITTEN),
    pictures=_SEEN,
    audio=_HEARD,
    others=_WRITTEN,
).entries
