"""RAD-RM's task files (``.rad``) as batch scripts. Pure: text in, text out.

The form is the dissertation's (listing 6.1): comments, a conda environment, commands, then ``key: value`` lines.
"""

from __future__ import annotations

import difflib
import re

from slurm_hooks.directives import KEYS, MARK, DirectiveError, parse_script

_PAIR = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(.*)$")
_NUMBERED = re.compile(r"\d+ +")
_BOTH_POLICIES = re.compile(r"exclusive\s*/\s*collocation")


class RadFileError(ValueError):
    """A .rad file that cannot be converted; the message names the line and the cure."""


def convert(text: str, name: str = "") -> str:
    """The batch script that does what a .rad file does.

    Args:
        text: the file.
        name: name of the job, or the empty string for Slurm's own choice.

    Raises:
        RadFileError: if a line is not understood, or there is no command or no key.
    """
    values: dict[str, tuple[int, str]] = {}
    body: list[str] = []
    for number, line in enumerate(_without_numbers(text.removeprefix("\ufeff").splitlines()), start=1):
        pair = _PAIR.match(line)
        key = pair.group(1).lower().replace("-", "_") if pair else ""
        # A blank follows the colon, but may be left out behind RAD's own keys: http://... is a command.
        if pair is None or not (key in KEYS or pair.group(2)[:1] in ("", " ", "\t")):
            if line.startswith("conda activate"):
                # In a batch script conda is no shell function until its hook has run.
                body.append('eval "$(conda shell.bash hook)"')
            body.append(line)
            continue
        value = re.sub(r"(^|\s)#.*", "", pair.group(2)).strip()
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(KEYS)}"
            raise RadFileError(f"line {number}: unknown key {pair.group(1)!r}: {hint}")
        if key in values:
            raise RadFileError(f"line {number}: {key} is already set in line {values[key][0]}: keep one of them")
        values[key] = (number, value)
    if not any(line.strip() and not line.startswith("#") for line in body):
        raise RadFileError("no command: add the line that starts the training")
    if not values:
        raise RadFileError(f"no line says key: value, with a key of {', '.join(KEYS)}: this is no task file of RAD-RM")
    if "policy" in values and _BOTH_POLICIES.fullmatch(values["policy"][1]):
        del values["policy"]  # listing 6.1 names both: it leaves the choice to the site
    header = ["#!/bin/bash", f"#SBATCH --job-name={name}"] if re.fullmatch(r"[\w.-]+", name) else ["#!/bin/bash"]
    header.append("#SBATCH --gres=gpu:1")
    header += [_directive(key, value, number) for key, (number, value) in values.items()]
    return "\n".join([*header, *body]) + "\n"


def _directive(key: str, value: str, number: int) -> str:
    line = f'{MARK} {key}="{value}"' if re.search(r"\s", value) else f"{MARK} {key}={value}"
    try:
        parse_script(line)
    except DirectiveError as error:
        raise RadFileError(f"line {number}: {error.reason}") from error
    return line


def _without_numbers(lines: list[str]) -> list[str]:
    """`lines` without the line numbers that a listing is printed with, if every line has its own."""
    numbered = [line for line in lines if line.strip()]
    if all(re.match(rf"{n} +", line) for n, line in enumerate(numbered, start=1)):
        return [_NUMBERED.sub("", line, count=1) for line in numbered]
    return lines
