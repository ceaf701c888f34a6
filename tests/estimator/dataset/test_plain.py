"""Models that users write themselves: each is built, fed and trained for a step, on tensors without numbers."""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from dataclasses import replace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from estimator.dataset.catalogues import fifth, fourth, second, third
from estimator.dataset.catalogues.draws import generate_real
from estimator.dataset.feeds import feed
from estimator.dataset.models import build_model
from estimator.dataset.plain import MODELS

ENTRIES = {e.name: e for module in (second, third, fourth, fifth) for e in module.entries() if e.source == "plain"}


def test_every_model_is_in_the_catalogue() -> None:
    assert set(ENTRIES) == set(MODELS)


TRAINED = (
    "mnist_cnn lenet5 unet32 dcgan_generator dcgan_discriminator vae64 conv_autoencoder srresnet wrn28_4 pointnet tcn8 "
    "conv3d_small crnn256 lstm_classifier torch_encoder torch_seq2seq nanogpt_small plain_vit_small diffusion_unet "
    "cifar_resnet56 cifar_vgg11 tiny_llama own_bert own_mixer dit_s cyclegan_6 segnet own_fcn darknet_small m5 "
    "ecg_resnet eegnet nerf tab_resnet ft_transformer deepfm text_cnn nbeats atari_dqn unet3d dncnn "
    "attention_unet seq2seq_lstm dense_gcn rcan own_convmixer mnist_mlp "
    "own_alexnet_small own_mobilenet_small own_efficientnet own_inception own_shufflenet own_resnext own_senet own_fpn "
    "own_deeplab_small unet_pp_small res_unet pix2pix esrgan_small own_yolo_n hourglass2 stylegan_64 "
    "latent_unet siamese capsnet pointnet2 dgcnn own_swin_small conv_lstm unetr glow fno alphazero resnet_gan word_lm "
    "attention_seq2seq annotated_transformer own_xl bert4rec sasrec two_tower ncf dcn wide_deep fast_text han "
    "own_mamba retnet hifigan_small conv_tasnet own_conformer ecapa inception_time itransformer dlinear "
    "lstm_autoencoder wave_unet dense_gat evoformer schnet pinn siren actor_critic vggish unet48 "
    "crnn384 gru_words_small cifar_vgg19 "
    "own_squeezenet_small own_convnext_small own_xception_small own_cbam own_nin own_preact "
    "own_segformer own_pspnet own_linknet u2net espcn vdsr nafnet own_ssd pose_resnet centernet cnn_lstm "
    "slowfast sagan show_and_tell prototypes voxnet simclr impala char_rnn lstm_crf dpcnn conv_s2s linformer "
    "esim own_t5 panns_small demucs dprnn wav2letter keywords activity lstnet deep_ar "
    "deep_interest mmoe xdeepfm mult_vae tabnet table_embeds gin point_transformer soft_actor_critic "
    "mnist_gan mnist_vae mlp_denoiser neural_ode kan vqa pointer_net own_mobilenet_mid word_lm_small"
)


@pytest.mark.parametrize("name", TRAINED.split())
def test_a_model_trains(name: str) -> None:
    drawn = next(iter(generate_real(9, 0, [ENTRIES[name]], infer=0.0)))
    spec = replace(drawn, batch_size=2, seq_len=drawn.seq_len and 8)
    with ExitStack() as stack:
        with torch.device("meta"):
            model = build_model(spec)
        # Quicker than fake tensors by far, but for layers that recur, which torch then runs step by step.
        if any(isinstance(part, torch.nn.RNNBase) for part in model.modules()):
            stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
            model.to_empty(device="cpu")
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", UserWarning)  # of torch, on the pointers of fake weights
        fed = feed(spec, model)
        args, kwargs = fed.inputs(2)
        loss = fed.loss(model(*args, **kwargs), 2)
        loss.backward()
    assert loss.shape == torch.Size([])
    assert all(p.grad is not None for p in model.parameters())
