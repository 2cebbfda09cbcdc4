"""Writing current values into a budget file: only lines of one table change, comments stay."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from assay import atomic
from assay.api.project import BudgetTables, parse_toml, read_toml
from assay.errors import UsageError
from assay.findings.budget import BudgetReport
from assay.findings.limits import MODELS
from assay.findings.quantities import QUANTITIES

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def update_budget(budget: BudgetTables, model: str, report: BudgetReport) -> None:
    """Write the values of `report` as the limits of `model`; a value that is unknown keeps its limit."""
    values = {
        line.name: math.ceil(line.value.value)
        for line in report.lines
        if line.name in QUANTITIES and line.value.value is not None
    }
    if not values:
        return
    table = (*budget.prefix, MODELS, model)
    old = budget.path.read_text(encoding="utf-8") if budget.path.exists() else ""
    new = with_values(old, table, values)
    expected = _with_table(read_toml(budget.path) if old else {}, table, values)
    try:
        same = parse_toml(new, budget.path) == expected
    except UsageError:
        same = False
    if not same:
        raise UsageError(f"cannot update {budget.path}: write the limits of {model} as a table [{_header(table)}]")
    atomic.write_bytes(budget.path, new.encode())


def with_values(text: str, table: tuple[str, ...], values: Mapping[str, int]) -> str:
    """The TOML `text` with `values` in `table`, which is appended if it is missing."""
    lines = text.splitlines()
    header = re.compile(r"\s*\[\s*" + r"\s*\.\s*".join(map(_key_pattern, table)) + r"\s*\]\s*(#.*)?")
    start = next((at for at, line in enumerate(lines) if header.fullmatch(line)), None)
    if start is None:
        lines += [*([""] if lines else []), f"[{_header(table)}]"]
        start = len(lines) - 1
    end = next((at for at in range(start + 1, len(lines)) if lines[at].lstrip().startswith("[")), len(lines))
    body = lines[start + 1 : end]
    for key, value in values.items():
        _set(body, key, value)
    return "\n".join([*lines[: start + 1], *body, *lines[end:]]) + "\n"


def _set(body: list[str], key: str, value: int) -> None:
    """Replace the line of `key`, keeping its comment, or add one after the last line that is not blank."""
    pattern = re.compile(rf"""\s*["']?{key.replace("-", "[-_]")}["']?\s*=""")
    at = next((at for at, line in enumerate(body) if pattern.match(line)), None)
    if at is None:
        last = max((at + 1 for at, line in enumerate(body) if line.strip()), default=0)
        body.insert(last, f"{key} = {value:_}")
        return
    name, _, rest = body[at].partition("=")
    comment = f"  #{rest.partition('#')[2]}" if "#" in rest else ""
    body[at] = f"{name.rstrip()} = {value:_}{comment}"


def _with_table(content: Mapping[str, Any], table: tuple[str, ...], values: Mapping[str, int]) -> dict[str, Any]:
    """`content` with `values` in `table`; a key keeps its spelling."""
    if not table:
        spellings = {key.replace("_", "-"): key for key in content}
        return {**content, **{spellings.get(key, key): value for key, value in values.items()}}
    first, *rest = table
    return {**content, first: _with_table(content.get(first, {}), tuple(rest), values)}


def _header(table: tuple[str, ...]) -> str:
    return ".".join(key if _BARE.fullmatch(key) else f'"{_escaped(key)}"' for key in table)


def _key_pattern(key: str) -> str:
    bare = f"|{re.escape(key)}" if _BARE.fullmatch(key) else ""
    return rf"""(?:"{re.escape(_escaped(key))}"|'{re.escape(key)}'{bare})"""


def _escaped(key: str) -> str:
    return key.replace("\\", "\\\\").replace('"', '\\"')
