"""radctl's commands around learned models: list them, go back, fit the memory estimate again.

Reads the folders that the user names; `retrain memory` and `models rollback` write into the models' folder.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import click

from estimator.store import SHIPPED, ModelError, Store, store_for
from slurm_hooks.radctl.groups import OWN_MODELS, retrain
from slurm_hooks.radctl.main import Site
from slurm_hooks.radctl.options import JSON, THERE, examples

_LEARNED = ("rad", "gpumemnet")


@retrain.command("memory", epilog=examples("radctl retrain memory --data cases"))
@click.option("--data", "data_dir", type=THERE, required=True, help="A packed data set, or your cases with labels.csv.")
@OWN_MODELS
@JSON
@click.pass_obj
def retrain_memory(site: Site, *, data_dir: Path, models_dir: Path | None, as_json: bool) -> None:
    """Fit the memory estimate to measured runs.

    It is installed only if it is no worse than the installed one on models that are left out.
    """
    from estimator.methods.rad.fit.reached import ALL, DRAWN  # noqa: PLC0415 - scikit-learn takes seconds to load
    from estimator.methods.rad.retrain import retrain as fit_again  # noqa: PLC0415

    done = fit_again(data_dir, _own(site, models_dir), say=lambda text: click.echo(f"radctl: {text}", err=True))
    if as_json:
        click.echo(json.dumps({**asdict(done), "installed": done.version is not None}))
        return
    was = "none" if done.old is None else f"{done.old.median_abs_rel_error:.1%}, {done.old.under_rate:.1%} too low"
    what = "kept the installed one" if done.version is None else f"installed version {done.version}"
    click.echo(
        f"rad: median error {done.new.median_abs_rel_error:.1%}, upper too low in {done.new.under_rate:.1%} of "
        f"{done.new.n} held-out summaries (installed: {was}): {what}"
    )
    for way, parts in done.left_out.ways.items():
        for name in (name for name in (DRAWN, ALL) if name in parts):
            click.echo(
                f"  fitted without a {way}, {name}: median error {parts[name].error:.1%}, upper too low in "
                f"{parts[name].under:.1%}, too high by {parts[name].over:.0%} on average"
            )


def _own(site: Site, models_dir: Path | None) -> Path:
    """Give the folder of a site's own models: the one that was named, or the one in which radd looks."""
    return models_dir or Path(site.load().estimator.models_dir)


@click.group()
def models() -> None:
    """List learned models, or go back to the version before."""


@models.command("list")
@OWN_MODELS
@JSON
@click.pass_obj
def models_list(site: Site, models_dir: Path | None, as_json: bool) -> None:
    """List the versions of each learned model; * marks the one in use."""
    own = _own(site, models_dir)
    used = {}
    for method in _LEARNED:
        store = store_for(method, own)
        used[method] = store.folder
        try:
            store.load()
        except ModelError as error:
            click.echo(f"radctl: {method} cannot be used: {error}", err=True)
    rows = [
        {
            "method": method,
            "version": version.number,
            "current": version.current and store.folder == used[method],
            "folder": str(folder),
            "about": version.about,
        }
        for folder in (SHIPPED, own)
        for method in _LEARNED
        for store in (Store(folder, method),)
        for version in store.versions()
    ]
    if as_json:
        click.echo(json.dumps({"models": rows}))
        return
    for row in rows:
        about = cast("dict[str, Any]", row["about"])
        mark = "*" if row["current"] else " "
        click.echo(f"{mark} {row['method']} {row['version']}  {about.get('note', '')}  ({row['folder']})")


@models.command("rollback")
@click.argument("method", type=click.Choice(_LEARNED), default="rad")
@OWN_MODELS
@click.pass_obj
def models_rollback(site: Site, method: str, models_dir: Path | None) -> None:
    """Go back to the version before the current one.

    From your first that is the one that comes with RAD.
    """
    number = Store(_own(site, models_dir), method).rollback()
    which = "the version that comes with RAD" if number is None else f"version {number}"
    click.echo(f"{method}: {which} is current")


COMMANDS: list[click.Command] = [retrain, models]
