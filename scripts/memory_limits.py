"""How near a bound could come that knew what PyTorch's allocator really handed out in each run.

No summary can tell that, and in what format it is printed hardly matters: one that shows all layers stands for all.
What is left then is the allocator's own choice of how much it reserves beyond it: however good an account of tensors,
its bounds come no nearer. A rehearsal follows the allocator, too (`estimator.rehearsals`). Judged as RAD's own bounds
are (`estimator.methods.rad.fit.reached`).

``python -m scripts.memory_limits FILE`` writes it as JSON, in minutes on 16 cores.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from estimator.dataset import store
from estimator.dataset.specs import FITTED
from estimator.methods.rad import NAME
from estimator.methods.rad.fit.bounds import learned
from estimator.methods.rad.fit.examples import Example, examples_of, whole
from estimator.methods.rad.fit.holdout import held_out
from estimator.methods.rad.fit.learners import TREES
from estimator.methods.rad.fit.reached import LeftOut, left_out
from estimator.methods.rad.retrain import accounting
from estimator.store import store_for


def allocator(examples: Sequence[Example]) -> LeftOut:
    """Judge bounds that rest on what the allocator handed out.

    Args:
        examples: measured runs.
    """
    known = [replace(item, accounted=item.allocated or item.accounted, alone=None) for item in examples]
    _, held = held_out(known, TREES)
    return left_out(held, learned(held, TREES)[1])


def of_dataset(dataset: store.Dataset) -> LeftOut:
    """Judge them on all runs that RAD's model is fitted to, with the shipped model's account."""
    model = store_for(NAME, None).load()
    return allocator(examples_of(dataset, accounting(model), FITTED, prints=whole))


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--data", type=Path, default=store.DEFAULT, help="folder of our packed data set")
    options = parser.parse_args()
    options.file.write_text(json.dumps(asdict(of_dataset(store.load(options.data)))), "utf-8")


if __name__ == "__main__":
    main()
