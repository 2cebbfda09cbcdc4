"""Hard cases: small models that do what real ones do and what makes tools fail.

`CASES` complete their forward pass; `FAILING` raise in it. Each value is a function that returns a new
`(model, inputs)`. The families of cases are in the `hard_*` files next to this one.
"""

from __future__ import annotations

from models import hard_calls, hard_flow, hard_foreign, hard_hooks, hard_size, hard_state, hard_values
from models.registry import CASES, FAILING, Inputs, Make, call

FAMILIES = (hard_calls, hard_flow, hard_foreign, hard_hooks, hard_size, hard_state, hard_values)

__all__ = ["CASES", "FAILING", "FAMILIES", "Inputs", "Make", "call"]
