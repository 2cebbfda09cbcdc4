"""Trials in child processes: whatever a candidate does is a result, and nothing of it reaches this process."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
import torch
from clocks import HANG_S
from torch import nn
from trial_changes import Costly
from trial_fixtures import known_changes  # noqa: F401

from assay.document.trials import FAILED, FASTER, SAME, SKIPPED, UNTRIED
from assay.trials.plan import StackTrial, TrialSettings
from assay.trials.runs import TrialRun
from assay.trials.subject import TrialSubject

pytestmark = pytest.mark.usefixtures("known_changes")
MODEL = "trial_changes:load"
SETTINGS = TrialSettings(limit_s=HANG_S)


@pytest.fixture(autouse=True)
def _own_temporary_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = set(psutil.Process().children(recursive=True))  # compilers of other tests keep processes
    yield
    assert list(tmp_path.glob("assay-trials-*")) == []
    assert set(psutil.Process().children(recursive=True)) <= before


def results_of(subject, *stacks, settings=SETTINGS, **options):
    trials = [StackTrial((stack,) if isinstance(stack, str) else stack) for stack in stacks]
    return TrialRun(subject, settings, **options).results(trials)


def text_subject(name: str = "load") -> TrialSubject:
    return TrialSubject(MODEL.replace(":load", f":{name}"), "1x4")


def live_subject(model: nn.Module | None = None) -> TrialSubject:
    return TrialSubject(Costly() if model is None else model, torch.ones(1, 4))


def local_model() -> nn.Module:
    """A model whose class no other process can import."""

    class Local(Costly):
        pass

    return Local()


def process_of(result) -> int:
    return int(result.detail.split()[1])


def test_a_crash_is_a_result_and_the_rest_goes_on():
    names = ("t_half", "t_segfault", "t_leave", "t_exhaust", "t_fail", "t_decline", "t_nothing")
    results = results_of(text_subject(), *names)
    assert [(each.name, each.verdict) for each in results] == [
        ("t_half", FASTER),
        ("t_segfault", FAILED),
        ("t_leave", FAILED),
        ("t_exhaust", FAILED),
        ("t_fail", FAILED),
        ("t_decline", SKIPPED),
        ("t_nothing", SAME),
    ]
    assert [each.detail for each in results[1:6]] == [
        "crashed with SIGSEGV",
        "ended the process with exit code 3 (printed by the user's code)",
        "ran out of memory",
        "ValueError: no luck",
        "nothing to change",
    ]
    assert results[0].speedup.value == 2.0
    assert process_of(results[0]) != process_of(results[-1]) != os.getpid()


def test_a_hang_ends_at_the_limit():
    results = results_of(text_subject(), "t_hang", settings=TrialSettings(limit_s=1.5))
    hung = [each for each in results if each.verdict == FAILED]
    # On a machine that takes longer than the limit to open the model, that is what did not end.
    assert len(hung) == 1
    assert hung[0].detail.endswith("did not end within 1.5 s")


@pytest.mark.parametrize("route", ["sent", "forked", "here"])
def test_the_model_stays_bit_for_bit_as_it_was(route, monkeypatch):
    model = Costly() if route == "sent" else local_model()
    if route == "here":
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    inputs = torch.ones(1, 4)
    torch.set_num_threads(2)
    before = copy.deepcopy(model.state_dict())
    attributes, state = {**vars(model)}, torch.get_rng_state()
    (result,) = results_of(TrialSubject(model, inputs), "t_write")
    assert (process_of(result) == os.getpid()) == (route == "here")
    assert ("fresh" in result.detail) == (route == "sent")
    assert ("this process" in result.detail) == (route == "here")
    assert vars(model) == attributes
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(inputs, torch.ones(1, 4))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == 2


def test_a_forked_child_can_use_several_threads():
    torch.set_num_threads(2)
    big = torch.ones(512, 512)
    torch.mm(big, big)  # starts the threads that a fork does not copy
    (result,) = results_of(live_subject(local_model()), "t_product")
    assert (result.verdict, process_of(result) != os.getpid()) == (SAME, True)


def test_a_crash_of_a_forked_child_is_a_result_too():
    results = results_of(live_subject(local_model()), "t_segfault", "t_half")
    assert [each.verdict for each in results] == [FAILED, FASTER]


@pytest.mark.parametrize("subject", [text_subject, lambda: live_subject(local_model())], ids=["fresh", "forked"])
def test_prints_of_the_model_are_not_data(subject, capfd):
    results_of(subject(), "t_half")
    assert capfd.readouterr().out == ""


def test_a_killed_child_leaves_its_trial_failed_and_the_rest_goes_on():
    killed = []

    def kill(progress):
        if progress.name == "t_hang" and not killed:
            # Other tests may have left processes of theirs to this one.
            own = [each for each in psutil.Process().children() if "assay.trials.worker" in " ".join(each.cmdline())]
            killed.extend(own)
            killed[0].kill()

    results = results_of(text_subject(), "t_hang", "t_half", on_progress=kill)
    assert [each.verdict for each in results] == [FAILED, FASTER]
    assert results[0].detail == "was killed (SIGKILL), perhaps for lack of memory"


@pytest.mark.parametrize("subject", [text_subject, lambda: live_subject(local_model())], ids=["fresh", "forked"])
def test_an_interrupt_leaves_no_child_and_no_file(subject):
    def interrupt(progress):
        if progress.name:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        results_of(subject(), "t_hang", on_progress=interrupt)


def test_a_child_whose_parent_was_killed_ends_and_tidies_up(tmp_path):
    script = f"""
import tempfile; tempfile.tempdir = {str(tmp_path)!r}
from assay.trials import change, worker
import trial_changes
from assay.trials.plan import StackTrial, TrialSettings
from assay.trials.runs import TrialRun
from assay.trials.subject import TrialSubject
report = lambda progress: print(progress.name, flush=True)
TrialRun(TrialSubject({MODEL!r}, "1x4"), TrialSettings(limit_s=600), report).results([StackTrial(("t_hang",))])
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=environment)
    assert any(line == "t_hang\n" for line in parent.stdout)
    (child,) = psutil.Process(parent.pid).children()
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    child.wait(HANG_S)
    end = time.monotonic() + HANG_S
    while list(tmp_path.glob("assay-trials-*")) and time.monotonic() < end:
        time.sleep(0.05)


def test_a_change_that_needs_a_process_gets_its_own():
    results = results_of(text_subject(), "t_half", "t_own", "t_most", ("t_half", "t_own"))
    assert [each.name for each in results] == ["t_half", "t_most", "t_own", "t_half + t_own"]
    assert process_of(results[0]) == process_of(results[1])
    assert len({process_of(each) for each in results}) == 3
    assert results[-1].speedup.value == pytest.approx(1 / 0.45)
    assert results[-1].codes == ("S203",)


def test_a_change_with_several_values_is_tried_with_each():
    results = results_of(text_subject(), "t_divide", "t_divide=5")
    assert [(each.changes, each.speedup.value) for each in results] == [
        (("t_divide=2",), 2.0),
        (("t_divide=4",), 4.0),
        (("t_divide=5",), 5.0),
    ]


def test_a_stack_can_be_compared_with_another():
    (result,) = TrialRun(text_subject(), SETTINGS).results([StackTrial(("t_half", "t_most"), against=("t_half",))])
    assert result.speedup.value == pytest.approx(1.25)
    assert (result.changes, result.against) == (("t_half", "t_most"), ("t_half",))


def test_a_model_that_cannot_be_copied_is_opened_again():
    (result,) = results_of(text_subject("load_uncopyable"), "t_half")
    assert (result.verdict, result.speedup.value) == (FASTER, 2.0)


def test_a_live_model_that_cannot_be_copied_says_so():
    model = local_model()
    model.kept = model.linear.weight * 2
    (result,) = results_of(live_subject(model), "t_half")
    assert result.verdict == FAILED
    assert "the model cannot be copied" in result.detail


def test_a_model_without_room_for_copies_is_not_tried(monkeypatch):
    monkeypatch.setattr("assay.host.free_memory", lambda: 150)
    (result,) = results_of(live_subject(local_model()), "t_half")
    assert result.verdict == SKIPPED
    assert result.detail == "two copies of the model take 160 B, and 150 B is free"


def test_a_model_that_cannot_be_opened_fails_every_trial_with_the_reason():
    results = results_of(TrialSubject(MODEL, "1x5"), "t_half", "t_most")
    assert {each.verdict for each in results} == {FAILED}
    assert all("mat1 and mat2" in each.detail for each in results)
    results = results_of(TrialSubject(MODEL.replace(":load", ":absent"), "1x4"), "t_half", "t_most")
    assert [each.verdict for each in results] == [FAILED, FAILED]
    assert all("has no 'absent'" in each.detail for each in results)


def test_no_trial_begins_after_the_deadline():
    results = results_of(text_subject(), "t_half", "t_own", deadline=time.monotonic() - 1)
    assert [(each.verdict, each.detail) for each in results] == [
        (UNTRIED, "the time budget is spent"),
        (UNTRIED, "the time budget is spent"),
    ]


def test_a_trial_that_begins_after_the_deadline_is_not_tried():
    run = TrialRun(text_subject(), SETTINGS, deadline=time.monotonic() + HANG_S)

    def past_the_deadline(progress):
        if progress.name == "t_hang":
            pytest.fail("the trial was followed although it began too late")
        object.__setattr__(run, "deadline", time.monotonic())

    object.__setattr__(run, "on_progress", past_the_deadline)
    results = run.results([StackTrial(("t_half",)), StackTrial(("t_hang",))])
    assert results[-1].detail == "the time budget is spent"


def test_a_model_of_the_running_script_is_tried_in_a_fork(tmp_path):
    """Its class is in `__main__`, where a fresh interpreter cannot find it, although it can be pickled."""
    script = tmp_path / "script.py"
    script.write_text(f"""
import tempfile; tempfile.tempdir = {str(tmp_path)!r}
import sys, torch
sys.modules["pytest"] = sys  # so that children of this process count as forked
import trial_changes
from assay.trials import change, worker
from assay.trials.plan import StackTrial, TrialSettings
from assay.trials.runs import TrialRun
from assay.trials.subject import TrialSubject
for each in trial_changes.CHANGES:
    change.register(each)
worker.compare = trial_changes.known_costs
class Mine(trial_changes.Costly):
    pass
run = TrialRun(TrialSubject(Mine(), torch.ones(1, 4)), TrialSettings(limit_s={HANG_S}))
(result,) = run.results([StackTrial(("t_half",))])
sys.stderr.write(f"{{result.verdict}} {{result.detail}}")
""")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True)
    assert "faster process" in done.stderr
    assert done.stderr.endswith("forked")


def test_progress_counts_the_trials():
    seen = []

    def note(progress):
        seen.append(progress)
        if "t_hang" in progress.name:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        results_of(text_subject(), ("t_own", "t_hang"), "t_divide", on_progress=note)
    assert (seen[0].number, seen[0].trials, seen[0].name) == (1, 2, "")
    assert (seen[-1].number, seen[-1].trials) == (3, 3)
