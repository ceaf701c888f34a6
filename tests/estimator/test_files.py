"""Files that users name: what is read, what is refused, and that nothing waits."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

import pytest

from estimator import files


@pytest.mark.parametrize("path", ["pipe", ".", "/dev/zero", "/dev/null", "/dev/stdin"])
def test_what_is_no_regular_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises((files.FileRefusedError, OSError), match=r"not a regular file|No such"):
        files.read(Path(path), 10)


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"x" * 2048)
    assert files.read(path, 2048) == b"x" * 2048
    with pytest.raises(files.FileRefusedError, match=r"a\.txt: longer than 1 KiB"):
        files.read(path, 2047)


def test_text_is_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"na\xefve")
    assert files.read_text(path, 9).encode(errors="surrogateescape") == b"na\xefve"
    path.write_bytes(b"N\0e\0t\0")
    with pytest.raises(files.FileRefusedError, match=r"a\.txt: binary"):
        files.read_text(path, 9)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_text_of_windows_is_named(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffNet()".encode(encoding))
    with pytest.raises(files.FileRefusedError, match=r"a\.txt: UTF-16: save it as UTF-8"):
        files.read_text(path, 99)


def test_a_stream_has_the_same_limits() -> None:
    assert files.text_of(BytesIO(b"Net()"), 5, "stdin") == "Net()"
    with pytest.raises(files.FileRefusedError, match="stdin: longer than 0 KiB"):
        files.text_of(BytesIO(b"Net()"), 4, "stdin")
    with pytest.raises(files.FileRefusedError, match="stdin: binary"):
        files.text_of(BytesIO(b"\0"), 4, "stdin")
