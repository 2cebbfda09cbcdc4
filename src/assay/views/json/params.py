"""The JSON of `assay params`."""

from __future__ import annotations

from msgspec import Struct, field

from assay.document.assessments import Assessment
from assay.document.document import Document
from assay.document.weights import QUANTILES, WeightsReport, WeightTotals
from assay.findings.tensor_assessments import assess_weights
from assay.views.json.files import timestamp


class StoredModuleEntry(Struct, frozen=True):
    """A module of a pickled or TorchScript model."""

    module_path: str
    class_path: str


class ParamsFile(Struct, frozen=True, omit_defaults=True):
    """The tensors of one checkpoint; omitted statistics are unknown."""

    source: str
    timestamp: str
    totals: WeightTotals
    weights: WeightsReport
    quantile_shares: tuple[float, ...] = field(default=())
    """The shares at which the quantiles of every tensor were computed."""
    assessment: Assessment | None = None
    """What each tensor allows, in the order of `weights.tensors`; null if only headers were read."""
    modules: list[StoredModuleEntry] = field(default_factory=list)
    partial: bool = False
    """Whether files could not be read, so that the totals cover only the rest."""


def params_file(document: Document) -> ParamsFile:
    """The JSON of the weights of `document`."""
    weights = document.weights
    assert weights is not None
    tensors = weights.tensors
    return ParamsFile(
        source=document.origin.location,
        timestamp=timestamp(document),
        totals=WeightTotals(len(tensors), sum(t.count for t in tensors), sum(t.bytes for t in tensors)),
        weights=weights,
        quantile_shares=QUANTILES,
        assessment=assess_weights(weights) if weights.kernel else None,
        modules=[StoredModuleEntry(module.path, module.class_path) for module in document.modules],
        partial=weights.partial,
    )
