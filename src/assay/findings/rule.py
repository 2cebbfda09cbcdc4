"""A rule: a stable code, what it needs to know, and the search for its findings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from assay.document.document import Document
from assay.document.findings import SEVERITIES, Finding
from assay.document.provenance import Figure
from assay.findings.facts import ModelFacts
from assay.findings.naming import places

CODE = re.compile(r"[A-Z][0-9]{3}")


class RuleMatch(Struct, frozen=True):
    """A finding without what all findings of its rule share."""

    title: str
    evidence: Mapping[str, Figure]
    modules: Sequence[int] = ()
    tensors: Sequence[str] = ()
    advice: str = ""
    """Where this case asks for another than the rule's."""


def in_modules(facts: ModelFacts, modules: Sequence[int], title: str, evidence: Mapping[str, Figure]) -> RuleMatch:
    """A match about modules, whose paths end its title."""
    return RuleMatch(f"{title}: {places(facts.document, modules)}", evidence, modules)


def in_ops(facts: ModelFacts, ops: Iterable[int], title: str, evidence: Mapping[str, Figure]) -> RuleMatch:
    """A match about operations, at the modules they ran in."""
    return in_modules(facts, facts.modules(ops), title, evidence)


class Need(Struct, frozen=True):
    """Something a document must hold for a rule to say anything."""

    name: str
    missing: Callable[[ModelFacts], str]
    """Why it is not there; empty where it is."""


class Rule(Struct, frozen=True):
    """One thing to look for."""

    code: str
    severity: str
    summary: str
    """What it looks for, as one line of a list."""
    advice: str
    search: Callable[[ModelFacts], Iterable[RuleMatch]]
    needs: tuple[Need, ...] = ()

    def __post_init__(self) -> None:
        if CODE.fullmatch(self.code) is None:
            raise ValueError(f"a code is a letter and three digits, got {self.code!r}")
        if self.severity not in SEVERITIES:
            raise ValueError(f"{self.code}: a severity is one of {', '.join(SEVERITIES)}, got {self.severity!r}")

    def find(self, document: Document | ModelFacts) -> Iterable[Finding]:
        """Its findings in a document; none where the document does not hold what it needs."""
        facts = document if isinstance(document, ModelFacts) else ModelFacts(document)
        if self.missing(facts):
            return
        for found in self.search(facts):
            yield Finding(
                code=self.code,
                severity=self.severity,
                title=found.title,
                advice=found.advice or self.advice,
                modules=tuple(found.modules),
                tensors=tuple(found.tensors),
                evidence=dict(found.evidence),
            )

    def missing(self, facts: ModelFacts) -> str:
        """The first thing it needs that the document does not hold, in words; empty where nothing is missing."""
        return next((why for need in self.needs if (why := need.missing(facts))), "")
