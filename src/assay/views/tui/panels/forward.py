"""The recorded forward calls of the selected module, newest last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.style import Style
from rich.text import Text

from assay import units
from assay.document.inspection import ForwardCall, ForwardTensor
from assay.document.tree import path_text
from assay.messages import plural
from assay.views.tui.panels.attributes import facts_line, figures_line
from assay.views.tui.panels.context import PanelContext, line, plain
from assay.views.tui.subject import ONLY_WEIGHTS

NONE = (
    "No forward pass was recorded. Record one first:\n"
    "  with assay.record_forward_stats(model):\n"
    "      model(x)\n"
    "or open the model with assay.explore_with_stats(model, x)."
)
NOT_CALLED = "This module was not called in the recorded pass."
MAX_CALLS = 200
"""The number of newest calls that are shown."""


def contents(context: PanelContext) -> Iterator[RenderableType]:
    """The calls with their tensors and times."""
    calls = context.subject.inspector.forward_calls(context.row.path)
    none = ONLY_WEIGHTS if context.subject.tensors_in_tree else NONE
    reason = NOT_CALLED if context.subject.document.calls else none
    yield _content(calls, context) if calls else plain(reason, "dim")


def _content(calls: Sequence[ForwardCall], context: PanelContext) -> RenderableType:
    times = [call.time_s for call in calls if call.time_s is not None and call.outermost]
    head: list[tuple[str, str | Style]] = [
        (path_text(context.row.path), context.styles["accent"]),
        (f"  {plural(len(calls), 'call')}", ""),
    ]
    if times:
        head.append((f"  total {units.seconds(sum(times))}", ""))
    parts: list[RenderableType] = [line(*head)]
    skipped = max(0, len(calls) - MAX_CALLS)
    if skipped:
        parts.append(line((f"first {plural(skipped, 'call')} not shown", "dim")))
    for number, call in enumerate(calls[skipped:], skipped + 1):
        parts += [Text(), *_call(number, call, context)]
    return Group(*parts)


def _call(number: int, call: ForwardCall, context: PanelContext) -> list[RenderableType]:
    head: list[tuple[str, str | Style]] = [(f"call {number}", "bold")]
    if call.time_s is not None:
        head.append((f"  {units.seconds(call.time_s)}", ""))
    if call.self_s is not None:
        head.append((f"  self {units.seconds(call.self_s)}", "dim"))
    parts: list[RenderableType] = [line(*head)]
    if bad := _not_finite(call):
        first = f", first produced by {path_text(call.first_bad)}" if call.first_bad is not None else ""
        parts.append(line((f"  ! {bad} in the output{first}", context.styles["error"])))
    for style, tensors in (("italic", call.inputs), ("", call.outputs)):
        parts += [part for each in tensors for part in _tensor(each, style, context)]
    return parts


def _not_finite(of: ForwardCall | ForwardTensor) -> str:
    return " and ".join(name for name, is_present in (("NaN", of.nan), ("Inf", of.inf)) if is_present)


def _tensor(each: ForwardTensor, style: str, context: PanelContext) -> list[RenderableType]:
    """A tensor and its statistics; inputs are italic."""
    parts: list[RenderableType] = [line((f"  {each.name}  ", style), (facts_line(each.facts), style))]
    if any(value is not None for value in (each.min, each.max, each.mean, each.std)):
        parts.append(figures_line(each))
    if bad := _not_finite(each):
        parts.append(line((f"    ! contains {bad}", context.styles["error"])))
    return parts
