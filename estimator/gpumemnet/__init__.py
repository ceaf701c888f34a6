"""GPUMemNet as the dissertation describes it (section 5.4.4): memory as a class, learned from summaries.

Two estimators, an ensemble of 13 MLPs and a Transformer over the sequence of layers; training needs
torch (``train``), inference is numpy (``nets``).
"""

from estimator.gpumemnet.method import GpuMemNet

__all__ = ["GpuMemNet"]
