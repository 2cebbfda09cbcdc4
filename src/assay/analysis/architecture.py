"""The architecture of a model: its layers by category, and its family with the evidence for it.

The family is inferred from the modules and from the ops of the forward pass. Class names decide only if no ops were
recorded. If nothing matches, the family is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from math import prod

from msgspec import Struct

from assay.analysis.attention import fused_attention, unfused_attention
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
"""Share of the FLOPs; if convolutions next to attention do less, they are only its stem."""
CONV_MANY = 4
"""Fewer convolutions than this next to attention are only its stem."""
BOTTLENECK = 4
"""Times by which the narrowest module of an autoencoder is narrower than its input."""
_OPS = Counted("ops of the forward pass")
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
"""Categories with patterns for class names; the first match counts. `Conv1D` of transformers is a linear layer."""

_CONTAINERS = frozenset({"Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"})
_LINEAR_RNN_TENSORS = frozenset({"time_decay", "time_first", "time_maa_w", "time_mix_key"})
_SCATTERS = (
    "aten.index_add", "aten.index_add_", "aten.scatter_add", "aten.scatter_add_", "aten.scatter_reduce",
    "aten.scatter_reduce_", "aten._sparse_mm", "aten._sparse_sparse_matmul", "aten.segment_reduce",
)  # fmt: skip
_GRAPH_CLASSES = re.compile(r"(GCN|GAT|SAGE|GIN|Graph|MessagePassing|EdgeConv)\w*(Conv|Layer|Net)?$")


class Evidence(Struct, frozen=True):
    """A value that indicates a family or a trait."""

    what: str
    """What the value counts: `attention ops`."""
    figure: Figure
    speaks_for: str


class Architecture(Struct, frozen=True):
    """The family of a model, its traits, its layers and the evidence."""

    family: str
    """`CNN`, `Transformer`, `hybrid (CNN + Transformer)`, …, or `unknown`."""
    blocks: tuple[str, ...]
    """Every family that the model contains blocks of; a hybrid has several."""
    traits: tuple[str, ...]
    """`mixture of experts`, `U-Net`, `diffusion U-Net`, `autoencoder`."""
    layers: dict[str, int]
    """Number of layers per category, most frequent first."""
    evidence: tuple[Evidence, ...]

    @property
    def label(self) -> str:
        """The family and its traits on one line: `Transformer, mixture of experts`."""
        return ", ".join((self.family, *self.traits))


def architecture(document: Document) -> Architecture:
    """The architecture of the document's model, inferred from its modules and ops."""
    facts = _Facts(document)
    evidence = [each for sign in _SIGNS for each in sign(facts)]
    labels = {each.speaks_for for each in evidence}
    blocks = tuple(family for family in (CNN, TRANSFORMER, SSM, RNN, GNN) if family in labels)
    if not blocks and MLP in labels:
        blocks = (MLP,)
    traits = tuple(trait for trait in (MOE, DIFFUSION, UNET, AUTOENCODER) if trait in labels)
    family = UNKNOWN if not blocks else blocks[0] if len(blocks) == 1 else f"hybrid ({' + '.join(blocks)})"
    kept = tuple(each for each in evidence if each.speaks_for in (*blocks, *traits))
    if DIFFUSION in traits:  # its name already says U-Net
        traits = tuple(trait for trait in traits if trait != UNET)
    return Architecture(family, blocks, traits, layers(document), kept)


def layers(document: Document) -> dict[str, int]:
    """The number of layers per category, by the class names of the modules; containers are not counted."""
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
    """The category of a module, if it counts as a layer: leaf modules, and attention modules with submodules."""
    if module.class_name in _CONTAINERS:
        return None
    if module.class_name == "Conv1D":
        return "Linear"
    category = next((name for name, pattern in _CATEGORIES if pattern.search(module.class_name)), None)
    if leaf:
        return category or ("Other" if module.tensors else None)
    return category if category == "Attention" else None


class _Facts:
    """Values derived from a document that several of the tests for an architecture use, computed once."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.layers = layers(document)
        self.cost = document.cost if document.cost is not None else add_up(document)
        self.watched = bool(document.ops)
        self.attentions = len(fused_attention(document)) + len(unfused_attention(document))
        self.flops = self.cost.forward.flops or 0

    def softmaxes_in_attention(self) -> int:
        """The number of softmax ops that run in a module named attention."""
        document = self.document
        softmaxes = ops_named(document, "aten.softmax")
        owners = (document.modules[document.module_of(document.ops[op])] for op in softmaxes)
        return sum(_category(module, leaf=False) == "Attention" for module in owners)

    def category(self, name: str) -> CostTotals:
        """The total cost of all ops in a category."""
        return self.cost.categories.get(name, CostTotals())

    def count_modules(self, names: frozenset[str]) -> int:
        """The number of modules that own a tensor with one of these names, or, if 0, of modules with such a name."""
        owners = sum(bool(names & module.tensors.keys()) for module in self.document.modules)
        return owners or sum(module.path.rpartition(".")[2] in names for module in self.document.modules)


def _attention(facts: _Facts) -> Iterable[Evidence]:
    if facts.attentions:
        yield Evidence("attention ops", Figure(facts.attentions, _OPS), TRANSFORMER)
    elif facts.layers.get("Attention") and (not facts.watched or facts.softmaxes_in_attention()):
        yield Evidence("modules named attention", Figure(facts.layers["Attention"], _MODULES), TRANSFORMER)


def _convolutions(facts: _Facts) -> Iterable[Evidence]:
    """Evidence for a CNN; next to attention, an SSM or an RNN, a convolutional stem does not count."""
    count = facts.layers.get("Convolution", 0) or facts.category(categories.CONVOLUTION).ops
    others = facts.attentions or _ssm_modules(facts) or facts.layers.get("Recurrent")
    share = (facts.category(categories.CONVOLUTION).flops or 0) / facts.flops if facts.flops else None
    only_patches = count == 1 and facts.layers.get("Linear", 0) > 1
    if not count or (others and (count < CONV_MANY or (share is not None and share < CONV_SHARE))) or only_patches:
        return
    yield Evidence("convolutions", Figure(count, _MODULES), CNN)
    if share is not None:
        yield Evidence("share of FLOPs in convolutions", Figure(share, _OPS), CNN)


def _ssm_modules(facts: _Facts) -> int:
    return facts.count_modules(frozenset({"A_log"}))


def _state_space(facts: _Facts) -> Iterable[Evidence]:
    count = _ssm_modules(facts)
    if count:
        yield Evidence("modules with a state matrix A_log", Figure(count, _MODULES), SSM)


def _recurrent(facts: _Facts) -> Iterable[Evidence]:
    count = facts.layers.get("Recurrent", 0) or facts.category(categories.RECURRENT).ops
    if count:
        yield Evidence("recurrent layers", Figure(count, _MODULES), RNN)
    decays = facts.count_modules(_LINEAR_RNN_TENSORS)
    if decays:
        yield Evidence("modules with a decay over time", Figure(decays, _MODULES), RNN)


def _graph(facts: _Facts) -> Iterable[Evidence]:
    """Evidence for a GNN: scatter ops, and an edge index (two rows of integers) as input or graph layers by name."""
    edges = any(
        len(argument.type.shape) == 2 and argument.type.shape[0] == 2 and argument.type.dtype in ("int64", "int32")
        for argument in facts.document.run.inputs
    )
    classes = sum(bool(_GRAPH_CLASSES.search(module.class_name)) for module in facts.document.modules)
    scatters = len(ops_named(facts.document, *_SCATTERS))
    if scatters and (edges or classes):
        yield Evidence("sums over edges", Figure(scatters, _OPS), GNN)


def _linear(facts: _Facts) -> Iterable[Evidence]:
    count = facts.layers.get("Linear", 0) or facts.category(categories.LINEAR).ops
    if count:
        yield Evidence("linear layers", Figure(count, _MODULES), MLP)


def _experts(facts: _Facts) -> Iterable[Evidence]:
    """Evidence for a mixture of experts: modules named experts with several submodules or a stacked tensor."""
    below = tree.children(facts.document.modules)
    most = 0
    for index, module in enumerate(facts.document.modules):
        if module.path.rpartition(".")[2] == "experts" or module.class_name.endswith(("Experts", "MoE")):
            shapes = (facts.document.tensors[at].type.shape for at in module.tensors.values())
            most = max(most, len(below[index]), *(shape[0] for shape in shapes if len(shape) == 3))
    if most > 1:
        yield Evidence("experts per layer", Figure(most, _MODULES), MOE)


def _skips(facts: _Facts) -> Iterable[Evidence]:
    """Evidence for a U-Net: upsampled feature maps concatenated with earlier ones; for diffusion: time embeddings."""
    upsamplings = facts.layers.get("Resampling", 0) or facts.category(categories.RESAMPLING).ops
    upsamplings += sum("ConvTranspose" in module.class_name for module in facts.document.modules)
    joined = sum(_joins_maps(facts, op.kind) for op in facts.document.ops)
    if upsamplings < 2 or joined < 2 or not facts.layers.get("Convolution"):
        return
    yield Evidence("feature maps concatenated with earlier ones", Figure(joined, _OPS), UNET)
    yield Evidence("upsampling steps", Figure(upsamplings, _MODULES), UNET)
    waves = min(len(ops_named(facts.document, name)) for name in ("aten.sin", "aten.cos"))
    takes_time = any(len(argument.type.shape) <= 1 for argument in facts.document.run.inputs)
    if waves and takes_time:
        yield Evidence("sinusoidal time embeddings", Figure(waves, _OPS), DIFFUSION)


def _joins_maps(facts: _Facts, index: int) -> bool:
    kind = facts.document.kinds[index]
    if kind.target.rpartition(".")[0] != "aten.cat" or kind.attributes.get("dim") not in (1, -3, -4, -2):
        return False
    shapes = [operand.type.shape for operand in kind.inputs]
    return len(shapes) == 2 and all(len(shape) in (4, 5) and len(shape) == len(shapes[0]) for shape in shapes)


def _bottleneck(facts: _Facts) -> Iterable[Evidence]:
    """Evidence for an autoencoder: output shaped like the input, a narrow layer in between, no attention or skips."""
    root = next((call for call in facts.document.calls if call.parent is None), None)
    if root is None or len(root.inputs) != 1 or not root.outputs or facts.attentions or list(_skips(facts)):
        return
    source, result = root.inputs[0], root.outputs[0]
    if source.shape != result.shape or len(source.shape) < 2 or not source.dtype.startswith(("float", "bfloat")):
        return
    features = prod(source.shape[1:])
    widths = _widths(facts.document, source.shape[0])
    narrow = {index: width for index, width in widths.items() if 0 < width <= features / BOTTLENECK}
    if not narrow or _bypassed(facts.document, set(narrow)):
        return
    yield Evidence("features at the bottleneck", Figure(min(narrow.values()), _OPS), AUTOENCODER)
    yield Evidence("features of input and output", Figure(features, _OPS), AUTOENCODER)


def _widths(document: Document, batch: int) -> dict[int, int]:
    """The features that all calls of a module return together, by module."""
    widths: dict[int, int] = {}
    for call in document.calls:
        if call.parent is not None and call.outputs and call.outputs[0].shape[:1] == (batch,):
            # A module that is called once per step returns a part at a time, which is no bottleneck.
            widths[call.module] = widths.get(call.module, 0) + prod(call.outputs[0].shape[1:])
    return widths


def _bypassed(document: Document, modules: set[int]) -> bool:
    """Whether data reaches the last op without passing through any of these modules: a gate or a skip connection."""
    calls = {index for index, call in enumerate(document.calls) if call.module in modules}
    reached = {index for index, storage in enumerate(document.storages) if storage.role == "input"}
    last: tuple[int, ...] = ()
    for op in document.ops:
        last = op.writes or last
        if reached & set(op.reads) and not _runs_in(document, op.call, calls):
            reached |= set(op.writes)
    return bool(reached & set(last))


def _runs_in(document: Document, call: int | None, calls: set[int]) -> bool:
    """Whether a call is one of `calls` or inside one of them."""
    while call is not None and call >= 0:
        if call in calls:
            return True
        call = document.calls[call].parent
    return False


_SIGNS: tuple[Callable[[_Facts], Iterable[Evidence]], ...] = (
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
