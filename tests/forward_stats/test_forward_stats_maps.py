"""Images of the outputs of convolutions: the chosen channels and their pixels, against numpy."""

from __future__ import annotations

import copy
import math
from itertools import pairwise

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from assay.document.activations import Activations
from assay.forward_stats.activation_maps import CHANNELS, MAX_MODULES, SIDE
from assay.forward_stats.activations import record_values
from assay.recorder.watch import PassSettings

SETTING = PassSettings("real", False)


class Pictures(nn.Module):
    """Convolutions of several kinds, one of which is called twice, and layers that are none."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 3, padding=1)
        self.norm = nn.BatchNorm2d(12)
        self.twice = nn.Conv2d(12, 12, 3, padding=1)
        self.down = nn.Conv2d(12, 5, 3, stride=4)
        self.up = nn.ConvTranspose2d(5, 4, 2, stride=2)
        self.unused = nn.Conv2d(4, 4, 1)
        self.line = nn.Conv1d(4, 4, 1)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        x = self.up(self.down(self.twice(self.twice(x))))
        return self.line(x.flatten(2)).mean()


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Pictures().eval()


@pytest.fixture
def images():
    return torch.randn(2, 3, 60, 45)


def recorded(model: nn.Module, *inputs: torch.Tensor) -> Activations:
    return record_values(model, inputs, {}, SETTING, maps=True)


def area_means(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """The mean over the pixels that each pixel of the smaller image touches."""

    def touched(at: int, size: int, sides: int) -> slice:
        return slice(at * size // sides, -((at + 1) * size // -sides))

    rows, columns = image.shape
    return np.array(
        [
            [image[touched(y, rows, height), touched(x, columns, width)].mean() for x in range(width)]
            for y in range(height)
        ]
    )


def grey(image: np.ndarray) -> np.ndarray:
    low, high = image.min(), image.max()
    return np.zeros(image.shape) if low == high else np.rint(255 * (image - low) / (high - low))


def pixels(row) -> np.ndarray:
    return np.frombuffer(row.pixels, np.uint8).reshape(len(row.channels), row.height, row.width)


def test_images_are_area_means_of_the_channels_with_the_largest_variance(model, images):
    outputs = {}
    for module in model.modules():
        module.register_forward_hook(lambda module, _, result: outputs.setdefault(module, result.detach()))
    model(images)
    maps = recorded(model, images).maps
    modules = [list(model.modules())[row.module] for row in maps]
    assert modules == [model.stem, model.twice, model.down, model.up]
    sizes = [(row.height, row.width) for row in maps]
    assert sizes == [(24, 18), (24, 18), (15, 11), (24, 18)]
    for row, module in zip(maps, modules, strict=True):
        output = outputs[module].numpy().astype(np.float64)
        assert row.shape == output.shape
        variances = output[0].var((1, 2))
        assert list(row.channels) == list(np.argsort(-variances)[:CHANNELS])
        for at, channel in enumerate(row.channels):
            expected = area_means(output[0, channel], row.height, row.width)
            assert np.abs(pixels(row)[at].astype(int) - grey(expected)).max() <= 1  # values halfway between two greys
            assert (row.low[at], row.high[at]) == pytest.approx((expected.min(), expected.max()), rel=1e-5)


def test_images_hold_the_longer_side_within_the_limit():
    model = nn.Conv2d(1, 2, 1)
    for height, width, size in ((1, 1, (1, 1)), (SIDE, 7, (SIDE, 7)), (1, 1000, (1, SIDE)), (300, 100, (SIDE, 8))):
        (row,) = recorded(model, torch.randn(1, 1, height, width)).maps
        assert (row.height, row.width) == size
        assert len(row.pixels) == 2 * math.prod(size)


def test_a_channel_of_one_value_is_black_and_huge_values_do_not_overflow():
    model = nn.Conv2d(1, 3, 1, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([0.0, 1.0, 3e38]).reshape(3, 1, 1, 1))
    (row,) = recorded(model, torch.linspace(-1, 1, 48 * 48).reshape(1, 1, 48, 48)).maps
    assert row.channels == (2, 1, 0)
    assert pixels(row)[2].max() == 0
    assert (pixels(row)[0] == pixels(row)[1]).all()
    assert (pixels(row)[0].min(), pixels(row)[0].max()) == (0, 255)
    assert all(map(math.isfinite, row.low + row.high))


def test_channels_with_values_that_are_not_finite_are_left_out():
    model = nn.Conv2d(1, 4, 1)
    with torch.no_grad():
        model.bias[1], model.bias[2] = float("nan"), float("inf")
    (row,) = recorded(model, torch.randn(1, 1, 8, 8)).maps
    assert sorted(row.channels) == [0, 3]
    assert len(row.pixels) == 2 * 64
    with torch.no_grad():
        model.bias.fill_(float("nan"))
    assert recorded(model, torch.randn(1, 1, 8, 8)).maps == []


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_images_are_drawn_in_every_float_dtype(dtype):
    torch.manual_seed(0)
    model, x = nn.Conv2d(1, 3, 3).to(dtype), torch.randn(1, 1, 20, 20, dtype=dtype)
    (row,) = recorded(model, x).maps
    output = model(x)[0].detach().double().numpy()
    for at, channel in enumerate(row.channels):
        assert np.abs(pixels(row)[at].astype(int) - grey(output[channel])).max() <= 1


def test_modules_are_spread_evenly_and_the_size_is_bounded():
    depth = 3 * MAX_MODULES + 1
    model = nn.Sequential(*(nn.Conv2d(9, 9, 3, padding=1) for _ in range(depth)))
    maps = recorded(model, torch.randn(1, 9, 64, 64)).maps
    indices = [row.module for row in maps]
    assert (len(indices), indices[0], indices[-1]) == (MAX_MODULES, 1, depth)
    steps = {after - before for before, after in pairwise(indices)}
    assert steps <= {3, 4}
    assert sum(len(row.pixels) for row in maps) <= 150_000
    assert len(msgspec.json.encode(maps)) < 230_000


def test_the_model_and_the_inputs_stay_bit_for_bit_as_they_were(model, images):
    before, given = copy.deepcopy(model.state_dict()), images.clone()
    state = torch.get_rng_state()
    recorded(model, images)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(images, given)
    assert torch.equal(torch.get_rng_state(), state)
    assert not model.training


def test_statistics_are_the_same_with_and_without_images(model, images):
    plain = record_values(model, (images,), {}, SETTING)
    drawn = recorded(model, images)
    assert plain.maps == []
    assert "maps" not in plain.columns
    assert msgspec.structs.replace(drawn, maps=[], columns=plain.columns) == plain


def test_images_survive_saving(model, images):
    values = recorded(model, images)
    assert msgspec.json.decode(msgspec.json.encode(values), type=Activations) == values


def test_outputs_inside_vmap_are_left_out():
    class Mapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Conv2d(1, 2, 1), nn.Conv2d(2, 2, 1)

        def forward(self, x):
            return self.outer(torch.vmap(self.inner)(x).flatten(0, 1))

    values = recorded(Mapped(), torch.randn(2, 3, 1, 4, 4))
    assert values.failure == ""
    assert [row.module for row in values.maps] == [2]


def test_a_convolution_without_a_batch_has_no_images():
    assert recorded(nn.Conv2d(1, 2, 1), torch.randn(1, 8, 8)).maps == []
