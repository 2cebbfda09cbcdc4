"""The options that several commands share, each group gathered into one value."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.api.options import RunOptions
from assay.cli.narration import Narrator

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

FORMATS = ("table", "json", "jsonl", "csv", "md")


@dataclass(frozen=True)
class Output:
    """Where the data goes and in which form."""

    format: str
    output: Path | None
    force: bool
    color: str
    save: Path | None = None
    """Where the document goes, in commands that have one."""


def _complete_path(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def _json_object(ctx: click.Context, param: click.Parameter, value: str | None) -> dict[str, Any] | None:
    if value is None:
        return None
    try:
        parsed = json.loads(value)
    except ValueError as error:
        raise click.BadParameter(f"this is no JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise click.BadParameter('a JSON object is wanted, as in {"layers": 2}')
    return parsed


def _set_narrator(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    setattr(ctx.ensure_object(Narrator), str(param.name), value)


def _gathered(kind: type[Any], name: str, options: Sequence[Callable[[Any], Any]], names: Sequence[str]) -> Decorator:
    """A decorator that adds `options` to a command and passes the values of `names` as one `kind` called `name`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **values: Any) -> Any:
            values[name] = kind(**{each: values.pop(each) for each in names})
            return function(*args, **values)

        return reduce(lambda decorated, option: option(decorated), reversed(options), call)

    return decorate


model_argument = click.argument("model", metavar="MODEL", shell_complete=_complete_path)
optional_model_argument = click.argument("model", metavar="[MODEL]", required=False, shell_complete=_complete_path)

run_options = _gathered(
    RunOptions,
    "options",
    [
        click.option(
            "--inputs",
            "--inputs-path",
            "inputs",
            metavar="WHERE",
            shell_complete=_complete_path,
            help="file.py::function that returns the inputs, or a literal; inferred where left out.",
        ),
        click.option(
            "--model-args",
            metavar="JSON",
            callback=_json_object,
            help="Keyword arguments for the model's function.",
        ),
        click.option("--device", metavar="NAME", help="Device to run on."),
        click.option("--dtype", metavar="NAME", help="Floating point type to run in."),
        click.option("--real", "mode", default="auto", flag_value="real", help="Run with real weights."),
        click.option(
            "--meta", "mode", flag_value="meta", help="Run on shapes alone, without memory for the weights."
        ),
        click.option("--fake", "mode", flag_value="fake", help="Run on fake tensors that keep their device."),
        click.option("--train", is_flag=True, help="Run in training mode."),
        click.option("--trust", is_flag=True, help="Allow code from the file to run."),
    ],
    ("model_args", "device", "dtype", "mode", "train", "trust"),
)
"""How a model is opened and run: a command gets `inputs`, and the rest as `options`."""

_TARGET = [
    click.option("--format", type=click.Choice(FORMATS), default="table", show_default=True, help="Output format."),
    click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file instead of stdout."),
]
_SAVE = click.option("--save", type=click.Path(path_type=Path), help="Save the document too, as *.assay.json or .gz.")
_MANNER = [
    click.option("--force", is_flag=True, help="Overwrite files that exist."),
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        help="When to color; auto heeds NO_COLOR.",
    ),
]
_OUTPUT = ("format", "output", "force", "color")
result_options = _gathered(Output, "output", [*_TARGET, *_MANNER], _OUTPUT)
"""For commands without a document to save."""
output_options = _gathered(Output, "output", [*_TARGET, _SAVE, *_MANNER], (*_OUTPUT, "save"))


def narration_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how much is told, and the narrator as the first argument."""
    quiet = click.option(
        "-q",
        "--quiet",
        is_flag=True,
        callback=_set_narrator,
        expose_value=False,
        is_eager=True,
        help="Tell errors only.",
    )
    verbose = click.option(
        "-v",
        "--verbose",
        count=True,
        callback=_set_narrator,
        expose_value=False,
        is_eager=True,
        help="Tell more; -vv shows tracebacks.",
    )
    return quiet(verbose(click.pass_obj(function)))
