"""Baselines: the findings that a team has accepted, so that only new ones are reported.

A finding is identified by its code and the modules and tensors it is about, not by numbers in its title or evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from assay.document import tree
from assay.document.document import Document
from assay.document.findings import SEVERITIES, Finding
from assay.messages import plural

BASELINE_VERSION = 1
"""Increased if older readers would misinterpret a new file."""
_COUNTED = ("error", "warning")
"""Severities that can fail a check: a known finding that reaches one of them is reported again."""


class AcceptedFinding(Struct, frozen=True, omit_defaults=True):
    """A finding that was accepted."""

    code: str
    """The rule's code."""
    severity: str
    """Its severity when it was accepted."""
    modules: tuple[str, ...] = ()
    """Paths of the affected modules."""
    tensors: tuple[str, ...] = ()
    """Names of the affected tensors."""

    @property
    def subjects(self) -> tuple[str, ...]:
        """The names of everything it is about; a finding about the whole model has one empty name."""
        return (*self.modules, *self.tensors) or ("",)


class Baseline(Struct, frozen=True):
    """The accepted findings of one or more models."""

    version: int = field(name="assay_baseline", default=BASELINE_VERSION)
    """The version of the layout."""
    models: dict[str, list[AcceptedFinding]] = field(default_factory=dict)
    """Accepted findings by model; a path is relative to the directory of the file."""


class BaselineComparison(Struct, frozen=True):
    """Findings compared with a baseline."""

    new: list[Finding]
    """Findings that are not in the baseline; their modules and tensors are only those that are not."""
    known: int
    """Number of findings in the baseline that were found again."""
    gone: list[AcceptedFinding]
    """Findings of the baseline that were not found again, although their rule was applied."""


def accepted(finding: Finding, paths: Mapping[int, str]) -> AcceptedFinding:
    """The finding as an entry of a baseline; `paths` maps module indices to paths."""
    modules = sorted({paths[index] for index in finding.modules})
    return AcceptedFinding(finding.code, finding.severity, tuple(modules), tuple(sorted(set(finding.tensors))))


def compare(
    entries: Iterable[AcceptedFinding], document: Document, findings: Iterable[Finding], applied: Iterable[str]
) -> BaselineComparison:
    """Compare `findings` of `document` with the baseline's; `applied` has the codes of all applied rules."""
    known = list(entries)
    paths = module_paths(document)
    current = [(finding, accepted(finding, paths)) for finding in findings]
    present = {(entry.code, subject) for _, entry in current for subject in entry.subjects}
    candidates = [_new_part(finding, entry, known, paths) for finding, entry in current]
    codes = set(applied)
    gone = [
        entry
        for entry in known
        if entry.code in codes and not any((entry.code, subject) in present for subject in entry.subjects)
    ]
    new = [finding for finding in candidates if finding is not None]
    return BaselineComparison(new, len(candidates) - len(new), gone)


def _new_part(
    finding: Finding, entry: AcceptedFinding, known: list[AcceptedFinding], paths: Mapping[int, str]
) -> Finding | None:
    """The finding with only the modules and tensors that are not in the baseline; None if all are."""
    old = {subject for each in known if _covers(each, entry) for subject in each.subjects}
    added = [subject for subject in entry.subjects if subject not in old]
    if not added or len(added) == len(entry.subjects):
        return finding if added else None
    modules = tuple(index for index in finding.modules if paths[index] not in old)
    tensors = tuple(name for name in finding.tensors if name not in old)
    noun = "module" if finding.modules else "tensor"
    title = f"{finding.title} (new in {len(added)} of {plural(len(entry.subjects), noun)})"
    return replace(finding, title=title, modules=modules, tensors=tensors)


def _covers(known: AcceptedFinding, entry: AcceptedFinding) -> bool:
    """Whether it is the same rule, and not a warning or an error that was accepted as something milder."""
    worse = SEVERITIES.index(entry.severity) < SEVERITIES.index(known.severity)
    return known.code == entry.code and not (worse and entry.severity in _COUNTED)


def module_paths(document: Document) -> dict[int, str]:
    """The path of each module, as shown to people."""
    return {index: tree.path_text(module.path) for index, module in enumerate(document.modules)}
