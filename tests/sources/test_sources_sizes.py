"""Image and video sizes found on plain models, which only run at the size that they were built for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from opening import open_model
from torch import nn

from assay.sources.inputs import find_inputs


def shapes(module):
    """The shapes of the inferred inputs, after checking that the module runs on them."""
    inputs = find_inputs(None, open_model(module))
    with torch.no_grad():
        module.eval()(*inputs.args, **inputs.kwargs)
    return [tuple(tensor.shape) for tensor in (*inputs.args, *inputs.kwargs.values())]


class VisionTransformer(nn.Module):
    """As in torchvision: patches by a convolution, one class token, learned positions that must match exactly."""

    def __init__(self, side, patch, *, special=1, width=8):
        super().__init__()
        self.conv_proj = nn.Conv2d(3, width, patch, stride=patch)
        self.special = nn.Parameter(torch.zeros(1, special, width))
        self.encoder = nn.Module()
        self.encoder.pos_embedding = nn.Parameter(torch.zeros(1, (side // patch) ** 2 + special, width))
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        patches = self.conv_proj(x).flatten(2).transpose(1, 2)
        return self.head((torch.cat([self.special, patches], 1) + self.encoder.pos_embedding)[:, 0])


class PatchEmbed(nn.Module):
    """As in timm: the patch embedding knows and checks the size."""

    def __init__(self, side, patch, width=8):
        super().__init__()
        self.img_size = (side, side)
        self.proj = nn.Conv2d(3, width, patch, stride=patch)

    def forward(self, x):
        assert x.shape[-2:] == self.img_size
        return self.proj(x).flatten(2).transpose(1, 2)


class TimmLike(nn.Module):
    def __init__(self, side):
        super().__init__()
        self.pretrained_cfg = {"input_size": (3, 224, 224)}
        self.patch_embed = PatchEmbed(side, 14)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.patch_embed(x).mean(1))


class LinearPatches(nn.Module):
    """Patches by a linear layer, so that no convolution tells the channels."""

    def __init__(self, side, patch, channels):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(channels * patch * patch, 8)
        self.pos_embedding = nn.Parameter(torch.zeros(1, (side // patch) ** 2, 8))

    def forward(self, img):
        columns = nn.functional.unfold(img, self.patch, stride=self.patch).transpose(1, 2)
        return self.embed(columns) + self.pos_embedding


class Multiscale(nn.Module):
    """As MViT in torchvision: overlapping patches of a video, and positions that know how many there are."""

    def __init__(self, frames, side):
        super().__init__()
        self.conv_proj = nn.Conv3d(3, 8, (3, 7, 7), stride=(2, 4, 4), padding=(1, 3, 3))
        self.pos_encoding = nn.Module()
        self.pos_encoding.temporal_size, self.pos_encoding.spatial_size = frames // 2, (side // 4, side // 4)
        self.pos_encoding.spatial_pos = nn.Parameter(torch.zeros((side // 4) ** 2, 8))
        self.pos_encoding.temporal_pos = nn.Parameter(torch.zeros(frames // 2, 8))

    def forward(self, x):
        positions = self.pos_encoding
        table = positions.temporal_pos[:, None] + positions.spatial_pos
        return self.conv_proj(x).flatten(2).transpose(1, 2) + table.flatten(0, 1)


class Sized(nn.Module):
    """A model that runs at one size only, which nothing but `holder` states."""

    def __init__(self, side, **attributes):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self._only = side
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x):
        assert x.shape[-2:] == (self._only, self._only)
        return self.conv(x)


@pytest.mark.parametrize(("side", "patch"), [(448, 16), (512, 16), (518, 14), (224, 16), (72, 12)])
@pytest.mark.parametrize("special", [0, 1, 5])
def test_learned_positions_give_the_image_size(side, patch, special):
    assert shapes(VisionTransformer(side, patch, special=special)) == [(1, 3, side, side)]


@pytest.mark.parametrize("side", [448, 518])
def test_the_patch_embedding_is_more_reliable_than_the_settings(side):
    assert shapes(TimmLike(side)) == [(1, 3, side, side)]


@pytest.mark.parametrize(("side", "patch", "channels"), [(448, 16, 3), (56, 7, 1)])
def test_linear_patches_give_channels_and_size(side, patch, channels):
    assert shapes(LinearPatches(side, patch, channels)) == [(1, channels, side, side)]


def test_the_positions_of_a_video_give_frames_and_size():
    assert shapes(Multiscale(8, 160)) == [(1, 3, 8, 160, 160)]


@pytest.mark.parametrize(
    "attributes",
    [
        {"image_size": 333},
        {"img_size": (333, 333)},
        {"input_size": [3, 333, 333]},
        {"default_cfg": {"input_size": (3, 333, 333)}},
        {"pretrained_cfg": SimpleNamespace(input_size=(3, 333, 333))},
        {"config": {"image_size": 333}},
        {"config": SimpleNamespace(img_size=333)},
    ],
    ids=str,
)
def test_a_stated_size_is_used(attributes):
    assert shapes(Sized(333, **attributes)) == [(1, 3, 333, 333)]


def test_a_stated_size_that_does_not_run_is_not_used():
    assert shapes(Sized(64, image_size=333)) == [(1, 3, 64, 64)]


def test_the_description_names_the_source_of_the_size():
    inputs = find_inputs(None, open_model(TimmLike(448)))
    assert inputs.how == "inferred: 1x3x448x448:float32 from patch_embed.img_size"
