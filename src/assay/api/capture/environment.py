"""The environment variables that switch captures on; `assay run` sets them, a person may.

| variable | meaning |
| --- | --- |
| ASSAY_CAPTURE | 1: decorated models are captured; unset or 0: they run as if never decorated |
| ASSAY_TRACE_DIR | where traces go; `traces` where it is not set |
| ASSAY_TRACE_EVERY, ASSAY_TRACE_WARMUP, ASSAY_TRACE_MAX | which passes of each instance |
| ASSAY_TRACE_GZIP | 1: compressed traces |
| ASSAY_TRACE_TABLE | 0: no tables of layers on stderr |
| ASSAY_TRACE_MANIFEST | a file that gets the name of every trace written |
| ASSAY_DEBUG | 1: every decision is explained on stderr |
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.trace.write.plan import CapturePlan

CAPTURE = "ASSAY_CAPTURE"
DIRECTORY = "ASSAY_TRACE_DIR"
EVERY = "ASSAY_TRACE_EVERY"
WARMUP = "ASSAY_TRACE_WARMUP"
MOST = "ASSAY_TRACE_MAX"
GZIP = "ASSAY_TRACE_GZIP"
TABLE = "ASSAY_TRACE_TABLE"
MANIFEST = "ASSAY_TRACE_MANIFEST"
DEBUG = "ASSAY_DEBUG"

DEFAULT_DIRECTORY = "traces"
_OFF = frozenset({"", "0", "false", "no", "off"})


def is_on(variable: str) -> bool:
    """Whether a variable says yes."""
    return os.environ.get(variable, "").strip().lower() not in _OFF


def plan() -> CapturePlan:
    """What the environment settles, with its defaults; paths are fixed now, whatever directory is current later."""
    from assay.trace.write.plan import CapturePlan

    manifest = os.environ.get(MANIFEST)
    return CapturePlan(
        directory=Path(os.environ.get(DIRECTORY) or DEFAULT_DIRECTORY).absolute(),
        every=_number(EVERY, least=1) or 1,
        warmup=_number(WARMUP, least=0) or 0,
        most=_number(MOST, least=1),
        gzip=is_on(GZIP),
        manifest=Path(manifest) if manifest else None,
    )


def _number(variable: str, *, least: int) -> int | None:
    said = os.environ.get(variable, "").strip()
    if not said:
        return None
    if not said.isdecimal() or int(said) < least:
        raise UsageError(f"{variable}={said}: a whole number of at least {least} is wanted")
    return int(said)
