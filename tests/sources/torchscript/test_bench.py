"""Every file of the bench is compared with its live model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

from torchscript_models import entries
from torchscript_models.comparison import CHECKS, GOOD
from torchscript_models.examination import examine

ENTRIES = {entry.name: entry for entry in entries()}
FAILS = {
    "denoiser-scripted": "the inverse of a short-time Fourier transform checks its window, which needs data",
    "denoiser-traced": "the inverse of a short-time Fourier transform checks its window, which needs data",
    "dynamic_int8_lstm-scripted": "recurrent layers with packed weights are not interpreted",
    "hf-squeezebert-traced": "the trace calls the parts of a layer, not the layer, whose result is a dictionary",
    "helper_functions-scripted": "TorchScript frees a value of 128 bytes earlier",
    "lstm_packed-traced": "the file has no lengths of its sequences",
    "module_containers-scripted": "torch.jit writes the last module of `layers[1:]` for each of them",
}
"""Files that differ, and why; each must differ, or it is to be removed from here."""


@pytest.mark.filterwarnings("ignore")  # of the tracer, and of torch about what is deprecated
@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_a_file_equals_its_live_model(name: str, tmp_path: Path):
    pytest.importorskip("transformers")
    row = examine(ENTRIES[name], folder=tmp_path, plain=False, trust=False)
    assert row["broken"] == ""
    checks = {check: verdict for check, verdict in row["checks"].items() if CHECKS[check]}
    wrong = {check: detail for check, (verdict, detail) in checks.items() if verdict not in GOOD}
    assert bool(wrong) == (name in FAILS), wrong
