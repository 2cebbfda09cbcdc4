"""Statistics of parameters as a label: looked up for the rows on screen, one at a time, in a thread."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from textual.worker import get_current_worker

from assay.analysis.parameters import PARAMETER
from assay.errors import AssayError
from assay.views.tui.columns import DeferredTexts
from assay.views.tui.sheet import Sheet
from assay.views.tui.subject import ExploredModel
from assay.views.tui.treetable import TreeTable

COMPONENT = "statistics"


class Gatherer:
    """Fills the label of statistics where it is on show."""

    def __init__(self, subject: ExploredModel) -> None:
        self._subject = subject

    def gather(self, table: TreeTable) -> None:
        """Look up what the rows on screen lack; what was under way is cancelled."""
        column = table.sheet.column(COMPONENT)
        if column is None or not isinstance(column.values, DeferredTexts) or column not in table.tab.columns:
            return
        missing = [row for row in table.on_screen() if row not in column.values.found]
        if missing:
            work = partial(self._work, table, column.values, missing)
            table.run_worker(work, group=COMPONENT, thread=True, exclusive=True, exit_on_error=False)

    def _work(self, table: TreeTable, values: DeferredTexts, rows: Sequence[int]) -> None:
        worker = get_current_worker()
        for row in rows:
            if worker.is_cancelled:
                return
            values.found[row] = self._text(table.sheet, row)
            table.app.call_from_thread(table.refresh)

    def _text(self, sheet: Sheet, row: int) -> str | None:
        """Mean and deviation of each parameter of a row's own; None where it has none."""
        if sheet.index.run[row]:
            return None
        texts = [self._one(*each) for each in self._tensors(sheet, row)]
        return "  ".join(filter(None, texts)) or None

    def _tensors(self, sheet: Sheet, row: int) -> list[tuple[str, str]]:
        tensor = sheet.tensor(row)
        if tensor is not None:
            return [tensor]
        at = int(sheet.modules[row])
        if at < 0 or self._subject.tensors_in_tree:
            return []
        document = self._subject.document
        module = document.modules[at]
        return [(module.path, name) for name, each in module.tensors.items()
                if document.tensors[each].role == PARAMETER]  # fmt: skip

    def _one(self, path: str, name: str) -> str | None:
        try:
            found = self._subject.inspector.tensor(path, name)
        except AssayError:
            return None
        if found.mean is None or found.std is None:
            return None
        return f"{name} {found.mean:.2g} ± {found.std:.2g}"
