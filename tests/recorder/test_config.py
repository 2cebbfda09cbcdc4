"""Configuration is read only from attributes and converted to plain values."""

from __future__ import annotations

import dataclasses
import enum
import functools
import types

import pytest
import torch
from torch import nn
from torch.nn import functional

import assay
from assay.recorder import config


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Settings:
    width: int = 3
    names: tuple[str, ...] = ("a",)


class Custom(nn.Module):
    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__()
        self.size = (3, 4)
        self.rate = float("inf")
        self.dtype = torch.float16
        self.colour = Colour.RED
        self.activation = functional.gelu
        self.part = functools.partial(torch.add, alpha=2)
        self.options = {"a": [1, None]}
        self.settings = settings or Settings()
        self.space = types.SimpleNamespace(depth=2)
        self._hidden = 7
        self._cache: list[int] = []
        self.layer_idx = 5
        self.weight = nn.Parameter(torch.ones(2))
        self.loose = torch.ones(2)
        self.child = nn.ReLU()

    @property
    def danger(self) -> int:
        raise AssertionError("a property was executed")


def test_the_configuration_of_a_custom_module():
    configuration = config.read(Custom())
    digest = configuration.pop("settings")
    assert digest.startswith("Settings@")
    assert configuration.pop("space").startswith("SimpleNamespace@")
    assert configuration == {
        "size": [3, 4],
        "rate": "inf",
        "dtype": "float16",
        "colour": "Colour.RED",
        "activation": configuration["activation"],
        "part": {"partial": configuration["part"]["partial"], "keywords": {"alpha": 2}},
        "options": {"a": [1, None]},
        "_hidden": 7,
    }
    assert "gelu" in configuration["activation"]


def test_settings_are_distinguished_by_content():
    assert config.read(Custom())["settings"] == config.read(Custom(Settings()))["settings"]
    assert config.read(Custom())["settings"] != config.read(Custom(Settings(width=4)))["settings"]


def test_torch_layers_show_their_constructor_arguments():
    configuration = config.read(nn.Conv2d(3, 8, 3, stride=2, padding=1, dilation=1, groups=1))
    expected = {"in_channels": 3, "out_channels": 8, "kernel_size": [3, 3], "stride": [2, 2], "padding": [1, 1]}
    assert expected.items() <= configuration.items()
    assert not any(name.startswith("_") for name in configuration)
    assert config.read(nn.MultiheadAttention(8, 2))["num_heads"] == 2
    assert config.read(nn.LayerNorm(8, eps=1e-3))["eps"] == 1e-3


@pytest.mark.parametrize(
    "build",
    [
        functools.partial(nn.Linear, 4, 4),
        functools.partial(nn.Bilinear, 4, 4, 4),
        functools.partial(nn.Conv1d, 4, 4, 3),
        functools.partial(nn.ConvTranspose2d, 4, 4, 3),
        functools.partial(nn.LayerNorm, 4),
        functools.partial(nn.MultiheadAttention, 4, 2),
        functools.partial(nn.LSTM, 4, 4),
        functools.partial(nn.GRUCell, 4, 4),
        functools.partial(nn.LazyLinear, 4),
    ],
    ids=lambda build: build.func.__name__,
)
def test_whether_a_module_has_a_bias_is_configuration(build):
    with_bias, without = config.read(build(bias=True)), config.read(build(bias=False))
    assert (with_bias.pop("bias"), without.pop("bias")) == (True, False)
    assert with_bias == without


def test_a_module_that_never_has_a_bias_does_not_mention_it():
    assert not [
        m for m in (nn.ReLU(), nn.Embedding(3, 4), nn.RMSNorm(4), nn.Sequential()) if "bias" in config.read(m)
    ]
    assert config.read(nn.BatchNorm1d(4, affine=False))["bias"] is False
    assert config.read(nn.MultiheadAttention(4, 2, add_bias_kv=True))["add_bias_kv"] is True


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("bias", [True, False])
def test_a_scripted_module_shows_whether_it_has_a_bias(bias):
    assert config.read(torch.jit.script(nn.Linear(4, 4, bias=bias)))["bias"] is bias


def test_scripted_modules_keep_their_configuration():
    scripted = torch.jit.script(nn.Conv2d(3, 8, 3, stride=2))
    assert config.read(scripted)["stride"] == [2, 2]


def test_a_partial_with_a_tensor_and_a_lone_surrogate_can_be_saved(tmp_path):
    model = nn.Linear(2, 2)
    model.activation = functools.partial(torch.add, other=torch.zeros(1))
    model.label = "\ud800"
    document = assay.observe(model, torch.ones(1, 2))
    assay.save(document, tmp_path / "model.assay.json")
    config = assay.load(tmp_path / "model.assay.json").modules[0].config
    assert config["label"] == "\\ud800"
    assert str(assay.summary(document))
