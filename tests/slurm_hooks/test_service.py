"""The whole pipeline from a message's fields to the answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimator.types import Estimate, ModelSummary, SummaryError, Workload
from predictor import load_predictor
from scripts.demo_data import resnet50
from slurm_hooks import config as settings
from slurm_hooks.answer import Answer
from slurm_hooks.cluster import ClusterView, Gpu, Node, PerGpu, SlurmPartition
from slurm_hooks.experience import Measured
from slurm_hooks.interference import unpack
from slurm_hooks.radd.limit import OutOfTime
from slurm_hooks.records import Record, decode
from slurm_hooks.service import Service

SUMMARY = """----------------------------------------------------------------
        Layer (type)               Output Shape         Param #
================================================================
            Linear-1                   [-1, 10]           1,010
================================================================
Total params: 1,010
Trainable params: 1,010
Non-trainable params: 0
----------------------------------------------------------------
"""


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Fixed:
    """A method that always answers the same, and keeps what it was asked."""

    name = "fixed"

    def __init__(self) -> None:
        self.asked: list[tuple[ModelSummary, Workload]] = []

    def predict(self, summary: ModelSummary, workload: Workload) -> Estimate:
        self.asked.append((summary, workload))
        if workload.seq_len == 667:
            raise RecursionError("a bug")
        if workload.seq_len == 666:
            raise SummaryError("line 4: 'Linear' is too long")
        note = "" if workload.input_size else "input_size=3x224x224 was taken"
        return Estimate(13_400, 30_000, "fixed", "mlp", "print", note=note if workload.seq_len == 668 else "")


def node(name: str, gpus: int = 4) -> Node:
    devices = tuple(Gpu(name, f"g{i}", 0) for i in range(gpus))
    return Node(name, True, frozenset({"gpu"}), frozenset({"h200"}), 64, 256_000, devices)


def service(*nodes: Node, clock: Clock | None = None, **partition: object) -> tuple[Service, Fixed]:
    base = {"gpu_memory_mib": 102_048, "default_smact": 0.1, **partition}
    config = settings.parse(
        {"partitions": {"gpu": base, "off": {"method": "off"}, "twin": base, "other": {"mode": "shadow"}}}, "test"
    )
    method = Fixed()
    made = Service(config, method, clock or Clock())
    made.update(ClusterView(1000.0, nodes or (node("n1"),)))
    return made, method


def ask(made: Service, *lines: str, **fields: str) -> Answer:
    script = "#!/bin/sh\n" + "\n".join(lines or ("#RAD model=net.txt batch_size=8",)) + "\n"
    base = {"script": script, "partition": "gpu", "tres_per_node": "gres:gpu:1", "user_name": "alice"}
    return made.answer({**base, "summary": SUMMARY, **fields})


def record(answer: Answer) -> Record:
    found = decode((answer.fields or {})["admin_comment"])
    assert found is not None
    return found


def test_the_message_says_that_half_precision_means_the_weights() -> None:
    made, _ = service()
    for said, told in (("bf16", "weights in bf16 (for autocast say precision=amp)"), ("amp", "amp"), ("fp32", "fp32")):
        answer = ask(made, f"#RAD model=net.txt batch_size=8 precision={said}")
        assert f"(net.txt, batch 8, adam, {told}): " in answer.message


def test_a_job_that_shares() -> None:
    made, method = service()
    answer = ask(made, "#RAD model=net.txt batch_size=8 optimizer=sgd precision=amp kind=infer seq_len=5")
    assert answer.message == (
        "13.1 GiB expected, 29.3 GiB reserved (net.txt, batch 8, length 5, sgd, amp, inference): "
        "30 of 100 shares of one GPU"
    )
    assert answer.fields is not None
    assert answer.fields["tres_per_node"] == "gres:mps:g0:30"
    assert not {"req_nodes", "features", "tres_bind"} & set(answer.fields)
    assert answer.environment == {"RAD_SHARE": "30", "RAD_THREAD_PERCENTAGE": "100"}
    kept = record(answer)
    assert (kept.action, kept.share, kept.pin, kept.node, kept.cap_mib) == ("share", 30, "g0", "n1", 30_000)
    assert (kept.upper_mib, kept.fingerprint, kept.asked) == (30_000, "print", "gpu:1")
    assert method.asked[0][1] == Workload(8, 5, "sgd", "amp", "infer", "unknown", 102_048)
    assert answer.to_fields()["set.tres_per_node"] == "gres:mps:g0:30"
    assert answer.to_fields()["env.RAD_SHARE"] == "30"
    assert answer.to_fields()["status"] == "pass"


@pytest.mark.parametrize(
    ("command", "asks"),
    [
        ("srun --gres=gpu:1 python train.py", True),
        ("  time srun -n1 -G1 python train.py", True),
        ("srun --ntasks=1 \\\n   --cpus-per-gpu=4 python train.py", True),
        ("srun --gpus-per-task=1 python train.py &", True),
        ("srun --gpu-bind=none python train.py", True),
        ("srun -n1 --tres-per-task=gres/gpu:1 python train.py", True),
        ("srun -n1 --tres-per-task=cpu:1 python train.py", False),
        ("srun python train.py", False),
        ("python train.py --gpus 1", False),
        ("python train.py # srun --gpus=1", False),
    ],
)
def test_a_step_that_slurm_will_refuse_is_told_at_submit_where_nothing_filters_it(command: str, asks: bool) -> None:
    made, _ = service()
    plain = ask(made, "#RAD memory=4G", command).message
    assert "\n" not in plain
    made.update(replace(made.view, filters_steps=False))
    told = ask(made, "#RAD memory=4G", command).message
    assert told.startswith(plain)
    assert ("srun asks for the GPU again" in told) is asks


def test_the_size_of_the_input_is_told_and_what_was_taken_for_it() -> None:
    made, method = service()
    lines = "#RAD model=net.txt batch_size=8 seq_len=668"
    answer = ask(made, lines)
    assert "(net.txt, batch 8, length 668, adam, fp32; input_size=3x224x224 was taken): 30 of" in answer.message
    assert (record(answer).input_size, record(answer).note) == ("", "input_size=3x224x224 was taken")
    answer = ask(made, f"{lines} input_size=3x512x1024")
    assert "(net.txt, batch 8, input 3x512x1024, length 668, adam, fp32): 30 of" in answer.message
    assert (record(answer).input_size, record(answer).note) == ("3x512x1024", "")
    assert [workload.input_size for _, workload in method.asked] == [None, (3, 512, 1024)]


@pytest.mark.parametrize("gpu_model", ["h200", "h100-80gb-hbm3"])
def test_a_limit_of_threads_goes_with_the_gpu_that_it_was_chosen_for(gpu_model: str) -> None:
    made, _ = service(threads="max-min", placement="mug", gpu_model=gpu_model)
    made.predict_with(load_predictor("rad"))
    first = ask(made, "#RAD model=net.txt batch_size=8", summary=resnet50())
    assert (first.environment or {})["RAD_THREAD_PERCENTAGE"] == "100"
    answer = ask(made, "#RAD model=net.txt batch_size=256", summary=resnet50())
    percentage = record(answer).thread_percentage
    assert percentage is not None and percentage < 100
    assert (answer.environment or {})["RAD_THREAD_PERCENTAGE"] == f"{percentage}@n1:g0"
    assert [resident.threads for resident in made.view.nodes[0].gpus[0].residents] == [100, percentage]


def test_a_decision_that_was_cut_short_on_its_way_into_the_view_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = service()
    ask(made)

    def cut_short(*_: object) -> ClusterView:
        raise OutOfTime

    with monkeypatch.context() as patch, pytest.raises(OutOfTime):
        patch.setattr("slurm_hooks.service.with_arrivals", cut_short)
        made.settle()
    made.update(ClusterView(1000.0, (node("n1"),)))
    assert [gpu.used_shares for gpu in made.view.nodes[0].gpus] == [30, 0, 0, 0]


def test_a_decision_that_was_given_up_holds_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = service()
    made.update(replace(made.view, filters_steps=False))

    def given_up(_script: str) -> bool:
        raise OutOfTime

    with monkeypatch.context() as patch, pytest.raises(OutOfTime):
        patch.setattr("slurm_hooks.answer.steps_ask", given_up)
        ask(made)
    made.update(ClusterView(1000.0, (node("n1"),)))
    assert [gpu.used_shares for gpu in made.view.nodes[0].gpus] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("asked", "cpus", "memory", "taken"),
    [
        ({}, "6", "5000", 6),
        ({"num_tasks": "1"}, "6", "5000", 6),
        ({"num_tasks": "2", "max_nodes": "1"}, "3", "5000", 6),
        ({"num_tasks": "4", "max_nodes": "1"}, "2", "5000", 8),
        ({"cpus_per_task": "2"}, None, "5000", 2),
        ({"cpus_per_tres": "gres:gpu:3"}, "3", "5000", 3),
        ({"min_mem_per_node": "1024"}, "6", None, 6),
        ({"min_mem_per_node": "0"}, "6", None, 6),
        ({"min_mem_per_cpu": "500"}, "6", None, 6),
        ({"mem_per_tres": "gres:gpu:7"}, "6", "7", 6),
    ],
)
def test_a_job_that_shares_gets_what_slurm_gives_for_a_gpu(
    asked: dict[str, str], cpus: str | None, memory: str | None, taken: int
) -> None:
    made, _ = service()
    made.update(replace(made.view, partitions={"gpu": SlurmPartition(per_gpu=PerGpu(6, 5000))}))
    fields = ask(made, **asked).fields or {}
    assert (fields.get("cpus_per_task"), fields.get("min_mem_per_node")) == (cpus, memory)
    assert fields.get("min_cpus") == (str(taken) if "max_nodes" in asked else None)
    assert made.view.nodes[0].free_cpus == 64 - taken
    other = ask(made, partition="twin").fields or {}
    assert "cpus_per_task" not in other
    assert "min_mem_per_node" not in other


@pytest.mark.parametrize(
    ("asked", "pinned"),
    [
        ({"pn_min_tmp_disk": "0"}, True),
        ({"pn_min_tmp_disk": "50000"}, False),
        ({"sockets_per_node": "2"}, False),
        ({"cores_per_socket": "32"}, False),
        ({"threads_per_core": "1"}, False),
        ({"ntasks_per_core": "1"}, False),
        ({"ntasks_per_socket": "1"}, False),
        ({"burst_buffer": "#BB capacity=100G"}, False),
        ({"prefer": "fast"}, False),
        ({"shared": "2"}, True),
        ({"shared": "1"}, True),
    ],
)
def test_what_says_which_nodes_will_do(asked: dict[str, str], pinned: bool) -> None:
    made, _ = service()
    assert ("mps:g0:" in (ask(made, **asked).fields or {})["tres_per_node"]) == pinned


def test_a_job_whose_node_takes_no_other_users_jobs() -> None:
    made, _ = service()
    ask(made, shared="2")
    assert made.view.nodes[0].owner == "alice"


def test_a_partition_that_gives_whole_nodes() -> None:
    made, _ = service()
    made.update(replace(made.view, partitions={"gpu": SlurmPartition(whole_nodes=True)}))
    answer = ask(made)
    assert answer.message == "left as written: partition gpu gives each job its node whole (OverSubscribe=EXCLUSIVE)"
    assert record(answer).action == "left_alone"
    assert "tres_per_node" not in (answer.fields or {})


def test_a_clock_that_was_set_back_leaves_no_ghosts_and_no_pins() -> None:
    clock = Clock()
    made, _ = service(clock=clock)
    ask(made)
    clock.now -= 3600
    assert [gpu.used_shares for gpu in made.view.nodes[0].gpus] == [0, 0, 0, 0]
    assert not made.unplaced
    assert "not pinned: the view of the cluster is stale" in record(ask(made)).reasons
    made.update(ClusterView(clock.now, (node("n1"),)))
    assert record(ask(made)).pin == "g0"


def test_an_inline_summary_wins_and_shows_its_batch_size() -> None:
    made, method = service()
    inline = ["# " + line for line in SUMMARY.replace("[-1, 10]", "[16, 10]").splitlines()]
    answer = ask(made, "#RAD summary-begin", *inline, "#RAD summary-end", summary="not read")
    ask(made, "#RAD model=net.txt seq_len=5", "#RAD summary-begin", *inline, "#RAD summary-end", summary="not read")
    assert [workload for _, workload in method.asked] == [
        Workload(16, length, "adam", "fp32", "train", "unknown", 102_048) for length in (None, 5)
    ]
    assert "adam, fp32; batch_size=16 of the summary was taken)" in answer.message


def test_a_claim_needs_no_summary() -> None:
    made, method = service()
    answer = ask(made, "#RAD memory=20G", summary="")
    assert answer.message == "20.0 GiB claimed: 21 of 100 shares of one GPU"
    assert method.asked == []


def test_exclusive_needs_no_summary() -> None:
    made, _ = service()
    answer = made.answer(
        {"script": "#RAD policy=exclusive\n", "partition": "gpu", "tres_per_job": "gres/gpu:1", "tres_per_node": ""}
    )
    assert answer.message == "the whole GPU (policy exclusive)"
    assert answer.fields is not None
    assert answer.fields["tres_per_job"] == ""
    assert answer.fields["tres_per_node"] == "gres/mps:g0:100"
    assert record(answer).action == "exclusive"


def test_exclusive_by_default_needs_no_summary() -> None:
    made, _ = service(policy="exclusive")
    assert ask(made, "#RAD kind=train").message == "the whole GPU (policy exclusive)"
    assert "nothing tells the job's memory" in ask(made, "#RAD policy=collocation").message


def test_a_script_without_directives_is_none_of_rads() -> None:
    made, _ = service()
    assert ask(made, "# RAD memory=12G", "python train.py", "#RAD memory=12G") == Answer()
    assert not made.unplaced


def test_what_was_asked_for_each_gpu_goes_with_it() -> None:
    made, _ = service()
    fields = ask(made, cpus_per_tres="gres:gpu:4", mem_per_tres="gres:gpu:16384").fields
    assert fields is not None
    assert [fields[k] for k in ("cpus_per_tres", "cpus_per_task", "mem_per_tres", "min_mem_per_node")] == [
        "",
        "4",
        "",
        "16384",
    ]


def test_an_implied_binding_goes_with_the_gpu() -> None:
    made, _ = service()
    fields = ask(made, tres_per_node="", tres_per_task="gres/gpu=1", tres_bind="gres/gpu:per_task:1").fields
    assert fields is not None
    assert (fields["tres_bind"], fields["tres_per_task"], fields["tres_per_node"]) == ("", "", "gres/mps:g0:30")


def test_other_resources_stay() -> None:
    made, _ = service()
    fields = ask(made, tres_per_node="gres:nvme:1", tres_per_task="gres:gpu:1,gres:x:2").fields
    assert fields is not None
    assert fields["tres_per_task"] == "gres:x:2"
    assert fields["tres_per_node"] == "gres:nvme:1,gres:mps:30"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", "h200"),
        ("big", "big&h200"),
        ("a|b", "(a|b)&h200"),
        ("[a|b]", "([a|b])&h200"),
        ("a*1", "a*1&h200"),
        ("(a|b)&c", "(a|b)&c&h200"),
        ("[(a&b)|c]", "[(a&b)|c]&h200"),
    ],
)
def test_a_type_becomes_a_constraint(old: str, new: str) -> None:
    made, _ = service()
    fields = ask(made, tres_per_node="gres:gpu:h200:1", features=old).fields
    assert fields is not None
    assert fields["features"] == new
    assert fields["tres_per_node"] == ("gres:mps:30" if old else "gres:mps:g0:30")
    assert "prefer" not in fields
    fields = ask(made, tres_per_node="gres:gpu:h200:1", prefer=old).fields or {}
    assert fields.get("prefer") == (new if old else None)


def test_a_sweep_reads_its_summary_once() -> None:
    made, method = service()
    for batch in (8, 16, 8, 32):
        ask(made, f"#RAD model=net.txt batch_size={batch}")
    assert [workload.batch_size for _, workload in method.asked] == [8, 16, 32]
    assert len({id(summary) for summary, _ in method.asked}) == 1


def test_features_stay_where_no_type_becomes_one() -> None:
    made, _ = service()
    assert "features" not in (ask(made, features="a|b").fields or {})


def test_a_device_type_stays_where_slurm_chooses_the_node() -> None:
    made, _ = service(node("n1"), node("n2"))
    fields = ask(made, tres_per_node="gres:gpu:g1:1", array_inx="1-3").fields or {}
    assert (fields["tres_per_node"], "req_nodes" in fields) == ("gres:mps:g1:30", False)


def test_a_type_that_nobody_knows_leaves_the_job_as_it_is() -> None:
    made, _ = service()
    answer = ask(made, tres_per_node="gres:gpu:a100:1")
    assert not answer.reject
    assert record(answer).action == "left_alone"
    assert set(answer.fields or {}) == {"admin_comment"}
    assert answer.message.startswith("left as written: GPU type a100 is not known")


def test_a_pin_names_the_node_where_there_are_several() -> None:
    made, _ = service(node("n1"), node("n2"))
    fields = ask(made).fields
    assert fields is not None
    assert fields["req_nodes"] == "n1"


def test_a_second_submission_is_decided_from_the_first() -> None:
    made, _ = service()
    made.experience = {("alice", "print"): (Measured((7, 200), 50_000.0, None), Measured((8, 300), 49_000.0, 0.6))}
    answer = ask(made)
    kept = record(answer)
    assert (kept.method, kept.expected_mib, kept.upper_mib) == ("history", 50_000, 53_000)
    assert (kept.share, kept.smact) == (75, 0.6)
    assert record(ask(made, user_name="bob")).method == "fixed"
    assert record(ask(made, user_name="Alice")).method == "history"  # slurmdbd knows names in small letters
    made.experience = {("alice", "print"): (Measured((7, 200), 50_000.0, None),)}
    assert record(ask(made)).smact == 0.1


def test_round_robin_goes_on_from_the_last_decision() -> None:
    made, _ = service(placement="rr")
    assert [record(ask(made)).pin for _ in range(5)] == ["g0", "g1", "g2", "g3", "g0"]


def test_counters_of_the_last_run_alone_win_over_what_the_summary_suggests() -> None:
    made, _ = service(gpu_model="h200")
    with_predictor = Service(made.config, Fixed(), Clock(), load_predictor("rad"))
    with_predictor.update(made.view)
    guessed = unpack(record(ask(with_predictor)).activity, None)
    alone = Measured((7, 200), 20_000.0, 0.61, None, 0.47)
    beside = Measured((8, 300), 20_000.0)  # its neighbours' activity was in what was measured
    with_predictor.experience = {("alice", "print"): (Measured((6, 100), 20_000.0, 0.9, 0.9, 0.9), alone, beside)}
    known = unpack(record(ask(with_predictor)).activity, None)
    assert guessed is not None
    assert known is not None
    assert (known.smact, known.busy, known.smocc, known.dram) == (0.61, 0.61, guessed.smocc, 0.47)
    assert guessed.smact != 0.61
    assert known.kernel.mean_us == guessed.kernel.mean_us > 0.0
    assert unpack(record(ask(with_predictor, user_name="bob")).activity, None) == guessed


def test_ten_submits_in_one_second_do_not_pick_the_same_gpu() -> None:
    made, _ = service()
    pins = [record(ask(made)).pin for _ in range(12)]
    assert pins == ["g0", "g1", "g2", "g3"] * 3
    answer = ask(made)
    assert record(answer).residents == ()
    assert record(answer).pin == ""
    assert record(answer).reasons[-1] == "not pinned: no GPU has room now"


def test_neighbours_that_have_no_number_yet_are_recorded() -> None:
    made, _ = service(node("n1", gpus=1))
    assert record(ask(made)).residents == ()
    assert record(ask(made)).residents == (0,)


def test_decisions_are_forgotten_once_slurm_shows_the_jobs() -> None:
    clock = Clock()
    made, _ = service(clock=clock)
    ask(made)
    assert made.view.nodes[0].gpus[0].used_shares == 30
    clock.now = 1000.5
    made.update(ClusterView(1000.5, (node("n1"),)))
    assert made.view.nodes[0].gpus[0].used_shares == 30
    made.update(ClusterView(1001.5, (node("n1"),)))
    assert made.view.nodes[0].gpus[0].used_shares == 0
    ask(made)
    clock.now = 1000.5 + made.config.radd.recent_s
    assert made.view.nodes[0].gpus[0].used_shares == 0


def test_while_slurm_does_not_answer_decisions_are_forgotten_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each decision of a burst would go through all before it, while slurmctld waits."""
    clock = Clock()
    made, _ = service(clock=clock)
    rebuilt, within = [], [False]
    rebuild = Service._rebuild

    def counted(self: Service) -> None:
        rebuilt.append(within[0])
        rebuild(self)

    monkeypatch.setattr(Service, "_rebuild", counted)
    recent_s = made.config.radd.recent_s
    for _ in range(int(100 * recent_s) + 500):
        clock.now += 0.01
        within[0] = True
        ask(made, "#RAD memory=12G")
        within[0] = False
        made.settle()
    assert 4 <= len(rebuilt) <= 6  # once a second
    assert not any(rebuilt[1:])  # but when an answer was on its way
    clock.now += 2 * recent_s
    assert not made.unplaced


def test_an_unpinned_job_counts_wherever_it_may_have_gone_until_it_is_seen() -> None:
    made, _ = service()
    sent = [record(ask(made, features="h200")) for _ in range(3)]
    assert [kept.pin for kept in sent] == ["", "", ""]
    assert made.unplaced
    # 90 of 100 shares may be taken on each GPU: nothing is free for sure, though the view shows all of it free.
    assert record(ask(made)).pin == ""
    made.update(ClusterView(1001.5, (node("n1"),)))
    assert not made.unplaced
    assert record(ask(made)).pin == "g0"


@pytest.mark.parametrize(
    ("waiting", "beside", "hurries"),
    [({}, (), True), ({"gpu": 3}, (), False), ({"gpu": 3}, ("twin",), True), ({"gpu": 3, "twin": 1}, ("twin",), False)],
)
def test_where_jobs_wait_already_nobody_hurries_to_see_another(
    waiting: dict[str, int], beside: tuple[str, ...], *, hurries: bool
) -> None:
    """radd would ask slurmctld each second on a full cluster, where it pins nobody; `twin` has jobs that go first."""
    made, _ = service()
    partitions = {"gpu": SlurmPartition(beside=frozenset(beside)), "twin": SlurmPartition(tier=1)}
    made.update(ClusterView(1000.0, (node("n1"),), waiting, partitions=partitions))
    assert record(ask(made, features="h200")).pin == ""
    assert made.unplaced == hurries


def test_the_tasks_of_an_array_may_fill_any_gpu_until_they_are_seen() -> None:
    made, _ = service()
    ask(made, array_inx="1-9")
    assert record(ask(made)).pin == ""
    made.update(ClusterView(1001.5, (node("n1"),)))
    assert record(ask(made)).pin == "g0"


def test_gpus_without_types_and_shares() -> None:
    """As a site has them before RAD: Slurm would refuse shares."""
    plain = replace(node("n1", gpus=0), shares=False, several=frozenset({""}))
    for mode, action in (("enforce", "left_alone"), ("advise", "advised"), ("shadow", "shadowed")):
        made, _ = service(plain, mode=mode)
        made.update(ClusterView(1000.0, (plain,), lacking=frozenset({"gpu"})))
        answer = ask(made)
        kept = record(answer)
        assert (kept.action, set(answer.fields or {})) == (action, {"admin_comment"})
        why = "not pinned: no GPU of partition gpu has a Type and shares of its own"
        if mode == "enforce":
            why = "no node where the job may run has shares of its GPUs (gres/mps) now"
            assert answer.message == f"left as written: {why}"
        else:
            assert kept.share == 30
        assert kept.reasons[-1] == why


def test_nodes_whose_shares_slurm_does_not_know() -> None:
    """Slurm 22.05 would refuse the job, or hold it for ever."""
    made, _ = service()
    ready, unready = node("n1"), replace(node("n2"), shares=False)

    def left(nodes: tuple[Node, ...], made: Service = made, **fields: str) -> bool:
        lacking = frozenset(name for node in nodes if not node.shares for name in node.partitions)
        made.update(ClusterView(1001.5, nodes, lacking=lacking))
        answer = ask(made, **fields)
        if record(answer).action != "left_alone":
            assert record(answer).node in ("", "n1")
            return False
        assert set(answer.fields or {}) == {"admin_comment"}
        assert answer.message == (
            "left as written: no node where the job may run has shares of its GPUs (gres/mps) now"
        )
        return True

    assert left((unready,))
    assert left((unready, replace(ready, partitions=frozenset({"twin"}))))
    assert not left((unready, ready))
    assert not left((replace(unready, partitions=frozenset({"other"})), ready))
    assert left((unready, ready), req_nodes="n2")
    assert left((unready, ready), exc_nodes="n1")
    assert left((unready, ready), req_nodes="n[1-2]")
    assert not left((unready, ready), req_nodes="n1")
    assert left((unready, replace(ready, features=frozenset())), tres_per_node="gres:gpu:h200:1")
    for names in ("", "n[1-2]"):
        assert not left((replace(unready, gpus=()), ready), req_nodes=names)
    advised, _ = service(mode="advise")
    assert not left((unready,), advised)


def test_a_reservation_in_which_no_job_for_shares_starts() -> None:
    made, _ = service()
    made.update(ClusterView(1001.5, (node("n1"),), without_shares=frozenset({"course"})))
    for names in ("course", "other,course"):
        answer = ask(made, reservation=names)
        assert set(answer.fields or {}) == {"admin_comment"}
        assert "left as written: no job for shares starts in reservation course" in answer.message
    assert record(ask(made, reservation="other")).action == "share"
    assert record(ask(made)).action == "share"


def test_a_slurm_whose_controller_shares_would_end() -> None:
    made, _ = service(placement="exclusive")
    assert record(ask(made)).action == "exclusive"
    for view in (ClusterView(counts_shares=False), ClusterView(1000.0, (node("n1"),), counts_shares=False)):
        made.update(view)
        answer = ask(made)
        assert set(answer.fields or {}) == {"admin_comment"}
        assert (record(answer).action, record(answer).reasons) == ("left_alone", (answer.message.partition(": ")[2],))
        assert answer.message.startswith("left as written: slurmctld is older than 22.05")


def test_a_slurmctld_that_has_just_started() -> None:
    clock = Clock()
    made, _ = service(clock=clock)
    clock.now = 1010.0

    def reasons(since: float) -> str:
        return record(ask(made, slurmctld_since=f"{since:.0f}")).reasons[0]

    just = "slurmctld has just started: what shares its nodes have is not known yet"
    assert reasons(999) != just
    assert reasons(1005) == reasons(1011) == just
    assert made.unplaced, "so that radd looks at once"
    made.update(ClusterView(1000.0, (node("n1"),), keeps_shares=True))
    assert reasons(1005) != just
    made.update(ClusterView(1011.0, (node("n1"),)))
    assert reasons(1005) != just
    made.update(ClusterView(1000.0, (node("n1"),)))
    clock.now = 1005.0 + made.config.radd.stale_s
    assert reasons(1005) != just, "Slurm's commands fail: shares are given, and no pin"


def test_a_whole_gpu_that_slurm_places_may_take_any() -> None:
    """Even one that holds others by the last look: they may have ended since."""
    made, _ = service()
    ask(made)
    ask(made, tres_per_node="gres:gpu:2")
    assert record(ask(made)).pin == ""
    made.update(ClusterView(1001.5, (node("n1"),)))
    assert record(ask(made)).pin == "g0"


def test_jobs_that_cannot_start_yet_count_nowhere() -> None:
    made, _ = service()
    for fields in ({"priority": "0"}, {"dependency": "afterok:1"}, {"begin_time": "2000"}):
        assert record(ask(made, **fields)).pin == ""
    ask(made, tres_per_node="")  # it asks for none
    assert not made.unplaced
    assert [record(ask(made)).pin for _ in range(2)] == ["g0", "g1"]


def test_a_question_when_a_job_would_start_counts_nowhere() -> None:
    made, _ = service()
    assert [record(ask(made, test_only="1")).pin for _ in range(2)] == ["g0", "g0"]
    assert "more than one" in record(ask(made, test_only="1", tres_per_node="gres:gpu:2")).reasons[0]
    assert not made.unplaced
    assert [record(ask(made)).pin for _ in range(2)] == ["g0", "g1"]


def test_a_job_without_a_limit_is_not_pinned_where_a_reservation_begins() -> None:
    made, _ = service()
    hour = SlurmPartition(limit_s=3600.0)
    made.update(ClusterView(1000.0, (replace(node("n1"), reserved_from=9000.0),), partitions={"gpu": hour}))
    assert record(ask(made)).pin
    assert not record(ask(made, time_limit="unlimited")).pin


def test_a_steady_flow_of_unpinned_jobs_does_not_stop_pinning() -> None:
    clock = Clock()
    made, _ = service(clock=clock)
    for _ in range(20):
        clock.now += 1.0
        made.update(ClusterView(clock.now - 0.5, (node("n1"),)))
        ask(made, features="h200")
        assert record(ask(made)).pin


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"partition": "a\x1b[31mb\x07"}, "partition a?[31mb?: RAD does not serve it"),
        ({"summary": None, "summary_error": "a\x1b[2Jb\x9bc\u202ed"}, "summary net.txt: a?[2Jb?c?d"),
        ({"summary": None, "summary_error": "a\nb"}, "summary net.txt: a\nb"),
    ],
)
def test_no_text_of_a_user_moves_a_terminal(fields: dict[str, str | None], shown: str) -> None:
    made, _ = service()
    script = "#!/bin/sh\n#RAD model=net.txt batch_size=8\ntrue\n"
    base: dict[str, str | None] = {"script": script, "partition": "gpu", "tres_per_node": "gres:gpu:1"}
    told = {name: text for name, text in {**base, **fields}.items() if text is not None}
    assert shown in made.answer(told).to_fields()["message"]


@pytest.mark.parametrize(
    ("lines", "fields", "words"),
    [
        ((), {"tres_per_node": "gres:gpu:2"}, "more than one GPU"),
        ((), {"core_spec": "1"}, "--core-spec or --thread-spec: leave them out"),
        ((), {"summary": "what is this"}, "what is this"),
        ((), {"summary": "x" * 600_000}, "longer than 512 KiB"),
        (("#RAD model=net.txt",), {}, "add #RAD batch_size=64"),
        (("#RAD model=net.txt batch_size=8 seq_len=666",), {}, "'Linear' is too long"),
        (("#RAD model=net.txt batch_size=8 seq_len=667",), {}, "the estimate failed (RecursionError)"),
        (("#RAD batch_size=8",), {"summary": None}, "nothing tells the job's memory"),
        (("#RAD batch_size=8 # model=net.txt",), {}, "nothing tells the job's memory"),
        (
            ("#RAD model=net.txt batch_size=8",),
            {"summary": None},
            "not handed on (--export without ALL, script from a pipe,",
        ),
        (
            ("#RAD model=net.txt batch_size=8",),
            {"summary": None, "summary_error": "is not a regular file"},
            "net.txt: is not a regular file",
        ),
        (
            ("#RAD model=net.txt batch_size=8",),
            {"summary": None, "summary_error": "cannot be read: No such file or directory"},
            "No such file or directory (a path is relative to the directory in which sbatch runs)",
        ),
        (
            ("#RAD model=~/net.txt batch_size=8",),
            {"summary": None, "summary_error": "cannot be read: No such file or directory"},
            "no shell reads this line: ~ and $ stay as they are",
        ),
    ],
)
def test_left_alone(lines: tuple[str, ...], fields: dict[str, str | None], words: str) -> None:
    made, _ = service()
    script = "#!/bin/sh\n" + "\n".join(lines or ("#RAD model=net.txt batch_size=8",)) + "\n"
    base: dict[str, str | None] = {
        "script": script,
        "partition": "gpu",
        "tres_per_node": "gres:gpu:1",
        "summary": SUMMARY,
    }
    answer = made.answer({k: v for k, v in {**base, **fields}.items() if v is not None})
    assert not answer.reject
    assert answer.message.startswith("left as written: ")
    assert words in answer.message
    assert answer.fields is not None
    assert list(answer.fields) == ["admin_comment"]
    assert record(answer).action == "left_alone"
    assert words in record(answer).reasons[0]


@pytest.mark.parametrize("first", ["#RAD model=net.txt batch_size=8", "#RAD policy=collocation"])
@pytest.mark.parametrize(("mode", "told"), [("enforce", True), ("advise", True), ("shadow", False)])
def test_directives_that_come_too_late_beside_others(mode: str, told: bool, first: str) -> None:
    made, _ = service(mode=mode)
    in_time = ask(made, first, "python train.py").message
    late = "\n#RAD lines after the first command have no effect: move them up, beside the #SBATCH lines"
    assert ask(made, first, "python train.py", "#RAD memory=12G").message == in_time + late * told


def test_a_wrong_directive_is_refused() -> None:
    made, _ = service()
    answer = ask(made, "#RAD batchsize=3")
    assert answer.reject
    assert "line 2" in answer.message
    assert answer.to_fields()["status"] == "reject"


def test_modes() -> None:
    advise, _ = service(mode="advise")
    answer = ask(advise)
    assert answer.message.startswith("advice: 13.1 GiB expected")
    assert list(answer.fields or {}) == ["admin_comment"]
    assert record(answer).action == "advised"
    assert advise.unplaced  # the job takes a GPU whole, as it was written
    shadow, _ = service(mode="shadow")
    answer = ask(shadow)
    assert (answer.message, list(answer.fields or {})) == ("", ["admin_comment"])
    assert record(answer).action == "shadowed"
    for whole, action in ((advise, "advised"), (shadow, "shadowed")):  # neither holds what was decided
        kept = record(ask(whole, "#RAD policy=exclusive"))
        assert (kept.action, kept.share, kept.job_policy) == (action, 100, "exclusive")


@pytest.mark.parametrize(("mode", "told"), [("advise", True), ("shadow", False)])
def test_a_wrong_directive_is_recorded_where_nothing_is_changed(mode: str, told: bool) -> None:
    made, _ = service(mode=mode)
    answer = ask(made, "#RAD batchsize=3")
    assert not answer.reject
    wrong = "line 2: unknown key 'batchsize': did you mean 'batch_size'?"
    assert answer.message == f"left as written: {wrong}" * told
    assert (record(answer).action, record(answer).reasons) == ("left_alone", (wrong,))


@pytest.mark.parametrize("partition", ["cpu", "off", "off,cpu", ""])
def test_partitions_that_rad_does_not_serve(partition: str) -> None:
    made, _ = service()
    answer = ask(made, partition=partition)
    assert not answer.reject
    assert answer.fields is None
    assert "goes through as written" in answer.message


@pytest.mark.parametrize("partition", ["gpu,other", "other,gpu", "gpu,cpu", "cpu,gpu", "off,gpu"])
def test_partitions_that_are_not_served_alike(partition: str) -> None:
    made, _ = service()
    answer = ask(made, partition=partition)
    assert set(answer.fields or {}) == {"admin_comment"}
    assert answer.message == f"left as written: RAD does not serve the partitions {partition} alike"
    kept = record(answer)
    assert (kept.action, kept.asked) == ("left_alone", "gpu:1")
    assert made.unplaced  # it may get any GPU


def test_partitions_that_nobody_serves_take_no_memory() -> None:
    made, _ = service()
    ask(made, partition=",".join(["gpu", *(f"p{n}" for n in range(9999))]))
    assert set(made.view.floating) == {"gpu"}


def test_partitions_that_are_alike() -> None:
    made, _ = service()
    assert record(ask(made, partition="gpu,twin")).pin == ""


def test_what_other_tools_keep_stays() -> None:
    made, _ = service()
    assert (ask(made, admin_comment="JS1:xyz").fields or {})["admin_comment"].startswith("JS1:xyz RAD1:")
