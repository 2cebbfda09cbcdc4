"""Statistics of parameters as a column: loaded in a thread for the rows on screen, one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from textual.worker import get_current_worker

from assay.document.roles import PARAMETER
from assay.errors import AssayError
from assay.views.tui.columns import DeferredTexts
from assay.views.tui.sheet import Sheet
from assay.views.tui.subject import ExploredModel
from assay.views.tui.treetable import TreeTable

COMPONENT = "statistics"


def load_statistics(subject: ExploredModel, table: TreeTable) -> None:
    """Load missing statistics of the rows on screen if the column is visible; a load in progress is cancelled."""
    column = table.sheet.column(COMPONENT)
    if column is None or not isinstance(column.values, DeferredTexts) or column not in table.tab.columns:
        return
    missing = [row for row in table.on_screen() if row not in column.values.loaded]
    if missing:
        work = partial(_work, subject, table, column.values, missing)
        table.run_worker(work, group=COMPONENT, thread=True, exclusive=True, exit_on_error=False)


def _work(subject: ExploredModel, table: TreeTable, values: DeferredTexts, rows: Sequence[int]) -> None:
    worker = get_current_worker()
    for row in rows:
        if worker.is_cancelled:
            return
        texts = [_statistics(subject, *each) for each in _tensors(subject, table.sheet, row)]
        values.loaded[row] = "  ".join(filter(None, texts)) or None
        table.app.call_from_thread(table.refresh)


def _tensors(subject: ExploredModel, sheet: Sheet, row: int) -> list[tuple[str, str]]:
    """The module paths and local names of a row's own parameters."""
    at = int(sheet.modules[row])
    if sheet.index.run[row]:
        return []
    if (tensor := sheet.tensor(row)) is not None:
        return [tensor]
    if at < 0 or subject.tensors_in_tree:
        return []
    module, tensors = subject.document.modules[at], subject.document.tensors
    return [(module.path, name) for name, each in module.tensors.items() if tensors[each].role == PARAMETER]


def _statistics(subject: ExploredModel, path: str, name: str) -> str | None:
    """Mean and standard deviation of a tensor: `weight 0.001 ± 0.04`."""
    try:
        detail = subject.inspector.tensor(path, name)
    except AssayError:
        return None
    return None if detail.mean is None or detail.std is None else f"{name} {detail.mean:.2g} ± {detail.std:.2g}"
