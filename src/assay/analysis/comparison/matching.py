"""Which module of one document is which of the other: by path, by shared names, or moved under another prefix.

Children of matched modules are matched by name. If a numbered list became longer or shorter, equal items at its end
are matched from there, so that one inserted layer does not make all layers behind it look changed. What is left is
moved if renaming a prefix explains it. Everything is linear in the number of modules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from itertools import takewhile

from assay.analysis.comparison.side import Side
from assay.analysis.uniques.canonical import canonical

_MAX_RENAMES = 16
"""At most this many renamed prefixes are tried, those that explain the most modules first."""

Pair = tuple[int, int]


class Matching:
    """The matched modules, as indices into the modules before and after."""

    def __init__(self, before: Side, after: Side) -> None:
        self._before, self._after = before, after
        self.after_of: dict[int, int] = {}
        self.before_of: dict[int, int] = {}
        for pair in self._roots():
            self._pair_subtrees(pair)
        self._pair_by_any_name()
        self._pair_renamed()

    def _pair_subtrees(self, pair: Pair) -> None:
        """Match two modules, and what is inside them, unless it is matched already."""
        pending = [pair]
        while pending:
            one, two = pending.pop()
            if one in self.after_of or two in self.before_of:
                continue
            self.after_of[one], self.before_of[two] = two, one
            pending += self._children(one, two)

    def _roots(self) -> list[Pair]:
        """The two models, of which one may be wrapped in a module of another class."""
        sides = self._before.document.modules, self._after.document.modules
        roots = [[index for index, module in enumerate(modules) if module.parent is None] for modules in sides]
        pairs = list(zip(*roots, strict=False))
        if len(pairs) != 1:
            return pairs
        ((one, two),) = pairs
        if sides[0][one].class_path == sides[1][two].class_path:
            return pairs
        inside = [
            [index for index, each in enumerate(modules) if each.class_path == other.class_path]
            for modules, other in ((sides[0], sides[1][two]), (sides[1], sides[0][one]))
        ]
        wrapped = [len(some) == 1 for some in inside]
        if wrapped == [True, False]:
            return [(inside[0][0], two)]
        return [(one, inside[1][0])] if wrapped == [False, True] else pairs

    def _children(self, one: int, two: int) -> Iterator[Pair]:
        mine, theirs = self._before.children[one], self._after.children[two]
        names = self._before.local_names, self._after.local_names
        if len(mine) != len(theirs) and _is_numbered(mine, names[0]) and _is_numbered(theirs, names[1]):
            yield from self._aligned(mine, theirs)
            return
        by_name: dict[str, list[int]] = {}
        for child in reversed(theirs):
            by_name.setdefault(names[1][child], []).append(child)
        for child in mine:
            candidates = by_name.get(names[0][child])
            if candidates:
                yield child, candidates.pop()

    def _aligned(self, mine: Sequence[int], theirs: Sequence[int]) -> Iterator[Pair]:
        """Equal items from the start and from the end, then those between in order."""
        numbers = self._subtrees

        def equal(pair: Pair) -> bool:
            return numbers.before[pair[0]] == numbers.after[pair[1]]

        start = len(list(takewhile(equal, zip(mine, theirs, strict=False))))
        rest = mine[start:], theirs[start:]
        end = len(list(takewhile(equal, zip(*(reversed(some) for some in rest), strict=False))))
        yield from zip(mine[:start], theirs[:start], strict=True)
        yield from zip(*(some[len(some) - end :] for some in rest), strict=True)
        yield from zip(*(some[: len(some) - end] for some in rest), strict=False)

    @property
    def unmatched(self) -> tuple[list[int], list[int]]:
        """The modules of each side that are not matched."""
        return (
            [index for index in range(len(self._before.document.modules)) if index not in self.after_of],
            [index for index in range(len(self._after.document.modules)) if index not in self.before_of],
        )

    def _pair_by_any_name(self) -> None:
        """Match modules that share a name, if one is listed under another of its names."""
        before, after = self._before.document.modules, self._after.document.modules
        mine, theirs = self.unmatched
        by_name = {name: index for index in reversed(theirs) for name in (after[index].path, *after[index].aliases)}
        for index in mine:
            names = (before[index].path, *before[index].aliases)
            shared = next((by_name[name] for name in names if name in by_name), None)
            if shared is not None:
                self._pair_subtrees((index, shared))

    def _pair_renamed(self) -> None:
        """Match modules of the same class whose paths differ only in a renamed prefix, and what is inside them."""
        before, after = self._before.document.modules, self._after.document.modules
        for old, new in self._renames():
            mine, theirs = self.unmatched
            by_path = {after[index].path: index for index in theirs}
            for index in mine:
                path = _renamed(before[index].path, old, new)
                other = None if path is None else by_path.get(path)
                if other is not None and after[other].class_path == before[index].class_path:
                    self._pair_subtrees((index, other))

    def _renames(self) -> list[tuple[str, str]]:
        """Prefixes before and after, from modules with tensors whose subtree is unique among the unmatched."""
        mine, theirs = self.unmatched
        if not mine or not theirs:
            return []
        before, after = self._before.document.modules, self._after.document.modules
        numbers = self._subtrees
        counts = Counter(numbers.before[index] for index in mine), Counter(numbers.after[index] for index in theirs)
        places = {numbers.after[index]: after[index].path for index in theirs}
        votes: Counter[tuple[str, str]] = Counter()
        for index in mine:
            number = numbers.before[index]
            if counts[0][number] == counts[1][number] == 1 and number in numbers.with_tensors:
                votes[_prefixes(before[index].path, places[number])] += 1
        ranked = sorted(votes, key=lambda pair: (-votes[pair], sorted(pair)))
        return ranked[:_MAX_RENAMES]

    @cached_property
    def _subtrees(self) -> _SubtreeNumbers:
        return _SubtreeNumbers(self._before, self._after)


class _SubtreeNumbers:
    """A number for each module of each side; two modules share it if all inside them is equal, names included."""

    def __init__(self, before: Side, after: Side) -> None:
        self._numbers: dict[Hashable, int] = {}
        self.with_tensors: set[int] = set()
        """The numbers of subtrees that have parameters or buffers."""
        self.before, self.after = self._of(before), self._of(after)

    def _of(self, side: Side) -> list[int]:
        document, names = side.document, side.local_names
        result = [0] * len(document.modules)
        for index in range(len(result) - 1, -1, -1):
            module = document.modules[index]
            types = ((name, document.tensors[at].type) for name, at in module.tensors.items())
            tensors = tuple((name, kind.shape, kind.dtype) for name, kind in types)
            inner = tuple((names[child], result[child]) for child in side.children[index])
            key = module.class_path, canonical(module.config), tensors, inner
            number = result[index] = self._numbers.setdefault(key, len(self._numbers))
            if tensors or any(each in self.with_tensors for _, each in inner):
                self.with_tensors.add(number)
        return result


def _is_numbered(children: Sequence[int], names: Sequence[str]) -> bool:
    return all(names[child] == str(place) for place, child in enumerate(children))


def _prefixes(old: str, new: str) -> tuple[str, str]:
    """The two paths without the parts at their end that they share."""
    one, two = old.split("."), new.split(".")
    shared = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(reversed(one), reversed(two), strict=False))
    )
    return ".".join(one[: len(one) - shared]), ".".join(two[: len(two) - shared])


def _renamed(path: str, old: str, new: str) -> str | None:
    """The path with the prefix `old` replaced by `new`; None if it does not begin with it."""
    if path == old:
        return new
    prefix = f"{old}." if old else ""
    return f"{new}.{path.removeprefix(prefix)}".removeprefix(".") if path.startswith(prefix) else None
