"""Values derived from a document that several rules use, each computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property

from assay.analysis import model_figures
from assay.analysis.cost.totals import add_up
from assay.analysis.devices import Device
from assay.analysis.flow import DataFlow, ops_named, ops_where
from assay.analysis.parameters import Parameters, elements, parameters, tensor_storages
from assay.analysis.roofline import MEMORY, KindBound, Roofline, roofline_of
from assay.analysis.stored_tensors import rows_of_model
from assay.analysis.training_mode import left_in_training
from assay.document import tree
from assay.document.cost import Cost, KindCost
from assay.document.document import Document
from assay.document.provenance import Counted, Figure, Measured, Unknown
from assay.document.roles import PARAMETER
from assay.document.rows import OpKind
from assay.document.weights import TensorStatistics

BY_FORMULA, BY_TENSORS = model_figures.BY_FORMULA, model_figures.BY_TENSORS
BY_MODE = Counted("the mode of each module before the pass")
BY_PASS = Counted("ops and calls of the recorded pass")
BY_CLOCK = "clock of the passes"


class ModelFacts:
    """A document with values derived from it on first use; the document is never changed.

    `device` is the machine on which the document was measured, with its limits; None if they are unknown.
    """

    def __init__(self, document: Document, device: Device | None = None) -> None:
        self.document, self.device = document, device

    @cached_property
    def cost(self) -> Cost:
        """The cost of the pass: the document's own, or computed if it has none."""
        return self.document.cost if self.document.cost is not None else add_up(self.document)

    @cached_property
    def flow(self) -> DataFlow:
        """The ops that write and read each storage."""
        return DataFlow(self.document)

    @cached_property
    def parameters(self) -> Parameters:
        """The model's parameters, counted and summed up."""
        return parameters(self.document)

    @property
    def parameter_bytes(self) -> int:
        """Bytes of the model's parameters; 0 if they are unknown, which no rule reports."""
        return self.parameters.bytes or 0

    @cached_property
    def stored(self) -> list[TensorStatistics]:
        """The stored tensors of the model."""
        return rows_of_model(self.document)

    @cached_property
    def children(self) -> list[list[int]]:
        """The child modules of each module."""
        return tree.children(self.document.modules)

    @cached_property
    def parameters_below(self) -> list[set[int]]:
        """The parameters of each module, including those of its submodules."""
        tensors, modules = self.document.tensors, self.document.modules
        result = [{at for at in module.tensors.values() if tensors[at].role == PARAMETER} for module in modules]
        for index in range(len(result) - 1, -1, -1):
            parent = modules[index].parent
            if parent is not None:
                result[parent] |= result[index]
        return result

    @cached_property
    def executions(self) -> Counter[int]:
        """The number of executions of each kind of op."""
        return Counter(op.kind for op in self.document.ops)

    @cached_property
    def calls(self) -> Counter[int]:
        """The number of calls of each module."""
        return Counter(call.module for call in self.document.calls)

    @cached_property
    def tensor_storages(self) -> dict[int, int]:
        """The storage index of each parameter and buffer, by tensor index; empty if the document does not have it."""
        return tensor_storages(self.document)

    @cached_property
    def left_in_training(self) -> frozenset[int]:
        """The modules in training mode inside a model that is in evaluation mode."""
        return frozenset(left_in_training(self.document))

    @property
    def bytes(self) -> int:
        """The bytes that the forward pass reads and writes."""
        return self.cost.forward.bytes

    @property
    def on_accelerator(self) -> bool:
        """Whether the pass ran on an accelerator, which computes while Python goes on."""
        return self.document.machine.device.partition(":")[0] not in ("", "none", "cpu")

    @property
    def measured(self) -> bool:
        """Whether the ops of the pass were timed."""
        profile = self.document.profile
        return profile is not None and any(kind is not None and kind.share is not None for kind in profile.kinds)

    @property
    def pass_time(self) -> Figure:
        """Seconds of the pass; unknown if it was not timed."""
        profile = self.document.profile
        return profile.whole if profile is not None else Figure(None, Unknown("the pass was not timed"))

    def time_of(self, ops: Iterable[int] | None) -> Figure:
        """Seconds of these ops in one pass (None: of all ops): measured, else from the roofline, else unknown."""
        chosen = range(len(self.document.ops)) if ops is None else list(ops)
        if not self.measured:
            return self.roofline_of(chosen)
        seconds = [self._op_seconds[op] for op in chosen]
        known = [each for each in seconds if each is not None]
        if len(known) < len(seconds):
            return Figure(None, Unknown("the machine was too busy, or some of the ops were not timed"))
        return Figure(sum(known), Measured(BY_CLOCK, self.document.profile.passes if self.document.profile else 1))

    def time_share(self, ops: Iterable[int]) -> Figure:
        """The share of these ops in the measured pass; if times were withheld, in the time of all ops."""
        profile = self.document.profile
        if profile is None or not self.measured:
            return Figure(None, Unknown("the pass was not timed"))
        times = [profile.kinds[self.document.ops[op].kind] for op in ops]
        whole = profile.whole.value
        shares = [
            each.total_s / whole / each.count if whole and each.total_s is not None else each.share / each.count
            for each in times
            if each is not None and each.share is not None
        ]
        if len(shares) < len(times):
            return Figure(None, Unknown("some of the ops were not timed"))
        return Figure(sum(shares), Measured(BY_CLOCK, profile.passes))

    def kernels_of(self, ops: Iterable[int] | None) -> float:
        """Kernels that these ops (None: all ops) launch in one pass on an accelerator; 0 if unknown."""
        profile = self.document.profile
        rows = profile.kinds if profile is not None else []
        each = [row.kernels / row.count if row is not None and row.kernels is not None else 0.0 for row in rows]
        chosen = self.document.ops if ops is None else [self.document.ops[op] for op in ops]
        return sum(each[op.kind] for op in chosen if op.kind < len(each))

    def roofline_of(self, ops: Iterable[int] | None) -> Figure:
        """The shortest time in seconds that these ops (None: all ops) can take within the limits of the machine."""
        if self._roofline is None:
            return Figure(
                None, Unknown("not timed, and the limits of this machine were not measured (`assay machine`)")
            )
        chosen = range(len(self.document.ops)) if ops is None else ops
        bounds = [self._bounds.get(self.document.ops[op].kind) for op in chosen]
        known = [bound.seconds for bound in bounds if bound is not None and bound.seconds is not None]
        if len(known) < len(bounds):
            return Figure(None, Unknown("the FLOPs or bytes of some ops are unknown"))
        return Figure(sum(known), self._roofline.how)

    @cached_property
    def _op_seconds(self) -> list[float | None]:
        """Seconds of each op; the mean of its kind if only kinds were timed, None if unknown."""
        profile, ops = self.document.profile, self.document.ops
        if profile is None:
            return [None] * len(ops)
        if len(profile.ops) == len(ops):
            return profile.ops
        kinds = [kind.time_s if kind is not None else None for kind in profile.kinds]
        return [kinds[op.kind] if op.kind < len(kinds) else None for op in ops]

    @cached_property
    def _roofline(self) -> Roofline | None:
        """The roofline of the pass; None without a device."""
        return None if self.device is None else roofline_of(self.document, self.device)

    @cached_property
    def _bounds(self) -> dict[int, KindBound]:
        """The roofline of each kind; empty without a device."""
        return {} if self._roofline is None else {row.kind: row for row in self._roofline.kinds}

    def is_memory_bound(self, op: int) -> bool:
        """Whether the memory bandwidth of the machine limits the op; False if its limits are unknown."""
        bound = self._bounds.get(self.document.ops[op].kind)
        return bound is not None and bound.by == MEMORY

    def kind(self, op: int) -> OpKind:
        """The kind of the op with this index."""
        return self.document.kinds[self.document.ops[op].kind]

    def kind_cost(self, op: int) -> KindCost:
        """The cost of one execution of the op with this index."""
        return self.cost.kinds[self.document.ops[op].kind]

    def module(self, op: int) -> int:
        """The index of the module in which the op ran."""
        return self.document.module_of(self.document.ops[op])

    def modules(self, ops: Iterable[int]) -> list[int]:
        """The modules in which the ops ran, in model order."""
        return sorted({self.module(op) for op in ops})

    def bytes_of(self, ops: Iterable[int]) -> int:
        """The total bytes that the ops read and write."""
        return sum(self.kind_cost(op).bytes for op in ops)

    def flops_of(self, ops: Iterable[int]) -> int:
        """The total FLOPs of the ops; ops with unknown FLOPs count as zero."""
        return sum(self.kind_cost(op).flops or 0 for op in ops)

    def ops_of(self, *names: str) -> list[int]:
        """The ops with one of these names, in any overload: `ops_of("aten.relu")`."""
        return ops_named(self.document, *names)

    def ops_where(self, condition: Callable[[OpKind], bool]) -> list[int]:
        """The ops whose kind meets `condition`."""
        return ops_where(self.document, condition)

    def is_shared(self, op: int) -> bool:
        """Whether other ops read the op's weight too, so that it cannot be changed for this op only."""
        weight = self.flow.operand(op, "weight")
        return weight is not None and len(self.flow.readers.get(weight, [])) > 1

    def elements_of(self, tensors: Iterable[int]) -> int:
        """The total elements of the tensors; tensors of unknown size count as zero."""
        return sum(elements(self.document.tensors[index].type) or 0 for index in tensors)


def share_of(part: float, whole: float, how: Counted) -> Figure:
    """`part` divided by `whole`; unknown if `whole` is zero."""
    return Figure(part / whole, how) if whole else Figure(None, Unknown("the total is zero"))
