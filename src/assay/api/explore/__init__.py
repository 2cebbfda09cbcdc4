"""EXPLORING: anything that is or holds a model, opened in the terminal explorer.

Belongs here: making what the explorer shows from a live model, a name, a document or a checkpoint. Does not: the
screens themselves, which know plain data alone.
"""

from __future__ import annotations

from typing import Any

from assay.api.explore.subjects import subject_of
from assay.api.explore.terminal import need_terminal, show


def explore(model: Any, inputs: Any = None, *, theme: str = "", **options: Any) -> None:
    """Open `model` in the terminal until somebody quits.

    `model` is a module, an object that holds modules (a pipeline, a dict, a list), a name as on the command line, a
    document, or the path of a document or checkpoint. With `inputs` one forward pass is watched first, so that
    FLOPs, shapes, calls and tensor flow are known; other options are those of `observe`. Recorded forward
    statistics are shown where there are some.
    """
    need_terminal(theme)
    show(subject_of(model, inputs, **options), theme=theme)


def explore_with_stats(model: Any, *args: Any, **kwargs: Any) -> None:
    """Call `model` once, recording every call inside, then open it; an error of the model comes up afterwards."""
    need_terminal()
    from assay.forward_stats import record_forward_stats

    failure: Exception | None = None
    with record_forward_stats(model):
        try:
            model(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  whatever it is, one wants to see how far it came; it is raised below
            failure = error
    told = f"the forward pass stopped: {type(failure).__name__}: {failure}" if failure is not None else ""
    show(subject_of(model, notes=(told,) if told else ()))
    if failure is not None:
        raise failure


explore_torch_module = explore
explore_torch_module_with_stats = explore_with_stats
