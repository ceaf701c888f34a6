"""`radctl doctor`: what this machine lacks. Looks at the machine, writes stdout."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from typing import get_args

import click

from slurm_hooks.config import Config, ConfigError
from slurm_hooks.doctor.examine import Role, examine, roles_of
from slurm_hooks.doctor.findings import Finding
from slurm_hooks.doctor.look.gather import gather
from slurm_hooks.node.kept import Kept
from slurm_hooks.radctl.main import Site
from slurm_hooks.radctl.options import JSON, examples

_WIDTH = 24


@click.command(epilog=examples("radctl doctor", "radctl doctor node"))
@click.argument("role", type=click.Choice(get_args(Role)), required=False)
@JSON
@click.pass_obj
def doctor(site: Site, role: Role | None, as_json: bool) -> None:
    """Tell what RAD lacks on a controller or node, and the cure.

    Without ROLE: what Slurm says this machine is. Run it as root: other users do not see everything. Exit code 1 if
    anything is lacking.
    """
    kept = Kept.of(os.environ)
    config, unusable = _config(site, kept)
    facts = gather(config, site.path, kept, unusable)
    findings = {part: examine(part, facts, config) for part in ([role] if role else roles_of(facts))}
    lacks = any(finding.needed and not finding.ok for several in findings.values() for finding in several)
    if as_json:
        click.echo(json.dumps({part: list(map(dataclasses.asdict, several)) for part, several in findings.items()}))
    else:
        for part, several in findings.items():
            click.echo(f"{part}:")
            for finding in several:
                _show(finding)
            if any(finding.later for finding in several):
                click.echo('  "later": for mode = "enforce"; advise and shadow do without')
    sys.exit(1 if lacks else 0)


def _config(site: Site, kept: Kept) -> tuple[Config, str]:
    """The configuration by which this machine goes, and why, if it is not what rad.toml says now."""
    try:
        found = kept.read(site.path)
    except ConfigError:
        return site.load(), ""  # which says what is wrong, or takes defaults where there is none
    return found.config, found.problem


def _show(finding: Finding) -> None:
    mark = "ok" if finding.ok else "missing" if finding.needed else "later" if finding.later else "advice"
    click.echo(f"  {mark:<8} {finding.subject:<{_WIDTH}} {finding.found}")
    if not finding.ok:
        click.echo(f"  {'':<8} {'':<{_WIDTH}} cure: {finding.cure}")


COMMANDS = [doctor]
