"""TorchScript files without trust: documents equal those of the live model, in every command."""

from __future__ import annotations

import copy
import json
import zipfile
from pathlib import Path

import pytest
import torch
from recorder.script_models import CASES
from recorder.test_scripted import (
    FORMS,
    OTHER_PATH,
    calls_of,
    flops_by_module,
    in_form,
    ops_by_module,
    types_of,
)
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import assay
from assay.analysis.memory import memory_of
from assay.checkpoint.formats.script_code import MAX_TOKENS, CodeBudget, Unreadable, allowance
from assay.cli.main import main, run
from assay.errors import InputsError, PartialWarning, ReadError, TrustError, UsageError
from assay.inspection import LiveInspector
from assay.sources.torchscript import quantized
from assay.sources.torchscript.refusal import MAX_SECONDS, Exceeded, StepBudget
from assay.sources.torchscript.tensor_ops import TensorOps


def saved(folder: Path, name: str, form: str) -> Path:
    """The file of a model of `CASES`."""
    path = folder / f"{name}-{form}.pt"
    torch.jit.save(in_form(name, form, stored=False), path)
    return path


def tensors_of(document) -> list[tuple]:
    return [(row.names, row.role, row.type, row.bytes, row.requires_grad) for row in document.tensors]


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("name", sorted({*CASES} - {"branches"}))
def test_documents_equal_those_of_the_live_model(tmp_path, name, form):
    case = CASES[name]
    if form == "traced" and (not case.traceable or name in (*OTHER_PATH, "encoder")):
        pytest.skip("a trace of it is another model, or calls fused operators instead of modules")
    live = assay.observe(case.build(), case.args, mode="meta")
    document = assay.observe(saved(tmp_path, name, form), case.args)
    assert document.run.failure is None
    assert document.run.mode == "meta"
    assert [row.path for row in document.modules] == [row.path for row in live.modules]
    assert sorted(tensors_of(document)) == sorted(tensors_of(live))
    assert flops_by_module(document) == flops_by_module(live)
    assert calls_of(document) == calls_of(live)
    assert ops_by_module(document) == ops_by_module(live)
    if form == "scripted":  # a trace drops inputs and outputs that nothing reads
        assert types_of(document) == types_of(live)


def test_fused_layers_of_a_trace_cost_what_their_modules_do(tmp_path):
    case = CASES["encoder"]
    live, document = (
        assay.observe(case.build(), case.args, mode="meta"),
        assay.observe(saved(tmp_path, "encoder", "traced")),
    )
    assert document.cost.forward.matrix_flops == live.cost.forward.matrix_flops


def test_a_loop_that_depends_on_data_runs_for_one_round(tmp_path):
    path = saved(tmp_path, "branches", "scripted")
    document = assay.observe(path, CASES["branches"].args)
    assert document.run.failure is None
    assert "one round of a loop whose end depends on data" in document.run.assumptions[0]
    assert [document.modules[call.module].path for call in document.calls].count("unused") == 1


class Decoder(nn.Module):
    """A loop that ends by a value."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, 16), nn.Linear(16, 50)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        while bool((ids[:, -1] != 3).any()):
            token = self.head(self.embedding(ids[:, -1:])).argmax(-1)
            ids = torch.cat([ids, token], 1)
        return ids


class Converges(nn.Module):
    """A loop that ends by a number, and then another one."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        error = float(x.sum())
        while error > 1e-3:
            x = self.layer(x)
            error = float((x * x).sum())
        while bool(x.mean() < 5):
            x = x + self.layer(x)
        return x


@pytest.mark.parametrize(
    ("model", "shape", "calls", "result"),
    [
        (Decoder(), torch.ones(2, 4, dtype=torch.long), 2, (2, 5)),
        (Converges(), torch.rand(2, 16), 2, (2, 16)),
    ],
    ids=["value", "number"],
)
def test_endless_loops_run_for_one_round_and_say_so(tmp_path, model, shape, calls, result):
    path = tmp_path / "model.pt"
    torch.jit.save(torch.jit.script(model.eval()), path)
    for _ in range(2):
        document = assay.observe(path, shape)
        assert document.run.failure is None
        assert len(document.calls) == 1 + calls
        assert document.calls[0].outputs[0].shape == result
        assert "one round" in document.run.assumptions[0]


@pytest.mark.parametrize("name", ["residual", "perceptron", "encoder"])
def test_peak_memory_is_that_of_the_live_model(tmp_path, name):
    case = CASES[name]
    live, document = (
        memory_of(each).inference.total.value
        for each in (
            assay.observe(case.build(), case.args, mode="meta"),
            assay.observe(saved(tmp_path, name, "scripted"), case.args),
        )
    )
    assert 0.9 * live <= document <= live


def test_classes_and_settings_are_those_of_the_source(tmp_path):
    live = assay.observe(CASES["residual"].build(), CASES["residual"].args)
    document = assay.observe(saved(tmp_path, "residual", "scripted"), CASES["residual"].args)
    assert [row.class_path for row in document.modules] == [row.class_path for row in live.modules]
    for row, other in zip(document.modules, live.modules, strict=True):
        assert row.config == other.config, row.path


def test_a_trace_carries_its_inputs(tmp_path):
    path = saved(tmp_path, "residual", "traced")
    for document in (assay.observe(path), assay.observe(path, trust=True)):
        assert [each.type.shape for each in document.run.inputs] == [tuple(CASES["residual"].args[0].shape)]
        assert document.run.inputs_from == "the shapes it was traced with"


def test_inputs_of_a_scripted_file_are_inferred(tmp_path):
    torch.jit.save(
        torch.jit.script(nn.Sequential(nn.Conv2d(5, 4, 3), nn.Flatten(), nn.Linear(16, 2))), tmp_path / "m.pt"
    )
    (given,) = assay.observe(tmp_path / "m.pt").run.inputs
    assert given.type.shape == (1, 5, 4, 4)


class Refuses(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Sequential(nn.Linear(4, 4))

    def forward(self, x):
        x = self.second(self.first(x))
        return torch.from_file("never", size=4) + x


def test_a_refused_operator_leaves_a_partial_document(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.jit.save(torch.jit.script(Refuses()), "m.pt")
    with pytest.warns(PartialWarning, match="from_file"):
        document = assay.observe("m.pt", "1x4")
    assert [document.modules[call.module].path for call in document.calls] == ["", "first", "second", "second.0"]
    assert flops_by_module(document)["first"] == 2 * 4 * 4 + 4
    assert "Refuses.forward (line " in document.run.failure.error
    assert [path.name for path in tmp_path.iterdir()] == ["m.pt"]
    for command in (["summary", "m.pt", "--inputs", "1x4"], ["analyze", "m.pt", "--inputs", "1x4", "--dir", "out"]):
        with pytest.raises(SystemExit) as ended:
            main([*command, "-q"])
        assert ended.value.code == 4
    assert "from_file" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [{"mode": "real"}, {"mode": "fake"}])
def test_data_needs_trust(tmp_path, arguments):
    path = saved(tmp_path, "perceptron", "traced")
    with pytest.raises((TrustError, UsageError), match=r"trust|shapes only"):
        assay.observe(path, **arguments)


def test_time_needs_trust_and_analysis_says_so(tmp_path):
    path = saved(tmp_path, "perceptron", "traced")
    for function in (assay.profile, lambda path: assay.check(path, attempt=True)):
        with pytest.raises(TrustError, match="--trust"):
            function(path)
    analysis = assay.analyze(path, depth="inference")
    assert "--trust" in analysis.missing["time"]
    assert analysis.memory.inference is not None
    assert analysis.document.weights.by_role["parameter"].count == 8 * 16 + 16 + 16 * 4 + 4


def test_wrong_inputs_are_an_error(tmp_path):
    path = saved(tmp_path, "perceptron", "traced")
    with pytest.raises(InputsError, match="Sequential"):
        assay.observe(path, (torch.zeros(1, 8), torch.zeros(1)))
    with pytest.warns(PartialWarning, match="0"):
        assert assay.observe(path, "1x7").run.failure.module == "0"


COMMANDS = ["summary", "cost", "memory", "modules", "ops"]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_show_what_they_show_of_the_live_model(tmp_path, capsys, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path, "residual", "traced")
    main_quietly([command, str(path), "--format", "json"])
    shown = json.loads(capsys.readouterr().out)
    (tmp_path / "live.py").write_text("from recorder.script_models import residual\n")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    size = "x".join(map(str, CASES["residual"].args[0].shape))
    main_quietly([command, "live.py::residual", "--meta", "--inputs", size, "--format", "json"])
    assert figures(shown) == figures(json.loads(capsys.readouterr().out))


def main_quietly(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "-q"])
    assert not ended.value.code


def figures(value, inside: str = "") -> list[tuple[str, float]]:
    """All numbers of a result that are FLOPs, bytes or counts, in order."""
    if isinstance(value, dict):
        return [pair for key in sorted(value) for pair in figures(value[key], key)]
    if isinstance(value, list):
        return [pair for item in value for pair in figures(item, inside)]
    counted = any(word in inside for word in ("flops", "macs", "bytes", "count", "calls"))
    return [(inside, value)] if counted and isinstance(value, (int, float)) else []


def test_extract_and_report(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path, "residual", "traced")
    main_quietly(["extract", str(path), "--dir", "out"])
    modules = json.loads((tmp_path / "out" / "unique_modules.json").read_text())
    assert "Conv2d" in json.dumps(modules)
    main_quietly(["report", str(path), "-o", "page.html"])
    main_quietly(["report", str(path), "--format", "md"])
    assert "14.1 k parameters · 1.23 M MACs" in capsys.readouterr().out


def test_the_source_of_a_module_is_the_files(tmp_path):
    module = assay.open(saved(tmp_path, "residual", "scripted")).module
    source = LiveInspector(module).source("2")
    assert source.class_name == "Residual"
    assert source.text.startswith("class Residual(Module):")
    assert source.forward_text.lstrip().startswith("def forward(self: __torch__")
    assert {each.name for each in LiveInspector(module).attributes("2.conv1")} >= {"weight", "stride", "groups"}


def test_the_file_and_the_module_stay_as_they_are(tmp_path):
    path = saved(tmp_path, "state", "scripted")
    before = path.read_bytes()
    opened = assay.open(path)
    again = copy.deepcopy(opened.module)
    first = assay.observe(opened, CASES["state"].args)
    assert flops_by_module(assay.observe(opened, CASES["state"].args)) == flops_by_module(first)
    assert [name for name, _ in again.named_buffers()] == [name for name, _ in opened.module.named_buffers()]
    assert path.read_bytes() == before


def test_torch_jit_is_never_called(tmp_path, monkeypatch):
    path = saved(tmp_path, "residual", "traced")

    def forbidden(*_, **__):
        raise AssertionError("torch.jit was called")

    for name in ("load", "script", "trace"):
        monkeypatch.setattr(torch.jit, name, forbidden)
    for name in ("import_ir_module", "import_ir_module_from_buffer"):
        monkeypatch.setattr(torch._C, name, forbidden)
    assert assay.observe(path).run.failure is None
    assay.analyze(path)


def test_letters_beyond_ascii_are_read(tmp_path):
    model = nn.Sequential()
    model.add_module("größe", nn.Linear(4, 2))
    torch.jit.save(torch.jit.script(model), tmp_path / "m.pt")
    document = assay.observe(tmp_path / "m.pt", "1x4")
    assert flops_by_module(document)["größe"] == 2 * 4 * 2 + 2


def test_old_archives_without_traced_inputs_or_constants_open(tmp_path):
    path, older = saved(tmp_path, "perceptron", "traced"), tmp_path / "older.pt"
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(older, "w") as copied:
        for each in archive.infolist():
            if "traced_inputs" not in each.filename:
                copied.writestr(each.filename, archive.read(each))
    assert assay.observe(older).run.inputs_kind == "inferred"


class TakesAList(nn.Module):
    def forward(self, features: list[torch.Tensor]):
        return features[0]


def test_nothing_is_inferred_for_a_list(tmp_path):
    torch.jit.save(torch.jit.script(TakesAList()), tmp_path / "m.pt")
    with pytest.raises(InputsError, match=r"because of features: List\[Tensor\]"):
        assay.observe(tmp_path / "m.pt")


def test_frozen_files_were_in_evaluation_mode(tmp_path):
    frozen = torch.jit.freeze(torch.jit.script(CASES["perceptron"].build().eval()))
    torch.jit.save(frozen, tmp_path / "m.pt")
    document = assay.observe(tmp_path / "m.pt", CASES["perceptron"].args)
    assert not document.modules[0].training


def test_made_up_integers_are_stated(tmp_path):
    traced = torch.jit.trace(nn.Embedding(9, 2), torch.tensor([[8, 1]]))
    torch.jit.save(traced, tmp_path / "m.pt")
    assert assay.observe(tmp_path / "m.pt").run.inputs_from == "the shapes it was traced with, integers are ones"


def test_damaged_traced_inputs_are_stated(tmp_path):
    path, damaged = saved(tmp_path, "perceptron", "traced"), tmp_path / "damaged.pt"
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(damaged, "w") as copied:
        for each in archive.infolist():
            copied.writestr(each.filename, b"?" if "traced_inputs" in each.filename else archive.read(each))
    assert assay.observe(damaged).run.inputs_from.endswith(", because those it was traced with cannot be read")


def test_a_pass_has_a_limit_on_time_that_failed_passes_use_up():
    now = 0.0
    budget = StepBudget(clock=lambda: now)
    now = MAX_SECONDS
    budget.spend()
    budget.begin()
    now += MAX_SECONDS / 2
    budget.spend()
    budget.fail()
    budget.begin()
    now += MAX_SECONDS / 2
    budget.spend()
    now += 0.01
    with pytest.raises(Exceeded, match="CPU time"):
        budget.spend()


def test_layers_of_one_shape_share_their_packed_weights():
    ops = TensorOps(StepBudget())
    weights = [quantized.empty((8, 4), torch.qint8) for _ in range(2)]
    first, second = (quantized.pack(ops, "linear_prepack", weight) for weight in weights)
    assert first.packed is second.packed
    assert first.weight is not second.weight


def test_a_large_file_may_have_more_code_and_run_longer():
    code = "x = [1, 2]\n" * (MAX_TOKENS // 4)
    with pytest.raises(Unreadable, match="all code of this file may have 150,000 tokens"):
        CodeBudget(0).parse(code.encode())
    assert CodeBudget(16 << 20).parse(code.encode())[0] == code
    now = 0.0
    budget = StepBudget(allowance(16 << 20), clock=lambda: now)
    now = 1.9 * MAX_SECONDS
    budget.spend()
    now = 2.1 * MAX_SECONDS
    with pytest.raises(Exceeded, match="of CPU time"):
        budget.spend()


def unreadable(folder: Path) -> Path:
    """A file whose code nests too deep to be parsed."""
    path = saved(folder, "perceptron", "scripted")
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            deep = name.endswith(".py") and b"def forward" in data
            archive.writestr(name, data + b"x = " + b"(" * 300 + b"1" + b")" * 300 + b"\n" if deep else data)
    return path


@pytest.mark.parametrize("command", ["check", "analyze", "report"])
def test_code_that_cannot_be_read_makes_a_partial_result(tmp_path, monkeypatch, capsys, command):
    path = unreadable(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run([command, str(path), *(["-o", "page.html"] if command == "report" else [])]) == 4
    printed = capsys.readouterr()
    assert "nests too deep" in printed.err
    assert "no pass was recorded" not in printed.out
    assert not (tmp_path / "page.html").exists()


def test_a_file_without_tensors_whose_code_cannot_be_read_is_refused(tmp_path, capsys):
    torch.jit.save(torch.jit.script(nn.ReLU()), tmp_path / "relu.pt")
    with zipfile.ZipFile(tmp_path / "relu.pt") as archive:
        kept = {name: archive.read(name) for name in archive.namelist() if "activation" not in name}
    with zipfile.ZipFile(tmp_path / "empty.pt", "w") as archive:
        for name, data in kept.items():
            archive.writestr(name, data)
    for command in ("check", "analyze", "report", "cost"):
        assert run([command, str(tmp_path / "empty.pt")]) == 3
        assert "cannot be read" in capsys.readouterr().err


class Texts(nn.Module):
    """Keys that are made with format specifiers."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = {"%s%d" % ("p", 0): x}  # noqa: UP031
        for i in range(3):
            found["p%d" % (i + 1)] = self.layer(found["p%i" % i])  # noqa: UP031
        keys = ["%s:%d" % (name, len(name)) for name in found]  # noqa: UP031
        text = "%f %e %c %% %s" % (1.5, 2.5, "x", None)  # noqa: UP031
        if text == "1.500000 2.500000e+00 x % None" and keys[1] == "p1:2":
            return self.layer(found["p3"])
        return x


class Devices(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.device.type == "cpu" and x.device == torch.device("cpu") and str(x.device) == "cpu":
            x = self.layer(x)
        return self.layer(x.to(x.device) + torch.zeros(4, device=x.device))


class Unions(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor | list[torch.Tensor]) -> torch.Tensor:
        with torch.profiler.record_function("both"):
            if isinstance(x, list):
                return self.layer(torch.cat(x))
            return self.layer(x)


@pytest.mark.parametrize(("model", "calls"), [(Texts(), 4), (Devices(), 2), (Unions(), 1)])
def test_files_take_the_branches_of_the_live_model(tmp_path, model, calls):
    torch.jit.save(torch.jit.script(model.eval()), tmp_path / "model.pt")
    x = torch.ones(2, 4)
    document = assay.observe(tmp_path / "model.pt", x)
    assert document.run.failure is None
    live = FlopCounterMode(display=False)
    with live:
        model(x)
    assert document.cost.forward.matrix_flops == live.get_total_flops() == calls * 64


def test_a_tensor_beyond_its_storage_is_refused(tmp_path):
    path = tmp_path / "model.pt"
    torch.jit.save(torch.jit.script(nn.Linear(4, 4)), path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():  # the shape (4, 4) becomes (4, 9)
            archive.writestr(name, data.replace(b"(K\x04K\x04t", b"(K\x04K\x09t") if "data.pkl" in name else data)
    with pytest.raises(ReadError, match="does not fit its storage"):
        assay.observe(path, torch.ones(2, 9))


def test_only_what_is_not_interpreted_names_trust(tmp_path):
    class Wrong(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert x.size(0) > 5, "too small"
            return x.resize_(4, 4)

    torch.jit.save(torch.jit.script(Wrong()), tmp_path / "model.pt")
    with pytest.warns(PartialWarning):
        raised = assay.observe(tmp_path / "model.pt", torch.ones(2, 4)).run.failure.error
    with pytest.warns(PartialWarning):
        refused = assay.observe(tmp_path / "model.pt", torch.ones(8, 2)).run.failure.error
    assert "too small" in raised
    assert "--trust" not in raised
    assert "--trust" in refused


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.layer, self.norm = nn.Embedding(100, 16), nn.Linear(16, 32), nn.LayerNorm(32)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.norm(torch.relu(self.layer(self.embedding(ids)))).mean(1)


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()), "1x3x224x224:float32"),
        (nn.Sequential(nn.Conv1d(8, 8, 3, groups=4), nn.ReLU()), "1x8x1024:float32"),
        (nn.Sequential(nn.Linear(12, 8), nn.ReLU()).bfloat16(), "1x12:bfloat16"),
        (Text(), "1x128:int64"),
    ],
    ids=["images", "groups", "features", "text"],
)
def test_inputs_of_frozen_files_are_inferred(tmp_path, model, inputs):
    torch.jit.save(torch.jit.freeze(torch.jit.script(model.eval())), tmp_path / "model.pt")
    document = assay.observe(tmp_path / "model.pt")
    assert document.run.failure is None
    assert f"inferred: {inputs}" in document.run.inputs_from
    assert "CONSTANTS.c0" in document.run.inputs_from
    assert not document.tensors
    size = sum(tensor.numel() * tensor.itemsize for tensor in model.parameters())
    assert memory_of(document).constants >= size - 8 * 4 * 4  # batch_norm is folded into the convolution before it


class Greedy(nn.Module):
    """A loop of known length that a value may end earlier; the smallest integer marks the padding."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, 16), nn.Linear(16, 50)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        best = -9223372036854775807 - 1
        for _ in range(4):
            token = self.head(self.embedding(ids[:, -1:])).argmax(-1).clamp(min=best)
            ids = torch.cat([ids, token], 1)
            if bool((token == 3).all()):
                break
        return ids


def test_a_loop_of_known_length_runs_to_its_end_and_the_brief_says_what_was_assumed(tmp_path):
    torch.jit.save(torch.jit.script(Greedy().eval()), tmp_path / "model.pt")
    document = assay.observe(tmp_path / "model.pt", torch.ones(1, 4, dtype=torch.long))
    assert document.run.failure is None
    assert document.calls[0].outputs[0].shape == (1, 8)
    assert len(document.calls) == 1 + 4 * 2
    assert "values that branches, loops or sizes depend on" in str(assay.brief(document)).replace(
        "1 value ", "values "
    )


@pytest.mark.filterwarnings("ignore")  # torch deprecates its own quantization
def test_modules_of_quantized_files_are_in_the_mode_of_the_file(tmp_path):
    model = nn.Sequential(torch.ao.quantization.QuantStub(), nn.Conv1d(3, 4, 3), torch.ao.quantization.DeQuantStub())
    model.eval().qconfig = torch.ao.quantization.get_default_qconfig("x86")
    torch.ao.quantization.prepare(model, inplace=True)(torch.rand(1, 3, 8))
    torch.ao.quantization.convert(model, inplace=True).eval()
    torch.jit.save(torch.jit.script(model), tmp_path / "model.pt")
    document = assay.observe(tmp_path / "model.pt", torch.rand(1, 3, 8))
    loaded = {path: module.training for path, module in torch.jit.load(tmp_path / "model.pt").named_modules()}
    assert {row.path: row.training for row in document.modules} == loaded


class Halts(nn.Module):
    """A loop that a value or a count ends, in either order."""

    def __init__(self, value_first: bool):
        super().__init__()
        self.layer, self.value_first = nn.Linear(4, 4), value_first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        i = 0
        if self.value_first:
            while bool(x.sum() > 0) and i < 6:
                x = self.layer(x)
                i += 1
        else:
            while i < 6 and bool(x.sum() > 0):
                x = self.layer(x)
                i += 1
        return x


@pytest.mark.parametrize("value_first", [False, True])
def test_a_loop_with_a_count_runs_as_often_as_in_the_live_model_on_shapes(tmp_path, value_first):
    model, x = Halts(value_first).eval(), torch.rand(2, 4)
    torch.jit.save(torch.jit.script(model), tmp_path / "model.pt")
    live, document = assay.observe(model, x, mode="meta"), assay.observe(tmp_path / "model.pt", x)
    assert document.cost.forward.matrix_flops == live.cost.forward.matrix_flops == 6 * 2 * 2 * 4 * 4


def test_a_trusted_file_is_converted_to_the_dtype_that_it_runs_with(tmp_path):
    torch.jit.save(torch.jit.script(nn.Linear(4, 4).eval()), tmp_path / "model.pt")
    document = assay.observe(tmp_path / "model.pt", "2x4", dtype="bfloat16", trust=True)
    assert document.run.failure is None
    assert {row.type.dtype for row in document.tensors} == {"bfloat16"}
    assert document.calls[0].outputs[0].dtype == "bfloat16"


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("1 if True else 2", "an expression of kind IfExp"),
        ("(lambda: 1)", "an expression of kind Lambda"),
        ("~5", "an operator that TorchScript does not write"),
        ("not 5", "an operator that TorchScript does not write"),
    ],
)
def test_what_torchscript_does_not_write_is_refused_by_name(tmp_path, expression, reason):
    path = saved(tmp_path, "perceptron", "scripted")
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            code = data.replace(b"-> Tensor:\n", f"-> Tensor:\n    extra = {expression}\n".encode())
            archive.writestr(name, code if name.endswith(".py") else data)
    with pytest.warns(PartialWarning):
        document = assay.observe(path, CASES["perceptron"].args)
    assert reason in document.run.failure.error


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"CONSTANTS.c0, CONSTANTS.c1", b"CONSTANTS.c1, CONSTANTS.c0"),  # a vector as the weight
        (b"CONSTANTS.c0, CONSTANTS.c1)", b"CONSTANTS.c0, CONSTANTS.c1, [1, 1], [0, 0], [1, 1], 4611686018427387904)"),
        (b"CONSTANTS.c0,", b"CONSTANTS.c99,"),
    ],
    ids=["vector", "groups", "missing"],
)
def test_constants_that_fit_no_layer_give_no_inputs(tmp_path, capsys, before, after):
    path = tmp_path / "model.pt"
    torch.jit.save(torch.jit.freeze(torch.jit.script(nn.Sequential(nn.Conv2d(3, 8, 3)).eval())), path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    assert any(before in data for data in members.values())
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data.replace(before, after) if name.endswith(".py") else data)
    assert run(["cost", str(path)]) in (2, 3, 4)
    assert "internal error" not in capsys.readouterr().err
