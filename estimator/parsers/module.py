"""Read what ``print(model)`` writes of a PyTorch module, with or without ``, 1,234 params`` behind each layer. Pure.

The parentheses give the tree, not the indentation, so that text that lost its blanks still reads. Newer versions of
PyTorch write equal layers once, as ``(0-11): 12 x BertLayer(``; they are expanded (as one shared object).
"""

from __future__ import annotations

import re
from collections.abc import Set
from operator import attrgetter
from typing import Final, NamedTuple

from estimator import sizes, versions
from estimator.adapters import BASE, names_its_base
from estimator.breath import OFTEN, breathe
from estimator.kept import keep
from estimator.layer import Layer
from estimator.packed import PACKED, packed_away
from estimator.parsers import text as t
from estimator.sharing import WRAPPERS, share
from estimator.types import ModelSummary, SummaryError
from estimator.walk import layers

_FORMAT: Final = "module"
_NUMBERED: Final = ("Sequential", "ModuleList")
_OPEN: Final = 0
_LEAF: Final = 1
_CLOSE: Final = 2
_NOTE: Final = 3
_BARE: Final = "Parameter"
# The second is behind what a method that was not called prints: ``<bound method Module.parameters of Net(``.
_CLOSES: Final = (")", ")>")
_WORD: Final = "params"
COUNTED: Final = f" {_WORD}"
_LEFT_OUT: Final = ("...", "…")
# What tools, and people, write where they left lines out; settings have a ``=``.
_OMITTED: Final = re.compile(r"\b(?:truncated|omitted|snip(?:ped)?|skipp(?:ed|ing) \d+)\b", re.IGNORECASE)
_MISSING: Final = "lines before this one are missing: paste all of the print"
_PARTS: Final = "this layer stands beside the one before, in no model: paste what print(model) writes of all of it"
_UNREAD: Final = "expected `(name): Type(...)`: paste the model as `print(model)` writes it"
_NAME: Final = attrgetter("name")
# Columns by which PyTorch puts what a block holds further in.
_LEVEL: Final = 2
_MAX_WRAPPED: Final = 12
_MAX_NOTES: Final = 64
# So many times does no print show one layer that it holds once.
_MOST_SHARED: Final = 1000
# Prints without parameters that may stand between a model and its total, or between parts of a model.
_MOST_LOSSES: Final = 8
# Lines of a block that the next of its type is compared with.
_MOST_COMPARED: Final = 512
_MOST_DIGITS: Final = 7
# Transformers keeps the weights of all experts in one bare parameter.
_EXPERTS: Final = ("Experts", "ExpertGLU")
# So does a linear layer of another library, as TransformerEngine's.
_LINEAR: Final = "Linear"
# So do a user's own layers whose print shows nothing of their sizes.
_OWN: Final = ("Conv", "Conv1d", "Conv2d", "Conv3d", "Linear")
_MOST_OWN: Final = 2  # so many times what is shown a model has at most that can be understood
# Beside its adapters peft trains what modules hold under these names, and nothing else.
_PROMPTS: Final = "prompt_encoder"
_TRAINED: Final[tuple[str, ...]] = ("modules_to_save", _PROMPTS)
# What learns prompts holds the model's word embedding once more.
_WORDS: Final = "word_embeddings"
# What other libraries call the sizes of a linear layer.
_SIZES: Final[dict[str, str]] = {"input_features": "in_features", "output_features": "out_features"}
# Layers whose weights are packed into a few bits, or into something else than a parameter.
_QUANTISED: Final = ("4bit", "8bit", "QLinear", "QuantLinear", "Quantized")
# timm's pool prints itself as one line; `radctl summarize` shows what is in it.
_PRINTS_ITSELF: Final = "SelectAdaptivePool2d"
# PyTorch's layers whose arguments tell how many parameters they have.
_SIZED: Final = frozenset(
    (
        "Linear",
        "Bilinear",
        "Embedding",
        "EmbeddingBag",
        "LSTM",
        "GRU",
        "RNN",
        "Conv1d",
        "Conv2d",
        "Conv3d",
        "ConvTranspose1d",
        "ConvTranspose2d",
        "ConvTranspose3d",
    )
)
# Those that have no sizes before their first input.
_LAZY: Final = ("LazyLinear", "LazyConv", "LazyBatchNorm", "LazyInstanceNorm")
# They tell how wide those are that say nothing themselves, or are such.
_TELLING: Final = ("LayerNorm", "Embedding", "Conv1D")

# Older versions of transformers print them without their width, which is that of the words.
_SIZELESS: Final = frozenset(
    own + "RMSNorm"
    for own in ("Llama", "Mistral", "Mixtral", "Qwen2", "Gemma", "Gemma2", "Phi3", "InternLM2", "Baichuan", "Persimmon")
)

_ENCODES: Final = "encod"
_DECODES: Final = "decod"
_TWO: Final = 2

Args = tuple[tuple[str, str], ...]


# The text up to the parenthesis that closes it, and an outer comma, where brackets stand at most in one level.
_CLOSED: Final = re.compile(r"[^()]*(?:\([^()]*\)[^()]*)*\)")
_ONE_LEVEL: Final = re.compile(r"[^()\[\]{}]*(?:[(\[{][^()\[\]{}]*[)\]}][^()\[\]{}]*)*\Z")
_OUTER_COMMA: Final = re.compile(r", (?![^(\[{]*[)\]}])")
_SETTINGS: Final = re.compile(r"\(\d[\d, ]*\), [^()]*")
# As matchers and losses of detectors print themselves: ``Matcher HungarianMatcher``, with settings in the lines below.
_SAYS_ITSELF: Final = re.compile(r"(?:Matcher|Criterion) [A-Za-z_]\w{0,99}")
_ARROW: Final = re.compile(r"\(\w+\) - \w")  # (0) - GCNConv(16, 64): x, edge_index -> x
# What never stands behind a print that is whole: ``(fc): Linear(``, ``), 1,234 params``.
_GOES_ON: Final = re.compile(r" *(?:\([\w.-]{1,100}\): (?:\d+ x )?[A-Za-z_][\w.]*\(|\), [\d,]+ params)")
# A layer within the parentheses of another, which stands in a line of its own; as an argument one may stand there.
_INSIDE: Final = re.compile(r" *\([\w.-]{1,100}\): (?:\d+ x )?[A-Za-z_][\w.]*\(")
# A name that is a pair of numbers, as of cells in a grid: ``((0, 1)): Cell(``.
_PLACE: Final = re.compile(r"\(\d[\d, ]*\)")
_RANGE: Final = re.compile(r"(\d{1,7})-(\d{1,7})")
# In longer texts the search for an outer comma, which looks ahead at each, takes too long.
_SHORT: Final = 512
_MOST_ARGS: Final = 64
_PLACES: Final = tuple(map(str, range(_MOST_ARGS)))
# Arguments by what is written of them; what is longer is not kept.
_ARGS: Final[dict[str, Args]] = {}
_MOST_KEPT: Final = 100


class PartsError(SummaryError):
    """A model's parts were printed one by one; the message quotes the line of one of them."""


class _Line(NamedTuple):
    kind: int
    type: str = ""
    name: str = ""
    repeat: int = 1
    args: Args = ()
    params: int | None = None


class _Frame:
    """A container that is still open: its lines from index ``start`` on, and what `_Reader.by_place` was before it."""

    __slots__ = ("begins", "by_place", "children", "empty", "line", "more", "notes", "number", "size", "start", "total")

    def __init__(self, line: _Line, number: int, start: int, by_place: int) -> None:
        self.line = line
        self.number = number  # of that line
        self.start = start
        self.by_place = by_place
        self.children: list[Layer] = []
        self.begins = ""  # how the lines of its layers begin, with their first letter; "" before the first
        self.more = 0  # layers than lines, of which one may stand for several
        self.empty = 0  # places that hold no module
        self.notes: list[str] = []
        self.size = 1
        self.total = 0


class _Block(NamedTuple):
    """What was read of a block.

    Attributes:
        start, end: its lines behind the first.
        alike: its layer, by names.
        size: layers in it, with itself.
        total: parameters in it.
    """

    start: int
    end: int
    alike: dict[str, Layer]
    size: int
    total: int


def starts(line: str) -> bool:
    """Tell whether a module's print can start with this line: ``Net(`` or ``Linear(in_features=1, out_features=2)``."""
    text = line.strip()
    type_, open_, rest = text.partition("(")
    if not open_ or not type_ or not t.is_name(type_):
        return False
    if not type_[0].isupper():  # xLSTM and its like; a call in a script has no capital there
        return rest == "" and any(map(str.isupper, type_[1:3]))
    if rest.endswith(COUNTED) and sizes.knows(type_):  # a model of one layer, as `radctl summarize` prints it
        rest = rest[: rest.rfind(")") + 1]
    if rest in ("", ")"):
        return True
    # A layer whose sizes have no names, ``LSTM(10, 20)``, may be code, which stands further in.
    sized = rest[:1].isdecimal() and line.startswith(type_) and sizes.knows(type_)
    return rest.endswith(")") and ("=" in rest or sized)


def parse(lines: list[str], start: int) -> tuple[ModelSummary, int]:
    """Parse the print that starts at ``lines[start]`` and ends where its first parenthesis closes.

    Returns:
        The model, and the index of the line behind it.

    Raises:
        SummaryError: a line cannot be read, the print has no end, or it is too large.
    """
    reader, types, at = _read(lines, start)
    if reader.code:
        return ModelSummary(_FORMAT, Layer(_root(reader).type, 0, None), None, 0), at
    _check_end(lines, start, at)
    reader.root = versions.today(_root(reader), types)
    return _summary(reader, types, lines, at), at


def _check_end(lines: list[str], start: int, at: int) -> None:
    """Refuse a print that ends where a part of it does, as lines are missing in it, and one of a part of a model.

    Args:
        lines: the text.
        start: index of the print's first line.
        at: index of the line behind its last one.

    Raises:
        SummaryError: it ends as far in as its first layer begins, or goes on behind its end; or a layer stands behind
            it that is none of its own, as where code prints a model's parts one by one.
    """
    first, last, behind = t.first_line(lines, start + 1), at - 1, t.first_line(lines, at)
    inside = first < last and lines[last].lstrip().startswith(")") and 0 < _indent(lines[first]) <= _indent(lines[last])
    goes_on = behind < len(lines) and _GOES_ON.match(lines[behind])
    if inside or goes_on:
        number = last if inside else behind
        raise t.fail(number + 1, lines[number], _MISSING)
    for number in range(behind, min(behind + _MOST_LOSSES, len(lines))):
        layer = lines[number]
        if layer.endswith("(") or not starts(layer):
            break
        if sizes.knows(layer.partition("(")[0]) and not any(line.endswith(layer) for line in lines[start:at]):
            raise PartsError(str(t.fail(number + 1, layer, _PARTS)))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _check_indent(frame: _Frame, number: int, lines: list[str]) -> None:
    """Refuse a layer that stands in another column than those before it in the same block, as lines are missing.

    What numbers of lines and the like left before it moves it by less than a level, and a terminal that breaks lines
    leaves blanks alone in the line before.

    Args:
        frame: the block; of the first layer it is noted how its line begins.
        number: of the layer's line, or of its first one.
        lines: the text.

    Raises:
        SummaryError: it stands whole levels off.
    """
    line = lines[number - 1]
    indent = _indent(line)
    further = indent - (len(frame.begins) - 1) if frame.begins else 0
    frame.begins = frame.begins or line[: indent + 1]
    if further and further % _LEVEL == 0 and lines[number - 2].strip():
        raise t.fail(number, line, _MISSING)


def _check_names(frame: _Frame, number: int, lines: list[str], *, inside: bool) -> None:
    """Refuse a block that holds two layers of one name, too few of a list, or without a name layers with names.

    No module holds two of a name: lines between them are missing, or stand twice. Lists number theirs.

    Args:
        frame: the block.
        number: of the line that closes it.
        lines: the text.
        inside: whether it stands in another.

    Raises:
        SummaryError: it is such a block.
    """
    names = set(map(_NAME, frame.children))
    if not names or "" in names:
        return
    if inside and not frame.line.name:
        raise t.fail(frame.number, lines[frame.number - 1], _UNREAD)
    if len(names) != len(frame.children) - frame.more:
        why = "two layers of the block that ends here have one name: paste the print as it was"
        raise t.fail(number, lines[number - 1], why)
    if frame.line.type not in _NUMBERED:
        return
    first, last = frame.children[0].name.partition("-")[0], frame.children[-1].name.rpartition("-")[2]
    places = len(frame.children) + frame.empty
    if _place(last) - _place(first) >= places and all(name.replace("-", "").isdecimal() for name in names):
        why = f"of the layers {first} to {last} of the block that ends here {places} are left: paste all of the print"
        raise t.fail(number, lines[number - 1], why)


def _place(name: str) -> int:
    return int(name) if name.isdecimal() and len(name) < _MOST_DIGITS else 0


def _read(lines: list[str], start: int) -> tuple[_Reader, set[str], int]:
    """Read the print that starts at ``lines[start]``, its types, and the index of the line behind it.

    Raises:
        SummaryError: a line cannot be read, the print has no end, or it is too large.
    """
    reader = _Reader()
    leaves = _Leaves()
    others: dict[str, _Line] = {}
    types: set[str] = set()
    at = start
    count = len(lines)
    while at < count and reader.root is None:
        text = lines[at].strip()
        at += 1
        if not at & OFTEN:
            breathe()
        if not text:
            continue
        number = at
        line = others.get(text)
        leaf = leaves.find(text) if line is None else None
        if line is None and leaf is None:
            if text[0] == "(" and text.endswith((": None", " x None")):
                reader.leave_out(text.rpartition(": ")[2].partition(" x ")[0])
                continue
            line, at = _whole(lines, at, text, number)
            _check_repeat(line, number, lines)
            types.add(line.type)
            reader.by_place += at > number
            if (line.kind == _NOTE or at > number or "..." in text or "…" in text) and _is_cut(line):
                raise t.fail(number, lines[number - 1], t.CUT)
            if line.kind == _LEAF:
                leaf = reader.leaf(line), line.repeat
                _check_sizes(line, leaf[0].params, number, lines)
                reader.code = reader.code or (leaf[0].params > 0 and reader.is_call(line, text))
                reader.by_place += at == number and not leaves.keep(text, line, leaf[0])
            elif at == number:
                others[text] = line
        if leaf is not None:
            reader.put(leaf[0], leaf[1], 1, leaf[0].params, number, lines)
        elif line is not None:
            at = reader.take(line, number, at, lines)
    if reader.root is None:
        raise t.fail(start + 1, lines[start], "the print of this module has no end: paste it up to its last `)`")
    return reader, types, at


def _root(reader: _Reader) -> Layer:
    if reader.root is None:
        raise AssertionError("_read() has checked that the print is complete")
    return reader.root


class _Leaves:
    """What was read of leaves. Equal ones are one object; under other names they share what was read."""

    def __init__(self) -> None:
        self._texts: dict[str, tuple[Layer, int]] = {}
        self._bodies: dict[str, Layer] = {}

    def find(self, text: str) -> tuple[Layer, int] | None:
        """Give the leaf of a line and how often it comes, where that is known."""
        found = self._texts.get(text)
        if found is None:
            name, _, body = text.partition("): ")
            same = self._bodies.get(body)
            if same is not None and len(name) <= t.MAX_NAME and name[:1] == "(" and "(" not in name[1:]:
                found = self._texts[text] = Layer(same.type, same.params, None, (), same.args, name[1:]), 1
        return found

    def keep(self, text: str, line: _Line, layer: Layer) -> bool:
        """Keep what was read of a line, if it reads the same wherever it stands; tell whether it does."""
        if line.type == "Conv1D" and not line.args and line.params is None:
            return False
        self._texts[text] = layer, line.repeat
        if line.repeat == 1 and line.name and line.type not in _TELLING:
            self._bodies[text.partition("): ")[2]] = layer
        return True


def _whole(lines: list[str], at: int, text: str, number: int) -> tuple[_Line, int]:
    """Read one line, joined with the following ones as long as it was wrapped."""
    breathe()
    line = _line(text)
    if line is None and text.endswith("),") and at < len(lines) and not lines[at].strip()[:1].isdecimal():
        line = _line(text[:-1])  # before the settings that a collection of torchmetrics prints, and no wrapped count
    while line is None and at < len(lines) and at - number < _MAX_WRAPPED and len(text) <= t.MAX_LINE:
        breathe()
        more = lines[at].strip()
        # Soft wraps break after a comma; a terminal breaks anywhere, between two letters too.
        text = f"{text} {more}" if text.endswith((",", ":")) else text + more
        at += 1
        line = _line(text)
    if line is None and _ARROW.match(lines[number - 1].strip()):
        why = "PyTorch Geometric's Sequential prints no sizes of a graph: give torchinfo's table of it with a graph"
        raise t.fail(number, lines[number - 1], f"{why}, or claim `#RAD memory=12G`")
    if line is None:
        raise t.fail(number, text, _UNREAD)
    return line, at


def _is_cut(line: _Line) -> bool:
    """Tell whether somebody left lines, or arguments, out: ``...``, ``Sequential(...)``, ``Conv2d(3, 64, ...)``."""
    if line.kind == _NOTE:
        note = line.args[0][1]
        return t.is_cut(note) or ("=" not in note and _OMITTED.search(note) is not None)
    return any(value in _LEFT_OUT for _, value in line.args)


def _check_repeat(line: _Line, number: int, lines: list[str]) -> None:
    """Refuse a layer that stands for none, or for more or fewer than its places (``(0-11): 12 x``) are.

    Raises:
        SummaryError: it is such a layer.
    """
    places = _RANGE.fullmatch(line.name) if line.repeat != 1 else None
    if not line.repeat or (places and int(places[2]) - int(places[1]) + 1 != line.repeat):
        why = f"`{line.repeat} x` does not fit its places: paste the line as it was printed"
        raise t.fail(number, lines[number - 1], why)


def _check_sizes(line: _Line, params: int, number: int, lines: list[str]) -> None:
    """Refuse a layer whose sizes cannot be read, or are not known yet: its parameters would count as none.

    Args:
        line: as it was read.
        params: what it counts as.
        number: the line's, from 1 on.
        lines: the text.

    Raises:
        SummaryError: it is such a layer of a print, in which all but the model have names.
    """
    if line.params is not None or not line.name:
        return
    if line.type.startswith(_LAZY):
        why = "this layer has no sizes yet: call the model once, with an input, and print it then"
        raise t.fail(number, lines[number - 1], why)
    if not params and line.args and line.type in _SIZED and sizes.parameters(line.type, dict(line.args)) is None:
        raise t.fail(number, lines[number - 1], "this layer's sizes cannot be read: paste the line as it was printed")


def _line(text: str) -> _Line | None:
    """Read one line; None if it is not whole."""
    if text[0] == ")":
        if text in _CLOSES:
            return _Line(_CLOSE)
        params = _tail(text[1:])
        return None if params is None else _Line(_CLOSE, params=params)
    name = ""
    rest = text
    if text[0] == "(":
        close = text.find("):")
        if close < 0:
            # A norm with an activation inside prints its own settings as a line: ``(32,), eps=1e-06``.
            return _Line(_NOTE, args=(("", text),)) if _SETTINGS.fullmatch(text) else None
        name = text[1:close]
        rest = text[close + 2 :].lstrip()
        if len(name) > t.MAX_NAME or ("(" in name and not _PLACE.fullmatch(name)):
            return None
    repeat = 1
    digits, times, after = rest.partition(" x ")
    if times and digits.isdecimal() and len(digits) < 8:
        repeat, rest = int(digits), after.lstrip()
    type_, open_, inner = rest.partition("(")
    if name and type_.endswith(" "):  # as timm's pool before version 0.9 writes itself
        type_ = type_.rstrip()
    if not open_ or not t.is_name(type_):
        return _other(text, name, rest)
    if not inner or inner[-1] == "{":  # a configuration, key by key, up to ``}``
        return _Line(_OPEN, type_, name, repeat)
    end = _closing(inner)
    if _INSIDE.match(inner):  # lines that became one: what stands inside would be lost
        return None
    if end < 0:
        return None if name or type_[0].isupper() else _Line(_NOTE, args=(("", text),))
    params = _tail(inner[end + 1 :]) if end + 1 < len(inner) else -1
    if params is None:
        return None
    return _Line(_LEAF, type_, name, repeat, _args(inner[:end]), None if params < 0 else params)


def _other(text: str, name: str, rest: str) -> _Line | None:
    """Read a bare parameter of a ParameterList, or a line of a container's own settings."""
    if name or text[0] == "(":
        if _SAYS_ITSELF.fullmatch(rest):
            return _Line(_LEAF, rest.partition(" ")[2], name)
        if rest.startswith("Parameter containing:"):
            _, found, size = rest.partition(" of size ")
            if not found:
                return None
            size = size.partition("]")[0].partition(" (")[0].strip() or "1"  # a single number has no sizes
            dims = [part.strip() for part in size.split("x")]
            if not all(part.isdecimal() and len(part) <= 12 for part in dims):
                return None
            params = 1
            for part in dims:
                params *= int(part)
            return _Line(_LEAF, _BARE, name, 1, (("size", size),), min(params, t.MAX_PARAMS))
        return None
    return _Line(_NOTE, args=(("", text),))


def _closing(inner: str) -> int:
    """Find the parenthesis that closes the one before ``inner``; -1 if it is not there."""
    closed = _CLOSED.match(inner)
    if closed is not None:
        return closed.end() - 1
    depth = 1
    for at, char in enumerate(inner):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth == 0:
                return at
    return -1


def _tail(tail: str) -> int | None:
    """Read ``, 1,234 params``; None if this is something else."""
    words = tail.strip(" ,").split()
    if len(words) == 1 and words[0].endswith(_WORD):  # a terminal has broken the line between the two
        words = [words[0].removesuffix(_WORD), _WORD]
    if len(words) > _TWO and words[0].endswith(","):  # or behind a comma of the number
        words = ["".join(words[:-1]), words[-1]]
    if len(words) != 2 or words[1].lower() not in ("params", "param", "parameters"):
        return None
    return t.read_count(words[0])


def _args(text: str) -> Args:
    """Split ``3, 64, kernel_size=(7, 7)`` at its outer commas."""
    if not text:
        return ()
    known = _ARGS.get(text)
    if known is not None:
        return known
    args: list[tuple[str, str]] = []
    for place, part in zip(_PLACES, _parts(text), strict=False):
        key, equals, value = part.partition("=")
        key = key.strip()
        if equals and key.isidentifier():
            args.append((_SIZES.get(key, key), value.strip()[: t.MAX_ARGS]))
        else:
            args.append((place, part.strip(" ,")[: t.MAX_ARGS]))
    return keep(_ARGS, text, tuple(args)) if len(text) <= _MOST_KEPT else tuple(args)


def _parts(text: str) -> list[str]:
    if "(" not in text and "[" not in text and "{" not in text:
        return text.split(", ", _MOST_ARGS)
    if len(text) <= _SHORT and _ONE_LEVEL.match(text):
        return _OUTER_COMMA.split(text, _MOST_ARGS)
    joined: list[str] = []
    begin = end = depth = 0
    for part in text.split(", "):
        if end and depth <= 0:
            joined.append(text[begin : end - 2])
            begin = end
        end += len(part) + 2
        depth += sum(map(part.count, "([{")) - sum(map(part.count, ")]}"))
    return [*joined, text[begin:]]


class _Reader:
    """Takes the lines of one print in order and builds the tree.

    Attributes:
        root: the model, once it is complete.
        total: parameters in it.
        counted: whether the print shows how many there are.
        guessed: a sentence for each assumption.
        unsaid: a type of layers whose sizes are not shown; "" for none.
        own: such a type of the user's own before all layers of known sizes, of which a total tells nothing either.
        code: whether this is the code of a model, whose layers have no names before them: no print of it.
        by_place: lines so far that may read otherwise where they stand again.
        adapted: whether peft's adapters are among them.
    """

    def __init__(self) -> None:
        self.root: Layer | None = None
        self.total: int = 0
        self.counted = False
        self.guessed: dict[str, None] = {}
        self.unsaid = ""
        self.own = ""
        self._sized = False
        self.code = False
        self.by_place = 0
        self.adapted = False
        self._stack: list[_Frame] = []
        self._width = 0
        self._sizes: dict[tuple[str, Args], int] = {}
        self._containers: dict[tuple[str, int, Args, tuple[int, ...]], dict[str, Layer]] = {}
        # The last of each type and depth.
        self._blocks: dict[tuple[str, int], _Block] = {}

    def is_call(self, line: _Line, text: str) -> bool:
        """Tell whether a layer is written as code makes it: within others without a name, or ``nn.Linear(*sizes)``."""
        return not line.name and (bool(self._stack) or "." in line.type or "*" in text)

    def take(self, line: _Line, number: int, at: int, lines: list[str]) -> int:
        """Take a line that is no leaf, with all of a block that is as the last one; the model is whole with a root.

        Args:
            line: what it says.
            number: of the line, or of the first that it is made of.
            at: index of the line behind it.
            lines: all.

        Returns:
            The index of the line to go on with.

        Raises:
            SummaryError: too many or too deep layers, or a parenthesis that closes nothing.
        """
        stack = self._stack
        if line.kind == _OPEN:
            if len(stack) >= t.MAX_DEPTH:
                raise t.fail(number, lines[number - 1], f"nested deeper than {t.MAX_DEPTH}")
            if end := self._again(line, number, at, lines):
                return end
            stack.append(_Frame(line, number, at, self.by_place))
        elif line.kind == _CLOSE:
            if not stack:
                raise t.fail(number, lines[number - 1], "this `)` closes nothing: paste `print(model)` from its start")
            frame = stack.pop()
            self.code = self.code or not (stack or frame.children or line.params)
            if len(frame.children) > 1 or not frame.line.name:
                _check_names(frame, number, lines, inside=bool(stack))
            alike, total = self._container(frame, line.params)
            if frame.by_place == self.by_place and at - frame.start <= _MOST_COMPARED:
                self._blocks[frame.line.type, len(stack)] = _Block(frame.start, at, alike, frame.size, total)
            self.put(_named(alike, frame.line.name), frame.line.repeat, frame.size, total, frame.number, lines)
        else:
            if not stack:
                raise t.fail(
                    number, lines[number - 1], "expected the model's class: paste `print(model)` from its start"
                )
            if len(stack[-1].notes) < _MAX_NOTES:
                stack[-1].notes.append(line.args[0][1])
        return at

    def _again(self, line: _Line, number: int, at: int, lines: list[str]) -> int:
        """Put a block that opens with this line, if its lines are those of the last of its type; else give 0.

        Returns:
            The index of the line behind it.
        """
        block = self._blocks.get((line.type, len(self._stack)))
        if block is None:
            return 0
        end = at + block.end - block.start
        if lines[at:end] != lines[block.start : block.end]:
            return 0
        breathe()
        self.put(_named(block.alike, line.name), line.repeat, block.size, block.total, number, lines)
        return end

    def put(self, layer: Layer, repeat: int, size: int, total: int, number: int, lines: list[str]) -> None:
        """Put a layer, with what it holds, which begins with a line, into the container that is open."""
        if not self._stack:
            self.root, self.total = layer, total
            return
        parent = self._stack[-1]
        begins = parent.begins
        if not begins or not lines[number - 1].startswith(begins):
            _check_indent(parent, number, lines)
        parent.size += size * repeat
        if parent.size > t.MAX_LAYERS:
            raise t.fail(number, lines[number - 1], f"more than {t.MAX_LAYERS:,} layers")
        if repeat == 1:
            parent.children.append(layer)
        else:
            parent.children.extend([layer] * repeat)
            parent.more += repeat - 1
        parent.total += total * repeat

    def leave_out(self, times: str) -> None:
        """Take places in a list that hold no module: ``(3): None``, ``(4-6): 3 x None``."""
        if self._stack:
            self._stack[-1].empty += _place(times) or 1

    def leaf(self, line: _Line) -> Layer:
        """Make a layer of a line."""
        params = line.params
        if params is None:
            params = self._size(line.type, line.args)
            if line.type == "LayerNorm":
                self._width = params // 2
            elif line.type == "Embedding" and not self._width:
                width = dict(line.args).get("1", "")
                self._width = int(width) if width.isdecimal() and len(width) < _MOST_DIGITS else 0
            elif line.type == "Conv1D" and not line.args:
                params = self._bare_projection(line.name)
            elif line.type in _SIZELESS and not line.args:
                params = self._width
        elif line.type != _BARE:
            self.counted = True
        if not params and (line.type.endswith(_EXPERTS) or (line.type == _LINEAR and not line.args)):
            self.unsaid = self.unsaid or line.type
        elif params:
            self._sized = True
        elif not self._sized and not line.args and line.type.endswith(_OWN):
            self.own = self.own or line.type
        return Layer(line.type, params, None, (), line.args, line.name)

    def _container(self, frame: _Frame, stated: int | None) -> tuple[dict[str, Layer], int]:
        """Close a container: the layer by names, and the parameters in it.

        Equal ones are one object, as equal leaves are; under other names they share what they hold.
        """
        line = frame.line
        args = _args(", ".join(frame.notes)[: t.MAX_LINE]) if frame.notes else ()
        again = _shown_again(frame.children)
        frame.total -= again
        if stated is not None:
            if stated - frame.total >= again:  # who counted did so twice, too
                stated -= again
            self.counted = True
            own = max(stated - frame.total, 0)
            total = stated
        else:
            own = self._own(frame, args)
            total = frame.total + own
            if not total and line.type.endswith(_EXPERTS):
                self.unsaid = self.unsaid or line.type
        alike = self._containers.setdefault((line.type, own, args, tuple([id(child) for child in frame.children])), {})
        if not alike:
            children = tuple(frame.children)
            if line.type == _PRINTS_ITSELF and any("Pool" in child.type for child in children):
                children = ()  # as its own print has it
            layer = Layer(line.type, own, None, children, args, line.name)
            if line.name and line.type in WRAPPERS and len(children) == 1:
                layer = children[0].but(name=line.name)  # as the whole model's, which `unwrap` takes off
            alike[line.name] = layer
            self.adapted = self.adapted or names_its_base(layer) or _learns_prompts(layer)
        return alike, total

    def _own(self, frame: _Frame, args: Args) -> int:
        """Count what a container owns beside its children, where its class tells."""
        if frame.line.type == "MultiheadAttention" and len(frame.children) == 1:
            # The packed projection of query, key and value is a bare parameter, which no print shows.
            projection = dict(frame.children[0].args)
            try:
                width = sizes.number(projection, "in_features")
            except (KeyError, ValueError):
                return 0
            self.guessed[
                "MultiheadAttention's packed input projection is not printed; 3 x width x (width + 1) was added"
            ] = None
            return 3 * width * width + (3 * width if sizes.flag(projection, "bias") else 0)
        if frame.line.type == "XLNetRelativeAttention":
            return self._xlnet(frame)
        return self._size(frame.line.type, args) if args else 0

    def _bare_projection(self, name: str) -> int:
        """Size GPT-2's ``Conv1D()``, which older versions of transformers print without sizes, by its name."""
        inner = [frame.line.name for frame in self._stack]
        wide = 4 if inner and inner[-1] == "mlp" else 1
        outputs = {"c_attn": 3, "c_fc": 4, "c_proj": 1, "q_attn": 1}.get(name, 0) * self._width
        inputs = self._width * (wide if name == "c_proj" else 1)
        if not outputs:
            return 0
        self.guessed["Conv1D() shows no sizes; they follow from its name and the norm's width"] = None
        return inputs * outputs + outputs

    def _xlnet(self, frame: _Frame) -> int:
        """Count XLNet's five projections and five biases, bare parameters as wide as its norm."""
        norm = next((dict(child.args) for child in frame.children if child.type == "LayerNorm"), {})
        try:
            (width,) = sizes.numbers(norm.get("0", ""))
        except ValueError:
            return 0
        self.guessed["XLNet's attention projections are not printed; 5 x width x (width + 1) was added"] = None
        return 5 * width * width + 5 * width

    def packed(self, types: Set[str]) -> str:
        """Give a type of layers whose weights are packed, so that no size of theirs is known; "" if there is none."""
        sized = {type_ for (type_, _), size in self._sizes.items() if size}
        for number, type_ in enumerate(types):
            if not number & OFTEN:
                breathe()
            # peft calls what it puts around a layer by that layer's type.
            if type_.rpartition(".")[2] not in sized and any(mark in type_ for mark in _QUANTISED):
                return type_
        return ""

    def _size(self, type_: str, args: Args) -> int:
        key = (type_, args)
        known = self._sizes.get(key)
        if known is None:
            known = self._sizes[key] = sizes.parameters(type_, dict(args)) or 0
        return known


def _named(alike: dict[str, Layer], name: str) -> Layer:
    """Give the one of equal layers that has a name."""
    layer = alike.get(name)
    if layer is None:
        layer = alike[name] = next(iter(alike.values())).but(name=name)
    return layer


def _learns_prompts(layer: Layer) -> bool:
    """Tell whether peft learns what stands before a text: the model itself is frozen."""
    return layer.type.startswith("Peft") and any(part.name == _PROMPTS for part in layer.children)


def _shown_again(children: list[Layer]) -> int:
    """Take out what a container holds under two names, which a print shows twice, and count the parameters in it.

    That is a row of all parts before it, a decoder's hold on the encoder beside it, and words beside peft's prompts.
    """
    if len(children) < _TWO:
        return 0
    breathe()
    if children[-1].name == _WORDS and children[-2].name == _PROMPTS:
        return _parameters(children.pop())
    encoders: dict[int, int] = {}
    for at, part in enumerate(children):
        if not at & OFTEN:
            breathe()
        if part.type == "Sequential" and len(part.children) == at >= _TWO:
            count = _parameters(part)
            if count and all(map(_same, part.children, children)):
                children.pop(at)
                return count
        if encoders and part.name.startswith(_DECODES):
            held = min([encoders.get(id(inner), at) for inner in part.children], default=at)
            if held < at:
                encoder = children[held]
                children[at] = part.but(children=tuple([inner for inner in part.children if inner is not encoder]))
                return _parameters(encoder)
        if part.name.startswith(_ENCODES):
            encoders.setdefault(id(part), at)
    return 0


def _same(part: Layer, other: Layer) -> bool:
    """Tell whether two layers may be one, under two names."""
    if part.type != other.type or part.params != other.params or part.args != other.args:
        return False
    return part.children is other.children or not (part.children or other.children)


def _parameters(layer: Layer) -> int:
    return sum(inner.params for inner in layers(layer))


def _own_totals(lines: list[str], at: int, totals: dict[str, str]) -> dict[str, str]:
    """Give what is said of this print's parameters: of the totals behind it those before another model's print."""
    if t.total_params(totals) is None and not t.all_params(totals):
        return totals
    end = at
    models = 0
    while end < len(lines) and models < _MOST_LOSSES:
        if not end & OFTEN:
            breathe()
        if not (lines[end].rstrip().endswith("(") and starts(lines[end])):
            end += 1
            continue
        try:
            other, _, behind = _read(lines, end)
        except SummaryError:
            break
        if other.total or other.unsaid:
            break
        models += 1
        end = behind
    return t.read_totals(lines[:end], at)


def _summary(reader: _Reader, types: Set[str], lines: list[str], at: int) -> ModelSummary:
    root = _root(reader)
    total = reader.total
    inferred = list(reader.guessed)
    totals = t.read_totals(lines, at)
    trained, whole = t.trained_of(totals, total)
    if not whole and t.trained_params(totals):  # which counts a head once that is the word embedding
        trained, whole = t.trained_of(totals, share(ModelSummary(_FORMAT, root, None, total)).total_params)
    if not reader.counted:
        unsaid = reader.unsaid or reader.packed(types)
        stated = None
        if root.children or total or unsaid:  # and not a loss, or arguments, alone
            said = _own_totals(lines, at, totals)
            stated = t.total_params(said) or whole or t.all_params(said) or None
        if stated is not None and stated < total / _MOST_SHARED:  # in millions, and the text does not say so
            stated = None
        if unsaid and stated is None:
            raise SummaryError(
                f"a print without counts does not show how large {t.short(unsaid)} are, most of such a model: "
                "paste what torchinfo prints with depth=20, write `Total params: N` behind the print, or claim "
                "`#RAD memory=12G`"
            )
        nothing = reader.own or (not total and root.children)
        if not unsaid and (reader.own if stated is None else nothing and stated > _MOST_OWN * total):
            own = f"{t.short(reader.own)} are" if reader.own else "its layers are"
            raise SummaryError(
                f"this print does not show how large {own}: give what torchinfo or `radctl summarize --input-size` "
                "prints, or claim `#RAD memory=12G`"
            )
        inferred.insert(0, "the print has no parameter counts; they follow from the layers' sizes")
        away = packed_away(root) if PACKED[0] in types else 0
        if away and stated is not None and (stated < total - away or t.about(stated, total - away)):
            stated += away  # as PyTorch counts what is packed, and a tied head once
        if stated is not None and stated != total:
            inferred.append(f"the layers add up to {total:,} parameters; the stated total of {stated:,} was taken")
            total = stated
    if total > t.MAX_PARAMS:
        raise t.fail(1, lines[0], "the layers add up to more parameters than any GPU can hold")
    frozen = whole - trained
    if reader.adapted and not frozen:
        trained = _trained(root)
        frozen = max(total - trained, 0)
        inferred.append(f"peft's adapters are trained, {trained:,} parameters, and all else is frozen")
    return ModelSummary(_FORMAT, root, None, total, tuple(inferred), frozen_params=frozen)


def _trained(layer: Layer) -> int:
    """Count the parameters that peft trains."""
    breathe()
    if names_its_base(layer):
        return sum([_parameters(part) for part in layer.children if part.name != BASE])
    return sum([_parameters(part) if part.name in _TRAINED else _trained(part) for part in layer.children])
