"""What takes memory, and what would take less."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from assay import units
from assay.analysis.attention import attention_by_hand, fused_attention
from assay.analysis.memory import key_value, memory_of
from assay.analysis.memory.lifetimes import BY_STORAGES, alive, forward, saved_for_backward, training_step
from assay.analysis.parameters import BUFFER
from assay.document.document import Document
from assay.document.provenance import Figure
from assay.document.rows import Storage
from assay.findings.catalogue import rule
from assay.findings.facts import BY_PASS, BY_TENSORS, ModelFacts, part
from assay.findings.naming import folded, listed
from assay.findings.needs import CACHE, FLOW, MODULES, TRAINING_STEP, WHOLE_PASS
from assay.findings.rule import RuleMatch, in_ops
from assay.messages import plural

SAVED_RATIO = 2
LOGITS_SHARE = 0.25
LOGITS_LEAST = 1 << 20
VOCABULARY = 8192
CACHE_TOKENS = 131_072
IN_PLACE_GAIN = 0.1
OPTIMIZER_LEAST = 1 << 30
BUFFER_SHARE = 0.1
BUFFER_LEAST = 1 << 20
_IN_PLACE = (
    "aten.relu", "aten.relu6", "aten.leaky_relu", "aten.elu", "aten.selu", "aten.celu", "aten.silu", "aten.mish",
    "aten.hardswish", "aten.hardtanh", "aten.hardsigmoid", "aten.sigmoid", "aten.tanh", "aten.dropout",
)  # fmt: skip
"""Activations that can overwrite their input."""


@rule(
    "M101",
    "advice",
    "activations kept for the backward pass that outweigh the parameters",
    advice="torch.utils.checkpoint around the repeated blocks keeps their inputs alone and computes the rest again, "
    "for about a third more time; a smaller batch with gradient accumulation, or bfloat16, halves what is kept.",
    needs=(WHOLE_PASS, TRAINING_STEP),
)
def kept_activations(facts: ModelFacts) -> Iterator[RuleMatch]:
    """What the forward pass makes and the backward pass reads, against the parameters."""
    step = training_step(facts.document)
    saved = saved_for_backward(step) if step is not None else 0
    held = facts.parameters.bytes
    if saved < LOGITS_LEAST or saved < SAVED_RATIO * held:
        return
    yield RuleMatch(
        f"the forward pass keeps {units.size(saved)} for backward, {units.ratio(saved / held) if held else 'all'} "
        "times the parameters",
        {"saved_bytes": Figure(saved, BY_STORAGES), "parameter_bytes": Figure(held, BY_TENSORS)},
    )


@rule(
    "M102",
    "note",
    "logits of a large vocabulary for every position",
    advice="To generate, only the last position's logits are needed (logits_to_keep=1 in transformers); to train, a "
    "loss that works on slices of the vocabulary or sequence never holds them all.",
    needs=(WHOLE_PASS, FLOW),
)
def logits(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Results with as many features as a vocabulary has, against what is alive at the peak."""
    ops = [op for op in facts.ops_of("aten.linear") if _is_logits(facts.kind(op).outputs[0].type.shape)]
    if not ops:
        return
    storages = facts.document.storages
    sizes = {op: storages[made].bytes for op in ops if (made := facts.flow.made(op)) is not None}
    size = max(sizes.values(), default=0)
    peak = max(alive(forward(facts.document).moving, len(facts.document.ops)), default=0)
    if size < LOGITS_LEAST or size < LOGITS_SHARE * peak:
        return
    large = [op for op, each in sizes.items() if each == size]
    shape = facts.kind(large[0]).outputs[0].type.shape
    title = (
        f"logits of {units.shape(shape)} take {units.size(size)}, {units.share(size, peak)} of all activations at "
        "the peak"
    )
    evidence = {
        "logit_bytes": Figure(size, BY_STORAGES),
        "peak_bytes": Figure(peak, BY_STORAGES),
        "share_of_peak": part(size, peak, BY_STORAGES),
    }
    yield in_ops(facts, large, title, evidence)


def _is_logits(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and shape[-1] >= VOCABULARY and shape[-2] > 1


@rule(
    "M103",
    "note",
    "a key and value cache that soon outgrows the parameters",
    advice="Fewer key and value heads (grouped-query attention), a cache in a narrower dtype, a sliding window, or "
    "paging bounds it; plan the batch by it.",
    needs=(CACHE,),
)
def cache(facts: ModelFacts) -> Iterator[RuleMatch]:
    """The number of cached tokens that take as much as the parameters, where every attention keeps its own."""
    found = key_value(facts.document)
    held = facts.parameters.bytes
    attentions = len(fused_attention(facts.document)) + len(attention_by_hand(facts.document))
    # Otherwise a part of it belongs to an encoder or a state, which does not grow with the tokens.
    if found is not None and found.captured.tensors != 2 * attentions:
        return
    if found is None or not found.per_token or held / found.per_token > CACHE_TOKENS:
        return
    tokens = round(held / found.per_token)
    yield RuleMatch(
        f"a cached token takes {units.size(found.per_token)}: {units.exact(tokens)} tokens in all sequences "
        "together take as much as the parameters",
        {
            "bytes_per_token": Figure(found.per_token, found.how),
            "tokens_as_large_as_parameters": Figure(tokens, found.how),
            "parameter_bytes": Figure(held, BY_TENSORS),
        },
    )


@rule(
    "M104",
    "advice",
    "activation functions that could overwrite their input where memory is tightest",
    advice="Pass inplace=True to these activations where their input is not needed again; for training check that "
    "the layer before does not keep its output.",
    needs=(WHOLE_PASS, FLOW),
)
def in_place(facts: ModelFacts) -> Iterator[RuleMatch]:
    """How much lower the peak is when activations overwrite an input that nobody reads afterwards."""
    document = facts.document
    ops = [op for op in facts.ops_of(*_IN_PLACE) if _is_last_use(facts, op)]
    if not ops:
        return
    now = max(alive(forward(document).moving, len(document.ops)), default=0)
    then = max(alive(forward(_overwriting(facts, ops)).moving, len(document.ops)), default=0)
    if not now or now - then < IN_PLACE_GAIN * now:
        return
    title = (
        f"{plural(len(ops), 'activation function')} in place would lower the peak of activations from "
        f"{units.size(now)} to {units.size(then)}"
    )
    evidence = {"peak_bytes": Figure(now, BY_STORAGES), "peak_in_place_bytes": Figure(then, BY_STORAGES)}
    yield in_ops(facts, ops, title, evidence)


def _is_last_use(facts: ModelFacts, op: int) -> bool:
    """Whether it makes something of its input's size and dtype, and nothing reads that input afterwards."""
    row, kind = facts.document.ops[op], facts.kind(op)
    made = facts.flow.made(op)
    if made is None or not row.reads:
        return False
    source, result = facts.document.storages[row.reads[0]], facts.document.storages[made]
    same = kind.inputs[0].type == kind.outputs[0].type and source.bytes == result.bytes
    last = facts.flow.readers.get(row.reads[0], [])[-1:] == [op]
    # Freed right after, give or take one: a name in forward may hold on to it until the next line has run.
    freed = source.died is not None and source.died <= op + 2
    return same and last and freed and source.role == "activation"


def _overwriting(facts: ModelFacts, ops: list[int]) -> Document:
    """The document as if each operation wrote into its input: the result lives on in the input's storage."""
    storages: list[Storage] = list(facts.document.storages)
    stands_for: dict[int, int] = {}
    for op in ops:
        row = facts.document.ops[op]
        source = stands_for.get(row.reads[0], row.reads[0])
        made = row.writes[0]
        storages[source] = replace(storages[source], died=storages[made].died)
        storages[made] = replace(storages[made], bytes=0)
        stands_for[made] = source
    return replace(facts.document, storages=storages)


@rule(
    "M105",
    "note",
    "optimizer state of a large model",
    advice="An 8-bit optimizer, Adafactor, or sharding the state over devices (FSDP, ZeRO) takes most of it away; "
    "training few parameters (LoRA) takes gradients away as well. assay memory --optimizer compares them.",
    needs=(MODULES,),
)
def optimizer_state(facts: ModelFacts) -> Iterator[RuleMatch]:
    """What AdamW keeps beside the parameters."""
    if facts.parameters.bytes < OPTIMIZER_LEAST or not facts.parameters.trainable:
        return
    memory = memory_of(facts.document)
    state, gradients = memory.optimizer.bytes, memory.gradients
    if state.value is None:
        return
    yield RuleMatch(
        f"training with AdamW keeps {units.size(state.value)} of state and {units.size(gradients.value)} of "
        f"gradients beside {units.size(facts.parameters.bytes)} of parameters",
        {"state_bytes": state, "gradient_bytes": gradients, "parameter_bytes": memory.parameters},
    )


@rule(
    "M106",
    "advice",
    "large buffers",
    advice="Masks, positions and tables that can be computed need not be kept: make them in forward from the sizes "
    "at hand, share one between layers, or register them with persistent=False so that checkpoints leave them out.",
    needs=(MODULES,),
)
def buffers(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Buffers against parameters."""
    held = [tensor for tensor in facts.document.tensors if tensor.role == BUFFER]
    size = sum(tensor.bytes for tensor in held)
    if size < BUFFER_LEAST or size < BUFFER_SHARE * facts.parameters.bytes or not facts.parameters.bytes:
        return
    largest = [tensor.names[0] for tensor in held if tensor.bytes >= size / (10 * len(held))]
    yield RuleMatch(
        f"buffers take {units.size(size)} beside {units.size(facts.parameters.bytes)} of parameters: "
        f"{listed(folded(largest))}",
        {
            "buffer_bytes": Figure(size, BY_TENSORS),
            "parameter_bytes": Figure(facts.parameters.bytes, BY_TENSORS),
            "buffers": Figure(len(held), BY_PASS),
        },
        tensors=largest,
    )
