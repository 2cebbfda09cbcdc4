"""Modules and tensors of a comparison as lines of tables, with those of repeated blocks in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from assay import units
from assay.analysis.comparison import ComparedModule, ComparedTensor, ModuleChange, TensorChange
from assay.analysis.comparison.rows import ADDED, CHANGED, MOVED, REMOVED, SAME
from assay.analysis.name_ranges import FoldedName, fold_names, fold_rows
from assay.analysis.parameters import sum_if_all_known
from assay.document.tree import path_text

SYMBOLS = {ADDED: "+", REMOVED: "−", CHANGED: "~", MOVED: "→", SAME: "="}
"""The signs of the states."""
ARROW = "→"

Ends = tuple[float | None, float | None]
"""A value before and after; None if it is unknown or there was none."""


@dataclass(frozen=True)
class ModuleLine:
    """One module, or the same module of repeated blocks with its values added up."""

    state: str
    name: str
    """The path after the change; before it, if the module was removed."""
    class_name: str
    changes: tuple[str, ...]
    earlier: tuple[str, ...]
    """The paths before the change, if they were others."""
    parameters: Ends
    flops: Ends
    time_s: Ends
    time_verdict: str

    @property
    def words(self) -> str:
        """What changed: `was encoder.act; class is GELU, not SiLU`."""
        return "; ".join((*earlier_words(self.earlier), *self.changes))


@dataclass(frozen=True)
class TensorLine:
    """One tensor, or the same tensor of repeated blocks."""

    state: str
    name: str
    changes: tuple[str, ...]
    earlier: tuple[str, ...]
    before: tuple[ComparedTensor, ...]
    after: tuple[ComparedTensor, ...]

    @property
    def words(self) -> str:
        """What changed: `was encoder.weight; other values`."""
        return "; ".join((*earlier_words(self.earlier), *self.changes))

    @property
    def type_text(self) -> str:
        """The shape and dtype: `64x32 float32`."""
        shown = (self.after or self.before)[0]
        return f"{units.shape(shown.shape)} {shown.dtype}"

    @property
    def bytes(self) -> Ends:
        """The bytes before and after."""
        one, two = (sum(each.bytes for each in some) if some else None for some in (self.before, self.after))
        return one, two

    def statistic(self, name: str) -> str | None:
        """A statistic before and after, as a range for several tensors; None if it is unknown on a side."""
        known = [_span([getattr(each, name) for each in some]) for some in (self.before, self.after) if some]
        texts = list(dict.fromkeys(text for text in known if text is not None))
        return f" {ARROW} ".join(texts) if None not in known else None


def module_lines(rows: Iterable[ModuleChange], *, folded: bool) -> list[ModuleLine]:
    """A line per row; if `folded`, those that differ only in the numbers of their blocks share one."""
    lines = [_module_line(row) for row in rows]
    if not folded:
        return lines

    def key(line: ModuleLine) -> object:
        return line.state, line.class_name, line.changes, bool(line.earlier), line.time_verdict

    return fold_rows(lines, lambda line: line.name, key, _merged_modules)


def tensor_lines(rows: Iterable[TensorChange], *, folded: bool) -> list[TensorLine]:
    """A line per row; if `folded`, those that differ only in the numbers of their blocks share one."""
    lines = [_tensor_line(row) for row in rows]
    if not folded:
        return lines

    def key(line: TensorLine) -> object:
        return line.state, line.changes, bool(line.earlier), line.type_text

    return fold_rows(lines, lambda line: line.name, key, _merged_tensors)


def earlier_words(paths: Sequence[str]) -> tuple[str, ...]:
    """`was layers.0–31.attn`; nothing without paths."""
    if not paths:
        return ()
    first, *others = fold_names(paths, whole=True)
    return (f"was {first.counted}" + (f" and {len(others)} more" if others else ""),)


def ends_text(state: str, ends: Ends, show: Callable[[float | None], str]) -> str:
    """`1.2 k → 2.4 k`; one value if it is the same, and for what was added or removed."""
    one, two = ends
    if state == REMOVED or one == two:
        return show(one)
    return show(two) if state == ADDED else f"{show(one)} {ARROW} {show(two)}"


def _module_line(row: ModuleChange) -> ModuleLine:
    shown, before, after = row.shown, row.before, row.after
    was = path_text(before.path) if before is not None and after is not None and before.path != after.path else None

    def ends(read: Callable[[ComparedModule], float | None]) -> Ends:
        one, two = (None if each is None else read(each) for each in (before, after))
        return one, two

    return ModuleLine(
        state=row.state,
        name=path_text(shown.path),
        class_name=shown.class_name,
        changes=row.changes,
        earlier=() if was is None else (was,),
        parameters=ends(lambda module: module.parameters),
        flops=ends(lambda module: module.flops),
        time_s=ends(lambda module: module.time_s),
        time_verdict=row.time_verdict,
    )


def _merged_modules(folded: FoldedName, lines: Sequence[ModuleLine]) -> ModuleLine:
    return replace(
        lines[0],
        name=folded.counted,
        earlier=tuple(path for line in lines for path in line.earlier),
        parameters=_added_up(line.parameters for line in lines),
        flops=_added_up(line.flops for line in lines),
        time_s=_added_up(line.time_s for line in lines),
    )


def _tensor_line(row: TensorChange) -> TensorLine:
    before, after = row.before, row.after
    was = before is not None and after is not None and not set(before.names) & set(after.names)
    return TensorLine(
        state=row.state,
        name=row.shown.names[0],
        changes=row.changes,
        earlier=before.names[:1] if was and before is not None else (),
        before=() if before is None else (before,),
        after=() if after is None else (after,),
    )


def _merged_tensors(folded: FoldedName, lines: Sequence[TensorLine]) -> TensorLine:
    return replace(
        lines[0],
        name=folded.counted,
        earlier=tuple(path for line in lines for path in line.earlier),
        before=tuple(each for line in lines for each in line.before),
        after=tuple(each for line in lines for each in line.after),
    )


def _added_up(pairs: Iterable[Ends]) -> Ends:
    befores, afters = zip(*pairs, strict=True)
    return sum_if_all_known(befores), sum_if_all_known(afters)


def _span(values: Sequence[float | None]) -> str | None:
    """One number, or the smallest and the largest; None if there is none or one is unknown."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    low, high = (f"{value:.3g}" for value in (min(known), max(known)))
    return low if low == high else f"{low} to {high}"
