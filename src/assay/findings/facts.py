"""Values derived from a document that several rules use, each computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property

from assay.analysis.cost.totals import add_up
from assay.analysis.flow import DataFlow, ops_named, ops_where
from assay.analysis.parameters import PARAMETER, Parameters, elements, parameters, tensor_storages
from assay.analysis.training_mode import left_in_training
from assay.document import tree
from assay.document.cost import Cost, KindCost
from assay.document.document import Document
from assay.document.provenance import Counted, Figure, Unknown
from assay.document.rows import OpKind

BY_FORMULA = Counted("cost formulas applied to the recorded pass")
BY_TENSORS = Counted("shapes and dtypes of parameters and buffers, tied tensors counted once")
BY_MODE = Counted("the mode of each module before the pass")
BY_PASS = Counted("ops and calls of the recorded pass")


class ModelFacts:
    """A document with values derived from it on first use; the document is never changed."""

    def __init__(self, document: Document) -> None:
        self.document = document

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
