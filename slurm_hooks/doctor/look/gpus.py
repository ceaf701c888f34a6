"""What NVML tells of the node's GPUs."""

from __future__ import annotations

from predictor import nvml


def gpus() -> tuple[int | None, int, tuple[tuple[str, int], ...], str]:
    """Number and least memory of the GPUs not in MIG mode, or None and why NVML does not tell; and MIG instances."""
    try:
        pynvml = nvml.load()
    except nvml.NvmlMissingError as error:
        return None, 0, (), str(error)
    try:
        pynvml.nvmlInit()
        try:
            handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
            found = [nvml.instances(pynvml, handle) for handle in handles]
            whole = [handle for handle, several in zip(handles, found, strict=True) if several is None]
            told = filter(None, (nvml.quiet(pynvml, "nvmlDeviceGetMemoryInfo", handle) for handle in whole))
            memory_mib = min((int(memory.total) // nvml.MIB for memory in told), default=0)
            return len(whole), memory_mib, tuple(one for several in found for one in several or ()), ""
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return None, 0, (), str(error)
