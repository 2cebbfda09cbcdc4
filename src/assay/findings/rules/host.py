"""Rules about forward passes in which Python waits for tensors: reads of values, NumPy, copies between devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from assay import units
from assay.document.findings import Gain
from assay.document.host_reads import BOOL, COPY, ITEM, NUMPY, SIZES, TOLIST, HostRead
from assay.document.machine import NOT_MEASURED
from assay.document.provenance import Counted, Figure
from assay.findings.catalogue import rule
from assay.findings.facts import ModelFacts
from assay.findings.gains import removed_ops, time_gain
from assay.findings.naming import joined_names, module_names
from assay.findings.needs import WHOLE_PASS
from assay.findings.rule import RuleMatch
from assay.messages import plural

BY_READS = Counted("ops of the recorded pass that return values to Python")
_SYNCHRONISING = (ITEM, BOOL, TOLIST, SIZES)


@rule(
    "C501",
    "advice",
    "tensor values that Python reads in forward",
    advice="Keep the value on the device: replace .item(), int() and `if tensor:` with torch.where, masks and tensor "
    "arithmetic, and masked indexing with ops of a fixed size. Each read waits until the accelerator has caught up, "
    "and splits the graph of torch.compile.",
    needs=(WHOLE_PASS,),
)
def synchronisation(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Ops that return a number, a condition, a list or a size that depends on values."""
    reads = [read for read in facts.document.host_reads if read.what in _SYNCHRONISING]
    if reads:
        what = Counter(read.what for read in reads)
        evidence = {f"reads_of_{name}": Figure(count, BY_READS) for name, count in what.items()}
        title = f"Python reads values of tensors {_times(len(reads))} per pass"
        yield _match(facts, reads, title, {"reads": Figure(len(reads), BY_READS), **evidence}, _stall(facts))


@rule(
    "C502",
    "advice",
    "tensors that are converted to NumPy in forward",
    advice="Write the computation with torch ops: NumPy has to wait for the accelerator, gradients are lost, "
    "and torch.compile and torch.export cannot follow the values through NumPy.",
    needs=(WHOLE_PASS,),
)
def numpy_round_trips(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Tensors whose memory NumPy reads."""
    reads = [read for read in facts.document.host_reads if read.what == NUMPY]
    if reads:
        title = f"{plural(len(reads), 'conversion')} of a tensor to NumPy per pass"
        yield _match(facts, reads, title, {"conversions": Figure(len(reads), BY_READS)}, _stall(facts))


@rule(
    "C503",
    "advice",
    "tensors that are copied between devices in forward",
    advice="Create tensors on the device on which they are used (device=x.device, or register_buffer for constants) "
    "and keep activations there: a copy runs at the speed of the bus, and a copy to the CPU waits for all kernels "
    "before it.",
    needs=(WHOLE_PASS,),
)
def device_copies(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Copies of tensors other than inputs from one device to another."""
    reads = [read for read in facts.document.host_reads if read.what == COPY and not _moves_input(facts, read)]
    if reads:
        ops = [read.op for read in reads]
        size = sum(facts.kind_cost(op).written for op in ops)
        title = f"{plural(len(reads), 'copy', 'copies')} between devices per pass ({units.size(size)})"
        evidence = {"copies": Figure(len(reads), BY_READS), "copied_bytes": Figure(size, BY_READS)}
        yield _match(facts, reads, title, evidence, removed_ops(facts, ops))


def _moves_input(facts: ModelFacts, read: HostRead) -> bool:
    source = facts.flow.operand(read.op, "src")
    source = facts.flow.operand(read.op, "self") if source is None else source
    return source is not None and facts.document.storages[source].role == "input"


def _match(
    facts: ModelFacts, reads: Sequence[HostRead], title: str, evidence: dict[str, Figure], gain: Gain | None
) -> RuleMatch:
    """A match that names the lines of code, most frequent first; a note on a CPU, where nothing has to wait."""
    modules = facts.modules(read.op for read in reads)
    title = f"{title}: {_lines(reads) or module_names(facts.document, modules)}"
    if facts.on_accelerator or reads[0].what == COPY:
        return RuleMatch(title, evidence, modules, gain=gain)
    return RuleMatch(title, evidence, modules, severity="note")


def _lines(reads: Sequence[HostRead]) -> str:
    """The lines of code with the number of their reads: `model.py:42 (8×), model.py:7`; empty if unknown."""
    counts = Counter(read.source for read in reads if read.source)
    return joined_names([f"{line} ({count}×)" if count > 1 else line for line, count in counts.most_common()])


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _stall(facts: ModelFacts) -> Gain:
    """The time in which the accelerator ran nothing, at most all of which is spent waiting."""
    timing = facts.document.timing
    return time_gain(facts, timing.gap if timing is not None else NOT_MEASURED)
