"""What distinguishes one block of a model from another: the first words a person would use for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.analysis.module_differences import (
    call_differences,
    class_difference,
    joined,
    learning_difference,
    mode_difference,
    name_differences,
    setting_differences,
    tensor_differences,
)
from assay.document import tree
from assay.document.document import Document
from assay.document.rows import Call, Module, Tensor


class BlockComparer:
    """Compares blocks of one document."""

    def __init__(self, document: Document, calls: Sequence[Sequence[Call]]) -> None:
        self._document, self._calls = document, calls
        self._children = tree.children(document.modules)

    def difference(self, one: int, other: int) -> str:
        """The first difference of block `one` from `other`, and how many more there are: `mlp.act is GELU, not SiLU`.

        If only the modules that it shares with others differ, it is `not equal`.
        """
        found = list(dict.fromkeys(self._differences(one, other))) or ["not equal"]
        return found[0] + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")

    def _differences(self, one: int, other: int) -> Iterator[str]:
        learning: list[bool] = []
        pending = [("", one, other)]
        while pending:
            path, mine, theirs = pending.pop()
            module, typical = (self._document.modules[index] for index in (mine, theirs))
            if module.class_path != typical.class_path:
                yield class_difference(path, module, typical)
                continue
            inner, usual = self._named_children(mine), self._named_children(theirs)
            if module.training != typical.training:
                yield mode_difference(module)
            yield from name_differences(path, inner, usual)
            yield from tensor_differences(path, self._tensors(module), self._tensors(typical), learning)
            yield from setting_differences(path, module, typical)
            yield from call_differences(path, self._calls[mine], self._calls[theirs])
            shared = [(joined(path, name), inner[name], usual[name]) for name in inner if name in usual]
            pending += reversed(shared)
        yield from learning_difference(learning)

    def _named_children(self, index: int) -> dict[str, int]:
        modules = self._document.modules
        return {modules[child].path.rpartition(".")[2]: child for child in self._children[index]}

    def _tensors(self, module: Module) -> dict[str, Tensor]:
        return {name: self._document.tensors[index] for name, index in module.tensors.items()}
