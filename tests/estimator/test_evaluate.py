"""Reading measured cases and scoring a method on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from estimator.evaluate import COLUMNS, CasesError, evaluate, read_cases
from estimator.types import Estimate, ModelSummary, SummaryError, Workload

SUMMARY = "Linear(in_features=4, out_features=4, bias=True)\n"
HEADER = ",".join(COLUMNS)


def folder(path: Path, *lines: str, header: str = HEADER) -> Path:
    (path / "labels.csv").write_text("\n".join([header, *lines]) + "\n")
    (path / "a.txt").write_text(SUMMARY)
    (path / "bad.txt").write_text("no summary\n")
    return path


class Fixed:
    """Says what it is told by batch size."""

    name = "fixed"

    def __init__(self, **answers: tuple[int, int]) -> None:
        self.answers = answers

    def predict(self, summary: ModelSummary, workload: Workload) -> Estimate:
        assert summary.total_params == 20
        expected, upper = self.answers[f"b{workload.batch_size}"]
        return Estimate(expected, upper, "fixed", "mlp", "0")


def test_cases_are_read_with_their_defaults(tmp_path: Path) -> None:
    first, second = read_cases(folder(tmp_path, "a.txt,32,,,,,,1000", "a.txt,8,sgd,amp,128,infer,a100-40gb,2000.5", ""))
    assert first.workload == Workload(32, None, "adam", "fp32", "train", "h200")
    assert second.workload == Workload(8, 128, "sgd", "amp", "infer", "a100-40gb")
    assert (second.memory_mib, second.text) == (2000.5, SUMMARY)


@pytest.mark.parametrize("inner", [True, False])
def test_links_out_of_the_folder_are_not_followed(tmp_path: Path, *, inner: bool) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    cases = tmp_path / "cases"
    cases.mkdir()
    (elsewhere / "secret.txt").write_text(SUMMARY)
    (cases / "b.txt").symlink_to("a.txt" if inner else elsewhere / "secret.txt")
    folder(cases, "b.txt,1,adam,fp32,,train,h200,1")
    if inner:
        assert len(read_cases(cases)) == 1
    else:
        with pytest.raises(CasesError, match=r"line 2: b.txt: not a regular file of this folder"):
            read_cases(cases)


def test_cases_may_say_the_size_of_their_input(tmp_path: Path) -> None:
    header = f"{HEADER},input_size"
    first, second = read_cases(folder(tmp_path, "a.txt,1,,,,,,1,3x64x64", "a.txt,1,,,,,,1,", header=header))
    assert (first.workload.input_size, second.workload.input_size) == ((3, 64, 64), None)
    with pytest.raises(CasesError, match=r"line 2: input_size is '3,64': .*write input_size=3x64"):
        read_cases(folder(tmp_path, 'a.txt,1,,,,,,1,"3,64"', header=header))


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("a.txt,x,adam,fp32,,train,h200,1", "line 2: batch_size is 'x'"),
        ("a.txt,,adam,fp32,,train,h200,1", "line 2: batch_size is empty"),
        ("a.txt,0,adam,fp32,,train,h200,1", "positive"),
        ("a.txt,1,lion,fp32,,train,h200,1", "optimizer is 'lion'"),
        ("a.txt,1,adam,fp7,,train,h200,1", "precision is 'fp7'"),
        ("a.txt,1,adam,fp32,-5,train,h200,1", "seq_len is '-5'"),
        ("a.txt,1,adam,fp32,,dream,h200,1", "kind is 'dream'"),
        ("a.txt,1,adam,fp32,,train,h200,much", "line 2"),
        ("a.txt,1,adam,fp32,,train,h200,0", "line 2: gpu_memory_mib is '0'"),
        ("a.txt,1,adam,fp32,,train,h200,nan", "line 2: gpu_memory_mib is 'nan'"),
        (
            "a.txt,1,adam,fp32,,train,h200,860160",
            "line 2: gpu_memory_mib is '860160': more than any GPU has; expected MiB",
        ),
        ("a.txt,1,adam,fp32,,train,h200,12 GB", "line 2: gpu_memory_mib is '12 GB': expected MiB, above 0"),
        ("a.txt,1,adam,fp32,,train,h200", "line 2: gpu_memory_mib is '': expected MiB, above 0"),
        ("a.txt,1,adam,fp32,,train,h200,1,500", "line 2 has more fields than the header: put what holds a comma"),
        ("\n\na.txt,x,adam,fp32,,train,h200,1", "line 4: batch_size is 'x'"),
        (f"a.txt,1,{'x' * 200_000}", "line 2: field larger than field limit"),
        ("b.txt,1,adam,fp32,,train,h200,1", "b.txt is not there"),
        ("../a.txt,1,adam,fp32,,train,h200,1", "not a regular file of this folder"),
        ("/etc/passwd,1,adam,fp32,,train,h200,1", "not a regular file of this folder"),
        (",1,adam,fp32,,train,h200,1", "not a regular file of this folder"),
    ],
)
def test_wrong_lines_are_named(tmp_path: Path, line: str, match: str) -> None:
    with pytest.raises(CasesError, match=match):
        read_cases(folder(tmp_path, line))


def test_missing_files_columns_and_lines_are_named(tmp_path: Path) -> None:
    with pytest.raises(CasesError, match="missing"):
        read_cases(tmp_path)
    with pytest.raises(CasesError, match="lacks gpu_memory_mib"):
        read_cases(folder(tmp_path, header=HEADER.rpartition(",")[0]))
    with pytest.raises(CasesError, match="no line"):
        read_cases(folder(tmp_path))


def test_the_score_is_counted_by_hand(tmp_path: Path) -> None:
    cases = read_cases(
        folder(
            tmp_path,
            "a.txt,1,adam,fp32,,train,h200,1000",
            "a.txt,2,adam,fp32,,train,h200,1000",
            "a.txt,3,adam,fp32,,train,h200,2000",
            "a.txt,4,adam,fp32,,train,h200,4000",
            "bad.txt,4,adam,fp32,,train,h200,4000",
        )
    )
    score = evaluate(cases, Fixed(b1=(1100, 1200), b2=(900, 950), b3=(2000, 2400), b4=(3800, 4400)))
    assert (score.errors.n, score.failed, score.errors.under_rate) == (4, 1, 0.25)
    assert score.errors.median_abs_rel_error == pytest.approx((0.05 + 0.1) / 2)
    assert score.errors.p90_abs_rel_error == pytest.approx(0.1)
    assert score.errors.mean_over_mib == pytest.approx((200 + 0 + 400 + 400) / 4)
    assert score.errors.mean_over_fraction == pytest.approx((0.2 + 0 + 0.2 + 0.1) / 4)
    assert "no summary" in score.outcomes[-1].error
    assert score.outcomes[-1].expected_mib is None


def test_a_method_that_answers_nothing_has_no_score(tmp_path: Path) -> None:
    class Silent:
        name = "silent"

        def predict(self, summary: ModelSummary, workload: Workload) -> Estimate:
            raise SummaryError("I need the code")

    with pytest.raises(CasesError, match="answered none of 1 cases: I need the code"):
        evaluate(read_cases(folder(tmp_path, "a.txt,1,adam,fp32,,train,h200,1000")), Silent())
