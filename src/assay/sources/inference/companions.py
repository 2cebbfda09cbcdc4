"""Inputs whose shape or values follow from another input: grids and sizes of images, masks, types of tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from assay.sources.inference.facts import Facts, number
from assay.sources.tensors import TensorSpec

Chosen = Mapping[str, TensorSpec]
"""The inputs that have been chosen so far, by name."""
Companion = Callable[[Facts, Chosen], TensorSpec | None]
"""The input that goes with the chosen ones; None if they do not determine it."""


def _exact(*values: int) -> TensorSpec:
    """One row of values."""
    return TensorSpec((1, len(values)), "int64", values=values)


def _ones(*shape: int) -> TensorSpec:
    return TensorSpec(shape, "int64", low=1, high=2)


def _of(names: str | tuple[str, ...], build: Callable[[TensorSpec], TensorSpec | None]) -> Companion:
    """A companion that depends on one input alone, the first of `names` that is chosen."""
    candidates = (names,) if isinstance(names, str) else names

    def companion(facts: Facts, chosen: Chosen) -> TensorSpec | None:
        return next((build(chosen[name]) for name in candidates if name in chosen), None)

    return companion


def _side(patches: TensorSpec) -> int:
    """The side of the square of patches in a sequence of them."""
    in_rows = len(patches.shape) == 3 or (len(patches.shape) == 4 and patches.shape[0] == 1)
    count = patches.shape[0]
    if in_rows:
        count = patches.shape[1] if len(patches.shape) == 3 else patches.shape[3] // patches.shape[2]
    return math.isqrt(count)


def _grid(patches: TensorSpec) -> TensorSpec:
    """One frame of a square of patches."""
    return _exact(1, _side(patches), _side(patches))


def _shape(patches: TensorSpec) -> TensorSpec:
    return _exact(_side(patches), _side(patches))


def _image_size(pixels: TensorSpec) -> TensorSpec | None:
    return _exact(*pixels.shape[-2:]) if len(pixels.shape) > 3 else None


def _pixel_mask(pixels: TensorSpec) -> TensorSpec:
    """Ones for all pixels of each image, or for all patches of a sequence."""
    return _ones(*pixels.shape[:2]) if len(pixels.shape) == 3 else _ones(*pixels.shape[:-3], *pixels.shape[-2:])


def _tile_mask(pixels: TensorSpec) -> TensorSpec | None:
    return _ones(*pixels.shape[:3]) if len(pixels.shape) == 6 else None


def _merge_size(name: str) -> Companion:
    def companion(facts: Facts, chosen: Chosen) -> TensorSpec | None:
        size = number((facts.vision, facts.config, facts.processor), "spatial_merge_size", "merge_size") or 1
        return TensorSpec((1,), "int64", values=(size,)) if name in chosen else None

    return companion


def _frames_mask(features: TensorSpec) -> TensorSpec:
    """Ones for all steps of audio features, whose bins are fewer."""
    return _ones(features.shape[0], max(features.shape[1:]))


def _patch_mask(facts: Facts, chosen: Chosen) -> TensorSpec | None:
    """Ones for all patches of each crop of an image."""
    pixels, patch = chosen.get("image_pixel_values"), number((facts.vision,), "patch_size")
    if pixels is None or patch is None or len(pixels.shape) != 5:
        return None
    return _ones(*pixels.shape[:2], pixels.shape[-2] // patch, pixels.shape[-1] // patch)


def _audio_lengths(facts: Facts, chosen: Chosen) -> TensorSpec | None:
    """The number of embeddings of the sound."""
    features = chosen.get("audio_input_features")
    if features is None or len(features.shape) != 3:
        return None
    steps = [number((facts.audio,), name) or 1 for name in ("time_reduction", "downsample_rate")]
    return TensorSpec((1,), "int64", values=(-(-features.shape[1] // math.prod(steps)),))


def _high_resolution(facts: Facts, chosen: Chosen) -> TensorSpec | None:
    """The same image for a second tower, which takes it larger."""
    side = number((getattr(facts.config, "high_res_vision_config", None),), "image_size")
    return TensorSpec((1, facts.channels, side, side)) if side and "pixel_values" in chosen else None


def _token_types(facts: Facts, chosen: Chosen) -> TensorSpec | None:
    """For each token 0 if it is text, 1 for an image, 2 for a video, 3 for sound."""
    ids = chosen.get("input_ids")
    if ids is None:
        return None
    kinds = {facts.placeholder(modality): kind for kind, modality in enumerate(("image", "video", "audio"), 1)}
    values = ids.values or (-1,) * math.prod(ids.shape)
    return TensorSpec(ids.shape, "int64", values=tuple(kinds.get(value, 0) for value in values))


TABLE: dict[str, Companion] = {
    "attention_mask": _of("input_ids", lambda ids: _ones(*ids.shape)),
    # One empty box for all tokens: corners in the wrong order would be rejected.
    "bbox": _of("input_ids", lambda ids: TensorSpec((*ids.shape, 4), "int64", low=0, high=1)),
    "mm_token_type_ids": _token_types,
    "image_grid_thw": _of("pixel_values", _grid),
    "video_grid_thw": _of("pixel_values_videos", _grid),
    "grid_thw": _of(("hidden_states", "pixel_values"), _grid),
    "image_merge_sizes": _merge_size("pixel_values"),
    "video_merge_sizes": _merge_size("pixel_values_videos"),
    "spatial_shapes": _of("pixel_values", _shape),
    "target_sizes": _of("pixel_values", _shape),
    "target_sizes_videos": _of("pixel_values_videos", _shape),
    "image_sizes": _of(("pixel_values", "image_pixel_values"), _image_size),
    "high_res_pixel_values": _high_resolution,
    "pixel_attention_mask": _of("pixel_values", _pixel_mask),
    "aspect_ratio_ids": _of("pixel_values", lambda pixels: _exact(1)),
    "aspect_ratio_mask": _of("pixel_values", _tile_mask),
    "image_attention_mask": _patch_mask,
    "input_features_mask": _of("input_features", _frames_mask),
    "feature_attention_mask": _of("input_features", _frames_mask),
    "protein_attention_mask": _of("protein_input_ids", lambda ids: _ones(*ids.shape)),
    "audio_embed_sizes": _audio_lengths,
    "audio_attention_mask": _of("audio_input_features", _frames_mask),
}
"""How each input follows from the others, by its name in forward."""

FOLLOWERS = tuple(name for name in TABLE if name not in ("attention_mask", "bbox"))
"""Companions that are given whenever the input they follow from is."""
