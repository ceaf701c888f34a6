"""Whether Slurm answers, is new enough for RAD, and may use this node. Pure."""

from __future__ import annotations

import re

from slurm_hooks.doctor.facts import Facts
from slurm_hooks.doctor.findings import Finding
from slurm_hooks.slurm.versions import SHARES_COUNTED_SINCE

_DOWN = re.compile(r"DOWN|FAIL|INVAL|UNKNOWN")
_DRAINED = re.compile(r"gres|prolog|epilog", re.IGNORECASE)  # for reasons that Slurm itself gives


def answers(facts: Facts) -> Finding:
    """Whether slurmctld answers, and which Slurm it is."""
    if facts.slurm_error:
        return Finding("Slurm", False, facts.slurm_error, "start slurmctld, or set SLURM_CONF to its slurm.conf")
    text = facts.settings.get("SLURM_VERSION", "")
    cure = (
        "update Slurm: RAD needs 22.05 or newer. slurmctld 21.08 crashes when a job asks for shares (gres/mps) of GPUs "
        "with Types, so RAD shares none, and jobs go through as written; until then leave mps out of Gres and GresTypes"
        ": any user's `sbatch --gres=mps:1` ends it"
    )
    return Finding("Slurm", facts.version >= SHARES_COUNTED_SINCE, f"version {text}", cure)


def slurmd(facts: Facts) -> list[Finding]:
    """Whether Slurm may use this node, but for what an admin may want."""
    here = facts.here
    if here is None:
        return []
    ours = "DRAIN" in here.state and _DRAINED.search(here.reason) is not None
    cure = (
        "look into slurmd's log: it ends where slurm.conf, gres.conf and the GPUs do not agree, and Slurm drains a "
        f"node for that, or for a Prolog or Epilog that fails; then: scontrol update nodename={here.name} state=resume"
    )
    found = f"{here.state}: {here.reason}" if here.reason else here.state
    return [Finding("slurmd", not ours and _DOWN.match(here.state) is None, found, cure)]
