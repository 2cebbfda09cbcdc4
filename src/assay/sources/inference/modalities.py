"""The shape and dtype of each named input of a transformers model: text, images, sound, video, time series."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.sources.inference.facts import Facts, number
from assay.sources.inference.guess import parameters
from assay.sources.inference.layers import layers, learned_positions
from assay.sources.tensors import TensorSpec

Options = list[TensorSpec]
"""The tensors that an input may be, likeliest first."""

_SAMPLES = 16000
"""One second of sound at the sample rate of speech models."""
_FRAMES = 8
_GRID = 16
"""Patches along each side of an image."""
_LARGER = ((512, 512), (1536, 1536))
"""Tried if a model rejects the usual image size."""
_REGIONS = 36
"""Number of image regions from an object detector."""
_STATES = 20
"""Steps in a trajectory."""


def _ids(facts: Facts, module: Any) -> Options:
    return _text(facts, learned_positions(module))


def _decoder_ids(facts: Facts, module: Any) -> Options:
    return _text(facts, learned_positions(module, apart_from="encoder."))


def _text(facts: Facts, longest: int) -> Options:
    low, high = facts.vocabulary
    return [TensorSpec((1, min(facts.tokens, longest)), "int64", low=low, high=high)]


def _question(facts: Facts, module: Any) -> Options:
    """Text for the Q-Former, which has its own vocabulary."""
    part = getattr(facts.config, "qformer_config", facts.text)
    return [TensorSpec((1, 32), "int64", low=0, high=number((part,), "vocab_size") or 2)]


def _pixels(facts: Facts, module: Any) -> Options:
    if "grid_thw" in parameters(module):
        return _patches(facts, module)
    frames = number((facts.vision, facts.config), "num_frames")
    still = [TensorSpec((1, facts.channels, *size)) for size in (facts.image, *_LARGER)]
    if frames is not None:
        return [TensorSpec((1, frames, facts.channels, *facts.image)), *still]
    # Models that match two images take a pair.
    return [*still, TensorSpec((1, 2, facts.channels, *facts.image))]


def _video(facts: Facts, module: Any) -> Options:
    frames = number((facts.vision, facts.config), "num_frames", "frames_per_clip") or _FRAMES
    return [TensorSpec((1, frames, facts.channels, *facts.image))]


def _patches(facts: Facts, module: Any) -> Options:
    """A square image cut into a sequence of patches."""
    side = number((facts.vision,), "patch_size") or 14
    depth = number((facts.vision,), "temporal_patch_size") or 1
    patches, channels = _GRID * _GRID, facts.channels
    widths = dict.fromkeys((channels * depth * side * side, *_linear_widths(module)))
    return [*(TensorSpec((patches, width)) for width in widths), TensorSpec((patches, channels, side, side))]


def _linear_widths(module: Any) -> list[int]:
    """The features that the first linear layers take, for configs that do not specify them."""
    return [spec.shape[-1] for layer in layers(module) if "linear" in layer.source for spec in layer.inputs]


def _waveform(facts: Facts, module: Any) -> Options:
    length = number((facts.audio, facts.config), "max_length")
    mels = number((facts.audio, facts.config), "num_mel_bins")
    samples = [TensorSpec((1, _SAMPLES)), TensorSpec((1, 1, _SAMPLES))]
    if length is not None and mels is not None:
        return [TensorSpec((1, length, mels)), *samples]
    channels = number((facts.config,), "audio_channels", "channels")
    return samples[::-1] if channels is not None else samples


def _features(facts: Facts, module: Any) -> Options:
    positions = number((facts.audio, facts.config), "max_source_positions", "max_position_embeddings")
    steps = 2 * positions if positions and positions <= 5000 else 400
    wide = [TensorSpec((1, facts.mels, length)) for length in dict.fromkeys((steps, 400))]
    tall = [TensorSpec((1, 400, mels)) for mels in dict.fromkeys((facts.mels, *_linear_widths(module), 80, 128))]
    return [*wide, *tall, TensorSpec((1, 1, 1024, facts.mels))]


def _features_mask(facts: Facts, module: Any) -> Options:
    shapes = [spec.shape for spec in _features(facts, module)]
    return [TensorSpec((1, max(shape[1:])), "int64", low=1, high=2) for shape in shapes]


def _series(facts: Facts, module: Any) -> Options:
    steps = (number((facts.config,), "context_length", "prediction_length") or 64) + _lags(facts)
    channels = number((facts.config,), "num_input_channels", "input_size") or 1
    return [TensorSpec((1, steps, channels)), TensorSpec((1, steps))][:: -1 if channels == 1 else 1]


def _series_mask(facts: Facts, module: Any) -> Options:
    return [TensorSpec(spec.shape, low=1, high=2) for spec in _series(facts, module)]


def _time_features(facts: Facts, steps: int | None) -> Options:
    return [TensorSpec((1, steps or 1, number((facts.config,), "num_time_features") or 1))]


def _lags(facts: Facts) -> int:
    lags = getattr(facts.config, "lags_sequence", None)
    return max(lags) if lags else 0


def _rows(count: int, *names: str) -> Callable[[Facts, Any], Options]:
    """A reader for `count` rows; the config gives the numbers per row under one of `names` (default 1)."""

    def read(facts: Facts, module: Any) -> Options:
        return [TensorSpec((1, count, number((facts.config,), *names) or 1))]

    return read


def _hidden(facts: Facts, module: Any) -> Options:
    width = number((facts.text, facts.config), "d_model", "hidden_size") or 1
    return [TensorSpec((1, 32, width))]


TABLE: dict[str, Callable[[Facts, Any], Options]] = {
    "input_ids": _ids,
    "decoder_input_ids": _decoder_ids,
    "qformer_input_ids": _question,
    "attention_mask": lambda facts, module: [TensorSpec(_ids(facts, module)[0].shape, "int64", low=1, high=2)],
    # One empty box for all tokens: corners in the wrong order would be rejected.
    "bbox": lambda facts, module: [TensorSpec((*_ids(facts, module)[0].shape, 4), "int64", low=0, high=1)],
    "pixel_values": _pixels,
    "pixel_values_videos": _video,
    "visual_feats": _rows(_REGIONS, "visual_feat_dim"),
    "visual_pos": _rows(_REGIONS, "visual_pos_dim"),
    "hidden_states": _patches,
    "grid_thw": lambda facts, module: [TensorSpec((1, 3), "int64", values=(1, _GRID, _GRID))],
    "input_values": _waveform,
    "input_features": _features,
    "input_features_mask": _features_mask,
    "past_values": _series,
    "past_observed_mask": _series_mask,
    "past_time_features": lambda facts, module: _time_features(facts, _series(facts, module)[0].shape[1]),
    "future_time_features": lambda facts, module: _time_features(facts, number((facts.config,), "prediction_length")),
    "states": _rows(_STATES, "state_dim"),
    "actions": _rows(_STATES, "act_dim"),
    "rewards": _rows(_STATES),
    "returns_to_go": _rows(_STATES),
    "timesteps": lambda facts, module: [TensorSpec((1, _STATES), "int64", low=0, high=_STATES)],
    "inputs": _hidden,
    "inputs_embeds": _hidden,
    "query_embeds": _hidden,
}
"""How the options for each input are derived from the config, by its name in forward."""

TOGETHER: dict[str, tuple[str, ...]] = {
    "lxmert": ("visual_feats", "visual_pos"),
    "decision_transformer": ("actions", "rewards", "returns_to_go", "timesteps"),
}
"""Inputs that a model type needs although forward does not require them and no trial would find them."""
