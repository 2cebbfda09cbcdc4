"""`assay modules` and `assay ops`: the unique modules and the unique ops of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from assay.api.options import RunOptions
from assay.cli.options import OptionGroups, Output, model_argument, output_options, run_options, verbosity_options
from assay.cli.output import emit
from assay.cli.stderr import Messages
from assay.messages import plural

if TYPE_CHECKING:
    from assay.document.document import Document
    from assay.views.json.files import ModulesFile, OpsFile
    from assay.views.tables import Table


@click.command(cls=OptionGroups)
@model_argument
@run_options
@output_options
@verbosity_options
def modules(messages: Messages, model: str, inputs: str | None, options: RunOptions, output: Output) -> int:
    """List the unique modules of MODEL and how often each occurs.

    Modules are equal if their class, configuration, call signatures, own tensors and submodules are equal. A row
    shows how many modules are equal (`modules`; `count` in CSV, the length of `occurrences` in JSON), and the calls
    and FLOPs of the first of them in one pass.

    The JSON output has the format of unique_modules.json.
    """
    from assay.cli.observed import document_of, exit_code, need_pass
    from assay.views.json.files import modules_file
    from assay.views.text.uniques import module_table

    document = document_of(messages, model, inputs, options, output)
    if not document.modules:
        need_pass(document)
    file = modules_file(document)
    _show(output, document, file, file.modules, module_table)
    counts = file.metadata
    messages.note(f"{plural(counts.total_modules, 'module')}, {counts.unique_modules:,} unique")
    return exit_code(messages, document)


@click.command(cls=OptionGroups)
@model_argument
@run_options
@output_options
@verbosity_options
def ops(messages: Messages, model: str, inputs: str | None, options: RunOptions, output: Output) -> int:
    """List the unique ops of MODEL and how often each occurs.

    Ops are equal if their name, attributes and tensor types are equal. `count` is how often an op is executed in one
    pass, over all calls of all modules. The JSON output has the format of pytorch_ops.json.
    """
    from assay.cli.observed import document_of, exit_code, need_pass
    from assay.views.json.files import ops_file
    from assay.views.partial import marked_total
    from assay.views.text.uniques import op_table

    document = document_of(messages, model, inputs, options, output)
    need_pass(document)
    file = ops_file(document)
    _show(output, document, file, file.ops, op_table)
    counts = file.metadata
    ops = marked_total(plural(counts.total_ops, "op"), partial=file.partial)
    messages.note(f"{ops}, {counts.unique_ops:,} unique")
    return exit_code(messages, document)


def _show(
    output: Output,
    document: Document,
    file: ModulesFile | OpsFile,
    rows: list[Any],
    table: Callable[[list[Any]], Table],
) -> None:
    from assay.views.json.files import encode, encode_lines
    from assay.views.text.partial_report import marked

    encoders = {"json": lambda: encode(file), "jsonl": lambda: encode_lines(rows, partial=file.partial)}
    emit(output, lambda: marked(table(rows), document), encoders, partial=file.partial)
