"""Runs steps of a model's own code on tensors without data and follows what they take from the GPU. Needs torch.

`recorder` writes down which tensors come and go, `allocator` tells what PyTorch holds for them. The CPU's tensors stand
for a GPU's: dropout keeps a byte for each number here, attention that PyTorch fuses there keeps no matrix, recurrent
layers and autocast are as on a GPU. Where the user's loss is not given, a classifier's stands for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import is_dataclass
from itertools import count, product
from typing import Any, NamedTuple, TypeVar

import torch
from torch.nn import functional
from torch.utils._pytree import tree_leaves

from estimator.dataset.measure import make_optimizer
from estimator.faketensor import MIB, Inputs, cast, dtype_of
from estimator.methods.rad.convolutions import DRAWS, Convolves
from estimator.rehearsals.allocator import Allocator, Block, anywhere
from estimator.rehearsals.as_on_a_gpu import as_on_a_gpu
from estimator.rehearsals.autocast import autocasting
from estimator.rehearsals.lines import OPTIMIZERS, PRECISIONS
from estimator.rehearsals.recorder import GONE, Part, Recorder
from estimator.types import KINDS, Kind, Libraries, Optimizer, Point, Precision, Rehearsal, together

Loss = Callable[[Any], Any]
"""Makes a loss, one number, of what a model gives out."""
Mode = Callable[[], AbstractContextManager[Any]]
_Taken = dict[Optimizer | None, list[Part]]
"""What two steps of each optimizer took, one part after the other; for None, what two inferences did."""
_Kind = TypeVar("_Kind")
_Trained = tuple[tuple[torch.Size, torch.dtype, torch.dtype], ...]
"""Shapes of parameters that have gradients, their types and those of these."""


class Steps:
    """What is the same for other batch sizes: what optimizers' steps took, and what the code loads.

    Attributes:
        numbers: of tensors, in all that is rehearsed with them.
        known: the first step and the next, by optimizer and what it steps with.
        libraries: those of CUDA's that were loaded so far.
    """

    def __init__(self) -> None:
        """Know none."""
        self.numbers = count(1)
        self.known: dict[tuple[Optimizer, _Trained], tuple[Part, Part]] = {}
        self.libraries: Libraries = "none"


def _plain(out: Any) -> Any:
    """Give what a class of a user's own holds, and a dictionary of any class."""
    if isinstance(out, Mapping):
        return dict(out)
    return vars(out) if is_dataclass(out) else out


def own_or_classifiers(out: Any) -> Any:
    """Make a loss of what a model gives out: its own, or that of a classifier for each tensor."""
    own = out.get("loss") if isinstance(out, Mapping) else getattr(out, "loss", None)
    leaves = [own] if isinstance(own, torch.Tensor) and not own.dim() else tree_leaves(_plain(out))
    numbers = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not numbers:
        raise TypeError(f"the model returned {type(out).__name__} without a tensor that depends on its parameters")
    return sum(_classified(leaf) if leaf.dim() else leaf for leaf in numbers)


def _classified(numbers: torch.Tensor) -> torch.Tensor:
    """Make ``cross_entropy`` of classes on the last axis; under autocast its logarithms are cast as they are kept."""
    rows = numbers.log_softmax(-1, dtype=numbers.dtype).reshape(-1, numbers.shape[-1])
    return functional.nll_loss(rows, rows.new_zeros(len(rows), dtype=torch.long))


def _of(held: Any, kind: type[_Kind]) -> list[_Kind]:
    return [leaf for leaf in tree_leaves(held) if isinstance(leaf, kind)]


class Subject(NamedTuple):
    """What is rehearsed.

    Attributes:
        model: of fake tensors.
        fake: the mode that they are of.
        inputs: makes its arguments.
        convolves: says how much workspace convolutions take.
        loss: makes the loss that is trained with.
        beside: what else the job holds on the GPU: modules and tensors, in lists, tuples or dictionaries. Parameters
            among it that the loss has gradients of are trained, too.
    """

    model: Any
    fake: Any
    inputs: Inputs
    convolves: Convolves
    loss: Loss = own_or_classifiers
    beside: Any = ()

    def modules(self) -> torch.nn.ModuleList:
        """Give the model, and the modules and parameters beside it."""
        bare = torch.nn.ParameterList(_of(self.beside, torch.nn.Parameter))
        return torch.nn.ModuleList([self.model, *_of(self.beside, torch.nn.Module), bare])

    def cast(self, dtype: torch.dtype) -> None:
        """Cast the model, and what beside it is of the model's type: a teacher in half precision stays as it is."""
        with self.fake:
            cast(self.modules(), dtype, of=dtype_of(self.model))
            cast(self.model, dtype)


class Rehearsed(NamedTuple):
    """What came of it.

    Attributes:
        runs: what was rehearsed.
        libraries: which of CUDA's it loads.
        failed: what was raised first of runs that were not.
    """

    runs: tuple[Rehearsal, ...]
    libraries: Libraries
    failed: dict[tuple[Kind, Precision], Exception]


def rehearse(
    subject: Subject, batches: Sequence[int], tell: Callable[[Kind, Precision, int], object] = lambda *_: None
) -> Rehearsed:
    """Rehearse training, with each optimizer, and inference in fp32, and in amp and bf16 where the code can.

    The model is left in the last of them.

    Args:
        subject: what is rehearsed.
        batches: batch sizes, the smallest first.
        tell: is told what is rehearsed now, and of how many samples.

    Raises:
        Exception: what torch raises where the model's code needs the values of its tensors, or takes other inputs,
            in all of them.
    """
    steps = Steps()
    found: list[Rehearsal] = []
    failed: dict[tuple[Kind, Precision], Exception] = {}
    subject.cast(torch.float32)  # they may have been built in another
    for precision, kind in product(PRECISIONS, KINDS):
        points: dict[Optimizer | None, list[Point]] = {}
        for batch in batches:
            tell(kind, precision, batch)
            try:
                taken = points_of(subject, kind, precision, batch, steps=steps)
            except Exception as error:  # it may want targets to train, or two samples, or fp32
                failed.setdefault((kind, precision), error)
                continue
            for optimizer, point in taken.items():
                points.setdefault(optimizer, []).append(point)
        found += [Rehearsal(kind, precision, optimizer, tuple(some)) for optimizer, some in points.items()]
    if not found:
        raise next(iter(failed.values()))
    for run in found:
        failed.pop((run.kind, run.precision), None)
    return Rehearsed(tuple(found), steps.libraries, failed)


def points_of(
    subject: Subject,
    kind: Kind,
    precision: Precision,
    batch: int,
    optimizers: Iterable[Optimizer] = OPTIMIZERS,
    steps: Steps | None = None,
) -> dict[Optimizer | None, Point]:
    """Rehearse one batch size: with each optimizer, or for None an inference; bf16 leaves the model in it.

    Args:
        subject: what is rehearsed.
        kind: as what.
        precision: in which.
        batch: samples.
        optimizers: those of a training.
        steps: what they took of this subject before.

    Raises:
        Exception: as `rehearse`.
    """
    steps = steps or Steps()
    model, modules, recorder = subject.model, subject.modules(), Recorder(subject.convolves, steps.numbers)
    autocast = autocasting if precision == "amp" else nullcontext
    if precision == "bf16":
        subject.cast(torch.bfloat16)
    with subject.fake, recorder, as_on_a_gpu():
        before = recorder.begin()
        _moved(recorder, modules, together=precision != "bf16")
        for tensor in _of(subject.beside, torch.Tensor):
            recorder.watch(tensor)
        given = subject.inputs(model, batch)
        if kind == "train":
            taken = _trained(recorder, subject, given, autocast, optimizers, steps)
        else:
            taken = _inferred(recorder, model, given, autocast)
    steps.libraries = together(steps.libraries, recorder.libraries)
    return {optimizer: Point(batch, *followed([before, *parts], recorder.others)) for optimizer, parts in taken.items()}


def _moved(recorder: Recorder, module: Any, *, together: bool) -> None:
    """Write down what comes when a module is moved to the GPU: what it is made of, its own tensors, and in which piece.

    Args:
        recorder: writes it down.
        module: of fake tensors.
        together: whether recurrent layers put their weights into one piece.
    """
    for child in module.children():
        _moved(recorder, child, together=together)
    own = list(module.parameters(recurse=False))
    for tensor in (*own, *module.buffers(recurse=False)):
        recorder.watch(tensor)
    if together and isinstance(module, torch.nn.RNNBase):
        recorder.gather(own)


def _trained(
    recorder: Recorder, subject: Subject, given: Any, autocast: Mode, optimizers: Iterable[Optimizer], steps: Steps
) -> _Taken:
    """Write down a step, then one and another of each optimizer, and the step between these two."""
    model, modules = subject.model, subject.modules()

    def step(kept: list[Any]) -> Part:
        part = recorder.begin()
        for parameter in modules.parameters():
            parameter.grad = None
        with autocast():
            out = model(*given[0], **given[1])
            loss = subject.loss(out)
        recorder.backward = True
        loss.backward()
        recorder.backward = False
        kept[:] = out, loss
        return part

    model.train()
    kept: list[Any] = []  # as a loop's variables hold it until the next step
    first = step(kept)
    stepped = _stepped(recorder, modules, optimizers, steps)
    again = step(kept)
    recorder.begin()
    for parameter in modules.parameters():
        parameter.grad = None
    return {name: [first, once, again, later] for name, (once, later) in stepped.items()}


def _stepped(
    recorder: Recorder, modules: torch.nn.Module, optimizers: Iterable[Optimizer], steps: Steps
) -> dict[Optimizer, tuple[Part, Part]]:
    """Write down two steps of each optimizer, or give those of before."""
    pairs = [(parameter, parameter.grad) for parameter in modules.parameters() if parameter.grad is not None]
    trained = tuple((parameter.shape, parameter.dtype, gradient.dtype) for parameter, gradient in pairs)
    found: dict[Optimizer, tuple[Part, Part]] = {}
    for name in optimizers:
        if (name, trained) in steps.known:
            found[name] = steps.known[name, trained]
            continue
        optimizer = make_optimizer(name, modules, foreach=True)
        recorder.steps = True
        try:
            once = recorder.begin()
            optimizer.step()
            later = recorder.begin()
            optimizer.step()
            found[name] = steps.known[name, trained] = once, later
        except RuntimeError as error:  # it takes no such gradients, as most take no sparse ones
            refused = error
        recorder.steps = False
        recorder.begin()  # what goes with it
        optimizer.state.clear()
    if not found:
        raise refused
    return found


def _inferred(recorder: Recorder, model: Any, given: Any, autocast: Mode) -> _Taken:
    """Write down two inferences, the second of which meets what the loop still holds of the first."""
    model.eval()
    part = recorder.begin()
    with torch.no_grad():
        for _ in range(2):
            with autocast():
                out = model(*given[0], **given[1])
    del out
    return {None: [part]}


def beside_mib(subject: Subject) -> float:
    """Tell how much the job holds beside the model in fp32, in MiB."""
    others = [*subject.modules().parameters(), *subject.modules().buffers(), *_of(subject.beside, torch.Tensor)]
    sizes = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in others}
    for tensor in (*subject.model.parameters(), *subject.model.buffers()):
        sizes.pop(tensor.untyped_storage()._cdata, None)
    held: int = sum(sizes.values())
    return held / MIB


def followed(parts: Sequence[Part], others: Mapping[int, Sequence[int]]) -> tuple[float, float, float]:
    """Follow PyTorch's allocator through what was written down.

    Args:
        parts: tensors that came and went.
        others: what may be taken in place of some of them, in each of `DRAWS` other processes.

    Returns:
        The most that was used at once, what a new process holds for it, and the most that another may, in MiB.
    """
    new = _replayed(parts, Allocator(), {})
    held = [new.held]
    for draw in range(DRAWS):
        drawn = {number: sizes[draw] for number, sizes in others.items()}
        held.append(_replayed(parts, Allocator(anywhere(draw)), drawn).held)
    return new.most_used / MIB, new.held / MIB, max(held) / MIB


def _replayed(parts: Sequence[Part], allocator: Allocator, instead: Mapping[int, int]) -> Allocator:
    blocks: dict[int, Block | None] = {}
    for part in parts:
        for number, size in part:
            if size != GONE:
                blocks[number] = allocator.take(instead.get(number, size))
            elif number in blocks:
                allocator.give(blocks.pop(number))
    return allocator
