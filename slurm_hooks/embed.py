"""A batch script with its model summary inside. Pure: text in, text out."""

from __future__ import annotations

from slurm_hooks.directives import MARK, SUMMARY_BEGIN, SUMMARY_END, leading_block, parse_script

_BEGIN = f"{MARK} {SUMMARY_BEGIN}"
_END = f"{MARK} {SUMMARY_END}"


class EmbedError(ValueError):
    """A script that a summary cannot be put into; the message says why and what to do."""


def embed(script: str, summary: str) -> str:
    """Put `summary` behind the last directive of `script`, in place of the summary that it may already hold.

    All other lines stay as they are. A `model=` directive stays too: it is the name that messages use.

    Raises:
        EmbedError: if the script has no directives.
        DirectiveError: if one of them cannot be followed.
    """
    if parse_script(script) is None:
        raise EmbedError(f"no {MARK} line in the leading comment block: add one, for example: {MARK} batch_size=64")
    lines = script.split("\n")
    head = leading_block(script)
    block = head.count("\n") + (not head.endswith("\n"))
    if begin := _find(lines[:block], _BEGIN):
        del lines[begin - 1 : _find(lines[:block], _END)]
        at = begin - 1
    else:
        at = max(number for number, line in enumerate(lines[:block], start=1) if line.startswith(MARK))
    if at == len(lines):
        lines.append("")  # the last line had no end
    end = "\r" if lines[0].endswith("\r") else ""
    wanted = [line.removesuffix("\r") for line in summary.removesuffix("\n").split("\n")]
    commented = [f"# {line}" if line else "#" for line in wanted]
    lines[at:at] = [line + end for line in (_BEGIN, *commented, _END)]
    made = "\n".join(lines)
    parsed = parse_script(made)
    if parsed is None or parsed.summary != "\n".join(wanted):
        raise EmbedError("the summary holds lines that do not survive a comment block: carriage returns")
    return made


def _find(lines: list[str], directive: str) -> int:
    """Number, from 1, of the line that says `directive`; 0 where there is none."""
    words = directive.split()
    return next((n for n, line in enumerate(lines, start=1) if line.startswith(MARK) and line.split() == words), 0)
