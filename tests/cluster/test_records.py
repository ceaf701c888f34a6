"""What is kept of a job, and what a user sees of it."""

from __future__ import annotations

import json
import sys

import pytest

from scripts.devcluster import Cluster
from slurm_hooks.records import decode
from tests.cluster.conftest import CHECKOUT, UNTIL_TOLD, accounted, need_record, outcome_of, output_so_far, tell

SCRIPT = "#!/bin/bash\n#SBATCH --gres=gpu:1\n#RAD memory=48G\nsleep 1\n"


TWO_RUNS = """#!/bin/bash
#SBATCH --gres=gpu:1
#RAD memory=48G
echo "run ${SLURM_RESTART_COUNT:-0} in $SLURM_JOB_PARTITION"
[ -n "${SLURM_RESTART_COUNT:-}" ] || sleep 300
"""


def test_a_finished_job_is_in_sacct_report_and_explain(cluster: Cluster) -> None:
    job = cluster.submit(SCRIPT, "--job-name=train").job_id
    assert cluster.wait_state(job) == "COMPLETED"
    cluster.wait_for("slurmdbd has the outcome", outcome_of(cluster, job), 120)
    # A job's name reaches slurmdbd last.
    cluster.wait_for("slurmdbd has it all", lambda: cluster.sacct(job, "JobName")[0]["JobName"] == "train", 120)
    record = accounted(cluster, job)
    assert record is not None
    assert record.runs[-1].outcome == "completed"
    assert record.runs[-1].share == record.share == 35
    told = cluster.run(["radctl", "explain", str(job)], user="alice").require().out
    for words in (f"job {job}", "train", "alice", "gpu:1", "35"):
        assert words in told
    shown = cluster.run(["radctl", "report", "--json"]).require().out
    assert json.loads(shown)
    for form in ([], ["--csv"], ["--by", "account"], ["--by", "partition"], ["--by", "time"]):
        assert cluster.run(["radctl", "report", *form]).require().out.strip()
    assert "alice" in cluster.run(["radctl", "report"]).out
    assert "research" in cluster.run(["radctl", "report", "--by", "account", "--csv"]).out


def with_comment(cluster: Cluster, text: str) -> tuple[int, str]:
    """A finished job beside whose record another tool has written `text`, and its AdminComment before it ran."""
    job = cluster.submit(SCRIPT, "--hold").job_id
    comment = f"{text} {cluster.job(job)['AdminComment']}"
    cluster.run(["scontrol", "update", f"jobid={job}", f"admincomment={comment}"]).require()
    cluster.run(["scontrol", "release", str(job)]).require()
    assert cluster.wait_state(job) == "COMPLETED"
    return job, comment


def test_what_other_tools_keep_in_the_comment_stays(cluster: Cluster) -> None:
    job, _ = with_comment(cluster, "note=abc")
    cluster.wait_for("slurmdbd has the outcome", outcome_of(cluster, job), 120)
    assert cluster.sacct(job, "AdminComment")[0]["AdminComment"].startswith("note=abc ")


def test_a_comment_that_this_sacctmgr_would_harm_stays_as_it_is(cluster: Cluster) -> None:
    """22.05's sacctmgr makes letters small, which would destroy base64 of others: then our outcome waits on disk."""
    job, comment = with_comment(cluster, "JS1:H4sIAAAB")
    spool = cluster.layout.directory / "spool" / "rad"
    cluster.wait_for(
        "the outcome is sent or put aside",
        lambda: outcome_of(cluster, job)() or bool(list(spool.glob(f"{job}-*.kept"))),
    )
    kept = cluster.sacct(job, "AdminComment")[0]["AdminComment"]
    assert kept.startswith("JS1:H4sIAAAB ")
    assert decode(kept) is not None
    assert kept == comment or outcome_of(cluster, job)()


def test_what_its_user_does_to_a_job_is_possible_and_recorded(cluster: Cluster) -> None:
    """Hold it, ask for more, queue it again while it runs, move it to a partition that RAD does not serve."""
    job = cluster.submit(TWO_RUNS, "--hold", "--open-mode=append").job_id
    scontrol(cluster, "update", f"jobid={job}", "gres=mps:50")
    scontrol(cluster, "release", str(job))
    cluster.wait_for("it runs", lambda: "run 0 in gpu" in output_so_far(cluster, job))
    assert "gres/mps=50" in cluster.job(job)["TRES"]
    scontrol(cluster, "requeuehold", str(job))
    cluster.wait_state(job, "PENDING")
    scontrol(cluster, "update", f"jobid={job}", "partition=plain", "timelimit=5", "starttime=now+2")
    scontrol(cluster, "release", str(job))
    assert cluster.wait_state(job, "COMPLETED", "FAILED") == "COMPLETED"
    assert output_so_far(cluster, job).splitlines()[-1] == "run 1 in plain"
    cluster.wait_for("slurmdbd has both outcomes", lambda: has_both(cluster, job), 120)
    record = accounted(cluster, job)
    assert record is not None
    assert [(run.restart, run.share, run.outcome) for run in record.runs] == [(0, 50, "requeued"), (1, 50, "completed")]
    assert all(run.start for run in record.runs)
    assert record.user_changes == ("mps:50",)


def has_both(cluster: Cluster, job: int) -> bool:
    """Whether slurmdbd has the outcomes of both runs of a job: it may have had the first alone."""
    record = accounted(cluster, job)
    return record is not None and len(record.runs) > 1 and outcome_of(cluster, job, restart=1)()


def scontrol(cluster: Cluster, *args: str) -> None:
    """As the user whose job it is."""
    cluster.run(["scontrol", *args], user="alice").require()


def test_a_run_that_slurm_itself_queued_again_is_recorded(cluster: Cluster) -> None:
    path = cluster.layout.slurm_conf
    before = path.read_text()
    path.write_text(f"{before}RequeueExit=7\n")
    try:
        cluster.run(["scontrol", "reconfigure"]).require()
        job = cluster.submit(SCRIPT.replace("sleep 1", '[ -n "${SLURM_RESTART_COUNT:-}" ] || exit 7')).job_id
        cluster.wait_for("it was queued again", lambda: cluster.job(job)["Restarts"] == "1")
        assert cluster.wait_state(job, "COMPLETED", deadline_s=60) == "COMPLETED"
    finally:
        path.write_text(before)
        cluster.run(["scontrol", "reconfigure"]).require()
    cluster.wait_for("slurmdbd has both outcomes", lambda: has_both(cluster, job), 120)
    record = accounted(cluster, job)
    assert record is not None
    assert [(run.outcome, run.exit_code) for run in record.runs] == [("requeued", 7), ("completed", 0)]


def test_nothing_is_lost_while_slurmdbd_is_down(cluster: Cluster) -> None:
    job = cluster.submit(SCRIPT + UNTIL_TOLD).job_id
    cluster.wait_state(job, "RUNNING")
    cluster.stop("slurmdbd")
    tell(cluster, job)
    assert cluster.wait_state(job) == "COMPLETED"
    spool = cluster.layout.directory / "spool" / "rad"
    cluster.wait_for("the outcome is on disk", lambda: bool(list(spool.glob(f"{job}-*.json"))), 120)
    states = cluster.run(["sinfo", "-h", "-o", "%T"]).out.split()
    assert not {"drained", "draining", "down"} & set(states)
    cluster.start("slurmdbd")  # slurmctld looks for it every ten seconds

    def sent() -> bool:
        flush(cluster)
        return outcome_of(cluster, job)()

    cluster.wait_for("the outcome is sent", sent, 120)
    cluster.wait_for("the spool is empty", lambda: not list(spool.glob(f"{job}-*.json")), 120)


def flush(cluster: Cluster) -> None:
    """What rad-spool.timer starts."""
    main = CHECKOUT / "slurm_hooks" / "node" / "main.py"
    cluster.run([sys.executable, "-I", str(main), "flush"]).require()


def test_decide_says_what_submit_does(cluster: Cluster) -> None:
    path = cluster.home("alice") / "decided.sh"
    path.write_text(SCRIPT)
    said = cluster.run(["radctl", "decide", "decided.sh", "--json"], user="alice").require().out
    assert "35" in said
    job = cluster.submit(SCRIPT, "--hold").job_id
    assert need_record(cluster, job).share == 35


@pytest.mark.parametrize(
    "script",
    [
        "",
        " \n",
        SCRIPT[3:],
        f"\n{SCRIPT}",
        SCRIPT.replace("\n", "\r\n"),
        SCRIPT.replace("\n", "\r", 1),
        f"#!\n{SCRIPT}",
    ],
    ids=["empty", "blank", "no-shebang", "late-shebang", "dos", "a-return", "no-interpreter"],
)
def test_decide_refuses_what_sbatch_refuses(cluster: Cluster, script: str) -> None:
    path = cluster.home("alice") / "odd.sh"
    path.write_bytes(script.encode())
    decided = cluster.run(["radctl", "decide", "odd.sh"], user="alice")
    submitted = cluster.run(["sbatch", "--hold", "odd.sh"], user="alice")
    assert (decided.code == 0) == (submitted.code == 0), (decided.out, submitted.out)


def test_doctor_finds_no_fault_with_the_controller(cluster: Cluster) -> None:
    said = cluster.run(["radctl", "doctor", "controller"])
    assert said.code == 0, said.out


def test_doctor_misses_nothing_on_the_node_but_what_needs_a_gpu(cluster: Cluster) -> None:
    findings = json.loads(cluster.run(["radctl", "doctor", "node", "--json"]).out)
    missing = {finding["subject"] for finding in findings["node"] if not finding["ok"]}
    assert missing <= {"nvidia-smi", "NVML", "MPS control program", "rad-monitor"}
