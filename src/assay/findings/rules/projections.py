"""Rules about Linear layers side by side: several that read the same input."""

from __future__ import annotations

from collections.abc import Iterator

from assay.analysis.flow import operand_type
from assay.document.findings import Gain
from assay.document.provenance import Figure, Modelled, Unknown
from assay.findings.catalogue import rule
from assay.findings.facts import BY_FORMULA, BY_PASS, ModelFacts
from assay.findings.gains import time_gain
from assay.findings.needs import FLOW, WHOLE_PASS
from assay.findings.rule import RuleMatch, in_modules
from assay.findings.rules.pairs import weight_shape
from assay.messages import plural


@rule(
    "C104",
    "note",
    "Linear layers of one module that read the same input and could be fused",
    advice="Fuse them into one Linear layer with the rows of all weights (a fused QKV or gate-and-up projection) and "
    "split its output: it reads the input once and launches one kernel. Concatenate the weights of old checkpoints.",
    needs=(WHOLE_PASS, FLOW),
)
def fusable_projections(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Groups of Linear layers inside one module call that read the same tensor."""
    joint = [
        ops for ops in _same_input(facts) if len({facts.flow.operand(op, "weight") for op in ops}) == len(ops) > 1
    ]
    if not joint:
        return
    parents = sorted({_module_around(facts, ops[0]) for ops in joint})
    kernels = sum(len(ops) - 1 for ops in joint)
    reread = sum((len(ops) - 1) * facts.kind_cost(ops[0]).read_activations for ops in joint)
    title = (
        f"{plural(len(joint), 'group')} of Linear layers with the same input can be fused, saving "
        f"{plural(kernels, 'matmul')} per pass"
    )
    evidence = {
        "groups": Figure(len(joint), BY_PASS),
        "products_saved": Figure(kernels, BY_PASS),
        "bytes_read_again": Figure(reread, BY_FORMULA),
    }
    yield in_modules(facts, parents, title, evidence, _gain_of_reading_once(facts, reread))


def _module_around(facts: ModelFacts, op: int) -> int:
    """The module whose call contains the call of the op's own module."""
    parent = facts.document.calls[facts.document.ops[op].call].parent
    return 0 if parent is None else facts.document.calls[parent].module


def _gain_of_reading_once(facts: ModelFacts, reread: int) -> Gain:
    """The time in which the memory of this machine delivers `reread` bytes."""
    bandwidth = facts.device.bandwidth if facts.device is not None else None
    if not bandwidth:
        return time_gain(facts, Figure(None, Unknown("the bandwidth of this machine was not measured")))
    how = Modelled("bytes that are no longer read, at the memory bandwidth", ("launches are not counted",))
    return time_gain(facts, Figure(reread / bandwidth, how))


def _same_input(facts: ModelFacts) -> list[list[int]]:
    """Linear layers inside one module call by the tensor they read; adapters of another layer are left out."""
    groups: dict[tuple[object, ...], list[int]] = {}
    linears = [op for op in facts.ops_of("aten.linear") if weight_shape(facts, op) is not None]
    for op in linears:
        row, kind = facts.document.ops[op], facts.kind(op)
        parent = facts.document.calls[row.call].parent if row.call >= 0 and row.reads else None
        if parent is None or len(facts.flow.writers.get(row.reads[0], [])) > 1 or _is_expert(facts, op):
            continue
        has_bias = operand_type(kind, "bias") is not None
        groups.setdefault((parent, row.reads[0], kind.inputs[0].type, has_bias), []).append(op)
    factors = dict(facts.flow.pairs(linears, linears))
    return [[op for op in ops if not _is_adapter(facts, op, factors, ops)] for ops in groups.values()]


def _is_expert(facts: ModelFacts, op: int) -> bool:
    """Whether the op ran in an expert, which may read other rows in another pass."""
    return "experts" in facts.document.modules[facts.module(op)].path.split(".")


def _is_adapter(facts: ModelFacts, op: int, factors: dict[int, int], beside: list[int]) -> bool:
    """Whether `op` is the first factor of a low-rank pair that another layer of `beside` has the size of (LoRA)."""
    first, second = weight_shape(facts, op), weight_shape(facts, factors[op]) if op in factors else None
    if first is None or second is None or first[0] >= min(first[1], second[0]):
        return False
    return any(weight_shape(facts, other) == (second[0], first[1]) for other in beside if other != op)
