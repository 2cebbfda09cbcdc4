"""Findings as workflow commands, which GitHub Actions shows beside the lines of a change."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from assay.document.findings import Finding
from assay.findings.budget import BudgetReport
from assay.views.tables import Table, printable
from assay.views.text.budget import budget_table

_COMMANDS = {"error": "error", "warning": "warning", "advice": "notice", "note": "notice"}


def workflow_annotations(
    findings: Sequence[Finding], budget: BudgetReport | None = None, path: str | None = None, line: int | None = None
) -> str:
    """One workflow command per finding and per failed limit; `path` and `line` are where the model is defined."""
    commands = [(_COMMANDS[each.severity], f"assay {each.code}", f"{each.title}. {each.advice}") for each in findings]
    failed = Table(budget_table(budget).columns, budget.failed) if budget is not None else None
    for row in failed.values() if failed is not None else []:
        text = f"{row['name']}: {row['value']}, limit {row['limit']}, {row['verdict']}"
        commands.append(("error", "assay budget", text))
    return "".join(_command(name, title, text, path, line) for name, title, text in commands)


def _command(name: str, title: str, text: str, path: str | None, line: int | None) -> str:
    place = {
        "file": Path(os.path.relpath(path)).as_posix() if path is not None else None,
        "line": line,
        "title": title,
    }
    properties = ",".join(f"{key}={_escaped(str(value), ',:')}" for key, value in place.items() if value is not None)
    return f"::{name} {properties}::{_escaped(text)}\n"


def _escaped(text: str, special: str = "") -> str:
    """`text` without control characters, its special characters escaped as GitHub's runner expects."""
    return "".join(f"%{ord(char):02X}" if char == "%" or char in special else char for char in printable(text))
