"""What monitors measure, as radd and radctl read it: from each node's page, or from one Prometheus server.

Nobody at the other end is trusted further than placement: answers are bounded in size and time, numbers outside 0 to 1
are dropped, and a job counts only where its mean covers a whole window.

Opens connections to the addresses in [monitor].
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import re
import time
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from slurm_hooks.config import Monitor
from slurm_hooks.monitor.prometheus import JOB_LABEL, JOB_SM, JOB_WINDOW, SM_MEAN

log = logging.getLogger("rad.monitors")

MAX_BYTES = 4 << 20
MAX_SAMPLES = 200_000
# No line of a monitor comes near it; a pattern over a longer one could take all of radd's time and memory.
MAX_LINE = 4096
AT_ONCE = 64
_MAX_JOB, _MAX_DIGITS = 2**32, 10
_MAX_MIB = 2**30  # a PiB
# A job counts once its mean covers this part of the window: a look may have been missed.
_COVERED = 0.9
_USED = "DCGM_FI_DEV_FB_USED"
_NAMES = (SM_MEAN, JOB_SM, JOB_WINDOW, _USED)
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)",?')
_LINE = re.compile(r'([a-zA-Z_:][\w:]*)\{((?:[a-zA-Z_]\w*="(?:[^"\\]|\\.)*",?)*)\} ([^ ]+)')
_NODE = re.compile(r"[\w.-]{1,255}")
_QUERY = f'{{__name__=~"{"|".join(_NAMES)}"}}'

Sample = tuple[str, Mapping[str, str], float]


@dataclass(frozen=True)
class Measured:
    """What monitors say.

    Attributes:
        gpus: SM activity of each GPU by node and number of the device file, 0 to 1, mean over the window.
        memory_mib: memory in use of each GPU, likewise, in MiB.
        jobs: SM activity of each job by its number, 0 to 1, mean over the window and over its GPUs.
    """

    gpus: Mapping[tuple[str, int], float] = field(default_factory=dict)
    jobs: Mapping[int, float] = field(default_factory=dict)
    memory_mib: Mapping[tuple[str, int], float] = field(default_factory=dict)


class ReadError(RuntimeError):
    """An endpoint that gave no usable answer; the message names it."""


def parse_page(text: str) -> list[Sample]:
    """Samples of the metrics that matter here, from a monitor's page; other lines are passed over."""
    samples: list[Sample] = []
    for line in text.splitlines():
        if len(line) > MAX_LINE or not line.startswith(_NAMES):
            continue
        found = _LINE.match(line)
        value = _float(found.group(3)) if found else None
        if found and found.group(1) in _NAMES and value is not None and len(samples) < MAX_SAMPLES:
            samples.append((found.group(1), dict(_LABEL.findall(found.group(2))), value))
    return samples


def parse_query(text: str) -> list[Sample]:
    """Samples in a Prometheus server's answer to an instant query.

    Raises:
        ValueError: if it is no such answer.
    """
    data = json.loads(text)
    if not isinstance(data, dict) or data.get("status") != "success" or not isinstance(data.get("data"), dict):
        raise ValueError("no answer to a query")
    samples: list[Sample] = []
    results = data["data"].get("result")
    for each in (results if isinstance(results, list) else [])[:MAX_SAMPLES]:
        metric, pair = (each.get("metric"), each.get("value")) if isinstance(each, dict) else (None, None)
        if not isinstance(metric, dict) or not isinstance(pair, list) or len(pair) != 2:
            continue
        value = _float(pair[1])
        labels = {key: text for key, text in metric.items() if isinstance(text, str)}
        if value is not None and labels.get("__name__") in _NAMES:
            samples.append((labels["__name__"], labels, value))
    return samples


def measured(samples: Iterable[tuple[str, Sample]], window_s: float) -> Measured:
    """Put samples together.

    Args:
        samples: each with the node that it came from, or the empty string where its own label tells.
        window_s: length of the monitors' window.
    """
    gpus: dict[tuple[str, int], float] = {}
    memory: dict[tuple[str, int], float] = {}
    parts: dict[tuple[int, str, str], float] = {}
    covered: dict[tuple[int, str, str], float] = {}
    for node, (name, labels, value) in samples:
        node = node or labels.get("Hostname", "")  # noqa: PLW2901
        gpu, job = _int(labels.get("gpu")), _int(labels.get(JOB_LABEL))
        if name == SM_MEAN and gpu is not None and 0 <= value <= 1:
            gpus[node, gpu] = value
        elif name == _USED and gpu is not None and 0 <= value <= _MAX_MIB:
            memory[node, gpu] = value
        elif job is not None and name == JOB_SM and 0 <= value <= 1:
            parts[job, node, labels.get("UUID", "")] = value
        elif job is not None and name == JOB_WINDOW:
            covered[job, node, labels.get("UUID", "")] = value
    jobs: dict[int, list[float]] = {}
    for key, value in parts.items():
        if covered.get(key, 0.0) >= _COVERED * window_s:
            jobs.setdefault(key[0], []).append(value)
    return Measured(gpus, {job: sum(values) / len(values) for job, values in jobs.items()}, memory)


async def read(settings: Monitor, nodes: Sequence[str]) -> tuple[Measured, list[str]]:
    """Ask all monitors, or the Prometheus server.

    Args:
        settings: [monitor].
        nodes: Slurm's names of the nodes; used where monitors are asked.

    Returns:
        What was measured, and one line for each endpoint that gave no usable answer.
    """
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(node: str, url: str, parse: Callable[[str], list[Sample]]) -> list[tuple[str, Sample]] | str:
        async with gate:
            try:
                text = await asyncio.wait_for(_get(url), settings.read_timeout_s)
                return [(node, sample) for sample in parse(text)]
            except asyncio.TimeoutError:
                return f"{url}: no answer within {settings.read_timeout_s:g} s"
            except (OSError, ValueError, ReadError, asyncio.LimitOverrunError, RecursionError) as error:
                return f"{url}: {error}"

    if settings.source == "prometheus":
        query = urllib.parse.urlencode({"query": _QUERY})
        asked = [one("", f"{settings.prometheus_url.rstrip('/')}/api/v1/query?{query}", parse_query)]
    elif settings.source == "monitors":
        named = [node for node in nodes if _NODE.fullmatch(node)]
        base = settings.url.rstrip("/")
        asked = [one(node, f"{base.replace('{node}', node)}/metrics", parse_page) for node in named]
    else:
        asked = []
    answers = await asyncio.gather(*asked)
    samples = [sample for answer in answers if not isinstance(answer, str) for sample in answer]
    return measured(samples, settings.window_s), [answer for answer in answers if isinstance(answer, str)]


async def _get(url: str) -> str:
    """The body of an HTTP answer.

    Raises:
        ReadError: if it is an error, too long or no HTTP.
        ValueError: if the address is none.
        OSError: if there is no connection.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not an http or https address")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=parts.scheme == "https" or None)
    try:
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        request = f"GET {target} HTTP/1.0\r\nHost: {parts.netloc}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        writer.write(request.encode("ascii"))
        await writer.drain()
        data = bytearray()
        while chunk := await reader.read(65536):
            data += chunk
            if len(data) > MAX_BYTES:
                raise ReadError(f"more than {MAX_BYTES >> 20} MiB")
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].split(b" ")
    if len(status) < 2 or not status[0].startswith(b"HTTP/1.") or status[1] != b"200":
        raise ReadError(f"answered {head[:60]!r}")
    return body.decode(errors="replace")


class Reader:
    """Reads every `monitor.read_s` seconds, in a thread of its own, and remembers the last answer.

    Args:
        settings: [monitor].
        nodes: names of the nodes that are wanted now.
        clock: monotonic seconds.
    """

    def __init__(
        self, settings: Monitor, nodes: Callable[[], Sequence[str]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._nodes = nodes
        self._clock = clock
        self._latest = Measured()
        self._at = float("-inf")
        self._problems: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Read until cancelled; returns at once where there is nobody to ask."""
        while self._settings.source != "none":
            nodes = tuple(self._nodes())
            try:
                await asyncio.to_thread(self.once, nodes)
            except Exception:
                # Whatever an endpoint triggers, radd goes on with what jobs declared.
                log.exception("monitors cannot be read")
            await asyncio.sleep(self._settings.read_s)

    def once(self, nodes: Sequence[str]) -> None:
        """Read once; an endpoint that does not answer is said once."""
        latest, problems = asyncio.run(read(self._settings, nodes))
        for problem in sorted(frozenset(problems) - self._problems):
            log.warning("not measured: %s", problem)
        self._problems = frozenset(problems)
        if latest.gpus or latest.jobs or not problems:
            self._latest, self._at = latest, self._clock()

    def latest(self) -> Measured:
        """The last answer, empty where it is too old."""
        return self._latest if self._clock() - self._at <= self._settings.stale_s else Measured()


def _float(text: object) -> float | None:
    try:
        value = float(text) if isinstance(text, str) else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _int(text: str | None) -> int | None:
    number = int(text) if text and len(text) <= _MAX_DIGITS and text.isascii() and text.isdigit() else _MAX_JOB
    return number if number < _MAX_JOB else None
