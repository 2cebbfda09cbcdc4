"""The `assay` command: a static registry of commands, each imported when it is called, and the exit codes.

`assay --help` reads this table alone, so a new command is one line here and one file beside it.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import click

from assay.cli.narration import Narrator
from assay.errors import INTERNAL, INTERRUPTED, OK, AssayError, UserCodeError, WriteError
from assay.version import __version__

COMMANDS = {
    "analyze": ("assay.cli.analyze:analyze", "Everything about a model in one command, as deep as asked."),
    "modules": (
        "assay.cli.uniques:modules",
        "Unique modules of a model: what it is built of, and how often.",
    ),
    "ops": ("assay.cli.uniques:ops", "Unique operations of a model, with their attributes and tensor types."),
    "memory": ("assay.cli.memory:memory", "What a model needs in memory, when most, and where it fits."),
    "cost": ("assay.cli.cost:cost", "What a model costs: parameters, FLOPs, bytes, and where they go."),
    "explore": ("assay.cli.explore:explore", "A model, document or checkpoint in the terminal, by keys and mouse."),
    "summary": ("assay.cli.summary:summary", "The module tree with shapes, parameters, FLOPs and memory."),
    "profile": ("assay.cli.profile:profile", "How long a model takes, where, and what holds it back."),
    "check": ("assay.cli.check:check", "What to know or do about a model or checkpoint, with the evidence."),
    "trace": ("assay.cli.trace:trace", "What Chrome traces say about layers; passes, ranks and two sides compared."),
    "params": ("assay.cli.params:params", "Exact statistics of every tensor in a checkpoint; none of its code runs."),
    "extract": (
        "assay.cli.extract:extract",
        "Write unique_modules.json and pytorch_ops.json into a directory.",
    ),
    "run": ("assay.cli.run:run", "Run a program and write a trace of every pass of its decorated models."),
    "machine": ("assay.cli.machine:machine", "What this machine can do: measured ceilings, memory, sensors."),
    "env": ("assay.cli.env:env", "Versions and hardware, as a block to paste into a bug report."),
    "schema": ("assay.cli.schema:schema", "JSON Schemas of the files that Assay writes."),
    "completion": ("assay.cli.completion:completion", "Shell completion for bash, zsh or fish."),
}
"""Name, where the command is, and its line in the help."""

MODEL = (
    "MODEL is file.py::function, package.module:name, a folder with config.json, a checkpoint (file, folder or URL), "
    "TorchScript or a pickled module (--trust runs their code), a .pt2 file or a saved document."
)
"""What every command takes; said once, below the options of each."""
PROGRAM = "assay"
COMPLETION_VARIABLE = "_ASSAY_COMPLETE"


class _LazyGroup(click.Group):
    """A group that imports a command when it is called, not when it is listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name][0].split(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        if any(parameter.name == "model" for parameter in command.params):
            command.epilog = MODEL
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=_LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def assay(ctx: click.Context) -> None:
    """What a PyTorch model is, what it costs, how it behaves and what to do about it.

    Data goes to stdout, narration to stderr. Exit codes: 0 ok, 1 found what was asked to fail on,
    2 usage, 3 could not be read or written, 4 partial result written, 70 internal error, 130 interrupted.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with its exit code."""
    if COMPLETION_VARIABLE in os.environ:
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(assay, {}, PROGRAM, COMPLETION_VARIABLE, os.environ[COMPLETION_VARIABLE]))
    # Collections while torch is imported and the walk over everything at exit cost half a second for nothing.
    gc.set_threshold(100_000, 50, 1000)
    if sys.stdout is None:  # closed by the caller, who wants no data; an open file must not get its number
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    code = run(sys.argv[1:] if arguments is None else arguments)
    gc.freeze()
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """The exit code of `assay` with `arguments`; every failure is told in one line."""
    narrator = Narrator()
    try:
        return _invoke(arguments, narrator)
    except (KeyboardInterrupt, click.Abort):
        narrator.warn("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        return OK
    except click.ClickException as error:
        narrator.fail(_usage(error), error)
        return error.exit_code
    except AssayError as error:
        narrator.fail(str(error), error, error.frames if isinstance(error, UserCodeError) else "")
        return error.exit_code
    except OSError as error:
        narrator.fail(f"{error.filename or 'output'}: {error.strerror or error}", error)
        return WriteError.exit_code
    except Exception as error:  # noqa: BLE001  a defect of ours is one line too, and says how to report it
        narrator.fail_internally(error)
        return INTERNAL


def _invoke(arguments: Sequence[str], narrator: Narrator) -> int:
    try:
        with assay.make_context(PROGRAM, list(arguments), obj=narrator) as context:
            code = assay.invoke(context)
    except click.exceptions.Exit as done:
        code = done.exit_code
    return code if isinstance(code, int) else OK


def _usage(error: click.ClickException) -> str:
    """The error with the place to look it up."""
    context = getattr(error, "ctx", None)
    message = error.format_message().rstrip(".")
    return f"{message} (see {context.command_path} --help)" if context else message
