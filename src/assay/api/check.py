"""`assay.check`: apply rules to a model or checkpoint and list the findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from assay.api.arguments import check_callable
from assay.api.observe import observe_opened
from assay.api.options import RunOptions
from assay.api.partial import warn_if_partial
from assay.api.weights import weights_document
from assay.checkpoint.statistics.settings import Progress
from assay.document.document import Document
from assay.document.findings import Finding
from assay.errors import InputsError
from assay.findings.catalogue import selected_rules
from assay.findings.engine import CheckResult, Skipped, apply
from assay.findings.rule import Rule
from assay.sources.open import open_source
from assay.sources.opened import Opened


class CheckReport(Struct, frozen=True):
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
    def partial(self) -> bool:
        """Whether a requested pass stopped midway."""
        return self.document.stopped

    @property
    def skipped(self) -> list[Skipped]:
        """The rules that need data the document does not have, each with the reason."""
        return self.checked.skipped

    @property
    def rules(self) -> int:
        """The number of rules, including skipped ones."""
        return self.checked.rules


def check(
    model: Any,
    inputs: Any = None,
    *,
    select: Iterable[str] | None = None,
    ignore: Iterable[str] | None = None,
    weights: Any = None,
    mode: str = "auto",
    device: str | None = None,
    dtype: str | None = None,
    train: bool = False,
    as_is: bool = False,
    backward: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
    progress: Progress | None = None,
) -> CheckReport:
    """Check `model` for problems and possible improvements.

    The model is run once. If a file holds only weights, or code that is not trusted, only the weights are checked.

    Args:
        model: Anything `assay.open` accepts.
        inputs: What to call the model with, in any form `assay.observe` accepts. If None, they are inferred.
        select: Rules to apply, given as codes or prefixes of codes, such as `["W101", "C2"]`. Default: all rules.
        ignore: Rules to skip, given as codes or prefixes of codes. Default: none.
        weights: A checkpoint of the model to check, in place of the model's own weights. Default: its own weights.
        mode: `"auto"`, `"real"`, `"meta"` or `"fake"`, as for `assay.observe`.
        device: The torch device to run on, such as `"cuda:0"`. Default: where the model is.
        dtype: The floating-point dtype to run in, such as `"bfloat16"`. Default: the model's own.
        train: Run in training mode instead of evaluation mode.
        as_is: Run every module in the mode it is in, training or evaluation.
        backward: Also record a training step, in training mode.
        model_args: Keyword arguments for the function or class that builds the model. Default: no arguments.
        trust: Allow code stored in a file to run.
        progress: Called with the bytes of weights read so far and the total bytes. Default: no progress reports.

    Returns:
        The report: the findings, most severe first, each with its evidence, and the rules that were skipped. If the
        forward pass stops midway, a `PartialWarning` is issued, and rules that need a complete pass are skipped.

    Raises:
        UsageError: An argument is not valid, such as an unknown rule code, or does not apply to this model.
        InputsError: The inputs do not match the arguments of forward, or cannot be parsed; or they cannot be inferred
            and there are no weights to check.
        ReadError: The model or file cannot be read.
    """
    check_callable("progress", progress, optional=True)
    rules = selected_rules(select, ignore)
    options = RunOptions(mode, device, dtype, train, backward, model_args, trust, as_is=as_is)
    opened = open_source(model, model_args=model_args, trust=trust)
    document = document_to_check(opened, inputs, options, weights, progress)
    warn_if_partial(document)
    return check_document(document, rules)


def check_document(document: Document, rules: Sequence[Rule]) -> CheckReport:
    """The report of applying these rules to a document."""
    result = apply(rules, document)
    return CheckReport(replace(document, findings=result.findings), result)


def document_to_check(
    opened: Opened, inputs: Any, options: RunOptions, weights: Any = None, progress: Progress | None = None
) -> Document:
    """The document to check: one pass plus weight statistics, only the weights if nothing can run, or traces."""
    if opened.traced is not None:
        options.check_unused(
            opened.origin, inputs=inputs is not None, backward=options.backward, weights=weights is not None
        )
        return Document(origin=opened.origin, traces=opened.traced())
    weights_only = opened.model_error is not None or (opened.document is None and opened.model.holder is not None)
    if weights_only:
        options.check_unused(
            opened.origin,
            inputs=inputs is not None,
            backward=options.backward,
            weights=weights is not None,
        )
        return weights_document(opened, progress=progress)
    try:
        document = observe_opened(opened, inputs, options)
    except InputsError as error:
        source = weights if weights is not None else own_weights(opened)
        if inputs is not None or source is None:
            raise
        document = weights_document(source, progress=progress)  # the weights can be checked without a pass
        return replace(document, run=replace(document.run, assumptions=(f"the model was not run: {error}",)))
    source = weights if weights is not None else own_weights(opened)
    if source is None:
        return document
    return replace(document, weights=weights_document(source, progress=progress).weights)


def own_weights(opened: Opened) -> Opened | None:
    """`opened` if its own weights have values, in files or in memory; None if only their shapes exist."""
    if opened.stored is None and (opened.document is not None or opened.model.on_meta):
        return None
    return opened
