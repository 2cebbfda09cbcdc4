"""`assay.cost`: what one pass costs."""

from __future__ import annotations

from typing import Any

from assay.api.observe import observe
from assay.document.cost import Cost
from assay.errors import PartialError


def cost(model: Any, inputs: Any = None, **options: Any) -> Cost:
    """What one pass of `model` costs; options are those of `observe`.

    A pass that stops midway is an error here, for its sums would look whole; `observe` keeps what was learned.
    """
    document = observe(model, inputs, **options)
    failure = document.run.failure
    if failure is not None:
        raise PartialError(
            f"the forward pass stopped in '{failure.module}' ({failure.error}): assay.observe keeps what was learned"
        )
    assert document.cost is not None
    return document.cost
