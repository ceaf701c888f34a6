"""Evidence of GPU memory running out, in what a run wrote to its log. Pure.

Only the frameworks' own errors count. An error that the program survived does not: where an unrelated traceback
follows it, something else ended the run.
"""

from __future__ import annotations

import re

_OOM = re.compile(
    rb"(?:"
    rb"(?:torch\.(?:cuda\.)?)?OutOfMemoryError: (?:CUDA|HIP) out of memory"  # PyTorch since 1.13
    rb"|RuntimeError: CUDA out of memory"  # PyTorch before
    rb"|CUDA out of memory\. Tried to allocate"  # the same, as Lightning and others log it
    rb"|(?:RuntimeError: |AcceleratorError: |CUDA kernel failed: )?CUDA error: out of memory"
    rb"|CUDA error: CUBLAS_STATUS_ALLOC_FAILED"
    rb"|cuDNN error: CUDNN_STATUS_ALLOC_FAILED"
    rb"|ResourceExhaustedError[^\n]{0,400}OOM when allocating"  # TensorFlow
    rb"|OOM when allocating tensor with shape"
    rb"|RESOURCE_EXHAUSTED: [Oo]ut of memory"  # JAX, XLA
    rb"|RESOURCE_EXHAUSTED: Failed to allocate request"
    rb"|cupy[\w.]*\.OutOfMemoryError: Out of memory allocating"
    rb"|cudaErrorMemoryAllocation: out of memory"
    rb"|CUDA_ERROR_OUT_OF_MEMORY"
    rb")"
)
_TRACEBACK = re.compile(rb"^[^\n]{0,60}?Traceback \(most recent call last\):[^\n]*\n", re.MULTILINE)
_RANK = re.compile(rb"\[[^\]\n]{1,40}\]:? ?|\d{1,6}: ")  # torchrun's and srun's prefix of each line
_NAME = re.compile(rb"[\w.]{1,200}")
# A traceback that begins after one of these belongs to the error above it.
_CHAINED = (b"During handling of the above exception", b"The above exception was the direct cause")
# What launchers and workers say when the process they watch has died.
_FOLLOWERS = re.compile(
    rb"ChildFailedError|CalledProcessError|ProcessRaisedException|ProcessExitedException|BrokenPipeError"
    rb"|ConnectionResetError|KeyboardInterrupt|RayTaskError|WorkerCrashedError|EOFError"
)
MAX_EVIDENCE = 200


def evidence(log: bytes) -> str:
    """The line that shows that the run died of GPU memory, or the empty string."""
    last = None
    for last in _OOM.finditer(log):  # noqa: B007 - the last one is wanted
        pass
    if last is None or _survived(log, last.end()):
        return ""
    start = log.rfind(b"\n", 0, last.start()) + 1
    end = log.find(b"\n", last.end())
    line = log[max(start, last.start() - 80) : len(log) if end < 0 else end]
    text = line.rpartition(b"\r")[2] if b"\r" in line.rstrip() else line
    shown = "".join(c if c.isprintable() else "?" for c in text.decode(errors="replace").strip())
    return shown[:MAX_EVIDENCE]


def _survived(log: bytes, end: int) -> bool:
    """Whether a traceback after `end` shows another error that has nothing to do with the one before."""
    for traceback in _TRACEBACK.finditer(log, end):
        before = log[max(end, traceback.start() - 200) : traceback.start()]
        if any(words in before for words in _CHAINED):
            continue
        name = _error_name(log, traceback.end())
        if name and not _FOLLOWERS.search(name):
            return True
    return False


def _error_name(log: bytes, start: int) -> bytes:
    """Name of the exception under a traceback's frames, which are indented; empty where there is none."""
    while start < len(log):
        end = log.find(b"\n", start)
        end = len(log) if end < 0 else end
        line = log[start : min(end, start + 400)]
        prefix = _RANK.match(line)
        line = line[prefix.end() :] if prefix else line
        if line.strip() and not line.startswith((b" ", b"\t")):
            name = _NAME.match(line)
            return name.group() if name else b""
        start = end + 1
    return b""
