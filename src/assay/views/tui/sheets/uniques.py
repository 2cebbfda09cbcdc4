"""The tab of unique modules: classes, the different modules of each, and where these stand."""

from __future__ import annotations

from math import prod
from typing import Any

from assay import units
from assay.analysis.parameters import known_sum
from assay.analysis.uniques import unique_modules
from assay.analysis.uniques.canonical import canonical
from assay.analysis.uniques.entries import UniqueModule
from assay.document.tree import shown
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
        both = {"count": sum(len(entry.occurrences) for entry in members), "kinds": len(members)}
        top = groups.add(name, kind=name, module=places[members[0].occurrences[0]], values=both)
        for entry in members:
            here = groups.add(entry.id, top, kind=name, module=places[entry.occurrences[0]], values=_values(entry))
            for path in entry.occurrences:
                groups.add(path, here, kind=name, module=places[path])
    columns = [
        groups.number("count", "count", "how many there are", units.exact),
        groups.number("kinds", "kinds", "different modules of the class", units.exact),
        groups.number("calls", "calls", "calls of the first", units.exact, on=False),
        groups.number("params", "own params", "parameters of the first, its own", units.count),
        groups.number("flops", "FLOPs", "work of the first", units.count, on=bool(document.ops)),
        groups.text("inputs", "inputs", "shapes that went in", italic=True, on=bool(document.calls), widest=24),
        groups.text("outputs", "outputs", "shapes that came out", on=bool(document.calls), widest=24),
        groups.text("settings", "settings", "constructor-level settings", widest=60),
    ]
    about = f"{len(classes):,} classes · {len(entries):,} unique modules of {len(document.modules):,}"
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
    count = prod(map(int, shape.split("x")))
    return count if count >= 0 else None


def _joined(shapes: list[str]) -> str | None:
    return ", ".join(shape.replace("x", "×") for shape in shapes) or None
