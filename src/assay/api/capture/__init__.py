"""CAPTURING PASSES: the decorator, the `with` block, and the layer tables printed while a program runs.

This package connects the profiler (`trace.write`) to environment variables and to stderr. Nothing heavy is imported
until a pass is captured, so decorating a class costs nothing outside `assay run`.
"""

from __future__ import annotations

from assay.api.capture.block import capture
from assay.api.capture.decorator import capture_model

__all__ = ["capture", "capture_model"]
