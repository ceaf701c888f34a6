"""What Slurm 22.05 printed on a cluster of one node with four stand-in GPUs, and what the view makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_hooks.cluster import ClusterView, Gpu, PerGpu, PinnedJob, Resident, SlurmPartition, floating_in
from slurm_hooks.records import Record, decode, encode
from slurm_hooks.slurm import squeue
from slurm_hooks.slurm.commands import SlurmCommands, SlurmError, run
from slurm_hooks.slurm.view import (
    RESIDENT_COLUMNS,
    ResidentRow,
    beside,
    build,
    enforces_limits,
    expand_hostlist,
    filters_steps,
    hides_jobs,
    parse_jobs,
    parse_nodes,
    parse_partitions,
    parse_reservations,
    parse_residents,
    seconds,
)

NODE = (
    "NodeName=node0 Arch=x86_64 CoresPerSocket=1  CPUAlloc=5 CPUEfctv=64 CPUTot=64 CPULoad=0.62 "
    "AvailableFeatures=h200,big ActiveFeatures=h200,big "
    "Gres=gpu:g0:1,gpu:g1:1,gpu:g2:1,gpu:g3:1,mps:g0:100,mps:g1:100,mps:g2:100,mps:g3:100 "
    "NodeAddr=127.0.0.1 NodeHostName=vm Port=23930 Version=22.05.8 OS=Linux 6.18.44 #1 SMP @0  RealMemory=262144 "
    "AllocMem=1024 FreeMem=19940 Sockets=64 Boards=1 State=MIXED+PLANNED ThreadsPerCore=1 TmpDisk=0 Weight=1 "
    "Owner=N/A MCS_label=N/A Partitions=gpu,debug  BootTime=2026-11-20T18:34:01 CapWatts=n/a"
)
JOBS = (
    "8+0\x1fgpu\x1falice\x1fgres:gpu:1\x1f\x1fResources\n"
    "10\x1fgpu\x1falice\x1fgres:mps:25\x1f(null)\x1fPriority\n"
    "14\x1fgpu,debug\x1fbob\x1fgres:mps:g2:30\x1fnode0\x1fPriority\n"
    "15_[1-9]\x1fgpu\x1fbob\x1fgres:mps:g3:30\x1f\x1fJobHeldUser\n"
    "16\x1fgpu\x1fbob\x1fN/A\x1f\x1f(Nodes required for job are DOWN, DRAINED, \x1f)\n"
    "garbage\n"
    "job\x1fgpu\x1fbob\x1fgres:mps:g3:30\x1f\x1fPriority\n"
)


RESERVED_FOR_OTHERS = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"


def resident_line(*values: str) -> str:
    cells = zip(values, RESIDENT_COLUMNS, strict=True)
    return b"".join(value.encode()[:width].ljust(width) for value, (_, width) in cells).decode() + "\n"


RECORD = Record("share", upper_mib=4000, smact=0.4, activity=(0.5, 0.25), thread_percentage=70)
RESIDENTS = "".join(
    [
        resident_line("11", "node0", "cpu=1,node=1,billing=1,gres/mps=30,gres/mps:g2=30", "alice", encode(RECORD)),
        resident_line("12", "node0", "cpu=1,node=1,billing=1,gres/mps=25,gres/mps:g0=25", "bob", "(null)"),
        resident_line("13", "node0", "cpu=4,node=1,billing=4,gres/gpu=1,gres/gpu:g1=1", "alice", "(null)"),
        resident_line("17", "node9", "cpu=4,node=1", "alice", "(null)"),
        "squeue: error: nobody knows what\n",
    ]
)


def test_a_comment_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are thousands at each look."""
    read = []

    def counted(text: str) -> Record | None:
        read.append(text)
        return decode(text)

    monkeypatch.setattr("slurm_hooks.slurm.view.decode", counted)
    comment = f"JS1:x {encode(Record('share', upper_mib=1234, smact=0.25, activity=(0.5,)))}"
    rows = [ResidentRow(job, "node0", "gres/mps:g0=10", f"user{job}", comment) for job in (1, 2)]
    for _ in range(2):
        made = build(parse_nodes(NODE), [], rows, taken=0.0, can_retype=False)
        residents = [resident for node in made.nodes for gpu in node.gpus for resident in gpu.residents]
        found = [(resident.job_id, resident.user, resident.share, resident.memory_mib) for resident in residents]
        assert found == [(1, "user1", 10, 1234), (2, "user2", 10, 1234)]
    assert read == [comment]


def test_a_whole_view() -> None:
    view = build(
        parse_nodes(NODE + "\nNodeName=cpu1 State=IDLE Gres=(null) CPUTot=4\n"),
        parse_jobs(JOBS),
        parse_residents(RESIDENTS),
        taken=5.0,
        can_retype=False,
    )
    (node,) = view.nodes
    assert (node.name, node.available, node.free_cpus, node.free_memory_mib) == ("node0", True, 59, 261120)
    assert node.partitions == {"gpu", "debug"}
    assert node.features == {"h200", "big"}
    assert node.gpus == (
        Gpu("node0", "g0", 25, (Resident(12, "bob", 25),)),
        Gpu("node0", "g1", 100, (Resident(13, "alice", 100),), number=1),
        Gpu("node0", "g2", 60, (Resident(11, "alice", 30, 4000, 0.4, (0.5, 0.25), 70),), number=2),
        Gpu("node0", "g3", 0, number=3),
    )
    assert view.waiting == {"gpu": 3, "debug": 1}
    assert view.pinned == (PinnedJob(14, "g2", 30, "node0"),)
    assert view.taken == 5.0


def test_states_that_take_no_job() -> None:
    for state in ("DOWN", "IDLE+DRAIN", "MIXED+DRAIN", "IDLE*", "ALLOCATED+NOT_RESPONDING", "IDLE+POWERED_DOWN", ""):
        (node,) = parse_nodes(NODE.replace("State=MIXED+PLANNED", f"State={state}"))
        assert not node.available, state
        (node,) = build([node], [], [], taken=0, can_retype=False).nodes
        assert not node.available, state


def test_nobody_is_pinned_to_devices_that_cannot_be_told_apart() -> None:
    gres = "gpu:g0:1,gpu:g1:1,gpu:g2:1,gpu:g3:1,mps:g0:100,mps:g1:100,mps:g2:100,mps:g3:100"
    for asked, several in (("gpu:4", [""]), ("gpu:h200:4", ["h200"]), ("gpu:h200:2,gpu:2", ["", "h200"])):
        for mps in ("", ",mps:400"):
            (node,) = parse_nodes(NODE.replace(gres, asked + mps))
            assert (node.gpus, node.whole, sorted(node.several), node.shares) == ((), (), several, mps != "")
            view = build([node], [], [], taken=0, can_retype=False)
            assert view.lacking == (set() if mps else {"gpu", "debug"})
    assert parse_nodes(NODE.replace(gres, "gpu:0,tmpfs:3")) == []
    (node,) = parse_nodes(NODE)
    assert node.several == frozenset() and node.has_gpus
    (node,) = parse_nodes(NODE.replace(gres, "gpu:1g.18gb:4"))
    assert node.several == frozenset() and not node.has_gpus
    both = NODE.replace("gpu:g2:1,gpu:g3:1", "gpu:h200:2").replace("mps:g2:100,mps:g3:100", "mps:h200:200")
    (node,) = parse_nodes(both)
    assert [gpu.type for gpu in (*node.gpus, *node.whole)] == ["g0", "g1"]


def test_who_is_shown_no_jobs_knows_of_no_gpu_that_is_free() -> None:
    """As radd without an operator's rights where slurm.conf has PrivateData=jobs."""
    assert hides_jobs("PrivateData             = accounts,jobs\n")
    for said in ("PrivateData             = none\n", "PrivateData = nodes,jobscomp\n", ""):
        assert not hides_jobs(said)
    rows = parse_residents(resident_line("11", "node0", "cpu=1,gres/mps:g0=30", "alice", ""))
    for shown, hidden, blind in ((rows, True, False), ([], False, False), ([], True, True)):
        (node,) = build(parse_nodes(NODE), [], shown, taken=0, can_retype=False, jobs_hidden=hidden).nodes
        assert (node.available, node.opaque) == (not blind, blind)
    idle = [replace(node, idle=True) for node in parse_nodes(NODE)]  # then there are none
    assert build(idle, [], [], taken=0, can_retype=False, jobs_hidden=True).nodes[0].available


def test_untyped_accounting_makes_a_node_opaque() -> None:
    rows = parse_residents(resident_line("11", "node0", "cpu=1,gres/mps=30", "alice", ""))
    view = build(parse_nodes(NODE), [], rows, taken=0, can_retype=False)
    assert (view.nodes[0].available, view.nodes[0].opaque) == (False, True)
    rows = parse_residents(resident_line("11", "node0", "cpu=1,mem=1G,node=1", "alice", ""))  # it holds no GPU
    (node,) = build(parse_nodes(NODE), [], rows, taken=0, can_retype=False).nodes
    assert (node.available, node.opaque) == (True, False)


def test_names_that_are_not_ascii_move_no_column() -> None:
    """Slurm pads to bytes; another tool's comment may hold line ends."""
    held, comment = "gres/mps:g0=25", f"JS1:é\n12 {encode(RECORD)}"
    text = resident_line("11", "node0", held, "jörg", comment) + resident_line("12", "node0", held, "bob", "")
    first, second = parse_residents(text)
    assert (first.user, first.admin_comment, second.job_id, second.user) == ("jörg", comment, 12, "bob")
    (resident, _) = build(parse_nodes(NODE), [], [first, second], taken=0, can_retype=False).nodes[0].gpus[0].residents
    assert (resident.user, resident.memory_mib, resident.threads) == ("jörg", 4000, 70)


def test_a_job_on_several_nodes_holds_its_types_on_each() -> None:
    rows = parse_residents(resident_line("11", "node[0-1]", "gres/gpu=2,gres/gpu:g1=2", "alice", ""))
    view = build(parse_nodes(NODE + "\n" + NODE.replace("node0", "node1")), [], rows, taken=0, can_retype=False)
    assert [gpu.used_shares for node in view.nodes for gpu in node.gpus] == [0, 100, 0, 0] * 2


@pytest.mark.parametrize(
    ("nodes", "used"),
    [("", [0, 0, 30, 0] * 2), ("node1", [0, 0, 0, 0, 0, 0, 30, 0]), ("node[0-1]", [0, 0, 30, 0] * 2)],
)
@pytest.mark.parametrize(
    "reason",
    [
        "None",
        "Resources",
        "Priority",
        "ReqNodeNotAvail, UnavailableNodes:node1",
        RESERVED_FOR_OTHERS,
        "PartitionDown",
        "Cleaning",
        "Something that a later Slurm says",
    ],
)
def test_a_pinned_job_that_waits_counts_where_it_may_go(nodes: str, used: list[int], reason: str) -> None:
    jobs = parse_jobs(f"9\x1fgpu\x1fbob\x1fgres:mps:g2:30\x1f{nodes}\x1f{reason}\n")
    view = build(parse_nodes(NODE + "\n" + NODE.replace("node0", "node1")), jobs, [], taken=0, can_retype=False)
    assert view.pinned == (PinnedJob(9, "g2", 30, nodes, seen=reason != "None"),)
    assert [gpu.used_shares for node in view.nodes for gpu in node.gpus] == used


@pytest.mark.parametrize(
    "reason",
    [
        "JobHeldAdmin",
        "JobHoldMaxRequeue",
        "launch failed requeued held",
        "Dependency",
        "DependencyNeverSatisfied",
        "BeginTime",
        "BadConstraints",
        "JobArrayTaskLimit",
        "Licenses",
        "Reservation",
        "PartitionTimeLimit",
        "PartitionNodeLimit",
        "InvalidQOS",
        "AccountNotAllowed",
    ],
)
def test_a_pinned_job_that_waits_for_something_else_takes_nothing(reason: str) -> None:
    jobs = parse_jobs(f"9\x1fgpu\x1fbob\x1fgres:mps:g2:30\x1f\x1f{reason}\n")
    view = build(parse_nodes(NODE), jobs, [], taken=0, can_retype=False)
    assert (view.pinned, [gpu.used_shares for gpu in view.nodes[0].gpus]) == ((), [0, 0, 0, 0])


@pytest.mark.parametrize(
    "reason",
    [
        "Resources",
        "Priority",
        RESERVED_FOR_OTHERS,
        "Priority,JobHeldUser",  # tasks of one array
        "JobHeldAdmin,Resources",
        f"{RESERVED_FOR_OTHERS},JobHeldUser",
        f"None,{RESERVED_FOR_OTHERS}",
    ],
)
def test_a_job_that_waits_for_nodes_waits_in_its_partition(reason: str) -> None:
    jobs = parse_jobs(f"9\x1fgpu\x1fbob\x1fgres:mps:30\x1f\x1f{reason}\n")
    assert build(parse_nodes(NODE), jobs, [], taken=0, can_retype=False).waiting == {"gpu": 1}


def test_tasks_that_wait_for_different_reasons_count_for_each_of_them() -> None:
    def seen(asked: str, reasons: str) -> ClusterView:
        jobs = parse_jobs(f"9_[0-3]\x1fgpu\x1fbob\x1f{asked}\x1f\x1f{reasons}\n")
        return build(parse_nodes(NODE), jobs, [], taken=0, can_retype=True)

    assert seen("gres:mps:g2:30", "JobHeldUser,Resources").pinned == (PinnedJob(9, "g2", 30),)
    assert seen("gres:mps:g2:30", "JobHeldUser,Dependency").pinned == ()
    assert seen("gres/mps:2080ti:30", "Resources").pinned == (PinnedJob(9, "2080ti", 30),)
    assert seen("gres:mps:30", "Resources,QOSMaxJobsPerUserLimit").at_limit == {"bob"}
    assert floating_in(seen("gres:mps:30", "Resources,None"), "gpu").shares == 100
    assert seen("gres:mps:30", "BadConstraints").held == (9,)
    assert seen("gres:mps:30", "BadConstraints,JobHeldUser").held == ()  # to release one would release all


def test_a_job_that_names_two_partitions_waits_once() -> None:
    jobs = parse_jobs("9\x1fgpu,debug\x1fbob\x1fgres:mps:30\x1f\x1fResources\n")
    view = build(parse_nodes(NODE), jobs, [], taken=0, can_retype=False)
    assert (view.waiting, view.waiting_jobs) == ({"gpu": 1, "debug": 1}, 1)


def test_hostlists() -> None:
    assert expand_hostlist("n1") == ["n1"]
    assert expand_hostlist("n[08-10,7],login,gpu[1]-x") == ["n08", "n09", "n10", "n7", "login", "gpu1-x"]
    assert expand_hostlist("") == []
    assert len(expand_hostlist("n[0-99999999]")) == 10_000
    assert expand_hostlist("n[-3,,4]") == ["n4"]


PARTITIONS = """PartitionName=gpu AllowGroups=ALL JobDefaults=DefCpuPerGPU=6,DefMemPerGPU=5000 DefMemPerNode=UNLIMITED
PartitionName=cpu AllowGroups=ALL JobDefaults=(null) DefMemPerNode=UNLIMITED
"""


def test_what_goes_by_gpu() -> None:
    def by_partition(settings: str) -> dict[str, PerGpu]:
        return {name: slurm.per_gpu for name, slurm in parse_partitions(PARTITIONS, settings).items()}

    assert by_partition("JobDefaults             = (null)\n") == {"gpu": PerGpu(6, 5000), "cpu": PerGpu()}
    settings = "JobAcctGatherType = x\nJobDefaults             = DefCpuPerGPU=2\nJobRequeue = 1\n"
    assert by_partition(settings) == {"gpu": PerGpu(6, 5000), "cpu": PerGpu(2)}
    assert parse_partitions("nonsense\nPartitionName=\n", "") == {"": SlurmPartition()}


# As Slurm 22.05 prints it, but for fields that nobody reads.
PARTITION = (
    "PartitionName=gpu DefaultTime=NONE ExclusiveUser=NO MaxTime=UNLIMITED MaxCPUsPerNode=UNLIMITED Nodes=node0 "
    "OverSubscribe=NO State=UP SelectTypeParameters=NONE JobDefaults=(null) DefMemPerNode=UNLIMITED "
    "MaxMemPerNode=UNLIMITED"
)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", SlurmPartition()),
        ("State=UP", "State=DOWN", SlurmPartition(up=False)),
        ("State=UP", "State=DRAIN", SlurmPartition(up=False)),
        ("ExclusiveUser=NO", "ExclusiveUser=YES", SlurmPartition(by_user=True)),
        ("OverSubscribe=NO", "OverSubscribe=EXCLUSIVE", SlurmPartition(whole_nodes=True)),
        ("OverSubscribe=NO", "OverSubscribe=FORCE:4", SlurmPartition()),
        ("MaxCPUsPerNode=UNLIMITED", "MaxCPUsPerNode=4", SlurmPartition(limits_nodes=True)),
        ("MaxTime=UNLIMITED", "MaxTime=01:00:00", SlurmPartition(limit_s=3600.0, longest_s=3600.0)),
        ("DefaultTime=NONE", "DefaultTime=00:30:00", SlurmPartition(limit_s=1800.0)),
    ],
)
def test_what_slurm_says_of_a_partition(old: str, new: str, expected: SlurmPartition) -> None:
    assert parse_partitions(PARTITION.replace(old, new), "") == {"gpu": expected}


@pytest.mark.parametrize(
    ("settings", "own", "expected"),
    [
        ("SelectTypeParameters    = CR_CPU\nDefMemPerCPU            = 100\n", "", (False, 100, None)),
        ("DefMemPerCPU            = 100\nSelectTypeParameters    = CR_CORE_MEMORY\n", "", (True, 100, None)),
        ("DefMemPerNode           = 100\nSelectTypeParameters    = CR_CORE_MEMORY\n", "", (True, None, 100)),
        ("DefMemPerNode           = UNLIMITED\nSelectTypeParameters    = CR_Memory\n", "", (True, None, None)),
        ("DefMemPerCPU            = 100\nSelectTypeParameters    = CR_Memory\n", "DefMemPerNode=7", (True, None, 7)),
        ("DefMemPerNode           = 100\nSelectTypeParameters    = CR_Memory\n", "DefMemPerCPU=8", (True, 8, None)),
    ],
)
def test_memory_that_jobs_hold(settings: str, own: str, expected: tuple[bool, int | None, int | None]) -> None:
    text = PARTITION.replace("DefMemPerNode=UNLIMITED", own) if own else PARTITION
    slurm = parse_partitions(text, settings)["gpu"]
    assert (slurm.counts_memory, slurm.memory_per_cpu_mib, slurm.memory_per_node_mib) == expected


@pytest.mark.parametrize(
    ("settings", "own", "expected"),
    [
        ("MaxMemPerCPU            = 4096\n", "MaxMemPerNode=UNLIMITED", 4096),
        ("MaxMemPerCPU            = 4096\n", "MaxMemPerCPU=2048", 2048),
        ("MaxMemPerNode           = UNLIMITED\n", "MaxMemPerNode=UNLIMITED", None),
        ("MaxMemPerCPU            = 4096\n", "MaxMemPerNode=100000", None),
    ],
)
def test_memory_that_one_processor_may_have(settings: str, own: str, expected: int | None) -> None:
    text = PARTITION.replace("MaxMemPerNode=UNLIMITED", own)
    assert own in text
    assert parse_partitions(text, settings)["gpu"].most_memory_per_cpu_mib == expected


def test_what_people_write_of_a_node_is_none_of_its_fields() -> None:
    written = "Comment=State=IDLE Extra=CPUTot=9999 Reason=was Gres=gpu:8 RealMemory=² [root@2026-11-20T18:34:01]"
    assert parse_nodes(f"{NODE} {written}") == parse_nodes(NODE)
    drained = NODE.replace("State=MIXED+PLANNED", "State=MIXED+DRAIN")
    assert [node.available for node in parse_nodes(f"{drained} Reason=back to State=IDLE soon")] == [False]
    assert parse_nodes(NODE.replace("RealMemory=262144", "RealMemory=²"))[0].memory_mib == 0


def test_whose_a_node_is() -> None:
    (node,) = parse_nodes(NODE)
    assert (node.owner, node.idle, node.memory_mib) == ("", False, 262144)
    (node,) = parse_nodes(NODE.replace("Owner=N/A", "Owner=alice(1001)").replace("CPUAlloc=5", "CPUAlloc=0"))
    assert (node.owner, node.idle) == ("alice", True)


@pytest.mark.parametrize("rest", ["", "mps:g0:0,mps:g1:0,mps:g3:50,"])
def test_a_gpu_without_shares_beside_one_that_has_some_takes_no_pin(rest: str) -> None:
    (node,) = parse_nodes(NODE.replace("mps:g0:100,mps:g1:100,mps:g2:100,mps:g3:100", f"{rest}mps:g2:100"))
    assert [gpu.type for gpu in node.gpus] == ["g2"]
    assert node.whole == (Gpu("node0", "g0", 0), Gpu("node0", "g1", 0, number=1), Gpu("node0", "g3", 0, number=3))
    (node,) = parse_nodes(NODE.replace(",mps:g0:100,mps:g1:100,mps:g2:100,mps:g3:100", ""))
    assert ([gpu.type for gpu in node.gpus], node.whole) == (["g0", "g1", "g2", "g3"], ())


def test_processors_of_a_core() -> None:
    assert parse_nodes(NODE)[0].threads == 1
    two = NODE.replace("ThreadsPerCore=1", "ThreadsPerCore=2")
    assert parse_nodes(two.replace("CPUTot=64", "CPUTot=128"))[0].threads == 2
    assert parse_nodes(two)[0].threads == 1, "slurm.conf counts cores: Slurm gives each as one processor"


def test_features_and_processors_that_a_node_has_now() -> None:
    (node,) = parse_nodes(
        NODE.replace("ActiveFeatures=h200,big", "ActiveFeatures=h200").replace("Efctv=64", "Efctv=60")
    )
    assert (set(node.features), node.free_cpus) == ({"h200"}, 55)
    (node,) = parse_nodes(NODE.replace("CPUEfctv=64 ", "").replace(" ActiveFeatures=h200,big", ""))  # an older Slurm
    assert (set(node.features), node.free_cpus) == ({"h200", "big"}, 59)


def test_memory_that_a_node_keeps_for_the_system() -> None:
    (whole,) = parse_nodes(NODE)
    (node,) = parse_nodes(NODE.replace("RealMemory=262144", "RealMemory=262144 MemSpecLimit=2048"))
    assert (node.memory_mib, node.free_memory_mib) == (262144 - 2048, whole.free_memory_mib - 2048)


def test_whether_srun_is_filtered() -> None:
    for said in ("lua", "cli_filter/user_defaults,cli_filter/lua"):
        assert filters_steps(f"ClusterName = c\nCliFilterPlugins        = {said}\n")
    for said in ("(null)", "user_defaults"):
        assert not filters_steps(f"ClusterName = c\nCliFilterPlugins        = {said}\n")
    assert filters_steps("")


def test_commands() -> None:
    asked: list[list[str]] = []
    answers = {
        "--version": "slurm 25.11.2\n",
        "node": NODE,
        "partition": PARTITIONS,
        "config": "",
        "update": "",
        "release": "",
        "reservation": "",
    }
    answers = {**answers, "-o": JOBS, "-O": RESIDENTS}

    def recorded(command: Sequence[str], _: float) -> str:
        asked.append(list(command))
        return next(text for word, text in answers.items() if word in command)

    slurm = SlurmCommands(3.0, recorded, lambda: 7.0)
    view = slurm.look(["gpu", "debug"])
    assert (view.taken, view.can_retype, view.keeps_shares, len(view.nodes)) == (7.0, True, True, 1)
    assert view.partitions["gpu"].per_gpu == PerGpu(6, 5000)
    assert view.counts_shares
    slurm.look([])
    assert sum("config" in command for command in asked) == 1
    assert asked[3][5:7] == ["-p", "debug,gpu"]
    assert "STOPPED" in asked[4][asked[4].index("-t") + 1].split(",")  # by SIGSTOP: it holds what it held
    slurm.unpin(14, 30, node=True)
    assert asked[-1] == ["scontrol", "update", "jobid=14", "gres=mps:30", "reqnodelist="]
    slurm.unpin(14, None, node=True)
    assert asked[-1] == ["scontrol", "update", "jobid=14", "reqnodelist="]
    slurm.unpin(14, 30, node=False)
    assert asked[-1] == ["scontrol", "update", "jobid=14", "gres=mps:30"]
    slurm.release(14)
    assert asked[-1] == ["scontrol", "release", "14"]


@pytest.mark.parametrize(
    ("version", "counts"),
    [("21.08.5", False), ("20.11.4", False), ("22.05.8", True), ("26.05.5", True), (None, True)],
)
def test_whether_slurm_counts_shares_is_known_before_a_look(version: str | None, counts: bool) -> None:
    def runner(command: Sequence[str], _: float) -> str:
        assert list(command) == ["slurmctld", "-V"]
        if version is None:
            raise SlurmError("slurmctld: not found")
        return f"slurm-wlm {version}\n"

    assert SlurmCommands(3.0, runner).unseen().counts_shares == counts


def test_a_node_that_has_not_registered_since_slurmctld_started() -> None:
    # As Slurm 22.05 shows a node that runs jobs.
    unready = NODE.replace("node0", "node1").replace("mps:g0:100,mps:g1:100,mps:g2:100,mps:g3:100", "mps:0")
    assert unready.count("mps") == 1
    nodes = parse_nodes(f"{NODE}\n{unready.replace('gpu,debug', 'other')}\n")
    assert [node.shares for node in nodes] == [True, False]
    view = build(nodes, [], [], taken=1.0, can_retype=False)
    assert view.lacking == {"other"}
    assert parse_nodes(NODE.replace("mps:g0:100,mps:g1:100,mps:g2:100,mps:g3:100", "mps:400"))[0].shares


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", 5400),
        ("10:30", 630),
        ("1:30:00", 5400),
        ("2-12", 216_000),
        ("2-00:30:00", 174_600),
        ("0", None),
        ("UNLIMITED", None),
        ("NONE", None),
        ("", None),
        ("1:2:3:4", None),
    ],
)
def test_time_limits(text: str, expected: float | None) -> None:
    assert seconds(text) == expected
    lines = f"PartitionName=a DefaultTime={text} MaxTime=UNLIMITED\nPartitionName=b DefaultTime=NONE MaxTime={text}\n"
    read = parse_partitions(lines, "")
    never = float("inf")
    assert [read[name].limit_s for name in "ab"] == [never if expected is None else expected] * 2
    assert [read[name].longest_s for name in "ab"] == [never, never if expected is None else expected]


def test_reservations() -> None:
    late, soon = 1795452436, 1795435200
    text = f"ReservationName=r1 StartTime={late} EndTime=x Nodes=node[0-1] Flags=MAINT State=INACTIVE\n"
    text += f"ReservationName=r2 StartTime={soon} Nodes=node1,node7\nReservationName=r3 StartTime=never Nodes=node8\n"
    begins = parse_reservations(text)
    assert begins == {"node0": late, "node1": soon, "node7": soon}
    assert parse_reservations("No reservations in the system\n") == {}
    assert parse_nodes(NODE, begins)[0].reserved_from == begins["node0"]
    assert parse_nodes(NODE)[0].reserved_from == float("inf")


@pytest.mark.parametrize("reason", ["QOSMaxJobsPerUserLimit", "AssocGrpGRES", "MaxGRESPerAccount"])
def test_a_job_at_a_limit_takes_nothing_and_its_pin_can_be_taken_back(reason: str) -> None:
    jobs = parse_jobs(f"9\x1fgpu\x1fbob\x1fgres:mps:g2:30\x1fnode0\x1f{reason}\n")
    view = build(parse_nodes(NODE), jobs, [], taken=0, can_retype=True)
    assert (view.pinned, view.at_limit) == ((PinnedJob(9, "g2", 30, "node0"),), frozenset({"bob"}))
    assert [gpu.used_shares for gpu in view.nodes[0].gpus] == [0] * len(view.nodes[0].gpus)
    assert view.waiting == {}


@pytest.mark.parametrize(
    ("enforced", "limits"),
    [("none", False), ("associations", False), ("associations,limits", True), ("associations,limits,qos,safe", True)],
)
def test_whether_slurm_enforces_limits(enforced: str, limits: bool) -> None:
    assert enforces_limits(f"AccountingStorageEnforce = {enforced}\nAccountingStorageHost   = x\n") is limits
    assert not enforces_limits("")


def test_jobs_for_shares_that_slurm_holds() -> None:
    rows = [("1", "gres:mps:30", "BadConstraints"), ("2", "gres/mps:g1:30", "BadConstraints")]
    rows += [("3", "gres:gpu:1", "BadConstraints"), ("4", "gres:mps:30", "JobHeldUser")]
    jobs = parse_jobs("\n".join(f"{job}\x1fgpu\x1fbob\x1f{asked}\x1f\x1f{why}" for job, asked, why in rows))
    assert build([], jobs, [], taken=1.0, can_retype=False).held == (1, 2)


def test_the_record_of_a_pending_job() -> None:
    asked: list[list[str]] = []

    def recorded(command: Sequence[str], _: float) -> str:
        asked.append(list(command))
        comments = {13: encode(replace(RECORD, pin="g7")), 14: f"JS1:abc\n13 {encode(RECORD)}", 15: "(null)"}
        return "".join(f"{job:<20}{comment:<16384}\n" for job, comment in comments.items())

    assert SlurmCommands(3.0, recorded).record(14) == RECORD
    assert SlurmCommands(3.0, recorded).record(15) is None
    assert SlurmCommands(3.0, recorded).record(16) is None
    assert asked[0][-3:] == ["JobID:20,admin_comment:16384", "-j", "14"]  # nothing that a user wrote


@pytest.mark.parametrize("command", [["false"], ["/nonexistent/squeue"], ["sleep", "9"]])
def test_a_command_that_fails(command: list[str]) -> None:
    with pytest.raises(SlurmError, match=command[0]):
        run(command, 0.05)
    with pytest.raises(SlurmError, match=r"^false: exit status 1"):
        run(["false"], 5.0)
    with pytest.raises(SlurmError, match=r"^sleep 60: no answer within 0.1 s"):
        run(["sleep", "60"], 0.1)


def test_settings_that_are_not_there_are_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLURM_CONF", f"{tmp_path}/slurm.conf")
    for command in ("squeue", "sacct", "scontrol", "sacctmgr", "sinfo"):
        with pytest.raises(SlurmError, match=rf"^{command}: SLURM_CONF names .*/slurm.conf, which is not there$"):
            run([command], 5.0)
    assert run(["true"], 5.0) == ""  # slurmctld -V, systemctl: they read none
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "slurm.conf").touch()
    with pytest.raises(SlurmError, match=r"^squeue: .*No such file"):
        run(["squeue"], 5.0)


def test_columns_of_a_commands_output_keep_their_places() -> None:
    """An AdminComment or a name may hold anything; squeue pads columns to bytes."""
    assert run(["printf", r"a\r\nb\377c\303\244"], 5.0) == "a\r\nb?c\u00e4"


@pytest.mark.parametrize("piece", [1, 7, 64])
def test_long_output_is_read_in_pieces(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is read at one go, and radd answers nobody meanwhile: slurmctld waits 50 ms."""
    said = "jörg €\n".encode() + b"\xff\xe2\x82 \xf0\n" + b"x\n" * 40
    whole = run(["printf", "%b", "".join(f"\\0{byte:o}" for byte in said)], 10)
    columns = (("JobID", 4), ("Name", 6))
    lines = "".join(f"{number:<4}{name}\n" for number, name in ((1, "jörg "), (22, "ab    "), (333, "€  x")))
    expected = [*squeue.rows(lines, columns)]
    assert [row["JobID"] for row in expected] == [b"1", b"22", b"333"]
    monkeypatch.setattr("slurm_hooks.slurm.squeue.PIECE", piece)
    assert run(["printf", "%b", "".join(f"\\0{byte:o}" for byte in said)], 10) == whole
    assert [*squeue.rows(lines, columns)] == expected
    assert len(whole.encode()) == len(said)


def test_what_a_user_likes_to_see_changes_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    tastes = {"SQUEUE_USERS": "me", "SLURM_CLUSTERS": "other", "SACCT_FEDERATION": "1", "SINFO_PARTITION": "x"}
    for name, value in {**tastes, "SLURM_TIME_FORMAT": "relative", "SLURM_CONF": __file__}.items():
        monkeypatch.setenv(name, value)
    made = dict(line.split("=", 1) for line in run(["env", "-0"], 5.0).split("\0") if line)
    assert (made["SLURM_TIME_FORMAT"], made["SLURM_CONF"]) == ("%s", __file__)
    assert made.keys().isdisjoint(tastes)
    asked = ("SQUEUE_", "SACCT_", "SCONTROL_", "SINFO_")  # other clusters of a federation do not count
    assert {name for name in made if name.startswith(asked)} == {f"{name}LOCAL" for name in asked}


def test_a_job_that_slurm_has_not_looked_at_may_take_room_at_any_moment() -> None:
    rows = {
        "gres:gpu:1": 100,
        "gres/gpu:h200:1": 100,
        "gres:gpu": 100,
        "gres:mps:30": 30,
        "gres:lustre:2,gres:mps:30": 30,
        "gres:mps:g1:30": 0,  # pinned
        "gres:gpumem:4": 0,
        "N/A": 0,
    }
    for asked, share in rows.items():
        jobs = parse_jobs(f"9\x1fgpu,debug\x1fbob\x1f{asked}\x1f\x1fNone\n")
        view = build(parse_nodes(NODE), jobs, [], taken=0, can_retype=False)
        assert floating_in(view, "gpu").shares == floating_in(view, "debug").shares == share, asked
        array = parse_jobs(f"9_[0-3,7%2]\x1fgpu,debug\x1fbob\x1f{asked}\x1f\x1fNone\n")
        view = build(parse_nodes(NODE), array, [], taken=0, can_retype=False)
        assert floating_in(view, "gpu").shares == (100 if share else 0), asked
        seen = build(
            parse_nodes(NODE), [replace(jobs[0], reasons=frozenset({"Resources"}))], [], taken=0, can_retype=False
        )
        assert (seen.floating, seen.waiting["gpu"]) == ({}, 1)


def test_partitions_that_have_nodes_of_each_other() -> None:
    other = NODE.replace("node0", "node1").replace("gpu,debug ", "debug,long ")
    cpus = NODE.replace("node0", "node2").replace("gpu,debug ", "gpu,cpu ").replace("Gres=", "Gres=(null) X=")
    others = beside(parse_nodes(f"{NODE}\n{other}\n{cpus}"))
    assert others == {"gpu": {"debug"}, "debug": {"gpu", "long"}, "long": {"debug"}}
    (partition,) = parse_partitions(f"{PARTITION} PriorityTier=7", "", others).values()
    assert (partition.tier, partition.beside) == (7, frozenset({"debug"}))


def test_jobs_of_partitions_that_have_nodes_of_it_count_in_a_partition() -> None:
    asked: list[list[str]] = []
    answers = {"--version": "slurm 22.05.8\n", "node": NODE, "partition": f"{PARTITION}\n", "config": "", "-O": ""}
    answers |= {"reservation": "", "-o": "9\x1fdebug\x1fbob\x1fgres:mps:30\x1f\x1fNone\n"}

    def recorded(command: Sequence[str], _: float) -> str:
        asked.append(list(command))
        return next(text for word, text in answers.items() if word in command)

    view = SlurmCommands(3.0, recorded, lambda: 7.0).look(["gpu"])
    assert ["-p", "debug,gpu"] in [command[5:7] for command in asked]
    assert floating_in(view, "gpu").shares == 30
    assert floating_in(view, "far").shares == 0


@pytest.mark.parametrize(("version", "found"), [("24.11.5", set()), ("26.05.5", {"course", "class"})])
def test_reservations_in_which_no_job_for_shares_starts(version: str, found: set[str]) -> None:
    rows = ["maint TRES=cpu=64", "course TRES=cpu=8,gres/gpu:g0=1,gres/gpu=1", "class TRES=cpu=1,gres/mps=100", "x"]
    reserved = "".join(f"ReservationName={row} Users=bob\n" for row in rows)
    answers = {"--version": f"slurm {version}\n", "reservation": reserved}

    def recorded(command: Sequence[str], _: float) -> str:
        return next((text for word, text in answers.items() if word in command), "")

    assert SlurmCommands(3.0, recorded, lambda: 7.0).look(["gpu"]).without_shares == found
