"""Rules about how a model is built: unused or shared parameters, repeated calls, experts."""

from __future__ import annotations

from collections.abc import Iterator

from assay import units
from assay.document import tree
from assay.document.document import INFERRED
from assay.document.provenance import Counted, Figure
from assay.document.roles import PARAMETER
from assay.findings.catalogue import rule
from assay.findings.facts import BY_PASS, BY_TENSORS, ModelFacts, share_of
from assay.findings.gains import above_limits, bytes_gain
from assay.findings.naming import fold_names, joined_names
from assay.findings.needs import FLOW, MODULES, WHOLE_PASS
from assay.findings.rule import RuleMatch, in_modules
from assay.findings.time_spent import time_evidence
from assay.messages import plural

MIN_BYTES = 1024
"""Fewer bytes of unused parameters are only noted."""
MIN_CALLS = 32
_CELLS = ("aten.lstm_cell", "aten.gru_cell", "aten.rnn_tanh_cell", "aten.rnn_relu_cell")
_TOP_K_NAMES = ("num_experts_per_tok", "top_k", "num_experts_per_token", "moe_top_k", "k")
_MIN_STEPS = 8
"""Steps of a loop over time from which a fused kernel pays off."""


@rule(
    "S101",
    "warning",
    "parameters that no op in the pass reads",
    advice="Remove or freeze parameters that are not needed: they take memory and optimizer state, and distributed "
    "training needs find_unused_parameters. Parts for training or other inputs are unused here by design.",
    needs=(MODULES, WHOLE_PASS, FLOW),
)
def unused_parameters(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Parameters whose storage no op reads, reported at the topmost modules with only unused parameters."""
    tensors = facts.document.tensors
    unused = {
        index
        for index, storage in facts.tensor_storages.items()
        if tensors[index].role == PARAMETER and storage not in facts.flow.readers
    }
    unused -= _parameters_read_unseen(facts)
    modules = _unused_modules(facts, unused)
    lost = sorted(unused & {tensor for module in modules for tensor in facts.parameters_below[module]})
    if not lost:
        return
    count, size = facts.elements_of(lost), sum(tensors[index].bytes for index in lost)
    guessed = facts.document.run.inputs_kind == INFERRED
    yield RuleMatch(
        f"{units.count(count)} unused parameter{'' if count == 1 else 's'} ({units.size(size)}) in this pass: "
        f"{joined_names(fold_names(_names(facts, modules, unused)))}",
        {
            "unused_parameters": Figure(count, BY_TENSORS),
            "unused_bytes": Figure(size, BY_TENSORS),
            "share_of_parameters": share_of(count, facts.parameters.count or 0, BY_TENSORS),
        },
        modules=modules,
        tensors=[tensors[index].names[0] for index in lost],
        gain=bytes_gain(size, facts.parameter_bytes, BY_TENSORS),
        severity="note" if guessed or size < MIN_BYTES else "",
    )


def _names(facts: ModelFacts, modules: list[int], unused: set[int]) -> list[str]:
    """The paths of modules with only unused parameters; for other modules, the names of their unused parameters."""
    document = facts.document
    texts = []
    for index in modules:
        whole = facts.parameters_below[index] <= unused
        own = [tensor for tensor in document.modules[index].tensors.values() if tensor in unused]
        texts += (
            [tree.path_text(document.modules[index].path)] if whole else [document.tensors[t].names[0] for t in own]
        )
    return texts


def _unused_modules(facts: ModelFacts, unused: set[int]) -> list[int]:
    """The topmost modules with only unused parameters, and modules with some unused parameters of their own."""
    modules, below = facts.document.modules, facts.parameters_below
    wholly = {index for index, parameters in enumerate(below) if parameters and parameters <= unused}
    result = []
    for index, module in enumerate(modules):
        own = {tensor for tensor in module.tensors.values() if tensor in unused}
        topmost = index in wholly and (module.parent is None or module.parent not in wholly)
        partly = index not in wholly and bool(own)
        if (topmost or partly) and not _has_called_sibling(facts, index):
            result.append(index)
    return result


def _parameters_read_unseen(facts: ModelFacts) -> set[int]:
    """Parameters that ops may read without a record: the packed ones of quantized modules."""
    unseen = [i for i, module in enumerate(facts.document.modules) if module.quantized]
    return set().union(*(facts.parameters_below[index] for index in unseen))


def _has_called_sibling(facts: ModelFacts, index: int) -> bool:
    """Whether a numbered sibling of the same class was called, as with an expert that received no rows."""
    modules = facts.document.modules
    module = modules[index]
    if module.parent is None or not module.path.rpartition(".")[2].isdecimal():
        return False
    siblings = facts.children[module.parent]
    return any(facts.calls[other] and modules[other].class_path == module.class_path for other in siblings)


@rule(
    "S102",
    "note",
    "parameters shared by several modules",
    advice="Keep all names in mind when saving and loading: some formats store a tied tensor once, and changing it "
    "under one name changes it under all. Totals count it once.",
    needs=(MODULES,),
)
def tied(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Parameters with more than one name."""
    shared = [t for t in facts.document.tensors if t.role == PARAMETER and len(t.names) > 1]
    if not shared:
        return
    saved = sum(tensor.bytes * (len(tensor.names) - 1) for tensor in shared)
    names = fold_names(" = ".join(tensor.names) for tensor in shared)
    yield RuleMatch(
        f"{plural(len(shared), 'tied parameter')}, saving {units.size(saved)}: {joined_names(names)}",
        {"tied_tensors": Figure(len(shared), BY_TENSORS), "bytes_saved": Figure(saved, BY_TENSORS)},
        tensors=[name for tensor in shared for name in tensor.names],
    )


@rule(
    "S104",
    "note",
    "a module with parameters that is called many times per call of its parent",
    advice="Stack the inputs and call the module once if the calls do not depend on each other: the weights are then "
    "read once, and one large op replaces many small ones.",
    needs=(MODULES, WHOLE_PASS),
)
def called_often(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Modules that one parent call calls many times with the same shapes; recurrent cells have their own rule."""
    document = facts.document
    counts: dict[tuple[int, int | None, object], int] = {}
    for call in document.calls:
        key = call.module, call.parent, tuple((each.shape, each.dtype) for each in call.inputs)
        counts[key] = counts.get(key, 0) + 1
    below = facts.parameters_below
    cells = set(facts.modules(facts.ops_of(*_CELLS)))
    often: dict[int, int] = {}
    for (module, _, _), times in counts.items():
        if times >= MIN_CALLS and below[module] and module not in cells:
            often[module] = max(often.get(module, 0), times)
    if not often:
        return
    max_calls = max(often.values())
    title = (
        f"{plural(len(often), 'module')} called up to {max_calls} times per call of the parent, with the same shapes"
    )
    ops = _ops_below(facts, set(often))
    evidence = {"calls": Figure(max_calls, BY_PASS), **time_evidence(facts, ops)}
    yield in_modules(facts, sorted(often), title, evidence, above_limits(facts, ops))


def _ops_below(facts: ModelFacts, modules: set[int]) -> list[int]:
    """The ops that ran in these modules or in modules below them."""
    below = set(modules)
    for index, module in enumerate(facts.document.modules):
        if module.parent in below:
            below.add(index)
    return [op for op in range(len(facts.document.ops)) if facts.module(op) in below]


@rule(
    "S105",
    "advice",
    "recurrent cells called step by step from Python",
    advice="Use nn.LSTM, nn.GRU or nn.RNN, which run the whole sequence in one fused call. A cell is needed only if "
    "the input of a step depends on the previous step.",
    needs=(MODULES, WHOLE_PASS),
)
def cell_loop(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Recurrent cells that run many steps in one pass."""
    steps: dict[int, int] = {}
    for op in facts.ops_of(*_CELLS):
        steps[facts.module(op)] = steps.get(facts.module(op), 0) + 1
    looped = {module: count for module, count in steps.items() if count >= _MIN_STEPS}
    if not looped:
        return
    title = f"{plural(len(looped), 'recurrent cell')} called step by step, up to {max(looped.values())} steps"
    ops = _ops_below(facts, set(looped))
    evidence = {"steps": Figure(max(looped.values()), BY_PASS), "cells": Figure(len(looped), BY_PASS)}
    gain = above_limits(facts, ops)
    yield in_modules(facts, sorted(looped), title, evidence | time_evidence(facts, ops), gain)


@rule(
    "S106",
    "note",
    "mixture of experts: the share of the model that one token uses",
    advice="Plan memory for all parameters and time for the active ones: a batch reads nearly all experts, one token "
    "only its own. Experts can be spread over several devices or offloaded.",
    needs=(MODULES,),
)
def experts(facts: ModelFacts) -> Iterator[RuleMatch]:
    """The parameters of all experts, and of the active ones if the config gives their number per token."""
    modules = facts.document.modules
    holders = [i for i, module in enumerate(modules) if module.path.rpartition(".")[2] == "experts"]
    tensors = set().union(*(facts.parameters_below[index] for index in holders))
    count, whole = facts.elements_of(tensors), facts.parameters.count
    each = {_experts_in(facts, index) for index in holders}
    if not count or not whole or len(each) != 1 or max(each) < 2:
        return
    number = max(each)
    evidence = {
        "expert_parameters": Figure(count, BY_TENSORS),
        "share_of_parameters": share_of(count, whole, BY_TENSORS),
        "experts_a_layer": Figure(number, BY_TENSORS),
    }
    active = {_active_experts(facts, index) for index in holders}
    used = next(iter(active)) if len(active) == 1 else None
    if used:
        how = Counted(f"all parameters outside experts, and those of {used} of {number} experts")
        evidence["active_parameters"] = Figure(whole - count + count * used // number, how)
    yield RuleMatch(
        f"{number} experts per layer hold {units.share(count, whole)} of the parameters"
        + (f"; {used} active per token" if used else ""),
        evidence,
        modules=holders,
    )


def _experts_in(facts: ModelFacts, index: int) -> int:
    """The number of experts: the first dimension of stacked tensors, or else the number of child modules."""
    tensors = [facts.document.tensors[i].type.shape for i in facts.document.modules[index].tensors.values()]
    return max((shape[0] for shape in tensors if len(shape) > 2), default=0) or len(facts.children[index])


def _active_experts(facts: ModelFacts, index: int) -> int | None:
    """The number of experts per token from the config of the module, its parent or its siblings; None if unknown."""
    modules = facts.document.modules
    parent = modules[index].parent
    around = [] if parent is None else [parent, *facts.children[parent]]
    settings = (modules[each].config.get(name) for each in (index, *around) for name in _TOP_K_NAMES)
    return next((value for value in settings if isinstance(value, int) and value > 0), None)
