"""A real Slurm on one machine, without systemd: for the tests, the demo, the benchmarks and for trying things out.

Uses nothing but the standard library, so that it runs before anything of the project is installed.
"""

from scripts.devcluster.cluster import Cluster, ClusterError, CommandResult
from scripts.devcluster.layout import Layout, Rad, free_base_port

__all__ = ["Cluster", "ClusterError", "CommandResult", "Layout", "Rad", "free_base_port"]
