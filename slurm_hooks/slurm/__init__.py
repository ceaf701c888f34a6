"""The one adapter to Slurm: commands, or pyslurm where its version matches."""
