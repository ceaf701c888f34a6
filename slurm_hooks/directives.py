"""The `#RAD` lines of a batch script. Pure: text in, values or an error with line, reason and cure out.

Directives stand in the leading comment block, as `#SBATCH` lines do: the first line that is neither blank nor a
comment, indented or not, ends it. Whatever stands there comes from a user.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final, NamedTuple, cast, get_args

from estimator.breath import OFTEN, breathe
from estimator.input_size import InputSizeError, read
from estimator.types import KINDS, OPTIMIZERS, PRECISIONS, Kind, Optimizer, Precision
from slurm_hooks.config import JobPolicy
from slurm_hooks.record_text import printable

MARK: Final = "#RAD"
_ANOTHER: Final = "#!"  # sbatch takes no script that begins otherwise
SUMMARY_BEGIN: Final = "summary-begin"
SUMMARY_END: Final = "summary-end"
LATE: Final = f"{MARK} lines after the first command have no effect: move them up, beside the #SBATCH lines"
_OTHERS: Final = (
    "for another name the one that keeps as much: adam (two numbers a parameter), sgd_momentum or rmsprop (one), "
    "sgd (none)"
)
_OF_SUMMARY: Final = (
    f": write {MARK} model=FILE, or the summary between {MARK} {SUMMARY_BEGIN} and {MARK} {SUMMARY_END}, "
    "each alone on its line"
)
_QUOTED: Final = " on each line, and quotes around a value with blanks"

KEYS: Final = ("model", "batch_size", "input_size", "seq_len", "optimizer", "precision", "kind", "policy", "memory")

_LARGEST_COUNT: Final = 100_000_000
_LARGEST_MEMORY_MIB: Final = 10 * 1024 * 1024
_LONGEST_PATH: Final = 4096
_LONGEST_LINE: Final = 8192
_MIB_PER_UNIT: Final = {"k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024.0}
_PAIR: Final = re.compile(r"""([A-Za-z][\w+-]*)\s*[=:](\s*)("[^"]*"|'[^']*'|[^\s"']\S*)?,?(?=\s|$)""")
_KEY: Final = re.compile(r"([A-Za-z][\w+-]*)\s*[=:]")
_WORD: Final = re.compile(r"""[\w-]+(?:=[^"']*)?""")  # an option, too: --batch-size=8
_COMMENT: Final = re.compile(r"[ \t]#")
_BLANKS: Final = " \t\r\v\f"  # around what a line says; rad_script.lua passes over these too
_ODD_BLANK: Final = re.compile(r"[^\S \t]")  # a no-break space, as web pages and word processors have
_AUTOCAST: Final = re.compile("mixed|autocast")
_MEMORY: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([KMGT])(?:i?B)?", re.IGNORECASE)


# Searches, not a loop over lines: 100,000 lines of comments are read within a submit's deadline. What is blank is what
# sbatch's isspace() says: not a line of a no-break space.
_FIRST_COMMAND: Final = re.compile(r"[^\S\n]*[^\s#]", re.ASCII)
_COMMAND: Final = re.compile(r"\n[^\S\n]*[^\s#]", re.ASCII)
# A text's first line needs a newline before it. What only looks like a blank is no comment: it is refused.
_DIRECTIVE: Final = re.compile(r"\n#RAD((?=[ \t\u00a0:=\r\n])[^\n]*|\Z)")
# Comments that may be meant for directives; rad_script.lua has the same. A second # is how one takes a directive out.
_MEANT: Final = re.compile(r"\s*#[\s\u00a0]*RAD[\s\u00a0:_-]*([A-Z][\w-]*)\s*([=:]?)", re.ASCII | re.IGNORECASE)
_MEANT_CHARACTERS: Final = 65_536
_MEANT_LINES: Final = 1000


class DirectiveError(ValueError):
    """A directive that cannot be followed.

    Attributes:
        line: number of the line in the script, from 1.
        reason: what is wrong and what to write instead.
    """

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


class Directives(NamedTuple):
    """What a script's `#RAD` lines say; None where they say nothing.

    Attributes:
        model: path of the summary as written, relative to the submit directory.
        input_size: shape of one sample, as `estimator.input_size` reads it.
        memory_mib: the user's claim, in MiB, that replaces the estimate.
        summary: text of the inline summary.
        late: whether more `#RAD` lines of its own stand behind the leading comment block, where they have no effect.
    """

    model: str | None = None
    batch_size: int | None = None
    seq_len: int | None = None
    optimizer: Optimizer | None = None
    precision: Precision | None = None
    kind: Kind | None = None
    policy: JobPolicy | None = None
    memory_mib: int | None = None
    summary: str | None = None
    input_size: tuple[int, ...] | None = None
    late: bool = False


def leading_block(script: str) -> str:
    """The leading comment block of a script: up to its first line that is neither blank nor a comment."""
    return script[: _block_end(script)]


def _block_end(script: str) -> int:
    """Where the leading comment block of a script ends."""
    if _FIRST_COMMAND.match(script):
        return 0
    command = _COMMAND.search(script)
    return command.start() + 1 if command else len(script)


def has_directives(script: str) -> bool:
    """Whether the leading comment block holds a `#RAD` line."""
    return _DIRECTIVE.search("\n" + leading_block(script)) is not None


def has_late_directives(script: str) -> bool:
    """Whether a `#RAD` line of the script's own stands behind the leading comment block, where it has no effect."""
    return _has_late(script, _block_end(script))


def _has_late(script: str, end: int) -> bool:
    """Whether a `#RAD` line stands behind `end`, and not in another script within this one: that begins with ``#!``."""
    found = _DIRECTIVE.search(script, end)
    return found is not None and script.find(f"\n{_ANOTHER}", end, found.start()) < 0


def looks_like_directives(script: str) -> str:
    """What its user is told of a script's comments that look like directives; nothing where none does.

    cli_filter.lua says the same at submit (rad_script.lua). Further down than some lines neither looks.
    """
    numbers: list[int] = []
    written = ""
    inside = False
    for number, line in enumerate(leading_block(script[:_MEANT_CHARACTERS]).split("\n")[:_MEANT_LINES], start=1):
        if directive := _DIRECTIVE.match("\n" + line):
            word = directive.group(1).strip(_BLANKS)
            inside = word == SUMMARY_BEGIN or (inside and word != SUMMARY_END)
        elif not inside and (meant := _meant(line)):
            numbers.append(number)
            written = written or meant
    if not numbers:
        return ""
    listed = ", ".join(str(number) for number in numbers[:3]) + (f" and {len(numbers) - 3} more" if numbers[3:] else "")
    what = f"line {listed} looks like a directive and is a comment"
    if len(numbers) > 1:
        what = f"lines {listed} look like directives and are comments"
    return f"{what}: write {MARK} {written}, from the first column, in capitals, with a blank behind {MARK}"


def _meant(line: str) -> str:
    """How the directive is written that a comment looks like; nothing where it looks like none."""
    found = _MEANT.match(line)
    if found is None:
        return ""
    key = _key(found.group(1))
    if key == _key(SUMMARY_BEGIN):
        return SUMMARY_BEGIN
    return f"{key}=..." if found.group(2) and key in KEYS else ""


def parse_script(script: str) -> Directives | None:
    """The directives of a script, or None where it has none.

    Raises:
        DirectiveError: at the first directive that cannot be followed.
    """
    # A long script is not copied: it gets a newline before it only where a directive comes first.
    shift = int(script.startswith(MARK))
    text = "\n" + script if shift else script
    values: dict[str, object] = {}
    first_line: dict[str, int] = {}
    begin = begin_end = line = position = 0
    found = False
    end = _block_end(script) + shift
    for directive in _DIRECTIVE.finditer(text, 0, end):
        breathe()
        found = True
        inside = begin and "summary" not in values
        word = directive.group(1).strip(_BLANKS)
        if word == SUMMARY_END and inside:  # first: to count the lines of a summary takes as long as to read it
            values["summary"] = _uncommented(text[begin_end : directive.start()])
            continue
        line += text.count("\n", position, directive.start() + 1)
        position = directive.start() + 1
        number = line + 1 - shift
        _check(word, number)
        if word == SUMMARY_BEGIN:
            if begin:
                raise DirectiveError(number, f"a second {SUMMARY_BEGIN}: the first is in line {begin}")
            begin, begin_end = number, directive.end()
        elif word == SUMMARY_END:
            raise DirectiveError(number, f"{SUMMARY_END} without {SUMMARY_BEGIN} before it")
        elif inside:
            raise DirectiveError(number, f"a directive inside the summary that begins in line {begin}")
        else:
            for key, said in _pairs(word, number):
                if key in first_line:
                    raise DirectiveError(number, f"{key} is already set in line {first_line[key]}: keep one of them")
                first_line[key] = number
                values["memory_mib" if key == "memory" else key] = _value(key, said, number)
    if begin and "summary" not in values:
        raise DirectiveError(begin, f"{SUMMARY_BEGIN} has no {MARK} {SUMMARY_END} in the leading comment block")
    if not found:
        return None
    return Directives(**values, late=_has_late(text, end))  # type: ignore[arg-type]


def _uncommented(lines: str) -> str:
    """Comment lines, each behind its newline, without their marks; a blank line may stand between them."""
    if "\r" in lines:
        lines = (lines + "\n").replace("\r\n", "\n")[:-1]
    plain = lines.split("\n# ")
    if "\n" in "".join(plain):  # blank lines, or marks without a blank behind them
        each = lines[1:].split("\n")
        for at, line in enumerate(each):
            if not at & OFTEN:
                breathe()
            each[at] = line[2:] if line[:2] == "# " else line.removeprefix("#")
        return "\n".join(each)
    return "\n".join(plain[1:])


def _check(text: str, number: int) -> None:
    if len(text) > _LONGEST_LINE:
        raise DirectiveError(number, f"longer than {_LONGEST_LINE} characters")
    odd = _ODD_BLANK.search(_COMMENT.split(text, maxsplit=1)[0])
    if odd is not None:
        raise DirectiveError(number, f"it holds U+{ord(odd.group()):04X}, which only looks like a blank: write a blank")


def _pairs(text: str, number: int) -> Iterable[tuple[str, str]]:
    position = 0
    if not text:
        raise DirectiveError(number, f"nothing is set: write {MARK} key=value")
    while position < len(text) and text[position] != "#":
        found = _PAIR.match(text, position)
        if found is None:
            piece = text[position : position + 40].split(maxsplit=1)[0]
            meant = piece if _WORD.fullmatch(piece) else ""  # else it is the rest of a path, most likely
            cure = f": write {MARK} key=value{_hint(meant, KEYS, _QUOTED if position else '')}"
            if piece in KEYS:
                cure = f": write {MARK} {piece}=..."
            elif any(piece.count(mark) % 2 and text.count(mark, position) % 2 for mark in "\"'"):
                cure = ": its quotation mark has no end"
            raise DirectiveError(number, f"cannot read {piece!r}{_OF_SUMMARY if _is_summary(piece) else cure}")
        key = _key(found.group(1))
        value = (found.group(3) or "").rstrip(",")
        if key not in KEYS:
            cure = _OF_SUMMARY if _is_summary(key) else _hint(key, KEYS)
            raise DirectiveError(number, f"unknown key {_short(found.group(1))!r}{cure}")
        if value[:1] in ("'", '"'):
            value = value[1:-1]
        if not value or (found.group(2) and _begins_anew(text, found.start(3))):
            raise DirectiveError(number, f"{key} has no value: write {MARK} {key}=...")
        yield key, value
        position = found.end()
        while position < len(text) and text[position] in " \t":
            position += 1


def _is_summary(word: str) -> bool:
    """Whether somebody means a summary, of which no key has the name."""
    return word.lower().startswith("summary")


def _key(word: str) -> str:
    return word.lower().replace("-", "_")


def _begins_anew(text: str, position: int) -> bool:
    """Whether a comment or the next pair stands where, behind a blank, a value should."""
    found = _KEY.match(text, position)
    return text[position] == "#" or (found is not None and _key(found.group(1)) in KEYS)


def _value(key: str, text: str, number: int) -> object:
    if key == "model":
        if len(text) > _LONGEST_PATH or not text.isprintable():
            raise DirectiveError(number, "model is not a path: too long, or characters that cannot be printed")
        return text
    if key in ("batch_size", "seq_len"):
        return _count(key, text, number)
    if key == "input_size":
        try:
            return read(text)
        except InputSizeError as error:
            raise DirectiveError(number, f"input_size={_short(text)}: {error}") from None
    if key == "memory":
        return _memory(text, number)
    choices: dict[str, tuple[str, ...]] = {
        "optimizer": OPTIMIZERS,
        "precision": PRECISIONS,
        "kind": KINDS,
        "policy": get_args(JobPolicy),
    }
    word = text.lower().replace("-", "_").replace("+", "_")
    if word not in choices[key]:
        # Lightning's bf16-mixed is nearest to bf16 in letters, and has weights in fp32 as amp has.
        meant = "amp" if key == "precision" and _AUTOCAST.search(word) else word
        otherwise = f": known are {', '.join(OPTIMIZERS)}; {_OTHERS}" if key == "optimizer" else ""
        raise DirectiveError(number, f"{key}={_short(text)}: not known{_hint(meant, choices[key], otherwise)}")
    return cast("object", word)


def _count(key: str, text: str, number: int) -> int:
    if not (text.isascii() and text.isdigit()):
        bare = re.sub(r"(?<=\d)[,_'](?=\d{3})", "", text)
        cure = f": write {key}={bare}" if bare != text and bare.isdigit() else f": write {key}=64, for example"
        raise DirectiveError(number, f"{key}={_short(text)}: not a whole number above 0{cure}")
    if len(text) > 12 or not 1 <= int(text) <= _LARGEST_COUNT:
        raise DirectiveError(number, f"{key}={_short(text)}: must lie between 1 and {_LARGEST_COUNT}")
    return int(text)


def _memory(text: str, number: int) -> int:
    found = _MEMORY.fullmatch(text)
    if found is None:
        why = "not an amount of memory: write memory=12G, for example"
        if text.isascii() and text.isdigit():  # a unit behind a blank, too
            why = "it has no unit: write memory=12G, for example, in one word"
        raise DirectiveError(number, f"memory={_short(text)}: {why}")
    mib = round(float(found.group(1)) * _MIB_PER_UNIT[found.group(2).lower()])
    if not 1 <= mib <= _LARGEST_MEMORY_MIB:
        raise DirectiveError(number, f"memory={_short(text)}: must lie between 1M and 10T")
    return mib


def _short(text: str) -> str:
    return printable(text[:40]) + ("..." if len(text) > 40 else "")


def _hint(word: str, known: Iterable[str], otherwise: str = "") -> str:
    known = tuple(known)
    near = difflib.get_close_matches(word[:40], known, n=1, cutoff=0.5)
    return f": did you mean {near[0]!r}?" if near else otherwise or f": known are {', '.join(known)}"
