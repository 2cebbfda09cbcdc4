"""Documents with made-up times, so that gains can be worked out by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from assay.analysis.devices import Device
from assay.document.document import Document
from assay.document.findings import Finding
from assay.document.profile import KindTime, Profile
from assay.document.provenance import Figure, Measured
from assay.findings.engine import check_all

DEVICE = Device(name="test", memory_gib=1, bandwidth_gb_s=1.0, tflops={"fp32": 0.001}, source="test", note="")
"""1 GB/s and 1 GFLOP/s: a byte takes 1 ns, and so does a FLOP."""
NS = 1e-9


def timed(document: Document, seconds: Mapping[str, float], other: float = 0.0, between: float = 0.0) -> Document:
    """The document with these seconds per execution by op (`aten.linear`); `between` is time in which no op ran."""
    ops = [seconds.get(_name(document, op.kind), other) for op in document.ops]
    whole = sum(ops)
    counts = Counter(op.kind for op in document.ops)
    each = [seconds.get(_name(document, kind), other) for kind in range(len(document.kinds))]
    kinds = [
        KindTime(counts[kind], time, counts[kind] * time, share=counts[kind] * time / whole if whole else None)
        for kind, time in enumerate(each)
    ]
    profile = Profile(passes=5, whole=Figure(whole + between, Measured("test", 5)), kinds=kinds, ops=ops)
    return replace(document, profile=profile)


def found(code: str, document: Document, device: Device | None = None) -> Finding | None:
    """The only finding of one rule; None if it does not fire."""
    findings = check_all(document, select=[code], device=device).findings
    assert [finding.code for finding in findings] in ([], [code])
    return findings[0] if findings else None


def saved(finding: Finding | None) -> tuple[str, float | None, float | None]:
    """What a finding saves: the quantity, the amount and the share."""
    assert finding is not None
    assert finding.gain is not None
    return finding.gain.of, finding.gain.amount.value, finding.gain.share.value


def _name(document: Document, kind: int) -> str:
    return document.kinds[kind].target.rpartition(".")[0]
