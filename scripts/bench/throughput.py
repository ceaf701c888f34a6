"""Submits a second from four clients, in turn: without Lua, with Slurm's own Lua plugins and empty scripts, with RAD.

What an empty job_submit.lua or cli_filter.lua costs is Slurm's, and so is what a job costs that asks for what RAD asks
for it: a script that writes the same words into every job shows that. The rest is RAD's. Everything runs on this
machine: where its cores are busy, what counts is processor time, sbatch's included.

Every row has a Slurm of its own, begun anew for each script: Slurm's Lua plugin takes longer the more jobs it knows.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scripts.bench.common import USER, Table, clusters, inline_summary, note, script, submit
from scripts.devcluster import Cluster, ClusterError
from slurm_hooks.records import decode

CLIENTS = 4
ROUNDS = 10
EMPTY_SUBMIT = """
function slurm_job_submit(job_desc, part_list, submit_uid) return slurm.SUCCESS end
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid) return slurm.SUCCESS end
return slurm.SUCCESS
"""
FIXED_SUBMIT = """
function slurm_job_submit(job_desc, part_list, submit_uid)
    job_desc.tres_per_node = "{tres}"
    job_desc.admin_comment = "{comment}"
    job_desc.environment["RAD_SHARE"] = "{share}"
    job_desc.environment["RAD_THREAD_PERCENTAGE"] = "{threads}"
    slurm.log_user("%s", {message!r})
    return slurm.SUCCESS
end
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid) return slurm.SUCCESS end
return slurm.SUCCESS
"""
EMPTY_FILTER = """
function slurm_cli_setup_defaults(options, early_pass) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, pack_offset) return slurm.SUCCESS end
function slurm_cli_post_submit(offset, job_id, step_id) return slurm.SUCCESS end
return slurm.SUCCESS
"""


@dataclass
class _Way:
    """A cluster, the environment of its clients, and what their submits took."""

    name: str
    target: Cluster
    env: Mapping[str, str]
    seconds: float = 0.0
    cpu_s: float = 0.0  # of the clients
    calls: int = 0
    inside_us: int = 0  # in slurmctld

    def submit(self, scripts: list[str]) -> None:
        calls, inside, cpu = *_rpc(self.target), _children_s()
        self.seconds += submit(self.target, scripts, CLIENTS, "--hold", env=self.env)
        calls_after, inside_after = _rpc(self.target)
        self.cpu_s += _children_s() - cpu
        self.calls += calls_after - calls
        self.inside_us += inside_after - inside


def run(count: int) -> Table:
    """Measure."""
    cases: tuple[tuple[str, Callable[[int], str]], ...] = (
        ("no #RAD line", lambda _: script("")),
        ("#RAD memory=12G", lambda _: script("#RAD memory=12G\n")),
        ("#RAD, 100 layers, the same", lambda _: script(inline_summary(0))),
        ("#RAD, 100 layers, each new", lambda n: script(inline_summary(n))),
    )
    return Table(
        f"Submits from {CLIENTS} clients, {ROUNDS} rounds in turn",
        (
            "script",
            "Slurm with",
            "submits",
            "per second",
            "change",
            "RAD's part",
            "us in slurmctld",
            "CPU ms of a sbatch",
        ),
        [row for name, text_of in cases for row in _rows(name, text_of, count // ROUNDS)],
    )


def _rows(name: str, text_of: Callable[[int], str], each: int) -> list[list[str]]:
    """Measure one kind of script."""
    with clusters(False, False, False, False, True, True) as (plain, empty, fixed, filtering, rad, filtered):
        for target in (empty, filtering):
            _with_script(target, EMPTY_SUBMIT)
        asks = "#RAD" in text_of(0)
        if asks:
            _with_script(fixed, _same_request(rad, text_of(0)))
        first, submit_empty = _Way("no Lua", plain, {}), _Way("empty job_submit.lua", empty, {})
        both_empty = _Way("both empty", filtering, _with_empty_filter(filtering))
        beside = [
            (first, first),
            (submit_empty, first),
            *([(_Way("RAD's request, fixed", fixed, {}), first)] if asks else []),
            (_Way("RAD's job_submit.lua", rad, _without_filter(rad)), submit_empty),
            (both_empty, first),
            (_Way("both RAD's", filtered, {}), both_empty),
        ]
        ways = [way for way, _ in beside]
        for number in range(ROUNDS):
            note(f"{name}: round {number + 1} of {ROUNDS}")
            for place in range(len(ways)):  # in turn, and each the first as often as the others
                scripts = [text_of(number * each + n) for n in range(each)]
                ways[(number + place) % len(ways)].submit(scripts)
        return [_row(name, way, first, other, each * ROUNDS) for way, other in beside]


def _row(name: str, way: _Way, first: _Way, empty: _Way, count: int) -> list[str]:
    """One line; RAD's part is the change beside the same scripts empty."""
    return [
        name,
        way.name,
        str(count),
        f"{count / way.seconds:.0f}",
        f"{100 * (first.seconds / way.seconds - 1):+.1f} %",
        f"{100 * (empty.seconds / way.seconds - 1):+.1f} %" if empty is not first else "",
        f"{way.inside_us / max(1, way.calls):.0f}",
        f"{1000 * way.cpu_s / count:.2f}",
    ]


def _without_filter(target: Cluster) -> dict[str, str]:
    """The environment of a client on a machine without cli_filter.lua."""
    etc = target.layout.etc
    lines = (etc / "slurm.conf").read_text(encoding="utf-8").splitlines(keepends=True)
    path = etc / "slurm-no-filter.conf"
    path.write_text("".join(line for line in lines if not line.startswith("CliFilterPlugins=")), encoding="utf-8")
    return {"SLURM_CONF": str(path)}


def _with_script(target: Cluster, text: str) -> None:
    """Give a cluster without RAD a job_submit.lua."""
    etc = target.layout.etc
    (etc / "job_submit.lua").write_text(text, encoding="utf-8")
    with (etc / "slurm.conf").open("a", encoding="utf-8") as file:
        file.write("JobSubmitPlugins=lua\n")
    target.stop("slurmctld")
    target.start("slurmctld")


def _same_request(target: Cluster, text: str) -> str:
    """A job_submit.lua that writes into every job what RAD writes into the one of this script.

    Raises:
        ClusterError: if RAD leaves it as it is.
    """
    said = target.submit(text, "--hold", user=USER, env=_without_filter(target))
    job = target.job(said.job_id)
    record = decode(job.get("AdminComment", ""))
    if record is None or record.share is None:
        raise ClusterError(f"RAD did not decide: {said.err}")
    target.run(["scancel", str(said.job_id)])
    return FIXED_SUBMIT.format(
        tres=job["TresPerNode"],
        comment=job["AdminComment"],
        share=record.share,
        threads=record.thread_percentage,
        message=said.err.strip().removeprefix("sbatch: "),
    )


def _with_empty_filter(target: Cluster) -> dict[str, str]:
    """The environment of a client on a machine whose cli_filter.lua does nothing."""
    etc = target.layout.etc
    folder = etc / "empty-filter"
    folder.mkdir(exist_ok=True)
    text = (etc / "slurm.conf").read_text(encoding="utf-8")
    (folder / "slurm.conf").write_text(text + "CliFilterPlugins=lua\n", encoding="utf-8")
    (folder / "cli_filter.lua").write_text(EMPTY_FILTER, encoding="utf-8")
    return {"SLURM_CONF": str(folder / "slurm.conf")}


def _children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _rpc(target: Cluster) -> tuple[int, int]:
    """Number and total microseconds of batch submissions, as sdiag counts them."""
    found = re.search(
        r"REQUEST_SUBMIT_BATCH_JOB\s.*count:(\d+)\s+ave_time:\d+\s+total_time:(\d+)", target.run(["sdiag"]).out
    )
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)
