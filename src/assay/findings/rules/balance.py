"""Where the work of a pass goes: few layers, weights, small or pointwise operations, copies."""

from __future__ import annotations

from collections.abc import Iterator

from assay import units
from assay.analysis.cost import categories
from assay.analysis.flow import is_view
from assay.document.cost import CostTotals
from assay.document.provenance import Figure, Modelled
from assay.findings.catalogue import rule
from assay.findings.facts import BY_FORMULA, BY_PASS, ModelFacts, part
from assay.findings.naming import folded, listed, places
from assay.findings.needs import MODULES, WHOLE_PASS
from assay.findings.rule import RuleMatch, in_modules, in_ops
from assay.messages import plural

LEAST_BYTES = 1 << 20
"""A pass that moves less is a toy, of which shares say nothing."""
HEAVY_SHARE = 0.5
HEAVY_OF = 0.1
"""Of the modules that calculate, at most so many are called few."""
FEWEST = 10
WEIGHTS_SHARE = 0.6
POINTWISE_SHARE = 0.4
COPIES_SHARE = 0.25
SMALL_BYTES = 1 << 16
"""About what one kernel moves in the time it takes to start the next."""
SMALL_OPS = 500
SMALL_SHARE = 0.8
LAUNCH_S = 5e-6
_POINTWISE = (categories.ELEMENT_WISE, categories.ACTIVATION, categories.NORMALIZATION)


@rule(
    "C201",
    "note",
    "few modules that do most of the arithmetic",
    advice="Start here: pruning, a narrower dtype or a better kernel pays off in these modules and hardly elsewhere.",
    needs=(MODULES, WHOLE_PASS),
)
def heavy_modules(facts: ModelFacts) -> Iterator[RuleMatch]:
    """The fewest modules that together do half of the FLOPs, where they are a tenth of those that calculate."""
    own = {i: figures.own.flops or 0 for i, figures in enumerate(facts.cost.modules) if figures.own.macs}
    whole = facts.cost.forward.flops
    if not whole or len(own) < FEWEST:
        return
    heavy: list[int] = []
    done = least = 0
    for index in sorted(own, key=lambda index: -own[index]):
        # Equals of the last one belong to it: a part of equal layers would be an arbitrary one.
        if done >= HEAVY_SHARE * whole and own[index] < least:
            break
        heavy.append(index)
        done, least = done + own[index], own[index]
    if done < HEAVY_SHARE * whole or len(heavy) > HEAVY_OF * len(own):
        return
    title = f"{len(heavy)} of {len(own)} modules that calculate do {units.share(done, whole)} of the FLOPs"
    evidence = {"flops": Figure(done, BY_FORMULA), "share_of_flops": part(done, whole, BY_FORMULA)}
    yield in_modules(facts, sorted(heavy), title, evidence)


@rule(
    "C202",
    "note",
    "a pass that mostly reads weights",
    advice="At this input size the weights are read for little work: more rows a pass (a larger batch) are nearly "
    "free, and weights in a narrower dtype (weight-only quantization) save almost their share of the time.",
    needs=(WHOLE_PASS,),
)
def weight_bound(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Parameters and buffers among the bytes that are moved."""
    read, moved = facts.cost.forward.read_parameters, facts.bytes
    if moved < LEAST_BYTES or read < WEIGHTS_SHARE * moved:
        return
    figures = {"bytes_of_weights": Figure(read, BY_FORMULA), "share_of_bytes": part(read, moved, BY_FORMULA)}
    intensity = facts.cost.forward.intensity
    if intensity is not None:
        figures["flops_per_byte"] = Figure(intensity, BY_FORMULA)
    yield RuleMatch(f"{units.share(read, moved)} of the bytes moved are weights, {units.size(read)} a pass", figures)


@rule(
    "C203",
    "advice",
    "pointwise work that moves a large part of the bytes",
    advice="torch.compile joins chains of element-wise operations, activations and normalisations into single "
    "kernels, so that what lies between is never written to memory.",
    needs=(WHOLE_PASS,),
)
def pointwise_bound(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Element-wise operations, activations and normalisations among the bytes that are moved."""
    found = [facts.cost.categories.get(name, CostTotals()) for name in _POINTWISE]
    moved, ops = sum(each.bytes for each in found), sum(each.ops for each in found)
    if facts.bytes < LEAST_BYTES or moved < POINTWISE_SHARE * facts.bytes:
        return
    flops = sum(each.flops or 0 for each in found)
    whole = facts.cost.forward.flops or 0
    yield RuleMatch(
        f"element-wise work, activations and normalisations ({plural(ops, 'operation')}) move "
        f"{units.share(moved, facts.bytes)} of the "
        f"bytes for {units.share(flops, whole)} of the FLOPs",
        {
            "operations": Figure(ops, BY_PASS),
            "bytes": Figure(moved, BY_FORMULA),
            "share_of_bytes": part(moved, facts.bytes, BY_FORMULA),
            "share_of_flops": part(flops, whole, BY_FORMULA),
        },
    )


@rule(
    "C204",
    "advice",
    "copies, concatenations and casts that move a large part of the bytes",
    advice="Look for .contiguous(), reshape of a transposed tensor, cat and repeat in the modules named; an "
    "operation that takes strides, writing into a slice, or expand instead of repeat avoids the copy.",
    needs=(WHOLE_PASS,),
)
def copies(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Data movement among the bytes that are moved."""
    totals = facts.cost.categories.get(categories.DATA_MOVEMENT, CostTotals())
    if facts.bytes < LEAST_BYTES or totals.bytes < COPIES_SHARE * facts.bytes:
        return
    by_name: dict[str, int] = {}
    by_module: dict[int, int] = {}
    for index, op in enumerate(facts.document.ops):
        cost = facts.cost.kinds[op.kind]
        if cost.category == categories.DATA_MOVEMENT and cost.bytes:
            name = facts.document.kinds[op.kind].name
            by_name[name] = by_name.get(name, 0) + cost.bytes
            module = facts.module(index)
            by_module[module] = by_module.get(module, 0) + cost.bytes
    names = sorted(by_name, key=lambda name: -by_name[name])
    where = sorted(by_module, key=lambda index: -by_module[index])
    yield RuleMatch(
        f"copies move {units.share(totals.bytes, facts.bytes)} of the bytes, mostly {listed(names, 2)} in "
        f"{places(facts.document, where)}",
        {"bytes": Figure(totals.bytes, BY_FORMULA), "share_of_bytes": part(totals.bytes, facts.bytes, BY_FORMULA)},
        modules=sorted(where),
    )


@rule(
    "C205",
    "advice",
    "hundreds of small operations, which an accelerator spends starting rather than computing",
    advice="torch.compile(mode='reduce-overhead') or CUDA graphs start them together; a larger input, or stacking "
    "what is done one by one, makes them fewer and larger.",
    needs=(WHOLE_PASS,),
)
def many_small(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Executions that move little, among all that do anything."""
    views = [is_view(kind) for kind in facts.document.kinds]
    working = {kind: times for kind, times in facts.executions.items() if not views[kind]}
    small = sum(times for kind, times in working.items() if facts.cost.kinds[kind].bytes < SMALL_BYTES)
    total = sum(working.values())
    if small < SMALL_OPS or small < SMALL_SHARE * total:
        return
    how = Modelled("one kernel an operation", (f"{units.seconds(LAUNCH_S)} to start one, as is usual on a GPU",))
    yield RuleMatch(
        f"{units.exact(small)} of {units.exact(total)} operations move less than {units.size(SMALL_BYTES)} each at "
        "this input size",
        {
            "small_operations": Figure(small, BY_PASS),
            "operations": Figure(total, BY_PASS),
            "start_time_s": Figure(total * LAUNCH_S, how),
        },
    )


@rule(
    "C206",
    "warning",
    "arithmetic in float64",
    advice="Look for tensors made from numpy or with dtype=torch.float64 and cast them to the model's dtype: double "
    "precision has twice the bytes, and on most accelerators a small fraction of the speed.",
    needs=(WHOLE_PASS,),
)
def double_precision(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Operations that calculate tensors of float64 in a model whose parameters are of another dtype."""
    dtypes = facts.parameters.by_dtype
    if facts.document.run.dtype == "float64" or next(iter(dtypes), "") == "float64":
        return
    wide = [
        index
        for index, kind in enumerate(facts.document.kinds)
        if any(one.type.dtype == "float64" and one.type.shape for one in kind.outputs)
        and (facts.cost.kinds[index].flops or 0) > 0
    ]
    ops = [index for index, op in enumerate(facts.document.ops) if op.kind in set(wide)]
    if not ops:
        return
    names = folded(facts.document.kinds[kind].name for kind in wide)
    title = f"{plural(len(ops), 'operation')} in float64 ({listed(names, 2)})"
    evidence = {
        "operations": Figure(len(ops), BY_PASS),
        "bytes": Figure(facts.bytes_of(ops), BY_FORMULA),
        "flops": Figure(facts.flops_of(ops), BY_FORMULA),
    }
    yield in_ops(facts, ops, title, evidence)
