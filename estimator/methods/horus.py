"""Horus' formula (Yeung et al., TPDS 2022), as section 5.3.1 of the dissertation states it. Pure.

``Mem = (B x A + P) + (B x G) + d``: batch size, activations, parameters, gradients and the framework's overhead. The
artifacts that apply it take as many gradients as there are parameters, for every sample; so do we, which is where its
large over-estimates come from.
"""

from __future__ import annotations

from estimator.family import family_of
from estimator.fingerprint import fingerprint
from estimator.gpus import lookup
from estimator.shapes import reckonable, with_shapes
from estimator.types import Estimate, ModelSummary, Workload
from estimator.walk import elements, layers

_BYTES = {"fp32": 4, "amp": 4, "bf16": 2, "fp16": 2}
_MIB = 2**20
# No GPU has more; keeps the numbers of a garbage request printable.
_MOST_MIB = 10**12


class Horus:
    """The formula as a method; nothing is learned, ``expected`` and ``upper`` are the same."""

    @property
    def name(self) -> str:
        """Name under which commands and configuration know the method."""
        return "horus"

    def predict(self, summary: ModelSummary, workload: Workload) -> Estimate:
        """Estimate by the formula.

        Args:
            summary: the model; shapes that it does not show are derived first.
            workload: batch size and precision matter, and whether gradients exist.

        Raises:
            SummaryError: no shapes can be derived.
        """
        with reckonable():
            shaped = with_shapes(summary, workload)
        found = layers(shaped.root)
        activations = sum(elements(layer.output_shape) for layer in found if not layer.children)
        batch = workload.batch_size
        gradients = shaped.total_params if workload.kind == "train" else 0
        count = (batch * activations + shaped.total_params) + batch * gradients
        gpu = lookup(workload.gpu)
        mib = min(-(-count * _BYTES[workload.precision] // _MIB) + gpu.context_mib, _MOST_MIB)
        return Estimate(
            expected_mib=mib,
            upper_mib=mib,
            method=self.name,
            family=family_of(found),
            fingerprint=fingerprint(summary, workload),
            reasons=(
                f"{activations:,} activations a sample, {shaped.total_params:,} parameters, batch {batch}",
                f"{gpu.context_mib} MiB of CUDA context ({gpu.name})",
                *shaped.inferred,
                *([shaped.unused] if shaped.unused else []),
            ),
            note=shaped.note,
        )
