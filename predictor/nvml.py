"""NVML as the profiler and the node's monitor use it: finding the library, GPM's metrics between two samples.

How GPM is asked both know from here (the data set's collection, which has nothing of the predictor, asks for itself:
`estimator/dataset/counters.py`). GPM (Hopper and later) counts what DCGM's profiling fields 1001 to 1010 count. Whoever
calls hands the ``pynvml`` module in, so that a stand-in with its functions does as well.
"""

from __future__ import annotations

import math
from typing import Any

MIB = 2**20
# What we call a metric, and NVML's constant: activities in percent, PCIe traffic in MiB/s. The last one costs a
# thousand times the processor time of any other (python -m scripts.bench.nvml_calls --ways), and can be left out.
GPM_METRICS = (
    ("smact", "NVML_GPM_METRIC_SM_UTIL"),
    ("smocc", "NVML_GPM_METRIC_SM_OCCUPANCY"),
    ("tensor", "NVML_GPM_METRIC_ANY_TENSOR_UTIL"),
    ("dram", "NVML_GPM_METRIC_DRAM_BW_UTIL"),
    ("fp64", "NVML_GPM_METRIC_FP64_UTIL"),
    ("fp32", "NVML_GPM_METRIC_FP32_UTIL"),
    ("fp16", "NVML_GPM_METRIC_FP16_UTIL"),
    ("pcie_tx", "NVML_GPM_METRIC_PCIE_TX_PER_SEC"),
    ("pcie_rx", "NVML_GPM_METRIC_PCIE_RX_PER_SEC"),
    ("busy", "NVML_GPM_METRIC_GRAPHICS_UTIL"),
)
_TRAFFIC = ("pcie_tx", "pcie_rx")


class NvmlMissingError(RuntimeError):
    """NVML's Python binding is not there or is another package; the message says the cure."""


def load() -> Any:
    """The ``pynvml`` module of nvidia-ml-py.

    Raises:
        NvmlMissingError: if there is none, or a package of the same module name that is not NVIDIA's.
    """
    try:
        import pynvml  # noqa: PLC0415 - machines without it must still import this module
    except ImportError as error:
        raise NvmlMissingError("NVML's Python binding is missing: pip install nvidia-ml-py") from error
    if not hasattr(pynvml, "nvmlGpmSampleGet"):
        where = getattr(pynvml, "__file__", None) or "pynvml"
        raise NvmlMissingError(
            f"{where} is not NVIDIA's binding, or is too old: pip uninstall pynvml nvidia-ml-py3; "
            "pip install 'nvidia-ml-py>=12'"
        )
    return pynvml


def quiet(nvml: Any, function: str, *arguments: Any) -> Any:
    """The result of an NVML call, or None where this GPU, driver or binding does not have it."""
    # What newer bindings raise of an older driver is no NVMLError.
    too_old = getattr(nvml, "NVMLLibraryMismatchError", nvml.NVMLError)
    try:
        return getattr(nvml, function)(*arguments)
    except (nvml.NVMLError, too_old, AttributeError):
        return None


def instances(nvml: Any, device: Any) -> list[tuple[str, int]] | None:
    """The MIG instances of a GPU: profile, such as ``1g.18gb``, and memory in MiB. None where MIG is off.

    Args:
        nvml: the ``pynvml`` module, or a stand-in with its functions.
        device: NVML's handle of the GPU.
    """
    mode = quiet(nvml, "nvmlDeviceGetMigMode", device)
    if mode is None or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        return None
    found = []
    for index in range(quiet(nvml, "nvmlDeviceGetMaxMigDeviceCount", device) or 0):
        handle = quiet(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", device, index)
        name, memory = quiet(nvml, "nvmlDeviceGetName", handle), quiet(nvml, "nvmlDeviceGetMemoryInfo", handle)
        if handle is not None and name is not None and memory is not None:
            text = name.decode() if isinstance(name, bytes) else name
            found.append((text.split()[-1], int(memory.total) // MIB))
    return found


class Gpm:
    """GPM's metrics of one GPU between two looks.

    Args:
        nvml: the ``pynvml`` module, or a stand-in with its functions.
        device: NVML's handle of the GPU.
    """

    def __init__(self, nvml: Any, device: Any) -> None:
        self._nvml = nvml
        self._device = device
        self._samples: list[Any] = []
        self._request: Any = None
        support = quiet(nvml, "nvmlGpmQueryDeviceSupport", device)
        self.supported = bool(support is not None and support.isSupportedDevice)

    def begin(self) -> None:
        """Take the first look.

        Raises:
            nvml.NVMLError: if the GPU does not answer.
        """
        nvml = self._nvml
        if not self._samples:
            self._samples = [nvml.nvmlGpmSampleAlloc() for _ in range(2)]
        nvml.nvmlGpmSampleGet(self._device, self._samples[0])

    def read(self, *, busy: bool = True) -> dict[str, float]:
        """Metrics since the last look, which this one takes the place of.

        Args:
            busy: whether to ask for ``busy``, the costly one, too.

        Returns:
            Activities as fractions from 0 to 1 and PCIe traffic in MiB/s; what is not counted is left out, and
            everything is before `begin`.

        Raises:
            nvml.NVMLError: if the GPU does not answer.
        """
        if not self._samples:
            return {}
        nvml, request = self._nvml, self._ready_request(len(GPM_METRICS) - (not busy))
        nvml.nvmlGpmSampleGet(self._device, self._samples[1])
        request.sample1, request.sample2 = self._samples
        nvml.nvmlGpmMetricsGet(request)
        self._samples.reverse()
        found = {}
        for place, (key, _) in enumerate(GPM_METRICS[: request.numMetrics]):
            metric = request.metrics[place]
            value = metric.value
            if metric.nvmlReturn == nvml.NVML_SUCCESS and math.isfinite(value):
                found[key] = float(value) if key in _TRAFFIC else min(max(value / 100.0, 0.0), 1.0)
        return found

    def _ready_request(self, count: int) -> Any:
        nvml = self._nvml
        if self._request is None:
            self._request = nvml.c_nvmlGpmMetricsGet_t()
            for place, (_, constant) in enumerate(GPM_METRICS):
                self._request.metrics[place].metricId = getattr(nvml, constant)
        self._request.version = nvml.NVML_GPM_METRICS_GET_VERSION
        self._request.numMetrics = count
        return self._request

    def close(self) -> None:
        """Give NVML's memory back."""
        for sample in self._samples:
            quiet(self._nvml, "nvmlGpmSampleFree", sample)
        self._samples = []
