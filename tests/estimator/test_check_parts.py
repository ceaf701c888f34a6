"""Trainings of a part of a model beside what a GPU showed."""

from __future__ import annotations

from typing import Any

from scripts.check_parts import _told, said_of, tasks


def row(part: str, reserved: float, expected: float, upper: float) -> dict[str, Any]:
    return {
        "part": part,
        "reserved": reserved,
        "context": 500.0,
        "table_expected": expected,
        "table_upper": upper,
        "print_error": "it shows no shapes",
    }


def test_trainings_are_summed_up_by_what_is_trained() -> None:
    rows = [row("head", 500, 1000, 1100), row("lora", 1500, 2200, 1900), row("lora", 1500, 1900, 2300)]
    assert said_of(rows) == [
        "table, head: 1, median error 0.0%, 0.0% too low, 10.0% over",
        "table, lora: 2, median error 7.5%, 50.0% too low, 7.5% over",
        "table, all: 3, median error 5.0%, 33.3% too low, 8.3% over",
    ]


def test_a_training_that_nothing_estimates_is_told_as_one() -> None:
    spec = {"name": "net", "precision": "fp32", "batch_size": 2, "seq_len": None}
    ran = {"part": "head", "spec": spec, "status": "ok", "reserved": 800.0, "table_error": "no", "print_error": "no"}
    assert _told(ran) == "net head fp32 2 : held 800, table None to None, print None to None"
    assert said_of([ran]) == []


def test_models_are_drawn_and_what_reads_is_adapted_too() -> None:
    drawn = list(tasks(20, 1))
    assert drawn == list(tasks(20, 1))
    assert [task.spec.name for task in drawn] != [task.spec.name for task in tasks(20, 2)]
    assert {task.part for task in drawn if task.spec.seq_len is None} == {"head", "half"}
    assert {"lora", "lora_all"} < {task.part for task in drawn if task.spec.seq_len}
    assert all(task.spec.kind == "train" and not task.spec.arch.get("attention") for task in drawn)


def test_parts_that_are_named_are_of_what_reads() -> None:
    drawn = list(tasks(10, 1, ("dora", "dora_all")))
    assert {task.part for task in drawn} == {"dora", "dora_all"}
    assert all(task.spec.seq_len and task.spec.kind == "train" for task in drawn)
