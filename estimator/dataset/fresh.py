"""The architecture families that judge the method: nothing was fitted to them while it was made. Pure data.

Drawn by their names from the families of `estimator.dataset.later` and `estimator.dataset.third`, before any of them
was measured: ``THIRD`` are new families whose SHA-256 of ``rad-fresh-3:NAME`` modulo 100 is below 65.
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
SECOND = frozenset(_SECOND.split())
THIRD = frozenset(_THIRD.split())
FRESH = THIRD
