"""Every verb on a model, with and without data: what reaches a user must be a result or an error of Assay."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import assay
from assay.errors import AssayError
from assay.views.json.files import encode, modules_file, ops_file

MODES = ("auto", "meta")

_READ: dict[str, Callable[..., Any]] = {
    "cost": assay.cost,
    "summary": lambda *args, **options: str(assay.summary(*args, **options)),
    "memory": assay.memory,
    "check": assay.check,
    "analyze": assay.analyze,
}
"""Verbs that take a model or a document."""


def raw_errors(model: Any, inputs: Any, **options: Any) -> list[str]:
    """The exceptions of any verb in any mode that are not Assay's own, as `verb mode: Type: message`."""
    errors: list[str] = []
    for mode in MODES:
        for name, verb in {"observe": _recorded, "vary": _varied, **_READ}.items():
            _attempt(errors, f"{name} {mode}", partial(verb, model, inputs, mode=mode, **options))
    return errors


def raw_errors_of_document(model: Any, inputs: Any, **options: Any) -> list[str]:
    """The same, but the model is recorded once per mode, and the verbs read the document: much faster."""
    errors: list[str] = []
    for mode in MODES:
        document = _attempt(errors, f"observe {mode}", partial(_recorded, model, inputs, mode=mode, **options))
        if document is not None:
            for name, verb in _READ.items():
                _attempt(errors, f"{name} {mode}", partial(verb, document))
    return errors


def _attempt(errors: list[str], label: str, call: Callable[[], Any]) -> Any:
    """The result of the call; None if it raised. An exception that is not Assay's own is added to `errors`."""
    try:
        return call()
    except AssayError:
        return None
    except Exception as error:  # noqa: BLE001  any other exception is what is looked for
        errors.append(f"{label}: {type(error).__name__}: {error}".splitlines()[0])
        return None


def _recorded(model: Any, inputs: Any, **options: Any) -> assay.Document:
    document = assay.observe(model, inputs, **options)
    encode(modules_file(document))
    encode(ops_file(document))
    return document


def _varied(model: Any, inputs: Any, **options: Any) -> None:
    assay.vary(model, inputs, over=("batch",), **options)
