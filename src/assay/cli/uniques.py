"""`assay modules` and `assay ops`: the unique modules and operations of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from assay import units
from assay.api.options import RunOptions
from assay.cli.narration import Narrator
from assay.cli.options import Output, model_argument, narration_options, output_options, run_options
from assay.cli.output import emit

if TYPE_CHECKING:
    from assay.views.json.files import ModulesFile, OpsFile
    from assay.views.tables import Table


@click.command()
@model_argument
@run_options
@output_options
@narration_options
def modules(narrator: Narrator, model: str, inputs: str | None, options: RunOptions, output: Output) -> int:
    """Unique modules of MODEL: equal in class, call signatures, configuration, own tensors and submodules.

    JSON is the form of unique_modules.json.
    """
    from assay.cli.observed import document_of, exit_code
    from assay.views.json.files import modules_file
    from assay.views.text.uniques import module_table

    document = document_of(narrator, model, inputs, options, output)
    file = modules_file(document)
    _show(output, file, file.modules, module_table)
    counts = file.metadata
    narrator.note(f"{units.exact(counts.total_modules)} modules, {units.exact(counts.unique_modules)} unique")
    return exit_code(narrator, document)


@click.command()
@model_argument
@run_options
@output_options
@narration_options
def ops(narrator: Narrator, model: str, inputs: str | None, options: RunOptions, output: Output) -> int:
    """Unique operations of MODEL: equal in operation, attributes and tensor types.

    JSON is the form of pytorch_ops.json.
    """
    from assay.cli.observed import document_of, exit_code
    from assay.views.json.files import ops_file
    from assay.views.text.uniques import op_table

    document = document_of(narrator, model, inputs, options, output)
    file = ops_file(document)
    _show(output, file, file.ops, op_table)
    counts = file.metadata
    narrator.note(f"{units.exact(counts.total_ops)} ops, {units.exact(counts.unique_ops)} unique")
    return exit_code(narrator, document)


def _show(output: Output, file: ModulesFile | OpsFile, rows: list[Any], table: Callable[[list[Any]], Table]) -> None:
    from assay.views.json.files import encode, encode_lines

    emit(output, lambda: table(rows), {"json": lambda: encode(file), "jsonl": lambda: encode_lines(rows)})
