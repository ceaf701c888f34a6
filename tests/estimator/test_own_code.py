"""What blocks keep in their own code: the table, how a block is found in it, and how it is fitted."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from estimator.dataset import printers
from estimator.dataset.specs import Spec
from estimator.dataset.store import Dataset, Row
from estimator.dataset.tree import Call, Module, Trace, to_json
from estimator.methods.rad import Rad
from estimator.methods.rad.fit.blocks import Blocks, Noted, tables
from estimator.methods.rad.fit.own import noted
from estimator.methods.rad.keeping import kept_by
from estimator.methods.rad.known import blocks_of
from estimator.methods.rad.own_code import HIDDEN, NOTHING, OwnCode, of_model
from estimator.methods.rad.unopened import hidden_blocks, insides
from estimator.parsers import parse_summary
from estimator.store import ModelError
from estimator.types import Precision, Workload
from tests.estimator.accounts import plain, tree

PICTURE = 3 * 8 * 8
WIDE = 16 * 8 * 8


def leaf(name: str, type_: str, repr_: str, params: int) -> Module:
    return Module(name, type_, repr_, params)


def block(name: str) -> Module:
    conv = "16, 16, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1)"
    return Module(name, "Gate", "", 0, (leaf("conv", "Conv2d", conv, 2320), leaf("act", "ReLU", "", 0)))


def model(type_: str = "Net") -> Trace:
    """A stem and two gates, each of which multiplies what goes in with what its layers make."""
    stem = leaf("stem", "Conv2d", "3, 16, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1)", 448)
    root = Module("", type_, "", 0, (stem, block("one"), block("two")))
    wide = ("B", 16, 8, 8)
    calls = [Call(0, 0, ("B", 3, 8, 8), wide), Call(1, 1, ("B", 3, 8, 8), wide)]
    for first in (2, 5):
        calls += [Call(first, 1, wide, wide), Call(first + 1, 2, wide, wide), Call(first + 2, 2, wide, wide)]
    return Trace(root, tuple(calls), 448 + 2 * 2320)


# What autograd keeps of one sample in fp32: the stem its input; a gate's convolution and activation their input and
# output; the gate two factors that nothing shows.
SAVED = [0, 4 * PICTURE, 8 * WIDE, 4 * WIDE, 4 * WIDE, 8 * WIDE, 4 * WIDE, 4 * WIDE]


def deep(type_: str = "Net") -> Trace:
    """The same with both gates in one stage, so that torchinfo hides what is in them at a depth of 2."""
    flat = model(type_)
    stem, *gates = flat.root.children
    root = replace(flat.root, children=(stem, Module("stage", "Stage", "", 0, tuple(gates))))
    wide = ("B", 16, 8, 8)
    inner = tuple(Call(call.module + 1, call.depth + 1, wide, wide) for call in flat.calls[2:])
    return Trace(root, (*flat.calls[:2], Call(2, 1, wide, wide), *inner), flat.total_params)


def deep_dataset(**saved: int) -> Dataset:
    """Give what autograd keeps of the deep model, in bytes for each element, by precision."""
    spec = Spec("plain", "cnn", "deep", "gates", {"size": 8, "classes": 10}, 2, None, "sgd", "fp32", "train")
    counts = [size // 4 for size in SAVED]
    found = {(spec.model_id, cast("Precision", key)): [size * n for n in counts] for key, size in saved.items()}
    found = {key: [*each[:2], 0, *each[2:]] for key, each in found.items()}
    traces = {spec.model_id: json.dumps(to_json(deep()))}
    return Dataset((Row(spec, "ok", 900.0, 1.0, 2.0),), traces, {}, (), found)


def dataset(saved: list[int] = SAVED, group: str = "gates", type_: str = "Net") -> Dataset:
    spec = Spec("plain", "cnn", "net", group, {"size": 8, "classes": 10}, 2, None, "sgd", "fp32", "train")
    traces = {spec.model_id: json.dumps(to_json(model(type_)))}
    return Dataset((Row(spec, "ok", 900.0, 1.0, 2.0),), traces, {}, (), {(spec.model_id, "fp32"): saved})


@pytest.mark.parametrize(
    "text",
    [printers.torchinfo_text(model(), 2), printers.torchsummary_text(model()), printers.module_text(model())],
    ids=["torchinfo", "torchsummary", "module"],
)
def test_what_was_noted_makes_the_account_whole(text: str) -> None:
    found = Blocks(noted(dataset(), Rad(plain()))).tables
    summary, workload = parse_summary(text), Workload(2)
    without = Rad(plain()).account(summary, workload)[2]
    _, program, memory = Rad(plain(own=found)).account(summary, workload)
    own = OwnCode(found).of(program, summary.format, "fp32")
    if summary.format == "module":  # taken for larger pictures, so that nothing was noted of its own
        assert (own, memory.kept) == (NOTHING, without.kept)
        return
    assert own.share == pytest.approx(2 / 3)  # the third is the model itself
    assert kept_by(program, "fp32")[-1] + sum(own.steps) == pytest.approx(sum(SAVED), rel=0.01)
    assert memory.noted == own.share
    assert memory.kept == pytest.approx(2 * sum(SAVED), rel=0.01)
    assert memory.kept > without.kept


@pytest.mark.parametrize("precision", ["fp32", "amp", "bf16"])
def test_hidden_blocks_keep_what_was_noted_of_all_in_them(precision: Precision) -> None:
    sizes: dict[str, int] = {"fp32": 4, "amp": 3, "bf16": 2}
    one = noted(deep_dataset(**sizes), Rad(plain()))
    found = Blocks([*one, *(replace(item, group="others") for item in one)]).tables
    summary = parse_summary(printers.torchinfo_text(deep(), 2, depth=2))
    _, program, _ = Rad(plain()).account(summary, Workload(2))
    own = OwnCode(found).of(program, "torchinfo", precision)
    assert [program.ends[number][0].type for number, _ in hidden_blocks(program)] == ["Gate", "Gate"]
    assert program.inside == pytest.approx(2 * WIDE, rel=0.05)  # their convolutions' outputs
    gates = sum(SAVED[2:]) / 4 * sizes[precision]
    assert sum(own.inside.values()) == pytest.approx(gates, rel=0.05)
    marks = kept_by(program, precision, own.inside)
    assert marks[-1] - marks[0] == pytest.approx(gates, rel=0.05)
    # A model of another family with the same blocks, twice as large inside: torchinfo says so.
    larger = program._replace(names=program.names | {"Other"}, inside=2 * program.inside)
    own = OwnCode(found).of(larger, "torchinfo", precision)
    assert sum(own.inside.values()) == pytest.approx(2 * gates, rel=0.05)
    assert OwnCode(found).of(program, "module", precision).inside == {}


def test_blocks_of_which_next_to_nothing_is_counted_are_noted_by_their_size() -> None:
    one = deep()
    stem, stage = one.root.children
    gates = tuple(
        replace(gate, children=(Module("pool", "Pool", "", 2320), gate.children[1])) for gate in stage.children
    )
    small = [replace(call, output_shape=("B", 1, 1, 1)) if call.module in (4, 7) else call for call in one.calls]
    trace = replace(one, root=replace(one.root, children=(stem, replace(stage, children=gates))), calls=tuple(small))
    data = deep_dataset(fp32=4)
    data = replace(data, traces={key: json.dumps(to_json(trace)) for key in data.traces})
    hidden = [item for item in noted(data, Rad(plain())) if (item.format, item.type) == (HIDDEN, "Gate")]
    assert {item.bytes[0] for item in hidden} == {0.0}  # one pixel of 1024
    assert {item.bytes[1] for item in hidden} == {sum(SAVED[2:]) / (2 * WIDE)}


def test_hidden_blocks_are_told_apart_by_how_much_is_counted_inside() -> None:
    found = {HIDDEN: {"Gate": {"": [1.0, 8.0, 8.0, 8.0, 1.0, 1.0]}}}
    summary = parse_summary(printers.torchinfo_text(deep(), 2, depth=2))
    _, program, _ = Rad(plain()).account(summary, Workload(2))
    names = blocks_of("torchinfo", program.names)
    for by, kept in ((1.0, 24.0), (1.05, 24.0), (2.0, 8.0)):
        key = insides(program, hidden_blocks(program), names)[0]
        table = {HIDDEN: {"Gate": {**found[HIDDEN]["Gate"], "|" + key: [1.0, 24.0, 24.0, 24.0, 1.0, 1.0]}}}
        more = program._replace(inside=by * program.inside)
        inside = OwnCode(table).of(more, "torchinfo", "fp32").inside
        assert sum(inside.values()) == pytest.approx(kept * more.inside)


def test_norms_that_hold_an_activation_are_not_counted_by_torchinfo() -> None:
    text = printers.torchinfo_text(deep(), 2, depth=2)
    inside = {}
    for type_ in ("BatchNorm2d", "BatchNormAct2d"):
        shown = text.replace(
            "├─Stage: 1-2", f"├─{type_}: 1-0                       [2, 16, 8, 8]             32\n├─Stage: 1-2"
        )
        assert shown != text
        inside[type_] = Rad(plain()).account(parse_summary(shown), Workload(2))[1].inside
    assert inside["BatchNormAct2d"] - inside["BatchNorm2d"] == pytest.approx(WIDE)


def test_hidden_blocks_work_with_what_they_do_when_they_are_shown() -> None:
    found = Blocks(noted(deep_dataset(fp32=4, amp=2, bf16=2), Rad(plain()))).tables
    account = Rad(plain(own=found))
    workload = Workload(64, kind="infer")
    shown, hidden = (
        account.account(parse_summary(printers.torchinfo_text(deep(), 2, depth=depth)), workload)[2]
        for depth in (20, 2)
    )
    assert hidden.forward == pytest.approx(shown.forward, rel=0.01)


def test_a_hidden_list_works_with_as_much_more_as_is_printed_of_it() -> None:
    found = OwnCode({HIDDEN: {"ModuleList": {"": [100.0, 4.0, 2.0, 2.0, 60.0, 60.0]}}})
    works = {}
    for side in (8, 16):  # of the pictures that the list works on
        text = tree(
            "Net  [2, 16, 1, 1]  --",
            "├─Encoder: 1-1  [2, 16, 1, 1]  --",
            "│    └─ModuleList: 2-1  --  70,000",
            "├─Conv2d: 1-2  [2, 16, 1, 1]  272",
        )
        shown = f"{text}Forward/backward pass size (MB): {2 * 8 * (16 + 64 * side * side) / 1e6:.6f}\n"
        _, program, _ = Rad(plain()).account(parse_summary(shown), Workload(2, kind="infer"))
        (works[side],) = found.of(program, "torchinfo", "fp32").works.values()
    assert works[8] == pytest.approx(0.6 * 64 * 64, rel=0.01)
    assert works[16] == pytest.approx(4 * works[8], rel=0.01)


def test_a_list_that_is_shown_again_and_again_stands_for_all_and_works_like_one() -> None:
    text = tree(
        "Net  [2, 16, 8, 8]  --",
        "├─Encoder: 1-1  [2, 16, 8, 8]  --",
        *["│    └─ModuleList: 2-1  --  (recursive)"] * 3,
        "├─Conv2d: 1-2  [2, 16, 8, 8]  272",
    )
    shown = f"{text}Total params: 70,272\nForward/backward pass size (MB): {2 * 8 * 9 * 1024 / 1e6:.6f}\n"
    _, program, _ = Rad(plain()).account(parse_summary(shown), Workload(2, kind="infer"))
    own = OwnCode({HIDDEN: {"ModuleList": {"": [100.0, 4.0, 2.0, 2.0, 60.0, 60.0]}}}).of(program, "torchinfo", "fp32")
    assert len(own.inside) == 1
    assert not own.works


BERT = (
    "BertModel  [2, 32, 64]  --",
    "├─BertEmbeddings: 1-1  [2, 32, 64]  --",
    "│    └─Embedding: 2-1  [2, 32, 64]  64,000",
    "│    └─LayerNorm: 2-2  [2, 32, 64]  128",
    "├─BertEncoder: 1-2  [2, 32, 64]  --",
    "│    └─ModuleList: 2-3  --  100,000",
)


def kept_of(rows: tuple[str, ...], counted: float, **types: dict[str, list[float]]) -> float:
    """Give what the hidden blocks of a table keep, in bytes for each element that torchinfo counts inside."""
    visible = 2 * 32 * 64 if any("LayerNorm" in row for row in rows) else 32 * 64
    shown = f"{tree(*rows)}Forward/backward pass size (MB): {2 * 8 * (visible + counted) / 1e6:.6f}\n"
    _, program, _ = Rad(plain()).account(parse_summary(shown), Workload(2))
    return sum(OwnCode({HIDDEN: types}).of(program, "torchinfo", "fp32").inside.values()) / counted


def test_a_list_is_known_by_the_block_around_it_where_that_is_the_same_in_all_models() -> None:
    lists = {"": [44.0, 9.0, 5.0, 4.0, 9.0, 8.0]}  # of this name in all sorts of models
    encoder = {"|one:3": [22.0, 6.0, 3.8, 3.1, 9.0, 9.0], "|other:4": [33.0, 6.1, 3.8, 3.1, 9.0, 9.0]}
    assert kept_of(BERT, 40_000, ModuleList=lists, BertEncoder=encoder) == pytest.approx(6.1, rel=0.01)
    assert kept_of(BERT, 40_000, ModuleList=lists) == pytest.approx(9.0, rel=0.01)
    grows = {key: [*values, 2.0, 1.0, 1.0, 0.0, 0.0, 0.0] for key, values in encoder.items()}
    assert kept_of(BERT, 40_000, ModuleList=lists, BertEncoder=grows) == pytest.approx(6.1 + 2.0 * 32 / 512, rel=0.01)
    turned = tuple(row.replace("32, 64]  128", "4, 4, 128]  128") for row in BERT)
    assert kept_of(turned, 40_000, ModuleList=lists, BertEncoder=grows) == pytest.approx(9.0, rel=0.01)
    longer = (*BERT[:4], "├─BertEncoder: 1-2  [2, 16, 64]  --", "│    └─Conv1d: 2-3  [2, 64, 64]  128", BERT[-1])
    assert kept_of(longer, 40_000 - 32 * 64, ModuleList=lists, BertEncoder=encoder) == pytest.approx(9.0, rel=0.2)
    differs = {**encoder, "|third": [33.0, 8.0, 4.8, 4.1, 9.0, 9.0]}
    assert kept_of(BERT, 40_000, ModuleList=lists, BertEncoder=differs) == pytest.approx(9.0, rel=0.01)


def test_a_block_of_one_model_alone_is_known_by_its_name_whatever_is_around_it() -> None:
    rows = (*BERT[:-1], "│    └─BertLayer: 2-3  [2, 32, 64]  50,000", "│    └─BertLayer: 2-4  [2, 32, 64]  50,000")
    one = {"|one": [11.0, 6.0, 3.8, 3.1, 9.0, 9.0]}
    assert kept_of(rows, 40_000, BertLayer=one) == 0.0
    two = {**one, "|other": [11.0, 6.1, 3.8, 3.1, 9.0, 9.0]}
    assert kept_of(rows, 40_000, BertLayer=two) == pytest.approx(6.1, rel=0.01)
    others = tuple(row.replace("BertLayer", "Layer") for row in rows)
    assert kept_of(others, 40_000, Layer=two) == 0.0


def test_a_hidden_block_of_words_holds_several_layers_that_are_counted() -> None:
    rows = (BERT[0], "├─BertEmbeddings: 1-1  [2, 32, 64]  64,128", "├─BertEncoder: 1-2  [2, 32, 64]  100,000")
    encoder = {"": [22.0, 6.0, 3.8, 3.1, 9.0, 9.0]}
    words = 2.5 * 32 * 64  # beside their sum
    assert kept_of(rows, 40_000 + words, BertEncoder=encoder) * (40_000 + words) == pytest.approx(6 * 40_000, rel=0.01)


@pytest.mark.parametrize(("precision", "bytes_"), [("fp32", 4), ("bf16", 2)])
def test_unknown_hidden_blocks_keep_what_known_ones_leave_however_little_they_give_out(
    precision: Precision, bytes_: int
) -> None:
    rows = ("Net  [2, 64]  --", "├─Patches: 1-1  [2, 32, 64]  5,000", "├─Stages: 1-2  [2, 64]  100,000")
    text = f"{tree(*rows)}Forward/backward pass size (MB): {2 * 8 * 40_000 / 1e6:.6f}\n"
    _, program, _ = Rad(plain()).account(parse_summary(text), Workload(2))
    size, all_ = 32 * 64, sum(op.extra for op in program.ops)
    known = {"": [1.0, 4.0, 2.0, 2.0, 1.0, 1.0]}
    table = {HIDDEN: {"Patches": known}}
    found = OwnCode(table, frozenset()).of(program, "torchinfo", precision)
    left = size + all_ * (1 - size / 40_000)  # and what goes in
    assert list(found.inside.values()) == [size * bytes_, pytest.approx(left * bytes_)]
    assert found.share == pytest.approx(1 / 3), "it is not known what they do"
    # What was measured of a model was compared with an account without this; and nothing may be left.
    for types, measured in ((known, blocks_of("torchinfo", program.names)), ({"": [40.0, *known[""][1:]]}, "")):
        own = OwnCode({HIDDEN: {"Patches": types}}, {measured}).of(program, "torchinfo", precision)
        assert len(own.inside) == 1


def words(tokens: int, type_: str = "Net") -> Trace:
    """Two blocks of an attention that multiplies itself, in a stage."""

    def reads(name: str) -> Module:
        layers = [leaf(each, "Linear", "in_features=64, out_features=64, bias=False", 4096) for each in "qkvo"]
        return Module(name, "Layer", "", 0, (Module("attn", "RoFormerSelfAttention", "", 0, tuple(layers)),))

    stage = Module("stage", "Stage", "", 0, (reads("0"), reads("1")))
    head = leaf("head", "Linear", "in_features=64, out_features=2, bias=False", 128)
    root = Module("", type_, "", 0, (leaf("words", "Embedding", "1000, 64", 64000), stage, head))
    wide = ("B", tokens, 64)
    calls = [Call(0, 0, ("B", tokens), wide), Call(1, 1, ("B", tokens), wide), Call(2, 1, wide, wide)]
    for first in (3, 9):
        calls += [Call(first + by, 2 + min(by, 2), wide, wide) for by in range(6)]
    calls.append(Call(15, 1, wide, ("B", tokens, 2)))
    return Trace(root, tuple(calls), 64000 + 8 * 4096 + 128)


def words_dataset(type_: str = "Net") -> Dataset:
    spec = Spec("plain", "transformer", "net", "words", {"classes": 10}, 2, 32, "sgd", "fp32", "train")
    once, matrix = 4 * 32 * 64, 9 * 32 * 32
    saved = [0, 0, 0, *[0, 3 * once + matrix, once, 0, 0, once] * 2, once]
    traces = {spec.model_id: json.dumps(to_json(words(32, type_)))}
    return Dataset((Row(spec, "ok", 900.0, 1.0, 2.0),), traces, {}, (), {(spec.model_id, "fp32"): saved})


@pytest.mark.parametrize("depth", [2, 3])
def test_hidden_blocks_give_out_keys_and_values_where_the_model_does(depth: int) -> None:
    account = Rad(plain(own=Blocks(noted(words_dataset("NetForCausalLM"), Rad(plain()))).tables))
    cached = 2 * 2 * 32 * 64
    for type_, caches in (("NetForCausalLM", True), ("NetForQuestionAnswering", False)):
        summary = parse_summary(printers.torchinfo_text(words(32, type_), 8, depth=depth))
        _, program, memory = account.account(summary, Workload(8, 32))
        bare = Rad(plain()).account(summary, Workload(8, 32))[2]
        assert (program.cache, program.caches) == (0, caches)
        given = memory.backward - memory.kept - (bare.backward - bare.kept)
        assert given == pytest.approx(4 * 8 * cached if caches else 0, abs=1000)


@pytest.mark.parametrize("depth", [2, 3])
def test_matrices_of_attention_in_hidden_blocks_grow_with_the_square_of_the_tokens(depth: int) -> None:
    account = Rad(plain(own=Blocks(noted(words_dataset(), Rad(plain()))).tables))
    for tokens in (32, 512):
        for kind in ("train", "infer"):
            text = printers.torchinfo_text(words(tokens), 8, depth=depth)
            _, program, memory = account.account(parse_summary(text), Workload(8, tokens, kind=kind))
            shown = account.account(
                parse_summary(printers.torchinfo_text(words(tokens), 8, depth=20)), Workload(8, tokens, kind=kind)
            )[2]
            assert program.hidden_params and memory.noted > 0.5
            assert (memory.kept, memory.forward) == pytest.approx((shown.kept, shown.forward), rel=0.1)


@pytest.mark.parametrize("wrong", [-1, 2])
def test_inputs_that_were_taken_for_weights_in_half_precision_are_whole(wrong: int) -> None:
    dataset = words_dataset()
    ((key, _), saved), *_ = dataset.saved.items()
    half = [size // 2 for size in saved]
    spoiled = list(half)
    for call in (5, 11, 15):  # projections that keep what goes into them
        spoiled[call] *= wrong
    tables = [
        Blocks(noted(replace(dataset, saved={**dataset.saved, (key, "bf16"): each}), Rad(plain()))).tables
        for each in (half, spoiled)
    ]
    assert tables[0] == tables[1]


def test_a_list_that_is_hidden_is_known_only_in_its_model() -> None:
    trace = deep()
    stem, stage = trace.root.children
    renamed = replace(
        trace.root,
        children=(stem, replace(stage, children=tuple(replace(gate, type="Sequential") for gate in stage.children))),
    )
    spec = deep_dataset().rows[0].spec
    data = deep_dataset(fp32=4)
    data = replace(data, traces={spec.model_id: json.dumps(to_json(replace(trace, root=renamed)))})
    types = Blocks(noted(data, Rad(plain()))).tables[HIDDEN]["Sequential"]
    assert len(types) == 1
    assert "" not in types


def test_a_family_is_judged_without_what_it_alone_showed() -> None:
    one, other = noted(dataset(), Rad(plain())), noted(dataset([0] * len(SAVED), "others"), Rad(plain()))
    summary = parse_summary(printers.torchinfo_text(model(), 2))
    _, program, _ = Rad(plain()).account(summary, Workload(2))
    assert Blocks(one).without("gates").of(program, "torchinfo", "fp32") == NOTHING
    both = Blocks([*one, *other])
    alone = both.without("others").of(program, "torchinfo", "fp32")
    assert alone.steps == OwnCode(Blocks(one).tables).of(program, "torchinfo", "fp32").steps
    assert alone.steps != OwnCode(both.tables).of(program, "torchinfo", "fp32").steps


def test_blocks_that_do_something_else_in_a_model_are_known_by_it() -> None:
    more = [0, 4 * PICTURE, *(2 * kept for kept in SAVED[2:])]
    items = [*noted(dataset(), Rad(plain())), *noted(dataset(more, "others", "Other"), Rad(plain()))]
    own = OwnCode(Blocks(items).tables)
    for type_, saved in (("Net", SAVED), ("Other", more)):
        _, program, _ = Rad(plain()).account(parse_summary(printers.torchinfo_text(model(type_), 2)), Workload(2))
        kept = kept_by(program, "fp32")[-1] + sum(own.of(program, "torchinfo", "fp32").steps)
        assert kept == pytest.approx(sum(saved), rel=0.01)
    _, program, _ = Rad(plain()).account(parse_summary(printers.torchinfo_text(model("New"), 2)), Workload(2))
    kept = kept_by(program, "fp32")[-1] + sum(own.of(program, "torchinfo", "fp32").steps)
    assert kept == pytest.approx(sum(SAVED), rel=0.01)  # the less of two


def mine(trace: Trace, *, drops: bool = False) -> Trace:
    """A class of the user's that holds a model, and maybe dropout before it."""
    first = trace.calls[0]
    before = (leaf("drop", "Dropout", "p=0.2, inplace=False", 0),) if drops else ()
    root = Module("", "Mine", "", 0, (*before, replace(trace.root, name="backbone")))
    by = len(before) + 1
    inner = [Call(call.module + by, call.depth + 1, call.input_shape, call.output_shape) for call in trace.calls]
    dropped = [Call(1, 1, first.input_shape, first.input_shape)] if drops else []
    return Trace(root, (first, *dropped, *inner), trace.total_params)


@pytest.mark.parametrize("drops", [False, True])
def test_blocks_are_known_by_the_model_that_a_class_of_the_users_holds(drops: bool) -> None:
    more = [0, 4 * PICTURE, *(2 * kept for kept in SAVED[2:])]
    items = [*noted(dataset(), Rad(plain())), *noted(dataset(more, "others", "Other"), Rad(plain()))]
    own = OwnCode(Blocks(items).tables, frozenset())
    texts = [
        printers.torchinfo_text(trace, 2) for trace in (model("Other"), mine(model("Other"), drops=drops), model())
    ]
    programs = [Rad(plain()).account(parse_summary(text), Workload(2))[1] for text in texts]
    alone, found, other = (sum(own.of(program, "torchinfo", "fp32").steps) for program in programs)
    assert found == alone > other


def test_hidden_blocks_are_known_by_the_model_that_a_class_of_the_users_holds() -> None:
    traces = ((deep(), 2), (mine(deep()), 3), (deep("Other"), 2))
    texts = [printers.torchinfo_text(trace, 2, depth=depth) for trace, depth in traces]
    programs = [Rad(plain()).account(parse_summary(text), Workload(2))[1] for text in texts]
    of_it = of_model("", blocks_of("torchinfo", programs[0].names))
    table = {HIDDEN: {"Gate": {of_it: [1.0, 9.0, 9.0, 9.0, 1.0, 1.0], "": [1.0, 2.0, 2.0, 2.0, 1.0, 1.0]}}}
    own = OwnCode(table, frozenset())
    alone, held, other = (sum(own.of(program, "torchinfo", "fp32").inside.values()) for program in programs)
    assert held == pytest.approx(alone, rel=0.01)
    assert alone > 4 * other > 0
    # Where the class itself was measured, that is of an account by its own name.
    as_measured = OwnCode(table, {blocks_of("torchinfo", programs[1].names)}).of(programs[1], "torchinfo", "fp32")
    assert sum(as_measured.inside.values()) == pytest.approx(other, rel=0.01)


@pytest.mark.parametrize(
    ("counted", "kept", "found"),
    [
        ((1.0, 1.0, 1.2), (9.0, 9.0, 30.0), 9.0),
        ((1.0,), (9.0,), 9.0),
        ((1.0, 1.0), (9.0, 30.0), 2.0),  # they differ
        ((1.0, 1.0, 1.0, 1.0, 1.0), (9.0, 9.0, 9.0, 9.0, 30.0), 9.0),  # one by chance
        ((1.1, 0.9), (9.0, 9.0), 2.0),
    ],
)
def test_hidden_blocks_of_a_model_taken_apart_are_those_that_count_as_much(
    counted: tuple[float, ...], kept: tuple[float, ...], found: float
) -> None:
    text = printers.torchinfo_text(deep(), 2, depth=2)
    program = Rad(plain()).account(parse_summary(text), Workload(2))[1]
    each = program.inside / sum(program.ends[number][3] for number, _ in hidden_blocks(program))
    gates = {
        of_model("", f"{number}"): [each * by, *3 * (bytes_,), 1.0, 1.0]
        for number, (by, bytes_) in enumerate(zip(counted, kept, strict=True))
    }
    table = {HIDDEN: {"Gate": {"": [1.0, 2.0, 2.0, 2.0, 1.0, 1.0], **gates}}}
    inside = OwnCode(table, frozenset()).of(program, "torchinfo", "fp32").inside
    assert sum(inside.values()) == pytest.approx(found * program.inside)
    measured = OwnCode(table, {blocks_of("torchinfo", program.names)}).of(program, "torchinfo", "fp32").inside
    assert sum(measured.values()) == pytest.approx(2.0 * program.inside)


@pytest.mark.parametrize(("models", "found"), [(1, 2.0), (2, 9.0)])
def test_a_hidden_list_is_of_a_model_that_counts_as_much_where_two_agree(models: int, found: float) -> None:
    text = printers.torchinfo_text(deep(), 2, depth=1).replace("Stage:", "Sequential:")
    program = Rad(plain()).account(parse_summary(text), Workload(2))[1]
    ((number, _),) = hidden_blocks(program)
    each = program.inside / program.ends[number][3]
    lists = {of_model("", f"{model}"): [each, 9.0, 9.0, 9.0, 1.0, 1.0] for model in range(models)}
    table = {HIDDEN: {"Sequential": {"": [1.0, 2.0, 2.0, 2.0, 1.0, 1.0], **lists}}}
    inside = OwnCode(table, frozenset()).of(program, "torchinfo", "fp32").inside
    assert sum(inside.values()) == pytest.approx(found * program.inside)


def test_a_block_is_known_by_its_type_and_its_layers() -> None:
    found = {"torchinfo": {"Gate": {"Conv2d,ReLU": [8.0, 4.0, 4.0]}}}
    text = printers.torchinfo_text(model(), 2)
    for other, share in ((text, 2 / 3), (text.replace("ReLU", "GELU"), 0.0), (text.replace("Gate", "Block"), 0.0)):
        _, program, _ = Rad(plain()).account(parse_summary(other), Workload(2))
        own = OwnCode(found).of(program, "torchinfo", "amp")
        assert own.share == pytest.approx(share)
        assert sum(own.steps) == pytest.approx(share * 3 * 4.0 * WIDE)
        assert OwnCode(found).of(program, "keras", "amp") == NOTHING


def test_a_model_s_own_name_is_taken_from_its_blocks() -> None:
    found = {"torchinfo": {"Gate~": {"Conv2d,ReLU": [8.0, 4.0, 4.0]}}}
    text = printers.torchinfo_text(model("FooModel"), 2).replace("─Gate", "─FooGate")
    _, program, _ = Rad(plain()).account(parse_summary(text), Workload(2))
    assert OwnCode(found).of(program, "torchinfo", "fp32").share > 0


def test_nothing_is_kept_less_than_nothing() -> None:
    found = {"torchinfo": {"Gate": {"Conv2d,ReLU": [-1000.0, -1000.0, -1000.0]}}}
    summary = parse_summary(printers.torchinfo_text(model(), 2))
    assert Rad(plain(own=found)).account(summary, Workload(2))[2].kept >= 0
    assert Rad(plain(own=found)).predict(summary, Workload(2)).expected_mib > 0


def test_what_judges_is_not_looked_at() -> None:
    data = dataset()
    assert noted(data, Rad(plain()))
    assert noted(data, Rad(plain()), ("val",)) == []
    judging = replace(data, rows=tuple(replace(row, apart="kin") for row in data.rows))
    assert noted(judging, Rad(plain())) == []


def test_hidden_blocks_are_known_by_their_name_where_families_agree() -> None:
    def tabulated(*kept: float) -> set[str]:
        one = Noted(HIDDEN, "Block", "", "", (), "", ())
        each = [
            replace(
                one,
                names=f"n{at}",
                group=f"g{at}",
                general=(("Block", f"|n{at}"),),
                bytes=(2.0, value, value, value, 1.0, 1.0),
            )
            for at, value in enumerate(kept)
        ]
        return set(tables(each)[HIDDEN]["Block"])

    assert tabulated(8.0, 8.1) == {""}, "what is known by name is not noted again by model"
    assert tabulated(8.0, 20.0) == {"|n0", "|n1"}
    assert tabulated(8.0) == {"|n0"}


def test_a_damaged_table_is_an_error() -> None:
    damaged: list[Any] = [[], {"torchinfo": []}, {"torchinfo": {"A": {"B": [1.0]}}}, {"torchinfo": {"A": {"B": "abc"}}}]
    damaged += [{"hidden": {"A": {"": [0.0, 0.0, 0.0]}}}, {"hidden": {"A": {"": [0.0, 0.0, 0.0, 0.0, "x", 0.0]}}}]
    damaged += [{"torchinfo": {"A": {"B": [0.0, value, 0.0]}}} for value in (float("nan"), 10**400)]
    for table in damaged:
        with pytest.raises(ModelError, match="damaged"):
            Rad(plain(own=table))
