"""One workload in a process of its own, as a user's program would run it: what `radctl profile` is tried on.

Started as ``python -m predictor.collection.solo NAME``. Runs until it is stopped, or as long as it is told to.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import deque
from collections.abc import Sequence

from predictor.collection.specs import spec_of
from predictor.hook import iteration

AHEAD = 2


def main(arguments: Sequence[str]) -> None:
    """Build the workload and iterate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--say", choices=["hook", "line", "nothing"], default="hook", help="how iterations are told")
    parser.add_argument("--iterations", type=int, default=0, help="end after so many")
    parser.add_argument("--fail-after-s", type=float, default=float("inf"), help="fail after so many seconds of them")
    options = parser.parse_args(arguments)
    import torch  # noqa: PLC0415 - a wrong argument is told without waiting for it

    from predictor.collection.workloads import build  # noqa: PLC0415

    cuda = options.device == "cuda"
    step = build(spec_of(options.name), options.device, options.tiny)
    queued: deque[torch.cuda.Event] = deque()
    begun = time.monotonic()
    for count in itertools.count(1):
        step()
        if cuda:
            queued.append(torch.cuda.Event())
            queued[-1].record()
            if len(queued) > AHEAD:
                queued.popleft().synchronize()
        if options.say == "hook":
            iteration()
        elif options.say == "line":
            print(f"step {count}: {time.monotonic() - begun:.3f} s")  # noqa: T201 - what a training would print
        if count == options.iterations:
            return
        if time.monotonic() - begun > options.fail_after_s:
            raise RuntimeError("the training failed, as it was told to")


if __name__ == "__main__":
    main(sys.argv[1:])
