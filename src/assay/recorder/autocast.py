"""`torch.autocast` on the meta device, which torch refuses."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch.amp.autocast_mode import autocast

from assay.recorder.shared import Shared, attribute


@Shared
@contextlib.contextmanager
def disabled_on_meta() -> Iterator[None]:
    """Inside the block, code may disable autocast for the device of its tensors even if that is the meta device.

    Nothing is cast there, so this has no effect. Enabling it still fails: dtypes would not be those of a real pass.
    """
    initialise = autocast.__init__

    def __init__(self: Any, device_type: str, dtype: Any = None, enabled: bool = True, **options: Any) -> None:
        device = "cpu" if device_type == "meta" and not enabled else device_type
        initialise(self, device, dtype, enabled, **options)

    with attribute(autocast, "__init__", __init__):
        yield
