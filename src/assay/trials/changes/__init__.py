"""The changes, one file per family. Their functions use only torch and `Runnable`: scripts contain their source."""

from __future__ import annotations

from assay.trials.change import stack_order

__all__ = ["stack_order"]
