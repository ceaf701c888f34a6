"""Where a development cluster keeps its things, and on which ports it listens. Pure, but for looking for free ports."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from slurm_hooks.node import state

FIRST_PORT = 21000
LAST_PORT = 30000  # the kernel hands out ports above 32768 to clients: keep away from them
MARKER = "RAD_DEV_CLUSTER"


class ClusterError(RuntimeError):
    """The cluster did not do what it should; the message holds the end of the log that tells why."""


@dataclass(frozen=True)
class Rad:
    """How RAD takes part in a cluster.

    Attributes:
        checkout: folder that holds slurm_hooks, estimator and predictor.
        python: interpreter that has the project's dependencies.
        config: rad.toml that the cluster starts from; its paths are replaced by ones below the cluster's folder.
            None: one that suits the cluster's partitions.
        hook: settings of the Lua hook other than its defaults, for example ("breaker_seconds", "2").
        monitor: whether rad-monitor runs too.
    """

    checkout: Path
    python: Path
    config: Path | None = None
    hook: tuple[tuple[str, str], ...] = ()
    monitor: bool = False


@dataclass(frozen=True)
class Layout:
    """A cluster's folder, size and ports.

    Attributes:
        directory: everything lies below it.
        base_port: slurmctld listens here, slurmdbd on the next, MariaDB on the one after, slurmds from base_port + 10.
        nodes: number of slurmds.
        gpus: GPUs of each node.
        partitions: names of the partitions; each holds all nodes; the first is the default.
        gpu_model: node feature that stands for the GPUs' model.
        cpus: processors that each node claims to have.
        real_gpus: device files of real GPUs (one node only); where empty, stand-in device nodes are made.
        instances: device types of MIG instances that each node has beside its GPUs; stand-ins.
    """

    directory: Path
    base_port: int
    nodes: int = 1
    gpus: int = 4
    partitions: tuple[str, ...] = ("gpu",)
    gpu_model: str = "h200"
    cpus: int = 64
    real_gpus: tuple[str, ...] = ()
    instances: tuple[str, ...] = ()

    @property
    def etc(self) -> Path:
        """Configuration files; slurm.conf stands here."""
        return self.directory / "etc"

    @property
    def slurm_conf(self) -> Path:
        """What SLURM_CONF names."""
        return self.etc / "slurm.conf"

    @property
    def rad_toml(self) -> Path:
        """RAD's configuration."""
        return self.etc / "rad.toml"

    @property
    def kept(self) -> Path:
        """What the cluster's nodes keep of it."""
        return self.directory / "kept"

    @property
    def logs(self) -> Path:
        """One log file for each daemon."""
        return self.directory / "log"

    @property
    def run(self) -> Path:
        """Pid files and sockets."""
        return self.directory / "run"

    @property
    def munge_socket(self) -> Path:
        """The cluster's own munged."""
        return self.run / "munge" / "munge.socket"

    @property
    def bin(self) -> Path:
        """Commands for the cluster's users: radctl."""
        return self.directory / "bin"

    @property
    def dbd_port(self) -> int:
        """Port of slurmdbd."""
        return self.base_port + 1

    @property
    def db_port(self) -> int:
        """Port of MariaDB."""
        return self.base_port + 2

    def node_port(self, index: int) -> int:
        """Port of a node's slurmd."""
        return self.base_port + 10 + index

    @property
    def node_names(self) -> tuple[str, ...]:
        """node0, node1, ..."""
        return tuple(f"node{index}" for index in range(self.nodes))

    @property
    def slurmds(self) -> tuple[str, ...]:
        """slurmd-node0, slurmd-node1, ..."""
        return tuple(f"slurmd-{name}" for name in self.node_names)

    def device(self, index: int) -> str:
        """Device file of a GPU, or of an instance behind them; the nodes of a cluster with stand-ins share them."""
        return self.real_gpus[index] if index < len(self.real_gpus) else str(self.directory / "dev" / f"nvidia{index}")

    def save(self) -> None:
        """Note the layout below the cluster's folder, for later commands."""
        (self.directory / "cluster.json").write_text(json.dumps(asdict(self), default=str, indent=1), encoding="utf-8")

    @classmethod
    def load(cls, directory: Path) -> Layout | None:
        """The layout of a cluster that was brought up in `directory`, or None.

        Raises:
            ClusterError: if somebody else can choose what lies there, and so what root does with it.
        """
        if os.path.lexists(directory):
            require_ours(directory)
        try:
            data = json.loads((directory / "cluster.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        data["directory"] = Path(data["directory"])
        for name in ("partitions", "real_gpus", "instances"):
            data[name] = tuple(data[name])
        return cls(**data)


def require_ours(directory: Path) -> None:
    """Refuse a folder that somebody else may have put there first: root would follow what lies in it.

    Raises:
        ClusterError: if it is a link, another's, or others can write there.
    """
    if not state.is_ours(str(directory)):
        raise ClusterError(f"{directory}: is no folder into which only we can write: remove it, or choose another")


def free_base_port(directory: Path, nodes: int) -> int:
    """A port from which on all ports that a cluster needs are free, for this process for as long as it lives.

    The search begins at a place that depends on the folder, so that clusters brought up at once rarely meet.

    Raises:
        OSError: if there is none.
    """
    block = 10 * (2 + nodes // 10)
    places = (LAST_PORT - FIRST_PORT) // block
    first = zlib.crc32(str(directory).encode()) % places
    for place in range(first, first + places):
        base = FIRST_PORT + place % places * block
        if _claimed((base, base + 1, base + 2, *(base + 10 + index for index in range(nodes)))):
            return base
    raise OSError(f"no free ports between {FIRST_PORT} and {LAST_PORT}")


def _claimed(ports: Sequence[int]) -> bool:
    """Whether nobody listens on these ports, nor was given them to listen on soon: from now on, we were."""
    with contextlib.ExitStack() as until_one_is_taken:
        claims = [until_one_is_taken.enter_context(socket.socket(socket.AF_UNIX)) for _ in ports]
        for port, claim in zip(ports, claims, strict=True):
            try:
                claim.bind(f"\0{MARKER}-{port}")
                with socket.socket() as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(("127.0.0.1", port))
            except OSError:
                return False
        for claim in claims:
            claim.detach()  # open until this process ends
    return True
