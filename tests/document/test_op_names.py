"""The shipped op names against the installed torch; run this file as a script to regenerate the data file."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from assay.document import op_names

DATA = Path(op_names.__file__).with_name("op_names.json")
GENERATED_WITH = "2.13"
"""The torch version the data file was generated with; other versions have other ops."""


def generated() -> dict[str, str]:
    """The public name of every ATen op that has one in the installed torch, by base name."""
    import torch

    names = (name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names())
    bases = {name.removeprefix("aten::") for name in names if name.startswith("aten::")}
    return {base: name for base in sorted(bases) if (name := _public(base, (torch, torch.nn.functional)))}


NAMESAKES = {"unfold"}
"""Public functions that share an op's name but do something else (`aten.unfold` is `Tensor.unfold`)."""


def _public(base: str, modules: tuple[ModuleType, ...]) -> str | None:
    if base.startswith("_") or base in NAMESAKES:
        return None
    for module in modules:
        if inspect.isroutine(getattr(module, base, None)):
            return f"{module.__name__}.{base}"
    return None


def test_the_data_file_matches_the_installed_torch():
    torch = pytest.importorskip("torch")
    if not torch.__version__.startswith(f"{GENERATED_WITH}."):
        pytest.skip(f"generated with torch {GENERATED_WITH}, installed is {torch.__version__}")
    assert json.loads(DATA.read_text()) == generated()


@pytest.mark.parametrize(
    ("namespace", "base", "expected"),
    [
        ("aten", "conv2d", "torch.conv2d"),
        ("aten", "relu_", "torch.relu_"),
        ("aten", "linear", "torch.nn.functional.linear"),
        (
            "aten",
            "scaled_dot_product_attention",
            "torch.nn.functional.scaled_dot_product_attention",
        ),
        ("aten", "view", "torch.ops.aten.view"),
        ("aten", "unfold", "torch.ops.aten.unfold"),
        ("aten", "_softmax", "torch.ops.aten._softmax"),
        ("aten", "float", "torch.ops.aten.float"),
        ("mine", "conv2d", "torch.ops.mine.conv2d"),
        ("aten", "no_such_operation", "torch.ops.aten.no_such_operation"),
    ],
)
def test_public_name(namespace: str, base: str, expected: str):
    assert op_names.public_name(namespace, base) == expected


def test_public_names_do_not_need_torch():
    code = (
        "import sys; from assay.document.op_names import public_name; "
        "assert public_name('aten', 'add') == 'torch.add'; assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


if __name__ == "__main__":
    DATA.write_text(json.dumps(generated(), indent=0) + "\n")
