"""What RAD's job_submit.lua lets through without asking radd. Pure: a script in, what its user is told out.

For trying a script without submitting it (`radctl decide`). The limits stand at the top of rad.lua and rad_script.lua.
"""

from __future__ import annotations

import re

from slurm_hooks.directives import LATE, has_directives, has_late_directives, leading_block

LONGEST_BLOCK = 786_432
LONGEST_WHOLE = 65_536
LONGEST_REQUEST = 1_000_000
LONGEST_OPTIONS = 131_072
LONGEST_SUMMARY = 524_288
MAX_STEPS = 10_000
LUA_DEADLINE_S = 0.05

_GAP = re.compile(r"\n\s+")


def sent(script: str) -> str:
    """As much of a script as radd is sent: all of it, or of a long one its leading comment block."""
    return script if len(script.encode(errors="surrogateescape")) <= LONGEST_WHOLE else leading_block(script)


def unasked(script: str, request_bytes: int, options_bytes: int) -> str | None:
    """What the user of a script is told that radd is not asked about: nothing if it is empty; None where it is asked.

    Args:
        script: text of the batch script.
        request_bytes: length of the message that radd would be sent.
        options_bytes: length of what else than script and summary is in it.
    """
    if not has_directives(script) and not has_late_directives(script):
        return ""
    block = leading_block(script)
    if len(block.encode(errors="surrogateescape")) > LONGEST_BLOCK or len(_GAP.findall(block)) >= MAX_STEPS:
        long = f"the leading comment block is longer than {LONGEST_BLOCK // 1024} KiB or has over {MAX_STEPS} gaps"
        return f"{long}: the job goes through as written"
    if not has_directives(script):
        return LATE
    if options_bytes > LONGEST_OPTIONS:
        return f"the options are longer than {LONGEST_OPTIONS // 1024} KiB together: the job goes through as written"
    if request_bytes > LONGEST_REQUEST:
        return (
            f"script, summary and options are longer than {LONGEST_REQUEST // 1000} KB together: "
            "the job goes through as written"
        )
    return None
