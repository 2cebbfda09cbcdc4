"""Every `assay` command in the README and the docs runs, in a directory that holds what they mention."""

from __future__ import annotations

import gc
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from checkpoint.checkpoint_files import gguf_file

import assay
from assay.cli.main import run
from assay.document.machine import Ceiling, measured_figure
from assay.timing.peaks.measuring import Peaks

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)

NOT_RUN = {
    "--engine ray": "needs a Ray cluster; Ray itself is tested elsewhere",
    "assay run": "starts programs; tested in test_cli_run.py",
    "assay serve": "runs until it is stopped; tested in test_report.py",
    "make ": "not an assay command",
}
FAILS = {"--fail-on": 1, "--apply": 1, "broken.json": 4}
"""Exit codes of commands that are documented to fail."""

SHORT = ["--passes", "1", "--warmup", "0", "--no-system", "--memory-limit", "64MiB"]
"""Keeps timed commands short; the limit also ends the search for the largest batch early."""
FEW_TRIALS = ["--trial-seconds", "0.02", "--trial-budget", "3"]
"""Keeps trials short; the changes that are tried may then all be inconclusive, so that none is applied."""

MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 7, stride=8)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 10)
    def forward(self, x):
        return self.head(torch.relu(self.norm(self.stem(x))).mean((2, 3)))

def load_model():
    torch.manual_seed(0)
    return Net()

def get_inputs():
    return torch.zeros(1, 3, 32, 32)
"""
CONFIG = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 2, "n_embd": 16, "n_head": 2,
    "vocab_size": 50, "n_positions": 32768, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def commands(page: Path) -> list[str]:
    """The commands in the shell blocks of a page, in their order; continued lines are joined, comments removed."""
    text = re.sub(r"\\\n\s*", "", "".join(BLOCK.findall(page.read_text(encoding="utf-8"))))
    lines = [shlex.split(line, comments=True) for line in text.splitlines()]
    return [shlex.join(words) for words in lines if words]


def block(page: str, language: str, first: str) -> str:
    """The block of a page whose first line is `first`."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    start = text.index(f"```{language}\n{first}\n") + len(f"```{language}\n")
    return text[start : text.index("```", start)]


def skipped(command: str) -> bool:
    return any(part in command for part in NOT_RUN)


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """A directory with every file that the docs mention."""
    from safetensors.torch import save_file

    place = tmp_path_factory.mktemp("world")
    (place / "my_model.py").write_text(MODEL)
    (place / "budget.toml").write_text(block("teams.md", "toml", "# budget.toml"))
    config = place / "path" / "to" / "config-directory"
    config.mkdir(parents=True)
    (config / "config.json").write_text(json.dumps(CONFIG))
    state = {f"layers.{n}.attn_q.weight": torch.randn(8, 8) for n in range(3)}
    save_file(state, place / "model.safetensors")
    torch.save(state, place / "model.pt")
    image_model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, 2), torch.nn.ReLU())
    torch.jit.save(torch.jit.trace(image_model, torch.zeros(1, 3, 224, 224)), place / "scripted.pt")
    shards = place / "checkpoint-directory"
    shards.mkdir()
    for number, (name, tensor) in enumerate(state.items(), 1):
        save_file({name: tensor}, shards / f"model-{number:05}-of-00003.safetensors")
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    for folder in ("traces", "before", "after"):
        with assay.capture(model, place / folder):
            for _ in range(2):
                model(torch.zeros(1, 4))
    trace = min((place / "traces").glob("*.json")).read_bytes()
    (place / "trace.json").write_bytes(trace)
    (place / "broken.json").write_bytes(trace[: len(trace) // 2])
    gguf_file(place / "model.gguf", [("blk.0.attn_q.weight", (2, 2), 0, 0)], data=bytes(16))
    document = assay.observe(str(place / "my_model.py::load_model"), torch.zeros(1, 3, 32, 32))
    assay.save(document, place / "saved.assay.json")
    return place


@pytest.fixture
def here(world, tmp_path, monkeypatch) -> Iterator[Path]:
    """A copy of that directory as the current one, on a machine whose measurement takes no time."""
    place = tmp_path / "here"
    shutil.copytree(world, place)
    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def measure(device, caches, memory_bytes, on_step, effort) -> Peaks:
        return Peaks(
            arithmetic=[Ceiling("fp32", measured_figure(1e11, "a test"))],
            bandwidth=[Ceiling("copy", measured_figure(1e10, "a test"))],
            threads=torch.get_num_threads(),
        )

    monkeypatch.setattr("assay.timing.peaks.measuring.measure", measure)
    monkeypatch.setattr("assay.api.machine._sensors", list)
    monkeypatch.setattr("assay.api.explore.terminal.run_explorer", lambda *_, **__: None)
    monkeypatch.setattr("assay.api.explore.terminal.check_terminal", lambda *_: None)
    gc.freeze()  # profiles collect garbage before each measurement, which is slow once torch is imported
    yield place
    gc.unfreeze()


def shortening(arguments: list[str]) -> list[str]:
    """Options that keep a command short without changing what it does."""
    if "--try" in arguments or "--apply" in arguments:
        return FEW_TRIALS
    return SHORT if arguments[0] == "profile" or "--profile" in arguments else []


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_the_commands_of_a_page_run_in_their_order(here, capsys, page):
    for command in commands(page):
        program, *arguments = shlex.split(command)
        if skipped(command):
            continue
        assert program == "assay", command
        code = run([*arguments, *shortening(arguments)])
        expected = next((code for part, code in FAILS.items() if part in command), 0)
        assert code in {expected, 0}, f"{command}\n{capsys.readouterr().err}"
        capsys.readouterr()


def test_there_are_commands_to_run():
    assert sum(not skipped(command) for page in PAGES for command in commands(page)) > 40
