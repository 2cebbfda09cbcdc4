"""A comparison of two documents as tables: conditions, totals, modules, tensors, ops and findings that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from assay import units
from assay.analysis.comparison import (
    ComparedDocument,
    Comparison,
    ConditionChange,
    FindingChange,
    ModuleChange,
    OpChange,
    TotalChange,
)
from assay.analysis.comparison.rows import (
    ADDED,
    CHANGED,
    GONE,
    MOVED,
    NEW,
    REMOVED,
    SAME,
    STATES,
    STILL_THERE,
)
from assay.analysis.comparison.verdicts import EQUAL, LESS, MORE
from assay.messages import plural
from assay.views.tables import Column, Table
from assay.views.text.comparison_lines import (
    ARROW,
    SYMBOLS,
    Ends,
    ModuleLine,
    TensorLine,
    ends_text,
    module_lines,
    tensor_lines,
)
from assay.views.text.facts import facts_table, notes_table
from assay.views.text.figures import method_name, range_text
from assay.views.text.findings import severity_name
from assay.views.text.report import Parts, Report, section

_COLOURS = {ADDED: "32", NEW: "32", REMOVED: "31", GONE: "31", CHANGED: "33", MOVED: "36"}
_SIGNS = {**SYMBOLS, NEW: "+", GONE: "−", STILL_THERE: "="}
_SHOW: Mapping[str, Callable[[float | None], str]] = {
    "count": units.count,
    "bytes": units.size,
    "seconds": units.seconds,
    "joules": units.joules,
}
_TIME_VERDICTS = {LESS: "faster", MORE: "slower"}


def comparison_report(comparison: Comparison, *, full: bool = False) -> Report:
    """What differs between two documents; conditions first, because they make figures incomparable.

    Args:
        comparison: The comparison.
        full: Also show what is the same, and give every module and tensor a row of its own.
    """
    parts: Parts = ["COMPARISON", facts_table(_documents(comparison))]
    if comparison.identical:
        parts.append(notes_table(["no differences"]))
    parts += [
        *section("DIFFERENT CONDITIONS: some figures cannot be compared", conditions_table(comparison)),
        *section("TOTALS", totals_table(comparison)),
        *section(_title("MODULES", comparison.modules) + _covered(comparison), modules_table(comparison, full=full)),
        *section("MODULES THAT BECAME FASTER OR SLOWER", times_table(comparison, full=full)),
        *section(_title("TENSORS", comparison.tensors), tensors_table(comparison, full=full)),
        *section(_title("OPS", comparison.ops), ops_table(comparison, full=full)),
        *section(_title("FINDINGS", comparison.findings), findings_table(comparison, full=full)),
    ]
    return Report(parts, module_data(comparison))


def conditions_table(comparison: Comparison) -> Table:
    """The conditions that differ."""
    return Table(_CONDITIONS, comparison.conditions)


def totals_table(comparison: Comparison) -> Table:
    """The figures of the whole model that are known on either side, equal ones included."""
    known = [row for row in comparison.totals if row.before.value is not None or row.after.value is not None]
    return Table(_TOTALS, known).without_empty()


def modules_table(comparison: Comparison, *, full: bool = False) -> Table:
    """The modules that differ, without those inside an added, removed or moved one; all if `full`."""
    rows = [row for row in comparison.modules if full or (row.state != SAME and not row.covered)]
    return Table(_MODULES, module_lines(rows, folded=not full))


def times_table(comparison: Comparison, *, full: bool = False) -> Table:
    """The modules that are the same but took another time, beyond the ranges of the measurements."""
    rows = [row for row in comparison.modules if row.state in (SAME, MOVED) and row.time_verdict in _TIME_VERDICTS]
    lines = module_lines(rows, folded=not full)
    return Table(_TIMES, sorted(lines, key=lambda line: -abs(_difference(line.time_s) or 0.0)))


def tensors_table(comparison: Comparison, *, full: bool = False) -> Table:
    """The tensors that differ, without those of added, removed and moved modules; all if `full`."""
    rows = [row for row in comparison.tensors if full or (row.state != SAME and not row.covered)]
    return Table(_TENSORS, tensor_lines(rows, folded=not full)).without_empty()


def ops_table(comparison: Comparison, *, full: bool = False) -> Table:
    """The ops that ran more or less often; all if `full`."""
    return Table(_OPS, [row for row in comparison.ops if full or row.state != SAME])


def findings_table(comparison: Comparison, *, full: bool = False) -> Table:
    """The findings that are new or gone; all if `full`."""
    return Table(_FINDINGS, [row for row in comparison.findings if full or row.state != STILL_THERE])


def module_data(comparison: Comparison) -> Table:
    """All modules with their values, one row each, for CSV and JSON."""
    return Table(_DATA, comparison.modules)


def _documents(comparison: Comparison) -> list[tuple[str, str]]:
    return [("before", _document_text(comparison.before)), ("after", _document_text(comparison.after))]


def _document_text(document: ComparedDocument) -> str:
    parts = (document.name, document.location, document.timestamp)
    return " · ".join(part for part in dict.fromkeys(parts) if part) or units.UNKNOWN


def _title(name: str, rows: Iterable[Any]) -> str:
    """`MODULES: 2 added, 1 changed, 48 same`."""
    counts = Counter(row.state for row in rows)
    order = (*STATES[:-1], NEW, GONE, STILL_THERE, SAME)
    texts = [f"{counts[state]} {'the same' if state == SAME else state}" for state in order if counts[state]]
    return f"{name}: {', '.join(texts)}"


def _covered(comparison: Comparison) -> str:
    """What is not listed, because the row of a module around it covers it."""
    count = sum(1 for row in comparison.modules if row.covered)
    return f"; {plural(count, 'module')} inside these not listed" if count else ""


def _sign() -> Column[Any]:
    return Column(
        "",
        lambda row: row.state,
        show=lambda state: _SIGNS[state],
        paint=lambda row: "" if isinstance(row, Mapping) else _COLOURS.get(row.state, ""),
        name="state",
    )


def _ends(title: str, read: Callable[[Any], Ends], show: Callable[[float | None], str]) -> Column[Any]:
    """A column of a value before and after."""
    return Column(title, lambda line: ends_text(line.state, read(line), show), "right", drops=True)


def _difference(ends: Ends) -> float | None:
    one, two = ends
    return None if one is None or two is None else two - one


def _signed(value: float | None, show: Callable[[float | None], str]) -> str:
    """A difference with its sign: `+1.2 MiB`; a dash if it is unknown."""
    if value is None or not value:
        return show(value)
    return f"{'+' if value > 0 else '−'}{show(abs(value))}"


def _relative(ratio: float | None) -> str:
    """`+12.5 %`, or `×12.3` from a factor of ten on; a dash if it is unknown."""
    if ratio is None:
        return units.UNKNOWN
    if ratio >= 10:
        return f"×{units.ratio(ratio)}"
    return _signed(ratio - 1, lambda share: units.share(share, 1))


def _verdict_text(row: TotalChange) -> str:
    """The verdict in words; a shorter time is `faster`."""
    return _TIME_VERDICTS.get(row.verdict, row.verdict) if row.unit == "seconds" else row.verdict


def _unless_equal(row: TotalChange, text: str) -> str:
    """The text of a difference; nothing if the values are equal."""
    return "" if row.verdict == EQUAL else text


def _ranges(row: TotalChange) -> str | None:
    """The ranges of measured values: `124 ms to 135 ms → 118 ms to 121 ms`; None if there are none."""
    texts = [range_text(figure, _SHOW[row.unit]) for figure in (row.before, row.after)]
    return None if set(texts) == {units.UNKNOWN} else f" {ARROW} ".join(dict.fromkeys(texts))


def _or_nothing(text: str | None) -> str:
    return text or ""


def _method(row: TotalChange) -> str:
    """How both values were obtained: `measured`, or `measured, modelled` if they differ."""
    return ", ".join(dict.fromkeys(map(method_name, (row.before, row.after))))


def _total(title: str, read: Callable[[TotalChange], Any]) -> Column[TotalChange]:
    return Column(title, read, "right")


_CONDITIONS: tuple[Column[ConditionChange], ...] = (
    Column("condition", lambda row: row.name),
    Column("before", lambda row: row.before, shrinks=True),
    Column("after", lambda row: row.after, shrinks=True),
    Column("affects", lambda row: row.affects, drops=True),
)
_TOTALS: Sequence[Column[TotalChange]] = (
    Column("total", lambda row: row.name),
    _total("before", lambda row: _SHOW[row.unit](row.before.value)),
    _total("after", lambda row: _SHOW[row.unit](row.after.value)),
    _total("change", lambda row: _unless_equal(row, _signed(row.difference, _SHOW[row.unit]))),
    _total("relative", lambda row: _unless_equal(row, _relative(row.ratio))),
    Column("verdict", _verdict_text),
    Column("range", _ranges, show=_or_nothing, drops=True),
    Column("method", _method, drops=True),
    Column("note", lambda row: row.note or None, show=_or_nothing, shrinks=True, drops=True),
)
_MODULES: tuple[Column[ModuleLine], ...] = (
    _sign(),
    Column("module", lambda line: line.name, shrinks=True, keeps=16, cuts="middle"),
    Column("class", lambda line: line.class_name, shrinks=True, cuts="end"),
    Column("what changed", lambda line: line.words, shrinks=True),
    _ends("params", lambda line: line.parameters, units.count),
    _ends("FLOPs", lambda line: line.flops, units.count),
    _ends("time", lambda line: line.time_s, units.seconds),
)
_TIMES: tuple[Column[ModuleLine], ...] = (
    Column("module", lambda line: line.name, shrinks=True, keeps=16, cuts="middle"),
    Column("class", lambda line: line.class_name, shrinks=True, cuts="end", drops=True),
    Column("before", lambda line: line.time_s[0], "right", units.seconds),
    Column("after", lambda line: line.time_s[1], "right", units.seconds),
    Column("change", lambda line: _signed(_difference(line.time_s), units.seconds), "right"),
    Column("verdict", lambda line: _TIME_VERDICTS[line.time_verdict]),
)
_TENSORS: tuple[Column[TensorLine], ...] = (
    _sign(),
    Column("tensor", lambda line: line.name, shrinks=True, keeps=16, cuts="middle"),
    Column("type", lambda line: line.type_text),
    Column("what changed", lambda line: line.words, shrinks=True),
    _ends("size", lambda line: line.bytes, units.size),
    Column("std", lambda line: line.statistic("std"), "right", drops=True),
    Column("mean", lambda line: line.statistic("mean"), "right", drops=True),
    Column("max", lambda line: line.statistic("max"), "right", drops=True),
)
_OPS: tuple[Column[OpChange], ...] = (
    _sign(),
    Column("op", lambda row: units.op(row.name), shrinks=True),
    Column("before", lambda row: row.before, "right", units.exact),
    Column("after", lambda row: row.after, "right", units.exact),
)
_FINDINGS: tuple[Column[FindingChange], ...] = (
    _sign(),
    Column("severity", lambda row: severity_name(row.severity)),
    Column("code", lambda row: row.code),
    Column("finding", lambda row: row.title, shrinks=True),
)


def _side(name: str, side: str, field: str) -> Column[ModuleChange]:
    """A value of one side; None if the module is not there."""
    return Column(f"{name} {side}", lambda row: getattr(getattr(row, side), field, None), "right")


_DATA: tuple[Column[ModuleChange], ...] = (
    Column("state", lambda row: row.state),
    Column("module", lambda row: row.shown.path),
    Column("class", lambda row: row.shown.class_name),
    Column("changes", lambda row: "; ".join(row.changes)),
    _side("path", "before", "path"),
    _side("path", "after", "path"),
    _side("params", "before", "parameters"),
    _side("params", "after", "parameters"),
    _side("FLOPs", "before", "flops"),
    _side("FLOPs", "after", "flops"),
    _side("time s", "before", "time_s"),
    _side("time s", "after", "time_s"),
    Column("time verdict", lambda row: row.time_verdict or None),
)
