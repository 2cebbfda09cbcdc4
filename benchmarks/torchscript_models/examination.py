"""One file of the bench: made from its live model, read by Assay, and compared with that model."""

from __future__ import annotations

import time
import zipfile
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
from torchscript_models.registry import Entry, Inputs

Given = tuple[tuple[Any, ...], dict[str, Any]]


def examine(entry: Entry, *, folder: Path, plain: bool) -> dict[str, Any]:
    """The verdicts on one file as plain data; `broken` is set if it cannot be made or compared."""
    path = folder / f"{entry.name}.pt"
    try:
        make(entry, path)
    except Exception as error:  # noqa: BLE001  any error of torch.jit is the result
        return _row(entry, broken=f"not made: {_first_line(error)}")
    live = reference(entry)
    if live.run.failure is not None:
        return _row(entry, broken=f"no live reference: {comparison.failure(live)}")
    counted = torch_flops(entry) if entry.counted else None
    if plain:
        return _row(entry, {"counter": comparison.counter(live, counted)}, reference=live.run.mode)
    checks, seconds = _checks(entry, path, live, counted)
    return _row(entry, checks, reference=live.run.mode, cpu_s=seconds)


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
    model, inputs = fresh(entry)
    entry.write(entry.convert(model, inputs), path)


def fresh(entry: Entry) -> tuple[nn.Module, Inputs]:
    """The model and inputs of the entry, equal on each call."""
    torch.manual_seed(0)
    model, inputs = entry.build()
    return model.eval(), inputs


def given(inputs: Inputs) -> Given:
    """The inputs as `(args, kwargs)`, which is unambiguous."""
    return ((), inputs) if isinstance(inputs, dict) else (inputs, {})


def reference(entry: Entry) -> Document:
    """The document of the live model: on shapes, or with data if that fails."""
    model, inputs = fresh(entry)
    document = assay.observe(model, given(inputs), mode="meta")
    if document.run.failure is None:
        return document
    model, inputs = fresh(entry)
    return assay.observe(model, given(inputs), mode="real")


def torch_flops(entry: Entry) -> int:
    """FLOPs of the live model by torch's counter, with fused attention and recurrent kernels taken apart."""
    model, inputs = fresh(entry)
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


def _checks(
    entry: Entry, path: Path, live: Document, counted: int | None
) -> tuple[dict[str, Verdict], float | None]:
    stored = holds_inputs(path)
    began = time.process_time()
    found = read(path, None if stored else given(fresh(entry)[1]))
    seconds = time.process_time() - began
    if isinstance(found, str):
        return {"ran": (NO, found)}, seconds
    checks: dict[str, Verdict] = {
        "ran": (YES, "") if found.run.failure is None else (NO, comparison.failure(found)),
        "flops": comparison.flops(found, live),
        "matrix": comparison.matrix(found, live),
        "counter": comparison.counter(found, counted),
        "memory": comparison.memory(found, live),
        "modules": (NONE, "") if entry.inlined else comparison.modules(found, live),
        "ops": comparison.ops(found, live),
    }
    if not stored and entry.inferable:
        checks["inferred"] = _inferred(path, live)
    return checks, seconds


def _inferred(path: Path, live: Document) -> Verdict:
    found = read(path, None)
    return (NO, found) if isinstance(found, str) else comparison.inferred(found, live)


def read(path: Path, inputs: Given | None) -> Document | str:
    """The document of a file, or the error in one line."""
    try:
        return assay.observe(str(path), inputs)
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
