"""Raw summary text to clean lines, and the small readers that all formats share. Pure.

The text comes from users, so every reader is a single pass without backtracking, and everything that could grow
(text, lines, layers, depth, numbers) has a limit here.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Final

from estimator.breath import OFTEN, breathe
from estimator.kept import keep
from estimator.types import SummaryError

MAX_CHARS: Final = 4 * 1024 * 1024
MAX_LINES: Final = 200_000
MAX_LAYERS: Final = 20_000
MAX_DEPTH: Final = 64
MAX_LINE: Final = 8_192
MAX_NAME: Final = 128
MAX_ARGS: Final = 512
# 10^15 parameters and 10^12 elements along one axis are far beyond any GPU; larger numbers are garbage.
MAX_PARAMS: Final = 10**15
MAX_DIM: Final = 10**12
MAX_DIMS: Final = 12

_QUOTE: Final = 120
# How lines of a rehearsal begin (`estimator.rehearsals.lines`).
_REHEARSED: Final = "Rehearsed "
_MAX_PREFIX: Final = 80
_MOST_RANKS: Final = 64
_NUMBERS: Final = re.compile(r"(\d+)")
_NAMES: Final = re.compile(r"[\w.]*")
_CLASS: Final = re.compile(r"\b[A-Z]")
# Where `str.splitlines` ends a line.
_LINE_END: Final = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_PIECE: Final = 65_536
_ANSI_END: Final = re.compile(r"[@-~]")
_MAX_SHAPE: Final = 200
_MOST_DIGITS: Final = 18
_THOUSANDS: Final = re.compile(r"\s*\d{1,3}(?:,\d{3})*\s*")
# What stands where somebody left lines out, behind what draws a tree, quotes or puts in brackets.
_CUTS: Final = ("...", "…", "⋮", ". .")
_BEFORE_CUT: Final = "│├└─|+#>[(< "
# So many times their stated total no rows add up to.
_TOO_MANY: Final = 10
# A number of fewer digits may be the end of another by chance.
_SURE_END: Final = 1_000
# How the rule behind the last row begins.
_ENDS: Final = "=└╘"
HEADER: Final = "Layer (type"
"""How the header of each table begins."""
CUT: Final = "lines were left out here: paste all of the summary"
NO_END: Final = "the table ends here without a rule and its totals: paste all of it"
# A layer inside a module's print, which is no prefix: ``(fc):``, ``(0-11): 12 x``, ``(q): lora.``.
_MEMBER: Final = re.compile(r"\([\w.-]+\):(?: \d+ x)?(?: [\w.]{1,100}\.)?")
_BARS: Final = "│┃ "
_FRAME: Final = f"{_BARS}|"
_QUOTED: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
# What a notebook puts around Keras' table.
_TAG: Final = re.compile(r"</?(?:pre|span)[^<>]*>")
_BLANKS: Final = (("\0", ""), ("\u00a0", " "), ("\u200b", ""), ("\ufeff", ""))


def fail(number: int, line: str, why: str) -> SummaryError:
    """Build the error for one line.

    Args:
        number: line number, counted from 1 in the text as given.
        line: the line; a long one is shortened.
        why: what is wrong and how to cure it.
    """
    shown = line.strip()
    return SummaryError(f"summary line {number}: {short(shown)}: {why}")


def short(text: str) -> str:
    """Quote a piece of the user's text; a long one is cut."""
    return repr(text) if len(text) <= _QUOTE else repr(text[:_QUOTE]) + "..."


def clean(text: str) -> list[str]:
    """Split the text into lines without ANSI colours, NULs, no-break spaces, tabs and trailing blanks.

    Raises:
        SummaryError: the text is empty or larger than a summary can be.
    """
    if len(text) > MAX_CHARS:
        raise SummaryError(
            f"the summary has {len(text):,} characters, more than the {MAX_CHARS:,} that are read: "
            "print it with a smaller depth"
        )
    if "\x1b" in text:
        text = _without_ansi(text)
    for odd, plain in _BLANKS:
        if odd in text:
            text = text.replace(odd, plain)
    lines = _split(text)
    if len(lines) > MAX_LINES:
        raise SummaryError(f"the summary has {len(lines):,} lines, more than the {MAX_LINES:,} that are read")
    if "\t" in text or (len(text) > MAX_LINE and _has_long(lines)):
        for number, line in enumerate(lines):
            if not number & OFTEN:
                breathe()
            lines[number] = _bounded(number + 1, line)
    if first_line(lines) == len(lines):
        raise SummaryError("the summary is empty: print the model into the file that the directive names")
    return lines


def _has_long(lines: list[str]) -> bool:
    for line in lines:  # noqa: SIM110
        if len(line) > MAX_LINE:
            return True
    return False


def _split(text: str) -> list[str]:
    """Split the text into lines, a piece at a time: of a long text of short lines that takes longer than all else."""
    lines: list[str] = []
    start = 0
    while start < len(text):
        breathe()
        found = _LINE_END.search(text, start + _PIECE)
        end = found.end() if found is not None else len(text)
        lines += text[start:end].splitlines()
        start = end
    breathe()
    return lines


def first_line(lines: list[str], start: int = 0) -> int:
    """Find the first line from index ``start`` on that is not blank; behind the last one where there is none."""
    for at in range(start, len(lines)):
        if not at & OFTEN:
            breathe()
        if lines[at].strip():
            return at
    return len(lines)


def unprefixed(lines: list[str], header: str) -> list[str] | None:
    """Take from the lines what a log, a quotation or line numbers put before each: ``INFO:root:``, ``> ``, ``12: ``.

    It is what stands before the first line that a summary may start with; numbers in it may change from line to line.

    Args:
        lines: the text.
        header: what a table's header begins with.

    Returns:
        The lines without it, where they have it; or None if there is no such thing.
    """
    for number, line in enumerate(lines):
        if not number & OFTEN:
            breathe()
        where = line.find(header)
        if where < 0 and line.endswith("("):
            # Backwards from the parenthesis: a search for the whole name takes the square of a line's length.
            behind = _NAMES.match(line[-2 : -2 - MAX_NAME : -1])
            name = _CLASS.search(line, len(line) - 1 - (behind.end() if behind else 0), len(line) - 1)
            where = name.start() if name is not None else -1
        before = line[: max(where, 0)].strip().rstrip(_BARS)
        if before and len(before) <= _MAX_PREFIX and not _MEMBER.fullmatch(before):
            marks = "".join(r"\d+" if part.isdecimal() else re.escape(part) for part in _NUMBERS.split(before))
            prefix = re.compile(f" *{marks}")
            return _without(lines, prefix)
    return None


def from_notebook(text: str) -> str:
    """Take what stands in quotation marks out of a notebook's JSON: lists of lines, or one string of all."""
    found: list[str] = []
    at = text.find('"')
    seen = 0
    while at >= 0 and seen <= MAX_LINES:
        seen += 1
        breathe()
        quoted = _QUOTED.match(text, at)
        if quoted is None:
            break
        with suppress(ValueError):
            piece = _TAG.sub("", json.loads(quoted[0])).rstrip("\n")
            if len(piece) <= MAX_LINE or "\n" in piece:  # and no picture
                found.append(piece)
        at = text.find('"', quoted.end())
    return "\n".join(found)


def _without(lines: list[str], prefix: re.Pattern[str]) -> list[str]:
    bare: list[str] = []
    of: list[str] = []
    said: dict[str, list[str]] = {}  # behind each prefix
    for number, line in enumerate(lines):
        if not number & OFTEN:
            breathe()
        found = prefix.match(line)
        rest = line[found.end() :] if found is not None else line
        bare.append(rest)
        of.append(found[0] if found is not None else "")
        if found is not None and len(said) <= _MOST_RANKS:
            said.setdefault(found[0], []).append(rest)
    ranks = list(said.values())
    # What each of several processes prints, with its number before it, is there once.
    alike = 1 < len(ranks) <= _MOST_RANKS and len(ranks[0]) > 1 and all(rank == ranks[0] for rank in ranks)
    others = list(said)[1:]
    return [rest for rest, rank in zip(bare, of, strict=True) if rank not in others] if alike else bare


def _bounded(number: int, line: str) -> str:
    """Give a line without tabs and of a sensible length.

    Raises:
        SummaryError: it is too long.
    """
    if len(line) <= MAX_LINE:
        return line.expandtabs(4)
    # Rules of "=" as wide as a very wide table are harmless; anything else this long is not a summary.
    if line.strip("=-_ "):
        raise fail(number, line, f"a line of {len(line):,} characters cannot be part of a summary")
    return line[:MAX_LINE]


def _without_ansi(text: str) -> str:
    first, *rest = text.split("\x1b")
    parts = [first]
    for number, part in enumerate(rest):
        if not number & OFTEN:
            breathe()
        if part.startswith("["):
            end = _ANSI_END.search(part, 1)
            parts.append(part[end.end() :] if end is not None else "")
        elif part.startswith("]"):  # an OSC ends with BEL; what has no end is text
            _, bell, after = part.partition("\a")
            parts.append(after if bell else part[1:])
        else:
            parts.append(part[1:])
    return "".join(parts)


def read_count(text: str) -> int | None:
    """Read a number such as ``1,234`` or ``1_234``; None if it is none, or larger than `MAX_PARAMS`.

    One whose commas do not stand at its thousands lost a digit.
    """
    if "," in text and not _THOUSANDS.fullmatch(text):
        return None
    digits = text.replace(",", "")
    if not (digits.isdecimal() and digits.isascii()):
        digits = digits.replace("_", "").strip()
        if not (digits.isdecimal() and digits.isascii()):
            return None
    if len(digits) > _MOST_DIGITS:
        return None
    value = int(digits)
    return value if value <= MAX_PARAMS else None


# What is about as large may be one model: a print shows no bare weights, and counts tied ones twice.
_ABOUT: Final = 0.05
# A size in MB is rounded to 0.01.
_ROUNDED: Final = 0.01
_BYTES: Final = 4
_TOTALS: Final = ("total params", "total parameters", "total number of parameters")
# Shapes by what is written of them; what is longer is not kept.
_SHAPES: Final[dict[str, tuple[int | None, ...]]] = {}
_MOST_KEPT: Final = 64


class Shapes:
    """Reads the shapes of one summary. Each size is read once: most stand in many shapes, and most shapes in others."""

    def __init__(self) -> None:
        self._sizes: dict[str, int | None] = {}

    def read(self, text: str) -> tuple[int | None, ...] | None:
        """Read the first innermost shape of ``[-1, 64, 7, 7]``, ``(None, 7, 7, 64)`` or ``[[2, 3], [2, 4]]``.

        Returns:
            The dimensions, None for each one that is not given (``-1``, ``None``); or None if this is no shape.
        """
        if len(text) > _MAX_SHAPE:
            return None
        plain = text.replace("None", "-1") if "None" in text else text
        dims = self.inside(plain[1:-1]) if plain[:1] in ("[", "(") and plain[-1:] in ("]", ")") else None
        if dims is not None:
            return dims
        # Not as simple as most shapes: several, or nested, or with a question mark.
        inner = plain.replace(")", "]").partition("]")[0].replace("(", "[").rpartition("[")
        sizes = inner[2].strip(" ,").replace("?", "-1")
        if not inner[1]:
            return None
        return self.inside(sizes) if sizes else ()

    def inside(self, text: str) -> tuple[int | None, ...] | None:
        """Read what stands in a shape's brackets: ``-1, 64, 7, 7``; None if it is something else."""
        if len(text) > _MAX_SHAPE:
            return None
        shape = _SHAPES.get(text)
        if shape is not None:
            return shape
        known = self._sizes
        parts = text.split(",")
        if len(parts) > MAX_DIMS:
            return None
        for part in parts:
            if part not in known:
                try:
                    size = int(part)
                except ValueError:
                    return None
                if not -1 <= size <= MAX_DIM:
                    return None
                known[part] = size if size >= 0 else None
        shape = tuple([known[part] for part in parts])
        return keep(_SHAPES, text, shape) if len(text) <= _MOST_KEPT else shape


def is_name(text: str) -> bool:
    """Tell whether this is a class or attribute name as Python writes it (dots allowed, as in ``a.B``)."""
    return len(text) <= MAX_NAME and (
        text.isidentifier() or (bool(text) and all(part.isidentifier() for part in text.split(".")))
    )


def is_cut(text: str) -> bool:
    """Tell whether somebody left lines out here: ``...``, ``[...]``, ``# ... 10 more``, or dots one below the other."""
    bare = text.lstrip(_BEFORE_CUT)
    return bare.startswith(_CUTS) or bare.rstrip() == "."


def is_rule(line: str) -> bool:
    """Tell whether the line only draws: ``=====``, ``-----``, ``_____`` or box characters."""
    return not line.strip("=-_¯ ━─┏┳┓┡╇┩├┼┤└┴┘┌┬┐╞╪╡╘╧╛╒╤╕+|")


def is_ruled(lines: list[str], start: int) -> bool:
    """Tell whether a rule stands above the header, so that one stands below the last row where nobody cut it off."""
    return start > 0 and bool(lines[start - 1].strip()) and is_rule(lines[start - 1])


def check_end(lines: list[str], start: int, at: int) -> None:
    """Refuse a table of which somebody cut off the end.

    Args:
        lines: the text.
        start: index of the table's header.
        at: index of the line behind its last row, and behind the rule that ends it.

    Raises:
        SummaryError: a rule stands above it, and the text ends with its rows.
    """
    if at < len(lines) or not is_ruled(lines, start):
        return
    while not lines[at - 1].strip():
        at -= 1
    if lines[at - 1].lstrip()[0] not in _ENDS:
        raise fail(at, lines[at - 1], NO_END)


def too_many(counted: int, stated: int | None, least: int = 0) -> str:
    """Say that rows are not those of a table's total, as they have far more parameters; "" where they may be.

    A total that lost its first digits is theirs no more: what is left of it is the end of what they add up to.

    Args:
        counted: parameters of the rows.
        stated: those of the total; None where there is none.
        least: parameters of these rows if all that may be the same layer are.
    """
    if stated is None or stated >= counted:
        return ""
    if counted <= _TOO_MANY * stated and not _ends_as(counted, stated) and (stated > least or about(stated, least)):
        return ""
    return f"the rows add up to {counted:,} parameters, and {stated:,} are stated: paste the table with its own total"


def _ends_as(counted: int, stated: int) -> bool:
    return stated >= _SURE_END and (counted - stated) % 10 ** len(str(stated)) == 0


def total_line(lines: list[str], start: int) -> tuple[int, str]:
    """Give the line that `total_params` reads and its number, counted from 1; else the line before ``start``."""
    for number in range(start, len(lines)):
        if not number & OFTEN:
            breathe()
        if lines[number].strip(f"{_FRAME}# ").lower().startswith(_TOTALS):
            return number + 1, lines[number]
    return start, lines[start - 1]


def read_totals(lines: list[str], start: int) -> dict[str, str]:
    """Read the ``Total params: 1,234`` lines from line index ``start`` on, up to another table; the first counts.

    Returns:
        Lower-case names without units, such as ``total params`` and ``forward/backward pass size``, to values.
    """
    totals: dict[str, str] = {}
    for number in range(start, len(lines)):
        if not number & OFTEN:
            breathe()
        line = lines[number]
        if HEADER in line:
            break
        name, colon, value = line.partition(":")
        told = colon and len(name) < 60 and ("param" in name.lower() or "size" in name or "mult-adds" in name)
        if told or name.startswith(_REHEARSED):  # however long; and cut ones, which are refused
            label, _, unit = name.strip(_FRAME + "#").lower().partition(" (")
            totals.setdefault(label, f"{value.strip(_FRAME)} {unit.rstrip(')')}".strip())
    return totals


def total_params(totals: dict[str, str]) -> int | None:
    """Read the total of parameters from `read_totals`, also in units (``11.69 m``); None if there is none."""
    said = next((totals[label] for label in _TOTALS if label in totals), "")
    text = said.partition("(")[0].partition("|")[0].strip()
    if not text:
        return None
    value, _, unit = text.partition(" ")
    count = read_count(value)
    if count is not None and not unit:
        return count
    if "," in value and not _THOUSANDS.fullmatch(value.partition(".")[0]):
        return None  # it lost a digit, or stands for a point
    try:
        scaled = float(value.replace(",", "")) * {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "": 1.0}[unit.strip()]
    except (ValueError, KeyError):
        return None
    return int(scaled) if 0 <= scaled <= MAX_PARAMS else None


def frozen_params(totals: dict[str, str]) -> int:
    """Read "Non-trainable params" from `read_totals`; 0 if there is none."""
    return _count(totals.get("non-trainable params", "")) or 0


def trained_params(totals: dict[str, str]) -> int:
    """Read "Trainable params" from `read_totals`; 0 if there is none."""
    return _count(totals.get("trainable params", "")) or 0


def stated_params(totals: dict[str, str], counted: int) -> int | None:
    """Read a table's total, or where that line is gone what others say; None where they say no more than rows.

    That is what is trained and what is not, or else the size of all, in four bytes for each.

    Args:
        totals: see `read_totals`.
        counted: what the rows of the table add up to.
    """
    said = total_params(totals)
    if said is not None:
        return said
    total = trained_params(totals) + frozen_params(totals) or round((params_mb(totals) or 0.0) * 1e6 / _BYTES)
    return total if total > counted and not about(total, counted, _ROUNDED) else None


def all_params(totals: dict[str, str]) -> int:
    """Read the total of what peft's ``print_trainable_parameters()`` writes; 0 if there is none."""
    _, _, more = totals.get("trainable params", "").partition("|| all params:")
    return _count(more) or 0


def trained_of(totals: dict[str, str], total: int) -> tuple[int, int]:
    """Read what is trained of a model with about so many parameters, and how many it has; zeros if that is unsaid.

    Either both "Trainable params" and "Non-trainable params" are there, or what peft's ``print_trainable_parameters()``
    writes.
    """
    trained = trained_params(totals)
    whole = all_params(totals) or trained + frozen_params(totals)
    return (trained, whole) if trained and about(whole, total) and trained <= whole else (0, 0)


def about(one: int, other: int, share: float = _ABOUT) -> bool:
    """Tell whether two numbers of parameters differ by no more than a share of the larger."""
    return abs(one - other) <= share * max(one, other)


def _count(text: str) -> int | None:
    return read_count(text.partition("(")[0].partition("|")[0].strip())


def pass_mb(totals: dict[str, str]) -> float | None:
    """Read "Forward/backward pass size" in MB from `read_totals`; None if there is none."""
    return _megabytes(totals, "forward/backward pass size")


def params_mb(totals: dict[str, str]) -> float | None:
    """Read "Params size" in MB from `read_totals`; None if there is none."""
    return _megabytes(totals, "params size")


def input_mb(totals: dict[str, str]) -> float | None:
    """Read "Input size" in MB from `read_totals`; None if there is none."""
    return _megabytes(totals, "input size")


def _megabytes(totals: dict[str, str], label: str) -> float | None:
    said = totals.get(label)
    if said is None:
        return None
    value, _, unit = said.partition(" ")
    try:
        size = float(value.replace(",", "")) * {"mb": 1.0, "gb": 1e3, "kb": 1e-3, "": 1e-6}[unit.strip()]
    except (ValueError, KeyError):
        return None
    return size if 0 <= size < MAX_DIM else None
