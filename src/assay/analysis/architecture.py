"""What sort of model it is: its layers by category, and a family with the evidence that led to it.

Everything is told from modules and operations that are there; a name alone decides only where nothing was watched.
Where nothing fits, the family is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from math import prod

from msgspec import Struct

from assay.analysis.attention import attention_by_hand, fused_attention
from assay.analysis.cost import categories
from assay.analysis.cost.totals import add_up
from assay.analysis.flow import ops_named
from assay.document import tree
from assay.document.cost import CostTotals
from assay.document.document import Document
from assay.document.provenance import Counted, Figure
from assay.document.rows import Module

CNN, TRANSFORMER, SSM, RNN, GNN, MLP, UNKNOWN = "CNN", "Transformer", "SSM", "RNN", "GNN", "MLP", "unknown"
MOE, UNET, DIFFUSION, AUTOENCODER = "mixture of experts", "U-Net", "diffusion U-Net", "autoencoder"

CONV_SHARE = 0.1
"""Of the FLOPs: below it, convolutions beside attention are its stem."""
CONV_MANY = 4
_WATCHED = Counted("operations of the watched pass")
_MODULES = Counted("modules of the model")

_CATEGORIES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("Attention", re.compile(r"attention|attn(?!.*(norm|drop|proj))", re.IGNORECASE)),
    ("Convolution", re.compile(r"^(Lazy|Quantized)?Conv(Transpose)?[123]d|^Conv[123]d|Conv[123]d$", re.IGNORECASE)),
    ("Recurrent", re.compile(r"^(LSTM|GRU|RNN)(Cell)?$|(LSTM|GRU)(Cell)?$")),
    ("Normalization", re.compile(r"norm(\d?d)?$|^(Layer|Batch|Group|RMS|Instance)Norm|LocalResponse|Norm$", re.I)),
    ("Embedding", re.compile(r"embedding(bag|s)?$|^embed", re.IGNORECASE)),
    (
        "Activation",
        re.compile(r"(relu|gelu|silu|swish|mish|sigmoid|tanh|softmax|softplus|elu|glu|activation)6?$", re.I),
    ),
    ("Pooling", re.compile(r"pool(\d?d)?$|^(Adaptive|Max|Avg)\w*Pool", re.IGNORECASE)),
    ("Dropout", re.compile(r"drop(out|path)?(\d?d)?$|stochasticdepth", re.IGNORECASE)),
    ("Resampling", re.compile(r"upsampl|pixel(un)?shuffle|interpolat", re.IGNORECASE)),
    ("Linear", re.compile(r"linear(\d*bit\w*)?$|^Conv1D$|linear", re.IGNORECASE)),
)
"""The category of a layer by its class name, the first that fits; `Conv1D` of transformers is a linear layer."""

_CONTAINERS = frozenset({"Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"})
_LINEAR_RNN_TENSORS = frozenset({"time_decay", "time_first", "time_maa_w", "time_mix_key"})
_SCATTERS = (
    "aten.index_add", "aten.index_add_", "aten.scatter_add", "aten.scatter_add_", "aten.scatter_reduce",
    "aten.scatter_reduce_", "aten._sparse_mm", "aten._sparse_sparse_matmul", "aten.segment_reduce",
)  # fmt: skip
_GRAPH_CLASSES = re.compile(r"(GCN|GAT|SAGE|GIN|Graph|MessagePassing|EdgeConv)\w*(Conv|Layer|Net)?$")


class Evidence(Struct, frozen=True):
    """Something that speaks for a family."""

    what: str
    """`attention operations`"""
    figure: Figure
    speaks_for: str


class Architecture(Struct, frozen=True):
    """What sort of model it is."""

    family: str
    """`CNN`, `Transformer`, `hybrid (CNN + Transformer)`, …, or `unknown`."""
    blocks: tuple[str, ...]
    """The families it has parts of; several make a hybrid."""
    traits: tuple[str, ...]
    """`mixture of experts`, `U-Net`, `diffusion U-Net`, `autoencoder`."""
    layers: dict[str, int]
    """Layers by category, most first."""
    evidence: tuple[Evidence, ...]

    @property
    def label(self) -> str:
        """The family and its traits on one line: `Transformer, mixture of experts`."""
        return ", ".join((self.family, *self.traits))


def architecture(document: Document) -> Architecture:
    """The architecture of the document's model."""
    seen = _Seen(document)
    evidence = [each for sign in _SIGNS for each in sign(seen)]
    named = {each.speaks_for for each in evidence}
    blocks = tuple(family for family in (CNN, TRANSFORMER, SSM, RNN, GNN) if family in named)
    if not blocks and MLP in named:
        blocks = (MLP,)
    traits = tuple(trait for trait in (MOE, DIFFUSION, UNET, AUTOENCODER) if trait in named)
    family = UNKNOWN if not blocks else blocks[0] if len(blocks) == 1 else f"hybrid ({' + '.join(blocks)})"
    kept = tuple(each for each in evidence if each.speaks_for in (*blocks, *traits))
    if DIFFUSION in traits:  # it is a U-Net by its name
        traits = tuple(trait for trait in traits if trait != UNET)
    return Architecture(family, blocks, traits, layers(document), kept)


def layers(document: Document) -> dict[str, int]:
    """How many layers there are of each category: modules that are one by their class, containers left out."""
    below = tree.children(document.modules)
    counts: dict[str, int] = {}
    inside_attention: set[int] = set()
    for index, module in enumerate(document.modules):
        category = _category(module, leaf=not below[index])
        if module.parent in inside_attention:
            inside_attention.add(index)
        if category is None or (category == "Attention" and index in inside_attention):
            continue
        if category == "Attention":
            inside_attention.add(index)
        counts[category] = counts.get(category, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _category(module: Module, *, leaf: bool) -> str | None:
    """The category of a module; only attention may have modules below it, anything else is a leaf."""
    if module.class_name in _CONTAINERS:
        return None
    if module.class_name == "Conv1D":
        return "Linear"
    found = next((name for name, pattern in _CATEGORIES if pattern.search(module.class_name)), None)
    if leaf:
        return found or ("Other" if module.tensors else None)
    return found if found == "Attention" else None


class _Seen:
    """What the signs look at, worked out once."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.layers = layers(document)
        self.cost = document.cost if document.cost is not None else add_up(document)
        self.watched = bool(document.ops)
        self.attentions = len(fused_attention(document)) + len(attention_by_hand(document))
        self.flops = self.cost.forward.flops or 0

    def softmaxes_in_attention(self) -> int:
        """Softmaxes that run in a module named for attention."""
        document = self.document
        found = ops_named(document, "aten.softmax")
        owners = (document.modules[document.module_of(document.ops[op])] for op in found)
        return sum(_category(module, leaf=False) == "Attention" for module in owners)

    def category(self, name: str) -> CostTotals:
        """What operations of a category cost."""
        return self.cost.categories.get(name, CostTotals())

    def holding(self, names: Iterable[str]) -> int:
        """Modules that hold a tensor, or have a child, of one of these names."""
        wanted = frozenset(names)
        own = sum(bool(wanted & module.tensors.keys()) for module in self.document.modules)
        return own or sum(module.path.rpartition(".")[2] in wanted for module in self.document.modules)


def _attention(seen: _Seen) -> Iterable[Evidence]:
    if seen.attentions:
        yield Evidence("attention operations", Figure(seen.attentions, _WATCHED), TRANSFORMER)
    elif seen.layers.get("Attention") and (not seen.watched or seen.softmaxes_in_attention()):
        yield Evidence("modules named attention", Figure(seen.layers["Attention"], _MODULES), TRANSFORMER)


def _convolutions(seen: _Seen) -> Iterable[Evidence]:
    """Convolutions beside attention, a state space or a recurrence count where they do a part of the work."""
    count = seen.layers.get("Convolution", 0) or seen.category(categories.CONVOLUTION).ops
    others = seen.attentions or _holds_ssm(seen) or seen.layers.get("Recurrent")
    share = (seen.category(categories.CONVOLUTION).flops or 0) / seen.flops if seen.flops else None
    only_patches = count == 1 and seen.layers.get("Linear", 0) > 1
    if not count or (others and (count < CONV_MANY or (share is not None and share < CONV_SHARE))) or only_patches:
        return
    yield Evidence("convolutions", Figure(count, _MODULES), CNN)
    if share is not None:
        yield Evidence("share of FLOPs in convolutions", Figure(share, _WATCHED), CNN)


def _holds_ssm(seen: _Seen) -> int:
    return seen.holding(("A_log",))


def _state_space(seen: _Seen) -> Iterable[Evidence]:
    count = _holds_ssm(seen)
    if count:
        yield Evidence("modules with a state matrix A_log", Figure(count, _MODULES), SSM)


def _recurrent(seen: _Seen) -> Iterable[Evidence]:
    count = seen.layers.get("Recurrent", 0) or seen.category(categories.RECURRENT).ops
    if count:
        yield Evidence("recurrent layers", Figure(count, _MODULES), RNN)
    decays = seen.holding(_LINEAR_RNN_TENSORS)
    if decays:
        yield Evidence("modules with a decay over time", Figure(decays, _MODULES), RNN)


def _graph(seen: _Seen) -> Iterable[Evidence]:
    """Sums over edges given as an input of two rows of integers, or layers named for graphs that scatter."""
    edges = any(
        len(given.type.shape) == 2 and given.type.shape[0] == 2 and given.type.dtype in ("int64", "int32")
        for given in seen.document.run.inputs
    )
    classes = sum(bool(_GRAPH_CLASSES.search(module.class_name)) for module in seen.document.modules)
    scatters = len(ops_named(seen.document, *_SCATTERS))
    if scatters and (edges or classes):
        yield Evidence("sums over edges", Figure(scatters, _WATCHED), GNN)


def _linear(seen: _Seen) -> Iterable[Evidence]:
    count = seen.layers.get("Linear", 0) or seen.category(categories.LINEAR).ops
    if count:
        yield Evidence("linear layers", Figure(count, _MODULES), MLP)


def _experts(seen: _Seen) -> Iterable[Evidence]:
    """Modules called experts with several below them or stacked in one tensor, or routing settings."""
    below = tree.children(seen.document.modules)
    most = 0
    for index, module in enumerate(seen.document.modules):
        if module.path.rpartition(".")[2] == "experts" or module.class_name.endswith(("Experts", "MoE")):
            shapes = (seen.document.tensors[at].type.shape for at in module.tensors.values())
            most = max(most, len(below[index]), *(shape[0] for shape in shapes if len(shape) == 3))
    if most > 1:
        yield Evidence("experts in a layer", Figure(most, _MODULES), MOE)


def _skips(seen: _Seen) -> Iterable[Evidence]:
    """Feature maps made larger and joined with earlier ones: a U-Net, of diffusion where it is told the time."""
    larger = seen.layers.get("Resampling", 0) or seen.category(categories.RESAMPLING).ops
    larger += sum("ConvTranspose" in module.class_name for module in seen.document.modules)
    joined = sum(_joins_maps(seen, op.kind) for op in seen.document.ops)
    if larger < 2 or joined < 2 or not seen.layers.get("Convolution"):
        return
    yield Evidence("feature maps joined with earlier ones", Figure(joined, _WATCHED), UNET)
    yield Evidence("steps that enlarge feature maps", Figure(larger, _MODULES), UNET)
    waves = min(len(ops_named(seen.document, name)) for name in ("aten.sin", "aten.cos"))
    times = any(len(given.type.shape) <= 1 for given in seen.document.run.inputs)
    if waves and times:
        yield Evidence("time steps encoded as waves", Figure(waves, _WATCHED), DIFFUSION)


def _joins_maps(seen: _Seen, kind: int) -> bool:
    found = seen.document.kinds[kind]
    if found.target.rpartition(".")[0] != "aten.cat" or found.attributes.get("dim") not in (1, -3, -4, -2):
        return False
    shapes = [one.type.shape for one in found.inputs]
    return len(shapes) == 2 and all(len(shape) in (4, 5) and len(shape) == len(shapes[0]) for shape in shapes)


def _bottleneck(seen: _Seen) -> Iterable[Evidence]:
    """An output like the input with a narrow place between, and nothing that attends or joins past it."""
    root = next((call for call in seen.document.calls if call.parent is None), None)
    if root is None or len(root.inputs) != 1 or not root.outputs or seen.attentions or list(_skips(seen)):
        return
    given, result = root.inputs[0], root.outputs[0]
    if given.shape != result.shape or len(given.shape) < 2 or not given.dtype.startswith(("float", "bfloat")):
        return
    features = prod(given.shape[1:])
    widths = [
        prod(call.outputs[0].shape[1:])
        for call in seen.document.calls
        if call.parent is not None and call.outputs and call.outputs[0].shape[:1] == given.shape[:1]
    ]
    narrowest = min(widths, default=features)
    if features and 0 < narrowest <= features / 4:
        yield Evidence("features at the narrowest place", Figure(narrowest, _WATCHED), AUTOENCODER)
        yield Evidence("features of input and output", Figure(features, _WATCHED), AUTOENCODER)


_SIGNS: tuple[Callable[[_Seen], Iterable[Evidence]], ...] = (
    _attention,
    _convolutions,
    _state_space,
    _recurrent,
    _graph,
    _linear,
    _experts,
    _skips,
    _bottleneck,
)
