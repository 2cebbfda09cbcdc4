"""Which modules ran, compared with torch's own forward hooks."""

from __future__ import annotations

import msgspec
import pytest
import torch
from handmade import conv_stack
from models import hard
from torch import nn
from torch.nn import functional

import assay
from assay.analysis.cost.totals import module_totals
from assay.analysis.modules_run import modules_run, which_ran
from assay.analysis.script_calls import calls_inside_torchscript
from assay.document.document import Document, Run
from assay.findings.engine import check_all

X = torch.ones(2, 8)


class Tower(nn.Module):
    """Blocks in a ModuleList, which is never called itself."""

    def __init__(self, layers: int = 3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(layers))
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Multimodal(nn.Module):
    """A text model with a vision tower that runs only if there are pixels."""

    def __init__(self):
        super().__init__()
        self.vision_tower = Tower()
        self.projector = nn.Linear(8, 8)
        self.language = Tower()
        self.heads = nn.ModuleDict({"used": nn.Linear(8, 4), "idle": nn.Linear(8, 4)})
        self.dropout = nn.Dropout()

    def forward(self, x, pixels=None):
        if pixels is not None:
            x = x + self.projector(self.vision_tower(pixels))
        return self.heads["used"](self.language(x))


def hooked(model: nn.Module, *inputs: torch.Tensor) -> set[str]:
    """The paths of the modules with parameters of their own whose forward hooks fire."""
    fired: set[str] = set()
    for path, module in model.named_modules():
        if any(True for _ in module.parameters(recurse=False)):
            module.register_forward_hook(lambda *_, path=path: fired.add(path))
    with torch.no_grad():
        model.eval()(*inputs)
    return fired


def ran(document: Document) -> set[str]:
    """The paths of the modules with parameters of their own that ran."""
    which = which_ran(document)
    return {module.path for module, each in zip(document.modules, which, strict=True) if each and module.tensors}


@pytest.mark.parametrize("inputs", [(X,), (X, X)], ids=["text", "text and pixels"])
@pytest.mark.parametrize("mode", ["real", "meta"])
def test_forward_hooks_agree(inputs, mode):
    document = assay.observe(Multimodal(), inputs, mode=mode)
    expected = hooked(Multimodal(), *inputs)
    coverage = modules_run(document)
    assert ran(document) == expected
    assert (coverage.ran, coverage.of) == (len(expected), 11)


@pytest.mark.parametrize("name", sorted(hard.CASES.keys() - {"scripted", "traced"}))
def test_every_module_whose_hook_fires_ran(name):
    model, inputs = hard.CASES[name]()
    document = assay.observe(model, (tuple(inputs), {}) if isinstance(inputs, tuple) else inputs)
    which = dict(zip((module.path for module in document.modules), which_ran(document), strict=True))
    fired: set[str] = set()
    again, inputs = hard.CASES[name]()
    for path, module in again.named_modules():
        module.register_forward_hook(lambda *_, path=path, **__: fired.add(path))
    args = inputs if isinstance(inputs, tuple) else () if isinstance(inputs, dict) else (inputs,)
    with torch.no_grad():
        again.eval()(*args, **(inputs if isinstance(inputs, dict) else {}))
    assert {path for path in fired if which[path] is not True} == set()


def test_what_did_not_run_is_named_by_its_topmost_modules():
    coverage = modules_run(assay.observe(Multimodal(), X))
    assert coverage.not_run == ("vision_tower", "projector", "heads.idle")
    assert coverage.share == 5 / 11


def test_the_cost_of_what_did_not_run_is_unknown():
    document = assay.observe(Multimodal(), X)
    totals = dict(zip((m.path for m in document.modules), module_totals(document, document.cost), strict=True))
    idle = ("vision_tower", "vision_tower.layers.0.0", "projector", "heads.idle", "dropout")
    assert {totals[path].flops for path in idle} == {None}
    assert not any(totals[path].recorded for path in idle)
    assert totals["language.layers"].macs == 3 * 2 * 8 * 8
    assert totals["heads"].macs == totals["heads.used"].macs == 2 * 8 * 4


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(8, 8)
        self.head = nn.Linear(8, 8, bias=False)
        self.tied = nn.Linear(8, 8, bias=False)
        self.tied.weight = self.head.weight
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(8))])
        self.idle = nn.Linear(8, 8)

    def forward(self, x):
        return self.head(functional.linear(x, self.proj.weight.t()) * self.scales[0])


def test_a_module_whose_parameter_an_op_reads_ran():
    document = assay.observe(Functional(), X)
    assert ran(document) == {"proj", "head", "tied", "scales"}
    assert modules_run(document).not_run == ("idle",)
    assert ran(assay.observe(Functional(), X, dtype="float64")) == {"proj", "head", "tied", "scales"}


@pytest.mark.parametrize("mode", ["real", "meta"])
def test_a_fused_layer_runs_its_inner_modules(mode):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    coverage = modules_run(assay.observe(layer, torch.ones(1, 3, 8), mode=mode))
    assert (coverage.ran, coverage.of, coverage.not_run) == (6, 6, ())


def test_modules_inside_torchscript_are_known_only_if_their_calls_were_recorded():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.scripted = torch.jit.script(nn.Sequential(nn.Linear(8, 8), nn.ReLU()))
            self.idle = torch.jit.script(nn.Sequential(nn.Linear(8, 8), nn.ReLU()))
            self.head = nn.Linear(8, 8)

        def forward(self, x):
            return self.head(self.scripted(x))

    document = assay.observe(Mixed(), X)
    which = dict(zip((m.path for m in document.modules), which_ran(document), strict=True))
    assert (which["scripted"], which["scripted.0"], which["scripted.1"]) == (True, True, True)
    assert (which["idle"], which["idle.0"]) == (False, False)
    assert modules_run(document).not_run == ("idle",)
    inside = calls_inside_torchscript(document)
    assert [document.modules[document.calls[index].module].path for index in sorted(inside)] == [
        "scripted.0",
        "scripted.1",
    ]
    outer = next(index for index, row in enumerate(document.modules) if row.path == "scripted")
    calls = [call for index, call in enumerate(document.calls) if index not in inside]
    ops = [msgspec.structs.replace(op, call=min(op.call, len(calls) - 1)) for op in document.ops]
    unrecorded = msgspec.structs.replace(document, calls=calls, ops=ops)
    assert which_ran(unrecorded)[outer : outer + 3] == [True, True, None]


def test_the_packed_weights_of_a_quantized_module_ran_with_it():
    model = hard.CASES["quantized"]()[0]
    document = assay.observe(model, hard.CASES["quantized"]()[1])
    coverage = modules_run(document)
    assert (coverage.ran, coverage.of, coverage.not_run) == (3, 3, ())
    assert "S101" not in {finding.code for finding in check_all(document).findings}


def test_a_shared_module_and_one_created_in_forward_ran():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, 8)
            self.second = self.first

        def forward(self, x):
            torch.manual_seed(0)
            return nn.Linear(8, 4)(self.second(x))

    document = assay.observe(Shared(), X)
    assert [module.created_in_forward for module in document.modules] == [False, False, True]
    assert which_ran(document) == [True, True, True]


def test_modules_after_the_stop_did_not_run():
    class Stops(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(5, 5)

        def forward(self, x):
            return self.second(self.first(x)[:, :0].item())

    document = assay.observe(Stops(), X)
    assert document.run.failure is not None
    assert modules_run(document).not_run == ("second",)


def test_without_a_pass_nothing_is_known():
    document = msgspec.structs.replace(conv_stack(), run=Run("none"), calls=[], kinds=[], ops=[])
    assert set(which_ran(document)) == {None}
    assert modules_run(document) is None


def test_without_data_flow_only_calls_are_known():
    document = conv_stack()
    less = msgspec.structs.replace(document, calls=document.calls[:4], ops=document.ops[:3])
    assert which_ran(less) == [True, True, True, True, None, False, False]
    assert (modules_run(less).ran, modules_run(less).of) == (1, 1)


def test_a_model_without_parameters_has_no_share():
    assert modules_run(assay.observe(nn.Sequential(nn.ReLU()), X)) is None


def test_a_pass_that_stops_before_any_op_ran_no_module_with_parameters():
    class Stops(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))

        def forward(self, x):
            raise ValueError("no")

    run = modules_run(assay.observe(Stops(), torch.ones(1, 2)))
    assert (run.ran, run.of) == (0, 3)
