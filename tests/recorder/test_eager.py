"""Compiled parts of a model: recorded op by op, and compiled as before afterwards, with and without `set_stance`."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo
from torch import nn

from assay.recorder import passes

X = torch.linspace(-1, 1, 8).reshape(2, 4)


@pytest.fixture(params=["as installed", "before torch 2.6"], autouse=True)
def _stance(request, monkeypatch):
    """The compiler of the installed torch, and one without `set_stance`, which torch 2.6 introduced."""
    if request.param != "as installed":
        monkeypatch.delattr(torch.compiler, "set_stance", raising=False)


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.layer(x))


class Backend:
    """A compiler that counts how often it compiles, and how often its code runs."""

    def __init__(self):
        self.compiled = self.runs = 0

    def __call__(self, graph, inputs):
        self.compiled += 1

        def run(*args):
            self.runs += 1
            return graph.forward(*args)

        return run


@pytest.fixture
def backend():
    torch._dynamo.reset()
    yield Backend()
    torch._dynamo.reset()


def _as_module(inner, backend):
    return nn.Sequential(nn.Linear(4, 4), torch.compile(inner, backend=backend))


def _in_place(inner, backend):
    inner.compile(backend=backend)
    return nn.Sequential(nn.Linear(4, 4), inner)


class CallsCompiled(nn.Module):
    def __init__(self, inner, backend):
        super().__init__()
        self.first, self.inner = nn.Linear(4, 4), inner
        self._apply_inner = torch.compile(lambda x: inner(x), backend=backend)

    def forward(self, x):
        return self._apply_inner(self.first(x))


@pytest.mark.parametrize("build", [_as_module, _in_place, CallsCompiled])
@pytest.mark.parametrize("warm", [True, False])
def test_compiled_code_is_recorded_op_by_op_and_compiled_afterwards(backend, build, warm):
    model = build(Inner(), backend).eval()
    with torch.no_grad():
        expected = model(X) if warm else None
        before = (backend.compiled, backend.runs)
        recorded = passes.observe(model, (X,), {}, mode="real")
        assert recorded.failure is None
        assert [recorded.kinds[op.kind].target.split(".")[1] for op in recorded.ops] == ["linear", "linear", "relu"]
        assert (backend.compiled, backend.runs) == before
        result = model(X)
    assert (backend.compiled, backend.runs) == (1, before[1] + 1)
    assert expected is None or torch.equal(result, expected)
