"""A real Slurm for the tests of this folder: see scripts/devcluster."""

from __future__ import annotations

import logging
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.devcluster import Cluster, Layout, Rad, free_base_port
from slurm_hooks.records import Record, decode

CHECKOUT = Path(__file__).resolve().parents[2]
LOG = logging.getLogger(__name__)

# A partition for each way in which RAD may treat it; `gpu` is the default, `plain` is not in rad.toml.
PARTITIONS = ("gpu", "pack", "limited", "advise", "shadow", "off", "plain")
CONFIG = """
[defaults]
default_smact = 0.1

[radd]
poll_s = 1
unpin_after_s = 5

[partitions.pack]
gpu_model = "h200"
placement = "mug"

[partitions.limited]
gpu_model = "h200"
placement = "mug"
threads = "max-min"
"""
# The breaker closes again soon, so that a test that opened it need not wait for long; and a machine that runs other
# things beside the tests may take its time to answer.
HOOK = (("breaker_seconds", "2"), ("deadline", "0.3"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs a cluster."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)


ONE_GPU = ("gres:gpu:1", "gres/gpu:1")  # a request for one GPU, as 22.05 and as later versions show it


def new_directory() -> Path:
    """A folder that ordinary users can enter (pytest's own temporary folders they cannot)."""
    directory = Path(tempfile.mkdtemp(prefix="rad-test-"))
    directory.chmod(0o755)
    return directory


@pytest.fixture(scope="session")
def plain_cluster() -> Iterator[Cluster]:
    """Slurm without RAD: one node, two GPUs."""
    directory = new_directory()
    cluster = Cluster(Layout(directory, free_base_port(directory, 1), gpus=2), say=LOG.info)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.destroy()


@pytest.fixture
def other() -> Iterator[Cluster]:
    """A second, empty cluster that a test brings up itself."""
    directory = new_directory()
    cluster = Cluster(Layout(directory, free_base_port(directory, 1), gpus=1), say=LOG.info)
    yield cluster
    cluster.destroy()


@pytest.fixture(scope="session")
def rad_cluster() -> Iterator[Cluster]:
    """Slurm with RAD: two nodes with two GPUs each."""
    directory = new_directory()
    config = directory / "site.toml"
    config.write_text(CONFIG)
    layout = Layout(directory, free_base_port(directory, 2), nodes=2, gpus=2, partitions=PARTITIONS)
    cluster = Cluster(layout, Rad(CHECKOUT, Path(sys.executable), config, HOOK), LOG.info)
    try:
        cluster.up()
        cluster.wait_until_radd_sees()
        yield cluster
    finally:
        cluster.destroy()


@pytest.fixture
def cluster(rad_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with RAD, idle; a test may stop its daemons: they are started again before the next."""
    rad_cluster.up()
    yield rad_cluster
    rad_cluster.up()
    rad_cluster.cancel_all()


def record_of(cluster: Cluster, job: int | str) -> Record | None:
    """A job's record as slurmctld keeps it."""
    return decode(cluster.job(job).get("AdminComment", ""))


def need_record(cluster: Cluster, job: int | str) -> Record:
    """A job's record; a test fails where there is none."""
    record = record_of(cluster, job)
    assert record is not None, cluster.job(job)
    return record


def output(cluster: Cluster, job: int | str, user: str = "alice") -> str:
    """What a job that has ended wrote."""
    return (cluster.home(user) / f"slurm-{job}.out").read_text()


def shares(request: str) -> int | None:
    """Shares in a request such as `gres:mps:g1:30`, or None."""
    found = re.fullmatch(r"gres[:/]mps(?::[A-Za-z]\w*)?:(\d+)", request)
    return int(found.group(1)) if found else None
