"""`assay memory`: what a model needs in memory, when most, and where it fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import click

from assay.api.options import RunOptions
from assay.cli.narration import Narrator
from assay.cli.options import Output, model_argument, narration_options, output_options, run_options
from assay.cli.output import emit, refuse_overwrite, utf8
from assay.cli.streams import prints_to_stderr
from assay.errors import InputsError, UsageError

if TYPE_CHECKING:
    from assay.analysis.devices import Device
    from assay.analysis.memory import LargestBatch, Memory
    from assay.document.document import Document
    from assay.document.provenance import Figure
    from assay.sources.opened import Opened


@dataclass(frozen=True)
class _Trainer:
    """The optimizer that is reckoned with."""

    optimizer: str
    master_weights: bool

    def memory(self, document: Document) -> Memory:
        """What the document's model needs."""
        from assay.analysis.memory import memory_of

        return memory_of(document, optimizer=self.optimizer, master_weights=self.master_weights)


@click.command()
@model_argument
@run_options
@click.option("--backward", is_flag=True, help="Watch a training step as well: gradients, what is saved for them.")
@click.option("--optimizer", default="adamw", show_default=True, metavar="NAME", help="Optimizer to reckon with.")
@click.option("--master-weights", is_flag=True, help="Keep float32 copies of narrower parameters.")
@click.option("--fit", metavar="LIST", help="Devices it should fit on: H100,RTX4090,24GiB, or all.")
@click.option("--batch-search", is_flag=True, help="Find the largest batch for each --fit device, without data.")
@click.option("--kv", metavar="WHERE", help="Reckon with a cache of batch=8,length=32768.")
@output_options
@narration_options
def memory(
    narrator: Narrator,
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
    """What MODEL needs in memory: weights, activations over time, the peak and what is alive there.

    Counted from the storages of one pass; what allocators and libraries add is not. With --backward a training step
    too, with gradients and the optimizer's state.
    """
    from assay.analysis.devices import listed
    from assay.analysis.memory import fits
    from assay.analysis.memory.optimizers import optimizer_named
    from assay.api.roofline import this_machine
    from assay.cli.observed import document_of, exit_code
    from assay.sources.open import open_source
    from assay.views.json.files import encode
    from assay.views.json.memory import memory_file
    from assay.views.text.memory import report

    optimizer_named(optimizer)
    devices = listed(fit, this_machine) if fit is not None else []
    asked = _parsed(kv) if kv is not None else None
    if batch_search and not devices:
        raise click.UsageError("--batch-search wants --fit: the devices to search for", click.get_current_context())
    options = replace(options, backward=backward)
    trainer = _Trainer(optimizer, master_weights)
    refuse_overwrite(output, model, inputs)
    with prints_to_stderr():
        opened = open_source(model, model_args=options.model_args, trust=options.trust)
    document = document_of(narrator, opened, inputs, options, output)
    found = trainer.memory(document)
    cached = _cache_at(found, asked)
    needed = _needed(found, cached)
    fitting = fits(needed, devices) if needed is not None else []
    batches = _search(narrator, opened, inputs, options, trainer, devices) if batch_search else {}
    file = memory_file(document, found, cache=cached, fits=fitting, batches=batches)
    emit(
        output,
        lambda: report(found, fits=fitting, batches=batches, cache=cached, utf8=utf8(output)),
        {"json": lambda: encode(file)},
    )
    return exit_code(narrator, document)


def _parsed(text: str) -> tuple[int, int]:
    """Batch and length from `batch=8,length=32768`."""
    values = dict(part.strip().partition("=")[::2] for part in text.split(","))
    if set(values) != {"batch", "length"} or not all(value.isdecimal() and int(value) for value in values.values()):
        raise click.BadParameter(f"{text!r} was given, batch=8,length=32768 is wanted", param_hint="--kv")
    return int(values["batch"]), int(values["length"])


def _cache_at(found: Memory, asked: tuple[int, int] | None) -> tuple[str, Figure] | None:

    if asked is None:
        return None
    if found.cache is None:
        raise UsageError("--kv was given, but the forward pass left no key and value cache behind")
    batch, length = asked
    return f"batch {batch}, length {length:,}", found.cache.at(batch, length)


def _needed(found: Memory, cached: tuple[str, Figure] | None) -> int | None:
    """Bytes at the peak of what was watched, with the cache that was asked for in place of the captured one."""
    occupancy = found.training or found.inference
    if occupancy is None:
        return None
    grown = 0 if cached is None or found.cache is None else int(cached[1].value or 0) - found.cache.captured.bytes
    return int(occupancy.total.value or 0) + max(grown, 0)


def _search(
    narrator: Narrator,
    opened: Opened,
    inputs: str | None,
    options: RunOptions,
    trainer: _Trainer,
    devices: Sequence[Device],
) -> dict[str, LargestBatch]:
    from assay.analysis.memory import largest_batch
    from assay.analysis.memory.fitting import budget

    with prints_to_stderr():
        peak_at = _peaks(narrator, opened, inputs, options, trainer)
        return {device.name: largest_batch(peak_at, budget(device)) for device in devices}


def _peaks(
    narrator: Narrator, opened: Opened, inputs: str | None, options: RunOptions, trainer: _Trainer
) -> Callable[[int], int]:
    """What the model needs at a batch, from a pass on shapes alone; each batch is recorded once."""
    from assay.api.observe import observed
    from assay.sources.inputs import find_inputs
    from assay.sources.resizing import resized

    if opened.document is not None:
        raise UsageError(
            f"{opened.origin.location} cannot be run again at other batches: give the model itself for --batch-search"
        )
    found = find_inputs(inputs, opened, device="meta", dtype=options.dtype)
    on_shapes = replace(options, mode="meta", device=None)

    @cache
    def peak_at(batch: int) -> int:
        narrator.detail(f"recording batch {batch}")
        document = observed(opened, resized(found, batch=batch), on_shapes)
        if document.run.failure is not None:
            raise InputsError(f"the model does not run at batch {batch}: {document.run.failure.error}")
        if document.run.mode not in ("meta", "fake"):
            raise UsageError("--batch-search runs on shapes alone, and this model needs data: it cannot be searched")
        needed = _needed(trainer.memory(document), None)
        if needed is None:
            raise UsageError("the model ran no operation: no batch is too large for it")
        return needed

    return peak_at
