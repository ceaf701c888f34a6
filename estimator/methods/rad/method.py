"""The method itself: from a summary to an estimate, one step after the other. Reads a learned model from its folder."""

from __future__ import annotations

import gc
from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Any, Final, NamedTuple

from estimator.adapters import without_adapters
from estimator.fingerprint import fingerprint
from estimator.gpus import Gpu, lookup, most_memory_mib
from estimator.methods.rad.convolutions import Convolves, read_convolutions
from estimator.methods.rad.errors import bounded, size_of
from estimator.methods.rad.features import FEATURES, MIB, features, fixed_share
from estimator.methods.rad.kinds import Kind, attends, kind_of
from estimator.methods.rad.known import KNOWLEDGE, LEVELS, Knowledge, Known, Level, Run, finite, run_of, shifted
from estimator.methods.rad.liveness import Memory, measure, measure_part
from estimator.methods.rad.own_code import OwnCode
from estimator.methods.rad.program import Part, Program, compile_program, part_of
from estimator.methods.rad.rehearsed import Rehearsed, account
from estimator.methods.rad.trees import Trees
from estimator.methods.rad.workspace import Workspaces
from estimator.parallel import beside
from estimator.rehearsals.lines import of_workload
from estimator.shapes import reckonable, with_shapes
from estimator.shapes.tables import sequence_first
from estimator.sparse import sparse
from estimator.store import ModelError, store_for
from estimator.types import KINDS, LIBRARIES, Estimate, ModelSummary, Packed, SummaryError, Workload

NAME: Final = "rad"
# A GPU that nothing was measured on takes other convolution algorithms and another context; nothing says by how much,
# so that the bound is widened by a round number.
_OTHER_GPU: Final = 1.10
_UNKNOWN_GPU: Final = 1.20
_MOST_MIB: Final = 10.0**12
_SAID: Final = {
    "repeated": "this configuration was measured: that is the estimate",
    "measured": "this architecture was measured (runs: {0.runs}): that corrects the account and narrows the bound",
    "kin": "other models of the same blocks were measured: that corrects the account and narrows the bound",
    "similar": "models of almost the same blocks were measured: that corrects the account",
    "new": "nothing like this model was measured: the bound is wide until its first run; "
    "a rehearsal (radctl summarize, told what goes in) narrows it",
}
_LONGER: Final = (
    "the bound has room for gradients that stay until the next backward pass, as where batches' are added up"
)
_REHEARSED: Final = "its own code was rehearsed on tensors without data: that is the account, and narrows the bound"
_APART: Final = f"{_REHEARSED}; at another batch size: `radctl summarize --batch-size` with the job's narrows it more"
_PARTLY: Final = "{0:,} of {1:,} parameters are trained: what only the others' gradients would need is not kept"
_PARTLY_NEW: Final = f"{_PARTLY}; nothing like this model was measured, so that the bound is wide"
_UNREHEARSED: Final = (
    "nothing like this model was measured, and no such run of it was rehearsed: the bound is wide until its first run"
)
_WEIGHS: Final = (
    "nn.MultiheadAttention keeps the matrices of its weights unless its caller says need_weights=False, which no "
    "summary shows: the bound has room for them"
)
# Where so much of a new model's parameters is in nothing that the account knows, a print cannot be understood, and the
# bound of a table is wider by a round number.
_MOST_UNKNOWN: Final = 0.5
_OF_OTHERS: Final = "Parametriz"  # of `torch.nn.utils.parametrize`: what it owns is the layer's
_BARE: Final = 1.5
# What was measured of an architecture itself says more than a rehearsal.
_BETTER: Final = ("repeated", "measured")
# Where trainings of all of a model were measured, about one in a hundred of those of a part that ran on an H100 took
# more than so many times what was expected (`scripts/check_parts.py`, other seeds than docs/trainings.md's).
_ALIKE: Final = (*_BETTER, "kin")
_PART: Final = 1.15


def within(upper: float, expected: float, memory_mib: int) -> float:
    """Bound a bound: more than the whole GPU cannot be reserved, but what is expected is said whatever it is.

    Args:
        upper: the bound, in MiB.
        expected: the best guess, in MiB.
        memory_mib: memory of the GPU in MiB; 0 where it is not known.
    """
    return min(upper, max(expected, memory_mib)) if memory_mib else upper


def _check_sizes(program: Program, shaped: ModelSummary) -> None:
    """Refuse a print that begins with layers of the user's own, where most of the parameters are in such.

    Raises:
        SummaryError: nothing tells what these layers take and give out.
    """
    total = max(shaped.total_params, 1)
    if shaped.format != "module" or program.hidden_params <= total * _MOST_UNKNOWN:
        return
    first = next((op for op in program.ops if op.params), None)
    if first is not None and first.kind is Kind.OPAQUE:
        raise SummaryError(
            f"this print shows no sizes of the layers that hold {100 * program.hidden_params / total:.0f} % of the "
            "parameters: give what torchinfo or `radctl summarize --input-size` prints, or claim `#RAD memory=12G`"
        )


def _as_run(workload: Workload, packed: Packed) -> Workload:
    """Say how a model with packed weights runs under autocast: its products give out what they took, mostly fp32."""
    if packed == Packed() or workload.precision != "amp":
        return workload
    return replace(workload, precision="fp32")


def _unknown(program: Program, shaped: ModelSummary) -> float:
    """Give the share of a model's parameters that blocks of a table own beside their layers.

    Raises:
        SummaryError: see `_check_sizes`.
    """
    _check_sizes(program, shaped)
    if shaped.format != "torchinfo":
        return 0.0
    total, own = max(shaped.total_params, 1), 0
    for layer, _, _, _ in program.ends:
        if layer.params and layer.children and kind_of(layer.type) is Kind.VIEW:
            own += 0 if attends(layer.type) or layer.type.startswith(_OF_OTHERS) else layer.params
    return own / total


def _aside(held_mib: float) -> tuple[str, ...]:
    return (f"{held_mib:.0f} MiB of what the job holds beside the model",) if held_mib else ()


class _Whole(NamedTuple):
    """What is estimated of a training of a whole model.

    Attributes:
        memory: its account.
        context: the CUDA context in MiB.
        expected: expectation in MiB, context included.
        upper: its bound.
        knowledge: what was measured of the model.
    """

    memory: Memory
    context: float
    expected: float
    upper: float
    knowledge: Knowledge


class Rad:
    """The default method.

    Attributes:
        version: number of the learned model, for messages.
    """

    def __init__(self, model: dict[str, Any], version: int = 0) -> None:
        """Take a learned model.

        Args:
            model: what `estimator.methods.rad.fit` makes and `estimator.store` keeps.
            version: its number.

        Raises:
            ModelError: the model is damaged or was made for other features.
        """
        self.version = version
        try:
            if tuple(model["features"]) != (*FEATURES, *KNOWLEDGE) or not model["bounds"].keys() >= set(LEVELS):
                raise ModelError("this model was fitted to other features: run `radctl retrain --data DIR` again")
            self.workspaces = Workspaces(model["workspaces"])
            self._whole = model["workspaces"].get("whole")
            self._convolves: Convolves | None = None
            self._correction = Trees(model["correction"], len(FEATURES))
            self._spread = {level: Trees(model["spread"][level], len(FEATURES) + len(KNOWLEDGE)) for level in LEVELS}
            self._bounds = {str(key): finite(value) for key, value in model["bounds"].items()}
            self._types = frozenset(map(str, model["known"]))
            self._known = Known(model["measured"])
            self._own = OwnCode(model["own"], self._known.blocks)
            self._rehearsed = Rehearsed(model["rehearsed"]) if model.get("rehearsed") else None
            self._fitted_on = str(model["gpu"])
            contexts = model["context_mib"]
            self._contexts = {kind: {name: finite(contexts[kind][name]) for name in LIBRARIES} for kind in KINDS}
        except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(f"this model of {NAME} is damaged ({error!r}): roll back") from None

    @property
    def convolves(self) -> Convolves:
        """What tells the workspaces of convolutions to rehearsals.

        Raises:
            ModelError: this model knows none, or is damaged.
        """
        if self._convolves is None:
            if self._whole is None:
                raise ModelError("this model was made before rehearsals: run `radctl retrain --data DIR` again")
            self._convolves = read_convolutions(self._whole)
        return self._convolves

    @classmethod
    def load(cls, models_dir: Path | None = None) -> Rad:
        """Read the current version from a folder, or the one that comes with the package.

        Raises:
            ModelError: no model lies there, or it is damaged.
        """
        store = store_for(NAME, models_dir)
        collects = gc.isenabled()
        gc.disable()  # a model is many small lists, none of them garbage: to go through them takes a third of the time
        try:
            return cls(store.load(), store.current or 0)
        finally:
            if collects:
                gc.enable()

    @property
    def name(self) -> str:
        """Name under which commands and configuration know the method."""
        return NAME

    def predict(self, summary: ModelSummary, workload: Workload) -> Estimate:
        """Estimate the peak GPU memory.

        Args:
            summary: the model; shapes that it does not show are derived first.
            workload: how it is run.

        Raises:
            SummaryError: sizes in it cannot be reckoned with: no layer has zero channels, or fewer. Or its embeddings
                do not work with the optimizer.
        """
        with reckonable():
            said = sparse(summary, workload)
            found = self._predict(summary, workload)
            return replace(found, reasons=(*found.reasons, *said)) if said else found

    def _predict(self, summary: ModelSummary, workload: Workload, *, weighed: bool = False) -> Estimate:
        asked, workload = workload, _as_run(workload, summary.packed)
        shaped, program, memory = self.account(summary, workload, weighed=weighed)
        row = features(memory, program, shaped, workload, self._types)
        gpu = lookup(workload.gpu)
        explicit = memory.peak / MIB
        own = self.context(program, workload)
        shift = self.other_context(gpu)
        context = own + shift
        knowledge = self._known.about(run_of(program, shaped, workload))
        said = _SAID[knowledge.level].format(knowledge)
        expected, upper = self._from(row, explicit, own, knowledge)
        bare = _unknown(program, shaped) if knowledge.level == "new" and not shaped.rehearsals else 0.0
        upper *= _BARE if bare > _MOST_UNKNOWN else 1.0
        partly = False
        if shaped.frozen_params and workload.kind == "train":
            trained = max(shaped.total_params - shaped.frozen_params, 0)
            part = part_of(program, trained, workload.precision)
            whole = _Whole(memory, own, expected, upper, knowledge)
            memory, row, expected, upper = self._of_part(part, program, shaped, workload, whole)
            explicit = memory.peak / MIB
            partly = not part.whole
            if partly:
                said = (_PARTLY if knowledge.level in _ALIKE else _PARTLY_NEW).format(trained, shaped.total_params)
        better = knowledge.level in _BETTER and not partly and not shaped.beside_mib  # which no measured run had
        steps = None if better else self._of_rehearsal(shaped, workload, row, memory, own)
        if steps is not None:
            expected, upper, explicit, said = steps
        elif shaped.rehearsals and self._rehearsed is not None and knowledge.level == "new":
            said = _UNREHEARSED
        held = shaped.beside_mib if steps is None else 0.0  # rehearsals hold it
        wider = 1.0 if self._as_measured(gpu) else _OTHER_GPU if gpu.memory_mib else _UNKNOWN_GPU
        more = beside(shaped, workload)
        expected = max(expected + shift, context + memory.fixed / MIB) + more.expected_mib
        expected = min(expected + held, _MOST_MIB)
        memory_mib = workload.gpu_memory_mib or most_memory_mib(workload.gpu)
        upper = max((upper + shift) * wider + more.upper_mib + held, expected)
        room = expected + memory.longer / MIB  # for loops that free gradients late, which no summary shows
        open_ = program.weighs and not weighed and knowledge.level not in _ALIKE and said not in (_REHEARSED, _APART)
        upper = max(upper, room, self._otherwise(summary, shaped.steps, workload, weighs=open_))
        most = within(upper, expected, memory_mib)
        reasons = (said, *self._reasons(memory, explicit, context, gpu, shaped), *_aside(held), *more.reasons)
        reasons += (*([_WEIGHS] if open_ else ()), *([_LONGER] if expected < room == upper else ()))
        if bare > _MOST_UNKNOWN:
            share = f"{100 * bare:.0f} % of the parameters are in no layer of the table"
            reasons = (reasons[0], f"{share}: a wider bound, as what they do is not known", *reasons[1:])
        if 0 < memory_mib < expected:
            reasons = (f"more than the GPU's memory of {memory_mib} MiB is expected", *reasons)
        elif most < upper:
            reasons = (f"the bound of {upper:.0f} MiB was cut to the GPU's memory of {memory_mib} MiB", *reasons)
        upper = min(most, _MOST_MIB)
        return Estimate(
            expected_mib=round(expected),
            upper_mib=round(upper),
            method=f"{NAME} {self.version}",
            family=program.family,
            fingerprint=fingerprint(summary, asked),
            reasons=reasons,
            note=shaped.note,
        )

    def _of_rehearsal(
        self, shaped: ModelSummary, workload: Workload, row: list[float], memory: Memory, context: float
    ) -> tuple[float, float, float, str] | None:
        """Estimate by what the model's own code took; None where that was not rehearsed.

        Returns:
            Expectation and bound in MiB, context included; the account without it; and what is said of it.
        """
        found = of_workload(shaped.rehearsals, workload)
        if found is None or self._rehearsed is None:
            return None
        rehearsed = account(found, row, memory)
        return *self._rehearsed.of(rehearsed, context), rehearsed.mib, _APART if found.apart else _REHEARSED

    def _otherwise(self, summary: ModelSummary, steps: int, workload: Workload, *, weighs: bool) -> float:
        """Say how much the bound must be in MiB if what the summary leaves open is otherwise; 0 where nothing is open.

        Weights are taken of as many heads as are usual, and dropped: they are expected to take no more than that.

        Args:
            summary: as it was read.
            steps: see `ModelSummary`.
            workload: how it is run.
            weighs: whether attentions may give out their weights.
        """
        upper = 0.0
        if steps:
            upper = float(self._predict(sequence_first(summary, steps), workload).upper_mib)
        if weighs:
            upper = max(upper, self._predict(summary, workload, weighed=True).expected_mib)
        return upper

    def from_account(
        self, row: list[float], explicit: float, context: float, run: Run, longer: float = 0.0
    ) -> tuple[float, float, Level]:
        """Correct an account.

        Args:
            row: features of the request.
            explicit: the account's peak in MiB, without the context.
            context: the CUDA context in MiB.
            run: the request, as it is compared with what was measured.
            longer: how much more a loop takes that frees gradients late, in MiB.

        Returns:
            Expectation and upper bound in MiB on the GPU that the model was fitted on, context included; and what was
            known.
        """
        knowledge = self._known.about(run)
        expected, upper = self._from(row, explicit, context, knowledge)
        return expected, max(upper, expected + longer), knowledge.level

    def _from(self, row: list[float], explicit: float, context: float, knowledge: Knowledge) -> tuple[float, float]:
        corrected = (explicit + context) * exp(self._correction.predict(row))
        fixed = explicit * fixed_share(row) + context
        expected, share = shifted(corrected, fixed, knowledge.shift)
        said = self._spread[knowledge.level].predict([*row, *knowledge.features(share)])
        return expected, bounded(expected, size_of(said, share) * self._bounds[knowledge.level])

    def account(
        self, summary: ModelSummary, workload: Workload, *, weighed: bool = False
    ) -> tuple[ModelSummary, Program, Memory]:
        """Make the explicit part alone: the summary with shapes, its program, its memory.

        Args:
            summary: the model.
            workload: how it is run.
            weighed: whether attentions that may give out their weights are taken to do so.
        """
        shaped = with_shapes(without_adapters(summary), workload)
        program = compile_program(shaped, weighed=weighed)
        memory = self.memory(shaped, program, workload, self._own)
        return shaped, program, memory

    def memory(self, shaped: ModelSummary, program: Program, workload: Workload, own: OwnCode) -> Memory:
        """Make the memory of a program, with what is known of its blocks' own code."""
        return measure(program, shaped, workload, self.workspaces, own.of(program, shaped.format, workload.precision))

    def _of_part(
        self, part: Part, program: Program, shaped: ModelSummary, workload: Workload, whole: _Whole
    ) -> tuple[Memory, list[float], float, float]:
        """Estimate a training of a part of a model, of which at most trainings of all of it were measured.

        Args:
            part: what is trained.
            program: the whole model's, which the correction and what was measured know.
            shaped: the model; it says how many parameters are frozen.
            workload: how it is run.
            whole: estimate of a training of all of it.

        Returns:
            The account and its features, expectation and upper bound in MiB, context included.
        """
        own = self._own.of(program, shaped.format, workload.precision)
        memory = measure_part(part, shaped, workload, self.workspaces, own)
        row = features(memory, program, shaped, workload, self._types)
        expected, _ = self._from(row, memory.peak / MIB, whole.context, whole.knowledge)
        least = 0.0
        if part.first:  # most may be there while what is frozen runs, as in an inference
            beside = whole.context + (memory.gradients + memory.states) / MIB
            ahead, least = self._inference(shaped, program, replace(workload, kind="infer"))
            expected, least = max(expected, ahead + beside), least + beside
        if part.whole:
            return memory, row, expected, expected * whole.upper / whole.expected
        upper = max(expected * _PART, least)
        if whole.knowledge.level not in _ALIKE:
            before, fixed = (whole.context + each.fixed / MIB for each in (whole.memory, memory))
            wider = max(whole.upper - before, 1.0) / max(whole.expected - before, 1.0)
            upper = max(upper, fixed + max(expected - fixed, 0.0) * wider)
        return memory, row, expected, upper

    def _inference(self, shaped: ModelSummary, program: Program, workload: Workload) -> tuple[float, float]:
        """Estimate an inference and its bound in MiB, without the context."""
        memory = self.memory(shaped, program, workload, self._own)
        row = features(memory, program, shaped, workload, self._types)
        context = self.context(program, workload)
        run = run_of(program, shaped, workload)
        expected, upper, _ = self.from_account(row, memory.peak / MIB, context, run)
        return max(expected - context, 0.0), max(upper - context, 0.0)

    def _as_measured(self, gpu: Gpu) -> bool:
        """Tell whether runs are known to take as much on a GPU as on the one that the model was fitted on."""
        return gpu.name == self._fitted_on or (gpu.measured and lookup(self._fitted_on).measured)

    def context(self, program: Program, workload: Workload) -> float:
        """Give the CUDA context in MiB on the GPU that the model was fitted on."""
        return self._contexts[workload.kind][program.libraries]

    def other_context(self, gpu: Gpu) -> float:
        """Tell how much larger the context is on another GPU, in MiB."""
        return float(gpu.context_mib - lookup(self._fitted_on).context_mib)

    def _reasons(
        self, memory: Memory, explicit: float, context: float, gpu: Gpu, shaped: ModelSummary
    ) -> tuple[str, ...]:
        said = [
            f"{memory.fixed / MIB:.0f} MiB of weights, gradients and optimizer state; "
            f"{memory.kept / MIB:.0f} MiB of activations; {explicit:.0f} MiB at the peak before correction",
            f"{context:.0f} MiB of CUDA context ({gpu.name})",
        ]
        if not self._as_measured(gpu):
            other = gpu.name if gpu.memory_mib else "a GPU of another name"
            said.append(f"the model was fitted on {self._fitted_on}: a wider bound for {other}")
        if memory.hidden and shaped.format == "torchinfo":
            said.append("the summary hides the insides of some layers: print it with a greater depth")
        if shaped.guessed:
            said.append(
                f"layers whose input the print does not show, so that it was guessed: {shaped.guessed}; "
                "torchinfo or torchsummary show it"
            )
        if shaped.format == "keras":
            said.append("TensorFlow takes the whole GPU unless memory growth is on")
        if shaped.unused:
            said.append(shaped.unused)
        return (*said, *shaped.inferred)
