"""`assay.check`: apply rules to a model or checkpoint and list the findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from assay.analysis.flow import writes_parameters
from assay.api.activations import record_activations
from assay.api.arguments import check_callable, check_flag, check_number
from assay.api.attempt import LIMIT_S, SECONDS, AttemptOptions, check_can_try
from assay.api.attempt import attempt as try_changes
from assay.api.observe import observe_opened
from assay.api.options import (
    READING_OUTPUTS,
    READING_WEIGHTS,
    RECORDING,
    OnProgress,
    OnStep,
    Progress,
    RunOptions,
    by_step,
    unreported,
)
from assay.api.partial import warn_if_partial
from assay.api.profile.options import ProfileOptions
from assay.api.profile.profiled import prepare
from assay.api.weights.joined import weights_alone, with_weights, without_pass
from assay.checkpoint.statistics.settings import Progress as OnBytes
from assay.display import Displayed
from assay.document.document import Document
from assay.document.findings import Finding
from assay.document.trials import TrialResult
from assay.errors import InputsError, UsageError
from assay.findings.brief_model import WEIGHT_VALUES
from assay.findings.catalogue import selected_rules
from assay.findings.engine import CheckResult, OnRule, Skipped, apply, ranked, weighed
from assay.findings.rule import Rule
from assay.findings.verified import verified
from assay.machine.limits import device_of, limits_of
from assay.messages import one_line
from assay.sources.open import open_source
from assay.sources.opened import Opened


class CheckReport(Displayed, Struct, frozen=True):
    """The findings about a model, and the rules that were skipped.

    Attributes:
        document: The document that was checked, including the findings.
        checked: The result of applying the rules.
    """

    document: Document
    checked: CheckResult

    @property
    def findings(self) -> list[Finding]:
        """The findings, most severe first."""
        return self.checked.findings

    @property
    def trials(self) -> list[TrialResult]:
        """The changes that were tried, in the order in which they were."""
        return self.document.trials

    @property
    def partial(self) -> bool:
        """Whether a requested pass stopped midway, or files or tensors could not be read."""
        weights = self.document.weights
        return self.document.stopped or (weights is not None and bool(weights.failures))

    @property
    def skipped(self) -> list[Skipped]:
        """The rules that need data the document does not have, each with the reason."""
        return self.checked.skipped

    @property
    def rules(self) -> int:
        """The number of rules, including skipped ones."""
        return self.checked.rules


@dataclass(frozen=True)
class EvidenceOptions:
    """What is read and measured for the rules, besides one recorded pass."""

    weights: Any = None
    """A checkpoint of the model; None for the model's own weights."""
    read_weights: bool = True
    """Whether the values of weights are read at all."""
    measure: bool = True
    """Time the ops of the pass, so that findings state their share of the time."""
    seconds: float = 5.0
    """Seconds after which timing stops."""

    def __post_init__(self) -> None:
        check_flag("read_weights", self.read_weights)
        check_flag("measure", self.measure)
        check_number("seconds", self.seconds, 0)


def check(
    model: Any,
    inputs: Any = None,
    *,
    select: Iterable[str] | None = None,
    ignore: Iterable[str] | None = None,
    weights: Any = None,
    read_weights: bool = True,
    measure: bool = True,
    seconds: float = 5.0,
    attempt: bool | str | Sequence[str] = False,
    exact: bool = False,
    trial_seconds: float = SECONDS,
    trial_limit: float = LIMIT_S,
    trial_budget: float | None = None,
    mode: str = "auto",
    device: str | None = None,
    dtype: str | None = None,
    train: bool = False,
    as_is: bool = False,
    backward: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
    on_step: OnStep | None = None,
    progress: OnBytes | None = None,
) -> CheckReport:
    """Check `model` for problems and possible improvements.

    The model is recorded once and timed for a few seconds. If a file holds only weights, or code that is not trusted,
    only the weights are checked.

    Args:
        model: Anything `assay.open` accepts.
        inputs: What to call the model with, in any form `assay.observe` accepts. If None, they are inferred.
        select: Rules to apply, given as codes or prefixes of codes, such as `["W101", "C2"]`. Default: all rules.
        ignore: Rules to skip, given as codes or prefixes of codes. Default: none.
        weights: A checkpoint of the model to check, in place of the model's own weights. Default: its own weights.
        read_weights: Read the values of the weights, of the model or of its files.
        measure: Time the ops, so that findings state what they are worth here. A saved document is never timed.
        seconds: Seconds after which timing stops. It runs at least three passes, unless they take more than twice as
            long.
        attempt: Changes to try on copies of the model in another process: True for those that follow the advice of
            the findings, `"all"`, `"best"` for a search of the fastest stack, or names of changes and codes of
            rules, such as `["C401", "channels_last", "threads=2"]`.
        exact: Leave out changes that lose precision on purpose, such as bfloat16.
        trial_seconds: Seconds to measure per trial.
        trial_limit: Seconds after which a trial is stopped and counts as failed.
        trial_budget: Seconds after which no further trial of a search begins. If None, there is no limit.
        mode: `"auto"`, `"real"`, `"meta"` or `"fake"`, as for `assay.observe`.
        device: The torch device to run on, such as `"cuda:0"`. Default: where the model is.
        dtype: The floating-point dtype to run in, such as `"bfloat16"`. Default: the model's own.
        train: Run in training mode instead of evaluation mode.
        as_is: Run every module in the mode it is in, training or evaluation.
        backward: Also record a training step, in training mode.
        model_args: Keyword arguments for the function or class that builds the model. Default: no arguments.
        trust: Allow code stored in a file to run.
        on_step: Called with one line of text before each step. If None, steps are not reported.
        progress: Called with the bytes of weights read so far and the total bytes. Default: no progress reports.

    Returns:
        The report: the findings, most severe first and then by what they gain, each with its evidence, and the rules
        that were skipped. If the forward pass stops midway, a `PartialWarning` is issued, and rules that need a
        complete pass are skipped.

    Raises:
        UsageError: An argument is not valid, such as an unknown rule code, or does not apply to this model.
        InputsError: The inputs do not match the arguments of forward, or cannot be parsed; or they cannot be inferred
            and there are no weights to check.
        ReadError: The model or file cannot be read.
    """
    check_callable("on_step", on_step, optional=True)
    check_callable("progress", progress, optional=True)
    rules = selected_rules(select, ignore)
    options = RunOptions(mode, device, dtype, train, backward, model_args, trust, as_is=as_is)
    evidence = EvidenceOptions(weights, read_weights, measure, seconds)
    wishes = AttemptOptions(_names(attempt), exact, trial_seconds, trial_limit, trial_budget)
    if attempt:
        wishes.check()
    opened = open_source(model, model_args=model_args, trust=trust)
    if attempt:
        check_can_try(opened)
    on_progress = by_step(on_step)
    document = document_to_check(opened, inputs, options, evidence, on_progress, progress)
    warn_if_partial(document)
    report = check_document(document, rules, on_progress)
    if not attempt or document.stopped:
        return report
    return with_trials(report, try_changes(model, inputs, options, wishes, opened=opened, findings=report.findings))


def with_trials(report: CheckReport, trials: list[TrialResult]) -> CheckReport:
    """The report with the results of trials: in the findings whose advice they follow, and in the document."""
    findings = ranked(weighed(finding) for finding in verified(report.findings, trials))
    document = replace(report.document, findings=findings, trials=trials)
    return CheckReport(document, replace(report.checked, findings=findings))


def _names(attempt: Any) -> tuple[str, ...] | None:
    """The names to try; None for those that follow the advice of the findings."""
    if isinstance(attempt, bool):
        return None
    names = (attempt,) if isinstance(attempt, str) else attempt
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"attempt must be True, 'best', 'all' or names of changes and rules, got {attempt!r}")
    return tuple(names)


def check_document(document: Document, rules: Sequence[Rule], on_progress: OnProgress = unreported) -> CheckReport:
    """The report of applying these rules to a document."""
    result = apply(rules, document, device_of(document), rules_progress(on_progress))
    return CheckReport(replace(document, findings=result.findings, limits=limits_of(document)), result)


def rules_progress(on_progress: OnProgress) -> OnRule:
    """A callback that reports the rules as a stage."""
    return lambda done, total: on_progress(Progress("checking rules", items=done, total=total, unit="rule"))


def document_to_check(
    opened: Opened,
    inputs: Any,
    options: RunOptions,
    evidence: EvidenceOptions,
    on_progress: OnProgress = unreported,
    progress: OnBytes | None = None,
) -> Document:
    """The document to check: one recorded and timed pass plus weight statistics, only weights, or traces."""
    if opened.traced is not None:
        others = {"inputs": inputs is not None, "backward": options.backward}
        options.check_unused(opened.origin, **others, weights=evidence.weights is not None)
        return Document(origin=opened.origin, traces=opened.traced())
    weights_only = opened.model_error is not None or (opened.document is None and opened.model.holder is not None)
    if weights_only:
        if opened.interpreted and inputs is not None:
            opened.model  # noqa: B018  report code that cannot be read before inputs that cannot be used
        options.check_unused(
            opened.origin,
            inputs=inputs is not None,
            backward=options.backward,
            weights=evidence.weights is not None,
        )
        on_progress(Progress(READING_WEIGHTS))
        why = str(opened.model_error or "")
        return weights_alone(opened, why, listing=not evidence.read_weights, progress=progress)
    source = _weights_source(opened, evidence)
    try:
        document = _recorded(opened, inputs, options, evidence, on_progress)
    except InputsError as error:
        if inputs is not None or source is None:
            raise
        document = without_pass(opened, str(error))  # the weights can be checked without a pass
    if source is None:
        return document
    on_progress(Progress(READING_WEIGHTS))
    return with_weights(document, opened, source, progress)


def _recorded(
    opened: Opened, inputs: Any, options: RunOptions, evidence: EvidenceOptions, on_progress: OnProgress
) -> Document:
    """The document of one pass, with the times of its ops if it ran with data."""
    if opened.document is not None or options.without_data or opened.model.on_meta:
        return observe_opened(opened, inputs, options, on_progress)
    profiled = prepare(opened, inputs, options, load=False, on_progress=on_progress)
    on_progress(Progress(RECORDING))
    document = profiled.observe(mode=options.mode, backward=options.backward)
    if document.run.mode != "real" or document.stopped:
        return document
    on_progress(Progress(READING_OUTPUTS))
    writes = writes_parameters(document)
    values = record_activations(profiled, None, options, backward=options.backward, writes_parameters=writes)
    document = replace(document, activations=values)
    if not evidence.measure:
        return document
    from assay.api.profile.run import profile_prepared

    measuring = ProfileOptions(seconds=evidence.seconds, budget=2 * evidence.seconds, memory=False)
    return profile_prepared(profiled, measuring, on_progress, recorded=document)


def _weights_source(opened: Opened, evidence: EvidenceOptions) -> Any:
    """What to read weights from: the given checkpoint, or the model's own; None if they are not to be read."""
    if not evidence.read_weights:
        return None
    return evidence.weights if evidence.weights is not None else own_weights(opened)


def no_values(opened: Opened) -> str:
    """Why a model without weights of its own has no values to check."""
    problem = f"{one_line(opened.origin.location)} holds none" if opened.origin.kind == "config" else "not loaded"
    return f"{problem}: give a checkpoint of the model as weights"


def missing_values(document: Document, opened: Opened, evidence: EvidenceOptions) -> dict[str, str]:
    """The entry of `missing` in a brief for weights that were to be read but do not exist; empty if they do."""
    is_lacking = evidence.read_weights and document.weights is None and opened.document is None
    return {WEIGHT_VALUES: no_values(opened)} if is_lacking and opened.traced is None else {}


def own_weights(opened: Opened) -> Opened | None:
    """`opened` if its own weights have values, in files or in memory; None if only their shapes exist."""
    if opened.stored is None and (opened.document is not None or opened.model.on_meta):
        return None
    return opened
