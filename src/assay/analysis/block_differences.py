"""What distinguishes one block of a model from another: the first words a person would use for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay import units
from assay.analysis.training_mode import mode_name
from assay.document import tree
from assay.document.document import Document
from assay.document.rows import Call, Module
from assay.messages import plural

_LONGEST_VALUE = 20
"""Settings with longer values are named without them."""


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
                yield f"{path or 'class'} is {module.class_name}, not {typical.class_name}"
                continue
            inner, usual = self._named_children(mine), self._named_children(theirs)
            if module.training != typical.training:
                yield f"in {mode_name(module.training)} mode"
            yield from _extra(path, inner, usual)
            yield from self._of_tensors(path, module, typical, learning)
            yield from _of_settings(path, module, typical)
            yield from self._of_calls(path, mine, theirs)
            shared = [(_joined(path, name), inner[name], usual[name]) for name in inner if name in usual]
            pending += reversed(shared)
        if learning:
            number = "" if len(learning) > 1 else "one parameter "
            yield f"{number}{'trainable' if learning[0] else 'frozen'}"

    def _named_children(self, index: int) -> dict[str, int]:
        modules = self._document.modules
        return {modules[child].path.rpartition(".")[2]: child for child in self._children[index]}

    def _of_tensors(self, path: str, module: Module, typical: Module, learning: list[bool]) -> Iterator[str]:
        """Differences between the tensors; `learning` collects those that only one block trains."""
        yield from _extra(path, module.tensors, typical.tensors)
        for name in [name for name in module.tensors if name in typical.tensors]:
            mine, usual = (self._document.tensors[each.tensors[name]] for each in (module, typical))
            if mine.type.shape != usual.type.shape:
                yield f"{_joined(path, name)} is {units.shape(mine.type.shape)}, not {units.shape(usual.type.shape)}"
            if mine.type.dtype != usual.type.dtype:
                yield f"{mine.type.dtype}, not {usual.type.dtype}"
            if (len(mine.names) > 1) != (len(usual.names) > 1):
                yield f"{_joined(path, name)} is {'' if len(mine.names) > 1 else 'not '}tied"
            if mine.requires_grad != usual.requires_grad:
                learning.append(mine.requires_grad)

    def _of_calls(self, path: str, mine: int, theirs: int) -> Iterator[str]:
        calls, usual = self._calls[mine], self._calls[theirs]
        if len(calls) != len(usual):
            yield _joined(path, f"called {plural(len(calls), 'time')}, not {len(usual)}", " ")
        shapes, typical = ([[each.shape for each in call.outputs] for call in some[:1]] for some in (calls, usual))
        if shapes and typical and shapes != typical:
            given, wanted = units.shapes(shapes[0]), units.shapes(typical[0])
            yield _joined(path, f"output is {given}, not {wanted}", " ")


def _extra(path: str, names: dict[str, int], usual: dict[str, int]) -> Iterator[str]:
    """The names that only one of two blocks has."""
    for verb, some in (("also has", names.keys() - usual.keys()), ("lacks", usual.keys() - names.keys())):
        if some:
            yield f"{verb} {_joined(path, min(some))}" if len(some) == 1 else f"{verb} {len(some)} parts"


def _of_settings(path: str, module: Module, typical: Module) -> Iterator[str]:
    for name in {**module.config, **typical.config}:
        mine, usual = str(module.config.get(name)), str(typical.config.get(name))
        if mine != usual:
            known = max(len(mine), len(usual)) <= _LONGEST_VALUE
            yield f"{_joined(path, name)} {f'is {mine}, not {usual}' if known else 'differs'}"
    if bool(module.aliases) != bool(typical.aliases):
        yield _joined(path, "is shared" if module.aliases else "is not shared", " ")


def _joined(path: str, name: str, separator: str = ".") -> str:
    return f"{path}{separator}{name}" if path else name
