"""The description of this host in a document."""

from __future__ import annotations

from assay import host
from assay.document.document import Machine


def this_machine(*, torch: str = "", device: str = "") -> Machine:
    """A description of this host; `torch` is its version and `device` is where the model ran, if it ran."""
    return Machine(
        python=host.python_version(),
        torch=torch,
        system=host.system(),
        device=device,
        processors=host.processors(),
    )
