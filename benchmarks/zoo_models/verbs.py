"""Every verb on a model, with and without data: what reaches a user must be a result or an error of Assay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import assay
from assay.errors import AssayError
from assay.views.json.files import encode, modules_file, ops_file

MODES = ("auto", "meta")


def _recorded(model: Any, inputs: Any, **options: Any) -> None:
    document = assay.observe(model, inputs, **options)
    encode(modules_file(document))
    encode(ops_file(document))


VERBS: dict[str, Callable[..., Any]] = {
    "observe": _recorded,
    "cost": assay.cost,
    "summary": lambda model, inputs, **options: str(assay.summary(model, inputs, **options)),
    "memory": assay.memory,
    "check": assay.check,
    "analyze": assay.analyze,
    "vary": lambda model, inputs, **options: assay.vary(model, inputs, over=("batch",), **options),
}


def raw_errors(model: Any, inputs: Any, **options: Any) -> list[str]:
    """The exceptions of any verb in any mode that are not Assay's own, as `verb mode: Type: message`."""
    errors = []
    for name, verb in VERBS.items():
        for mode in MODES:
            try:
                verb(model, inputs, mode=mode, **options)
            except AssayError:
                continue
            except Exception as error:  # noqa: BLE001  any other exception is what is looked for
                errors.append(f"{name} {mode}: {type(error).__name__}: {error}".splitlines()[0])
    return errors
