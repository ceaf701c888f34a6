"""Where Slurm's commands are: what a site says in rad.env (RAD_PATH), for daemons that no shell script starts.

Touches the environment.
"""

from __future__ import annotations

from collections.abc import MutableMapping


def take_path(env: MutableMapping[str, str]) -> None:
    """Let commands be looked for where RAD_PATH says, as prolog.sh and epilog.sh do.

    systemd hands on a `$PATH` in it as it is written, where a shell puts in its own.
    """
    said, before = env.get("RAD_PATH"), env.get("PATH", "")
    if said:
        env["PATH"] = said.replace("${PATH}", before).replace("$PATH", before)
