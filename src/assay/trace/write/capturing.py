"""One capture from start to finish: labels, the profiler's recording (if none of the user's is running), the file."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from types import AsyncGeneratorType, CoroutineType, GeneratorType

import torch
from torch import nn

from assay import host
from assay.document.trace_labels import TraceFacts, encode_facts
from assay.errors import AssayError
from assay.messages import error_line
from assay.trace.write import current, files, names, profiler
from assay.trace.write.instances import Instance
from assay.trace.write.labelling import Labelling
from assay.trace.write.plan import CapturedPass, CaptureLog, CapturePlan
from assay.version import __version__

_LAZY_TYPES = (GeneratorType, AsyncGeneratorType, CoroutineType)
_OWN_PROFILER = "your own profiler is running: its trace gets the labels, and no other trace is written"


def begin(
    model: nn.Module, plan: CapturePlan, instance: Instance, log: CaptureLog, *, covers: str
) -> Capturing | None:
    """Start a capture; None if torch's profiler does not start. The caller must hold `profiler.turn`."""
    try:
        capture = Capturing(model, plan, instance, log, covers=covers)
    except Exception as error:  # noqa: BLE001  an error of torch's profiler must not stop the user's model
        profiler.release_turn()
        log.warn(f"torch's profiler did not start, so this pass is not traced: {error}")
        return None
    instance.captured += 1
    return capture


class Capturing:
    """A running capture; `finish` ends it and never raises."""

    def __init__(
        self, model: nn.Module, plan: CapturePlan, instance: Instance, log: CaptureLog, *, covers: str
    ) -> None:
        self._model, self._plan, self._instance, self._log, self._covers = model, plan, instance, log, covers
        self._number = instance.passes
        self._started_ns = time.time_ns()
        self._recording: profiler.ProfilerSession | None = None
        self.labelling = Labelling(model, shapes=plan.record_shapes)
        if profiler.watch.busy():
            log.debug(f"{instance.name}, pass {self._number}: {_OWN_PROFILER}")
        else:
            self._recording = profiler.ProfilerSession(plan, all_threads=self.labelling.replicas)
        current.running.labelling = self.labelling
        self._began = time.perf_counter_ns()

    def finish(self, error: BaseException | None = None, result: object = None) -> CapturedPass:
        """End the capture, write the trace and release the turn."""
        took_ns = time.perf_counter_ns() - self._began
        current.running.labelling = None
        path, problem = None, None
        facts = TraceFacts(self._instance.name, self._number, covers=self._covers)
        try:
            facts = self._facts(error, result)
            path = self._written(facts)
        except AssayError as failed:
            problem = str(failed)
        except Exception as failed:  # noqa: BLE001  the user's pass has succeeded and must not fail because of Assay
            problem = f"the trace of {self._instance.name} was lost: {error_line(failed)}"
        finally:
            if self._recording is not None:
                self._recording.abandon()
            profiler.release_turn()
        if problem is not None:
            self._log.warn(problem)
        elif path is None:
            problem = self._recording.lost if self._recording is not None else _OWN_PROFILER
        return CapturedPass(facts, self.labelling.layers(), took_ns, path, problem)

    def _written(self, facts: TraceFacts) -> Path | None:
        """Write the trace and return its path; None if there is no recording to write."""
        recording = self._recording
        if recording is None:
            return None
        recording.stop(encode_facts(facts), profiler.settings_of(self._plan))
        if recording.lost is not None:
            self._log.debug(f"{self._instance.name}, pass {self._number}: {recording.lost}")
            return None
        plan, instance = self._plan, self._instance
        path = files.place(
            recording.export,
            plan.directory,
            lambda: names.trace_name(instance.stem(plan.directory), self._number, gzip=plan.gzip),
            instance.lose_stem,
        )
        if plan.manifest is not None:
            # The trace is useful even if it cannot be listed in the manifest.
            with contextlib.suppress(OSError), plan.manifest.open("a", encoding="utf-8") as manifest:
                manifest.write(f"{path.name}\n")
        return path

    def _limits(self, result: object) -> tuple[str, ...]:
        """Notes about what the trace cannot show."""
        notes = []
        if isinstance(result, _LAZY_TYPES):
            notes.append("forward returned a generator or coroutine: work it does later is not in the trace")
        if _compiled(self._model):
            notes.append("the model is compiled: layers inside a compiled region have no labels")
        for note in notes:
            self._log.debug(f"{self._instance.name}, pass {self._number}: {note}")
        return tuple(notes)

    def _facts(self, error: BaseException | None, result: object) -> TraceFacts:
        device = self._recording.device if self._recording is not None else None
        return TraceFacts(
            model_name=self._instance.name,
            pass_number=self._number,
            model_class=type(self._model).__qualname__,
            covers=self._covers,
            error=type(error).__name__ if error is not None else None,
            rank=names.rank(),
            device=device or "cpu",
            started_ns=self._started_ns,
            settings=dict(profiler.settings_of(self._plan)),
            versions={"assay": __version__, "torch": str(torch.__version__), "python": host.python_version()},
            modules=self.labelling.modules(),
            shapes=self.labelling.shapes(),
            notes=self._limits(result),
        )


def _compiled(model: nn.Module) -> bool:
    """Whether calls of `model` run code compiled by torch.compile."""
    return (
        getattr(model, "_compiled_call_impl", None) is not None or current.inner_attribute(type(model)) == "_orig_mod"
    )
