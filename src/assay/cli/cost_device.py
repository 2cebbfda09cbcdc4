"""The roofline part of `assay cost --device NAME`."""

from __future__ import annotations

from assay.cli.narration import Narrator
from assay.cli.options import Output
from assay.document.document import Document


def roofline_report(
    narrator: Narrator, document: Document, device: str, output: Output, *, training: bool = False
) -> None:
    """Write what each kind of operation takes at least on the device called `device`."""
    from assay.analyses.devices import find
    from assay.analyses.roofline import bound
    from assay.cli.output import emit
    from assay.views.json.memory import encode
    from assay.views.text.roofline import headline, report

    found = bound(document, find(device), training=training)
    emit(output, lambda: report(found), {"json": lambda: encode(found)})
    if output.format != "table":
        narrator.note(headline(found))
    if training:
        narrator.note("the bound is that of a training step: forward with autograd on, then backward")
    for assumption in found.how.assumptions:
        narrator.detail(f"assumed: {assumption}")
