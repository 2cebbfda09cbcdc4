"""Inspecting a live model: source code, attributes, tensors and recorded calls of its modules."""

from assay.inspection.live import LiveInspector

__all__ = ["LiveInspector"]
