"""The JSON of `assay cost`: the structs that are encoded and from which the schema is generated."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from msgspec import Struct

from assay import units
from assay.analysis.cost.totals import module_totals
from assay.analysis.executed import ExecutedKind, executed_kinds
from assay.analysis.modules_run import ModulesRun, modules_run
from assay.analysis.parameters import Parameters, parameters
from assay.document import tree
from assay.document.cost import Cost, CostTotals, UnknownOp
from assay.document.document import Document
from assay.document.rows import Operand
from assay.views.json.files import EntryProvenance, ResultFile, partial_keys, provenance, timestamp


class Figures(Struct, frozen=True):
    """Totals over executed ops; null is unknown."""

    ops: int | None
    unknown_ops: int | None
    """Executed ops without a FLOP count; the totals do not include them."""
    macs: int | None
    matrix_flops: int | None
    pointwise_flops: int | None
    needed_flops: int | None
    flops: int | None
    """Matrix and pointwise FLOPs together."""
    bytes_read_parameters: int | None
    bytes_read_activations: int | None
    bytes_written: int | None
    bytes: int | None
    intensity: float | None
    """FLOPs per byte."""


class CountedHere(EntryProvenance, frozen=True, tag_field="kind", tag="counted"):
    """How the totals were obtained: counted from shapes and attributes, not measured."""

    convention: str


class Metadata(Struct, frozen=True):
    """The model the file describes, and when it was recorded."""

    load_fn_location: str
    load_fn_name: str
    model_class: str
    timestamp: str


class KindEntry(Struct, frozen=True):
    """A kind of op with its shapes and attributes, and the total cost of its executions."""

    op_name: str
    target: str
    category: str
    phase: str
    count: int
    attributes: dict[str, Any]
    input_shapes: list[str]
    input_dtypes: list[str]
    output_shapes: list[str]
    output_dtypes: list[str]
    each_flops: int | None
    each_bytes: int
    total: Figures
    unknown: str | None
    """Why the cost is unknown."""


class ModuleCostEntry(Struct, frozen=True, rename={"own": "self"}):
    """The cost of a module over all its calls."""

    module_path: str
    class_name: str
    calls: int
    own: Figures
    """Ops of the module itself."""
    total: Figures
    """Including submodules called inside; for a container that is never called, the total of its children."""
    backward: Figures | None
    """The backward pass of the module's own ops, if it was recorded."""


class CostFile(ResultFile, frozen=True):
    """The cost of one model."""

    metadata: Metadata
    parameters: Parameters
    totals: Figures
    """The forward pass."""
    least: Figures | None
    """The forward pass without the ops whose sizes depend on data that was not there. The true cost is between this
    and `totals`; null if `totals` is exact."""
    backward: Figures | None
    coverage: float | None
    """The share of executed ops that have a formula; null if nothing ran or the pass stopped midway."""
    modules_run: ModulesRun | None
    """How many modules ran; null if unknown. The totals cover only these."""
    categories: dict[str, Figures]
    """The forward pass by type of op, largest first."""
    kinds: list[KindEntry]
    modules: list[ModuleCostEntry]
    outside: Figures
    """Ops of the forward pass outside any module."""
    unknown: list[UnknownOp]
    provenance: CountedHere


def cost_file(document: Document, cost: Cost) -> CostFile:
    """The JSON of the cost of `document`."""
    return CostFile(
        metadata=metadata(document),
        parameters=parameters(document),
        totals=figures(cost.forward),
        least=figures_or_none(cost.least),
        backward=figures_or_none(cost.backward),
        coverage=cost.coverage,
        modules_run=modules_run(document),
        categories={name: figures(sums) for name, sums in cost.categories.items()},
        kinds=[_kind(row) for row in executed_kinds(document, cost)],
        modules=_modules(document, cost),
        outside=figures(cost.outside),
        unknown=cost.unknown,
        provenance=counted(document, cost),
        **partial_keys(document),
    )


def figures(sums: CostTotals) -> Figures:
    """The totals as written to JSON; FLOPs are None if no op has a formula, and all are if no op was recorded."""
    known, recorded = sums.known, sums.recorded
    return Figures(
        ops=sums.ops if recorded else None,
        unknown_ops=sums.unknown_ops if recorded else None,
        macs=sums.macs if known else None,
        matrix_flops=sums.matrix_flops if known else None,
        pointwise_flops=sums.pointwise_flops if known else None,
        needed_flops=sums.needed_flops if known else None,
        flops=sums.flops,
        bytes_read_parameters=sums.read_parameters if recorded else None,
        bytes_read_activations=sums.read_activations if recorded else None,
        bytes_written=sums.written if recorded else None,
        bytes=sums.bytes if recorded else None,
        intensity=sums.intensity,
    )


def figures_or_none(sums: CostTotals | None) -> Figures | None:
    """`figures(sums)`, or None if `sums` is None."""
    return None if sums is None else figures(sums)


def metadata(document: Document) -> Metadata:
    """The metadata of `document`'s model."""
    return Metadata(
        load_fn_location=document.origin.location,
        load_fn_name=document.origin.name,
        model_class=document.model_class,
        timestamp=timestamp(document),
    )


def counted(document: Document, cost: Cost) -> CountedHere:
    """How the costs of `document` were obtained."""
    return CountedHere(**msgspec.structs.asdict(provenance(document)), convention=cost.convention)


def _kind(row: ExecutedKind) -> KindEntry:
    kind, each = row.kind, row.each
    return KindEntry(
        op_name=kind.name,
        target=kind.target,
        category=each.category,
        phase=row.phase,
        count=row.count,
        attributes=kind.attributes,
        input_shapes=_shapes(kind.inputs),
        input_dtypes=_dtypes(kind.inputs),
        output_shapes=_shapes(kind.outputs),
        output_dtypes=_dtypes(kind.outputs),
        each_flops=each.flops,
        each_bytes=each.bytes,
        total=figures(row.totals),
        unknown=each.unknown or None,
    )


def _shapes(operands: tuple[Operand, ...]) -> list[str]:
    return [units.shape(operand.type.shape) for operand in operands]


def _dtypes(operands: tuple[Operand, ...]) -> list[str]:
    return [operand.type.dtype for operand in operands]


def _modules(document: Document, cost: Cost) -> list[ModuleCostEntry]:
    calls = Counter(call.module for call in document.calls)
    totals = module_totals(document, cost)
    return [
        ModuleCostEntry(
            module_path=tree.path_text(module.path),
            class_name=module.class_name,
            calls=calls[index],
            own=figures(cost.modules[index].own if totals[index].recorded else totals[index]),
            total=figures(totals[index]),
            backward=figures_or_none(cost.modules[index].backward if totals[index].recorded else None),
        )
        for index, module in enumerate(document.modules)
    ]
