"""Activations and gradients for the page: ranges, saturation, where NaN began, and gradients through depth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from assay import units
from assay.document import tree
from assay.document.activations import Activations, GradientValues, NonfiniteSource, OutputValues
from assay.document.document import Document
from assay.messages import plural
from assay.views.html.columns import numbers, page_columns, words
from assay.views.html.page import (
    AnyBlock,
    ImagesBlock,
    Line,
    LinesBlock,
    MapImage,
    NotesBlock,
    PageAxis,
    PageColumn,
    PageTable,
    PageView,
    SectionRef,
    TableBlock,
    Unit,
)
from assay.views.html.subject import Subject
from assay.views.tables import printable

OUTPUTS, GRADIENTS = "outputs", "gradients"
_SOURCES = {
    "op": "made it of finite numbers",
    "weights": "read it from weights",
    "inputs": "read it from the inputs",
    "constants": "read it from a constant",
    "infinities": "made it of infinities",
}


def values_view(subject: Subject) -> PageView:
    """The values of one pass, layer by layer."""
    values, document = subject.document.activations, subject.document
    title = "Activations"
    if values is None or not values.modules:
        why = values.failure if values is not None and values.failure else "No pass with data was examined."
        return PageView("activations", title, [], f"{why} Run `assay analyze {subject.model} --inference`.")
    bad = values.first_nan is not None or values.first_inf is not None
    blocks: list[AnyBlock] = [NotesBlock(lines=list(_origins(document, values)), severity="error" if bad else "")]
    blocks += [*_range_lines(document, values)]
    blocks.append(
        TableBlock(id=OUTPUTS, title="Outputs of modules", caption=_caption(values), table=SectionRef(OUTPUTS))
    )
    blocks += [*_gradient_blocks(subject, values), *_images(document, values)]
    return PageView("activations", title, blocks, badge="NaN" if values.first_nan is not None else "")


def _origins(document: Document, values: Activations) -> Iterator[str]:
    """Where NaN and infinities began, or that there are none."""
    if values.first_nan is None and values.first_inf is None:
        yield "No output has NaN, and no op made an infinity of finite numbers."
    for name, source in (("NaN", values.first_nan), ("an infinity", values.first_inf)):
        if source is not None:
            yield _origin(document, name, source)


def _origin(document: Document, name: str, source: NonfiniteSource) -> str:
    where = printable(tree.path_text(document.modules[source.module].path))
    names = [printable(document.tensors[index].names[0]) for index in source.tensors if document.tensors[index].names]
    read = f" ({', '.join(names[:3])})" if names else ""
    reached = "; it reached the model's output" if source.reached_output else ""
    return f"First {name}: {source.op} in {where} {_SOURCES.get(source.source, source.source)}{read}{reached}."


def _caption(values: Activations) -> str:
    """How much is saturated or dead, which is counted where ops return it."""
    saturated = {one.module for one in values.ops if (one.at_ends or 0) > 0.5}
    dead = {one.module for one in values.ops if one.dead_channels}
    channels = sum(one.dead_channels or 0 for one in values.ops)
    parts = [
        f"{plural(len(saturated), 'module')} with more than half of the outputs saturated" if saturated else "",
        f"{plural(channels, 'channel')} always zero, in {plural(len(dead), 'module')}" if dead else "",
    ]
    return (
        "; ".join(filter(None, parts)) + "."
        if any(parts)
        else "No module is mostly saturated, and no channel is always zero."
    )


def _range_lines(document: Document, values: Activations) -> Iterator[AnyBlock]:
    """Root mean square and largest magnitude of outputs, in the order of the pass."""
    rows = [one for one in values.modules if one.rms]
    if len(rows) < 2:
        return
    ends = f"from {rows[0].rms:.3g} to {rows[-1].rms:.3g}"
    yield LinesBlock(
        title="Outputs through the pass",
        caption=f"The root mean square goes {ends}{_not_drawn(values)}.",
        x=PageAxis("modules in the order in which they return", "exact", [float(at + 1) for at in range(len(rows))]),
        series=[
            Line("root mean square", [one.rms for one in rows], method="counted"),
            Line("largest magnitude", [_largest(one) for one in rows], method="counted"),
        ],
        unit="number",
        log=True,
    )


def _not_drawn(values: Activations) -> str:
    """How many modules have no point, because their outputs are not finite."""
    count = sum(1 for one in values.modules if one.nan or one.inf)
    return f"; {plural(count, 'module')} with NaN or infinite outputs cannot be drawn" if count else ""


def _largest(one: OutputValues) -> float | None:
    return None if one.min is None or one.max is None else max(abs(one.min), abs(one.max)) or None


def output_table(document: Document, values: Activations) -> PageTable:
    """One row per module that returned numbers, and per op that it ran itself."""
    rows = [*values.modules, *(one for one in values.ops if _is_notable(one))]
    how = values.columns.get("modules") or values.columns.get("modules.rms") or values.columns.get("ops.zeros")

    def column(key: str, title: str, of: Callable[[OutputValues], Any], unit: Unit, **more: Any) -> PageColumn:
        return numbers(key, title, map(of, rows), unit, how, **more)

    paths = [printable(tree.path_text(document.modules[one.module].path)) for one in rows]
    columns = [
        words("module", "module", paths, link="module"),
        words("op", "op", (one.op for one in rows)),
        words("class", "class", (document.modules[one.module].class_name for one in rows)),
        *([column("nan", "NaN", lambda one: one.nan, "exact")] if any(one.nan for one in rows) else []),
        *([column("inf", "infinite", lambda one: one.inf, "exact")] if any(one.inf for one in rows) else []),
        column("min", "min", lambda one: one.min, "number"),
        column("max", "max", lambda one: one.max, "number"),
        column("mean", "mean", lambda one: one.mean, "number"),
        column("rms", "root mean square", lambda one: one.rms, "number", bar=True),
        column("zeros", "zeros", lambda one: one.zeros, "share"),
        column("at_ends", "saturated", lambda one: one.at_ends, "share"),
        column("dead_channels", "dead channels", lambda one: one.dead_channels, "exact"),
        column("channels", "channels", lambda one: one.channels, "exact", hidden=True),
        column("count", "values", lambda one: one.count, "count", hidden=True),
        words("dtype", "dtype", (one.dtype or None for one in rows), hidden=True),
    ]
    return PageTable(rows=len(rows), columns=page_columns(columns, len(rows), full=True))


def _is_notable(one: OutputValues) -> bool:
    """Whether the op is one whose zeros or ends were counted, or has values that are not finite."""
    return bool(one.nan or one.inf) or one.zeros is not None or one.at_ends is not None


def _gradient_blocks(subject: Subject, values: Activations) -> list[AnyBlock]:
    if not values.gradients:
        why = values.backward_failure or f"run `assay analyze {subject.model} --inference --backward`"
        return [NotesBlock(title="Gradients", lines=[f"no gradients: {why}"])]
    rows = values.gradients
    lines = LinesBlock(
        title="Gradient norms through depth",
        caption=_gradient_caption(rows),
        x=PageAxis("parameters, first layers first", "exact", [float(at + 1) for at in range(len(rows))]),
        series=[
            Line("norm of the gradient", [one.norm or None for one in rows], method="counted"),
            Line("norm of the parameter", [one.weight_norm or None for one in rows], method="counted"),
        ],
        unit="number",
        log=True,
    )
    drawn = [lines] if sum(bool(one.norm) for one in rows) > 1 else []
    return [*drawn, TableBlock(id=GRADIENTS, table=SectionRef(GRADIENTS))]


def _gradient_caption(rows: Sequence[GradientValues]) -> str:
    """The range of the norms, after what is wrong."""
    bad, missing = sum(one.nan or one.inf for one in rows), sum(not one.received for one in rows)
    norms = [one.norm for one in rows if one.norm is not None]
    parts = [
        f"{bad} of {plural(len(rows), 'parameter')} with NaN or infinite gradients" if bad else "",
        f"{plural(missing, 'parameter')} without a gradient" if missing else "",
        f"norms from {min(norms):.3g} to {max(norms):.3g}" if norms else "",
    ]
    text = "; ".join(filter(None, parts))
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def gradient_table(document: Document, values: Activations) -> PageTable:
    """One row per trainable parameter."""
    rows = values.gradients
    how = values.columns.get("gradients")

    def column(key: str, title: str, of: Callable[[GradientValues], Any], unit: Unit, **more: Any) -> PageColumn:
        return numbers(key, title, map(of, rows), unit, how, **more)

    return PageTable(
        rows=len(rows),
        columns=[
            words(
                "parameter",
                "parameter",
                (printable(document.tensors[one.tensor].names[0]) for one in rows),
                link="tensor",
            ),
            column("norm", "gradient norm", lambda one: one.norm, "number", bar=True),
            column("max_abs", "max |gradient|", lambda one: one.max_abs, "number"),
            column("ratio", "gradient ÷ weight", _ratio, "number"),
            column("weight_norm", "weight norm", lambda one: one.weight_norm, "number", hidden=True),
            column("zeros", "zeros", lambda one: one.zeros, "share"),
            words("state", "note", (_gradient_note(one) for one in rows)),
        ],
    )


def _ratio(one: GradientValues) -> float | None:
    return one.norm / one.weight_norm if one.norm is not None and one.weight_norm else None


def _gradient_note(one: GradientValues) -> str:
    if not one.received:
        return "no gradient"
    return "NaN" if one.nan else "infinite" if one.inf else ""


def _images(document: Document, values: Activations) -> list[AnyBlock]:
    """Activation maps, if they were recorded."""
    maps = [
        MapImage(
            module=printable(tree.path_text(document.modules[one.module].path)),
            class_name=document.modules[one.module].class_name,
            shape=units.shape(one.shape),
            width=one.width,
            height=one.height,
            channels=[one.pixels[at : at + size] for at in range(0, len(one.pixels), size)],
            numbers=list(one.channels),
        )
        for one in values.maps
        if (size := one.width * one.height)
    ]
    if not maps:
        return []
    caption = "Outputs of the first sample, the channels that vary most; each is scaled to its own range."
    return [ImagesBlock(title="Activation maps of convolutions", caption=caption, images=maps)]
