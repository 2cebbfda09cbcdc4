"""Options shared by several commands; each group reaches the command as one value."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.api.options import RunOptions
from assay.cli.stderr import Messages

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

FORMATS = ("table", "json", "jsonl", "csv", "md")


@dataclass(frozen=True)
class Output:
    """Where the data is written and in which format."""

    format: str = "table"
    output: Path | None = None
    force: bool = False
    color: str = "auto"
    save: Path | None = None
    """The path to save the document to, for commands that produce one."""
    columns: str | None = None
    sort: str | None = None
    top: int | None = None
    width: int | None = None
    wide: bool = False


class OptionGroups(click.Command):
    """A command whose `--help` lists options under the heading of their class, `Options` by default."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(parameter, "heading", "Options"), []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


class MeasurementOption(click.Option):
    """An option that controls what `profile` and `analyze` measure."""

    heading = "Measurement options"


class TrialOption(click.Option):
    """An option of `assay check` about trying and applying changes."""

    heading = "Trial options"


class TeamOption(click.Option):
    """An option for checks that a team runs repeatedly."""

    heading = "Team options"


class _ModelOption(click.Option):
    heading = "Model options"


class _OutputOption(click.Option):
    heading = "Output options"


_model_option = partial(click.option, cls=_ModelOption)
_output_option = partial(click.option, cls=_OutputOption)


def sort_key(
    keys: Sequence[str], headings: Mapping[str, str]
) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """A callback for a key to sort by, given by its name or by the heading of its column, in any spelling."""
    known = {**{key: key for key in keys}, **headings}

    def chosen(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        from assay.views.choosing import spelled, unknown_column

        by_spelling = {spelled(name): key for name, key in known.items()}
        if value is not None and spelled(value) not in by_spelling:
            raise click.BadParameter(unknown_column(value, known))
        return None if value is None else by_spelling[spelled(value)]

    return chosen


def _complete_path(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def _json_object(ctx: click.Context, param: click.Parameter, value: str | None) -> dict[str, Any] | None:
    if value is None:
        return None
    try:
        parsed = json.loads(value)
    except ValueError as error:
        raise click.BadParameter(f"not valid JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise click.BadParameter(f'expected a JSON object such as {{"layers": 2}}, got {value}')
    return parsed


def _set_verbosity(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    setattr(ctx.ensure_object(Messages), str(param.name), value)
    if param.name == "quiet" and value:
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def options_as_value(
    kind: type[Any], name: str, options: Sequence[Callable[[Any], Any]], names: Sequence[str]
) -> Decorator:
    """A decorator that adds `options` to a command and passes the values of `names` as one `kind` called `name`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **values: Any) -> Any:
            values[name] = kind(**{key: values.pop(key) for key in names})
            return function(*args, **values)

        return reduce(lambda decorated, option: option(decorated), reversed(options), call)

    return decorate


def _mode_option(flag: str, **settings: Any) -> Decorator:
    """One of the flags that set the mode of the pass; without any, it is `auto`."""
    # In click 8.1, a default of "auto" would select the value of the flag.
    return _model_option(flag, "mode", callback=lambda ctx, param, value: value or "auto", **settings)


model_argument = click.argument("model", metavar="MODEL", shell_complete=_complete_path)
optional_model_argument = click.argument("model", metavar="[MODEL]", required=False, shell_complete=_complete_path)

run_options = options_as_value(
    RunOptions,
    "options",
    [
        _model_option(
            "--inputs",
            "--inputs-path",
            "inputs",
            metavar="INPUTS",
            shell_complete=_complete_path,
            help="Inputs: a literal such as 1x3x224x224:float32, or file.py::function that returns them. "
            "Inferred by default.",
        ),
        _model_option(
            "--model-args",
            metavar="JSON",
            callback=_json_object,
            help="Keyword arguments for the function or class that builds the model: '{\"layers\": 2}'.",
        ),
        _model_option("--device", metavar="NAME", help="Device to run on: cpu, cuda, cuda:1, mps, …"),
        _model_option("--dtype", metavar="NAME", help="Floating-point type to run in: float32, bfloat16, …"),
        _mode_option("--real", flag_value="real", help="Run with real weights and data."),
        _mode_option("--meta", flag_value="meta", help="Run on meta tensors: shapes only, no memory for weights."),
        _mode_option("--fake", flag_value="fake", help="Run on fake tensors: shapes only, devices are kept."),
        _model_option("--train", is_flag=True, help="Run in training mode instead of evaluation mode."),
        _model_option("--as-is", is_flag=True, help="Run every module in the mode it is in."),
        _model_option("--trust", is_flag=True, help="Allow code stored in the file to run."),
    ],
    ("model_args", "device", "dtype", "mode", "train", "as_is", "trust"),
)
"""Options for opening and running a model: `inputs` is passed separately, the rest as one `options` value."""


def as_typed(model: str, inputs: str | None, options: RunOptions) -> str:
    """The model with its options as they are typed in a shell: `net.py::load --inputs 1x3x8x8 --train`."""
    values = {
        "--inputs": inputs,
        "--model-args": None if options.model_args is None else json.dumps(options.model_args),
        "--device": options.device,
        "--dtype": options.dtype,
    }
    flags = {f"--{options.mode}": options.mode != "auto", "--train": options.train, "--as-is": options.as_is,
             "--trust": options.trust}  # fmt: skip
    words = [word for option, value in values.items() if value is not None for word in (option, value)]
    return shlex.join([model, *words, *(flag for flag, given in flags.items() if given)])


def _format_options(*formats: str) -> list[Decorator]:
    choices = click.Choice(formats)
    return [
        _output_option("--format", type=choices, default="table", show_default=True, help="Output format."),
        _output_option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file instead of stdout."),
    ]


_SAVE_OPTION = _output_option(
    "--save",
    type=click.Path(path_type=Path),
    help="Also save the document, as *.assay.json or *.assay.json.gz.",
)
_FORCE_OPTION = _output_option("--force", is_flag=True, help="Overwrite existing files.")
_COLOR_OPTION = _output_option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Use colour; auto: in a terminal or with FORCE_COLOR, but never with NO_COLOR or TERM=dumb.",
)
_TABLE_OPTIONS = {
    "columns": _output_option("--columns", metavar="LIST", help="Columns to show, by name: a,b,c, or all."),
    "sort": _output_option("--sort", metavar="COLUMN", help="Sort by this column, the largest first."),
    "top": _output_option("--top", type=click.IntRange(min=1), metavar="N", help="Show the first N rows."),
    "width": _output_option(
        "--width",
        type=click.IntRange(min=20),
        metavar="N",
        help="Fit tables to N columns; the default is the terminal's width, or COLUMNS or 120 in a pipe or file.",
    ),
    "wide": _output_option("--wide", is_flag=True, help="Do not limit the width of tables."),
}
"""Options for what tables show, alike in all commands."""
_OUTPUT_NAMES = ("format", "output", "force", "color")


def result_options_with(*formats: str, save: bool = False, own: Sequence[str] = ()) -> Decorator:
    """Output options with more formats than others; `own` names table options that the command defines itself."""
    shared = [name for name in _TABLE_OPTIONS if name not in own]
    options = [
        *_format_options(*FORMATS, *formats),
        *([_SAVE_OPTION] if save else []),
        *(_TABLE_OPTIONS[name] for name in shared),
        _FORCE_OPTION,
        _COLOR_OPTION,
    ]
    return options_as_value(Output, "output", options, (*_OUTPUT_NAMES, *shared, *(["save"] if save else [])))


display_options = options_as_value(
    Output, "output", [*_TABLE_OPTIONS.values(), _COLOR_OPTION], (*_TABLE_OPTIONS, "color")
)
"""Output options for a command that prints a report and writes files of its own."""
result_options = result_options_with()
"""Output options for commands without a document to save."""


def output_options_with(*formats: str, own: Sequence[str] = ()) -> Decorator:
    """Output options for a command with a document to save."""
    return result_options_with(*formats, save=True, own=own)


output_options = output_options_with()


def verbosity_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `-q` and `-v` to a command, pass its `Messages` as the first argument, and show progress while it runs."""

    @wraps(function)
    def with_line(messages: Messages, *args: Any, **values: Any) -> Any:
        with messages.line:  # from the first moment on: the imports of a command may take seconds
            return function(messages, *args, **values)

    quiet = click.option(
        "-q",
        "--quiet",
        is_flag=True,
        callback=_set_verbosity,
        expose_value=False,
        is_eager=True,
        help="Print errors only.",
    )
    verbose = click.option(
        "-v",
        "--verbose",
        count=True,
        callback=_set_verbosity,
        expose_value=False,
        is_eager=True,
        help="Verbose output; -vv also prints tracebacks.",
    )
    return quiet(verbose(click.pass_obj(with_line)))
