"""Writes the results page of GPU memory and the table of all cases. Reads nothing."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from estimator.dataset import coverage
from estimator.dataset.catalogues.usual import FIRST
from estimator.dataset.store import Dataset
from estimator.evaluate import Errors
from estimator.methods.rad.fit.bounds import SETTINGS
from estimator.methods.rad.fit.holdout import WAYS
from estimator.methods.rad.fit.judge import Held
from estimator.methods.rad.fit.reached import ALL, DRAWN, FORMATS, MISSES, REHEARSED, LeftOut, Reached
from estimator.methods.rad.known import LEVELS
from scripts.memory_asked import Asked
from scripts.memory_figures import GIB, METHODS, bars, scatter, shown
from scripts.memory_real import SAID

PUBLISHED = {
    ("mlp", "mlp", 1024): (0.9542, 0.9251, 0.9542, 0.9386),
    ("mlp", "mlp", 2048): (0.9706, 0.9621, 0.9706, 0.9662),
    ("mlp", "transformer", 1024): (0.9673, 0.9599, 0.9673, 0.9634),
    ("mlp", "transformer", 2048): (0.9804, 0.9707, 0.9804, 0.9755),
    ("cnn", "mlp", 8192): (0.8825, 0.8816, 0.8825, 0.8803),
    ("cnn", "transformer", 8192): (0.8449, 0.8443, 0.8431, 0.8431),
    ("transformer", "mlp", 8192): (0.8552, 0.8524, 0.8552, 0.8494),
    ("transformer", "transformer", 8192): (0.8650, 0.8650, 0.8650, 0.8596),
}
"""Accuracy, precision, recall and F1 as tables 5.3, 5.5 and 5.7 of the dissertation print them."""

_TABLE = {"mlp": "5.3", "cnn": "5.5", "transformer": "5.7"}
_DATA = {"published": "published, A100", "finished": "published, finished runs only", "ours": "ours, H200"}
_ESTIMATOR = {"mlp": "13 MLPs", "transformer": "Transformer"}
_OFTEN = 0.1


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def score(cases: Iterable[dict[str, Any]], method: str) -> Errors | None:
    """Score a method over the cases that it answered; None where it answered none."""
    found = [(c["answers"][method], c["actual"]) for c in cases if c["answers"].get(method)]
    return Errors.of([(said["expected"], said["upper"], actual) for said, actual in found]) if found else None


_SCORE_HEAD = (
    "method",
    "cases",
    "median error",
    "90th percentile",
    "under-estimates",
    "mean over-estimate",
    "of the actual",
    "median of the actual",
    "reserved, not used",
)


def score_row(name: str, found: Errors | None) -> list[str]:
    """Return one line of a table of scores; its last cell sums up what is reserved and not used."""
    if found is None:
        return [name, "0", *["-"] * 7]
    errors = (found.median_abs_rel_error, found.p90_abs_rel_error, found.under_rate)
    over = (found.mean_over_fraction, found.median_over_fraction)
    gib = found.mean_over_mib / GIB
    cells = [*map(_percent, errors), f"{gib:.2f} GiB", *map(_percent, over), f"{gib * found.n:.0f} GiB"]
    return [name, str(found.n), *cells]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def classification_rows(results: Iterable[dict[str, Any]]) -> list[list[str]]:
    """Return the lines of tables 5.3, 5.5 and 5.7, the published figures in brackets."""
    rows = []
    for result in results:
        key = (result["family"], result["estimator"], result["width_mib"])
        ours = [result["scores"][name] for name in ("accuracy", "precision", "recall", "f1")]
        cells = [f"{mine:.3f} ({theirs:.3f})" for mine, theirs in zip(ours, PUBLISHED[key], strict=True)]
        data = _DATA[result["data"]]
        what = f"{_ESTIMATOR[result['estimator']]}, {result['width_mib'] // 1024} GiB"
        sizes = "/".join(str(size) for size in result["sizes"])
        points = 100 * (ours[0] - PUBLISHED[key][0])
        rows.append(
            [_TABLE[result["family"]], data, what, sizes, *cells, f"{points:+.1f}", f"{result['majority']:.3f}"]
        )
    return rows


def groups_of(cases: list[dict[str, Any]], key: str) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the cases by one of their fields, in order of its values."""
    values = sorted({str(case[key]) for case in cases})
    return [(value, [case for case in cases if str(case[key]) == value]) for value in values]


def _gib(value: float | None) -> str:
    return "-" if value is None else f"{value / GIB:.1f}"


def case_rows(cases: Iterable[dict[str, Any]]) -> list[list[str]]:
    """Return one line a case: actual and what every method expects, in GiB, and rad's bound."""
    rows = []
    for case in cases:
        answers = case["answers"]
        said = [_gib(answers[m]["expected"]) if answers.get(m) else "-" for m in METHODS]
        upper = _gib(answers["rad"]["upper"]) if answers.get("rad") else "-"
        length = "" if case["seq_len"] is None else f" x {case['seq_len']}"
        rows.append(
            [case["name"], f"{case['batch_size']}{length}", case["optimizer"], _gib(case["actual"]), *said, upper]
        )
    return rows


def write_cases(cases: list[dict[str, Any]], file: Path) -> None:
    """Write all cases with every method's answer as CSV."""
    head = [
        "name",
        "source",
        "family",
        "format",
        "batch_size",
        "seq_len",
        "optimizer",
        "precision",
        "kind",
        "actual_mib",
    ]
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*head, *(f"{method}_{what}_mib" for method in METHODS for what in ("expected", "upper"))])
        for case in sorted(cases, key=lambda c: (c["name"], c["id"])):
            answers = [case["answers"].get(method) or {} for method in METHODS]
            values = [answer.get(what, "") for answer in answers for what in ("expected", "upper")]
            writer.writerow([*(case[key] for key in head[:-1]), case["actual"], *values])


def _check_rows(dataset: Dataset) -> list[list[str]]:
    errors = sorted(abs(c.long_lived_mib - c.own_mib) / c.own_mib for c in dataset.checks)
    worst = max(dataset.checks, key=lambda c: abs(c.long_lived_mib - c.own_mib) / c.own_mib)
    return [
        ["configurations", str(len(errors))],
        ["median difference", f"{100 * median(errors):.2f} %"],
        ["90th percentile", f"{100 * errors[int(0.9 * len(errors))]:.2f} %"],
        [
            "largest",
            f"{100 * errors[-1]:.1f} % ({worst.spec.name}: {worst.long_lived_mib:.0f} and {worst.own_mib:.0f} MiB)",
        ],
    ]


_INTRO = """# GPU memory: what the methods reach

Made by `scripts/results_memory`; every number on this page is computed by it. All cases with every method's answer:
[memory_cases.csv](memory_cases.csv).

"""


_LOOKED_AT = """
### What no one had seen

New families are those of the twelfth collection, of models of whose name none was measured before in any library
(`estimator/dataset/catalogues/twelfth_libraries.py`). Models of measured families are of the twelfth, too: timm's,
torchvision's and transformers' in sizes of one's own, and of its libraries; a few that the fourteenth and the
eighteenth drew though nothing was fitted to them; and of the nineteenth: widely used families in sizes that were drawn
at random (`estimator/dataset/catalogues/sized.py`), a third of which judges while RAD is fitted to the others. The
configurations of measured models are two draws of the eighteenth: two of each widely used model, and one of one in five
of all models but other libraries'. All were drawn before they were measured, and nothing was fitted to these runs. How
often bounds of measured, kin and similar models may be too low was chosen by runs and models that were left out (see
below), before the nineteenth's were looked at; the eighteenth's and the twelfth's had been looked at with an earlier
fit, and chose nothing. Looks at earlier collections brought some rules: tables of graph networks and of sounds that are
cut into pieces are read by rules of their own. The lines are of every format that users have for each run, as `radctl
retrain` compares versions; prints of models that ran on another size of picture than the one taken are not in them.
{refused} of the {cases} summaries in the tables above are refused. The last line is of what `radctl summarize` prints
where it can run a model's code on tensors without data: a table of all layers, with what steps take in this rehearsal
at the run's batch size.

"""
_ASKED = """
### Widely used models, as they are asked for

Of {models} widely used models (`estimator/dataset/catalogues/usual.py`) the thirteenth collection, and after it the
fourteenth, measured a grid of usual configurations, which is fitted to. The eighteenth drew {drawn} more at random:
batch size, optimizer, precision, training or inference, classes, size of picture, length. {there} of these were
measured, {own} by a process of their own, too, twelve steps long as NVML sees it: as a job runs. {fitted} of the
{there} lie in the grid, or were measured before: of what users ask for so many are known themselves. `not fitted to`
leaves them out; what is `repeated` there is known from another head, or from an optimizer that takes as much. Here,
too, prints of models that ran on another size of picture than the one taken are left out.

"""
_ASKED_HEAD = ("measured by", "runs", "taken for", "summaries", "median error", "under-estimates", "mean over-estimate")
_WORST = """
Of {families} families that were not measured, {some} have a bound that is too low; these have one for more than one
summary in ten:

"""
_WORST_HEAD = ("family", "summaries", "median error", "under-estimates")
_LOOKS = {
    "known": "measured models in other configurations",
    "known18": "of these: widely used models",
    "all18": "of one in five of all models",
    "kin": "models that were not measured, of measured families, in other libraries or sizes",
    "kin19": "of these: widely used families in drawn sizes",
    "fresh": "families that were not measured",
    "shown": "of these: tables that show all layers, of models that were rehearsed",
    "rehearsed": "the same, with the rehearsal",
}
_LOOKS_HEAD = ("runs", "summaries", "median error", "under-estimates", "mean over-estimate of the actual")
_LEVELS = """
### What was measured of a model, and what is new

RAD tells five cases apart, and says which in the reasons of an estimate. `repeated`: a run of the same architecture in
the same configuration is in the data; it is followed alone. `measured`: runs of the same architecture (types of layers,
number of steps, parameters within 3.5 %) are in the data, in other configurations. `kin`: models with the same types of
layers are, of other sizes. `similar`: models that share more than 60 % of the types are. `new`: nothing like it. Here
the real models of all families that were fitted to are judged, each by models that were fitted without it, and by
bounds that were set without its family, in three ways: without this one run, without its model (all heads and sizes of
input of it), without its whole architecture family. The lines beneath are what of these the model took for repeated,
measured, kin, similar or new; some architectures have several names, and some families the same blocks. `drawn at
random` are configurations of measured models as users would ask for them; all others were measured to cover, or because
nothing near them was, and without them less is known than RAD knows of most requests. The bounds of what was measured
are set by the drawn ones, those of what is repeated by other runs of the same model: a model that is left out can only
be repeated by another that looks the same, which RAD cannot tell. The last line is of {rehearsed} of these runs that
were rehearsed at their batch size, in the table that shows all layers, without their family. Which workspaces
convolutions ask for was measured of convolutions like those of these models, too, so that what is
new may get less than this line says; the table of new models above shows that.
The room that bounds of trainings have for gradients that are freed late
([Training loops](../trainings.md#training-loops)) is in the tables above, not in those that follow.

"""
_LEVELS_HEAD = ("left out", "taken for", "summaries", "median error", "too low", "over", "half over by less")
_FORMATS = """
By format, too low / over:

"""
_LIMITS = """
### What limits the bound

The same for several shares of misses that bounds are set to, too low / over; the second line is what RAD's are set to:
{repeated:.2f} % of the runs that another of their model repeats, {measured:.2f} % of the runs that were drawn at random
where the architecture was measured, {kin:.2f} % where its kin were and {similar:.2f} % where similar models were, of
runs without their models, each family counting the more the more runs it has, but not in proportion, and {new:.2f} %
where nothing was. There misses are more than that, because accounts that were not understood widen no bound. The last
columns are of an account that no summary can give: what PyTorch's allocator really handed out in each run. What is left
there is what the allocator reserves beyond it, which follows from the order in which it splits its blocks: however good
the account, a bound that is too low for one run in a hundred comes no nearer than that. A rehearsal follows this order,
too. They are of {of:,} summaries: of each run the one that shows all layers.

"""
_LIMITS_HEAD = (
    "times the misses",
    *(f"without its {way}" for way in WAYS),
    f"of the first, {DRAWN}",
    *(f"allocator known, {way}" for way in (*WAYS, DRAWN)),
)


def held_cells(found: Held) -> list[str]:
    """Return the cells that say how good a model is: of how many summaries, errors, what is too low, and too high."""
    shares = (found.median_abs_rel_error, found.under_rate, found.mean_over_fraction)
    return [str(found.n), *map(_percent, shares)]


def _looks(looks: dict[str, Held]) -> list[list[str]]:
    return [[_LOOKS[split], *held_cells(looks[split])] for split in sorted(looks, key=list(_LOOKS).index)]


def _asked(found: Asked) -> str:
    rows = [[*names, *held_cells(of)] for *names, of in found.lines]
    models = len(FIRST.places)
    said = _ASKED.format(models=models, drawn=found.drawn, there=found.there, own=found.own, fitted=found.fitted)
    return said + table(_ASKED_HEAD, rows)


def _worst(families: dict[str, Held]) -> str:
    """Name the families whose bounds are too low most often."""
    if not families:
        return ""
    some = {name: found for name, found in families.items() if found.under_rate > 0}
    rows = [
        [name, str(found.n), f"{100 * found.median_abs_rel_error:.1f} %", f"{100 * found.under_rate:.0f} %"]
        for name, found in sorted(some.items(), key=lambda item: -item[1].under_rate * item[1].n)
        if found.under_rate > _OFTEN
    ]
    return _WORST.format(families=len(families), some=len(some)) + table(_WORST_HEAD, rows)


def _both(found: Reached) -> str:
    return f"{100 * found.under:.1f} % / {100 * found.over:.0f} %"


def level_rows(found: LeftOut) -> list[list[str]]:
    """Return the lines of the table of what was known."""
    return [
        [
            f"its {way}",
            name,
            str(part.n),
            *(f"{100 * value:.1f} %" for value in (part.error, part.under, part.over, part.half)),
        ]
        for way in (*WAYS, REHEARSED)
        for name in (ALL, DRAWN, *LEVELS)
        if (part := found.ways.get(way, {}).get(name)) is not None
    ]


def format_rows(found: LeftOut) -> list[list[str]]:
    """Return the lines of the table by format."""
    return [[f"its {way}", *(_both(found.formats[way][name]) for name in FORMATS)] for way in WAYS]


def limit_rows(found: LeftOut, allocator: LeftOut) -> list[list[str]]:
    """Return the lines of the table of limits: RAD's account, and the allocator's own."""
    return [
        [times, *(_both(of.misses[way][times]) for of in (found, allocator) for way in (*WAYS, DRAWN))]
        for times in (f"{times:g}" for times in MISSES)
    ]


def _data(dataset: Dataset) -> list[str]:
    meta, found = dataset.meta, coverage.table(dataset.rows)
    counts = [[name, *("-" if v is None else str(v) for v in facts.values())] for name, facts in found.items()]
    return [
        f"Data: {len(dataset.rows):,} rows measured on an {meta['gpu']} (torch {meta['torch']}, driver ",
        f"{meta['driver']}), out of memory at {meta['limit_mib'] // 1024} GiB. The split is by architecture family; ",
        "`fresh` are families that were drawn by their names before they were measured, and that nothing was fitted ",
        "to, see [below](#what-no-one-had-seen).\n\n",
        table(["part", *next(iter(found.values()))], counts),
        "\n![coverage](memory_coverage.png)\n\nRows that ran out of memory are drawn as red marks at the top. ",
        "Counters (SMACT, SMOCC, DRAM activity) and steps a second need the GPU for one process alone; rows without ",
        "them were measured beside others, and their fields are empty.\n\n",
        "Long-lived processes against a process for each configuration:\n\n",
        table(["", ""], _check_rows(dataset)),
    ]


def _gpumemnet(results: list[dict[str, Any]]) -> list[str]:
    heads = ["table", "data", "estimator, class", "rows", "accuracy", "precision", "recall", "F1", "points", "majority"]
    return [
        "\n## 1. GPUMemNet: tables 5.3, 5.5 and 5.7\n\n",
        "Our figure, the dissertation's in brackets; `points` is the difference in accuracy, `majority` the accuracy ",
        "of always naming the most frequent class. Published data is split by row as it was; ours by architecture. ",
        "Our data holds fp32 trainings up to 80 GiB, so it has more classes. No data of table 5.7 was published: ",
        "its lines are of our data alone. Runs that ran out of memory count at the peak that was seen before they ",
        "died, mostly the last class; without them (`finished runs only`) the CNN data is harder, which may be where ",
        "lower figures published for it come from.\n\n",
        table(heads, classification_rows(results)),
    ]


def _real_models(cases: list[dict[str, Any]], out: Path) -> list[str]:
    """Draw the cases, and return what is said of them."""
    scatter(cases, out / "memory_scatter.svg")
    cnn = shown(cases, lambda family: family != "transformer")
    transformer = shown(cases, lambda family: family == "transformer")
    bars(cnn, "Real CNN models (batch size), training in fp32", out / "memory_cnn.svg")
    bars(transformer, "Real Transformer models (batch size), training in fp32", out / "memory_transformer.svg")
    head = ["model", "batch", "optimizer", "actual", *METHODS, "rad upper"]
    return [
        "\n## 2. Real models that no one trained on: figures 5.11 to 5.13\n\n",
        f"{len(cases)} rows of {len({c['name'] for c in cases})} models of {len({c['group'] for c in cases})} ",
        "architecture families, the fresh part, none of them in what anything was fitted to; ",
        f"{sum(bool(case['error']) for case in cases)} summaries could not be read. GiB below; of each ",
        "model the fp32 training that needs most. FakeTensor runs the model's code in fp32; `-`: no answer.\n\n",
        "![scatter](memory_scatter.svg)\n\n![CNN models](memory_cnn.svg)\n\n",
        table(head, case_rows(cnn)),
        "\n![Transformer models](memory_transformer.svg)\n\n",
        table(head, case_rows(transformer)),
    ]


def _every_method(cases: list[dict[str, Any]]) -> list[str]:
    return [
        "\n## 3. Every method\n\nErrors are of `expected`; under- and over-estimates of `upper`, what would be ",
        "reserved. Horus, FakeTensor and GPUMemNet have no bound: their estimate is both. Some runs differ from ",
        "the default in what no summary of them shows (the size of pictures in a print, eager attention), so that no ",
        "method can know it: see `By not shown`. A few estimates that are off by a multiple decide about means of ",
        "over-estimates: half of the cases are below the median beside it.\n\n",
        table(_SCORE_HEAD, [score_row(method, score(cases, method)) for method in METHODS]),
    ]


def _left_out(found: LeftOut, allocator: LeftOut) -> list[str]:
    return [
        _LEVELS.format(rehearsed=found.ways[REHEARSED][ALL].n if REHEARSED in found.ways else "none"),
        table(_LEVELS_HEAD, level_rows(found)),
        _FORMATS,
        table(("left out", *FORMATS), format_rows(found)),
        _LIMITS.format(
            **{level: 100 * setting.miss for level, setting in SETTINGS.items()}, of=allocator.ways[WAYS[0]][ALL].n
        ),
        table(_LIMITS_HEAD, limit_rows(found, allocator)),
    ]


def _by(key: str, cases: list[dict[str, Any]]) -> str:
    rows = [
        score_row(f"{method}, {value}", score(some, method))
        for value, some in groups_of(cases, key)
        for method in METHODS
    ]
    if key == "not shown":
        rows.append(score_row(f"{SAID}, the same prints", score(cases, SAID)))
    return f"\n### By {key}\n\n{table(_SCORE_HEAD, rows)}"


def write_page(
    dataset: Dataset,
    results: list[dict[str, Any]],
    cases: list[dict[str, Any]],
    looks: dict[str, Held],
    families: dict[str, Held],
    asked: Asked,
    limits: tuple[LeftOut, LeftOut],
    out: Path,
) -> None:
    """Write ``memory.md``, ``memory_cases.csv`` and the figures.

    Args:
        dataset: ours, for its coverage.
        results: lines of tables 5.3, 5.5 and 5.7.
        cases: what every method said of the test part's real models.
        looks: how good RAD is in every format on each part that nothing was fitted to.
        families: the same for each family of the fresh part.
        asked: the same on widely used models in drawn configurations.
        limits: what bounds reach on runs that were left out: RAD's, and those of `scripts.memory_limits`.
        out: folder of the page.
    """
    coverage.plot(dataset.rows, out / "memory_coverage.png")
    write_cases(cases, out / "memory_cases.csv")
    parts = [
        _INTRO,
        *_data(dataset),
        *_gpumemnet(results),
        *_real_models(cases, out),
        *_every_method(cases),
        _LOOKED_AT.format(refused=sum(not case["answers"].get("rad") for case in cases), cases=len(cases)),
        table(_LOOKS_HEAD, _looks(looks)),
        _worst(families),
        _asked(asked),
        *_left_out(*limits),
        *(_by(key, cases) for key in ("family", "optimizer", "precision", "kind", "format", "not shown")),
    ]
    (out / "memory.md").write_text("".join(parts), "utf-8")
