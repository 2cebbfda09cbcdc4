"""Looking at a live model: its source, its attributes, its tensors and its recorded calls."""

from assay.inspection.evidence import LiveEvidence

__all__ = ["LiveEvidence"]
