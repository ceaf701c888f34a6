"""The page of results from the JSON that the scenarios wrote. Pure, but for reading and writing these files."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results" / "gpu"
HEAD = """# RAD on a real GPU

Made by `scripts/results_gpu` from the files in [gpu](gpu/results.json), which `scripts/gpu-cluster run all` wrote.
[How that works](../gpu-cluster.md). Every job went through `sbatch`; one run of each scenario.
"""
TITLES = {
    "collocated": "Three trainings and an inference job: one after another, then together",
    "under-declared": "A job that declares half of what it needs",
    "learned": "The same model twice: the second submission is decided from measurements",
    "burst": "Short jobs at once, two of which claim too little",
    "two-users": "Two users on one GPU",
    "daemon-killed": "kill -9 of the MPS control daemon",
    "services-killed": "kill -9 of radd, rad-monitor and slurmd",
    "monitored": "A training with rad-monitor and without it",
}
Facts = Mapping[str, Any]


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows as a table of Markdown; floats with two digits."""
    shown = [[f"{v:.2f}" if isinstance(v, float) else str("" if v is None else v) for v in row] for row in rows]
    lines = [list(heads), ["---"] * len(heads), *shown]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def page(results: Facts, activity: Sequence[Facts] | None, monitor: Facts | None) -> str:
    """The page.

    Args:
        results: what the scenarios wrote.
        activity: what `scripts.bench.activity --json` printed, or None.
        monitor: what `scripts.bench.monitor --json` printed, or None.
    """
    parts = [
        HEAD,
        table(("what", "value"), [(key.replace("_", " "), value) for key, value in results["about"].items()]),
    ]
    parts.append(f"From an empty machine to a Slurm that takes jobs: {results['up_s']:.0f} s.\n")
    for name, facts in results["scenarios"].items():
        parts.append(f"## {TITLES[name]}\n")
        if "checks" not in facts:
            parts.append("Not shown: " + (facts.get("error") or "the time was over") + "\n")
            continue
        parts += _BODIES[name](facts)
        parts.append(
            table(("what had to hold", "held"), [(k, "yes" if v else "**no**") for k, v in facts["checks"].items()])
        )
    if activity:
        parts += _activity(activity)
    if monitor:
        parts += ["## What rad-monitor costs\n", "`python -m scripts.bench.monitor` on this machine's GPU.\n"]
        parts.append(table(("what", "value"), [(k.replace("_", " "), v) for k, v in monitor.items()]))
    return "\n".join(parts)


def _collocated(facts: Facts) -> list[str]:
    alone, shared, rows = facts["alone"], facts["shared"], facts["table"]
    steps = sum(row["alone_s"] for row in rows)
    what = "steps, s (alone: added up; together: from the first to the last)"
    sums: list[tuple[object, ...]] = [(what, steps, shared["stepping_s"], shared["stepping_s"] / steps)]
    sums += [
        (what, one[key], two[key], two[key] / one[key] if one[key] and two[key] else None)
        for what, key, one, two in (
            ("makespan, s (start-up of PyTorch included)", "makespan_s", alone, shared),
            ("from the first step to the last, s (start-ups between included)", "stepping_s", alone, shared),
            ("energy of the GPU over the makespan, J", "energy_j", alone, shared),
        )
    ]
    progress = sum(row["alone_s"] / row["shared_s"] for row in rows)
    return [
        "Alone, each job had the GPU to itself (`#RAD policy=exclusive`) for a set time; together, each made the same "
        "number of steps.\n",
        table(("job", "steps", "alone, s", "together, s", "slowdown"), [tuple(row.values()) for row in rows]),
        table(("", "one after another", "together", "ratio"), sums),
        f"Sum of relative progress, each job over its own time: {progress:.2f}. The jobs are small, and each step "
        "waits for its end; larger ones [gain less](interference.md). They did not start at the same moment, so each "
        "made some of its steps beside fewer than three others.\n",
    ]


def _under_declared(facts: Facts) -> list[str]:
    beside = facts["neighbour"]
    runs = [(r["share"], r["cap_mib"], r["peak_mib"], r["outcome"]) for r in facts["runs"]]
    return [
        table(("shares", "cap, MiB", "measured peak, MiB", "outcome"), runs),
        f"From its submission to its end, requeue included: {facts['greedy_s']:.0f} s. The neighbour made "
        f"{beside['steps']} steps meanwhile; the median took {beside['median_step_ms']:.1f} ms, the longest "
        f"{beside['longest_step_ms']:.0f} ms.\n",
        _story(facts["explain"]),
    ]


def _learned(facts: Facts) -> list[str]:
    keys = (
        "method",
        "expected_mib",
        "upper_mib",
        "share",
        "peak_mib",
        "smact_mean",
        "smocc_mean",
        "dram_mean",
        "energy_j",
    )
    rows = [(key.replace("_", " "), facts["first"][key], facts["second"][key]) for key in keys]
    return [table(("", "first", "second"), rows), _story(facts["explain_second"])]


def _burst(facts: Facts) -> list[str]:
    requeued = [name for name, count in facts["restarts"].items() if count]
    return [
        f"{facts['jobs']} jobs, all ended {facts['makespan_s']:.0f} s after the first was submitted; requeued: "
        f"{', '.join(requeued) or 'none'}.\n"
    ]


def _two_users(facts: Facts) -> list[str]:
    return [
        f"Both stepped at once for {facts['overlap_s']:.1f} s, with {facts['daemons']} control daemons "
        f"({', '.join(sorted(facts['slots']))}).\n"
    ]


def _daemon_killed(facts: Facts) -> list[str]:
    return [
        f"The next job's first step came {facts['first_step_of_next_after_s']:.1f} s after the kill, start-up of "
        f"PyTorch included. The job under the daemon was requeued {facts['restarts']['before']} time(s):\n",
        _story(facts["explain_before"]),
    ]


def _services_killed(facts: Facts) -> list[str]:
    heads = ("killed", "back after, s", "first step of the next job after, s", "the job under it", "requeued")
    rows = [tuple(row.values()) for row in facts["table"]]
    return [
        "Each was started again a second after the kill, as its unit would be, and then the next job was submitted; "
        "its start-up of PyTorch is included.\n",
        table(heads, rows),
    ]


def _monitored(facts: Facts) -> list[str]:
    rows = [(kind, *values) for kind, values in facts["speeds"].items()]
    heads = ("rad-monitor", *(f"run {n + 1}" for n in range(len(rows[0]) - 1)))
    return [
        "Steps a second of the same training, in turn.\n",
        table(heads, rows),
        f"Change of the median: {100 * facts['change']:+.1f} %; largest spread between repeats: "
        f"{100 * facts['spread']:.1f} %.\n",
    ]


_BODIES = {
    "collocated": _collocated,
    "under-declared": _under_declared,
    "learned": _learned,
    "burst": _burst,
    "two-users": _two_users,
    "daemon-killed": _daemon_killed,
    "services-killed": _services_killed,
    "monitored": _monitored,
}


def _story(text: str) -> str:
    return f"```\n{text.rstrip()}\n```\n"


def _activity(rows: Sequence[Facts]) -> list[str]:
    heads = ("blocks", "threads", "GRACT", "SMACT", "follows from the launch", "SMOCC", "follows from the launch")
    keys = ("gract", "smact", "smact_expected", "smocc", "smocc_expected")
    return [
        "## One kernel, growing numbers of blocks and threads\n",
        "`python -m scripts.bench.activity`; percent. Figure 3.1 of the RAD-RM dissertation is the form.\n",
        table(heads, [(row["blocks"], row["threads"], *(100.0 * row[key] for key in keys)) for row in rows]),
    ]


def _read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page; returns the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/results_gpu")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON files")
    parser.add_argument("--page", type=Path, default=RESULTS.with_suffix(".md"))
    args = parser.parse_args(arguments)
    results, activity, monitor = (_read(args.results / f"{name}.json") for name in ("results", "activity", "monitor"))
    if results is None:
        parser.error(f"{args.results} holds no results.json: run scripts/gpu-cluster run all --out {args.results}")
    args.page.write_text(page(results, activity, monitor), encoding="utf-8")
    print(args.page)
    return 0
