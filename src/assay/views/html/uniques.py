"""Unique modules and ops for the page, as `assay modules` and `assay ops` list them."""

from __future__ import annotations

from assay.views.html.convert import block_of
from assay.views.html.page import AnyBlock, PageView
from assay.views.html.subject import Subject
from assay.views.json.files import modules_file, ops_file
from assay.views.text.uniques import module_table, op_table


def uniques_view(subject: Subject) -> PageView:
    """The distinct modules and ops, as `assay modules` and `assay ops` list them."""
    document = subject.document
    if not document.modules:
        return PageView(
            "unique", "Unique", [], f"No modules are known: run `assay analyze {subject.model}` on code or a config."
        )
    modules = modules_file(document)
    blocks: list[AnyBlock] = [
        block_of(
            module_table(modules.modules),
            "unique-modules",
            _title("modules", len(modules.modules), len(document.modules)),
            {"first path": "module"},
        )
    ]
    if document.ops:
        ops = ops_file(document)
        blocks.append(block_of(op_table(ops.ops), "unique-ops", _title("ops", len(ops.ops), len(document.ops)), {}))
    return PageView("unique", "Unique", blocks)


def _title(what: str, unique: int, whole: int) -> str:
    return f"{unique:,} unique {what} of {whole:,}"
