"""Writing changes to a file: a script that applies and verifies them, an exported program, or a patch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from assay.api.attempt import chosen_changes
from assay.api.observe import check_can_run, inputs_for
from assay.api.options import RunOptions
from assay.atomic import refuse_existing, write_bytes
from assay.document.trials import FASTER, TrialResult
from assay.errors import UsageError
from assay.sources.open import open_source
from assay.sources.opened import Opened
from assay.trials.change import changes, named, stack_order
from assay.trials.plan import TrialSettings
from assay.trials.stack import change_name, parse_spec


class AppliedChanges(NamedTuple):
    """What was written."""

    path: Path
    changes: tuple[str, ...]
    """The changes in it, in the order in which they are applied."""
    left_out: tuple[str, ...] = ()
    """Changes that this kind of file cannot contain; a script can."""


def apply_changes(
    source: Any,
    inputs: Any,
    options: RunOptions,
    names: Sequence[str],
    output: Path,
    *,
    opened: Opened | None = None,
    trials: Sequence[TrialResult] = (),
    seconds: float = 10.0,
    force: bool = False,
) -> AppliedChanges:
    """Write changes to `output`: a script (`.py`), an exported program (`.pt2`) or a patch (`.patch`, `.diff`).

    Args:
        source: The model as it was given.
        inputs: What to call the model with, in any form `assay.observe` accepts. If None, they are inferred.
        options: How to open and run the model.
        names: Changes, or codes of rules; a code stands for the change that was fastest in `trials`.
        output: The file to write; its suffix decides what it contains.
        opened: The source, if it is open already.
        trials: The results of trials, which a script states.
        seconds: Seconds that a script measures.
        force: Replace an existing file.

    Raises:
        UsageError: A name is unknown or stands for several changes, or the file cannot contain this model or change.
    """
    check_target(names, output)
    writer = _WRITERS[output.suffix]
    if not force:
        refuse_existing([output])
    specs = tuple(stack_order([_chosen(name, trials) for name in names]))
    if not specs:
        raise UsageError("no change was given: name changes or rules, for example channels_last or C401")
    opened = opened or open_source(source, model_args=options.model_args, trust=options.trust)
    check_can_run(opened, options)
    request = _WriteRequest(source, inputs, options, opened, specs, tuple(trials), output, seconds)
    data, applied, left_out = writer(request)
    write_bytes(output, data, overwrite=force)
    return AppliedChanges(output, applied, left_out)


def check_target(names: Sequence[str], output: Path) -> None:
    """Raise UsageError if the file cannot contain these changes, before any long work."""
    if output.suffix not in _WRITERS:
        raise UsageError(f"unknown kind of output {str(output)!r}: its name must end in {', '.join(_WRITERS)}")
    if output.suffix == ".py":
        return
    given = [part for name in names for part in name.split("+") if change_name(part) in _by_name()]
    running = [part for part in given if named(change_name(part)).stage in _RUNNING]
    if running and len(running) == len(given):
        raise UsageError(
            f"{', '.join(running)} alter how the model runs, not the model: {output.suffix} cannot contain them; "
            "write a script, for example -o out.py"
        )


_RUNNING = ("inputs", "setting", "compile", "graph", "process")
"""The stages of changes that are not part of a model."""


def _by_name() -> set[str]:
    return {change.name for change in changes()}


class _WriteRequest(NamedTuple):
    """What to write, and for which model."""

    source: Any
    inputs: Any
    options: RunOptions
    opened: Opened
    specs: tuple[str, ...]
    trials: tuple[TrialResult, ...]
    output: Path
    seconds: float

    def subject(self) -> Any:
        """The model as the writers of code take it."""
        from assay.trials.script import ChangedSubject

        options = self.options
        resolved = inputs_for(self.opened, self.inputs, device=None, dtype=None)
        device = None if options.device is None else str(options.device)
        settings = TrialSettings(device, options.dtype, options.training, options.backward, self.seconds)
        return ChangedSubject(
            self.source, self.opened, self.inputs, resolved.args, resolved.kwargs, options.model_args, settings
        )

    def runnable(self) -> Any:
        """A copy of the model with its inputs, placed and in the mode asked for."""
        from assay.trials.subject import TrialSubject, prepare_subject

        options = self.options
        device = None if options.device is None else str(options.device)
        with _unchanged(self.opened):
            own = prepare_subject(TrialSubject(self.opened, self.inputs), TrialSettings(training=None), None).fresh()
            subject = TrialSubject(own.model, (own.args, own.kwargs))
            settings = TrialSettings(device, options.dtype, options.training)
            return prepare_subject(subject, settings, None).original


_Written = tuple[bytes, tuple[str, ...], tuple[str, ...]]


def _unchanged(opened: Opened) -> Any:
    from assay.recorder import inventory
    from assay.recorder.guard import unchanged

    return unchanged(*inventory.members(opened.with_weights.module))


def _script(request: _WriteRequest) -> _Written:
    import torch

    from assay.trials.script import script_code

    folder, threads = request.output.absolute().parent, torch.get_num_threads()
    text = script_code(request.subject(), request.specs, request.trials, folder, threads)
    return text.encode(), request.specs, ()


def _program(request: _WriteRequest) -> _Written:
    from assay.trials.program import exported_changes

    exported = exported_changes(request.runnable(), request.specs)
    return exported.data, exported.applied, exported.left_out


def _patch(request: _WriteRequest) -> _Written:
    from assay.trials.patch import patch_code
    from assay.trials.program import model_changes

    subject = request.subject()
    _, applied, left_out = model_changes(request.runnable(), request.specs, same_inputs=True)
    if left_out:
        why = "a patch cannot change how a model is called or run"
        raise UsageError(f"{', '.join(left_out)}: {why}; write a script, for example -o out.py")
    return patch_code(subject, request.specs).encode(), applied, ()


_WRITERS: dict[str, Callable[[_WriteRequest], _Written]] = {
    ".py": _script,
    ".pt2": _program,
    ".patch": _patch,
    ".diff": _patch,
}


def _chosen(name: str, trials: Sequence[TrialResult]) -> str:
    """The change that a name or code stands for, with a value if it takes one."""
    candidates = chosen_changes([name])
    tried = [
        each
        for each in trials
        if len(each.changes) == 1 and not each.against and each.verdict == FASTER
        if each.changes[0] in candidates or change_name(each.changes[0]) in candidates
    ]
    if tried:
        return max(tried, key=lambda each: each.speedup.value or 0.0).changes[0]
    if len(candidates) > 1:
        raise UsageError(f"{name} stands for several changes: choose from {', '.join(candidates)}")
    (only,) = candidates
    if named(change_name(only)).options is not None and not parse_spec(only).has_value:
        raise UsageError(f"{only} needs a value: for example {only}=2")
    return only
