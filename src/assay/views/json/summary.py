"""The JSON of `assay summary`."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from assay.analysis.modules_run import ModulesRun, modules_run
from assay.analysis.outline import OutlineRow, Tie
from assay.analysis.parameters import Parameters, parameters
from assay.document.cost import Cost
from assay.document.document import Document, InputTensor
from assay.document.rows import TensorType
from assay.document.tree import path_text
from assay.views.json.cost import CountedHere, Figures, Metadata, counted, figures, figures_or_none, metadata
from assay.views.json.files import ResultFile, partial_keys


class LayerEntry(Struct, frozen=True):
    """A module, or a run of equal siblings; totals cover all modules of the run, submodules included."""

    module_path: str
    """The path of the first module of the run."""
    name: str
    class_name: str
    depth: int
    run: int
    """The number of equal siblings in the run."""
    modules: int
    """The number of modules the entry covers: its run, times the copies of the entries above it."""
    calls: int
    input_shapes: list[str]
    """Shapes of the tensors passed to the first module's first call."""
    output_shapes: list[str]
    """Output shapes of the first module's first call."""
    parameters: int | None
    """A tied parameter counts only at its first module."""
    own_parameters: int | None
    trainable_parameters: int | None
    total: Figures | None
    """Null for a module that already has an entry further up."""
    tied: list[Tie]
    same_as: str | None
    created_in_forward: bool
    mode: str
    """`training` or `evaluation` if the module was in another mode than the module above it, else empty."""


class SummaryFile(ResultFile, frozen=True):
    """The summary of one model."""

    metadata: Metadata
    layers: list[LayerEntry]
    parameters: Parameters
    totals: Figures
    coverage: float | None
    modules_run: ModulesRun | None
    """How many modules ran; null if unknown. The totals cover only these."""
    inputs: list[InputTensor]
    outputs: list[TensorType]
    provenance: CountedHere


def summary_file(document: Document, cost: Cost, lines: Sequence[OutlineRow]) -> SummaryFile:
    """The JSON of the summary of `document`; `lines` are the rows of its tree."""
    outermost = next((call for call in document.calls if call.parent is None), None)
    return SummaryFile(
        metadata=metadata(document),
        layers=[_layer(line) for line in lines],
        parameters=parameters(document),
        totals=figures(cost.forward),
        coverage=cost.coverage,
        modules_run=modules_run(document),
        inputs=list(document.run.inputs),
        outputs=list(outermost.outputs) if outermost else [],
        provenance=counted(document, cost),
        **partial_keys(document),
    )


def _layer(line: OutlineRow) -> LayerEntry:
    return LayerEntry(
        module_path=path_text(line.path),
        name=line.name,
        class_name=line.class_name,
        depth=line.depth,
        run=line.run,
        modules=line.modules,
        calls=line.calls,
        input_shapes=line.input_shapes,
        output_shapes=line.output_shapes,
        parameters=line.parameters,
        own_parameters=line.own_parameters,
        trainable_parameters=line.trainable,
        total=figures_or_none(None if line.same_as else line.totals),
        tied=list(line.ties),
        same_as=line.same_as,
        created_in_forward=line.created_in_forward,
        mode=line.mode,
    )
