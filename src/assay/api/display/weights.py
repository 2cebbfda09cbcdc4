"""Previews of checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

from assay.api.display.large import is_large
from assay.api.display.preview import Preview, preview
from assay.document.document import Document
from assay.document.weights import WeightsReport
from assay.findings.brief_weights import weight_findings, weights_brief
from assay.views.html.compact import ROWS, Part
from assay.views.text.params import ParamsOptions, params_report


def of_weights(weights: WeightsReport) -> Preview:
    """The size and the values of a checkpoint, and what the rules about weights find."""
    document = Document(weights=weights)
    findings = [] if is_large(document) else weight_findings(document)
    return preview(weights_brief(document, findings), lambda: tensor_parts(weights), document)


def tensor_parts(weights: WeightsReport) -> Sequence[Part]:
    """The largest tensors, repeated blocks folded."""
    if not weights.tensors:
        return ()
    document = Document(weights=weights)
    options = ParamsOptions(sort="bytes", top=ROWS, full=is_large(document))
    return ["Largest tensors", params_report(document, options).data]
