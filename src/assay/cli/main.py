"""The `assay` command: a static table of commands, imported on demand, and the exit codes.

`assay --help` needs only this table: a new command is one line here and one file in this package.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

import click

from assay.cli.stderr import Messages
from assay.errors import INTERNAL, INTERRUPTED, OK, AssayError, ReadError, UserCodeError, WriteError
from assay.version import __version__
from assay.views.plain import plain
from assay.views.terminal import is_utf8

COMMANDS = {
    "analyze": ("assay.cli.analyze:analyze", "Full report on a model; --inference and --profile measure it."),
    "summary": ("assay.cli.summary:summary", "Module tree with shapes, parameters, FLOPs and memory."),
    "cost": ("assay.cli.cost:cost", "Parameters, FLOPs and bytes moved, by op, module or class."),
    "memory": ("assay.cli.memory:memory", "Peak memory, when it occurs, and which devices it fits on."),
    "profile": ("assay.cli.profile:profile", "Time and energy per module and op, with bottlenecks."),
    "check": ("assay.cli.check:check", "Problems and suggestions for a model or checkpoint."),
    "rule": ("assay.cli.rule:rule", "Explain a rule of `assay check`: why, example, fix, when to ignore."),
    "report": ("assay.cli.report:report", "One offline web page on a document or model; also Markdown, text, JSON."),
    "serve": ("assay.cli.serve:serve", "Show reports in a browser; they reload when their documents change."),
    "explore": ("assay.cli.explore:explore", "Browse a model, document or checkpoint in the terminal."),
    "modules": ("assay.cli.uniques:modules", "Unique modules of a model and how often each occurs."),
    "ops": ("assay.cli.uniques:ops", "Unique ops of a model with their attributes and tensor types."),
    "extract": ("assay.cli.extract:extract", "Write unique_modules.json and pytorch_ops.json to a directory."),
    "params": ("assay.cli.params:params", "Exact statistics of every tensor in a checkpoint; runs no code."),
    "run": ("assay.cli.run:run", "Run a program and trace the forward passes of decorated models."),
    "trace": ("assay.cli.trace:trace", "Time per layer in Chrome traces; compares passes and ranks."),
    "machine": ("assay.cli.machine:machine", "Measured limits of this machine, and its sensors."),
    "env": ("assay.cli.env:env", "Versions and hardware, to paste into a bug report."),
    "schema": ("assay.cli.schema:schema", "JSON Schemas of the files that Assay writes."),
    "completion": ("assay.cli.completion:completion", "Shell completion for bash, zsh or fish."),
}
"""For each command name: its import path and its line in `assay --help`."""

MODEL = """\b
MODEL is one of:
  file.py::function    a function or class that builds the model
  package.module:name  the same, imported from a package
  directory            with config.json, or a checkpoint
  file or URL          checkpoint, TorchScript or .pt2 file, saved document;
                       a pickled module needs --trust
"""
"""Shown below the options of every command that takes MODEL."""
EXIT_CODES = """\b
Exit codes:
  0    success
  1    findings as severe as --fail-on, a budget exceeded, or an op without a
       formula (--strict)
  2    wrong usage
  3    a file could not be read or written
  4    incomplete result
  70   internal error
  130  interrupted
"""
PROGRAM = "assay"
COMPLETION_VARIABLE = "_ASSAY_COMPLETE"


class _HelpText(click.HelpFormatter):
    """Help pages in the characters that stdout can display."""

    def getvalue(self) -> str:
        text = super().getvalue()
        return text if is_utf8(sys.stdout) else plain(text)


class _Context(click.Context):
    formatter_class = _HelpText


class _LazyGroup(click.Group):
    """A group that imports a command only when it is called, not to list it."""

    context_class = _Context

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name][0].split(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        command.context_class = _Context
        if any(parameter.name == "model" for parameter in command.params):
            command.epilog = MODEL
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=_LazyGroup,
    invoke_without_command=True,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def assay(ctx: click.Context) -> None:
    """Analyse PyTorch models: structure, cost, memory, speed, weights, and how to improve them.

    Results go to stdout, messages to stderr. `assay COMMAND --help` describes a command.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with its exit code."""
    if COMPLETION_VARIABLE in os.environ:
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(assay, {}, PROGRAM, COMPLETION_VARIABLE, os.environ[COMPLETION_VARIABLE]))
    # Garbage collection while torch is imported and at exit costs half a second and frees nothing.
    gc.set_threshold(100_000, 50, 1000)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller: no file that is opened later may get its descriptor
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] != ["run"]:  # which runs the user's program, with its own warnings
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    code = run(given)
    gc.freeze()
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run `assay` with `arguments` and return its exit code; every failure is reported in one line."""
    messages = Messages()
    try:
        return _invoke(arguments, messages)
    except (KeyboardInterrupt, click.Abort):
        messages.warn("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        return OK
    except click.ClickException as error:
        messages.fail(_usage_message(error), error)
        return error.exit_code
    except AssayError as error:
        messages.fail(str(error), error, error.frames if isinstance(error, UserCodeError) else "")
        return error.exit_code
    except OSError as error:
        messages.fail(f"{error.filename or 'output'}: {error.strerror or error}", error)
        return WriteError.exit_code
    except Exception as error:  # noqa: BLE001  a bug in Assay is reported in one line too
        if _was_interrupted(error):
            messages.warn("interrupted")
            return INTERRUPTED
        return _fail_unexpectedly(error, messages)


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind `error`: a package that is being imported may replace the exception by its own."""
    cause = error and (error.__cause__ or error.__context__)
    return isinstance(error, KeyboardInterrupt) or (cause is not None and _was_interrupted(cause))


def _fail_unexpectedly(error: Exception, messages: Messages) -> int:
    """The exit code after a line about a missing optional package, a device without memory, or a bug in Assay."""
    from assay.messages import error_line
    from assay.sources.needs import EXTRAS, required_message

    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        messages.fail(required_message(error.name, error), error)
        return ReadError.exit_code
    if type(error).__name__ == "OutOfMemoryError":  # of torch, which is not imported here
        messages.fail(f"{error_line(error)}; give smaller --inputs, or run on shapes with --meta", error)
        return ReadError.exit_code
    messages.fail_internally(error)
    return INTERNAL


def _invoke(arguments: Sequence[str], messages: Messages) -> int:
    try:
        with assay.make_context(PROGRAM, list(arguments), obj=messages) as context:
            code = assay.invoke(context)
    except click.exceptions.Exit as done:
        code = done.exit_code
    return code if isinstance(code, int) else OK


def _number_name(match: re.Match[str]) -> str:
    return "not an integer" if match[1] == "integer" else "not a number"


def _usage_message(error: click.ClickException) -> str:
    """Click's message in our style (lower case, no full stop), with the help page to read."""
    context = getattr(error, "ctx", None)
    message = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    message = re.sub(r"for '\[(\w+)\]'", r"for '\1'", message)  # an optional argument
    message = re.sub(r"not a valid (float|integer)( range)?$", _number_name, message)
    return f"{message} (see {context.command_path} --help)" if context else message
