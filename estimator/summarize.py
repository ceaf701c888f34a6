"""Print a PyTorch module as a summary that the parsers read. Needs torch only through the module it is given."""

from __future__ import annotations

from typing import Any


def summary_of(module: Any) -> str:
    """Print a module with the parameters of each layer, shared ones counted once in the total of what holds them.

    Args:
        module: a ``torch.nn.Module``.
    """
    return "\n".join(_lines(module, ""))


def _lines(module: Any, label: str) -> list[str]:
    own: dict[int, int] = {id(parameter): parameter.numel() for parameter in module.parameters()}
    count = f", {sum(own.values()):,} params"
    head = f"{label}{type(module).__name__}"
    extra = module.extra_repr()
    children = list(module.named_children())
    if not children:
        return [f"{head}({extra}){count}"]
    lines = [f"{head}("]
    if extra:
        lines.extend(f"  {line}" for line in extra.splitlines())
    for name, child in children:
        lines.extend(f"  {line}" for line in _lines(child, f"({name}): "))
    lines.append(f"){count}")
    return lines
