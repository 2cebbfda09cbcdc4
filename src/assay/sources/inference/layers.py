"""The inputs that a model's first layers take: channels, features, vocabulary."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from msgspec import Struct

from assay.sources.placing import layers_in_code
from assay.sources.tensors import TensorSpec

STEPS = 16
"""Time steps in the inputs of a model that takes a sequence of features."""
TOKENS = 128
"""Tokens in the inputs of a model that takes text."""
_LAYERS = 6
"""Number of kinds of layers examined: the layer that takes the input is among the first."""
_IMAGE_SIDES = (224, 32, 28, 64, 96, 128, 256, 299, 384, 48, 84, 16, 8)
_SIGNAL_LENGTHS = (1024, 128, 16000, 256, 512, 100, 64, 32, 16)
_LARGE_SIDES = (336, 392, 448, 512, 518, 560, 640, 768, 896, 1024)
_VOLUMES = ((16, 112, 112), (32, 32, 32), (64, 64, 64), (16, 16, 16), (8, 8, 8))
_LARGE_VOLUMES = ((8, 224, 224), (16, 224, 224), (32, 224, 224))
_LATENT_SIDES = (1, 4, 8, 16, 32)
_OTHER_MODALITIES = re.compile(r"vision|visual|image|img|audio|speech|patch|pixel|video")
POSITIONS = re.compile(r"(^|\.|_)(w?pe|pos[a-z]*)(_emb[a-z]*)?$")
"""Names of embeddings of absolute positions, as opposed to distances or tokens."""


class Layer(Struct, frozen=True):
    """A layer that takes data, and the inputs it can take, likeliest first."""

    source: str
    """`the first convolution 'conv1'`."""
    tokens: bool
    inputs: tuple[TensorSpec, ...]
    unlikely: tuple[TensorSpec, ...] = ()
    """Tried only if no likely input runs."""


def layers(module: Any) -> list[Layer]:
    """The first layers that take data, one per kind, in the module's order."""
    first_layers: list[Layer] = []
    seen: set[str] = set()
    inside = ""
    for path, child in chain(module.named_modules(), layers_in_code(module)):
        if inside and path.startswith(inside):
            continue
        entry = next((_TABLE[name] for name in class_names(child) if name in _TABLE), None)
        if entry is None:
            continue
        noun, read, tokens = entry
        try:
            inputs, unlikely = read(child)
        except (AttributeError, TypeError, StopIteration):  # a user's class that only has the same name
            continue
        # The parts of a composite layer take the layer's internal data, not the model's input.
        inside = f"{path}."
        if noun not in seen:
            where = f"the first {noun} '{path}'" if path else f"the model, which is a {noun}"
            first_layers.append(Layer(where, tokens, tuple(inputs), tuple(unlikely)))
            seen.add(noun)
        if len(first_layers) == _LAYERS:
            break
    return first_layers


def class_names(module: Any) -> Iterable[str]:
    """The names of the module's classes, most derived first; for a scripted module, its original class."""
    scripted = vars(module).get("original_name") or getattr(module, "original_name", None)
    return (scripted,) if isinstance(scripted, str) else (kind.__name__ for kind in type(module).__mro__)


Read = tuple[Iterable[TensorSpec], Iterable[TensorSpec]]
"""Likely and unlikely inputs of a layer."""
Reader = Callable[[Any], Read]
Sizes = Sequence[tuple[int, ...]]


def _number(module: Any, name: str, axis: int, otherwise: int) -> int:
    """An integer attribute; traced modules lack it, so it is then read from `axis` of the weight's shape."""
    value = getattr(module, name, None)
    if isinstance(value, int):
        return value or otherwise
    weight = getattr(module, "weight", None)
    return int(weight.shape[axis]) if weight is not None and weight.dim() > abs(axis) else otherwise


def _channelled(
    sizes: Sizes, unlikely: Sizes = (), *, name: str = "in_channels", axis: int = 0, otherwise: int = 3
) -> Reader:
    """A reader for layers that take channels (an attribute or an axis of the weight) of any of the sizes."""

    def read(module: Any) -> Read:
        channels = _number(module, name, axis, otherwise)
        likely, others = ((TensorSpec((1, channels, *size)) for size in group) for group in (sizes, unlikely))
        return likely, others

    return read


def _cubes(sides: Iterable[int], dims: int) -> Sizes:
    return [(side,) * dims for side in sides]


def _layer_norm(module: Any) -> Read:
    shape = tuple(getattr(module, "normalized_shape", ()) or module.weight.shape)
    return (TensorSpec((1, *steps, *shape)) for steps in ((STEPS,), ())), ()


def _linear(module: Any) -> Read:
    features = _number(module, "in_features", 1, 16)
    shapes = ((1, features), (1, STEPS, features), (1, 8, 8, features), (features,))
    return map(TensorSpec, shapes), ()


def _embedding(module: Any) -> Read:
    ids = _number(module, "num_embeddings", 0, 2)
    likely = ((1, TOKENS), *((1, length) for length in (64, 32, STEPS, 8)), (TOKENS,))
    # A single token comes last, because it would match any length by broadcasting.
    unlikely = (*((1, length) for length in range(TOKENS - 1, 0, -1)), (1,))
    return _token_ids(likely, ids), _token_ids(unlikely, ids)


def _token_ids(shapes: Iterable[tuple[int, ...]], ids: int) -> Iterator[TensorSpec]:
    return (TensorSpec(shape, "int64", low=0, high=ids) for shape in shapes)


def _recurrent(module: Any) -> Read:
    features = getattr(module, "input_size", None) or int(module.weight_ih_l0.shape[1])
    return _sequence(features, getattr(module, "batch_first", False)), ()


def _cell(module: Any) -> Read:
    return (TensorSpec((1, int(module.weight_ih.shape[1]))),), ()


def _bilinear(module: Any) -> Read:
    return (TensorSpec((1, module.in1_features)),), ()


def _attention(module: Any) -> Read:
    return _sequence(module.embed_dim, module.batch_first), ()


def _transformer(module: Any) -> Read:
    inner = next(child for child in module.modules() if type(child).__name__ == "MultiheadAttention")
    return _attention(inner)


def _sequence(features: int, batch_first: bool) -> Iterator[TensorSpec]:
    """One sequence of features; the likelier order of time and batch comes first."""
    likely, other = (1, STEPS, features), (STEPS, 1, features)
    return map(TensorSpec, (likely, other) if batch_first else (other, likely))


_TABLE: dict[str, tuple[str, Reader, bool]] = {
    "Conv1d": ("convolution", _channelled(_cubes(_SIGNAL_LENGTHS, 1), axis=1, otherwise=1), False),
    "Conv2d": (
        "convolution",
        _channelled(_cubes(_IMAGE_SIDES, 2), _cubes((*range(4, 257), *_LARGE_SIDES), 2), axis=1),
        False,
    ),
    "Conv3d": ("convolution", _channelled(_VOLUMES, _LARGE_VOLUMES, axis=1), False),
    "ConvTranspose1d": ("transposed convolution", _channelled(_cubes(_LATENT_SIDES, 1)), False),
    "ConvTranspose2d": ("transposed convolution", _channelled(_cubes(_LATENT_SIDES, 2)), False),
    "ConvTranspose3d": ("transposed convolution", _channelled(_cubes(_LATENT_SIDES, 3)), False),
    "BatchNorm1d": ("batch norm", _channelled([(), (128,)], name="num_features"), False),
    "BatchNorm2d": ("batch norm", _channelled(_cubes((64, 16), 2), name="num_features"), False),
    "BatchNorm3d": ("batch norm", _channelled(_cubes((64, 16), 3), name="num_features"), False),
    "LayerNorm": ("layer norm", _layer_norm, False),
    "Embedding": ("embedding", _embedding, True),
    "EmbeddingBag": ("embedding", _embedding, True),
    "Linear": ("linear layer", _linear, False),
    "Bilinear": ("bilinear layer", _bilinear, False),
    "RNN": ("recurrent layer", _recurrent, False),
    "LSTM": ("recurrent layer", _recurrent, False),
    "GRU": ("recurrent layer", _recurrent, False),
    "RNNCell": ("recurrent cell", _cell, False),
    "LSTMCell": ("recurrent cell", _cell, False),
    "GRUCell": ("recurrent cell", _cell, False),
    "MultiheadAttention": ("attention layer", _attention, False),
    "TransformerEncoderLayer": ("transformer layer", _transformer, False),
    "TransformerDecoderLayer": ("transformer layer", _transformer, False),
    "TransformerEncoder": ("transformer", _transformer, False),
    "TransformerDecoder": ("transformer", _transformer, False),
    "Transformer": ("transformer", _transformer, False),
}
"""Layers by class name: their common name, their reader, and whether they take token ids."""


def vocabularies(module: Any) -> list[int]:
    """The number of ids of each embedding, in the model's order."""
    return [_number(child, "num_embeddings", 0, 2) for _, child in _embeddings(module)]


def learned_positions(module: Any, *, apart_from: str | None = None) -> int:
    """The longest sequence that learned positions allow, sys.maxsize if there are none.

    Positions of a table with a padding index start after it. Tables with `apart_from` in their path are ignored.
    """
    limits = [
        _number(child, "num_embeddings", 0, 2)
        - 1
        - (-1 if (pad := getattr(child, "padding_idx", None)) is None else pad)
        for path, child in _embeddings(module)
        if POSITIONS.search(path) and not _OTHER_MODALITIES.search(path) and not (apart_from and apart_from in path)
    ]
    return min((limit for limit in limits if limit > 0), default=sys.maxsize)


def _embeddings(module: Any) -> Iterator[tuple[str, Any]]:
    return ((path, child) for path, child in module.named_modules() if "Embedding" in class_names(child))
