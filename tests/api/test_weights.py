"""`assay.analyze_weights`: every format agrees with numpy, and interrupted runs can be resumed."""

from __future__ import annotations

import json
import math
import os
import signal
import struct
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import assay
from assay.api.weights import analyze_weights, weights_document
from assay.checkpoint.statistics import run
from assay.checkpoint.statistics.journal import Journal
from assay.checkpoint.statistics.settings import StatisticsSettings
from assay.document.weights import QUANTILES
from assay.errors import ReadError, UsageError
from assay.views import tables
from assay.views.text.params import ParamsOptions
from assay.views.text.params_data import params_table

SOURCE = str(Path(assay.__file__).parents[1])


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(24, 24) for _ in range(3))
        self.head = torch.nn.Linear(24, 7, bias=False, dtype=torch.bfloat16)
        self.tied = self.head
        self.register_buffer("steps", torch.arange(9) - 4)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x.to(torch.bfloat16)) + self.steps.sum()


def write_safetensors(model, path):
    save_file({name: value.clone() for name, value in model.state_dict().items()}, path)
    return path


def write_shards(model, folder):
    folder.mkdir()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    names = sorted(state)
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, shard in parts.items():
        save_file({name: state[name] for name in shard}, folder / file)
    weight_map = {name: file for file, shard in parts.items() for name in shard}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


def write_distributed(model, folder):
    import torch.distributed.checkpoint as dcp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that there is no process group
        dcp.save(model.state_dict(), checkpoint_id=folder)
    return folder


def write_script(model, path):
    torch.jit.script(model).save(path)
    return path


def write_exported(model, path):
    torch.export.save(torch.export.export(model, (torch.ones(1, 24),)), path)
    return path.with_suffix(".pt2") if not path.exists() else path


def saved(value, path, **options):
    torch.save(value, path, **options)
    return path


WRITERS = {
    "safetensors": write_safetensors,
    "shards": write_shards,
    "dcp": write_distributed,
    "torch-zip": lambda model, path: saved(model.state_dict(), path),
    "torch-legacy": lambda model, path: saved(model.state_dict(), path, _use_new_zipfile_serialization=False),
    "pickled": saved,
    "torchscript": write_script,
    "pt2": lambda model, path: write_exported(model, path.with_suffix(".pt2")),
    "live": lambda model, path: model,
}


def agrees_with_numpy(row, tensor):
    """Assert that a row's statistics agree with numpy in float64; always True, for use in `all`."""
    values = tensor.detach().double().numpy().ravel()
    assert (row.shape, row.count) == (tuple(tensor.shape), values.size)
    assert (row.min, row.max) == (values.min(), values.max())
    assert row.zeros == (values == 0).sum()
    expected = {
        "mean": values.mean(),
        "std": values.std(),
        "l1": np.abs(values).sum(),
        "l2": math.sqrt(np.square(values).sum()),
    }
    for name, value in expected.items():
        assert getattr(row, name) == pytest.approx(value, rel=1e-12, abs=1e-15), name
    assert row.quantiles == pytest.approx(np.quantile(values, QUANTILES), rel=1e-12, abs=1e-15)
    return True


@pytest.mark.parametrize("format", WRITERS)
def test_every_format_agrees_with_numpy(tmp_path, format):
    model = Net()
    report = analyze_weights(WRITERS[format](model, tmp_path / "m"))
    rows = {name: row for row in report.tensors for name in row.names}
    state = model.state_dict()
    assert set(state) <= set(rows)
    assert not report.failures
    assert all(agrees_with_numpy(rows[name], value) for name, value in state.items())


def test_gguf_has_statistics_of_plain_tensors_and_problems_of_others(tmp_path):
    plain = np.linspace(-1, 1, 64, dtype=np.float32)
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, 0)
    for name, size, kind, offset in ((b"w", 64, 0, 0), (b"q", 256, 15, 256)):
        head += struct.pack("<Q", len(name)) + name + struct.pack("<IQIQ", 1, size, kind, offset)
    (tmp_path / "m").write_bytes(head + b"\0" * (-len(head) % 32) + plain.tobytes() + b"\0" * 292)
    rows = {row.names[0]: row for row in analyze_weights(tmp_path / "m").tensors}
    assert agrees_with_numpy(rows["w"], torch.from_numpy(plain))
    assert rows["q"].problem
    assert rows["q"].dtype == "gguf:q8_k"


@pytest.mark.parametrize("format", ["torch-zip", "pickled", "live", "torchscript"])
def test_tied_names_are_one_tensor(tmp_path, format):
    report = analyze_weights(WRITERS[format](Net(), tmp_path / "m"))
    assert [set(row.names) for row in report.tensors if len(row.names) > 1] == [{"head.weight", "tied.weight"}]


def test_a_live_module_is_read_in_place(tmp_path):
    model = torch.nn.Module()
    wide = torch.arange(24.0).reshape(4, 6)
    model.register_buffer("turned", wide.t())
    model.register_buffer("part", wide[1:3, ::2])
    model.register_buffer("scalar", torch.tensor(2.5, dtype=torch.float16))
    model.register_buffer("flags", torch.tensor([True, False, True]))
    model.register_parameter("nowhere", torch.nn.Parameter(torch.empty(3, device="meta")))
    model.register_buffer("sparse", torch.eye(3).to_sparse())
    before = {name: value.clone() for name, value in model.named_buffers()}
    report = analyze_weights(model)
    rows = {row.names[0]: row for row in report.tensors}
    for name in ("turned", "part", "scalar", "flags"):
        assert agrees_with_numpy(rows[name], before[name])
    assert "meta device" in rows["nowhere"].problem
    assert "sparse" in rows["sparse"].problem
    assert all(torch.equal(value.to_dense(), before[name].to_dense()) for name, value in model.named_buffers())


def test_families_outliers_and_duplicates():
    model = torch.nn.Module()
    torch.manual_seed(0)
    model.layers = torch.nn.ModuleList(torch.nn.Linear(40, 40, bias=False) for _ in range(8))
    with torch.no_grad():
        model.layers[5].weight.mul_(30)
        model.layers[2].weight.copy_(model.layers[1].weight)
    report = analyze_weights(model)
    assert [(family.name, family.tensors) for family in report.families] == [("layers.#.weight", tuple(range(8)))]
    assert report.families[0].totals.count == 8 * 1600
    assert {(row.tensor, row.figure) for row in report.outliers} >= {(5, "std"), (5, "max"), (5, "min")}
    assert {row.tensor for row in report.outliers} == {5}
    assert report.duplicates == [(1, 2)]
    assert report.by_dtype["float32"].bytes == 8 * 1600 * 4


def test_spectra_agree_with_numpy(tmp_path):
    torch.manual_seed(3)
    matrices = {"a": torch.randn(30, 20), "b": torch.randn(12, 4, 3).bfloat16(), "flat": torch.randn(9)}
    save_file(matrices, tmp_path / "m")
    rows = {row.names[0]: row for row in analyze_weights(tmp_path / "m", spectral=True).tensors}
    assert rows["flat"].spectral is None
    for name in ("a", "b"):
        values = np.linalg.svd(matrices[name].double().numpy().reshape(len(matrices[name]), -1), compute_uv=False)
        found = rows[name].spectral
        assert abs(found.norm - values[0]) <= found.norm_error + 1e-9
        assert found.norm == pytest.approx(values[0], rel=1e-3)
        assert found.stable_rank == pytest.approx((values**2).sum() / values[0] ** 2, rel=2e-3)


def test_bits_needed_follow_the_requested_ratio(tmp_path):
    save_file({"w": torch.randn(64, 64)}, tmp_path / "m")
    few, many = (analyze_weights(tmp_path / "m", sqnr_db=db).tensors[0] for db in (10, 36))
    assert (few.bits_for_db, many.bits_for_db) == (10, 36)
    assert few.bits_needed < many.bits_needed


def test_a_filter_matches_any_of_the_names(tmp_path):
    torch.save(Net().state_dict(), tmp_path / "m")
    report = analyze_weights(tmp_path / "m", filter=r"^tied|\.1\.")
    assert sorted(row.names[0] for row in report.tensors) == ["head.weight", "layers.1.bias", "layers.1.weight"]
    with pytest.raises(UsageError, match="is not a valid regular expression"):
        analyze_weights(tmp_path / "m", filter="(")


def test_sources_and_engines_that_cannot_be_used_are_refused():
    with pytest.raises(UsageError, match="cannot open a list"):
        analyze_weights([])
    with pytest.raises(UsageError, match="unknown engine 'slurm': expected threads or ray"):
        analyze_weights(Net(), engine="slurm")
    with pytest.raises(UsageError, match="they are in this process"):
        analyze_weights(Net(), engine="ray")


def test_a_missing_shard_keeps_the_rest(tmp_path):
    folder = write_shards(Net(), tmp_path / "m")
    whole = {row.names: row for row in analyze_weights(folder).tensors}
    (folder / "b.safetensors").unlink()
    report = analyze_weights(folder)
    assert len(report.failures) == 1
    assert "b.safetensors" in report.failures[0]
    assert report.tensors
    assert all(whole[row.names] == row for row in report.tensors)


def test_a_file_that_shrinks_loses_its_last_tensors_only(tmp_path):
    path = write_safetensors(Net(), tmp_path / "m")

    def cut(done, total):
        os.truncate(path, path.stat().st_size - 16)

    save_file({f"w{i}": torch.randn(100_000) for i in range(40)}, path)
    report = analyze_weights(path, workers=1, progress=cut)
    problems = [row.problem for row in report.tensors if row.problem]
    assert problems
    assert all("truncated" in problem for problem in problems)
    assert not report.tensors[0].problem


def test_a_document_keeps_the_weights(tmp_path):
    document = weights_document(write_safetensors(Net(), tmp_path / "m"))
    assay.save(document, tmp_path / "d.assay.json")
    again = assay.load(tmp_path / "d.assay.json")
    assert again == document
    assert analyze_weights(tmp_path / "d.assay.json") == document.weights
    narrowed = analyze_weights(tmp_path / "d.assay.json", filter="head")
    assert [row.names for row in narrowed.tensors] == [("head.weight",)]


def test_a_document_without_weights_is_refused_in_one_line(tmp_path):
    assay.save(assay.Document(), tmp_path / "d.assay.json")
    with pytest.raises(ReadError, match="has no weight statistics"):
        analyze_weights(tmp_path / "d.assay.json")


def test_a_pickled_module_is_described_without_running_it(tmp_path):
    torch.save(Net(), tmp_path / "m")
    document = weights_document(tmp_path / "m")
    assert [module.path for module in document.modules][:2] == ["", "layers"]
    assert document.modules[2].parent == 1
    (note,) = [note for note in document.weights.notes if "code not run" in note]
    assert f"{__name__}.Net" in note


@pytest.fixture
def many(tmp_path):
    torch.manual_seed(5)
    tensors = {
        f"layers.{i}.weight": torch.randn(40, 50).to((torch.float32, torch.bfloat16)[i % 2]) for i in range(30)
    }
    save_file(tensors, tmp_path / "many")
    return tmp_path / "many"


def reads_of(path, **options):
    """The report, and the number of bytes that were processed for it."""
    done = [0]

    def progress(now, total):
        done[0] = now

    return analyze_weights(path, progress=progress, **options), done[0]


def test_an_interrupted_run_is_resumed(many, tmp_path):
    def interrupt(done, total):
        if done > total / 2:
            raise KeyboardInterrupt

    journal = tmp_path / "j"
    with pytest.raises(KeyboardInterrupt):
        analyze_weights(many, resume=journal, progress=interrupt, workers=1)
    lines = journal.read_text().splitlines()
    assert 5 < len(lines) < 30
    whole, all_bytes = reads_of(many)
    resumed, bytes_left = reads_of(many, resume=journal)
    assert resumed == whole
    assert 0 < bytes_left < all_bytes * 0.6
    assert reads_of(many, resume=journal) == (whole, 0)


def test_a_truncated_journal_line_is_computed_again(many, tmp_path):
    whole, _ = reads_of(many, resume=tmp_path / "j")
    data = (tmp_path / "j").read_bytes()
    (tmp_path / "j").write_bytes(data[: len(data) // 2 + 7])
    with pytest.warns(UserWarning, match="1 damaged line ignored"):
        assert reads_of(many, resume=tmp_path / "j")[0] == whole
    assert reads_of(many, resume=tmp_path / "j") == (whole, 0)


def test_a_changed_file_or_setting_starts_over(many, tmp_path):
    _, everything = reads_of(many, resume=tmp_path / "j")
    assert reads_of(many, resume=tmp_path / "j", sqnr_db=12)[1] == everything
    os.utime(many, ns=(1, 1))
    assert reads_of(many, resume=tmp_path / "j")[1] == everything


@pytest.mark.parametrize("text", ["my own notes", '{"a": 1}\n', "\n"])
def test_a_file_that_is_not_a_journal_is_refused(many, tmp_path, text):
    (tmp_path / "notes").write_text(text)
    with pytest.raises(UsageError, match="is not a journal"):
        analyze_weights(many, resume=tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == text


def test_a_journal_can_be_written_only_on_interruption(many, tmp_path):
    journal = Journal(tmp_path / "j", read=False, at_once=False)
    analyze_weights(many, resume=journal)
    assert not journal.path.exists()


def test_a_killed_process_leaves_a_usable_journal(many, tmp_path):
    program = (
        "import os, signal, sys\n"
        "from assay.api.weights import analyze_weights\n"
        "def stop(done, total):\n"
        "    if done > total / 2: os.kill(os.getpid(), signal.SIGKILL)\n"
        "analyze_weights(sys.argv[1], resume=sys.argv[2], progress=stop, workers=1)\n"
    )
    command = [sys.executable, "-c", program, str(many), str(tmp_path / "j")]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": SOURCE}, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    whole, everything = reads_of(many)
    resumed, left = reads_of(many, resume=tmp_path / "j")
    assert resumed == whole
    assert 0 < left < everything


def test_an_empty_checkpoint_is_refused(tmp_path):
    save_file({}, tmp_path / "m")
    with pytest.raises(ReadError, match="m has no tensors: it is a safetensors file with an empty header"):
        analyze_weights(tmp_path / "m")


def test_a_remote_file_is_read_through_fsspec(many, tmp_path):
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe_file("/m.safetensors", many.read_bytes())
    here, there = analyze_weights(many), analyze_weights("memory://m.safetensors", resume=tmp_path / "j")
    assert there.tensors == here.tensors
    assert reads_of("memory://m.safetensors", resume=tmp_path / "j") == (there, 0)
    fsspec.filesystem("memory").pipe_file("/m.safetensors", many.read_bytes())
    assert reads_of("memory://m.safetensors", resume=tmp_path / "j")[1] > 0


def test_ray_gives_bit_identical_statistics(many):
    reason = "ray is not installed"
    pytest.importorskip("ray", reason=reason, exc_type=ImportError)
    assert analyze_weights(many, engine="ray", workers=2).tensors == analyze_weights(many).tensors


@pytest.mark.parametrize(("quiet", "messages"), [(["-q"], set()), ([], {"assay: reading tensors with Ray"})])
def test_ray_prints_nothing_of_its_own(many, quiet, messages):
    pytest.importorskip("ray", reason="ray is not installed", exc_type=ImportError)
    command = [sys.executable, "-m", "assay", "params", str(many), "--engine", "ray", "--workers", "1", *quiet]
    run = subprocess.run([*command, "--format", "csv"], capture_output=True, text=True, check=True)
    assert set(run.stderr.splitlines()) <= messages
    assert run.stdout == tables.as_csv(params_table(weights_document(many), ParamsOptions(full=True)))


def test_spectra_are_computed_in_the_worker_threads(many, monkeypatch):
    threads = set()
    original = run.with_spectrum

    def recording(*arguments, **options):
        threads.add(threading.current_thread())
        return original(*arguments, **options)

    monkeypatch.setattr(run, "with_spectrum", recording)
    assert analyze_weights(many, spectral=True).tensors[0].spectral is not None
    assert threads
    assert threading.main_thread() not in threads


@pytest.mark.parametrize("options", [{"spectral": True}, {"sqnr_db": 40.0}, {"engine": "ray"}, {"trust": True}])
def test_options_that_a_saved_document_cannot_serve_are_refused(tmp_path, options):
    document = weights_document(write_safetensors(Net(), tmp_path / "m"))
    assay.save(document, tmp_path / "d.assay.json")
    with pytest.raises(UsageError, match="is a saved document"):
        assay.analyze_weights(tmp_path / "d.assay.json", **options)


def test_a_listing_refuses_spectral_statistics(tmp_path):
    with pytest.raises(UsageError, match="only headers: spectral"):
        weights_document(
            write_safetensors(Net(), tmp_path / "m"), settings=StatisticsSettings(spectral=True), listing=True
        )


def test_resume_cannot_be_combined_with_trust(tmp_path):
    path = tmp_path / "m.pt"
    torch.save(torch.nn.Linear(2, 2), path)
    with pytest.raises(UsageError, match="resume cannot be combined"):
        assay.analyze_weights(path, trust=True, resume=tmp_path / "j")
