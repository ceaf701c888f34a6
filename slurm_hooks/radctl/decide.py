"""`radctl decide`: radd's own code in this process.

Reads the script, the summary that it names, and Slurm; changes nothing.
"""

from __future__ import annotations

import dataclasses
import gc
import getpass
import json
import os
import re
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from estimator import files
from slurm_hooks import loading
from slurm_hooks.answer import Answer
from slurm_hooks.config import Config
from slurm_hooks.directives import DirectiveError, looks_like_directives, parse_script
from slurm_hooks.experience import learn
from slurm_hooks.hook import LONGEST_SUMMARY, unasked
from slurm_hooks.radctl.main import Site, say
from slurm_hooks.radctl.options import JSON, examples
from slurm_hooks.radd.protocol import encode
from slurm_hooks.reading import TRES
from slurm_hooks.sbatch import (
    clusters,
    exports_all,
    fields_of,
    foreign,
    gpu_types,
    parted,
    refused,
    refused_by_slurm,
    unknown,
)
from slurm_hooks.service import Service
from slurm_hooks.slurm.accounting import SlurmAccounting
from slurm_hooks.slurm.commands import SlurmCommands, SlurmError, run
from slurm_hooks.slurm.versions import SLASH_SINCE
from slurm_hooks.slurm.view import expand_hostlist

_DAY_S = 86_400


class DecideError(ValueError):
    """A script that cannot be decided on; the message says why and what to do."""


# No short option of its own: click would find it in -Jhello too.
@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]},
    epilog=examples("radctl decide job.sh", "radctl decide --partition=gpu job.sh --time=1:00:00"),
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[SBATCH OPTIONS]... SCRIPT [SBATCH OPTIONS]...")
@JSON
@click.pass_obj
def decide(site: Site, words: tuple[str, ...], as_json: bool) -> None:
    """Tell what would become of SCRIPT if it were submitted now.

    Nothing is changed. Options of sbatch may stand before and behind SCRIPT, and variables such as SBATCH_PARTITION
    count too. Exit code 1 if it would be refused.
    """
    script, options = parted(words)
    if not script:
        context = click.get_current_context()
        if words == ("-h",):
            click.echo(context.get_help())
            context.exit()
        raise click.UsageError("Missing argument 'SCRIPT'.")
    config = site.load()
    text = files.read_text(Path(script), files.MAX_SCRIPT_BYTES)
    now = time.time()
    asked = fields_of(text, options, int(now), _separator(config), os.environ)
    fields = {"user_name": getpass.getuser(), **asked}
    there = clusters(text, options, os.environ)
    _warn(text, options, there)
    if exports_all(text, options, os.environ):
        fields.update(_summary(text, config))
    partitions, no_partitions = _partitions(config)
    if not fields.get("partition"):
        try:
            fields["partition"] = _default_partition(config, partitions, no_partitions)
        except DecideError as error:
            raise DecideError(f"{_wrong_line(text)}{error}") from None
    options_bytes = len(encode({name: value for name, value in fields.items() if name not in ("script", "summary")}))
    told = unasked(text, len(encode(fields)), options_bytes)
    if why := refused(text):
        answer = Answer(reject=True, message=f"sbatch takes no such script: {why}")
    elif told is None:
        service = loading.load_service(config)
        _look(service, fields["user_name"], int(now))
        answer = _answer(service, fields)
    else:
        answer = Answer(message=told)
    answer = answer if answer.reject or there else _as_slurm_takes_it(answer, fields, partitions, config)
    if as_json:
        click.echo(json.dumps(_as_dict(answer, fields["partition"]), indent=2))
    else:
        _tell(answer)
    sys.exit(1 if answer.reject else 0)


def _warn(text: str, options: Sequence[str], there: str) -> None:
    """Say on stderr what of a script and its options does not count, or is not looked at."""
    for word in unknown(text, options):
        say(f"radctl: {word} is no option of sbatch that radctl knows, and is passed over", err=True)
    if mark := foreign(text, options, os.environ):
        say(f"radctl: sbatch follows {mark} lines too, radctl does not: write them as #SBATCH lines", err=True)
    if meant := looks_like_directives(text):
        say(f"radctl: {meant}", err=True)
    if there:
        say(f"radctl: told of the cluster here, whichever of --clusters={there} gets the job", err=True)


def _answer(service: Service, fields: Mapping[str, str]) -> Answer:
    """What radd answers, its limits included; of time processor time counts: a login node may have other work."""
    radd = service.config.radd
    if len(encode(fields)) > radd.max_request_kib * 1024:
        limit = f"script, summary and options are longer than radd.max_request_kib = {radd.max_request_kib}"
        return Answer(message=f"{limit}: radd does not answer, and the job goes through as written")
    service.warm_up()
    collects = gc.isenabled()
    gc.disable()  # radd collects garbage between its answers
    try:
        begin = time.thread_time()
        answer = service.answer(fields)
        taken = time.thread_time() - begin
    finally:
        if collects:
            gc.enable()
    if taken <= radd.decide_s:
        return answer
    click.echo(f"radctl: the decision took {taken * 1000:.0f} ms here; radd gives it up", err=True)
    return service.too_late(fields)


def _summary(text: str, config: Config) -> dict[str, str]:
    """What cli_filter.lua would hand on: the summary that the script names, or why there is none."""
    try:
        directives = parse_script(text)
    except DirectiveError:
        return {}  # the service refuses it, with the line
    if directives is None or directives.model is None or directives.summary is not None:
        return {}
    try:
        longest = min(config.estimator.max_summary_kib * 1024, LONGEST_SUMMARY)
        return {"summary": files.read_text(Path(directives.model), longest)}
    except files.FileRefusedError as error:
        return {"summary_error": str(error).partition(": ")[2]}
    except OSError as error:
        return {"summary_error": f"cannot be read: {error.strerror}"}


def _wrong_line(text: str) -> str:
    """What is wrong with the script's #RAD lines, which needs no Slurm to tell; nothing where they are right."""
    try:
        parse_script(text)
    except DirectiveError as error:
        return f"{error}; besides, "
    return ""


def _separator(config: Config) -> str:
    """What this Slurm writes behind ``gres`` in a request; 22.05's where Slurm is not there."""
    try:
        version = SlurmCommands(config.radd.command_timeout_s).version()
    except SlurmError:
        return ":"
    return "/" if version >= SLASH_SINCE else ":"


def _partitions(config: Config) -> tuple[dict[str, bool], str]:
    """Slurm's partitions, hidden ones too, and whether each is the default; and why none is known, where none is."""
    try:
        shown = run(["scontrol", "-a", "show", "partition", "-o"], config.radd.command_timeout_s)
    except SlurmError as error:
        return {}, str(error)
    lines = re.findall(r"^PartitionName=(\S+) (.*)$", shown, re.MULTILINE)
    return {name: re.search(r"\bDefault=YES\b", rest) is not None for name, rest in lines}, ""


def _default_partition(config: Config, partitions: Mapping[str, bool], error: str) -> str:
    """Slurm's default partition; where Slurm does not say, the only one that RAD serves."""
    if found := next((name for name, is_default in partitions.items() if is_default), ""):
        return found
    if len(config.partitions) == 1:
        return next(iter(config.partitions))
    why = f"no default partition is known: {error}" if error else "Slurm names no default partition"
    raise DecideError(f"{why}; add --partition=NAME")


def _as_slurm_takes_it(
    answer: Answer, fields: Mapping[str, str], partitions: Collection[str], config: Config
) -> Answer:
    """The answer, or that Slurm refuses the job, which it does by itself."""
    why = refused_by_slurm(fields, partitions)
    if not why and (name := _lacking_node(config, fields)):
        why = f"there is no node {name}"
    if not why and (kind := _lacking_type(config, {**fields, **(answer.fields or {})})):
        why = f"no node of partition {fields['partition']} has a GPU of type {kind}"
    return Answer(reject=True, message=f"Slurm takes no such job: {why}") if why else answer


def _lacking_node(config: Config, fields: Mapping[str, str]) -> str:
    """A node that is named and not there; of several that are asked for, or named in a file, sbatch may take none."""
    asked, excluded = (fields.get(name, "") for name in ("req_nodes", "exc_nodes"))
    names = [] if any(c in asked for c in ",[/") or not asked else [asked]
    names += expand_hostlist(excluded) if "/" not in excluded else []
    if not names:
        return ""
    try:
        known = run(["sinfo", "-h", "-a", "-N", "-o", "%N"], config.radd.command_timeout_s).split()
    except SlurmError:
        return ""
    return next((name for name in names if name not in known), "")


def _lacking_type(config: Config, fields: Mapping[str, str]) -> str:
    """A GPU type of a request that no node of its partitions has; nothing where all have it, or Slurm does not say."""
    types = gpu_types(",".join(fields.get(name, "") for name in TRES))
    if not types:
        return ""
    words = ["sinfo", "-h", "-p", fields["partition"], "-o", "%G"]
    try:
        shown = run(words, config.radd.command_timeout_s)
    except SlurmError:
        return ""
    known = gpu_types(shown.replace("\n", ",")) if "gpu:" in shown else types
    return next((kind for kind in types if kind not in known), "")


def _look(service: Service, user: str, now: int) -> None:
    """Tell the service what radd knows: the cluster as it is, and what was measured of the user's earlier runs."""
    radd = service.config.radd
    try:
        service.update(SlurmCommands(radd.command_timeout_s).look(tuple(service.config.partitions)))
    except SlurmError as error:
        click.echo(f"radctl: no look at the cluster, so no GPU is chosen: {error}", err=True)
    try:
        runs = SlurmAccounting(radd.command_timeout_s).runs(max(0, now - radd.learn_days * _DAY_S), now, user)
        service.experience = learn({}, runs)
    except SlurmError as error:
        click.echo(f"radctl: slurmdbd does not answer, so earlier runs do not count: {error}", err=True)


def _as_dict(answer: Answer, partition: str) -> dict[str, Any]:
    record = dataclasses.asdict(answer.record) if answer.record else {"action": "refused" if answer.reject else "none"}
    fields = {name: value for name, value in (answer.fields or {}).items() if name != "admin_comment"}
    return {**record, "partition": partition, "message": answer.message, "refused": answer.reject, "request": fields}


def _tell(answer: Answer) -> None:
    if answer.reject:
        say(f"refused: {answer.message}")
        return
    silent = "its script has no #RAD line" if answer.record is None else "the partition's mode is shadow"
    say(answer.message or f"the job goes through as written: {silent}")
    for name, value in (answer.fields or {}).items():
        if name != "admin_comment":
            say(f"  {name}={value}")
    for reason in answer.record.reasons if answer.record else ():
        if reason not in answer.message:
            say(f"  {reason}")


COMMANDS = [decide]
