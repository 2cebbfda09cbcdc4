"""Settings of a project: `[tool.assay]` in pyproject.toml, and budget files.

Only the command line and the pytest plugin read them; Python functions never do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any

from assay.errors import ReadError, UsageError
from assay.findings.catalogue import selected_rules
from assay.findings.limits import Limits, limits_for
from assay.messages import alternatives, name_suggestion, one_line, unreadable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FAIL_ON = ("error", "warning", "never")
KEYS = ("select", "ignore", "fail-on", "baseline", "budget", "per-model-ignores")
"""The keys of `[tool.assay]`."""
_FILE = "pyproject.toml"


@dataclass(frozen=True)
class BudgetTables:
    """The tables of limits of a budget file, or of `[tool.assay.budget]`."""

    path: Path
    """The file; paths in the tables are relative to its directory."""
    tables: Mapping[str, Any]
    """Limits of all models, and below `models` those of models by pattern."""
    prefix: tuple[str, ...] = ()
    """The keys that lead to the tables in the file."""

    def limits(self, names: Iterable[str]) -> Limits:
        """The limits of the model with these names; a UsageError if any table is not valid."""
        table = f": [{'.'.join(self.prefix)}]" if self.prefix else ""
        return limits_for(self.tables, names, f"{self.path}{table}")


@dataclass(frozen=True)
class ProjectSettings:
    """The settings in `[tool.assay]`; paths are resolved against the directory of the file."""

    path: Path | None = None
    """The file they were read from; None if there is none, or it has no such table."""
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    fail_on: str | None = None
    baseline: Path | None = None
    budget: BudgetTables | None = None
    per_model_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Codes to ignore, by pattern of the model."""

    def ignored_for(self, model: str) -> tuple[str, ...]:
        """The codes that the patterns of `per-model-ignores` add for MODEL as given on the command line."""
        return tuple(
            code for pattern, codes in self.per_model_ignores.items() if _matches(model, pattern) for code in codes
        )


def project_settings(start: Path | None = None) -> ProjectSettings:
    """The settings of the nearest pyproject.toml at `start` (by default the current directory) or above."""
    path = _nearest(start or Path.cwd())
    tools = read_toml(path).get("tool") if path is not None else None
    table = tools.get("assay") if isinstance(tools, Mapping) else None
    return ProjectSettings() if path is None or table is None else _settings(path, table)


def read_budget(path: Path) -> BudgetTables:
    """The tables of a budget file; UsageError if one of its limits is not valid."""
    tables = BudgetTables(path, read_toml(path))
    tables.limits(())
    return tables


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    try:
        return parse_toml(path.read_text(encoding="utf-8"), path)
    except OSError as error:
        raise ReadError(unreadable(path, error)) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from error


def parse_toml(text: str, path: Path) -> dict[str, Any]:
    """The content of the TOML `text` of `path`."""
    try:
        content: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from error
    return content


def _nearest(start: Path) -> Path | None:
    """The first pyproject.toml at `start` or above, up to the root of the repository."""
    for directory in (start, *start.parents):
        if (directory / _FILE).is_file():
            return directory / _FILE
        if (directory / ".git").exists():
            return None
    return None


def _settings(path: Path, table: Any) -> ProjectSettings:
    where = f"{path}: [tool.assay]"
    if not isinstance(table, Mapping):
        raise UsageError(f"{where} must be a table, got {_quoted(table)}")
    for key in table:
        if key not in KEYS:
            hint = name_suggestion(key, KEYS, listing=False)
            raise UsageError(f"{where} has an unknown key {key!r} ({hint}); accepted: {', '.join(KEYS)}")
    baseline = table.get("baseline")
    if baseline is not None and not isinstance(baseline, str):
        raise UsageError(f"{where}: baseline must be a path, got {_quoted(baseline)}")
    fail_on = table.get("fail-on")
    if fail_on is not None and fail_on not in FAIL_ON:
        raise UsageError(f"{where}: fail-on must be {alternatives(FAIL_ON)}, got {_quoted(fail_on)}")
    return ProjectSettings(
        path,
        _codes(where, "select", table["select"]) if "select" in table else None,
        _codes(where, "ignore", table.get("ignore", [])),
        fail_on,
        path.parent / baseline if baseline is not None else None,
        _budget(path, where, table.get("budget")),
        _per_model(where, table.get("per-model-ignores", {})),
    )


def _codes(where: str, key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(code, str) for code in value):
        raise UsageError(f'{where}: {key} must be a list of rule codes such as ["W101", "C2"], got {_quoted(value)}')
    try:
        selected_rules(value)
    except UsageError as error:
        raise UsageError(f"{where}: {key}: {error}") from error
    return tuple(value)


def _budget(path: Path, where: str, value: Any) -> BudgetTables | None:
    """The budget file that is named, or the limits in the table itself."""
    if value is None:
        return None
    if isinstance(value, str):
        return read_budget(path.parent / value)
    if not isinstance(value, Mapping):
        raise UsageError(f"{where}: budget must be a path or a table of limits, got {_quoted(value)}")
    tables = BudgetTables(path, value, ("tool", "assay", "budget"))
    tables.limits(())
    return tables


def _per_model(where: str, value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, Mapping):
        raise UsageError(f"{where}: per-model-ignores must be a table of lists of rule codes, got {_quoted(value)}")
    return {pattern: _codes(where, f'per-model-ignores."{pattern}"', codes) for pattern, codes in value.items()}


def _matches(model: str, pattern: str) -> bool:
    """Whether a pattern matches MODEL, the file in it, or the name of that file."""
    file = model.partition("::")[0]
    return any(fnmatchcase(name, pattern) for name in (model, file, PurePath(file).name))


def _quoted(value: Any) -> str:
    return one_line(repr(value), 80)
