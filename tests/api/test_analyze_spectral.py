"""Spectral norms in `assay analyze`: of every matrix within a limit on the work, and what was left out is stated."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import assay
from assay.api.analyze import run as analyzing
from assay.api.weights import weights_document
from assay.checkpoint.statistics.settings import StatisticsSettings
from assay.cli.main import run

SIZES = {"small": (16, 24), "medium": (64, 48), "same": (64, 48), "large": (128, 96)}


def matrices():
    torch.manual_seed(3)
    return {name: torch.randn(shape) for name, shape in SIZES.items()}


def write(folder):
    save_file({**matrices(), "bias": torch.randn(9)}, folder / "m.safetensors")
    return str(folder / "m.safetensors")


def norms(report):
    return {row.names[0]: row.spectral and row.spectral.norm for row in report.tensors}


def test_spectral_norms_of_a_file_and_of_a_live_model_are_those_of_numpy(tmp_path):
    found = assay.analyze(write(tmp_path)).document.weights
    for row in found.tensors:
        if row.names[0] == "bias":
            assert row.spectral is None
            continue
        true = float(np.linalg.svd(matrices()[row.names[0]].double().numpy(), compute_uv=False)[0])
        assert abs(row.spectral.norm - true) <= row.spectral.norm_error + 1e-9 * true
        assert row.spectral.norm_error <= 1e-4 * true
    assert found.notes == ()
    model = torch.nn.Linear(24, 16)
    (weight,) = (row for row in assay.analyze(model, torch.ones(1, 24)).document.weights.tensors if row.rows)
    true = torch.linalg.matrix_norm(model.weight.detach(), 2).item()
    assert weight.spectral.norm == pytest.approx(true, rel=1e-5)


@pytest.mark.parametrize(
    ("limit", "computed"),
    [(383, set()), (384, {"small"}), (384 + 2 * 3072 - 1, {"small"}), (384 + 2 * 3072, {"small", "medium", "same"})],
)
def test_matrices_beyond_the_limit_are_left_out_by_size(tmp_path, limit, computed):
    """Matrices of one size are all computed or all left out, however many workers there are."""
    path = write(tmp_path)
    reports = [
        weights_document(
            path, settings=StatisticsSettings("threads", workers, spectral=True, spectral_elements=limit)
        )
        for workers in (1, 3)
    ]
    assert {name for name, norm in norms(reports[0].weights).items() if norm is not None} == computed
    assert norms(reports[0].weights) == norms(reports[1].weights)
    (note,) = reports[0].weights.notes
    assert f"spectral norms of {len(SIZES) - len(computed)} matri" in note
    assert ("elements were" in note) == bool(
        computed
    )  # a limit below the smallest matrix is not "more than 0 elements"
    assert f"assay params {path} --spectral" in note


def test_what_was_left_out_is_stated_and_shown_as_a_dash(tmp_path, monkeypatch, capsys):
    path = write(tmp_path)
    limited = StatisticsSettings(spectral=True, spectral_elements=384 + 2 * 3072)
    monkeypatch.setattr(analyzing, "_WEIGHTS", limited)
    assert run(["analyze", path, "--full", "--dir", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    text = (tmp_path / "out" / "comprehensive_model_analysis.txt").read_text()
    assert "spectral norms of 1 matrix of more than 3.07 k elements were not computed" in " ".join(text.split())
    assert "largest spectral norm" in text
    (fact,) = (" ".join(line.split()) for line in text.splitlines() if "largest spectral norm" in line)
    largest = max(
        np.linalg.svd(matrices()[name].double().numpy(), compute_uv=False)[0] for name in ("medium", "same")
    )
    assert fact.startswith(f"largest spectral norm at least {largest:.3g} (")
    assert fact.endswith("; 3 of 4 matrices computed)")
    blocks = {block.partition("\n")[0]: block for block in text.split("\n\n")}
    lines = {
        name: [line.split()[2:] for line in blocks[name].splitlines() if "spectral norm" in line] for name in SIZES
    }
    assert lines["large"] == [["–"]]
    assert float(lines["small"][0][0]) == pytest.approx(
        float(np.linalg.svd(matrices()["small"].numpy(), compute_uv=False)[0]), rel=1e-5
    )
    saved = json.loads((tmp_path / "out" / "analysis.assay.json").read_text())
    stored = {row["names"][0]: row.get("spectral") for row in saved["weights"]["tensors"]}
    assert stored["large"] is None
    assert stored["small"]["norm"] > 0
