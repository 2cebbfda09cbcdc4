"""Adding inputs for images, videos and sound to a guess, so that every tower of a multimodal model runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, product
from typing import Any, NamedTuple

from msgspec import structs

from assay.messages import plural
from assay.sources.inference import companions, modalities, placeholders
from assay.sources.inference.configured import assembled
from assay.sources.inference.facts import Facts
from assay.sources.inference.guess import Guess, parameters
from assay.sources.inference.layers import learned_positions
from assay.sources.inference.trial import Outcome, Trial
from assay.sources.tensors import TensorSpec

_MAIN: dict[str, tuple[str, ...]] = {
    "image": ("pixel_values", "image_pixel_values", "flattened_patches"),
    "video": ("pixel_values_videos",),
    "audio": ("input_features", "audio_input_features", "input_values"),
    "protein": ("protein_input_ids",),
}
"""The inputs that hold the data of a modality."""
_ATTEMPTS = 12
"""Shapes tried per input."""


Specs = Mapping[str, TensorSpec]
"""Inputs by name."""


class _Found(NamedTuple):
    """A guess and how it ran; `tokens` are the numbers of placeholders in its text by token id."""

    guess: Guess
    outcome: Outcome
    tokens: Mapping[int, int]


def enriched(guess: Guess, trial: Trial, module: Any, facts: Facts) -> Guess:
    """`guess` with inputs of every modality that makes more modules run, and with their placeholder tokens."""
    best = _Found(guess, trial.run(guess), {})
    searched = _Search(trial, module, facts)
    for modality, mains in _MAIN.items():
        best = searched.with_modality(best, modality, mains)
    return _described(best, facts)


class _Search:
    """The trials of one model."""

    def __init__(self, trial: Trial, module: Any, facts: Facts) -> None:
        self._trial, self._module, self._facts = trial, module, facts
        self._names = parameters(module)
        self._longest = learned_positions(module)

    def with_modality(self, best: _Found, modality: str, mains: tuple[str, ...]) -> _Found:
        """`best` with the first inputs of the modality that make more modules run."""
        present = any(spec.name in mains for spec in best.guess.specs)
        additions = [{}] if present else islice(self._additions(mains), _ATTEMPTS)
        token = self._facts.placeholder(modality)
        followers = [name for name in self._names if name in companions.FOLLOWERS]
        # Some models reject companions that others of their kind need.
        for added, more in product(additions, (followers, ()) if followers else ((),)):
            first = self._with_tokens(best, added, more, token, 1)
            gains = present or not best.outcome.runs or not first.outcome.modules <= best.outcome.modules
            found = self._with_enough_tokens(best, first, added, more, token) if gains else None
            if found is not None:
                return found
            if not gains and (first.outcome.runs or len(first.outcome.rows) > len(best.outcome.rows)):
                break  # its embeddings exist, and the modules that make them run already
        return best

    def _additions(self, mains: tuple[str, ...]) -> Iterator[Specs]:
        """The possible tensors for each of the inputs that forward has."""
        for name in mains:
            if name in self._names:
                for spec in modalities.TABLE[name](self._facts, self._module):
                    yield {name: spec}

    def _with_enough_tokens(
        self, best: _Found, first: _Found, added: Specs, more: Iterable[str], token: int | None
    ) -> _Found | None:
        """`best` with the added inputs and as many placeholders as there are embeddings; None if it does not run.

        Where the pass `first` stopped at a check, the last tensor before it is mostly what would have been inserted.
        """
        rows = (*first.outcome.last, *first.outcome.rows) if token is not None else ()
        # The embeddings of other modalities are counted too: try them last.
        for count in sorted(dict.fromkeys(reversed(rows)), key=list(best.tokens.values()).count):
            found = self._with_tokens(best, added, more, token, count)
            if found.outcome.runs:
                return found
        return first if first.outcome.runs else None

    def _with_tokens(self, best: _Found, added: Specs, more: Iterable[str], token: int | None, count: int) -> _Found:
        """How `best` runs with the added inputs and `count` placeholders in its text."""
        chosen = {spec.name: spec for spec in best.guess.specs if spec.name and spec.name not in companions.TABLE}
        chosen.update(added)
        tokens = dict(best.tokens)
        if token is not None and "input_ids" in chosen:
            length = chosen["input_ids"].shape[1] - sum(tokens.values()) - len(tokens)
            tokens[token] = count
            chosen["input_ids"] = placeholders.ids(self._facts, length, tokens, self._longest)
        kept = [spec.name for spec in best.guess.specs if spec.name in companions.TABLE]
        guess = assembled(chosen, dict.fromkeys([*chosen, *kept, *more]), self._facts)
        return _Found(guess, self._trial.run(guess), tokens)


def _described(found: _Found, facts: Facts) -> Guess:
    """The guess, whose source states the number of placeholders."""
    names = {facts.placeholder(modality): modality for modality in _MAIN}
    parts = [plural(count, f"{names[token]} token") for token, count in found.tokens.items()]
    source = f"{found.guess.source} with {' and '.join(parts)}" if parts else found.guess.source
    return structs.replace(found.guess, source=source, placeholders=sum(found.tokens.values()) + len(parts))
