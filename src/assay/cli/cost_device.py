"""The roofline part of `assay cost --device NAME`."""

from __future__ import annotations

from assay.cli.narration import Narrator
from assay.cli.options import Output
from assay.cli.output import emit
from assay.document.document import Document


def roofline_report(
    narrator: Narrator, document: Document, name: str, output: Output, *, training: bool = False
) -> None:
    """Write what each kind of operation takes at least on the device called `name`."""
    from assay.analysis.roofline import bound
    from assay.api.roofline import device_named
    from assay.views.json.files import encode
    from assay.views.text.roofline import headline, report

    device = device_named(name)
    found = bound(document, device, training=training)
    emit(output, lambda: report(found), {"json": lambda: encode(found)})
    if output.format != "table":
        narrator.note(headline(found))
    if training:
        narrator.note("the bound is that of a training step: forward with autograd on, then backward")
    if device.note:
        narrator.note(f"{device.name}: {device.note}")
    for assumption in found.how.assumptions:
        narrator.detail(f"assumed: {assumption}")
