"""radd, its model, rad-monitor and rad-spool.timer. One connection each to the first and the third, closed at once."""

from __future__ import annotations

import socket
from pathlib import Path

from estimator.methods import load_method
from slurm_hooks.config import Config
from slurm_hooks.slurm.commands import Runner, SlurmError

_CONNECT_TIMEOUT_S = 1.0


def connect(path: str) -> str | None:
    """Why radd serves no connection; the empty string where it does, None where only its own users may try."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_CONNECT_TIMEOUT_S)
        try:
            client.connect(path)
            client.shutdown(socket.SHUT_WR)
            client.recv(1)  # it ends what asks nothing, where it does not hang
        except PermissionError:
            return None
        except OSError as error:
            return f"{path}: {error.strerror or error}"
    return ""


def model(config: Config) -> str:
    """Why the estimator's model cannot be used, or the empty string."""
    try:
        load_method(config.estimator.method, Path(config.estimator.models_dir))
    except (ValueError, ImportError, OSError) as error:
        return str(error)
    return ""


def reach(listen: str, port: int) -> str:
    """Why nothing takes connections at an address; the empty string where something does."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen, listen)  # noqa: S104 - compared, not bound
    try:
        socket.create_connection((host, port), _CONNECT_TIMEOUT_S).close()
    except OSError as error:
        return f"{host}:{port}: {error.strerror or error}"
    except UnicodeError:
        return f"{host}: no address"
    return ""


def timer(runner: Runner, root: Path, timeout_s: float) -> str | None:
    """The state of rad-spool.timer, or None where no systemd runs or it does not tell."""
    if not (root / "run/systemd/system").is_dir():
        return None
    try:
        return runner(["systemctl", "show", "--property=ActiveState", "--value", "rad-spool.timer"], timeout_s).strip()
    except SlurmError:
        return None
