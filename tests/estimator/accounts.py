"""Accounts of small models, for tests of their parts."""

from __future__ import annotations

from typing import Any

from estimator.methods.rad.features import FEATURES
from estimator.methods.rad.known import KNOWLEDGE, LEVELS, tabulate
from estimator.methods.rad.liveness import Memory, measure
from estimator.methods.rad.program import Program, compile_program
from estimator.methods.rad.workspace import Workspaces
from estimator.parsers import parse_summary
from estimator.shapes import with_shapes
from estimator.types import KINDS, LIBRARIES, Kind, Libraries, ModelSummary, Workload

MIB = 2**20


NOTHING: dict[str, Any] = {"start": 0.0, "trees": []}


NO_WORKSPACE = dict.fromkeys(("forward", "input", "weight", "copies"), NOTHING)

# In MiB, whatever is loaded.
CONTEXTS: dict[Kind, dict[Libraries, float]] = {kind: dict.fromkeys(LIBRARIES, 750.0) for kind in KINDS}


def plain(**changes: Any) -> dict[str, Any]:
    model = {
        "features": [*FEATURES, *KNOWLEDGE],
        "workspaces": NO_WORKSPACE,
        "correction": NOTHING,
        "spread": {level: {"start": 1.0, "trees": []} for level in LEVELS},
        "bounds": dict.fromkeys(LEVELS, 0.1),
        "gpu": "h200",
        "context_mib": CONTEXTS,
        "known": [],
        "measured": tabulate(()),
        "own": {},
    }
    return {**model, **changes}


def account(text: str, **workload: Any) -> tuple[ModelSummary, Program, Memory]:
    run = Workload(**{"batch_size": 2, **workload})
    shaped = with_shapes(parse_summary(text), run)
    program = compile_program(shaped)
    return shaped, program, measure(program, shaped, run, Workspaces(NO_WORKSPACE))


def table(*rows: str) -> str:
    body = "\n".join(f"{i}".join(row.split("#")) for i, row in enumerate(rows, 1))
    return f"        Layer (type)               Output Shape         Param #\n======\n{body}\n======\n"


VGG = table(
    "Conv2d-# [-1, 64, 32, 32] 1,792",
    "ReLU-# [-1, 64, 32, 32] 0",
    "MaxPool2d-# [-1, 64, 16, 16] 0",
    "Linear-# [-1, 10] 163,850",
)


LM = """GPT2LMHeadModel(
  (transformer): GPT2Model(
    (wte): Embedding(1000, 64)
    (h): ModuleList(
      (0-1): 2 x GPT2Block(
        (ln_1): LayerNorm((64,), eps=1e-05, elementwise_affine=True)
        (attn): GPT2Attention(
          (c_attn): Conv1D(nf=192, nx=64)
          (c_proj): Conv1D(nf=64, nx=64)
        )
        (mlp): GatedMLP(
          (gate_proj): Linear(in_features=64, out_features=256, bias=False)
          (up_proj): Linear(in_features=64, out_features=256, bias=False)
          (down_proj): Linear(in_features=256, out_features=64, bias=False)
          (act_fn): SiLU()
        )
      )
    )
  )
  (lm_head): Linear(in_features=64, out_features=1000, bias=False)
)
"""


INFO = """Layer (type:depth-idx)                   Output Shape              Param #
==========
ViT                                      [2, 10]                   --
├─Conv2d: 1-1                            [2, 96, 4, 4]             4,704
├─EncoderBlock: 1-2                      [2, 16, 96]               --
│    └─LayerNorm: 2-1                    [2, 16, 96]               192
│    └─MultiheadAttention: 2-2           [2, 16, 96]               37,248
│    └─SelfAttention: 2-3                [2, 16, 96]               --
│    │    └─Linear: 3-1                  [2, 16, 96]               9,312
│    │    └─Linear: 3-2                  [2, 16, 96]               9,312
│    │    └─Linear: 3-3                  [2, 16, 96]               9,312
│    │    └─Dropout: 3-4                 [2, 4, 16, 16]            --
│    │    └─Linear: 3-5                  [2, 16, 96]               9,312
├─Body: 1-3                              [2, 16, 96]               --
│    └─Sequential: 2-4                   [2, 16, 96]               --
│    │    └─Stage: 3-6                   [2, 16, 96]               50,000
│    │    └─ModuleList: 3-7              --                        70,000
├─Linear: 1-4                            [2, 10]                   970
==========
Forward/backward pass size (MB): 1.00
"""


TREE = {
    "feature": [0, -1, 1, -1, -1],
    "value": [1.5, 10.0, 0.5, 20.0, 30.0],
    "left": [1, -1, 3, -1, -1],
    "right": [2, -1, 4, -1, -1],
}


def tree(*rows: str) -> str:
    body = "\n".join(rows)
    return f"Layer (type:depth-idx)  Output Shape  Param #\n=====\n{body}\n=====\n"
