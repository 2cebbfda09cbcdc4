"""The cost of a model as rows: one per kind of op, one per module, and totals.

A sum covers only ops with known FLOPs; `unknown_ops` next to it counts the executions it does not cover.
"""

from __future__ import annotations

from msgspec import Struct, field

from assay.display import Displayed
from assay.document.provenance import Provenance


class KindCost(Struct, frozen=True, omit_defaults=True):
    """The cost of one execution of an `OpKind`; an unknown value is null, never zero."""

    macs: int | None
    """Multiply-accumulates of contractions; 0 if the op has none, null if unknown."""
    matrix_flops: int | None
    """FLOPs of matrix work: twice the MACs, or the op count of a transform such as FFT; null if unknown."""
    pointwise_flops: int | None
    """FLOPs of element-wise, reduction and normalisation work, including bias additions; null if unknown."""
    needed_flops: int | None
    """Matrix FLOPs that the result depends on (causal attention needs only the triangle); null if unknown."""
    read_parameters: int
    """Bytes of parameters and buffers read."""
    read_activations: int
    """Bytes of all other inputs read."""
    written: int
    """Bytes written."""
    category: str
    """The category of the op: `Convolution`, `Linear`, `Attention`, …"""
    unknown: str = ""
    """Why the FLOPs are unknown; empty if they are known."""

    @property
    def flops(self) -> int | None:
        """Matrix plus pointwise FLOPs; None if either is unknown."""
        if self.matrix_flops is None or self.pointwise_flops is None:
            return None
        return self.matrix_flops + self.pointwise_flops

    @property
    def bytes(self) -> int:
        """Bytes read plus bytes written."""
        return self.read_parameters + self.read_activations + self.written

    @property
    def intensity(self) -> float | None:
        """FLOPs per byte; None if the FLOPs are unknown or no bytes are moved."""
        flops = self.flops
        return flops / self.bytes if flops is not None and self.bytes else None


class CostTotals(Struct, frozen=True, omit_defaults=True):
    """Costs summed over executions of ops.

    Attributes:
        ops: Number of executions.
        unknown_ops: Executions with unknown FLOPs, which the sums do not include; 1 if no op was recorded, but some
            may run.
        macs: Multiply-accumulates.
        matrix_flops: FLOPs of matrix work.
        pointwise_flops: FLOPs of element-wise, reduction and normalisation work.
        needed_flops: Matrix FLOPs that the results depend on.
        read_parameters: Bytes of parameters and buffers read.
        read_activations: Bytes of all other inputs read.
        written: Bytes written.
    """

    ops: int = 0
    unknown_ops: int = 0
    macs: int = 0
    matrix_flops: int = 0
    pointwise_flops: int = 0
    needed_flops: int = 0
    read_parameters: int = 0
    read_activations: int = 0
    written: int = 0

    @property
    def known(self) -> bool:
        """Whether the FLOPs of at least one execution are known, or there were no executions."""
        return self.unknown_ops == 0 or self.unknown_ops < self.ops

    @property
    def recorded(self) -> bool:
        """Whether executions were recorded, or it is known that there were none; otherwise all sums are unknown."""
        return self.ops > 0 or self.unknown_ops == 0

    @property
    def flops(self) -> int | None:
        """Matrix plus pointwise FLOPs of the known executions; None if none is known."""
        return self.matrix_flops + self.pointwise_flops if self.known else None

    @property
    def bytes(self) -> int:
        """Bytes read plus bytes written."""
        return self.read_parameters + self.read_activations + self.written

    @property
    def intensity(self) -> float | None:
        """FLOPs per byte; None if the FLOPs are unknown or no bytes are moved."""
        flops = self.flops
        return flops / self.bytes if flops is not None and self.bytes else None


class ModuleCost(Struct, frozen=True, omit_defaults=True):
    """The cost of one module over all its calls."""

    own: CostTotals = field(name="self", default=CostTotals())
    """The module's own ops, without those of its submodules."""
    total: CostTotals = CostTotals()
    """All ops inside its calls, including those of its submodules."""
    backward: CostTotals | None = None
    """The backward ops of its own forward ops; null if no backward pass was recorded."""


class UnknownOp(Struct, frozen=True, omit_defaults=True):
    """An op without a cost formula."""

    target: str
    """The dispatcher's name: `mylib.op.default`."""
    why: str
    """Why the cost is unknown."""
    count: int
    """Number of executions."""


class Cost(Displayed, Struct, frozen=True, omit_defaults=True):
    """The cost of a document's forward pass, and of its backward pass if that was recorded.

    Attributes:
        kinds: The cost of one execution of each kind, in the order of `Document.kinds`.
        modules: The cost of each module in the forward pass, in the order of `Document.modules`.
        outside: Ops of the forward pass outside any module.
        forward: All ops of the forward pass.
        least: The forward pass without the ops whose cost is an upper bound (`Op.assumed`), so the true cost is
            between `least` and `forward`; null if there are none, or if the pass stopped.
        backward: All ops of the backward pass; null if it was not recorded.
        categories: Totals of the forward pass by category of op, largest first.
        unknown: Ops whose cost is unknown.
        convention: How the numbers are counted.
        partial: Whether the forward pass stopped midway, so that the totals cover only the ops before.
        columns: How the numbers were obtained, by the name of the field; it covers everything below.
    """

    kinds: list[KindCost] = field(default_factory=list)
    modules: list[ModuleCost] = field(default_factory=list)
    outside: CostTotals = CostTotals()
    forward: CostTotals = CostTotals()
    least: CostTotals | None = None
    backward: CostTotals | None = None
    categories: dict[str, CostTotals] = field(default_factory=dict)
    unknown: list[UnknownOp] = field(default_factory=list)
    convention: str = "1 MAC = 2 FLOPs; matrix and pointwise work counted separately; causal attention dense"
    partial: bool = False
    columns: dict[str, Provenance] = field(default_factory=dict)

    @property
    def coverage(self) -> float | None:
        """The share of ops with known cost, from 0 to 1; None if nothing ran or the pass stopped midway."""
        if self.partial:
            return None
        ops = self.forward.ops + (self.backward.ops if self.backward else 0)
        unknown = self.forward.unknown_ops + (self.backward.unknown_ops if self.backward else 0)
        return 1 - unknown / ops if ops else None
