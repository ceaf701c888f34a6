"""Resident workers: processes that hold workloads and run them when they are told, and the MPS daemon between them.

Starts processes and ends them.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from predictor.types import ProfileError

BUILD_S = 180.0
"""For all workers together, until they have built their workloads."""
CORES_A_SIDE = 4
MAX_SIDES = 3


def cores_of(side: int) -> list[int]:
    """Processor cores for one side of a colocation; none on a machine of few, where nothing is bound."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < MAX_SIDES * CORES_A_SIDE:
        return []
    return cores[side * CORES_A_SIDE : (side + 1) * CORES_A_SIDE]


class Worker:
    """A resident process and its pipe."""

    def __init__(self, names: Sequence[str], device: str, tiny: bool, environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "predictor.collection.worker", *names, "--device", device]
        self.names = tuple(names)
        self.reserved_mib: dict[str, float] = {}
        self.failure = ""
        self.process = subprocess.Popen(
            [*command, *(["--tiny"] if tiny else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, **environment},
        )

    def send(self, **command: Any) -> None:
        """Send a command.

        Raises:
            ProfileError: the worker is gone.
        """
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
        except OSError as error:
            raise self._fail(f"it is gone ({error.strerror})") from error

    def require(self) -> None:
        """Do nothing if the worker can take commands.

        Raises:
            ProfileError: it failed before.
        """
        if self.failure:
            raise ProfileError(self.failure)

    def _fail(self, why: str) -> ProfileError:
        self.failure = f"worker {' '.join(self.names)}: {why}"
        self.process.kill()
        return ProfileError(self.failure)

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """The next answer.

        Raises:
            ProfileError: the worker died, did not answer in time, or answers with an error; it is of no more use.
        """
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], timeout_s)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            raise self._fail("it ended" if ready else f"no answer within {timeout_s:.0f} s")
        content: dict[str, Any] = json.loads(line)
        if "error" in content:
            raise self._fail(content["error"])
        return content

    def dismiss(self) -> None:
        """Tell the process to end, without waiting for it."""
        with suppress(ProfileError, ValueError):
            self.send(do="stop")

    def close(self) -> None:
        """Wait for the end of the process, and force it if it does not come."""
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def workers(
    groups: Iterable[Sequence[str]],
    device: str,
    tiny: bool,
    environments: Iterable[Mapping[str, str]] | None = None,
) -> Iterator[list[Worker]]:
    """Resident workers, one for each group of workload names, all started before any is waited for."""
    listed = [tuple(group) for group in groups]
    given = list(environments) if environments is not None else [{}] * len(listed)
    started: list[Worker] = []
    try:
        for names, environment in zip(listed, given, strict=True):
            started.append(Worker(names, device, tiny, environment))
        deadline = time.monotonic() + BUILD_S
        for worker in started:
            # One that fails to build its workload fails alone: whoever asks it to run is told so.
            with suppress(ProfileError):
                worker.reserved_mib = worker.receive(max(1.0, deadline - time.monotonic()))["ready"]
        yield started
    finally:
        for worker in started:
            worker.dismiss()
        for worker in started:
            worker.close()


@contextmanager
def mps(folder: Path) -> Iterator[dict[str, str]]:
    """An MPS daemon of our own; yields the environment that its clients need."""
    pipes, logs = folder / "pipe", folder / "log"
    for each in (pipes, logs):
        each.mkdir(parents=True, exist_ok=True)
    client = {"CUDA_MPS_PIPE_DIRECTORY": str(pipes)}
    environment = {**os.environ, **client, "CUDA_MPS_LOG_DIRECTORY": str(logs)}
    subprocess.run(["nvidia-cuda-mps-control", "-d"], env=environment, check=True, timeout=30)
    try:
        yield client
    finally:
        subprocess.run(["nvidia-cuda-mps-control"], env=environment, input="quit\n", text=True, check=False, timeout=60)
