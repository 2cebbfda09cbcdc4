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
_SHORTER = (64, 32, 16)
"""Tokens in a text that is tried if the usual one is too long."""
_SIDE = 224
"""Pixels along each side of an image whose size the model leaves open."""
_USUAL_SIDE = 512
"""Larger sizes in a config are often only an upper limit."""
_LARGER = ((512, 512), (1536, 1536))
"""Tried if a model rejects the usual image size."""
_REGIONS = 36
"""Number of image regions from an object detector."""
_STATES = 20
"""Steps in a trajectory, or in another short sequence."""


def _ids(facts: Facts, module: Any) -> Options:
    return [*_text(facts, learned_positions(module)), *_codes(facts)]


def _codes(facts: Facts) -> Options:
    """Text beside the codes of sound: one row of ids per step."""
    codebooks = number((facts.config,), "num_codebooks")
    sizes = [number((facts.config,), name) for name in ("vocab_size", "codebook_vocab_size")]
    high = min((size for size in sizes if size), default=2)
    columns = (codebooks + 1, codebooks) if codebooks else ()
    return [TensorSpec((1, _STATES, count), "int64", low=0, high=high) for count in columns]


def _protein(facts: Facts, module: Any) -> Options:
    part = getattr(facts.config, "protein_encoder_config", None)
    return [TensorSpec((1, _STATES), "int64", low=0, high=number((part,), "vocab_size") or 2)]


def _decoder_ids(facts: Facts, module: Any) -> Options:
    return _text(facts, learned_positions(module, apart_from="encoder."))


def _text(facts: Facts, longest: int) -> Options:
    low, high = facts.vocabulary
    usual = min(facts.tokens, longest)
    lengths = [usual, *(length for length in _SHORTER if length < usual)]
    return [TensorSpec((1, length), "int64", low=low, high=high) for length in lengths]


def _question(facts: Facts, module: Any) -> Options:
    """Text for the Q-Former, which has its own vocabulary."""
    part = getattr(facts.config, "qformer_config", facts.text)
    return [TensorSpec((1, 32), "int64", low=0, high=number((part,), "vocab_size") or 2)]


def _pixels(facts: Facts, module: Any) -> Options:
    names = parameters(module)
    if "grid_thw" in names or "image_grid_thw" in names:
        return _patches(facts, module)
    if "spatial_shapes" in names:
        return [TensorSpec((1, *spec.shape)) for spec in _patches(facts, module)]
    if "target_sizes" in names:
        return _strip(facts, module)
    frames = number((facts.vision, facts.config), "num_frames")
    still = [TensorSpec((1, facts.channels, *size)) for size in _image_sizes(facts)]
    if frames is not None:
        return [TensorSpec((1, frames, facts.channels, *facts.image)), *still]
    if "aspect_ratio_ids" in names:
        return [_tiles(facts)]
    # Models that match two images take a pair, others a list of crops or images.
    return [*still[:1], *_crops(facts, module), *still[1:]]


def _crops(facts: Facts, module: Any) -> Options:
    """One image as a whole and cut into parts, as few as the config's grids allow."""
    counts = sorted({1, 2, 3, 5, *_grid_parts(facts)})
    return [TensorSpec((1, count, facts.channels, *size)) for size in _image_sizes(facts)[:2] for count in counts]


def _grid_parts(facts: Facts) -> list[int]:
    """The number of parts of the smallest grid into which an image may be cut, and the image itself."""
    grids = getattr(facts.config, "image_grid_pinpoints", None) or ()
    parts = [-(-height // facts.image[0]) * -(-width // facts.image[1]) for height, width in grids]
    return [1 + min(parts)] if parts else []


def _image_sizes(facts: Facts) -> list[tuple[int, int]]:
    """Height and width of an image: the config's if it is small, else a small one first, which many models accept."""
    unit = (number((facts.vision,), "patch_size") or 1) * (
        number((facts.vision, facts.config), "spatial_merge_size") or 1
    )
    small = max(_SIDE // unit, 1) * unit
    first = [(small, small)] if max(facts.image) > _USUAL_SIDE else []
    return [*first, facts.image, *_LARGER]


def _tiles(facts: Facts) -> TensorSpec:
    """An image cut into as many tiles as the config allows."""
    count = number((facts.vision,), "max_num_tiles") or 1
    return TensorSpec((1, 1, count, facts.channels, *facts.image))


def _strip(facts: Facts, module: Any) -> Options:
    """All patches of an image side by side."""
    side = number((facts.vision,), "patch_size") or 14
    return [TensorSpec((1, facts.channels, side, _GRID * _GRID * side))]


def _video(facts: Facts, module: Any) -> Options:
    names = parameters(module)
    if "video_grid_thw" in names:
        return _patches(facts, module)
    if "target_sizes_videos" in names:
        return _strip(facts, module)
    frames = number((facts.vision, facts.config), "num_frames", "frames_per_clip") or _FRAMES
    return [TensorSpec((1, frames, facts.channels, *facts.image))]


def _patches(facts: Facts, module: Any) -> Options:
    """A square image cut into a sequence of patches."""
    side = number((facts.vision, facts.processor), "patch_size") or 14
    depth = number((facts.vision, facts.processor), "temporal_patch_size") or 1
    patches, channels = _GRID * _GRID, facts.channels
    widths = dict.fromkeys((channels * depth * side * side, channels * side * side, *_linear_widths(module)))
    return [*(TensorSpec((patches, width)) for width in widths), TensorSpec((patches, channels, side, side))]


def _flattened(facts: Facts, module: Any) -> Options:
    """A sequence of patches, each after its row and column, which are 0."""
    side = number((facts.vision,), "patch_size") or 16
    width = number((facts.vision,), "patch_embed_hidden_size") or facts.channels * side * side
    return [TensorSpec((1, _GRID * _GRID, 2 + width), low=0, high=1)]


def _linear_widths(module: Any) -> list[int]:
    """The features that the first linear layers take, those of patches first."""
    patched = [
        child.in_features
        for path, child in module.named_modules()
        if "patch" in path and isinstance(getattr(child, "in_features", None), int)
    ]
    first = [spec.shape[-1] for layer in layers(module) if "linear" in layer.source for spec in layer.inputs]
    return [*patched[:1], *first]


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
    frames = number((facts.processor,), "nb_max_frames")
    steps = 2 * positions if positions and positions <= 5000 else frames or 400
    wide = [TensorSpec((1, facts.mels, length)) for length in dict.fromkeys((steps, 400))]
    tall = [TensorSpec((1, 400, mels)) for mels in dict.fromkeys((facts.mels, *_linear_widths(module), 80, 128))]
    return [*wide, *tall, TensorSpec((1, 1, 1024, facts.mels))]


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
    "protein_input_ids": _protein,
    "pixel_values": _pixels,
    "pixel_values_videos": _video,
    "image_pixel_values": _crops,
    "flattened_patches": _flattened,
    "visual_feats": _rows(_REGIONS, "visual_feat_dim"),
    "visual_pos": _rows(_REGIONS, "visual_pos_dim"),
    "hidden_states": _patches,
    "input_values": _waveform,
    "input_features": _features,
    "audio_input_features": _features,
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
"""How the options for each input are derived from the config, by its name in forward; see also `companions`."""

TOGETHER: dict[str, tuple[str, ...]] = {
    "lxmert": ("visual_feats", "visual_pos"),
    "decision_transformer": ("actions", "rewards", "returns_to_go", "timesteps"),
}
"""Inputs that a model type needs although forward does not require them and no trial would find them."""
