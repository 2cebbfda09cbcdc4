"""The tab of unique modules: classes, the unique modules of each class, and their paths."""

from __future__ import annotations

from math import prod
from typing import Any

from assay import units
from assay.analysis.parameters import sum_if_all_known
from assay.analysis.uniques import unique_modules
from assay.analysis.uniques.canonical import canonical
from assay.analysis.uniques.entries import UniqueModule
from assay.document.tree import path_text
from assay.messages import plural
from assay.views.tui.sheet import Sheet
from assay.views.tui.sheets.grouping import Groups, grouped
from assay.views.tui.subject import ExploredModel

EMPTY = "No modules: the file contains only tensors, which have no classes."


def unique_sheet(subject: ExploredModel) -> Sheet:
    """The paths of all modules of `subject`, grouped by class and unique module."""
    document = subject.document
    indices = {path_text(module.path): at for at, module in enumerate(document.modules)}
    classes: dict[str, list[UniqueModule]] = {}
    entries = [entry for entry in unique_modules(document).entries if entry.class_name]
    for entry in entries:
        classes.setdefault(entry.class_name, []).append(entry)
    groups = Groups()
    for name, members in classes.items():
        both = {"count": sum(len(entry.occurrences) for entry in members), "kinds": len(members)}
        top = groups.add(name, kind=name, module=indices[members[0].occurrences[0]], values=both)
        for entry in members:
            here = groups.add(entry.id, top, kind=name, module=indices[entry.occurrences[0]], values=_values(entry))
            for path in entry.occurrences:
                groups.add(path, here, kind=name, module=indices[path])
    columns = [
        groups.number("count", "count", "number of modules", units.exact),
        groups.number("kinds", "unique", "number of unique modules of the class", units.exact, name="kinds"),
        groups.number("calls", "calls", "calls of the first module", units.exact, on=False),
        groups.number("params", "own params", "parameters of the first module without submodules", units.count),
        groups.number("flops", "FLOPs", "FLOPs of the first module", units.count, on=bool(document.ops)),
        groups.text("inputs", "inputs", "input shapes", italic=True, on=bool(document.calls), widest=24),
        groups.text("outputs", "outputs", "output shapes", on=bool(document.calls), widest=24),
        groups.text("settings", "configuration", "constructor arguments", widest=60, name="settings"),
    ]
    about = f"{plural(len(classes), 'class')} · {len(entries):,} unique of {plural(len(document.modules), 'module')}"
    return grouped(
        groups,
        id="unique",
        noun="class",
        columns=columns,
        depth=1,
        about=about if classes else "",
        empty=EMPTY,
        biggest="count",
    )


def _values(entry: UniqueModule) -> dict[str, Any]:
    sizes = [_elements(tensor.shape) for tensor in entry.tensors.values() if tensor.role == "parameter"]
    return {
        "count": len(entry.occurrences),
        "calls": entry.calls if entry.called else None,
        "params": sum_if_all_known(sizes),
        "flops": entry.cost.flops if entry.cost else None,
        "inputs": _joined(entry.input_shapes),
        "outputs": _joined(entry.output_shapes),
        "settings": " ".join(f"{name}={canonical(value).decode()}" for name, value in entry.parameters.items())
        or None,
    }


def _elements(shape: str) -> int | None:
    """The number of elements of a shape given as text: `_elements("3x4") == 12`."""
    if shape == units.shape(()):
        return 1
    count = prod(map(int, shape.split("x")))
    return count if count >= 0 else None


def _joined(shapes: list[str]) -> str | None:
    return ", ".join(shape.replace("x", "×") for shape in shapes) or None
