"""Capturing a pass as a CUDA graph and replaying it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from assay.document.trials import EXACT
from assay.trials.change import Change, NotApplicable, register
from assay.trials.changes.dry_pass import DRY_PASS, DRY_PASS_IMPORTS, device_of, map_tensors, tensors_in
from assay.trials.runnable import Runnable


class GraphedModel(nn.Module):  # type: ignore[misc]
    """A model whose pass was captured as a CUDA graph; the next pass overwrites its outputs."""

    def __init__(self, runnable: Runnable) -> None:
        super().__init__()
        self.model = runnable.model
        self.inputs = map_tensors(lambda tensor: tensor.clone(), (runnable.args, runnable.kwargs))
        args, kwargs = self.inputs
        fixed = Runnable(runnable.model, args, kwargs, runnable.contexts)
        self.graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.no_grad():
            with torch.cuda.stream(stream):
                for _ in range(3):
                    fixed()
            torch.cuda.current_stream().wait_stream(stream)
            with torch.cuda.graph(self.graph):
                self.outputs = fixed()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs of the captured pass for these inputs."""
        for own, given in zip(tensors_in(self.inputs), tensors_in((args, kwargs)), strict=True):
            own.copy_(given)
        self.graph.replay()
        return self.outputs


def cuda_graph(runnable: Runnable) -> Runnable:
    """The model as a CUDA graph, captured with the settings it runs under."""
    if device_of(runnable) != "cuda":
        raise NotApplicable("CUDA graphs require a CUDA device")
    if getattr(runnable.model, "training", False):
        raise NotApplicable("only passes in eval mode are captured")
    try:
        runnable.model = GraphedModel(runnable)
    except RuntimeError as error:  # the pass reads values on the host, or was captured already
        reason = str(error).splitlines()[0][:200]
        raise NotApplicable(f"the pass cannot be captured: {reason}") from error
    runnable.contexts = ()
    return runnable


register(
    Change(
        name="cuda_graph",
        summary="Capture the pass as a CUDA graph and replay it, with inputs copied in",
        codes=("C205", "C215"),
        effect=EXACT,
        apply=cuda_graph,
        parts=(*DRY_PASS, GraphedModel),
        imports=DRY_PASS_IMPORTS,
        stage="graph",
        isolated=True,
    )
)
