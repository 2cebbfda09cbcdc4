"""Scripts, exported programs and patches that apply changes: they run without Assay and reproduce the verdict."""

from __future__ import annotations

import builtins
import subprocess
import symtable
import sys
from pathlib import Path

import pytest
import torch

from assay.api.apply import apply_changes
from assay.api.options import RunOptions
from assay.document.provenance import Figure, Measured
from assay.document.trials import FASTER, TrialResult
from assay.errors import UsageError
from assay.sources.open import open_source
from assay.trials.change import changes
from assay.trials.loading_code import value_code

NET = '''"""A model with a long dash – in its docstring."""

import torch
from torch import nn

from neighbour import WIDTH


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3)
        self.norm = nn.BatchNorm2d(width)
        self.out = nn.Linear(width, 10)

    def forward(self, x):
        return self.out(self.norm(self.conv(x)).relu().mean((2, 3)))


def load(width=WIDTH):
    def inner():
        return None

    model = Net(width)
    with torch.no_grad():
        model.norm.running_mean.fill_(0.5)
    assert "–" and True; return (  # the model
        model
    )


def unclear(which=True):
    if which:
        return Net(4)
    return Net(8)


def pair():
    return Net(4), 1


def get_inputs():
    return torch.ones(2, 3, 8, 8)


existing = Net(4)
'''
INPUTS = "2x3x8x8"
TRIAL = TrialResult(
    ("fold_batch_norm",),
    ("S203",),
    verdict=FASTER,
    speedup=Figure(1.5, Measured("clock", 24, range=(1.4, 1.6))),
)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    (tmp_path / "net.py").write_text(NET, encoding="utf-8")
    (tmp_path / "neighbour.py").write_text("WIDTH = 8\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("net", "neighbour"):
        monkeypatch.delitem(sys.modules, name, raising=False)  # other tests have modules of this name
    return tmp_path


def write(names, output, source="net.py::load", inputs=INPUTS, **options):
    run = options.pop("options", RunOptions())
    return apply_changes(source, inputs, run, names, Path(output), seconds=0.01, **options)


def run(script, cwd):
    """The result of running a script in an interpreter that cannot import Assay."""
    blocked = "import sys, runpy; sys.modules['assay'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
    return subprocess.run([sys.executable, "-c", blocked, str(script)], cwd=cwd, capture_output=True, text=True)


@pytest.mark.parametrize("inputs", [INPUTS, "net.py::get_inputs", None])
def test_a_script_runs_without_assay_from_any_directory(folder, tmp_path_factory, inputs):
    (folder / "sub").mkdir()
    written = write(
        ["S203"], "sub/out.py", inputs=inputs, options=RunOptions(model_args={"width": 4}), trials=[TRIAL]
    )
    assert written.changes == ("fold_batch_norm",)
    done = run(folder / "sub" / "out.py", tmp_path_factory.mktemp("elsewhere"))
    assert done.returncode == 0, done.stderr
    assert "outputs: largest difference" in done.stdout
    assert "speed: " in done.stdout
    assert "fold_batch_norm: 1.50× [1.40–1.60]" in (folder / "sub" / "out.py").read_text(encoding="utf-8")


def test_a_script_fails_if_outputs_differ(folder):
    write(["fold_batch_norm"], "out.py")
    text = Path("out.py").read_text(encoding="utf-8")
    assert "layer.bias = nn.Parameter(bias" in text
    Path("out.py").write_text(text.replace("layer.bias = nn.Parameter(bias", "layer.bias = nn.Parameter(2 * bias"))
    done = run("out.py", folder)
    assert done.returncode == 1, done.stdout + done.stderr


def test_a_script_applies_a_stack_in_an_order_that_works(folder):
    written = write(
        ["threads=3", "bfloat16_autocast", "channels_last", "fold_batch_norm", "inference_mode"], "out.py"
    )
    assert written.changes[:2] == ("fold_batch_norm", "channels_last")
    assert written.changes[-1] == "threads=3"
    done = run("out.py", folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("source", ["net:load", "net:existing", "net.py::Net"])
def test_a_script_loads_what_a_specifier_names(folder, source):
    arguments = {"width": 4} if source == "net.py::Net" else None
    write(["channels_last"], "out.py", source=source, options=RunOptions(model_args=arguments))
    done = run("out.py", folder)
    assert done.returncode == 0, done.stderr


def test_a_script_loads_a_config_with_transformers(folder):
    from transformers import BertConfig

    BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16).save_pretrained("b")
    write(["fuse_qkv"], "out.py", source="b", inputs="input_ids=1x6:int64[0,100]")
    assert "transformers.BertModel(" in Path("out.py").read_text(encoding="utf-8")
    done = run("out.py", folder)
    assert done.returncode == 0, done.stderr


def test_the_code_of_every_change_is_complete(folder):
    """Every name in a script is defined in it, for all changes together."""
    names = [f"{change.name}=2" if change.options else change.name for change in changes()]
    write(names, "out.py")
    table = symtable.symtable(Path("out.py").read_text(encoding="utf-8"), "out.py", "exec")
    defined = {each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported()}
    defined |= {child.get_name() for child in table.get_children()} | set(vars(builtins)) | {"__file__"}
    assert undefined(table, defined) == set()


def undefined(table, defined):
    own = {each.get_name() for each in table.get_symbols() if each.is_global() and each.is_referenced()}
    return (own - defined).union(*(undefined(child, defined) for child in table.get_children()))


def test_an_exported_program_contains_what_alters_the_model(folder):
    opened = open_source("net.py::load")
    before = {name: tensor.clone() for name, tensor in opened.module.state_dict().items()}
    names = ["fold_batch_norm", "channels_last", "inference_mode", "threads=3"]
    written = write(names, "out.pt2", opened=opened)
    assert (written.changes, written.left_out) == (
        ("fold_batch_norm", "channels_last"),
        ("inference_mode", "threads=3"),
    )
    assert opened.module.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in opened.module.state_dict().items())
    x, model = torch.randn(2, 3, 8, 8), opened.module.eval()
    program = torch.export.load("out.pt2")
    assert not any("batch_norm" in str(node.target) for node in program.graph.nodes)
    with torch.no_grad():
        torch.testing.assert_close(program.module()(x), model(x), rtol=1e-4, atol=1e-5)


def test_an_exported_program_needs_a_change_of_the_model(folder):
    with pytest.raises(UsageError, match=r"threads=3 alter how the model runs, not the model"):
        write(["threads=3"], "out.pt2")
    assert not Path("out.pt2").exists()


@pytest.mark.parametrize("tool", [["git", "apply"], ["patch", "-p1", "-i"]], ids=["git", "patch"])
def test_a_patch_changes_what_the_function_returns(folder, tool):
    torch.manual_seed(0)
    before = open_source("net.py::load").module.eval()
    write(["fold_batch_norm", "channels_last"], "out.patch")
    subprocess.run([*tool, "out.patch"], check=True, capture_output=True)
    torch.manual_seed(0)
    after = open_source("net.py::load").module
    assert isinstance(after.norm, torch.nn.Identity)
    x = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(after(x), before(x), rtol=1e-4, atol=1e-5)
    with pytest.raises(UsageError, match="has a function apply_assay_changes already"):
        write(["channels_last"], "again.patch", source="net.py::unclear")


@pytest.mark.parametrize(
    ("source", "names", "message"),
    [
        ("net.py::unclear", ["channels_last"], "does not return one model in one place"),
        ("net.py::pair", ["channels_last"], "net.py returned a tuple|cannot be run as one model|one model in one"),
        ("net.py::existing", ["channels_last"], "is not a plain function"),
        ("net:load", ["channels_last"], "needs a model given as file.py::function"),
        ("net.py::load", ["inference_mode", "channels_last"], "^inference_mode: a patch cannot change how a model"),
        ("net.py::load", ["bfloat16_weights"], "bfloat16_weights: a patch cannot change how a model is called"),
    ],
)
def test_a_patch_that_would_be_a_guess_is_refused(folder, source, names, message):
    with pytest.raises(UsageError, match=message):
        write(names, "out.patch", source=source)
    assert not Path("out.patch").exists()


def test_a_live_model_cannot_be_loaded_by_a_script(folder):
    with pytest.raises(UsageError, match=r"exists only in memory: give it as file.py::function"):
        write(["channels_last"], "out.py", source=open_source("net.py::load").module)


def test_nothing_is_overwritten_unless_forced(folder):
    Path("out.py").write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        write(["channels_last"], "out.py")
    assert Path("out.py").read_text() == "mine"
    write(["channels_last"], "out.py", force=True)
    assert Path("out.py").read_text() != "mine"


@pytest.mark.parametrize(
    ("names", "output", "message"),
    [
        (["threads"], "out.py", "threads needs a value: for example threads=2"),
        (["C211"], "out.py", "unknown change|stands for several changes"),
        (["S203"], "out.txt", r"must end in .py, .pt2, .patch, .diff"),
        ([], "out.py", "no change was given"),
    ],
)
def test_a_request_that_is_not_clear_is_refused(folder, names, output, message):
    with pytest.raises(UsageError, match=message):
        write(names, output)


def test_a_code_stands_for_what_was_fastest(folder):
    slower = TrialResult(("threads=3",), ("C214",), verdict=FASTER, speedup=Figure(1.1, Measured("clock")))
    faster = TrialResult(("threads=2",), ("C214",), verdict=FASTER, speedup=Figure(1.2, Measured("clock")))
    assert write(["threads"], "out.py", trials=[slower, faster]).changes == ("threads=2",)


@pytest.mark.parametrize(
    "value",
    [
        (),
        (1, None, "x"),
        {"a": [1.5, True]},
        torch.tensor([1.0, float("inf"), float("-inf")]),
        torch.arange(100).expand(2, 100),
        torch.ones(3, 50, dtype=torch.bool),
        torch.full((100,), -7, dtype=torch.int32),
        torch.tensor(3),
    ],
)
def test_values_are_written_as_code_that_gives_them_back(value):
    read = eval(value_code(value), {"torch": torch})  # noqa: S307
    if isinstance(value, torch.Tensor):
        assert torch.equal(read, value)
        assert read.dtype == value.dtype
    else:
        assert read == value


def test_large_tensors_become_random_ones_of_their_kind():
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 90, (2, 300), generator=generator)
    read = eval(value_code((ids, torch.randn(10, 20).half())), {"torch": torch, "GENERATOR": generator})  # noqa: S307
    assert (read[0].shape, read[0].dtype) == (ids.shape, ids.dtype)
    assert ids.min() <= read[0].min()
    assert read[0].max() <= ids.max()
    assert (read[1].shape, read[1].dtype) == ((10, 20), torch.float16)


def test_inputs_that_cannot_be_written_are_refused():
    with pytest.raises(UsageError, match=r"inputs of type object cannot be written into a script: give them with"):
        value_code((object(),))
