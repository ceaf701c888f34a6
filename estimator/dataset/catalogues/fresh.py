"""Architecture families that were fresh when they were measured; ``FRESH`` judge the method: nothing is fitted to them.

Drawn by their names from the families of `second.py` and `third.py`, before any of them was measured: ``THIRD`` are new
families whose SHA-256 of ``rad-fresh-3:NAME`` modulo 100 is below 65. ``FOURTH`` are all new families of `fourth.py`.
``FIFTH`` are those of `fifth.py`, and those of the fourth that no row was left of. ``SIXTH`` are those of `sixth.py`,
in libraries that nothing was measured of before, and those of the earlier collections that no row was left of.
``SEVENTH`` are those of `seventh.py`, again in other libraries. ``NINTH`` are those of `ninth.py`, ``TENTH`` those of
`tenth.py`, ``ELEVENTH`` those of `eleventh.py`, ``TWELFTH`` those of `twelfth.py`. The last judge.
"""

from __future__ import annotations

_SECOND = (
    "apertus biogpt bitnet byoanet cohere conformer crnn csatv2 diffllama dinov2_registers doge esm exaone4 fsmt "
    "gemma3 gpt_oss gptj gru helium hunyuan lcnetv2 led lenet lfm2 lilt longformer longt5 luke m2m_100 mixtral mpt "
    "naflexvit nanochat nanogpt nomic_bert openai_gpt patchtst pegasus_x perceiver persimmon plain_vit pointnet "
    "prophetnet repghost roberta_preln s3d samvit senet sew_d siglip starcoder2 switch tcn timesformer "
    "torch_transformer unet unet_attention unispeech video_resnet videomae vit_hybrid vit_mae vivit wrn"
)
_THIRD = (
    "afmoe altclip attention_unet autoformer bigbird_pegasus clipseg cwm cyclegan dbrx deep_speech dit "
    "dots1 dpt dqn ecg eegnet ernie4_5 exaone_moe flex_olmo ft_transformer gemma3n gemma4 glm4_moe "
    "gpt_neox_japanese granite hunyuan_moe hyperclovax ibert informer jais2 jetmoe jina layoutlm llama4 m5 "
    "minimax minimax_m2 moonshine mvp nbeats nllb_moe own_convmixer own_dense own_fcn own_mixer own_mlp own_vgg "
    "phimoe plbart qwen3_moe rcan recurrent_gemma roc_bert seq2seq_lstm smollm3 solar_open speecht5 "
    "splinter time_series_transformer upernet vqvae xlm_roberta_xl xmod "
)
_FOURTH = (
    "actor_critic aimv2 alphazero annotated_transformer attention_seq2seq axk1 bamba bert2bert capsnet "
    "conditional_detr conv_lstm conv_tasnet d_fine dab_detr dcn decision_transformer deepseek_v32 "
    "deformable_detr dense_gat depth_anything detr dgcnn dlinear ecapa esrgan evoformer falcon_mamba "
    "fast_text fcos fno git glow glpn han hifigan hourglass hy_v3 imagegpt inception_time itransformer jamba "
    "kimi_linear laguna latent_unet llava longcat_flash lstm_autoencoder mamba mamba2 mask2former maskformer "
    "mlcd ncf next_item olmo_hybrid own_alexnet own_conformer own_deeplab own_detr own_efficientnet "
    "own_fpn own_inception own_mamba own_mobilenet own_resnext own_shufflenet own_swin own_xl own_yolo "
    "paligemma parakeet pinn pix2pix pixio pointnet2 qwen3_next raft rcnn res_unet resnet_gan retinanet retnet "
    "rt_detr rwkv schnet siamese speech_to_text ssd stylegan swin2sr t5gemma tacotron trocr two_tower unet_pp "
    "unetr vggish vilt vitdet wave_unet wide_deep word_lm xlstm yolos zamba2 zaya"
)
_FIFTH = (
    "activity auto_int aya_vision bert2bert blip_2 capsnet char_rnn cnn_lstm cohere2_moe conditional_detr conv_lstm "
    "conv_s2s dcn deconvolved deep_ar deep_interest deepseek_v4 demucs depth_anything dpcnn dprnn dual_encoder eomt "
    "esim espcn esrgan falcon_h1 fast_speech fno fusion gin git glm4_moe_lite granitemoehybrid han hy_v3 hybrid_vit "
    "idefics3 imagegpt impala inkling_text internvl kan keywords kimi_linear linformer llava lstm_crf lstnet lw_detr "
    "mask2former mellum mlp_denoiser mmoe mnist_gan mnist_vae mult_vae nafnet nemotron_h neomme neural_ode "
    "openai_privacy_filter owlvit own_cbam own_conformer own_convnext own_fpn own_inception own_linknet own_nin "
    "own_patchtst own_preact own_pspnet own_segformer own_squeezenet own_ssd own_t5 own_xception panns parakeet "
    "point_transformer pointer_net prototypes qwen2_5_vl qwen2_vl rf_detr rwkv sagan sam show_and_tell siamese simclr "
    "slowfast smolvlm soft_actor_critic t5gemma table_embeds tabnet text_pairs trans_unet tube_vit two_tower u2net "
    "unetr vdsr vitpose vjepa2 voxnet vqa wav2letter xdeepfm yoso zamba zoedepth"
)
_SIXTH = (
    "afm afn ahnet airnet airnext alphapose ats_vit axial_transformer aya_vision bagnet bam bisenet bninception ccpm "
    "cct cgnet channelnet cohere2_moe condensenet contextnet conv_autoencoder crossformer dabnet daf3d darts "
    "deepvit dianet dicenet difm diracnet drn dynunet edanet edge_cnn enet erfnet esmm esnet espnet fast_scnn "
    "fibinet fishnet fpenet fractalnet free_transformer git globalnet gpt_vae graph_sage graph_unet hardnet "
    "highresnet hovernet hyper_connections ibn ibppose icnet ifm igcv3 imagegpt inkling_text isqrtcov jasper "
    "layoutlmv3 lednet lffd linear_attention local_transformer localnet look_vit lw_openpose manet mednext "
    "memory_transformer menet msdnet neo_mlp nfm octresnet onn pan patch_merger peleenet performer pfpcnet ple pmlp "
    "pnn polynet prnet proxylessnas pyramidnet quartznet qwen2_5_vl regionvit resattnet resdrop restormer revnet rir "
    "ror routing_transformer rvt scalable_vit scnet segresnet sep_vit shakedrop shakeshake shared_bottom sharesnet "
    "show_and_tell simple_pose sinet sinkhorn_transformer small_data_vit spade sparsenet sqnet squeezenext swin_unetr "
    "t2t_vit tab_transformer talking_heads u_vit vit_autoencoder vnet voxelmorph voxnet xdensenet zfnet"
)
_SEVENTH = (
    "aitm allegro amused appnp arma_gnn atcnet attn_sleep aura_flow bendr biot block_recurrent_transformer "
    "branchformer bst cbramod cheb_net chroma cluster_gcn coca cogvideox cogvideox_vae cogview contrawr controlnet "
    "crdnn ctnet dc_ae dcunet deep4 deep_ffm deep_sleep deeper_gcn demask dien diffwave dptnet edcn eeg_conformer "
    "eeg_inception eeg_itnet eeg_simple_conv eeg_tcnet eegnex egc egnn emformer enformer enhance_resnet fbcnet "
    "fbmsnet film_series flux gcnii ggnn gnn_film graph_conv gru4rec h_transformer hacnn hstu hunyuan_video ifnet "
    "kandinsky karras_unet labram latte lstm_tasnet ltx_video lumina maf medformer mega megabyte micn mil min_gru "
    "mind mlfn mmdit mobile_clip mochi modern_tcn msvtnet mudeep narm oobleck open_unmix osnet passt pcb pixart pna "
    "prior_transformer prx quicknat recurrent_memory_transformer resgated_gcn rin rnnt saits sana sccnet scinet "
    "segan segrnn sepformer sgc shallow_fbcsp sinc_shallow siren sleep_stager sparcnet spline_flow squim "
    "stable_audio stable_cascade stable_video stamp stemgnn sudormrf syncnet tabm tagcn tidnet timesnet "
    "ts_inception tslanet unet_1d unimp usleep wan wan_vae wavernn xvector youtube_dnn"
)
_NINTH = (
    "ace_step agnn bitcn botnet bria bros chameleon clap comirec cosmos craft cross_vit dac dat dbnet deepnpts "
    "deimv2 depth_pro dia dinov3 drct drunet dssm easyanimate efficientdet encodec fasnet fast_text_detector fbcnn "
    "fedformer fftformer fits flava florence2 flux2 frets glm4v glm_moe_dsa got_ocr2 gps grl grounding_dino hat "
    "hrm_text htdemucs hunyuan_vae i2vgen idefics2 instructblip janus kbnet kosmos_2 lama le_conv llava_onevision "
    "ltx_vae lxmert mgp_str mimi mimo_v2 mistral3 mixdehazenet mllama modernvbert musicgen nhits normalized_vit "
    "omnisr pe_audio perception_lm pixtral plksr pop2piano pp_doclayout pp_ocr_det pp_ocr_rec prompt_depth "
    "qwen2_audio qwen3_vl radio realcugan retinexformer rqvae safmn sam2 sam3 sapiens scunet seamless seggpt sine "
    "skyreels slot_attention snac soft_moe softs span speech_encoder_decoder srvgg supergat swinir t2i_adapter tft "
    "timesfm timexer tiny_vae tipsv2 tsmixer udop uformer univnet vibevoice_codec video_llava videoprism vipllava "
    "visual_bert vocos voxtral x_clip xcodec"
)
_TENTH = (
    "agent_attention akt antisymmetric_gnn aria atd attention_base_net audioflamingo3 axk2 "
    "bidirectional_cross_attention brain_module bridgetower canary cfc charformer cidnet code_brain cohere2_vision "
    "cohere_asr colt5 consisid cosmos_vae cpmant craft_sr csdi csflow dctlsa deep_irt deepseek_vl dilated_rnn dints "
    "dir_gnn ditn dkvmn eeg_miner eeg_pt efficientloftr en_transformer ernie_image etsformer fastflownet fb_light_conv "
    "fdat feast_net feedback_transformer flow1d flownet fuyu gateloop general_conv gfpgan glmasr glom gma gmflow "
    "graph_transformer gru_d halonet hd3 helix hunyuan_dit hunyuan_image hy_v4 hypergraph_conv idefics "
    "infini_transformer ipt irr_pwc joy_image knowledge_tracing kosmos_2_5 kqn krea kvae lambda_net lasr liteflownet "
    "longcat_image ltc luna magvit_vae mf_conv mistral mistral4 mixlinear mmrealsr mochi_vae moesr moonshine_streaming "
    "mosr motif_video neuflow nlinear ovis2 ovis_image patched_brain_transformer peer perceiver_ar protein_bert pwcnet "
    "pyraformer qwen2 qwen3_5_moe qwen3_asr qwen_image_vae rae rapidflow rela_transformer restoreformer rgt rmok "
    "rpknet saint_kt sakt seemore seft set_transformer signal_jepa skflow slanet ssgc sst_dpn steegformer swift_srgan "
    "tcformer tefn tide timemixer titans tkan token_shift tranception ts2vec tvp uniformer unimatch vidtok "
    "voxtral_realtime xlinear"
)
_ELEVENTH = "cspnext deepseek_vit efficientvim gemma4_vit iformer qwen3_vit"
_TWELFTH = (
    "acoustic_resnet adacode arcface awd_lstm blazeface c2d cgcnn chrono_edit convtran crli csn defmo dexined draem "
    "equiformer factorization_machine femasr field_aware_fm flux2_vae fm_supported_nn ganomaly gatv2 gemma4_audio "
    "gemma4_unified glm5_next gp_vae helios hopenet hunyuan_image_vae hynet i3d keynet lag_tst light_gcn "
    "logistic_regression lstm_fcn m3snet metric_gan minimax_m3 mirnet mix_hop modnet moshi mprnet muse_glimmer "
    "nemotron_asr omniscale_cnn parallel_vit parsenet pp_ocrv6_rec res_cnn retinaface rnn_attention s3fd "
    "simple_feed_forward sosnet srformer stable_audio3 superpoint temporal_vae tfeat totem transformer_lstm ts_fcn "
    "ts_perceiver ts_sequencer tsit tst vader vit_5 x3d xcm xfeat xresnet yunet"
)
SECOND = frozenset(_SECOND.split())
THIRD = frozenset(_THIRD.split())
FOURTH = frozenset(_FOURTH.split())
FIFTH = frozenset(_FIFTH.split())
SIXTH = frozenset(_SIXTH.split())
SEVENTH = frozenset(_SEVENTH.split())
NINTH = frozenset(_NINTH.split())
TENTH = frozenset(_TENTH.split())
ELEVENTH = frozenset(_ELEVENTH.split())
TWELFTH = frozenset(_TWELFTH.split())
FRESH = TWELFTH
