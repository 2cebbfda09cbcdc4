"""`assay.extract_unique_modules` and `assay.extract_pytorch_ops`: write a model's unique modules and unique ops."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from assay import atomic
from assay.api.arguments import path_of
from assay.api.observe import observe_opened
from assay.api.options import RunOptions
from assay.api.partial import stopped_text, warn_if_partial
from assay.document.document import Document
from assay.errors import PartialError, ReadError
from assay.messages import unreadable
from assay.sources.open import open_source
from assay.views.json.files import ModulesFile, OpsFile, encode, modules_file, ops_file


def extract_unique_modules(
    load_fn: Callable[[], Any],
    get_sample_input: Callable[[], Any] | None = None,
    output_path: str | Path | None = None,
    *,
    overwrite: bool = True,
) -> dict[str, Any]:
    """List the unique modules of a model, as in `unique_modules.json`.

    Args:
        load_fn: A function without required arguments that builds the model.
        get_sample_input: A function that returns the inputs, in any form `assay.observe` accepts. Default: inferred.
        output_path: The JSON file to write. If None, no file is written.
        overwrite: Replace an existing file; if False, an existing file is an error.

    Returns:
        The content of the file, as a dict. If the forward pass stops midway and no file is requested, a
        `PartialWarning` is issued, and the dict has the key `partial`.

    Raises:
        PartialError: The forward pass stopped midway, and `output_path` is given. The file there is left as it is;
            what was recorded is beside it, for example in `pytorch_ops.partial.json`.
        UsageError: An argument is not valid, or the file exists and `overwrite` is False.
        InputsError: The inputs do not match the arguments of forward, or cannot be parsed or inferred.
        ReadError: The model cannot be built.
        WriteError: The file cannot be written.
    """
    output = _target(output_path, overwrite=overwrite)
    document = _recorded(load_fn, get_sample_input)
    if output is None:
        warn_if_partial(document)
    return _written(document, modules_file(document), output, overwrite=overwrite)


def extract_pytorch_ops(
    modules_json_path: str | Path,
    load_fn: Callable[[], Any],
    get_sample_input: Callable[[], Any] | None = None,
    output_path: str | Path | None = None,
    *,
    overwrite: bool = True,
) -> dict[str, Any]:
    """List the unique ops of a model, as in `pytorch_ops.json`.

    Args:
        modules_json_path: The file that `extract_unique_modules` wrote for the same model and inputs. The ops refer
            to its module ids.
        load_fn: A function without required arguments that builds the model.
        get_sample_input: A function that returns the inputs, in any form `assay.observe` accepts. Default: inferred.
        output_path: The JSON file to write. If None, no file is written.
        overwrite: Replace an existing file; if False, an existing file is an error.

    Returns:
        The content of the file, as a dict. If the forward pass stops midway and no file is requested, a
        `PartialWarning` is issued, and the dict has the key `partial`.

    Raises:
        PartialError: The forward pass stopped midway, and `output_path` is given. The file there is left as it is;
            what was recorded is beside it, for example in `pytorch_ops.partial.json`.
        UsageError: An argument is not valid, or the file exists and `overwrite` is False.
        InputsError: The inputs do not match the arguments of forward, or cannot be parsed or inferred.
        ReadError: The model cannot be built, or `modules_json_path` cannot be read or belongs to another model.
        WriteError: The file cannot be written.
    """
    modules_path = path_of("modules_json_path", modules_json_path)
    output = _target(output_path, overwrite=overwrite)
    modules = _read(modules_path)
    document = _recorded(load_fn, get_sample_input)
    if output is None:
        warn_if_partial(document)
    if _identities(modules) != _identities(modules_file(document)):
        raise ReadError(f"{modules_path} was made from another model or other inputs: extract it again")
    return _written(document, ops_file(document, modules_path.name), output, overwrite=overwrite)


def _recorded(load_fn: Callable[[], Any], get_sample_input: Callable[[], Any] | None) -> Document:
    """The document of one pass, with the file and function that build the model as its location."""
    document = observe_opened(open_source(load_fn), get_sample_input, RunOptions())
    source = inspect.getsourcefile(load_fn) if inspect.isfunction(load_fn) or inspect.isclass(load_fn) else None
    if source is None:
        return document
    location = f"{Path(source).name}:{document.origin.name}"
    return msgspec.structs.replace(document, origin=msgspec.structs.replace(document.origin, location=location))


def _target(output_path: str | Path | None, *, overwrite: bool) -> Path | None:
    """The file to write; raises UsageError before any long work if it exists and must not be replaced."""
    output = None if output_path is None else path_of("output_path", output_path)
    if output is not None and not overwrite:
        atomic.refuse_existing([output])
    return output


def _written(
    document: Document, file: ModulesFile | OpsFile, output: Path | None, *, overwrite: bool
) -> dict[str, Any]:
    """The content of the file, written to `output` if given; raises PartialError if the pass stopped."""
    data = encode(file)
    if output is not None:
        written = atomic.write_result(output, data, partial=document.stopped, overwrite=overwrite)
        if document.stopped:
            raise PartialError(f"{stopped_text(document)}; what was recorded is in {written}")
    result: dict[str, Any] = msgspec.json.decode(data)
    return result


def _read(path: Path) -> ModulesFile:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ModulesFile)
    except OSError as error:
        raise ReadError(unreadable(path, error)) from error
    except msgspec.DecodeError as error:
        raise ReadError(f"{path} is not a valid unique_modules.json: {error}") from error


def _identities(file: ModulesFile) -> list[tuple[str, str, str]]:
    return [(entry.id, entry.class_name, entry.module_path) for entry in file.modules]
