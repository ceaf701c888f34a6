"""Every command of radctl that reads a file which its user names: pipes, devices and huge files are refused at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from estimator import files
from slurm_hooks.radctl import estimate
from slurm_hooks.radctl.main import cli

# A command line; the file that the user names is FILE, or bad/labels.csv or the like in the folder FOLDER.
COMMANDS = (
    ("config", "check", "FILE"),
    ("--config", "FILE", "doctor"),
    ("--config", "FILE", "decide", "job.sh"),
    ("decide", "FILE"),
    ("embed", "FILE"),
    ("embed", "job.sh", "--summary", "FILE"),
    ("convert", "FILE"),
    ("estimate", "FILE", "--batch-size", "8"),
    ("bench", "decide", "FILE"),
    ("evaluate", "memory", "--cases", "FOLDER/labels.csv"),
    ("evaluate", "memory", "--cases", "cases/net.txt"),
    ("evaluate", "interference", "--train", "FILE", "--test", "FILE"),
    ("retrain", "interference", "--data", "FILE", "--models-dir", "models"),
    ("retrain", "interference", "--data", "FOLDER/workloads.csv", "--models-dir", "models"),
    ("retrain", "memory", "--data", "FOLDER/labels.csv"),
    ("dataset", "pack", ".", "--into", "packed", "--meta", "FILE"),
    ("dataset", "status", "--raw", "FOLDER/rows.jsonl"),
)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.sh").write_text("#!/bin/bash\n#RAD model=net.txt batch_size=8\n")
    Path("cases").mkdir()
    header = "file,batch_size,optimizer,precision,seq_len,kind,gpu,gpu_memory_mib"
    Path("cases/labels.csv").write_text(f"{header}\nnet.txt,8,,,,,,900\n")


@pytest.mark.parametrize("make", [_pipe, _zeros])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_what_is_no_regular_file_is_refused(words: Sequence[str], make: Callable[[Path], None]) -> None:
    named = next(word for word in words if word == "FILE" or "/" in word)
    path = Path(named)
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)
    folder = str(path).split("/", maxsplit=1)[0]
    result = CliRunner().invoke(cli, [folder if word == named else word for word in words])
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("radctl: ")
    assert f"{path.name}: not a regular file" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(("content", "message"), [(b"\0" * 99, "binary"), (b" " * 16_777_217, "longer than 16384 KiB")])
def test_standard_input_has_limits_too(content: bytes, message: str) -> None:
    result = CliRunner().invoke(cli, ["estimate", "-", "--batch-size", "8"], input=content)
    assert (result.exit_code, result.stderr.split(":")[:2]) == (2, ["radctl", " stdin"])
    assert message in result.stderr


def test_lines_of_a_collection_that_are_no_json_are_named() -> None:
    Path("rows.jsonl").write_text("{\n{}\n")
    result = CliRunner().invoke(cli, ["dataset", "status", "--raw", "."])
    assert result.exit_code == 2
    assert result.stderr.startswith("radctl: rows.jsonl:1: ")


def test_a_standard_input_that_is_closed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(files.FileRefusedError, match="stdin: closed"):
        estimate._summary(Path("-"))
