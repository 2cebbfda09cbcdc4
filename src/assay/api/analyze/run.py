"""Analysing a model as deep as was asked; what cannot be known is said, with the reason, and stops nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from assay.analysis.architecture import Architecture, architecture
from assay.analysis.memory import Memory, memory_of
from assay.api.analyze.script import Written, operations
from assay.api.observe import observe
from assay.api.open import open
from assay.api.profile.predict import beyond
from assay.api.profile.subject import EXPORTED, Subject, subject, unrun
from assay.api.weights import weigh
from assay.checkpoint.statistics.settings import Progress
from assay.document.document import Document
from assay.errors import AssayError, InputsError, ReadError, UsageError
from assay.findings.engine import Checked, check_all
from assay.sources.kinds import WEIGHTS_ONLY, holds_weights
from assay.sources.open import Opened

STRUCTURE, INFERENCE, PROFILE = "structure", "inference", "profile"
DEPTHS = (STRUCTURE, INFERENCE, PROFILE)
"""How deep: what is there and what it costs; that and time and memory; that and energy and the machine."""

_CHECKPOINTS = ("*.safetensors", "*.bin", "*.pt", "*.pth")
UNTRUSTED = "holds code, which was not run: pass --trust (trust=True) if you trust its maker"


class Analysis(Struct, frozen=True):
    """Everything found, and what could not be."""

    document: Document
    depth: str
    architecture: Architecture
    checked: Checked
    memory: Memory | None = None
    """None where nothing is known of it but the sizes of weights."""
    missing: dict[str, str] = field(default_factory=dict)
    """What could not be known, and why."""
    code: list[Written] = field(default_factory=list)
    """The operations that stand in the code of a TorchScript file that was not run."""


def analyze(
    model: Any,
    inputs: Any = None,
    *,
    depth: str = STRUCTURE,
    device: str | None = None,
    dtype: str | None = None,
    mode: str = "auto",
    train: bool = False,
    model_args: Mapping[str, Any] | None = None,
    trust: bool = False,
    weights: Any = None,
    memory_limit: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
    progress: Progress | None = None,
    **wishes: Any,
) -> Analysis:
    """The analysis of a live model, of what makes one, of a file or of a checkpoint.

    `weights` names a checkpoint of the model where its own are not at hand; nothing that is predicted to need more
    than `memory_limit` bytes is run; `wishes` are those of `assay.profile`.
    """
    if depth not in DEPTHS:
        raise UsageError(f"no depth is called {depth!r}: say {', '.join(DEPTHS)}")
    task = _Analysing(depth, mode, weights, memory_limit, tell, progress, wishes)
    tell("opening the model")
    opened = task.opened(model, model_args, trust)
    if opened is None:
        return task.of_weights(model)
    if opened.document is not None and not (opened.origin.kind == EXPORTED and trust):
        # It is refused whatever it is, and tensors cannot be compared.
        given = {"inputs": None if inputs is None else "given", "device": device, "dtype": dtype, "train": train}
        return task.of_document(opened, given)
    try:
        train = train or bool(wishes.get("backward"))
        found = subject(opened, inputs, device=device, dtype=dtype, train=train, trust=trust)
    except InputsError as error:
        if inputs is not None:
            raise
        return task.of_tree(opened, str(error))
    except ReadError as error:
        if opened.origin.kind != EXPORTED:
            raise
        return task.of_document(opened, {}, str(error))
    return task.of_model(found)


class _Analysing:
    """The steps of one analysis; each notes what it could not learn."""

    def __init__(
        self,
        depth: str,
        mode: str,
        weights: Any,
        memory_limit: int | None,
        tell: Callable[[str], None],
        progress: Progress | None,
        wishes: Mapping[str, Any],
    ) -> None:
        self._depth, self._mode, self._given_weights, self._limit = depth, mode, weights, memory_limit
        self._tell, self._progress, self._wishes = tell, progress, wishes
        self._missing: dict[str, str] = {}
        self._refused: ReadError | None = None

    def opened(self, model: Any, model_args: Mapping[str, Any] | None, trust: bool) -> Opened | None:
        """The model; None where it is a file of weights, or of code that may not run."""
        named = isinstance(model, (str, os.PathLike))
        if named and not trust and holds_weights(Path(model)):
            return None
        try:
            return open(model, model_args=model_args, trust=trust)
        except ReadError as error:
            if not named or not Path(model).exists():
                raise
            self._refused = error
        return None

    def of_weights(self, model: Any) -> Analysis:
        """What a file tells without running code: weights, and of TorchScript and pickled modules their tree."""
        self._tell("reading weights")
        try:
            document = weigh(model, progress=self._progress)
        except ReadError:
            if self._refused is not None:
                raise self._refused from None
            raise
        if self._refused is not None:
            why = str(self._refused)
        else:
            why = f"{model} {UNTRUSTED if document.modules else WEIGHTS_ONLY}"
        if not document.modules:
            self._missing["architecture"] = why
        self._unwatched(why)
        return self._finished(document, operations(model))

    def of_tree(self, opened: Opened, why: str) -> Analysis:
        """What a model tells that cannot be called, for nobody knows with what."""
        self._unwatched(why)
        self._tell("reading weights")
        return self._finished(weigh(opened.module, progress=self._progress))

    def of_document(self, opened: Opened, given: Mapping[str, Any], why: str = "") -> Analysis:
        """What a saved document or an exported program tells, which are read and not run."""
        document = observe(opened, mode=self._mode, **given)
        if self._depth != STRUCTURE and document.timing is None:
            self._missing["time"] = why or unrun(opened)
        if not document.storages:
            self._missing["memory of a pass"] = why or unrun(opened)
        return self._finished(self._weighed(document, opened))

    def of_model(self, found: Subject) -> Analysis:
        """What a model tells when it is watched and, where asked, timed."""
        document = self._watched(found) if self._depth == STRUCTURE else self._timed(found)
        return self._finished(self._weighed(document, found.opened))

    def _unwatched(self, why: str) -> None:
        self._missing |= {"computation": why, "memory of a pass": why}
        if self._depth != STRUCTURE:
            self._missing["time"] = why

    def _watched(self, found: Subject) -> Document:
        self._tell("recording a pass")
        if self._limit is not None and self._mode in ("auto", "real"):
            predicted = found.observe(mode="meta")
            why = beyond(predicted, self._limit)
            if why is not None:
                self._missing["a pass with data"] = f"not run: {why}"
                return predicted
        return found.observe(mode=self._mode)

    def _timed(self, found: Subject) -> Document:
        from assay.api.profile.run import profile

        if self._mode in ("meta", "fake"):
            self._missing["time"] = "on shapes alone there is no time to measure"
            return self._watched(found)
        wishes = dict(self._wishes)
        if self._depth != PROFILE:
            wishes |= {"system": False, "energy": None}
        document = profile(found, tell=self._tell, memory_limit=self._limit, **wishes)
        if document.timing is None and document.profile is not None:
            self._missing["time"] = "; ".join(document.profile.notes) or "nothing was timed"
        return document

    def _weighed(self, document: Document, opened: Opened) -> Document:
        """The document with the statistics of the checkpoint that was given, or of the model's own tensors."""
        source = self._given_weights if self._given_weights is not None else self._own_weights(document, opened)
        if source is None:
            return document
        self._tell("reading weights")
        try:
            return replace(document, weights=weigh(source, progress=self._progress).weights)
        except AssayError as error:
            self._missing["values of weights"] = str(error)
            return document

    def _own_weights(self, document: Document, opened: Opened) -> Any:
        if opened.origin.kind == EXPORTED:
            return opened.origin.location
        if opened.weights == "meta":
            return self._beside(opened)
        if opened.module is None and document.weights is None:
            self._missing["values of weights"] = "the saved document holds no statistics of weights"
        return opened.module

    def _beside(self, opened: Opened) -> Path | None:
        """The folder of a configuration where a checkpoint lies in it."""
        place = Path(opened.origin.location)
        folder = place if place.is_dir() else place.parent
        if opened.origin.kind == "config" and any(any(folder.glob(pattern)) for pattern in _CHECKPOINTS):
            return folder
        self._missing["values of weights"] = (
            "the model was built from its configuration alone: --weights names a checkpoint of it"
        )
        return None

    def _finished(self, document: Document, code: list[Written] | None = None) -> Analysis:
        self._tell("looking for findings")
        memory = memory_of(document) if document.tensors else None
        if memory is not None and not document.storages:  # nothing was seen to be made, which is not nothing
            memory = replace(memory, inference=None)
        checked = check_all(document)
        document = replace(document, findings=checked.findings)
        return Analysis(document, self._depth, architecture(document), checked, memory, self._missing, code or [])
