"""`assay.summary`: the module tree with its figures."""

from __future__ import annotations

from typing import Any

from assay.api.observe import observe
from assay.views.text.summary import Summary


def summary(
    model: Any,
    inputs: Any = None,
    *,
    full: bool = False,
    depth: int | None = None,
    exact: bool = False,
    **options: Any,
) -> Summary:
    """The module tree of `model` with its figures, as text and as HTML; other options are those of `observe`."""
    return Summary(observe(model, inputs, **options), full=full, depth=depth, exact=exact)
