"""The tab of unique modules: classes, the different modules of each, and where these stand."""

from __future__ import annotations

from typing import Any

from assay import units
from assay.analysis.parameters import known_sum
from assay.analysis.uniques import unique_modules
from assay.analysis.uniques.canonical import canonical
from assay.analysis.uniques.entries import UniqueModule
from assay.document.tree import shown
from assay.views.tui.columns import SheetColumn
from assay.views.tui.sheet import Sheet
from assay.views.tui.sheets.grouping import Groups, grouped
from assay.views.tui.subject import ExploredModel

EMPTY = "No modules: this is a list of tensors, which have no classes."


def unique_sheet(subject: ExploredModel) -> Sheet:
    """Every module of `subject` under its equals, these under their class."""
    document = subject.document
    places = {shown(module.path): at for at, module in enumerate(document.modules)}
    classes: dict[str, list[UniqueModule]] = {}
    entries = [entry for entry in unique_modules(document).entries if entry.class_name]
    for entry in entries:
        classes.setdefault(entry.class_name, []).append(entry)
    groups = Groups()
    for name, members in classes.items():
        top = groups.add(name, kind=name, module=places[members[0].occurrences[0]], values=_class_values(members))
        for entry in members:
            here = groups.add(entry.id, top, kind=name, module=places[entry.occurrences[0]], values=_values(entry))
            for path in entry.occurrences:
                groups.add(path, here, kind=name, module=places[path])
    columns = [
        SheetColumn("count", "count", groups.figures("count"), "how many there are", units.exact, right=True),
        SheetColumn("kinds", "kinds", groups.figures("kinds"), "different modules of the class", units.exact,
                    right=True),
        SheetColumn("calls", "calls", groups.figures("calls"), "calls of the first", units.exact, right=True,
                    on=False),
        SheetColumn("params", "own params", groups.figures("params"), "parameters of the first, its own", units.count,
                    right=True),
        SheetColumn("flops", "FLOPs", groups.figures("flops"), "work of the first", units.count, right=True,
                    on=bool(document.ops)),
        SheetColumn("inputs", "inputs", groups.texts("inputs"), "shapes that went in", italic=True,
                    on=bool(document.calls), widest=24),
        SheetColumn("outputs", "outputs", groups.texts("outputs"), "shapes that came out", on=bool(document.calls),
                    widest=24),
        SheetColumn("settings", "settings", groups.texts("settings"), "constructor-level settings", widest=60),
    ]  # fmt: skip
    return grouped(
        groups,
        id="unique",
        title="Unique",
        noun="class",
        columns=columns,
        depth=1,
        about=_about(len(classes), len(entries), len(document.modules)),
        empty=EMPTY,
        biggest="count",
    )


def _about(classes: int, entries: int, modules: int) -> str:
    return f"{classes:,} classes · {entries:,} unique modules of {modules:,}" if classes else ""


def _class_values(members: list[UniqueModule]) -> dict[str, Any]:
    return {"count": sum(len(entry.occurrences) for entry in members), "kinds": len(members)}


def _values(entry: UniqueModule) -> dict[str, Any]:
    sizes = [_elements(tensor.shape) for tensor in entry.tensors.values() if tensor.role == "parameter"]
    return {
        "count": len(entry.occurrences),
        "calls": entry.calls if entry.called else None,
        "params": known_sum(sizes),
        "flops": entry.cost.flops if entry.cost else None,
        "inputs": _joined(entry.input_shapes),
        "outputs": _joined(entry.output_shapes),
        "settings": " ".join(f"{name}={canonical(value).decode()}" for name, value in entry.parameters.items())
        or None,
    }


def _elements(shape: str) -> int | None:
    """The elements of a written shape: `_elements("3x4") == 12`."""
    if shape == units.shape(()):
        return 1
    count = 1
    for size in shape.split("x"):
        count *= int(size)
    return count if count >= 0 else None


def _joined(shapes: list[str]) -> str | None:
    return ", ".join(shape.replace("x", "×") for shape in shapes) or None
