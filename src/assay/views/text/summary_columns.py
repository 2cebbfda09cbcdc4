"""The columns of a summary. To add one, add an entry to `COLUMNS`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

from assay import units
from assay.analysis.outline import OutlineRow
from assay.errors import UsageError
from assay.messages import alternatives
from assay.views.choosing import ALL
from assay.views.tables import percent
from assay.views.text.amounts import Amounts, if_recorded, part_of

NOT_CALLED = "not called"
_WITHOUT_FORWARD = frozenset({"ModuleList", "ModuleDict", "ParameterList", "ParameterDict"})
"""Containers that have no forward, so that they are never called themselves."""


class Wholes(NamedTuple):
    """The totals of the model, of which a row shows its share, and whether a pass was recorded."""

    flops: int | None
    parameters: int | None
    recorded: bool


class SummaryColumn(NamedTuple):
    """One column: its heading, its name in CSV, its value, and how the value is shown."""

    title: str
    data_name: str
    of: Callable[[OutlineRow, Wholes], Any]
    kind: Literal["text", "count", "size", "share"]
    text: Callable[[OutlineRow, Wholes], str] | None = None
    """The text of a row, if it is more than its value."""
    drops: bool = False
    """Whether a narrow terminal may omit it, unless it was asked for."""

    def shown(self, line: OutlineRow, wholes: Wholes, formats: Amounts) -> str:
        """The text of a row."""
        if self.text is not None:
            return self.text(line, wholes)
        value = self.of(line, wholes)
        if self.kind == "text":
            return units.UNKNOWN if value is None else str(value)
        shows = {"count": formats.count, "size": formats.size, "share": percent}
        return shows[self.kind](value)


def _setting(name: str) -> Callable[[OutlineRow, Wholes], str | None]:
    """A setting of the module, a list of numbers as a shape: `3x3`."""

    def read(line: OutlineRow, _: Wholes) -> str | None:
        value = line.config.get(name)
        return None if value is None else units.shape(value if isinstance(value, (list, tuple)) else [value])

    return read


def _shapes_text(shapes: Sequence[str], line: OutlineRow, varies: bool, recorded: bool) -> str:
    if not line.calls:
        return NOT_CALLED if recorded and line.class_name not in _WITHOUT_FORWARD else units.UNKNOWN
    joined = ", ".join(shapes) or units.UNKNOWN
    return f"{joined}, …" if varies else joined


COLUMNS: dict[str, SummaryColumn] = {
    "input": SummaryColumn(
        "input",
        "input shapes",
        lambda line, _: ", ".join(line.input_shapes) or None,
        "text",
        lambda line, whole: _shapes_text(line.input_shapes, line, line.inputs_vary, whole.recorded),
    ),
    "output": SummaryColumn(
        "output",
        "output shapes",
        lambda line, _: ", ".join(line.output_shapes) or None,
        "text",
        lambda line, whole: _shapes_text(line.output_shapes, line, line.varies, whole.recorded),
    ),
    "params": SummaryColumn("params", "parameters", lambda line, _: line.parameters, "count"),
    "flops": SummaryColumn("FLOPs", "flops", lambda line, _: line.totals.flops, "count"),
    "macs": SummaryColumn("MACs", "macs", lambda line, _: line.totals.macs if line.totals.known else None, "count"),
    "activations": SummaryColumn(
        "activations",
        "activation bytes",
        lambda line, _: if_recorded(line.totals.written, line.totals),
        "size",
        drops=True,
    ),
    "share": SummaryColumn(
        "share", "share", lambda line, whole: part_of(line.totals.flops, whole.flops), "share", drops=True
    ),
    "trainable": SummaryColumn("trainable", "trainable", lambda line, _: line.trainable, "count", drops=True),
    "own_params": SummaryColumn(
        "own params", "own parameters", lambda line, _: line.own_parameters, "count", drops=True
    ),
    "params_percent": SummaryColumn(
        "params share",
        "parameter share",
        lambda line, whole: part_of(line.parameters, whole.parameters),
        "share",
    ),
    "kernel": SummaryColumn("kernel", "kernel size", _setting("kernel_size"), "text"),
    "groups": SummaryColumn("groups", "groups", _setting("groups"), "text"),
    "calls": SummaryColumn("calls", "calls", lambda line, _: line.calls, "count"),
}
"""The columns by the names of `--columns`."""

ALIASES = {
    "input_size": "input",
    "output_size": "output",
    "num_params": "params",
    "kernel_size": "kernel",
    "mult_adds": "macs",
}
"""The names that torchinfo uses for its columns, where they differ."""

DEFAULT = ("output", "params", "flops", "activations", "share", "trainable", "own_params")
"""The columns of the tree if none are chosen."""

DATA_DEFAULT = ("calls", "output", "params", "own_params", "trainable", "flops", "macs", "activations", "share")
"""The columns of CSV and JSON lines if none are chosen."""


_ALWAYS = ("layer", "class")
"""Columns that every summary has."""


def parse_columns(columns: str | Iterable[str]) -> tuple[str, ...]:
    """The names of columns in a list or in text separated by commas; raises `UsageError` for an unknown name."""
    given = columns.split(",") if isinstance(columns, str) else columns
    if not isinstance(given, Iterable) or not (given := list(given)):
        raise UsageError(f"columns must be a list of names, got {columns!r}: expected {_names()}")
    names = {str(name): str(name).strip().lower() for name in given if str(name).strip().lower() not in _ALWAYS}
    if list(names.values()) == [ALL]:
        return tuple(COLUMNS)
    for name, plain in names.items():
        if plain not in COLUMNS and plain not in ALIASES:
            raise UsageError(f"unknown column {name!r}: expected {_names()}")
    return tuple(dict.fromkeys(ALIASES.get(plain, plain) for plain in names.values()))


def _names() -> str:
    return alternatives([*COLUMNS, *ALIASES])
