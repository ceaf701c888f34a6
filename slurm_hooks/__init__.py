"""What Slurm runs and what talks to Slurm: hooks, radd, node side, records, radctl."""

__version__ = "0.1.0"
