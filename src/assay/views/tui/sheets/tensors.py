"""Tensors as rows: the parameters tab by family, and the name tree of a checkpoint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from assay import units
from assay.analysis.combined_statistics import statistics_by_name
from assay.analysis.name_ranges import family_names
from assay.analysis.parameters import elements, tensor_totals
from assay.document.document import Document
from assay.document.roles import PARAMETER
from assay.document.rows import Tensor
from assay.document.tree import ROOT, reading_order
from assay.document.weights import TensorStatistics
from assay.messages import plural
from assay.views.tables import percent
from assay.views.tui import index as indexing
from assay.views.tui.columns import DeferredTexts, SheetColumn
from assay.views.tui.sheet import Sheet, first_open
from assay.views.tui.sheets.grouping import Groups, grouped
from assay.views.tui.sheets.placing import FoldedTree, shares
from assay.views.tui.sheets.shapes import devices, dims
from assay.views.tui.subject import ExploredModel

MISSING, UNREAD, STORED = "missing", "not read", "yes"
EMPTY = "No parameters or buffers."
FIGURES = ("min", "max", "mean", "std")
NOT_FINITE = {"nan": "NaN", "inf": "infinite"}
"""Columns that are shown if there are such values."""
_UNKNOWN = {"trains": None}
"""What a checkpoint does not record about a tensor."""


def parameters_sheet(subject: ExploredModel) -> Sheet:
    """All parameters and buffers, grouped if their names differ only in numbers."""
    document = subject.document
    statistics = statistics_by_name(document)
    families: dict[tuple[str, str], list[int]] = {}
    for at, (tensor, name) in enumerate(zip(document.tensors, _families(document.tensors), strict=True)):
        families.setdefault((name, tensor.role), []).append(at)
    groups, in_files = Groups(), _in_files(document)
    tensors: list[int] = []
    for (name, _), members in families.items():
        top = -1
        if len(members) > 1:
            family = _family([document.tensors[at] for at in members])
            family["stored"] = _special([in_files.get(document.tensors[at].names[0]) for at in members])
            family |= _sums([statistics.get(document.tensors[at].names[0]) for at in members])
            if subject.tensors_in_tree:
                family |= _UNKNOWN
            top = groups.add(f"{name} ×{len(members)}", kind=name, values=family)
            tensors.append(-1)
        for at in members:
            values = _values(document.tensors[at], subject.devices[at] if at < len(subject.devices) else None)
            values |= _figures(document.tensors[at].names[0], statistics)
            values["stored"] = in_files.get(document.tensors[at].names[0])
            if subject.tensors_in_tree:
                values |= _UNKNOWN
            groups.add(document.tensors[at].names[0], top, kind=name, values=values)
            tensors.append(at)
    holders = _holders(document)
    groups.modules = [holders.get(at, ("", -1))[1] for at in tensors]
    own = {at: (document.modules[module].path, local) for at, (local, module) in holders.items()}
    shown = [own.get(at) for at in tensors] + _add_extra(groups, document, statistics)
    sheet = grouped(
        groups,
        id="parameters",
        noun="tensor",
        columns=_columns(
            groups, document, with_statistics=bool(statistics), in_files=bool(set(in_files.values()) - {STORED})
        ),
        depth=0,
        about=_about(document),
        empty=EMPTY,
        biggest="count",
    )
    return replace(sheet, tensor=shown.__getitem__)


def _families(tensors: Sequence[Tensor]) -> list[str]:
    """The family of each tensor."""
    return family_names([each.names[0] for each in tensors], [each.type for each in tensors])


def _in_files(document: Document) -> dict[str, str]:
    """Whether each tensor is in the files, and what is special about it: its shape, name or copies there."""
    fit = document.weights_fit
    if fit is None or document.weights is None:
        return {}
    names = {
        name: stored[0] if len(stored) == 1 else f"{len(stored)} parts" for name, stored in fit.stored_as.items()
    }
    return {
        **{name: STORED for row in document.weights.tensors for name in row.names},
        **names,
        **{names[0]: "copies differ" for names in fit.untied},
        **{each.name: dims(each.stored) for each in fit.conflicts},
        **dict.fromkeys(fit.missing, MISSING),
        **dict.fromkeys(fit.unread, UNREAD),
    }


def _special(texts: Sequence[str | None]) -> str | None:
    """How many tensors of a family are missing in the files or were not read, else how many differ there."""
    for text in (MISSING, UNREAD):
        if text in texts:
            return f"{texts.count(text)} {text}"
    differ = sum(text not in (None, STORED) for text in texts)
    return f"{differ} differ" if differ else STORED if STORED in texts else None


def _add_extra(
    groups: Groups, document: Document, statistics: dict[str, TensorStatistics]
) -> list[tuple[str, str] | None]:
    """Add the stored tensors that the model lacks, in a group; the path and local name of each new row's tensor."""
    extra = frozenset(document.weights_fit.extra) if document.weights_fit is not None else frozenset()
    rows = [row for row in document.weights.tensors if row.names[0] in extra] if document.weights is not None else []
    if not rows:
        return []
    sums = {"count": sum(row.count for row in rows), "bytes": sum(row.bytes for row in rows)}
    top = groups.add(f"not in the model ×{len(rows)}", values=sums)
    families = family_names([row.names[0] for row in rows], [(row.dtype, row.shape) for row in rows])
    for row, family in zip(rows, families, strict=True):
        figures = _figures(row.names[0], statistics)
        values = {"shape": dims(row.shape), "dtype": row.dtype, "count": row.count, "bytes": row.bytes, **figures}
        groups.add(row.names[0], top, kind=family, values={**values, "stored": "extra"})
    groups.modules += [-1] * (len(rows) + 1)
    places = (row.names[0].rpartition(".") for row in rows)
    return [None, *((above, local) for above, _, local in places)]


def tensor_tree_sheet(subject: ExploredModel) -> Sheet:
    """The tree of a checkpoint's names, with tensors as leaves and runs of equal layers folded."""
    document = subject.document
    tree, leaves = _name_tree(document)
    stored = [document.tensors[at] if at >= 0 else None for at in leaves]
    counts = tree.sums([elements(each.type) if each else 0 for each in stored])
    sizes = tree.sums([each.bytes if each else 0 for each in stored])
    statistics = statistics_by_name(document)
    lines = tree.texts([_line(each, statistics) for each in stored]) if statistics else DeferredTexts(len(tree.index))
    shapes = [dims(each.type.shape) if each else None for each in stored]
    dtypes = [[each.type.dtype] if each else [] for each in stored]
    columns = [
        SheetColumn("shape", "shape", tree.texts(shapes), "shape of the tensor", widest=22),
        SheetColumn("dtype", "dtype", tree.sets(dtypes, ", ".join), "dtypes in the subtree", widest=20),
        SheetColumn(
            "params",
            "elements",
            counts,
            "elements in the subtree, tied tensors counted once",
            units.count,
            right=True,
        ),
        SheetColumn("params_share", "%", shares(counts, counts[0]), "share of all elements", percent, right=True),
        SheetColumn("memory", "memory", sizes, "bytes in the subtree", units.size, right=True),
        SheetColumn(
            "statistics",
            "statistics",
            lines,
            "NaN and infinite values; min … max, mean ± std",
            on=bool(statistics),
            cells=44,
        ),
    ]
    names = tree.paths
    modules = {module.path: at for at, module in enumerate(document.modules)}
    holders = [path if leaf < 0 else path.rpartition(".")[0] for path, leaf in zip(names, leaves, strict=True)]
    module_ids = [modules.get(path, -1) for path in holders]

    def tensor(row: int) -> tuple[str, str] | None:
        origin = int(tree.index.origin[row])
        if leaves[origin] < 0:
            return None
        above, _, local = names[origin].rpartition(".")
        return above, local

    return Sheet(
        id="tree",
        remembered_as="tensors",
        index=tree.index,
        columns=columns,
        modules=np.asarray(module_ids, dtype=np.int64)[tree.index.origin],
        path=tree.path,
        paths=names,
        kinds=tree.texts(family_names(names, [each.type if each else None for each in stored])),
        opened=first_open(tree.index),
        about=_about(document),
        empty=EMPTY,
        biggest="params",
        tensor=tensor,
    )


def _about(document: Document) -> str:
    sums = tensor_totals(document.tensors)
    tied = sum(len(each.names) > 1 for each in document.tensors)
    parts = [
        plural(len(document.tensors), "tensor"),
        f"{units.count(sums.elements)} elements",
        units.size(sums.bytes),
    ]
    return " · ".join([*parts, *([f"{tied:,} tied, counted once"] if tied else [])])


def _short(value: float | None) -> str:
    return units.UNKNOWN if value is None else f"{value:.3g}"


def _line(tensor: Tensor | None, statistics: dict[str, TensorStatistics]) -> str | None:
    """The values of a tensor as short text: `2 NaN; −0.2 … 0.31, 0.001 ± 0.04`."""
    row = statistics.get(tensor.names[0]) if tensor else None
    if row is None:
        return None
    counts = (f"{count:,} {title}" for each, title in NOT_FINITE.items() if (count := getattr(row, each)))
    values = f"{_short(row.min)} … {_short(row.max)}, {_short(row.mean)} ± {_short(row.std)}"
    return "; ".join([*counts, values])


def _name_tree(document: Document) -> tuple[FoldedTree, list[int]]:
    """The tree of all name parts in natural order, and the tensor index of each unfolded row (-1 if none)."""
    named = sorted(
        ((name, at) for at, tensor in enumerate(document.tensors) for name in tensor.names[:1]), key=_order
    )
    rows: dict[str, int] = {"": 0}
    parents, leaves = [-1], [-1]
    for name, at in named:
        above, start = 0, 0
        while (dot := name.find(".", start)) >= 0:
            prefix, start = name[:dot], dot + 1
            if prefix not in rows:
                rows[prefix] = len(parents)
                parents.append(above)
                leaves.append(-1)
            above = rows[prefix]
        rows[name] = len(parents)
        parents.append(above)
        leaves.append(at)
    ordered = reading_order(parents)
    where = {old: new for new, old in enumerate(ordered)}
    paths = [""] * len(parents)
    for path, old in rows.items():
        paths[where[old]] = path
    leaves = [leaves[old] for old in ordered]
    bare = indexing.build([where.get(parents[old], -1) for old in ordered],
                          [path.rpartition(".")[2] or ROOT for path in paths])  # fmt: skip
    seen: dict[object, int] = {}
    keys = [seen.setdefault(None if at < 0 else document.tensors[at].type, len(seen)) for at in leaves]
    index = indexing.fold_runs(bare, np.asarray(keys, dtype=np.int64))
    return FoldedTree(document, index, index.origin, np.zeros(len(index), np.bool_), paths), leaves


_DIGITS = re.compile(r"(\d+)")


def _order(named: tuple[str, int]) -> list[tuple[int, int | str]]:
    """A sort key for natural order: layer 2 before layer 10."""
    parts = _DIGITS.split(named[0])
    return [(0, int(part)) if at % 2 else (1, part) for at, part in enumerate(parts)]


def _holders(document: Document) -> dict[int, tuple[str, int]]:
    """For each tensor its local name and the first module that contains it."""
    holders: dict[int, tuple[str, int]] = {}
    for index, module in enumerate(document.modules):
        for local, at in module.tensors.items():
            holders.setdefault(at, (local, index))
    return holders


def _family(members: Sequence[Tensor]) -> dict[str, Any]:
    shapes = {dims(each.type.shape) for each in members}
    dtypes = {each.type.dtype for each in members}
    sums = tensor_totals(members)
    return {
        "role": members[0].role or None,
        "shape": shapes.pop() if len(shapes) == 1 else f"{len(shapes)} shapes",
        "dtype": dtypes.pop() if len(dtypes) == 1 else f"{len(dtypes)} dtypes",
        "count": sums.elements,
        "bytes": sums.bytes,
    }


def _values(tensor: Tensor, device: str | None) -> dict[str, Any]:
    return {
        "role": tensor.role or None,
        "shape": dims(tensor.type.shape),
        "dtype": tensor.type.dtype,
        "count": elements(tensor.type),
        "bytes": tensor.bytes,
        "device": None if device is None else devices([device]),
        "trains": "yes" if tensor.requires_grad else "no",
        "tied": f"= {', '.join(tensor.names[1:])}" if len(tensor.names) > 1 else None,
    }


def _figures(name: str, statistics: dict[str, TensorStatistics]) -> dict[str, Any]:
    row = statistics.get(name)
    return {} if row is None else {each: getattr(row, each) for each in (*NOT_FINITE, *FIGURES)}


def _sums(rows: Sequence[TensorStatistics | None]) -> dict[str, int]:
    """How many values of a family are NaN and infinite; nothing if the values of none were read."""
    return {
        each: sum(known)
        for each in NOT_FINITE
        if (known := [n for row in rows if (n := getattr(row, each, None)) is not None])
    }


def _columns(groups: Groups, document: Document, *, with_statistics: bool, in_files: bool) -> list[SheetColumn]:
    count = groups.figures("count")
    known = any(each.role for each in document.tensors)
    whole = sum(elements(each.type) or 0 for each in document.tensors if each.role == PARAMETER or not known)
    noun = "parameters" if known else "elements"
    tied = any(len(each.names) > 1 for each in document.tensors)
    return [
        groups.text("role", "role", "parameter or buffer; empty if the file does not state it", widest=10),
        groups.text("shape", "shape", "shape of the tensor", widest=22),
        groups.text("dtype", "dtype", "dtype of the elements", widest=14),
        SheetColumn("count", "elements", count, "number of elements", units.count, right=True),
        SheetColumn("share", "%", shares(count, whole), f"share of all {noun}", percent, right=True),
        groups.number("bytes", "memory", "bytes of the elements", units.size),
        groups.text("device", "device", "device of the tensor", on=False, widest=16),
        groups.text("trains", "trainable", "whether it requires a gradient", on=False),
        groups.text("tied", "tied", "other names of the tensor", on=tied, widest=40),
        groups.text(
            "stored", "in files", "yes, missing, not read, another shape or name, or extra", on=in_files, widest=40
        ),
        *(
            groups.number(
                each,
                title,
                f"values that are {title}",
                units.exact,
                on=any(values.get(each) for values in groups.values),
            )
            for each, title in NOT_FINITE.items()
        ),
        *(
            groups.number(each, each, f"{each} of the finite values", units.ratio, on=with_statistics)
            for each in FIGURES
        ),
    ]
