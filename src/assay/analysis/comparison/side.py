"""One of the two compared documents, with what is derived from it on first use."""

from __future__ import annotations

from functools import cached_property

from assay.analysis.cost.totals import add_up, module_totals
from assay.analysis.memory import Memory, memory_of
from assay.analysis.parameters import Parameters, own_parameters, parameters, subtree_parameters
from assay.document import tree
from assay.document.cost import Cost, CostTotals
from assay.document.document import Document
from assay.document.rows import Call


class Side:
    """A document; it is never changed."""

    def __init__(self, document: Document) -> None:
        self.document = document

    @cached_property
    def cost(self) -> Cost:
        """The cost of the pass: the document's own, or computed if it has none."""
        return self.document.cost if self.document.cost is not None else add_up(self.document)

    @cached_property
    def memory(self) -> Memory:
        """The memory that the model needs."""
        return memory_of(self.document)

    @cached_property
    def counted(self) -> Parameters:
        """The parameters and buffers."""
        return parameters(self.document)

    @cached_property
    def module_costs(self) -> list[CostTotals]:
        """The cost of each module, submodules included."""
        return module_totals(self.document, self.cost)

    @cached_property
    def module_parameters(self) -> list[int | None]:
        """The number of parameters of each module, submodules included."""
        return [every for every, _ in subtree_parameters(self.document, own_parameters(self.document))]

    @cached_property
    def calls(self) -> list[list[Call]]:
        """The calls of each module."""
        calls: list[list[Call]] = [[] for _ in self.document.modules]
        for call in self.document.calls:
            calls[call.module].append(call)
        return calls

    @cached_property
    def children(self) -> list[list[int]]:
        """The child modules of each module."""
        return tree.children(self.document.modules)

    @cached_property
    def local_names(self) -> list[str]:
        """The name of each module inside the one around it."""
        modules = self.document.modules
        prefixes = ("" if each.parent is None else f"{modules[each.parent].path}." for each in modules)
        return [each.path.removeprefix(prefix.lstrip(".")) for each, prefix in zip(modules, prefixes, strict=True)]
