"""Jobs that run out of GPU memory, and jobs that only say so: what Epilog believes, and what it does."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest

from scripts.devcluster import Cluster
from slurm_hooks.config import Partition
from slurm_hooks.records import Record, decode, encode
from slurm_hooks.shares import WHOLE_GPU
from tests.cluster.conftest import new_directory, output, whole

ERROR = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 20.00 GiB"
)
OOM = """#!/bin/bash
#SBATCH --gres=gpu:1
#RAD memory=20G
echo "run ${SLURM_RESTART_COUNT:-0}"
if [ "${SLURM_RESTART_COUNT:-0}" -lt %d ]; then
    echo "%s"
    exit %d
fi
"""
NEVER = 99
# Two jobs that write to one log, where the one's error is not the other's.
DISTURBED = f"""#!/bin/bash
#SBATCH --gres=gpu:1 --output=common.log --open-mode=append
#RAD memory=20G
echo up
until grep -q "{ERROR}" common.log; do sleep 0.1; done
exit 1
"""
BESIDE = f"""#!/bin/bash
#SBATCH --output=./common.log --open-mode=append
until grep -q up common.log; do sleep 0.1; done
echo "{ERROR}"
"""
TASKS = f"""#!/bin/bash
#SBATCH --gres=gpu:1 --array=0-1 --output=tasks-%A.log --open-mode=append
#RAD memory=20G
echo "up $SLURM_ARRAY_TASK_ID"
until grep -q "up 0" tasks-$SLURM_ARRAY_JOB_ID.log && grep -q "up 1" tasks-$SLURM_ARRAY_JOB_ID.log; do sleep 0.1; done
echo "{ERROR}"
exit 1
"""
JOBS: dict[str, tuple[str, list[str]]] = {
    "once": (OOM % (1, ERROR, 1), ["--open-mode=append"]),
    "twice": (OOM % (2, ERROR, 1), ["--output=%x-%N-%j-%r.log"]),
    "always": (OOM % (NEVER, ERROR, 1), ["--open-mode=append"]),
    "exit 0": (OOM % (NEVER, ERROR, 0), []),
    "no requeue": (OOM % (NEVER, ERROR, 1), ["--no-requeue"]),
    "another error": (OOM % (NEVER, "ValueError: the shapes do not match", 1), []),
    # Its user writes a record of his own where Slurm's commands show it.
    "no directive": (
        (OOM % (NEVER, ERROR, 1)).replace("#RAD", "#"),
        ["--gres=mps:20", f"--job-name=x TresPerNode=gres:mps:20 AdminComment={encode(Record('share', share=20))}"],
    ),
    "advised": (OOM % (NEVER, ERROR, 1), ["--partition=advise"]),
    "array": (OOM % (1, ERROR, 1), ["--array=3"]),
    "to a file": (OOM % (1, ERROR, 1), ["--output=own.log", "--open-mode=append"]),
    "disturbed": (DISTURBED, []),
    "beside": (BESIDE, []),
    "tasks": (TASKS, []),
}

Jobs = dict[str, int]


@pytest.fixture(scope="module")
def jobs(rad_cluster: Cluster) -> Iterator[Jobs]:
    """All jobs, submitted at once: most of their time is Slurm's waiting before it starts a requeued job again."""
    whole(rad_cluster)
    submitted = {name: rad_cluster.submit(script, *args).job_id for name, (script, args) in JOBS.items()}
    yield submitted
    rad_cluster.cancel_all()


@pytest.fixture
def ended(rad_cluster: Cluster, jobs: Jobs) -> Callable[[str], tuple[str, Record | None]]:
    """Final state and record of a job, when slurmdbd has both."""

    def wait(name: str) -> tuple[str, Record | None]:
        job = jobs[name]
        state = rad_cluster.wait_state(job, "COMPLETED", "FAILED", deadline_s=120)
        record: Record | None = None

        def recorded() -> bool:
            nonlocal record
            rows = rad_cluster.sacct(job, "State", "AdminComment")
            record = decode(rows[-1]["AdminComment"]) if rows else None
            final = bool(rows) and rows[-1]["State"] == state
            return final and (record is None or not record.is_rewritten or _last_outcome(record) in _FINAL)

        rad_cluster.wait_for(f"slurmdbd has the outcome of {name}", recorded, 120)
        return state, record

    return wait


_FINAL = ("completed", "failed", "oom_final", "oom_told")


def _last_outcome(record: Record) -> str:
    return record.runs[-1].outcome if record.runs else ""


Ended = Callable[[str], tuple[str, Record | None]]


def test_the_first_time_the_job_comes_back_with_a_larger_share(rad_cluster: Cluster, jobs: Jobs, ended: Ended) -> None:
    state, record = ended("once")
    assert state == "COMPLETED"
    assert record is not None
    assert [run.outcome for run in record.runs] == ["oom_requeued", "completed"]
    first, second = record.runs
    assert first.share is not None
    assert second.share is not None
    usable = 143771 - Partition().margin_mib
    grown = first.share * usable / 100 + 5120
    assert first.share < second.share < WHOLE_GPU
    assert second.share * usable / 100 >= grown
    assert first.evidence.startswith("torch.OutOfMemoryError: CUDA out of memory")
    assert first.exit_code == 1
    assert record.retries == 1
    assert rad_cluster.job(jobs["once"])["Restarts"] == "1"
    assert f"gres/mps={second.share}" in rad_cluster.job(jobs["once"])["TRES"]
    log = output(rad_cluster, jobs["once"])
    assert log.index("run 0\n") < log.index(f"requeued with {second.share} shares") < log.index("run 1\n")
    assert len(rad_cluster.sacct(jobs["once"], "State", duplicates=True)) == 2
    told = rad_cluster.run(["radctl", "explain", str(jobs["once"])], user="alice").require().out
    assert f"ran out of GPU memory and was queued again with {second.share} shares" in told


def test_the_second_time_it_gets_the_whole_gpu(rad_cluster: Cluster, jobs: Jobs, ended: Ended) -> None:
    state, record = ended("twice")
    assert state == "COMPLETED"
    assert record is not None
    assert [run.outcome for run in record.runs] == ["oom_requeued", "oom_exclusive", "completed"]
    assert record.runs[-1].share == WHOLE_GPU
    assert f"gres/mps={WHOLE_GPU}" in rad_cluster.job(jobs["twice"])["TRES"]


def test_the_third_time_it_fails_and_says_why(rad_cluster: Cluster, jobs: Jobs, ended: Ended) -> None:
    state, record = ended("always")
    assert state == "FAILED"
    assert record is not None
    assert [run.outcome for run in record.runs] == ["oom_requeued", "oom_exclusive", "oom_final"]
    assert rad_cluster.job(jobs["always"])["Restarts"] == "2"
    log = output(rad_cluster, jobs["always"])
    assert [line for line in log.splitlines() if line.startswith("run ")] == ["run 0", "run 1", "run 2"]
    assert "it had a whole GPU and is not tried again" in log


@pytest.mark.parametrize(
    ("name", "state", "outcome"),
    [("exit 0", "COMPLETED", "completed"), ("another error", "FAILED", "failed")],
)
def test_what_is_no_death_of_memory_is_never_requeued(
    rad_cluster: Cluster, jobs: Jobs, ended: Ended, name: str, state: str, outcome: str
) -> None:
    seen, record = ended(name)
    assert seen == state
    assert record is not None
    assert [run.outcome for run in record.runs] == [outcome]
    assert rad_cluster.job(jobs[name])["Restarts"] == "0"
    assert "rad:" not in output(rad_cluster, jobs[name])


def test_a_job_that_may_not_be_requeued_is_told_what_to_ask_for(rad_cluster: Cluster, jobs: Jobs, ended: Ended) -> None:
    state, record = ended("no requeue")
    assert state == "FAILED"
    assert record is not None
    assert [run.outcome for run in record.runs] == ["oom_told"]
    assert "may not be requeued; ask for more: #RAD memory=" in output(rad_cluster, jobs["no requeue"])


@pytest.mark.parametrize("name", ["no directive", "advised"])
def test_jobs_that_hold_no_share_are_none_of_recoverys_business(
    rad_cluster: Cluster, jobs: Jobs, ended: Ended, name: str
) -> None:
    state, _ = ended(name)
    assert state == "FAILED"
    assert rad_cluster.job(jobs[name])["Restarts"] == "0"
    assert "rad:" not in output(rad_cluster, jobs[name])


def test_a_task_of_an_array_comes_back_too(rad_cluster: Cluster, jobs: Jobs, ended: Ended) -> None:
    state, record = ended("array")
    assert state == "COMPLETED"
    assert record is not None
    assert [run.outcome for run in record.runs] == ["oom_requeued", "completed"]


def test_a_log_that_every_run_appends_to_is_read_from_this_runs_beginning(
    rad_cluster: Cluster, jobs: Jobs, ended: Ended
) -> None:
    state, record = ended("to a file")
    assert state == "COMPLETED"
    assert record is not None
    assert [run.outcome for run in record.runs] == ["oom_requeued", "completed"]


@pytest.mark.parametrize("name", ["disturbed", "tasks"])
def test_an_error_in_a_log_to_which_another_job_writes_is_no_evidence(
    rad_cluster: Cluster, jobs: Jobs, ended: Ended, name: str
) -> None:
    state, record = ended(name)
    assert state == "FAILED"
    assert record is not None
    assert [(run.outcome, run.evidence) for run in record.runs] == [("failed", "")]
    log = "common.log" if name == "disturbed" else f"tasks-{jobs[name]}.log"
    said = (rad_cluster.home("alice") / log).read_text()
    assert "failed and is not tried again: job" in said
    assert "requeued" not in said
    if name == "disturbed":
        assert f"job {jobs['beside']} wrote to its log too" in said


def _steps(cluster: Cluster, job: int) -> list[str]:
    """Outcomes that slurmdbd has of a job."""
    rows = cluster.sacct(job, "AdminComment")
    record = decode(rows[-1]["AdminComment"]) if rows else None
    return [run.outcome for run in record.runs] if record else []


def test_an_epilog_that_dies_in_the_middle_leaves_no_job_held(cluster: Cluster) -> None:
    """As when the node dies between the two messages to slurmctld: nobody is left to release the job."""
    programs = new_directory()
    real = shutil.which("scontrol")
    (programs / "scontrol").write_text(f'#!/bin/sh\n{real} "$@"\ncase $1 in requeue*) kill -9 $PPID ;; esac\n')
    (programs / "scontrol").chmod(0o755)
    hook = cluster.layout.etc / "epilog.sh"
    before = hook.read_text()
    try:
        hook.write_text(before.replace("\n", f"\nexport RAD_PATH={programs}:/usr/bin:/bin\n", 1))
        job = cluster.submit(JOBS["once"][0]).job_id
        assert cluster.wait_state(job, "COMPLETED", "FAILED", deadline_s=120) == "COMPLETED"
    finally:
        hook.write_text(before)
        shutil.rmtree(programs)
    assert cluster.job(job)["Restarts"] == "1"
    cluster.wait_for("slurmdbd has both outcomes", lambda: _steps(cluster, job) == ["oom_requeued", "completed"], 120)


def test_a_full_spool_costs_neither_recovery_nor_outcome(cluster: Cluster) -> None:
    spool = cluster.layout.directory / "spool" / "rad"
    aside = spool.with_name("aside")
    if spool.exists():
        spool.rename(aside)
    try:
        spool.touch()  # nothing can be written there
        job = cluster.submit(JOBS["once"][0]).job_id
        assert cluster.wait_state(job, "COMPLETED", "FAILED", deadline_s=120) == "COMPLETED"
        cluster.wait_for("slurmdbd has both outcomes", lambda: len(_steps(cluster, job)) == 2, 120)
    finally:
        spool.unlink()
        if aside.exists():
            aside.rename(spool)
    assert _steps(cluster, job) == ["oom_requeued", "completed"]
    assert cluster.job(job)["Restarts"] == "1"


def test_a_job_that_ends_while_slurmctld_is_down_is_recovered(cluster: Cluster) -> None:
    """Just after its start Slurm 22.05 knows of no job's GPUs, and tells its Epilog of none."""
    script = OOM % (1, ERROR, 1)
    job = cluster.submit(script.replace("echo", "until [ -e go ]; do sleep 0.1; done\necho", 1)).job_id
    cluster.wait_state(job, "RUNNING")
    cluster.wait_for("its Prolog has ended", lambda: cluster.job(job)["Reason"] != "Prolog")
    cluster.stop("slurmctld")
    (cluster.home("alice") / "go").touch()
    cluster.start("slurmctld")
    try:
        assert cluster.wait_state(job, "COMPLETED", "FAILED", deadline_s=120) == "COMPLETED"
    finally:
        (cluster.home("alice") / "go").unlink()
    cluster.wait_for("slurmdbd has both outcomes", lambda: _steps(cluster, job) == ["oom_requeued", "completed"], 120)
