"""A profile as one object: what is encoded and what the schema says come from here."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from assay.analysis.achieved import Achieved
from assay.document import tree
from assay.document.document import Document
from assay.document.profile import Profile
from assay.document.timing import ModuleTime, Timing
from assay.views.json.cost import Metadata, metadata


class ModuleTimeEntry(Struct, frozen=True):
    """A module and its time; null where it was not called or not seen."""

    module_path: str
    class_name: str
    time: ModuleTime | None
    backward_s: float | None
    """Of its own operations, where a training step was timed."""


class ProfileFile(Struct, frozen=True):
    """What clocks and sensors said of one model."""

    metadata: Metadata
    profile: Profile
    modules: list[ModuleTimeEntry]
    operations: list[Achieved]
    """The longest first; with what bounds each where the machine's ceilings are known."""
    timing: Timing | None


def profile_file(document: Document, rows: Sequence[Achieved]) -> ProfileFile:
    """Everything measured of `document`."""
    times = document.timing.modules if document.timing is not None else []
    profile = document.profile or Profile()
    backward = profile.step.modules if profile.step is not None else []
    return ProfileFile(
        metadata=metadata(document),
        profile=profile,
        modules=[
            ModuleTimeEntry(
                tree.shown(module.path),
                module.class_name,
                times[index] if index < len(times) else None,
                backward[index] if index < len(backward) else None,
            )
            for index, module in enumerate(document.modules)
        ],
        operations=list(rows),
        timing=document.timing,
    )
