"""What a node keeps of its configuration: when, for whom to read, and when not to be trusted."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_hooks import config as configuration
from slurm_hooks.config import Config, ConfigAbsentError, ConfigError, Mps, Node
from slurm_hooks.node import kept as module
from slurm_hooks.node import state
from slurm_hooks.node.kept import Kept, as_begun

GOOD = b"[partitions.gpu]\ngpu_model = 'h200'\n"


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(f"{tmp_path}/kept")


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "rad.toml"
    path.write_bytes(GOOD)
    return path


def test_where_it_lies() -> None:
    assert Kept.of({}) == Kept.of({"RAD_KEPT": ""}) == Kept("/var/cache/rad")
    assert Kept.of({"RAD_KEPT": "/a"}).copy == "/a/rad.toml"


def test_a_copy_is_written_once_for_each_configuration(kept: Kept, toml: Path) -> None:
    found = kept.read(toml)
    assert (found.text, found.problem, list(found.config.partitions)) == (GOOD, "", ["gpu"])
    assert kept.last() is None, "reading keeps nothing"
    assert kept.keep(GOOD) == ""
    first = Path(kept.copy).stat()
    assert first.st_mode & 0o777 == 0o600
    assert kept.keep(GOOD) == ""
    assert Path(kept.copy).stat().st_ino == first.st_ino
    for text in (GOOD + b"# more\n", GOOD[:-1]):
        assert kept.keep(text) == ""
        assert Path(kept.copy).read_bytes() == text


def test_one_that_cannot_be_used_replaces_none(kept: Kept, toml: Path) -> None:
    kept.keep(GOOD)
    toml.write_text("[partition.gpu]\n")
    found = kept.read(toml)
    assert (found.text, list(found.config.partitions)) == (None, ["gpu"])
    assert f"{toml}: [partition]: no such section: did you mean 'partitions'?" in found.problem
    assert f"{kept.copy} of {time.strftime('%Y-')}" in found.problem


def test_a_configuration_that_names_no_partition_is_one_but_an_empty_file_is_none(kept: Kept, toml: Path) -> None:
    toml.write_text("\n")
    for _ in range(2):
        assert kept.read(toml).text == b"\n", "where nothing else was known"
        kept.keep(b"\n")
    kept.keep(GOOD)
    assert "is empty: where no disk was full as it was written, remove it" in kept.read(toml).problem
    toml.write_text("# off\n")
    found = kept.read(toml)
    assert (found.text, found.config.partitions) == (b"# off\n", {})


def test_none_at_all_is_off_but_a_link_to_nowhere_is_not(kept: Kept, toml: Path) -> None:
    kept.keep(GOOD)
    toml.unlink()
    with pytest.raises(ConfigAbsentError, match=r"RAD does nothing on this node: .*rad\.toml: cannot be read: No such"):
        kept.read(toml)
    toml.symlink_to("/nowhere/rad.toml")
    assert kept.read(toml).text is None
    (toml.parent / "etc").symlink_to("/nowhere")  # as of a share that is not mounted
    assert kept.read(toml.parent / "etc" / "rad.toml").text is None
    with pytest.raises(ConfigAbsentError):
        kept.read(toml.parent / "etc2" / "rad" / "rad.toml")


def _open_folder(kept: Kept) -> None:
    Path(kept.path).chmod(0o777)


def _of_another(kept: Kept) -> None:
    os.chown(kept.path, 40001, -1)


def _link(kept: Kept) -> None:
    Path(kept.path).rename(f"{kept.path}2")
    Path(kept.path).symlink_to(f"{kept.path}2")


def _torn(kept: Kept) -> None:
    Path(kept.copy).write_bytes(GOOD[:10])


@pytest.mark.parametrize("harm", [_open_folder, _of_another, _link, _torn])
def test_a_copy_that_is_not_taken(kept: Kept, toml: Path, harm: Callable[[Kept], None]) -> None:
    kept.keep(GOOD)
    harm(kept)
    toml.write_text("[")
    assert kept.last() is None
    with pytest.raises(ConfigError, match=r"RAD does nothing on this node \(see radctl config check\): .*not TOML"):
        kept.read(toml)


@pytest.mark.parametrize("harm", [_open_folder, _of_another])
def test_nothing_is_kept_where_others_can_change_it(kept: Kept, harm: Callable[[Kept], None]) -> None:
    kept.keep(GOOD)
    harm(kept)
    assert "others can change it: chown root and chmod go-w it" in kept.keep(GOOD + b"\n")
    with pytest.raises(state.StateError):
        kept.begin(7, Config())
    assert [path.name for path in Path(kept.path).iterdir()] == ["rad.toml"]


def test_a_file_system_that_hangs_is_one_that_cannot_be_read(
    kept: Kept, toml: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.keep(GOOD)
    read = configuration.read

    def hangs(path: Path) -> bytes:
        if path == toml:
            time.sleep(3)
        return read(path)

    monkeypatch.setattr(configuration, "read", hangs)
    monkeypatch.setattr(module, "READ_S", 0.05)
    begin = time.monotonic()
    found = kept.read(toml)
    assert time.monotonic() - begin < 2
    assert found.text is None and "cannot be read within 0.05 s: its file system hangs" in found.problem


def test_what_a_job_began_with(kept: Kept) -> None:
    config = Config(mps=Mps(run_dir="/a", users="multi"), node=Node(state_dir="/b", log="/c", command_timeout_s=7.0))
    kept.begin(7, config)
    assert Path(kept.of_job(7)).stat().st_mode & 0o777 == 0o644
    begun = kept.begun(7)
    assert begun == Config(mps=config.mps, node=Node(state_dir="/b", command_timeout_s=7.0))
    now = Config(node=Node(log="/d"))
    assert as_begun(now, begun) == Config(mps=config.mps, node=Node(state_dir="/b", log="/d"))
    assert kept.begun(8) is None
    for text in ('{"mps": {"of_another_rad": 1}}', '{"mps": 1}', "[]", "{"):
        Path(kept.of_job(7)).write_text(text)
        assert kept.begun(7) is None


def test_an_earlier_job_of_that_number_is_forgotten_on_a_full_disk(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    kept.begin(7, Config())
    monkeypatch.setattr(state, "write", full)
    with pytest.raises(OSError, match="No space left"):
        kept.begin(7, Config())
    assert kept.begun(7) is None


def test_what_is_tidied(kept: Kept, tmp_path: Path) -> None:
    config = Config(node=Node(state_dir=str(tmp_path)))
    kept.keep(GOOD)
    for job in (7, 8, 9):
        kept.begin(job, config)
    (tmp_path / "8.json").touch()
    for name in ("7.json", "8.json", "rad.toml", "10.json", "rad.toml.5.new"):
        path = Path(kept.path, name)
        path.touch()
        os.utime(path, (0, 0))
    kept.tidy()
    assert sorted(path.name for path in Path(kept.path).iterdir()) == ["8.json", "9.json", "rad.toml"]
    Kept("/nowhere").tidy()


def test_a_disk_that_takes_no_changes_is_left_as_it_is(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """rad-spool.timer has more to do: it sends what waits in memory, and starts dead daemons anew."""
    kept.begin(7, Config(node=Node(state_dir="/nowhere")))
    os.utime(kept.of_job(7), (0, 0))

    def read_only(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", read_only)
        kept.tidy()
    assert Path(kept.of_job(7)).exists()
    kept.tidy()
    assert not Path(kept.of_job(7)).exists()
