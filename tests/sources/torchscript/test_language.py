"""Code of TorchScript files on plain values gives what torch.jit gives."""

from pathlib import Path

import pytest
import torch
from sources.torchscript.language import CASES

from assay.sources.open import open_source


def plain(value):
    """A value as nested tuples, so that torch.jit's named tuples compare with those of the interpreter."""
    if isinstance(value, (list, tuple)):
        return tuple(plain(item) for item in value)
    return {key: plain(item) for key, item in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize(("module", "args"), CASES, ids=lambda value: type(value).__name__)
def test_values_are_those_of_torch(tmp_path, module, args):
    path = tmp_path / "m.pt"
    scripted = torch.jit.script(module)
    torch.jit.save(scripted, path)
    result = open_source(Path(path)).module(*args)
    assert plain(result) == plain(scripted(*args))
