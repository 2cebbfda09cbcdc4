"""Documents with times made by hand, and a machine with round limits, for tests of rules about measured time."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from assay.analysis.devices import Device
from assay.document.document import Document
from assay.document.findings import Finding
from assay.document.profile import KindTime, Profile
from assay.document.provenance import Figure, Measured
from assay.findings.engine import check_all

MACHINE = Device("test machine", 16, 100.0, {"fp32": 1.0, "bf16": 2.0, "fp16": 0.01}, source="a test")
"""1 TFLOP/s in float32, 2 in bfloat16, 100 GB/s."""


def measured(value: float, **how: object) -> Figure:
    """A measured value."""
    return Figure(value, Measured("a test", 5, **how))


def timed(document: Document, seconds: dict[str, float], *, between_s: float = 0.0, **profile: object) -> Document:
    """The document with `seconds` per execution of each op, by the start of its target; other ops take 1 ns."""
    each = [next((s for name, s in seconds.items() if kind.target.startswith(name)), 1e-9) for kind in document.kinds]
    ops = [each[op.kind] for op in document.ops]
    whole = sum(ops)
    counts = Counter(op.kind for op in document.ops)
    kinds = [
        KindTime(counts[index], time_s, counts[index] * time_s, share=counts[index] * time_s / whole)
        for index, time_s in enumerate(each)
    ]
    fields = {"whole": measured(whole + between_s), "closure": measured(whole / (whole + between_s))}
    made = Profile(passes=5, kinds=kinds, ops=ops, **{**fields, **profile})
    return replace(document, profile=made)


def finding_on(code: str, document: Document, device: Device | None = MACHINE) -> Finding | None:
    """The finding of one rule on a machine; None if the rule does not fire."""
    findings = check_all(document, select=[code], device=device).findings
    assert [each.code for each in findings] in ([], [code])
    return findings[0] if findings else None
