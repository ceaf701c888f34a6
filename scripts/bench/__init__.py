"""Measurements, each of which prints a table; `scripts/bench/run --help` lists those of RAD on a real Slurm."""
