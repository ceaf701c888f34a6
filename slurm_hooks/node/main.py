"""What prolog.sh, task_prolog.sh, epilog.sh and rad-spool.timer start: ``main.py prolog|task-prolog|epilog|flush``.

A hook fails open: whatever goes wrong is told in the node's log (the default one where the configuration cannot be
read), and the exit status is 0, for a Prolog that fails drains the node. Each hook imports only what it needs, because
this starts before every job.

Touches the environment; the modules beside it touch the rest.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys

if __package__ in {None, ""}:  # started as a file, isolated from the user's and the site's paths
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))  # noqa: PTH100, PTH120


class TimeUpError(Exception):
    """The script that started the hook, or systemd, ends it; seconds later it kills it."""


HOOKS = {"prolog": "prolog", "task-prolog": "task_prolog", "epilog": "epilog", "flush": "background"}


def main(argv: list[str]) -> int:
    """Run one hook; always 0, but for a wrong command line."""
    if len(argv) != 2 or argv[1] not in HOOKS:
        sys.stderr.write(f"usage: main.py {'|'.join(HOOKS)}\n")
        return 2
    from slurm_hooks.search import take_path  # noqa: PLC0415 - the path to it is known only now

    take_path(os.environ)
    gc.disable()  # a hook is over before there is anything to collect; `background` is not
    before = signal.signal(signal.SIGTERM, _end)
    try:
        importlib.import_module(f"slurm_hooks.node.{HOOKS[argv[1]]}").hook(os.environ)
    except Exception as error:  # a hook fails open
        _complain(argv[1], f"{type(error).__name__}: {error}")
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _end(*_: object) -> None:
    """Leave off, but say so, and keep a run's outcome; once: where systemd ends all, the script ends the hook too."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    raise TimeUpError("its time is up")


def _complain(hook: str, text: str) -> None:
    """Tell what ended a hook; Slurm 22.05 drops what a Prolog or Epilog writes to standard error."""
    try:
        from slurm_hooks.config import Config  # noqa: PLC0415
        from slurm_hooks.node import context  # noqa: PLC0415

        context.speaker(Config(), hook)(text)
    except Exception:  # even of this nothing may come
        sys.stderr.write(f"rad: {hook}: {text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv))
