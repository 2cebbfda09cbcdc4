"""Rules about float32 products that this machine computes faster in another precision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay import units
from assay.analysis.cost.categories import ATTENTION, CONVOLUTION, LINEAR, MATMUL
from assay.document.findings import Gain
from assay.document.provenance import Figure, Modelled, Unknown
from assay.findings.catalogue import rule
from assay.findings.facts import BY_FORMULA, ModelFacts, share_of
from assay.findings.gains import kernel_gain, time_gain
from assay.findings.needs import WHOLE_PASS
from assay.findings.rule import RuleMatch, in_ops
from assay.messages import plural

MIN_SPEEDUP = 1.1
"""Peaks that differ by less are no reason to lose precision."""
MIN_FLOPS = 1_000_000
"""FLOPs below which the precision of a pass does not matter."""
MIN_UNMEASURED_FLOPS = 1_000_000_000
"""The same for a machine whose peaks are unknown."""
_PRODUCTS = (LINEAR, MATMUL, CONVOLUTION, ATTENTION)
_NAMES = {"bf16": "bfloat16", "fp16": "float16", "tf32": "TF32", "fp32": "float32"}


@rule(
    "C211",
    "advice",
    "float32 matrix products that a 16-bit dtype would speed up",
    advice="Run the model under torch.autocast, which keeps float32 weights, or convert it with .to(torch.bfloat16). "
    "Results change from the third digit on: compare the outputs on your data, and use bfloat16 rather than float16 "
    "if values may exceed 65,504.",
    needs=(WHOLE_PASS,),
)
def wide_products(facts: ModelFacts) -> Iterator[RuleMatch]:
    """float32 products on a machine whose peak in a 16-bit dtype is higher, or is unknown."""
    yield from _slow_products(facts, _float32_products(facts), ("bf16", "fp16"))


@rule(
    "C212",
    "advice",
    "float32 matrix products on an NVIDIA GPU without TF32",
    advice="Call torch.set_float32_matmul_precision('high'), and set torch.backends.cudnn.allow_tf32 = True for "
    "convolutions: tensor cores then compute float32 products with 10 bits of mantissa. Keep full precision for "
    "numerically delicate work.",
    needs=(WHOLE_PASS,),
)
def without_tf32(facts: ModelFacts) -> Iterator[RuleMatch]:
    """float32 products on a CUDA device whose settings rule out TF32."""
    if facts.document.machine.device.startswith("cuda"):
        ops = [op for op in _float32_products(facts) if not _may_use_tf32(facts, op)]
        yield from _slow_products(facts, [op for op in ops if facts.kind_cost(op).category != ATTENTION], ("tf32",))


def _float32_products(facts: ModelFacts) -> list[int]:
    """The ops with matrix FLOPs whose floating-point operands are all float32."""
    kinds = {
        index
        for index, kind in enumerate(facts.document.kinds)
        if facts.cost.kinds[index].category in _PRODUCTS
        and facts.cost.kinds[index].matrix_flops
        and {one.type.dtype for one in kind.inputs if one.type.dtype.startswith(("float", "bfloat"))} == {"float32"}
    }
    return [index for index, op in enumerate(facts.document.ops) if op.kind in kinds]


def _may_use_tf32(facts: ModelFacts, op: int) -> bool:
    """Whether torch's settings let tensor cores compute the op in TF32; unknown settings count as yes."""
    machine = facts.document.machine
    if facts.kind_cost(op).category == CONVOLUTION:
        return machine.cudnn_tf32 is not False
    return machine.matmul_precision != "highest"


def _slow_products(facts: ModelFacts, ops: Sequence[int], faster: Sequence[str]) -> Iterator[RuleMatch]:
    """A match for `ops` if the machine has a higher peak in one of the precisions `faster`, or was not measured."""
    flops, whole = facts.flops_of(ops), facts.cost.forward.flops or 0
    best = _best(facts, ops, faster)
    if flops < (MIN_UNMEASURED_FLOPS if facts.device is None else MIN_FLOPS) or (facts.device and best is None):
        return
    title = f"{plural(len(ops), 'matrix product')} with {units.share(flops, whole)} of the FLOPs in float32"
    if best is not None and facts.device is not None:
        now, then = facts.device.tflops[_current(facts, ops[0])], facts.device.tflops[best]
        title += f"; the peak of {_NAMES[best]} is {units.ratio(then / now)} times as high here"
    evidence = {
        "products": Figure(len(ops), BY_FORMULA),
        "share_of_flops": share_of(flops, whole, BY_FORMULA),
        "share_of_time": facts.time_share(ops),
    }
    match = in_ops(facts, ops, title, evidence, _gain(facts, ops, best))
    is_guess = best is None and not facts.on_accelerator
    yield RuleMatch(match.title, evidence, match.modules, gain=match.gain, severity="note" if is_guess else "")


def _current(facts: ModelFacts, op: int) -> str:
    """The precision in which the op runs: `tf32` if it is allowed and the machine has it, else `fp32`."""
    has_tf32 = facts.device is not None and "tf32" in facts.device.tflops
    return "tf32" if has_tf32 and _may_use_tf32(facts, op) else "fp32"


def _best(facts: ModelFacts, ops: Sequence[int], names: Sequence[str]) -> str | None:
    """The first of the precisions whose measured peak is clearly above the current one; None if there is none."""
    peaks = facts.device.tflops if facts.device is not None else {}
    now = peaks.get(_current(facts, ops[0])) if ops else None
    return next((name for name in names if now and peaks.get(name, 0.0) >= MIN_SPEEDUP * now), None)


def _gain(facts: ModelFacts, ops: Sequence[int], best: str | None) -> Gain:
    """What the faster precision saves of the time that the arithmetic of the ops takes."""
    if best is None or facts.device is None:
        return time_gain(facts, Figure(None, Unknown("this machine was not measured (`assay machine`)")))
    peaks = facts.device.tflops
    saved = 0.0
    for op in ops:
        took, now = facts.time_of([op]), peaks[_current(facts, op)]
        if took.value is None:
            return time_gain(facts, took)
        arithmetic_s = (facts.kind_cost(op).matrix_flops or 0) / (now * 1e12)
        saved += min(took.value, arithmetic_s) * max(1 - now / peaks[best], 0.0)
    how = Modelled(
        f"time that the arithmetic of the products takes at the peak, less that in {_NAMES[best]}, with the peaks of "
        f"{facts.device.source}",
        ("what a product takes beyond its arithmetic stays the same", "casts take no time"),
    )
    return kernel_gain(facts, Figure(saved, how))
