"""How much memory a program needs over one training step, as PyTorch's allocator would see it. Pure.

Four moments can be the peak: the forward pass (everything kept so far and the tensors at work), the loss (logits, their
softmax and gradients), the backward pass (what is still kept, gradients at work, gradients of the parameters so far),
and the optimizer's step. Sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from estimator.breath import OFTEN, breathe
from estimator.methods.rad.keeping import NO_NOTES, RULES, SCORES, WHOLE, marks_of
from estimator.methods.rad.kinds import Kind
from estimator.methods.rad.own_code import NOTHING, Own
from estimator.methods.rad.program import Conv, Op, Part, Program, Scores
from estimator.methods.rad.workspace import Workspaces
from estimator.packed import FOUR
from estimator.types import ModelSummary, Packed, Precision, Workload

_STATES: Final = {"adam": 2, "adamw": 2, "rmsprop": 1, "sgd_momentum": 1, "sgd": 0}
# Temporaries of the optimizers' foreach step, in copies of the parameters.
_STEP_COPIES: Final = {"adam": 1, "adamw": 1, "rmsprop": 1, "sgd_momentum": 0, "sgd": 0}
_COPIES: Final = 3  # of its weights while DoRA makes their norm
_NO_WORKSPACE = (0.0, 0.0)  # as Final, mypyc would take it for unset
# Inside hidden blocks that keep nothing: how much of what a training keeps is there at once, and at most, in outputs,
# or in inputs where these are so many times larger.
INSIDE_SHARE: Final = 0.5
_INSIDE_MOST: Final = 10.0
_NARROWS: Final = 4
# A block that gives out one row does not say by it how large its layers are. Half of the data set's models that do, and
# convolve, have more than a third of what torchinfo prints in sum at once, which is this much of what a training keeps.
_OF_ROWS: Final = 0.25
# Python looks up a member of an enumeration as slowly as it calls a function, and each step is compared with several.
_ATTENTION: Final = Kind.ATTENTION
_EMBEDDING: Final = Kind.EMBEDDING
_RECURRENT: Final = Kind.RECURRENT
_OPAQUE: Final = Kind.OPAQUE
_MANY_STEPS: Final = Kind.MANY_STEPS
# Their weights are cast under autocast, and the copies kept until they are used for the last time.
_MATMULS: Final = frozenset((Kind.CONV, Kind.LINEAR, Kind.FROZEN_LINEAR, Kind.OPAQUE))
# cuDNN works on one layer of a recurrent network after the other: so many outputs at most.
RECURRENT_WORKS: Final = 9
# cuBLAS takes this much from the allocator for each thread that multiplies: the loop's own, and the backward pass's.
CUBLAS: Final = 32.5 * 2**20
# Copies of the logits in fp32 that a loss on every token has at its peak, the one that the loop still holds included:
# output, log-softmax, its gradient and the logits' own. A causal language model computes its loss in fp32 always.
_LOSS_COPIES: Final = {"fp32": 5.0, "amp": 3.65, "bf16": 2.5, "fp16": 2.5}
# More of them where a bias in fp32 is added to logits in half precision: this output and the last one are in fp32.
_BIASED_COPIES: Final = 1.5
_CAUSAL_LOSS_COPIES: Final = {"fp32": 5.0, "amp": 4.1, "bf16": 4.1, "fp16": 4.1}


class Memory(NamedTuple):
    """Bytes of one job by purpose, and its peaks.

    Attributes:
        weights: parameters.
        gradients: their gradients.
        states: the optimizer's state.
        kept: activations kept for the backward pass.
        forward: peak of the forward pass.
        loss: peak at the loss.
        backward: peak of the backward pass.
        step: peak of the optimizer's step.
        workspace: largest workspace of a convolution.
        at_peak: workspace at the moment of the peak.
        widest: largest tensor.
        logits: size of the model's output.
        hidden: parameters inside layers that the summary does not open.
        workspaces: all workspaces together; the larger of both passes for each convolution.
        noted: share of the blocks, by size, of whose own code it is known what it keeps.
        longer: how much larger the peak is in a loop that has all gradients of the step before until the backward pass,
            or adds to them: Lightning's, or any that adds up several batches'.
    """

    weights: float
    gradients: float
    states: float
    kept: float
    forward: float
    loss: float
    backward: float
    step: float
    workspace: float
    at_peak: float
    widest: float
    logits: float
    hidden: float
    workspaces: float = 0.0
    noted: float = 0.0
    longer: float = 0.0

    @property
    def peak(self) -> float:
        """The largest of the moments."""
        return max(self.forward, self.loss, self.backward, self.step)

    @property
    def fixed(self) -> float:
        """Weights, gradients and optimizer state."""
        return self.weights + self.gradients + self.states


def measure(
    program: Program, summary: ModelSummary, workload: Workload, workspaces: Workspaces, own: Own = NOTHING
) -> Memory:
    """Walk through one step of the workload.

    Args:
        program: the steps.
        summary: what was printed.
        workload: how it is run.
        workspaces: of convolutions.
        own: what its blocks keep in their own code.
    """
    if workload.kind == "infer":
        return _infer(program, summary, workload, workspaces, own)
    return _train(Part(program, 0, False, True), summary, summary.total_params, workload, workspaces, own)


def measure_part(part: Part, summary: ModelSummary, workload: Workload, workspaces: Workspaces, own: Own) -> Memory:
    """Walk through one step of a training of a part of a model.

    Args:
        part: what is trained.
        summary: what was printed; it says how many parameters are frozen.
        workload: how it is run.
        workspaces: of convolutions.
        own: what the blocks of the whole model keep in their own code.
    """
    trained = max(summary.total_params - summary.frozen_params, 0)
    return _train(part, summary, trained, workload, workspaces, own)


def _spared(packed: Packed, size: int) -> float:
    """Count the bytes that packed weights do not take; 64 that are packed into 4 bits share a number in fp32."""
    return packed.four * (size - 0.5 - WHOLE / 64) + packed.eight * (size - 1.0)


def _anew(summary: ModelSummary, workload: Workload) -> float:
    """Count the bytes of weights that are made anew at each call: they are kept until their gradients are there."""
    return float(summary.made_anew * (WHOLE if workload.precision == "amp" else _size(workload)))


def _unpacking(op: Op, program: Program, batch: int, size: int) -> tuple[float, float]:
    """Count the bytes that a product with packed weights works with, in the forward pass and in the backward pass.

    Weights in 4 bits are unpacked; those in 8 for gradients alone, else the input is cast, and packed too, and the
    product an integer in 32 bits. https://github.com/bitsandbytes-foundation/bitsandbytes, ``autograd/_functions.py``
    """
    whole = float(op.params * size)
    if op.bits == FOUR:
        return whole, 3 * whole
    return float((3 * program.tensors[op.x] + 4 * program.tensors[op.y]) * batch), whole


def _of_weights(op: Op, program: Program, batch: int, size: int) -> tuple[float, float]:
    """Count the bytes that a product works with that unpacks its weights, or that DoRA makes a norm of.

    The norm is that of copies in fp32, to one of which the matrices' product was added: of a square of ones.
    https://github.com/huggingface/peft, ``tuners/lora/dora.py``
    """
    ahead, behind = _unpacking(op, program, batch, size) if op.bits else _NO_WORKSPACE
    if op.adapter is not None and op.adapter.norms:
        width = max(program.shapes[op.x][-1], 1)
        ahead = max(ahead, float(WHOLE * (_COPIES * op.params + width * width)))
    return ahead, behind


def _size(workload: Workload) -> int:
    return WHOLE if workload.precision == "fp32" else 2


def _workspace(conv: Conv | None, workload: Workload, workspaces: Workspaces) -> tuple[float, float]:
    return _NO_WORKSPACE if conv is None else workspaces.of(conv, workload.batch_size, workload.precision)


def _beside(program: Program, op: Op, noted: float | None) -> float:
    """Count elements that a step works with beside its input and output, while nothing is kept."""
    out = program.tensors[op.y]
    if op.kind is _OPAQUE:
        if noted is not None:
            return noted
        taken = program.tensors[op.x]
        most = _INSIDE_MOST * (taken if taken > _NARROWS * out else out)
        if op.params and out == max(program.shapes[op.y], default=0):  # lists that are shown again and again have none
            most = max(most, _OF_ROWS * op.extra)
        return round(min(INSIDE_SHARE * op.extra, most))
    if op.kind is _ATTENTION and not op.extra:
        # Queries, keys and values, and their copies where they are multiplied one by one.
        return (5 if op.matrix and op.scores in (Scores.PLAIN, Scores.DROPPED) else 3) * out
    if op.kind is _RECURRENT:
        return min(op.extra, RECURRENT_WORKS * out)
    return op.extra + (2 * out if op.kind is _MANY_STEPS else 0)


def _whole_copies(program: Program, workload: Workload) -> int:
    """Count the bytes for each logit that a loss without gradients takes: what is cast to fp32, and its logarithm."""
    if workload.precision == "fp32":
        return WHOLE
    return 2 * WHOLE if program.causal or workload.precision == "amp" else 2


def matrices_at_work(program: Program, precision: Precision) -> int:
    """Count how often an attention's matrix is there while its softmax runs, in its own precision.

    Under autocast a softmax is in fp32, input and output; in half precision transformers' is, and is cast back.
    """
    if precision == "amp":
        return 5
    return 4 if precision != "fp32" and program.owner else 2


def moved_by(program: Program, precision: Precision, works: Mapping[int, float] = NO_NOTES) -> list[float]:
    """Count the elements of one sample that are there while each step runs and nothing is kept.

    Args:
        program: the steps.
        precision: in whose size they are counted.
        works: by step, elements that a hidden block works with beside its input and output.
    """
    tensors = program.tensors
    rules = RULES[precision] if precision == "amp" else ()
    wide: set[int] = set()
    matrices = matrices_at_work(program, precision)
    scores = SCORES[precision]
    found: list[float] = []
    for index, op in enumerate(program.ops):
        if not index & OFTEN:
            breathe()
        moved = float(tensors[op.x] + (0 if op.inplace else tensors[op.y]))
        if op.matrix and scores[op.scores]:  # else a fused kernel makes none
            moved += matrices * op.matrix
        moved += program.skips.get(index, 0)
        moved += _beside(program, op, works.get(index) if works else None)
        if rules:
            moved += tensors[op.x] if op.x in wide else 0
            _, _, _, _, _, widens, follows = rules[op.kind]
            if widens or (follows and op.x in wide):
                wide.add(op.y)
                moved += tensors[op.y]
        found.append(moved)
    return found


def _infer(program: Program, summary: ModelSummary, workload: Workload, workspaces: Workspaces, own: Own) -> Memory:
    """Nothing is kept: the peak is at the layer with the largest input, output and workspace."""
    batch, size = workload.batch_size, _size(workload)
    whole = workload.precision in ("fp32", "amp")
    weights = float(summary.total_params * (WHOLE if whole else 2)) - _spared(summary.packed, size)
    amp = workload.precision == "amp"
    tensors = program.tensors
    peak = work = widest = at_peak = copies = 0.0
    for op, moved in zip(program.ops, moved_by(program, workload.precision, own.works), strict=True):
        if amp and op.kind in _MATMULS:
            copies += 2.0 * op.params
        forward, _ = _workspace(op.conv, workload, workspaces)
        work = max(work, forward)
        now = moved * batch * size + forward + copies
        if op.bits:
            now += _unpacking(op, program, batch, size)[0]
        if op.kind is _RECURRENT:
            now += op.params * size  # cuDNN takes the weights in one piece
        widest = max(widest, tensors[op.y] * batch * size)
        if now > peak:
            peak, at_peak = now, forward
    logits = float(program.classes * program.tokens * batch * size)
    library = CUBLAS if program.multiplies else 0.0
    held = logits  # of the call before, which the loop's variable still holds
    # With the keys and values that a language model returns for the next token, of both calls.
    held += 2.0 * (program.cache + own.cache) * batch * size
    base = weights + tensors[0] * batch * WHOLE + library + held
    loss = 0.0
    if program.tokens > 1 and program.labelled:
        loss = base + copies + logits + _whole_copies(program, workload) * logits / size
    top = base + peak
    return Memory(
        weights,
        0.0,
        0.0,
        0.0,
        top,
        loss,
        0.0,
        0.0,
        work,
        at_peak,
        widest,
        logits,
        program.hidden_params,
        noted=own.share,
    )


def _loss_copies(program: Program, workload: Workload) -> float:
    """Count how often the logits are there, in fp32, while the loss is computed."""
    factors = _CAUSAL_LOSS_COPIES if program.causal else _LOSS_COPIES
    return factors[workload.precision] + (_BIASED_COPIES if workload.precision == "amp" and program.biased else 0.0)


def _backward(
    program: Program,
    ops: list[Op],
    marks: list[float],
    works: list[float],
    unit: int,
    gradients: float,
    tied: int,
    copies: float,
    scores: Mapping[Scores, int],
) -> tuple[float, float, float]:
    """Walk back: the peak of what is still kept, gradients at work and of parameters; the workspace at that moment.

    The third is the peak without the gradients of parameters but those that are being made.

    Args:
        program: the model.
        ops: the steps that need a gradient.
        marks: bytes kept after each.
        works: workspaces of each.
        unit: bytes of a tensor's element for the whole batch.
        gradients: bytes of all parameters' gradients.
        tied: bytes that each parameter of a word embedding takes more while its two gradients are added.
        copies: bytes of the weights that autocast has cast, which are free once their layer is done.
        scores: bytes kept of each element of an attention's matrix; of 0 there is no matrix.
    """
    tensors = program.tensors
    backward = at_backward = bare = 0.0
    done = 0.0
    share = gradients / max(sum([op.params for op in ops]), 1)
    breathe()
    for op, mark, workspace in zip(reversed(ops), reversed(marks), reversed(works), strict=True):
        kind = op.kind
        moved = (tensors[op.x] + tensors[op.y]) * unit
        if op.matrix and scores[op.scores]:
            moved += 2 * op.matrix * unit
        made = op.params * share
        done += made
        if kind is _EMBEDDING:
            # The embedding's gradient is added to the head's; autocast made that one anew, so the sum takes its place.
            moved += program.shared * tied
        elif kind is _RECURRENT:
            moved += min(op.extra, RECURRENT_WORKS * tensors[op.y]) * unit  # cuDNN works on as much as it has kept
        now = mark + moved + done + workspace + copies
        alone = now - done + made
        bare = alone if alone > bare else bare
        if copies and kind in _MATMULS:
            copies -= 2.0 * op.params
        if now > backward:
            backward, at_backward = now, workspace
    return backward, at_backward, bare


def _ahead(program: Program, first: int, workload: Workload, workspaces: Workspaces, own: Own) -> float:
    """Count the bytes of the steps before the first that is trained, where most is there: as in an inference."""
    unit, amp = workload.batch_size * _size(workload), workload.precision == "amp"
    most = 0.0
    moved = moved_by(program, workload.precision, own.works)
    for op, there in zip(program.ops[:first], moved, strict=False):
        works, _ = _workspace(op.conv, workload, workspaces)
        cast = 2.0 * op.params if amp and op.kind in _MATMULS else 0.0
        if op.bits:
            works, _ = _unpacking(op, program, workload.batch_size, _size(workload))
        most = max(most, there * unit + works + cast)
    return most


def _train(
    part: Part, summary: ModelSummary, trained: int, workload: Workload, workspaces: Workspaces, own: Own
) -> Memory:
    program, first, adapted, _ = part
    batch, size, precision = workload.batch_size, _size(workload), workload.precision
    amp = precision == "amp"
    each = WHOLE if precision in ("fp32", "amp") or adapted else 2  # adapters are in fp32
    more = trained * (WHOLE - size) if adapted and not amp else 0
    weights = summary.total_params * (WHOLE if amp else size) + more - _spared(summary.packed, size)
    gradients, states = float(trained * each), float(trained * each * _STATES[workload.optimizer])
    tensors = program.tensors
    unit = batch * size
    whole_logits = float(program.classes * program.tokens * batch * WHOLE)
    logits = whole_logits * size / WHOLE
    inputs = float(tensors[0] * batch * WHOLE) if tensors else 0.0
    library = 2 * CUBLAS if program.multiplies else 0.0
    # The loop's variable still holds the last output, with the keys and values for the next token.
    base = weights + states + inputs + library + logits + (program.cache + own.cache) * unit + _anew(summary, workload)

    scores = SCORES[precision]
    marks = marks_of(program, first, batch, precision, own.steps, own.inside)
    ops = program.ops
    works: list[float] = []  # of the backward pass
    most = 0
    forward = at_forward = copies = before = work = worked = 0.0
    breathe()
    if first:
        forward = _ahead(program, first, workload, workspaces, own)
        ops, marks = ops[first:], marks[first:]
    for op, kept in zip(ops, marks, strict=True):
        if amp and op.kind in _MATMULS:
            copies += 2.0 * op.params
        ahead = behind = 0.0
        if op.conv is not None:
            ahead, behind = workspaces.of(op.conv, batch, precision)
            larger = ahead if ahead > behind else behind
            work = larger if larger > work else work
            worked += larger
        elif op.bits or op.adapter is not None:
            ahead, behind = _of_weights(op, program, batch, size)
        works.append(behind)
        out = tensors[op.y]
        most = out if out > most else most
        now = before + (tensors[op.x] + out + (op.matrix if op.matrix and scores[op.scores] else 0)) * unit
        now = (kept if kept > now else now) + out * unit * 0.5 + ahead + copies
        if now > forward:
            forward, at_forward = now, ahead
        before = kept
    kept = before
    forward += base
    loss = base - logits + copies + kept + _loss_copies(program, workload) * whole_logits

    backward, at_backward, bare = _backward(
        program, ops, marks, works, unit, gradients, each * (1 if amp else 2), copies, scores
    )
    backward += base
    step = base - _anew(summary, workload) + gradients + trained * each * _STEP_COPIES[workload.optimizer]
    top = max(forward, loss, backward, step)
    at_peak = at_backward if top == backward else at_forward if top == forward else 0.0
    return Memory(
        weights,
        gradients,
        states,
        kept,
        forward,
        loss,
        backward,
        step,
        work,
        at_peak,
        float(most * unit),
        logits,
        program.hidden_params,
        worked,
        own.share,
        max(max(forward, loss, bare + base) + gradients - top, 0.0),
    )
