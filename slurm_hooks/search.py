"""Where Slurm's commands are: what a site says in rad.env (RAD_PATH), for daemons that no shell script starts.

Touches the environment.
"""

from __future__ import annotations

from collections.abc import MutableMapping


def take_path(env: MutableMapping[str, str]) -> None:
    """Let commands be looked for where RAD_PATH says, as prolog.sh and epilog.sh do."""
    if env.get("RAD_PATH"):
        env["PATH"] = env["RAD_PATH"]
