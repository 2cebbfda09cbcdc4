"""Every module and every op is recorded, compared with a minimal record of torch's own dispatches."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from models import hard
from recorder.bare import bare_targets, split, targets
from torch import nn
from versions import require

from assay.recorder import passes

# Cases in which a minimal mode differs by design: it cannot run at all, records a control-flow operator without its
# body, records ops that only a first run has, or runs the model before its lazy parameters exist.
DIFFERS = {"flexible_attention", "forces_from_energy", "torch_cond", "lazy_modules", "nested_jagged"}


@pytest.mark.parametrize("name", sorted(set(hard.CASES) - DIFFERS))
def test_ops_equal_those_of_a_minimal_mode(name):
    model, inputs = hard.CASES[name]()
    args, kwargs = split(inputs)
    torch.manual_seed(0)
    result = passes.observe(model, args, kwargs, mode="real")
    again, inputs = hard.CASES[name]()
    args, kwargs = split(inputs)
    torch.manual_seed(0)
    assert result.failure is None
    assert targets(result) == bare_targets(again, args, kwargs)


@pytest.mark.parametrize("name", sorted(hard.CASES))
def test_every_module_is_recorded(name):
    model, inputs = hard.CASES[name]()
    args, kwargs = split(inputs)
    result = passes.observe(model, args, kwargs, mode="real")
    expected = [path for path, _ in model.named_modules()]
    assert [row.path for row in result.modules if not row.created_in_forward] == expected
    for row in result.modules[1:]:
        assert row.parent is not None
        assert row.parent < len(result.modules)
    assert all(call.module < len(result.modules) for call in result.calls)
    assert all(-1 <= op.call < len(result.calls) for op in result.ops)


def test_the_body_of_a_condition_is_recorded():
    class Branch(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda a: a.sin() + 1, lambda a: a.cos(), (x,))

    result = passes.observe(Branch(), (torch.ones(3),), {}, mode="real")
    assert "aten.sin.default" in targets(result)
    assert "aten.cos.default" not in targets(result)
    assert targets(result)[-1] == "higher_order.cond"


def test_flex_attention_is_one_op():
    require("torch", "2.5", "flex_attention")
    from torch.nn.attention.flex_attention import flex_attention

    class Flex(nn.Module):
        def forward(self, q):
            return flex_attention(q, q, q)

    q = torch.randn(1, 2, 16, 16)
    result = passes.observe(Flex(), (q,), {}, mode="real")
    assert result.failure is None
    [kind] = [kind for kind in result.kinds if kind.target == "higher_order.flex_attention"]
    assert [operand.type.shape for operand in kind.inputs[:3]] == [(1, 2, 16, 16)] * 3


def test_calls_record_keywords_repeats_and_nested_outputs():
    class Inner(nn.Module):
        def forward(self, x, *, scale):
            return {"a": x * scale, "b": [x, (x[:1],)]}

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            first = self.inner(x=x, scale=torch.ones(1))
            return self.inner.forward(first["a"][:2], scale=torch.ones(2, 1))["a"]

    result = passes.observe(Outer(), (torch.randn(4, 3),), {}, mode="real")
    calls = [call for call in result.calls if result.modules[call.module].path == "inner"]
    assert [[entry.shape for entry in call.inputs] for call in calls] == [[(4, 3), (1,)], [(2, 3), (2, 1)]]
    assert [entry.shape for entry in calls[0].outputs] == [(4, 3), (4, 3), (1, 3)]
    assert [call.parent for call in calls] == [0, 0]


def test_attributes_are_named_by_the_schema_with_defaults():
    model = nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2)
    [kind] = passes.observe(model, (torch.randn(1, 4, 9, 9),), {}, mode="real").kinds
    assert kind.name == "torch.conv2d"
    assert kind.attributes == {"stride": [2, 2], "padding": [1, 1], "dilation": [1, 1], "groups": 2}
    assert [operand.name for operand in kind.inputs] == ["input", "weight", "bias"]
    assert [operand.role for operand in kind.inputs] == ["input", "parameter", "parameter"]
    assert kind.outputs[0].type.shape == tuple(model(torch.randn(1, 4, 9, 9)).shape)


def test_aliases_and_writes_follow_storages():
    class Steps(nn.Module):
        def forward(self, x):
            y = x + x
            v = y.view(-1)
            v.mul_(2)
            return torch.cat([y, y.t()])

    result = passes.observe(Steps(), (torch.randn(3, 3),), {}, mode="real")
    add, view, mul, transpose, cat = (result.kinds[op.kind] for op in result.ops)
    assert [operand.alias for operand in add.inputs] == [None, 0]
    assert view.outputs[0].alias == 0
    assert mul.inputs[0].written
    assert transpose.outputs[0].type.strides == (1, 3)
    assert [operand.name for operand in cat.inputs] == ["tensors[0]", "tensors[1]"]
    assert result.ops[2].writes == result.ops[0].writes, "the in-place product writes to the sum's storage"
    assert result.ops[1].writes == (), "a view does not write"


def test_a_storage_is_freed_with_its_last_view():
    class Chain(nn.Module):
        def forward(self, x):
            a = x.exp()
            b = a[0]
            del a
            c = b.sin()
            del b
            d = c.cos()
            return d.tan()

    result = passes.observe(Chain(), (torch.randn(2, 8),), {}, mode="real")
    storages = {result.kinds[op.kind].target: result.storages[op.writes[0]] for op in result.ops if op.writes}
    assert storages["aten.exp.default"].bytes == 64
    assert storages["aten.exp.default"].died == 3, "live during select and sin, freed before cos ends"
    assert storages["aten.tan.default"].died is None


def test_shared_modules_and_tied_weights_are_listed_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 4)
            self.head = nn.Linear(4, 10, bias=False)
            self.head.weight = self.embed.weight
            self.again = self.head

        def forward(self, ids):
            return self.again(self.embed(ids))

    result = passes.observe(Tied(), (torch.arange(3),), {}, mode="real")
    [weight] = result.tensors
    assert weight.names == ("embed.weight", "head.weight")
    assert [row.aliases for row in result.modules] == [(), (), ("again",)]


def test_every_path_of_a_shared_subtree_is_an_alias():
    block = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))
    model = nn.ModuleDict({"a": block, "b": nn.Sequential(block, block[1])})
    model.forward = lambda x: model["b"](model["a"](x))
    result = passes.observe(model, (torch.randn(1, 2),), {}, mode="real")
    named = {row.path: {row.path, *row.aliases} for row in result.modules}
    expected: dict[int, set[str]] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        expected.setdefault(id(module), set()).add(path)
    assert sorted(map(sorted, named.values())) == sorted(map(sorted, expected.values()))


def test_a_module_that_contains_its_own_parent_terminates():
    class Child(nn.Module):
        def forward(self, x):
            return x + 1

    class Parent(nn.Module):
        def __init__(self):
            super().__init__()
            self.child = Child()
            self.child.parent = self

        def forward(self, x):
            return self.child(x)

    model = Parent()
    model.training = model.child.training = False  # eval() itself would recurse endlessly
    result = passes.observe(model, (torch.ones(1),), {}, mode="real")
    assert [row.path for row in result.modules] == ["", "child"]
    assert result.modules[0].aliases == ("child.parent",)


def test_operators_that_compile_themselves_are_recorded_in_a_fresh_process(tmp_path):
    require("torch", "2.5", "flex_attention")
    program = tmp_path / "fresh.py"
    program.write_text(
        "import torch, sys\n"
        "from assay.recorder import passes\n"
        "class Cond(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))\n"
        "class Flex(torch.nn.Module):\n"
        "    def forward(self, q):\n"
        "        from torch.nn.attention.flex_attention import flex_attention\n"
        "        return flex_attention(q, q, q)\n"
        "for model, x in ((Cond(), torch.ones(2)), (Flex(), torch.ones(1, 2, 16, 16))):\n"
        "    shown = passes.observe(model, (x,), {}, mode='real')\n"
        "    print(shown.failure, shown.kinds[shown.ops[-1].kind].target)\n"
    )
    command = [sys.executable, "-W", "ignore", str(program)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    output = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    assert output.splitlines() == ["None higher_order.cond", "None higher_order.flex_attention"]
