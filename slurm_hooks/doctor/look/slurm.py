"""What Slurm's commands tell of its configuration, nodes and accounting. Starts them through a `Runner`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from slurm_hooks.doctor.facts import NodeFact
from slurm_hooks.slurm.commands import Runner, SlurmError

_SETTING = re.compile(r"^(\S+)\s+= (.*)$")


def controller(runner: Runner, timeout_s: float) -> tuple[Mapping[str, str], str, list[NodeFact], str]:
    """Settings, what `scontrol` shows of partitions, and nodes; else why slurmctld does not answer."""
    try:
        settings = parse_settings(runner(["scontrol", "show", "config"], timeout_s))
        partitions = runner(["scontrol", "show", "partition", "-o"], timeout_s)
        return settings, partitions, parse_nodes(runner(["scontrol", "show", "node", "-o"], timeout_s)), ""
    except SlurmError as error:
        return {}, "", [], str(error)


def parse_settings(text: str) -> dict[str, str]:
    """What ``scontrol show config`` prints; ``(null)`` becomes the empty string.

    Later versions number hooks, of which there may be several: ``Prolog[0] = ...``; they are joined by commas.
    """
    settings: dict[str, str] = {}
    for line in text.splitlines():
        if found := _SETTING.match(line):
            name, value = found.group(1), found.group(2).strip().replace("(null)", "")
            hook = re.fullmatch(r"(\w*(?:Prolog|Epilog)\w*)\[\d+\]", name)
            name = hook.group(1) if hook else name
            settings[name] = f"{settings[name]},{value}" if hook and settings.get(name) else value
    return settings


def parse_nodes(text: str) -> list[NodeFact]:
    """Lines of ``scontrol show node -o``."""
    nodes = []
    for line in text.splitlines():
        fields = dict(re.findall(r"(?:^| )([A-Za-z]+)=(\S*)", line))
        fields = {name: "" if value == "(null)" else value for name, value in fields.items()}
        if fields.get("NodeName"):
            nodes.append(
                NodeFact(
                    fields["NodeName"],
                    fields.get("NodeHostName", ""),
                    fields.get("Gres", ""),
                    frozenset(filter(None, fields.get("Partitions", "").split(","))),
                    frozenset(filter(None, fields.get("AvailableFeatures", "").split(","))),
                    fields.get("State", ""),
                    reason.group(1) if (reason := re.search(r" Reason=(.*?)(?: \[|$)", line)) else "",
                )
            )
    return nodes


def by_partition(shown: str, what: str) -> dict[str, str]:
    """What ``scontrol show partition -o`` says of each partition; the empty string where it says nothing."""
    return dict(re.findall(rf"^PartitionName=(\S+)(?:.* {what}=(\S+))?", shown, re.M))


def slurmdbd(runner: Runner, timeout_s: float) -> str:
    """Why slurmdbd does not answer, or the empty string."""
    try:
        runner(["sacctmgr", "-n", "-P", "show", "cluster", "format=Cluster"], timeout_s)
    except SlurmError as error:
        return str(error)
    return ""


def limits(runner: Runner, timeout_s: float) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Limits of QOSs and of associations by whose they are, and what QOSs want at least; those that slurmdbd tells."""

    def rows(what: str, columns: str) -> list[list[str]]:
        try:
            shown = runner(["sacctmgr", "-n", "-P", "show", what, f"format={columns}"], timeout_s)
        except SlurmError:
            return []
        return [line.split("|") for line in shown.splitlines()]

    found: dict[str, tuple[str, ...]] = {}
    least: dict[str, str] = {}
    for name, *lists in rows("qos", "Name,GrpTRES,MaxTRES,MaxTRESPU,MaxTRESPA,MinTRES"):
        least[name] = lists.pop() if lists else ""
        found[f"QOS {name}"] = tuple(lists)
    for whose, *lists in rows("assoc", "Account,GrpTRES,MaxTRES,User"):
        user = lists.pop() if lists else ""
        found[f"user {user} of {whose}" if user else f"account {whose}"] = tuple(lists)
    return found, least


def rights(runner: Runner, user: str, timeout_s: float) -> str | None:
    """A user's AdminLevel in slurmdbd; the empty string for a user that it does not know, None where it is silent."""
    try:
        shown = runner(["sacctmgr", "-n", "-P", "show", "user", user, "format=AdminLevel"], timeout_s)
    except SlurmError:
        return None
    return shown.strip()
