"""A real Slurm for the tests of this folder: see scripts/devcluster."""

from __future__ import annotations

import logging
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from scripts.devcluster import Cluster, Layout, Rad, free_base_port
from slurm_hooks.records import Record, decode
from slurm_hooks.slurm.versions import RETYPE_SINCE

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
decide_s = 0.2

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
HOOK = (("breaker_seconds", "2"), ("deadline", "0.6"))


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


def _plain(directory: Path, port: int) -> Cluster:
    """Slurm without RAD: one node, two GPUs."""
    return Cluster(Layout(directory, port, gpus=2), say=LOG.info)


def _with_rad(directory: Path, port: int) -> Cluster:
    """Slurm with RAD: two nodes with two GPUs each."""
    config = directory / "site.toml"
    config.write_text(CONFIG)
    layout = Layout(directory, port, nodes=2, gpus=2, partitions=PARTITIONS)
    return Cluster(layout, Rad(CHECKOUT, Path(sys.executable), config, HOOK), LOG.info)


def _with_instances(directory: Path, port: int) -> Cluster:
    """Slurm with RAD: one node with five MIG instances in three profiles."""
    instances = ("1g.18gb", "1g.18gb", "1g.18gb", "2g.35gb", "3g.71gb")
    layout = Layout(directory, port, gpus=0, partitions=("mig",), instances=instances)
    return Cluster(layout, Rad(CHECKOUT, Path(sys.executable)), LOG.info)


_MAKERS = {"plain_cluster": _plain, "rad_cluster": _with_rad, "mig_cluster": _with_instances}


def _up(cluster: Cluster) -> None:
    """Start what does not run, and wait until jobs share: before radd has looked they go through as written."""
    cluster.up()
    if cluster.rad is not None:
        cluster.wait_until_radd_sees()


def _brought_up(cluster: Cluster) -> Cluster:
    try:
        _up(cluster)
    except BaseException:
        cluster.destroy()
        raise
    return cluster


class Clusters:
    """The clusters that tests ask for: all come up at once, and go, in the background, as each mostly waits."""

    def __init__(self, names: set[str]) -> None:
        self._pool = ThreadPoolExecutor(len(_MAKERS))
        self._starts: dict[str, Future[Cluster]] = {}
        self._ends: list[Future[None]] = []
        for name in sorted(names):
            directory = new_directory()
            port = free_base_port(directory, 2)
            self._starts[name] = self._pool.submit(_brought_up, _MAKERS[name](directory, port))

    def lend(self, name: str) -> Iterator[Cluster]:
        """What a fixture of this name yields."""
        cluster = self._starts.pop(name).result()
        yield cluster
        self._ends.append(self._pool.submit(cluster.destroy))

    def end(self) -> None:
        """Wait until nothing of them runs any more, also of those that nobody came to use."""
        for start in self._starts.values():
            if start.exception() is None:
                start.result().destroy()
        self._pool.shutdown()
        for end in self._ends:
            end.result()


@pytest.fixture(scope="session")
def clusters(request: pytest.FixtureRequest) -> Iterator[Clusters]:
    """What the chosen tests stand on; it goes as after Ctrl-C when the tests are told to end (scripts/test)."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    names = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
    made = Clusters(names & set(_MAKERS))
    yield made
    made.end()


@pytest.fixture(scope="module")
def plain_cluster(clusters: Clusters) -> Iterator[Cluster]:
    """Slurm without RAD: one node, two GPUs."""
    yield from clusters.lend("plain_cluster")


@pytest.fixture(scope="session")
def rad_cluster(clusters: Clusters) -> Iterator[Cluster]:
    """Slurm with RAD: two nodes with two GPUs each."""
    yield from clusters.lend("rad_cluster")


@pytest.fixture(scope="module")
def mig_cluster(clusters: Clusters) -> Iterator[Cluster]:
    """Slurm with RAD: one node with five MIG instances in three profiles."""
    yield from clusters.lend("mig_cluster")


def whole(cluster: Cluster) -> Cluster:
    """The cluster with all of its daemons; a test may have stopped some."""
    if not all(cluster.is_up(name) for name in cluster.daemons()):
        _up(cluster)
    return cluster


@pytest.fixture
def cluster(rad_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with RAD, idle; a test may stop its daemons: they are started again before the next."""
    yield whole(rad_cluster)
    whole(rad_cluster).cancel_all()


UNTIL_TOLD = 'until [ -e "go-$SLURM_JOB_ID" ]; do sleep 0.1; done\n'
"""The end of a script whose job runs until `tell`."""


def tell(cluster: Cluster, job: int, user: str = "alice") -> None:
    """Let a job end that waits for it."""
    (cluster.home(user) / f"go-{job}").touch()


def record_of(cluster: Cluster, job: int | str) -> Record | None:
    """A job's record as slurmctld keeps it."""
    return decode(cluster.job(job).get("AdminComment", ""))


def need_record(cluster: Cluster, job: int | str) -> Record:
    """A job's record; a test fails where there is none."""
    record = record_of(cluster, job)
    assert record is not None, cluster.job(job)
    return record


def outcome_of(cluster: Cluster, job: int, restart: int = 0) -> Callable[[], bool]:
    """Whether slurmdbd has the end of a job's last run, behind so many others: it may have that of one before."""

    def known() -> bool:
        record = accounted(cluster, job)
        last = record.runs[-1] if record is not None and record.runs else None
        return last is not None and bool(last.outcome) and (last.restart or 0) >= restart

    return known


def accounted(cluster: Cluster, job: int) -> Record | None:
    """A job's record as slurmdbd keeps it."""
    rows = cluster.sacct(job, "AdminComment")
    return decode(rows[-1]["AdminComment"]) if rows else None


def version(cluster: Cluster) -> tuple[int, int]:
    """Slurm's major version, for example (22, 5)."""
    major, minor = cluster.run(["sinfo", "--version"]).out.split()[1].split(".")[:2]
    return int(major), int(minor)


def can_retype(cluster: Cluster) -> bool:
    """Whether this Slurm can give a pending job another device type."""
    return version(cluster) >= RETYPE_SINCE


def output(cluster: Cluster, job: int | str, user: str = "alice") -> str:
    """What a job that has ended wrote."""
    return (cluster.home(user) / f"slurm-{job}.out").read_text()


def output_so_far(cluster: Cluster, job: int, user: str = "alice") -> str:
    """What a job has written, if anything."""
    try:
        return output(cluster, job, user)
    except FileNotFoundError:
        return ""


def shares(request: str) -> int | None:
    """Shares in a request such as `gres:mps:g1:30`, or None."""
    found = re.fullmatch(r"gres[:/]mps(?::[A-Za-z]\w*)?:(\d+)", request)
    return int(found.group(1)) if found else None
