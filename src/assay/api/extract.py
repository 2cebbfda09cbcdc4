"""The two functions that write the files of uniques, one after the other, from a loader and an input maker."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from assay import atomic
from assay.api.observe import observe
from assay.document.document import Document
from assay.errors import PartialError, ReadError
from assay.views.json.files import ModulesFile, OpsFile, encode, modules_file, ops_file


def extract_unique_modules(
    load_fn: Callable[[], Any],
    get_sample_input: Callable[[], Any] | None = None,
    output_path: str | Path | None = None,
) -> dict[str, Any]:
    """The unique modules of a model, as the content of `unique_modules.json`.

    A forward pass that stops midway raises `PartialError` after what was learned is written.

    Args:
        load_fn: Builds the model.
        get_sample_input: Returns what to call the model with; inferred where left out.
        output_path: Where to write the file; None writes none.
    """
    document = _watched(load_fn, get_sample_input)
    return _finished(document, modules_file(document), output_path)


def extract_pytorch_ops(
    modules_json_path: str | Path,
    load_fn: Callable[[], Any],
    get_sample_input: Callable[[], Any] | None = None,
    output_path: str | Path | None = None,
) -> dict[str, Any]:
    """The unique operations of a model, as the content of `pytorch_ops.json`.

    Args:
        modules_json_path: The file that `extract_unique_modules` wrote, whose module ids are used.
        load_fn: Builds the model.
        get_sample_input: Returns what to call the model with; inferred where left out.
        output_path: Where to write the file; None writes none.
    """
    modules = _read(Path(modules_json_path))
    document = _watched(load_fn, get_sample_input)
    if _identities(modules) != _identities(modules_file(document)):
        raise ReadError(f"{modules_json_path} was made from another model or other inputs: extract it again")
    return _finished(document, ops_file(document, Path(modules_json_path).name), output_path)


def _watched(load_fn: Callable[[], Any], get_sample_input: Callable[[], Any] | None) -> Document:
    document = observe(load_fn, get_sample_input)
    source = inspect.getsourcefile(load_fn) if inspect.isfunction(load_fn) or inspect.isclass(load_fn) else None
    if source is None:
        return document
    location = f"{Path(source).name}:{document.origin.name}"
    return msgspec.structs.replace(document, origin=msgspec.structs.replace(document.origin, location=location))


def _finished(document: Document, file: ModulesFile | OpsFile, output_path: str | Path | None) -> dict[str, Any]:
    data = encode(file)
    if output_path is not None:
        atomic.write_bytes(Path(output_path), data)
    failure = document.run.failure
    if failure is not None:
        raise PartialError(
            f"the forward pass stopped in '{failure.module}' ({failure.error}); what was learned is kept"
        )
    result: dict[str, Any] = msgspec.json.decode(data)
    return result


def _read(path: Path) -> ModulesFile:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ModulesFile)
    except OSError as error:
        raise ReadError(f"cannot read {path}: {error.strerror or error}") from error
    except msgspec.DecodeError as error:
        raise ReadError(f"{path} is no file of unique modules: {error}") from error


def _identities(file: ModulesFile) -> list[tuple[str, str, str]]:
    return [(entry.id, entry.class_name, entry.module_path) for entry in file.modules]
