"""The roofline: the shortest time each op can take on a device, from its FLOPs and its bytes.

An execution takes at least as long as its needed matrix FLOPs at the matrix peak, its pointwise FLOPs at the fp32
vector peak, and its bytes at the memory bandwidth. At best these overlap, so the bound is the largest of the three.
The bound of a pass is the sum over its executions, one after another. Real kernels take longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from assay.analysis.cost import cost_of
from assay.analysis.cost.categories import CONVOLUTION, RECURRENT
from assay.analysis.cost.reading import is_ragged, numel
from assay.analysis.devices import Device
from assay.display import Displayed
from assay.document.cost import KindCost
from assay.document.document import Document
from assay.document.dtypes import BITS
from assay.document.provenance import Coverage, Modelled
from assay.document.rows import OpKind, TensorType

COMPUTE, MEMORY, NOTHING, UNKNOWN = "compute", "memory", "nothing", "unknown"
"""The bottleneck of an op; `nothing` if it neither computes nor moves data."""

_PRECISIONS = {
    "float64": "fp64", "complex128": "fp64",
    "float32": "fp32", "complex64": "fp32",
    "bfloat16": "bf16", "float16": "fp16", "complex32": "fp16",
    "float8_e4m3fn": "fp8", "float8_e4m3fnuz": "fp8", "float8_e5m2": "fp8", "float8_e5m2fnuz": "fp8",
    "float4_e2m1fn_x2": "fp8",
    "int8": "int8", "uint8": "int8", "qint8": "int8", "quint8": "int8",
}  # fmt: skip
"""The peak that applies to each dtype; fp32 applies to any other."""

_FALLBACKS = {
    "fp64": ("fp64", "fp32", "tf32", "bf16", "fp16"),
    "fp32": ("fp32", "fp64", "tf32", "bf16", "fp16"),
    "tf32": ("tf32", "fp32", "bf16", "fp16"),
    "bf16": ("bf16", "fp32", "tf32", "fp16"),
    "fp16": ("fp16", "bf16", "fp32", "tf32"),
    "fp8": ("fp8", "bf16", "fp16", "fp32"),
    "int8": ("int8", "fp8", "bf16", "fp16", "fp32"),
}
"""Peaks to use if a device lacks one: first the likely replacement, then narrower types, which are no slower."""


class KindBound(Struct, frozen=True, omit_defaults=True):
    """The bound of one kind of op; times are per execution."""

    kind: int
    name: str
    shapes: tuple[tuple[int, ...], ...]
    """Shapes of its inputs."""
    count: int
    """Executions."""
    by: str
    """`compute`, `memory`, `nothing` or `unknown`."""
    precision: str | None = None
    """The peak used for its matrix FLOPs; None if it has none."""
    flops: int | None = None
    bytes: int | None = None
    compute_s: float | None = None
    memory_s: float | None = None
    why: str = ""
    """The reason if the bound is unknown."""

    @property
    def seconds(self) -> float | None:
        """The bound of one execution."""
        return None if self.compute_s is None or self.memory_s is None else max(self.compute_s, self.memory_s)

    @property
    def total_s(self) -> float | None:
        """The bound of all its executions."""
        return None if self.seconds is None else self.seconds * self.count


class Roofline(Displayed, Struct, frozen=True, omit_defaults=True):
    """The shortest time a pass can take on a device.

    Attributes:
        device: Name of the device.
        bound_s: Sum over the executions of known cost; None if there are none.
        by: The same seconds by bottleneck.
        coverage: How many executions the sum includes.
        ridge: FLOPs per byte above which matrix ops are compute-bound, by precision.
        kinds: The bound of each kind of op.
        how: Source of the peaks, and the assumptions.
        partial: Whether a requested pass stopped midway, so that the sum covers only the ops before.
    """

    device: str
    bound_s: float | None
    by: dict[str, float]
    coverage: Coverage
    ridge: dict[str, float]
    kinds: list[KindBound]
    how: Modelled
    partial: bool = False


def roofline_of(document: Document, device: Device, *, training: bool = False) -> Roofline:
    """The bound of the document's forward pass, or of its training step, on `device`.

    float32 matrix products use the fp32 peak, float32 convolutions and recurrent layers the tf32 peak, which is
    torch's default.
    """
    step = document.training if training else None
    if step is not None:
        kinds, ops, costs = step.kinds, step.ops, [cost_of(kind) for kind in step.kinds]
    else:
        kinds, ops = document.kinds, document.ops
        costs = document.cost.kinds if document.cost is not None else [cost_of(kind) for kind in kinds]
    counts = Counter(op.kind for op in ops)
    rows = [_bound(index, kinds[index], costs[index], counts[index], device) for index in sorted(counts)]
    known = [(row.by, row.total_s) for row in rows if row.total_s is not None]
    is_empty = not rows and document.recorded and document.complete
    return Roofline(
        device=device.name,
        bound_s=sum(seconds for _, seconds in known) if known or is_empty else None,
        by={name: sum(seconds for by, seconds in known if by == name) for name in (COMPUTE, MEMORY)},
        coverage=_coverage(rows),
        ridge=_ridges(device),
        kinds=rows,
        how=_provenance(device),
        partial=document.stopped,
    )


def _bound(index: int, kind: OpKind, cost: KindCost, count: int, device: Device) -> KindBound:
    shapes = tuple(one.type.shape for one in kind.inputs)
    unknown = KindBound(index, kind.name, shapes, count, UNKNOWN, bytes=cost.bytes, flops=cost.flops)
    if cost.matrix_flops is None or cost.pointwise_flops is None:
        return replace(unknown, why=cost.unknown or "its cost is unknown")
    if device.bandwidth is None:
        return replace(unknown, why=f"the bandwidth of {device.name} is unknown")
    # Kernels may skip FLOPs that no result depends on, so only the needed ones are certain to take time.
    needed = cost.matrix_flops if cost.needed_flops is None else cost.needed_flops
    precision = _available(_precision(kind, cost.category), device) if needed else None
    peak = device.peak(precision) if precision is not None else None
    if needed and peak is None:
        return replace(unknown, why=f"the peak FLOP/s of {device.name} are unknown")
    matrix_s = needed / peak if peak else 0.0
    vector = device.peak("fp32")
    # Without a vector peak, pointwise FLOPs are ignored; the result is still a lower bound.
    compute_s = max(matrix_s, cost.pointwise_flops / vector if vector else 0.0)
    memory_s = cost.bytes / device.bandwidth
    by = COMPUTE if compute_s > memory_s else MEMORY if memory_s else NOTHING
    return replace(unknown, by=by, precision=precision, compute_s=compute_s, memory_s=memory_s)


def _precision(kind: OpKind, category: str) -> str:
    """The peak that applies to the largest floating-point operand, or to the largest operand if none is floating."""
    operands = [one.type for one in kind.inputs if not is_ragged(one.type)]
    floating = [one for one in operands if one.dtype.startswith(("float", "bfloat", "complex"))]
    largest = max(floating or operands, key=_size_order, default=None)
    precision = _PRECISIONS.get(largest.dtype, "fp32") if largest is not None else "fp32"
    return "tf32" if precision == "fp32" and _uses_cudnn(kind, category) else precision


def _uses_cudnn(kind: OpKind, category: str) -> bool:
    """Whether cuDNN computes it, in tf32 by default; cells of recurrent layers are plain products."""
    return category == CONVOLUTION or (category == RECURRENT and "cell" not in kind.target)


def _size_order(tensor: TensorType) -> tuple[int, int]:
    return numel(tensor), -BITS.get(tensor.dtype, 32)


def _available(precision: str, device: Device) -> str | None:
    return next((name for name in _FALLBACKS[precision] if name in device.tflops), None)


def _ridges(device: Device) -> dict[str, float]:
    if not device.bandwidth:
        return {}
    return {name: tera * 1e12 / device.bandwidth for name, tera in device.tflops.items()}


def _coverage(rows: Sequence[KindBound]) -> Coverage:
    unknown = [row for row in rows if row.by == UNKNOWN]
    total = sum(row.count for row in rows)
    names = tuple(dict.fromkeys(row.name for row in unknown))
    return Coverage(total - sum(row.count for row in unknown), total, names)


def _provenance(device: Device) -> Modelled:
    return Modelled(
        by=f"roofline with peaks from {device.source}",
        assumptions=(
            "dense peaks and full bandwidth: a lower bound, real kernels take longer",
            "causal attention computes only visible pairs; convolutions are direct",
            "ops run one after another and nothing stays in a cache between them",
            "float32 products use fp32, float32 convolutions and recurrent layers tf32 (torch's default)",
        ),
    )
