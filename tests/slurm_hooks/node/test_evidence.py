from __future__ import annotations

import os
import time

import pytest

from slurm_hooks.node.evidence import of_lost_mps, of_memory

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    step()\n'
TORCH = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 14 GiB"


@pytest.mark.parametrize(
    "line",
    [
        TORCH,
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 14.00 GiB total)",
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB",
        "RuntimeError: CUDA error: out of memory",
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "ERROR: CUDA out of memory. Tried to allocate 512.00 MiB",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node}} OOM when allocating tensor",
        "2026-01-01 W tensorflow OOM when allocating tensor with shape[64,512] and type float",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8 bytes.",
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000 bytes",
        "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorMemoryAllocation: out of memory",
        "failed to allocate 12.00G: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    ],
)
def test_errors_of_frameworks(line: str) -> None:
    assert of_memory(f"epoch 1\n{TRACE}{line}\n".encode()) == line


@pytest.mark.parametrize(
    "log",
    [
        "",
        "CUDA out of memory\n",  # anybody's words
        "MemoryError: out of memory\n",  # the host's
        "slurmstepd: error: Detected 1 oom-kill event(s)\n",
        "OutOfMemoryError\n",
        TRACE + "ValueError: out of memory bounds\n",
    ],
)
def test_what_is_no_error_of_a_framework(log: str) -> None:
    assert of_memory(log.encode()) == ""


@pytest.mark.parametrize(
    ("after", "believed"),
    [
        ("", True),
        ("trying a smaller batch\nepoch 2\n", True),  # the exit status tells that it did not help
        (TRACE + "KeyError: 'loss'\n", False),
        (TRACE + "mylib.errors.ConfigError: bad\n", False),
        ("[rank0]: " + TRACE.replace("\n  ", "\n[rank0]:   ") + "[rank0]: KeyError: 'loss'\n", False),
        ("\nDuring handling of the above exception, another exception occurred:\n\n" + TRACE + "MyError: x\n", True),
        (
            "\nThe above exception was the direct cause of the following exception:\n\n" + TRACE + "FitError: x\n",
            True,
        ),
        (TRACE + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n", True),
        (TRACE + "subprocess.CalledProcessError: Command '['python']' returned 1\n", True),
        (TRACE, True),
        (TRACE + "!!\n", True),
    ],
)
def test_an_error_that_was_survived(after: str, believed: bool) -> None:
    assert bool(of_memory(f"{TRACE}{TORCH}\n{after}".encode())) is believed


def test_the_last_error_counts() -> None:
    log = f"{TRACE}{TORCH}\n{TRACE}KeyError: 'x'\n{TRACE}RuntimeError: CUDA error: out of memory\n"
    assert of_memory(log.encode()) == "RuntimeError: CUDA error: out of memory"


def test_evidence_is_one_short_printable_line() -> None:
    log = b"x" * 5000 + b"\x1b[31m\0 20%|##  \r\x1b[0m" + TORCH.encode() + b"\x07" + b"y" * 5000 + b"\nnext"
    shown = of_memory(log)
    assert shown.startswith("?[0mtorch.OutOfMemoryError")
    assert len(shown) <= 200
    assert shown.isprintable()


@pytest.mark.parametrize(
    "log",
    [
        os.urandom(1 << 20),
        b"Traceback (most recent call last):\n" * 30_000,
        (TORCH.encode() + b"\n") * 9_000,
        TORCH.encode() + b"\n" + b"Traceback (most recent call last):\n" * 29_000,
        TORCH.encode() + b"\n" + b"Traceback (most recent call last):\n" + b" \n" * 500_000,
        TORCH.encode() + b"\n" + b" Traceback (most recent call last):\n" * 28_000,
        b"a." * 500_000 + b"\n" + b"ResourceExhaustedError " * 40_000,
    ],
)
def test_hostile_logs_take_no_time(log: bytes) -> None:
    begin = time.process_time()
    of_memory(log)
    assert time.process_time() - begin < 5


def test_the_error_counts_and_not_what_pytorch_says_to_search_for() -> None:
    words = "the remote procedural call between the MPS server and the MPS client failed"
    error = f"torch.AcceleratorError: CUDA error: {words}"
    below = "Search for `cudaErrorMpsRpcFailure' in https://docs.nvidia.com/cuda/ for more information.\n"
    assert of_lost_mps(f"{TRACE}{error}\n{below}".encode()) == error


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA error: the remote procedural call between the MPS server and the MPS client failed",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 805: MPS client failed to connect to the MPS",
        "RuntimeError: CUDA error: MPS server is not ready to accept new MPS client requests",
        "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: CUDA_ERROR_MPS_CLIENT_TERMINATED",
        "cudaErrorMpsRpcFailure",
    ],
)
def test_a_lost_server(line: str) -> None:
    assert of_lost_mps(f"epoch 1\n{TRACE}{line}\n".encode()) == line
    assert of_memory(f"epoch 1\n{TRACE}{line}\n".encode()) == ""
    assert of_lost_mps(f"{TRACE}{line}\n{TRACE}KeyError: 'x'\n".encode()) == ""


@pytest.mark.parametrize("log", ["", "the MPS server is not ready\n", TORCH])
def test_no_lost_server(log: str) -> None:
    assert of_lost_mps(log.encode()) == ""
