"""Build RAD: plain Python, or with what is on the way to an answer compiled by mypyc where RAD_COMPILE=1 asks for it.

All else stands in setup.cfg. A compiled estimate takes about half the time, a decision too, and both are the same to
the last digit (tests/estimator/test_compiled.py). `scripts/install --compile` brings what this needs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import Extension, setup

# What runs between a request and its answer. Not the packages' own files: a compiled package hides modules of
# it that are not. Constants are Final in them: others are looked up by name, each time.
COMPILED = (
    "estimator/adapters.py",
    "estimator/blocks.py",
    "estimator/family.py",
    "estimator/fingerprint.py",
    "estimator/inputs.py",
    "estimator/kept.py",
    "estimator/layer.py",
    "estimator/methods/rad/familiar.py",
    "estimator/methods/rad/features.py",
    "estimator/methods/rad/keeping.py",
    "estimator/methods/rad/kinds.py",
    "estimator/methods/rad/known.py",
    "estimator/methods/rad/liveness.py",
    "estimator/methods/rad/method.py",
    "estimator/methods/rad/own_code.py",
    "estimator/methods/rad/program/attention.py",
    "estimator/methods/rad/program/builder.py",
    "estimator/methods/rad/program/compiler.py",
    "estimator/methods/rad/program/convolutions.py",
    "estimator/methods/rad/program/entry.py",
    "estimator/methods/rad/program/flow.py",
    "estimator/methods/rad/program/hidden.py",
    "estimator/methods/rad/program/leaves.py",
    "estimator/methods/rad/program/of_types.py",
    "estimator/methods/rad/program/products.py",
    "estimator/methods/rad/program/steps.py",
    "estimator/methods/rad/program/weights.py",
    "estimator/methods/rad/resemblance.py",
    "estimator/methods/rad/trees.py",
    "estimator/methods/rad/unopened.py",
    "estimator/methods/rad/workspace.py",
    "estimator/outputs.py",
    "estimator/packed.py",
    "estimator/parallel.py",
    "estimator/parametrized.py",
    "estimator/pools.py",
    "estimator/parsers/keras.py",
    "estimator/parsers/module.py",
    "estimator/parsers/recurrent.py",
    "estimator/parsers/summary.py",
    "estimator/parsers/text.py",
    "estimator/parsers/torchinfo.py",
    "estimator/parsers/torchsummary.py",
    "estimator/parsers/tree.py",
    "estimator/parsers/whole.py",
    "estimator/shapes/fill.py",
    "estimator/shapes/follower.py",
    "estimator/shapes/leaves.py",
    "estimator/shapes/folded.py",
    "estimator/shapes/grown.py",
    "estimator/shapes/listed.py",
    "estimator/shapes/order.py",
    "estimator/shapes/series.py",
    "estimator/shapes/sources.py",
    "estimator/shapes/start.py",
    "estimator/shapes/tables.py",
    "estimator/shapes/time_first.py",
    "estimator/shapes/widths.py",
    "estimator/sharing.py",
    "estimator/sizes.py",
    "estimator/sparse.py",
    "estimator/versions.py",
    "estimator/versions_timm.py",
    "estimator/walk.py",
    "predictor/profiles.py",
    "slurm_hooks/amounts.py",
    "slurm_hooks/answer.py",
    "slurm_hooks/cluster.py",
    "slurm_hooks/columns.py",
    "slurm_hooks/decision.py",
    "slurm_hooks/directives.py",
    "slurm_hooks/estimating.py",
    "slurm_hooks/gpus.py",
    "slurm_hooks/interference.py",
    "slurm_hooks/memory.py",
    "slurm_hooks/mig.py",
    "slurm_hooks/placement.py",
    "slurm_hooks/radd/protocol.py",
    "slurm_hooks/reach.py",
    "slurm_hooks/reading.py",
    "slurm_hooks/record_text.py",
    "slurm_hooks/request.py",
    "slurm_hooks/service.py",
    "slurm_hooks/shares.py",
    "slurm_hooks/starts.py",
)


def extensions() -> list[Extension]:
    """The compiled modules, or none."""
    if os.environ.get("RAD_COMPILE", "0") != "1":
        return []
    if {"develop", "editable_wheel"} & set(sys.argv):
        raise SystemExit("RAD_COMPILE=1 is not for an editable install: what you edit would not be what runs")
    try:
        from mypyc.build import mypycify  # noqa: PLC0415
    except ImportError:
        raise SystemExit(
            "RAD_COMPILE=1 needs mypy beside setuptools: pip install mypy setuptools, "
            "then pip install --no-build-isolation with it; or use scripts/install --compile"
        ) from None
    os.chdir(Path(__file__).resolve().parent)
    # What other modules' types are in another version of numpy is no reason not to compile these.
    paths = ["--follow-imports=silent", *COMPILED]
    made: list[Extension] = mypycify(
        paths, opt_level=os.environ.get("RAD_COMPILE_LEVEL", "3"), debug_level="0", group_name="rad"
    )
    return made


setup(ext_modules=extensions())
