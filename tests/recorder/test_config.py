"""Configuration is read only from attributes and converted to plain values."""

from __future__ import annotations

import dataclasses
import enum
import functools
import types

import torch
from torch import nn
from torch.nn import functional

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


def test_scripted_modules_keep_their_configuration():
    scripted = torch.jit.script(nn.Conv2d(3, 8, 3, stride=2))
    assert config.read(scripted)["stride"] == [2, 2]
