"""Writes the results page of GPU memory and the table of all cases. Reads nothing."""

from __future__ import annotations

import csv
from collections.abc import Iterable
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
from scripts import memory_prose as prose
from scripts.markdown import table
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
    return [[prose.LOOKS[split], *held_cells(looks[split])] for split in sorted(looks, key=list(prose.LOOKS).index)]


def _asked(found: Asked) -> str:
    rows = [[*names, *held_cells(of)] for *names, of in found.lines]
    models = len(FIRST.places)
    said = prose.ASKED.format(models=models, drawn=found.drawn, there=found.there, own=found.own, fitted=found.fitted)
    return said + table(prose.ASKED_HEAD, rows)


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
    return prose.WORST.format(families=len(families), some=len(some)) + table(prose.WORST_HEAD, rows)


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
        prose.LEVELS.format(rehearsed=found.ways[REHEARSED][ALL].n if REHEARSED in found.ways else "none"),
        table(prose.LEVELS_HEAD, level_rows(found)),
        prose.FORMATS,
        table(("left out", *FORMATS), format_rows(found)),
        prose.LIMITS.format(
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
        prose.INTRO,
        *_data(dataset),
        *_gpumemnet(results),
        *_real_models(cases, out),
        *_every_method(cases),
        prose.LOOKED_AT.format(refused=sum(not case["answers"].get("rad") for case in cases), cases=len(cases)),
        table(prose.LOOKS_HEAD, _looks(looks)),
        _worst(families),
        _asked(asked),
        *_left_out(*limits),
        *(_by(key, cases) for key in ("family", "optimizer", "precision", "kind", "format", "not shown")),
    ]
    (out / "memory.md").write_text("".join(parts), "utf-8")
