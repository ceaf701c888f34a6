"""Evidence of what ended a run, in what it wrote to its log: GPU memory, a lost MPS server, a fault of the GPU. Pure.

Only the errors of frameworks and of CUDA count. An error that the program survived does not: where an unrelated
traceback follows it, something else ended the run.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from slurm_hooks.record_text import printable

_OOM = re.compile(
    rb"(?:"
    rb"(?:torch\.(?:cuda\.)?)?OutOfMemoryError: (?:CUDA|HIP) out of memory"  # PyTorch since 1.13
    rb"|RuntimeError: CUDA out of memory"  # PyTorch before
    rb"|CUDA out of memory\. Tried to allocate"  # the same, as Lightning and others log it
    rb"|(?:RuntimeError: |AcceleratorError: |CUDA kernel failed: )?CUDA (?:driver )?[Ee]rror: out of memory"
    rb"|NVML_SUCCESS == [^\n]{1,80} INTERNAL ASSERT FAILED at [^\n]{0,80}CUDACachingAllocator"  # while PyTorch tells it
    rb"|Triton Error \[CUDA\]: out of memory"
    rb"|Cuda failure (?:2 )?'out of memory'"  # NCCL
    rb"|CU(?:BLAS|DNN|FFT|SOLVER|SPARSE)_(?:STATUS_)?ALLOC_FAILED"
    rb"|ResourceExhaustedError[^\n]{0,400}failed to allocate memory"  # TensorFlow
    rb"|ResourceExhaustedError[^\n]{0,400}OOM when allocating(?![^\n]{0,400}/device:CPU)"
    rb"|OOM when allocating tensor with shape(?![^\n]{0,400}/device:CPU)"  # of the CPU it is the machine's memory
    rb"|InternalError: [^\n]{0,400}Dst tensor is not initialized"
    rb"|Out of memory while trying to allocate \d{1,20} bytes"  # XLA, in TensorFlow
    rb"|RESOURCE_EXHAUSTED: (?:[Oo]ut of memory|[Ff]ailed to allocate)"  # JAX, XLA
    rb"|cupy[\w.]{0,60}\.OutOfMemoryError: Out of memory allocating"
    rb"|BFCArena::AllocateRawInternal\([^\n]{0,300}\) Failed to allocate memory"  # ONNX Runtime
    rb"|CUDA failure 2: out of memory"
    rb"|ValueError: No available memory for the cache blocks"  # vLLM
    rb"|KV cache is needed, which is larger than the available KV cache memory"
    rb"|ValueError: Free memory on device [^\n]{0,80}is less than desired GPU memory utilization"
    rb"|RuntimeError: Not enough memory\. Please try to increase --mem-fraction-static"  # SGLang
    rb"|Out of memory error on GPU \d{1,3}\. Cannot allocate"  # PaddlePaddle
    rb"|Cuda Runtime \(out of memory\)"  # TensorRT
    rb"|Out of GPU memory trying to allocate"  # Julia
    rb"|(?:cudaMalloc|cuMemAlloc)\w{0,12}(?: retry)? failed: out of memory"
    rb"|cudaErrorMemoryAllocation\)?:? out of memory"
    rb"|CUDA_ERROR_OUT_OF_MEMORY"
    rb")"
)
# CUDA's errors 805, 806, 807 and 810: the daemon or the server is gone or recovers from somebody's fault. What PyTorch
# says to search for stands below the error itself.
_MPS = re.compile(
    rb"(?:CUDA_ERROR_MPS_(?:CONNECTION_FAILED|RPC_FAILURE|SERVER_NOT_READY|CLIENT_TERMINATED)"
    rb"|(?<!Search for `)cudaErrorMps(?:ConnectionFailed|RpcFailure|ServerNotReady|ClientTerminated)"
    rb"|(?:CUDA error|Error \d+): (?:the )?(?:remote procedural call between the MPS server and the MPS client failed"
    rb"|MPS client failed to connect|MPS server is not ready|MPS client has been terminated))"
)
# What a client of MPS sees when a kernel, its own or that of another client of the server, has made a fatal fault. An
# assertion in a kernel (cudaErrorAssert) is not among them: it breaks its own process alone.
_FAULT = re.compile(
    rb"(?:CUDA_ERROR_(?:ILLEGAL_ADDRESS|LAUNCH_FAILED|MISALIGNED_ADDRESS|ILLEGAL_INSTRUCTION|HARDWARE_STACK_ERROR"
    rb"|INVALID_PC|INVALID_ADDRESS_SPACE)"
    rb"|(?<!Search for `)cudaError(?:IllegalAddress|LaunchFailure|MisalignedAddress|IllegalInstruction"
    rb"|HardwareStackError|InvalidPc|InvalidAddressSpace)"
    rb"|(?:CUDA error|Error \d+): (?:an illegal memory access was encountered|unspecified launch failure"
    rb"|misaligned address|an illegal instruction was encountered|hardware stack error|invalid program counter"
    rb"|operation not supported on global/shared address space))"
)
_SERVER_LINE = re.compile(
    rb"^\[(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)\.\d{1,9} Server {1,9}\d{1,9}\] ([^\n]{0,200})$", re.MULTILINE
)
_HANDLING = b"Server is handling a fatal GPU error"
_BROKEN = b"The following client process"
# Of a process that had a context, and so may have had kernels. One that only began disconnects without this line, as
# one does that a server which handles a fault has turned away.
_ENDED = re.compile(rb"Client \{PID: (\d{1,9}), Context ID: [1-9]\d{0,8}\} exiting")
_TOGETHER_S = 2
# Before it there may stand what a logger or a launcher puts before each line, or a progress bar.
_TRACEBACK = re.compile(
    rb"(?:^|\r)([^\r\n]{0,300}?)Traceback \(most recent call last\):[^\r\n]{0,80}\r?\n", re.MULTILINE
)
_RANK = re.compile(rb"\[[^\]\n]{1,40}\]:? ?|\d{1,6}: ")  # torchrun's and srun's prefix of each line
_NAME = re.compile(rb"[\w.]")
_LINE_END = re.compile(rb"[\r\n]")  # a progress bar writes its line anew behind a carriage return
# A traceback that begins after one of these belongs to the error above it, or ended nothing.
_HARMLESS = (
    b"During handling of the above exception",
    b"The above exception was the direct cause",
    b"Exception ignored ",
    b"Exception in thread ",
    b"Error in atexit.",
)
# What launchers, workers and other ranks say when the process they watch, or work with, has died.
_FOLLOWERS = re.compile(
    rb"ChildFailedError|CalledProcessError|ProcessRaisedException|ProcessExitedException|BrokenPipeError"
    rb"|ConnectionResetError|KeyboardInterrupt|RayTaskError|RayActorError|ActorDiedError|WorkerCrashedError|EOFError"
    rb"|BrokenProcessPool|TerminatedWorkerError|KilledWorker|DistBackendError|DistNetworkError|TuneError"
    rb"|TrainingFailedError"
    rb"|RuntimeError: (?:DataLoader worker |Engine core initialization failed|[^\n]{0,200}\bgloo/)"
    rb"|EngineDeadError|Engine process failed to start"
)
MAX_EVIDENCE = 200


def of_memory(log: bytes) -> str:
    """The line that shows that the run died of GPU memory, or the empty string."""
    return _last(_OOM, log)


def of_lost_mps(log: bytes) -> str:
    """The line that shows that the run lost its MPS server, or the empty string."""
    return _last(_MPS, log)


def of_fault(log: bytes) -> str:
    """The line that shows that a kernel, the run's own or another client's, made a fatal fault, or the empty string."""
    return _last(_FAULT, log)


@dataclass(frozen=True)
class Fault:
    """A fatal fault that broke clients of an MPS server which need not have made it.

    Attributes:
        at: Unix time in seconds.
        ended: whether a client ended then that is not among the broken ones: kernels that a process leaves behind as it
            ends, or is cancelled, break its neighbours.
    """

    at: float
    ended: bool


def broken_together(server_log: bytes, since: int, until: int) -> Fault | None:
    """The last fault that broke several processes at once, or came as another ended, by what an MPS server wrote.

    The server does not say whose fault it was: it calls each of its clients one that triggered the error. Nor does it
    say whose processes they were: those of one job break each other too.

    Args:
        server_log: the end of its log.
        since: Unix time in seconds from which on a fault counts.
        until: Unix time after which none counts.
    """
    ends: dict[float, set[bytes]] = {}
    faults: list[tuple[float, float, set[bytes]]] = []
    broken, listed = set[bytes](), False
    for line in _SERVER_LINE.finditer(server_log):
        said = line.group(7)
        if said.startswith(_HANDLING):
            broken, listed = set(), False
            clock = _clock(line)
            faults += [(clock, at, broken) for at in _times(clock) if since <= at <= until][:1]
        elif said.startswith(_BROKEN):
            listed = True
        elif listed and said.isdigit():
            broken.add(said)
        else:
            listed = False
            if end := _ENDED.match(said):
                ends.setdefault(_clock(line), set()).add(end.group(1))
    for clock, at, broken in reversed(faults):
        near = (ends.get(clock + offset, set()) for offset in range(-_TOGETHER_S, _TOGETHER_S + 1))
        ended = any(not pids <= broken for pids in near)
        if len(broken) > 1 or (ended and broken):
            return Fault(at, ended)
    return None


def _clock(line: re.Match[bytes]) -> float:
    """When a line was written by the server's clock, taken as local time, in Unix seconds; there is no wrong date."""
    year, month, day, hour, minute, second = (int(part) for part in line.groups()[:6])
    return time.mktime((year, month, day, hour, minute, second, 0, 0, -1))


def _times(clock: float) -> tuple[float, ...]:
    """Unix time of a line of a server's log, as local time and as UTC: NVIDIA does not say which it writes.

    In autumn one hour of local time comes twice.
    """
    shown = time.localtime(clock)
    again = (at for at in (clock - 3600, clock + 3600) if time.localtime(at)[:6] == shown[:6])
    return (clock, *again, clock + shown.tm_gmtoff)


def _last(pattern: re.Pattern[bytes], log: bytes) -> str:
    last = None
    for last in pattern.finditer(log):  # noqa: B007 - the last one is wanted
        pass
    if last is None or _survived(log, last.end()):
        return ""
    before = _LINE_END.split(log[max(0, last.start() - 80) : last.start()])[-1]
    after = _LINE_END.split(log[last.end() : last.end() + MAX_EVIDENCE])[0]
    text = (before + last.group() + after).replace(b"\0", b"")  # a log that was emptied while it grew has a hole
    return printable(text.decode(errors="replace").strip())[:MAX_EVIDENCE]


def _survived(log: bytes, end: int) -> bool:
    """Whether a traceback after `end` shows another error that has nothing to do with the one before."""
    error, place = b"", -1
    for traceback in _TRACEBACK.finditer(log, end):
        before = log[max(end, traceback.start() - 200) : traceback.start()]
        if any(words in before for words in _HARMLESS):
            continue
        if traceback.end() > place:  # else the same error ends this one too: no line is looked at twice
            error, place = _error(log, traceback.end(), traceback.group(1))
        if error and not _FOLLOWERS.search(error):
            return True
    return False


def _error(log: bytes, start: int, prefix: bytes) -> tuple[bytes, int]:
    """The exception under a traceback's frames, which are indented, and where; empty where there is none.

    Args:
        log: what was written.
        start: where the frames begin.
        prefix: what stands before the traceback's first line, and perhaps before the others.
    """
    while start < len(log):
        end = log.find(b"\n", start)
        end = len(log) if end < 0 else end
        line = log[start : min(end, start + 400 + len(prefix))].removeprefix(prefix)
        rank = _RANK.match(line)
        line = line[rank.end() :] if rank else line
        if line.strip() and not line.startswith((b" ", b"\t")):
            return line if _NAME.match(line) else b"", start
        start = end + 1
    return b"", start
