"""Records the document that the pages of these tests show.

`PYTHONPATH=tests:tests/cli OMP_NUM_THREADS=1 python tests/e2e/recording.py` records it again: only if a new feature
must appear in the report, because every time in it changes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import screen_subjects
from msgspec.structs import replace

import assay
from assay.document.document import Document
from assay.document.trace import Trace
from assay.findings.verified import verified
from assay.machine.waiting import ProcessorWait, Waited
from e2e.subjects import DOCUMENT

MODEL = f"{DOCUMENT.with_name('net.py')}::load"
INPUTS = "image=2x3x64x64:float32"
LAYERS = ["stem", *(f"stages.{stage}.{block}" for stage in range(3) for block in range(2)), "head"]
_MAPS = 6


def record() -> None:
    """Measure the model in every way and store the document, without the name of this machine."""
    ProcessorWait.read = lambda self: Waited(0, 0)  # type: ignore[method-assign]  # a busy machine withholds times
    measured = assay.analyze(
        MODEL, INPUTS, depth="profile", backward=True, threads=1, thread_counts=(1, 2), seconds=3,
        sweeps=[("batch", [1, 2, 4, 8])], grid="FR", price=0.3,
    ).document  # fmt: skip
    tried = assay.check(MODEL, INPUTS, seconds=1, attempt=True, trial_seconds=3, trial_budget=40)
    assert measured.activations is not None
    complete = replace(
        _neutral(measured),
        activations=replace(measured.activations, maps=measured.activations.maps[:_MAPS]),
        findings=verified(measured.findings, tried.trials),
        trials=tried.trials,
        traces=_traces(),
    )
    assay.save(complete, DOCUMENT)


def _neutral(document: Document) -> Document:
    """The document as if it had been made on the machine of the golden screens."""
    limits = screen_subjects.example_machine()
    names = {"python": "3.11", "torch": "2.0.0", "processor": limits.hardware.name, "processors": 8}
    run = replace(document.run, timestamp="2026-11-18T10:30:00+00:00", inputs_from="image=2x3x64x64:float32")
    origin = replace(document.origin, location="net.py:load")
    return replace(document, origin=origin, machine=replace(document.machine, **names), run=run, limits=limits)


def _traces() -> list[Trace]:
    """One trace per rank, one of them a straggler."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        screen_subjects.write_traces(folder, LAYERS)
        return [replace(assay.read_trace(file), path=file.name) for file in sorted((folder / "ranks").iterdir())]


if __name__ == "__main__":
    record()
