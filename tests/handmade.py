"""Documents made by hand, for tests that need a document without running a model."""

from __future__ import annotations

from assay.document.document import Document, Failure, InputTensor, Machine, Origin, Run
from assay.document.provenance import Counted, Figure
from assay.document.rows import Call, Module, Op, Operand, OpKind, Tensor, TensorType
from assay.document.timing import ModuleTime, Timing

IMAGE = TensorType((1, 3, 224, 224), "float32")
FEATURES = TensorType((1, 64, 224, 224), "float32")


def conv_stack(**run: object) -> Document:
    """Two rounds of convolution, normalisation and activation: 7 modules, 5 unique; 6 ops, 4 unique."""
    conv = {"kernel_size": [3, 3], "stride": [1, 1], "padding": [1, 1]}
    tensors: list[Tensor] = []
    modules = [Module("", "Sequential", "torch.nn.modules.container.Sequential", None)]
    for index, channels in ((0, 3), (3, 64)):
        weight = own(tensors, f"{index}.weight", (64, channels, 3, 3))
        config = {"in_channels": channels, "out_channels": 64, **conv}
        modules.append(Module(str(index), "Conv2d", "torch.nn.modules.conv.Conv2d", 0, config, {"weight": weight}))
        mean = own(tensors, f"{index + 1}.running_mean", (64,), "buffer")
        norm = {"num_features": 64, "eps": 1e-05}
        path = "torch.nn.modules.batchnorm.BatchNorm2d"
        modules.append(Module(str(index + 1), "BatchNorm2d", path, 0, norm, {"running_mean": mean}))
        modules.append(Module(str(index + 2), "ReLU", "torch.nn.modules.activation.ReLU", 0, {"inplace": False}))
    calls = [Call(0, None, (IMAGE,), (FEATURES,)), Call(1, 0, (IMAGE,), (FEATURES,))]
    calls += [Call(index, 0, (FEATURES,), (FEATURES,)) for index in range(2, 7)]
    kinds = [conv_kind(IMAGE, 3), norm_kind(), relu_kind(), conv_kind(FEATURES, 64)]
    ops = [Op(kind, call) for kind, call in ((0, 1), (1, 2), (2, 3), (3, 4), (1, 5), (2, 6))]
    settings = {"mode": "real", "inputs": (InputTensor("x", IMAGE),), "inputs_from": "given", **run}
    return Document(
        origin=Origin("file", "my_model.py:load_model", "load_model"),
        machine=Machine("3.11", "2.13.0", "Linux", "cpu"),
        run=Run(**{"timestamp": "2026-02-02T10:30:00", **settings}),
        modules=modules,
        tensors=tensors,
        calls=calls,
        kinds=kinds,
        ops=ops,
    )


def stopped(document_failure: str = "shapes do not fit") -> Document:
    """The same model with a pass that failed in its second convolution."""
    return conv_stack(failure=Failure(document_failure, "3", "Conv2d", "torch.conv2d"))


def own(tensors: list[Tensor], name: str, shape: tuple[int, ...], role: str = "parameter") -> int:
    """Append a tensor and return its index."""
    tensors.append(Tensor((name,), role, TensorType(shape, "float32"), 4))
    return len(tensors) - 1


def conv_kind(image: TensorType, channels: int) -> OpKind:
    """The kind of a convolution of `image`."""
    weight = Operand("weight", TensorType((64, channels, 3, 3), "float32"), "parameter")
    attributes = {"stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "groups": 1}
    outputs = (Operand("out", FEATURES),)
    return OpKind("torch.conv2d", "aten.conv2d.default", attributes, (Operand("input", image), weight), outputs)


def norm_kind() -> OpKind:
    """The kind of a batch normalisation."""
    ends = ((Operand("input", FEATURES),), (Operand("out", FEATURES),))
    return OpKind("torch.batch_norm", "aten.batch_norm.default", {"eps": 1e-05}, *ends)


def relu_kind() -> OpKind:
    """The kind of an activation."""
    return OpKind("torch.relu", "aten.relu.default", {}, (Operand("self", FEATURES),), (Operand("out", FEATURES),))


def timed_tree(own_ms: dict[str, float], outside: float = 0) -> Document:
    """Modules by `path:Class`, parents first, with their self times in milliseconds; the root is the empty path."""
    modules: list[Module] = []
    index_of: dict[str, int] = {}
    for name in own_ms:
        path, _, kind = name.partition(":")
        parent = index_of.get(path.rpartition(".")[0], 0) if path else None
        index_of[path] = len(modules)
        modules.append(Module(path, kind or "Model", f"models.{kind or 'Model'}", parent))
    whole = sum(own_ms.values()) + outside
    total = list(own_ms.values())
    for index in range(len(modules) - 1, 0, -1):
        total[modules[index].parent or 0] += total[index]
    times: list[ModuleTime | None] = [
        ModuleTime(1, total[at] / 1e3, own / 1e3, total_share=total[at] / whole, self_share=own / whole)
        for at, own in enumerate(own_ms.values())
    ]
    by_hand = Counted("by hand")
    timing = Timing(times, whole=Figure(whole / 1e3, by_hand), outside=Figure(outside / 1e3, by_hand))
    return Document(modules=modules, timing=timing)
