"""`radctl summarize`: a summary of a model, made by running its code. Writes stdout; a terminal sees what it does."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console

from estimator.faketensor import is_lazy
from estimator.summarize import summary_of, table_of
from slurm_hooks.radctl.options import Whole, examples
from slurm_hooks.radctl.own_code import (
    BESIDE,
    INPUT_SIZE,
    INPUTS,
    LOSS,
    NO_TABLE,
    SEQ_LEN,
    apart,
    beside_of,
    inputs_of,
    loss_of,
    maker,
    size_of,
)

_NO_PRINT = "print(model) of your own program makes a summary too, or torchinfo in it"
_LAZY = (
    "lazy layers know their sizes once something has gone in: add --input-size 3x224x224, --seq-len 512 or --inputs, "
    "or let the factory call the model once"
)


@click.command(
    epilog=examples(
        "radctl summarize torchvision.models:resnet50 --input-size 3x224x224 > resnet50.txt",
        "radctl summarize mynet:make_model --seq-len 512 --batch-size 8 > mynet.txt",
        "radctl summarize mynet:make_model --inputs mynet:make_batch --loss mynet:make_loss > mynet.txt",
    )
)
@click.argument("place", metavar="MODULE:FACTORY")
@INPUT_SIZE
@SEQ_LEN
@INPUTS
@LOSS
@BESIDE
@click.option("--batch-size", type=Whole(2, 10**6), default=32, show_default=True, help="Of the job.")
def summarize(
    place: str,
    *,
    input_size: str | None,
    seq_len: int | None,
    fed: str | None,
    loss: str | None,
    beside: str | None,
    batch_size: int,
) -> None:
    """Print a summary of a PyTorch model, for #RAD model=.

    MODULE is as in an import: mynet for mynet.py of this directory. FACTORY takes no arguments and returns the model; a
    model does too. That code is run, with the torch extra. Without options the summary is the module's print; with
    --input-size, --seq-len or --inputs it is a table of every call with its shapes, which says most.

    --inputs names a function, for what takes more than one thing: of a batch size it returns a tensor, a tuple of
    arguments, or a dict of named ones, with labels where the model takes them.

    --loss names a function that takes what the model returns and makes the loss of it, as your loop does, with targets
    of zeros. Without it the model's own loss is taken, or a classifier's for each thing that it returns.

    --beside names a function that takes the model and returns what else your job holds on the GPU: a teacher, a second
    network, a moving average, data. The loss is given that too, as its second argument.
    """
    size = size_of(input_size)
    said = [each is not None for each in (size, seq_len, fed)]
    if sum(said) > 1:
        raise click.UsageError("give one of --input-size, --seq-len and --inputs: each says all that goes in")
    for option, place_of in (("--loss", loss), ("--beside", beside)):
        if place_of is not None and not any(said):
            raise click.UsageError(f"{option} is for a table: say what goes in by --input-size, --seq-len or --inputs")
    with apart(place, NO_TABLE if any(said) else _NO_PRINT):
        make = maker(place)
        if any(said):
            feed, judge, held = inputs_of(fed, size, seq_len), loss_of(loss), beside_of(beside)
            with Console(stderr=True).status("") as shown:
                text = table_of(make, feed, batch_size, judge, held, shown.update)
        else:
            text = _printed(place, make())
    click.echo(text)


def _printed(place: str, model: Any) -> str:
    if is_lazy(model):
        raise click.ClickException(f"{place} cannot be printed: {_LAZY}")
    return summary_of(model)


COMMANDS = [summarize]
