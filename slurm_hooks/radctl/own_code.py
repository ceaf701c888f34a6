"""A user's own code, as `radctl summarize` and faketensor run it: imported, kept apart, and its failures in one line.

Imports and runs what the user names, from the working directory too.
"""

from __future__ import annotations

import importlib
import os
import re
import site
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from inspect import isroutine
from pathlib import Path
from types import ModuleType, NoneType
from typing import Any

import click

import estimator
import slurm_hooks
from estimator.faketensor import Inputs, is_lazy, own_inputs, plain_inputs
from estimator.input_size import InputSizeError, read
from slurm_hooks.radctl.options import Whole

_NO_MODEL = "name a function without arguments that returns the model, in a module that does nothing when imported"
NO_TABLE = (
    "is what goes in as --input-size, --seq-len or --inputs says? A model that takes more than one thing is fed by the "
    "last; one that looks at values can be printed without these options, or by torchinfo in your own program"
)
_NO_INPUTS = (
    "name a function that takes a batch size and returns what the model takes: a tensor, a tuple of arguments, or a "
    "dict of named ones"
)
_NO_LOSS = (
    "name a function that takes what the model returns and gives back the loss, one number, with targets that it makes "
    "of zeros on the same device"
)
_NO_BESIDE = (
    "name a function that takes the model and returns what else the job holds on the GPU: modules and tensors on the "
    "same device, in lists, tuples or dicts"
)
_NO_GPU = "radctl runs this code without a GPU: let it make its tensors on the device of its input or its parameters"
_RELATIVE = "name the module with its package, from the folder that holds that: package.module:factory"
_WANTS_GPU = re.compile(r"cuda|nvidia", re.IGNORECASE)
# Where code lies that is not the user's own: what calls it, what it calls, and what is no file.
_NOT_OWN = (
    *(str(Path(module.__file__ or "").parent) for module in (estimator, slurm_hooks, click)),
    *site.getsitepackages(),
    site.getusersitepackages(),
    sysconfig.get_path("stdlib"),
)
_ELSEWHERE = ("<", *(f"{folder}{os.sep}" for folder in _NOT_OWN))
_MOST = 300  # characters of an error that are shown

INPUTS = click.option("--inputs", "fed", metavar="MODULE:FUNCTION", help="Makes what goes into the model's code.")
LOSS = click.option("--loss", metavar="MODULE:FUNCTION", help="Makes your loss of what the model returns.")
BESIDE = click.option("--beside", metavar="MODULE:FUNCTION", help="Makes what else your job holds on the GPU.")
INPUT_SIZE = click.option("--input-size", metavar="3x224x224", help="Size of one sample, where no summary shows it.")
SEQ_LEN = click.option("--seq-len", type=Whole(1, 10**8), help="Tokens of one sample.")


@contextmanager
def apart(place: str, cure: str) -> Iterator[None]:
    """Run a user's own code: what it and programs that it starts print is no answer, and our options are none of its.

    They print to the standard error. What it raises becomes a message, with this cure.
    """
    given, out = sys.argv, os.dup(1)
    sys.argv = [place.partition(":")[0]]
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    except click.ClickException:
        raise
    except (Exception, SystemExit) as error:
        raise _failed(place, error, cure) from error
    finally:
        if sys.__stdout__ is not None:
            sys.__stdout__.flush()
        os.dup2(out, 1)
        os.close(out)
        sys.argv = given


def _factory(place: str) -> Any:
    """Import MODULE:FACTORY from the working directory or the path."""
    module_name, colon, factory_name = place.partition(":")
    parts = module_name.split(".")
    if not colon or not factory_name or parts[-1] == "py" or not all(part.isidentifier() for part in parts):
        named = ".".join(part for part in module_name.removesuffix(".py").split("/") if part.strip("."))
        is_path = "/" in module_name or parts[-1] == "py"
        example = f"{named}:{factory_name}" if is_path else "torchvision.models:resnet50"
        raise click.UsageError(f"expected MODULE:FACTORY as in an import, for example {example}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
        if not hasattr(module, factory_name) and _is_hidden(module, parts[0]):
            raise _hidden(place, parts[0])
        return getattr(module, factory_name)
    except click.ClickException:
        raise
    except AttributeError as error:
        raise click.ClickException(f"{place} cannot be loaded: {error}") from None
    except ImportError as error:
        hides = sys.modules.get(parts[0])
        if (error.name or "").startswith(f"{parts[0]}.") and hides is not None and _is_hidden(hides, parts[0]):
            raise _hidden(place, parts[0]) from None
        where = f"no {parts[0]}.py lies in this directory either; " if error.name == parts[0] else ""
        cure = (
            f"{where}radctl runs in {sys.executable}: install that there, or RAD's checkout where it is (pip install); "
            "or let your own program print(model), which makes a summary too"
        )
        if "attempted relative import" in str(error):
            cure = _RELATIVE
        raise click.ClickException(f"{place} cannot be loaded: {error}; {cure}") from None
    except (Exception, SystemExit) as error:
        raise _failed(place, error) from error


def _hidden(place: str, name: str) -> click.ClickException:
    why = f"RAD or Python has a module {name} of its own; give your file or folder another name"
    return click.ClickException(f"{place} cannot be loaded: {why}")


def _is_hidden(module: ModuleType, name: str) -> bool:
    """Tell whether the working directory has such a module, too, that was not imported."""
    here = Path.cwd()
    taken = Path(module.__file__ or "/").resolve()
    return any((here / own).exists() for own in (name, f"{name}.py")) and not taken.is_relative_to(here.resolve())


def maker(place: str) -> Callable[[], Any]:
    """Return what makes the model of MODULE:FACTORY, which may be that model itself."""
    found = _factory(place)
    if hasattr(found, "named_children") and not isinstance(found, type):
        return partial(_model, place, lambda: found)
    if not callable(found):
        raise click.ClickException(f"{place} is no function and no torch.nn.Module, but a {type(found).__name__}")

    def make() -> Any:
        return _model(place, found)

    return make


def _model(place: str, factory: Callable[[], Any]) -> Any:
    try:
        model = factory()
    except (Exception, SystemExit) as error:
        raise _failed(place, error) from error
    if not hasattr(model, "named_children"):
        raise click.ClickException(f"{place} returns no torch.nn.Module, but a {type(model).__name__}")
    if not any(True for _ in model.parameters()):
        raise click.ClickException(f"{place} returns a model without parameters: there is nothing to train")
    return model


def inputs_of(fed: str | None, size: tuple[int, ...] | None, seq_len: int | None) -> Inputs:
    """Return what makes the model's arguments: the function of MODULE:FUNCTION, or one sample's size."""
    if fed is None:
        return plain_inputs(size, seq_len)
    return own_inputs(_function(fed, _NO_INPUTS))


def loss_of(place: str | None) -> Callable[..., Any] | None:
    """Return what makes the loss of what a model gives out, and what is beside it: the function of MODULE:FUNCTION."""
    if place is None:
        return None
    found = _function(place, _NO_LOSS)

    def call(*given: Any) -> Any:
        loss = found(*given)
        if not hasattr(loss, "numel") or loss.numel() != 1:
            raise click.ClickException(f"{place} returned no single number, but a {type(loss).__name__}; {_NO_LOSS}")
        return loss

    return call


def beside_of(place: str | None) -> Callable[[Any], Any] | None:
    """Return what makes of a model what else the job holds on the GPU: the function of MODULE:FUNCTION."""
    if place is None:
        return None
    found = _function(place, _NO_BESIDE)

    def call(model: Any) -> Any:
        held = found(model)
        wrong = _not_beside(held)
        if wrong:
            raise click.ClickException(f"{place} returned {wrong}")
        return held

    return call


def _not_beside(held: Any) -> str:
    """Say what among a user's things is not counted, and the cure; the empty string where all is."""
    from torch.utils._pytree import tree_leaves  # noqa: PLC0415

    leaves = [leaf for leaf in tree_leaves(held) if not _holds_nothing(leaf)]
    modules = [leaf for leaf in leaves if hasattr(leaf, "named_children")]
    tensors = [leaf for leaf in leaves if hasattr(leaf, "untyped_storage")]
    if not modules and not tensors:
        return f"no module or tensor, but a {type(held).__name__}; {_NO_BESIDE}"
    for leaf in leaves:
        if not (hasattr(leaf, "named_children") or hasattr(leaf, "untyped_storage")):
            return f"a {type(leaf).__name__} among others, and what that holds is not seen; {_NO_BESIDE}"
    if any(tensor.is_sparse or tensor.is_sparse_csr for tensor in tensors):
        return "a sparse tensor, whose size is not known: torch.empty(...) may stand for its indices and values"
    if any(map(is_lazy, modules)):
        return "lazy layers, which have no sizes yet: let it call each module once"
    return ""


def _holds_nothing(leaf: Any) -> bool:
    """Tell whether something holds no tensors: numbers, words, functions and classes."""
    return isinstance(leaf, (int, float, str, NoneType, type)) or isroutine(leaf)


def _function(place: str, cure: str) -> Callable[..., Any]:
    """Return the function of MODULE:FUNCTION; what it raises becomes a message, with this cure."""
    found = _factory(place)
    if not callable(found):
        raise click.ClickException(f"{place} is no function, but a {type(found).__name__}; {cure}")

    def call(*given: Any) -> Any:
        try:
            return found(*given)
        except (Exception, SystemExit) as error:
            raise _failed(place, error, cure) from error

    return call


def _failed(place: str, error: BaseException, cure: str = _NO_MODEL) -> click.ClickException:
    """Say in one line what went wrong in the user's own code, and where."""
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((frame for frame in reversed(frames) if not frame.filename.startswith(_ELSEWHERE)), frames[-1])
    # A syntax error names its file and line itself.
    where = "" if frame.filename.startswith(("<", __file__)) else f" ({Path(frame.filename).name}, line {frame.lineno})"
    said = "".join(str(error).strip().splitlines()[:1])[:_MOST]
    if _WANTS_GPU.search(said):
        cure = _NO_GPU
    return click.ClickException(f"{place} failed with {type(error).__name__}: {said}{where}; {cure}")


def size_of(text: str | None) -> tuple[int, ...] | None:
    """One sample's size as `--input-size` says it."""
    try:
        return None if text is None else read(text)
    except InputSizeError as error:
        raise click.UsageError(f"--input-size: {error}".replace("input_size=", "--input-size ")) from None
