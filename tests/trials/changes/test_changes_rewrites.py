"""Changes that rewrite modules: what they change, and what they must leave alone."""

from __future__ import annotations

import pytest
import torch
from change_nets import (
    Attends,
    Decoder,
    ManualAttention,
    Residual,
    changed,
    net,
    outputs,
    runnable,
    transformers_model,
    worst,
)
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from assay.trials.change import NotApplicable
from assay.trials.runnable import Runnable


class Ops(TorchDispatchMode):
    """Counts ops by name."""

    def __init__(self, subject: Runnable) -> None:
        super().__init__()
        self.names: list[str] = []
        with torch.no_grad(), self:
            subject()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))

    def count(self, *parts: str) -> int:
        return sum(any(part in name for part in parts) for name in self.names)


class Calls(nn.Module):
    """Calls `body` of itself, so that tests can write a forward in one line."""

    def __init__(self, body, **modules: nn.Module) -> None:
        super().__init__()
        self.body = body
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, *args):
        return self.body(self, *args)


@pytest.mark.parametrize(
    ("layer", "norm", "shape"),
    [
        (nn.Conv1d(4, 6, 3), nn.BatchNorm1d(6), (2, 4, 9)),
        (nn.Conv2d(4, 6, 3, groups=2), nn.BatchNorm2d(6), (2, 4, 9, 9)),
        (nn.Conv3d(2, 6, 3, bias=False), nn.BatchNorm3d(6, eps=0.1), (2, 2, 5, 5, 5)),
        (nn.ConvTranspose1d(4, 6, 3), nn.BatchNorm1d(6), (2, 4, 9)),
        (nn.ConvTranspose2d(4, 6, 3, groups=2), nn.BatchNorm2d(6), (2, 4, 5, 5)),
        (nn.ConvTranspose3d(2, 6, 3, bias=False), nn.BatchNorm3d(6), (2, 2, 5, 5, 5)),
        (nn.Linear(4, 6), nn.BatchNorm1d(6), (5, 4)),
    ],
    ids=lambda each: type(each).__name__,
)
def test_each_kind_of_layer_is_folded(layer: nn.Module, norm: nn.Module, shape: tuple[int, ...]) -> None:
    base = runnable(nn.Sequential(layer, norm), torch.randn(shape))
    folded = changed(base, "fold_batch_norm")
    assert Ops(base).count("batch_norm") == 1
    assert Ops(folded).count("batch_norm") == 0
    assert worst(base, folded) < 1e-6


def _read_twice(self, x):
    y = self.conv(x)
    return self.norm(y) + y


def _called_twice(self, x):
    return self.norm(self.conv(self.norm(self.conv(x))))


def _weight_read(self, x):
    return self.norm(self.conv(x)) * self.conv.weight.mean()


def _not_adjacent(self, x):
    return self.norm(self.conv(x).relu())


def _returned(self, x):
    y = self.conv(x)
    return y, self.norm(y)


@pytest.mark.parametrize("body", [_read_twice, _called_twice, _weight_read, _not_adjacent, _returned])
def test_norms_that_cannot_be_folded_are_left_alone(body) -> None:
    model = Calls(body, conv=nn.Conv2d(3, 3, 1), norm=nn.BatchNorm2d(3))
    with pytest.raises(NotApplicable):
        changed(runnable(model, torch.randn(2, 3, 8, 8)), "fold_batch_norm")


def test_norms_in_training_mode_without_statistics_or_with_hooks_are_left_alone() -> None:
    def subject() -> Runnable:
        return runnable(nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)), torch.randn(2, 3, 8, 8))

    trained, hooked = subject(), subject()
    trained.model[1].train()
    hooked.model[0].register_forward_hook(lambda module, args, output: output * 2)
    without = Runnable(
        nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4, track_running_stats=False)).eval(), trained.args
    )
    for each in (trained, hooked, without):
        with pytest.raises(NotApplicable):
            changed(each, "fold_batch_norm")
    statistics = trained.model[1].running_mean.clone()
    with pytest.raises(NotApplicable):
        changed(trained, "fold_batch_norm")
    assert torch.equal(trained.model[1].running_mean, statistics)


def test_three_dimensional_linear_is_not_folded() -> None:
    base = runnable(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)), torch.randn(5, 6, 4))
    with pytest.raises(NotApplicable):
        changed(base, "fold_batch_norm")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("how", ["matmul", "bmm", "einsum", "inplace"])
def test_attention_of_single_ops_is_fused(how: str, causal: bool) -> None:
    torch.manual_seed(0)
    base = runnable(ManualAttention(32, 4, how, causal), torch.randn(2, 12, 32))
    fused = changed(base, "sdpa")
    assert Ops(base).count("softmax") == 1
    assert Ops(base).count("attention") == 0
    assert Ops(fused).count("softmax") == 0
    assert Ops(fused).count("attention") == 1
    assert worst(base, fused) < 1e-6


@pytest.mark.parametrize("how", ["kept", "read"])
def test_attention_whose_weights_are_needed_is_left_alone(how: str) -> None:
    with pytest.raises(NotApplicable):
        changed(runnable(ManualAttention(32, 4, how), torch.randn(2, 12, 32)), "sdpa")


def test_products_that_are_no_attention_give_the_same_values() -> None:
    def body(self, x):
        scores = x @ x.mT
        return torch.stack(
            [scores.sum(), (scores * 2 + 1).softmax(0).max(), scores.exp().mean(), len(scores) * scores[0, 0, 0]]
        )

    model = nn.Sequential(ManualAttention(32, 4), Calls(body))
    base = runnable(model, torch.randn(2, 12, 32))
    assert worst(base, changed(base, "sdpa")) < 1e-6


def test_dropout_that_acts_is_not_fused() -> None:
    base = runnable(ManualAttention(32, 4), torch.randn(2, 12, 32))
    base.model.train()
    with pytest.raises(NotApplicable):
        changed(base, "sdpa")


@pytest.mark.parametrize(("weights", "applies"), [("ignored", True), ("kept", False), ("returned", False)])
def test_weights_of_multihead_attention_are_dropped_if_unused(weights: str, applies: bool) -> None:
    base = runnable(Attends(weights), torch.randn(2, 12, 32))
    if not applies:
        with pytest.raises(NotApplicable):
            changed(base, "sdpa")
        return
    fused = changed(base, "sdpa")
    assert worst(base, fused) < 1e-5
    assert fused.model.attention(*base.args * 3)[1] is None


def test_transformers_models_are_switched() -> None:
    base = Runnable(transformers_model("bert").eval(), kwargs={"input_ids": torch.randint(0, 100, (2, 9))})
    fused = changed(base, "sdpa")
    assert fused.model.config._attn_implementation == "sdpa"
    assert base.model.config._attn_implementation == "eager"
    with pytest.raises(NotApplicable):
        changed(fused, "sdpa")
    with pytest.raises(NotApplicable, match="returns the weights"):
        changed(Runnable(base.model, (), {**base.kwargs, "output_attentions": True}), "sdpa")


def test_sibling_layers_share_one_product() -> None:
    base = net("vit")
    fused = changed(base, "fuse_qkv")
    assert Ops(base).count("addmm", "linear") - Ops(fused).count("addmm", "linear") == 4
    stored = sum(
        each.untyped_storage().nbytes()
        for each in {p.untyped_storage().data_ptr(): p for p in fused.model.parameters()}.values()
    )
    assert stored <= sum(each.untyped_storage().nbytes() for each in base.model.parameters())


def test_shared_product_survives_other_orders_inputs_and_changes_in_place() -> None:
    body = {"now": lambda self, x: self.a(x) + self.b(x)}
    base = runnable(
        Calls(lambda self, x: body["now"](self, x), a=nn.Linear(8, 8), b=nn.Linear(8, 8)), torch.randn(3, 8)
    )
    fused = changed(base, "fuse_qkv")
    others = [
        lambda self, x: self.b(x) * self.a(x),
        lambda self, x: self.a(x) + self.a(x) + self.b(x),
        lambda self, x: self.a(x),
        lambda self, x: self.a(x) + self.b(x * 2),
        lambda self, x: self.a(y := x * 1) + self.b(y.add_(1)),
    ]
    for other in others:
        body["now"] = other
        assert worst(base, fused) < 1e-6
        fused.args = base.args = (torch.randn(3, 8),)
        assert worst(base, fused) < 1e-6


def test_shared_product_gives_gradients() -> None:
    base = net("decoder")
    fused = changed(base, "fuse_qkv")
    for each in (base, fused):
        each().square().mean().backward()
    pairs = zip(base.model.parameters(), fused.model.parameters(), strict=True)
    assert all(torch.allclose(a.grad, b.grad, atol=1e-6) for a, b in pairs)


def test_padded_vocabulary_stays_tied() -> None:
    padded = changed(net("decoder"), "pad_vocabulary")
    assert padded.model.head.weight is padded.model.table.weight
    assert padded.model.head.weight.shape == (128, 32)
    assert outputs(padded)[0].shape[-1] == 101


def test_aligned_vocabulary_is_left_alone() -> None:
    model = nn.Sequential(nn.Embedding(128, 32), nn.Linear(32, 128))
    with pytest.raises(NotApplicable):
        changed(runnable(model, torch.zeros(2, 4, dtype=torch.long)), "pad_vocabulary")


def test_hidden_sizes_are_padded_only_between_linear_layers() -> None:
    inputs = torch.randn(4, 32)
    good = runnable(nn.Sequential(nn.Linear(32, 100), nn.Sigmoid(), nn.Dropout(), nn.Linear(100, 8)), inputs)
    padded = changed(good, "pad_channels")
    assert padded.model[0].weight.shape == (128, 32)
    assert worst(good, padded) < 1e-6
    between = runnable(nn.Sequential(nn.Linear(32, 100), nn.LayerNorm(100), nn.Linear(100, 8)), inputs)
    read = Calls(lambda self, x: self.b(y := self.a(x)) + y.mean(), a=nn.Linear(32, 100), b=nn.Linear(100, 8))
    for other in (between, runnable(read, inputs)):
        with pytest.raises(NotApplicable):
            changed(other, "pad_channels")


def test_unused_modules_are_removed_only_if_nothing_looks_for_them() -> None:
    def body(self, x):
        return self.used(x) * (2 if self.asked is not None else 1) + self.tied.weight.sum()

    modules = {name: nn.Linear(4, 4) for name in ("used", "unused", "asked", "tied")}
    base = runnable(Calls(body, **modules, layers=nn.ModuleList([nn.Linear(4, 4)])), torch.randn(2, 4))
    removed = changed(base, "remove_unused")
    assert worst(base, removed) == 0
    assert {name.partition(".")[0] for name, _ in removed.model.named_parameters()} == {"used", "asked", "tied"}


@pytest.mark.parametrize(
    ("body", "applies"),
    [
        (lambda self, x: self.act(self.layer(x)), True),
        (lambda self, x: self.act(y := self.layer(x)) + y, False),
        (lambda self, x: self.layer(self.act(x)), False),
        (lambda self, x: self.layer(x) + self.act(self.layer.weight).sum(), False),
        (lambda self, x: F.relu(self.act((y := self.layer(x))[:1])) + y, False),
    ],
)
def test_activations_overwrite_only_what_nothing_reads(body, applies: bool) -> None:
    base = runnable(Calls(body, layer=nn.Linear(4, 4), act=nn.SiLU()), torch.randn(2, 4))
    if applies:
        assert changed(base, "inplace_activations").model.act.inplace
    else:
        with pytest.raises(NotApplicable):
            changed(base, "inplace_activations")


def test_one_activation_that_must_not_overwrite_does_not_stop_the_others() -> None:
    def body(self, x):
        y = self.layer(x)
        return self.second(self.layer(self.first(y)) + 1) + y

    model = Calls(body, layer=nn.Linear(4, 4), first=nn.ReLU(), second=nn.ReLU())
    other = changed(runnable(model, torch.randn(2, 4)), "inplace_activations")
    assert (other.model.first.inplace, other.model.second.inplace) == (False, True)


@pytest.mark.parametrize("name", ["resnet", "decoder", "gpt2"])
def test_checkpointed_blocks_give_the_same_gradients_and_keep_less(name: str) -> None:
    base = net(name)
    for module in base.model.modules():
        module.p = 0.0 if isinstance(module, nn.Dropout) else getattr(module, "p", None)
    base.model.train()
    other = changed(base, "checkpoint_activations")
    kept = []
    for each in (base, other):
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t, sizes=sizes: (sizes.append(t.numel()), t)[1], lambda t: t
        ):
            result = each()
        (result if isinstance(result, torch.Tensor) else result.logits).square().mean().backward()
        kept.append(sum(sizes))
    pairs = zip(base.model.parameters(), other.model.parameters(), strict=True)
    assert all(torch.allclose(a.grad, b.grad, atol=1e-5) for a, b in pairs)
    assert kept[1] < kept[0]


def test_fold_in_a_residual_block_keeps_the_shortcut() -> None:
    base = runnable(Residual(8), torch.randn(1, 8, 6, 6))
    folded = changed(base, "fold_batch_norm")
    assert Ops(folded).count("batch_norm") == 0
    assert worst(base, folded) < 1e-6


def test_decoder_of_einsums_is_fused() -> None:
    base = runnable(Decoder("einsum"), torch.randint(0, 100, (2, 12)))
    assert Ops(changed(base, "sdpa")).count("attention") == 2
