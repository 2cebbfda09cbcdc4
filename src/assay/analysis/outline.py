"""The outline of a model: its module tree as rows with their values, runs of equal siblings folded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from assay import units
from assay.analysis import folding
from assay.analysis.block_differences import BlockComparer
from assay.analysis.cost.totals import module_totals, summed_recorded
from assay.analysis.folding import FoldedRow, TreeNode
from assay.analysis.parameters import own_parameters, subtree_parameters, sum_if_all_known, tensor_totals
from assay.analysis.training_mode import mode_changes, mode_name
from assay.analysis.uniques.canonical import canonical
from assay.document import tree
from assay.document.cost import Cost, CostTotals
from assay.document.document import Document
from assay.document.roles import PARAMETER
from assay.document.rows import Call, Module, Tensor, TensorType


class Tie(Struct, frozen=True):
    """A parameter of a module that an earlier module owns too."""

    name: str
    other: str


class OutlineRow(Struct, frozen=True):
    """One row of an outline. Sums cover all modules of the row, including their submodules."""

    name: str
    """Its name among its siblings; a run is written `0–31`, or `0–6, 8–31` if others stand between."""
    path: str
    """The path of the row's first module."""
    class_name: str
    depth: int
    run: int
    """Number of equal siblings folded into the row."""
    modules: int = 0
    """Number of modules it represents: its run in every copy of the rows above it."""
    calls: int = 0
    """Calls of all these modules."""
    input_shapes: list[str] = []
    """Shapes of the tensors passed to the first module's first call."""
    inputs_vary: bool = False
    """Whether the input shapes differ between calls."""
    output_shapes: list[str] = []
    """Output shapes of the first module's first call."""
    varies: bool = False
    """Whether the output shapes differ between calls."""
    own_parameters: int | None = 0
    """Parameters that these modules own directly and no earlier module owns."""
    parameters: int | None = 0
    trainable: int | None = 0
    totals: CostTotals = CostTotals()
    ties: tuple[Tie, ...] = ()
    """Parameters of the first module that are already counted in an earlier row."""
    same_as: str | None = None
    """Path of the row that already shows the same module; such a row has no values of its own."""
    created_in_forward: bool = False
    config: dict[str, Any] = {}
    """The settings of the first module."""
    mode: str = ""
    """`training` or `evaluation`, if the row's modules were in another mode than the module above them."""
    gaps: bool = False
    """Whether others stand between the siblings of the row."""
    differs: str = ""
    """If most of its siblings are equal, how it differs from them: `mlp.act is GELU, not SiLU`."""


def outline(document: Document, cost: Cost, *, runs: bool = True, gaps: bool = True) -> list[OutlineRow]:
    """The rows of the whole tree, parents first; `runs` and `gaps` as in `fold`, for siblings of the same class."""
    members, nodes = _nodes(document)
    facts = _Facts(document, cost)
    rows = folding.fold(nodes, runs=runs, gaps=gaps)
    return [_row(facts, row, members, folding.row_name(nodes, row)) for row in rows]


class GroupedRow(NamedTuple):
    """A row of the whole tree, in which a run of equal siblings has a row above theirs."""

    row: OutlineRow
    modules: tuple[int, ...]
    """Its modules, as indices into `Document.modules`; none for another path of a module."""
    place: int
    """Its place in the tree without runs; that of its first sibling for a run."""


def grouped_outline(document: Document, cost: Cost) -> list[GroupedRow]:
    """The rows of the whole tree, parents first; siblings of a run with gaps stand together."""
    members, nodes = _nodes(document)
    facts = _Facts(document, cost)
    return [
        GroupedRow(
            _row(facts, row, members, folding.row_name(nodes, row)),
            tuple(member for at in row.members if isinstance(member := members[at], int)),
            row.members[0],
        )
        for row in folding.grouped(nodes)
    ]


class _Alias(Struct, frozen=True):
    """Another path of a module that is already in the tree."""

    module: int
    path: str


_Member = int | _Alias


def _nodes(document: Document) -> tuple[list[_Member], list[TreeNode]]:
    """The modules and their other paths in tree order, and the tree nodes to fold."""
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
            kind = document.modules[member].class_path
            nodes.append(TreeNode(_local_name(_path(document, member)), parent, keys[member], kind))
            stack.extend((child, here) for child in reversed(below[member]))
        else:
            nodes.append(TreeNode(_local_name(member.path), parent, ("same as", member.module)))
    return members, nodes


def _members_below(document: Document) -> list[list[_Member]]:
    """The children of each module, including other paths of modules; numbered children in numerical order."""
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
    """The folding key of each module: everything that must match for siblings to be equal, except the subtree."""
    calls = _calls(document)
    return [
        (
            module.class_path,
            canonical(module.config),
            tuple((name, *_tensor_key(document.tensors[at])) for name, at in module.tensors.items()),
            len(calls[index]),
            tuple(dict.fromkeys(_shapes(call.outputs) for call in calls[index])),
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


def _shapes(types: Iterable[TensorType]) -> tuple[tuple[int, ...], ...]:
    return tuple(each.shape for each in types)


class _Facts:
    """Values that every row needs, computed once."""

    def __init__(self, document: Document, cost: Cost) -> None:
        self.document = document
        self.totals = module_totals(document, cost)
        self.calls = _calls(document)
        self.own = own_parameters(document)
        self.below = subtree_parameters(document, self.own)
        self.mode_changes = frozenset(mode_changes(document))
        self.blocks = BlockComparer(document, self.calls)


def _row(facts: _Facts, row: FoldedRow, members: Sequence[_Member], name: str) -> OutlineRow:
    first = members[row.members[0]]
    if isinstance(first, _Alias):
        module = facts.document.modules[first.module]
        same_as = tree.path_text(module.path)
        return OutlineRow(name, first.path, module.class_name, row.depth, row.run, same_as=same_as, gaps=row.gaps)
    modules = [member for at in row.members if isinstance(member := members[at], int)]
    typical = None if row.odd_beside is None else members[row.odd_beside]
    module = facts.document.modules[first]
    calls = facts.calls[first]
    own_parameters = tensor_totals(tensor for index in modules for tensor in facts.own[index]).elements
    return OutlineRow(
        name=name,
        path=module.path,
        class_name=module.class_name,
        depth=row.depth,
        run=row.run,
        modules=len(modules),
        calls=sum(len(facts.calls[index]) for index in modules),
        input_shapes=[units.shape(given.shape) for given in calls[0].inputs] if calls else [],
        inputs_vary=len({_shapes(call.inputs) for index in modules for call in facts.calls[index]}) > 1,
        output_shapes=[units.shape(output.shape) for output in calls[0].outputs] if calls else [],
        varies=len({_shapes(call.outputs) for call in calls}) > 1,
        own_parameters=own_parameters if facts.document.knows_tensors else None,
        parameters=sum_if_all_known(facts.below[index][0] for index in modules),
        trainable=sum_if_all_known(facts.below[index][1] for index in modules),
        totals=summed_recorded(facts.totals[index] for index in modules),
        ties=_ties(facts.document, module),
        created_in_forward=module.created_in_forward,
        config=module.config,
        mode=mode_name(module.training) if first in facts.mode_changes else "",
        gaps=row.gaps,
        differs=facts.blocks.difference(first, typical) if isinstance(typical, int) else "",
    )


def _ties(document: Document, module: Module) -> tuple[Tie, ...]:
    """The parameters of `module` that an earlier module owns."""
    prefix = f"{module.path}." if module.path else ""
    own_tensors = {name: document.tensors[at] for name, at in module.tensors.items()}
    return tuple(
        Tie(name, tensor.names[0])
        for name, tensor in own_tensors.items()
        if tensor.role == PARAMETER and tensor.names[0] != prefix + name
    )
