from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

import pytest

from slurm_hooks.node import state
from slurm_hooks.node.state import StateError
from tests.slurm_hooks.node.conftest import UID


def test_what_is_written_is_read(place: Path) -> None:
    path = str(place / "7.json")
    state.write(path, {"a": [1, "x"]})
    assert state.read(path) == {"a": [1, "x"]}
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
    before = os.umask(0o077)
    state.write(path, {"b": 2}, 0o644)
    assert os.umask(before) == 0o077
    assert state.read(path) == {"b": 2}
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o644
    assert [path.name for path in place.iterdir()] == ["7.json"]


def test_a_write_that_fails_leaves_the_old_text(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(place / "7.json")
    state.write(path, {"a": 1})

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"No space left on device: .{path}"):
        state.write(path, {"a": 2}, durable=True)
    assert state.read(path) == {"a": 1}
    assert [path.name for path in place.iterdir()] == ["7.json"]


def test_what_is_to_outlive_a_crash_has_its_name_on_the_disk_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []

    def sync(file: int) -> None:
        assert os.fstat(file).st_size > 0
        synced.append(str(Path(f"/proc/self/fd/{file}").readlink()))

    monkeypatch.setattr(os, "fsync", sync)
    path = place / "7.json"
    state.write(str(path), {"a": 1})
    assert synced == []
    state.write(str(path), {"a": 2}, durable=True)
    assert synced == [f"{path}.{os.getpid()}.new", str(place)]


@pytest.mark.parametrize("text", ["", "{", "[1]", "\xff", "null", "[" * 99_999], ids=range(6))
def test_broken_files(place: Path, text: str) -> None:
    (place / "x").write_text(text, encoding="latin-1")
    assert state.read(str(place / "x")) is None


def test_missing_files_and_links(place: Path) -> None:
    assert state.read(str(place / "x")) is None
    state.remove(str(place / "x"))
    (place / "y").write_text("{}")
    (place / "x").symlink_to(place / "y")
    assert state.read(str(place / "x")) is None


def test_what_is_no_file(place: Path) -> None:
    """It holds nobody up, and a folder, which an admin may have made, is not ours to remove."""
    os.mkfifo(place / "x")
    assert state.read(str(place / "x")) is None
    (place / "y").mkdir()
    assert state.read(str(place / "y")) is None
    state.remove(str(place / "y"))
    assert (place / "y").is_dir()


def test_a_folder_is_made(place: Path) -> None:
    old = os.umask(0o077)
    try:
        path = state.folder(str(place / "a" / "b"), 0o711)
    finally:
        os.umask(old)
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o711
    assert state.folder(path) == path


def test_folders_that_others_could_change(place: Path) -> None:
    (place / "file").touch()
    (place / "link").symlink_to(place)
    for name, mode, uid in (("open", 0o777, 0), ("group", 0o775, 0), ("theirs", 0o755, UID)):
        (place / name).mkdir()
        (place / name).chmod(mode)
        os.chown(place / name, uid, uid)
    for name in ("open", "group", "theirs"):
        with pytest.raises(StateError, match=f"{name}: others can change it: chown root"):
            state.folder(str(place / name))
    for name, problem in (("file", "is no folder"), ("link", "is a link: name the folder that it leads to")):
        with pytest.raises(StateError, match=f"{name}: {problem}"):
            state.folder(str(place / name))
    with pytest.raises(StateError, match="cannot be made: File exists"):
        state.folder(str(place / "file" / "below"))


def test_a_lock_is_waited_for(place: Path) -> None:
    path = str(place / "lock")
    order: list[str] = []
    holds = threading.Event()

    def first() -> None:
        with state.locked(path, 5):
            holds.set()
            time.sleep(0.05)
            order.append("first")

    thread = threading.Thread(target=first)
    thread.start()
    assert holds.wait(5)
    with state.locked(path, 5):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]


def test_a_lock_that_does_not_come_free(place: Path) -> None:
    path = str(place / "lock")
    with (
        state.locked(path, 1),
        pytest.raises(StateError, match=r"locked by another process for 0\.05 s"),
        state.locked(path, 0.05),
    ):
        pass
