"""The page of results from the JSON that the scenarios wrote. Pure, but for reading and writing these files."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts import markdown

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results" / "gpu"
HEAD = """# RAD on a real GPU

Made by `scripts/results_gpu` from the files in [{folder}]({folder}/results.json), which
`scripts/gpu-cluster run` wrote. [How that works](../gpu-cluster.md). Every job went through `sbatch`; one run of each
scenario.
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
    "daemon-hung": "SIGSTOP of an MPS control daemon or server",
    "client-fault": "A kernel that writes where nothing is",
    "cancelled": "A job that is cancelled in the middle of its kernels",
    "over-allotment": "A job that unsets its cap and takes more than its allotment",
    "races": "Ten jobs that start and end at once",
    "streams": "Time slicing without MPS",
    "spread": "Several GPUs",
    "users-apart": "Two users who never meet",
    "partitioned": "The thread percentage that the predictor chooses",
}
OF_TWO_USERS = ("two-users", "client-fault", "cancelled")
Facts = Mapping[str, Any]


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows as a table of Markdown; floats with two digits."""
    shown = [[f"{v:.2f}" if isinstance(v, float) else str("" if v is None else v) for v in row] for row in rows]
    return markdown.table(heads, shown)


def gather(files: Sequence[Facts]) -> list[tuple[str, Facts, Facts]]:
    """Title, facts and conditions of each scenario; a later file's stands in the place of an earlier one's.

    Scenarios with jobs of two users are shown once for each setting of [mps] users, `spread` for each number of GPUs.
    """
    found: dict[tuple[str, str], tuple[Facts, Facts]] = {}
    for results in files:
        about = results["about"]
        for name, facts in results["scenarios"].items():
            users = f', `[mps] users = "{about["mps_users"]}"`' if name in OF_TWO_USERS else ""
            gpus = f": {about['gpus']}" if name == "spread" else ""
            found[name, TITLES[name] + users + gpus] = (facts, about)
    ordered = sorted(found.items(), key=lambda item: list(TITLES).index(item[0][0]))
    return [(name, facts, {**about, "title": title}) for (name, title), (facts, about) in ordered]


def page(
    files: Sequence[Facts],
    activity: Sequence[Facts] | None,
    monitors: Sequence[Facts],
    mps: Facts | None,
    mps_ends: Facts | None,
    folder: str = RESULTS.name,
) -> str:
    """The page.

    Args:
        files: what the scenarios wrote; the first tells what the others ran on too, where they do not differ.
        activity: what `scripts.bench.activity --json` printed, or None.
        monitors: what `scripts.bench.monitor --json` printed, on different machines.
        mps: what `scripts.bench.mps --json` wrote, or None.
        mps_ends: what `scripts.bench.mps_ends --json` wrote, or None.
        folder: where the files are, beside the page.
    """
    first = files[0]["about"]
    about_all = [(key.replace("_", " "), value) for key, value in first.items()]
    parts = [HEAD.format(folder=folder), table(("what", "value"), about_all)]
    parts.append(f"From an empty machine to a Slurm that takes jobs: {files[0]['up_s']:.0f} s.\n")
    for name, facts, about in gather(files):
        parts.append(f"## {about['title']}\n")
        if other := [f"{key} {about[key]}" for key in ("date", "gpu", "gpus") if differs(key, about, first)]:
            parts.append(f"Run apart: {', '.join(other)}.\n")
        if "table" not in facts and not facts.get("checks"):
            parts.append(f"Not shown: {facts.get('error') or facts.get('not_shown') or 'the time was over'}\n")
            continue
        parts += _BODIES[name](facts)
        parts.append(
            table(("what had to hold", "held"), [(k, "yes" if v else "**no**") for k, v in facts["checks"].items()])
        )
    if activity:
        parts += _activity(activity)
    for monitor in monitors:
        parts += _monitor(monitor)
    if mps:
        parts += _mps(mps)
    if mps_ends:
        parts += _mps_ends(mps_ends)
    return "\n".join(parts)


def differs(key: str, about: Facts, first: Facts) -> bool:
    """Whether a scenario ran on something else than the first file's did."""
    return bool(about.get(key, 1) != first.get(key, 1))


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
        *(("`radctl top` meanwhile:\n", _story(shared["top"])) if shared.get("top") else ()),
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
        "Each was started again two seconds after the kill, as its unit would be, and then the next job was submitted; "
        "its start-up of PyTorch is included.\n",
        table(heads, rows),
    ]


def _monitored(facts: Facts) -> list[str]:
    rows = [(kind, *values) for kind, values in facts["speeds"].items()]
    heads = ("rad-monitor", *(f"round {n + 1}" for n in range(len(rows[0]) - 1)))
    return [
        "Steps a second of one training while rad-monitor was started and stopped under it, in turn.\n",
        table(heads, rows),
        f"Mean of the rounds' differences: {100 * facts['change']:+.1f} % (standard error "
        f"{100 * facts['standard_error']:.1f} %).\n",
    ]


def _daemon_hung(facts: Facts) -> list[str]:
    heads = (
        "stopped",
        "a job under it",
        "the next job's process began after, s",
        "its first step came after, s",
        "requeued: the job under it",
        "stopped processes left",
    )
    rows = [
        (
            row["stopped"],
            row["a job under it"],
            row["next_job_began_s"],
            row["first_step_of_next_s"],
            row["requeued"],
            row["left_stopped"],
        )
        for row in facts["table"]
    ]
    return ["The next job was submitted at once.\n", table(heads, rows), _story(facts["explain_under"])]


def _client_fault(facts: Facts) -> list[str]:
    rows = [(row["job"], row["state"], row["requeued"], row["runs"], row["evidence"]) for row in facts["table"]]
    return [
        "`beside-fault`, `asserting`, `culprit` and `after-fault` are one user's and share a server; `other-user` "
        + ("shares it too. " if facts.get("one_server") else "has one of its own on the same GPU. ")
        + "A fatal fault breaks every client of its server, and MPS does not say whose "
        "it was; an assertion in a kernel breaks its own process alone.\n",
        table(("job", "state", "requeued", "runs", "evidence"), rows),
        f"The next job was submitted right after the fault; its first step came {facts['first_step_of_next_s']:.1f} s "
        "later.\n",
        _story(facts["explain_beside"]),
        _story(facts["explain_culprit"]),
    ]


def _cancelled(facts: Facts) -> list[str]:
    return [
        "Kernels that a process leaves behind as it ends can break the clients of its server.\n",
        table(("job", "state", "runs", "evidence"), [tuple(row.values()) for row in facts["table"]]),
        _story(facts["explain_beside"]),
    ]


def _over_allotment(facts: Facts) -> list[str]:
    heads = ("`[monitor] over_allotment`", "shares", "cap, MiB", "measured peak, MiB", "outcome", "evidence")
    return [
        "The daemon holds its clients to the largest cap of its jobs, whatever their environment says. Beside a job "
        "with a larger one that is too much, and rad-monitor sees it.\n",
        table(heads, [tuple(row.values()) for row in facts["table"]]),
        _story(facts["explain_end"]),
    ]


def _races(facts: Facts) -> list[str]:
    heads = (
        "grace time, s",
        "jobs",
        "looks",
        "daemons, one after another",
        "most at once",
        "jobs without one all the time",
        "requeued",
        "left",
    )
    return [
        "One row a round. Daemons were looked for all the time; a job had one where the same daemon was there from its "
        "begin to its end"
        + (
            f"; the longest time between two looks was {facts['longest_gap_s']:.2f} s"
            if "longest_gap_s" in facts
            else ""
        )
        + ".\n",
        table(heads, [tuple(row.values()) for row in facts["table"]]),
    ]


def _streams(facts: Facts) -> list[str]:
    heads = ("method", "job", "steps a second", "longest step, ms")
    return ["The same two trainings at once.\n", table(heads, [tuple(row.values()) for row in facts["table"]])]


def _spread(facts: Facts) -> list[str]:
    jobs = [
        (name, facts["places"][name], sum(e or 0.0 for e in facts["energy_of_jobs_j"][name]), facts["restarts"][name])
        for name in facts["places"]
    ]
    used = ", ".join(f"g{gpu} {joules:.0f} J" for gpu, joules in enumerate(facts["energy_of_gpus_j"]) if joules)
    both = facts["both"]
    return [
        f"{facts['gpus']} GPUs. The daemon of the first job's GPU was killed in the middle. Energy: of all runs.\n",
        table(("job", "GPU", "energy, J", "requeued"), jobs),
        f"The GPUs meanwhile: {used or 'not counted'}. The next job's first step came {facts['small_began_s']:.1f} s "
        f"after the kill. Then an exclusive job beside others: "
        + ", ".join(f"{name} on {place}" for name, place in facts["whole_places"].items())
        + f". A job of two GPUs held {both['gpus']}: {'; '.join(both['reasons']) or both['action']}.\n",
    ]


def _users_apart(facts: Facts) -> list[str]:
    return [
        '`[mps] meet = "wait"`: one user has a job on each GPU, room beside it, and another submits a small one. '
        f"It waited in the queue; its process began {facts['began_after_s']:.1f} s after the last step of the job that "
        f"had held {facts['place']}.\n",
        _story(facts["explain"]),
    ]


def _partitioned(facts: Facts) -> list[str]:
    heads = (
        "newcomer",
        "threads, %",
        "multiprocessors that it sees",
        "its progress",
        "the resident's",
        "predicted: its progress",
        "predicted: the resident's",
    )
    return [
        "A ResNet-50 training of 128 images a step comes beside one of 8, first with all threads, then in a partition "
        'with `threads = "max-min"`. Progress relative to running alone.\n',
        table(heads, [tuple(row.values()) for row in facts["table"]]),
        f"Why, as the record has it: {facts['reasons'][-1]}.\n",
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
    "daemon-hung": _daemon_hung,
    "client-fault": _client_fault,
    "cancelled": _cancelled,
    "over-allotment": _over_allotment,
    "races": _races,
    "partitioned": _partitioned,
    "streams": _streams,
    "spread": _spread,
    "users-apart": _users_apart,
}


def _story(text: str) -> str:
    lines = (line.rstrip() for line in text.rstrip().splitlines())
    return "\n".join(["```", *lines, "```", ""])


def _activity(rows: Sequence[Facts]) -> list[str]:
    heads = ("blocks", "threads", "GRACT", "SMACT", "follows from the launch", "SMOCC", "follows from the launch")
    keys = ("gract", "smact", "smact_expected", "smocc", "smocc_expected")
    return [
        "## One kernel, growing numbers of blocks and threads\n",
        "`python -m scripts.bench.activity`; percent. Figure 3.1 of the RAD-RM dissertation is the form.\n",
        table(heads, [(row["blocks"], row["threads"], *(100.0 * row[key] for key in keys)) for row in rows]),
    ]


def _monitor(facts: Facts) -> list[str]:
    plain = [(key.replace("_", " "), value) for key, value in facts.items() if not isinstance(value, (dict, list))]
    gpus, processes = facts["gpus"], facts["processes"]
    parts = [
        f"## What rad-monitor costs with {gpus} GPU{'s' if gpus > 1 else ''} and {processes} processes\n",
        "`python -m scripts.bench.monitor --backend auto" + (" --load`\n" if processes else "`\n"),
        table(("what", "value"), plain),
    ]
    if "monitors" in facts:
        columns = ("gpus", "processes", "seconds", "core_percent", "peak_mib")
        parts += [
            "Monitors side by side, each over the first of the GPUs; what eight GPUs would cost is the straight line "
            f"through these, with {processes // gpus} processes on each.\n",
            table(
                [key.replace("_", " ") for key in columns],
                [tuple(one[key] for key in columns) for one in facts["monitors"]],
            ),
        ]
    if "nvml" in facts:
        heads = ("function of NVML", "calls a look", "processor time of a call, us", "of a look, us")
        keys = ("function", "calls_a_look", "processor_us", "processor_us_a_look")
        parts.append(table(heads, [tuple(row[key] for key in keys) for row in facts["nvml"]["calls"]]))
    return parts


def _mps(facts: Facts) -> list[str]:
    limits = [(r["case"], r["held_mib"], r["shown_free_mib"]) for r in facts["limits"] if "held_mib" in r]
    hangs = [(r["case"], r["client"], r["servers_left"]) for r in facts["hangs"]]
    keys = ("case", "culprit", "neighbour", "other_daemon", "new_client")
    faults = [
        (*(found[key] for key in keys), ", ".join(found["server_status"].values()))
        for name, found in facts.items()
        if name.startswith("fault")
    ]
    return [
        "## What MPS itself does\n",
        "`python -m scripts.bench.mps`, without Slurm and RAD. What a client could hold, with its own variable "
        "`CUDA_MPS_PINNED_DEVICE_MEM_LIMIT` and with the daemon's default:\n",
        table(("case", "held, MiB", "shown as free, MiB"), limits),
        "What a running client saw:\n",
        table(("what happened", "its client", "servers left"), hangs),
        "A client's fault:\n",
        table(("fault", "it", "its neighbour", "another daemon's client", "a new client", "server's state"), faults),
    ]


def _mps_ends(facts: Facts) -> list[str]:
    rows = [
        (work, way, found["ends"], found["broke"], "; ".join(found["met"]))
        for work, ways in facts.items()
        for way, found in ways.items()
    ]
    return [
        "## What the end of a client does to its neighbours\n",
        "`python -m scripts.bench.mps_ends`, without Slurm and RAD: clients that end one after another, beside two "
        "that are watched.\n",
        table(("they run", "one of them", "ends", "that broke the watched", "which met"), rows),
    ]


def _read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page; returns the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/results_gpu")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON files")
    parser.add_argument("--page", type=Path, help="default: beside the folder, with its name")
    args = parser.parse_args(arguments)
    first = args.results / "results.json"
    if not first.exists():
        parser.error(f"{args.results} holds no results.json: run scripts/gpu-cluster run all --out {args.results}")
    others = [_read(path) for path in sorted(args.results.glob("*.json")) if path != first]
    files = [_read(first), *(found for found in others if "scenarios" in found)]
    monitors = [found for found in others if "core_percent" in found]
    activity, mps, mps_ends = (_read(args.results / f"{name}.json") for name in ("activity", "mps", "mps_ends"))
    written: Path = args.page or args.results.with_suffix(".md")
    written.write_text(page(files, activity, monitors, mps, mps_ends, args.results.name), encoding="utf-8")
    print(written)
    return 0
