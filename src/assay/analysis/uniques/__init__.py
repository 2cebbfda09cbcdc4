"""Unique modules and unique ops of a model: equal ones are listed once.

Belongs here: deciding which modules and ops are equal, and the entries for them. Does not: files, tables, text.
"""

from __future__ import annotations

from assay.analysis.uniques.modules import unique_modules
from assay.analysis.uniques.ops import unique_ops

__all__ = ["unique_modules", "unique_ops"]
