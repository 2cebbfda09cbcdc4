"""What is unique in a model: equal modules told once, equal operations told once.

Belongs here: deciding what is equal, and the entries that say so. Does not: files, tables, totals in words.
"""

from __future__ import annotations

from assay.analysis.uniques.modules import unique_modules
from assay.analysis.uniques.ops import unique_ops

__all__ = ["unique_modules", "unique_ops"]
