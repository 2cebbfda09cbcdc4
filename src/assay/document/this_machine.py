"""The row of a document that describes this host."""

from __future__ import annotations

from assay import host
from assay.document.document import Machine


def this_machine(*, torch: str = "", device: str = "") -> Machine:
    """This host; `torch` is the version used and `device` what the model ran on, where one ran."""
    return Machine(python=host.python_version(), torch=torch, system=host.system(), device=device)
