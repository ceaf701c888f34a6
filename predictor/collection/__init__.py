"""Measures how workloads disturb each other on a GPU: workloads, resident workers, and who runs when."""
