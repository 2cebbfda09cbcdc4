"""Looking at a live model: its source, its attributes, its tensors and its recorded calls."""

from assay.inspection.live import LiveInspector

__all__ = ["LiveInspector"]
