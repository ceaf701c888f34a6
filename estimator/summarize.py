"""Print a PyTorch module as a summary that the parsers read.

A print needs torch only through the module that it is given; a table with shapes runs the module's code on tensors
without data, which takes no memory and no GPU.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from itertools import count
from typing import Any, Final

from estimator.faketensor import Inputs, fake_beside, fake_mode, fake_model, unseen_values, with_labels, with_sizes
from estimator.methods.rad import Rad
from estimator.methods.rad.convolutions import Convolves
from estimator.rehearsals.lines import PRECISIONS, line_of, line_of_beside, line_of_libraries
from estimator.types import Kind, Precision

# What is rehearsed, in batch sizes that are asked for.
_BATCHES: Final = (0.5, 1, 4)
_RUNS: Final[dict[Kind, str]] = {"train": "training", "infer": "inference"}
_MOST: Final = 200


def summary_of(module: Any) -> str:
    """Print a module with the parameters of each layer, shared ones counted once in the total of what holds them.

    Where some are frozen, two more lines say how many.

    Args:
        module: a ``torch.nn.Module``.
    """
    lines = _lines(module, "")
    sizes = {id(p): (p.numel(), p.requires_grad) for p in module.parameters()}.values()
    frozen = sum(size for size, trained in sizes if not trained)
    if frozen:
        trained = sum(size for size, _ in sizes) - frozen
        lines += [f"Trainable params: {trained:,}", f"Non-trainable params: {frozen:,}"]
    return "\n".join(lines)


def table_of(
    build: Callable[[], Any],
    inputs: Inputs,
    batch_size: int,
    loss: Callable[..., Any] | None = None,
    beside: Callable[[Any], Any] | None = None,
    tell: Callable[[str], object] = lambda _: None,
) -> str:
    """Run a module on fake tensors and print every call with its output's shape, as torchinfo does.

    Below it stands what steps take at half of that batch size, at all of it, and at four times of it
    (`estimator.rehearsals.lines`). Code that PyTorch would compile runs as it is written.

    Args:
        build: makes the module.
        inputs: makes its arguments from the module and a batch size.
        batch_size: the one that the table shows, two at least.
        loss: makes the loss of what the module gives out; None for its own, or a classifier's for each tensor.
        beside: makes of the module what else the job holds on the GPU, which the loss is given too; None for nothing
            (`estimator.rehearsals.rehearse.Subject`).
        tell: is told what is done now, as all of it may take minutes.

    Raises:
        ImportError: torch is not installed, or too old.
        Exception: what torch raises where the module's code needs the values of its tensors, or takes other inputs;
            what a loss or ``beside`` that was given raises.
    """
    with _as_written():
        from estimator.dataset import printers  # noqa: PLC0415
        from estimator.dataset.trace import trace  # noqa: PLC0415
        from estimator.rehearsals.rehearse import Subject, beside_mib, own_or_classifiers, rehearse  # noqa: PLC0415

        tell("building the model")
        fake = fake_mode()
        model = fake_model(with_sizes(build, inputs), fake)
        held = fake_beside(beside, model, fake) if beside else ()
        tell("following its layers")
        with fake:
            traced = trace(model, lambda batch: inputs(model, batch))
            labelled = inputs if loss else with_labels(model, inputs)
        table = printers.torchinfo_text(traced, batch_size, depth=printers.ALL_LAYERS)
        of_both = partial(_with, loss, held) if loss and beside else loss
        subject = Subject(model, fake, labelled, _convolves(), of_both or own_or_classifiers, held)
        said = [line_of_beside(beside_mib(subject))] if beside else []
        batches = [int(batch_size * share) for share in _BATCHES]
        at, all_ = count(1), len(PRECISIONS) * len(_RUNS) * len(batches)

        def told(kind: Kind, precision: Precision, batch: int) -> None:
            tell(f"rehearsing {_RUNS[kind]} in {precision} at batch size {batch} ({next(at)} of {all_})")

        try:
            found = rehearse(subject, batches, told)
        except Exception as error:  # a training step may need what a forward pass in evaluation does not
            if loss:
                raise
            why = f"not rehearsed, as its code needs values or a GPU: {_first_line(error)}"
            return table + "\n".join([*said, why])
    if loss and not any(run.kind == "train" for run in found.runs):
        raise next(iter(found.failed.values()))
    said = [*map(line_of, found.runs), line_of_libraries(found.libraries), *said, *_missing(found.failed)]
    return table + "\n".join(said)


def _with(loss: Callable[..., Any], held: Any, out: Any) -> Any:
    return loss(out, held)


def _missing(failed: Mapping[tuple[Kind, Precision], Exception]) -> Iterator[str]:
    """Say what was not rehearsed and why, in one line where that is a kind of run in any precision."""
    for kind, said in _RUNS.items():
        whys = {
            precision: _first_line(failed[kind, precision]) for precision in PRECISIONS if (kind, precision) in failed
        }
        if len(whys) == len(PRECISIONS):
            yield f"{said} not rehearsed: {next(iter(whys.values()))}"
        else:
            yield from (f"{said} in {precision} not rehearsed: {why}" for precision, why in whys.items())


@cache
def _convolves() -> Convolves:
    return Rad.load().convolves


@contextmanager
def _as_written() -> Iterator[None]:
    """Let nothing be compiled or look at masks, which tensors without data do not bear; torch says once what failed."""
    import torch  # noqa: PLC0415

    if not hasattr(torch.compiler, "set_stance"):
        raise ImportError(f"a table needs PyTorch 2.6 or newer, this is {torch.__version__}")
    says = logging.getLogger("torch._subclasses.fake_tensor")
    said = says.disabled
    says.disabled = True
    try:
        with torch.compiler.set_stance("force_eager"), unseen_values():
            yield
    finally:
        says.disabled = said


def _first_line(error: Exception) -> str:
    said = "".join(str(error).strip().splitlines()[:1])
    return f"{type(error).__name__}: {said}"[:_MOST]


def _lines(module: Any, label: str) -> list[str]:
    own: dict[int, int] = {id(parameter): parameter.numel() for parameter in module.parameters()}
    count = f", {sum(own.values()):,} params"
    head = f"{label}{type(module).__name__}"
    extra = module.extra_repr()
    # As PyTorch prints them: `named_children` leaves out what stands under another name before, which is called again.
    children = [(name, child) for name, child in module._modules.items() if child is not None]
    said = "" if children or extra else repr(module)  # a class may write itself what it is made from
    if said.startswith(f"{type(module).__name__}(") and _ends_as_modules_do(said):
        return f"{label}{said}{count}".splitlines()
    if not children and "\n" not in extra:
        return [f"{head}({extra}){count}"]
    lines = [f"{head}("]
    if extra:
        lines.extend(f"  {line}" for line in extra.splitlines())
    for name, child in children:
        lines.extend(f"  {line}" for line in _lines(child, f"({name}): "))
    lines.append(f"){count}")
    return lines


def _ends_as_modules_do(said: str) -> bool:
    """Tell whether what a class writes of itself can be read: closed, and of several lines by the last alone."""
    return said.endswith("\n)" if "\n" in said else ")") and said.count("(") == said.count(")")
