"""The JSON of `assay profile`: the structs that are encoded and from which the schema is generated."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from assay.analysis.achieved import Achieved
from assay.analysis.memory import PeakComparison, compared_peaks, memory_of
from assay.document import tree
from assay.document.document import Document
from assay.document.profile import Profile
from assay.document.provenance import Counted, Measured, Provenance
from assay.document.timing import ModuleTime, Timing
from assay.views.json.cost import Metadata, metadata
from assay.views.json.files import ResultFile, partial_keys


class ModuleTimeEntry(Struct, frozen=True):
    """A module and its time; the time is null if the module was not called or not timed."""

    module_path: str
    class_name: str
    time: ModuleTime | None
    backward_s: float | None
    """Backward time of the module's own ops, if a training step was timed."""


class ProfileFile(ResultFile, frozen=True):
    """The measured times and energies of one model."""

    metadata: Metadata
    profile: Profile
    modules: list[ModuleTimeEntry]
    operations: list[Achieved]
    """Kinds of op, longest total time first, with their bottleneck if the machine's limits are known."""
    timing: Timing | None
    columns: dict[str, Provenance]
    """How the numbers in `modules` and `operations` were obtained, by list and name."""
    memory: list[PeakComparison]
    """Predicted beside measured peaks of the forward pass and the training step."""


def profile_file(document: Document, rows: Sequence[Achieved]) -> ProfileFile:
    """The JSON of the profile of `document`; `rows` are its timed kinds of op."""
    times = document.timing.modules if document.timing is not None else []
    profile = document.profile or Profile()
    backward = profile.step.modules if profile.step is not None else []
    return ProfileFile(
        metadata=metadata(document),
        profile=profile,
        modules=[
            ModuleTimeEntry(
                tree.path_text(module.path),
                module.class_name,
                times[index] if index < len(times) else None,
                backward[index] if index < len(backward) else None,
            )
            for index, module in enumerate(document.modules)
        ],
        operations=list(rows),
        timing=document.timing,
        columns=_columns(document),
        memory=compared_peaks(document, memory_of(document)),
        **partial_keys(document),
    )


def _columns(document: Document) -> dict[str, Provenance]:
    """The provenance of columns under the names they have in this file."""
    times = document.timing.columns if document.timing is not None else {}
    kinds = document.profile.columns if document.profile is not None else {}
    columns = {name.replace("modules.", "modules.time.", 1): how for name, how in times.items() if "." in name}
    columns |= {
        name.replace("kinds.", "operations.", 1): how for name, how in kinds.items() if name.startswith("kinds.")
    }
    if "step.modules" in kinds:
        columns["modules.backward_s"] = kinds["step.modules"]
    counted = Counted("formulas of the shapes and attributes of each op")
    columns |= dict.fromkeys([f"operations.{name}" for name in ("flops", "bytes", "intensity")], counted)
    return columns | {f"operations.{name}": how for name, how in _DERIVED.items()}


_DERIVED: dict[str, Provenance] = {
    "flops_per_s": Measured("counted FLOPs ÷ time"),
    "bytes_per_s": Measured("counted bytes ÷ time"),
    "roof_s": Measured("counted work ÷ measured limits of this machine"),
    "recoverable_s": Measured("time less `roof_s`"),
    "efficiency": Measured("time with one thread ÷ (threads × time)"),
}
