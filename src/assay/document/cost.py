"""What a model costs, as rows: one for each kind of operation, one for each module, and the totals.

A sum covers what is known; `unknown_ops` beside it says how many executions it does not cover.
"""

from __future__ import annotations

from msgspec import Struct, field


class KindCost(Struct, frozen=True, omit_defaults=True):
    """The cost of one execution of an `OpKind`; None is a figure nobody knows, never zero."""

    macs: int | None
    """Multiply-accumulates of contractions; 0 where there are known to be none."""
    matrix_flops: int | None
    """FLOPs of matrix work: twice the MACs, or a transform's own figure."""
    pointwise_flops: int | None
    """Element-wise, reduction and normalisation work, bias adds included."""
    needed_flops: int | None
    """The matrix FLOPs that the result depends on: causal attention needs only its triangle."""
    read_parameters: int
    """Bytes of parameters and buffers read."""
    read_activations: int
    """Bytes of all other inputs read."""
    written: int
    """Bytes written."""
    category: str
    """Its type of operation: `Convolution`, `Linear`, `Attention`, …"""
    unknown: str = ""
    """Why there is no figure, where `macs` is None."""

    @property
    def flops(self) -> int | None:
        """Matrix and pointwise FLOPs together; None where either is unknown."""
        if self.matrix_flops is None or self.pointwise_flops is None:
            return None
        return self.matrix_flops + self.pointwise_flops

    @property
    def bytes(self) -> int:
        """All bytes read and written."""
        return self.read_parameters + self.read_activations + self.written

    @property
    def intensity(self) -> float | None:
        """FLOPs per byte; None where the FLOPs are unknown or nothing is moved."""
        flops = self.flops
        return flops / self.bytes if flops is not None and self.bytes else None


class CostTotals(Struct, frozen=True, omit_defaults=True):
    """A sum over executions of operations."""

    ops: int = 0
    """How many executions it covers."""
    unknown_ops: int = 0
    """How many have no FLOP figure; the sums below leave them out. One where a pass stopped before anything ran."""
    macs: int = 0
    matrix_flops: int = 0
    pointwise_flops: int = 0
    needed_flops: int = 0
    read_parameters: int = 0
    read_activations: int = 0
    written: int = 0

    @property
    def known(self) -> bool:
        """Whether any FLOP figure stands behind the sums; a sum of unknowns is unknown."""
        return self.unknown_ops == 0 or self.unknown_ops < self.ops

    @property
    def flops(self) -> int | None:
        """Matrix and pointwise FLOPs of what is known; None where nothing is."""
        return self.matrix_flops + self.pointwise_flops if self.known else None

    @property
    def bytes(self) -> int:
        """All bytes read and written."""
        return self.read_parameters + self.read_activations + self.written

    @property
    def intensity(self) -> float | None:
        """FLOPs per byte, where both are known."""
        flops = self.flops
        return flops / self.bytes if flops is not None and self.bytes else None


class ModuleCost(Struct, frozen=True, omit_defaults=True):
    """What one module costs over all its calls."""

    own: CostTotals = field(name="self", default=CostTotals())
    """Its own operations, without those of its submodules."""
    total: CostTotals = CostTotals()
    """Everything that happens inside its calls."""
    backward: CostTotals | None = None
    """Its own operations' share of the backward pass, where that was watched."""


class UnknownOp(Struct, frozen=True, omit_defaults=True):
    """An operation without a formula."""

    target: str
    why: str
    count: int


class Cost(Struct, frozen=True, omit_defaults=True):
    """The cost of a document's forward pass, and of its backward pass where that was watched."""

    kinds: list[KindCost] = field(default_factory=list)
    """In the order of `Document.kinds`."""
    modules: list[ModuleCost] = field(default_factory=list)
    """In the order of `Document.modules`; the forward pass."""
    outside: CostTotals = CostTotals()
    """Operations of the forward pass outside any module."""
    forward: CostTotals = CostTotals()
    backward: CostTotals | None = None
    categories: dict[str, CostTotals] = field(default_factory=dict)
    """By type of operation, the forward pass, largest first."""
    unknown: list[UnknownOp] = field(default_factory=list)
    convention: str = "1 MAC = 2 FLOPs; matrix work and pointwise work apart; causal attention dense"

    @property
    def coverage(self) -> float | None:
        """The share of executed operations that have a formula; None where nothing ran."""
        ops = self.forward.ops + (self.backward.ops if self.backward else 0)
        unknown = self.forward.unknown_ops + (self.backward.unknown_ops if self.backward else 0)
        return 1 - unknown / ops if ops else None
