"""Summary text to `ModelSummary`, whichever tool printed it. Pure; raises `SummaryError` and nothing else."""

from estimator.parsers.summary import parse_summary
from estimator.types import SummaryError

__all__ = ["SummaryError", "parse_summary"]
