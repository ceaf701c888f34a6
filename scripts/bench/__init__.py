"""Measurements, each of which prints a table: of RAD on a real Slurm (`scripts/bench/run --help` lists them), and others."""
