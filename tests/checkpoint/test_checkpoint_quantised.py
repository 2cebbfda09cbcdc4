"""Block-quantised GGUF tensors compared with the gguf package, which dequantises whole arrays."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from checkpoint_files import gguf_file, peak_of_child, plain_bytes

from assay.api.weights import analyze_weights
from assay.checkpoint import decoding
from assay.checkpoint.formats.gguf_types import BLOCKS
from assay.checkpoint.open import open_checkpoint
from assay.checkpoint.reading import RangeReader
from assay.cli.main import run
from assay.document.weights import QUANTILES

gguf = pytest.importorskip("gguf")

QUANTIZED = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "tq1_0", "tq2_0", "mxfp4")
"""Types that the package can quantise; blocks of the rest are random bytes."""
SCALES = {
    "q2_k": (80, 82), "q3_k": (108,), "q4_k": (0, 2), "q5_k": (0, 2), "q6_k": (208,), "iq2_xxs": (0,),
    "iq2_xs": (0,), "iq2_s": (0,), "iq3_xxs": (0,), "iq3_s": (0,), "iq1_s": (0,), "iq4_nl": (0,), "iq4_xs": (0,),
}  # fmt: skip
"""Offsets of the float16 scales in a block: random bytes there could be NaN."""
READ = sorted(set(BLOCKS) - {"q8_k"})


def kind(name):
    return gguf.GGMLQuantizationType[name.upper()]


def blocks(name, rows, cols):
    """The stored bytes of a matrix of this type, one row of bytes per row."""
    rng = np.random.default_rng(len(name))
    block, size = BLOCKS[name]
    if name in QUANTIZED:
        return gguf.quants.quantize(rng.normal(size=(rows, cols)).astype(np.float32), kind(name))
    stored = rng.integers(0, 256, (rows * cols // block, size), dtype=np.uint8)
    for offset in SCALES.get(name, ()):
        scales = rng.uniform(0.001, 0.1, len(stored)).astype(np.float16)
        stored[:, offset : offset + 2] = scales.view(np.uint8).reshape(-1, 2)
    return stored.reshape(rows, -1)


def whole(name, stored):
    """The numbers that the package dequantises."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gguf.quants.dequantize(stored, kind(name))


def written(path, tensors):
    writer = gguf.GGUFWriter(path, "llama")
    for name, (type_name, stored) in tensors.items():
        writer.add_tensor(name, stored, raw_dtype=kind(type_name))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("name", READ)
def test_every_type_is_dequantised_as_by_the_package(tmp_path, name):
    stored = blocks(name, 6, 512)
    (entry,) = open_checkpoint(written(tmp_path / "m.gguf", {"w": (name, stored)})).entries
    assert (entry.dtype, entry.shape, entry.bytes, entry.problem) == (f"gguf:{name}", (6, 512), stored.nbytes, "")
    expected = whole(name, stored).astype("<f4").tobytes()
    assert plain_bytes(entry) == expected
    for first, length in ((0, 4), (12, 4000), (4 * 511, 8), (len(expected) - 4, 4)):
        piece = RangeReader().read(entry.span.file, entry.span.offset + first, length, entry.encoded)
        assert piece == expected[first : first + length]


@pytest.mark.parametrize("name", ["q4_0", "q8_0", "q6_k", "iq3_xxs", "mxfp4"])
@pytest.mark.parametrize("shape", [(300, 512), (1, 2048)])
def test_statistics_are_those_of_the_dequantised_values(tmp_path, name, shape, monkeypatch):
    monkeypatch.setattr(decoding, "PIECE", 4096)
    stored = blocks(name, *shape)
    path = written(tmp_path / "m.gguf", {"w": (name, stored)})
    (row,) = analyze_weights(path).tensors
    values = whole(name, stored).astype(np.float64)
    assert (row.dtype, row.bytes, row.count, row.problem) == (f"gguf:{name}", stored.nbytes, values.size, "")
    assert row.note.startswith("statistics of the dequantised values; ")
    assert f"{8 * stored.nbytes / values.size:.4g} bits per weight" in row.note
    assert (row.min, row.max, row.zeros) == (values.min(), values.max(), (values == 0).sum())
    figures = {"mean": values.mean(), "std": values.std(), "l1": np.abs(values).sum()}
    for figure, value in figures.items():
        assert getattr(row, figure) == pytest.approx(value, rel=1e-11, abs=1e-15)
    assert row.quantiles == pytest.approx(np.quantile(values, QUANTILES), rel=1e-12, abs=1e-15)
    if shape[0] > 1:
        norms = np.sqrt(np.square(values).sum(1))
        assert (row.rows.count, row.rows.max) == (shape[0], pytest.approx(norms.max(), rel=1e-6))
    shares = np.bincount(stored.ravel()) / stored.size
    bits = -(shares[shares > 0] * np.log2(shares[shares > 0])).sum() * stored.size
    assert row.entropy_bytes == pytest.approx(bits / 8, rel=1e-9, abs=1)
    bins = np.histogram(values, np.linspace(values.min(), values.max(), 65))[0] / values.size
    assert row.entropy_bits == pytest.approx(-(bins[bins > 0] * np.log2(bins[bins > 0])).sum(), rel=1e-9)


def test_duplicates_compare_stored_bytes_and_spectra_use_values(tmp_path):
    stored, other = blocks("q8_0", 64, 64), blocks("q8_0", 64, 64)[::-1].copy()
    # Blocks with scale zero all dequantise to zeros, whatever their other bytes.
    nothing, zeros = np.zeros_like(stored), np.zeros_like(stored).reshape(-1, 34)
    zeros[:, 2:] = 7
    contents = {"a": stored, "b": stored, "c": other, "d": nothing, "e": zeros.reshape(stored.shape)}
    tensors = {name: ("q8_0", data) for name, data in contents.items()}
    report = analyze_weights(written(tmp_path / "m.gguf", tensors), spectral=True)
    assert report.duplicates == [(0, 1)]
    assert report.tensors[4].zeros == zeros.size // 34 * 32
    largest = np.linalg.svd(whole("q8_0", stored).astype(np.float64), compute_uv=False)[0]
    assert report.tensors[0].spectral.norm == pytest.approx(largest, rel=1e-6)


def test_the_number_of_threads_does_not_change_the_result(tmp_path):
    stored = blocks("q4_0", 2048, 4096)
    path = written(tmp_path / "m.gguf", {"w": ("q4_0", stored)})
    one, four = (analyze_weights(path, workers=workers).tensors[0] for workers in (1, 4))
    assert one == four
    assert one.l1 == pytest.approx(np.abs(whole("q4_0", stored).astype(np.float64)).sum(), rel=1e-12)
    output, peak = peak_of_child(path, statistics=True)
    assert output == "fine"
    assert peak < 256 << 20


def test_without_the_package_tensors_are_listed_and_the_package_is_named(tmp_path, monkeypatch, capsys):
    path = written(tmp_path / "m.gguf", {"w": ("q4_0", blocks("q4_0", 4, 64)), "v": ("q8_0", blocks("q8_0", 4, 64))})
    monkeypatch.setattr(decoding, "find_spec", lambda name: None)
    code = run(["params", str(path)])
    out, err = capsys.readouterr()
    why = "block-quantised: run pip install torch-assay[gguf] to compute its statistics"
    assert (code, err) == (4, f"assay: incomplete: not analysed: w, v: {why}\n")
    assert "gguf:q4_0" in out
    assert why in out


def test_a_broken_package_is_reported_and_other_tensors_are_analysed(tmp_path, monkeypatch):
    tensors = {"w": ("q4_0", blocks("q4_0", 4, 64)), "v": ("f32", np.ones((2, 3), np.float32))}
    path = written(tmp_path / "m.gguf", tensors)
    (tmp_path / "gguf.py").write_text("raise KeyError('a part is missing')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "gguf")
    quantised, plain = analyze_weights(path).tensors
    assert "cannot import gguf" in quantised.problem
    assert (plain.mean, plain.problem) == (1.0, "")


def test_a_type_unknown_to_the_package_is_listed(tmp_path):
    path = gguf_file(tmp_path / "m.gguf", [("w", (256,), 15, 0)], data=bytes(320))
    (row,) = analyze_weights(path).tensors
    assert (row.dtype, row.bytes, row.shape) == ("gguf:q8_k", 292, (256,))
    assert "cannot dequantise q8_k" in row.problem


def test_an_empty_quantised_tensor_is_listed(tmp_path):
    path = gguf_file(tmp_path / "m.gguf", [("w", (32, 0), 2, 0), ("v", (1,), 0, 0)], data=bytes(32))
    rows = analyze_weights(path).tensors
    assert [(row.count, row.bytes, row.problem) for row in rows] == [(0, 0, ""), (1, 4, "")]


def test_listing_does_not_import_the_package(tmp_path):
    path = written(tmp_path / "m.gguf", {"w": ("q4_0", blocks("q4_0", 4, 64))})
    program = (
        "import sys; from assay.api.weights import weights_document\n"
        f"weights_document({str(path)!r}, listing=True); print({{'gguf', 'numpy', 'torch'}} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
