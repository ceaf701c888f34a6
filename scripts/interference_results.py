"""Writes docs/results/interference.md and its figures: KACE's results beside ours, and our own H200 measurements.

    scripts/results_interference --artifact DIR                # DIR: KACE's artifact (pairs_v100.csv, splits/, ...)
    scripts/results_interference --artifact DIR --quick        # without AutoML and without figures
    scripts/results_interference --fit                         # first fit the bundled weights to predictor/data

Every number on the page comes from this command. Published values stand beside ours where there are any.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from predictor.bundled import fit_bundled, fit_estimates
from scripts.interference_artifact import write_artifact
from scripts.interference_measured import write_measured
from scripts.interference_page import Page

ROOT = Path(__file__).resolve().parent.parent


def write_page(artifact: Path, data: Path, output: Path, *, quick: bool = False) -> Path:
    """Write ``interference.md`` and its figures into ``output``; ``quick``: without AutoML and without figures."""
    page = Page(None if quick else output / "interference")
    page.text("# Interference: what jobs do to each other on one GPU")
    page.text(
        "Written by `scripts/results_interference --artifact DIR`; DIR is KACE's artifact "
        "(SoCC'24, nba556677go/KACE-artifact). Published values stand beside ours."
    )
    write_artifact(page, artifact, quick=quick)
    write_measured(page, data)
    path = output / "interference.md"
    output.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(page.lines).rstrip() + "\n", encoding="utf-8")
    return path


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifact", type=Path, help="folder of KACE's artifact")
    parser.add_argument("--data", type=Path, default=ROOT / "predictor" / "data", help="our measurements")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "results", help="folder of the page")
    parser.add_argument("--quick", action="store_true", help="no AutoML, no figures")
    parser.add_argument("--fit", action="store_true", help="fit the bundled weights first")
    options = parser.parse_args()
    if options.fit:
        for line in fit_bundled(options.data):
            print(line)
        print(fit_estimates(options.data))
    if options.artifact:
        print(write_page(options.artifact, options.data, options.output, quick=options.quick))
