"""What the pages of these tests are about."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

import assay
from assay.api.report.formats import HTML, encoded
from assay.api.report.subject import subject_of
from assay.document.document import Document, Run
from assay.document.rows import Module, Tensor, TensorType

GOLDEN = Path(__file__).parents[1] / "golden" / "report"
DOCUMENT = GOLDEN / "net.assay.json.gz"

VIEWS = (
    "overview", "findings", "modules", "map", "graph", "ops", "roofline", "time", "memory", "activations", "weights",
    "energy", "traces", "unique", "provenance",
)  # fmt: skip

HOSTILE = {
    "stem": "</script><script>hacked=1</script>",
    "gate": "<img src=x onerror=hacked=1>",
    "entropy": "[bold]entropy[/bold]",
    "head": "\u202edaeh",
    "pool": "__proto__",
    "spare": "constructor",
    "linear": "a#b&c=d%20+e",
    "sigmoid": "long" * 2500,
    "conv2": "",
    "Gate": "<b onclick=hacked=1>Gate</b>",
    "Entropy": "toString",
    "torch.log": "</script><svg onload=hacked=1>",
    "elementwise_kernel": "<iframe src='javascript:parent[`hacked`]=1'>",
}
"""Names of modules, classes, ops and kernels of the recorded document, and what they are called instead."""


@cache
def rich() -> Document:
    """A document with everything that a page can show."""
    return assay.load(DOCUMENT)


def page_of(document: Document, against: Document | None = None) -> bytes:
    """The page of a document, compared with another."""
    return encoded(subject_of(document, against=against), HTML)


def compared() -> bytes:
    """The page of the model beside itself before a module was renamed and another one became narrower."""
    text = msgspec.json.encode(renamed(rich(), {"spare": "extra"})).replace(b'"shape":[10,32]', b'"shape":[20,32]')
    return page_of(rich(), msgspec.json.decode(text, type=Document))


def hostile() -> Document:
    """The same model with names that try to run, to hide, or to be something else."""
    return renamed(rich(), HOSTILE)


def renamed(document: Document, names: dict[str, str]) -> Document:
    """The document with other names, wherever they stand alone or in a path."""
    pattern = re.compile(rf"(?<!\w)({'|'.join(map(re.escape, names))})(?!\w)")

    def changed(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(lambda found: names[found[0]], value)
        if isinstance(value, dict):
            return {key if key in fields else changed(key): changed(one) for key, one in value.items()}
        return [changed(one) for one in value] if isinstance(value, list) else value

    fields = set(re.findall(rb'"(\w+)":', msgspec.json.encode(msgspec.json.schema(Document))))
    fields = {name.decode() for name in fields}
    return msgspec.convert(changed(msgspec.to_builtins(document)), Document)


def structure() -> Document:
    """The modules alone: nothing ran."""
    return Document(origin=rich().origin, run=Run("none"), modules=rich().modules, tensors=rich().tensors)


def checkpoint() -> Document:
    """The weights alone."""
    return Document(origin=rich().origin, weights=rich().weights)


def experts(layers: int, experts: int) -> Document:
    """A mixture of experts: `2 + layers * (2 + 4 * experts)` modules; each layer is wider than the one before."""
    modules = [Module("", "Moe", "moe.Moe", None), Module("layers", "ModuleList", "torch.nn.ModuleList", 0)]
    tensors: list[Tensor] = []
    for layer in range(layers):
        block = len(modules)
        modules.append(Module(f"layers.{layer}", "Layer", "moe.Layer", 1))
        modules.append(Module(f"layers.{layer}.experts", "ModuleList", "torch.nn.ModuleList", block))
        for expert in range(experts):
            path, width = f"layers.{layer}.experts.{expert}", 8 * (1 + layer)
            modules.append(Module(path, "Expert", "moe.Expert", block + 1))
            inside = len(modules) - 1
            for name in ("up", "down"):
                weight = Tensor(
                    (f"{path}.{name}.weight",), "parameter", TensorType((width, width), "bfloat16"), 2 * width * width
                )
                modules.append(
                    Module(f"{path}.{name}", "Linear", "torch.nn.Linear", inside, {}, {"weight": len(tensors)})
                )
                tensors.append(weight)
            modules.append(Module(f"{path}.act", "SiLU", "torch.nn.SiLU", inside))
    return Document(modules=modules, tensors=tensors)
