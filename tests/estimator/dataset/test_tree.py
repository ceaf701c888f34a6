"""Traces: shapes that grow with the batch, containers that are never called, JSON."""

from __future__ import annotations

import json

from estimator.dataset.tree import Call, Module, Recorder, Trace, from_json, grow, parents_of, resolve, to_json


def _tree() -> Module:
    leaf = Module("0", "Linear", "in_features=1, out_features=2, bias=True", 4)
    listed = Module("layers", "ModuleList", "", 0, (leaf, Module("1", "Linear", "", 4)))
    return Module("", "Net", "", 0, (Module("first", "ReLU", "", 0), listed, Module("last", "Tanh", "", 0)))


def test_grow_finds_what_is_proportional_to_the_batch() -> None:
    assert grow((2, 7, 5), (3, 7, 5), 2, 3) == ("B", 7, 5)
    assert grow((8, 7), (12, 7), 2, 3) == ("4*B", 7)
    assert grow((2, 5), (3, 6), 2, 3) == ("B", 5)  # 5 -> 6 is no multiple of the batch
    assert grow((2, 2), (3, 2), 2, 3) == ("B", 2)
    assert grow((2, 4), (3,), 2, 3) == (2, 4)


def test_resolve_writes_minus_one_where_the_batch_is_unknown() -> None:
    assert resolve(("4*B", 7, "B"), 3) == (12, 7, 3)
    assert resolve(("4*B", 7), None) == (-1, 7)


def test_containers_that_are_not_called_stand_around_their_children() -> None:
    root = _tree()
    parents = parents_of(root)
    assert parents == [-1, 0, 0, 2, 2, 0]
    recorder = Recorder(parents)
    top = recorder.enter(0, ("B", 1))
    for module in (1, 3, 4, 5):
        recorder.leave(recorder.enter(module, ("B", 1)), ("B", 2))
    recorder.leave(top, ("B", 2))
    calls = [(c.module, c.depth, c.output_shape) for c in recorder.calls()]
    assert calls == [
        (0, 0, ("B", 2)),
        (1, 1, ("B", 2)),
        (2, 1, None),
        (3, 2, ("B", 2)),
        (4, 2, ("B", 2)),
        (5, 1, ("B", 2)),
    ]


def test_a_module_called_from_elsewhere_gets_no_containers() -> None:
    recorder = Recorder(parents_of(_tree()))
    recorder.enter(1, None)
    recorder.enter(3, None)  # inside module 1, which is not its ancestor
    assert [(c.module, c.depth) for c in recorder.calls()] == [(1, 0), (3, 1)]


def test_json_keeps_everything() -> None:
    calls = (Call(0, 0, ("B", 3), ("4*B", 2)), Call(1, 1, None, None))
    trace = Trace(_tree(), calls, 8)
    assert from_json(json.loads(json.dumps(to_json(trace)))) == trace
    assert [m.name for m in trace.modules()] == ["", "first", "layers", "0", "1", "last"]
