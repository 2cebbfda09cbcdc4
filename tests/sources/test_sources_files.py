"""`path/file.py::name`: what it can name and import, and that no trace of it is left behind."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from pathlib import Path

import pytest
import torch
from opening import open_model

from assay.errors import ReadError, UsageError

MODEL = """
import torch
class Net(torch.nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.layer = torch.nn.Linear(width, 2)
    def forward(self, x):
        return self.layer(x)
def load_model():
    return Net()
def sized(width, *, bias=True):
    return torch.nn.Linear(width, 2, bias=bias)
def number():
    return 7
ready = Net(9)
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "my_model.py", MODEL)
    return "my_model.py"


def test_a_function_a_class_and_an_instance_are_opened(file):
    assert open_model(f"{file}::load_model").module.layer.in_features == 4
    assert open_model(f"{file}::Net", model_args={"width": 6}).module.layer.in_features == 6
    assert open_model(f"{file}::ready").module.layer.in_features == 9


def test_the_origin_is_what_the_user_wrote(file, tmp_path):
    origin = open_model(f"{file}::load_model").origin
    assert (origin.kind, origin.location, origin.name) == ("file", "my_model.py:load_model", "load_model")
    absolute = f"{tmp_path}/{file}"
    assert open_model(f"{absolute}::load_model").origin.location == f"{absolute}:load_model"


def test_a_printed_location_can_be_opened_again(file):
    location = open_model(f"{file}::load_model").origin.location
    assert open_model(location).origin.location == location


def test_model_args_reach_the_function(file):
    module = open_model(f"{file}::sized", model_args={"width": 5, "bias": False}).module
    assert module.in_features == 5
    assert module.bias is None


@pytest.mark.parametrize(
    ("name", "arguments", "parts"),
    [
        ("sized", None, ["sized() in my_model.py", "width", "give them with --model-args"]),
        ("sized", {"width": 1, "depth": 3}, ["depth", "(width, bias=True)"]),
        ("load_model", {"width": 1}, ["load_model() in my_model.py", "takes no arguments"]),
        ("ready", {"width": 1}, ["width", "takes no arguments"]),
    ],
)
def test_model_args_that_do_not_fit_are_a_usage_error(file, name, arguments, parts):
    with pytest.raises(UsageError) as caught:
        open_model(f"{file}::{name}", model_args=arguments)
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("arguments", [["width"], {1: 2}, "width"])
def test_model_args_must_be_a_mapping(file, arguments):
    with pytest.raises(UsageError, match="must be a mapping from names to values"):
        open_model(f"{file}::sized", model_args=arguments)


def test_the_error_for_a_wrong_return_value_names_the_function_and_the_type(file):
    with pytest.raises(ReadError, match=r"number\(\) in my_model.py returned an int"):
        open_model(f"{file}::number")


def test_the_error_for_a_wrong_name_suggests_similar_names(file):
    with pytest.raises(ReadError, match=r"no 'load_modl': did you mean load_model\?"):
        open_model(f"{file}::load_modl")


def test_the_error_for_an_unrelated_name_lists_the_names_in_the_file(file):
    with pytest.raises(ReadError, match=r"it has Net, load_model, number"):
        open_model(f"{file}::zzz")


def test_a_missing_file_is_a_read_error(tmp_path):
    with pytest.raises(ReadError, match=r"no such file or directory: .*gone\.py"):
        open_model(f"{tmp_path}/gone.py::load")


def test_a_file_without_a_function_is_a_usage_error(file):
    with pytest.raises(UsageError, match=r"my_model\.py::load_model"):
        open_model(file)


def test_siblings_are_imported_by_name_and_relatively_and_are_one_module(tmp_path):
    write(tmp_path / "parts/blocks.py", "class Block: pass")
    write(
        tmp_path / "parts/net.py",
        """
import torch
import blocks
import blocks as renamed
from blocks import Block
from . import blocks as relative
def load():
    assert blocks is relative is renamed and blocks.Block is Block
    return torch.nn.Identity()
""",
    )
    assert isinstance(open_model(f"{tmp_path}/parts/net.py::load").module, torch.nn.Identity)


def test_a_package_can_import_from_its_parents(tmp_path):
    write(tmp_path / "top/__init__.py", "")
    write(tmp_path / "top/shared_width.py", "WIDTH = 3")
    write(tmp_path / "top/models/__init__.py", "from ..shared_width import WIDTH as INIT")
    write(
        tmp_path / "top/models/net.py",
        """
import torch
from ..shared_width import WIDTH
import top.shared_width
import top.models.net
from top.models import INIT
def load():
    assert top.models.net.load is load
    return torch.nn.Linear(WIDTH + INIT, top.shared_width.WIDTH)
""",
    )
    module = open_model(f"{tmp_path}/top/models/net.py::load").module
    assert (module.in_features, module.out_features) == (6, 3)
    assert "top" not in sys.modules


def test_files_of_the_same_name_in_two_folders_are_not_confused(tmp_path):
    for folder, width in (("a", 2), ("b", 3)):
        write(tmp_path / folder / "net.py", "import torch, helper\ndef load(): return helper.make()")
        write(tmp_path / folder / "helper.py", f"import torch\ndef make(): return torch.nn.Linear({width}, 1)")
    widths = [open_model(f"{tmp_path}/{folder}/net.py::load").module.in_features for folder in "abab"]
    assert widths == [2, 3, 2, 3]


def test_nothing_is_left_behind(tmp_path):
    write(
        tmp_path / "net.py",
        "import torch, importlib, sibling_one\n"
        "def load():\n import sibling_two\n importlib.import_module('sibling_three')\n return torch.nn.Identity()",
    )
    for name in ("sibling_one", "sibling_two", "sibling_three"):
        write(tmp_path / f"{name}.py", "")
    path, before = list(sys.path), set(sys.modules)
    open_model(f"{tmp_path}/net.py::load")
    assert sys.path == path
    assert not {name for name in set(sys.modules) - before if not name.startswith("__user")}
    assert not (tmp_path / "__pycache__").exists()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("sibling_one")


def test_imports_made_later_in_forward_still_work(tmp_path):
    write(tmp_path / "late.py", "def double(x): return x * 2")
    write(
        tmp_path / "net.py",
        """
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        import late
        from .late import double
        assert late.double is double
        return double(x)
""",
    )
    module = open_model(f"{tmp_path}/net.py::Net").module
    assert module(torch.ones(1)).item() == 2


def test_classes_keep_their_source_and_their_module(tmp_path):
    write(tmp_path / "net.py", MODEL)
    kind = type(open_model(f"{tmp_path}/net.py::load_model").module)
    assert inspect.getsource(kind).startswith("class Net")
    assert getattr(sys.modules[kind.__module__], "Net") is kind  # noqa: B009


def test_a_file_runs_once_until_it_or_a_sibling_changes(tmp_path):
    write(
        tmp_path / "net.py", "import torch, width\ndef load(): return torch.nn.Linear(width.WIDTH, 1)\ntag = object"
    )
    sibling = write(tmp_path / "width.py", "WIDTH = 1")
    first, again = (open_model(f"{tmp_path}/net.py::load").module for _ in range(2))
    assert first.in_features == again.in_features == 1
    write(sibling, "WIDTH = 2")
    os.utime(sibling, ns=(1, 1))
    assert open_model(f"{tmp_path}/net.py::load").module.in_features == 2


def test_a_sibling_named_like_an_installed_package_does_not_replace_it(tmp_path):
    write(tmp_path / "msgspec.py", "MINE = True")
    write(tmp_path / "net.py", "import torch, msgspec\nassert msgspec.MINE\ndef load(): return torch.nn.Identity()")
    open_model(f"{tmp_path}/net.py::load")
    assert hasattr(importlib.import_module("msgspec"), "Struct")


def test_a_file_can_have_the_name_of_a_package_it_imports(tmp_path):
    write(tmp_path / "torch.py", "from torch import nn\ndef load(): return nn.Identity()")
    assert isinstance(open_model(f"{tmp_path}/torch.py::load").module, torch.nn.Identity)


def test_a_folder_next_to_the_file_does_not_hide_a_package(tmp_path):
    (tmp_path / "torch").mkdir()
    write(tmp_path / "data" / "sizes.py", "WIDTH = 8")
    write(
        tmp_path / "net.py",
        "import torch\nfrom data.sizes import WIDTH\ndef load(): return torch.nn.Linear(WIDTH, 1)",
    )
    assert open_model(f"{tmp_path}/net.py::load").module.in_features == 8


@pytest.mark.parametrize("name", ["my-net.py", "net.v2.py", "1net.py"])
def test_file_names_that_an_import_statement_cannot_express(tmp_path, name):
    write(tmp_path / name, MODEL)
    assert open_model(f"{tmp_path}/{name}::load_model").module.layer.in_features == 4


def test_installed_packages_keep_their_own_name():
    linear = f"{os.path.dirname(torch.nn.__file__)}/modules/linear.py"
    module = open_model(f"{linear}::Linear", model_args={"in_features": 1, "out_features": 2}).module
    assert type(module) is torch.nn.Linear


def test_a_dotted_name_reaches_into_a_class(tmp_path):
    write(tmp_path / "net.py", "import torch\nclass Zoo:\n  @staticmethod\n  def small(): return torch.nn.Identity()")
    assert open_model(f"{tmp_path}/net.py::Zoo.small").origin.name == "Zoo.small"
