"""The roofline for the page: the rates that ops and modules reached, below the limits of the machine."""

from __future__ import annotations

from collections import Counter

from assay.analysis.devices import Device
from assay.document import tree
from assay.document.timing import ModuleTime
from assay.messages import plural
from assay.views.html.columns import numbers, page_columns, words
from assay.views.html.ops import KINDS
from assay.views.html.page import PageTable, PageView, PeakLine, RooflineBlock, SectionRef, TableRef
from assay.views.html.subject import Subject
from assay.views.text.figures import bottleneck
from assay.views.text.roofline_plot import roofline_caption

OPS, MODULES = "ops", "modules"


def roofline_view(subject: Subject) -> PageView:
    """Rates of the timed kinds of op, then of the modules that run ops themselves."""
    device = subject.device
    if not subject.rows:
        why = f"No op was timed. Run `assay profile {subject.model} --save FILE`."
        return PageView("roofline", "Roofline", [], why)
    if device is None or not device.bandwidth or not device.tflops:
        why = "The limits of the machine it ran on are not known. Run `assay machine` there, then analyse it again."
        return PageView("roofline", "Roofline", [], why)
    caption = roofline_caption(subject.rows).removeprefix("Roofline: ")
    blocks = [_block(device, "Kinds of op", caption, OPS, SectionRef(KINDS))]
    rates = module_rates(subject)
    if rates.rows:
        caption = (
            f"{plural(rates.rows, 'module')} that run ops themselves, each with the bottleneck of most of its time"
        )
        blocks.append(_block(device, "Modules", caption, MODULES, rates))
    return PageView("roofline", "Roofline", list(blocks))


def _block(device: Device, title: str, caption: str, of: str, table: TableRef) -> RooflineBlock:
    return RooflineBlock(
        title=title,
        caption=f"{caption}.",
        of=of,
        table=table,
        peaks=[PeakLine(name, tera * 1e12) for name, tera in device.tflops.items() if tera],
        bandwidth=device.bandwidth or 0.0,
        machine=f"{device.name}, {device.source}",
    )


def module_rates(subject: Subject) -> PageTable:
    """One row per module with own ops whose FLOPs and time are known."""
    document, timing = subject.document, subject.document.timing
    bounds = _bounds(subject)
    times = timing.modules if timing is not None else []
    known = [
        (module, cost.own, time, seconds, bounds.get(index))
        for index, (module, cost, time) in enumerate(zip(document.modules, subject.cost.modules, times, strict=False))
        if time is not None and cost.own.flops and cost.own.bytes and (seconds := _own_s(time))
    ]
    how = timing.columns.get("modules.self_s") if timing is not None else None
    columns = [
        words("name", "module", (tree.path_text(module.path) for module, *_ in known)),
        words("class", "class", (module.class_name for module, *_ in known)),
        numbers("intensity", "FLOPs per byte", (own.intensity for _, own, *_ in known), "ratio"),
        numbers(
            "flops_per_s", "FLOP/s", ((own.flops or 0) / seconds for _, own, _, seconds, _ in known), "count", how
        ),
        numbers("share", "share", (time.self_share for _, _, time, *_ in known), "share", how),
        words("bound", "bottleneck", (bound for *_, bound in known), state="bound"),
    ]
    return PageTable(rows=len(known), columns=page_columns(columns, len(known), full=True))


def _own_s(time: ModuleTime) -> float | None:
    """Seconds of the module's own ops: of their kernels if it ran on an accelerator."""
    return time.self_s if time.device_self_s is None else time.device_self_s


def _bounds(subject: Subject) -> dict[int, str]:
    """For each module, the bottleneck of most of the time of its own ops."""
    document = subject.document
    by_kind = {row.kind: row.bound for row in subject.rows}
    times: dict[int, Counter[str]] = {}
    for op, seconds in zip(document.ops, document.profile.ops if document.profile is not None else [], strict=False):
        if seconds is not None and op.kind in by_kind:
            times.setdefault(document.module_of(op), Counter())[by_kind[op.kind]] += seconds  # type: ignore[assignment]
    return {module: bottleneck(max(sums, key=sums.__getitem__)) for module, sums in times.items()}
