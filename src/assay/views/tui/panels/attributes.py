"""The attributes of the selected module, with statistics of its tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from assay import units
from assay.document.inspection import Attribute, ForwardTensor, TensorDetail, TensorFacts
from assay.document.tree import path_text
from assay.errors import AssayError
from assay.views.plots import area
from assay.views.tui.panels.context import PanelContext, line, plain
from assay.views.tui.sheets.shapes import dims

WIDTH = 40
"""The maximum width of a histogram."""
MAX_VALUES = 8
TITLES = (
    ("parameter", "Parameters"),
    ("buffer", "Buffers"),
    ("tensor", "Tensors"),
    ("module", "Modules"),
    ("value", "Values"),
)


def contents(context: PanelContext) -> Iterator[RenderableType]:
    """The attributes without statistics, then again each time the statistics of another tensor are ready."""
    if context.tensor is not None:
        path, name = context.tensor
        title = line((f"{path}.{name}" if path else name, context.styles["accent"]))
        yield Group(title, plain("loading…", "dim"))
        yield Group(title, _detail(context.subject.inspector.tensor(path, name), context))
        return
    attributes = context.subject.inspector.attributes(context.row.path)
    details: dict[str, TensorDetail | str] = {}
    yield _content(attributes, details, context)
    for attribute in attributes:
        if attribute.tensor is None:
            continue
        if context.cancelled():
            return
        try:
            details[attribute.name] = context.subject.inspector.tensor(context.row.path, attribute.name)
        except AssayError as error:
            details[attribute.name] = str(error)
        yield _content(attributes, details, context)


def _content(
    attributes: Sequence[Attribute], details: dict[str, TensorDetail | str], context: PanelContext
) -> RenderableType:
    row = context.row
    parts: list[RenderableType] = [
        line((path_text(row.path), context.styles["accent"]), ("  ", ""), (row.class_path, "dim"))
    ]
    if row.aliases:
        parts.append(line(("also ", "dim"), (", ".join(row.aliases), "")))
    for kind, title in TITLES:
        members = [each for each in attributes if each.kind == kind]
        if members:
            parts += [Text(), Text(title, style="bold")]
            parts += [part for each in members for part in _attribute(each, details.get(each.name), context)]
    if not attributes:
        only_tensors = context.subject.tensors_in_tree
        parts += [Text(), plain("Select a tensor." if only_tensors else "This module has no attributes.", "dim")]
    return Group(*parts)


def _attribute(each: Attribute, detail: TensorDetail | str | None, context: PanelContext) -> list[RenderableType]:
    if each.tensor is None:
        text = f"  {each.text}" if each.text != each.type else ""
        return [line((f"  {each.name} ", ""), (each.type, "dim"), (text, ""))]
    parts: list[RenderableType] = [line((f"  {each.name}", ""), ("  ", ""), (facts_line(each.tensor), ""))]
    if isinstance(detail, str):
        parts.append(line((f"    {detail}", context.styles["error"])))
    elif detail is not None:
        parts.append(_detail(detail, context))
    return parts


def facts_line(facts: TensorFacts) -> str:
    """Shape, dtype, device, size and gradient of a tensor on one line."""
    parts = [dims(facts.shape), facts.dtype, facts.device, units.size(facts.bytes) if facts.bytes is not None else ""]
    parts += ["requires grad" if facts.requires_grad else "", "has grad" if facts.has_grad else ""]
    return "  ".join(filter(None, parts))


def figures_line(tensor: TensorDetail | ForwardTensor) -> Text:
    """Minimum, maximum, mean and standard deviation on one line."""
    figures = (("min", tensor.min), ("max", tensor.max), ("mean", tensor.mean), ("std", tensor.std))
    return line(*(part for name, value in figures for part in ((f"    {name} ", "dim"), (_number(value), ""))))


def _detail(detail: TensorDetail, context: PanelContext) -> RenderableType:
    if detail.problem:
        return line((f"    {detail.problem}", "dim"))
    parts: list[RenderableType] = [figures_line(detail)]
    bad = [(name, count) for name, count in (("NaN", detail.nan), ("Inf", detail.inf)) if count]
    parts += [line((f"    ! {count:,} {name}", context.styles["error"])) for name, count in bad]
    if detail.zeros:
        parts.append(line(("    zeros ", "dim"), (f"{detail.zeros:,}", "")))
    if detail.counts:
        wide = max(8, min(WIDTH, context.width - 4, len(detail.counts)))
        parts += [line((f"    {row}", context.styles["accent"])) for row in area(detail.counts, width=wide, height=3)]
        low, high = _number(detail.edges[0]), _number(detail.edges[-1])
        parts.append(line((f"    {low}{high:>{max(1, wide - len(low))}}", "dim")))
    if detail.values:
        values = ", ".join(_number(value) for value in detail.values[:MAX_VALUES])
        parts.append(line(("    first ", "dim"), (f"{values} …" if len(detail.values) > MAX_VALUES else values, "")))
    return Group(*parts)


def _number(value: float | None) -> str:
    return units.UNKNOWN if value is None else f"{value:.4g}"
