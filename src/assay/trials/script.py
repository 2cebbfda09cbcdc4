"""A standalone Python script that applies changes to the user's model, checks outputs and measures both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay import host
from assay.document.trials import EXACT, LOSSY, ROUNDING, TrialResult
from assay.findings.verified import verdict_line
from assay.machine.hardware import identify
from assay.messages import one_line, plural
from assay.sources.opened import Opened
from assay.sources.tensors import torch_dtype
from assay.trials import script_parts
from assay.trials.change_code import definitions, import_lines, steps_code
from assay.trials.loading_code import inputs_code, model_code
from assay.trials.plan import TrialSettings
from assay.trials.stack import parse_spec, stack_effect
from assay.version import __version__

_TOLERANCE = {EXACT: 0.0, ROUNDING: 1e-3, LOSSY: 0.25}
"""The largest difference of outputs that a script accepts, relative to their largest value."""
_SLACK = 4
"""For a change that loses precision: this many times the difference that was recorded, if it was."""

_SCRIPT = '''\
"""Apply changes to {model}, and verify them.

Written by Assay {version} on {date}
for {machine}.
Changes: {names}
Recorded then:
{recorded}

Run it with Python: it checks the outputs of the changed model against those of the original, measures both in
interleaved pairs, and exits with 1 if outputs differ by more than the tolerance. `changed_model()` returns the model.
"""

from __future__ import annotations

{imports}

HERE = Path(__file__).resolve().parent
GENERATOR = torch.Generator().manual_seed(0)
DEVICE = {device!r}
DTYPE = {dtype}
TRAINING = {training!r}
BACKWARD = {backward!r}
TOLERANCE = {tolerance!r}
SECONDS = {seconds!r}
RECORDED = {printed!r}


{definitions}


CHANGES = {steps}


def load_model() -> Any:
    """The model as it is without the changes."""
    torch.manual_seed({seed})
    return {load}


def load_inputs() -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The positional and keyword arguments of a pass."""
    GENERATOR.manual_seed(0)
    return {inputs}


def original_model() -> Runnable:
    """The model with its inputs, placed and in the mode in which it was measured."""
    return placed_runnable(load_model(), load_inputs(), DEVICE, DTYPE, TRAINING)


def changed_model(original: Runnable | None = None) -> Runnable:
    """The same with the changes; `original` stays as it is."""
    runnable = original_model() if original is None else copied_runnable(original, original_model)
    for apply, values in CHANGES:
        runnable = apply(runnable, *values)
    return runnable


if __name__ == "__main__":
    keep_freed_memory()
    torch.set_num_threads({threads})
    print(RECORDED)
    unchanged = original_model()
    sys.exit(0 if verify_changes(unchanged, changed_model(unchanged), BACKWARD, TOLERANCE, SECONDS) else 1)
'''


@dataclass(frozen=True)
class ChangedSubject:
    """The model that changes are written for: how it was given, opened, and called."""

    source: Any
    """As the user gave it."""
    opened: Opened
    inputs: Any
    """As the user gave them."""
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    model_args: Mapping[str, Any] | None
    settings: TrialSettings


def script_code(
    subject: ChangedSubject, specs: Sequence[str], trials: Sequence[TrialResult], folder: Path, threads: int
) -> str:
    """The script that applies these changes in this order; `trials` hold what was recorded about them."""
    settings = subject.settings
    training = settings.backward or any(parse_spec(text).change.training for text in specs)
    load = model_code(subject.opened, subject.source, subject.model_args, folder)
    imports = import_lines(specs, script_parts)
    return _SCRIPT.format(
        model=_quoted(one_line(subject.opened.origin.location)),
        names=", ".join(specs),
        version=__version__,
        date=host.today(),
        machine=_machine(settings, threads),
        recorded=_quoted(recorded_lines(specs, trials)),
        printed="\n".join(["recorded:", recorded_lines(specs, trials)]),
        imports="\n".join([*imports, *(["import transformers"] if "transformers." in load else [])]),
        device=settings.device,
        dtype=str(torch_dtype(settings.dtype)),
        training=True if training else settings.training,
        backward=training,
        tolerance=_tolerance(specs, trials),
        seconds=settings.seconds,
        definitions=definitions(specs, *script_parts.LOADING, *script_parts.VERIFYING),
        steps=steps_code(specs),
        seed=settings.seed,
        load=load,
        inputs=inputs_code(subject.inputs, subject.args, subject.kwargs, folder),
        threads=threads,
    )


def recorded_lines(specs: Sequence[str], trials: Sequence[TrialResult]) -> str:
    """What trials of the whole stack, or else of each change alone, showed; one line each."""
    whole = [each for each in trials if each.changes == tuple(specs) and not each.against]
    single = [each for each in trials if len(each.changes) == 1 and each.changes[0] in specs and not each.against]
    lines = [f"    {each.name}: {verdict_line(each)}" for each in whole[-1:] or single]
    return "\n".join(lines) or "    nothing: the changes were not tried"


def _tolerance(specs: Sequence[str], trials: Sequence[TrialResult]) -> float:
    effect = stack_effect(specs)
    whole = [each.outputs for each in trials if each.changes == tuple(specs) and each.outputs is not None]
    return min(_SLACK * whole[-1].max_rel, _TOLERANCE[LOSSY]) if effect == LOSSY and whole else _TOLERANCE[effect]


def _machine(settings: TrialSettings, threads: int) -> str:
    device = (settings.device or "cpu").partition(":")[0]
    hardware = identify(device)
    where = hardware.name if device != "cpu" else f"{hardware.name} with {plural(threads, 'thread')}"
    return f"{where}, torch {hardware.torch}, Python {host.python_version()}, {host.system()}"


def _quoted(text: str) -> str:
    """Text that cannot end the docstring it is written into."""
    return text.replace("\\", "/").replace('"', "'")
