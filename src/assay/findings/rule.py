"""A rule: a stable code, the data it needs, and the search function that yields its findings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from assay.document.document import Document
from assay.document.findings import SEVERITIES, Finding, Gain
from assay.document.plans import TensorPlan
from assay.document.provenance import Figure
from assay.findings.facts import ModelFacts
from assay.findings.naming import module_names

CODE = re.compile(r"[A-Z][0-9]{3}")


class RuleMatch(Struct, frozen=True):
    """The part of a finding that is specific to one case; the rule adds code, severity and advice."""

    title: str
    """One line that states the fact."""
    evidence: Mapping[str, Figure]
    """The values behind the title, by name."""
    modules: Sequence[int] = ()
    """Indices of the affected modules."""
    tensors: Sequence[str] = ()
    """Names of the affected tensors."""
    advice: str = ""
    """Advice for this case; empty for the rule's own advice."""
    gain: Gain | None = None
    """What following the advice saves at most; None if it is not about saving anything."""
    severity: str = ""
    """The severity of this case; empty for the rule's own."""
    plan: Sequence[TensorPlan] = ()
    """What the advice means for each tensor."""


def in_modules(
    facts: ModelFacts,
    modules: Sequence[int],
    title: str,
    evidence: Mapping[str, Figure],
    gain: Gain | None = None,
) -> RuleMatch:
    """A match for `modules`; their paths are appended to the title."""
    return RuleMatch(f"{title}: {module_names(facts.document, modules)}", evidence, modules, gain=gain)


def in_ops(
    facts: ModelFacts, ops: Iterable[int], title: str, evidence: Mapping[str, Figure], gain: Gain | None = None
) -> RuleMatch:
    """A match for the modules in which `ops` ran; their paths are appended to the title."""
    return in_modules(facts, facts.modules(ops), title, evidence, gain)


class Need(Struct, frozen=True):
    """Data that a document must have for a rule to apply."""

    name: str
    """The data, as a noun phrase."""
    missing: Callable[[ModelFacts], str]
    """Returns why the data is missing, or an empty string if it is there."""


class Rule(Struct, frozen=True):
    """A check for one kind of problem."""

    code: str
    """A letter for the topic and three digits: `W101`."""
    severity: str
    """One of `SEVERITIES`."""
    summary: str
    """What the rule looks for, on one line."""
    advice: str
    """What to do about a finding, starting with a verb."""
    search: Callable[[ModelFacts], Iterable[RuleMatch]]
    """Yields one match per finding."""
    needs: tuple[Need, ...] = ()
    """Data the document must have; the rule is skipped without it."""

    def __post_init__(self) -> None:
        if CODE.fullmatch(self.code) is None:
            raise ValueError(f"invalid rule code {self.code!r}: expected a letter and three digits")
        if self.severity not in SEVERITIES:
            raise ValueError(f"{self.code}: unknown severity {self.severity!r}: expected {', '.join(SEVERITIES)}")

    def find(self, document: Document | ModelFacts) -> Iterable[Finding]:
        """The rule's findings about a document; empty if the document lacks data that the rule needs."""
        facts = document if isinstance(document, ModelFacts) else ModelFacts(document)
        if self.missing(facts):
            return
        for match in self.search(facts):
            yield Finding(
                code=self.code,
                severity=match.severity or self.severity,
                title=match.title,
                advice=match.advice or self.advice,
                modules=tuple(match.modules),
                tensors=tuple(match.tensors),
                evidence=dict(match.evidence),
                gain=match.gain,
                plan=tuple(match.plan),
            )

    def missing(self, facts: ModelFacts) -> str:
        """Why the first missing piece of needed data is missing; empty if nothing is missing."""
        return next((why for need in self.needs if (why := need.missing(facts))), "")
