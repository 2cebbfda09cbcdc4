"""Every module and every operation is there, against a bare count of torch's own dispatches."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from models import hard
from recorder.bare import bare_targets, split, targets
from torch import nn

from assay.recorder import passes

# Where a bare mode sees something else by nature: it cannot run at all, counts a control-flow operator
# without its body, meets what only a first run does, or runs the model before its lazy parameters exist.
ELSEWHERE = {"flexible_attention", "forces_from_energy", "torch_cond", "lazy_modules", "nested_jagged"}


@pytest.mark.parametrize("name", sorted(set(hard.CASES) - ELSEWHERE))
def test_operations_equal_a_bare_count(name):
    model, inputs = hard.CASES[name]()
    args, kwargs = split(inputs)
    torch.manual_seed(0)
    shown = passes.observe(model, args, kwargs, mode="real")
    again, inputs = hard.CASES[name]()
    args, kwargs = split(inputs)
    torch.manual_seed(0)
    assert shown.failure is None
    assert targets(shown) == bare_targets(again, args, kwargs)


@pytest.mark.parametrize("name", sorted(hard.CASES))
def test_every_module_is_there(name):
    model, inputs = hard.CASES[name]()
    args, kwargs = split(inputs)
    shown = passes.observe(model, args, kwargs, mode="real")
    wanted = [path for path, _ in model.named_modules()]
    assert [row.path for row in shown.modules if not row.created_in_forward] == wanted
    for row in shown.modules[1:]:
        assert row.parent is not None
        assert row.parent < len(shown.modules)
    assert all(call.module < len(shown.modules) for call in shown.calls)
    assert all(-1 <= op.call < len(shown.calls) for op in shown.ops)


def test_body_of_a_condition_is_seen():
    class Branch(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda a: a.sin() + 1, lambda a: a.cos(), (x,))

    shown = passes.observe(Branch(), (torch.ones(3),), {}, mode="real")
    assert "aten.sin.default" in targets(shown)
    assert "aten.cos.default" not in targets(shown)
    assert targets(shown)[-1] == "higher_order.cond"


def test_flex_attention_is_one_operation():
    from torch.nn.attention.flex_attention import flex_attention

    class Flex(nn.Module):
        def forward(self, q):
            return flex_attention(q, q, q)

    q = torch.randn(1, 2, 16, 16)
    shown = passes.observe(Flex(), (q,), {}, mode="real")
    assert shown.failure is None
    [kind] = [kind for kind in shown.kinds if kind.target == "higher_order.flex_attention"]
    assert [operand.type.shape for operand in kind.inputs[:3]] == [(1, 2, 16, 16)] * 3


def test_calls_see_keywords_repeats_and_nested_outputs():
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

    shown = passes.observe(Outer(), (torch.randn(4, 3),), {}, mode="real")
    calls = [call for call in shown.calls if shown.modules[call.module].path == "inner"]
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

    shown = passes.observe(Steps(), (torch.randn(3, 3),), {}, mode="real")
    add, view, mul, transpose, cat = (shown.kinds[op.kind] for op in shown.ops)
    assert [operand.alias for operand in add.inputs] == [None, 0]
    assert view.outputs[0].alias == 0
    assert mul.inputs[0].written
    assert transpose.outputs[0].type.strides == (1, 3)
    assert [operand.name for operand in cat.inputs] == ["tensors[0]", "tensors[1]"]
    assert shown.ops[2].writes == shown.ops[0].writes, "the in-place product writes into the sum's storage"
    assert shown.ops[1].writes == (), "a view writes nothing"


def test_storages_die_when_their_last_view_does():
    class Chain(nn.Module):
        def forward(self, x):
            a = x.exp()
            b = a[0]
            del a
            c = b.sin()
            del b
            d = c.cos()
            return d.tan()

    shown = passes.observe(Chain(), (torch.randn(2, 8),), {}, mode="real")
    made = {shown.kinds[op.kind].target: shown.storages[op.writes[0]] for op in shown.ops if op.writes}
    assert made["aten.exp.default"].bytes == 64
    assert made["aten.exp.default"].died == 3, "alive through select and sin, gone before cos ends"
    assert made["aten.tan.default"].died is None


def test_shared_and_tied_are_one():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 4)
            self.head = nn.Linear(4, 10, bias=False)
            self.head.weight = self.embed.weight
            self.again = self.head

        def forward(self, ids):
            return self.again(self.embed(ids))

    shown = passes.observe(Tied(), (torch.arange(3),), {}, mode="real")
    [weight] = shown.tensors
    assert weight.names == ("embed.weight", "head.weight")
    assert [row.aliases for row in shown.modules] == [(), (), ("again",)]


def test_every_path_of_a_shared_subtree_is_an_alias():
    block = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))
    model = nn.ModuleDict({"a": block, "b": nn.Sequential(block, block[1])})
    model.forward = lambda x: model["b"](model["a"](x))
    shown = passes.observe(model, (torch.randn(1, 2),), {}, mode="real")
    named = {row.path: {row.path, *row.aliases} for row in shown.modules}
    wanted: dict[int, set[str]] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        wanted.setdefault(id(module), set()).add(path)
    assert sorted(map(sorted, named.values())) == sorted(map(sorted, wanted.values()))


def test_a_module_that_contains_its_own_parent_ends():
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
    model.training = model.child.training = False  # eval() itself would never end
    shown = passes.observe(model, (torch.ones(1),), {}, mode="real")
    assert [row.path for row in shown.modules] == ["", "child"]
    assert shown.modules[0].aliases == ("child.parent",)


def test_what_compiles_itself_is_seen_in_a_fresh_process(tmp_path):
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
    told = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    assert told.splitlines() == ["None higher_order.cond", "None higher_order.flex_attention"]
