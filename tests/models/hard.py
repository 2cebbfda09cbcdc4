"""Hard cases: small models that do what real ones do and what trips tools up.

`CASES` run to their end; `FAILING` raise midway. Each value is a function that makes a fresh
`(model, inputs)`; the families stand in the `hard_*` files beside this one.
"""

from __future__ import annotations

from models import hard_calls, hard_flow, hard_foreign, hard_hooks, hard_size, hard_state, hard_values
from models.registry import CASES, FAILING, Inputs, Make, call

FAMILIES = (hard_calls, hard_flow, hard_foreign, hard_hooks, hard_size, hard_state, hard_values)

__all__ = ["CASES", "FAILING", "FAMILIES", "Inputs", "Make", "call"]
