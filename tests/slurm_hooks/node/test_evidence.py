from __future__ import annotations

import calendar
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from slurm_hooks.node.evidence import Fault, broken_together, of_fault, of_lost_mps, of_memory

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    step()\n'
TORCH = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 14 GiB"


def _logged(text: str) -> str:
    """`text` with a logger's words before each line."""
    return "".join(
        f"(EngineCore_DP0 pid=17374) ERROR 06-03 12:30:46 [multiproc_executor.py:870] {line}\n"
        for line in text.splitlines()
    )


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
        "RuntimeError: CUDA driver error: out of memory",
        "CUDA Error: out of memory",
        "RuntimeError: Triton Error [CUDA]: out of memory",
        'RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "../c10/cuda/CUDACachingAllocator.cpp":838, please',
        "RuntimeError: cuFFT error: CUFFT_ALLOC_FAILED",
        "RuntimeError: cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`",
        "node07:99:101 [0] include/alloc.h:320 NCCL WARN Cuda failure 2 'out of memory'",
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: failed to allocate memory [Op:AddV2]",
        "Out of memory while trying to allocate 2147483648 bytes.",
        "tensorflow.python.framework.errors_impl.InternalError: Failed copying: Dst tensor is not initialized.",
        "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate 17179869184 bytes for new constant",
        "bfc_arena.cc:376 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool) Failed to allocate memory for",
        "onnxruntime::CudaCall(ERRTYPE, int) CUDA failure 2: out of memory ; GPU=0 ; hostname=node07",
        "(EngineCore pid=7) ValueError: No available memory for the cache blocks. Try increasing",
        "ValueError: Free memory on device (3.2/4.0 GiB) on startup is less than desired GPU memory utilization (0.9)",
        "ValueError: (4.0 GiB KV cache is needed, which is larger than the available KV cache memory (0.65 GiB).",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        "W tensorflow/core/framework/op_kernel.cc:1733] RESOURCE_EXHAUSTED: failed to allocate memory",
        "Out of memory error on GPU 0. Cannot allocate 1.953125GB memory on GPU 0, 22.1GB memory has been allocated",
        "[TRT] [E] 1: [defaultAllocator.cpp::allocate::20] Error Code 1: Cuda Runtime (out of memory)",
        "ERROR: LoadError: Out of GPU memory trying to allocate 8.000 GiB",
        "ggml_backend_cuda: allocating 4096.00 MiB on device 0: cudaMalloc failed: out of memory",
        "mxnet.base.MXNetError: storage/./pooled_storage_manager.h:157: cudaMalloc retry failed: out of memory",
        "pycuda._driver.MemoryError: cuMemAlloc failed: out of memory",
        "MemoryError: std::bad_alloc: out_of_memory: CUDA error at: x.hpp:70: cudaErrorMemoryAllocation out of memory",
        "CUDA error #2 (cudaErrorMemoryAllocation): out of memory.",
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
        "OP_REQUIRES failed: Resource exhausted: OOM when allocating tensor with shape[1,3] on /device:CPU:0 by cpu\n",
        TRACE + "ResourceExhaustedError: OOM when allocating tensor with shape[1,3] on /device:CPU:0 by cpu\n",
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
        # What Python says of other threads, and while it ends.
        ("Exception ignored in: <function Iter.__del__ at 0x7f>\n" + TRACE + "AssertionError: no child\n", True),
        ("Exception in thread Thread-5 (_pin_memory_loop):\n" + TRACE + "ValueError: x\n", True),
        ("Error in atexit._run_exitfuncs:\n" + TRACE + "ValueError: x\n", True),
        # What those say who worked with the process that died.
        (TRACE + "RuntimeError: DataLoader worker (pid 7) exited unexpectedly with exit code 1\n", True),
        (TRACE + "RuntimeError: Engine core initialization failed. See root cause above.\n", True),
        (TRACE + "RuntimeError: [third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer\n", True),
        (TRACE + "torch.distributed.DistBackendError: NCCL error: remote process exited\n", True),
        (TRACE + "concurrent.futures.process.BrokenProcessPool: A process was terminated abruptly\n", True),
        (TRACE + "ray.tune.error.TuneError: ('Trials did not complete', [train_1])\n", True),
        (TRACE + "ray.train.base_trainer.TrainingFailedError: The Ray Train run failed.\n", True),
        (TRACE + "RuntimeError: the shapes do not match\n", False),
        # Words that make an error harmless stand right before it.
        (TRACE + "KeyError: 'loss'\nException ignored in: <x>\n", False),
        ("Exception ignored in: <x>\n" + "epoch 2\n" * 30 + TRACE + "KeyError: 'loss'\n", False),
        # A last line without an end; a blank line among the frames; ranks that write at once.
        (TRACE + "KeyboardInterrupt", True),
        (TRACE + "\n" + "  File \"b.py\"\nKeyError: 'loss'\n", False),
        ("[rank0]: " + TRACE + "[rank1]:   File \"b.py\"\n[rank1]: KeyError: 'loss'\n", False),
        # A logger's words before each line, and a progress bar before the first.
        (_logged(TRACE + "KeyError: 'loss'\n"), False),
        (_logged(TRACE + "RuntimeError: Engine core initialization failed.\n"), True),
        ("\r  5%|" + "#" * 80 + "| 12/99 [00:12<01:28, 9.9it/s]" + TRACE + "KeyError: 'loss'\n", False),
    ],
)
def test_an_error_that_was_survived(after: str, believed: bool) -> None:
    assert bool(of_memory(f"{TRACE}{TORCH}\n{after}".encode())) is believed


def test_the_last_error_counts() -> None:
    log = f"{TRACE}{TORCH}\n{TRACE}KeyError: 'x'\n{TRACE}RuntimeError: CUDA error: out of memory\n"
    assert of_memory(log.encode()) == "RuntimeError: CUDA error: out of memory"


def test_what_made_an_earlier_error_harmless_does_not_make_a_later_one() -> None:
    log = f"{TRACE}ValueError: x\nDuring handling of the above exception, another exception occurred:\n\n{TORCH}\n"
    assert of_memory(f"{log}{TRACE}KeyError: 'loss'\n".encode()) == ""


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\r", "\r\0\n", "\r 5%|##   |"])
def test_evidence_may_end_in_any_way(end: str) -> None:
    assert of_memory(f"epoch 1\r{TORCH}{end}".encode()) == TORCH


def test_evidence_is_one_short_printable_line() -> None:
    log = b"x" * 5000 + b"\x1b[31m\0 20%|##  \r\x1b[0m" + TORCH.encode() + b"\x07" + b"y" * 5000 + b"\nnext"
    shown = of_memory(log)
    assert shown.startswith("?[0mtorch.OutOfMemoryError")
    assert len(shown) <= 200
    assert shown.isprintable()
    assert (
        of_memory(b"\0" * 5000 + b"RuntimeError: CUDA out of memory. Tried")
        == "RuntimeError: CUDA out of memory. Tried"
    )
    assert of_memory(b"x" * 300 + b" CUDA error: out of memory").startswith("x" * 79 + " CUDA error")  # 80 before it


@pytest.mark.parametrize(
    "log",
    [
        os.urandom(1 << 20),
        b"Traceback (most recent call last):\n" * 30_000,
        (TORCH.encode() + b"\n") * 9_000,
        TORCH.encode() + b"\n" + b"Traceback (most recent call last):\n" * 29_000,
        TORCH.encode() + b"\n" + b"Traceback (most recent call last):\n" + b" \n" * 500_000,
        TORCH.encode() + b"\n" + b" Traceback (most recent call last):\n" * 28_000,
        TORCH.encode() + b"\n" + (b"\r" + b"x" * 299) * 3_000,
        TORCH.encode() + b"\n" + b"\r" * 1_000_000,
        TORCH.encode() + b"\n" + b"\rTraceback (most recent call last):" * 29_000,
        TORCH.encode() + b"\n" + b"Traceback (most recent call last):" * 29_000,
        TORCH.encode() + b"\n" + b"x" * 299 + b"Traceback (most recent call last):\n" + b" \n" * 500_000,
        b"InternalError: " * 70_000,
        b"cupy." * 200_000,
        b"OOM when allocating tensor with shape /device:CPU" * 20_000,
        b"NVML_SUCCESS == x INTERNAL ASSERT FAILED at " * 20_000,
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


@pytest.mark.parametrize(
    "line",
    [
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        "RuntimeError: CUDA error: unspecified launch failure",
        "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorIllegalAddress: an illegal memory access",
        "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: CUDA_ERROR_ILLEGAL_ADDRESS",
    ],
)
def test_a_fault_of_the_gpu(line: str) -> None:
    assert of_fault(f"epoch 1\n{TRACE}{line}\nSearch for `cudaErrorLaunchFailure' in\n".encode()) == line
    assert of_fault(f"{TRACE}{line}\n{TRACE}KeyError: 'x'\n".encode()) == ""


def test_an_assertion_breaks_its_own_process_alone() -> None:
    assert of_fault(f"{TRACE}torch.AcceleratorError: CUDA error: device-side assert triggered\n".encode()) == ""


# As an H200's server wrote it (driver 580): 525 made the fault.
_HEAD = "[2026-11-21 00:53:23.237 Server   513] "
FAULTY = [
    "Client {PID: 472, Context: 1} encountered a fatal GPU error.",
    "Server is handling a fatal GPU error.",
    "Client {PID: 525, Context ID: 1} on device 0 to be torn down",
    "All clients belonging to error trigging process 472 will be torn down",
    "The following devices will be reset:",
    "0",
    "The following client process have a sticky error set:",
    "472",
    "525",
    "Client process 525 disconnected",
    "Client {PID: 472, Context ID: 1} exiting. Number of active client contexts is 0.",
    "7",
]
EXITING = "Client {PID: 470, Context ID: 1} exiting. Number of active client contexts is 2."
_AT = int(time.mktime((2026, 11, 21, 0, 53, 23, 0, 0, -1)))


def _server_log(lines: list[str]) -> bytes:
    return "".join(f"{_HEAD}{line}\n" for line in lines).encode()


def test_whom_a_server_calls_broken() -> None:
    both = _server_log(FAULTY)
    assert broken_together(both, _AT - 60, _AT) == Fault(_AT, ended=False)
    alone = [line for line in FAULTY if "472" not in line]
    assert broken_together(_server_log(alone), _AT - 60, _AT) is None
    other = _server_log([line for line in FAULTY if "525" not in line]).replace(b"00:53", b"00:54")
    assert broken_together(_server_log(alone) + other, _AT - 60, _AT + 60) is None  # one after another, each by itself
    assert broken_together(both + _server_log(FAULTY[:1]), _AT, _AT + 60) == Fault(_AT, ended=False)
    assert broken_together(both + both.replace(b"2026", b"2027"), _AT, _AT + 60) == Fault(_AT, ended=False)
    assert broken_together(both + both.replace(b":23.", b":43."), _AT, _AT + 60) == Fault(_AT + 20, ended=False)
    assert broken_together(both, _AT + 1, _AT + 60) is None
    assert broken_together(both, _AT - 60, _AT - 1) is None


@pytest.mark.parametrize(
    ("second", "line", "place", "ended"),
    [
        (21, EXITING, 0, True),
        (23, EXITING, 1, True),
        (23, EXITING, len(FAULTY), True),
        (25, EXITING, len(FAULTY), True),
        (20, EXITING, 0, False),
        (26, EXITING, len(FAULTY), False),
        (23, EXITING.replace("470", "472"), len(FAULTY), False),
        (23, EXITING.replace("1}", "0}"), 0, False),
        (23, "Client process 470 disconnected", len(FAULTY), False),  # it came as that happened, and was turned away
        (23, "Client {PID: 470, Context ID: 1} connected", 0, False),
    ],
)
@pytest.mark.parametrize("broken", ["472 525", "472"])
def test_a_client_that_ended_as_others_were_broken(
    second: int, line: str, place: int, ended: bool, broken: str
) -> None:
    lines = [f"{_HEAD}{said}" for said in FAULTY if not said.isdigit() or said in {"0", *broken.split()}]
    lines = [said for said in lines if "process 525" not in said or "525" in broken]
    lines.insert(min(place, len(lines)), _HEAD.replace(":23.", f":{second}.") + line)
    found = broken_together("".join(f"{said}\n" for said in lines).encode(), _AT - 60, _AT)
    assert found == (Fault(_AT, ended) if ended or " " in broken else None)


def _recorded(bench: str) -> Any:
    """What a bench of MPS saw on an H200; `scripts/results_gpu` shows it."""
    return json.loads((Path(__file__).parents[3] / f"docs/results/gpu/{bench}.json").read_text("utf-8"))


def _ended_by(log: str) -> bool | None:
    fault = broken_together(log.encode(), 0, 2**40)
    return None if fault is None else fault.ended


def test_what_real_servers_wrote_as_a_client_ended_in_its_kernels() -> None:
    logs = {way: row["log"] for ways in _recorded("mps_ends").values() for way, row in ways.items() if row["log"]}
    assert {"SIGTERM", "SIGKILL"} <= set(logs)
    assert {way: _ended_by(log) for way, log in logs.items()} == dict.fromkeys(logs, True)


def test_what_real_servers_wrote_as_a_clients_kernel_was_at_fault() -> None:
    cases = {name: case for name, case in _recorded("mps").items() if name.startswith("fault: ")}
    assert {name: _ended_by(case["logs"]["server.log"]) for name, case in cases.items()} == {
        "fault: assert": None,
        "fault: kill": None,
        "fault: address": False,
        "fault: address and stay": False,
    }


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("month", [7, 11])  # with and without summer time
def test_a_servers_clock_may_show_local_time_or_utc(zone: str, month: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        local = int(time.mktime((2026, month, 21, 0, 53, 23, 0, 0, -1)))
        utc = calendar.timegm((2026, month, 21, 0, 53, 23))
        log = _server_log(FAULTY).replace(b"-11-", f"-{month:02}-".encode())
        assert [broken_together(log, at - 5, at + 5) for at in (local, utc)] == [Fault(local, False), Fault(utc, False)]
        assert broken_together(log, min(local, utc), max(local, utc)) == Fault(local, False)
        assert broken_together(log, max(local, utc) + 60, max(local, utc) + 90) is None
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_servers_clock_shows_an_hour_twice_in_autumn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        log = _server_log(FAULTY).replace(b"2026-11-21 00", b"2026-11-01 01")
        for hour in (5, 6):  # of UTC
            at = calendar.timegm((2026, 11, 1, hour, 53, 23))
            assert broken_together(log, at - 5, at + 5) == Fault(at, False)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "log",
    [
        b"",
        b"\xff\0" * 100_000,
        _server_log(["472", "525"]),
        _server_log(["The following client process have a sticky error set:", "472", "525"]),
        _server_log(["Server is handling a fatal GPU error.", "472", "525"]),
        _server_log(FAULTY).replace(b"2026-11-21 00:53:23", b"9999-99-99 99:99:99"),
        _server_log(FAULTY).replace(b"2026-11-21 00:53:23", b"0000-00-00 00:00:00"),
        (_HEAD.encode() + b"1" * 300) * 900,
        _server_log(["Server is handling a fatal GPU error."]) * 3000,
        _server_log(
            ["Server is handling a fatal GPU error."] * 2000 + [EXITING.replace("470", str(n)) for n in range(2000)]
        ),
    ],
)
def test_what_a_server_did_not_write(log: bytes) -> None:
    begin = time.process_time()
    assert broken_together(log, 0, _AT) is None
    assert time.process_time() - begin < 2
