"""The outline of a model: its module tree as rows with their figures, runs of equal siblings folded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from assay import units
from assay.analysis import folding
from assay.analysis.cost.totals import module_totals, summed
from assay.analysis.folding import FoldedRow, TreeNode
from assay.analysis.parameters import PARAMETER, first_holders, held, known_sum
from assay.analysis.uniques.canonical import canonical
from assay.document import tree
from assay.document.cost import Cost, CostTotals
from assay.document.document import Document
from assay.document.rows import Call, Module, Tensor


class Tie(Struct, frozen=True):
    """A parameter that a module holds and that another module before it holds too."""

    name: str
    other: str


class OutlineRow(Struct, frozen=True):
    """One row of an outline. Sums cover all the modules it stands for, with everything they hold and run."""

    name: str
    """Among its siblings, a run as `0–31`."""
    path: str
    """Of the first module it stands for."""
    class_name: str
    depth: int
    run: int
    """How many equal siblings it folds."""
    modules: int = 0
    """How many modules it stands for: its run in every copy of the rows above it."""
    calls: int = 0
    """Calls of all of them together."""
    output_shapes: list[str] = []
    """Of the first module's first call."""
    varies: bool = False
    """Whether its calls gave outputs of more than one shape."""
    own_parameters: int | None = 0
    """Held by these modules themselves and by none before them."""
    parameters: int | None = 0
    trainable: int | None = 0
    totals: CostTotals = CostTotals()
    ties: tuple[Tie, ...] = ()
    """Parameters of the first module that were counted before."""
    same_as: str | None = None
    """Where the very same module stands already; such a row has no figures of its own."""
    created_in_forward: bool = False


def outline(document: Document, cost: Cost, *, runs: bool = True) -> list[OutlineRow]:
    """The rows of the whole tree, parents first; with `runs` false every module has its own."""
    members, nodes = _nodes(document)
    facts = _Facts(document, cost)
    return [_row(facts, row, [members[at] for at in row.members], nodes) for row in folding.fold(nodes, runs=runs)]


class _Alias(Struct, frozen=True):
    """A further place of a module that stands elsewhere."""

    module: int
    path: str


_Member = int | _Alias


def _nodes(document: Document) -> tuple[list[_Member], list[TreeNode]]:
    """The modules and their further places in the order of the tree, and what folding is to know of them."""
    below = _members_below(document)
    keys = _keys(document)
    members: list[_Member] = []
    nodes: list[TreeNode] = []
    stack: list[tuple[_Member, int | None]] = [
        (index, None) for index in reversed(range(len(document.modules))) if document.modules[index].parent is None
    ]
    while stack:
        member, parent = stack.pop()
        here = len(nodes)
        members.append(member)
        if isinstance(member, int):
            nodes.append(TreeNode(_local_name(_path(document, member)), parent, keys[member]))
            stack.extend((child, here) for child in reversed(below[member]))
        else:
            nodes.append(TreeNode(_local_name(member.path), parent, ("same as", member.module)))
    return members, nodes


def _members_below(document: Document) -> list[list[_Member]]:
    """For each module what stands below it; numbered ones in the order of their numbers."""
    below: list[list[_Member]] = [list(inner) for inner in tree.children(document.modules)]
    index_of = {module.path: index for index, module in enumerate(document.modules)}
    for index, module in enumerate(document.modules):
        for alias in module.aliases:
            parent = index_of.get(alias.rpartition(".")[0])
            if parent is not None:
                below[parent].append(_Alias(index, alias))
    for inner in below:
        names = [_local_name(_path(document, member)) for member in inner]
        if any(isinstance(member, _Alias) for member in inner) and all(name.isdecimal() for name in names):
            inner.sort(key=lambda member: _number_order(_local_name(_path(document, member))))
    return below


def _number_order(name: str) -> tuple[int, str]:
    return len(name), name


def _path(document: Document, member: _Member) -> str:
    return document.modules[member].path if isinstance(member, int) else member.path


def _local_name(path: str) -> str:
    return path.rpartition(".")[2] or tree.ROOT


def _keys(document: Document) -> list[object]:
    """What makes a module equal to its sibling, without its subtree."""
    calls = _calls(document)
    return [
        (
            module.class_path,
            canonical(module.config),
            tuple((name, *_tensor_key(document.tensors[at])) for name, at in module.tensors.items()),
            len(calls[index]),
            tuple(dict.fromkeys(_shapes(call) for call in calls[index])),
            module.training,
            module.aliases != (),
        )
        for index, module in enumerate(document.modules)
    ]


def _tensor_key(tensor: Tensor) -> tuple[object, ...]:
    return tensor.type.shape, tensor.type.dtype, tensor.role, tensor.requires_grad, len(tensor.names) > 1


def _calls(document: Document) -> list[list[Call]]:
    result: list[list[Call]] = [[] for _ in document.modules]
    for call in document.calls:
        result[call.module].append(call)
    return result


def _shapes(call: Call) -> tuple[tuple[int, ...], ...]:
    return tuple(output.shape for output in call.outputs)


class _Facts:
    """What is looked up for every row."""

    def __init__(self, document: Document, cost: Cost) -> None:
        self.document = document
        self.totals = module_totals(document, cost)
        self.calls = _calls(document)
        self.own = [self._parameters(indices) for indices in first_holders(document)]
        self.below = self._subtrees()

    def _parameters(self, indices: Iterable[int]) -> list[Tensor]:
        tensors = self.document.tensors
        return [tensors[index] for index in indices if tensors[index].role == PARAMETER]

    def _subtrees(self) -> list[tuple[int | None, int | None]]:
        """For each module the parameters of its whole subtree: all, and those that can be trained."""
        sums = [(held(own).elements, held(t for t in own if t.requires_grad).elements) for own in self.own]
        for index in range(len(sums) - 1, -1, -1):
            parent = self.document.modules[index].parent
            if parent is not None:
                everything, trainable = zip(sums[parent], sums[index], strict=True)
                sums[parent] = known_sum(everything), known_sum(trainable)
        return sums


def _row(facts: _Facts, row: FoldedRow, members: Sequence[_Member], nodes: Sequence[TreeNode]) -> OutlineRow:
    first = members[0]
    name = folding.run_name(nodes[row.members[0]].name, row.run)
    if isinstance(first, _Alias):
        named = facts.document.modules[first.module]
        return OutlineRow(name, first.path, named.class_name, row.depth, row.run, same_as=tree.shown(named.path))
    modules = [member for member in members if isinstance(member, int)]
    module = facts.document.modules[first]
    calls = facts.calls[first]
    return OutlineRow(
        name=name,
        path=module.path,
        class_name=module.class_name,
        depth=row.depth,
        run=row.run,
        modules=len(modules),
        calls=sum(len(facts.calls[index]) for index in modules),
        output_shapes=[units.shape(output.shape) for output in calls[0].outputs] if calls else [],
        varies=len({_shapes(call) for call in calls}) > 1,
        own_parameters=held(tensor for index in modules for tensor in facts.own[index]).elements,
        parameters=known_sum(facts.below[index][0] for index in modules),
        trainable=known_sum(facts.below[index][1] for index in modules),
        totals=summed(facts.totals[index] for index in modules),
        ties=_ties(facts.document, module),
        created_in_forward=module.created_in_forward,
    )


def _ties(document: Document, module: Module) -> tuple[Tie, ...]:
    """The parameters of `module` whose first name is not its own."""
    prefix = f"{module.path}." if module.path else ""
    held_here = {name: document.tensors[at] for name, at in module.tensors.items()}
    return tuple(
        Tie(name, tensor.names[0])
        for name, tensor in held_here.items()
        if tensor.role == PARAMETER and tensor.names[0] != prefix + name
    )
