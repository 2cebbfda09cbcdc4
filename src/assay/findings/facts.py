"""What several rules ask of one document, worked out once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from assay.analysis.cost.totals import add_up
from assay.analysis.flow import DataFlow, ops_named
from assay.analysis.parameters import PARAMETER, Parameters, elements, parameters, storage_owners
from assay.document import tree
from assay.document.cost import Cost, KindCost
from assay.document.document import Document
from assay.document.provenance import Counted, Figure, Unknown
from assay.document.rows import OpKind

BY_FORMULA = Counted("the cost formulas, over the watched pass")
BY_TENSORS = Counted("the shapes and dtypes of parameters and buffers, tied ones once")
BY_PASS = Counted("the watched pass")


class ModelFacts:
    """A document and what follows from it; the document is never changed."""

    def __init__(self, document: Document) -> None:
        self.document = document

    @cached_property
    def cost(self) -> Cost:
        """What the pass costs."""
        return self.document.cost if self.document.cost is not None else add_up(self.document)

    @cached_property
    def flow(self) -> DataFlow:
        """Who makes and who reads each storage."""
        return DataFlow(self.document)

    @cached_property
    def parameters(self) -> Parameters:
        """What the model holds."""
        return parameters(self.document)

    @cached_property
    def below(self) -> list[list[int]]:
        """For each module its children."""
        return tree.children(self.document.modules)

    @cached_property
    def parameters_below(self) -> list[set[int]]:
        """For each module the parameters that it and what is below it hold."""
        tensors, modules = self.document.tensors, self.document.modules
        held = [{at for at in module.tensors.values() if tensors[at].role == PARAMETER} for module in modules]
        for index in range(len(held) - 1, -1, -1):
            parent = modules[index].parent
            if parent is not None:
                held[parent] |= held[index]
        return held

    @cached_property
    def executions(self) -> Counter[int]:
        """How often each kind ran."""
        return Counter(op.kind for op in self.document.ops)

    @cached_property
    def calls(self) -> Counter[int]:
        """How often each module was called."""
        return Counter(call.module for call in self.document.calls)

    @cached_property
    def held_storages(self) -> dict[int, int]:
        """The storage of each parameter and buffer by its index; empty where the document does not tell."""
        owners, told = storage_owners(self.document)
        if not told:
            return {}
        places = {index: place for place, index in enumerate(owners)}
        shared = [tensor.shares_storage_with for tensor in self.document.tensors]
        return {index: places[index if other is None else other] for index, other in enumerate(shared)}

    @property
    def bytes(self) -> int:
        """All bytes that the forward pass reads and writes."""
        return self.cost.forward.bytes

    def kind(self, op: int) -> OpKind:
        """What the operation with this index is."""
        return self.document.kinds[self.document.ops[op].kind]

    def kind_cost(self, op: int) -> KindCost:
        """What one execution of it costs."""
        return self.cost.kinds[self.document.ops[op].kind]

    def module(self, op: int) -> int:
        """The module it ran in."""
        return self.document.module_of(self.document.ops[op])

    def modules(self, ops: Iterable[int]) -> list[int]:
        """The modules that operations ran in, in the order of the model."""
        return sorted({self.module(op) for op in ops})

    def bytes_of(self, ops: Iterable[int]) -> int:
        """The bytes that operations read and write together."""
        return sum(self.kind_cost(op).bytes for op in ops)

    def flops_of(self, ops: Iterable[int]) -> int:
        """The FLOPs of operations together, as far as they are known."""
        return sum(self.kind_cost(op).flops or 0 for op in ops)

    def ops_of(self, *names: str) -> list[int]:
        """The operations with one of these names, whatever their overload: `ops_of("aten.relu")`."""
        return ops_named(self.document, *names)

    def is_shared(self, op: int) -> bool:
        """Whether its weight serves another operation too, so that it cannot be changed for this one alone."""
        weight = self.flow.operand(op, "weight")
        return weight is not None and len(self.flow.readers.get(weight, [])) > 1

    def elements_of(self, tensors: Iterable[int]) -> int:
        """The elements of tensors together, as far as they are known."""
        return sum(elements(self.document.tensors[index].type) or 0 for index in tensors)


def part(share: float, whole: float, how: Counted) -> Figure:
    """The share of one figure in another; unknown where there is no whole."""
    return Figure(share / whole, how) if whole else Figure(None, Unknown("there is nothing to be a share of"))
