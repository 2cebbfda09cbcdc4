"""`assay.analyze`: everything about a model, as deep as requested; what cannot be known is listed with the reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from assay.analysis.architecture import architecture
from assay.analysis.memory import memory_of
from assay.api.analyze.script import operations
from assay.api.check import own_weights
from assay.api.observe import observed
from assay.api.options import OnStep, RunOptions
from assay.api.profile.options import EnergyOptions, ProfileOptions
from assay.api.profile.predict import over_limit
from assay.api.profile.profiled import ProfiledModel, prepared
from assay.api.weights import weigh
from assay.checkpoint.statistics.settings import Progress
from assay.document.document import Document
from assay.errors import AssayError, InputsError, ReadError, UsageError
from assay.findings.analyzed import Analysis, CodeOp
from assay.findings.engine import check_all
from assay.sources.open import open_source
from assay.sources.opened import Opened, why_not_run

STRUCTURE, INFERENCE, PROFILE = "structure", "inference", "profile"
DEPTHS = (STRUCTURE, INFERENCE, PROFILE)
"""How deep: what is there and what it costs; that and time and memory; that and energy and the machine."""

ARCHITECTURE, COMPUTATION, REAL_PASS = "architecture", "computation", "a pass with data"
PASS_MEMORY, TIME, WEIGHT_VALUES = "memory of a pass", "time", "values of weights"
"""The parts of an analysis that can be missing."""

_NO_VALUES = "there are no weights here, only their shapes: --weights names a checkpoint of the model"
UNTRUSTED = "holds code, which was not run: pass --trust (trust=True) if you trust its author"


def analyze(
    model: Any,
    inputs: Any = None,
    *,
    depth: str = STRUCTURE,
    weights: Any = None,
    warmup: int = 2,
    passes: int | None = None,
    seconds: float = 2.0,
    backward: bool = False,
    optimizer: str = "adamw",
    threads: int | None = None,
    thread_counts: Sequence[int] = (),
    sweeps: Sequence[tuple[str, Sequence[int]]] = (),
    memory_limit: int | None = None,
    system: bool = True,
    energy: bool = True,
    energy_ops: bool = False,
    grid: str | None = None,
    pue: float = 1.0,
    price: float | None = None,
    mode: str = "auto",
    device: str | None = None,
    dtype: str | None = None,
    train: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
    on_step: OnStep | None = None,
    progress: Progress | None = None,
) -> Analysis:
    """Everything about a live model, what builds one, a file or a checkpoint, in one document.

    Args:
        model: Anything `assay.open` takes.
        inputs: What to call the model with, as `assay.observe` takes it; inferred where left out.
        depth: `"structure"` (architecture, cost, memory, findings), `"inference"` (also time and measured memory) or
            `"profile"` (also energy and the machine while it runs).
        weights: A checkpoint of the model, where the model is built without its own.
        warmup: Passes that are run first and not timed.
        passes: Timed passes; None runs as many as fit into `seconds`, and at least three.
        seconds: Time for each measurement where `passes` is None.
        backward: Include a training step, in training mode.
        optimizer: The optimizer of the training step.
        threads: The number of threads torch works with; None leaves it as it is.
        thread_counts: Numbers of threads to time the pass with, for parallel efficiency.
        sweeps: Sizes to time the pass at, such as `[("batch", [1, 2, 4])]`.
        memory_limit: Bytes; what is predicted to need more is not run.
        system: At depth `"profile"`, monitor the machine while further passes run.
        energy: At depth `"profile"`, measure the energy of a pass, or model it without a sensor.
        energy_ops: Replay operations to measure the energy of each kind, which takes minutes.
        grid: The power grid for carbon dioxide, such as `"FR"`, `"US-CA"` or `"400g"`.
        pue: Energy of the building over that of its machines, for `grid` and `price`.
        price: The price of a kilowatt-hour.
        mode: `"auto"`, `"real"`, `"meta"` or `"fake"`, as in `assay.observe`.
        device: The torch device to run on.
        dtype: The floating-point type to run in, such as `"bfloat16"`.
        train: Run in training mode.
        model_args: Keyword arguments for the function or class that builds the model.
        trust: Allow code from a file to run.
        on_step: Called with a line of text before each step.
        progress: Called with the bytes of weights that are read and the bytes in all.
    """
    measured = ProfileOptions(
        warmup, passes, seconds, optimizer, threads, thread_counts, sweeps, memory_limit, system,
        EnergyOptions(grid, pue, price, by_op=energy_ops) if energy else None,
    )  # fmt: skip
    options = RunOptions(mode, device, dtype, train, backward, model_args, trust)
    return analysis_of(model, inputs, depth, options, measured, weights, on_step, progress)


def analysis_of(
    model: Any,
    inputs: Any,
    depth: str,
    options: RunOptions,
    measured: ProfileOptions,
    weights: Any = None,
    on_step: OnStep | None = None,
    progress: Progress | None = None,
) -> Analysis:
    """The analysis with its options in groups."""
    if depth not in DEPTHS:
        raise UsageError(f"unknown depth {depth!r}: choose from {', '.join(DEPTHS)}")
    measured.check()
    if depth != PROFILE:
        measured = dataclasses.replace(measured, system=False, energy=None)
    task = _Analysis(depth, options, measured, weights, on_step or (lambda _: None), progress)
    return task.of(model, inputs)


class _Analysis:
    """The steps of one analysis; each notes what it could not learn."""

    def __init__(
        self,
        depth: str,
        options: RunOptions,
        measured: ProfileOptions,
        weights: Any,
        on_step: OnStep,
        progress: Progress | None,
    ) -> None:
        self._depth, self._options, self._measured, self._given_weights = depth, options, measured, weights
        self._on_step, self._progress = on_step, progress
        self._missing: dict[str, str] = {}

    def of(self, model: Any, inputs: Any) -> Analysis:
        """The analysis of whatever was given."""
        self._on_step("opening the model")
        opened = open_source(model, model_args=self._options.model_args, trust=self._options.trust)
        if opened.document is not None:
            return self._of_document(opened, inputs)
        error = opened.model_error
        if error is not None and opened.saved is not None:  # a program that cannot be loaded can still be read
            return self._of_document(dataclasses.replace(opened, runs=False), None, str(error))
        if error is not None:
            return self._of_weights(opened, error)
        try:
            profiled = prepared(opened, inputs, self._options, load=self._depth != STRUCTURE)
        except InputsError as error:
            if inputs is not None:
                raise
            return self._of_tree(opened, str(error))
        document = self._watched(profiled) if self._depth == STRUCTURE else self._timed(profiled)
        return self._finished(self._weighed(document, opened))

    def _of_weights(self, opened: Opened, error: ReadError) -> Analysis:
        """What a file reveals without running code: weights, and of TorchScript and pickled modules their tree."""
        self._on_step("reading weights")
        document = weigh(opened, progress=self._progress)
        why = f"{opened.origin.location} {UNTRUSTED}" if document.modules else str(error)
        if not document.modules:
            self._missing[ARCHITECTURE] = why
        self._without_pass(why)
        assert opened.checkpoint is not None
        return self._finished(document, operations(opened.checkpoint))

    def _of_tree(self, opened: Opened, why: str) -> Analysis:
        """The analysis of a model whose inputs cannot be inferred."""
        self._without_pass(why)
        self._on_step("reading weights")
        return self._finished(weigh(opened, progress=self._progress))

    def _of_document(self, opened: Opened, inputs: Any, why: str = "") -> Analysis:
        """The analysis of a saved document or an exported program, which are read and not run."""
        document = observed(opened, inputs, RunOptions() if why else self._options)
        why = why or why_not_run(opened.origin)
        if self._depth != STRUCTURE and document.timing is None:
            self._missing[TIME] = why
        if not document.storages:
            self._missing[PASS_MEMORY] = why
        return self._finished(self._weighed(document, opened))

    def _without_pass(self, why: str) -> None:
        self._missing |= {COMPUTATION: why, PASS_MEMORY: why}
        if self._depth != STRUCTURE:
            self._missing[TIME] = why

    def _watched(self, profiled: ProfiledModel) -> Document:
        self._on_step("recording a pass")
        limit = self._measured.memory_limit
        if limit is not None and not self._options.without_data:
            predicted = profiled.observe(mode="meta")
            why = over_limit(predicted, limit)
            if why is not None:
                self._missing[REAL_PASS] = f"not run: {why}"
                return predicted
        return profiled.observe(mode=self._options.mode)

    def _timed(self, profiled: ProfiledModel) -> Document:
        from assay.api.profile.run import measure

        if self._options.without_data:
            self._missing[TIME] = "on shapes alone there is no time to measure"
            return self._watched(profiled)
        document = measure(profiled, self._measured, self._on_step)
        if document.timing is None and document.profile is not None:
            self._missing[TIME] = "; ".join(document.profile.notes) or "nothing was timed"
        return document

    def _weighed(self, document: Document, opened: Opened) -> Document:
        """The document with the statistics of the checkpoint that was given, or of the model's own tensors."""
        source = self._given_weights if self._given_weights is not None else own_weights(opened)
        if source is None and document.weights is None:
            self._missing[WEIGHT_VALUES] = _NO_VALUES
        if source is None:
            return document
        self._on_step("reading weights")
        try:
            return replace(document, weights=weigh(source, progress=self._progress).weights)
        except AssayError as error:
            self._missing[WEIGHT_VALUES] = str(error)
            return document

    def _finished(self, document: Document, code: list[CodeOp] | None = None) -> Analysis:
        self._on_step("looking for findings")
        memory = memory_of(document) if document.tensors else None
        if memory is not None and not document.storages:  # nothing was seen to be made, which is not nothing
            memory = replace(memory, inference=None)
        checked = check_all(document)
        document = replace(document, findings=checked.findings)
        return Analysis(document, self._depth, architecture(document), checked, memory, self._missing, code or [])
