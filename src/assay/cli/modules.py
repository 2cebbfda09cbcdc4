"""`assay modules`: the unique modules of a model."""

from __future__ import annotations

import click

from assay.cli.narration import Narrator
from assay.cli.options import Output, Watch, model_argument, narration_options, output_options, watch_options


@click.command()
@model_argument
@watch_options
@output_options
@narration_options
def modules(narrator: Narrator, model: str, watch: Watch, output: Output) -> int:
    """Unique modules of MODEL: equal in class, call signatures, configuration, own tensors and submodules.

    MODEL is file.py::function, package.module:name, a directory with config.json, a .pt2 file or a saved document.
    JSON is the form of
    unique_modules.json.
    """
    from assay import units
    from assay.cli.observed import exit_code, watched
    from assay.cli.output import emit
    from assay.views.json.files import encode, encode_lines, modules_file
    from assay.views.text.uniques import module_table

    document = watched(narrator, model, watch, output)
    file = modules_file(document)
    emit(
        output,
        lambda: module_table(file.modules),
        {"json": lambda: encode(file), "jsonl": lambda: encode_lines(file.modules)},
    )
    told = file.metadata
    narrator.note(f"{units.exact(told.total_modules)} modules, {units.exact(told.unique_modules)} unique")
    return exit_code(narrator, document)
