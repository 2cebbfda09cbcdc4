"""`assay memory`: peak memory of a model, when it occurs, and which devices it fits on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import click

from assay.api.options import OPENING, OnStep, RunOptions
from assay.cli.options import OptionGroups, Output, model_argument, output_options, run_options, verbosity_options
from assay.cli.output import emit, refuse_overwrite
from assay.cli.stderr import Messages
from assay.cli.streams import prints_to_stderr
from assay.errors import InputsError, UsageError

if TYPE_CHECKING:
    from assay.analysis.memory import LargestBatch, Memory, PeakParts, Target
    from assay.document.document import Document
    from assay.document.provenance import Figure
    from assay.sources.opened import Opened


@dataclass(frozen=True)
class _OptimizerSettings:
    """The optimizer whose state counts towards the memory of a training step."""

    optimizer: str
    master_weights: bool

    def memory(self, document: Document) -> Memory:
        """The memory that the model of `document` needs."""
        from assay.analysis.memory import memory_of

        return memory_of(document, optimizer=self.optimizer, master_weights=self.master_weights)


@click.command(cls=OptionGroups)
@model_argument
@run_options
@click.option("--backward", is_flag=True, help="Also run a training step: gradients and saved activations.")
@click.option(
    "--optimizer", default="adamw", show_default=True, metavar="NAME", help="Optimizer of the training step."
)
@click.option("--master-weights", is_flag=True, help="Include float32 copies of lower-precision parameters.")
@click.option("--fit", metavar="LIST", help="Check whether the model fits on these: H100,8xL4,24GiB,this or all.")
@click.option("--batch-search", is_flag=True, help="Find the largest batch that fits on each --fit device.")
@click.option("--kv", metavar="SIZES", help="Include a KV cache of batch=8,length=32768.")
@output_options
@verbosity_options
def memory(
    messages: Messages,
    model: str,
    inputs: str | None,
    options: RunOptions,
    backward: bool,
    optimizer: str,
    master_weights: bool,
    fit: str | None,
    batch_search: bool,
    kv: str | None,
    output: Output,
) -> int:
    """Report the memory of MODEL: weights, activations over time, the peak and the tensors that are live there.

    Counts the storages of one pass, without the overhead of allocators and libraries. --backward adds a training
    step, with gradients and optimizer state.
    """
    from assay.analysis.devices import parse_devices
    from assay.analysis.memory import fits, need_of, targets
    from assay.analysis.memory.optimizers import optimizer_named
    from assay.api.roofline import this_machine
    from assay.cli.observed import document_of, exit_code
    from assay.sources.open import open_source
    from assay.views.json.files import encode
    from assay.views.json.memory import memory_file
    from assay.views.text.memory import report
    from assay.views.text.partial_report import marked
    from assay.views.text.profile_memory import comparison_parts

    optimizer_named(optimizer)
    fit_targets = targets(parse_devices(fit, this_machine)) if fit is not None else []
    cache_size = _parse_cache_size(kv) if kv is not None else None
    if batch_search and not fit_targets:
        raise click.UsageError("--batch-search requires --fit: name the devices", click.get_current_context())
    options = replace(options, backward=backward)
    optimizer_settings = _OptimizerSettings(optimizer, master_weights)
    refuse_overwrite(output, model, inputs)
    with prints_to_stderr():
        messages.line.step(OPENING)
        opened = open_source(model, model_args=options.model_args, trust=options.trust)
    document = document_of(messages, opened, inputs, options, output)
    estimate = optimizer_settings.memory(document)
    cache = _cache_at(estimate, cache_size)
    # Without the requested training step, only the need of inference is known.
    step_stopped = document.run.backward_failure is not None
    need = None if step_stopped else need_of(estimate, int(cache[1].value or 0) if cache else 0)
    fitting = fits(need, fit_targets, partial=estimate.partial) if need is not None else []
    if fit_targets and need is None:
        reason = "the training step stopped" if step_stopped else "no ops were recorded"
        messages.warn(f"unknown whether it fits: {reason}")
    batches, inference_batches = {}, {}
    if batch_search:
        batches = _search(messages, opened, inputs, options, optimizer_settings, fit_targets)
    if batch_search and backward:
        forward_only = replace(options, backward=False)
        inference_batches = _search(messages, opened, inputs, forward_only, optimizer_settings, fit_targets)
    file = memory_file(
        document, estimate, cache=cache, fits=fitting, batches=batches, inference_batches=inference_batches
    )
    comparison = comparison_parts(document, estimate)
    emit(
        output,
        lambda: marked(
            report(
                estimate,
                document,
                fits=fitting,
                batches=batches,
                inference_batches=inference_batches,
                comparison=comparison,
                cache=cache,
            ),
            document,
        ),
        {"json": lambda: encode(file)},
        partial=file.partial,
    )
    return exit_code(messages, document)


def _parse_cache_size(text: str) -> tuple[int, int]:
    """Batch and length from `batch=8,length=32768`."""
    values = dict(part.strip().partition("=")[::2] for part in text.split(","))
    if set(values) != {"batch", "length"} or not all(value.isdecimal() and int(value) for value in values.values()):
        raise click.BadParameter(f"expected sizes such as batch=8,length=32768, got {text!r}", param_hint="'--kv'")
    return int(values["batch"]), int(values["length"])


def _cache_at(estimate: Memory, cache_size: tuple[int, int] | None) -> tuple[str, Figure] | None:
    """A label and the bytes of a KV cache of `cache_size` (batch, length); None without a size."""
    if cache_size is None:
        return None
    if estimate.cache is None:
        raise UsageError("--kv cannot be used: the forward pass of this model returned no KV cache")
    batch, length = cache_size
    return f"batch {batch}, length {length:,}", estimate.cache.at(batch, length)


def _search(
    messages: Messages,
    opened: Opened,
    inputs: str | None,
    options: RunOptions,
    optimizer_settings: _OptimizerSettings,
    fit_targets: Sequence[Target],
) -> dict[str, LargestBatch]:
    """The largest batch that fits on each target, by its label."""
    from assay.analysis.memory import largest_batch
    from assay.analysis.memory.fitting import budget

    with prints_to_stderr():
        need_at = _need_by_batch(messages.line.step, opened, inputs, options, optimizer_settings)

        def largest(target: Target) -> LargestBatch:
            return largest_batch(lambda batch: target.needed(need_at(batch)), budget(target.device))

        return {target.label: largest(target) for target in fit_targets}


def _need_by_batch(
    on_step: OnStep,
    opened: Opened,
    inputs: str | None,
    options: RunOptions,
    optimizer_settings: _OptimizerSettings,
) -> Callable[[int], PeakParts]:
    """A function that returns the need at a batch size, from a pass on shapes only; results are cached."""
    from assay.analysis.memory import need_of
    from assay.api.observe import inputs_for, observe_opened
    from assay.sources.resizing import resized_shapes

    if opened.document is not None:
        raise UsageError(
            f"--batch-search cannot run {opened.origin.location} at other batch sizes: give the model itself instead"
        )
    first_inputs = inputs_for(opened, inputs, device="meta", dtype=options.dtype)
    meta_options = replace(options, mode="meta", device=None)

    @cache
    def need_at(batch: int) -> PeakParts:
        on_step(f"recording batch {batch}")
        resized_inputs = resized_shapes(first_inputs, batch=batch)
        document = observe_opened(opened, resized_inputs, meta_options)
        if document.run.backward_failure is not None:
            document = observe_opened(opened, resized_inputs, replace(meta_options, mode="fake"))
        if document.failure is not None:
            raise InputsError(f"the model does not run at batch {batch}: {document.failure.error}")
        if document.run.mode not in ("meta", "fake"):
            raise UsageError("--batch-search cannot be used: it runs on shapes only, and this model needs real data")
        need = need_of(optimizer_settings.memory(document))
        if need is None:
            raise UsageError("--batch-search cannot be used: the model ran no ops, so every batch fits")
        return need

    return need_at
