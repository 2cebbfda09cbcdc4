"""The fixture `model_budget`: runs a model, compares it with its budget, and fails with a table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.api.budget import model_names, run_budget
from assay.api.options import RunOptions
from assay.api.project import BudgetTables, project_settings, read_budget
from assay.document.document import Document
from assay.document.tree import path_text
from assay.errors import UsageError
from assay.findings.budget import UNKNOWN, BudgetReport
from assay.findings.limits import Limits, parse_limits
from assay.integrations.budget_update import update_budget
from assay.messages import plural
from assay.sources.open import open_source
from assay.sources.opened import Opened
from assay.views.layout import as_text
from assay.views.text.budget import budget_table

BUDGET_FILE = "budget.toml"
"""The budget file that is read from the root directory if no other is named."""
_DEFAULT_KEYS = ("parameters", "flops", "peak-memory")
"""The limits that an update writes for a model without any."""


class BudgetWarning(UserWarning):
    """A limit could not be checked, because the value is unknown."""


class ModelBudget:
    """Compares models with budgets: those of the call, of the budget file and of `[tool.assay.budget]`."""

    def __init__(self, root: Path, file: Path | None = None, *, update: bool = False) -> None:
        self._root, self._file, self._update = root, file, update

    def __call__(
        self,
        model: Any,
        inputs: Any = None,
        *,
        parameters: str | float | None = None,
        flops: str | float | None = None,
        macs: str | float | None = None,
        peak_memory: str | float | None = None,
        training_memory: str | float | None = None,
        bytes_per_item: str | float | None = None,
        size: str | float | None = None,
        unknown_ops: int | None = None,
        errors: int | None = None,
        warnings: int | None = None,
        latency: Mapping[str, Any] | None = None,
        no: str | Sequence[str] | None = None,
        strict: bool | None = None,
        mode: str = "auto",
        device: str | None = None,
        dtype: str | None = None,
        model_args: Mapping[str, Any] | None = None,
        trust: bool = False,
    ) -> BudgetReport:
        """Fail with a table if `model` exceeds a limit; limits of the call override those of files.

        Args:
            model: Anything `assay.open` accepts.
            inputs: What to call the model with, in any form `assay.observe` accepts. If None, they are inferred.
            parameters: Largest number of parameters: `"30M"`.
            flops: Largest number of FLOPs per pass: `"9G"`.
            macs: Largest number of MACs per pass.
            peak_memory: Largest peak memory of a forward pass: `"600 MiB"`.
            training_memory: Largest peak memory of a training step with AdamW.
            bytes_per_item: Largest number of bytes that the ops read and write, per item of the batch.
            size: Largest size of the weights, or of their file.
            unknown_ops: Largest number of ops with unknown FLOPs.
            errors: Largest number of findings that are errors.
            warnings: Largest number of findings that are warnings.
            latency: The largest time, relative to a saved document: `{"reference": "ref.assay.json", "ratio": 1.1}`.
            no: Codes and severities of findings that must not occur: `("W101", "error")`.
            strict: Fail also if a value is unknown.
            mode: `"auto"`, `"real"`, `"meta"` or `"fake"`, as for `assay.observe`.
            device: The torch device to run on. Default: where the model is.
            dtype: The floating-point dtype to run in. Default: the model's own.
            model_args: Keyword arguments for the function or class that builds the model.
            trust: Allow code stored in a file to run.

        Returns:
            The report: one line per limit, with value, limit and verdict.

        Raises:
            AssertionError: A limit is exceeded, or with `strict` a value is unknown.
            UsageError: A limit is not valid, or there is none for this model.
        """
        __tracebackhide__ = True
        arguments = {
            "parameters": parameters, "flops": flops, "macs": macs, "peak-memory": peak_memory,
            "training-memory": training_memory, "bytes-per-item": bytes_per_item, "size": size,
            "unknown-ops": unknown_ops, "errors": errors, "warnings": warnings, "latency": latency, "no": no,
            "strict": strict,
        }  # fmt: skip
        given = {key: value for key, value in arguments.items() if value is not None}
        parse_limits(given, "model_budget")
        options = RunOptions(mode, device, dtype, model_args=model_args, trust=trust)
        report = self._report(open_source(model, model_args=model_args, trust=trust), inputs, options, given)
        if report.failed:
            raise AssertionError(failure_text(report))
        _warn_of_unknown(report)
        return report

    def _report(self, opened: Opened, inputs: Any, options: RunOptions, given: Mapping[str, Any]) -> BudgetReport:
        __tracebackhide__ = True
        name = _class_name(opened) or opened.origin.name
        names = model_names(opened.origin, name)
        if self._update:
            budget = self._tables()
            limits = _updated_limits(budget.limits(names), given)
            run = run_budget(opened, inputs, options, limits, budget.path.parent, save_reference=True)
            _check_completed(run.document)
            update_budget(budget, name, run.report)
        budget = self._tables()
        limits = _merged(budget.limits(names), given)
        if limits.empty:
            raise UsageError(f"no limit for {name}: give one, such as parameters='30M', or add it to {budget.path}")
        run = run_budget(opened, inputs, options, limits, budget.path.parent)
        _check_completed(run.document)
        return run.report

    def _tables(self) -> BudgetTables:
        """The limits of --assay-budget, of `[tool.assay]`, or of budget.toml; empty if there is no such file."""
        settings = project_settings(self._root) if self._file is None else None
        if settings is not None and settings.budget is not None:
            return settings.budget
        path = self._file or self._root / BUDGET_FILE
        is_new = not path.exists() and (self._file is None or self._update)
        return BudgetTables(path, {}) if is_new else read_budget(path)


def failure_text(report: BudgetReport) -> str:
    """The message of a failed comparison: how many limits failed, and the table of all."""
    table = as_text(budget_table(report))
    return f"{plural(len(report.failed), 'limit')} of the model's budget failed\n\n{table}"


def _class_name(opened: Opened) -> str:
    """The class of the model; empty for a file of weights."""
    if opened.document is not None:
        return opened.document.model_class
    return "" if opened.model_error is not None else type(opened.module).__name__


def _merged(stored: Limits, given: Mapping[str, Any]) -> Limits:
    """The limits of the files, overridden by those of the call."""
    own = parse_limits(given, "model_budget")
    return Limits(
        {**stored.amounts, **own.amounts},
        own.latency or stored.latency,
        own.no if "no" in given else stored.no,
        own.strict if "strict" in given else stored.strict,
    )


def _updated_limits(stored: Limits, given: Mapping[str, Any]) -> Limits:
    """What an update writes: all limits of the file that the call does not give, or some for a model without any."""
    keys = [key for key in stored.amounts if key not in given]
    return Limits(
        dict.fromkeys(keys or (() if given or stored.latency else _DEFAULT_KEYS), 0.0), _merged(stored, given).latency
    )


def _check_completed(document: Document) -> None:
    """Fail if a pass of the model stopped midway: its values are lower bounds."""
    __tracebackhide__ = True
    failure = document.failure
    if failure is not None:
        raise AssertionError(f"the {document.stopped_pass} stopped in {path_text(failure.module)}: {failure.error}")


def _warn_of_unknown(report: BudgetReport) -> None:
    """Warn of limits that could not be checked, with the reasons."""
    unknown = [f"{line.label}: {line.detail}" for line in report.lines if line.verdict == UNKNOWN]
    if unknown:
        warnings.warn(f"unknown, not checked against the budget: {'; '.join(unknown)}", BudgetWarning, stacklevel=3)
