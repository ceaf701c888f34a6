"""A real Slurm for the tests of this folder: see scripts/devcluster."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.devcluster import Cluster, Layout, free_base_port

LOG = logging.getLogger(__name__)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs a cluster."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)


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
