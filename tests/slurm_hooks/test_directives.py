"""Directives: what users write, right and wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_hooks.directives import (
    DirectiveError,
    Directives,
    has_directives,
    has_late_directives,
    looks_like_directives,
    parse_script,
)

HEAD = "#!/bin/bash\n#SBATCH --gres=gpu:1\n"


def parsed(*lines: str) -> Directives:
    found = parse_script(HEAD + "\n".join(lines) + "\npython train.py\n")
    assert found is not None
    return found


def refusal(*lines: str) -> DirectiveError:
    with pytest.raises(DirectiveError) as caught:
        parsed(*lines)
    return caught.value


def test_every_key() -> None:
    assert parsed(
        "#RAD model=resnet50.txt batch_size=128 optimizer=adam",
        "#RAD seq_len: 512  precision : bf16",
        "#RAD kind = infer, policy=exclusive memory=12G   # as measured",
    ) == Directives("resnet50.txt", 128, 512, "adam", "bf16", "infer", "exclusive", 12 * 1024)


def test_spellings() -> None:
    assert parsed("#RAD BATCH-SIZE=8 optimizer=SGD+momentum") == Directives(batch_size=8, optimizer="sgd_momentum")
    assert parsed("#RAD model='my model.txt'").model == "my model.txt"
    assert parsed('#RAD\tmodel: "a=b.txt"').model == "a=b.txt"
    assert parsed("#RAD model=path/with=equals.txt").model == "path/with=equals.txt"
    assert parsed("#RAD model= seq_len.txt").model == "seq_len.txt"
    assert parsed("#RAD model= 'batch_size=8'").model == "batch_size=8"
    assert parsed("#RAD input-size=3x512x1024, batch_size=4").input_size == (3, 512, 1024)


@pytest.mark.parametrize(
    ("text", "mib"), [("12G", 12288), ("800M", 800), ("1.5GiB", 1536), ("12gb", 12288), ("2T", 2097152), ("2048K", 2)]
)
def test_memory(text: str, mib: int) -> None:
    assert parsed(f"#RAD memory={text}").memory_mib == mib


def test_no_directives() -> None:
    assert parse_script(HEAD + "python train.py\n") is None
    assert parse_script("") is None
    assert parse_script("\x00\x01\x02") is None
    assert parse_script(HEAD + "# RAD model=x\n#RADIO on\n##RAD model=y\n") is None


def test_directives_end_with_the_comment_block() -> None:
    script = HEAD + "\n\n#RAD batch_size=4\ntrue\n#RAD batch_size=x\n"
    assert parse_script(script) == Directives(batch_size=4, late=True)
    assert parse_script("#RAD batch_size=4\ntrue\n#RADIO on\n #RAD x\n") == Directives(batch_size=4)
    assert has_directives(script)
    assert not has_directives(HEAD + "true\n#RAD batch_size=4\n")


def test_directives_of_another_script_within_this_one_are_not_late() -> None:
    within = "sbatch <<E\n#!/bin/bash\n#RAD batch_size=4\ntrue\nE\n"
    assert not has_late_directives(HEAD + within)
    assert has_late_directives(HEAD + "true\n#RAD batch_size=4\n" + within)
    assert parse_script(HEAD + "#RAD batch_size=8\n" + within) == Directives(batch_size=8)
    assert has_late_directives("true\n#RAD batch_size=4\n" + within)


def test_comments_may_be_indented_as_for_sbatch() -> None:
    script = "#!/bin/bash\n  # ours\n\t#SBATCH -p cpu\n \v\f\r\n#RAD batch_size=4\n  true\n#RAD batch_size=x\n"
    assert parse_script(script) == Directives(batch_size=4, late=True)
    assert parse_script("  # ours\n#RAD batch_size=4\n") == Directives(batch_size=4)
    assert parse_script("#!/bin/bash\n #RAD batch_size=4\n") is None  # as a #SBATCH that is indented
    for command in ("\u00a0", "\u2028", "\x1c", "\u00a0# no comment"):
        assert parse_script(f"#!/bin/bash\n{command}\n#RAD batch_size=4\n") is None


@pytest.mark.parametrize("number", [1, 100_000_000])
def test_the_least_and_the_most_that_may_be_said(number: int) -> None:
    assert parsed(f"#RAD batch_size={number} seq_len={number}") == Directives(batch_size=number, seq_len=number)
    assert [parsed(f"#RAD memory={amount}").memory_mib for amount in ("1M", "10T")] == [1, 10 * 1024 * 1024]


def test_a_comment_may_hold_any_blank() -> None:
    assert parsed("#RAD batch_size=4 # half\u00a0of it").batch_size == 4


def test_only_newlines_end_a_line() -> None:
    assert parsed("# a\u2028b \x0c c", "#RAD batch_size=4\r").batch_size == 4


def test_inline_summary() -> None:
    found = parsed(
        "#RAD model=net.txt",
        "#RAD summary-begin",
        "# ----------",
        "#  Linear-1   [-1, 10]",
        "#",
        "#RAD summary-end",
        "#RAD batch_size=2",
    )
    assert found.summary == "----------\n Linear-1   [-1, 10]\n"
    assert found.batch_size == 2


@pytest.mark.parametrize(
    ("lines", "line", "words"),
    [
        (["#RAD batchsize=4"], 3, ["unknown key 'batchsize'", "did you mean 'batch_size'"]),
        (["#RAD " + "k" * 5000 + "=4"], 3, ["unknown key 'kkk"]),
        (["#RAD zzz=4"], 3, ["known are model, batch_size"]),
        (["#RAD optimizer=adma"], 3, ["optimizer=adma", "did you mean 'adam'"]),
        (["#RAD optimizer=lion"], 3, ["known are adam, adamw, sgd", "the one that keeps as much: adam (two numbers"]),
        (["#RAD precision=bf16-mixed"], 3, ["precision=bf16-mixed", "did you mean 'amp'"]),
        (["#RAD precision=bfloat16"], 3, ["did you mean 'bf16'"]),
        (["#RAD policy=shared"], 3, ["known are collocation, exclusive"]),
        (["#RAD batch_size=64", "#RAD batch_size=32"], 4, ["already set in line 3"]),
        (["#RAD batch_size=64 batch_size=64"], 3, ["already set in line 3"]),
        (["#RAD batch_size=-1"], 3, ["not a whole number above 0"]),
        (["#RAD batch_size=0"], 3, ["between 1 and"]),
        (["#RAD batch_size=100000001"], 3, ["between 1 and"]),
        (["#RAD batch_size=x"], 3, ["write batch_size=64"]),
        (["#RAD batch_size=1e30"], 3, ["not a whole number"]),
        (["#RAD batch_size=1,024"], 3, ["write batch_size=1024"]),
        (["#RAD batch_size=999999999999999999999"], 3, ["between 1 and"]),
        (["#RAD batch_size=" + "9" * 5000], 3, ["between 1 and"]),
        (["#RAD batch_size=\u0664"], 3, ["not a whole number"]),
        (["#RAD input_size=3,512,512"], 3, ["input_size=3,512,512: ", "write input_size=3x512x512"]),
        (["#RAD input_size=8x3x16x112x112"], 3, ["more than 4 numbers"]),
        (["#RAD input_size=3x0x224"], 3, ["between 1 and"]),
        (["#RAD input_size=3x224 x 224"], 3, ["cannot read 'x'", "quotes around a value with blanks"]),
        (["#RAD input_size=(3, 224, 224)"], 3, ["input_size=(3: ", "write input_size=3x224x224"]),
        (["#RAD input_size=1e30"], 3, ["write input_size=3x224x224"]),
        (["#RAD inputsize=224"], 3, ["did you mean 'input_size'"]),
        (["#RAD batch_size="], 3, ["no value"]),
        (["#RAD " + "a" * 9000], 3, ["longer than 8192 characters"]),
        (["#RAD model="], 3, ["no value"]),
        (["#RAD batch_size=8 model:"], 3, ["model has no value: write #RAD model=..."]),
        (["#RAD model= batch_size=8"], 3, ["model has no value"]),
        (["#RAD batch_size=8", "#RAD model = Batch-Size : 8"], 4, ["model has no value"]),
        (["#RAD model: # the net"], 3, ["model has no value"]),
        (["#RAD kind=, model=a.txt"], 3, ["kind has no value"]),
        (["#RAD memory=12"], 3, ["write memory=12G"]),
        (["#RAD memory=-3G"], 3, ["not an amount"]),
        (["#RAD memory=10"], 3, ["memory=10: it has no unit: write memory=12G, for example, in one word"]),
        (["#RAD memory=10 GB"], 3, ["memory=10: it has no unit: write memory=12G, for example, in one word"]),
        (["#RAD memory=0G"], 3, ["between 1M and 10T"]),
        (["#RAD memory=999999999G"], 3, ["between 1M and 10T"]),
        (["#RAD memory=10485761M"], 3, ["between 1M and 10T"]),
        (["#RAD"], 3, ["write #RAD key=value"]),
        (["#RAD: model=x"], 3, ["write #RAD key=value"]),
        (["#RAD resnet50.txt"], 3, ["cannot read 'resnet50.txt'"]),
        (["#RAD model resnet50.txt"], 3, ["cannot read 'model': write #RAD model=..."]),
        (["#RAD model=My models/a.txt"], 3, ["cannot read 'models/a.txt'", "quotes around a value with blanks"]),
        (["#RAD model=net.txt \\", "# batch_size=4"], 3, ["cannot read '\\\\'", "write #RAD key=value on each line"]),
        (["#RAD model=net.txt --batch-size 4"], 3, ["cannot read '--batch-size'", "did you mean 'batch_size'"]),
        (["#RAD model=net.txt --batch-size=4"], 3, ["cannot read '--batch-size=4'", "did you mean 'batch_size'"]),
        (['#RAD model="unfinished'], 3, ["cannot read 'model=\"unfinished': its quotation mark has no end"]),
        (["#RAD model='net.txt batch_size=3"], 3, ['cannot read "model=\'net.txt": its quotation mark has no end']),
        (['#RAD model="My net".txt'], 3, ["cannot read 'model=\"My': write #RAD key=value"]),
        (["#RAD batch_size=4\u00a0model=a.txt # all of it"], 3, ["U+00A0", "write a blank"]),
        (["#RAD\u00a0batch_size=4"], 3, ["U+00A0", "write a blank"]),
        (["#RAD model=a.txt\u00a0"], 3, ["U+00A0", "write a blank"]),
        (["#RAD summary-begin", "# a", "#RAD summary-end\u00a0"], 5, ["U+00A0", "write a blank"]),
        (["#RAD batch_size=4" + 50 * "\u00a0" + "x"], 3, ["U+00A0", "write a blank"]),
        (["#RAD model=a\x07b"], 3, ["not a path"]),
        (["#RAD model=" + "a" * 4097], 3, ["not a path: too long"]),
        (["#RAD summary=net.txt"], 3, ["unknown key 'summary': write #RAD model=FILE, or"]),
        (["#RAD Summary_begin"], 3, ["cannot read 'Summary_begin': write", "#RAD summary-begin", "alone on its line"]),
        (["#RAD summary-end # of it"], 3, ["cannot read 'summary-end': write", "alone on its line"]),
        (["#RAD summary-begin", "# x"], 3, ["no #RAD summary-end"]),
        (["#RAD summary-end"], 3, ["without summary-begin"]),
        (["#RAD summary-begin", "#RAD summary-begin"], 4, ["the first is in line 3"]),
        (["#RAD summary-begin", "#RAD batch_size=3", "#RAD summary-end"], 4, ["inside the summary"]),
    ],
)
def test_refusals(lines: list[str], line: int, words: list[str]) -> None:
    error = refusal(*lines)
    assert error.line == line
    for word in words:
        assert word in str(error)
    assert len(str(error)) < 300
    assert str(error).isprintable()


@given(st.text(max_size=300))
def test_any_text_is_an_answer_or_a_refusal(text: str) -> None:
    try:
        parse_script("#RAD " + text)
    except DirectiveError as error:
        assert error.line >= 1


@given(st.binary(max_size=300))
def test_any_bytes_are_an_answer_or_a_refusal(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    try:
        parse_script("#!/bin/sh\n#RAD batch_size=4 " + text)
    except DirectiveError as error:
        assert "surrogate" not in str(error)


def test_what_stands_in_an_embedded_summary_looks_like_no_directive() -> None:
    summary = "#RAD summary-begin\n# RAD memory=4G\n#RAD x\n# RAD memory=4G\n#RAD summary-end\n"
    assert looks_like_directives(f"#!/bin/sh\n{summary}true\n") == ""
    assert looks_like_directives(f"#!/bin/sh\n{summary}# RAD memory=4G\ntrue\n").startswith("line 7 looks like")
