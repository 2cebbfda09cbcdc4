"""The JSON of what was measured of a machine."""

from __future__ import annotations

import msgspec

from assay.document.machine import MachineReport


def encode(report: MachineReport) -> bytes:
    """The bytes, indented by two, with a final line end."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"
