"""One file of the bench: made from its live model, read by Assay, and compared with that model."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import assay
from assay.document.document import Document
from assay.errors import AssayError
from torchscript_models import comparison
from torchscript_models.comparison import NO, NONE, YES, Verdict
from torchscript_models.registry import Build, Entry, Inputs

Given = tuple[tuple[Any, ...], dict[str, Any]]
Observe = Callable[[Given | None], Document | str]
"""Reads the file with these inputs: a document, or the error in one line."""


def examine(entry: Entry, *, folder: Path, plain: bool, trust: bool) -> dict[str, Any]:
    """The verdicts on one file as plain data; `broken` is set if it cannot be made or compared."""
    path = folder / f"{entry.name}.pt"
    try:
        make(entry, path)
    except Exception as error:  # noqa: BLE001  any error of torch.jit is the result
        return _row(entry, broken=f"not made: {_first_line(error)}")
    passes = references(entry)
    live = [document for document in passes if document.run.failure is None]
    if not live:
        return _row(entry, broken=f"no live reference: {comparison.failure(passes[0])}")
    counted = torch_flops(entry) if entry.counted else None
    if plain:
        return _row(entry, {"counter": comparison.counter(live[0], counted)}, reference=live[0].run.mode)
    checks, seconds = _checks(entry, path, trust, live, counted)
    return _row(entry, checks, reference=live[0].run.mode, cpu_s=seconds)


def _row(entry: Entry, checks: dict[str, Verdict] | None = None, **facts: Any) -> dict[str, Any]:
    return {
        "name": entry.name,
        "family": entry.family,
        "broken": "",
        "reference": "",
        "cpu_s": None,
        "checks": checks or {},
        **facts,
    }


def make(entry: Entry, path: Path) -> None:
    """Write the TorchScript file of the entry."""
    model, inputs = fresh(entry.build)
    entry.write(entry.convert(model, inputs), path)


def fresh(build: Build) -> tuple[nn.Module, Inputs]:
    """The model and inputs that `build` returns, in evaluation mode, equal on each call."""
    torch.manual_seed(0)
    model, inputs = build()
    return model.eval(), inputs


def given(inputs: Inputs) -> Given:
    """The inputs as `(args, kwargs)`, which is unambiguous."""
    return ((), inputs) if isinstance(inputs, dict) else (inputs, {})


def references(entry: Entry) -> list[Document]:
    """The documents of the live model on shapes and with data, which may take different paths."""
    documents = []
    for mode in ("meta", "real"):
        model, inputs = fresh(entry.live or entry.build)
        documents.append(assay.observe(model, given(inputs), mode=mode))
    return documents


def torch_flops(entry: Entry) -> int:
    """FLOPs of the live model by torch's counter, with fused attention and recurrent kernels taken apart."""
    model, inputs = fresh(entry.live or entry.build)
    args, kwargs = given(inputs)
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    counter = FlopCounterMode(display=False)
    try:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False), counter:
            model(*args, **kwargs)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return counter.get_total_flops()


def _own_memory(path: Path, found: Document, inputs: Given | None) -> Verdict:
    """The verdict on the peak, compared with torch.jit running the file."""
    own = read(path, inputs, trust=True)
    return (NONE, own) if isinstance(own, str) or own.run.failure else comparison.memory(found, own)


def _checks(
    entry: Entry, path: Path, trust: bool, live: list[Document], counted: int | None
) -> tuple[dict[str, Verdict], float | None]:
    observe = partial(read, path, trust=trust)
    stored = holds_inputs(path) and not trust
    inputs = None if stored else given(fresh(entry.build)[1])
    began = time.process_time()
    found = observe(inputs)
    seconds = time.process_time() - began
    checks = _compared(found, live, counted)
    if checks["ran"][0] == YES and not trust:
        fits = checks["memory"][0] == YES
        checks["peak"] = checks["memory"] if fits else _own_memory(path, found, inputs)
    if entry.inlined:
        checks["modules"] = (NONE, "")
    if not stored and entry.literal:
        checks["inferred"] = _inferred(observe, live)
    return checks, seconds


def _compared(found: Document | str, live: list[Document], counted: int | None) -> dict[str, Verdict]:
    """The verdicts on one document; if it is not complete, all are no."""
    why = found if isinstance(found, str) else comparison.failure(found)
    if isinstance(found, str) or why:
        return {name: (NO, why) for name in comparison.CHECKS if name != "inferred"}
    return {
        "ran": (YES, ""),
        "counter": comparison.counter(found, counted),
        **{name: comparison.best(check, found, live) for name, check in comparison.COMPARED.items()},
    }


def _inferred(observe: Observe, live: list[Document]) -> Verdict:
    found = observe(None)
    return (NO, found) if isinstance(found, str) else comparison.inferred(found, live[0])


def read(path: Path, inputs: Given | None, *, trust: bool = False) -> Document | str:
    """The document of a file, or the error in one line."""
    try:
        return assay.observe(str(path), inputs, trust=trust)
    except AssayError as error:
        return f"{type(error).__name__}: {str(error).replace(str(path), path.name)}"
    except Exception as error:  # noqa: BLE001  a defect of Assay is a result too
        return f"internal error: {_first_line(error)}"


def holds_inputs(path: Path) -> bool:
    """Whether the file carries the inputs that it was traced with."""
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("traced_inputs.pkl") for name in archive.namelist())


def _first_line(error: BaseException) -> str:
    text = next((text for text in str(error).splitlines() if text.strip()), "")
    return f"{type(error).__name__}: {text.strip()}"[:300]
