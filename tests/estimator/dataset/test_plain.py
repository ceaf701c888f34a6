"""Models that users write themselves: each is built, fed and trained for a step, on fake tensors."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from estimator.dataset import later, plain, plain_more, third
from estimator.dataset.catalogue import generate_real
from estimator.dataset.models import build_model, feed

ENTRIES = {e.name: e for e in (*later.entries(), *third.entries()) if e.source == "plain"}


def test_every_model_is_in_the_catalogue() -> None:
    assert set(ENTRIES) == set(plain.MODELS) | set(plain_more.MODELS)


TRAINED = (
    "mnist_cnn lenet5 unet32 dcgan_generator dcgan_discriminator vae64 conv_autoencoder srresnet wrn28_4 pointnet tcn8 "
    "conv3d_small crnn256 lstm_classifier torch_encoder torch_seq2seq nanogpt_small plain_vit_small diffusion_unet "
    "cifar_resnet56 cifar_vgg11 tiny_llama own_bert own_mixer dit_s cyclegan_6 segnet own_fcn darknet_small m5 "
    "ecg_resnet eegnet nerf tab_resnet ft_transformer deepfm text_cnn nbeats atari_dqn unet3d dncnn "
    "attention_unet seq2seq_lstm dense_gcn rcan own_convmixer mnist_mlp"
)


@pytest.mark.parametrize("name", TRAINED.split())
def test_a_model_trains(name: str) -> None:
    drawn = next(iter(generate_real(9, 0, [ENTRIES[name]], infer=0.0)))
    spec = replace(drawn, batch_size=2, seq_len=drawn.seq_len and 8)
    with FakeTensorMode(allow_non_fake_inputs=True), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of torch, on the pointers of fake weights
        model = build_model(spec)
        fed = feed(spec, model)
        args, kwargs = fed.inputs(2)
        loss = fed.loss(model(*args, **kwargs), 2)
        loss.backward()
    assert loss.shape == torch.Size([])
    assert all(p.grad is not None for p in model.parameters())
