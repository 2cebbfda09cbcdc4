"""Subjects for the explorer from every kind of source, and the explorer on real models and in a real terminal."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest
from clocks import HANG_S

import assay
from assay.api.explore.subjects import explorer_subject
from assay.api.explore.terminal import check_terminal
from assay.document.document import Document
from assay.errors import AssayError, ReadError, UsageError
from assay.views.tui.app import Explorer
from assay.views.tui.tabs import BY_ID

torch = pytest.importorskip("torch")
nn = torch.nn

SOURCE = str(Path(assay.__file__).parents[1])


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def paths(subject) -> list[str]:
    sheet = BY_ID["tree"].make(subject)
    return [sheet.path(row) for row in range(len(sheet.index))]


def opened(subject, *keys: str) -> Explorer:
    """The explorer after pressing these keys and waiting until it is idle."""
    app = Explorer(subject)

    async def run() -> None:
        async with app.run_test(size=(120, 40)) as pilot:
            for key in keys:
                await pilot.press(key)
            for _ in range(60):
                await pilot.pause(0.05)
                if app.debounce is None and not any(worker.is_running for worker in app.workers):
                    break

    asyncio.run(run())
    return app


def test_a_live_model_opens_without_being_run() -> None:
    model = net()
    model.register_forward_hook(lambda *_: pytest.fail("it ran"))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    subject = explorer_subject(model)
    assert paths(subject) == ["(root)", "0", "1", "2"]
    assert set(subject.devices) == {"cpu"}
    assert subject.document.ops == []
    opened(subject, "j", "a", "c", "F", "T", "W", "2", "3", "4", "5", "6")
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert "forward_stats" not in vars(model)


def test_with_inputs_a_pass_is_recorded() -> None:
    subject = explorer_subject(net(), torch.ones(1, 4))
    assert subject.document.cost.forward.macs == 4 * 8 + 8 * 2
    assert subject.document.calls


def test_recorded_statistics_are_shown() -> None:
    model = net()
    with assay.record_forward_stats(model):
        model(torch.ones(3, 4))
    subject = explorer_subject(model)
    sheet = BY_ID["tree"].make(subject)
    assert sheet.column("outputs").values[1] == "3×8"
    assert sheet.column("calls").values[0] == 1
    assert sheet.column("time").values[0] > 0
    assert BY_ID["time"].make(subject).about.startswith("one pass")


@pytest.mark.parametrize("make", [lambda a, b: {"unet": a, "vae": b}, lambda a, b: [a, b], lambda a, b: Pipe(a, b)])
def test_objects_that_hold_modules_open(make) -> None:
    first, second = net(), nn.Conv2d(3, 4, 1)
    subject = explorer_subject(make(first, second))
    assert len(subject.document.modules) == 1 + 4 + 1
    parameters = sum(each.numel() for module in (first, second) for each in module.parameters())
    assert BY_ID["tree"].make(subject).column("params").values[0] == parameters
    opened(subject, "j", "a", "j", "j", "c")


class Pipe:
    """A callable pipeline with a property that must not be read."""

    def __init__(self, unet, vae) -> None:
        self.unet, self.vae, self.name = unet, vae, "pipe"
        self.itself = self

    def __call__(self) -> None:
        raise AssertionError

    @property
    def components(self) -> None:
        raise AssertionError


def test_an_object_without_modules_is_refused() -> None:
    with pytest.raises(UsageError, match=r"an object with modules inside"):
        explorer_subject({"a": 1})
    with pytest.raises(UsageError, match="cannot be run as one model"):
        explorer_subject([net()], torch.ones(1, 4))


class Nasty(nn.Module):
    """A module that raises whenever it is inspected, with unusual names and a cycle."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self._modules["[bold]\x1b[2J"] = nn.ReLU()
        self._modules["x" * 10_000] = nn.Sequential(nn.Identity())
        self.inner._modules["up"] = self

    def __repr__(self) -> str:
        raise RuntimeError("no")

    @property
    def broken(self) -> None:
        raise RuntimeError("no")

    def __getattr__(self, name: str):
        if name in ("config", "device"):
            raise RuntimeError("no")
        return super().__getattr__(name)


def test_a_model_that_raises_everywhere_still_opens() -> None:
    subject = explorer_subject(Nasty())
    app = opened(subject, "a", "c", "F", "j", "j", "j", "j", "Z", "4", "2", "1", "]", "0")
    assert app.return_code in (0, None)
    assert len(paths(subject)) >= 5


def test_a_meta_model_has_shapes_and_no_values() -> None:
    with torch.device("meta"):
        model = net()
    subject = explorer_subject(model)
    assert set(subject.devices) == {"meta"}
    assert "meta" in subject.inspector.tensor("0", "weight").problem
    opened(subject, "j", "a")


def test_a_saved_document_opens(tmp_path) -> None:
    file = tmp_path / "d.assay.json"
    assay.save(assay.observe(net(), torch.ones(1, 4)), file)
    assert paths(explorer_subject(str(file))) == ["(root)", "0", "1", "2"]
    assert explorer_subject(assay.load(file)).document.cost is not None
    assert len(BY_ID["tree"].make(explorer_subject(Document())).index) == 0


@pytest.mark.parametrize("form", ["pt", "params"])
def test_a_checkpoint_opens_as_a_tree_of_tensors_with_layers_folded(tmp_path, form) -> None:
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(12)))
    file = tmp_path / "w.pt"
    torch.save(model.state_dict(), file)
    if form == "params":
        from assay.api.weights import weights_document

        saved = tmp_path / "w.assay.json"
        assay.save(weights_document(str(file)), saved)
        file = saved
    subject = explorer_subject(str(file))
    sheet = BY_ID["tree"].make(subject)
    assert sheet.name(1) == "0–11 ×12"
    assert sheet.column("params").values[0] == sum(each.numel() for each in model.parameters())
    last = next(row for row in range(len(sheet.index)) if sheet.path(row) == "11.weight")
    path, name = sheet.tensor(last)
    found = subject.inspector.tensor(path, name)
    values = model[11].weight.detach()
    assert found.min == pytest.approx(values.min().item())
    assert found.std == pytest.approx(values.std(unbiased=False).item(), rel=1e-5)
    assert sum(found.counts) == values.numel()


def test_a_checkpoint_that_states_no_roles_has_tensors(tmp_path) -> None:
    torch.save(nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)).state_dict(), tmp_path / "net.pt")
    subject = explorer_subject(str(tmp_path / "net.pt"))
    kinds = {each.name: each.kind for each in subject.inspector.attributes("1")}
    assert set(kinds) == {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}
    assert set(kinds.values()) == {"tensor"}


def test_an_unreadable_checkpoint_gives_a_one_line_error(tmp_path) -> None:
    file = tmp_path / "w.safetensors"
    file.write_bytes(b"\xff" * 100)
    with pytest.raises(ReadError) as raised:
        explorer_subject(str(file))
    assert "\n" not in str(raised.value)


def test_a_model_that_cannot_run_opens_without_flops(tmp_path) -> None:
    (tmp_path / "m.py").write_text(
        "import torch\nclass M(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.a = torch.nn.Linear(2, 2)\n"
        "    def forward(self, *things, **more):\n        raise ValueError(1)\n"
        "def load():\n    return M()\n"
    )
    subject = explorer_subject(f"{tmp_path / 'm.py'}::load")
    assert "a" in paths(subject)
    assert subject.notes


def test_the_explorer_checks_for_findings() -> None:
    subject = explorer_subject(net(), torch.ones(1, 4))
    assert subject.document.findings or "rules checked" in subject.no_findings


def test_a_dumb_terminal_is_refused(monkeypatch) -> None:
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}", SimpleNamespace(isatty=lambda: True))
    check_terminal()
    monkeypatch.setenv("TERM", "dumb")
    with pytest.raises(AssayError, match=r"needs an interactive terminal \(TERM is dumb\)"):
        check_terminal()


def test_without_a_terminal_it_is_refused(capsys) -> None:
    for call in (lambda: assay.explore(net()), lambda: assay.explore_with_stats(net(), torch.ones(1, 4))):
        with pytest.raises(AssayError, match="needs an interactive terminal"):
            call()
    assert assay.explore_torch_module is assay.explore
    assert assay.explore_torch_module_with_stats is assay.explore_with_stats


def test_explore_with_stats_opens_even_if_forward_fails(monkeypatch) -> None:
    from assay.api import explore

    seen = []
    monkeypatch.setattr(explore, "check_terminal", lambda: None)
    monkeypatch.setattr(explore, "run_explorer", lambda subject, theme="": seen.append(subject))
    explore.explore_with_stats(net(), torch.ones(2, 4))
    assert seen[0].document.timing is not None
    with pytest.raises(RuntimeError):
        explore.explore_with_stats(net(), torch.ones(2, 5))
    assert "the forward pass failed" in seen[1].notes[0]


MODEL = """
import torch
def load():
    return torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(9)))
"""


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_in_a_real_terminal(tmp_path) -> None:
    (tmp_path / "m.py").write_text(MODEL)
    name = f"assay-{uuid.uuid4().hex[:8]}"
    tmux = ["tmux", "-L", name]
    variables = {**os.environ, "PYTHONPATH": SOURCE, "XDG_CONFIG_HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    variables.pop("TMUX", None)
    command = f"{sys.executable} -m assay explore m.py::load --inputs 2x4; echo ended $?; sleep 600"
    subprocess.run(
        [*tmux, "new", "-d", "-s", name, "-x", "80", "-y", "24", command],
        check=True,
        cwd=tmp_path,
        env=variables,
    )

    def screen(until: str, *, there: bool = True) -> str:
        shown = ""
        for _ in range(4 * HANG_S):
            shown = subprocess.run([*tmux, "capture-pane", "-p", "-t", name], capture_output=True, text=True).stdout
            if (until in shown) is there:
                return shown
            time.sleep(0.25)
        raise AssertionError(f"{until!r} never came:\n{shown}")

    def press(*keys: str) -> None:
        subprocess.run([*tmux, "send-keys", "-t", name, *keys], check=True)

    try:
        first = screen("0–8 ×9")
        assert "1 Tree" in first
        assert "Sequential" in first
        press("j", "l")
        assert screen("▾ 0–8 ×9").count("Linear") >= 9
        press("/", "5")
        screen("1 match")
        press("Escape")
        screen("1 match", there=False)
        press("?")
        screen("Fold or unfold everything")
        press("Escape")
        screen("Fold or unfold everything", there=False)
        press("q")
        assert "ended 0" in screen("ended")
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)


def test_a_file_of_weights_names_what_is_missing_and_the_next_step(tmp_path) -> None:
    file = tmp_path / "weights.pt"
    torch.save(net().state_dict(), file)
    subject = explorer_subject(str(file))
    only_weights = "Only weights are shown: open the model to record ops and times."
    assert [BY_ID[tab].make(subject).empty for tab in ("ops", "time")] == [only_weights, only_weights]
    expected = f"Not checked: the weights were not read. Run `assay check {file}`."
    assert BY_ID["findings"].make(subject).empty == expected
    roles = BY_ID["parameters"].make(subject).column("role")
    assert roles is not None
    assert roles.text(0) == "–"


def test_a_failed_pass_is_shown_first_and_in_the_outputs() -> None:
    subject = explorer_subject(nn.Sequential(nn.Linear(4, 4), nn.Linear(5, 5)), torch.zeros(1, 4))
    sheet = BY_ID["tree"].make(subject)
    outputs = sheet.column("outputs")
    assert outputs is not None
    assert [outputs.text(row) for row in range(3)] == ["failed", "1×4", "failed"]
    assert sheet.about.startswith("forward failed in 1 · ")
    assert any(note.startswith("the forward pass failed in 1: ") for note in subject.notes)
