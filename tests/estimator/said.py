"""What RAD says of many texts and submissions, good and broken: to compare two builds of it. Run, it prints that."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from itertools import islice, product
from unittest.mock import patch

from estimator import fingerprint
from estimator.compiled import is_compiled
from estimator.methods import load_method
from estimator.methods.rad.program import builder
from estimator.parsers import keras as keras_table
from estimator.parsers import module as module_print
from estimator.parsers import parse_summary, torchinfo, torchsummary
from estimator.shapes import follower
from estimator.types import KINDS, PRECISIONS, ModelSummary, SummaryError, Workload
from predictor import profiles
from predictor.profiles import estimate_profile
from slurm_hooks.bench import MADE_UP, cnn, keras, mlp, transformer
from slurm_hooks.cluster import ClusterView, Gpu, Node, Resident
from slurm_hooks.config import Config, Partition, Radd
from slurm_hooks.loading import load_service
from slurm_hooks.radd import protocol
from slurm_hooks.radd.limit import OutOfTime, at_most
from slurm_hooks.radd.main import answer
from tests.estimator.test_parsers import ALL
from tests.estimator.test_parts import FROZEN, HEAD, LAST, MLP, adapted

BROKEN = 200
LONG = 4000
LONG_TEXTS = {"cnn": cnn(LONG), "keras": keras(LONG), "mlp": mlp(LONG), "transformer": transformer(LONG)}
LIMIT_S = 0.0002
"""A small part of what it takes to read the shortest of them, and to estimate."""
MOMENTS = 25
"""How many times a limit strikes while one of them is estimated, each time later: no moment may end the process."""
LATER_S = 0.001
SUMMARY = "".join(f"# {line}\n" for line in cnn(9).splitlines())
DIRECTIVES = (
    "#RAD memory=12G",
    f"#RAD batch_size=64\n#RAD summary-begin\n{SUMMARY}#RAD summary-end",
    f"#RAD batch_size=9 precision=amp input_size=3x64x64\n#RAD summary-begin\n#\n{SUMMARY}#RAD summary-end",
    "#RAD policy=exclusive memory=3G",
    "#RAD model=net.txt batch_size=8",
    "#RAD batch_size=x",
    "#RAD",
    "# nothing",
)
PARTITIONS = (
    Partition(gpu_model="h200"),
    Partition(gpu_model="h200", placement="kace", threads="max-min"),
    Partition(gpu_model="h200", method="mig"),
)
FIELDS = {"partition": "gpu", "user_name": "alice", "tres_per_node": "gres:gpu:1"}
ASKS: tuple[dict[str, str], ...] = (
    {},
    {"tres_per_node": "gres/gpu:h200:1,gres/lustre:2", "features": "big|wide", "admin_comment": "JS1:\u00e9"},
    {"tres_per_node": "", "tres_per_job": "gres:gpu:2"},
    {"cpus_per_tres": "gres:gpu:8", "num_tasks": "2", "max_nodes": "1", "mem_per_tres": "gres:gpu:4096"},
    {"tres_per_node": "gres:gpu:a100:1"},
    {"priority": "0", "min_mem_per_cpu": "1e3"},
    {"partition": "gpu,other", "user_name": "b\u00f6b"},
    {"req_nodes": "node1", "min_nodes": "1.0"},
    {"summary": cnn(6)},
    {"summary_error": "cannot be read", "tres_bind": "gres:gpu:closest"},
)
VIEW = ClusterView(
    1000.0,
    tuple(
        Node(
            f"node{n}",
            True,
            frozenset({"gpu"}),
            frozenset({"h200"}),
            64,
            500_000,
            tuple(
                Gpu(f"node{n}", f"g{g}", 20 * g, (Resident(n * 4 + g, "alice", 20 * g, 9000, 0.1),) if g else ())
                for g in range(3)
            ),
            frozenset({"1g.18gb", "3g.71gb", "7g.141gb"}),
        )
        for n in range(2)
    ),
)


def texts() -> Iterator[str]:
    """Summaries in all formats, and some with an edit that a hand or a mail program makes."""
    whole = [
        *ALL.values(),
        adapted(),
        FROZEN,
        LAST,
        MLP + HEAD,
        *(text for text in MADE_UP.values() if text.count("\n") < 350),
    ]
    yield from whole
    chance = random.Random(7)
    for _ in range(BROKEN):
        lines = chance.choice(whole).split("\n")
        at = chance.randrange(len(lines))
        line = lines[at]
        cut = chance.randrange(len(line) + 1)
        edits = (line[:cut], line[cut:], line[:cut] + "\n" + line[cut:], line.replace("1", "99999"), line + " |")
        lines[at] = chance.choice((*edits, line.replace("64", "-7"), line.replace(",", ""), ""))
        yield "\n".join(lines)


def said() -> list[str]:
    """What is said of each text, one line each; all texts in some workload, every workload with some text."""
    rad, horus = load_method("rad"), load_method("horus")
    workloads = [
        Workload(batch_size, seq_len, "adam", precision, kind, gpu)
        for batch_size, seq_len, precision, kind, gpu in product(
            (1, 48), (None, 128), PRECISIONS, KINDS, ("h200", "a40")
        )
    ]
    found = []
    for number, text in enumerate(texts()):
        try:
            summary = parse_summary(text)
            for workload in islice(workloads, number % 7, None, 7):
                estimate = rad.predict(summary, workload)
                profile = estimate_profile(summary, workload, workload.gpu)
                found.append(f"{estimate!r} {horus.predict(summary, workload)!r} {profile!r}")
        except SummaryError as error:
            found.append(str(error))
    return found


def given_up() -> list[str]:
    """Which of the works on long texts heeds radd's time limit."""
    rad = load_method("rad")
    rad.predict(parse_summary(cnn(9)), Workload(8))  # what is loaded at first use
    found = []
    for name, text in LONG_TEXTS.items():
        summary: ModelSummary = parse_summary(text)
        try:
            with at_most(LIMIT_S):
                parse_summary(text)
        except OutOfTime:
            found.append(f"{name}: reading")
        try:
            with at_most(LIMIT_S):
                rad.predict(summary, Workload(8))
        except OutOfTime:
            found.append(f"{name}: estimate")
        for moment in range(2, MOMENTS):
            with suppress(OutOfTime), at_most(moment * LATER_S):
                rad.predict(summary, Workload(8))
    return found


def breaths() -> list[str]:
    """How often each module lets signals in while it works on long texts."""
    taken: Counter[str] = Counter()
    rad = load_method("rad")
    with ExitStack() as stack:
        for module in (keras_table, module_print, torchinfo, torchsummary, fingerprint, builder, follower, profiles):
            count = partial(taken.update, [module.__name__])
            stack.enter_context(patch.object(module, "breathe", count))
        for text in LONG_TEXTS.values():
            summary = parse_summary(text)
            rad.predict(summary, Workload(8))
            estimate_profile(summary, Workload(8), "h200")
    return [f"{name}: {count} breaths" for name, count in sorted(taken.items())]


def decided() -> list[str]:
    """What radd answers to submissions of all kinds, on a cluster where some jobs wait for others' GPUs."""
    found = []
    for part in PARTITIONS:
        now = 1000.0
        config = Config(Radd(decide_s=10.0), partitions={"gpu": part, "other": part})  # however busy the machine is
        service = load_service(config, lambda: now)  # noqa: B023
        service.update(VIEW)
        for number, (lines, asks) in enumerate(product(DIRECTIVES, ASKS)):
            fields = {**FIELDS, **asks, "script": f"#!/bin/sh\n{lines}\ntrue\n"}
            now += 0.01
            request = protocol.encode(fields).partition(b"\n")[2]
            found.append(repr(sorted(answer(service, request).to_fields().items())))
            if number % 20 == 19:
                service.update(replace(VIEW, taken=now))
    return found


def lines() -> list[str]:
    """All of it."""
    return [*given_up(), *breaths(), *said(), *decided()]


if __name__ == "__main__":
    print(f"compiled: {is_compiled()}")
    print("\n".join(lines()))
