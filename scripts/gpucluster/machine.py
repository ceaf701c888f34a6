"""The cluster on this machine: its GPUs, RAD's configuration for them, bringing all of it up and down.

Touches what `scripts.gpucluster.packages` and `scripts.devcluster` touch, and ends MPS daemons of this cluster.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable
from pathlib import Path

from scripts.demonstration import Gpus, find_gpus
from scripts.devcluster import Cluster, ClusterError, Layout, Rad, free_base_port, processes
from scripts.gpucluster import packages
from slurm_hooks import config as configuration
from slurm_hooks.node import mps

CHECKOUT = Path(__file__).resolve().parents[2]
DIRECTORY = Path("/tmp/rad-gpu")  # noqa: S108  (a folder of root's, made with mode 0755)
PACKAGES = CHECKOUT / ".gpu-cluster" / "debs"
MONITOR_PORT = 336
# Shares follow memory alone here: a scenario says with its claims who fits beside whom.
CONFIG = """
[radd]
poll_s = 1
learn_s = 5
learn_days = 1

[estimator]
method = "rad"

[defaults]
default_smact = 0.02
smact_cap = 2.0
gpu_memory_mib = {memory}

[partitions.limited]
gpu_model = "{model}"
threads = "max-min"

[mps]
grace_s = {grace}
users = "{users}"
{control}

[monitor]
window_s = 10
source = "monitors"
url = "http://127.0.0.1:{port}"
port = {port}
read_s = 2
"""
GRACE_S = 5


@dataclasses.dataclass(frozen=True)
class Machine:
    """A cluster on this machine's GPUs.

    Attributes:
        cluster: Slurm and RAD.
        gpus: the GPUs; no devices where stand-ins are used.
    """

    cluster: Cluster
    gpus: Gpus

    @property
    def real(self) -> bool:
        """Whether there are GPUs."""
        return bool(self.gpus.devices)

    @property
    def mps(self) -> bool:
        """Whether there is a control program of MPS, NVIDIA's or one given in its place."""
        return mps.available(self.settings().mps)

    def settings(self) -> configuration.Config:
        """RAD's configuration as it was written."""
        return configuration.load(self.cluster.layout.rad_toml)


def require_root() -> None:
    """Go on as root alone.

    Raises:
        ClusterError: if we are not.
    """
    if os.geteuid() != 0:
        raise ClusterError("a cluster needs root: packages are unpacked below /, and slurmd starts jobs as their users")


def up(
    say: Callable[[str], None],
    users: str = "single",
    folder: Path = PACKAGES,
    stand_ins: int = 1,
    control: Path | None = None,
) -> Machine:
    """Bring all of it up.

    Args:
        say: gets a line for each step.
        users: [mps] users.
        folder: holds the package files.
        stand_ins: number of stand-in devices where there is no GPU.
        control: program in the place of MPS's control program, for rehearsals.

    Raises:
        PackageError, ClusterError: if a part cannot be had.
    """
    require_root()
    for line in packages.unpack(folder):
        say(line)
    gpus = find_gpus(most=None)
    DIRECTORY.mkdir(mode=0o755, exist_ok=True)
    layout = Layout.load(DIRECTORY)
    if layout is None or not processes.members(DIRECTORY):
        layout = Layout(
            DIRECTORY,
            free_base_port(DIRECTORY, 1),
            gpus=len(gpus.devices) or stand_ins,
            partitions=("gpu", "streams", "limited"),
            gpu_model=gpus.model,
            real_gpus=gpus.devices,
        )
    site = DIRECTORY / "site.toml"
    text = CONFIG.format(
        memory=gpus.memory_mib,
        users=users,
        model=gpus.model,
        port=MONITOR_PORT,
        grace=GRACE_S,
        control=f'control = "{control}"' if control else "",
    )
    site.write_text(text, encoding="utf-8")
    machine = Machine(Cluster(layout, Rad(CHECKOUT, Path(sys.executable), site, monitor=True), say), gpus)
    say(f"GPUs: {', '.join(gpus.devices) or f'none, {layout.gpus} stand-in(s)'} ({gpus.model}, {gpus.memory_mib} MiB)")
    machine.cluster.up()
    return machine


def down(say: Callable[[str], None]) -> None:
    """End all of it, MPS daemons too, and remove its folder."""
    layout = Layout.load(DIRECTORY)
    if layout is None:
        say("no cluster was brought up")
        return
    Cluster(layout, Rad(CHECKOUT, Path(sys.executable), monitor=True), say).destroy()
