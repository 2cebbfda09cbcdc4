"""Helpers for tests of rules: the finding of one rule for a recorded model, a document or a set of tensors."""

from __future__ import annotations

from typing import Any

import msgspec
import torch

import assay
from assay.api.weights import weights_document
from assay.document.document import Document
from assay.document.findings import Finding
from assay.document.provenance import Unknown
from assay.findings.engine import check


def finding_of(code: str, model: Any, inputs: Any, **options: Any) -> Finding | None:
    """The finding of one rule after a pass of `model`; None if the rule does not fire."""
    return in_document(code, assay.observe(model, inputs, **options))


def in_document(code: str, document: Document) -> Finding | None:
    """The finding of one rule in `document`; None if the rule does not fire."""
    findings = check(document, select=[code])
    assert len(findings) <= 1
    for finding in findings:
        assert finding.code == code
        assert finding.advice.endswith(".")
        for figure in finding.evidence.values():
            assert figure.value is not None or isinstance(figure.how, Unknown)
        msgspec.json.decode(msgspec.json.encode(finding), type=Finding)
    return findings[0] if findings else None


def in_weights(code: str, **tensors: torch.Tensor) -> Finding | None:
    """The finding of one rule on these tensors; None if the rule does not fire. `__` in a name becomes a dot."""
    module = torch.nn.Module()
    for name, tensor in tensors.items():
        *path, last = name.split("__")
        owner = module
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, torch.nn.Module())
            owner = owner._modules[part]
        owner.register_parameter(last, torch.nn.Parameter(tensor, requires_grad=False))
    return in_document(code, weights_document(module))


def values(finding: Finding | None) -> dict[str, Any]:
    """The evidence values by name."""
    assert finding is not None
    return {name: figure.value for name, figure in finding.evidence.items()}


def paths(document: Document, finding: Finding | None) -> list[str]:
    """The paths of the modules that the finding names."""
    assert finding is not None
    return [document.modules[index].path for index in finding.modules]
