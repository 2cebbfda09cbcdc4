"""Small architectures of every family, built offline; `entries()` lists them all."""

from __future__ import annotations

from zoo_models import detection, generative, hard_cases, hf, recommend, sequence, special, torch_nn, vision
from zoo_models.registry import Entry

SHELVES = (torch_nn, vision, detection, generative, sequence, recommend, special, hf, hard_cases)


def entries() -> list[Entry]:
    """Every architecture of the zoo, file by file."""
    return [entry for shelf in SHELVES for entry in shelf.entries()]
