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
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.devcluster.interpreter import closed, for_everybody
from slurm_hooks.radd import protocol
from slurm_hooks.radd.main import in_background

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def code() -> Iterator[Path]:
    """The checkout, or a copy of what runs where ordinary users cannot come to it."""
    if closed(ROOT) is None:
        yield ROOT
        return
    with tempfile.TemporaryDirectory(prefix="rad-test-radd-") as name:
        Path(name).chmod(0o755)
        for package in ("estimator", "predictor", "slurm_hooks"):
            shutil.copytree(ROOT / package, Path(name, package))
        yield Path(name)


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


def start(code: Path, config: Path, *, user: int = 65534) -> subprocess.Popen[str]:
    chosen = for_everybody(Path(sys.executable))
    path = os.pathsep.join(map(str, filter(None, (code, chosen.packages))))
    return subprocess.Popen(
        [str(chosen.python), "-m", "slurm_hooks.radd.main", "--config", str(config)],
        cwd="/",
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
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
            peer.sendall(protocol.encode({"script": "#RAD batch_size=1\n", "partition": "cpu"}))
            with peer.makefile("rb") as stream:
                body = stream.read(protocol.body_length(stream.readline(), 10_000))
        assert protocol.decode(body)["message"].startswith("partition cpu: RAD does not serve it")
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "radd stops" in said
    assert not path.exists()


@pytest.mark.parametrize(
    ("text", "user", "words"),
    [
        ("", 0, "does not run as root"),
        ("[partitions.gpu]\nmode = 3\n", 65534, "mode"),
        (None, 65534, "cannot be read"),
        ('[estimator]\nmodels_dir = "{folder}"\n', 65534, "names no version: write the number"),
    ],
)
def test_what_is_wrong_is_said(code: Path, folder: Path, text: str | None, user: int, words: str) -> None:
    config = folder / "rad.toml"
    if text is not None:
        config.write_text(text.format(folder=folder))
    (folder / "rad").mkdir()
    (folder / "rad" / "current").write_text("x")
    process = start(code, config, user=user)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert words in said
    assert "Traceback" not in said
