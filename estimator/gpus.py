"""GPUs by name: their memory, and what a process takes before its first tensor. Pure data.

The context is what NVML counts for a process beyond the framework's own allocator: the CUDA context, the kernels that
were loaded and the libraries' handles.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class Gpu:
    """One kind of GPU.

    Attributes:
        name: canonical name.
        memory_mib: total memory as NVML reports it.
        context_mib: used by a process that trains with PyTorch, beside its allocator. What a process takes on another
            GPU than the one that was measured on differs by as much as these do.
        measured: whether runs take what they took on the others so marked, as was measured; the rest get a wider bound.
    """

    name: str
    memory_mib: int
    context_mib: int
    measured: bool = False


# H200: NVML's used memory minus the allocator's peak is 742 to 762 MiB in trainings that multiply matrices (CUDA 13,
# PyTorch 2.11); the data set says what it is in others.
# H100: the same software's runs took the same there, contexts too (docs/results/memory-h100.md).
# A100: the smallest of the MLPs and CNNs that GPUMemNet's authors published took 1,443 to 1,451 MiB, and larger MLPs as
# much beyond their tensors. That software loaded all kernels at once; newer one may take half of it.
# Others: a context grows with the number of multiprocessors; scaled from the measured ones.
GPUS = (
    Gpu("h200", 143_771, 752, measured=True),
    Gpu("h100-80gb", 81_559, 752, measured=True),
    Gpu("h100-96gb", 97_871, 752),
    Gpu("h20-96gb", 97_871, 700),
    Gpu("gh200-96gb", 97_871, 752),
    Gpu("b200", 183_359, 800),
    Gpu("a100-40gb", 40_960, 1440),
    Gpu("a100-80gb", 81_920, 1440),
    Gpu("a800-80gb", 81_920, 1440),
    Gpu("a40", 46_068, 520),
    Gpu("a30", 24_576, 500),
    Gpu("a10", 23_028, 480),
    Gpu("a2", 15_356, 350),
    Gpu("l40s", 46_068, 560),
    Gpu("l40", 46_068, 560),
    Gpu("l4", 23_034, 450),
    Gpu("rtx-a6000", 49_140, 520),
    Gpu("rtx-6000-ada", 49_140, 560),
    Gpu("rtx-pro-6000", 97_887, 620),
    Gpu("rtx-5000-ada", 32_760, 490),
    Gpu("rtx-a5000", 24_564, 450),
    Gpu("rtx-a4000", 16_376, 430),
    Gpu("rtx-5090", 32_607, 600),
    Gpu("rtx-4090", 24_564, 520),
    Gpu("rtx-4080", 16_376, 470),
    Gpu("rtx-3090", 24_576, 480),
    Gpu("rtx-3080", 10_240, 450),
    Gpu("rtx-2080-ti", 11_264, 430),
    Gpu("titan-rtx", 24_576, 430),
    Gpu("v100-16gb", 16_384, 460),
    Gpu("v100-32gb", 32_768, 460),
    Gpu("t4", 15_360, 400),
    Gpu("p100-16gb", 16_384, 420),
)
UNKNOWN = Gpu("unknown", 0, 760)

_BY_NAME = {gpu.name: gpu for gpu in GPUS}
# Names as nvidia-smi and gres.conf write them, without "nvidia", blanks as dashes.
_ALIASES = {
    "h100": "h100-80gb",
    "h100-80gb-hbm3": "h100-80gb",
    "h100-pcie": "h100-80gb",
    "h100-sxm5": "h100-80gb",
    "h100-nvl": "h100-96gb",
    "h20": "h20-96gb",
    "gh200": "gh200-96gb",
    "gh200-480gb": "gh200-96gb",
    "h200-nvl": "h200",
    "h200-141gb": "h200",
    "a100": "a100-40gb",
    "a100-sxm4-40gb": "a100-40gb",
    "a100-pcie-40gb": "a100-40gb",
    "a100-sxm-80gb": "a100-80gb",
    "a100-sxm4-80gb": "a100-80gb",
    "a100-80gb-pcie": "a100-80gb",
    "a100-pcie-80gb": "a100-80gb",
    "a800": "a800-80gb",
    "a6000": "rtx-a6000",
    "a5000": "rtx-a5000",
    "a4000": "rtx-a4000",
    "rtx-6000-ada-generation": "rtx-6000-ada",
    "rtx-5000-ada-generation": "rtx-5000-ada",
    "rtx-pro-6000-blackwell-server-edition": "rtx-pro-6000",
    "rtx-pro-6000-blackwell-workstation-edition": "rtx-pro-6000",
    "geforce-rtx-5090": "rtx-5090",
    "geforce-rtx-4090": "rtx-4090",
    "geforce-rtx-4080": "rtx-4080",
    "geforce-rtx-3090": "rtx-3090",
    "geforce-rtx-3080": "rtx-3080",
    "geforce-rtx-2080-ti": "rtx-2080-ti",
    "rtx-2080ti": "rtx-2080-ti",
    "v100": "v100-16gb",
    "v100-sxm2-16gb": "v100-16gb",
    "v100-pcie-16gb": "v100-16gb",
    "v100-sxm2-32gb": "v100-32gb",
    "v100-pcie-32gb": "v100-32gb",
    "v100s-pcie-32gb": "v100-32gb",
    "tesla-t4": "t4",
    "p100": "p100-16gb",
    "p100-pcie-16gb": "p100-16gb",
}


@lru_cache(maxsize=256)
def canonical(name: str) -> str:
    """Give a GPU's canonical name; a name that is not in the table comes back in the same spelling rules.

    Args:
        name: as a user, ``gres.conf`` or NVML writes it: ``A100-SXM4-40GB``, ``NVIDIA H200``, ``a100_40gb``.
    """
    plain = _plain(name)
    return _ALIASES.get(plain, plain)


def _plain(name: str) -> str:
    plain = "-".join(name[:64].lower().replace("_", " ").replace("-", " ").split())
    for vendor in ("nvidia-", "tesla-", "gpu:"):
        if plain.startswith(vendor) and plain != "tesla-t4":
            plain = plain[len(vendor) :]
    return plain


@lru_cache(maxsize=256)
def lookup(name: str) -> Gpu:
    """Find a GPU by any of its names; one that is not known gives `UNKNOWN`, whose memory is 0."""
    return _BY_NAME.get(canonical(name), UNKNOWN)


@lru_cache(maxsize=256)
def is_named(model: str, name: str) -> bool:
    """Whether a GPU model may be called by a name: by another spelling of it, or by one that leaves the variant open.

    Args:
        model: any name of the model.
        name: as a user writes it: ``a100`` names an ``a100-80gb`` too, ``h100-96gb`` no ``h100-80gb``.
    """
    return bool(name) and (canonical(name) == canonical(model) or canonical(model).startswith(f"{_plain(name)}-"))


@lru_cache(maxsize=256)
def most_memory_mib(name: str) -> int:
    """Give the most memory that a GPU of this name has, in MiB; 0 where the name is not known.

    A name that leaves the variant open (``a100``) may mean the largest.
    """
    begin = f"{_plain(name)}-"
    variants = [gpu.memory_mib for gpu in GPUS if gpu.name.startswith(begin)]
    return max(variants, default=lookup(name).memory_mib)
