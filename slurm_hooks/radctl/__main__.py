"""`python -m slurm_hooks.radctl`: the command without an installation. Touches nothing itself."""

from __future__ import annotations

from slurm_hooks.radctl.main import cli

cli(prog_name="radctl")
