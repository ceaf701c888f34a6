"""The architecture families that judge the method: nothing was fitted to them while it was made. Pure data.

Drawn by their names from the families of `estimator.dataset.later`, before any of them was measured.
"""

from __future__ import annotations

_NAMES = (
    "apertus biogpt bitnet byoanet cohere conformer crnn csatv2 diffllama dinov2_registers doge esm exaone4 fsmt "
    "gemma3 gpt_oss gptj gru helium hunyuan lcnetv2 led lenet lfm2 lilt longformer longt5 luke m2m_100 mixtral mpt "
    "naflexvit nanochat nanogpt nomic_bert openai_gpt patchtst pegasus_x perceiver persimmon plain_vit pointnet "
    "prophetnet repghost roberta_preln s3d samvit senet sew_d siglip starcoder2 switch tcn timesformer "
    "torch_transformer unet unet_attention unispeech video_resnet videomae vit_hybrid vit_mae vivit wrn"
)
FRESH = frozenset(_NAMES.split())
