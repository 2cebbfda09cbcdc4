"""The data that rules need from a document, each with the message for a document that lacks it."""

from __future__ import annotations

from assay.findings.facts import ModelFacts
from assay.findings.rule import Need


def _whole_pass(facts: ModelFacts) -> str:
    document = facts.document
    if not document.ops:
        return "no forward pass was recorded"
    return "" if document.complete else "the forward pass stopped before its end"


def _flow(facts: ModelFacts) -> str:
    has_reads = any(op.reads for op in facts.document.ops)
    return "" if has_reads else "the document does not record which tensors each op reads"


def _statistics(facts: ModelFacts) -> str:
    weights = facts.document.weights
    if weights is None:
        return "the weights were not read"
    has_statistics = not weights.tensors or any(row.zeros is not None for row in weights.tensors)
    return "" if has_statistics else "the document has no weight statistics"


def _cache(facts: ModelFacts) -> str:
    if facts.document.run.cache is not None:
        return ""
    return "the pass produced no KV cache" if facts.document.ops else "no forward pass was recorded"


def _profile(facts: ModelFacts) -> str:
    return "" if facts.document.profile is not None else "the model was not profiled"


def _timing(facts: ModelFacts) -> str:
    return "" if facts.document.timing is not None else "the modules were not timed"


def _limits(facts: ModelFacts) -> str:
    return "" if facts.device is not None else "the limits of this machine were not measured (`assay machine`)"


def _sweep(facts: ModelFacts) -> str:
    profile = facts.document.profile
    return "" if profile is not None and profile.sweeps else "no sweep over input sizes was measured"


def _activations(facts: ModelFacts) -> str:
    return "no pass with data computed statistics of outputs" if facts.document.activations is None else ""


def _gradients(facts: ModelFacts) -> str:
    found = facts.document.activations
    if found is not None and found.gradients:
        return ""
    why = found.backward_failure if found is not None else ""
    return f"the backward pass failed: {why}" if why else "no backward pass with data was run"


def _device_trace(facts: ModelFacts) -> str:
    traces = facts.document.traces
    if not traces:
        return "no trace was given"
    return "" if any(trace.devices for trace in traces) else "the trace has no accelerator"


def _ranks(facts: ModelFacts) -> str:
    ranks = {trace.rank for trace in facts.document.traces if trace.rank is not None}
    if not facts.document.traces:
        return "no trace was given"
    return "" if len(ranks) > 1 else "the traces are not of several ranks"


MODULES = Need("modules", lambda facts: "" if facts.document.modules else "the document has no modules")
WHOLE_PASS = Need("a complete forward pass", _whole_pass)
EVALUATION = Need(
    "evaluation mode",
    lambda facts: "the pass ran in training mode" if facts.document.run.training else "",
)
FLOW = Need("data flow between ops", _flow)
TRAINING_STEP = Need(
    "a training step", lambda facts: "no training step was recorded" if facts.document.training is None else ""
)
CACHE = Need("a KV cache", _cache)
STATISTICS = Need("weight statistics", _statistics)
FIT = Need(
    "weights in files beside the model",
    lambda facts: "" if facts.document.weights_fit is not None else "no stored weights were compared with the model",
)
PROFILE = Need("a profile", _profile)
SWEEP = Need("a sweep over batch sizes", _sweep)
TIMING = Need("times of modules", _timing)
LIMITS = Need("measured limits of the machine", _limits)
ACTIVATIONS = Need("statistics of outputs", _activations)
GRADIENTS = Need("gradients of a backward pass", _gradients)
TRACE = Need("a trace", lambda facts: "" if facts.document.traces else "no trace was given")
DEVICE_TRACE = Need("a trace with an accelerator", _device_trace)
RANKS = Need("traces of several ranks", _ranks)
