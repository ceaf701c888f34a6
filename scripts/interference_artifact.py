"""The results page's first part: what the models reach on KACE's artifact, beside what was published."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from predictor.artifact import Colocation, load_colocations
from predictor.baselines import RULES, Xu, load_xu
from predictor.evaluation import MODELS, evaluate_colocations, unseen_fractions
from predictor.measure import choices, fractions, random_fractions, score
from predictor.rad import Rad
from predictor.types import ProfileError
from scripts.interference_page import Page, mean, weight_rows

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


def _splits(artifact: Path, size: int) -> list[tuple[tuple[Colocation, ...], tuple[Colocation, ...]]]:
    folder = artifact / "splits"
    return [
        (
            load_colocations(folder / f"n{size}_r{seed}_training.csv"),
            load_colocations(folder / f"n{size}_r{seed}_testing.csv"),
        )
        for seed in SEEDS
    ]


def write_artifact(page: Page, artifact: Path, *, quick: bool) -> None:
    """Add it to the page; ``quick``: without AutoML."""
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
                part, r2, seconds = (mean(cell[index] for cell in cells) for index in range(3))
                found.setdefault(name, {})[size] = (part, r2, seconds)
        for name, values in policies.items():
            values.append(mean(evaluate_colocations(*split, name).oracle_fraction for split in splits))
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
    values = {"rad": found["rad"][size][0], "kace": found["kace"][size][0], xu: mean(scores)}
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
    means = {name: {target: mean(each[name][target]) for target in targets} for name in names}
    best = sum(means["rad"][target] >= max(means[name][target] for name in names) for target in targets)
    page.text(f"`rad` is the best of the three, alone or among equals, for {best} of {len(targets)} targets.")
    page.bars(
        "targets",
        f"Fraction of the oracle for every target, N={POLICIES_SIZE}",
        targets,
        {name: [mean(each[name][target]) for target in targets] for name in names},
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
        rows.append([name, f"{mean(values.values()):.3f}", f"{min(values.values()):.3f}", f"{mean(spoken):.3f}"])
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
    chance = mean(random_fractions(quads).values())
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
        weight_rows(fitted.settings.activity, fitted.settings.turns, (), (), fitted.theta, fitted.covariance),
    )
