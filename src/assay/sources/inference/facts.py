"""Reading a transformers config: the same fact is in different parts and under different names."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from msgspec import Struct

TOKENS = 128
"""Tokens in a text, if the model allows that many."""

_TEXT = ("text_config", "text_encoder", "decoder", "language_config", "llm_config", "thinker_config")
_VISION = (
    "vision_config",
    "image_config",
    "encoder",
    "image_encoder",
    "vision_encoder",
    "backbone_config",
    "vit_config",
    "vq_config",
)
_AUDIO = ("audio_config", "audio_encoder", "speech_config", "encoder_config", "speech_encoder", "encoder")
_COMMON_IDS = ("bos", "eos", "pad", "sep", "cls", "unk", "mask", "decoder_start", "begin", "forced")
"""Prefixes of special tokens that any text may contain; other special tokens represent images, sound and so on."""
_POSITIONS = ("max_position_embeddings", "n_positions", "max_target_positions", "max_seq_len", "n_ctx")


class Facts(Struct, frozen=True):
    """A config and its parts for text, images and sound."""

    config: Any
    text: Any
    vision: Any
    audio: Any
    processor: Any = None
    """The settings of the processor that prepares inputs, if they lie beside the config."""

    @property
    def vocabulary(self) -> tuple[int, int]:
        """The widest half-open range of ids without placeholders for images, sound and so on."""
        size = number((self.text, self.config), "vocab_size", "n_vocab", "src_vocab_size") or 2
        parts = (self.config, self.text, self.vision, self.audio)
        placeholders = sorted(token for token in _placeholders(parts) if 0 <= token < size)
        edges = [-1, *placeholders, size]
        gaps = [(low + 1, high) for low, high in pairwise(edges)]
        return max(gaps, key=lambda gap: gap[1] - gap[0])

    @property
    def positions(self) -> int:
        """The longest text that the config allows, sys.maxsize if it does not limit it."""
        limits = [number((part,), *_POSITIONS) for part in (self.text, self.config)]
        return min((limit for limit in limits if limit and limit > 0), default=sys.maxsize)

    @property
    def tokens(self) -> int:
        """The number of tokens in a text: `TOKENS`, or less if the config limits it."""
        return min(TOKENS, self.positions)

    def placeholder(self, modality: str) -> int | None:
        """The id of the token that stands for an `image`, a `video` or `audio` in a text; None if there is none."""
        parts = (self.config, self.text, self.vision, self.audio)
        return number(parts, f"{modality}_token_id", f"{modality}_token_index")

    @property
    def channels(self) -> int:
        """The number of channels of an image."""
        return number((self.vision, self.config), "num_channels", "in_channels", "in_chans", "input_channels") or 3

    @property
    def image(self) -> tuple[int, int]:
        """Height and width of an image."""
        for part in (self.vision, self.config, self.processor):
            for name in ("image_size", "img_size", "input_size", "crop_size", "size", "resolution"):
                size = _size(getattr(part, name, None))
                if size is not None:
                    return size
        return 224, 224

    @property
    def mels(self) -> int:
        """The number of audio features per time step."""
        names = ("num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim", "input_feat_size")
        more = ("num_mel_filters", "feature_size", "input_dim", "mel_bins", "n_mels", "num_mels", "input_size")
        return number((self.audio, self.config, self.processor), *names, *more) or 80


def facts(config: Any, processor: Mapping[str, Any]) -> Facts:
    """The parts of `config`; a missing part is the config itself."""
    text, vision, audio = (_part(config, names) for names in (_TEXT, _VISION, _AUDIO))
    return Facts(config, text, vision, audio, SimpleNamespace(**processor))


def number(parts: Iterable[Any], *names: str) -> int | None:
    """The first integer attribute among `names`, searched part by part; None if there is none."""
    for part in parts:
        for name in names:
            value = getattr(part, name, None)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
    return None


def _part(config: Any, names: Iterable[str]) -> Any:
    for name in names:
        part = getattr(config, name, None)
        if hasattr(part, "to_dict"):
            return _part(part, names)
    return config


def _placeholders(parts: Iterable[Any]) -> set[int]:
    """The ids of tokens that represent something other than text."""
    return {
        value
        for part in parts
        for name, value in part.to_dict().items()
        if name.endswith(("_token_id", "_token_index"))
        and not name.startswith(_COMMON_IDS)
        and isinstance(value, int)
    }


def _size(value: Any) -> tuple[int, int] | None:
    """Height and width from a number, a pair, or a dictionary of both."""
    if isinstance(value, dict):
        edge = value.get("shortest_edge")
        value = edge if isinstance(edge, int) else [value.get("height"), value.get("width")]
    if isinstance(value, int) and value > 1:
        return value, value
    if isinstance(value, (list, tuple)) and value and all(isinstance(side, int) for side in value):
        return value[-2:][0], value[-1]
    return None
