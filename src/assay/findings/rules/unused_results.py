"""The rule about work whose results nothing uses."""

from __future__ import annotations

from collections.abc import Iterator

from assay import units
from assay.analysis.dead_ops import dead_ops
from assay.document.provenance import Figure
from assay.findings.catalogue import rule
from assay.findings.facts import BY_FORMULA, BY_PASS, ModelFacts, share_of
from assay.findings.gains import removed_ops
from assay.findings.needs import FLOW, WHOLE_PASS
from assay.findings.rule import RuleMatch, in_ops
from assay.messages import plural

MIN_SHARE = 0.01
"""Below this share of the FLOPs and of the bytes of a pass, unused results are not worth a finding."""
MIN_BYTES = 1 << 20
"""The least bytes that unused results without much arithmetic must move."""


@rule(
    "S107",
    "advice",
    "results that are computed and never used",
    advice="Skip this work, for example auxiliary heads in evaluation mode or a branch whose result is discarded: no "
    "later op reads these results and the model does not return them.",
    needs=(WHOLE_PASS, FLOW),
)
def unused_results(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Ops whose results are freed without having been read, and the ops that only they read."""
    ops = dead_ops(facts.document, facts.cost.kinds)
    flops, size = facts.flops_of(ops), facts.bytes_of(ops)
    whole = facts.cost.forward.flops or 0
    if not ops or (flops < max(MIN_SHARE * whole, 1) and size < max(MIN_SHARE * facts.bytes, MIN_BYTES)):
        return
    names = "its result is" if len(ops) == 1 else "their results are"
    title = f"{plural(len(ops), 'op')} with {units.share(flops, whole)} of the FLOPs computed, but {names} never used"
    evidence = {
        "unused_operations": Figure(len(ops), BY_PASS),
        "flops": Figure(flops, BY_FORMULA),
        "share_of_flops": share_of(flops, whole, BY_FORMULA),
        "share_of_bytes": share_of(size, facts.bytes, BY_FORMULA),
    }
    yield in_ops(facts, ops, title, evidence, removed_ops(facts, ops))
