"""Opening a model: live modules, callables, packages, and strings that name nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from opening import open_model

import assay
from assay.errors import AssayError, ReadError, UsageError, UserCodeError


def test_a_live_module_is_opened_as_it_is():
    module = torch.nn.Linear(2, 3)
    opened = open_model(module)
    assert opened.module is module
    assert opened.document is None
    assert opened.model.on_meta is False
    assert (opened.origin.kind, opened.origin.name) == ("live", "Linear")
    assert opened.origin.location == "torch.nn.modules.linear.Linear"


def test_a_model_with_meta_parameters_is_on_meta():
    assert open_model(torch.nn.Linear(2, 3, device="meta")).model.on_meta


def test_callables_and_classes_are_called():
    assert open_model(lambda: torch.nn.Identity()).origin.kind == "live"
    opened = open_model(torch.nn.Linear, model_args={"in_features": 2, "out_features": 5})
    assert opened.module.out_features == 5
    assert opened.origin.name == "Linear"


def test_a_callable_that_raises_is_a_user_code_error():
    def broken():
        raise ValueError("no")

    with pytest.raises(UserCodeError, match=r"broken\(\) raised ValueError: no"):
        open_model(broken)


def test_model_args_for_a_live_module_are_rejected():
    with pytest.raises(UsageError, match="takes no arguments"):
        open_model(torch.nn.Identity(), model_args={"a": 1})


@pytest.mark.parametrize("value", [None, 3, b"bytes", [], {"lr": 0.1}])
def test_objects_that_are_not_models_are_rejected(value):
    with pytest.raises(UsageError, match=r"cannot open (a|None)"):
        open_model(value)


def test_a_package_callable_is_imported_and_called():
    opened = open_model("torch.nn:Linear", model_args={"in_features": 2, "out_features": 5})
    assert opened.module.out_features == 5
    assert (opened.origin.kind, opened.origin.location, opened.origin.name) == (
        "package",
        "torch.nn:Linear",
        "Linear",
    )


def test_a_dotted_attribute_after_the_colon():
    assert isinstance(open_model("torch:nn.Identity").module, torch.nn.Identity)


def test_the_current_directory_is_importable_and_not_confused_with_another(tmp_path, monkeypatch):
    path = list(sys.path)
    for folder, width in (("a", 2), ("b", 3)):
        package = tmp_path / folder / "zoo"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "nets.py").write_text(f"import torch\ndef make(): return torch.nn.Linear({width}, 1)")
    for folder, width in (("a", 2), ("b", 3), ("a", 2)):
        monkeypatch.chdir(tmp_path / folder)
        assert open_model("zoo.nets:make").module.in_features == width
    assert sys.path == path


@pytest.mark.parametrize(
    ("text", "kind", "part"),
    [
        ("", UsageError, "no model was given"),
        ("   ", UsageError, "no model was given"),
        ("gone", ReadError, "no such file or directory: gone"),
        ("some/where.pt", ReadError, "no such file or directory: some/where.pt"),
        ("a\0b", UsageError, "NUL"),
        ("a\0b.py::f", UsageError, "NUL"),
        ("not_a_package_at_all:f", ReadError, "no module not_a_package_at_all"),
        ("torch.not_there:f", ReadError, "no module torch.not_there"),
        ("torch.nn:Lineer", ReadError, "did you mean Linear"),
        ("torch:version.cuda_is_no_model", ReadError, "has no"),
        ("torch:pi", ReadError, "pi in torch is a float"),
        ("torch.nn:functional", ReadError, "torch.nn.functional is a Python module, not a torch.nn.Module"),
        ("model::load", ReadError, "no such file or directory: model::load"),
        ("x" * 100_000, ReadError, "no such file or directory: xxx"),
        ("x" * 100_000 + ".py::f", ReadError, "no such file or directory: xxx"),
        ("y" * 100_000 + ":f", ReadError, "yyy"),
        ("torch:" + "f" * 100_000, ReadError, "has no"),
        ("a\nb", ReadError, r"a\nb"),
    ],
)
def test_the_error_for_an_unknown_name_is_one_short_line(text, kind, part):
    with pytest.raises(AssayError) as caught:
        open_model(text)
    assert type(caught.value) is kind
    assert part in str(caught.value)
    assert len(str(caught.value)) < 600
    assert str(caught.value).isprintable()


def test_opening_a_document_does_not_import_torch(tmp_path):
    from assay.document.document import Document
    from assay.document.files import save

    path = tmp_path / "m.assay.json"
    save(Document(), path)
    program = (
        "import sys; sys.modules['torch'] = None; sys.modules['transformers'] = None\n"
        "from assay.sources.open import open_source as open_model\n"
        "import assay.sources.inputs\n"
        f"assert open_model({str(path)!r}).document is not None\n"
        "try: open_model('json:dumps')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    child = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(Path(assay.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert child.stdout.startswith("ReadError")
    assert "pip install torch-assay[torch]" in child.stdout
