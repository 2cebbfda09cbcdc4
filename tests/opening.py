"""`open_source` with the model or document read immediately, so that errors in either are raised here."""

from __future__ import annotations

from typing import Any

from assay.sources.open import open_source
from assay.sources.opened import Opened


def open_model(given: Any, **options: Any) -> Opened:
    opened = open_source(given, **options)
    if opened.document is None:
        opened.module  # noqa: B018
    return opened
