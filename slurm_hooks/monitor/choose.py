"""Which backend a node uses: the one that the site names, else the first that works."""

from __future__ import annotations

import logging
import os
from typing import Any

from slurm_hooks.config import Monitor
from slurm_hooks.monitor.dcgm import DcgmBackend
from slurm_hooks.monitor.metrics import Backend, BackendError
from slurm_hooks.monitor.nvml import NvmlBackend

log = logging.getLogger("rad.monitor")

_ABOUT = {
    "dcgm": "DCGM counts, NVML tells the processes",
    "gpm": "NVML counts through GPM",
    "nvml": "NVML alone: no SM activity",
}


def choose(settings: Monitor, nvml: Any = None) -> Backend:
    """Open a backend, and say in the log which.

    Args:
        settings: [monitor].
        nvml: a stand-in for ``pynvml``.

    Raises:
        BackendError: if the one that the site names does not work, or none does.
    """
    backend = _open(settings, nvml)
    log.info("backend %s: %s", backend.name, _ABOUT[backend.name])
    return backend


def _open(settings: Monitor, nvml: Any) -> Backend:
    wanted = settings.backend
    if wanted == "dcgm" or (wanted == "auto" and os.access(settings.dcgmi, os.X_OK)):
        plain = NvmlBackend(gpm=False, nvml=nvml)
        try:
            return DcgmBackend(settings.dcgmi, settings.interval_s, plain)
        except BackendError as error:
            plain.close()
            if wanted == "dcgm":
                raise
            log.warning("%s; NVML is used instead", error)
    backend = NvmlBackend(gpm=wanted != "nvml", nvml=nvml)
    if wanted == "gpm" and not backend.has_gpm:
        backend.close()
        raise BackendError('no GPU of this node has GPM (Hopper and later): set [monitor] backend = "auto"')
    return backend
