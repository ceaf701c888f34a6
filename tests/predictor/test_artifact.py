from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from predictor.artifact import ArtifactError, load_colocations, workloads_of
from tests.predictor.synthetic import HEADER, cells, every_pair, workloads, write_csv

PAIRS = every_pair(workloads(6), noise=0.0)


def test_reads_back_what_was_written(tmp_path: Path) -> None:
    read = load_colocations(write_csv(tmp_path / "pairs.csv", PAIRS))
    assert len(read) == len(PAIRS)
    for wanted, found in zip(PAIRS, read, strict=True):
        assert found.throughput_sum == pytest.approx(wanted.throughput_sum)
        assert found.workloads == wanted.workloads
        for one, other in zip(wanted.sides, found.sides, strict=True):
            assert other.progress == pytest.approx(one.progress)
            assert other.profile.busy == pytest.approx(one.profile.busy)
            assert other.profile.memory_mib == pytest.approx(one.profile.memory_mib)
            assert other.profile.kernel.threads == one.profile.kernel.threads


def test_gzip_and_names(tmp_path: Path) -> None:
    plain = write_csv(tmp_path / "pairs.csv", PAIRS)
    packed = tmp_path / "pairs.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert repr(load_colocations(packed)) == repr(load_colocations(plain))  # unknown values are NaN
    assert list(workloads_of(load_colocations(plain))) == sorted(workloads(6))


def test_a_workload_beside_itself_is_one_workload() -> None:
    twins = [row for row in PAIRS if row.sides[0].workload == row.sides[1].workload]
    assert twins and all(len(row.workloads) == 1 for row in twins)


def test_a_side_is_read_from_its_own_columns(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "pairs.csv", PAIRS[1:2])
    head, row = path.read_text(encoding="utf-8").splitlines()
    path.write_text(f"{head.replace('w1', 'w4').replace('workload1', 'workload4')}\n{row}\n", encoding="utf-8")
    (found,) = load_colocations(path)
    assert [side.workload for side in found.sides] == [side.workload for side in PAIRS[1].sides][::-1]
    assert found.throughput_sum == pytest.approx(PAIRS[1].throughput_sum)


def _broken(tmp_path: Path, column: str, value: str) -> Path:
    row = cells(PAIRS[1])
    row[HEADER.index(column)] = value
    path = tmp_path / "broken.csv"
    path.write_text(",".join(HEADER) + "\n" + ",".join(row) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("w1throughput", "fast", "not a number"),
        ("w1throughput", "inf", "'inf' is not between 0 and 1e"),
        ("w1throughput", "nan", "'nan' is not between 0 and 1e"),
        ("w2throughput", "1e308", "'1e308' is not between 0 and 1e"),
        ("w1_Threads", "-1", "'-1' is not between 0 and 1e"),
        ("w2throughput", "0", "must be above 0"),
        ("w1exclusive_throughput", "1e-300", "must be above 0"),
        ("w1exclusive_throughput", "-3", "'-3' is not between 0 and 1e"),
        ("w1sm%", "101", "not a percentage"),
        ("w2mem%", "", "missing or empty"),
        ("workload2", "", "workload1 and workload2"),
    ],
)
def test_errors_name_line_and_column(tmp_path: Path, column: str, value: str, says: str) -> None:
    path = _broken(tmp_path, column, value)
    with pytest.raises(ArtifactError, match=says) as caught:
        load_colocations(path)
    assert f"{path}: line 2" in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    cases = {
        "empty.csv": b"",
        "header.csv": ",".join(HEADER).encode() + b"\n",
        "short.csv": ",".join(HEADER).encode() + b"\n1,2\n",
        "long.csv": b"a,b\n1,2,3\n",
        "binary.csv": bytes(range(256)) * 8,
        "fake.csv.gz": b"not gzip",
    }
    says = {"empty.csv": "empty file", "short.csv": "line 2: not as many", "long.csv": "line 2: not as many"}
    for name, content in cases.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ArtifactError, match=f"{name}: .*{says.get(name, '')}".replace(".csv", r"\.csv")):
            load_colocations(path)
    with pytest.raises(ArtifactError, match="cannot be read"):
        load_colocations(tmp_path / "absent.csv")
