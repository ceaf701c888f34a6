"""radd gives up in time: the hook's deadline is not missed, and the breaker not opened, by what a user hands in."""

from __future__ import annotations

import gc
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from estimator.breath import breathe
from estimator.types import Estimate, ModelSummary, Workload
from slurm_hooks import config as settings
from slurm_hooks import hook
from slurm_hooks.directives import _uncommented, parse_script
from slurm_hooks.radd import protocol
from slurm_hooks.radd.limit import OutOfTime, at_most
from slurm_hooks.radd.main import _known, answer
from slurm_hooks.records import decode
from slurm_hooks.request import Submission, steps_ask, understand
from slurm_hooks.service import Service

FIELDS = {
    "script": "#!/bin/sh\n#RAD model=net.txt batch_size=8\n",
    "partition": "gpu",
    "tres_per_node": "gres/gpu:1",
    "user_name": "alice",
    "summary": "Net(\n  (fc): Linear(in_features=8, out_features=4, bias=True)\n)\n",
}
LONGEST_ANSWER = 262_144  # rad.lua's

REQUEST = protocol.encode(FIELDS).partition(b"\n")[2]


class Endless:
    """A method that never answers, whatever is raised in it, as long as that is an Exception."""

    name = "endless"

    def predict(self, _summary: ModelSummary, _workload: Workload) -> Estimate:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                time.sleep(0.001)
                breathe()
            except Exception:
                continue
        raise AssertionError("nobody stopped it")


class Wrong:
    """A method whose estimate cannot be kept."""

    name = "wrong"

    def predict(self, _summary: ModelSummary, _workload: Workload) -> Estimate:
        return Estimate(float("nan"), 10, "wrong", "mlp", "print")  # type: ignore[arg-type]


def service(method: object, mode: str = "enforce") -> Service:
    gpu = {"gpu_memory_mib": 102_048, "mode": mode}
    config = settings.parse({"radd": {"decide_s": 0.05}, "partitions": {"gpu": gpu}}, "test")
    return Service(config, method)  # type: ignore[arg-type]


def test_what_takes_too_long_is_given_up() -> None:
    given = answer(service(Endless()), REQUEST)
    assert not given.reject
    assert given.message.startswith("left as written: no decision within 50 ms: ")
    assert set(given.fields or {}) == {"admin_comment"}
    record = decode((given.fields or {})["admin_comment"])
    assert record is not None
    assert (record.action, record.asked) == ("left_alone", "gpu:1")


def test_a_request_is_read_once_and_decided_each_time() -> None:
    made = service(Wrong())
    claim = protocol.encode({**FIELDS, "script": "#!/bin/sh\n#RAD memory=12G\n"}).partition(b"\n")[2]
    before = _known.cache_info().hits
    first, second = answer(made, claim), answer(made, claim)
    assert _known.cache_info().hits == before + 1
    assert first == second
    made.config = replace(made.config, partitions={})
    assert answer(made, claim).message.startswith("partition gpu: RAD does not serve it")


@pytest.mark.parametrize("name", ["partition", "tres_per_node", "tres_per_job", "features", "user_name", "req_nodes"])
@pytest.mark.parametrize("length", [0, 1_000, hook.LONGEST_OPTIONS])
def test_no_options_make_an_answer_that_the_hook_does_not_read(name: str, length: int) -> None:
    asked = {"partition": "gpu", "tres_per_node": "gres/gpu:1", "tres_per_job": ""}
    odd = {**asked, name: f"{asked[name]},{'x' * length}" if asked.get(name) else "x" * length}
    given = answer(service(Wrong()), protocol.encode({**FIELDS, **odd}).partition(b"\n")[2])
    assert len(protocol.encode(given.to_fields())) < LONGEST_ANSWER


@pytest.mark.parametrize(
    "work",
    [
        lambda: parse_script("#RAD kind=train\n"),
        lambda: _uncommented("\n#\n#"),
        lambda: steps_ask("srun a\n"),
        lambda: understand(Submission("", tres={"tres_per_node": "gres:gpu:1"})),
    ],
)
def test_whatever_is_read_of_a_submission_can_be_given_up(work: Callable[[], object]) -> None:
    with pytest.raises(OutOfTime), at_most(0):
        work()


def test_what_is_no_request_is_no_decision() -> None:
    with pytest.raises(protocol.ProtocolError):
        answer(service(Wrong()), b"nonsense")


@pytest.mark.parametrize(("method", "summary"), [(Endless(), FIELDS["summary"]), (Wrong(), "Net(\n  (a): ReLU()\n")])
def test_what_was_given_up_or_refused_waits_for_no_collector(method: object, summary: str) -> None:
    """radd's comes once a minute: a user who submitted for that long filled the memory, and held up all answers."""
    made = service(method)
    request = protocol.encode({**FIELDS, "summary": summary}).partition(b"\n")[2]
    gc.collect()
    gc.disable()
    try:
        assert answer(made, request).message.startswith("left as written: ")
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_fault_is_an_answer_too() -> None:
    given = answer(service(Wrong()), REQUEST)
    assert given.message == "left as written: the decision failed (ValueError)"
    assert not given.reject


def test_nothing_is_said_in_shadow_mode_or_where_rad_does_not_serve() -> None:
    assert answer(service(Endless(), "shadow"), REQUEST).message == ""
    elsewhere = service(Endless()).give_up({**FIELDS, "partition": "cpu"}, "why")
    assert (elsewhere.message, elsewhere.fields) == ("", None)


def loop(until: float) -> None:
    while time.monotonic() < until:
        breathe()


def test_what_is_fast_is_left_in_peace() -> None:
    with at_most(20):
        value = 1
    assert value == 1
    begin = time.monotonic()
    with pytest.raises(OutOfTime), at_most(0.01):
        loop(begin + 20)
    assert time.monotonic() < begin + 10


def test_others_code_is_left_to_end() -> None:
    """It may hold a lock: the import of a module does, and what measures coverage."""
    ended = False

    def others() -> None:
        nonlocal ended
        until = time.monotonic() + 0.1
        while time.monotonic() < until:
            hash(until)
        ended = True

    begin = time.monotonic()
    with pytest.raises(OutOfTime), at_most(0.01):
        others()
        loop(begin + 20)
    assert ended
    assert time.monotonic() < begin + 10


def test_no_signal_is_needed_which_another_thread_may_get() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    try:
        with pytest.raises(OutOfTime), at_most(0.01):
            loop(time.monotonic() + 20)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_other_threads_go_on() -> None:
    """radd's other one tries new weights while a decision is given up."""
    with ThreadPoolExecutor(1) as pool, at_most(0.001):
        time.sleep(0.01)
        pool.submit(breathe).result()
        with pytest.raises(OutOfTime):
            breathe()


def test_nothing_of_a_limit_is_left() -> None:
    with at_most(0.001):
        time.sleep(0.01)  # and no breath
    breathe()


def test_the_first_job_waits_for_nothing_that_is_loaded_late() -> None:
    asked: list[Workload] = []

    class Keeps:
        name = "keeps"

        def predict(self, _summary: ModelSummary, workload: Workload) -> Estimate:
            asked.append(workload)
            return Estimate(1, 2, "keeps", "mlp", "print")

    service(Keeps()).warm_up()
    assert len(asked) == 1


def test_bytes_that_are_no_request_are_radds_server_to_drop(caplog: pytest.LogCaptureFixture) -> None:
    made = Service(settings.parse({"partitions": {"gpu": {}}}, "test"), Endless())
    with pytest.raises(protocol.ProtocolError):
        answer(made, b"no request")
    assert caplog.text == ""  # it says so, in a line


def test_long_requests_are_not_kept() -> None:
    made = Service(settings.parse({"partitions": {"gpu": {}}}, "test"), Endless())
    _known.cache_clear()
    for length, kept in ((1_000, 1), (70_000, 1)):
        answer(made, protocol.encode({**FIELDS, "partition": "cpu", "comment": "x" * length}).partition(b"\n")[2])
        assert _known.cache_info().currsize == kept
