"""What Slurm runs and what talks to Slurm: hooks, radd, node side, records, radctl."""
