"""Print a PyTorch module as a summary that the parsers read.

A print needs torch only through the module that it is given; a table with shapes runs the module's code on tensors
without data, which takes no memory and no GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from estimator.faketensor import fake_mode, fake_model
from estimator.methods.rad import Rad
from estimator.rehearsal import line_of

if TYPE_CHECKING:
    from estimator.rehearse import Inputs  # which needs torch


def summary_of(module: Any) -> str:
    """Print a module with the parameters of each layer, shared ones counted once in the total of what holds them.

    Args:
        module: a ``torch.nn.Module``.
    """
    return "\n".join(_lines(module, ""))


def table_of(build: Callable[[], Any], inputs: Inputs, batch_size: int) -> str:
    """Run a module on fake tensors and print every call with its output's shape, as torchinfo does.

    Below it stands what steps take at half of that batch size and at all of it (`estimator.rehearsal`).

    Args:
        build: makes the module.
        inputs: makes its arguments from the module and a batch size.
        batch_size: the one that the table shows, two at least.

    Raises:
        ImportError: torch is not installed.
        Exception: what torch raises where the module's code needs the values of its tensors, or takes other inputs.
    """
    from estimator.dataset import printers  # noqa: PLC0415
    from estimator.dataset.trace import trace  # noqa: PLC0415
    from estimator.rehearse import Subject, rehearse  # noqa: PLC0415

    fake = fake_mode()
    model = fake_model(build, fake)
    with fake:
        traced = trace(model, lambda batch: inputs(model, batch))
    table = printers.torchinfo_text(traced, batch_size, depth=printers.ALL_LAYERS)
    subject = Subject(model, fake, inputs, Rad.load().works)
    try:
        rehearsals = rehearse(subject, (batch_size // 2, batch_size))
    except Exception as error:  # a training step may need what a forward pass in evaluation does not
        return f"{table}not rehearsed, as its code needs values or a GPU: {type(error).__name__}"
    return table + "\n".join(map(line_of, rehearsals))


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
