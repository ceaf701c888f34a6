"""Memory by running the model's own code on tensors without data (torch's FakeTensorMode). Needs torch.

Counts what a training step keeps alive: parameters, gradients, optimizer state, activations and
temporaries. It cannot see what the GPU's libraries take beside tensors (convolution workspaces, the
allocator's rounding, the CUDA context); the published tool has the same blind spot, and the results
page shows what it costs. It needs the model's code: a summary alone is refused.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

from estimator.types import Estimate, Family, ModelSummary, SummaryError, Workload

MIB = 2**20


def live_bytes_mode() -> Any:
    """Return a torch dispatch mode that knows the bytes of live storages, now and at their peak.

    Attributes ``live`` and ``peak`` of the mode hold bytes; ``watch(tensor)`` counts a tensor that was
    made before the mode was entered, ``reset()`` sets the peak to what is live.
    """
    import torch  # noqa: PLC0415
    from torch.utils._python_dispatch import TorchDispatchMode  # noqa: PLC0415
    from torch.utils._pytree import tree_leaves  # noqa: PLC0415

    class LiveBytes(TorchDispatchMode):  # type: ignore[misc] # torch is not followed by mypy
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
    inputs: Callable[[Any, int], tuple[tuple[Any, ...], Mapping[str, Any]]],
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
    from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: PLC0415

    mode = live_bytes_mode()
    with FakeTensorMode(allow_non_fake_inputs=True), mode:
        # Without a GPU there is nothing to place fake tensors on but the CPU: sizes are the same.
        with torch.device("cpu"):
            model = build()
        if workload.precision in ("bf16", "fp16"):
            model = model.to(torch.bfloat16 if workload.precision == "bf16" else torch.float16)
        mode.reset()
        return _step_peak(mode, model, inputs(model, workload.batch_size), loss, workload) / MIB


class FakeTensor:
    """The method ``faketensor``: predicts only where it is given the model's code."""

    name = "faketensor"

    def __init__(
        self,
        build: Callable[[], Any] | None = None,
        inputs: Callable[[Any, int], tuple[tuple[Any, ...], Mapping[str, Any]]] | None = None,
        loss: Callable[[Any], Any] | None = None,
    ) -> None:
        """Bind a model's code.

        Args:
            build: makes the model.
            inputs: makes its arguments from the model and a batch size.
            loss: makes a loss of its output; default: the sum of the first floating-point tensor.
        """
        self._build, self._inputs, self._loss = build, inputs, loss

    def predict(self, summary: ModelSummary, workload: Workload) -> Estimate:
        """Estimate the peak of live tensors; ``upper_mib`` equals ``expected_mib``, it has no bound.

        Raises:
            SummaryError: the method has no code to run, only the summary.
        """
        if self._build is None or self._inputs is None:
            raise SummaryError(
                "faketensor runs the model's own code and was given only a summary "
                f"({summary.format}, {summary.total_params:,} parameters); name the model as MODULE:FACTORY, "
                "or choose method rad, gpumemnet or horus"
            )
        mib = round(peak_mib(self._build, self._inputs, self._loss or first_sum, workload))
        return Estimate(mib, mib, self.name, _family(summary), "", ("tensors only: no workspaces, no CUDA context",))


def first_sum(out: Any) -> Any:
    """Return the sum of the first floating-point tensor in a model's output: a loss for any model."""
    import torch  # noqa: PLC0415
    from torch.utils._pytree import tree_leaves  # noqa: PLC0415

    leaves = out.values() if isinstance(out, Mapping) else tree_leaves(out)
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            return leaf.float().sum()
    raise TypeError(f"the model returned {type(out).__name__} without a floating-point tensor; give a loss")


def _family(summary: ModelSummary) -> Family:
    types = set()
    todo = [summary.root]
    while todo:
        layer = todo.pop()
        types.add(layer.type)
        todo.extend(layer.children)
    if any("Attention" in name or name in ("Embedding", "Conv1D") for name in types):
        return "transformer"
    return "cnn" if any(name.startswith("Conv") for name in types) else "mlp"
