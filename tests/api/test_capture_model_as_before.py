"""A decorated model behaves as before: every use of the class and its instances, with and without captures."""

from __future__ import annotations

import copy
import io
import pickle
import threading

import pytest
import torch
from captures import active, facts, labels, traces
from torch import nn

from assay import capture_model

__all__ = ["active"]

X = torch.linspace(-1, 1, 24).reshape(3, 8)


class Plain(nn.Module):
    """The model without a decorator, as the reference."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 4)
        self.second = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))

    def forward(self, x):
        return self.second(self.first(x))


class Decorated(Plain):
    """Decorated again by each test, with captures enabled or disabled as the test requires."""


@pytest.fixture(params=["alone", "captured"])
def model(request, monkeypatch):
    """An instance of the decorated class, without and with captures."""
    if request.param == "captured":
        request.getfixturevalue("active")
    else:
        monkeypatch.delenv("ASSAY_CAPTURE", raising=False)
    assert capture_model(model_name="Net")(Decorated) is Decorated
    torch.manual_seed(0)
    return Decorated().eval()


def expected(model):
    plain = Plain().eval()
    plain.load_state_dict(model.state_dict())
    return plain(X)


def test_name_type_and_keys(model):
    assert (Decorated.__name__, Decorated.__qualname__, Decorated.__module__) == ("Decorated", "Decorated", __name__)
    assert type(model) is Decorated
    assert isinstance(model, (Plain, nn.Module))
    assert list(model.state_dict()) == list(Plain().state_dict())
    assert set(vars(model)) == set(vars(Plain()))
    assert torch.equal(model(X), expected(model))
    assert set(vars(model)) == set(vars(Plain()))
    assert repr(model).splitlines()[1:] == repr(Plain()).splitlines()[1:]


def test_pickle(model):
    model(X)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301  made a moment ago
    assert type(again) is Decorated
    assert torch.equal(again(X), expected(model))


def test_torch_save(model):
    model(X)
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    assert torch.equal(torch.load(buffer, weights_only=False)(X), expected(model))


def test_a_deep_copy_has_its_own_weights(model):
    model(X)
    copied = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.zero_()
    assert torch.equal(copied(X), torch.zeros(3, 2))
    assert torch.equal(model(X), expected(model))


def test_script(model):
    scripted = torch.jit.script(model)
    assert torch.equal(scripted(X), expected(model))


def test_trace(model):
    traced = torch.jit.trace(model, X)
    assert torch.equal(traced(X), expected(model))


def test_export(model):
    program = torch.export.export(model, (X,))
    assert torch.equal(program.module()(X), expected(model))


def test_symbolic_trace(model):
    assert torch.equal(torch.fx.symbolic_trace(model)(X), expected(model))


def test_vmap_and_functional_call(model):
    assert torch.allclose(torch.vmap(model)(X), expected(model))
    zeros = {name: torch.zeros_like(value) for name, value in model.named_parameters()}
    assert torch.equal(torch.func.functional_call(model, zeros, (X,)), torch.zeros(3, 2))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compile_produces_one_graph_and_no_recompilation(model):
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(X), expected(model))
    assert len(graphs) == 1


def test_a_compiled_model_is_captured_with_a_note_that_layers_are_hidden(active):
    capture_model(model_name="Net")(Decorated)
    model = Decorated().eval()
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager")
    for _ in range(2):
        compiled(X)
    model.compile(backend="eager")
    model(X)
    assert traces(active) == ["Net-2_forward_001.json", "Net_forward_001.json", "Net_forward_002.json"]
    for name in ("Net_forward_002.json", "Net-2_forward_001.json"):
        assert labels(active / name) == [""]
        assert "compiled" in facts(active / name).notes[0]


def test_gradients_and_hooks(model):
    seen = []
    model.register_forward_hook(lambda *_: seen.append("after"))
    model.register_forward_pre_hook(lambda *_: seen.append("before"))
    model.second.register_full_backward_hook(lambda *_: seen.append("backward"))
    model(X).sum().backward()
    assert seen == ["before", "after", "backward"]
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_parametrizations(model):
    nn.utils.parametrizations.weight_norm(model.first)
    assert torch.allclose(model(X), model.second(nn.functional.linear(X, model.first.weight, model.first.bias)))


class OnThreads(nn.DataParallel):
    """Data parallelism as torch does it, with replicas and threads but without devices."""

    def __init__(self, module, devices=2, together=True):
        super().__init__(module)
        self._devices, self._together = devices, together

    def forward(self, x):
        replicas = [_replicated(self.module) for _ in range(self._devices)]
        outputs = [None] * self._devices

        def work(index, part):
            outputs[index] = replicas[index](part)

        threads = [
            threading.Thread(target=work, args=(index, part)) for index, part in enumerate(x.chunk(self._devices))
        ]
        for thread in threads:
            thread.start()
            if not self._together:
                thread.join()  # so that the next thread gets the same thread id
        for thread in threads:
            thread.join()
        return torch.cat(outputs)


def _replicated(module):
    """What torch's `replicate` makes of a module for one device."""
    replica = module._replicate_for_data_parallel()
    for name, value in module._parameters.items():
        replica._parameters[name] = value
    for name, child in module._modules.items():
        replica._modules[name] = _replicated(child)
    return replica


def test_replicas_run_with_their_own_layers(model):
    assert torch.allclose(OnThreads(model)(X[:2]), expected(model)[:2])


@pytest.mark.parametrize("together", [True, False])
def test_replicas_are_one_trace(active, together):
    capture_model(model_name="Net")(Decorated)
    model = Decorated().eval()
    OnThreads(model, together=together)(X[:2])
    assert traces(active) == ["Net_forward_001.json"]
    paths = labels(active / "Net_forward_001.json")
    assert paths[0] == ""
    assert sorted(paths[1:]) == sorted(
        ["module", "module.first", "module.second", "module.second.0", "module.second.1"] * 2
    )
    first = next(m for m in facts(active / "Net_forward_001.json").modules if m.path == "module.first")
    assert len(first.shapes) == 2
