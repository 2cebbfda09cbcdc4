"""The modules of two documents as rows: added, removed, changed, moved or the same, with what changed in words."""

from __future__ import annotations

from collections.abc import Iterator

from assay.analysis.comparison.conditions import same_inputs
from assay.analysis.comparison.matching import Matching
from assay.analysis.comparison.rows import ADDED, CHANGED, MOVED, REMOVED, SAME, ComparedModule, ModuleChange
from assay.analysis.comparison.side import Side
from assay.analysis.comparison.verdicts import EQUAL, UNKNOWN, range_verdict
from assay.analysis.module_differences import (
    call_differences,
    class_difference,
    learning_difference,
    mode_difference,
    setting_differences,
    tensor_differences,
)
from assay.document import tree
from assay.document.rows import Module, Tensor
from assay.document.timing import ModuleTime


class ModuleComparer:
    """Compares the matched modules of two documents."""

    def __init__(self, before: Side, after: Side, matching: Matching) -> None:
        self._before, self._after, self._matching = before, after, matching
        complete = all(side.document.recorded and side.document.complete for side in (before, after))
        self._compares_calls = complete
        self._compares_outputs = complete and same_inputs(before.document, after.document)
        self._before_aliases, self._after_aliases = (_paths_by_alias(side) for side in (before, after))

    def rows(self) -> list[ModuleChange]:
        """One row per module of either document."""
        removed = self._removed_behind()
        rows = [self._removed(index) for index in removed.get(None, ())]
        for index in tree.preorder(self._after.document.modules):
            before = self._matching.before_of.get(index)
            rows.append(self._added(index) if before is None else self._matched(before, index))
            rows += (self._removed(other) for other in removed.get(index, ()))
        return rows

    def moved(self, before: int, after: int) -> bool:
        """Whether two matched modules have no name in common."""
        one, two = self._before.document.modules[before], self._after.document.modules[after]
        return one.path != two.path and not {one.path, *one.aliases} & {two.path, *two.aliases}

    def _removed_behind(self) -> dict[int | None, list[int]]:
        """The modules that were removed, by the module after the change behind which they are listed."""
        result: dict[int | None, list[int]] = {}
        place: int | None = None
        for index in tree.preorder(self._before.document.modules):
            place = self._matching.after_of.get(index, place)
            if index not in self._matching.after_of:
                result.setdefault(place, []).append(index)
        return result

    def _removed(self, index: int) -> ModuleChange:
        module = self._before.document.modules[index]
        covered = module.parent is not None and module.parent not in self._matching.after_of
        other = self._after_aliases.get(module.path)
        words = () if other is None else (f"now the same module as {tree.path_text(other)}",)
        return ModuleChange(REMOVED, _facts(self._before, index), None, words, covered=covered)

    def _added(self, index: int) -> ModuleChange:
        module = self._after.document.modules[index]
        covered = module.parent is not None and module.parent not in self._matching.before_of
        other = self._before_aliases.get(module.path)
        words = () if other is None else (f"was the same module as {tree.path_text(other)}",)
        return ModuleChange(ADDED, None, _facts(self._after, index), words, covered=covered)

    def _matched(self, before: int, after: int) -> ModuleChange:
        moved = self.moved(before, after)
        words = tuple(dict.fromkeys(self._differences(before, after)))
        return ModuleChange(
            state=CHANGED if words else MOVED if moved else SAME,
            before=_facts(self._before, before),
            after=_facts(self._after, after),
            changes=words,
            time_verdict=_time_verdict(_time(self._before, before), _time(self._after, after)),
            covered=not words and moved and self._moved_with_parent(before, after),
        )

    def _moved_with_parent(self, before: int, after: int) -> bool:
        one, two = (side.document.modules[at].parent for side, at in ((self._before, before), (self._after, after)))
        if one is None or two is None or self._matching.after_of.get(one) != two or not self.moved(one, two):
            return False
        return self._before.local_names[before] == self._after.local_names[after]

    def _differences(self, before: int, after: int) -> Iterator[str]:
        """How a module differs from what it was."""
        module, old = self._after.document.modules[after], self._before.document.modules[before]
        if module.class_path != old.class_path:
            yield class_difference("", module, old)
        else:
            if self._mode_differs(before, after):
                yield mode_difference(module)
            yield from setting_differences("", module, old)
        learning: list[bool] = []
        yield from tensor_differences("", _tensors(self._after, module), _tensors(self._before, old), learning)
        yield from learning_difference(learning)
        if self._compares_calls:
            calls, usual = self._after.calls[after], self._before.calls[before]
            yield from call_differences("", calls, usual, outputs=self._compares_outputs)

    def _mode_differs(self, before: int, after: int) -> bool:
        """Whether a module was in another mode; if the whole model was, only its root counts."""
        modules, old = self._after.document.modules, self._before.document.modules
        whole = modules[0].training != old[0].training and (before, after) != (0, 0)
        return (modules[after].training != old[before].training) != whole


def _paths_by_alias(side: Side) -> dict[str, str]:
    """The path of the module behind each other name of it."""
    return {name: module.path for module in side.document.modules for name in module.aliases}


def _tensors(side: Side, module: Module) -> dict[str, Tensor]:
    return {name: side.document.tensors[index] for name, index in module.tensors.items()}


def _facts(side: Side, index: int) -> ComparedModule:
    module, time = side.document.modules[index], _time(side, index)
    cost = side.module_costs[index]
    return ComparedModule(
        index=index,
        path=module.path,
        class_name=module.class_name,
        parameters=side.module_parameters[index],
        flops=cost.flops if cost.recorded else None,
        time_s=None if time is None else time.total_s,
    )


def _time(side: Side, index: int) -> ModuleTime | None:
    rows = side.document.timing.modules if side.document.timing is not None else []
    return rows[index] if index < len(rows) else None


def _time_verdict(before: ModuleTime | None, after: ModuleTime | None) -> str:
    if before is None or after is None:
        return ""
    if before.total_s is None or after.total_s is None:
        return UNKNOWN
    if (before.total_s, before.low_s, before.high_s) == (after.total_s, after.low_s, after.high_s):
        return EQUAL
    one, two = (
        (time.low_s, time.high_s) if time.low_s is not None and time.high_s is not None else None
        for time in (before, after)
    )
    return range_verdict(one, two)
