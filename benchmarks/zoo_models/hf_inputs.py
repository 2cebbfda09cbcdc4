"""Inputs for small transformers models: a recipe lists argument names of forward, and one function builds each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

TOKENS = 12
FRAMES = 64
SAMPLES = 4000

RECIPES: dict[str, tuple[str, ...]] = {
    "text": ("input_ids",),
    "text-to-text": ("input_ids", "decoder_input_ids"),
    "image": ("pixel_values",),
    "image-text": ("input_ids", "pixel_values"),
    "waveform": ("input_values",),
    "features": ("input_features",),
    "features-to-text": ("input_features", "decoder_input_ids"),
    "waveform-to-text": ("input_values", "decoder_input_ids"),
    "patches": ("hidden_states", "grid_thw"),
    "patches-2d": ("pixel_values", "grid_thw"),
    "video": ("pixel_values_videos",),
    "series": ("past_values", "past_time_features", "past_observed_mask", "future_values", "future_time_features"),
    "series-plain": ("past_values",),
    "boxes": ("input_ids", "bbox"),
    "embeds": ("inputs_embeds",),
    "clip": ("pixel_values=pixel_values_videos",),
    "clip-text": ("input_ids", "pixel_values=pixel_values_videos"),
    "video-text": ("input_ids", "pixel_values_videos"),
    "regions": ("input_ids", "visual_feats", "visual_pos"),
    "pairs": ("pixel_values=image_pair",),
    "flat-patches": ("pixel_values=flat_patches", "pixel_attention_mask", "spatial_shapes"),
    "vision-patches": ("pixel_values=hidden_states", "grid_thw"),
}


class NoInput(Exception):
    """The configuration does not determine the shape of this input."""


def make(recipe: str, config: Any) -> dict[str, Any]:
    """The keyword arguments of `recipe` for a model of this configuration."""
    generator = torch.Generator().manual_seed(0)
    result = {}
    for item in RECIPES[recipe]:
        name, _, maker = item.partition("=")
        result[name] = MAKERS[maker or name](config, generator)
    return result


def attribute(config: Any, *names: str) -> Any:
    """The first of `names` that the configuration or one of its sub-configurations has."""
    for name in names:
        value = getattr(config, name, None)
        if value is not None:
            return value
    for value in vars(config).values():
        if hasattr(value, "model_type"):
            try:
                return attribute(value, *names)
            except NoInput:
                continue
    raise NoInput(" or ".join(names))


def _ids(config: Any, generator: torch.Generator) -> Tensor:
    size = attribute(config, "vocab_size", "src_vocab_size")
    return torch.randint(min(64, size // 2), size, (1, TOKENS), generator=generator)


def _decoder_ids(config: Any, generator: torch.Generator) -> Tensor:
    size = attribute(config, "vocab_size", "tgt_vocab_size")
    return torch.randint(min(64, size // 2), size, (1, TOKENS // 2), generator=generator)


def _image(config: Any, generator: torch.Generator) -> Tensor:
    channels = getattr(config, "num_channels", None) or _or(config, 3, "num_channels")
    side = _or(config, 64, "image_size")
    side = (side, side) if isinstance(side, int) else side
    height, width = side if isinstance(side, (list, tuple)) and isinstance(side[0], int) else (64, 64)
    channels = channels if isinstance(channels, int) else 3
    return torch.randn(1, channels, height, width, generator=generator)


def _or(config: Any, default: Any, *names: str) -> Any:
    try:
        return attribute(config, *names)
    except NoInput:
        return default


def _waveform(config: Any, generator: torch.Generator) -> Tensor:
    bins = getattr(config, "num_mel_bins", None)
    if bins and hasattr(config, "max_length"):
        return torch.randn(1, config.max_length, bins, generator=generator)
    shape = (1, 1, SAMPLES) if hasattr(config, "codebook_size") else (1, SAMPLES)
    return torch.randn(*shape, generator=generator)


def _features(config: Any, generator: torch.Generator) -> Tensor:
    bins = attribute(config, "num_mel_bins", "feature_projection_input_dim", "input_feat_size", "input_dim")
    positions = _or(config, None, "max_source_positions")
    if positions and hasattr(config, "num_mel_bins"):
        return torch.randn(1, bins, 2 * positions, generator=generator)
    return torch.randn(1, FRAMES, bins, generator=generator)


def _patches(config: Any, generator: torch.Generator) -> Tensor:
    side = attribute(config, "patch_size")
    width = (
        _or(config, 3, "in_channels", "num_channels", "in_chans")
        * _or(config, 1, "temporal_patch_size")
        * side
        * side
    )
    return torch.randn(16, width, generator=generator)


def _grid(config: Any, generator: torch.Generator) -> Tensor:
    return torch.tensor([[1, 4, 4]])


def _video(config: Any, generator: torch.Generator) -> Tensor:
    side = _or(config, 64, "image_size", "crop_size")
    side = side if isinstance(side, int) else 64
    frames = _or(config, 4, "num_frames", "frames_per_clip")
    return torch.randn(1, frames, 3, side, side, generator=generator)


def _boxes(config: Any, generator: torch.Generator) -> Tensor:
    return torch.randint(0, 50, (1, TOKENS, 4), generator=generator).sort(dim=-1).values


def _embeds(config: Any, generator: torch.Generator) -> Tensor:
    return torch.randn(1, TOKENS, attribute(config, "hidden_size", "d_model"), generator=generator)


def _past(config: Any) -> int:
    lags = getattr(config, "lags_sequence", None) or [0]
    return attribute(config, "context_length", "prediction_length") + max(lags)


def _past_values(config: Any, generator: torch.Generator) -> Tensor:
    channels = getattr(config, "num_input_channels", None)
    shape = (1, _past(config), channels) if channels else (1, _past(config))
    return torch.randn(*shape, generator=generator)


def _past_times(config: Any, generator: torch.Generator) -> Tensor:
    return torch.randn(1, _past(config), attribute(config, "num_time_features"), generator=generator)


def _past_mask(config: Any, generator: torch.Generator) -> Tensor:
    return torch.ones(1, _past(config))


def _future_values(config: Any, generator: torch.Generator) -> Tensor:
    return torch.randn(1, config.prediction_length, generator=generator)


def _future_times(config: Any, generator: torch.Generator) -> Tensor:
    return torch.randn(1, config.prediction_length, config.num_time_features, generator=generator)


def _feats(config: Any, generator: torch.Generator) -> Tensor:
    return torch.randn(1, 4, config.visual_feat_dim, generator=generator)


def _places(config: Any, generator: torch.Generator) -> Tensor:
    return torch.rand(1, 4, 4, generator=generator)


def _pair(config: Any, generator: torch.Generator) -> Tensor:
    return torch.rand(1, 2, 3, 64, 64, generator=generator)


def _flat_patches(config: Any, generator: torch.Generator) -> Tensor:
    side = attribute(config, "patch_size")
    return torch.randn(1, 16, 3 * side * side, generator=generator)


def _patch_mask(config: Any, generator: torch.Generator) -> Tensor:
    return torch.ones(1, 16, dtype=torch.long)


def _patch_shapes(config: Any, generator: torch.Generator) -> Tensor:
    return torch.tensor([[4, 4]])


MAKERS: dict[str, Callable[[Any, torch.Generator], Any]] = {
    "input_ids": _ids,
    "decoder_input_ids": _decoder_ids,
    "pixel_values": _image,
    "input_values": _waveform,
    "input_features": _features,
    "hidden_states": _patches,
    "grid_thw": _grid,
    "pixel_values_videos": _video,
    "bbox": _boxes,
    "inputs_embeds": _embeds,
    "past_values": _past_values,
    "past_time_features": _past_times,
    "past_observed_mask": _past_mask,
    "future_values": _future_values,
    "future_time_features": _future_times,
    "visual_feats": _feats,
    "visual_pos": _places,
    "image_pair": _pair,
    "flat_patches": _flat_patches,
    "pixel_attention_mask": _patch_mask,
    "spatial_shapes": _patch_shapes,
}
