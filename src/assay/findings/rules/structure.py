"""How a model is built: what is held and not used, shared, or out of proportion."""

from __future__ import annotations

from collections.abc import Iterator

from assay import units
from assay.analysis.parameters import PARAMETER
from assay.document import tree
from assay.document.provenance import Counted, Figure
from assay.findings.catalogue import rule
from assay.findings.facts import BY_PASS, BY_TENSORS, ModelFacts, part
from assay.findings.naming import folded, listed
from assay.findings.needs import FLOW, MODULES, WHOLE_PASS
from assay.findings.rule import RuleMatch, in_modules

EMBEDDING_SHARE = 0.5
EMBEDDING_LEAST = 1_000_000
"""Below this a table is no burden, whatever its share."""
MANY_CALLS = 32
_CELLS = ("aten.lstm_cell", "aten.gru_cell", "aten.rnn_tanh_cell", "aten.rnn_relu_cell")
_ROUTED = ("num_experts_per_tok", "top_k", "num_experts_per_token", "moe_top_k", "k")
_STEPS = 8
"""Steps of a loop over time that a fused kernel is worth."""


@rule(
    "S101",
    "warning",
    "parameters that no operation of the pass reads",
    advice="Remove what is not needed, or freeze it; it takes memory, optimizer state and, in distributed training, "
    "find_unused_parameters. Parts that only work in training or with other inputs are unused here by design.",
    needs=(MODULES, WHOLE_PASS, FLOW),
)
def unused_parameters(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Parameters whose storages nothing reads, at the topmost modules that hold nothing else."""
    tensors = facts.document.tensors
    unused = {
        index
        for index, storage in facts.held_storages.items()
        if tensors[index].role == PARAMETER and storage not in facts.flow.readers
    }
    unused -= _hidden(facts)
    modules = _holding_only(facts, unused)
    lost = sorted(unused & {tensor for module in modules for tensor in facts.parameters_below[module]})
    if not lost:
        return
    count, size = facts.elements_of(lost), sum(tensors[index].bytes for index in lost)
    yield RuleMatch(
        f"{units.count(count)} parameters ({units.size(size)}) are not used in this pass: "
        f"{listed(folded(_names(facts, modules, unused)))}",
        {
            "unused_parameters": Figure(count, BY_TENSORS),
            "unused_bytes": Figure(size, BY_TENSORS),
            "share_of_parameters": part(count, facts.parameters.count or 0, BY_TENSORS),
        },
        modules=modules,
        tensors=[tensors[index].names[0] for index in lost],
    )


def _names(facts: ModelFacts, modules: list[int], unused: set[int]) -> list[str]:
    """The paths of modules that hold nothing that is used, else the names of their tensors."""
    document = facts.document
    found = []
    for index in modules:
        whole = facts.parameters_below[index] <= unused
        own = [tensor for tensor in document.modules[index].tensors.values() if tensor in unused]
        found += [tree.shown(document.modules[index].path)] if whole else [document.tensors[t].names[0] for t in own]
    return found


def _holding_only(facts: ModelFacts, unused: set[int]) -> list[int]:
    """The topmost modules whose parameters are all unused, and those with some of their own unused."""
    modules, below = facts.document.modules, facts.parameters_below
    wholly = {index for index, held in enumerate(below) if held and held <= unused}
    found = []
    for index, module in enumerate(modules):
        own = {tensor for tensor in module.tensors.values() if tensor in unused}
        topmost = index in wholly and (module.parent is None or module.parent not in wholly)
        partly = index not in wholly and bool(own)
        if (topmost or partly) and not _has_working_twin(facts, index):
            found.append(index)
    return found


def _hidden(facts: ModelFacts) -> set[int]:
    """Parameters of modules in TorchScript, whose operations may not be seen."""
    scripted = [i for i, module in enumerate(facts.document.modules) if module.class_path.startswith("torch.jit.")]
    return set().union(*(facts.parameters_below[index] for index in scripted))


def _has_working_twin(facts: ModelFacts, index: int) -> bool:
    """Whether a numbered sibling of the same class was called: an expert no row was sent to, say."""
    modules = facts.document.modules
    module = modules[index]
    if module.parent is None or not module.path.rpartition(".")[2].isdecimal():
        return False
    siblings = facts.below[module.parent]
    return any(facts.calls[other] and modules[other].class_path == module.class_path for other in siblings)


@rule(
    "S102",
    "note",
    "parameters that several modules share",
    advice="Save and load with both names in mind: some formats write a tied tensor once, and changing one name "
    "changes all. Every total here counts it once.",
    needs=(MODULES,),
)
def tied(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Parameters with more than one name."""
    shared = [t for t in facts.document.tensors if t.role == PARAMETER and len(t.names) > 1]
    if not shared:
        return
    saved = sum(tensor.bytes * (len(tensor.names) - 1) for tensor in shared)
    names = folded(" = ".join(tensor.names) for tensor in shared)
    yield RuleMatch(
        f"tied parameters save {units.size(saved)}: {listed(names)}",
        {"tied_tensors": Figure(len(shared), BY_TENSORS), "bytes_saved": Figure(saved, BY_TENSORS)},
        tensors=[name for tensor in shared for name in tensor.names],
    )


@rule(
    "S103",
    "advice",
    "embedding tables that hold most of the parameters",
    advice="A smaller vocabulary, a factorised table (a narrow table and a projection), a table tied to the output "
    "projection, or a table in a narrower dtype saves more here than any change to the layers.",
    needs=(MODULES, WHOLE_PASS, FLOW),
)
def embedding_share(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Tables that rows are looked up in, against all parameters."""
    by_storage = {storage: index for index, storage in facts.held_storages.items()}
    lookups = facts.ops_of("aten.embedding", "aten.embedding_bag", "aten._embedding_bag")
    storages = {facts.flow.operand(op, "weight") for op in lookups}
    tables = sorted({by_storage[storage] for storage in storages if storage in by_storage})
    tensors = facts.document.tensors
    tables = [index for index in tables if tensors[index].role == PARAMETER]
    count, whole = facts.elements_of(tables), facts.parameters.count
    if not whole or count < EMBEDDING_LEAST or count < EMBEDDING_SHARE * whole:
        return
    names = [tensors[index].names[0] for index in tables]
    owners = [i for i, module in enumerate(facts.document.modules) if set(module.tensors.values()) & set(tables)]
    yield RuleMatch(
        f"embedding tables hold {units.share(count, whole)} of all parameters: {listed(folded(names))}",
        {
            "embedding_parameters": Figure(count, BY_TENSORS),
            "parameters": Figure(whole, BY_TENSORS),
            "share_of_parameters": part(count, whole, BY_TENSORS),
        },
        modules=owners,
        tensors=names,
    )


@rule(
    "S104",
    "note",
    "a module with parameters that is called very often by one call of its parent",
    advice="Where the calls do not depend on each other, stack their inputs and call it once: the weights are then "
    "read once and the work is one large operation.",
    needs=(MODULES, WHOLE_PASS),
)
def called_often(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Modules that one call around them calls many times with the same shapes; cells have a rule of their own."""
    document = facts.document
    counts: dict[tuple[int, int | None, object], int] = {}
    for call in document.calls:
        key = call.module, call.parent, tuple((each.shape, each.dtype) for each in call.inputs)
        counts[key] = counts.get(key, 0) + 1
    below = facts.parameters_below
    cells = set(facts.modules(facts.ops_of(*_CELLS)))
    often: dict[int, int] = {}
    for (module, _, _), times in counts.items():
        if times >= MANY_CALLS and below[module] and module not in cells:
            often[module] = max(often.get(module, 0), times)
    if not often:
        return
    most = max(often.values())
    title = f"called {most} times in one call of its parent, each time with the same shapes"
    yield in_modules(facts, sorted(often), title, {"calls": Figure(most, BY_PASS)})


@rule(
    "S105",
    "advice",
    "a recurrent cell called step by step from Python",
    advice="nn.LSTM, nn.GRU or nn.RNN over the whole sequence runs all steps in one fused call; a cell is needed "
    "only where a step's input depends on the step before.",
    needs=(MODULES, WHOLE_PASS),
)
def cell_loop(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Cells with many steps in one pass."""
    steps: dict[int, int] = {}
    for op in facts.ops_of(*_CELLS):
        steps[facts.module(op)] = steps.get(facts.module(op), 0) + 1
    looped = {module: count for module, count in steps.items() if count >= _STEPS}
    if not looped:
        return
    title = f"a recurrent cell runs {max(looped.values())} steps one by one"
    evidence = {"steps": Figure(max(looped.values()), BY_PASS), "cells": Figure(len(looped), BY_PASS)}
    yield in_modules(facts, sorted(looped), title, evidence)


@rule(
    "S106",
    "note",
    "a mixture of experts: how much of the model a token uses",
    advice="Plan memory by all parameters and time by the active ones; a batch reads nearly all experts, one token "
    "only its own. Experts can be placed on several devices or offloaded.",
    needs=(MODULES,),
)
def experts(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Parameters of experts, and of those a token is sent to where the settings say how many."""
    modules = facts.document.modules
    holders = [i for i, module in enumerate(modules) if module.path.rpartition(".")[2] == "experts"]
    held = set().union(*(facts.parameters_below[index] for index in holders))
    count, whole = facts.elements_of(held), facts.parameters.count
    each = {_experts_in(facts, index) for index in holders}
    if not count or not whole or len(each) != 1 or max(each) < 2:
        return
    number = max(each)
    figures = {
        "expert_parameters": Figure(count, BY_TENSORS),
        "share_of_parameters": part(count, whole, BY_TENSORS),
        "experts_a_layer": Figure(number, BY_TENSORS),
    }
    active = {_routed(facts, index) for index in holders}
    used = next(iter(active)) if len(active) == 1 else None
    if used:
        sent = whole - count + count * used // number
        figures["active_parameters"] = Figure(sent, Counted(f"all that is no expert, and {used} of {number} experts"))
    yield RuleMatch(
        f"{number} experts a layer hold {units.share(count, whole)} of the parameters"
        + (f"; {used} are active for a token" if used else ""),
        figures,
        modules=holders,
    )


def _experts_in(facts: ModelFacts, index: int) -> int:
    """The first size of stacked tensors, or the modules below."""
    tensors = [facts.document.tensors[at].type.shape for at in facts.document.modules[index].tensors.values()]
    return max((shape[0] for shape in tensors if len(shape) > 2), default=0) or len(facts.below[index])


def _routed(facts: ModelFacts, index: int) -> int | None:
    """How many experts a token is sent to, by the settings of what is around them or beside them."""
    modules = facts.document.modules
    parent = modules[index].parent
    around = [] if parent is None else [parent, *facts.below[parent]]
    settings = (modules[each].config.get(name) for each in (index, *around) for name in _ROUTED)
    return next((value for value in settings if isinstance(value, int) and value > 0), None)
