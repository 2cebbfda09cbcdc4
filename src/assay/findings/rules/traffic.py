"""Rules about data that is moved without need: results between pointwise ops, and copies."""

from __future__ import annotations

from collections.abc import Iterator

from assay import units
from assay.analysis.chains import PointwiseChain, pointwise_chains
from assay.analysis.cost import categories
from assay.document.findings import Gain
from assay.document.provenance import Figure, Modelled
from assay.findings.catalogue import rule
from assay.findings.facts import BY_FORMULA, BY_PASS, ModelFacts, share_of
from assay.findings.gains import kernel_gain, removed_ops, time_gain
from assay.findings.naming import joined_names, module_names
from assay.findings.needs import FLOW, WHOLE_PASS
from assay.findings.rule import RuleMatch, in_ops
from assay.findings.time_spent import share_of_time, time_evidence, time_text
from assay.messages import plural

MIN_BYTES = 1 << 20
"""If a pass moves fewer bytes, shares of them are not meaningful."""
FUSABLE_SHARE = 0.15
"""Share of the bytes that need not be moved from which chains are reported if their time is unknown."""
COPIES_SHARE = 0.25
MIN_TIME_SHARE = 0.02
"""Share of the measured time from which chains and copies are reported, whatever their bytes."""


@rule(
    "C203",
    "advice",
    "chains of pointwise ops that one kernel could compute",
    advice="Use torch.compile: it fuses chains of element-wise ops, activations and normalisation layers into single "
    "kernels, so that the results in between are never written to memory.",
    needs=(WHOLE_PASS, FLOW),
)
def pointwise_bound(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Chains of pointwise ops, if they take time, or if their results in between are a large share of the bytes."""
    chains = pointwise_chains(facts.document, facts.cost, facts.flow)
    ops = [op for chain in chains for op in chain.ops]
    saved = 2 * sum(chain.between_bytes for chain in chains)
    spent = share_of_time(facts, ops)
    if facts.bytes < MIN_BYTES or (saved < FUSABLE_SHARE * facts.bytes and (spent or 0.0) < MIN_TIME_SHARE):
        return
    took = time_text(facts, ops)
    what = f"{plural(len(ops), 'pointwise op')}{f', {took},' if took else ''}"
    title = f"{what} can be fused into {plural(len(chains), 'kernel')}"
    evidence = {
        "operations": Figure(len(ops), BY_PASS),
        "chains": Figure(len(chains), BY_PASS),
        "bytes_saved": Figure(saved, BY_FORMULA),
        "share_of_bytes": share_of(saved, facts.bytes, BY_FORMULA),
        **time_evidence(facts, ops),
    }
    yield in_ops(facts, ops, title, evidence, gain=_gain_of_fusing(facts, chains))


def _gain_of_fusing(facts: ModelFacts, chains: list[PointwiseChain]) -> Gain:
    """The time of the chains beyond what reading their inputs and writing their last results takes."""
    saved = [_saved_s(facts, chain) for chain in chains]
    known = [seconds for seconds in saved if seconds is not None]
    if len(known) < len(saved):
        return time_gain(facts, facts.time_of(op for chain in chains for op in chain.ops))
    assumptions = ("one kernel per chain", "pointwise ops take time in proportion to bytes, or above the roofline")
    removed = facts.kernels_of(op for chain in chains for op in chain.ops) - len(chains)
    seconds = Figure(sum(known), Modelled("time of the results between ops", assumptions))
    return kernel_gain(facts, seconds, max(removed, 0.0))


def _saved_s(facts: ModelFacts, chain: PointwiseChain) -> float | None:
    """Seconds that one kernel for the chain saves; None if its time is unknown."""
    took, moved, between = facts.time_of(chain.ops).value, facts.bytes_of(chain.ops), 2 * chain.between_bytes
    if took is None:
        return None
    by_bytes = took * between / moved if moved else 0.0
    if not facts.measured or facts.device is None or not facts.device.bandwidth:
        return by_bytes
    peak = facts.device.peak("fp32")
    least = max((moved - between) / facts.device.bandwidth, facts.flops_of(chain.ops) / peak if peak else 0.0)
    return max(took - least, by_bytes)  # data in a cache moves faster than the roofline allows


@rule(
    "C204",
    "advice",
    "copies, concatenations and casts that take a large share of the time or move a large share of the bytes",
    advice="Look for .contiguous(), reshape of a transposed tensor, cat and repeat in these modules. To avoid the "
    "copy, use an op that accepts strides, write into a slice, or replace repeat with expand.",
    needs=(WHOLE_PASS,),
)
def copies(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Copies that take time or a large share of the bytes, with the ops and modules that copy most."""
    ops = [op for op in range(len(facts.document.ops)) if _is_copy(facts, op)]
    moved, spent = facts.bytes_of(ops), share_of_time(facts, ops)
    if facts.bytes < MIN_BYTES or (moved < COPIES_SHARE * facts.bytes and (spent or 0.0) < MIN_TIME_SHARE):
        return
    by_name: dict[str, int] = {}
    by_module: dict[int, int] = {}
    for op in ops:
        name, module, size = facts.kind(op).name, facts.module(op), facts.kind_cost(op).bytes
        by_name[name] = by_name.get(name, 0) + size
        by_module[module] = by_module.get(module, 0) + size
    names = sorted(by_name, key=lambda name: -by_name[name])
    modules = sorted(by_module, key=lambda index: -by_module[index])
    took = time_text(facts, ops)
    what = f"take {took}" if took else f"move {units.share(moved, facts.bytes)} of the bytes"
    yield RuleMatch(
        f"copies {what} ({joined_names(names, 2)}): {module_names(facts.document, modules)}",
        {
            "bytes": Figure(moved, BY_FORMULA),
            "share_of_bytes": share_of(moved, facts.bytes, BY_FORMULA),
            **time_evidence(facts, ops),
        },
        modules=sorted(modules),
        gain=removed_ops(facts, ops),
    )


def _is_copy(facts: ModelFacts, op: int) -> bool:
    cost = facts.kind_cost(op)
    return cost.category == categories.DATA_MOVEMENT and cost.bytes > 0
