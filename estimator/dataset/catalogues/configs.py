"""What configurations of models share, and how the widely used kinds of them name their sizes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What configurations of transformers' models share: the base size, a narrow one, attention with small keys, experts.
BASE: Mapping[str, Any] = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
NARROW: Mapping[str, Any] = {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}
LATENT: Mapping[str, Any] = {
    "q_lora_rank": 384,
    "kv_lora_rank": 256,
    "qk_rope_head_dim": 32,
    "qk_nope_head_dim": 64,
    "v_head_dim": 64,
}
ROUTED: Mapping[str, Any] = {"moe_intermediate_size": 512, "num_experts_per_tok": 2}
SHARED: Mapping[str, Any] = {**ROUTED, "n_routed_experts": 8, "n_shared_experts": 1, "n_group": 2, "topk_group": 1}


def decoder(width: int, hidden: int, layers: int, heads: int, groups: int, vocab: int, **more: Any) -> dict[str, Any]:
    """Configuration of a decoder as transformers' configurations of Llama and its kin name it."""
    return {
        "hidden_size": width,
        "intermediate_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "vocab_size": vocab,
        **more,
    }


def encoder(width: int, layers: int, heads: int, hidden: int = 0, **more: Any) -> dict[str, Any]:
    """Configuration of an encoder as transformers' configurations of BERT and its kin name it.

    Without ``hidden`` the feed-forward part is four times as wide inside as a token.
    """
    return {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": hidden or 4 * width,
        **more,
    }


def t5(width: int, hidden: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    """Configuration of an encoder and a decoder as transformers' configurations of T5 and its kin name it."""
    return {"d_model": width, "d_ff": hidden, "num_layers": layers, "num_heads": heads, **more}


def halves(width: int, hidden: int, layers: int, heads: int) -> dict[str, Any]:
    """Configuration of an encoder and a decoder as transformers' models after BART name it."""
    one = {"layers": layers, "ffn_dim": hidden, "attention_heads": heads}
    return {"d_model": width, **{f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in one.items()}}


def convolved(kind: str, *, given: str = "x, edge_index", same: bool = True, **more: Any) -> dict[str, Any]:
    """Describe three graph convolutions of PyTorch Geometric and what classifies, as its Sequential is written.

    Args:
        kind: class of the convolutions.
        given: what they take.
        same: whether they are told how wide their input and their output are.
        more: what else they are made with.
    """
    layers: list[Any] = [[{"class": "torch_geometric.nn.Linear", "in_channels": 128, "out_channels": 256}, "x -> x"]]
    widths = WIDTHS if same else {}
    for _ in range(3):
        layers.append([{"class": f"torch_geometric.nn.{kind}", **widths, **more}, f"{given} -> x"])
        layers.append({"class": "torch.nn.ReLU", "inplace": True})
    layers.append({"class": "torch_geometric.nn.Linear", "in_channels": 256, "out_channels": 40})
    return {"input_args": "x, edge_index", "modules": layers}


WIDTHS: Mapping[str, Any] = {"in_channels": 256, "out_channels": 256}
"""Of graph convolutions."""
# What configurations of transformers' models share: sizes of what reads, of what looks at patches, of what continues.
WORDS: Mapping[str, Any] = encoder(384, 6, 6)
PATCHES: Mapping[str, Any] = {**WORDS, "image_size": 224, "patch_size": 16}
CHAT = decoder(512, 1536, 6, 8, 4, 32000)
