"""A pass leaves the model unchanged, bit for bit, even after errors."""

from __future__ import annotations

import logging
import random
import threading

import numpy as np
import pytest
import torch
from clocks import HANG_S
from models import hard
from recorder.bare import split
from torch import nn

from assay.recorder import passes

LAZY = {"lazy_modules"}
"""Uninitialised parameters have no bytes to compare; a separate test checks them."""


def fingerprint(model, inputs):
    """Everything that must not change, by value and by identity."""
    tensors = {
        name: (
            id(tensor),
            tensor.data_ptr(),
            _bytes(tensor),
            tensor.requires_grad,
            id(tensor.grad),
            tensor.device,
        )
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]
    }
    modules = {name: (id(module), module.training, _plain_state(module)) for name, module in model.named_modules()}
    input_bytes = [_bytes(value) for value in _leaves(inputs)]
    state = (torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist())
    return tensors, modules, input_bytes, state


def _plain_state(module):
    if isinstance(module, torch.jit.ScriptModule):
        return None
    return {
        name: (id(value), [id(item) for item in (value.values() if isinstance(value, dict) else value)])
        if isinstance(value, (dict, list, set))
        else id(value)
        for name, value in module.__dict__.items()
        if name != "training"
    }


def _bytes(tensor):
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided or tensor.is_quantized:
        return None
    if type(tensor) not in (torch.Tensor, nn.Parameter, getattr(nn, "Buffer", None)):
        return None
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _leaves(value):
    return [leaf for leaf in torch.utils._pytree.tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize("mode", ["real", "meta"])
@pytest.mark.parametrize("name", sorted((set(hard.CASES) | set(hard.FAILING)) - LAZY))
def test_hard_cases_do_not_change(name, mode):
    model, inputs = {**hard.CASES, **hard.FAILING}[name]()
    args, kwargs = split(inputs)
    before = fingerprint(model, inputs)
    passes.observe(model, args, kwargs, mode=mode)
    assert fingerprint(model, inputs) == before


def test_lazy_modules_stay_lazy():
    model = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())
    result = passes.observe(model, (torch.randn(2, 3),), {}, mode="real")
    assert result.failure is None
    assert result.tensors[0].type.shape == (4, 3)
    assert type(model[0]) is nn.LazyLinear
    assert nn.parameter.is_lazy(model[0].weight)


class Spoiler(nn.Module):
    """Changes everything it can reach, then returns or raises `end`."""

    def __init__(self, end=None):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("count", torch.zeros(3))
        self.history = [1, 2]
        self.table = {"a": 1}
        self.flag = False
        self.end = end

    def forward(self, x):
        self.layer.weight.mul_(2)
        self.layer.weight.data = torch.zeros(4, 4)
        self.layer.weight.requires_grad_(False)
        self.layer.bias = nn.Parameter(torch.ones(4))
        self.count.add_(1)
        self.count = torch.ones(7)
        self.history.append(x)
        self.table["b"] = x
        self.flag = True
        self.extra = x
        self.layer.register_forward_hook(lambda *_: None)
        self.train(not self.training)
        x.add_(1)
        torch.rand(3), random.random(), np.random.rand()
        y = self.norm(self.layer(x))
        if self.end is not None:
            raise self.end
        return y


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("mode", ["real", "meta", "fake"])
@pytest.mark.parametrize("end", [None, ValueError("no"), SystemExit(3)], ids=["returns", "raises", "exits"])
def test_a_model_that_changes_everything_is_restored(train, mode, end):
    model = Spoiler(end).train(not train)
    model.layer.weight.grad = torch.ones(4, 4)
    x = torch.randn(5, 4)
    before = fingerprint(model, x)
    result = passes.observe(model, (x,), {}, mode=mode, train=train)
    assert fingerprint(model, x) == before
    assert (result.failure is None) == (end is None)


def test_an_interrupt_is_raised_and_the_model_is_restored():
    model = Spoiler(KeyboardInterrupt())
    x = torch.randn(5, 4)
    before = fingerprint(model, x)
    with pytest.raises(KeyboardInterrupt):
        passes.observe(model, (x,), {}, mode="real")
    assert fingerprint(model, x) == before


@pytest.mark.parametrize("options", [{"dtype": "bfloat16"}, {"mode": "meta", "dtype": "float16"}])
def test_another_dtype_does_not_convert_the_model(options):
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    x = torch.randn(2, 4)
    before = fingerprint(model, x)
    result = passes.observe(model, (x,), {}, **options)
    assert fingerprint(model, x) == before
    assert {row.type.dtype for row in result.tensors} == {options["dtype"]}
    assert result.kinds[0].outputs[0].type.dtype == options["dtype"]


def test_the_methods_of_classes_are_restored():
    originals = nn.Module.__call__, nn.Linear.forward
    passes.observe(nn.Linear(2, 2), (torch.randn(1, 2),), {}, mode="real")
    assert (nn.Module.__call__, nn.Linear.forward) == originals


def test_other_threads_are_not_recorded():
    inside, outside = threading.Event(), threading.Event()
    other = nn.Linear(3, 3)

    class Waits(nn.Module):
        def forward(self, x):
            inside.set()
            assert outside.wait(HANG_S)
            return x + 1

    def elsewhere():
        assert inside.wait(HANG_S)
        other(torch.randn(2, 3))
        outside.set()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    result = passes.observe(Waits(), (torch.randn(2),), {}, mode="real")
    thread.join()
    assert len(result.calls) == 1
    assert len(result.ops) == 1


def test_overlapping_fake_passes_leave_torchs_settings_as_they_were():
    log, entered, left = logging.getLogger("torch._subclasses.fake_tensor"), threading.Event(), threading.Event()

    class Outlasting(nn.Module):
        def forward(self, x):
            entered.set()
            assert left.wait(HANG_S)
            return x

    x = torch.ones(1)
    other = threading.Thread(target=passes.observe, args=(Outlasting(), (x,), {}), kwargs={"mode": "fake"})

    class Starting(nn.Module):
        def forward(self, x):
            other.start()
            assert entered.wait(HANG_S)
            return x

    passes.observe(Starting(), (x,), {}, mode="fake")
    left.set()
    other.join(HANG_S)
    assert not log.disabled
    assert torch._C._get_graph_executor_optimize()  # of this thread
