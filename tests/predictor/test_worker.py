"""The process that holds workloads, in this process: what it answers to each command, and to what goes wrong."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from predictor.collection import worker
from predictor.collection.worker import Runner, Workloads, serve

NAME = "mlp_batch64-train"


def answers(*commands: dict[str, Any], names: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    serve(names, Workloads("cpu", tiny=True), map(json.dumps, commands), found.append)
    return found


def test_commands_are_answered_one_by_one_until_the_end() -> None:
    window = {"do": "window", "name": NAME, "begin": 0.0, "end": 0.0, "cores": []}
    there, ran, gone, *more = answers(window, {"do": "drop", "name": NAME}, {"do": "stop"}, window, names=(NAME,))
    assert there == {"ready": {NAME: 0.0}}
    assert ran["moments"] == [] and ran["begun"] > 0.0, "a window that is over has no iteration"
    assert gone == {"dropped": NAME}
    assert not more, "nothing is done after stop"


def test_what_is_loaded_later_can_be_traced() -> None:
    _, there, traced = answers({"do": "load", "name": NAME}, {"do": "kernels", "name": NAME, "iterations": 3})
    assert there == {"ready": {NAME: 0.0}}
    assert traced["iterations"] == 3 and traced["elapsed_s"] > 0.0
    assert traced["launches"] == 0.0 and traced["shapes"] == (), "a processor launches no kernels"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (RuntimeError("CUDA error\n" + "x" * 9999), "RuntimeError: CUDA error"),
        (ImportError("no torchvision"), "no torchv"),
    ],
)
def test_an_error_is_the_last_answer(monkeypatch: pytest.MonkeyPatch, error: Exception, says: str) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(worker, "build", fail)
    (answer,) = answers({"do": "stop"}, names=(NAME,))
    assert says in answer["error"] and len(answer["error"]) <= 500
    (answer,) = answers({"do": "stop"}, names=("none",))
    assert answer == {"error": "ProfileError: no workload is called 'none'"}


def test_the_host_runs_two_iterations_ahead_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner(NAME, "cpu", tiny=True)
    now = 0.0
    queued = done = 0
    most = 0

    def queue() -> Any:
        nonlocal queued, most, now
        queued, now = queued + 1, now + 1.0
        most = max(most, queued - done)

        def wait() -> None:
            nonlocal done
            done += 1

        return wait

    monkeypatch.setattr("predictor.collection.worker.time.monotonic", lambda: now)
    monkeypatch.setattr(runner, "_queue", queue)
    found = runner.window(0.0, 10.0)
    assert most == 1 + worker.AHEAD
    assert queued == done == len(found["moments"]) == 10, "those still queued at the end count too"
    assert found["moments"] == [3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 10.0, 10.0]


def test_threads_are_bound_to_the_cores_of_a_side_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[tuple[int, list[int]]] = []
    monkeypatch.setattr("os.sched_setaffinity", lambda thread, cores: bound.append((thread, cores)))
    worker.pin([])
    assert not bound, "on a machine of few cores nothing is bound"
    worker.pin([0, 1])
    assert os.getpid() in [thread for thread, _ in bound] and all(cores == [0, 1] for _, cores in bound)
