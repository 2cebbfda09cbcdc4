"""No command prints a line wider than asked, for models and checkpoints whose names are long, wide or many."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.cells import cell_len
from safetensors.numpy import save_file
from screen_subjects import write_machine, write_traces
from screens import Screens
from torch import nn

import assay
from assay.cli.main import run

LONG = "a_block_whose_author_liked_names_that_explain_everything_there_is_to_know_about_it"
WIDTHS = [60, 80, 120, 200]


class Block(nn.Module):
    """A residual block with an attention layer whose input has several uses."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.norm(x + self.feed_forward(x))


class Recurrent(nn.Module):
    """An LSTM with an embedding whose weight the output layer shares."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.lstm = nn.LSTM(16, 16, 2, batch_first=True)
        self.out = nn.Linear(16, 50, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.embedding(tokens))[0])


def _nested(depth: int) -> nn.Module:
    inner: nn.Module = nn.Linear(4, 4)
    for _ in range(depth):
        outer = nn.Sequential()
        outer.add_module(LONG, inner)
        inner = outer
    return inner


def _wide_names() -> nn.Module:
    model = nn.Sequential()
    for index in range(3):
        model.add_module(f"層_{index}_" + "漢字" * 20, nn.Linear(4, 4))
    return model


def _images() -> nn.Module:
    stages = [nn.Sequential(nn.Conv2d(3 if not at else 8, 8, 3, padding=1), nn.BatchNorm2d(8)) for at in range(4)]
    return nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))


MODELS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "images": lambda: (_images(), torch.zeros(1, 3, 16, 16)),
    "blocks": lambda: (nn.Sequential(*(Block(16) for _ in range(12))), torch.zeros(1, 8, 16)),
    "recurrent": lambda: (Recurrent(), torch.zeros(1, 6, dtype=torch.long)),
    "nested": lambda: (_nested(9), torch.zeros(1, 4)),
    "wide": lambda: (_wide_names(), torch.zeros(1, 4)),
}
COMMANDS = {
    "summary": ["summary"],
    "summary sorted": ["summary", "--sort", "FLOPs", "--top", "5"],
    "summary all": ["summary", "--columns", "all"],
    "cost": ["cost"],
    "cost by module": ["cost", "--by", "module"],
    "cost by kind": ["cost", "--by", "kind"],
    "cost by call": ["cost", "--by", "call", "--columns", "all"],
    "modules": ["modules"],
    "ops": ["ops"],
    "memory": ["memory", "--fit", "H100,8xL4"],
    "check": ["check"],
    "profile": ["profile"],
    "profile by op": ["profile", "--by", "op"],
    "profile all": ["profile", "--columns", "all"],
    "analyze": ["analyze", "--force"],
    "analyze full": ["analyze", "--force", "--full", "-v"],
}


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A saved document of every model, with its profile."""
    folder = tmp_path_factory.mktemp("documents")
    paths = {}
    for name, build in MODELS.items():
        torch.manual_seed(0)
        model, inputs = build()
        document = assay.profile(model.eval(), inputs, passes=2, warmup=0, system=False, energy=False)
        paths[name] = folder / f"{name}.assay.json"
        assay.save(document, paths[name])
    return paths


def _check_lines(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    for width in WIDTHS:
        assert run([*arguments, "--width", str(width)]) == 0
        out = capsys.readouterr().out
        assert out.strip()
        too_wide = [line for line in out.splitlines() if cell_len(line) > width]
        assert not too_wide, (width, too_wide[:3])


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("model", MODELS)
def test_no_line_about_a_model_is_too_wide(documents, in_place, capsys, model, command):
    name, *options = COMMANDS[command]
    _check_lines(capsys, [name, str(documents[model]), *options])


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two checkpoints: repeated blocks with long names, and names that are unusual in every way."""
    folder = tmp_path_factory.mktemp("checkpoints")
    random = np.random.default_rng(0)
    blocks = {
        f"model.{LONG}.{index}.mlp.{part}.weight": random.normal(size=(8, 16)).astype("float32")
        for index in range(12)
        for part in ("gate_proj", "up_proj", "down_proj")
    }
    blocks[f"model.{LONG}.7.mlp.up_proj.weight"][2, 3] = np.nan
    strange = {
        "x" * 300: np.zeros((3, 4), "float32"),
        "漢字" * 60: np.ones(7, "float16"),
        "a b\tc\x1b[31m": np.arange(6, dtype="int64"),
        "": np.zeros((1,) * 8, "float32"),
    }
    paths = {"blocks": folder / "blocks.safetensors", "strange": folder / "strange.safetensors"}
    save_file(blocks, paths["blocks"])
    save_file(strange, paths["strange"])
    return paths


PARAMS = {
    "params": [],
    "full": ["--full"],
    "list": ["--list"],
    "all columns": ["--columns", "all"],
    "histograms": ["--histogram"],
    "sorted": ["--sort", "entropy", "--top", "2"],
}


@pytest.mark.parametrize("flags", PARAMS.values(), ids=list(PARAMS))
@pytest.mark.parametrize("checkpoint", ["blocks", "strange"])
def test_no_line_about_a_checkpoint_is_too_wide(checkpoints, capsys, checkpoint, flags):
    _check_lines(capsys, ["params", str(checkpoints[checkpoint]), *flags])


@pytest.mark.parametrize(
    "arguments",
    [["rule", "C401"], ["rule"], ["check", "--rules"], ["check", "--changes"], ["machine", "--device", "cpu"]],
    ids=" ".join,
)
def test_no_line_of_a_list_is_too_wide(in_place, monkeypatch, capsys, arguments):
    monkeypatch.setenv("XDG_CACHE_HOME", str(in_place / "cache"))
    write_machine(in_place)
    _check_lines(capsys, arguments)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces of layers whose names are long, wide or many."""
    folder = tmp_path_factory.mktemp("traces")
    write_traces(folder, [*(f"model.{LONG}.{index}.{LONG}" for index in range(30)), "層" * 60, "x"])
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ["gpu.json"],
        *(["gpu.json", "--by", by] for by in ("op", "kernel", "step", "stack")),
        ["gpu.json", "--columns", "all"],
        ["ranks"],
        ["--diff", "before", "after"],
    ],
    ids=" ".join,
)
def test_no_line_about_traces_is_too_wide(traces, monkeypatch, capsys, arguments):
    monkeypatch.chdir(traces)
    _check_lines(capsys, ["trace", *arguments])


CAPTURED = f"""
import torch, assay
class {LONG.title()}(torch.nn.Sequential): pass
inner = torch.nn.Sequential()
inner.add_module("{LONG}", torch.nn.Linear(4, 4))
inner.add_module("{"層" * 60}", torch.nn.Linear(4, 4))
model = assay.capture_model({LONG.title()}(inner))
for _ in range(2):
    model(torch.zeros(1, 4))
"""


@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"LANG": "C"}], ids=str)
def test_no_line_of_the_layers_of_a_program_is_too_wide(tmp_path, variables):
    (tmp_path / "program.py").write_text(CAPTURED, encoding="utf-8")
    with Screens(tmp_path, variables) as screens:
        screen = screens.show(["run", "--", "program.py"], 60, both=True)
    assert "self time per layer" in screen.text
    tables = [line for line in screen.text.splitlines() if not line.startswith("assay: ")]
    assert [line for line in tables if cell_len(line) > 60] == []
    assert ("\x1b" in screen.out) == (variables != {"TERM": "dumb"})
    assert screen.out.isascii() == (variables == {"LANG": "C"})


def test_a_shortened_title_is_ascii_in_the_c_locale(traces):
    name = f"{LONG}.json"
    (traces / name).write_bytes((traces / "gpu.json").read_bytes())
    with Screens(traces, {"LANG": "C"}) as screens:
        screen = screens.show(["trace", name], 60)
    assert screen.out.isascii()
    assert {cell_len(line) > 60 for line in screen.text.splitlines()} == {False}
