"""A small handmade model and its inspector, for tests of the explorer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from clocks import HANG_S

from assay.analysis.cost.totals import with_cost
from assay.document.document import Document, Machine, Origin, Run
from assay.document.findings import Finding
from assay.document.inspection import Attribute, ForwardCall, ForwardTensor, SourceCode, TensorDetail, TensorFacts
from assay.document.provenance import Counted, Figure, Measured
from assay.document.rows import Call, Module, Op, Operand, OpKind, Storage, Tensor, TensorType
from assay.document.timing import ModuleTime, Timing
from assay.errors import ReadError
from assay.views.tui.app import Explorer, ExplorerOptions
from assay.views.tui.subject import ExploredModel

HIDDEN, WORDS, LAYERS = 8, 100, 4
STATES = TensorType((1, 5, HIDDEN), "float32")
IDS = TensorType((1, 5), "int64")
LOGITS = TensorType((1, 5, WORDS), "float32")
SOURCE = """class Block(nn.Module):
    \"\"\"Attention, then a wider layer.\"\"\"

    def __init__(self):
        super().__init__()
        self.attn = nn.Linear(8, 8)
        self.mlp = nn.Linear(8, 8)

    def forward(self, x):
        x = x + self.attn(x)
        return x + self.mlp(x)
"""


def small_document(**changes: Any) -> Document:
    """An embedding, four equal blocks of two layers, a norm with a buffer, a head tied to the embedding."""
    rows = _Rows()
    root = rows.module("", "Net", None, (IDS,), (LOGITS,))
    embed = rows.module("embed", "Embedding", root, (IDS,), (STATES,), within=0)
    rows.tensor(embed, "weight", (WORDS, HIDDEN))
    layers = rows.module("layers", "ModuleList", root)
    for number in range(LAYERS):
        block = rows.module(f"layers.{number}", "Block", layers, (STATES,), (STATES,), within=0)
        called = len(rows.calls) - 1
        for name in ("attn", "mlp"):
            inner = rows.module(f"layers.{number}.{name}", "Linear", block, (STATES,), (STATES,), within=called)
            rows.tensor(inner, "weight", (HIDDEN, HIDDEN))
            rows.tensor(inner, "bias", (HIDDEN,))
    norm = rows.module("norm", "BatchNorm1d", root, (STATES,), (STATES,), within=0)
    rows.tensor(norm, "weight", (HIDDEN,))
    rows.tensor(norm, "running_mean", (HIDDEN,), "buffer")
    head = rows.module("head", "Linear", root, (STATES,), (LOGITS,), within=0)
    rows.modules[head].tensors["weight"] = 0
    rows.tensors[0] = Tensor(("embed.weight", "head.weight"), "parameter", rows.tensors[0].type, 3200, True)
    return with_cost(
        Document(
            **{
                "origin": Origin("file", "net.py:make", "make"),
                "machine": Machine("3.11", "2.13", "Linux", "cpu"),
                "run": Run("real", inputs_from="given", timestamp="2026-02-02T10:30:00"),
                "modules": rows.modules,
                "tensors": rows.tensors,
                "calls": rows.calls,
                "kinds": rows.kinds,
                "ops": rows.ops,
                "storages": rows.storages,
                "timing": rows.timing(),
                "findings": findings(),
                **changes,
            }
        )
    )


class _Rows:
    """A builder for the rows of a document."""

    def __init__(self) -> None:
        self.modules: list[Module] = []
        self.tensors: list[Tensor] = []
        self.calls: list[Call] = []
        self.kinds: list[OpKind] = []
        self.ops: list[Op] = []
        self.storages: list[Storage] = [Storage(40, 0, None, "input")]

    def module(
        self, path: str, name: str, parent: int | None, inputs=(), outputs=(), *, within: int | None = None
    ) -> int:
        """Add a module; it is called if it has outputs, and then a layer runs one op. Returns its index."""
        self.modules.append(Module(path, name, f"torch.nn.{name}", parent, {"width": HIDDEN}))
        here = len(self.modules) - 1
        if outputs:
            self.calls.append(Call(here, within, inputs, outputs))
            if name in ("Linear", "Embedding", "BatchNorm1d"):
                self._op(name, inputs, outputs)
        return here

    def tensor(self, module: int, name: str, shape: tuple[int, ...], role: str = "parameter") -> None:
        """Add a parameter or buffer to a module."""
        type_ = TensorType(shape, "float32")
        size = 4
        for side in shape:
            size *= side
        self.modules[module].tensors[name] = len(self.tensors)
        path = self.modules[module].path
        self.tensors.append(Tensor((f"{path}.{name}",), role, type_, size, role == "parameter"))

    def _op(self, name: str, inputs, outputs) -> None:
        weight = TensorType((outputs[0].shape[-1], HIDDEN), "float32")
        names = {"Linear": ("torch.nn.functional.linear", "aten.linear.default"),
                 "Embedding": ("torch.embedding", "aten.embedding.default"),
                 "BatchNorm1d": ("torch.batch_norm", "aten.batch_norm.default")}  # fmt: skip
        shown, target = names[name]
        operands = (Operand("input", inputs[0]), Operand("weight", weight, "parameter"))
        kind = OpKind(shown, target, {}, operands, (Operand("out", outputs[0]),))
        if kind not in self.kinds:
            self.kinds.append(kind)
        self.storages.append(Storage(160, len(self.ops)))
        made = len(self.storages) - 1
        self.ops.append(Op(self.kinds.index(kind), len(self.calls) - 1, (made - 1,), (made,)))

    def timing(self) -> Timing:
        """One millisecond of self time for every module that was called."""
        counts = {call.module for call in self.calls}
        below = [0] * len(self.modules)
        for at in range(len(self.modules) - 1, -1, -1):
            below[at] += at in counts
            parent = self.modules[at].parent
            if parent is not None:
                below[parent] += below[at]
        times = [ModuleTime(1, below[at] * 1e-3, 1e-3) if at in counts else None for at in range(len(self.modules))]
        clock = Measured("test")
        return Timing(times, Figure(below[0] * 1e-3, clock), Figure(0.0, clock))


def findings() -> list[Finding]:
    """A note and an error."""
    evidence = {"share": Figure(0.5, Counted("test"))}
    return [
        Finding("N901", "note", "nothing much", "leave it"),
        Finding("E900", "error", "layers.1.attn is broken", "mend it", (7,), ("layers.1.attn.weight",), evidence),
    ]


class SmallInspector:
    """An inspector of the small model; the path `broken` raises an error."""

    def __init__(self, broken: str = "") -> None:
        self.broken = broken

    def source(self, path: str) -> SourceCode | None:
        self._check(path)
        if path == "embed":
            return None
        return SourceCode("Block", "net.py", 10, SOURCE, "net.py", 18, "\n".join(SOURCE.splitlines()[8:]))

    def attributes(self, path: str) -> list[Attribute]:
        self._check(path)
        facts = TensorFacts((HIDDEN, HIDDEN), "float32", "cpu", 256, True)
        return [
            Attribute("weight", "parameter", "Parameter", "", facts),
            Attribute("attn", "module", "Linear", "Linear"),
            Attribute("width", "value", "int", "8"),
            Attribute("odd", "value", "str", "raised ValueError: [bold]no"),
        ]

    def tensor(self, path: str, name: str) -> TensorDetail:
        self._check(path)
        facts = TensorFacts((HIDDEN, HIDDEN), "float32", "cpu", 256, True)
        edges = tuple(-1 + 0.25 * place for place in range(9))
        return TensorDetail(facts, -1.0, 1.0, 0.125, 0.5, 2, 0, 3, (1, 2, 4, 9, 20, 14, 6, 2), edges, (0.5, -0.25))

    def forward_calls(self, path: str) -> list[ForwardCall]:
        self._check(path)
        facts = TensorFacts((1, 5, HIDDEN), "float32", "cpu", 160)
        into = ForwardTensor("args[0]", facts, -1.0, 1.0, 0.0, 0.5, False, False)
        out = ForwardTensor("out", facts, None, None, None, None, True, False)
        return [
            ForwardCall(0.001, 0.0005, (into,), (into,), False, False),
            ForwardCall(0.002, 0.001, (into,), (out,), True, False, "layers.1"),
        ]

    def _check(self, path: str) -> None:
        if self.broken and path == self.broken:
            raise ReadError(f"{path} cannot be looked into")


def small_subject(**changes: Any) -> ExploredModel:
    """The small model with its inspector, on two devices."""
    document = small_document(**changes)
    devices = tuple(f"cuda:{at % 2}" for at in range(len(document.tensors)))
    return ExploredModel(document, SmallInspector(), devices)


def explorer(subject: ExploredModel | None = None, **options: Any) -> Explorer:
    """The explorer on the small model, without a settings file unless given."""
    return Explorer(subject or small_subject(), ExplorerOptions(**options))


def drive(app: Explorer, steps: Callable[[Any], Awaitable[None]], size: tuple[int, int] = (100, 30)) -> None:
    """Run `steps` with a pilot of `app`."""

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await steps(pilot)

    asyncio.run(run())


async def settled(pilot: Any) -> None:
    """Wait until the selection rests and every panel has its answer."""
    app = pilot.app
    for _ in range(20 * HANG_S):
        await pilot.pause(0.05)
        if app.debounce is None and not any(worker.is_running for worker in app.workers):
            break
    await pilot.pause()


def names(app: Explorer) -> list[str]:
    """The labels of the visible rows."""
    return [app.table.sheet.label(int(row), flat=app.table.rows.flat) for row in app.table.rows.shown]


def here(app: Explorer) -> str:
    """The path of the selected row."""
    return app.table.sheet.path(app.table.rows.row)


def columns(app: Explorer) -> list[str]:
    """The ids of the visible components."""
    return [column.id for column in app.table.tab.columns]


def lines(app: Explorer) -> list[str]:
    """The table as text, line by line."""
    return [app.table.render_line(y).text for y in range(app.table.size.height)]
