"""Exporting the view: the visible rows and columns as text, JSON or CSV, or the screen as SVG."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from assay import atomic, units
from assay.errors import WriteError
from assay.views import tables
from assay.views.layout import as_text
from assay.views.tui.columns import SheetColumn
from assay.views.tui.sheet import NAME
from assay.views.tui.treetable import Tab

FORMS = {"txt": "text", "json": "JSON (raw values)", "csv": "CSV (raw values)", "svg": "SVG (screenshot)"}
"""File suffixes of the export formats, and their descriptions."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
MAX_FILES = 1000


class ExportScreen(ModalScreen[str | None]):
    """A dialog that asks for the format; its result is a key of `FORMS`, or None if cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q", "dismiss(None)", "Close")]

    DEFAULT_CSS = """
    ExportScreen { align: center middle; }
    ExportScreen > OptionList {
        width: 44; max-width: 100%; height: auto; border: round $primary; background: $surface;
    }
    """

    def compose(self) -> ComposeResult:
        formats = OptionList(*(Option(f"{name}   {text}", id=name) for name, text in FORMS.items()), markup=False)
        formats.border_title = "Export the view as"
        yield formats

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Close the dialog with the selected format."""
        self.dismiss(event.option.id)


def write(tab: Tab, form: str, model: str, screenshot: Callable[[], str], folder: Path | None = None) -> Path:
    """Write the view to a new file in `folder` (default: the current one) and return its path."""
    data = screenshot() if form == "svg" else render(tab, form)
    stem = "-".join(filter(None, ("assay", _UNSAFE.sub("-", model).strip("-.")[:40], tab.sheet.id)))
    path = _unused_path(folder or Path.cwd(), stem, form)
    atomic.write_bytes(path, data.encode(), overwrite=False)
    return path


def render(tab: Tab, form: str) -> str:
    """The visible rows and columns as text in the format `form` (`txt`, `csv` or `json`)."""
    return _RENDERERS[form](tab)


def _json(tab: Tab) -> str:
    columns = [column for column in tab.columns if column.id != NAME]
    rows = [
        {"path": tab.sheet.path(row), "depth": int(tab.sheet.index.depth[row])}
        | {column.id: column.values[row] for column in columns}
        for row in map(int, tab.rows.shown)
    ]
    content = {"tab": tab.sheet.id, "about": tab.sheet.about, "rows": rows}
    return msgspec.json.format(msgspec.json.encode(content), indent=1).decode() + "\n"


_RENDERERS: dict[str, Callable[[Tab], str]] = {
    "txt": lambda tab: as_text(_table(tab, indented=True)),
    "csv": lambda tab: tables.as_csv(_table(tab, indented=False)),
    "json": _json,
}


def _table(tab: Tab, *, indented: bool) -> tables.Table:
    """The visible rows; the names of a tree are indented, or full paths unless `indented`."""
    sheet, rows = tab.sheet, tab.rows
    others = [column for column in tab.columns if column.id != NAME]

    def name(row: int) -> str:
        if rows.flat or not indented:
            return sheet.path(row)
        return "  " * int(sheet.index.depth[row]) + sheet.label(row)

    columns = [tables.Column("path" if rows.flat or not indented else "name", name)]
    columns += [
        tables.Column(
            each.title, each.values.__getitem__, "right" if each.right else "left", _formatter(each), name=each.name
        )
        for each in others
    ]
    return tables.Table(columns, [int(row) for row in rows.shown])


def _formatter(column: SheetColumn) -> Callable[[Any], str]:
    return lambda value: units.UNKNOWN if value is None else column.show(value)


def _unused_path(folder: Path, stem: str, suffix: str) -> Path:
    """The first path of the form `stem-N.suffix` that does not exist yet."""
    for number in range(MAX_FILES):
        path = folder / (f"{stem}-{number}.{suffix}" if number else f"{stem}.{suffix}")
        if not path.exists():
            return path
    raise WriteError(f"cannot write {folder / stem}.{suffix}: {MAX_FILES} such files exist; delete some of them")
