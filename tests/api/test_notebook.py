"""A whole notebook: what its cells show is small, readable without a kernel, and never a dump of structs."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from frames import parsed
from safetensors.torch import save_file
from torch import nn

import assay
from assay.errors import UsageError

nbformat = pytest.importorskip("nbformat", reason="nbconvert is missing: install the dev extra")
nbclient = pytest.importorskip("nbclient", reason="nbconvert is missing: install the dev extra")
pytest.importorskip("ipykernel", reason="ipykernel is missing: install the dev extra")

SETUP = """
import warnings; warnings.simplefilter("ignore")
import torch, assay
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.act, self.down = nn.LayerNorm(64), nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)
    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))
model = nn.Sequential(*[Block() for _ in range(12)], nn.Linear(64, 10)).eval()
x = torch.randn(8, 64)
"""
CELLS = [
    "assay.observe(model, x)",
    "assay.cost(model, x)",
    "assay.memory(model, x, backward=True)",
    "document = assay.profile(model, x, seconds=0.3); document",
    "assay.brief(document)",
    "checked = assay.check(model, x, measure=False); checked",
    "checked.findings",
    "assay.analyze(model, x)",
    "weights = assay.analyze_weights(model); weights",
    "weights.tensors[0]",
    "assay.vary(model, x, over=['batch'])",
    "assay.roofline(model, 'H100', x)",
    "assay.summary(model, x)",
    "with assay.record_forward_stats(model) as recording:\n    model(x); model(x)\nrecording",
    "model[0].forward_stats",
    "with torch.profiler.profile(with_modules=True) as profiled:\n    model(x)\n"
    "profiled.export_chrome_trace('trace.json')\nassay.read_trace('trace.json')",
    "assay.explore(model, x)",
    "assay.compare_traces('trace.json', 'trace.json')",
]
EXPLORED = CELLS.index("assay.explore(model, x)")


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The cells of a notebook after a kernel ran it; the whole notebook is in `notebook.ipynb` beside it."""
    folder = tmp_path_factory.mktemp("notebook")
    variables = {"OMP_NUM_THREADS": "1", "JUPYTER_PLATFORM_DIRS": "1", "IPYTHONDIR": str(folder / "ipython")}
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in (SETUP, *CELLS)])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}})
        client.execute()
    nbformat.write(notebook, folder / "notebook.ipynb")
    return list(notebook.cells[1:])


def shown(cell: Any) -> dict[str, str]:
    """What a cell shows, by its type."""
    return {kind: data for output in cell.outputs for kind, data in output.get("data", {}).items()}


def test_every_cell_shows_a_few_lines_and_a_small_page(cells):
    for cell, source in zip(cells, CELLS, strict=True):
        kinds = shown(cell)
        assert [output.output_type for output in cell.outputs if output.output_type == "error"] == []
        assert kinds, source
        lines = kinds["text/plain"].splitlines()
        if "summary" not in source:
            assert len(lines) <= 15 * (1 + source.endswith("findings")), source
            assert max(map(len, lines)) <= 101, source


def test_all_outputs_together_are_small(cells):
    sizes = {source: len(json.dumps(cell.outputs)) for cell, source in zip(cells, CELLS, strict=True)}
    explored = sizes.pop("assay.explore(model, x)")
    assert sum(sizes.values()) < 160_000
    assert max(sizes.values()) < 30_000
    assert explored < 200_000


def test_pages_are_frames_without_scripts(cells):
    for at, (cell, source) in enumerate(zip(cells, CELLS, strict=True)):
        html = shown(cell).get("text/html")
        if html is None:
            assert source in ("checked.findings", "weights.tensors[0]")
            continue
        frame = dict(parsed(html).attributes)
        assert frame["sandbox"] == ("allow-scripts allow-downloads" if at == EXPLORED else "")
        assert "<script" not in frame["srcdoc"] or at == EXPLORED


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What is shown below the cells of a notebook without a kernel."""
    found: list[dict[str, str]] = []
    shell = SimpleNamespace(kernel=object())
    display = SimpleNamespace(publish_display_data=found.append)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell, display=display))
    return found


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def test_explore_shows_a_model_that_is_not_run(published):
    model = net()
    model.register_forward_hook(lambda *_: pytest.fail("it ran"))
    assert assay.explore(model) is None
    assert [data["text/plain"] for data in published] == ["<the modules of Sequential>"]
    assert "allow-scripts" in published[0]["text/html"]


def test_explore_shows_why_a_pass_failed_and_raises_it(published):
    with pytest.raises(RuntimeError, match="mat1"):
        assay.explore_with_stats(net(), torch.ones(1, 5))
    (data,) = published
    assert data["text/html"].startswith("<p>the forward pass failed: RuntimeError: mat1 and mat2")


def test_explore_shows_a_checkpoint(published, tmp_path):
    save_file({"<img src=x>.weight": torch.ones(2, 2)}, tmp_path / "<b>.safetensors")
    assay.explore(tmp_path / "<b>.safetensors")
    (data,) = published
    assert parsed(data["text/html"]).seen == ["iframe"]


def test_a_shell_without_a_kernel_is_a_terminal(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace()))
    with pytest.raises(UsageError, match="needs an interactive terminal"):
        assay.explore(net())


def test_explore_shows_the_modules(cells):
    html = shown(cells[EXPLORED])["text/html"]
    assert 'title="Sequential: modules"' in html
    assert "DecompressionStream" in html
