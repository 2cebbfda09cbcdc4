"""Findings as SARIF 2.1.0, the format of code scanning services such as GitHub's."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from assay.document import tree
from assay.document.document import Document
from assay.document.findings import Finding
from assay.document.provenance import Figure
from assay.findings.naming import fold_names
from assay.findings.rule import Rule
from assay.version import __version__
from assay.views.tables import printable

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {"error": "error", "warning": "warning", "advice": "note", "note": "note"}
"""SARIF's level for each severity."""
FINGERPRINT = "assayFinding/v1"
_MAX_NAMES = 100
"""Modules and tensors listed per result; services refuse results with thousands of locations."""


def sarif(
    document: Document,
    findings: Sequence[Finding],
    rules: Sequence[Rule],
    path: str | None = None,
    line: int | None = None,
) -> bytes:
    """The findings as a SARIF log; `path` and `line` are where the model is defined, if that is a local file."""
    codes = sorted({finding.code for finding in findings})
    by_code = {rule.code: rule for rule in rules}
    place = _physical(path, line)
    run = {
        "tool": {
            "driver": {
                "name": "assay",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": [_rule(code, by_code.get(code)) for code in codes],
            }
        },
        "results": [_result(document, finding, codes.index(finding.code), place) for finding in findings],
        "columnKind": "unicodeCodePoints",
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(log), indent=2) + b"\n"


def _rule(code: str, rule: Rule | None) -> dict[str, Any]:
    if rule is None:  # the finding about a rule that failed has no rule of its own
        return {"id": code, "shortDescription": {"text": "a rule failed"}}
    return {
        "id": code,
        "shortDescription": {"text": rule.summary},
        "help": {"text": rule.advice},
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
    }


def _result(document: Document, finding: Finding, index: int, place: dict[str, Any]) -> dict[str, Any]:
    location = {**place, **_logical(document, finding)}
    return {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": LEVELS[finding.severity],
        "message": {"text": printable(f"{finding.title}. {finding.advice}")},
        "locations": [location] if location else [],
        "partialFingerprints": {FINGERPRINT: fingerprint(document, finding)},
        "properties": _properties(finding),
    }


def fingerprint(document: Document, finding: Finding) -> str:
    """A digest that stays the same while the code, the model and the names without their numbers stay the same."""
    paths = [tree.path_text(document.modules[index].path) for index in finding.modules]
    names = sorted({_without_numbers(name) for name in (*paths, *finding.tensors)})
    identity = "\n".join([finding.code, document.origin.name or document.model_class, *names])
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()


def _without_numbers(name: str) -> str:
    return ".".join("#" if part.isdecimal() else part for part in name.split("."))


def _physical(path: str | None, line: int | None) -> dict[str, Any]:
    """The physical location of the model's file; empty if it has none."""
    if path is None:
        return {}
    region = {"region": {"startLine": line}} if line is not None else {}
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(path)}, **region}}


def _uri(path: str) -> str:
    """The path as a URI, relative to the current directory if it is below it."""
    full, here = os.path.realpath(path), os.path.realpath(os.curdir)
    if os.path.commonpath([full, here]) == here:
        return quote(Path(os.path.relpath(full, here)).as_posix())
    return Path(full).as_uri()


def _logical(document: Document, finding: Finding) -> dict[str, Any]:
    """The affected modules and tensors as logical locations; empty if there are none."""
    modules = [(tree.path_text(document.modules[index].path), "module") for index in finding.modules]
    tensors = [(name, "member") for name in finding.tensors]
    named = list(dict.fromkeys([*modules, *tensors]))[:_MAX_NAMES]
    listed = [{"fullyQualifiedName": printable(name), "kind": kind} for name, kind in named]
    return {"logicalLocations": listed} if listed else {}


def _properties(finding: Finding) -> dict[str, Any]:
    """Severity, evidence, gain and the result of a trial, as plain values."""
    gain = finding.gain
    folded = {"tensors": [printable(name) for name in fold_names(finding.tensors)]} if finding.tensors else {}
    worth = {"of": gain.of, "amount": _plain(gain.amount), "share": _plain(gain.share)} if gain is not None else None
    return {
        "severity": finding.severity,
        "evidence": {printable(name): _plain(figure) for name, figure in finding.evidence.items()},
        **folded,
        **({"gain": worth} if worth is not None else {}),
        **({"verified": printable(finding.verified)} if finding.verified else {}),
    }


def _plain(figure: Figure) -> dict[str, Any]:
    return {"value": figure.value, "how": type(figure.how).__name__.lower()}
