"""Opening is uniform: every verb and command opens a model in the same way, and opens each file once."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from versions import require

import assay
from assay.api.explore.subjects import explorer_subject
from assay.cli.main import run
from assay.errors import InputsError, ReadError, TrustError, UsageError
from assay.sources.open import open_source

SOURCE = str(Path(assay.__file__).parents[1])
X = torch.ones(2, 8)

LOADER = """
import torch
from torch import nn

class Pipeline:
    def __init__(self):
        self.unet, self.vae, self.name = nn.Linear(2, 3), nn.Sequential(nn.Linear(2, 2)), "pipeline"
    def __call__(self):
        raise RuntimeError("a pipeline is not to be called")

def load():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

def pipeline():
    return Pipeline()
"""


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()


@pytest.fixture(scope="module")
def models_folder(tmp_path_factory):
    """One model in every stored form."""
    folder = tmp_path_factory.mktemp("door")
    model = net()
    save_file(model.state_dict(), folder / "w.safetensors")
    torch.save(model.state_dict(), folder / "w.pt")
    torch.save(model, folder / "m.pt")
    torch.jit.trace(model, X).save(str(folder / "s.pt"))
    torch.export.save(torch.export.export(model, (X,)), folder / "m.pt2")
    assay.save(assay.observe(model, X), folder / "d.assay.json")
    (folder / "mod.py").write_text(LOADER)
    return folder


@pytest.fixture(scope="module")
def hf(tmp_path_factory):
    """A folder with a small model and its weights, saved by transformers."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("hf")
    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2,
        vocab_size=50,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(folder)
    return folder, model


@pytest.fixture
def remote(models_folder):
    """The same files at URLs."""
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    for path in filter(Path.is_file, models_folder.iterdir()):
        files.pipe(f"/door/{path.name}", path.read_bytes())
    yield "memory://door"
    files.rm("/door", recursive=True)


def findings(document):
    return sorted((each.code, each.title) for each in document.findings)


WEIGHTS = ("w.safetensors", "w.pt", "s.pt", "m.pt")


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_url_opens_like_the_file(models_folder, remote, name):
    here, there = models_folder / name, f"{remote}/{name}"
    norms = [[row.l2 for row in assay.analyze_weights(each).tensors] for each in (here, there)]
    assert norms[0] == norms[1]
    assert len(norms[0]) == 4
    assert findings(assay.check(here).document) == findings(assay.check(there).document)
    assert assay.analyze(there).document.weights.tensors == assay.analyze(here).document.weights.tensors
    trees = [[row.path for row in explorer_subject(each).document.modules] for each in (str(here), there)]
    assert trees[0] == trees[1]


@pytest.mark.parametrize("command", ["params", "check", "analyze"])
def test_a_url_opens_in_every_command(remote, command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run([command, f"{remote}/w.safetensors", "-q"]) == 0
    assert capsys.readouterr().out


def test_functions_that_run_the_model_reject_files_without_one(models_folder, remote):
    for name in ("w.safetensors", f"{remote}/w.safetensors"):
        source = name if "://" in name else models_folder / name
        with pytest.raises(ReadError, match="weights without code"):
            assay.cost(source)
    with pytest.raises(TrustError):
        assay.profile(models_folder / "s.pt")


def test_a_pipeline_opens_by_name_like_a_live_one(models_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(models_folder)
    spec = "mod.py::pipeline"
    live = open_source(spec).model.holder
    assert type(live).__name__ == "Pipeline"
    paths = [[row.path for row in explorer_subject(each).document.modules] for each in (spec, live)]
    assert paths[0] == paths[1] == ["", "unet", "vae", "vae.0"]
    names = [sorted(row.names[0] for row in assay.analyze_weights(each).tensors) for each in (spec, live)]
    assert names[0] == names[1] == ["unet.bias", "unet.weight", "vae.0.bias", "vae.0.weight"]
    assert run(["params", spec, "-q", "--format", "csv"]) == 0
    assert run(["check", spec, "-q"]) == 0
    assert run(["analyze", spec, "-q", "--dir", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert run(["cost", spec]) == 2
    assert "unet, vae" in capsys.readouterr().err


@pytest.mark.parametrize("container", [lambda m: {"model": m}, lambda m: [m], lambda m: (1, m)])
def test_containers_open_and_are_not_run_as_one(container):
    model = net()
    modules = container(model)
    assert assay.open(modules).model.holder is modules
    assert len(assay.analyze_weights(modules).tensors) == 4
    with pytest.raises(InputsError, match="cannot be run as one model"):
        assay.observe(modules)


def test_a_live_exported_program_gives_the_results_of_its_model():
    model = net()
    program = torch.export.export(model, (X,))
    document, plain = assay.observe(program), assay.observe(model, X)
    assert document.run.inputs_kind == "example"
    assert document.cost.forward.flops == plain.cost.forward.flops
    assert assay.profile(program, passes=2, warmup=0).timing is not None
    require("torch", "2.6", "the module tree of an exported Sequential")
    assert [row.class_name for row in document.modules] == [row.class_name for row in plain.modules]
    assert [row.path for row in document.modules] == [row.path for row in plain.modules]


def test_a_document_in_memory_opens_like_a_file(models_folder):
    document = assay.load(models_folder / "d.assay.json")
    assert assay.observe(document) == document
    assert assay.cost(document) == document.cost
    assert assay.check(document).findings == assay.check(models_folder / "d.assay.json").findings
    with pytest.raises(UsageError, match="which is not run"):
        assay.observe(document, X)


def test_a_folder_with_weights_opens_with_them(hf):
    folder, model = hf
    expected = {name: float(value.double().norm()) for name, value in model.state_dict().items()}
    weights = assay.analyze(folder).document.weights
    for row in weights.tensors:
        assert row.l2 == pytest.approx(expected[row.names[0]], rel=1e-6)
    checked = assay.check(folder).document.weights.tensors  # analyze computes spectral norms, too
    assert checked == [msgspec.structs.replace(row, spectral=None) for row in weights.tensors]
    ids = torch.arange(8).reshape(1, 8)
    loaded = open_source(str(folder)).with_weights
    assert not loaded.model.on_meta
    with torch.no_grad():
        assert torch.equal(loaded.module(ids).logits, model.eval()(ids).logits)
    assert assay.observe(folder, ids, mode="real").run.mode == "real"
    assert assay.observe(folder, ids).run.mode == "meta"


def test_the_explorer_shows_the_stored_values_of_a_folder(hf):
    folder, model = hf
    subject = explorer_subject(str(folder))
    detail = subject.inspector.tensor("model.layers.1.mlp.down_proj", "weight")
    assert detail.max == pytest.approx(model.model.layers[1].mlp.down_proj.weight.max().item())


def test_a_folder_with_an_unknown_config_opens_as_its_weights(models_folder, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "not_a_model", "architectures": ["Nothing"]}))
    (tmp_path / "model.safetensors").write_bytes((models_folder / "w.safetensors").read_bytes())
    assert len(assay.check(tmp_path).document.weights.tensors) == 4
    assert "not a config that transformers" in assay.analyze(tmp_path).missing["architecture"]
    assert "not a config that transformers" in explorer_subject(str(tmp_path)).notes[0]
    with pytest.raises(ReadError, match="not a config that transformers"):
        assay.cost(tmp_path)


BROKEN = """
raise RuntimeError("operator torchvision::nms does not exist")
"""


def test_the_error_for_a_broken_package_names_it(hf, tmp_path):
    """A torchvision that does not match torch breaks transformers; the message names the one to reinstall."""
    folder, _ = hf
    packages = tmp_path / "site-packages"
    (packages / "torchvision").mkdir(parents=True)
    (packages / "torchvision" / "__init__.py").write_text(BROKEN)
    program = (
        f"import sys; sys.path[:0] = [{str(packages)!r}, {SOURCE!r}]\n"
        "import transformers\n"
        "def broken(name):\n    import torchvision\n"
        "type(transformers).__getattr__ = lambda self, name: broken(name)\n"
        "from assay.cli.main import run\n"
        f"sys.exit(run(['cost', {str(folder)!r}]))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 3
    assert "torchvision is broken" in ran.stderr
    assert "operator torchvision::nms does not exist" in ran.stderr
    assert "reinstall or uninstall torchvision" in ran.stderr


COUNTING = """
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
name, command, path = sys.argv[1:]
if command == "explore":
    from assay.api.explore.subjects import explorer_subject
    code = 0 * len(explorer_subject(path).notes)
else:
    from assay.cli.main import run
    code = run([command, path, "-q"])
print(sum(each.endswith(name) for each in opened), file=sys.stderr)
sys.exit(code)
"""

READ_BY = {
    "w.safetensors": ("params", "check", "analyze", "explore"),
    "w.pt": ("params", "check", "analyze", "explore"),
    "s.pt": ("params", "check", "analyze", "explore"),
    "m.pt2": ("params", "check", "analyze", "explore", "cost", "summary"),
    "d.assay.json": ("check", "analyze", "explore", "cost", "summary"),
}


@pytest.mark.parametrize(("name", "command"), [(name, each) for name, all in READ_BY.items() for each in all])
def test_a_file_is_opened_once_per_command(models_folder, tmp_path, command, name):
    ran = subprocess.run(
        [sys.executable, "-c", COUNTING, name, command, str(models_folder / name)],
        cwd=tmp_path,
        env={"PYTHONPATH": SOURCE, "PATH": "", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.splitlines()[-1] == "1"


def test_run_fields_survive_saving(tmp_path):
    """Saving and loading a document keeps the fields of its run."""

    class Stops(nn.Module):
        def forward(self, x):
            return x.argmax(-1)

    document = assay.observe(Stops(), torch.randn(2, 4), backward=True)
    assert document.run.inputs_kind == "given"
    assert document.run.backward_failure is not None
    assay.save(document, tmp_path / "m.assay.json")
    assert msgspec.to_builtins(assay.load(tmp_path / "m.assay.json").run) == msgspec.to_builtins(document.run)


def test_a_trusted_program_runs_through_every_verb(models_folder):
    """A document read from the file has no storages; a document of a run has."""
    program = models_folder / "m.pt2"
    assert not assay.observe(program).storages
    assert assay.observe(program, trust=True).storages
    assert assay.observe(program, torch.ones(5, 8), trust=True).run.inputs_kind == "given"
    assert assay.check(program, trust=True).document.storages
    assert assay.analyze(program, trust=True).document.storages
    assert assay.cost(program, trust=True, backward=True).backward is not None


def test_a_training_step_that_a_document_lacks_is_an_error(models_folder):
    document = assay.load(models_folder / "d.assay.json")
    roofline = functools.partial(assay.roofline, device="H100")
    for verb in (assay.observe, assay.cost, assay.memory, roofline):
        with pytest.raises(UsageError, match="backward cannot be used with"):
            verb(document, backward=True)


def test_weights_in_memory_are_checked_like_those_in_files(tmp_path):
    model = net()
    with torch.no_grad():
        model[0].weight[0, 0] = float("nan")
    torch.save(model.state_dict(), tmp_path / "w.pt")
    sources = (model, [model], tmp_path / "w.pt", torch.export.export(model, (X,)))
    codes = [{finding.code for finding in assay.check(each, select="W1").findings} for each in sources]
    assert all("W101" in each for each in codes)


def test_code_and_configs_at_urls_are_rejected_in_one_line(models_folder, hf, remote):
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe("/door/config.json", (hf[0] / "config.json").read_bytes())
    with pytest.raises(ReadError, match=r"memory://door/config.json is a config at a URL.*download it"):
        assay.observe(f"{remote}/config.json")
    for name in ("m.pt", "s.pt", "m.pt2"):
        with pytest.raises(ReadError, match=r"at a URL, but code runs only from local files"):
            assay.observe(f"{remote}/{name}", trust=True)


def test_a_function_can_return_a_document_and_sets_of_modules_open(models_folder, monkeypatch):
    document = assay.load(models_folder / "d.assay.json")
    assert assay.observe(lambda: document) == document
    for modules in ({net()}, frozenset([net()])):
        assert len(assay.analyze_weights(modules).tensors) == 4


@pytest.mark.parametrize("source", [3, b"w.pt", [torch.ones(2)], {"lr": 0.1}])
def test_the_error_for_an_object_that_cannot_be_opened_names_it(source):
    with pytest.raises(UsageError, match="cannot open") as caught:
        assay.open(source)
    assert repr(source)[:20] in str(caught.value)
    assert "expected" in str(caught.value)


def test_weights_larger_than_memory_are_not_loaded(hf, monkeypatch):
    monkeypatch.setattr("assay.host.free_memory", lambda: 1000)
    with pytest.raises(UsageError, match=r"of memory is free: use meta mode"):
        assay.observe(hf[0], mode="real")
    assert assay.observe(hf[0]).run.mode == "meta"


@pytest.mark.parametrize(
    "options",
    [
        {"passes": 0}, {"passes": -3}, {"warmup": -1}, {"seconds": float("nan")}, {"threads": 0},
        {"thread_counts": 3}, {"thread_counts": [0]}, {"sweeps": "batch=1,2"},
        {"sweeps": {"batch": [1]}}, {"sweeps": [("batch", [0])]},
        {"memory_limit": -1}, {"price": -1}, {"pue": 0.1}, {"grid": "XX"}, {"optimizer": "nope"},
    ],
    ids=str,
)  # fmt: skip
def test_options_of_a_profile_are_checked_before_anything_runs(options):
    def unbuilt():
        pytest.fail("the model was built before the options were checked")

    with pytest.raises(UsageError):
        assay.profile(unbuilt, **options)


def test_weights_are_checked_even_if_no_pass_is_possible():
    model = nn.ModuleDict({"a": net()})
    with torch.no_grad():
        model["a"][0].weight[0, 0] = float("nan")
    assert "W101" in {each.code for each in assay.check(model).findings}


@pytest.mark.parametrize("options", [{"device": "bogus"}, {"dtype": "bogus"}])
@pytest.mark.parametrize("verb", [assay.observe, assay.check, assay.analyze, assay.profile])
def test_every_verb_rejects_an_unknown_device_or_dtype(verb, options):
    with pytest.raises(UsageError, match="bogus"):
        verb(net(), **options)
