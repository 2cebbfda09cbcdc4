"""Rules about traces: each fires on a trace with the problem and not on a near miss."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest
import torch
from finding_models import in_document, values
from torch import nn
from torch.utils.data import DataLoader, Dataset

import assay
from assay.document.document import Document
from assay.errors import ReadError, UsageError
from assay.findings.engine import check_all
from assay.views.gains import gain_text

sys.path.insert(0, str(Path(__file__).parents[1] / "trace" / "read"))
from trace_making import Making, gpu_training

US = 1_000


def traced(making: Making, path: Path) -> Document:
    making.write(path)
    return assay.check(path, select=["T"]).document


def kernels(*spans: tuple[int, int], made: Making | None = None, ahead: int = 20) -> Making:
    """Kernels at (start, length) in microseconds, each launched `ahead` microseconds before."""
    made = made or Making()
    for number, (start, length) in enumerate(spans, 1):
        made.launch(number, (start - ahead) * US, 2 * US).kernel("gemm", start * US, length * US, number)
    return made


def loading(made: Making, start: int, length: int) -> Making:
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    return made.span(name, start * US, length * US, cat="user_annotation")


def test_idle_time_while_data_is_loaded(tmp_path):
    made = loading(kernels((100, 100), (600, 100), (800, 100), ahead=5), 220, 300)
    finding = in_document("T101", traced(made, tmp_path / "t.json"))
    assert values(finding)["idle_while_loading_s"] == pytest.approx(300e-6)
    assert finding.gain.amount.value == pytest.approx(300e-6)
    assert finding.gain.share.value == pytest.approx(300 / 800)
    # The remaining idle time is not counted twice.
    rest = in_document("T102", traced(made, tmp_path / "t.json"))
    assert values(rest)["idle_s"] == pytest.approx((400 + 100 - 300) * 1e-6)
    assert values(rest)["all_idle_with_loading_s"] == pytest.approx((400 + 100) * 1e-6)


def test_loading_that_overlaps_with_kernels_is_no_problem(tmp_path):
    made = loading(kernels((100, 400), (500, 400)), 120, 700)
    assert in_document("T101", traced(made, tmp_path / "t.json")) is None


class Slow(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.stack([torch.randn(64, 64).sort().values for _ in range(20)]).sum(0)


def test_the_loader_of_a_real_profile_on_a_cpu(tmp_path):
    model = nn.Linear(64, 2)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for batch in DataLoader(Slow(), batch_size=4):
            model(batch)
    profiler.export_chrome_trace(str(tmp_path / "t.json"))
    document = assay.check(tmp_path / "t.json").document
    finding = in_document("T101", document)
    assert finding.gain.share.value == document.traces[0].loading_ns / document.traces[0].wall_ns
    assert 0.05 < finding.gain.share.value < 1
    assert all("accelerator" in each.why for each in check_all(document, select=["T102", "T105"]).skipped)


@pytest.mark.parametrize(("wait", "words"), [(True, "waited for it"), (False, "launched kernels late")])
def test_idle_gaps_have_a_cause(tmp_path, wait, words):
    made = kernels((100, 100), (600, 300), ahead=50)
    if wait:
        made.span("cudaStreamSynchronize", 110 * US, 430 * US, cat="cuda_runtime")
    finding = in_document("T102", traced(made, tmp_path / "t.json"))
    assert words in finding.title
    assert (".item()" in finding.advice) is wait
    assert finding.gain.amount.value == pytest.approx(400e-6)


def test_a_busy_accelerator_is_no_finding(tmp_path):
    assert traced(kernels(*((100 * n, 98) for n in range(1, 80))), tmp_path / "t.json").findings == []


def test_short_kernels_that_wait_for_launches(tmp_path):
    late = kernels(*((100 * n, 5) for n in range(1, 80)), ahead=4)
    document = traced(late, tmp_path / "t.json")
    finding = in_document("T104", document)
    assert values(finding)["median_kernel_s"] == pytest.approx(5e-6)
    assert finding.gain.amount.value == pytest.approx(78 * 95e-6)
    assert in_document("T102", document) is None  # the same time is not promised twice
    long = kernels(*((100 * n, 50) for n in range(1, 80)), ahead=4)
    assert in_document("T104", traced(long, tmp_path / "t.json")) is None
    assert in_document("T102", traced(long, tmp_path / "t.json")) is not None


def test_exposed_communication_and_copies(tmp_path):
    made = kernels((100, 500), (700, 300))
    made.launch(90, 20 * US).kernel("ncclDevKernel_AllReduce", 500 * US, 200 * US, 90, stream=20)
    name = "Memcpy HtoD (Pageable -> Device)"
    made.launch(91, 21 * US).kernel(name, 1000 * US, 100 * US, 91, cat="gpu_memcpy", bytes=4096)
    document = traced(made, tmp_path / "t.json")
    communication, copies = in_document("T105", document), in_document("T106", document)
    assert communication.gain.amount.value == pytest.approx(100e-6)
    assert copies.gain.amount.value == pytest.approx(100e-6)
    assert copies.gain.share.value == pytest.approx(0.1)
    assert "pageable" in copies.title


def test_waiting_for_a_straggler_is_no_communication(tmp_path):
    for rank, length in enumerate((100, 100, 500, 100)):
        made = kernels((100, length))
        start = 100 + length
        made.launch(90, 20 * US).kernel("ncclDevKernel_AllReduce", start * US, (700 - start) * US, 90, stream=20)
        made.write(tmp_path / f"rank{rank}.json")
    finding = in_document("T105", assay.check(tmp_path, select=["T"]).document)
    assert finding.gain.amount.value == pytest.approx(100e-6)
    alone = in_document("T105", assay.check(tmp_path / "rank0.json", select=["T"]).document)
    assert alone.gain.amount.value == pytest.approx(500e-6)


def test_gains_are_of_the_whole_trace(tmp_path):
    document = traced(loading(kernels((100, 100), (600, 100), ahead=5), 220, 300), tmp_path / "t.json")
    text = gain_text(in_document("T101", document).gain, document)
    assert text.startswith("up to 300 µs in this trace")


def test_stragglers_among_ranks(tmp_path):
    for rank, length in enumerate((100, 100, 130, 101)):
        kernels((100, length), (100 + length, 2 * length)).write(tmp_path / f"rank{rank}.json")
    document = assay.check(tmp_path, select=["T"]).document
    assert [trace.rank for trace in document.traces] == [0, 1, 2, 3]
    finding = in_document("T103", document)
    assert finding.title.startswith("rank 2 works")
    assert finding.gain.amount.value == pytest.approx((390 - 301.5) * 1e-6, rel=0.01)
    (tmp_path / "rank2.json").unlink()
    assert in_document("T103", assay.check(tmp_path, select=["T"]).document) is None


@pytest.mark.parametrize("form", ["gz", "list", "bom", "late key"])
def test_a_trace_is_recognised_by_its_bytes(tmp_path, form):
    made = kernels((100, 100), (600, 300))
    data = made.text().encode()
    if form == "list":
        data = data[data.index(b"[") : data.rindex(b"]") + 1]
    if form == "late key":
        data = b'{"deviceProperties": [' + b", ".join([b'{"name": "GPU"}'] * 1000) + b"], " + data[1:]
    data = {"gz": gzip.compress(data), "bom": b"\xef\xbb\xbf" + data}.get(form, data)
    (tmp_path / "file.bin").write_bytes(data)
    report = assay.check(tmp_path / "file.bin")
    assert [finding.code for finding in report.findings] == ["T102"]


def test_a_trace_is_no_model_and_takes_no_inputs(tmp_path):
    path = gpu_training().write(tmp_path / "t.json")
    with pytest.raises(ReadError, match="is a profiler trace, not a model"):
        assay.observe(path)
    with pytest.raises(ReadError, match="profiler trace"):
        assay.analyze_weights(path)
    with pytest.raises(UsageError, match="inputs cannot be used"):
        assay.check(path, "1x8")
    with pytest.raises(UsageError, match="traces cannot be tried"):
        assay.check(path, attempt=True)


def test_a_saved_trace_is_checked_again(tmp_path):
    path = kernels((100, 100), (600, 300)).write(tmp_path / "t.json")
    report = assay.check(path)
    assay.save(report.document, tmp_path / "t.assay.json")
    assert assay.check(tmp_path / "t.assay.json").findings == report.findings


def test_rules_about_models_are_skipped_without_defects(tmp_path):
    report = assay.check(gpu_training().write(tmp_path / "t.json"))
    assert not [finding for finding in report.findings if finding.code == "X001"]
