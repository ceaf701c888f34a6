"""`radctl doctor`: what this machine lacks. Looks at the machine, writes stdout."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import get_args

import click

from slurm_hooks import doctor as judge
from slurm_hooks.doctor_facts import gather
from slurm_hooks.radctl.main import Site

_WIDTH = 24


@click.command()
@click.argument("role", type=click.Choice(get_args(judge.Role)), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def doctor(site: Site, role: judge.Role | None, as_json: bool) -> None:
    """Look at a controller or node and say what RAD lacks there; exit code 1 if it lacks anything.

    Without ROLE: what Slurm says this machine is. Run it as root: other users do not see everything.
    """
    config = site.load()
    facts = gather(config, site.path)
    findings = {part: judge.examine(part, facts, config) for part in ([role] if role else judge.roles_of(facts))}
    lacks = any(finding.needed and not finding.ok for several in findings.values() for finding in several)
    if as_json:
        click.echo(json.dumps({part: list(map(dataclasses.asdict, several)) for part, several in findings.items()}))
    else:
        for part, several in findings.items():
            click.echo(f"{part}:")
            for finding in several:
                _show(finding)
    sys.exit(1 if lacks else 0)


def _show(finding: judge.Finding) -> None:
    mark = "ok" if finding.ok else "missing" if finding.needed else "advice"
    click.echo(f"  {mark:<8} {finding.subject:<{_WIDTH}} {finding.found}")
    if not finding.ok:
        click.echo(f"  {'':<8} {'':<{_WIDTH}} cure: {finding.cure}")


COMMANDS = [doctor]
