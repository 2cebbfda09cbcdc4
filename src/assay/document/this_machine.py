"""The description of this host in a document."""

from __future__ import annotations

from assay import host
from assay.document.document import Machine


def this_machine(*, torch: str = "", device: str = "", processor: str = "") -> Machine:
    """A description of this host; `torch` is its version, `device` and `processor` are where the model ran."""
    return Machine(host.python_version(), torch, host.system(), device, processor, host.processors())
