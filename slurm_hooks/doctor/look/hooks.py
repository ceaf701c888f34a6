"""Prolog, TaskProlog and Epilog: which scripts they are, and what they do. Runs TaskProlog, without a job."""

from __future__ import annotations

import glob
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from slurm_hooks.doctor.facts import HOOKS
from slurm_hooks.doctor.look.files import NOBODY, closed, text_of
from slurm_hooks.search import take_path

OF_HOOKS = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin"  # where etc/prolog.sh and etc/epilog.sh look for commands
_SAID = r"^[ \t]*(?:export[ \t]+)?(?:\w+=\S*[ \t]+)*{}=([\"']?)(?!\${{RAD_)([^\s\"'#;]+)\1"
_NAMES_RAD = re.compile(r"slurm_hooks|\brad\b|/(?:prolog|epilog)\.sh\b")
_TASK_PROLOG_S = 10.0
# What RAD's TaskProlog does without a job: an MPS daemon's pipes that are not the job's it takes away.
_TASK = {"PATH": os.defpath, "SLURM_JOB_GPUS": "0", "CUDA_MPS_PIPE_DIRECTORY": "/g0/u0/pipe"}
_TASK_ANSWER = "unset CUDA_MPS_PIPE_DIRECTORY"


def scripts(setting: str) -> list[str]:
    """The scripts that Prolog= and its like name: paths, or patterns of paths; a pattern that fits nothing stays."""
    named = [path for path in setting.split(",") if path]
    return [found for path in named for found in sorted(glob.glob(path)) or [path]]  # noqa: PTH207 - no root is known


def name_rad(scripts: Iterable[str]) -> bool:
    """Whether one of some scripts names something of RAD's, or may, as none can be read."""
    texts = [text_of(Path(path)) for path in scripts]
    return None in texts or not texts or any(_NAMES_RAD.search(text or "") for text in texts)


def task_prolog(path: str) -> str:
    """Why a TaskProlog does not come to RAD when an ordinary user runs it; the empty string where it does."""
    user: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    try:
        done = subprocess.run(
            [path],
            env=_TASK,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TASK_PROLOG_S,
            check=False,
            start_new_session=True,  # nobody is to have no terminal of root's
            **user,
        )
        said = done.stderr.decode(errors="replace").split("\n")
        if _TASK_ANSWER in done.stdout.decode(errors="replace").splitlines():
            return ""
    except (OSError, subprocess.TimeoutExpired) as error:
        said = [str(error)]
    kept_out = closed(Path(path)) or closed(Path(__file__))
    return f"{kept_out}: not for everybody to use" if kept_out else next(filter(None, said), "RAD does not answer")


def said_to_hooks(settings: Mapping[str, str], name: str) -> str:
    """A variable as Prolog and Epilog, or rad.env beside them or where RAD is installed, set it; else nothing."""
    hooks = [Path(path) for hook in HOOKS for path in settings.get(hook, "").split(",") if path]
    files = [*hooks, *(hook.with_name("rad.env") for hook in hooks), Path(sys.prefix, "etc", "rad.env")]
    found = (re.findall(_SAID.format(name), text_of(file) or "", re.MULTILINE) for file in files)
    return next((str(said[-1][1]) for said in found if said), "")  # the last one holds, as in a shell


def path_of_hooks(settings: Mapping[str, str]) -> str:
    """Where Prolog and Epilog look for commands."""
    env = {"PATH": OF_HOOKS, "RAD_PATH": said_to_hooks(settings, "RAD_PATH")}
    take_path(env)
    return env["PATH"]
