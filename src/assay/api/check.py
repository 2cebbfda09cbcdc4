"""`assay.check`: what to know or do about a model or a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from assay.api.observe import observed
from assay.api.options import RunOptions
from assay.api.weights import weigh
from assay.checkpoint.statistics.settings import Progress
from assay.document.document import Document
from assay.document.findings import Finding
from assay.errors import InputsError
from assay.findings.catalogue import chosen
from assay.findings.engine import CheckResult, Skipped, apply
from assay.findings.rule import Rule
from assay.sources.open import open_source
from assay.sources.opened import Opened


class CheckReport(Struct, frozen=True):
    """The findings about a model, and the rules that could not be applied."""

    document: Document
    """What was examined, with the findings in it."""
    checked: CheckResult

    @property
    def findings(self) -> list[Finding]:
        """What to know or do, worst first."""
        return self.checked.findings

    @property
    def skipped(self) -> list[Skipped]:
        """The rules whose evidence the document does not hold, and why."""
        return self.checked.skipped

    @property
    def rules(self) -> int:
        """How many rules there were, including those skipped."""
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
    backward: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
    progress: Progress | None = None,
) -> CheckReport:
    """What a person should know or do about `model`, worst first, each finding with its evidence.

    A model is run once; of a file that holds weights alone, or code that is not trusted, the weights are examined.

    Args:
        model: Anything `assay.open` takes.
        inputs: What to call the model with, as `assay.observe` takes it; inferred where left out.
        select: Codes of the rules to apply, or how they begin, such as `["W101", "C2"]`; None applies all.
        ignore: Codes of rules to leave out.
        weights: A checkpoint of the model to examine too.
        mode: `"auto"`, `"real"`, `"meta"` or `"fake"`, as in `assay.observe`.
        device: The torch device to run on.
        dtype: The floating-point type to run in, such as `"bfloat16"`.
        train: Run in training mode.
        backward: Record a training step as well, in training mode.
        model_args: Keyword arguments for the function or class that builds the model.
        trust: Allow code from a file to run.
        progress: Called with the bytes of weights that are read and the bytes in all.
    """
    rules = chosen(select, ignore)
    options = RunOptions(mode, device, dtype, train, backward, model_args, trust)
    opened = open_source(model, model_args=model_args, trust=trust)
    return checked(examined(opened, inputs, options, weights, progress), rules)


def checked(document: Document, rules: Sequence[Rule]) -> CheckReport:
    """What these rules find in a document."""
    found = apply(rules, document)
    return CheckReport(replace(document, findings=found.findings), found)


def examined(
    opened: Opened, inputs: Any, options: RunOptions, weights: Any = None, progress: Progress | None = None
) -> Document:
    """The document of one pass with the statistics of stored weights; of weights alone where nothing can run."""
    alone = opened.model_error is not None or (opened.document is None and opened.model.holder is not None)
    if alone:
        options.refuse_for(
            opened.origin,
            inputs=inputs is not None,
            backward=options.backward,
            weights=weights is not None,
        )
        return weigh(opened, progress=progress)
    try:
        document = observed(opened, inputs, options)
    except InputsError as error:
        source = weights if weights is not None else own_weights(opened)
        if inputs is not None or source is None:
            raise
        found = weigh(source, progress=progress)  # without a pass there are still the weights
        return replace(found, run=replace(found.run, assumptions=(f"no pass was made: {error}",)))
    source = weights if weights is not None else own_weights(opened)
    if source is None:
        return document
    return replace(document, weights=weigh(source, progress=progress).weights)


def own_weights(opened: Opened) -> Opened | None:
    """Where the values of a model's own weights are: in its files or in memory; None where there are none."""
    if opened.stored is None and (opened.document is not None or opened.model.on_meta):
        return None
    return opened
