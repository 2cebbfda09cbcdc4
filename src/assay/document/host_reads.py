"""Points of a pass at which Python waits for values of a tensor, or at which a tensor changes its device."""

from __future__ import annotations

from msgspec import Struct

ITEM, BOOL, TOLIST, NUMPY, SIZES, COPY = "item", "bool", "tolist", "numpy", "sizes", "copy"
"""What was read: a number (`.item()`, `int()`), a condition (`if tensor:`, `torch.equal`), a list, a NumPy array,
values that determine a shape (`nonzero`, a mask as an index), or a whole tensor that moved to another device."""


class HostRead(Struct, frozen=True, omit_defaults=True):
    """One op of a forward pass after which an accelerator has to be waited for."""

    op: int
    """Index into `Document.ops`; its call and module are those of the read."""
    what: str
    """`item`, `bool`, `tolist`, `numpy`, `sizes` or `copy`."""
    source: str = ""
    """The line of code outside torch that caused it, without directories of the machine: `my_model.py:42`."""
