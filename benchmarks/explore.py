"""Speed of the terminal explorer on large trees, in CPU time, compared with Textual's own `Tree`.

    python benchmarks/explore.py [--quick] [--rounds N] [--out FILE]

Trees are shaped like a mixture-of-experts model (layers, experts, four matrices each), with everything unfolded. Each
job runs in a separate process. A first paint starts with the data in memory and ends when the first screen is drawn.
Building the data (the document's modules as an index with columns) is a separate row. A key is pressed `KEYS` times
after one warm-up, and the median is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from harness import ROOT, hardware

SIZE = (140, 45)
KEYS = 9
STEMS = {1_000: (10, 18), 10_000: (30, 62), 100_000: (60, 332), 1_000_000: (60, 3332)}
"""Layers and experts by the approximate number of modules they make."""
BUDGETS_MS = {
    (100_000, "first paint"): 100, (100_000, "a key"): 25, (100_000, "expand all"): 50, (100_000, "search"): 50,
    (1_000_000, "first paint"): 200,
}  # fmt: skip
MOVES = {
    "down": ("down",), "page down": ("pagedown",), "end": ("end",), "home": ("home",), "fold one": ("space",),
    "fold subtree": ("z",), "fold siblings": ("s",), "fold siblings deep": ("S",), "fold class": ("o",),
    "fold class deep": ("O",), "shapes": ("t",), "memory": ("b",), "counts": ("p",), "device": ("d",),
    "forward": ("f",), "align": ("A",), "sort": ("]",), "biggest": ("B",), "next match": ("n",),
    "same class": ("*",), "panel wider": ("<",),
}  # fmt: skip


@dataclasses.dataclass
class Figure:
    """One row: its name and its CPU milliseconds."""

    what: str
    ms: float
    budget: int | None = None


def modules(count: int) -> list[Any]:
    """The module rows of a model with approximately `count` modules."""
    from assay.document.rows import Module

    layers, experts = STEMS[count]
    rows = [Module("", "Moe", "moe.Moe", None), Module("layers", "ModuleList", "torch.nn.ModuleList", 0)]
    for layer in range(layers):
        block = len(rows)
        rows.append(Module(f"layers.{layer}", "Block", "moe.Block", 1))
        rows.append(Module(f"layers.{layer}.attn", "Attention", "moe.Attention", block))
        parent = len(rows)
        rows.append(Module(f"layers.{layer}.experts", "ModuleList", "torch.nn.ModuleList", block))
        for expert in range(experts):
            here, path = len(rows), f"layers.{layer}.experts.{expert}"
            rows.append(Module(path, "Expert", "moe.Expert", parent))
            for name in ("gate_proj", "up_proj", "down_proj"):
                rows.append(Module(f"{path}.{name}", "Linear", "torch.nn.Linear", here))
            rows.append(Module(f"{path}.act", "SiLU", "torch.nn.SiLU", here))
    return rows


def document(count: int) -> Any:
    """A document with those modules and one weight per projection."""
    import msgspec

    from assay.document.document import Document
    from assay.document.rows import Tensor, TensorType

    rows, tensors = modules(count), []
    type_ = TensorType((64, 64), "bfloat16")
    for at, row in enumerate(rows):
        if row.class_name == "Linear":
            rows[at] = msgspec.structs.replace(row, tensors={"weight": len(tensors)})
            tensors.append(Tensor((f"{row.path}.weight",), "parameter", type_, 8192, True))
    return Document(modules=rows, tensors=tensors)


async def pressed(pilot: Any, keys: tuple[str, ...]) -> float:
    """CPU milliseconds until the screen shows the effect of these keys."""
    before = time.process_time()
    await pilot.press(*keys)
    await pilot.pause()
    return 1e3 * (time.process_time() - before)


async def repeated(pilot: Any, keys: tuple[str, ...]) -> float:
    """The median over several presses, after one warm-up."""
    await pressed(pilot, keys)
    gc.collect()
    return statistics.median([await pressed(pilot, keys) for _ in range(KEYS)])


async def explorer(count: int) -> list[Figure]:
    """All figures of Assay's explorer at that size."""
    from assay.views.tui.app import Explorer, new_tab
    from assay.views.tui.settings import ExplorerSettings
    from assay.views.tui.subject import of_document
    from assay.views.tui.tabs import BY_ID

    subject = of_document(document(count))
    await warmed(lambda: Explorer(of_document(document(1_000))))
    gc.collect()
    gc.freeze()
    before = time.process_time()
    sheet = BY_ID["tree"].make(subject)
    figures = [Figure("building the index", 1e3 * (time.process_time() - before))]
    sheet = dataclasses.replace(sheet, opened=sheet.index.run >= 0)

    def made() -> Explorer:
        app = Explorer(subject)
        app.tabs["tree"] = new_tab(sheet, ExplorerSettings())
        return app

    figures += await painted(made, BUDGETS_MS.get((count, "first paint")))
    app = made()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("down", "down", "down", "down")
        for what, keys in MOVES.items():
            if what == "next match":
                await pilot.press("slash", "u", "p", "_", "enter")
            figures.append(Figure(f"key: {what}", await repeated(pilot, keys), BUDGETS_MS.get((count, "a key"))))
            await pilot.press("escape", "0")
            if what == "fold class deep" and len(app.table.rows) < count:
                await pilot.press("Z")
        await pilot.press("Z", "Z")
        if len(app.table.rows) >= count:
            await pilot.press("Z")
        opening = []
        for _ in range(KEYS):
            opening.append(await pressed(pilot, ("Z",)))
            await pressed(pilot, ("Z",))
        figures.append(Figure("expand all", statistics.median(opening), BUDGETS_MS.get((count, "expand all"))))
        if len(app.table.rows) < count:
            await pilot.press("Z")
        await pilot.press("slash")
        typed = [await pressed(pilot, (key,)) for key in "down_proj"]
        figures.append(Figure("search, per keystroke", max(typed), BUDGETS_MS.get((count, "search"))))
        await pilot.press("escape")
        await pilot.press("slash")
        typed = [await pressed(pilot, (key,)) for key in ("5", "full_stop", "a", "c", "t")]
        figures.append(Figure("search in paths, per keystroke", max(typed), BUDGETS_MS.get((count, "search"))))
    return figures


async def warmed(make: Callable[[], Any]) -> None:
    """Run such an app once, so that imports and one-time work are done."""
    async with make().run_test(size=SIZE) as pilot:
        await pilot.pause()


async def painted(make: Callable[[], Any], budget: int | None = None) -> list[Figure]:
    """CPU milliseconds until the first screen is drawn."""
    before = time.process_time()
    async with make().run_test(size=SIZE) as pilot:
        await pilot.pause()
        took = 1e3 * (time.process_time() - before)
    return [Figure("first paint", took, budget)]


async def stock(count: int) -> list[Figure]:
    """The same figures for Textual's `Tree`, with every node added and unfolded."""
    from textual.app import App, ComposeResult
    from textual.widgets import Tree

    rows = modules(count)

    class Stock(App[None]):
        def __init__(self, listed: list[Any]) -> None:
            super().__init__()
            self.listed = listed

        def compose(self) -> ComposeResult:
            tree: Tree[int] = Tree("model")
            nodes = [tree.root]
            for at, row in enumerate(self.listed[1:], 1):
                label = f"{row.path.rpartition('.')[2]} {row.class_name}"
                nodes.append(nodes[row.parent].add(label, data=at, expand=True))
            tree.root.expand()
            yield tree

    await warmed(lambda: Stock(modules(1_000)))
    gc.collect()
    gc.freeze()
    figures = await painted(lambda: Stock(rows))
    async with Stock(rows).run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("down", "down", "down", "down")
        for what, keys in (("down", ("down",)), ("page down", ("pagedown",)), ("fold one", ("space",))):
            figures.append(Figure(f"key: {what}", await repeated(pilot, keys)))
        tree = pilot.app.query_one(Tree)
        tree.root.collapse_all()
        await pilot.pause()
        before = time.process_time()
        tree.root.expand_all()
        await pilot.pause()
        figures.append(Figure("expand all", 1e3 * (time.process_time() - before)))
    return figures


JOBS: dict[str, Callable[[int], Awaitable[list[Figure]]]] = {"assay": explorer, "textual Tree": stock}


def child(who: str, count: int) -> list[Figure]:
    """The figures of one job, run in a separate process."""
    command = [sys.executable, __file__, "--job", who, "--count", str(count)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "TERM": "xterm-256color"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{who} at {count:,} failed:\n{done.stderr[-2000:]}")
    return [Figure(**row) for row in json.loads(done.stdout.splitlines()[-1])]


def table(count: int, rounds: int, with_stock: bool) -> list[str]:
    """The table for one size: the best of several alternating rounds."""
    names = [who for who in JOBS if who == "assay" or with_stock]
    best: dict[str, dict[str, Figure]] = {who: {} for who in names}
    for _ in range(rounds):
        for who in names:
            for figure in child(who, count):
                known = best[who].get(figure.what)
                if known is None or figure.ms < known.ms:
                    best[who][figure.what] = figure
    lines = ["", f"{count:,} modules, all unfolded, {SIZE[0]}x{SIZE[1]}: CPU ms, best of {rounds}", ""]
    lines.append(f"| step | assay | target | {'textual Tree | ratio |' if with_stock else ''}".rstrip())
    lines.append("| --- | --: | --: |" + (" --: | --: |" if with_stock else ""))
    for what, figure in best["assay"].items():
        met = "" if figure.budget is None else f"<= {figure.budget} {'yes' if figure.ms <= figure.budget else 'NO'}"
        other = best.get("textual Tree", {}).get(what)
        peer = " – | – |" if other is None else f" {other.ms:.1f} | {other.ms / figure.ms:.1f} |"
        lines.append(f"| {what} | {figure.ms:.1f} | {met} |{peer if with_stock else ''}")
    return lines


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="10,000 modules only, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="also write the tables to a file")
    parser.add_argument("--job", choices=JOBS, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=10_000, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        figures = asyncio.run(JOBS[given.job](given.count))  # type: ignore[arg-type]
        print(json.dumps([dataclasses.asdict(figure) for figure in figures]))
        return
    sizes = [(10_000, 1, True)] if given.quick else [(100_000, given.rounds, True), (1_000_000, given.rounds, False)]
    lines = [f"# Explore, {time.strftime('%Y-%m-%d')}", "", hardware("textual", "numpy")]
    for size in sizes:
        lines += table(*size)
    text = "\n".join(lines) + "\n"
    print(text)
    if given.out:
        given.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
