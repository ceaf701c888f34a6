"""Memory by running the model's own code on tensors without data (torch's FakeTensorMode). Needs torch.

Counts what a training step keeps alive: parameters, gradients, optimizer state, activations and
temporaries. It cannot see what the GPU's libraries take beside tensors (convolution workspaces, the
allocator's rounding, the CUDA context); the published tool has the same blind spot, and the results
page shows what it costs. It needs the model's code: a summary alone is refused.
"""

from __future__ import annotations

import copy
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from inspect import signature
from typing import Any

from estimator.family import family_of
from estimator.fingerprint import fingerprint
from estimator.types import Estimate, ModelSummary, SummaryError, Workload
from estimator.walk import layers

MIB = 2**20
Inputs = Callable[[Any, int], tuple[tuple[Any, ...], Mapping[str, Any]]]
"""Makes a model's arguments from the model and a batch size."""
# Samples of the input that tells lazy layers their sizes.
_FIRST = 2
_PICTURES = 4  # dimensions


def live_bytes_mode() -> Any:
    """Return a torch dispatch mode that knows the bytes of live storages, now and at their peak.

    Attributes ``live`` and ``peak`` of the mode hold bytes; ``watch(tensor)`` counts a tensor that was
    made before the mode was entered, ``reset()`` sets the peak to what is live.
    """
    import torch  # noqa: PLC0415
    from torch.utils._python_dispatch import TorchDispatchMode  # noqa: PLC0415
    from torch.utils._pytree import tree_leaves  # noqa: PLC0415

    class LiveBytes(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.live = 0
            self.peak = 0
            self._known: dict[int, Any] = {}

        def reset(self) -> None:
            self.peak = self.live

        def watch(self, tensor: torch.Tensor) -> None:
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key in self._known:
                return
            size = storage.nbytes()
            self.live += size
            self.peak = max(self.peak, self.live)

            def forget(_: Any, key: int = key, size: int = size) -> None:
                if self._known.pop(key, None) is not None:
                    self.live -= size

            self._known[key] = weakref.ref(storage, forget)

        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            out = func(*args, **(kwargs or {}))
            for leaf in tree_leaves(out):
                if isinstance(leaf, torch.Tensor):
                    self.watch(leaf)
            return out

    return LiveBytes()


def fake_mode() -> Any:
    """Return a mode of tensors without data (`estimator.rehearsals.fake_mode`)."""
    from estimator.rehearsals.fake_mode import Mode  # noqa: PLC0415

    return Mode(allow_non_fake_inputs=True)


@contextmanager
def unseen_values() -> Iterator[None]:
    """Let PyTorch's own code that looks at values take tensors without data: transformers, distributions, CTC's loss.

    A square mask is taken for causal, as most are, and padding for one that leaves no token out. What distributions are
    given is not checked. Lengths that CTC's loss is given in lists are made tensors, where PyTorch would write them
    into one without data.
    """
    import torch  # noqa: PLC0415
    from torch.distributions import Distribution  # noqa: PLC0415
    from torch.nn.modules import transformer  # noqa: PLC0415

    ctc_loss = torch.ctc_loss

    def of_tensors(scores: Any, targets: Any, steps: Any, lengths: Any, *settings: Any) -> Any:
        return ctc_loss(scores, targets, torch.as_tensor(steps), torch.as_tensor(lengths), *settings)

    # Some are private to PyTorch, and not in all its versions.
    places: tuple[tuple[Any, str, Any], ...] = (
        (transformer, "_detect_is_causal_mask", _is_square),
        (torch, "_nested_tensor_from_mask_left_aligned", lambda *_: False),
        (Distribution, "_validate_args", False),
        (torch, "ctc_loss", of_tensors),
    )
    with ExitStack() as back:
        for module, name, instead in places:
            if hasattr(module, name):
                back.callback(setattr, module, name, getattr(module, name))
                setattr(module, name, instead)
        yield


def _is_square(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    if is_causal is not None or mask is None:
        return bool(is_causal)
    length = mask.size(-2) if size is None else size
    return bool(mask.size() == (length, length))


def _step_peak(
    mode: Any,
    model: Any,
    inputs: tuple[tuple[Any, ...], Mapping[str, Any]],
    loss: Callable[[Any], Any],
    workload: Workload,
) -> int:
    from estimator.dataset.measure import make_optimizer, step  # noqa: PLC0415

    optimizer = make_optimizer(workload.optimizer, model) if workload.kind == "train" else None
    kept: list[Any] = []
    for _ in range(2):  # the second step meets the optimizer's state of the first
        kept = [step(model, inputs, loss, optimizer, precision=workload.precision, scaler=None, device="cuda")]
    del kept
    return int(mode.peak)


def peak_mib(
    build: Callable[[], Any],
    inputs: Inputs,
    loss: Callable[[Any], Any],
    workload: Workload,
) -> float:
    """Return the peak of live tensor bytes of two steps, in MiB.

    Args:
        build: makes the model; runs under FakeTensorMode, so that it allocates nothing.
        inputs: makes the model's arguments from the model and a batch size, under the same mode.
        loss: makes a loss of the model's output; not called for ``infer``.
        workload: how the model is run.

    Raises:
        ImportError: torch is not installed.
        Exception: what torch raises where the model's code needs the values of its tensors.
    """
    import torch  # noqa: PLC0415

    fake, mode = fake_mode(), live_bytes_mode()
    model = fake_model(with_sizes(build, inputs), fake)
    with fake, mode, unseen_values():
        # Without a GPU there is nothing to place fake tensors on but the CPU: sizes are the same.
        if workload.precision in ("bf16", "fp16"):
            cast(model, torch.bfloat16 if workload.precision == "bf16" else torch.float16)
        for tensor in (*model.parameters(), *model.buffers()):
            mode.watch(tensor)
        mode.reset()
        return _step_peak(mode, model, inputs(model, workload.batch_size), loss, workload) / MIB


def cast(model: Any, dtype: Any, of: Any = None) -> None:
    """Cast a fake model in place, or what in it is of one type; ``module.to`` swaps tensors, which fake ones forbid."""
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.is_floating_point() and tensor.dtype != dtype and tensor.dtype == (of or tensor.dtype):
            tensor.data = tensor.data.to(dtype)
            tensor.constant = None  # else torch goes on computing with a number as its code wrote it down, in fp32


def fake_model(build: Callable[[], Any], fake: Any) -> Any:
    """Build a model of fake tensors: under the mode, or as a copy of a real one where its code does not run on them.

    Raises:
        Exception: what the code raises, without the mode too.
    """
    from torch._subclasses.fake_tensor import FakeCopyMode  # noqa: PLC0415
    from torch._subclasses.fake_tensor import FakeTensor as Fake  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")  # as copying a layer does
        try:
            with fake:
                model = build()
        except Exception:  # it reads values, or does what fake tensors cannot
            model = build()
    if all(isinstance(tensor, Fake) for tensor in (*model.parameters(), *model.buffers())):
        return model
    with FakeCopyMode(fake):
        return copy.deepcopy(model)


def fake_beside(make: Callable[[Any], Any], model: Any, fake: Any) -> Any:
    """Make of a fake model what stands beside it, its modules of fake tensors; that may be a copy of the model.

    They are copies of real ones where these were there before, or where the code does not run on tensors without data.

    Raises:
        Exception: what the code raises, without the mode too.
    """
    import torch  # noqa: PLC0415
    from torch._subclasses.fake_tensor import FakeCopyMode  # noqa: PLC0415
    from torch._subclasses.fake_tensor import FakeTensor as Fake  # noqa: PLC0415
    from torch.utils._pytree import tree_map  # noqa: PLC0415

    class CopyModel(FakeCopyMode):
        """Copies what is fake alone: the code's own layers, which may copy one another, stay real."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if args and isinstance(args[0], torch.Tensor) and not isinstance(args[0], Fake):
                return func(*args, **(kwargs or {}))
            return super().__torch_function__(func, types, args, kwargs)

    try:
        with fake, _moving(), FakeCopyMode(fake):  # without the second no layer is copied that counts its batches
            held = make(model)
    except Exception:
        with _moving(), CopyModel(fake):
            held = make(model)
    with FakeCopyMode(fake):
        memo: dict[int, Any] = {id(own): own for own in (*model.modules(), *model.parameters(), *model.buffers())}

        def faked(leaf: Any) -> Any:
            own = (leaf,)
            if isinstance(leaf, torch.nn.Module):
                own = (*leaf.parameters(), *leaf.buffers())
            elif not isinstance(leaf, torch.nn.Parameter):
                return leaf
            if all(isinstance(tensor, Fake) for tensor in own):
                return leaf
            memo.update((id(tensor), tensor) for tensor in own if isinstance(tensor, Fake))
            return copy.deepcopy(leaf, memo)

        return tree_map(faked, held)


@contextmanager
def _moving() -> Iterator[None]:
    """Let ``module.to`` and the like move and cast fake modules, whose tensors PyTorch would swap, which it cannot."""
    import torch  # noqa: PLC0415
    from torch._subclasses.fake_tensor import FakeTensor as Fake  # noqa: PLC0415

    as_torch_does = torch.nn.Module._apply

    def apply(module: Any, change: Callable[[Any], Any], recurse: bool = True) -> Any:
        own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        if not any(isinstance(tensor, Fake) for tensor in own):
            return as_torch_does(module, change, recurse)
        for child in module.children() if recurse else ():
            child._apply(change)
        for tensor in own:
            tensor.data = change(tensor.data)
            tensor.constant = None
        return module

    torch.nn.Module._apply = apply
    try:
        yield
    finally:
        torch.nn.Module._apply = as_torch_does


def with_sizes(build: Callable[[], Any], inputs: Inputs) -> Callable[[], Any]:
    """Return what makes a model whose lazy layers know their sizes: they take them from a first input.

    Args:
        build: makes the model.
        inputs: makes its arguments from the model and a batch size.
    """

    def make() -> Any:
        model = build()
        if is_lazy(model):
            import torch  # noqa: PLC0415

            training = model.training
            given, named = inputs(model, _FIRST)
            with torch.no_grad():
                model.eval()(*given, **named)
            model.train(training)
        return model

    return make


def is_lazy(model: Any) -> bool:
    """Tell whether a model has layers that do not know their sizes yet."""
    return any(hasattr(parameter, "materialize") for parameter in model.parameters())


class FakeTensor:
    """The method ``faketensor``: predicts only where it is given the model's code."""

    name = "faketensor"

    def __init__(self, build: Callable[[], Any] | None = None, inputs: Inputs | None = None) -> None:
        """Bind a model's code.

        Args:
            build: makes the model.
            inputs: makes its arguments from the model and a batch size.
        """
        self._build, self._inputs = build, inputs

    def predict(self, summary: ModelSummary, workload: Workload) -> Estimate:
        """Estimate the peak of live tensors; ``upper_mib`` equals ``expected_mib``, it has no bound.

        Raises:
            SummaryError: the method has no code to run, only the summary.
        """
        if self._build is None or self._inputs is None:
            raise SummaryError(
                "faketensor runs the model's own code and was given only a summary "
                f"({summary.format}, {summary.total_params:,} parameters): radctl estimate takes it as --model "
                "MODULE:FACTORY; or choose method rad, gpumemnet or horus"
            )
        mib = round(peak_mib(self._build, self._inputs, first_sum, workload))
        family = family_of(layers(summary.root))
        reasons = ("tensors only: no workspaces, no CUDA context",)
        return Estimate(mib, mib, self.name, family, fingerprint(summary, workload), reasons)


def plain_inputs(shape: tuple[int, ...] | None, seq_len: int | None) -> Inputs:
    """Return what makes a model's only argument: numbers of ``shape`` an example, or ``seq_len`` token ids.

    Raises:
        ValueError: neither is given.
    """
    if shape is None and seq_len is None:
        raise ValueError("faketensor must know what goes in: give the shape of one example or the sequence length")

    def inputs(model: Any, batch: int) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        import torch  # noqa: PLC0415

        if shape is None:
            return (torch.zeros(batch, seq_len or 1, dtype=torch.long),), {}
        return (torch.zeros(batch, *shape, dtype=dtype_of(model)),), {}

    return inputs


def own_inputs(make: Callable[[int], Any]) -> Inputs:
    """Return what makes a model's arguments as a user's own function says.

    A model in half precision is given its numbers in that, as who trains one casts them.

    Args:
        make: makes them of a batch size: a tuple of arguments, a mapping of named ones, or the only one.
    """

    def inputs(model: Any, batch: int) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        from torch.utils._pytree import tree_map  # noqa: PLC0415

        made = make(batch)
        named = dict(made) if isinstance(made, Mapping) else {}
        given = () if isinstance(made, Mapping) else made if isinstance(made, tuple) else (made,)
        cast_all = partial(tree_map, partial(_halved, dtype=dtype_of(model)))
        return cast_all(given), cast_all(named)

    return inputs


def dtype_of(model: Any) -> Any:
    """Give the type of a model's numbers."""
    import torch  # noqa: PLC0415

    kinds = (parameter.dtype for parameter in model.parameters() if parameter.is_floating_point())
    return next(kinds, torch.get_default_dtype())


def _halved(given: Any, dtype: Any) -> Any:
    """Cast a tensor of fp32 for a model in half precision; give all else back."""
    import torch  # noqa: PLC0415

    if isinstance(given, torch.Tensor) and given.dtype == torch.float32 and dtype in (torch.bfloat16, torch.float16):
        return given.to(dtype)
    return given


def with_labels(model: Any, inputs: Inputs) -> Inputs:
    """Give a model that takes ``labels`` a class for each row of its logits, or each pixel, if a loss comes of that.

    Args:
        model: of fake tensors, in their mode.
        inputs: makes its other arguments from the model and a batch size.
    """
    import torch  # noqa: PLC0415

    def labelled(of: Any, batch: int) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        given, named = inputs(of, batch)
        return given, {**named, "labels": torch.zeros(batch, *rows, dtype=torch.long)}

    try:
        if "labels" not in signature(model.forward).parameters:
            return inputs
        with torch.no_grad():
            given, named = inputs(model, _FIRST)
            if "labels" in named:
                return inputs
            logits = model(*given, **named).logits
            # Of pictures a class for each pixel that came in, as which logits may be made larger.
            rows = logits.shape[1:-1] if logits.dim() < _PICTURES else given[0].shape[2:]
            given, named = labelled(model, _FIRST)
            loss = model(*given, **named).loss
    except Exception:  # nobody can say what it takes, what it gives out is otherwise, or it wants others
        return inputs
    return labelled if isinstance(loss, torch.Tensor) else inputs


def first_sum(out: Any) -> Any:
    """Return the sum of the first floating-point tensor in a model's output: a loss for any model."""
    import torch  # noqa: PLC0415
    from torch.utils._pytree import tree_leaves  # noqa: PLC0415

    leaves = out.values() if isinstance(out, Mapping) else tree_leaves(out)
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            return leaf.float().sum()
    raise TypeError(f"the model returned {type(out).__name__} without a floating-point tensor to make a loss of")
