"""`assay.analyze`: the results and the missing parts for every kind of source."""

from __future__ import annotations

import json
import queue
import re
import warnings

import msgspec
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import assay
from assay.api.profile import predict
from assay.document.machine import MonitorRecording, Series
from assay.errors import PartialWarning, ReadError, UsageError
from assay.findings.analyzed import Analysis
from assay.recorder import cuda_memory
from assay.views.layout import Style
from assay.views.text.analysis import LINES, analysis_report, common_sections
from assay.views.text.energy import system_table
from assay.views.text.full_analysis import full_report
from assay.views.text.report import as_text

RULE = re.compile(r"^─+$", re.MULTILINE)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


X = torch.zeros(2, 3, 16, 16)
CONV_FLOPS = 2 * (2 * 8 * 16 * 16) * 3 * 9
HEAD_FLOPS = 2 * 2 * 8 * 5
NUMBERS = 8 * 3 * 9 + 4 * 8 + 1 + 8 * 5 + 5
PARAMETERS = NUMBERS - 2 * 8 - 1


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The same model in every kind of file."""
    folder = tmp_path_factory.mktemp("models")
    model = Net().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated, but its files still exist
        torch.jit.script(model).save(folder / "scripted.pt")
        torch.export.save(torch.export.export(model, (X,)), folder / "program.pt2")
    torch.save(model, folder / "pickled.pt")
    torch.save(model.state_dict(), folder / "state.pt")
    save_file(model.state_dict(), folder / "net.safetensors")
    return folder


def screen(found: Analysis, width: int | None = None) -> str:
    return as_text(analysis_report(found, common_sections(found), full=True), Style(width))


def line(text: str, name: str) -> str:
    """The value on the first line with this name."""
    return re.search(rf"^{re.escape(name)} {{2,}}(.*)$", text, re.MULTILINE).group(1)


def test_a_live_model_is_analysed_completely():
    found = assay.analyze(Net(), X)
    matrix = sum(
        cost.matrix_flops * sum(op.kind == index for op in found.document.ops)
        for index, cost in enumerate(found.document.cost.kinds)
    )
    assert matrix == CONV_FLOPS + HEAD_FLOPS
    assert found.missing == {}
    assert found.architecture.family == "CNN"
    assert found.memory.parameters.value == 4 * PARAMETERS
    assert sum(row.count for row in found.document.weights.tensors) == NUMBERS
    text = screen(found)
    sections = [row for row in text.splitlines() if row[:1].isupper() and row.split(":")[0].isupper()]
    names = [section.split(":")[0] for section in sections]
    assert names == [
        "FINDINGS AND RECOMMENDATIONS", "SUMMARY", "ARCHITECTURE", "PARAMETERS", "COMPUTATION",
        "PRUNING AND QUANTIZATION BY KIND OF OP", "MEMORY",
    ]  # fmt: skip
    assert line(text, "time per pass") == "–"
    assert line(text, "energy per pass") == "–"
    assert line(text, "parameters") == f"{PARAMETERS}"


def test_the_full_report_lists_every_parameter_and_every_op():
    found = assay.analyze(Net(), X)
    text = full_report(found, common_sections(found), full=True)
    blocks = text.partition("ALL PARAMETERS\n")[2].partition("\nCOMPUTATION")[0]
    counts = [int(each.replace(",", "")) for each in re.findall(r"elements, bytes +([\d,]+),", blocks)]
    assert sum(counts) == NUMBERS
    assert len(counts) == len(list(Net().state_dict()))
    nodes = text.partition("ALL OPS\n")[2].partition("\n\n")[0].splitlines()[2:]
    assert [int(node.split()[0]) for node in nodes] == list(range(len(found.document.ops)))
    assert [node.split()[1] for node in nodes] == ["conv", "norm", "(root)", "(root)", "head"]
    assert text.startswith("Net · CNN · ")
    assert text.index("FINDINGS AND RECOMMENDATIONS") < text.index("PARAMETERS\n") < text.index("ALL OPS\n")
    assert found.document.findings == found.checked.findings


def test_printed_columns_add_up_to_the_printed_total():
    found = assay.analyze(Net(), X)
    table = screen(found).partition("By type of op\n")[2].partition("\n\n")[0].splitlines()
    rows = [row.split() for row in table[2:] if not RULE.match(row)]
    *parts, total = [int(row[row.index("%") + 1]) for row in rows]
    assert sum(parts) == total == len(found.document.ops)


def test_timing_records_the_pass_once_and_leaves_energy_unknown():
    calls = []
    model = Net()
    model.register_forward_hook(lambda *_: calls.append(1))
    steps = []
    found = assay.analyze(model, X, depth="inference", passes=2, warmup=0, on_step=steps.append)
    assert steps.count("recording a pass") == 1
    assert found.document.timing is not None
    assert found.document.profile.energy is None
    text = screen(found)
    assert line(text, "time per pass") != "–"
    assert line(text, "energy per pass") == "–"
    assert "PERFORMANCE: Net on cpu" in text
    assert "ENERGY" not in text


@pytest.mark.parametrize("depth", ["structure", "inference"])
@pytest.mark.parametrize(
    ("name", "modules", "reason"),
    [
        ("pickled.pt", 4, "allow it with --trust"),
        ("state.pt", 0, "contains weights without code"),
        ("net.safetensors", 0, "contains weights without code"),
    ],
)
def test_untrusted_code_in_a_file_is_not_run(saved, name, modules, reason, depth):
    found = assay.analyze(saved / name, depth=depth)
    assert len(found.document.modules) == modules
    assert sum(row.count for row in found.document.weights.tensors) == NUMBERS
    assert found.document.ops == []
    assert found.memory is None
    lacking = {"computation", "memory of a pass"} | ({"time"} if depth == "inference" else set())
    assert set(found.missing) == lacking | (set() if modules else {"architecture"})
    assert all(reason in why for why in found.missing.values())
    text = screen(found)
    assert line(text, "FLOPs per pass") == line(text, "peak memory") == "–"
    assert text.count(reason) == 1
    assert "COMPUTATION" not in text


@pytest.mark.parametrize("name", ["pickled.pt", "state.pt", "net.safetensors"])
@pytest.mark.parametrize(
    "option", [{"inputs": "nonsense.py::foo"}, {"weights": "net.safetensors"}, {"device": "cpu"}]
)
def test_options_of_a_pass_are_refused_where_nothing_is_run(saved, monkeypatch, name, option):
    monkeypatch.chdir(saved)
    errors = []
    for command in (assay.analyze, assay.check):
        with pytest.raises(UsageError, match="which is not run") as error:
            command(name, **option)
        errors.append(str(error.value))
    assert errors[0] == errors[1]
    assert next(iter(option)) in errors[0]


def test_torchscript_is_analysed_without_running_it(saved):
    found, live = assay.analyze(saved / "scripted.pt", X), assay.analyze(Net(), X)
    assert found.document.cost.forward.flops == live.document.cost.forward.flops
    assert found.missing == {}
    assert line(screen(found), "parameters") == f"{PARAMETERS}"
    (found,) = (assay.analyze(saved / "scripted.pt", X, depth=depth) for depth in ["inference"])
    assert "allow it with --trust" in found.missing["time"]


def test_torchscript_lists_the_ops_in_its_code_if_they_cannot_be_interpreted(saved):
    with pytest.warns(PartialWarning):
        found = assay.analyze(saved / "scripted.pt", torch.zeros(1, 5, 8, 8))
    written = {operation for _, operation, _ in found.code}
    assert {"torch.conv2d", "torch.batch_norm", "torch.relu", "torch.mean", "torch.linear"} <= written
    text = screen(found)
    table = text.partition("OPS IN THE CODE (read, not run)")[2].partition("\n\n")[0].splitlines()
    places = [int(row.split()[-1]) for row in table[3:] if not RULE.match(row)]
    assert sum(places) == len(found.code)
    assert len(places) <= LINES + 1
    every = (
        full_report(found, common_sections(found), full=True)
        .partition("All ops in the code\n")[2]
        .partition("\n\n")[0]
    )
    assert len(every.splitlines()) == len(found.code) + 2


def test_torchscript_and_pickles_run_when_trusted(saved):
    for name in ("scripted.pt", "pickled.pt"):
        found = assay.analyze(saved / name, X, trust=True)
        assert found.missing == {}
        assert found.code == []
        assert found.document.cost.forward.matrix_flops == CONV_FLOPS + HEAD_FLOPS


def test_an_untrusted_pickle_runs_no_code(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    torch.save({"model": nn.Linear(2, 2), "evil": Evil()}, tmp_path / "evil.pt")
    before = (tmp_path / "evil.pt").read_bytes()
    found = assay.analyze(tmp_path / "evil.pt")
    assert found.document.weights.tensors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evil.pt"]
    assert (tmp_path / "evil.pt").read_bytes() == before


def test_an_exported_program_is_read(saved):
    found = assay.analyze(saved / "program.pt2", depth="inference")
    assert found.document.cost.forward.matrix_flops == CONV_FLOPS + HEAD_FLOPS
    assert found.memory.parameters.value == 4 * PARAMETERS
    assert found.memory.inference is None
    assert set(found.missing) == {"time", "memory of a pass"}
    assert all("--trust" in why for why in found.missing.values())


def test_an_exported_program_is_timed_when_trusted(saved):
    found = assay.analyze(saved / "program.pt2", depth="inference", trust=True, passes=2, warmup=0)
    assert found.missing == {}
    assert [module.class_name for module in found.document.modules] == ["Net", "Conv2d", "BatchNorm2d", "Linear"]
    assert found.document.run.inputs_from == "the program's example inputs"
    assert found.document.timing.whole.value > 0
    assert {document_row.calls for document_row in found.document.timing.modules} == {1}
    assert found.memory.inference is not None


def test_a_damaged_program_is_refused_in_one_line(saved, tmp_path):
    whole = (saved / "program.pt2").read_bytes()
    path = tmp_path / "half.pt2"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ReadError) as raised:
        assay.analyze(path)
    assert "\n" not in str(raised.value)


def test_a_saved_document_is_analysed_without_running(tmp_path):
    path = tmp_path / "net.assay.json"
    assay.save(assay.analyze(Net(), X, depth="inference", passes=2, warmup=0).document, path)
    found = assay.analyze(path, depth="inference")
    assert found.missing == {}
    assert found.document.timing is not None
    with pytest.raises(UsageError, match="which is not run"):
        assay.analyze(path, X)


def test_a_configuration_has_shapes_but_no_values(tmp_path):
    config = {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 16, "n_layer": 1, "n_head": 2,
        "vocab_size": 40, "n_positions": 32, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = assay.analyze(tmp_path)
    assert set(found.missing) == {"values of weights"}
    assert found.architecture.family == "Transformer"
    assert found.document.weights is None
    text = screen(found)
    assert "40x16" in text.partition("Largest tensors\n")[2].partition("\n\n")[0]
    assert "zeros" not in text.partition("PARAMETERS")[2].partition("COMPUTATION")[0]
    layers = {"transformer.wte.weight": torch.zeros(40, 16)}
    save_file(layers, tmp_path / "model.safetensors")
    beside = assay.analyze(tmp_path)
    assert beside.missing == {}
    assert [row.names for row in beside.document.weights.tensors] == [("transformer.wte.weight", "lm_head.weight")]


def test_a_failed_pass_keeps_the_incomplete_result():
    class Stops(Net):
        def forward(self, x):
            self.conv(x)
            raise RuntimeError("no further")

    found = assay.analyze(Stops(), X, depth="inference")
    assert "no further" in found.missing["time"]
    assert found.document.cost.forward.matrix_flops == CONV_FLOPS
    assert found.document.weights is not None


def test_a_model_without_inferable_inputs_still_has_a_tree():
    class Opaque(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.ones(3))
            self.register_buffer("steps", torch.zeros(5))

        def forward(self, thing):
            return thing.unheard_of(self.table)

    found = assay.analyze(Opaque())
    assert {"computation", "memory of a pass"} <= set(found.missing) or found.document.run.failure is not None
    assert [module.class_name for module in found.document.modules] == ["Opaque"]
    assert found.document.weights.tensors[0].count == 3
    assert line(screen(found), "parameters") == "3"
    assert "3 (3 trainable), 12 B; buffers 20 B" in screen(found)


@pytest.mark.parametrize("depth", ["structure", "inference"])
def test_a_memory_limit_is_respected(depth):
    ran = queue.Queue()  # a list would be restored after the pass

    class Big(Net):
        def forward(self, x):
            if not x.is_meta:
                ran.put(1)
            return super().forward(x)

    found = assay.analyze(Big(), X, depth=depth, memory_limit=1000)
    assert ran.empty()
    (why,) = found.missing.values()
    assert "the limit is 1,000" in why
    assert found.document.cost.forward.matrix_flops == CONV_FLOPS + HEAD_FLOPS
    assay.analyze(Big(), X, memory_limit=1 << 30)
    assert not ran.empty()


def test_an_unknown_depth_is_refused():
    with pytest.raises(UsageError, match="structure, inference, profile"):
        assay.analyze(Net(), X, depth="deep")


def test_the_report_stays_short_and_narrow():
    layers = [
        nn.Linear(8, 8 + step % 40) if step % 2 == 0 else nn.Linear(8 + (step - 1) % 40, 8) for step in range(80)
    ]
    found = assay.analyze(nn.Sequential(*layers), torch.zeros(1, 8), depth="inference", passes=1, warmup=0)
    blocks = screen(found).split("\n\n")
    assert max(len(block.splitlines()) for block in blocks) <= 25
    titles = {part for part in analysis_report(found, common_sections(found)).parts if isinstance(part, str)}
    for row in screen(found, width=80).splitlines():
        assert len(row) <= 80 or row in titles
    assert full_report(found, common_sections(found), full=True).count("\n") > 300


def test_escape_sequences_in_names_are_made_visible():
    model = nn.Module()
    model.register_parameter("x\x1b[2J", nn.Parameter(torch.ones(2)))
    model.forward = lambda x: x + 1
    found = assay.analyze(model, torch.ones(2))
    for text in (screen(found), full_report(found, common_sections(found), full=True)):
        assert "\x1b" not in text
        assert "x\\x1b[2J" in text


def test_the_system_table_uses_the_units_of_each_series():
    series = [
        Series("cpu.utilisation", "share", "machine", [0.25, 0.75]),
        *(Series(f"cpu.{core}.utilisation", "share", "machine", [0.5]) for core in range(64)),
        Series("cpu.frequency", "MHz", "machine", [None, None]),
        Series("process.rss", "B", "process", [1024.0, 3072.0]),
        Series("disk.read", "B", "machine", [0.0, 4096.0]),
        Series("gpu.0.temperature", "°C", "board", [40.0, 60.0]),
        Series("gpu.0.throttle", "bits", "board", [0.0, 4.0]),
    ]
    recording = MonitorRecording([0.0, 2.0], series)
    rows = {row["what"]: [row["mean"], row["peak"], row["in all"]] for row in system_table(recording).values()}
    assert rows["cpu.utilisation"] == ["50.0 %", "75.0 %", ""]
    assert rows["cpu.frequency"] == ["–", "–", ""]
    assert rows["process.rss"] == ["2 KiB", "3 KiB", ""]
    assert rows["disk.read"] == ["2 KiB/s", "", "4 KiB"]
    assert rows["gpu.0.temperature"] == ["50 °C", "60 °C", ""]
    assert rows["gpu.0.throttle"] == ["", "power cap", ""]
    assert not any(name.startswith("cpu.3") for name in rows)
    assert len(system_table(recording, full=True).rows) == len(series)


def test_unknown_values_are_not_written_as_zero(saved):
    found = assay.analyze(saved / "state.pt", depth="profile")
    data = msgspec.json.decode(msgspec.json.encode(found.document))
    assert "timing" not in data or data["timing"] is None
    assert "profile" not in data or data["profile"] is None


@pytest.mark.parametrize("depth", ["structure", "inference"])
def test_what_the_environment_allows_on_a_gpu_is_a_memory_limit(depth, monkeypatch):
    ran = queue.Queue()

    class Big(Net):
        def forward(self, x):
            if not x.is_meta:
                ran.put(1)
            return super().forward(x)

    monkeypatch.setenv("PYTORCH_CUDA_MEMORY_FRACTION", "0.5")
    monkeypatch.setattr(cuda_memory, "allowed_bytes", lambda device: 1000)
    found = assay.analyze(Big(), X, depth=depth)
    assert ran.empty()
    assert ["the limit is 1,000" in why for why in found.missing.values()] == [True]
    monkeypatch.setattr(cuda_memory, "allowed_bytes", lambda device: 1 << 30)
    assert not any("limit" in why for why in assay.analyze(Big(), X, depth=depth).missing.values())
    assert not ran.empty()


def test_the_memory_allowed_on_a_gpu_does_not_stop_what_cannot_be_predicted(monkeypatch):
    monkeypatch.setattr(predict, "occupancy_of", raising(UsageError("unknown")))
    monkeypatch.setenv("PYTORCH_CUDA_MEMORY_FRACTION", "0.5")
    monkeypatch.setattr(cuda_memory, "allowed_bytes", lambda device: 1000)
    assert "a pass with data" not in assay.analyze(Net(), X).missing
    assert "a pass with data" in assay.analyze(Net(), X, memory_limit=1000).missing


def raising(error):
    def fail(*arguments, **options):
        raise error

    return fail
