"""CAPTURING PASSES: the decorator, the `with` block, and the tables that are printed while a program runs.

Belongs here: joining the profiler's side (`trace.write`) with the environment and with text. Nothing
heavy is imported until something is captured: a decorated class of a program that runs on its own costs nothing.
"""

from __future__ import annotations

from assay.api.capture.block import capture
from assay.api.capture.decorator import capture_model

__all__ = ["capture", "capture_model"]
