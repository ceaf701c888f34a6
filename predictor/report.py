"""The results page: numbers and figures from the artifact and from our measurements. Writes only where it is told."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from predictor import weights
from predictor.artifact import Colocation, load_colocations
from predictor.baselines import RULES, Xu, load_xu
from predictor.collection.specs import SPECS
from predictor.evaluation import MODELS, evaluate_colocations, leave_out, unseen_fractions
from predictor.measure import Chooser, choices, fractions, random_fractions, score
from predictor.measurements import FRESH_FOLDER, Run, family, load_profiles, load_runs, load_spreads, shared
from predictor.partition import Comparison, alone, compare, differences, newcomers, partitioned_pairs, sliced_pairs
from predictor.profiles import CORRECTED, raw_profile
from predictor.rad import Rad
from predictor.threads import ALL, WORTH
from predictor.training import (
    TRAINERS,
    errors_of,
    families_left_out,
    fit_correction,
    fit_rad,
    load_groups,
    load_measured,
    summarise,
    weights_text,
)
from predictor.types import Floats, Profile, ProfileError

SIZES = (2, 3, 4, 5, 10)
SEEDS = (10, 20, 30)
PUBLISHED_SIZES: Mapping[int, str] = {2: "0.876", 3: "0.906", 4: "0.921", 5: "", 10: "0.946"}
PUBLISHED_POLICIES: Mapping[str, str] = {
    "kace": "0.906",
    "xu": "0.813",
    "memcap": "0.785",
    "sm": "0.354",
    "mem": "0.718",
    "random": "0.543",
}
PUBLISHED_UNSEEN = "0.92 / 0.96 / 0.91"
PUBLISHED_AUTOREGRESSIVE = "0.92"
POLICIES_SIZE = 3
"""Of the artifact's figures of policies and targets."""
XU_SIZE = 4
"""The only size of which files with Xu et al.'s features are read."""
AUTOREGRESSIVE = ("whisper", "gpt")
RANKED_GPUS = 1000
PARTS = 10
STEADY = 0.02


@dataclass
class Page:
    """The page as it grows.

    Attributes:
        folder: where figures go, or None for none.
        lines: Markdown so far.
    """

    folder: Path | None
    lines: list[str] = field(default_factory=list)

    def text(self, *lines: str) -> None:
        """Add a paragraph."""
        self.lines += [*lines, ""]

    def table(self, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Add a table."""
        self.lines += ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
        self.lines += ["| " + " | ".join(row) + " |" for row in rows]
        self.lines.append("")

    def bars(self, name: str, title: str, labels: Sequence[str], series: Mapping[str, Sequence[float]]) -> None:
        """Add a figure of grouped bars."""
        if self.folder is None:
            return
        figure, axes = _canvas()
        width = 0.8 / len(series)
        places = np.arange(len(labels))
        for index, (label, values) in enumerate(series.items()):
            axes.bar(places + index * width, values, width, label=label)
        axes.set_xticks(places + 0.4 - width / 2, labels, rotation=60 if len(labels) > 10 else 0, fontsize=7)
        axes.set_title(title, fontsize=9)
        if len(series) > 1:
            axes.legend(fontsize=7, loc="lower right")
        self._save(figure, name, title)

    def points(self, name: str, title: str, axis: Sequence[str], series: Mapping[str, tuple[object, object]]) -> None:
        """Add a figure of points."""
        if self.folder is None:
            return
        figure, axes = _canvas()
        for label, (x, y) in series.items():
            axes.plot(x, y, ".", label=label, markersize=3)
        axes.plot([0, 1], [0, 1], color="0.6", linewidth=0.8)
        axes.set_xlabel(axis[0], fontsize=8)
        axes.set_ylabel(axis[1], fontsize=8)
        axes.set_title(title, fontsize=9)
        axes.legend(fontsize=7)
        self._save(figure, name, title)

    def _save(self, figure: Any, name: str, title: str) -> None:
        assert self.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        figure.tight_layout()
        figure.savefig(self.folder / f"{name}.png", dpi=110, metadata={"Software": None})
        self.text(f"![{title}]({self.folder.name}/{name}.png)")


def _canvas() -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # noqa: PLC0415 - figures are an extra

    figure = Figure(figsize=(7.2, 3.2))
    return figure, figure.subplots()


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def fit_bundled(data: Path) -> list[str]:
    """Fit the weights that ship with the project to our measurements; says what was written."""
    colocations = load_measured(data)
    lines = []
    for name, trainer in TRAINERS.items():
        total, _ = families_left_out(shared(load_runs(data), 2), trainer)
        note = f"one H200, {len(colocations)} colocations; pairs with families left out: MAE {total.mean_abs:.4f}"
        path = weights.BUNDLED / f"{name}.json"
        path.write_text(weights_text(name, colocations, note, load_groups(data)), encoding="utf-8")
        lines.append(f"{path.name}: {note}")
    return lines


def fit_estimates(data: Path) -> str:
    """Fit the correction of estimated profiles to the measured workloads whose summaries can be taken here."""
    from predictor.collection.summaries import summary_of, workload_of  # noqa: PLC0415 - needs PyTorch

    profiles = load_profiles(data)
    raws: dict[str, dict[str, float]] = {}
    real: dict[str, dict[str, float]] = {}
    for spec in (spec for spec in SPECS if spec.name in profiles):
        summary = summary_of(spec)
        if summary is None:
            continue
        raw = raw_profile(summary, workload_of(spec), "h200")
        raws[spec.name] = {key: float(getattr(raw, key)) for key in CORRECTED}
        it = profiles[spec.name]
        real[spec.name] = {"busy": it.busy, "smact": it.smact, "dram": it.dram, "seconds": 1.0 / it.throughput}
        real[spec.name] |= {key: getattr(it.kernel, key) for key in ("threads", "turn_us", "mean_us", "blocking_us")}
    names = sorted(raws)
    alone: dict[str, list[float]] = {key: [] for key in CORRECTED}
    fixed: dict[str, list[float]] = {key: [] for key in CORRECTED}
    for left_out in sorted({family(name) for name in names}):
        kept = [name for name in names if family(name) != left_out]
        correction = fit_correction([raws[name] for name in kept], [real[name] for name in kept])
        for name in (name for name in names if family(name) == left_out):
            for key in CORRECTED:
                if math.isfinite(real[name][key]):
                    slope, offset = correction[key]
                    log_raw, log_real = math.log(max(raws[name][key], 1e-9)), math.log(real[name][key])
                    alone[key].append(abs(log_raw - log_real))
                    fixed[key].append(abs(slope * log_raw + offset - log_real))
    content = {
        "note": "slope and offset on logarithms, from the chip's rates to one H200's measurements",
        "workloads": len(names),
        "correction": fit_correction([raws[name] for name in names], [real[name] for name in names]),
        "factors": {key: [math.exp(_mean(alone[key])), math.exp(_mean(fixed[key]))] for key in CORRECTED},
    }
    path = weights.BUNDLED / "estimate.json"
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return f"{path.name}: {len(names)} workloads"


def write_page(artifact: Path, data: Path, output: Path, *, quick: bool = False) -> Path:
    """Write ``interference.md`` and its figures into ``output``."""
    page = Page(None if quick else output / "interference")
    page.text("# Interference: what jobs do to each other on one GPU")
    page.text(
        "Written by `scripts/results_interference --artifact DIR`; DIR is KACE's artifact "
        "(SoCC'24, nba556677go/KACE-artifact). Published values stand beside ours."
    )
    _artifact(page, artifact, quick=quick)
    _measured(page, data)
    path = output / "interference.md"
    output.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(page.lines).rstrip() + "\n", encoding="utf-8")
    return path


def _splits(artifact: Path, size: int) -> list[tuple[tuple[Colocation, ...], tuple[Colocation, ...]]]:
    folder = artifact / "splits"
    return [
        (
            load_colocations(folder / f"n{size}_r{seed}_training.csv"),
            load_colocations(folder / f"n{size}_r{seed}_testing.csv"),
        )
        for seed in SEEDS
    ]


def _artifact(page: Page, artifact: Path, *, quick: bool) -> None:
    page.text("## KACE's artifact: 181 pairs of 21 workloads on a V100")
    page.text(
        "The measure: for every workload as target, the measured throughput sum of the chosen colocation over that "
        "of the best one; mean over targets, then over the seeds 10, 20 and 30. N is how often each workload occurs "
        "in training."
    )
    names = [name for name in MODELS if not (quick and name == "automl")]
    found: dict[str, dict[int, tuple[float, float, float]]] = {}
    policies: dict[str, list[float]] = {name: [] for name in (*RULES, "random")}
    for size in SIZES:
        splits = _splits(artifact, size)
        for name in list(names):
            cells = []
            for train, test in splits:
                begin = time.perf_counter()
                try:
                    result = evaluate_colocations(train, test, name)
                except ProfileError:
                    names.remove(name)
                    break
                cells.append((result.oracle_fraction, result.r2, time.perf_counter() - begin))
            else:
                part, r2, seconds = (_mean(cell[index] for cell in cells) for index in range(3))
                found.setdefault(name, {})[size] = (part, r2, seconds)
        for name, values in policies.items():
            values.append(_mean(evaluate_colocations(*split, name).oracle_fraction for split in splits))
    head = ["", *(f"N={size}" for size in SIZES), "R2 at N=10", "time at N=10"]
    rows = [
        [name, *(f"{each[size][0]:.3f}" for size in SIZES), f"{each[10][1]:.3f}", f"{each[10][2]:.2f} s"]
        for name, each in found.items()
    ]
    rows += [[name, *(f"{value:.3f}" for value in values), "", ""] for name, values in policies.items()]
    rows.append(["KACE, published", *(PUBLISHED_SIZES[size] for size in SIZES), "0.78", ""])
    page.text("### Training sizes (KACE's figures 2 and 3)")
    page.table(head, rows)
    series = {name: [each[size][0] for size in SIZES] for name, each in found.items()}
    page.bars("sizes", "Fraction of the oracle by training size", [f"N={size}" for size in SIZES], series)
    _policies(page, artifact, found, policies)
    _targets(page, artifact)
    _unseen(page, artifact)
    _ways(page, artifact)


def _policies(
    page: Page,
    artifact: Path,
    found: Mapping[str, Mapping[int, tuple[float, float, float]]],
    policies: Mapping[str, Sequence[float]],
) -> None:
    scores = []
    for seed in SEEDS:
        train, test = (
            load_xu(artifact / "splits" / f"hotcloud_n{XU_SIZE}_r{seed}_{kind}.csv") for kind in ("training", "testing")
        )
        scores.append(score(test, Xu().fit(train).predict(test)).oracle_fraction)
    size, place = POLICIES_SIZE, SIZES.index(POLICIES_SIZE)
    xu = f"xu (N={XU_SIZE})"
    values = {"rad": found["rad"][size][0], "kace": found["kace"][size][0], xu: _mean(scores)}
    values |= {name: each[place] for name, each in policies.items()}
    page.text(f"### Policies at N={size} (KACE's figure 4)")
    page.text(
        f"The artifact draws its figure at N={size}. Xu et al. are fitted to the only files with their features that "
        f"are at hand, N={XU_SIZE}'s."
    )
    published = {xu: PUBLISHED_POLICIES["xu"], **PUBLISHED_POLICIES}
    page.table(
        ["policy", "ours", "published"],
        [[name, f"{value:.3f}", published.get(name, "")] for name, value in values.items()],
    )
    page.bars("policies", f"Fraction of the oracle at N={size}", list(values), {f"N={size}": list(values.values())})


def _targets(page: Page, artifact: Path) -> None:
    names = ("rad", "kace", "memcap")
    each: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    for train, test in _splits(artifact, POLICIES_SIZE):
        for name in names:
            result = (
                fractions(test, RULES[name])
                if name in RULES
                else choices(test, MODELS[name]().fit(train).predict(test))
            )
            for target, value in result.items():
                each[name].setdefault(target, []).append(value)
    targets = sorted(each["rad"])
    page.text(f"### Every target at N={POLICIES_SIZE} (KACE's figure 5)")
    means = {name: {target: _mean(each[name][target]) for target in targets} for name in names}
    best = sum(means["rad"][target] >= max(means[name][target] for name in names) for target in targets)
    page.text(f"`rad` is the best of the three, alone or among equals, for {best} of {len(targets)} targets.")
    page.bars(
        "targets",
        f"Fraction of the oracle for every target, N={POLICIES_SIZE}",
        targets,
        {name: [_mean(each[name][target]) for target in targets] for name in names},
    )


def _unseen(page: Page, artifact: Path) -> None:
    pairs = load_colocations(artifact / "pairs_v100.csv")
    names = ("rad", "kace", "memcap", "sm", "mem", "random")
    each = {name: unseen_fractions(pairs, name) for name in names}
    page.text("### Unseen workloads")
    page.text(
        "All batch sizes of the target are left out of training; candidates are the workloads that were seen. "
        f"Published for KACE, three workloads: {PUBLISHED_UNSEEN}; an autoregressive one: {PUBLISHED_AUTOREGRESSIVE}. "
        "It is not said whether that was whisper, the only one among the artifact's pairs."
    )
    rows = []
    for name, values in each.items():
        spoken = [value for target, value in values.items() if target.startswith(AUTOREGRESSIVE)]
        rows.append([name, f"{_mean(values.values()):.3f}", f"{min(values.values()):.3f}", f"{_mean(spoken):.3f}"])
    page.table(["", "mean", "worst target", "autoregressive targets (whisper)"], rows)
    targets = sorted(each["rad"])
    page.bars(
        "unseen",
        "Fraction of the oracle for unseen workloads",
        targets,
        {name: [each[name][target] for target in targets] for name in ("rad", "kace")},
    )


def _ways(page: Page, artifact: Path) -> None:
    pairs = load_colocations(artifact / "pairs_v100.csv")
    quads = load_colocations(artifact / "quads_v100.csv.gz")
    result = score(quads, Rad().fit(pairs).predict(quads))
    chance = _mean(random_fractions(quads).values())
    page.text("### Four workloads on one GPU, learned from pairs alone")
    page.text(
        f"{len(quads)} measured four-way colocations, none in training: `rad` reaches {result.oracle_fraction:.3f} "
        f"of the oracle (random {chance:.3f}), R2 of the sums {result.r2:.3f}."
    )
    fitted = Rad().fit(pairs).model
    page.text("### Which features carry the prediction")
    page.text(
        "Weights of `rad` fitted to all pairs, on logarithms: a weight of 0.5 means that a metric four times as large "
        "doubles the contention."
    )
    page.table(
        ["feature", "enters as", "weight", "standard deviation"],
        _weight_rows(fitted.settings.activity, fitted.settings.turns, (), (), fitted.theta, fitted.covariance),
    )


def _weight_rows(
    activity: Sequence[str],
    turns: Sequence[str],
    press: Sequence[str],
    own: Sequence[str],
    theta: Floats,
    covariance: Floats,
) -> list[list[str]]:
    kinds = [("activity of both", name) for name in activity]
    kinds += [("length of the neighbour's turns over one's own", name) for name in turns]
    kinds += [("pressure on the neighbours", name) for name in press]
    kinds += [("how a job itself suffers", name) for name in own]
    return [
        [name, kind, f"{theta[index]:.2f}", f"{covariance[index, index] ** 0.5:.2f}"]
        for index, (kind, name) in enumerate(kinds, 1)
    ]


@dataclass(frozen=True)
class _Relative:
    """A colocation judged by its sum of relative progress."""

    workloads: tuple[str, ...]
    throughput_sum: float


def _measured(page: Page, data: Path) -> None:
    runs = load_runs(data)
    pairs, triples = shared(runs, 2), shared(runs, 3)
    profiles = load_profiles(data)
    page.text(f"## One H200: {len(profiles)} workloads, {len(pairs)} pairs, {len(triples)} triples under MPS")
    page.text(
        "Made by `scripts/collect_interference` (`predictor/data`) in three sessions: every workload resident and "
        "idle, each colocation run for half a second or a little more. Pairs of the second session ran crossed: one "
        "side alone, both, the other side alone, so that progress is relative to what a side did alone in the same "
        "run. Otherwise it is relative to what it typically does alone in that session. Over 1 counts as 1. The third "
        "swept pairs through thread percentages and enters only where it says so."
    )
    progress = np.array([min(side.progress, 1.0) for row in pairs for side in row.sides])
    sums = np.array([sum(min(side.progress, 1.0) for side in row.sides) for row in pairs])
    spread = float(np.abs(progress - progress.mean()).mean())
    low, middle, high = (float(np.percentile(sums, part)) for part in (5, 50, 95))
    page.text(
        f"Sum of relative progress of a pair: median {middle:.2f}, 5 to 95 % {low:.2f} to {high:.2f}. Progress of one "
        f"side: mean {progress.mean():.2f}; predicting that mean is off by {spread:.3f}."
    )
    differences = _differences(runs)
    page.text(
        f"Noise: the same {len(differences) // 2} pairs measured twice differ by {np.mean(differences):.3f} a side on "
        f"average (median {np.median(differences):.3f}, 90 % under {np.percentile(differences, 90):.3f})."
    )
    spreads = load_spreads(data)
    jumpy = max(spreads, key=lambda name: spreads[name])
    page.text(
        f"Noise of the host: what a workload reaches alone varies between runs by "
        f"{np.median(list(spreads.values())):.0%} (standard deviation, median over workloads; most for {jumpy}: "
        f"{spreads[jumpy]:.0%})."
    )
    _families(page, pairs, triples, spread, spreads)
    _fresh(page, data / FRESH_FOLDER, pairs)
    _choices(page, pairs)
    _estimated(page, data)
    _tried(page, data)
    _counted(page, data)
    _methods(page, data)
    model = fit_rad(pairs).model
    page.text("### Which features carry the prediction on the H200")
    settings = model.settings
    page.table(
        ["feature", "enters as", "weight", "standard deviation"],
        _weight_rows(settings.activity, settings.turns, settings.press, settings.own, model.theta, model.covariance),
    )
    _speed(page, profiles)


def _differences(runs: Sequence[Run]) -> list[float]:
    """By how much each side's progress differs between the two times that a pair was measured in one session."""
    found: dict[tuple[int, frozenset[str]], list[dict[str, float]]] = {}
    for run in runs:
        if run.method == "mps" and len(run.colocation.sides) == 2 and set(run.threads) == {100}:
            progress = {side.workload: min(side.progress, 1.0) for side in run.colocation.sides}
            found.setdefault((run.session, frozenset(progress)), []).append(progress)
    return [
        abs(one[name] - two[name]) for one, two, *_ in (each for each in found.values() if each[1:]) for name in one
    ]


def _fresh(page: Page, folder: Path, pairs: Sequence[Colocation]) -> None:
    """How models that are finished do on families that nobody fitted anything to."""
    if not folder.is_dir():
        return
    judged = shared(load_runs(folder), 2)
    seen = {side.workload for row in pairs for side in row.sides}
    names = [side.workload for row in judged for side in row.sides]
    stranger = np.array([name not in seen for name in names])
    both = np.repeat(stranger.reshape(-1, 2).all(axis=1), 2)
    families = np.array([family(name) for name in names])
    progress = np.array([min(side.progress, 1.0) for row in judged for side in row.sides])
    fresh = sorted({name for name in names if name not in seen})
    page.text("### Families that came after the model was finished")
    page.text(
        f"{len(fresh)} workloads of {len({family(name) for name in fresh})} families, {len(judged)} pairs of them with "
        f"each other and with workloads of the set above. They were measured in the same session, kept apart, and "
        f"looked at once, when nothing was left to choose. Predicting their mean progress is off by "
        f"{np.abs(progress - progress.mean()).mean():.3f}."
    )
    rows, worst = [], []
    for name, trainer in TRAINERS.items():
        errors, stated = errors_of(trainer(pairs), judged)
        total = summarise(errors, stated)
        parts = (np.abs(errors), np.abs(errors[both]), np.abs(errors[stranger & ~both]), np.abs(errors[~stranger]))
        cells = [f"{part.mean():.3f}" if len(part) else "" for part in parts]
        rows.append([name, *cells, f"{total.bias:+.3f}", f"{100 * total.covered:.0f} %"])
        worst.append(np.abs(errors))
    head = ["", "all sides", "two fresh ones", "a fresh one beside a known one", "a known one beside a fresh one"]
    page.table([*head, "bias", "within two stated deviations"], rows)
    listed = sorted({family(name) for name in fresh})
    page.table(
        ["fresh family", *TRAINERS],
        [[name, *(f"{errors[families == name].mean():.3f}" for errors in worst)] for name in listed],
    )


def _families(
    page: Page,
    pairs: Sequence[Colocation],
    triples: Sequence[Colocation],
    spread: float,
    spreads: Mapping[str, float],
) -> None:
    page.text("### Progress of a side, whole model families left out")
    rows = []
    each_family = {}
    for name, trainer in TRAINERS.items():
        total, each = families_left_out(pairs, trainer)
        each_family[name] = each
        three = summarise(*errors_of(trainer(pairs), triples))
        rows.append(
            [
                name,
                f"{total.mean_abs:.3f}",
                f"{total.bias:+.3f}",
                f"{100 * total.covered:.0f} %",
                f"{three.mean_abs:.3f}",
            ]
        )
    rows.append(["the mean", f"{spread:.3f}", "", "", ""])
    page.table(["", "mean absolute error", "bias", "within two stated deviations", "triples, learned from pairs"], rows)
    traced = [row for row in pairs if not any(math.isnan(side.profile.kernel.turn_us) for side in row.sides)]
    if len(traced) < len(pairs):
        total, _ = families_left_out(traced, TRAINERS["rad"])
        page.text(
            f"Some workloads have no kernel metrics (their kernels' durations are guessed from their pace). On the "
            f"{len(traced)} pairs of the others, learned from these alone, `rad` is off by {total.mean_abs:.3f}."
        )
    seen = [
        errors_of(fit_rad(kept), held)[0]
        for kept, held in (_every_tenth(pairs, part) for part in range(PARTS))
        if kept and held
    ]
    own, _ = errors_of(fit_rad(pairs), pairs)
    page.text(
        f"What limits it: on pairs left out a tenth at a time, so that every workload was seen beside others, `rad` is "
        f"off by {np.abs(np.concatenate(seen)).mean():.3f}; on the very pairs that it was fitted to, by "
        f"{np.abs(own).mean():.3f}. So much is noise, and what two numbers of a workload, how it presses and how "
        f"it suffers, cannot tell of a pair."
    )
    _steadiness(page, pairs, spreads)
    names = sorted(each_family["rad"])
    page.table(
        ["family left out", *TRAINERS],
        [[name, *(f"{each_family[model][name].mean_abs:.3f}" for model in TRAINERS)] for name in names],
    )
    page.bars(
        "families",
        "Mean absolute error of a side's progress, family left out",
        names,
        {model: [each_family[model][name].mean_abs for name in names] for model in TRAINERS},
    )
    kept, held = pairs[::2], pairs[1::2]
    predictor = fit_rad(kept)
    found, _ = errors_of(predictor, held)
    actual = np.array([min(side.progress, 1.0) for row in held for side in row.sides])
    page.points(
        "scatter",
        "Progress of a side: half of the pairs predicted from the other half",
        ("measured", "predicted"),
        {"rad": (actual, actual + found)},
    )


def _steadiness(page: Page, pairs: Sequence[Colocation], spreads: Mapping[str, float]) -> None:
    """What noise of the exclusive throughput does to the errors: progress is reckoned from it."""
    errors: dict[bool, list[float]] = {True: [], False: []}
    for kept, test in leave_out(pairs, family).values():
        if not kept:
            continue
        found, _ = errors_of(fit_rad(kept), test)
        sides = [side.workload for row in test for side in row.sides]
        for name, error in zip(sides, found, strict=True):
            errors[spreads[name] <= STEADY].append(abs(error))
    steady = sum(spread <= STEADY for spread in spreads.values())
    if errors[True] and errors[False]:
        page.text(
            f"Of the {steady} workloads whose throughput alone varied by at most {STEADY:.0%} between repeats, `rad` "
            f"is off by {_mean(errors[True]):.3f}; of the {len(spreads) - steady} others by {_mean(errors[False]):.3f}."
        )


def _every_tenth(pairs: Sequence[Colocation], part: int) -> tuple[list[Colocation], list[Colocation]]:
    """All pairs but a tenth, and that tenth; in an order that has nothing to do with their names."""
    order = np.random.default_rng(0).permutation(len(pairs))
    held = {int(index) for index in order[part::PARTS]}
    return [row for index, row in enumerate(pairs) if index not in held], [pairs[index] for index in sorted(held)]


def _choices(page: Page, pairs: Sequence[Colocation]) -> None:
    rows = [_Relative(row.workloads, sum(min(side.progress, 1.0) for side in row.sides)) for row in pairs]
    values: dict[str, float] = {}
    for name, trainer in TRAINERS.items():
        parts = []
        for target_family in sorted({family(side.workload) for row in pairs for side in row.sides}):
            train = [row for row in pairs if all(family(side.workload) != target_family for side in row.sides)]
            predictor = trainer(train)
            test = [row for row in pairs if any(family(side.workload) == target_family for side in row.sides)]
            sums = np.array(
                [
                    predictor.predict(row.sides[0].profile, [side.profile for side in row.sides[1:]]).throughput_sum
                    for row in test
                ]
            )
            judged = [_Relative(row.workloads, sum(min(side.progress, 1.0) for side in row.sides)) for row in test]
            parts += [value for target, value in choices(judged, sums).items() if family(target) == target_family]
        values[name] = _mean(parts)
    place = {id(judged): row for judged, row in zip(rows, pairs, strict=True)}
    for name, rule in RULES.items():
        values[name] = _mean(fractions(rows, partial(_by_rule, rule, place)).values())
    values["random"] = _mean(random_fractions(rows).values())
    page.text("### Choice of a neighbour on the H200, by the sum of relative progress")
    page.text("The target's whole family is left out of training; rules and chance need none.")
    page.table(["policy", "fraction of the oracle"], [[name, f"{value:.3f}"] for name, value in values.items()])
    page.bars("choices", "Fraction of the oracle on the H200", list(values), {"H200": list(values.values())})


def _by_rule(rule: Chooser[Colocation], place: Mapping[int, Colocation], target: str, some: Sequence[_Relative]) -> int:
    return rule(target, [place[id(one)] for one in some])


def _estimated(page: Page, data: Path) -> None:
    path = data / "estimate.json"
    if not path.exists():
        return
    content = json.loads(path.read_text(encoding="utf-8"))
    page.text("### Profiles estimated from a summary")
    page.text(
        f"Geometric mean factor between estimated and measured, family left out of the correction, over "
        f"{content['workloads']} workloads."
    )
    page.table(
        ["metric", "by the chip's rates alone", "corrected"],
        [[key, f"{raw:.2f}", f"{fixed:.2f}"] for key, (raw, fixed) in content["factors"].items()],
    )


def _tried(page: Page, data: Path) -> None:
    """`radctl profile` beside the collector, as `scripts/try_profile compare --json` has it."""
    path = data / "tried.json"
    if not path.exists():
        return
    page.text("### Profiles by `radctl profile`, beside the collector's")
    page.text(
        "`scripts/try_profile`: each workload as its user would profile it, on other machines than the "
        "collector's, which stand behind the slash as they are when their host lets them iterate as fast. Times are "
        "in microseconds a launch."
    )
    keys = ("throughput", "smact", "smocc", "dram", "busy", "memory_mib", "mean_us", "turn_us")
    rows = []
    for row in json.loads(path.read_text(encoding="utf-8")):
        cells = ["" if row[key][0] is None else " / ".join(f"{value:.4g}" for value in row[key]) for key in keys]
        rows.append([row["case"], row["workload"], "yes" if row["mps"] else "", *cells])
    page.table(["case", "workload", "MPS", *(key.replace("_", " ") for key in keys)], rows)


def _counted(page: Page, data: Path) -> None:
    """What a profile depends on beside the workload: `scripts/try_profile ways` on one machine."""
    path = data / "ways.json"
    if not path.exists():
        return
    page.text("### One workload, counted in several ways")
    page.text(
        "`scripts/try_profile ways`: the same process alone, with and without MPS, after a short and a longer lead, in "
        "a short and a longer window, kept on four cores or on none."
    )
    head = ["workload", "", "lead", "window", "cores", "iterations a second", "busy", "smact", "DRAM", "PCIe"]
    rows = []
    for way in json.loads(path.read_text(encoding="utf-8")):
        values = (f"{way[key]:.{digits}f}" for key, digits in (("busy", 3), ("smact", 3), ("dram", 3), ("pcie", 4)))
        times = (f"{way['lead_s']:g} s", f"{way['seconds']:g} s", "four" if way["bound"] else "any")
        rows.append([way["workload"], way["settings"], *times, f"{way['rate']:.1f}", *values])
    page.table(head, rows)


def _methods(page: Page, data: Path) -> None:
    runs = load_runs(data)
    sliced = sliced_pairs(runs)
    page.text("### MPS against plain time slicing")
    better = sum(one.mps_sum > one.sliced_sum for one in sliced)
    page.text(
        f"{len(sliced)} pairs measured both ways: mean sum of relative progress "
        f"{_mean(one.mps_sum for one in sliced):.2f} under MPS and "
        f"{_mean(one.sliced_sum for one in sliced):.2f} under time slicing; MPS is better for {better}. "
        f"The slower side has {_mean(one.mps_least for one in sliced):.2f} under MPS and "
        f"{_mean(one.sliced_least for one in sliced):.2f} under time slicing."
    )
    labels = [f"{one.names[0].split('_')[0]}+{one.names[1].split('_')[0]}" for one in sliced]
    page.bars(
        "slicing",
        "Sum of relative progress",
        labels,
        {"MPS": [one.mps_sum for one in sliced], "time slicing": [one.sliced_sum for one in sliced]},
    )
    page.text("### Thread partitions")
    groups = partitioned_pairs(runs)
    result = compare(groups, shared(runs, 2), fit_rad)
    page.text(
        f"{len(groups)} pairs under five partitions of the threads (10/90 to 90/10), families of both sides left out "
        "of the model's fit. The artifact's file of thread partitions holds no partition but the default one, so "
        "these are our own measurements."
    )
    _percentages(page, result)
    again = differences(runs)
    if again:
        page.text(
            f"The same pairs under the same partitions, measured again in another session, differ by "
            f"{_mean(again):.3f} a side on average ({len(again)} sides, median {np.median(again):.3f})."
        )
    page.text("### A limit for the job that comes")
    came = newcomers(runs)
    if not came:
        page.text("Not measured.")
        return
    page.text(
        f"What RAD can choose when a job comes: the residents keep their threads, the newcomer gets 30, 50, 70 or "
        f"100 %. {len(came)} cases (pairs, either side as the newcomer), families of both sides left out of the fit. "
        f"A limit is chosen only where it is predicted to gain {WORTH:.2f}."
    )
    _percentages(page, compare(came, shared(runs, 2), fit_rad))
    left = {ALL: 1.0, **alone(runs)}
    rows = []
    for percentage in sorted({shares[0] for group in came for shares in group.shares}, reverse=True):
        found = np.array(
            [p for group in came for s, p in zip(group.shares, group.progress, strict=True) if s[0] == percentage]
        )
        values = (*found.mean(axis=0), found.sum(axis=1).mean(), found.min(axis=1).mean(), left.get(percentage))
        rows.append([f"{percentage} %", *("" if value is None else f"{value:.3f}" for value in values)])
    head = ["newcomer's threads", "progress of the newcomer", "of the resident", "sum", "slower side"]
    page.table([*head, "progress of a job left alone with it"], rows)
    page.text(
        "A limit cannot be changed while its job runs: what it costs a job whose neighbours have left stands in the "
        "last column (mean over the workloads that were measured under percentages)."
    )


def _percentages(page: Page, result: Comparison) -> None:
    page.table(
        ["choice", "sum of relative progress", "progress of the slower side"],
        [[name, f"{total:.3f}", f"{least:.3f}"] for name, (total, least) in result.choices.items()],
    )
    page.text(f"Mean absolute error of a side's progress under a thread percentage: {result.mean_abs:.3f}.")


def _speed(page: Page, profiles: Mapping[str, Profile]) -> None:
    predictor = weights.load_predictor("rad")
    listed = list(profiles.values())
    groups = [[listed[(gpu + index) % len(listed)] for index in range(gpu % 3 + 1)] for gpu in range(RANKED_GPUS)]
    times = []
    for _ in range(20):
        begin = time.thread_time()
        predictor.predict_many(listed[0], groups)
        times.append(time.thread_time() - begin)
    page.text("### Speed")
    page.text(
        f"Ranking {RANKED_GPUS} GPUs with one to three residents each for one job takes {1e3 * min(times):.1f} ms "
        f"of one core (best of 20)."
    )
