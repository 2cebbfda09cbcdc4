"""Rules about stored weights that do not fit the model they lie beside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from assay import units
from assay.analysis.parameters import elements
from assay.document.provenance import Counted, Figure
from assay.document.rows import Tensor
from assay.document.weights_fit import WeightsFit
from assay.findings.catalogue import rule
from assay.findings.facts import ModelFacts
from assay.findings.naming import fold_names, joined_names
from assay.findings.needs import FIT
from assay.findings.rule import RuleMatch
from assay.findings.stored import is_floating, names, rows, total
from assay.messages import plural

_BY_NAMES = Counted("names and shapes of the stored tensors and of the model's")


@rule(
    "W301",
    "warning",
    "stored weights that do not fit the model",
    advice="Check that config and weights belong together, and that the architecture in the config is the one that "
    "was saved: a loader initialises tensors that it does not find at random, and drops those it does not know.",
    needs=(FIT,),
)
def misfits(facts: ModelFacts) -> Iterator[RuleMatch]:
    """Tensors that the files lack or hold in another form, under another name, or besides those of the model."""
    fit = facts.document.weights_fit
    assert fit is not None
    for match in (*_absent(fit), *_reshaped(fit), *_untied(facts, fit), *_renamed(fit), *_extra(fit)):
        yield _quantized(match, fit.quantization) if fit.quantization else match
    yield from _other_dtype(facts)


def _quantized(match: RuleMatch, method: str) -> RuleMatch:
    """The match for a quantized checkpoint: it stores other tensors than the model, which its loader converts."""
    advice = (
        f"Load the weights with a library that supports {method}: packed values and scales have names of their own."
    )
    return replace(match, title=f"{match.title} (quantized with {method})", severity="note", advice=advice)


def _absent(fit: WeightsFit) -> Iterator[RuleMatch]:
    if fit.missing:
        verb = "is" if len(fit.missing) == 1 else "are"
        title = f"{plural(len(fit.missing), 'tensor')} of the model {verb} not in the files"
        lacked = [part for name in fit.missing for part in fit.missing_parts.get(name, (name,))]
        yield _match(title, "missing", fit.missing, named=lacked)


def _reshaped(fit: WeightsFit) -> Iterator[RuleMatch]:
    if fit.conflicts:
        first, affected = fit.conflicts[0], [conflict.name for conflict in fit.conflicts]
        shapes = f"{units.shape(first.stored)} instead of {units.shape(first.shape)}"
        title = f"{plural(len(affected), 'tensor')} of another shape in the files ({shapes})"
        yield _match(title, "other_shape", affected, "error")


def _untied(facts: ModelFacts, fit: WeightsFit) -> Iterator[RuleMatch]:
    if fit.untied:
        title = f"{plural(len(fit.untied), 'tied tensor')} with different values under each name in the files"
        match = _match(title, "untied", [name for tied in fit.untied for name in tied])
        is_config = facts.document.origin.kind == "config"
        yield replace(match, advice=_about_untied(facts.document.tensors, fit)) if is_config else match


def _about_untied(tensors: Sequence[Tensor], fit: WeightsFit) -> str:
    counts = {name: elements(tensor.type) or 0 for tensor in tensors for name in tensor.names}
    more = units.exact(sum(counts.get(name, 0) for tied in fit.untied for name in tied[1:]))
    return (
        "Set tie_word_embeddings to false in config.json if they should differ, or save only one of them: "
        f"transformers 5 keeps both, so that the loaded model has {more} parameters more than stated here; earlier "
        "versions keep the first."
    )


def _renamed(fit: WeightsFit) -> Iterator[RuleMatch]:
    """The match for a prefix that only Assay recognises, not the model's library."""
    if fit.prefix:
        sign, prefix = fit.prefix[0], fit.prefix[1:]
        differs = f"start with {prefix}" if sign == "+" else f"lack the start of the model's, {prefix}"
        yield _match(f"names in the files {differs}", "renamed", list(fit.stored_as))


def _extra(fit: WeightsFit) -> Iterator[RuleMatch]:
    if fit.extra:
        title = f"{plural(len(fit.extra), 'stored tensor')} that the model does not have"
        yield _match(title, "extra", fit.extra, "note")


def _other_dtype(facts: ModelFacts) -> Iterator[RuleMatch]:
    """The match for weights that are mostly stored in another dtype than the config gives the model."""
    document = facts.document
    types = {name: tensor.type.dtype for tensor in document.tensors for name in tensor.names}
    known = [row for row in rows(facts) if row.names[0] in types]
    others = [row for row in known if is_floating(row) and row.dtype != types[row.names[0]]]
    if document.run.dtype or 2 * total(others, lambda row: row.count) <= total(known, lambda row: row.count):
        return
    own, stored = types[others[0].names[0]], others[0].dtype
    count = plural(len(others), "tensor")
    title = f"{count} stored as {stored}, but {own} in the model: memory and bytes are for {own}"
    advice = f"Give --dtype {stored}, or set dtype in config.json, if the model will run in {stored}."
    yield replace(_match(title, "other_dtype", names(others), "note"), advice=advice)


def _match(
    title: str, figure: str, affected: Sequence[str], severity: str = "", named: Sequence[str] = ()
) -> RuleMatch:
    """A match for the tensors `affected`, whose names, or those in `named`, are appended to the title."""
    evidence, shown = {figure: Figure(len(affected), _BY_NAMES)}, joined_names(fold_names(named or affected))
    return RuleMatch(f"{title}: {shown}", evidence, tensors=affected, severity=severity)
