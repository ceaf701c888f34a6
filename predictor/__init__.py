"""Profiles to slowdowns of jobs that share a GPU. Knows nothing of Slurm."""
