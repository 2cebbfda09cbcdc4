"""The role of each tensor of a file: what torch lists after loading it, and nothing where the file states none."""

from __future__ import annotations

import json
import zipfile

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import assay
from assay.api.weights import weights_document
from assay.cli.main import run as run_command
from assay.sources.open import open_source

X = torch.ones(4, 8)


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.bn = nn.BatchNorm1d(8)
        self.register_buffer("kept", torch.ones(3))
        self.register_buffer("dropped", torch.arange(5.0), persistent=False)
        self.plain = torch.full((7,), 2.0)
        self.several = [torch.ones(2), torch.ones(4)]

    def forward(self, x):
        return self.bn(self.fc(x)) + self.kept.sum() + self.dropped.sum() + self.plain.sum() + self.several[0].sum()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.head = nn.Linear(8, 8)
        self.head.weight = self.inner.fc.weight
        self.scale = nn.Parameter(torch.rand(4))
        self.rest = nn.ParameterList([nn.Parameter(torch.rand(2)), nn.Parameter(torch.rand(3))])

    def forward(self, x):
        return self.head(self.inner(x)) + self.scale.sum() + torch.tensor([1.0, 2.0]).sum()


def scripted(path):
    torch.jit.script(Net().eval()).save(path)


def traced(path):
    torch.jit.trace(Net().eval(), X).save(path)


def pickled(path):
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 8))
    model[2].weight = model[0].weight
    model.register_buffer("dropped", torch.arange(5.0), persistent=False)
    model.plain = torch.full((7,), 2.0)
    torch.save(model, path)


def by_role(report):
    return {role: (sums.tensors, sums.count, sums.bytes) for role, sums in report.by_role.items()}


def listed_by_torch(path):
    """The tensors and elements of the parameters and buffers that torch lists, tied ones once."""
    try:
        module = torch.jit.load(path)
    except RuntimeError:
        module = torch.load(path, weights_only=False)
    kinds = {"parameter": module.parameters(), "buffer": module.buffers()}
    distinct = {role: {each.data_ptr(): each for each in tensors}.values() for role, tensors in kinds.items()}
    return {role: (len(tensors), sum(map(torch.numel, tensors))) for role, tensors in distinct.items()}


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("write", [scripted, traced, pickled])
@pytest.mark.parametrize("listing", [False, True])
def test_roles_are_those_of_the_loaded_module_with_and_without_trust(tmp_path, write, listing):
    path = tmp_path / "m.pt"
    write(path)
    expected = listed_by_torch(path)
    reports = [weights_document(path, trust=trust, listing=listing).weights for trust in (False, True)]
    for report in reports:
        assert {role: found[:2] for role, found in by_role(report).items() if role in expected} == expected
    untrusted, trusted = reports
    assert by_role(untrusted) == by_role(trusted)
    assert {each.names[0]: (each.role, each.std) for each in untrusted.tensors} == {
        each.names[0]: (each.role, each.std) for each in trusted.tensors
    }
    if write is not traced:  # a traced model has no plain attributes: what it reads of them are constants
        assert {each.role for each in untrusted.tensors if "plain" in each.names[0]} == {"attribute"}


@pytest.mark.parametrize("key", ["model", "type"])
@pytest.mark.parametrize("listing", [False, True])
def test_a_module_in_a_dictionary_has_the_names_of_the_file_with_and_without_trust(tmp_path, key, listing):
    path = tmp_path / "m.pt"
    module = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
    module.plain = torch.ones(3)
    torch.save({key: module, "epoch": 3}, path)
    expected = {f"{key}.{name}" for name in (*module.state_dict(), "plain")}
    for options in ({}, {"trust": True}):
        rows = weights_document(path, listing=listing, **options).weights.tensors
        assert {name for row in rows for name in row.names} == expected
        chosen = weights_document(path, listing=listing, filter=rf"^{key}\.0\.", **options).weights.tensors
        assert {row.names[0] for row in chosen} == {f"{key}.0.weight", f"{key}.0.bias"}


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_tensors_of_the_code_are_constants(tmp_path):
    traced(tmp_path / "m.pt")
    report = assay.analyze_weights(tmp_path / "m.pt")
    assert {each.role for each in report.tensors if each.names[0].startswith("CONSTANTS.")} == {"constant"}
    assert report.by_role["constant"].tensors == 3


def test_code_that_cannot_be_read_leaves_the_roles_unknown(tmp_path):
    scripted(tmp_path / "m.pt")
    with zipfile.ZipFile(tmp_path / "m.pt") as source, zipfile.ZipFile(tmp_path / "d.pt", "w") as target:
        for info in source.infolist():
            data = source.read(info)
            target.writestr(info.filename, b"class (" if b"class Linear(" in data else data)
    roles = {each.names[0]: each.role for each in assay.analyze_weights(tmp_path / "d.pt").tensors}
    assert roles["inner.fc.bias"] == roles["inner.fc.weight"] == ""
    assert (roles["scale"], roles["inner.kept"], roles["inner.plain"]) == ("parameter", "buffer", "attribute")


def test_roles_in_the_signature_of_an_exported_program(tmp_path):
    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.bn = nn.BatchNorm1d(8)
            self.register_buffer("dropped", torch.arange(8.0), persistent=False)
            self.plain = torch.full((8,), 2.0)

        def forward(self, x):
            return self.bn(x) + self.dropped + self.plain

    torch.export.save(torch.export.export(Constant().eval(), (X,)), tmp_path / "p.pt2")
    roles = {each.names[0]: each.role for each in assay.analyze_weights(tmp_path / "p.pt2").tensors}
    assert roles == {
        "bn.weight": "parameter",
        "bn.bias": "parameter",
        "bn.running_mean": "buffer",
        "bn.running_var": "buffer",
        "bn.num_batches_tracked": "buffer",
        "dropped": "buffer",
        "plain": "constant",
    }


def test_files_without_roles_have_none(tmp_path):
    model = Net()
    torch.save(model.state_dict(), tmp_path / "s.pt")
    save_file({name: value.clone() for name, value in model.state_dict().items()}, tmp_path / "s.safetensors")
    for name in ("s.pt", "s.safetensors"):
        report = assay.analyze_weights(tmp_path / name)
        assert {each.role for each in report.tensors} == {""}
        assert report.by_role == {}


def test_a_live_model_has_roles_and_a_tensor_tied_to_a_parameter_is_one():
    model = Net()
    model.register_buffer("alias", model.scale.data)
    report = assay.analyze_weights(model)
    row = next(each for each in report.tensors if "alias" in each.names)
    assert (row.names, row.role) == (("scale", "alias"), "parameter")
    assert report.by_role["parameter"].count == sum(each.numel() for each in model.parameters())


def run(capsys, *arguments):
    assert run_command(arguments) == 0
    return capsys.readouterr().out


def test_numbers_of_parameters_count_parameters_only(tmp_path, capsys):
    scripted(tmp_path / "m.pt")
    own = listed_by_torch(tmp_path / "m.pt")["parameter"][1]
    buffers = listed_by_torch(tmp_path / "m.pt")["buffer"][1]
    path = str(tmp_path / "m.pt")
    out = run(capsys, "params", path, "--width", "200")
    assert f"{own} parameters, {buffers} in buffers, 13 in other tensors" in out.splitlines()[0]
    analysis = assay.analyze(path)
    text = repr(analysis)
    assert f"{own} parameters" in text
    totals = json.loads(run(capsys, "params", path, "--format", "json"))["weights"]["by_role"]
    assert totals["parameter"]["count"] == own
    rows = [json.loads(line) for line in run(capsys, "params", path, "--format", "jsonl").splitlines()]
    assert sum(row["count"] for row in rows if row["role"] == "parameter") == own
    (tmp_path / "budget.toml").write_text(f'[models."*"]\nparameters = "{own}"\n')
    assert "passed" in run(capsys, "check", path, "--budget", str(tmp_path / "budget.toml"))
    memory = assay.memory(assay.Document(weights=analysis.document.weights))
    assert (memory.parameters.value, memory.buffers.value) == (4 * own, 4 * (buffers - 1) + 8 + 4 * 13)
    state = str(tmp_path / "s.pt")
    torch.save(Net().state_dict(), state)
    assert "parameters" not in run(capsys, "params", state).splitlines()[0]


def test_the_explorer_has_the_roles_of_the_file(tmp_path):
    from assay.api.explore.checkpoints import checkpoint_subject

    scripted(tmp_path / "m.pt")
    torch.save(Net().state_dict(), tmp_path / "s.pt")
    roles = {each.names[0]: each.role for each in checkpoint_subject(open_source(tmp_path / "m.pt")).document.tensors}
    assert (roles["inner.fc.weight"], roles["inner.bn.running_mean"]) == ("parameter", "buffer")
    stored = checkpoint_subject(open_source(tmp_path / "s.pt"))
    assert {each.role for each in stored.document.tensors} == {""}
    assert {each.kind for each in stored.inspector.attributes("inner.fc")} == {"tensor"}
