"""The results page's second part: our measurements on an H200, and how well the models predict them."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from predictor import weights
from predictor.artifact import Colocation
from predictor.baselines import RULES
from predictor.evaluation import leave_out
from predictor.measure import choices, fractions, random_fractions
from predictor.measurements import FRESH_FOLDER, Run, family, load_profiles, load_runs, load_spreads, shared
from predictor.partition import Comparison, alone, compare, differences, newcomers, partitioned_pairs, sliced_pairs
from predictor.threads import ALL, WORTH
from predictor.training import TRAINERS, errors_of, families_left_out, fit_rad, summarise
from predictor.types import Profile
from scripts.interference_page import Page, mean, weight_rows

RANKED_GPUS = 1000
PARTS = 10
STEADY = 0.02


class _Relative(Colocation):
    """A colocation judged by its sum of relative progress."""

    @property
    def throughput_sum(self) -> float:
        """That sum."""
        return sum(self.progress)


def write_measured(page: Page, data: Path) -> None:
    """Add it to the page."""
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
    progress = np.array([value for row in pairs for value in row.progress])
    sums = np.array([sum(row.progress) for row in pairs])
    spread = float(np.abs(progress - progress.mean()).mean())
    low, middle, high = (float(np.percentile(sums, part)) for part in (5, 50, 95))
    page.text(
        f"Sum of relative progress of a pair: median {middle:.2f}, 5 to 95 % {low:.2f} to {high:.2f}. Progress of one "
        f"side: mean {progress.mean():.2f}; predicting that mean is off by {spread:.3f}."
    )
    twice = _measured_twice(runs)
    page.text(
        f"Noise: the same {len(twice) // 2} pairs measured twice differ by {np.mean(twice):.3f} a side on "
        f"average (median {np.median(twice):.3f}, 90 % under {np.percentile(twice, 90):.3f})."
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
        weight_rows(settings.activity, settings.turns, settings.press, settings.own, model.theta, model.covariance),
    )
    _speed(page, profiles)


def _measured_twice(runs: Sequence[Run]) -> list[float]:
    """By how much each side's progress differs between the two times that a pair was measured in one session."""
    found: dict[tuple[int, frozenset[str]], list[dict[str, float]]] = {}
    for run in runs:
        if run.method == "mps" and len(run.colocation.sides) == 2 and set(run.threads) == {100}:
            names = (side.workload for side in run.colocation.sides)
            progress = dict(zip(names, run.colocation.progress, strict=True))
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
    progress = np.array([value for row in judged for value in row.progress])
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
    actual = np.array([value for row in held for value in row.progress])
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
            f"is off by {mean(errors[True]):.3f}; of the {len(spreads) - steady} others by {mean(errors[False]):.3f}."
        )


def _every_tenth(pairs: Sequence[Colocation], part: int) -> tuple[list[Colocation], list[Colocation]]:
    """All pairs but a tenth, and that tenth; in an order that has nothing to do with their names."""
    order = np.random.default_rng(0).permutation(len(pairs))
    held = {int(index) for index in order[part::PARTS]}
    return [row for index, row in enumerate(pairs) if index not in held], [pairs[index] for index in sorted(held)]


def _choices(page: Page, pairs: Sequence[Colocation]) -> None:
    rows = [_Relative(row.sides) for row in pairs]
    values: dict[str, float] = {}
    for name, trainer in TRAINERS.items():
        parts = []
        for target_family, (train, test) in leave_out(rows, family).items():
            predictor = trainer(train)
            sums = np.array([predictor.predict(row.profiles[0], row.profiles[1:]).throughput_sum for row in test])
            parts += [value for target, value in choices(test, sums).items() if family(target) == target_family]
        values[name] = mean(parts)
    for name, rule in RULES.items():
        values[name] = mean(fractions(rows, rule).values())
    values["random"] = mean(random_fractions(rows).values())
    page.text("### Choice of a neighbour on the H200, by the sum of relative progress")
    page.text("The target's whole family is left out of training; rules and chance need none.")
    page.table(["policy", "fraction of the oracle"], [[name, f"{value:.3f}"] for name, value in values.items()])
    page.bars("choices", "Fraction of the oracle on the H200", list(values), {"H200": list(values.values())})


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
        f"{mean(one.mps_sum for one in sliced):.2f} under MPS and "
        f"{mean(one.sliced_sum for one in sliced):.2f} under time slicing; MPS is better for {better}. "
        f"The slower side has {mean(one.mps_least for one in sliced):.2f} under MPS and "
        f"{mean(one.sliced_least for one in sliced):.2f} under time slicing."
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
            f"{mean(again):.3f} a side on average ({len(again)} sides, median {np.median(again):.3f})."
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
