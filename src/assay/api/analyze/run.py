"""`assay.analyze`: a complete analysis of a model at a chosen depth; missing parts are listed with the reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from assay.analysis.architecture import architecture
from assay.analysis.memory import memory_of
from assay.api.analyze.script import operations
from assay.api.arguments import check_callable
from assay.api.check import no_values, own_weights, rules_progress
from assay.api.observe import observe_opened
from assay.api.options import (
    OPENING,
    READING_WEIGHTS,
    RECORDING,
    OnProgress,
    OnStep,
    Progress,
    RunOptions,
    by_step,
    unreported,
)
from assay.api.partial import stopped_text, warn_if_partial
from assay.api.profile.options import EnergyOptions, ProfileOptions
from assay.api.profile.predict import memory_limit, over_limit
from assay.api.profile.profiled import ProfiledModel, prepare
from assay.api.weights import weights_document
from assay.api.weights.joined import weights_alone, with_weights, without_pass
from assay.checkpoint.statistics.settings import Progress as OnBytes
from assay.checkpoint.statistics.settings import StatisticsSettings
from assay.document.document import Document
from assay.errors import AssayError, InputsError, ReadError, TrustError, UsageError
from assay.findings.analyzed import Analysis, CodeOp
from assay.findings.brief_model import WEIGHT_VALUES
from assay.findings.engine import check_all
from assay.findings.op_assessments import assess
from assay.machine.limits import device_of, limits_of
from assay.messages import ALLOW_CODE
from assay.sources.open import open_source
from assay.sources.opened import Opened, not_run_message

STRUCTURE, INFERENCE, PROFILE = "structure", "inference", "profile"
DEPTHS = (STRUCTURE, INFERENCE, PROFILE)
"""Depths: `structure` covers structure and cost, `inference` adds time, measured memory and the values of outputs,
`profile` adds energy."""

ARCHITECTURE, COMPUTATION, REAL_PASS = "architecture", "computation", "a pass with data"
PASS_MEMORY, TIME = "memory of a pass", "time"
TRAINING_STEP = "training step"
"""The parts of an analysis that can be missing."""

_WEIGHTS = StatisticsSettings(spectral=True, spectral_elements=32_000_000)
"""Spectra of matrices of this many elements in all take about a second of CPU time."""
UNTRUSTED = f"contains code that was not run: {ALLOW_CODE}"


def analyze(
    model: Any,
    inputs: Any = None,
    *,
    depth: str = STRUCTURE,
    weights: Any = None,
    warmup: int = 2,
    passes: int | None = None,
    seconds: float = 10.0,
    budget: float | None = 60.0,
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
    as_is: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
    on_step: OnStep | None = None,
    progress: OnBytes | None = None,
) -> Analysis:
    """Analyse a live model, a function that builds one, a file or a checkpoint as completely as possible.

    Args:
        model: Anything `assay.open` accepts.
        inputs: What to call the model with, in any form `assay.observe` accepts. If None, they are inferred.
        depth: `"structure"` (architecture, cost, memory, findings), `"inference"` (also time, measured memory and the
            values of outputs) or `"profile"` (also energy and the load of the machine).
        weights: A checkpoint of the model, for example if the model was built without its weights. None uses the
            model's own weights.
        warmup: Number of untimed passes to run first.
        passes: Number of timed passes. None adds passes until the times of both halves agree, at most 100.
        seconds: Seconds after which a measurement stops even if they do not. It runs at least three passes, unless
            they take more than twice as long.
        budget: Seconds for all measurements. Those for which no time is left are skipped. If None, there is no limit.
        backward: Include a training step, in training mode.
        optimizer: The optimizer of the training step, such as `"adamw"` or `"sgd"`.
        threads: Number of CPU threads for torch. Default: torch's own setting.
        thread_counts: Thread counts to time the pass with, to compute parallel efficiency. By default none.
        sweeps: Input sizes to time the pass at, such as `[("batch", [1, 2, 4])]`. By default none.
        memory_limit: Bytes. A pass that is predicted to need more is not run. Default: no limit.
        system: At depth `"profile"`, monitor the machine during additional passes.
        energy: At depth `"profile"`, measure the energy of a pass, or model it if there is no sensor.
        energy_ops: Also replay ops to measure the energy of each kind of op, which takes minutes.
        grid: The power grid for the carbon footprint: a code such as `"FR"` or `"US-CA"`, or grams of CO2 per
            kilowatt-hour such as `"400g"`. If None, no footprint is computed.
        pue: Power usage effectiveness (energy of the building divided by energy of its machines), at least 1. Applied
            to the carbon footprint and the price.
        price: The price per kilowatt-hour. If None, no price is computed.
        mode: `"auto"`, `"real"`, `"meta"` or `"fake"`, as for `assay.observe`.
        device: The torch device to run on, such as `"cuda:0"`. Default: where the model is.
        dtype: The floating-point dtype to run in, such as `"bfloat16"`. Default: the model's own.
        train: Run in training mode instead of evaluation mode.
        as_is: Run every module in the mode it is in, training or evaluation.
        model_args: Keyword arguments for the function or class that builds the model. Default: no arguments.
        trust: Allow code stored in a file to run.
        on_step: Called with one line of text before each step. If None, steps are not reported.
        progress: Called with the bytes of weights read so far and the total bytes. Default: no progress reports.

    Returns:
        The analysis: a document with all results, the architecture, the memory and the findings. Its `missing` maps
        each part that is not available to the reason. If the forward pass stops midway, a `PartialWarning` is
        issued, and the parts it covers only in part are listed in `missing`.

    Raises:
        UsageError: An argument is not valid, or does not apply to this model.
        InputsError: The given inputs do not match the arguments of forward, or cannot be parsed. If none are given
            and they cannot be inferred, the model is analysed without a pass instead.
        ReadError: The model, its file or the given weights cannot be read.
    """
    profile_options = ProfileOptions(
        warmup, passes, seconds, budget, optimizer, threads, thread_counts, sweeps, memory_limit, system,
        EnergyOptions(grid, pue, price, by_op=energy_ops) if energy else None,
    )  # fmt: skip
    options = RunOptions(mode, device, dtype, train, backward, model_args, trust, as_is=as_is)
    check_callable("on_step", on_step, optional=True)
    analysis = analysis_of(model, inputs, depth, options, profile_options, weights, by_step(on_step), progress)
    warn_if_partial(analysis.document)
    return analysis


def analysis_of(
    model: Any,
    inputs: Any,
    depth: str,
    options: RunOptions,
    profile_options: ProfileOptions,
    weights: Any = None,
    on_progress: OnProgress = unreported,
    progress: OnBytes | None = None,
) -> Analysis:
    """The same as `analyze`, with the options in groups."""
    if depth not in DEPTHS:
        raise UsageError(f"unknown depth {depth!r}: choose from {', '.join(DEPTHS)}")
    check_callable("progress", progress, optional=True)
    profile_options.check()
    if depth != PROFILE:
        profile_options = dataclasses.replace(profile_options, system=False, energy=None)
    task = _Analysis(depth, options, profile_options, weights, on_progress, progress)
    return task.of(model, inputs)


class _Analysis:
    """The steps of one analysis; each adds what it could not determine to the missing parts."""

    def __init__(
        self,
        depth: str,
        options: RunOptions,
        profile_options: ProfileOptions,
        weights: Any,
        on_progress: OnProgress,
        progress: OnBytes | None,
    ) -> None:
        self._depth, self._options, self._profile_options, self._weights = depth, options, profile_options, weights
        self._on_progress, self._progress = on_progress, progress
        self._missing: dict[str, str] = {}

    def of(self, model: Any, inputs: Any) -> Analysis:
        """The analysis of a model, file, checkpoint or document."""
        if self._weights is not None:
            weights_document(self._weights, listing=True)  # report a file that cannot be read before any long work
        self._begin(OPENING)
        opened = open_source(model, model_args=self._options.model_args, trust=self._options.trust)
        if opened.document is not None:
            return self._of_document(opened, inputs)
        error = opened.model_error
        if error is not None and opened.saved is not None:  # an exported program can be read even if it does not load
            return self._of_document(dataclasses.replace(opened, runs=False), None, str(error))
        if error is not None:
            used = {"inputs": inputs is not None, "backward": self._options.backward}
            self._options.check_unused(opened.origin, **used, weights=self._weights is not None)
            return self._of_weights(opened, error)
        timed = self._depth != STRUCTURE and self._can_be_timed(opened)
        try:
            profiled = prepare(opened, inputs, self._options, load=timed, on_progress=self._on_progress)
        except InputsError as error:
            if inputs is not None:
                raise
            return self._of_tree(opened, str(error))
        document = self._timed(profiled) if timed else self._recorded(profiled)
        code = operations(opened) if document.partial else None
        return self._finished(self._with_weights(document, opened), code)

    def _can_be_timed(self, opened: Opened) -> bool:
        """Whether the model has data to run with; if not, its time is missing, and everything else is known."""
        if opened.interpreted:
            self._missing[TIME] = f"{opened.origin.location} {UNTRUSTED}"
            return False
        try:
            opened.with_weights.model  # noqa: B018
        except ReadError as error:
            self._missing[TIME] = str(error)
            return False
        return True

    def _begin(self, stage: str) -> None:
        self._on_progress(Progress(stage))

    def _of_weights(self, opened: Opened, error: ReadError) -> Analysis:
        """The analysis of a file without running its code: weights, and modules of TorchScript and pickled files."""
        self._begin(READING_WEIGHTS)
        document = weights_alone(opened, str(error), settings=_WEIGHTS, progress=self._progress)
        untrusted = document.modules and isinstance(error, TrustError)
        why = f"{opened.origin.location} {UNTRUSTED}" if untrusted else str(error)
        if not document.modules:
            self._missing[ARCHITECTURE] = why
        self._without_pass(why)
        return self._finished(document, operations(opened))

    def _of_tree(self, opened: Opened, why: str) -> Analysis:
        """The analysis of a model whose inputs cannot be inferred."""
        self._without_pass(why)
        document = self._with_weights(without_pass(opened, why), opened)
        return self._finished(document, operations(opened))

    def _of_document(self, opened: Opened, inputs: Any, why: str = "") -> Analysis:
        """The analysis of a saved document or an exported program, which is read and not run."""
        document = observe_opened(opened, inputs, RunOptions() if why else self._options)
        why = why or not_run_message(opened.origin)
        if self._depth != STRUCTURE and document.timing is None:
            self._missing[TIME] = why
        if not document.storages:
            self._missing[PASS_MEMORY] = why
        return self._finished(self._with_weights(document, opened))

    def _without_pass(self, why: str) -> None:
        self._missing |= {COMPUTATION: why, PASS_MEMORY: why}
        if self._depth != STRUCTURE:
            self._missing[TIME] = why

    def _recorded(self, profiled: ProfiledModel) -> Document:
        self._begin(RECORDING)
        given = self._profile_options.memory_limit
        limit = None if self._options.without_data else memory_limit(profiled, given)
        if limit is not None:
            predicted = profiled.observe(mode="meta")
            optimizer = self._profile_options.optimizer
            why = over_limit(profiled, predicted, limit, optimizer, strict=given is not None)
            if why is not None:
                self._missing[REAL_PASS] = f"not run: {why}"
                return predicted
        return profiled.observe(mode=self._options.mode)

    def _timed(self, profiled: ProfiledModel) -> Document:
        from assay.api.profile.run import profile_prepared

        if self._options.without_data:
            self._missing[TIME] = "time cannot be measured on shapes only (meta mode): run with data"
            return self._recorded(profiled)
        options = dataclasses.replace(self._profile_options, outputs=True)
        document = profile_prepared(profiled, options, self._on_progress)
        if document.timing is None and document.profile is not None:
            self._missing[TIME] = "; ".join(document.profile.notes) or "nothing was timed"
        return document

    def _with_weights(self, document: Document, opened: Opened) -> Document:
        """The document with weight statistics: of the given checkpoint, or of the model's own tensors."""
        source = self._weights if self._weights is not None else own_weights(opened)
        if source is None and document.weights is None:
            self._missing[WEIGHT_VALUES] = no_values(opened)
        if source is None:
            return document
        self._begin(READING_WEIGHTS)
        try:
            return with_weights(document, opened, source, self._progress, settings=_WEIGHTS)
        except AssayError as error:
            if self._weights is not None:
                raise
            self._missing[WEIGHT_VALUES] = str(error)
            return document

    def _note_failure(self, document: Document) -> None:
        """List the parts that are missing or partial because a pass stopped midway."""
        if not document.stopped:
            return
        if not document.partial:
            self._missing[TRAINING_STEP] = stopped_text(document)
            return
        why = f"partial: {stopped_text(document)}"
        self._missing |= {COMPUTATION: why, PASS_MEMORY: why}
        if self._depth != STRUCTURE:
            self._missing.setdefault(TIME, why)

    def _finished(self, document: Document, code: list[CodeOp] | None = None) -> Analysis:
        self._note_failure(document)
        memory = memory_of(document) if document.tensors else None
        if memory is not None and not document.storages:  # without storages, activations are unknown, not zero
            memory = replace(memory, inference=None)
        device = device_of(document)
        checked = check_all(document, device=device, on_rule=rules_progress(self._on_progress))
        document = replace(
            document,
            findings=checked.findings,
            assessment=assess(document, checked.findings, device),
            limits=limits_of(document),
        )
        return Analysis(document, self._depth, architecture(document), checked, memory, self._missing, code or [])
