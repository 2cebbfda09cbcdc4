"""What changed from one document to another: conditions, totals, modules, tensors, ops and findings."""

from assay.analysis.comparison.compare import compare_documents
from assay.analysis.comparison.rows import (
    ComparedDocument,
    ComparedModule,
    ComparedTensor,
    Comparison,
    ConditionChange,
    FindingChange,
    ModuleChange,
    OpChange,
    TensorChange,
    TotalChange,
)

__all__ = [
    "ComparedDocument",
    "ComparedModule",
    "ComparedTensor",
    "Comparison",
    "ConditionChange",
    "FindingChange",
    "ModuleChange",
    "OpChange",
    "TensorChange",
    "TotalChange",
    "compare_documents",
]
