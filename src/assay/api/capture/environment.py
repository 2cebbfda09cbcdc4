"""The environment variables that control captures. `assay run` sets them; users may set them, too.

| variable | meaning |
| --- | --- |
| ASSAY_CAPTURE | 1: capture decorated models; unset or 0: the decorator has no effect |
| ASSAY_TRACE_DIR | directory for traces; `traces` by default |
| ASSAY_TRACE_EVERY | capture every Nth pass of a model; 1 by default |
| ASSAY_TRACE_WARMUP | skip the first N passes of a model; 0 by default |
| ASSAY_TRACE_MAX | capture at most N passes of a model; no limit by default |
| ASSAY_TRACE_GZIP | 1: compress traces |
| ASSAY_TRACE_TABLE | 0: do not print layer tables on stderr |
| ASSAY_TRACE_MANIFEST | file to which the name of every written trace is appended |
| ASSAY_DEBUG | 1: explain every decision on stderr |
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
MAX_PASSES = "ASSAY_TRACE_MAX"
GZIP = "ASSAY_TRACE_GZIP"
TABLE = "ASSAY_TRACE_TABLE"
MANIFEST = "ASSAY_TRACE_MANIFEST"
DEBUG = "ASSAY_DEBUG"

DEFAULT_DIRECTORY = "traces"
_OFF = frozenset({"", "0", "false", "no", "off"})


def is_on(variable: str) -> bool:
    """Whether an environment variable is set to anything but an empty string, 0, false, no or off."""
    return os.environ.get(variable, "").strip().lower() not in _OFF


def capture_plan() -> CapturePlan:
    """The capture plan from the environment variables, with absolute paths in case the program changes directory."""
    from assay.trace.write.plan import CapturePlan

    manifest = os.environ.get(MANIFEST)
    return CapturePlan(
        directory=Path(os.environ.get(DIRECTORY) or DEFAULT_DIRECTORY).absolute(),
        every=_number(EVERY, least=1) or 1,
        warmup=_number(WARMUP, least=0) or 0,
        most=_number(MAX_PASSES, least=1),
        gzip=is_on(GZIP),
        manifest=Path(manifest) if manifest else None,
    )


def _number(variable: str, *, least: int) -> int | None:
    """The integer in an environment variable; None if it is not set."""
    text = os.environ.get(variable, "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) < least:
        expected = "a positive integer" if least == 1 else f"an integer of at least {least}"
        raise UsageError(f"{variable}={text} is not valid: expected {expected}")
    return int(text)
