"""GPUs through DCGM: `dcgmi dmon` for the metrics, NVML for the processes, which dmon does not know.

dmon prints a head line with the columns' short names, a line of units, and from then on a line for each GPU at each
look; the two head lines come again now and then::

    #Entity   GRACT        SMACT        POWER        TOTEC
    ID                                  W            mJ
    GPU 0     0.984        0.930        512.204      93412001
    GPU 1     N/A          N/A          75.110       N/A

Starts dcgmi and reads what it prints.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import pty
import re
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from slurm_hooks.monitor.metrics import METRICS, RATIOS, Backend, BackendError, Reading
from slurm_hooks.node import commands

log = logging.getLogger("rad.monitor")

DISCOVERY_TIMEOUT_S = 10.0
FIRST_LINE_TIMEOUT_S = 15.0
_MAX_LINE = 4096
# DCGM marks what it has not: by numbers from here on where they are doubles, by larger ones where they are integers.
_BLANK = 2**47
_STALE_LOOKS = 3
_SILENT_LOOKS, _SILENT_S = 10, 30.0  # a dmon that says nothing for so long hangs, or what it asks does
_KEYS = {metric.column: metric.key for metric in METRICS}
_ROW = re.compile(r"GPU\s+(\d{1,4})\s+(.*)")
_ID = re.compile(r"\|\s*(\d{1,4})\s*\|")
_UUID = re.compile(r"Device UUID:\s*(GPU-[0-9a-fA-F-]{8,64})")


def parse_discovery(text: str) -> dict[int, str]:
    """UUIDs by DCGM's number of a GPU, from what ``dcgmi discovery -l`` prints."""
    found: dict[int, str] = {}
    number: int | None = None
    for line in text.splitlines():
        head, uuid = _ID.match(line), _UUID.search(line)
        if head:
            number = int(head.group(1))
        if uuid and number is not None:
            found[number] = uuid.group(1)
    return found


class DmonParser:
    """Lines of dmon, one at a time."""

    def __init__(self) -> None:
        self._columns: list[str] = []

    def feed(self, line: str) -> tuple[int, dict[str, float]] | None:
        """DCGM's number of a GPU and its metrics by key, or None for any other line.

        A value that DCGM does not have (``N/A``) or that is no number is left out; a ratio that it counts as a little
        more than all is all.
        """
        words = line.lstrip("# ").split()
        if words[:1] == ["Entity"]:
            self._columns = words[1:]
            return None
        row = _ROW.match(line.strip())
        if row is None:
            return None
        cells = row.group(2).split()
        if len(cells) != len(self._columns):
            return None
        values = {}
        for column, cell in zip(self._columns, cells, strict=True):
            number = _number(cell)
            if number is not None and column in _KEYS:
                key = _KEYS[column]
                values[key] = min(1.0, number) if key in RATIOS else number
        return int(row.group(1)), values


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value < _BLANK else None


class DcgmBackend:
    """Metrics by DCGM, processes by another backend.

    Args:
        dcgmi: DCGM's command.
        interval_s: time between two looks.
        processes: knows the GPUs and their processes.
        clock: monotonic seconds.

    Raises:
        BackendError: if DCGM does not answer.
    """

    name = "dcgm"

    def __init__(
        self, dcgmi: str, interval_s: float, processes: Backend, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._processes = processes
        self._clock = clock
        self._stale_s = _STALE_LOOKS * interval_s + 1.0
        self._silent_s = max(_SILENT_S, _SILENT_LOOKS * interval_s)
        self._lock = threading.Lock()
        self._latest: dict[str, tuple[float, dict[str, float]]] = {}
        self._first = threading.Event()
        done = commands.run([dcgmi, "discovery", "-l"], DISCOVERY_TIMEOUT_S)
        self._uuids = parse_discovery(done.out)
        if not done.ok or not self._uuids:
            raise BackendError(f"DCGM: {'it shows no GPU' if done.ok else done.problem}: does nv-hostengine run?")
        fields = ",".join(str(metric.field_id) for metric in METRICS)
        delay = str(max(100, round(interval_s * 1000)))
        gpus = ",".join(map(str, self._uuids))
        # A terminal as output: into a pipe, dcgmi's lines might wait in a buffer.
        ours, theirs = pty.openpty()
        try:
            self._dmon = subprocess.Popen(
                [dcgmi, "dmon", "-i", gpus, "-e", fields, "-d", delay],
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            os.close(ours)
            raise BackendError(f"{dcgmi}: {error.strerror}") from error
        finally:
            os.close(theirs)
        self._reader = threading.Thread(target=self._follow, args=(ours,), daemon=True)
        self._reader.start()
        if not self._first.wait(FIRST_LINE_TIMEOUT_S) or not self._latest:
            self._end()
            raise BackendError("DCGM: dmon shows nothing: are profiling metrics allowed, does nv-hostengine run?")

    def _follow(self, descriptor: int) -> None:
        """Take lines until dmon ends."""
        with contextlib.suppress(OSError), os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
            self.take(iter(lambda: file.readline(_MAX_LINE), ""))
        self._first.set()

    def take(self, lines: Iterable[str]) -> None:
        """Take dmon's lines in."""
        parser = DmonParser()
        for line in lines:
            row = parser.feed(line)
            if row is None or row[0] not in self._uuids:
                continue
            with self._lock:
                self._latest[self._uuids[row[0]]] = (self._clock(), row[1])
            self._first.set()

    def read(self, *, anew: bool = False) -> list[Reading]:
        """All GPUs.

        Args:
            anew: no list of processes may be older than this look.

        Raises:
            BackendError: if dmon or the driver is gone, or dmon says nothing any more.
        """
        if self._dmon.poll() is not None:
            raise BackendError(f"DCGM: dmon ended with exit status {self._dmon.returncode}")
        readings = self._processes.read(anew=anew)
        now = self._clock()
        since = now - self._stale_s
        with self._lock:
            if now - max(at for at, _ in self._latest.values()) > self._silent_s:
                raise BackendError(f"DCGM: dmon has said nothing for {self._silent_s:g} s: does nv-hostengine answer?")
            fresh = {uuid: values for uuid, (at, values) in self._latest.items() if at >= since}
        return [
            reading if reading.lost else replace(reading, values={**reading.values, **fresh.get(reading.uuid, {})})
            for reading in readings
        ]

    def activity(self, index: int, pids: Collection[int]) -> Mapping[int, float]:
        """What the processes' backend says."""
        return self._processes.activity(index, pids)

    def _end(self) -> None:
        self._dmon.kill()
        self._dmon.wait()
        self._reader.join(1.0)

    def close(self) -> None:
        """End dmon."""
        self._end()
        self._processes.close()
