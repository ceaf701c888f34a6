"""What pages quote of RAD's messages is what RAD says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from estimator.methods import load_method
from scripts.demo_data import resnet50
from slurm_hooks import config as settings
from slurm_hooks.service import Service

ROOT = Path(__file__).parents[2]
# The first column of a table that quotes messages.
_QUOTES = "what you see"
_ANSWER = "sbatch: rad: "
_SCRIPT = """#!/bin/bash
#SBATCH --gres=gpu:1 --cpus-per-task=4 --time=2:00:00
#RAD model=resnet50.txt batch_size=128 optimizer=adam
python train.py --batch-size 128
"""


def _quoted(page: Path) -> Iterator[str]:
    quotes = False
    for line in page.read_text().splitlines():
        first = line.split("|")[1].strip() if line.startswith("|") else ""
        quotes = bool(first) and (quotes or first == _QUOTES)
        if quotes:
            yield from re.findall(r"`([^`]+)`", first)


@cache
def _said() -> str:
    """All that stands in the code as text, but for docstrings; a piece a line."""
    texts = [path.read_text() for path in ROOT.glob("slurm_hooks/lua/*.lua")]
    for path in (*ROOT.glob("estimator/**/*.py"), *ROOT.glob("slurm_hooks/**/*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
        constants = [node for node in nodes if isinstance(node, ast.Constant) and node not in docstrings]
        texts += [node.value for node in constants if isinstance(node.value, str)]
    return "\n".join(texts)


@pytest.mark.parametrize("name", ["docs/summaries.md"])
def test_quoted_messages_stand_in_the_code(name: str) -> None:
    quoted = list(_quoted(ROOT / name))
    assert len(quoted) > 50
    assert [text for text in quoted if text not in _said()] == []


@pytest.mark.parametrize("name", ["README.md", "docs/summaries.md"])
def test_the_answer_that_a_page_shows_is_what_a_user_gets(name: str) -> None:
    config = settings.parse({"partitions": {"gpu": {"gpu_model": "h200"}}}, "test")
    asked = {"script": _SCRIPT, "partition": "gpu", "tres_per_node": "gres:gpu:1", "user_name": "alice"}
    answer = Service(config, load_method("rad")).answer({**asked, "summary": resnet50()})
    assert f"{_ANSWER}{answer.message}" in (ROOT / name).read_text().splitlines()
