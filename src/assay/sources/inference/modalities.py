"""What each named input of a transformers model looks like: text, images, sound, video, series."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.sources.inference.facts import Facts, number
from assay.sources.inference.guess import parameters
from assay.sources.inference.layers import layers, learned_positions
from assay.sources.tensors import TensorSpec

Options = list[TensorSpec]
"""What an input may look like, likeliest first."""

_SAMPLES = 16000
"""One second of sound at the rate speech models use."""
_FRAMES = 8
_GRID = 16
"""Patches along each side of an image."""
_LARGER = ((512, 512), (1536, 1536))
"""Tried where a model refuses the usual size of an image."""
_REGIONS = 36
"""Regions of an image that a detector found."""
_STATES = 20
"""Steps of a trajectory."""


def _ids(told: Facts, module: Any) -> Options:
    return _text(told, learned_positions(module))


def _decoder_ids(told: Facts, module: Any) -> Options:
    return _text(told, learned_positions(module, apart_from="encoder."))


def _text(told: Facts, longest: int) -> Options:
    low, high = told.vocabulary
    return [TensorSpec((1, min(told.tokens, longest)), "int64", low=low, high=high)]


def _question(told: Facts, module: Any) -> Options:
    """Text for the part that asks about an image and has a vocabulary of its own."""
    part = getattr(told.config, "qformer_config", told.text)
    return [TensorSpec((1, 32), "int64", low=0, high=number((part,), "vocab_size") or 2)]


def _pixels(told: Facts, module: Any) -> Options:
    if "grid_thw" in parameters(module):
        return _patches(told, module)
    frames = number((told.vision, told.config), "num_frames")
    still = [TensorSpec((1, told.channels, *size)) for size in (told.image, *_LARGER)]
    if frames is not None:
        return [TensorSpec((1, frames, told.channels, *told.image)), *still]
    # Models that match two images take them as a pair.
    return [*still, TensorSpec((1, 2, told.channels, *told.image))]


def _video(told: Facts, module: Any) -> Options:
    frames = number((told.vision, told.config), "num_frames", "frames_per_clip") or _FRAMES
    return [TensorSpec((1, frames, told.channels, *told.image))]


def _patches(told: Facts, module: Any) -> Options:
    """A square image cut into patches that stand in a row."""
    side = number((told.vision,), "patch_size") or 14
    depth = number((told.vision,), "temporal_patch_size") or 1
    patches, channels = _GRID * _GRID, told.channels
    widths = dict.fromkeys((channels * depth * side * side, *_linear_widths(module)))
    return [*(TensorSpec((patches, width)) for width in widths), TensorSpec((patches, channels, side, side))]


def _linear_widths(module: Any) -> list[int]:
    """What the first linear layer takes, where a config does not say it."""
    return [spec.shape[-1] for layer in layers(module) if "linear" in layer.source for spec in layer.inputs]


def _waveform(told: Facts, module: Any) -> Options:
    length = number((told.audio, told.config), "max_length")
    mels = number((told.audio, told.config), "num_mel_bins")
    samples = [TensorSpec((1, _SAMPLES)), TensorSpec((1, 1, _SAMPLES))]
    if length is not None and mels is not None:
        return [TensorSpec((1, length, mels)), *samples]
    channels = number((told.config,), "audio_channels", "channels")
    return samples[::-1] if channels is not None else samples


def _features(told: Facts, module: Any) -> Options:
    positions = number((told.audio, told.config), "max_source_positions", "max_position_embeddings")
    steps = 2 * positions if positions and positions <= 5000 else 400
    wide = [TensorSpec((1, told.mels, length)) for length in dict.fromkeys((steps, 400))]
    tall = [TensorSpec((1, 400, mels)) for mels in dict.fromkeys((told.mels, *_linear_widths(module), 80, 128))]
    return [*wide, *tall, TensorSpec((1, 1, 1024, told.mels))]


def _features_mask(told: Facts, module: Any) -> Options:
    shapes = [spec.shape for spec in _features(told, module)]
    return [TensorSpec((1, max(shape[1:])), "int64", low=1, high=2) for shape in shapes]


def _series(told: Facts, module: Any) -> Options:
    steps = (number((told.config,), "context_length", "prediction_length") or 64) + _lags(told)
    channels = number((told.config,), "num_input_channels", "input_size") or 1
    return [TensorSpec((1, steps, channels)), TensorSpec((1, steps))][:: -1 if channels == 1 else 1]


def _series_mask(told: Facts, module: Any) -> Options:
    return [TensorSpec(spec.shape, low=1, high=2) for spec in _series(told, module)]


def _time_features(told: Facts, steps: int | None) -> Options:
    return [TensorSpec((1, steps or 1, number((told.config,), "num_time_features") or 1))]


def _lags(told: Facts) -> int:
    lags = getattr(told.config, "lags_sequence", None)
    return max(lags) if lags else 0


def _rows(count: int, *names: str) -> Callable[[Facts, Any], Options]:
    """Reads `count` rows of as many numbers as the config says under one of `names`."""

    def read(told: Facts, module: Any) -> Options:
        return [TensorSpec((1, count, number((told.config,), *names) or 1))]

    return read


def _hidden(told: Facts, module: Any) -> Options:
    width = number((told.text, told.config), "d_model", "hidden_size") or 1
    return [TensorSpec((1, 32, width))]


TABLE: dict[str, Callable[[Facts, Any], Options]] = {
    "input_ids": _ids,
    "decoder_input_ids": _decoder_ids,
    "qformer_input_ids": _question,
    "attention_mask": lambda told, module: [TensorSpec(_ids(told, module)[0].shape, "int64", low=1, high=2)],
    # One empty box at one place: corners in the wrong order would be refused.
    "bbox": lambda told, module: [TensorSpec((*_ids(told, module)[0].shape, 4), "int64", low=0, high=1)],
    "pixel_values": _pixels,
    "pixel_values_videos": _video,
    "visual_feats": _rows(_REGIONS, "visual_feat_dim"),
    "visual_pos": _rows(_REGIONS, "visual_pos_dim"),
    "hidden_states": _patches,
    "grid_thw": lambda told, module: [TensorSpec((1, 3), "int64", values=(1, _GRID, _GRID))],
    "input_values": _waveform,
    "input_features": _features,
    "input_features_mask": _features_mask,
    "past_values": _series,
    "past_observed_mask": _series_mask,
    "past_time_features": lambda told, module: _time_features(told, _series(told, module)[0].shape[1]),
    "future_time_features": lambda told, module: _time_features(told, number((told.config,), "prediction_length")),
    "states": _rows(_STATES, "state_dim"),
    "actions": _rows(_STATES, "act_dim"),
    "rewards": _rows(_STATES),
    "returns_to_go": _rows(_STATES),
    "timesteps": lambda told, module: [TensorSpec((1, _STATES), "int64", low=0, high=_STATES)],
    "inputs": _hidden,
    "inputs_embeds": _hidden,
    "query_embeds": _hidden,
}
"""How each input is read from the config, by its name in forward."""

TOGETHER: dict[str, tuple[str, ...]] = {
    "lxmert": ("visual_feats", "visual_pos"),
    "decision_transformer": ("actions", "rewards", "returns_to_go", "timesteps"),
}
"""Inputs that a model type wants although forward does not demand them, and no trial would find."""
