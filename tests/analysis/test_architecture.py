"""The architecture of a model: its family, its traits and its layers by category."""

from __future__ import annotations

import pytest
import torch
from handmade import conv_stack
from torch import nn

import assay
from assay.analysis.architecture import architecture, layers
from assay.document.document import Document
from assay.document.provenance import Unknown
from assay.document.rows import Module


def conv(inputs, outputs, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1), nn.BatchNorm2d(outputs), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, *, time=False, joins=True):
        super().__init__()
        self.down = nn.ModuleList([conv(3, 8), conv(8, 16, 2), conv(16, 32, 2)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)])
        wide = 2 if joins else 1
        self.after = nn.ModuleList([conv(16 * wide, 16), conv(8 * wide, 8)])
        self.time, self.joins, self.embed = time, joins, nn.Linear(8, 32)

    def forward(self, x, t=None):
        first = self.down[0](x)
        second = self.down[1](first)
        x = self.down[2](second)
        if self.time:
            waves = t[:, None] * torch.arange(4.0)
            x = x + self.embed(torch.cat([waves.sin(), waves.cos()], -1))[:, :, None, None]
        for up, after, skip in zip(self.up, self.after, (second, first), strict=True):
            x = up(x)
            x = after(torch.cat([x, skip], 1) if self.joins else x)
        return x


class GraphConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x, edges):
        return torch.zeros_like(x).index_add(0, edges[1], self.linear(x)[edges[0]])


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.out = nn.Embedding(10, 8), nn.LSTM(8, 8), nn.Linear(8, 2)

    def forward(self, ids):
        return self.out(self.rnn(self.embed(ids))[0])


class SinkBlock(nn.Module):
    """Attention with an extra score, which does not match the plain pattern."""

    def __init__(self):
        super().__init__()
        self.self_attn = SinkAttention()
        self.mlp = nn.Linear(8, 8)

    def forward(self, x):
        return self.mlp(self.self_attn(x))


class SinkAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.sink = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        scores = torch.cat([x @ x.transpose(-2, -1), self.sink.expand(*x.shape[:2], 1)], -1)
        return scores.softmax(-1)[..., :-1] @ x


def encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1)


def patches():
    return nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.Flatten(2), nn.Linear(4, 8), encoder())


def stem():
    """Two convolutions with most of the FLOPs before a small encoder; they still count as a stem."""
    return nn.Sequential(nn.Conv2d(3, 32, 3), nn.Conv2d(32, 2, 3), nn.Flatten(2), nn.Linear(16, 8), encoder())


def deep():
    return nn.Sequential(*(conv(3, 3) for _ in range(5)), nn.Flatten(2), nn.Linear(64, 8), encoder())


class Stepwise(nn.Module):
    """Layers applied to one step of a sequence at a time."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return torch.stack([self.layers(step) for step in x.unbind(1)], 1)


class Gate(nn.Module):
    """Squeeze and excite: a narrow branch beside the data."""

    def __init__(self):
        super().__init__()
        self.narrow, self.wide = nn.Linear(32, 4), nn.Linear(4, 32)

    def forward(self, x):
        return x * self.wide(self.narrow(x).relu()).sigmoid()


class Variational(nn.Module):
    """A bottleneck of two narrow layers side by side."""

    def __init__(self):
        super().__init__()
        self.mean, self.deviation, self.decode = nn.Linear(32, 4), nn.Linear(32, 4), nn.Linear(4, 32)

    def forward(self, x):
        return self.decode(self.mean(x) + self.deviation(x).exp())


IMAGE = torch.ones(2, 3, 8, 8)
EDGES = torch.zeros(2, 5, dtype=torch.long)

CASES = {
    "CNN": (nn.Sequential(conv(3, 4), nn.Flatten(), nn.Linear(256, 2)), IMAGE),
    "Transformer": (encoder(), torch.ones(1, 4, 8)),
    "Transformer ": (patches(), IMAGE),
    "Transformer   ": (stem(), IMAGE),
    "Transformer  ": (SinkBlock(), torch.ones(1, 4, 8)),
    "hybrid (CNN + Transformer)": (deep(), IMAGE),
    "RNN": (Tagger(), torch.ones(3, 2, dtype=torch.long)),
    "GNN": (GraphConv(), (torch.ones(6, 8), EDGES)),
    "MLP": (nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)), torch.ones(1, 8)),
    "unknown": (nn.ReLU(), torch.ones(1, 8)),
    "CNN, U-Net": (UNet(), IMAGE),
    "CNN, diffusion U-Net": (UNet(time=True), (IMAGE, torch.ones(2))),
    "CNN ": (UNet(joins=False), IMAGE),
    "MLP, autoencoder": (nn.Sequential(nn.Linear(32, 4), nn.Tanh(), nn.Linear(4, 32)), torch.ones(1, 32)),
    "MLP, autoencoder ": (Stepwise(nn.Linear(16, 2), nn.Linear(2, 16)), torch.ones(2, 6, 16)),
    "MLP, autoencoder  ": (Variational(), torch.ones(2, 32)),
    "MLP  ": (Stepwise(nn.Linear(16, 16)), torch.ones(2, 6, 16)),
    "MLP   ": (Gate(), torch.ones(2, 32)),
    "MLP ": (nn.Sequential(nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 32)), torch.ones(1, 32)),
}


@pytest.mark.parametrize("label", CASES)
def test_families(label):
    result = architecture(assay.observe(*CASES[label]))
    assert result.label == label.strip()
    if result.family == "unknown":
        assert result.evidence == ()
    else:
        assert {*result.blocks, *result.traits} <= {each.speaks_for for each in result.evidence}
    assert all(each.figure.value and not isinstance(each.figure.how, Unknown) for each in result.evidence)


CONFIGS = {
    "MixtralForCausalLM": ("Transformer, mixture of experts", {"num_local_experts": 4, "num_key_value_heads": 2}),
    "BertModel": ("Transformer", {}),
    "MambaModel": ("SSM", {"state_size": 4}),
    "RwkvModel": ("RNN", {"attention_hidden_size": 16}),
    "JambaForCausalLM": (
        "hybrid (Transformer + SSM), mixture of experts",
        {
            "num_key_value_heads": 2,
            "num_experts": 2,
            "use_mamba_kernels": False,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
        },
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.filterwarnings("ignore")
def test_families_of_transformers(name):
    transformers = pytest.importorskip("transformers")
    label, options = CONFIGS[name]
    model_class = getattr(transformers, name)
    common = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 32}
    config = model_class.config_class(intermediate_size=16, **common, **options)
    with torch.device("meta"):
        model = model_class(config)
    result = architecture(assay.observe(model, torch.ones(1, 4, dtype=torch.long)))
    assert result.label == label


def test_layers_are_counted_by_category_and_containers_are_not():
    document = assay.observe(
        nn.Sequential(conv(3, 4), conv(4, 4), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 2)), IMAGE
    )
    expected = {"Activation": 2, "Convolution": 2, "Normalization": 2, "Linear": 1, "Pooling": 1}
    assert layers(document) == expected
    assert architecture(document).layers == expected


def test_an_attention_module_with_submodules_is_one_layer():
    assert layers(assay.observe(encoder(), torch.ones(1, 4, 8)))["Attention"] == 1


def test_class_names_decide_if_no_pass_was_recorded():
    modules = [Module("", "Net", "x.Net", None), Module("attn", "MyAttention", "x.MyAttention", 0)]
    assert architecture(Document(modules=modules)).family == "Transformer"
    assert architecture(Document()).family == "unknown"


def test_a_handmade_document():
    result = architecture(conv_stack())
    assert result.family == "CNN"
    assert result.layers == {"Activation": 2, "Convolution": 2, "Normalization": 2}
