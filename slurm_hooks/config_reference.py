"""The configuration's reference page and example file, made from `slurm_hooks.config`. Pure: returns text.

`radctl config reference` and `radctl config example` print them; docs/configuration.md and etc/rad.toml.example
are what they print.
"""

from __future__ import annotations

import dataclasses
import json
import textwrap
import typing
from typing import Any, Literal

from slurm_hooks import config

_TYPES = {int: "whole number", float: "number", str: "string", bool: "true or false"}

_INTRO = f"""\
# Configuration

RAD reads `{config.DEFAULT_PATH}`: on the controller (radd), on the nodes (Prolog, Epilog, rad-monitor) and where
users run `radctl`. The file is [TOML](https://toml.io). Every key has a default; a partition that the file does
not name is none of RAD's business. An unknown section or key, or a value out of range, is an error.
radd and rad-monitor read it when they start: restart them after a change. Prolog and Epilog read it anew for each job;
`[mps]` and `[node] state_dir` hold for a job as its Prolog found them. Users' `radctl` reads it too.

A node that has no such file does nothing for new jobs: so RAD is switched off there. One that cannot use it (an error,
a link to nowhere, a file system that is away or hangs, an empty file) goes on with the last that it could use, of which
it keeps a copy in `/var/cache/rad`, or where `RAD_KEPT` in rad.env beside the hooks says. The node's log says so once,
and `radctl doctor` does.

- `radctl config check [FILE]` checks a file and names section, key and cure.
- `radctl config example` prints a file with every key, its default and its meaning (`etc/rad.toml.example`).
- `radctl config reference` prints this page.

`[defaults]` and `[partitions.NAME]` hold the same keys: a partition takes from `[defaults]` what it does not say.
"""

_EXAMPLE_INTRO = f"""\
# RAD's configuration, with every key and its default. Copy to {config.DEFAULT_PATH}, take away the "#" where
# you want something else, then run: radctl config check, and restart radd and rad-monitor, which read it when they
# start. Everybody should be able to read it.
"""

_EXAMPLE_PARTITION = """\
# A partition that RAD looks after: without one of these RAD leaves every job alone. All keys of [defaults]
# may stand here too; begin with mode = "shadow".
#[partitions.gpu]
#gpu_model = "h200"
#mode = "shadow"
"""


def reference() -> str:
    """The reference page, in Markdown."""
    parts = [_INTRO]
    for name, cls in _sections():
        title = "`[defaults]` and `[partitions.NAME]`" if name == "defaults" else f"`[{name}]`"
        rows = [
            f"| `{f.name}` | {_type(hint)} | `{json.dumps(f.default)}` | {_escape(_doc(f))}{_range(f)} |"
            for f, hint in _fields(cls)
        ]
        parts.append(
            f"## {title}\n\n{_about(cls)}\n\n| key | type | default | meaning |\n|---|---|---|---|\n"
            + "\n".join(rows)
            + "\n"
        )
    return "\n".join(parts)


def example() -> str:
    """An example file: every key and one partition, commented out."""
    parts = [_EXAMPLE_INTRO]
    for name, cls in _sections():
        lines = [f"# {_about(cls)}", f"[{name}]"]
        for f, hint in _fields(cls):
            about = f"{_doc(f)}{_range(f)}"
            if typing.get_origin(hint) is not Literal:
                about += f" ({_type(hint)})"
            lines += [f"# {line}" for line in textwrap.wrap(about, 110)]
            lines.append(f"#{f.name} = {json.dumps(f.default)}")
        parts.append("\n".join(lines) + "\n")
    parts.append(_EXAMPLE_PARTITION)
    return "\n".join(parts)


def _sections() -> list[tuple[str, Any]]:
    hints = typing.get_type_hints(config.Config)
    return [(f.name, hints[f.name]) for f in dataclasses.fields(config.Config) if f.name != "partitions"]


def _fields(cls: Any) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = typing.get_type_hints(cls)
    return [(f, hints[f.name]) for f in dataclasses.fields(cls)]


def _about(cls: Any) -> str:
    """The section's docstring without its name in brackets: "the decision service on the controller." -> "The ..."."""
    text = str(cls.__doc__).splitlines()[0].split(": ", 1)[-1]
    return text[0].upper() + text[1:]


def _doc(f: dataclasses.Field[Any]) -> str:
    return str(f.metadata["doc"])


def _type(hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return ", ".join(f"`{choice}`" for choice in typing.get_args(hint))
    return _TYPES[hint]


def _range(f: dataclasses.Field[Any]) -> str:
    low, high = f.metadata["low"], f.metadata["high"]
    return "" if low is None else f" From {low} to {high}."


def _escape(text: str) -> str:
    return text.replace("|", "\\|")
