"""`assay.extract_unique_modules` and `assay.extract_pytorch_ops`: write a model's unique modules and unique ops."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from assay import atomic
from assay.api.arguments import path_of
from assay.api.observe import observe
from assay.document.document import Document
from assay.errors import PartialError, ReadError
from assay.messages import unreadable
from assay.views.json.files import ModulesFile, OpsFile, encode, modules_file, ops_file


def extract_unique_modules(
    load_fn: Callable[[], Any],
    get_sample_input: Callable[[], Any] | None = None,
    output_path: str | Path | None = None,
) -> dict[str, Any]:
    """List the unique modules of a model, as in `unique_modules.json`.

    Args:
        load_fn: A function without required arguments that builds the model.
        get_sample_input: A function that returns the inputs, in any form `assay.observe` accepts. Default: inferred.
        output_path: The JSON file to write. If None, no file is written.

    Returns:
        The content of the file, as a dict.

    Raises:
        PartialError: The forward pass failed midway; the incomplete file was written if `output_path` is given.
        UsageError: An argument is not valid.
        InputsError: The inputs do not fit the model, or cannot be inferred.
        ReadError: The model cannot be built.
        WriteError: The file cannot be written.
    """
    output = None if output_path is None else path_of("output_path", output_path)
    document = _recorded(load_fn, get_sample_input)
    return _write(document, modules_file(document), output)


def extract_pytorch_ops(
    modules_json_path: str | Path,
    load_fn: Callable[[], Any],
    get_sample_input: Callable[[], Any] | None = None,
    output_path: str | Path | None = None,
) -> dict[str, Any]:
    """List the unique ops of a model, as in `pytorch_ops.json`.

    Args:
        modules_json_path: The file that `extract_unique_modules` wrote for the same model and inputs. The ops refer
            to its module ids.
        load_fn: A function without required arguments that builds the model.
        get_sample_input: A function that returns the inputs, in any form `assay.observe` accepts. Default: inferred.
        output_path: The JSON file to write. If None, no file is written.

    Returns:
        The content of the file, as a dict.

    Raises:
        PartialError: The forward pass failed midway; the incomplete file was written if `output_path` is given.
        UsageError: An argument is not valid.
        InputsError: The inputs do not fit the model, or cannot be inferred.
        ReadError: The model cannot be built, or `modules_json_path` cannot be read or belongs to another model.
        WriteError: The file cannot be written.
    """
    modules_path = path_of("modules_json_path", modules_json_path)
    output = None if output_path is None else path_of("output_path", output_path)
    modules = _read(modules_path)
    document = _recorded(load_fn, get_sample_input)
    if _identities(modules) != _identities(modules_file(document)):
        raise ReadError(f"{modules_path} was made from another model or other inputs: extract it again")
    return _write(document, ops_file(document, modules_path.name), output)


def _recorded(load_fn: Callable[[], Any], get_sample_input: Callable[[], Any] | None) -> Document:
    """The document of one pass, with the file and function that build the model as its location."""
    document = observe(load_fn, get_sample_input)
    source = inspect.getsourcefile(load_fn) if inspect.isfunction(load_fn) or inspect.isclass(load_fn) else None
    if source is None:
        return document
    location = f"{Path(source).name}:{document.origin.name}"
    return msgspec.structs.replace(document, origin=msgspec.structs.replace(document.origin, location=location))


def _write(document: Document, file: ModulesFile | OpsFile, output: Path | None) -> dict[str, Any]:
    """Write the file to `output`, if given, and return its content; raise PartialError if the pass failed."""
    data = encode(file)
    if output is not None:
        atomic.write_bytes(output, data)
    failure = document.run.failure
    if failure is not None:
        kept = "the incomplete result was written" if output is not None else "the result would be incomplete"
        raise PartialError(f"the forward pass failed in '{failure.module}' ({failure.error}); {kept}")
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
