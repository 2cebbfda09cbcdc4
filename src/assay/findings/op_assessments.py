"""What the weights of each op allow, with one recommendation per op and per kind of op."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from math import inf

from msgspec.structs import replace

from assay import units
from assay.analysis.devices import Device
from assay.analysis.parameters import elements, tensor_storages
from assay.analysis.roofline import COMPUTE, MEMORY, Roofline, roofline_of
from assay.document.assessments import (
    CHECK,
    KEEP,
    NONE,
    PRUNE,
    QUANTIZE,
    STORE,
    Assessment,
    OpAssessment,
    TensorAssessment,
)
from assay.document.document import Document
from assay.document.findings import Finding
from assay.document.provenance import Counted, Provenance
from assay.document.roles import PARAMETER
from assay.document.rows import Op, Tensor
from assay.document.weights import Rounding
from assay.findings.catalogue import rules
from assay.findings.tensor_assessments import COLUMNS, NOT_READ, assess_weights, most_sensitive

NO_WEIGHTS = "reads no weight matrix"
PACKED = "its packed weights are not read"
_NOT_RECORDED = "the parameters that it reads were not recorded"
_NOTHING = "none: no weight matrix, no finding"
_QUANTIZED = "none: already quantized"
_PACKED_OPS = re.compile(r"\bquantized\.(linear|conv|quantized_\w+_cell)")
"""Names of ops of quantized layers, which take their weights as an object and not as a tensor."""
_SEVERE = ("error", "warning")
_SMALLER = (QUANTIZE, STORE, PRUNE)
"""Actions that save bytes, and time only where the bandwidth of the memory limits the op."""
_BY_WEIGHTS = Counted("weights of the ops: the mean potential, weighted by elements, and the worst rounding")

Weight = tuple[Tensor, TensorAssessment | None]
"""A parameter and its assessment; None if its values were not read."""


def assess(document: Document, findings: Sequence[Finding], device: Device | None = None) -> Assessment:
    """The assessment of all tensors and ops; `device` has the limits of the machine, None if they are unknown."""
    tensors = assess_weights(document.weights).tensors if document.weights is not None else []
    roofline = roofline_of(document, device) if device is not None and document.ops else None
    ops = _Ops(document, tensors, findings, roofline)
    columns: dict[str, Provenance] = {**COLUMNS, "kinds": _BY_WEIGHTS, "ops": _BY_WEIGHTS}
    if roofline is not None:
        columns |= {"ops.bound": roofline.how, "kinds.bound": roofline.how}
    return Assessment(tensors, ops.by_kind(), [ops.of([op]) for op in document.ops], columns)


class _Ops:
    """The assessments of a document's ops; equal ones are computed once."""

    def __init__(
        self,
        document: Document,
        tensors: Sequence[TensorAssessment],
        findings: Sequence[Finding],
        roofline: Roofline | None,
    ) -> None:
        self._document, self._findings = document, findings
        statistics = document.weights.tensors if document.weights is not None else []
        self._by_name = {name: one for row, one in zip(statistics, tensors, strict=True) for name in row.names}
        self._held = _parameters_by_storage(document)
        self._bounds = {row.kind: row.by for row in roofline.kinds} if roofline is not None else {}
        self._naming: dict[int | str, list[int]] = defaultdict(list)  # findings by module or by name of a tensor
        for number, finding in enumerate(findings):
            for at in finding.modules:
                self._naming[at].append(number)
            for name in finding.tensors:
                self._naming[name].append(number)
        self._assessed = cache(self._new)

    def of(self, ops: Sequence[Op]) -> OpAssessment:
        """The assessment of ops of one kind."""
        tensors = {at for op in ops for storage in op.reads for at in self._held.get(storage, ())}
        modules = {self._document.module_of(op) for op in ops}
        return self._assessed(ops[0].kind, tuple(sorted(tensors)), self._named(modules))

    def by_kind(self) -> list[OpAssessment]:
        """One assessment per kind, over all its ops; an empty one for a kind that was not executed."""
        groups: list[list[Op]] = [[] for _ in self._document.kinds]
        for op in self._document.ops:
            groups[op.kind].append(op)
        return [self.of(group) if group else OpAssessment(unknown="not executed") for group in groups]

    def _new(self, kind: int, tensors: tuple[int, ...], of_modules: tuple[int, ...]) -> OpAssessment:
        parameters = [self._weight(at) for at in tensors]
        matrices = [pair for pair in parameters if len(pair[0].type.shape) > 1]
        of_tensors = self._named(name for tensor, _ in parameters for name in tensor.names)
        codes = dict.fromkeys(self._findings[at].code for at in sorted({*of_modules, *of_tensors}))
        result = OpAssessment(
            tensors=tensors,
            bound=self._bound(kind),
            findings=tuple(codes),
            recommendation=self._recommendation(kind, parameters, [self._findings[at] for at in of_modules]),
            unknown=self._unknown(kind, parameters, matrices),
        )
        return result if result.unknown else _with_figures(result, matrices)

    def _weight(self, at: int) -> Weight:
        tensor, fit = self._document.tensors[at], self._document.weights_fit
        own = next((self._by_name[name] for name in tensor.names if name in self._by_name), None)
        parts = fit.stored_as.get(tensor.names[0], ()) if own is None and fit is not None else ()
        known = [self._by_name[name] for name in parts if name in self._by_name]
        return tensor, _of_parts(tensor, known) if known and len(known) == len(parts) else own

    def _named(self, names: Iterable[int | str]) -> tuple[int, ...]:
        """The findings that name any of these modules or tensors, in order."""
        return tuple(sorted({number for name in names for number in self._naming.get(name, ())}))

    def _bound(self, kind: int) -> str:
        bound = self._bounds.get(kind, "")
        return bound if bound in (MEMORY, COMPUTE) else ""

    def _unknown(self, kind: int, parameters: Sequence[Weight], matrices: Sequence[Weight]) -> str:
        """Why the figures are unknown; empty if they are known."""
        if not matrices:
            if self._is_packed(kind):
                return PACKED
            named = any(each.role == PARAMETER for each in self._document.kinds[kind].inputs)
            return _NOT_RECORDED if named and not parameters else NO_WEIGHTS
        missing = ((tensor, NOT_READ if one is None else one.unknown) for tensor, one in matrices)
        return next((f"{tensor.names[0]}: {why}" for tensor, why in missing if why), "")

    def _recommendation(self, kind: int, parameters: Sequence[Weight], findings: Sequence[Finding]) -> str:
        """The worst problem of its module, else what to do about its weights, else a finding of its module."""
        if findings and findings[0].severity in _SEVERE:
            return _see(findings[0])
        largest = sorted(parameters, key=lambda pair: -pair[0].bytes)
        assessed = [one for _, one in largest if one is not None]
        to_check = [one for one in assessed if one.action == CHECK]
        invalid = next((one for one in to_check if one.unknown), to_check[0] if to_check else None)
        if invalid is not None:
            return f"{invalid.recommendation} ({invalid.name})"
        useful = [one for one in assessed if one.action not in ("", KEEP, NONE)]
        matrices = [(tensor, one) for tensor, one in largest if len(tensor.type.shape) > 1]
        if useful:
            return self._about_weights(kind, useful, len(matrices))
        if matrices:
            return next((one.recommendation for _, one in matrices if one is not None), "")
        if findings and self._computes(kind):
            return f"{_see(findings[0])} (in its module)"
        return _QUANTIZED if self._is_packed(kind) else _NOTHING

    def _computes(self, kind: int) -> bool:
        """Whether it does more than move data."""
        cost = self._document.cost
        return cost is None or cost.kinds[kind].flops != 0

    def _is_packed(self, kind: int) -> bool:
        return bool(_PACKED_OPS.search(self._document.kinds[kind].name))

    def _about_weights(self, kind: int, useful: Sequence[TensorAssessment], matrices: int) -> str:
        """The recommendation for the largest of the weights, how many of them share it, and what it saves."""
        first = useful[0]
        alike = sum(one.recommendation == first.recommendation for one in useful)
        notes = [f"{alike} of {matrices} matrices"] if alike < matrices else []
        if first.action in _SMALLER and self._bound(kind) == COMPUTE:
            notes.append("compute-bound: saves memory only")
        if first.action in _SMALLER and self._bound(kind) == MEMORY and self._document.cost is not None:
            cost = self._document.cost.kinds[kind]
            notes.append(f"memory-bound: parameters are {units.share(cost.read_parameters, cost.bytes)} of its bytes")
        return f"{first.recommendation} ({'; '.join(notes)})" if notes else first.recommendation


def _of_parts(tensor: Tensor, parts: Sequence[TensorAssessment]) -> TensorAssessment:
    """The assessment of a tensor that is stored in parts of one size, such as experts: the worst of them."""
    sensitivity = most_sensitive([one.quantization_sensitivity for one in parts])
    unknown = next((one.unknown for one in parts if one.unknown), "")
    worst = next((one for one in parts if one.quantization_sensitivity == sensitivity), parts[0])
    potentials = [one.pruning_potential for one in parts if one.pruning_potential is not None]
    return replace(
        worst,
        name=tensor.names[0],
        pruning_potential=sum(potentials) / len(parts) if len(potentials) == len(parts) else None,
        int8=_worst([one.int8 for one in parts]),
        int4=_worst([one.int4 for one in parts]),
        quantization_sensitivity=sensitivity,
        unknown=unknown,
    )


def _parameters_by_storage(document: Document) -> dict[int, list[int]]:
    """The parameters in each storage, as indices into `Document.tensors`."""
    held: dict[int, list[int]] = defaultdict(list)
    for at, storage in tensor_storages(document).items():
        if document.tensors[at].role == PARAMETER:
            held[storage].append(at)
    return held


def _see(finding: Finding) -> str:
    return f"See {finding.code}: {_summaries()[finding.code]}"


@cache
def _summaries() -> dict[str, str]:
    """What each rule looks for, by its code."""
    return {rule.code: rule.summary for rule in rules()}


def _with_figures(assessment: OpAssessment, matrices: Sequence[Weight]) -> OpAssessment:
    """The assessment with the figures of its weights, all of which are known."""
    known = [one for _, one in matrices if one is not None]
    return replace(
        assessment,
        pruning_potential=_mean_potential(matrices),
        int8=_worst([one.int8 for one in known]),
        int4=_worst([one.int4 for one in known]),
        quantization_sensitivity=most_sensitive([one.quantization_sensitivity for one in known]),
    )


def _mean_potential(weights: Sequence[Weight]) -> float | None:
    """The mean share that can be pruned, weighted by elements; None if any is unknown."""
    total = pruned = 0.0
    for tensor, one in weights:
        count = elements(tensor.type)
        if count is None or one is None or one.pruning_potential is None:
            return None
        total, pruned = total + count, pruned + count * one.pruning_potential
    return pruned / total if total else None


def _worst(roundings: Sequence[Rounding | None]) -> Rounding | None:
    """The one with the lowest signal-to-noise ratio; None if any is unknown."""
    known = [each for each in roundings if each is not None and (each.exact or each.sqnr_db is not None)]
    return min(known, key=_decibels) if known and len(known) == len(roundings) else None


def _decibels(rounding: Rounding) -> float:
    return inf if rounding.exact or rounding.sqnr_db is None else rounding.sqnr_db
