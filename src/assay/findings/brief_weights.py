"""The brief of a checkpoint: its size, its largest part, its values, and what the rules about weights find."""

from __future__ import annotations

import os
from collections.abc import Sequence

from assay import units
from assay.document.document import Document
from assay.document.findings import Finding
from assay.document.provenance import Counted, Figure
from assay.document.roles import BUFFER, PARAMETER
from assay.document.weights import WeightsReport
from assay.findings.brief import Brief, BriefFigure, NotKnown, brief_of, largest_share
from assay.findings.catalogue import weight_rules
from assay.findings.engine import apply
from assay.messages import plural

_HEADERS = Counted("shapes and dtypes of all tensors")
_VALUES = Counted("all values of all tensors")


def weights_brief(document: Document, findings: Sequence[Finding], *, next_step: str = "") -> Brief:
    """The brief of a document's weights; `next_step` is the command that shows more about the findings."""
    weights = document.weights
    assert weights is not None
    return brief_of(
        _identity(weights),
        [_size(weights), *_values(weights)],
        findings,
        _unknown(weights),
        clean="weights" if weights.kernel and weights.tensors else "",
        next_step=next_step,
        partial=weights.partial,
    )


def weight_findings(document: Document) -> list[Finding]:
    """The findings of the rules about weights; none if the values were not read."""
    assert document.weights is not None
    return apply(weight_rules(), document).findings if document.weights.kernel else []


def _identity(weights: WeightsReport) -> tuple[str, ...]:
    return (
        os.path.basename(weights.path.rstrip("/\\")) or "model in memory",
        "" if weights.format == "live" else weights.format,
        plural(len(weights.tensors), "tensor"),
        _counts(weights),
        f"partial: {plural(len(weights.files_lost), 'file')} not read or incomplete" if weights.partial else "",
    )


def _counts(weights: WeightsReport) -> str:
    """`25.6 M parameters, 53.1 k in buffers`; `25.6 M values` if the file does not state roles."""
    everything = sum(tensor.count for tensor in weights.tensors)
    if not weights.by_role:
        return _number(everything, "value")
    own, buffers = (weights.by_role[role].count if role in weights.by_role else 0 for role in (PARAMETER, BUFFER))
    others = everything - own - buffers
    texts = [_number(own, "parameter"), f"{units.count(buffers)} in buffers" if buffers else ""]
    return ", ".join(filter(None, [*texts, f"{units.count(others)} in other tensors" if others else ""]))


def _number(count: int, noun: str) -> str:
    return f"{units.count(count)} {noun if count == 1 else f'{noun}s'}"


def _size(weights: WeightsReport) -> BriefFigure:
    """The bytes of all tensors, their dtypes, and the family with the largest share."""
    whole = sum(tensor.bytes for tensor in weights.tensors)
    dtypes = sorted(weights.by_dtype, key=lambda dtype: -weights.by_dtype[dtype].bytes)
    several = len(dtypes) > 1
    texts = [f"{dtype} {units.share(weights.by_dtype[dtype].bytes, whole)}" if several else dtype for dtype in dtypes]
    shares = {family.name: family.totals.bytes / whole for family in weights.families} if whole else {}
    return BriefFigure("Size", Figure(whole, _HEADERS), "bytes", ", ".join(texts), largest_share(shares))


def _values(weights: WeightsReport) -> list[BriefFigure]:
    """How many values are NaN or infinite, the range of the others, and the share of zeros; nothing if not read."""
    read = [tensor for tensor in weights.tensors if tensor.nan is not None]
    if not weights.kernel or not read:
        return []
    nan, inf = sum(tensor.nan or 0 for tensor in read), sum(tensor.inf or 0 for tensor in read)
    kinds = f"not finite ({units.exact(nan)} NaN, {units.exact(inf)} infinite)" if nan or inf else "NaN or infinite"
    lowest = min((tensor.min for tensor in read if tensor.min is not None), default=None)
    highest = max((tensor.max for tensor in read if tensor.max is not None), default=None)
    zeros, count = sum(tensor.zeros or 0 for tensor in read), sum(tensor.numbers for tensor in read)
    ends = f"; range {units.ratio(lowest)} to {units.ratio(highest)}" if lowest is not None else ""
    return [
        BriefFigure(
            "Values",
            Figure(nan + inf, _VALUES),
            "count",
            f"{kinds}{ends}",
            f"{units.share(zeros, count)} zeros" if zeros else "",
        )
    ]


def _unknown(weights: WeightsReport) -> list[NotKnown]:
    lost = [NotKnown("tensors of a file", failure) for failure in weights.files_lost]
    failed = [tensor for tensor in weights.tensors if tensor.problem]
    if failed and weights.kernel:
        reasons = dict.fromkeys(tensor.problem for tensor in failed)
        lost.append(NotKnown(f"values of {plural(len(failed), 'tensor')}", "; ".join(reasons)))
    if not weights.kernel and weights.tensors:
        lost.append(NotKnown("values", "only headers were read"))
    return lost
