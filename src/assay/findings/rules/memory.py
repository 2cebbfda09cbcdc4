"""Rules about memory: what takes most of it, and how to need less."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from assay import units
from assay.analysis.attention import fused_attention, unfused_attention
from assay.analysis.memory import key_value, memory_of
from assay.analysis.memory.lifetimes import BY_STORAGES, forward, live_bytes, saved_for_backward, training_step
from assay.document.document import Document
from assay.document.provenance import Counted, Figure
from assay.document.roles import BUFFER
from assay.document.rows import Storage
from assay.findings.catalogue import rule
from assay.findings.facts import BY_PASS, BY_TENSORS, ModelFacts
from assay.findings.gains import bytes_gain, memory_gain
from assay.findings.naming import fold_names, joined_names
from assay.findings.needs import CACHE, FLOW, MODULES, TRAINING_STEP, WHOLE_PASS
from assay.findings.rule import RuleMatch, in_ops
from assay.messages import plural

SAVED_RATIO = 2
MIN_ACTIVATION_BYTES = 1 << 20
MAX_CACHE_TOKENS = 131_072
MIN_IN_PLACE_GAIN = 0.1
MIN_PARAMETER_BYTES = MIN_STATE_BYTES = 1 << 30
BUFFER_SHARE = 0.1
MIN_BUFFER_BYTES = 1 << 20
_BY_AMOUNTS = Counted("optimizer state, compared with state, gradients and parameters")
_ACTIVATIONS = (
    "aten.relu", "aten.relu6", "aten.leaky_relu", "aten.elu", "aten.selu", "aten.celu", "aten.silu", "aten.mish",
    "aten.hardswish", "aten.hardtanh", "aten.hardsigmoid", "aten.sigmoid", "aten.tanh", "aten.dropout",
)  # fmt: skip
"""Activations that can overwrite their input."""


@rule(
    "M101",
    "advice",
    "activations saved for the backward pass that far exceed the parameters",
    advice="Wrap the repeated blocks in torch.utils.checkpoint, which saves only their inputs and recomputes the "
    "rest for about a third more time. A smaller batch with gradient accumulation, or bfloat16, also helps.",
    needs=(WHOLE_PASS, TRAINING_STEP),
)
def saved_activations(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Activations saved for the backward pass that take at least twice the bytes of the parameters."""
    step = training_step(facts.document)
    saved = saved_for_backward(step) if step is not None else 0
    size = facts.parameter_bytes
    if saved < MIN_ACTIVATION_BYTES or saved < SAVED_RATIO * size:
        return
    peak = memory_of(facts.document).training_peak.value
    yield RuleMatch(
        f"the forward pass saves {units.size(saved)} of activations for the backward pass"
        + (f", {units.ratio(saved / size)} times the parameters" if size else ""),
        {"saved_bytes": Figure(saved, BY_STORAGES), "parameter_bytes": Figure(size, BY_TENSORS)},
        gain=memory_gain(saved, peak or 0.0, BY_STORAGES),
    )


@rule(
    "M103",
    "note",
    "a KV cache that soon outgrows the parameters",
    advice="Limit the KV cache with fewer key/value heads (grouped-query attention), a narrower dtype, a sliding "
    "window or paging, and choose the batch size with the cache in mind.",
    needs=(CACHE,),
)
def cache(facts: ModelFacts) -> Iterator[RuleMatch]:
    """The cached tokens that take as much memory as the parameters, if every attention has its own cache."""
    cached = key_value(facts.document)
    size = facts.parameter_bytes
    attentions = len(fused_attention(facts.document)) + len(unfused_attention(facts.document))
    # Otherwise part of the cache belongs to an encoder or a state, which does not grow with the tokens.
    if cached is not None and cached.captured.tensors != 2 * attentions:
        return
    if cached is None or not cached.per_token or size / cached.per_token > MAX_CACHE_TOKENS:
        return
    tokens = round(size / cached.per_token)
    yield RuleMatch(
        f"the KV cache takes {units.size(cached.per_token)} per token and is as large as the parameters at "
        f"{plural(tokens, 'token')} (all sequences together)",
        {
            "bytes_per_token": Figure(cached.per_token, cached.how),
            "tokens_as_large_as_parameters": Figure(tokens, cached.how),
            "parameter_bytes": Figure(size, BY_TENSORS),
        },
    )


@rule(
    "M104",
    "advice",
    "activation functions that could run in place to lower the peak memory",
    advice="Pass inplace=True to these activation functions if their input is not needed again. For training, check "
    "that the preceding layer does not save its output for the backward pass.",
    needs=(WHOLE_PASS, FLOW),
)
def in_place(facts: ModelFacts) -> Iterator[RuleMatch]:
    """How much the peak memory drops if activation functions overwrite inputs that no later op reads."""
    document = facts.document
    ops = [op for op in facts.ops_of(*_ACTIVATIONS) if _is_last_use(facts, op)]
    if not ops:
        return
    now = max(live_bytes(forward(document).moving, len(document.ops)), default=0)
    then = max(live_bytes(forward(_overwriting(facts, ops)).moving, len(document.ops)), default=0)
    if not now or now - then < MIN_IN_PLACE_GAIN * now:
        return
    title = (
        f"running {plural(len(ops), 'activation function')} in place would lower the peak activation memory from "
        f"{units.size(now)} to {units.size(then)}"
    )
    evidence = {"peak_bytes": Figure(now, BY_STORAGES), "peak_in_place_bytes": Figure(then, BY_STORAGES)}
    whole = memory_of(document).inference_peak.value
    yield in_ops(facts, ops, title, evidence, memory_gain(now - then, whole or now, BY_STORAGES))


def _is_last_use(facts: ModelFacts, op: int) -> bool:
    """Whether the op's result has the type and size of its input, and no later op reads that input."""
    row, kind = facts.document.ops[op], facts.kind(op)
    made = facts.flow.created_storage(op)
    if made is None or not row.reads:
        return False
    source, result = facts.document.storages[row.reads[0]], facts.document.storages[made]
    same = kind.inputs[0].type == kind.outputs[0].type and source.bytes == result.bytes
    last = facts.flow.readers.get(row.reads[0], [])[-1:] == [op]
    # Freed right after, give or take one op: a variable in forward may keep it alive until the next line has run.
    freed = source.died is not None and source.died <= op + 2
    return same and last and freed and source.role == "activation"


def _overwriting(facts: ModelFacts, ops: list[int]) -> Document:
    """A copy of the document in which each op writes into its input, whose lifetime extends to the result's end."""
    storages: list[Storage] = list(facts.document.storages)
    replaced_by: dict[int, int] = {}
    for op in ops:
        row = facts.document.ops[op]
        source = replaced_by.get(row.reads[0], row.reads[0])
        made = row.writes[0]
        storages[source] = replace(storages[source], died=storages[made].died)
        storages[made] = replace(storages[made], bytes=0)
        replaced_by[made] = source
    return replace(facts.document, storages=storages)


@rule(
    "M105",
    "note",
    "large optimizer state",
    advice="Use an 8-bit optimizer or Adafactor, or shard the state over devices (FSDP, ZeRO); training only a few "
    "parameters (LoRA) also removes most gradients. Compare optimizers with `assay memory`.",
    needs=(MODULES,),
)
def optimizer_state(facts: ModelFacts) -> Iterator[RuleMatch]:
    """The state and gradients that AdamW needs, if parameters and state take at least 1 GiB each."""
    if facts.parameter_bytes < MIN_PARAMETER_BYTES:
        return
    memory = memory_of(facts.document)
    state, gradients = memory.optimizer.bytes, memory.gradients
    if state.value is None or state.value < MIN_STATE_BYTES:
        return
    whole = state.value + (gradients.value or 0) + facts.parameter_bytes
    yield RuleMatch(
        f"training with AdamW needs {units.size(state.value)} of optimizer state and {units.size(gradients.value)} "
        f"of gradients for {units.size(facts.parameter_bytes)} of parameters",
        {"state_bytes": state, "gradient_bytes": gradients, "parameter_bytes": memory.parameters},
        gain=memory_gain(state.value, whole, _BY_AMOUNTS),
    )


@rule(
    "M106",
    "advice",
    "buffers that are large compared with the parameters",
    advice="Compute masks, positions and tables in forward from the input sizes, share one copy between layers, or "
    "register them with persistent=False to keep them out of checkpoints.",
    needs=(MODULES,),
)
def buffers(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Buffers that take at least a tenth of the bytes of the parameters."""
    rows = [tensor for tensor in facts.document.tensors if tensor.role == BUFFER]
    size = sum(tensor.bytes for tensor in rows)
    if size < MIN_BUFFER_BYTES or size < BUFFER_SHARE * facts.parameter_bytes or not facts.parameter_bytes:
        return
    largest = [tensor.names[0] for tensor in rows if tensor.bytes >= size / (10 * len(rows))]
    yield RuleMatch(
        f"buffers take {units.size(size)}, compared with {units.size(facts.parameter_bytes)} of parameters: "
        f"{joined_names(fold_names(largest))}",
        {
            "buffer_bytes": Figure(size, BY_TENSORS),
            "parameter_bytes": Figure(facts.parameter_bytes, BY_TENSORS),
            "buffers": Figure(len(rows), BY_PASS),
        },
        tensors=largest,
        gain=bytes_gain(size, size + facts.parameter_bytes, BY_TENSORS),
    )
