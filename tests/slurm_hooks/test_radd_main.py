"""radd as a process: starts, answers, stops cleanly, and says what is wrong."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from scripts.demo_data import resnet50
from scripts.devcluster.interpreter import closed, for_everybody
from slurm_hooks.radd import protocol
from slurm_hooks.radd.main import in_background

ROOT = Path(__file__).parents[2]
PACKAGES = ("estimator", "predictor", "slurm_hooks")


@pytest.fixture(scope="module")
def code() -> Iterator[Path]:
    """The checkout, or a copy of what runs where ordinary users cannot come to it."""
    if closed(ROOT) is None:
        yield ROOT
        return
    with tempfile.TemporaryDirectory(prefix="rad-test-radd-") as name:
        Path(name).chmod(0o755)
        copy(Path(name))
        yield Path(name)


def copy(folder: Path) -> None:
    """What of the checkout radd runs, into a folder."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package)


def test_a_part_that_fails_is_said_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    went_on = threading.Event()

    async def fails() -> None:
        raise ZeroDivisionError

    async def goes_on() -> None:
        while "fails ends, the rest goes on" not in caplog.text:
            await asyncio.sleep(0)
        went_on.set()
        await asyncio.Event().wait()

    with in_background(fails, goes_on):
        assert went_on.wait(10)
    assert "ZeroDivisionError" in caplog.text


def start(code: Path, config: Path, *, user: int = 65534, **env: str) -> subprocess.Popen[str]:
    chosen = for_everybody(Path(sys.executable))
    path = os.pathsep.join(map(str, filter(None, (code, chosen.packages))))
    return subprocess.Popen(
        [str(chosen.python), "-m", "slurm_hooks.radd.main", "--config", str(config)],
        cwd="/",
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **env},
        stderr=subprocess.PIPE,
        text=True,
        user=user,
        group=user,
        extra_groups=[],
    )


def connect(path: Path, process: subprocess.Popen[str]) -> socket.socket:
    """A connection as soon as radd listens."""
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None
        peer = socket.socket(socket.AF_UNIX)
        try:
            peer.connect(str(path))
            return peer
        except (FileNotFoundError, ConnectionRefusedError):
            peer.close()
            assert time.monotonic() < deadline
            time.sleep(0.02)


def ask(peer: socket.socket, **fields: str) -> Mapping[str, str]:
    """radd's answer."""
    peer.sendall(protocol.encode(fields))
    with peer.makefile("rb") as stream:
        return protocol.decode(stream.read(protocol.body_length(stream.readline(), 100_000)))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may write to; pytest's own may be closed to other users."""
    with tempfile.TemporaryDirectory(prefix="rad-test-radd-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


def test_it_answers_and_stops(code: Path, folder: Path) -> None:
    path, config = folder / "radd.sock", folder / "rad.toml"
    config.write_text(f'[radd]\nsocket = "{path}"\nslurm_user = "root"\n[partitions.gpu]\nmode = "shadow"\n')
    process = start(code, config)
    try:
        with connect(path, process) as peer:
            told = ask(peer, script="#RAD batch_size=1\n", partition="cpu")["message"]
            assert told.startswith("partition cpu: RAD does not serve it")
            config.write_text("[partitions.cpu\n")
            process.send_signal(signal.SIGHUP)
            assert ask(peer, script="#RAD batch_size=1\n", partition="cpu")["message"] == told
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "radd goes on as it is: it reads rad.toml when it starts" in said
    assert "radd stops" in said
    assert not path.exists()


def test_it_starts_beside_a_model_that_cannot_be_used(code: Path, folder: Path) -> None:
    path, config = folder / "radd.sock", folder / "rad.toml"
    config.write_text(f'[radd]\nsocket = "{path}"\n[estimator]\nmodels_dir = "{folder}"\n')
    (folder / "rad").mkdir()
    (folder / "rad" / "current").write_text("x")
    process = start(code, config)
    connect(path, process).close()
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "names no version: write the number" in said
    assert "the model that comes with RAD serves" in said


def test_it_does_not_wait_for_slurm_to_stop(code: Path, folder: Path) -> None:
    path, config, hangs = folder / "radd.sock", folder / "rad.toml", folder / "scontrol"
    config.write_text(f'[radd]\nsocket = "{path}"\nslurm_user = "root"\n')
    hangs.write_text(f"#!/bin/sh\necho $$ >{folder}/asked\nexec sleep 600\n")
    hangs.chmod(0o755)
    process = start(code, config, PATH=f"{folder}:{os.environ['PATH']}")
    try:
        connect(path, process).close()
        deadline = time.monotonic() + 60
        while not (folder / "asked").exists() or not (folder / "asked").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0  # scontrol may take as long as radd.command_timeout_s, sacct two minutes
        os.kill(int((folder / "asked").read_text()), signal.SIGKILL)  # it was still there
    finally:
        process.kill()
        process.communicate()
    assert not path.exists()


def test_a_second_one_is_refused_and_the_first_goes_on(code: Path, folder: Path) -> None:
    path, config = folder / "radd.sock", folder / "rad.toml"
    config.write_text(f'[radd]\nsocket = "{path}"\nslurm_user = "root"\n[partitions.gpu]\nmode = "shadow"\n')
    process = start(code, config)
    try:
        connect(path, process).close()
        second = start(code, config)
        _, said = second.communicate(timeout=60)
        assert (second.returncode, "another radd answers there" in said) == (1, True)
        with connect(path, process) as peer:
            assert "RAD does not serve it" in ask(peer, script="#RAD batch_size=1\n", partition="cpu")["message"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_it_answers_while_it_is_installed_anew(folder: Path) -> None:
    path, config, code = folder / "radd.sock", folder / "rad.toml", folder / "code"
    settings = f'[radd]\nsocket = "{path}"\nslurm_user = "root"\npoll_s = 1\ndecide_s = 5\n'
    config.write_text(settings + '[partitions.gpu]\ngpu_model = "h200"\n')
    copy(code)
    process = start(code, config)
    sizes = iter(range(1, 9))  # each of its own: what was estimated before is remembered

    def decides(peer: socket.socket) -> None:
        script = f"#RAD batch_size={next(sizes)} model=net.txt\n"
        job = {"script": script, "summary": resnet50(), "partition": "gpu", "tres_per_node": "gres:gpu:1"}
        message = ask(peer, **job)["message"]
        assert "GiB expected" in message, message

    try:
        with connect(path, process) as peer:
            decides(peer)
            for package in PACKAGES:
                (code / package).rename(code / f"{package}.old")
            decides(peer)
            said = until(process, "the old one stays")
            decides(peer)
            copy(code)
            said += until(process, "rad now answers with version")
            decides(peer)
    finally:
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "Traceback" not in said + rest


def until(process: subprocess.Popen[str], words: str) -> str:
    """What radd says until it says these."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if words in line:
            return said
    raise AssertionError(said)


@pytest.mark.parametrize(
    ("text", "user", "words"),
    [
        ("", 0, "does not run as root"),
        ("[partitions.gpu]\nmode = 3\n", 65534, "mode"),
        (None, 65534, "cannot be read"),
        (f'[radd]\nsocket = "/{"a" * 107}"\n', 65534, "path too long"),
        (
            '[radd]\nsocket = "/nowhere/radd.sock"\n',
            65534,
            "No such file or directory: radd's user must be able to make",
        ),
        ('[radd]\nsocket = "/radd.sock"\n', 65534, "Permission denied: radd's user must be able to make files in"),
    ],
)
def test_what_is_wrong_is_said(code: Path, folder: Path, text: str | None, user: int, words: str) -> None:
    config = folder / "rad.toml"
    if text is not None:
        config.write_text(text)
    process = start(code, config, user=user)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert words in said
    assert "Traceback" not in said
