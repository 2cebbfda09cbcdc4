"""Rules about what a pass spends its work on: a few layers, reading weights, pointwise or small ops, copies."""

from __future__ import annotations

from collections.abc import Iterator

from assay import units
from assay.analysis.cost import categories
from assay.analysis.flow import is_view
from assay.document.cost import CostTotals
from assay.document.provenance import Figure, Modelled
from assay.findings.catalogue import rule
from assay.findings.facts import BY_FORMULA, BY_PASS, ModelFacts, share_of
from assay.findings.naming import fold_names, joined_names, module_names
from assay.findings.needs import MODULES, WHOLE_PASS
from assay.findings.rule import RuleMatch, in_modules, in_ops
from assay.messages import plural

MIN_BYTES = 1 << 20
"""If a pass moves fewer bytes, shares of them are not meaningful."""
HEAVY_SHARE = 0.5
MAX_SHARE_OF_MODULES = 0.1
"""The largest share of the compute modules that still counts as a few."""
MIN_MODULES = 10
WEIGHTS_SHARE = 0.6
POINTWISE_SHARE = 0.4
COPIES_SHARE = 0.25
SMALL_BYTES = 1 << 16
"""Roughly the bytes a kernel moves in the time it takes to launch the next one."""
MIN_SMALL_OPS = 500
SMALL_SHARE = 0.8
LAUNCH_S = 5e-6
_POINTWISE = (categories.ELEMENT_WISE, categories.ACTIVATION, categories.NORMALIZATION)


@rule(
    "C201",
    "note",
    "a few modules that do most of the arithmetic",
    advice="Optimise these modules first: pruning, a narrower dtype or a better kernel hardly pays off elsewhere.",
    needs=(MODULES, WHOLE_PASS),
)
def heavy_modules(facts: ModelFacts) -> Iterator[RuleMatch]:
    """The fewest modules that together do half of the FLOPs, if they are at most a tenth of all compute modules."""
    own = {i: cost.own.flops or 0 for i, cost in enumerate(facts.cost.modules) if cost.own.macs}
    whole = facts.cost.forward.flops
    if not whole or len(own) < MIN_MODULES:
        return
    heavy: list[int] = []
    done = smallest = 0
    for index in sorted(own, key=lambda index: -own[index]):
        # Modules that tie with the last one are included: a subset of equal layers would be arbitrary.
        if done >= HEAVY_SHARE * whole and own[index] < smallest:
            break
        heavy.append(index)
        done, smallest = done + own[index], own[index]
    if done < HEAVY_SHARE * whole or len(heavy) > MAX_SHARE_OF_MODULES * len(own):
        return
    title = f"{units.share(done, whole)} of the FLOPs are in {len(heavy)} of {len(own)} compute modules"
    evidence = {"flops": Figure(done, BY_FORMULA), "share_of_flops": share_of(done, whole, BY_FORMULA)}
    yield in_modules(facts, sorted(heavy), title, evidence)


@rule(
    "C202",
    "note",
    "a pass that mostly reads weights",
    advice="Use a larger batch, which is nearly free because reading the weights dominates at this input size, or "
    "store the weights in a narrower dtype (weight-only quantization), which saves almost their share of the time.",
    needs=(WHOLE_PASS,),
)
def weight_bound(facts: ModelFacts) -> Iterator[RuleMatch]:
    """The share of parameters and buffers in the bytes that the pass moves."""
    read, moved = facts.cost.forward.read_parameters, facts.bytes
    if moved < MIN_BYTES or read < WEIGHTS_SHARE * moved:
        return
    evidence = {"bytes_of_weights": Figure(read, BY_FORMULA), "share_of_bytes": share_of(read, moved, BY_FORMULA)}
    intensity = facts.cost.forward.intensity
    if intensity is not None:
        evidence["flops_per_byte"] = Figure(intensity, BY_FORMULA)
    yield RuleMatch(
        f"{units.share(read, moved)} of the bytes moved per pass are weights ({units.size(read)})", evidence
    )


@rule(
    "C203",
    "advice",
    "pointwise ops that move a large share of the bytes",
    advice="Use torch.compile: it fuses chains of element-wise ops, activations and normalisation layers into single "
    "kernels, so that intermediate results are never written to memory.",
    needs=(WHOLE_PASS,),
)
def pointwise_bound(facts: ModelFacts) -> Iterator[RuleMatch]:
    """The share of element-wise ops, activations and normalisation layers in the bytes that the pass moves."""
    totals = [facts.cost.categories.get(name, CostTotals()) for name in _POINTWISE]
    moved, ops = sum(each.bytes for each in totals), sum(each.ops for each in totals)
    if facts.bytes < MIN_BYTES or moved < POINTWISE_SHARE * facts.bytes:
        return
    flops = sum(each.flops or 0 for each in totals)
    whole = facts.cost.forward.flops or 0
    yield RuleMatch(
        f"{units.share(moved, facts.bytes)} of the bytes but {units.share(flops, whole)} of the FLOPs are in "
        f"{plural(ops, 'pointwise op')} (element-wise, activation, normalisation)",
        {
            "operations": Figure(ops, BY_PASS),
            "bytes": Figure(moved, BY_FORMULA),
            "share_of_bytes": share_of(moved, facts.bytes, BY_FORMULA),
            "share_of_flops": share_of(flops, whole, BY_FORMULA),
        },
    )


@rule(
    "C204",
    "advice",
    "copies, concatenations and casts that move a large share of the bytes",
    advice="Look for .contiguous(), reshape of a transposed tensor, cat and repeat in these modules. To avoid the "
    "copy, use an op that accepts strides, write into a slice, or replace repeat with expand.",
    needs=(WHOLE_PASS,),
)
def copies(facts: ModelFacts) -> Iterator[RuleMatch]:
    """The share of copies in the bytes that the pass moves, with the ops and modules that copy most."""
    totals = facts.cost.categories.get(categories.DATA_MOVEMENT, CostTotals())
    if facts.bytes < MIN_BYTES or totals.bytes < COPIES_SHARE * facts.bytes:
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
    modules = sorted(by_module, key=lambda index: -by_module[index])
    yield RuleMatch(
        f"copies move {units.share(totals.bytes, facts.bytes)} of the bytes ({joined_names(names, 2)}): "
        f"{module_names(facts.document, modules)}",
        {
            "bytes": Figure(totals.bytes, BY_FORMULA),
            "share_of_bytes": share_of(totals.bytes, facts.bytes, BY_FORMULA),
        },
        modules=sorted(modules),
    )


@rule(
    "C205",
    "advice",
    "hundreds of small ops, which are overhead-bound on an accelerator",
    advice="Launch them together with torch.compile(mode='reduce-overhead') or CUDA graphs, or make them fewer and "
    "larger: use a larger input, or batch work that runs one item at a time.",
    needs=(WHOLE_PASS,),
)
def many_small(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Ops that move few bytes, if they are most of the ops that are not views."""
    views = [is_view(kind) for kind in facts.document.kinds]
    working = {kind: times for kind, times in facts.executions.items() if not views[kind]}
    small = sum(times for kind, times in working.items() if facts.cost.kinds[kind].bytes < SMALL_BYTES)
    total = sum(working.values())
    if small < MIN_SMALL_OPS or small < SMALL_SHARE * total:
        return
    how = Modelled("one kernel per op", (f"{units.seconds(LAUNCH_S)} per kernel launch, typical of a GPU",))
    yield RuleMatch(
        f"{units.exact(small)} of {units.exact(total)} ops move less than {units.size(SMALL_BYTES)} each at this "
        "input size",
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
    advice="Look for tensors created from NumPy arrays or with dtype=torch.float64 and cast them to the model's "
    "dtype: float64 takes twice the bytes of float32 and runs at a small fraction of its speed on most accelerators.",
    needs=(WHOLE_PASS,),
)
def double_precision(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Ops that compute float64 tensors in a model whose parameters have another dtype."""
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
    names = fold_names(facts.document.kinds[kind].name for kind in wide)
    title = f"{plural(len(ops), 'op')} in float64 ({joined_names(names, 2)})"
    evidence = {
        "operations": Figure(len(ops), BY_PASS),
        "bytes": Figure(facts.bytes_of(ops), BY_FORMULA),
        "flops": Figure(facts.flops_of(ops), BY_FORMULA),
    }
    yield in_ops(facts, ops, title, evidence)
