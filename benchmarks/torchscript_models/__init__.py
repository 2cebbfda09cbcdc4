"""Small models that can be scripted or traced, built offline; `entries()` lists the files made of them."""

from torchscript_models import (
    attention,
    audio,
    backbones,
    classic,
    dense,
    files,
    flow,
    generative,
    hf,
    inception,
    language,
    mobile,
    recurrent,
    sets,
    tensors,
    types,
)
from torchscript_models.registry import Entry

SHELVES = (
    *(classic, mobile, inception, backbones, dense, recurrent, attention, hf, audio, generative, sets),
    *(flow, types, language, tensors, files),
)


def entries() -> list[Entry]:
    """Every TorchScript file of the bench, family by family."""
    return [entry for shelf in SHELVES for entry in shelf.entries()]
