"""The rule about the memory layout of images: channels first or channels last."""

from __future__ import annotations

from collections.abc import Iterator

from assay import units
from assay.analysis.achieved import achieved_rates
from assay.analysis.cost.categories import CONVOLUTION, NORMALIZATION, POOLING, RESAMPLING
from assay.document.provenance import Figure
from assay.document.rows import OpKind, TensorType
from assay.findings.catalogue import rule
from assay.findings.facts import BY_FORMULA, ModelFacts, share_of
from assay.findings.gains import above_limits
from assay.findings.needs import WHOLE_PASS
from assay.findings.rule import RuleMatch
from assay.messages import plural

MIN_SHARE = 0.5
"""The share of the FLOPs or of the measured time from which a model counts as convolutional."""
MIN_FLOPS = 50_000_000
"""FLOPs of convolutions below which a conversion of the layout is not worth a change."""
_LAST_DIMENSION = ("layer_norm", "rms_norm")
"""Normalisation over the last dimension, where channels are last already."""
_AFFECTED = (CONVOLUTION, POOLING, NORMALIZATION, RESAMPLING)


@rule(
    "C210",
    "advice",
    "convolutions in channels-first layout",
    advice="Convert model and inputs with .to(memory_format=torch.channels_last) (channels_last_3d for volumes): "
    "many convolution and pooling kernels are written for that layout. Measure the whole "
    "model, because views and reshapes may convert back.",
    needs=(WHOLE_PASS,),
)
def channels_first(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Convolutional models none of whose images is in channels-last layout."""
    ops = channels_first_ops(facts)
    convolutions = [op for op in ops if facts.kind_cost(op).category == CONVOLUTION]
    flops, whole = facts.flops_of(convolutions), facts.cost.forward.flops or 0
    time = facts.time_share(ops)
    share = flops / whole if time.value is None and whole else time.value or 0.0
    if flops < MIN_FLOPS or share < MIN_SHARE:
        return
    gain = above_limits(facts, ops)
    worst = _worst(facts, ops)
    title = f"{plural(len(convolutions), 'convolution')} on images in channels-first layout" + worst
    evidence = {
        "convolutions": Figure(len(convolutions), BY_FORMULA),
        "share_of_flops": share_of(flops, whole, BY_FORMULA),
        "share_of_time": time,
    }
    # Without times there is no sign that the layout costs anything on this machine.
    severity = "note" if gain.share.value is None and not facts.on_accelerator else ""
    yield RuleMatch(title, evidence, facts.modules(convolutions), gain=gain, severity=severity)


def channels_first_ops(facts: ModelFacts) -> list[int]:
    """Convolutions, pooling, normalisation and resampling of images, if no image is in channels-last layout."""
    images = {
        index: image
        for index, kind in enumerate(facts.document.kinds)
        if facts.cost.kinds[index].category in _AFFECTED and facts.executions[index] and (image := _image(kind))
    }
    if any(map(_is_channels_last, images.values())):
        return []
    return [index for index, op in enumerate(facts.document.ops) if op.kind in images]


def _image(kind: OpKind) -> TensorType | None:
    """The floating-point image or volume that the op reads, if its layout matters; else None."""
    first = kind.inputs[0].type if kind.inputs else None
    if first is None or len(first.shape) not in (4, 5) or not first.dtype.startswith(("float", "bfloat")):
        return None
    if any(name in kind.target for name in _LAST_DIMENSION):
        return None
    channels, *space = first.shape[1:]
    return first if channels > 1 and max(space) > 1 else None


def _is_channels_last(image: TensorType) -> bool:
    return image.strides is not None and image.strides[1] == 1


def _worst(facts: ModelFacts, ops: list[int]) -> str:
    """The kind of op that is furthest above its limits, as the end of a title; empty if nothing was measured."""
    kinds = {facts.document.ops[op].kind for op in ops}
    rows = [row for row in achieved_rates(facts.document, facts.device) if row.kind in kinds]
    ratios = [(row.time_s / row.roof_s, row.name) for row in rows if row.time_s and row.roof_s]
    if not ratios:
        return ""
    ratio, name = max(ratios)
    return f"; {name} takes {units.ratio(ratio)} times as long as the limits of this machine allow"
