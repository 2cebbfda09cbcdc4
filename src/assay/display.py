"""What a result shows of itself at a Python prompt and in a notebook.

Results of the lower layers cannot import views. `PREVIEWS` names the function that makes the preview of each; it is
imported when a result is first shown.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sized
from importlib import import_module
from typing import Any

from assay.messages import one_line, plural

PREVIEWS = {
    "Analysis": "assay.api.display.models:of_analysis",
    "Brief": "assay.api.display.models:of_brief",
    "BriefView": "assay.api.display.models:of_brief",
    "CallList": "assay.api.display.recordings:of_calls",
    "CheckReport": "assay.api.display.models:of_check",
    "Cost": "assay.api.display.costs:of_cost",
    "Document": "assay.api.display.models:of_document",
    "EnergyMeter": "assay.api.display.machines:of_meter",
    "Finding": "assay.api.display.models:of_finding",
    "ForwardRecorder": "assay.api.display.recordings:of_recorder",
    "Law": "assay.api.display.costs:of_law",
    "Laws": "assay.api.display.costs:of_laws",
    "MachineReport": "assay.api.display.machines:of_machine",
    "Memory": "assay.api.display.costs:of_memory",
    "Monitor": "assay.api.display.machines:of_monitor",
    "MonitorRecording": "assay.api.display.machines:of_recording",
    "Opened": "assay.api.display.models:of_opened",
    "Replay": "assay.api.display.machines:of_replay",
    "Roofline": "assay.api.display.costs:of_roofline",
    "Summary": "assay.api.display.models:of_summary",
    "Trace": "assay.api.display.traces:of_trace",
    "TraceDiff": "assay.api.display.traces:of_diff",
    "Traces": "assay.api.display.traces:of_traces",
    "WeightsReport": "assay.api.display.weights:of_weights",
}
"""For each class with a preview: the function that makes it. Other classes show their fields, without rows."""

TEXT = "assay.api.display.text:preview_text"
HTML = "assay.api.display.html:preview_html"
LINES, WIDTH = 15, 100
"""The most lines and columns of a repr."""
_NO_BREAK = "\xa0"
_LONGEST = 40
"""The most characters of a value among the fields."""


class Displayed:
    """Shows a preview of itself: a few lines of text at a prompt, a small page in a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        return _shown(self, TEXT) or fields_text(self)

    def _repr_html_(self) -> str | None:
        return _shown(self, HTML)


def fields_text(value: object) -> str:
    """The class and its fields that are not empty, with the number of rows in place of lists."""
    name = type(value).__name__
    if not hasattr(value, "__struct_fields__"):
        return f"<{name}: {plural(len(value), 'row')}>" if isinstance(value, Sized) else f"<{name}>"
    fields = ((field, getattr(value, field)) for field in value.__struct_fields__)
    texts = [f"{field}={_value_text(each)}".replace(" ", _NO_BREAK) for field, each in fields if not _is_empty(each)]
    lines = textwrap.wrap(f"{name}({', '.join(texts)})", WIDTH, subsequent_indent="    ", max_lines=LINES)
    return "\n".join(lines).replace(_NO_BREAK, " ")


def imported(place: str) -> Callable[..., Any]:
    """The function that `module:name` names."""
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


def preview_of(value: object) -> Any:
    """The preview of `value`; None if its class has none."""
    places = (PREVIEWS.get(each.__name__) for each in type(value).__mro__)
    place = next(filter(None, places), None)
    return None if place is None else imported(place)(value)


def _shown(value: object, place: str) -> str | None:
    """The preview of `value` as text or HTML; None if it has none, or if its data does not allow one."""
    try:
        preview = preview_of(value)
        return None if preview is None else str(imported(place)(preview, type(value).__name__))
    except Exception:  # noqa: BLE001  a repr must not raise, whatever a document from elsewhere holds
        return None


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, Sized) and not len(value))


def _value_text(value: object) -> str:
    if isinstance(value, str):
        return one_line(repr(value), _LONGEST)
    if isinstance(value, Sized):
        plain = isinstance(value, tuple) and all(isinstance(each, (str, int, float)) for each in value)
        text = repr(value) if plain else ""
        return text if 0 < len(text) <= _LONGEST else f"<{plural(len(value), 'row')}>"
    if hasattr(value, "value") and hasattr(value, "how"):
        return f"{'–' if value.value is None else value.value} ({type(value.how).__name__.lower()})"
    if hasattr(value, "__struct_fields__"):
        return f"<{type(value).__name__}>"
    return one_line(repr(value), _LONGEST)
