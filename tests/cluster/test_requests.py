"""What becomes of requests, through a real sbatch: rewritten, left alone, refused."""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Callable, Iterator

import pytest

from scripts.devcluster import Cluster, CommandResult
from slurm_hooks.records import decode
from tests.cluster.conftest import ONE_GPU, can_retype, need_record, output, record_of, shares, version, whole

# A claim of 48 GiB of an H200's 143771 MiB, less a margin of 2048: the share is 35.
CLAIM = "48G"
SHARE = 35
SCRIPT = f"""#!/bin/bash
#RAD memory={CLAIM}
echo "device $CUDA_VISIBLE_DEVICES threads $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
"""
CLAIMED = f"#RAD memory={CLAIM}"
STEPS = f"""#!/bin/bash
{CLAIMED}
echo "device $CUDA_VISIBLE_DEVICES"
srun sh -c 'echo "step $CUDA_VISIBLE_DEVICES"'
srun --gres=gpu:1 sh -c 'echo "step that asks $CUDA_VISIBLE_DEVICES"'
"""
BY_GPU = f"""#!/bin/bash
{CLAIMED}
srun --cpus-per-gpu=2 --mem-per-gpu=64 sh -c 'echo "$SLURM_NTASKS of $SLURM_CPUS_PER_TASK on $CUDA_VISIBLE_DEVICES"'
srun --cpus-per-gpu 9 --gpus=1 sh -c 'echo "$SLURM_NTASKS of $SLURM_CPUS_PER_TASK on $CUDA_VISIBLE_DEVICES"'
srun --ntasks-per-gpu=2 --ntasks=1 --cpus-per-g=4 cat <<<"two tasks"
srun --cpus-per-gpu=1 printf '%s|%s|%s\\n' "a  b" '' --cpus-per-gpu=3
srun --gpu-bind=none --ntasks=2 --cpus-per-task=2 sh -c 'echo "bound to $CUDA_VISIBLE_DEVICES"'
srun --help | grep -q tres-per-task && each=--tres-per-task=cpu=2,gres/gpu=1 || each=--gpus-per-task=1  # since 23.11
srun --ntasks=1 $each sh -c 'echo "each $CUDA_VISIBLE_DEVICES"'
"""
SWEEP = f"""#!/bin/bash
{CLAIMED}
srun --exact -n1 -c1 --gres=gpu:1 sh -c 'touch begun; until [ -e over ]; do sleep 0.1; done' &
until [ -e begun ]; do sleep 0.1; done
srun --exact -n1 -c1 --gres=none echo "beside it"
srun --overlap -n1 -c1 --gres=gpu:1 echo "over it"
srun --exact -n1 -c1 --gres=gpu:1 --immediate echo "at once" 2>/dev/null || echo "not at once"
touch over
wait
srun --exact -n1 -c1 --gres=gpu:1 echo "behind it"
rm begun over
"""
PLAIN_STEPS = f"""#!/bin/bash
{CLAIMED}
srun sh -c 'echo "step $CUDA_VISIBLE_DEVICES"'
srun --gres=gpu:1 true || echo refused
"""
COUNTING = """#!/bin/bash
names="SLURM_GPUS SLURM_GPUS_PER_NODE SLURM_GPUS_PER_TASK SLURM_CPUS_PER_GPU SLURM_MEM_PER_GPU"
names="$names SLURM_MEM_PER_NODE SRUN_CPUS_PER_TASK RAD_COUNTED"
counted="for name in $names; do printf '%s,' \\"\\$(printenv \\$name)\\"; done; echo"
eval "$counted"
srun sh -c "$counted"
srun --mem=16 sh -c "$counted"
export counted
srun sh -c 'srun --overlap sh -c "$counted"'
[ -z "$SLURM_CPUS_PER_GPU" ] || srun -n2 true && echo two
"""
COUNTS = {
    "per GPU": ("--gpus=1", "--cpus-per-gpu=2", "--mem-per-gpu=64"),
    "per node": ("--gpus-per-node=1", "--cpus-per-gpu=2"),
    "per task": ("--gpus-per-task=1", "--ntasks=1"),
}
WAIT = "#!/bin/bash\n#RAD memory=48G\nsleep 300\n"


MISSPELT = "#!/bin/bash\n#RAD batch_sise=1\ntrue\n"
FORMS = (
    ("--gres=gpu",),
    ("--gres=gpu:1",),
    ("--gpus=1",),
    ("-G1",),
    ("--gpus-per-node=1",),
    ("--gpus-per-task=1", "--ntasks=1"),
    ("--gpus=1", "--mem-per-gpu=1G", "--cpus-per-gpu=1"),
)
TYPES = ("--gres=gpu:h200:1", "--gpus=h200:1", "--gpus-per-node=h200:1")
STEP = "/bin/sh -c 'echo \"threads $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE.\"'"
JOBS: dict[str, tuple[str, tuple[str, ...]]] = {
    **{" ".join(form): (STEPS, form) for form in FORMS},
    **{form: (SCRIPT, (form,)) for form in TYPES},
    "no environment": (
        f"#!/bin/bash\n{CLAIMED}\nsrun {STEP}\nsrun --export=NONE --gres=gpu:1 {STEP}\n",
        ("--gres=gpu:1", "--export=NONE"),
    ),
    "allocation within": (
        f"#!/bin/bash\n{CLAIMED}\nsalloc --gres=gpu:1 srun --gres=gpu:1 sh -c 'echo \"within $RAD_SHARE.\"'\n",
        ("--gres=gpu:1",),
    ),
    "sweep": (SWEEP, ("--gres=gpu:1", "--cpus-per-task=4")),
    "by GPU": (BY_GPU, ("--gres=gpu:1", "--cpus-per-task=4")),
    **{name: (COUNTING, options) for name, options in COUNTS.items()},
    **{f"{name}, shared": (COUNTING.replace("\n", f"\n{CLAIMED}\n", 1), options) for name, options in COUNTS.items()},
    "constraint": (SCRIPT, ("--gres=gpu:h200:1", "--constraint=h200|infiniband")),
    "device type": (SCRIPT, ("--gres=gpu:g1:1",)),
    "no directive": ("#!/bin/bash\necho $CUDA_VISIBLE_DEVICES\n", ("--gres=gpu:1",)),
    **{name: (SCRIPT, ("--gres=gpu:1", f"--partition={name}")) for name in ("advise", "shadow", "off", "plain")},
    **{f"wrong, {name}": (MISSPELT, ("--gres=gpu:1", f"--partition={name}")) for name in ("advise", "shadow")},
}
Run = Callable[[str], tuple[int, str]]


@pytest.fixture(scope="module")
def said(rad_cluster: Cluster) -> Iterator[dict[str, CommandResult]]:
    """What sbatch said of each job: all are submitted at once, as most of a job's time is Slurm's waiting."""
    whole(rad_cluster)
    yield {name: rad_cluster.submit(script, *args) for name, (script, args) in JOBS.items()}
    rad_cluster.cancel_all()


@pytest.fixture
def completed(rad_cluster: Cluster, said: dict[str, CommandResult]) -> Run:
    """Waits for a job's end; its number and what sbatch said of it."""

    def wait(name: str) -> tuple[int, str]:
        job = said[name].job_id
        assert rad_cluster.wait_state(job) == "COMPLETED"
        return job, said[name].err

    return wait


@pytest.mark.parametrize("request_form", FORMS, ids=" ".join)
def test_every_form_of_a_request_for_one_gpu_becomes_a_share(
    rad_cluster: Cluster, completed: Run, request_form: tuple[str, ...]
) -> None:
    job, err = completed(" ".join(request_form))
    assert f"{SHARE} of 100 shares of one GPU" in err
    shown = rad_cluster.job(job)
    assert shares(shown["TresPerNode"]) == SHARE
    assert f"gres/mps={SHARE}" in shown["TRES"]
    assert "gres/gpu" not in shown["TRES"]
    lines = output(rad_cluster, job).splitlines()  # srun may say there that it waited for the step before
    seen = [line.split()[-1] for line in lines if line.startswith(("device", "step"))]
    assert len(seen) == 3
    assert len(set(seen)) == 1
    record = need_record(rad_cluster, job)
    assert (record.action, record.share) == ("share", SHARE)
    assert record.asked in ("gpu", "gpu:1")


def test_steps_get_all_threads_where_they_get_nothing_of_the_users_environment(
    rad_cluster: Cluster, completed: Run
) -> None:
    job, _ = completed("no environment")
    assert [line for line in output(rad_cluster, job).splitlines() if "threads" in line] == ["threads ."] * 2


def test_an_allocation_within_a_job_that_shares_is_none_of_its_steps(rad_cluster: Cluster, completed: Run) -> None:
    job, _ = completed("allocation within")
    assert "within .\n" in output(rad_cluster, job)


def test_steps_that_ask_by_gpu_start_as_in_a_job_that_holds_one(rad_cluster: Cluster, completed: Run) -> None:
    job, _ = completed("by GPU")
    device = re.findall(r"gres/mps:g(\d)=", rad_cluster.job(job)["TRES"])[0]
    said = output(rad_cluster, job).splitlines()
    assert [line for line in said if not line.startswith("srun:")] == [  # it may say that it waited for a step to end
        f"1 of 2 on {device}",
        f"1 of 4 on {device}",  # the job has no more, and Slurm starts a step with a GPU all the same
        *["two tasks"] * 2,
        "a  b||--cpus-per-gpu=3",
        *[f"bound to {device}"] * 2,
        f"each {device}",
    ], said  # where a step wrote nothing, srun's words tell why


def test_steps_that_ask_for_the_gpu_have_it_one_after_the_other(rad_cluster: Cluster, completed: Run) -> None:
    """As in a job that holds a GPU: of the job's memory each may take all."""
    job, _ = completed("sweep")
    said = [line for line in output(rad_cluster, job).splitlines() if not line.startswith("srun:")]
    assert said == ["beside it", "over it", "not at once", "behind it"], said


@pytest.mark.parametrize("name", COUNTS)
def test_scripts_count_by_what_they_have_asked_for(rad_cluster: Cluster, completed: Run, name: str) -> None:
    said = [output(rad_cluster, completed(one)[0]).splitlines() for one in (name, f"{name}, shared")]
    alone, shared = [[line for line in lines if not line.startswith("srun:")] for lines in said]
    assert len(alone) == 5
    assert any(character.isdigit() for character in alone[0]) or version(rad_cluster) >= (23, 11)
    assert shared == alone, said


def test_where_srun_is_not_filtered_steps_start_that_do_not_ask_for_the_gpu_themselves(cluster: Cluster) -> None:
    """Though cli_filter.lua lies there: slurm.conf does not say so."""
    conf = cluster.layout.slurm_conf
    was = conf.read_text()
    try:
        conf.write_text(was.replace("CliFilterPlugins=lua\n", ""))
        job = cluster.submit(PLAIN_STEPS, "--gpus=1").job_id
        cluster.wait_state(job, "COMPLETED")
    finally:
        conf.write_text(was)
    said = output(cluster, job).splitlines()
    assert [line for line in said if not line.startswith("srun:")] == [
        f"step {_device(cluster.job(job))[0][1:]}",
        "refused",
    ], said


@pytest.mark.parametrize("request_form", TYPES)
def test_a_gpu_type_becomes_a_constraint(rad_cluster: Cluster, completed: Run, request_form: str) -> None:
    job, _ = completed(request_form)
    shown = rad_cluster.job(job)
    assert shares(shown["TresPerNode"]) == SHARE
    assert shown["Features"] == "h200"
    assert need_record(rad_cluster, job).asked == "gpu:h200:1"


def test_a_constraint_of_the_user_stays_beside_that_of_the_type(rad_cluster: Cluster, completed: Run) -> None:
    job, _ = completed("constraint")
    assert rad_cluster.job(job)["Features"] == "(h200|infiniband)&h200"


def test_a_device_type_stays_a_device_type(rad_cluster: Cluster, completed: Run) -> None:
    job, _ = completed("device type")
    assert rad_cluster.job(job)["TresPerNode"] in (f"gres:mps:g1:{SHARE}", f"gres/mps:g1:{SHARE}")
    assert output(rad_cluster, job).startswith("device 1 ")


def test_a_job_without_directives_is_none_of_rads_business(rad_cluster: Cluster, completed: Run) -> None:
    job, err = completed("no directive")
    assert "rad" not in err
    assert "gres/gpu=1" in rad_cluster.job(job)["TRES"]
    assert record_of(rad_cluster, job) is None


def test_advise_tells_and_changes_nothing(rad_cluster: Cluster, completed: Run) -> None:
    job, err = completed("advise")
    assert f"{SHARE} of 100 shares" in err
    assert "gres/gpu=1" in rad_cluster.job(job)["TRES"]
    record = need_record(rad_cluster, job)
    assert (record.action, record.mode, record.share) == ("advised", "advise", SHARE)
    _, err = completed("wrong, advise")
    assert "did you mean 'batch_size'" in err


def test_shadow_decides_in_silence(rad_cluster: Cluster, completed: Run) -> None:
    job, err = completed("shadow")
    assert err == ""
    assert "gres/gpu=1" in rad_cluster.job(job)["TRES"]
    record = need_record(rad_cluster, job)
    assert (record.action, record.mode, record.share) == ("shadowed", "shadow", SHARE)
    _, err = completed("wrong, shadow")
    assert err == ""


@pytest.mark.parametrize("partition", ["off", "plain"])
def test_partitions_that_rad_does_not_serve_are_left_alone(
    rad_cluster: Cluster, completed: Run, partition: str
) -> None:
    job, err = completed(partition)
    assert "RAD does not serve it" in err
    assert "gres/gpu=1" in rad_cluster.job(job)["TRES"]


def test_what_slurm_gives_for_a_gpu_comes_with_shares_too(cluster: Cluster) -> None:
    defaults = ["scontrol", "update", "partitionname=pack", "jobdefaults=DefCpuPerGPU=2,DefMemPerGPU=64"]
    cluster.run(defaults).require()
    scripts = [f"#!/bin/bash\n{line}\ntrue\n" for line in (CLAIMED, "")]
    try:
        cluster.wait_until_radd_sees()
        jobs = [cluster.submit(script, "--gres=gpu:1", "-ppack").job_id for script in scripts]
    finally:
        cluster.run([*defaults[:-1], "jobdefaults="]).require()
    for job in jobs:
        assert cluster.wait_state(job) == "COMPLETED"
        assert cluster.job(job)["NumCPUs"] == "2"
    assert cluster.job(jobs[0])["MinMemoryNode"] == "64M"
    assert need_record(cluster, jobs[0]).share == SHARE


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--gres=gpu:2"], "more than one GPU"),
        (["--gpus=2"], "more than one GPU"),
        (["--gpus-per-task=1", "--ntasks=2", "--nodes=1"], "several tasks"),
        (["--gres=gpu:1", "--nodes=2"], "several nodes"),
        (["--gres=gpu:1", "--nodes=1-2"], "may take several nodes: ask for --nodes=1"),
        (["--gres=gpu:1", "--spread-job"], "by --spread-job"),
        (["--gres=gpu:1", "--constraint=[h200*1&infiniband*1]"], "by the numbers in --constraint"),
        (["--gres=gpu:1", "--exclusive"], "exclusively"),
        (["--gres=mps:20"], "already names mps"),
        ([], "no GPU"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_rad_does_not_understand_is_left_alone(cluster: Cluster, arguments: list[str], reason: str) -> None:
    with_rad = cluster.submit(SCRIPT, "--hold", *arguments)
    without = cluster.submit(SCRIPT.replace("#RAD", "#"), "--hold", *arguments)
    job = with_rad.job_id
    assert reason in with_rad.err
    record = need_record(cluster, job)
    assert record.action == "left_alone"
    assert reason in record.reasons[0]
    asked, plain = cluster.job(job), cluster.job(without.job_id)
    for field in ("TresPerNode", "TresPerJob", "TresPerTask", "TRES", "Features", "ReqNodeList"):
        assert asked.get(field) == plain.get(field)


def test_a_question_when_a_job_would_start_is_no_job(cluster: Cluster) -> None:
    script = SCRIPT.replace(CLAIM, "80G")  # two have no room on one GPU
    cluster.wait_until_radd_sees()
    asked = [cluster.submit(script, "--gres=gpu:1", "--test-only") for _ in range(4)]
    job = cluster.submit(script, "--gres=gpu:1").job_id
    assert all("of 100 shares" in said.err and " to start at " in said.err for said in asked)
    assert need_record(cluster, job).pin


def test_a_job_is_not_pinned_where_a_reservation_begins_before_its_end(cluster: Cluster) -> None:
    made = "reservationname=soon starttime=now+10minutes duration=10 users=root nodes=node0 partition=gpu flags=maint"
    cluster.run(["scontrol", "create", "reservation", *made.split()]).require()
    try:
        cluster.wait_until_radd_sees()
        jobs = [cluster.submit(SCRIPT, "--gres=gpu:1", f"--time={minutes}").job_id for minutes in (60, 1)]
    finally:
        cluster.run(["scontrol", "delete", "reservationname=soon"]).require()
    assert [need_record(cluster, job).node for job in jobs] == ["node1", "node0"]


def test_a_job_in_a_reservation_of_gpus_starts(cluster: Cluster) -> None:
    """Since 25.05 it would wait there for shares for ever; before 23.11 Slurm has no such reservations."""
    made = "reservationname=course starttime=now duration=10 users=alice nodes=node1 TRESPerNode=gres/gpu:g0:1"
    said = cluster.run(["scontrol", "create", "reservation", *made.split()])
    if version(cluster) < (23, 11):
        assert "TRESPerNode" in said.err
        return
    try:  # scontrol of Ubuntu's 23.11 may end when it has done that
        cluster.wait_until_radd_sees()
        job = cluster.submit(SCRIPT, "--gres=gpu:1", "--reservation=course").job_id
        assert cluster.wait_state(job) == "COMPLETED"
    finally:
        cluster.run(["scontrol", "delete", "reservationname=course"]).require()
    assert cluster.job(job)["NodeList"] == "node1"
    assert need_record(cluster, job).action == ("left_alone" if version(cluster) >= (25, 5) else "share")


def test_a_job_is_not_pinned_while_its_partition_is_down(cluster: Cluster) -> None:
    cluster.run(["scontrol", "update", "partitionname=pack", "state=down"]).require()
    try:
        cluster.wait_until_radd_sees()
        job = cluster.submit(SCRIPT, "--gres=gpu:1", "--partition=pack").job_id
        cluster.wait_for("it waits", lambda: cluster.job(job)["Reason"] == "PartitionDown")
    finally:
        cluster.run(["scontrol", "update", "partitionname=pack", "state=up"]).require()
    assert need_record(cluster, job).reasons[-1] == "not pinned: the partition is not up"
    assert cluster.wait_state(job) == "COMPLETED"


def test_a_job_is_not_pinned_while_one_waits_for_its_nodes_in_another_partition(cluster: Cluster) -> None:
    """Slurm gives the nodes of a partition whose job waits to no other job, but to one of a higher tier."""
    first = cluster.submit("#!/bin/bash\nsleep 300\n", "--partition=plain", "--nodelist=node0").job_id
    cluster.wait_state(first, "RUNNING")
    waits = ("--partition=plain", "--nodes=2", "--exclusive")
    second = cluster.submit("#!/bin/bash\nsleep 300\n", *waits).job_id
    cluster.wait_for("the second waits", lambda: cluster.job(second)["Reason"] == "Resources")
    cluster.wait_until_radd_sees()
    behind = cluster.submit(SCRIPT, "--gres=gpu:1", "--partition=pack").job_id
    before = need_record(cluster, behind)
    cluster.run(["scontrol", "update", "partitionname=pack", "prioritytier=2"]).require()
    try:
        cluster.wait_until_radd_sees()
        ahead = cluster.submit(SCRIPT, "--gres=gpu:1", "--partition=pack").job_id
        assert need_record(cluster, ahead).pin
        assert cluster.wait_state(ahead) == "COMPLETED"
        assert cluster.job(second)["JobState"] == "PENDING"
    finally:
        cluster.run(["scontrol", "update", "partitionname=pack", "prioritytier=1"]).require()
    assert not before.pin
    assert before.reasons[-1] == "not pinned: jobs of partition plain, which has nodes of this one, wait already"


def test_a_job_is_not_pinned_to_a_node_that_takes_another_users_jobs_only(cluster: Cluster) -> None:
    owner = cluster.submit("#!/bin/bash\nsleep 300\n", "--exclusive=user", "--nodelist=node0").job_id
    cluster.wait_state(owner, "RUNNING")
    cluster.wait_until_radd_sees()
    mine, other = (cluster.submit(SCRIPT, "--gres=gpu:1", user=user).job_id for user in ("alice", "bob"))
    assert need_record(cluster, mine).pin
    assert need_record(cluster, other).node == "node1"
    assert [cluster.wait_state(job) for job in (mine, other)] == ["COMPLETED"] * 2


def test_a_job_is_not_pinned_that_says_in_other_ways_which_nodes_will_do(cluster: Cluster) -> None:
    cluster.wait_until_radd_sees()
    asked = {"--hint=nomultithread": "--threads-per-core", "--ntasks-per-core=1": "--ntasks-per-core"}
    asked["--prefer=infiniband"] = "--prefer"
    jobs = [cluster.submit(SCRIPT, "--gres=gpu:1", option).job_id for option in asked]
    for job, option in zip(jobs, asked.values(), strict=True):
        assert need_record(cluster, job).reasons[-1] == f"not pinned: which nodes will do for {option} is not known"
        assert cluster.wait_state(job) == "COMPLETED"


def test_a_heterogeneous_job_is_left_alone_and_recorded(cluster: Cluster) -> None:
    said = cluster.submit(
        "#!/bin/bash\n#RAD memory=48G\n#SBATCH --hold --gres=gpu:1\n#SBATCH hetjob\n#SBATCH --gres=gpu:1\ntrue\n"
    )
    job = said.job_id
    assert "heterogeneous" in said.err
    assert cluster.job(job)["TresPerNode"] in ONE_GPU
    cluster.run(["scontrol", "release", str(job)]).require()
    assert cluster.wait_state(job) == "COMPLETED"

    def outcomes() -> list[str]:
        rows = {row["JobID"]: row["AdminComment"] for row in cluster.sacct(job, "JobID", "AdminComment")}
        record = decode(rows.get(f"{job}+0", ""))
        return [run.outcome for run in record.runs] if record is not None else []

    cluster.wait_for("slurmdbd has the outcome", lambda: outcomes() == ["completed"], 120)
    told = cluster.run(["radctl", "explain", f"{job}+0"], user="alice").require().out
    assert "left as written: the job is heterogeneous" in told
    assert "completed" in told


def test_every_task_of_an_array_gets_the_share(cluster: Cluster) -> None:
    job = cluster.submit(WAIT, "--array=0-5", "--gres=gpu:1").job_id
    cluster.wait_for("all tasks run", lambda: cluster.run(["squeue", "-h", "-t", "R", "-o", "%A"]).out.count("\n") == 6)
    for task in range(6):
        shown = cluster.job(f"{job}_{task}")
        assert f"gres/mps={SHARE}" in shown["TRES"]
        assert need_record(cluster, f"{job}_{task}").share == SHARE


def test_an_exclusive_job_holds_a_whole_gpu_alone(cluster: Cluster) -> None:
    script = "#!/bin/bash\n#RAD policy=exclusive\necho $CUDA_VISIBLE_DEVICES; sleep 300\n"
    jobs = [cluster.submit(script, "--gres=gpu:1").job_id for _ in range(4)]
    for job in jobs:
        cluster.wait_state(job, "RUNNING")
        assert "gres/mps=100" in cluster.job(job)["TRES"]
        assert need_record(cluster, job).action == "exclusive"
    held = {(cluster.job(job)["NodeList"], *_device(cluster.job(job))) for job in jobs}
    assert len(held) == 4
    waiting = cluster.submit(SCRIPT, "--gres=gpu:1").job_id
    cluster.wait_for("the fifth waits", lambda: cluster.job(waiting)["Reason"] == "Resources")
    cluster.run(["scancel", str(jobs[0])])
    assert cluster.wait_state(waiting) == "COMPLETED"


def test_two_jobs_share_a_gpu_at_the_same_time(cluster: Cluster) -> None:
    script = WAIT.replace("sleep", "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES; sleep")
    first = cluster.submit(script, "--gres=gpu:1", "--partition=pack").job_id
    cluster.wait_state(first, "RUNNING")
    cluster.wait_until_radd_sees()
    second = cluster.submit(WAIT, "--gres=gpu:1", "--cpus-per-task=2", "--partition=pack").job_id
    cluster.wait_state(second, "RUNNING")
    assert need_record(cluster, second).residents == (first,)
    one, two = cluster.job(first), cluster.job(second)
    assert one["JobState"] == two["JobState"] == "RUNNING"
    assert one["NodeList"] == two["NodeList"]
    assert _device(one) == _device(two)


def test_a_job_that_its_user_has_stopped_is_still_there(cluster: Cluster) -> None:
    first = cluster.submit(WAIT, "--gres=gpu:1", "--partition=pack").job_id
    cluster.wait_state(first, "RUNNING")

    def stopped() -> bool:  # while its Prolog runs no signal reaches it
        cluster.run(["scancel", "--signal=STOP", str(first)], user="alice")
        return cluster.state(first) == "STOPPED"

    cluster.wait_for("the job is stopped", stopped)
    cluster.wait_until_radd_sees()
    second = cluster.submit(WAIT, "--gres=gpu:1", "--partition=pack").job_id
    assert need_record(cluster, second).residents == (first,)


def test_no_job_is_pinned_to_a_gpu_that_holds_another_users(cluster: Cluster) -> None:
    mine = cluster.submit(WAIT, "--gres=gpu:1", "--partition=pack").job_id
    cluster.wait_state(mine, "RUNNING")
    cluster.wait_until_radd_sees()
    other = cluster.submit(WAIT, "--gres=gpu:1", "--partition=pack", user="bob").job_id
    record = need_record(cluster, other)
    assert record.pin and record.residents == ()  # the policy, mug, would have chosen the first job's GPU
    cluster.wait_state(other, "RUNNING")
    cluster.run(["scancel", str(other)])
    cluster.wait_state(other, "CANCELLED")
    alone = "#!/bin/bash\n#RAD policy=exclusive\nsleep 300\n"
    for job in [cluster.submit(alone, "--gres=gpu:1").job_id for _ in range(3)]:
        cluster.wait_state(job, "RUNNING")
    cluster.wait_until_radd_sees()
    third = cluster.submit(WAIT.replace("48G", "12G"), "--gres=gpu:1", "--partition=pack", user="bob").job_id
    record = need_record(cluster, third)
    assert (record.pin, record.reasons[-1]) == ("", "not pinned: no GPU without other users' jobs has room now")
    # Slurm puts it beside the first: each user has an MPS server of its own, and they take turns.
    cluster.wait_state(third, "RUNNING")


def test_a_pinned_job_whose_node_is_away_is_let_go_to_another(cluster: Cluster) -> None:
    cluster.wait_until_radd_sees()
    job = cluster.submit(WAIT, "--gres=gpu:1").job_id
    cluster.wait_state(job, "RUNNING")
    record = need_record(cluster, job)
    assert record.pin and record.node
    node = ["scontrol", "update", f"nodename={record.node}"]
    cluster.run([*node, "state=drain", "reason=test"]).require()
    try:
        cluster.run(["scontrol", "requeue", str(job)]).require()
        cluster.wait_state(job, "PENDING")
        cluster.run(["scontrol", "update", f"jobid={job}", "starttime=now"]).require()  # not in some seconds
        cluster.wait_state(job, "RUNNING", deadline_s=60)
        shown = cluster.job(job)
    finally:
        cluster.run([*node, "state=resume"])
    assert shown["NodeList"] != record.node
    assert f"gres/mps:{record.pin}={record.share}" in shown["TRES"]


def test_a_pin_stays_while_slurm_has_not_looked_at_its_job(cluster: Cluster) -> None:
    """As where slurmctld schedules in long intervals: nothing holds the job up but these."""
    path = cluster.layout.slurm_conf
    before = path.read_text()
    defer = "SchedulerParameters=defer,batch_sched_delay=12,sched_interval=12,bf_interval=600\n"
    path.write_text(re.sub(r"SchedulerParameters=.*\n", defer, before))
    try:
        cluster.run(["scontrol", "reconfigure"]).require()
        cluster.wait_until_radd_sees()
        cluster.wait_state(cluster.submit("#!/bin/bash\nsleep 300\n").job_id, "RUNNING")  # the next in twelve seconds
        began = time.monotonic()
        job = cluster.submit(WAIT, "--gres=gpu:1").job_id
        cluster.wait_state(job, "RUNNING", deadline_s=60)
        assert time.monotonic() - began > 7, "it did not wait for longer than a pin that holds it up may last"
    finally:
        path.write_text(before)
        cluster.run(["scontrol", "reconfigure"]).require()
    record = need_record(cluster, job)
    assert record.pin
    assert cluster.job(job)["ReqNodeList"] == record.node


def test_a_pinned_job_whose_gpu_is_taken_is_let_go_to_another_where_slurm_can(cluster: Cluster) -> None:
    cluster.wait_until_radd_sees()
    job = cluster.submit(WAIT, "--gres=gpu:1").job_id
    cluster.wait_state(job, "RUNNING")
    pin = need_record(cluster, job).pin
    assert pin
    cluster.run(["scontrol", "requeuehold", str(job)]).require()
    cluster.wait_state(job, "PENDING")
    alone = "#!/bin/bash\n#RAD policy=exclusive\nsleep 300\n"
    for other in [cluster.submit(alone, f"--gres=gpu:{pin}:1").job_id for _ in range(2)]:  # that of each node
        cluster.wait_state(other, "RUNNING")
    cluster.run(["scontrol", "update", f"jobid={job}", "starttime=now+2"]).require()
    cluster.run(["scontrol", "release", str(job)]).require()
    if can_retype(cluster):
        cluster.wait_state(job, "RUNNING")
        assert _device(cluster.job(job)) not in ([], [pin])
        assert f"gres/mps={SHARE}" in cluster.job(job)["TRES"]
    else:
        cluster.wait_for("it waits", lambda: cluster.job(job)["Reason"] == "Resources")
        cluster.wait_for("its node is let go", lambda: cluster.job(job)["ReqNodeList"] == "(null)")
        assert shares(cluster.job(job)["TresPerNode"]) == SHARE
        assert f":{pin}:" in cluster.job(job)["TresPerNode"]


def _device(job: dict[str, str]) -> list[str]:
    return re.findall(r"gres/mps:(g\d)=", job["TRES"])


def test_ten_submits_at_once_are_spread_over_all_gpus(cluster: Cluster) -> None:
    cluster.wait_until_radd_sees()
    jobs = [cluster.submit(WAIT.replace("48G", "27G"), "--gres=gpu:1").job_id for _ in range(10)]
    for job in jobs:
        cluster.wait_state(job, "RUNNING")
    records = [need_record(cluster, job) for job in jobs]
    # Where Slurm is slow to start the first ones, later ones may stay unpinned: a job that must wait is not pinned, and
    # Slurm puts it anywhere.
    pins = [(record.node, record.pin) for record in itertools.takewhile(lambda record: record.pin, records)]
    assert pins
    assert len(set(pins)) == min(4, len(pins)), [record.reasons for record in records]
    assert max(pins.count(pin) for pin in pins) <= -(-len(pins) // 4)
    for job, record in zip(jobs, records, strict=True):
        if record.pin:
            shown = cluster.job(job)
            assert shown["NodeList"] == record.node
            assert f"gres/mps:{record.pin}={record.share}" in shown["TRES"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#RAD batch_sise=64", ["line 3", "batch_sise", "did you mean 'batch_size'"]),
        ("#RAD optimizer=adamx memory=4G", ["line 3", "adamx", "did you mean 'adam"]),
        ("#RAD memory=4G memory=5G", ["line 3", "memory is already set in line 3"]),
        ("#RAD batch_size=-1", ["line 3", "batch_size=-1"]),
        ("#RAD batch_size=0", ["line 3", "between 1 and"]),
        ("#RAD batch_size=1e30", ["line 3", "batch_size=1e30"]),
        ("#RAD batch_size=1,024", ["line 3", "write batch_size=1024"]),
        ("#RAD memory=much", ["line 3", "write memory=12G"]),
        ("#RAD", ["line 3", "write #RAD key=value"]),
    ],
)
def test_a_wrong_directive_is_refused_with_line_and_cure(cluster: Cluster, line: str, words: list[str]) -> None:
    said = cluster.submit(f"#!/bin/bash\n#SBATCH --gres=gpu:1\n{line}\ntrue\n")
    assert said.code != 0
    assert not said.out
    for word in words:
        assert word in said.err
    assert "rad: " in said.err
    assert not cluster.run(["squeue", "-h"]).out


def test_srun_is_left_alone(cluster: Cluster) -> None:
    said = cluster.run(
        ["srun", "--gres=gpu:1", "--partition=gpu", "bash", "-c", "echo $CUDA_VISIBLE_DEVICES"], user="bob"
    )
    assert said.code == 0
    assert said.out.strip().isdigit()
    assert "rad" not in said.err


@pytest.mark.parametrize(
    "how", [("--clusters=rad", "job.sh"), ("--wrap", f"{CLAIMED}\ntrue")], ids=["a cluster by its name", "no script"]
)
def test_however_it_is_submitted_a_job_with_directives_shares(cluster: Cluster, how: tuple[str, str]) -> None:
    (cluster.home("alice") / "job.sh").write_text(SCRIPT)
    job = cluster.run(["sbatch", "--hold", "--gres=gpu:1", *how], user="alice").job_id
    assert shares(cluster.job(job)["TresPerNode"]) == need_record(cluster, job).share == SHARE


def test_an_allocation_is_left_alone(cluster: Cluster) -> None:
    step = "srun --gres=gpu:1 --cpus-per-gpu=1 sh -c 'echo $CUDA_VISIBLE_DEVICES of $RAD_SHARE.'"
    said = cluster.run(["salloc", "--gres=gpu:1", "sh", "-c", step], user="alice")
    assert re.fullmatch(r"\d of \.\n", said.out)
    assert "rad" not in said.err


@pytest.fixture
def behind_rad(cluster: Cluster) -> Iterator[Callable[[str], None]]:
    """Gives job_submit.lua a statement that changes a job, `desc`, behind RAD."""
    script = cluster.layout.etc / "job_submit.lua"
    before = script.read_text()

    def change(statement: str) -> None:
        head, _, last = before.rpartition("return slurm.SUCCESS")
        script.write_text(
            f"{head}local rads = slurm_job_submit\nfunction slurm_job_submit(desc, parts, uid)\n"
            f"local result = rads(desc, parts, uid)\n{statement}\nreturn result\nend\nreturn slurm.SUCCESS{last}"
        )

    yield change
    script.write_text(before)
    os.utime(script, (time.time() + 1,) * 2)  # slurmctld looks at the second


def test_a_job_to_which_the_site_gives_its_gpu_back_has_steps_on_it(
    cluster: Cluster, behind_rad: Callable[[str], None]
) -> None:
    behind_rad('desc.tres_per_node = desc.tres_per_node:gsub("mps.*", "gpu:g1:1")')
    job = cluster.submit(STEPS, "--gres=gpu:1").job_id
    assert cluster.wait_state(job) == "COMPLETED"
    assert output(cluster, job) == "device 1\nstep 1\nstep that asks 1\n"
    assert "with gpu:g1:1; completed" in cluster.run(["radctl", "explain", str(job)], user="alice").out
