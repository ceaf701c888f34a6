"""Whether a summary's layers are of types that the model was fitted to. Pure.

Blocks that were never measured may do what no rule here knows: the bound has to be wider for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

_MODEL: Final = "Model"
_FOR: Final = "For"


def plain_names(own: str, types: frozenset[str]) -> frozenset[str]:
    """Take the model's own name from its layers' types: ``LlamaMLP`` and ``Qwen3MLP`` are ``MLP``."""
    return frozenset([without(own, type_) for type_ in types]) if own else types


def owner(names: Iterable[str]) -> str:
    """Choose among what `named` gave for each type: the name of the whole model, or ""."""
    return min([name for name in names if name], key=lambda name: (len(name), name), default="")


def named(type_: str) -> str:
    """Give the name that transformers puts before the types of a model's layers, as far as one type tells, or "".

    A type that ends in ``Model`` or ``ForCausalLM`` does.
    """
    if type_.endswith(_MODEL):
        return type_[: -len(_MODEL)]
    before, found, after = type_.partition(_FOR)
    return before if found and after[:1].isupper() else ""


def without(own: str, type_: str) -> str:
    """Take a model's name from the type of a layer."""
    return type_[len(own) :] if own and type_.startswith(own) and type_ != own else type_


def unfamiliar(names: Set[str], known: Set[str]) -> float:
    """Give the share of types that are not known."""
    return len(names - known) / len(names) if names else 0.0
