"""What a layer's type says."""

from __future__ import annotations

import pytest

from estimator.methods.rad.kinds import Kind, attends, attends_eagerly, attends_with_bias, kind_of


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        ("Conv2d", Kind.CONV),
        ("StdConv2dSame", Kind.CONV),
        ("Conv2D", Kind.CONV),
        ("ConvTranspose2d", Kind.CONV),
        ("Conv2dNormActivation", Kind.VIEW),
        ("BasicConv2d", Kind.CONV),
        ("Conv1D", Kind.LINEAR),
        ("FrozenBatchNorm2d", Kind.BATCH_NORM),
        ("LayerNorm2d", Kind.LAYER_NORM),
        ("Hardswish", Kind.KEEPS_INPUT),
        ("ReLU6", Kind.KEEPS_INPUT),
        ("Bottleneck", Kind.VIEW),
        ("SnakeBeta", Kind.MANY_STEPS),
        ("Sine", Kind.KEEPS_INPUT),
        ("SinePositions", Kind.VIEW),
    ],
)
def test_kinds(type_: str, kind: Kind) -> None:
    assert kind_of(type_) is kind


def test_attentions_are_told_by_name() -> None:
    assert attends("BertSdpaSelfAttention")
    assert not attends("AttentionPool2d")
    assert not attends("CvtSelfAttentionProjection")
    assert attends("GPSA")
    assert attends_eagerly("BloomAttention")
    assert attends_with_bias("T5Attention")
    assert not attends_eagerly("GPT2SdpaAttention")
    assert attends_eagerly("LayoutLMSelfAttention")
    assert attends_eagerly("GptOssAttention")
    assert not attends_eagerly("DetrAttention")


def test_a_block_may_call_itself_linear() -> None:
    assert kind_of("LinearBottleneck") is kind_of("LinearBlock") is Kind.VIEW
    assert kind_of("LinearBf16") is kind_of("MyLinear") is Kind.LINEAR
