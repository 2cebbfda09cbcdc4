"""Reading and writing baselines. The JSON result of `assay check` is read as the baseline of one model."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct, field

from assay import atomic
from assay.document.document import Document
from assay.document.findings import SEVERITIES, Finding
from assay.errors import ReadError, UsageError, VersionError
from assay.findings.baseline import BASELINE_VERSION, AcceptedFinding, Baseline, accepted, module_paths
from assay.messages import unreadable


class _ListedModule(Struct, frozen=True):
    index: int
    path: str


class _ListedFindings(Struct, frozen=True):
    """The part of the JSON of `assay check` that identifies its findings."""

    findings: list[Finding]
    modules: list[_ListedModule] = field(default_factory=list)
    baseline: object = None


def model_key(path: Path, location: str) -> str:
    """The name of the model from `location` in the baseline `path`: a file is relative to the directory of `path`."""
    file, _, function = location.rpartition(":") if not os.path.exists(location) else (location, "", "")
    if not file or not os.path.exists(file):
        return location
    relative = Path(os.path.relpath(file, path.parent)).as_posix()
    return f"{relative}:{function}" if function else relative


def accepted_in(path: Path, document: Document) -> list[AcceptedFinding]:
    """The accepted findings of the document's model in the baseline or the JSON of `assay check` at `path`."""
    content = _read(path)
    if isinstance(content, Baseline):
        return content.models.get(model_key(path, document.origin.location), [])
    paths = {each.index: each.path for each in content.modules}
    return [accepted(finding, paths) for finding in content.findings]


def check_readable(path: Path) -> None:
    """Raise ReadError if `path` is not a baseline that can be read."""
    _read(path)


def check_writable(path: Path, location: str) -> None:
    """Raise UsageError if writing the findings of the model from `location` would replace those in the file."""
    if path.exists() and not _adds(_read(path), model_key(path, location)):
        raise UsageError(f"{path} already has findings of this model: replace them with --force")


def write_baseline(path: Path, document: Document, findings: Iterable[Finding], *, overwrite: bool) -> None:
    """Write the findings of the document's model to the baseline `path`, which keeps those of other models.

    Raises UsageError if it has findings of this model already and `overwrite` is False.
    """
    content = _read(path) if path.exists() else Baseline()
    others = content.models if isinstance(content, Baseline) else {}
    key, paths = model_key(path, document.origin.location), module_paths(document)
    entries = [accepted(finding, paths) for finding in findings]
    models = {**others, key: sorted(entries, key=lambda entry: (entry.code, entry.subjects))}
    data = msgspec.json.format(msgspec.json.encode(Baseline(models=dict(sorted(models.items())))), indent=2)
    atomic.write_bytes(path, data + b"\n", overwrite=overwrite or _adds(content, key))


def _adds(content: Baseline | _ListedFindings, key: str) -> bool:
    """Whether `content` is a baseline without findings of this model."""
    return isinstance(content, Baseline) and key not in content.models


def _read(path: Path) -> Baseline | _ListedFindings:
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise ReadError(f"no such baseline: {path} (write it with --write-baseline)") from error
    except OSError as error:
        raise ReadError(unreadable(path, error)) from error
    try:
        raw = msgspec.json.decode(data)
        version = raw.get("assay_baseline") if isinstance(raw, dict) else None
        if isinstance(version, int) and version > BASELINE_VERSION:
            raise VersionError(
                f"baseline {path} was written by a newer Assay (version {version}): upgrade torch-assay"
            )
        content: Baseline | _ListedFindings
        content = msgspec.convert(raw, _ListedFindings) if version is None else msgspec.convert(raw, Baseline)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        problem = f"is not a baseline or a JSON result of assay check, or is damaged ({error})"
        raise ReadError(f"{path} {problem}: write it again with --write-baseline --force") from error
    return _checked(path, content)


def _checked(path: Path, content: Baseline | _ListedFindings) -> Baseline | _ListedFindings:
    """`content` if its severities and indices are valid and it holds all findings of a model; ReadError otherwise."""
    if isinstance(content, Baseline):
        severities = {entry.severity for entries in content.models.values() for entry in entries}
        indices: set[int] = set()
    else:
        severities = {finding.severity for finding in content.findings}
        indices = {at for finding in content.findings for at in finding.modules} - {e.index for e in content.modules}
        if content.baseline is not None:
            raise ReadError(f"{path} lists only findings that are not in another baseline: use that one")
    if indices or not severities <= set(SEVERITIES):
        raise ReadError(f"{path} is damaged: it has an unknown severity or module")
    return content
