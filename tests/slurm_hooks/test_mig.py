"""MIG: profiles by their names, the choice among them, and a job's way through a partition that is shared by MIG."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.types import Estimate
from predictor import nvml
from slurm_hooks import config as settings
from slurm_hooks import mig
from slurm_hooks.answer import Answer
from slurm_hooks.cluster import ClusterView, Gpu, Node
from slurm_hooks.config import Partition, Recovery
from slurm_hooks.decision import Decision, Demand, Job, decide_instance
from slurm_hooks.directives import Directives
from slurm_hooks.node.next_gres import asks_for_instance, next_gres
from slurm_hooks.node.recovery import Ended, Site, judge, requeued
from slurm_hooks.radd.limit import at_most
from slurm_hooks.records import Record, Run, decode, encode
from slurm_hooks.request import GpuRequest, LeftAlone, Submission, understand
from slurm_hooks.service import Service
from slurm_hooks.slurm.accounting import JobRun
from slurm_hooks.slurm.view import parse_nodes

TYPES = ("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "7g.141gb")
PARTITION = Partition(method="mig", gpu_model="h200")
NODE = Node("n1", True, frozenset({"gpu"}), frozenset({"h200"}), 16, 64_000, (), frozenset(TYPES))
VIEW = ClusterView(0.0, (NODE,))
REQUEST = GpuRequest("gpu:1", "", "tres_per_node", (), ":")


@pytest.mark.parametrize(
    ("device_type", "slices", "gigabytes"),
    [
        ("1g.5gb", 1, 5),
        ("nvidia_h200_1g.18gb", 1, 18),
        ("a100-40gb-3g.20gb", 3, 20),
        ("1g.10gb+me", 1, 10),
        ("nvidia_h100_80gb_hbm3_1g.10gb.me", 1, 10),
        ("7G.141GB", 7, 141),
    ],
)
def test_a_profile_by_its_name(device_type: str, slices: int, gigabytes: int) -> None:
    found = mig.instance(device_type)
    assert found is not None
    assert (found.type, found.slices) == (device_type, slices)
    assert found.memory_mib == int(0.95 * gigabytes * 1e9 / 2**20)


@pytest.mark.parametrize(
    "device_type", ["", "g0", "h200", "0g.5gb", "8g.5gb", "1g.0gb", "1g.5", "a100-40gb", "11g.5gb"]
)
def test_what_is_no_profile(device_type: str) -> None:
    assert mig.instance(device_type) is None


@given(st.text(max_size=40))
def test_any_text_is_a_profile_or_none(text: str) -> None:
    found = mig.instance(text)
    assert found is None or (1 <= found.slices <= 7 and found.memory_mib > 0 and 1 <= found.share <= 100)


@pytest.mark.parametrize("kind", ["1g.18gb" + "_" * 60 + "!", "a" * 400_000 + "!", "_1g.18gb" * 20_000, "1" * 400_000])
def test_no_text_of_a_users_takes_long_to_be_told_from_a_profile(kind: str) -> None:
    with at_most(2.0):
        mig.instance(kind)
        understand(Submission("", tres={"tres_per_node": f"gres:gpu:{kind}"}))
        parse_nodes(f"NodeName=n1 Gres=gpu:{kind}")


def test_the_smallest_that_fits() -> None:
    found = mig.instances(["g0", *reversed(TYPES), "1g.18gb"])
    assert tuple(p.type for p in found) == TYPES
    assert [p.slices for p in mig.instances(["a100_7g.40gb", "h200_1g.18gb"])] == [1, 7]
    assert mig.smallest(found, found[0].memory_mib, 1 / mig.SLICES) == found[0]
    wanted = [(1, 0.0), (16_000, 0.0), (17_000, 0.0), (17_000, 0.2), (1, 0.4), (65_000, 0.0), (200_000, 0.0)]
    chosen = [mig.smallest(found, *needs) for needs in wanted]
    assert [p.type if p else None for p in chosen] == [
        "1g.18gb",
        "1g.18gb",
        "1g.35gb",
        "2g.35gb",
        "3g.71gb",
        "7g.141gb",
        None,
    ]


def _decide(
    upper_mib: int | None = 20_000,
    *,
    smact: float | None = None,
    request: GpuRequest = REQUEST,
    submission: Submission | None = None,
    view: ClusterView = VIEW,
    policy: Any = None,
    partition: Partition = PARTITION,
) -> Decision | LeftAlone:
    estimate = None if upper_mib is None else Estimate(upper_mib, upper_mib, "rad", "cnn", "f")
    asks = submission or Submission("", partition="gpu")
    return decide_instance(Job(asks, request, Directives(policy=policy), Demand(estimate, smact)), partition, view)


def _made(**changes: Any) -> Decision:
    made = _decide(**changes)
    assert isinstance(made, Decision)
    return made


def test_a_job_gets_the_smallest_instance_that_holds_it() -> None:
    made = _made()
    assert (made.instance, made.share, made.pin, made.cap_mib) == ("1g.35gb", 15, None, None)
    assert made.larger == ("3g.71gb", "7g.141gb")
    assert made.reasons == ("1g.35gb with 31709 MiB is the smallest MIG profile for 20000 MiB",)
    busy = _made(smact=0.2)  # a quarter of the compute that may be given away
    assert (busy.instance, made.smact, busy.smact) == ("2g.35gb", PARTITION.default_smact, 0.2)
    assert "for 20000 MiB and a measured SMACT of 0.20" in busy.reasons[0]
    assert _made(smact=0.23).instance == "3g.71gb"
    assert _made(smact=0.9).reasons[0].startswith("7g.141gb with 127744 MiB is the smallest")
    assert _made(upper_mib=500_000).instance == "7g.141gb"
    policies = [
        dataclasses.replace(PARTITION, policy="exclusive"),
        dataclasses.replace(PARTITION, placement="exclusive"),
    ]
    for made in (_made(policy="exclusive"), *(_made(partition=partition) for partition in policies)):
        assert (made.instance, made.reasons) == ("7g.141gb", ("policy exclusive: the largest MIG profile",))
    shares = _made(policy="collocation", partition=policies[0])  # the job's word counts, not the partition's
    assert shares.instance == "1g.35gb"
    assert _made(upper_mib=None).share == 100


def test_where_the_nodes_are_counts() -> None:
    small = dataclasses.replace(NODE, name="n2", instances=frozenset({"1g.18gb"}))
    view = ClusterView(0.0, (NODE, small, dataclasses.replace(NODE, name="n3", partitions=frozenset({"other"}))))
    asks = Submission("", partition="gpu", req_nodes="n2")
    assert _made(view=view, submission=asks).instance == "1g.18gb"  # the largest there, though it may not fit
    assert _made(view=view).instance == "1g.35gb"
    nowhere = _decide(submission=Submission("", partition="cpu"))
    assert nowhere == LeftAlone("gpu:1", "no node with MIG instances is known where the job may run")
    assert _decide(submission=Submission("", partition="cpu", req_nodes="n[1-2]")) == nowhere


@pytest.mark.parametrize(
    "asks",
    [
        {"exc_nodes": "n1"},
        {"features": "a100"},
        {"features": "fast&a100"},
        {"req_nodes": "n[2-3]"},
        {"exc_nodes": "n[1,3]"},
        {"features": "a100|none"},
    ],
)
def test_slurm_is_not_asked_for_an_instance_that_is_on_none_of_the_jobs_nodes(asks: dict[str, Any]) -> None:
    other = dataclasses.replace(
        NODE, name="n2", instances=frozenset({"1g.18gb", "7g.40gb"}), features=frozenset({"a100", "fast"})
    )
    made = _made(view=ClusterView(0.0, (NODE, other)), submission=Submission("", partition="gpu", **asks))
    assert made.instance in other.instances and set(made.larger) <= other.instances


def test_a_gpu_type_that_the_user_names_tells_the_nodes() -> None:
    other = dataclasses.replace(NODE, name="n2", instances=frozenset({"7g.40gb"}), features=frozenset({"a100"}))
    view = ClusterView(0.0, (NODE, other))
    request = REQUEST._replace(text="gpu:a100:1", type="a100")
    made = _made(view=view, request=request)
    assert (made.instance, made.feature) == ("7g.40gb", "a100")


def test_a_type_that_the_user_names() -> None:
    asked = _decide(request=REQUEST._replace(text="gpu:1g.18gb:1", type="1g.18gb"))
    assert asked == LeftAlone("gpu:1g.18gb:1", "the request names a MIG profile")
    made = _made(request=REQUEST._replace(text="gpu:h200:1", type="h200"))
    assert (made.feature, made.reasons[-1]) == ("h200", "GPU type h200 became the node feature h200")


def test_requests_and_nodes_with_types_that_begin_with_a_digit() -> None:
    read = understand(Submission("", tres={"tres_per_node": "gres:gpu:1g.18gb:1"}))
    assert read == GpuRequest("gpu:1g.18gb:1", "1g.18gb", "tres_per_node", (), ":")
    text = "NodeName=n1 CPUTot=8 State=IDLE Partitions=gpu Gres=gpu:1g.18gb:2(S:0),gpu:7g.141gb:1,gpu:g0:1,mps:g0:100"
    (node,) = parse_nodes(text)
    assert node.instances == {"1g.18gb", "7g.141gb"}
    assert node.gpus == (Gpu("n1", "g0", 0),)
    (only,) = parse_nodes(text.replace(",gpu:g0:1,mps:g0:100", ""))
    assert only.gpus == ()


class _Method:
    name = "fixed"

    def predict(self, *_: Any) -> Estimate:
        raise AssertionError("the job claims its memory")


def _answer(mode: str = "enforce", view: ClusterView = VIEW, **fields: str) -> Answer:
    partition = dataclasses.replace(PARTITION, mode=mode)  # type: ignore[arg-type]
    made = Service(settings.Config(partitions={"gpu": partition}), _Method())
    made.update(view)
    script = "#!/bin/sh\n#RAD memory=20G\n"
    return made.answer({"script": script, "partition": "gpu", "tres_per_node": "gres:gpu:1", **fields})


def test_the_answer_to_a_submission() -> None:
    answer = _answer(tres_per_node="gres:gpu:1,gres:lustre:2", features="ib|eth")
    assert answer.fields is not None
    assert answer.fields["tres_per_node"] == "gres:lustre:2,gres:gpu:1g.35gb:1"
    assert answer.message == "20.0 GiB claimed: MIG instance 1g.35gb"
    assert answer.environment is None
    assert answer.record is not None
    assert (answer.record.profile, answer.record.share) == ("1g.35gb", 15)
    assert decode(encode(answer.record)) == answer.record
    per_job = _answer(tres_per_node="", tres_per_job="gres:gpu:h200:1", features="ib|eth").fields
    assert per_job is not None
    assert (per_job["tres_per_job"], per_job["features"]) == ("gres:gpu:1g.35gb:1", "(ib|eth)&h200")
    advice = _answer("advise")
    assert advice.message == "advice: 20.0 GiB claimed: MIG instance 1g.35gb"
    assert set(advice.fields or {}) == {"admin_comment"}
    assert _answer(view=dataclasses.replace(VIEW, counts_shares=False)) == _answer(), "it asks for no shares"
    named = _answer(tres_per_node="gres:gpu:1g.18gb:1")
    assert named.message == "left as written: the request names a MIG profile"


RECORD = Record("share", share=15, profile="1g.18gb", larger=("1g.35gb", "3g.71gb", "7g.141gb"))
ENDED = Ended("7", 0, 1, 0, "NonZeroExitCode", None, None, "torch.OutOfMemoryError", False, "", "", False, "", True)
SITE = Site(PARTITION, 140_000, Recovery(), can_retype=True)


def test_out_of_memory_first_a_larger_instance_then_the_largest_then_never_again() -> None:
    record, restart, told = RECORD, 0, []
    while True:
        verdict = judge(record, dataclasses.replace(ENDED, restart=restart), SITE)
        told.append((verdict.outcome, verdict.instance))
        if verdict.share is None:
            break
        run = Run(restart=restart, outcome=verdict.outcome)
        record, restart = requeued(record, run, verdict.share, SITE, verdict.instance), restart + 1
    assert told == [("oom_requeued", "1g.35gb"), ("oom_exclusive", "7g.141gb"), ("oom_final", "")]
    assert (record.profile, record.first_profile, record.larger, record.retries) == ("7g.141gb", "1g.18gb", (), 2)
    assert (record.share, record.first_share, record.cap_mib, record.user_changes) == (100, 15, None, ())
    assert judge(RECORD, ENDED, SITE).message == (
        "rad: job 7 ran out of GPU memory (MIG instance 1g.18gb); requeued with 1g.35gb"
    )


def test_the_largest_instance_where_none_has_the_next_step() -> None:
    verdict = judge(RECORD, ENDED, dataclasses.replace(SITE, settings=Recovery(factor=10.0)))
    assert (verdict.outcome, verdict.instance, verdict.share) == ("oom_exclusive", "7g.141gb", 100)


@pytest.mark.parametrize(
    ("ended", "site", "outcome"),
    [
        ({"may_requeue": False}, {}, "oom_told"),
        ({}, {"can_retype": False}, "oom_told"),
        ({}, {"settings": Recovery(enabled=False)}, "oom_told"),
        ({"restart": 10}, {}, "oom_final"),
        ({"evidence": ""}, {}, "failed"),
    ],
)
def test_what_is_not_requeued(ended: dict[str, Any], site: dict[str, Any], outcome: str) -> None:
    verdict = judge(RECORD, dataclasses.replace(ENDED, **ended), dataclasses.replace(SITE, **site))
    assert (verdict.outcome, verdict.share) == (outcome, None)
    died, ask = "rad: job 7 ran out of GPU memory (MIG instance 1g.18gb)", "ask for more: #RAD memory=24G"
    messages = {
        "oom_told": f"{died} and may not be requeued; {ask}",
        "oom_final": f"{died}: it was tried 11 times; {ask}",
        "failed": "",
    }
    assert verdict.message == messages[outcome]


@pytest.mark.parametrize(("needed", "ask"), [(64 * 1024, "64G"), (64 * 1024 + 1, "65G")])
def test_what_is_asked_for_holds_what_is_needed(needed: int, ask: str) -> None:
    had = mig.instance("1g.18gb")
    assert had is not None
    settings = Recovery(step_mib=needed - had.memory_mib)
    site = dataclasses.replace(SITE, settings=settings, can_retype=False)
    assert judge(RECORD, ENDED, site).message.endswith(f"#RAD memory={ask}")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"larger": ()}, "1g.18gb): there is no larger one and it is not tried again"),
        ({"profile": "1g"}, "1g): there is no larger one and it is not tried again"),
        ({"retries": 2}, "1g.18gb): it was tried 3 times; ask for more: #RAD memory=24G"),
    ],
)
def test_who_ran_out_of_an_instances_memory_for_the_last_time(changes: dict[str, Any], words: str) -> None:
    verdict = judge(dataclasses.replace(RECORD, **changes), dataclasses.replace(ENDED, restart=2), SITE)
    assert (verdict.outcome, verdict.share) == ("oom_final", None)
    assert verdict.message == f"rad: job 7 ran out of GPU memory (MIG instance {words}"


def test_an_instance_has_no_cap() -> None:
    after = requeued(RECORD, Run(restart=0, outcome="oom_requeued"), 15, SITE, "1g.35gb")
    assert (after.profile, after.cap_mib, after.larger) == ("1g.35gb", None, ("3g.71gb", "7g.141gb"))


def test_what_runs_on_shares_has_no_larger_instance() -> None:
    after = requeued(RECORD, Run(restart=0, outcome="oom_requeued"), 30, SITE)
    assert (after.profile, after.cap_mib, after.larger) == ("", 42_000, ())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("gres:gpu:1g.18gb:1,gres:lustre:2", "gpu:2g.35gb:1,lustre:2"),
        ("gres/gpu:1g.18gb", "gpu:2g.35gb:1"),
        ("gres:gpu:h200:1", None),
        ("gres:mps:30", None),
    ],
)
def test_a_request_with_another_instance(before: str, after: str | None) -> None:
    assert next_gres(before, 30, "2g.35gb") == after
    assert asks_for_instance(before) == (after is not None)


def test_what_a_run_held() -> None:
    run = _run({"gres/gpu": 1, "gres/gpu:1g.18gb": 1})
    assert run.gpus == pytest.approx(0.15)
    assert _run({"gres/gpu": 3, "gres/gpu:1g.18gb": 2, "gres/gpu:g0": 1}).gpus == pytest.approx(1.3)
    assert _run({"gres/gpu": 2, "gres/gpu:g0": 2}).gpus == 2


def _run(allocated: dict[str, int]) -> JobRun:
    fields = {field.name: None for field in dataclasses.fields(JobRun)}
    return JobRun(**{**fields, "allocated": allocated})  # type: ignore[arg-type]


class _Nvml:
    """NVML's answers as recorded; the stand-in for a GPU in MIG mode answers as NVIDIA's documentation says."""

    NVML_DEVICE_MIG_ENABLE = 1

    class NVMLError(Exception):
        """As pynvml's."""

    def __init__(self, mode: tuple[int, int] | None, devices: list[tuple[str, int] | None]) -> None:
        self._mode, self._devices = mode, devices

    def nvmlDeviceGetMigMode(self, _: Any) -> tuple[int, int]:  # noqa: N802
        if self._mode is None:
            raise self.NVMLError("not supported")
        return self._mode

    def nvmlDeviceGetMaxMigDeviceCount(self, _: Any) -> int:  # noqa: N802
        return len(self._devices)

    def nvmlDeviceGetMigDeviceHandleByIndex(self, _: Any, index: int) -> int:  # noqa: N802
        if self._devices[index] is None:
            raise self.NVMLError("not found")
        return index

    def nvmlDeviceGetName(self, handle: int | None) -> bytes:  # noqa: N802
        found = self._devices[handle] if handle is not None else None
        if found is None:
            raise self.NVMLError("invalid argument")
        return f"NVIDIA H200 MIG {found[0]}".encode()

    def nvmlDeviceGetMemoryInfo(self, handle: int | None) -> Any:  # noqa: N802
        found = self._devices[handle] if handle is not None else None
        if found is None:
            raise self.NVMLError("invalid argument")
        return type("Memory", (), {"total": found[1] * 2**20})


def test_instances_as_nvml_shows_them() -> None:
    assert nvml.instances(_Nvml(None, []), "gpu") is None
    assert nvml.instances(_Nvml((0, 0), []), "gpu") is None
    assert nvml.instances(_Nvml((0, 1), []), "gpu") is None  # to come with the next reset
    shown = _Nvml((1, 1), [("1g.18gb", 16_384), None, ("3g.71gb", 71_424)])
    assert nvml.instances(shown, "gpu") == [("1g.18gb", 16_384), ("3g.71gb", 71_424)]


def test_no_profile_has_less_memory_than_its_name_is_read_as() -> None:
    recorded = json.loads((Path(__file__).parent / "recorded" / "nvml_mig_profiles_h200.json").read_text())
    assert len(recorded["profiles"]) >= 5
    for entry in recorded["profiles"]:
        found = mig.instance(entry["name"].removeprefix("MIG "))
        assert found is not None, entry
        assert found.slices == entry["slices"]
        assert found.memory_mib <= entry["memory_mib"], entry
