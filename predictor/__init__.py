"""Profiles to slowdowns of jobs that share a GPU. Knows nothing of Slurm."""

from predictor.weights import load_predictor

__all__ = ["load_predictor"]
