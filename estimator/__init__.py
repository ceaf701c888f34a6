"""Model summaries to GPU memory. Knows nothing of Slurm; inference imports no torch."""
