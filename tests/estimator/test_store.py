"""The store of learned models: versions, integrity, rolling back, noticing a change."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from estimator import files
from estimator.store import SHIPPED, ModelError, OvertakenError, Store, store_for


def test_versions_count_up_and_the_newest_is_current(tmp_path: Path) -> None:
    store = Store(tmp_path, "rad")
    assert store.current is None
    assert store.versions() == []
    assert store.install({"a": 1}, {"note": "first"}) == 1
    assert store.install({"a": 2}, {"note": "second"}) == 2
    assert store.load() == {"a": 2, "method": "rad"}
    assert store.load(1)["a"] == 1
    assert [(v.number, v.current, v.about["note"]) for v in store.versions()] == [
        (1, False, "first"),
        (2, True, "second"),
    ]


def test_rolling_back_goes_to_the_version_before_and_to_the_shipped_one(tmp_path: Path) -> None:
    store = Store(tmp_path, "rad")
    for number in range(3):
        store.install({"a": number}, {})
    assert store.rollback() == 2
    assert store.rollback() == 1
    assert store.load()["a"] == 0
    assert store.rollback() is None
    assert store_for("rad", tmp_path).folder == SHIPPED / "rad"
    with pytest.raises(ModelError, match="nothing to go back to"):
        store.rollback()


def test_what_comes_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    store = Store(tmp_path, "rad")
    seen = store.seen()
    assert store.install({}, {}, seen) == 1
    with pytest.raises(OvertakenError):  # installed
        store.install({}, {}, seen)
    store.install({}, {})
    seen = store.seen()
    store.rollback()
    with pytest.raises(OvertakenError):  # rolled back
        store.install({}, {}, seen)
    (tmp_path / "rad" / "3").mkdir()  # has its number, and is not current yet
    with pytest.raises(OvertakenError):
        store.install({}, {}, replace(seen, stamp=store.stamp()))
    assert store.current == 1
    (tmp_path / "rad" / "current").write_text("x")  # damaged: what is no worse than nothing takes its place
    assert store.install({}, {}, store.seen()) == 4


def test_rolling_back_passes_over_what_is_damaged(tmp_path: Path) -> None:
    store = Store(tmp_path, "rad")
    for number in range(4):
        store.install({"a": number}, {})
    for number in (2, 3):
        (tmp_path / "rad" / str(number) / "model.json.gz").write_bytes(b"half")
    assert store.rollback() == 1
    assert store.load()["a"] == 0


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> int:
        path.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    store = Store(tmp_path, "rad")
    with pytest.raises(OSError, match=r"No space left on device: '.*rad'"):
        store.install({"a": 1}, {})
    assert store.current is None
    assert not list((tmp_path / "rad").iterdir())


def test_no_mode_is_changed_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of another user's a name may lead elsewhere by then."""
    monkeypatch.setattr(Path, "chmod", lambda path, mode: pytest.fail(f"{path} was named"))
    Store(tmp_path, "rad").install({"a": 1}, {})
    assert (tmp_path / "rad" / "current").stat().st_mode & 0o777 == 0o644


def test_a_copy_named_by_its_time_is_no_version(tmp_path: Path) -> None:
    store = Store(tmp_path, "rad")
    store.install({"a": 1}, {})
    (tmp_path / "rad" / "20261127104800").mkdir()
    assert store.install({"a": 2}, {}) == 2
    assert store.load()["a"] == 2


def test_whoever_installs_a_model_all_may_read_it(tmp_path: Path) -> None:
    before = os.umask(0o077)  # as root's is on many a controller
    try:
        Store(tmp_path / "models", "rad").install({"a": 1}, {})
        assert os.umask(0o077) == 0o077
    finally:
        os.umask(before)
    made = {path.relative_to(tmp_path).as_posix(): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert made == {
        "models": 0o755,
        "models/rad": 0o755,
        "models/rad/1": 0o755,
        "models/rad/1/model.json.gz": 0o644,
        "models/rad/1/manifest.json": 0o644,
        "models/rad/current": 0o644,
    }


def test_a_number_that_another_process_takes_first_is_counted_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(tmp_path, "rad").install({"a": 1}, {})
    store, seen = Store(tmp_path, "rad"), [[], [1]]  # the first was there only after this one had looked
    monkeypatch.setattr(store, "_numbers", lambda: seen.pop(0))
    assert store.install({"a": 2}, {}) == 2
    assert [store.load(number)["a"] for number in (1, 2)] == [1, 2]


def test_a_change_is_noticed(tmp_path: Path) -> None:
    store = Store(tmp_path, "rad")
    stamps = [store.stamp()]
    for number in range(2):
        store.install({"a": number}, {})
        stamps.append(store.stamp())
    assert store.stamp() == stamps[-1]
    (tmp_path / "rad" / "2" / "model.json.gz").unlink()
    stamps.append(store.stamp())
    assert len(set(stamps)) == 4
    assert [stamp[0] for stamp in stamps] == [None, 1, 2, 2]


def test_other_threads_run_while_a_model_is_read(tmp_path: Path) -> None:
    store = Store(tmp_path, "rad")
    store.install({str(i): {str(j): [j + 0.5] * 20 for j in range(20)} for i in range(2000)}, {})
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.0001)
    try:
        # What else this machine does may hold a thread up too, but hardly each time.
        assert min(_longest_pause(store) for _ in range(5)) < 0.2
    finally:
        sys.setswitchinterval(interval)


def _longest_pause(store: Store) -> float:
    """For how long no other thread ran at once, as a part of the time that it takes to load a model."""
    thread = threading.Thread(target=store.load)
    begin = last = time.perf_counter()
    longest = 0.0
    thread.start()
    while thread.is_alive():
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest / (last - begin)


def test_a_model_that_was_altered_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path, "rad")
    store.install({"a": 1}, {})
    (tmp_path / "rad" / "1" / "model.json.gz").write_bytes(gzip.compress(b'{"a":2,"method":"rad"}'))
    with pytest.raises(ModelError, match="not what its manifest says"):
        store.load()


def replace_model(folder: Path, packed: bytes, **stated: object) -> None:
    """Put another model into a version, with a manifest that goes with it but for what is `stated`."""
    (folder / "model.json.gz").write_bytes(packed)
    manifest = {"about": {}, "sha256": hashlib.sha256(packed).hexdigest(), **stated}
    (folder / "manifest.json").write_text(json.dumps(manifest))


BOMB = gzip.compress(b" " * 80_000_000, 1)


@pytest.mark.parametrize(
    ("packed", "stated"),
    [
        (BOMB, {"bytes": 1000}),
        (BOMB, {"bytes": 80_000_000}),
        (BOMB, {}),
        (gzip.compress(b"{}"), {"bytes": 0}),
        (gzip.compress(b"{}"), {"bytes": 3}),
        (gzip.compress(b"{}"), {"bytes": "2"}),
        (gzip.compress(b"{}")[:-9], {"bytes": 2}),
        (gzip.compress(b"[" * 200_000), {"bytes": 200_000}),
        (gzip.compress(b"no JSON"), {"bytes": 7}),
        (b"not packed", {"bytes": 10}),
        (b"", {"bytes": 2}),
    ],
    ids=["bomb", "told", "untold", "none", "short", "text", "torn", "deep", "words", "plain", "empty"],
)
def test_a_model_is_unpacked_only_up_to_its_stated_size(
    tmp_path: Path, packed: bytes, stated: dict[str, object]
) -> None:
    store = Store(tmp_path, "rad")
    store.install({"a": 1}, {})
    replace_model(tmp_path / "rad" / "1", packed, **stated)
    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match="roll back"):
            store.load()
        assert tracemalloc.get_traced_memory()[1] < 16_000_000
    finally:
        tracemalloc.stop()


def test_a_wrong_hash_is_found_before_anything_is_unpacked(tmp_path: Path) -> None:
    store = Store(tmp_path, "rad")
    store.install({"a": 1}, {})
    replace_model(tmp_path / "rad" / "1", b"not packed", sha256="0" * 64, bytes=10)
    with pytest.raises(ModelError, match="not what its manifest says"):
        store.load()


def test_equal_models_are_equal_files(tmp_path: Path) -> None:
    store = Store(tmp_path, "rad")
    store.install({"a": 1}, {})
    store.install({"a": 1}, {})
    first, second = ((tmp_path / "rad" / number / "model.json.gz").read_bytes() for number in "12")
    assert first == second


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("manifest.json", "{", "cannot be read"),
        ("manifest.json", "[]", "no manifest"),
        ("manifest.json", "[" * 100_000, "cannot be read"),
        ("manifest.json", None, "missing"),
        ("model.json.gz", None, "missing"),
    ],
)
def test_damaged_files_name_themselves(tmp_path: Path, name: str, text: str | None, match: str) -> None:
    store = Store(tmp_path, "rad")
    store.install({"a": 1}, {})
    path = tmp_path / "rad" / "1" / name
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    with pytest.raises(ModelError, match=match) as error:
        store.load()
    assert str(path) in str(error.value)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, partial(Path.symlink_to, target="/dev/zero")])
@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("current", "names no version: write the number"),
        ("1/manifest.json", "not a regular file: .*roll back"),
        ("1/model.json.gz", "not a regular file: .*roll back"),
    ],
)
def test_what_is_no_regular_file_is_a_damaged_model(
    tmp_path: Path, name: str, match: str, make: Callable[[Path], None]
) -> None:
    store = Store(tmp_path, "rad")
    store.install({"a": 1}, {})
    (tmp_path / "rad" / name).unlink()
    make(tmp_path / "rad" / name)
    with pytest.raises(ModelError, match=f"{name}:? {match}"):
        store.load()


@pytest.mark.parametrize("name", ["current", "1/manifest.json", "1/model.json.gz"])
@pytest.mark.parametrize(
    ("code", "cure"), [(errno.EACCES, "let everybody read it"), (errno.EIO, "install the version again")]
)
def test_a_file_that_cannot_be_opened_names_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int, cure: str
) -> None:
    store = Store(tmp_path, "rad")
    store.install({"a": 1}, {})
    read = files.read

    def refuse(path: Path, limit: int) -> bytes:
        if path == tmp_path / "rad" / name:
            raise OSError(code, os.strerror(code))
        return read(path, limit)

    monkeypatch.setattr(files, "read", refuse)
    with pytest.raises(ModelError, match=f"{name} cannot be read .*: {cure}"):
        store.load()


def test_a_model_of_another_method_is_refused(tmp_path: Path) -> None:
    Store(tmp_path, "other").install({}, {})
    (tmp_path / "other").rename(tmp_path / "rad")
    with pytest.raises(ModelError, match="no model of the method rad"):
        Store(tmp_path, "rad").load()


@pytest.mark.parametrize("text", ["x", "", "-1", "\u00e9", "1" * 30, " " * 100 + "1"])
def test_a_damaged_current_file_says_the_cure(tmp_path: Path, text: str) -> None:
    (tmp_path / "rad").mkdir()
    (tmp_path / "rad" / "current").write_text(text, "utf-8")
    with pytest.raises(ModelError, match="write the number"):
        _ = Store(tmp_path, "rad").current


def test_an_empty_folder_holds_no_model(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="retrain"):
        Store(tmp_path, "rad").load()


def test_a_version_without_manifest_is_not_listed(tmp_path: Path) -> None:
    store = Store(tmp_path, "rad")
    store.install({}, {})
    (tmp_path / "rad" / "7").mkdir()
    assert [version.number for version in store.versions()] == [1]
    assert store.install({}, {}) == 8


def test_the_sites_models_come_before_the_shipped_ones(tmp_path: Path) -> None:
    assert store_for("rad", tmp_path).folder == SHIPPED / "rad"
    Store(tmp_path, "rad").install({}, {})
    assert store_for("rad", tmp_path).folder == tmp_path / "rad"
    assert store_for("rad", None).folder == SHIPPED / "rad"
