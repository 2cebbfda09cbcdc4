"""The pytest plugin: options and the fixture `model_budget`.

Every pytest run loads it, so it imports nothing but pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from assay.integrations.model_budget import ModelBudget


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin."""
    group = parser.getgroup("assay", "budgets of models (torch-assay)")
    group.addoption("--assay-budget", metavar="FILE", help="TOML file with the limits of model_budget.")
    group.addoption(
        "--assay-update", action="store_true", help="Write the current values of model_budget to the budget file."
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to update a file from several processes at once."""
    if config.getoption("assay_update") and config.getoption("numprocesses", None):
        raise pytest.UsageError("--assay-update cannot be combined with -n: run the tests in one process")


@pytest.fixture(scope="session")
def model_budget(pytestconfig: pytest.Config) -> ModelBudget:
    """Compare a model with its budget: `model_budget(model, inputs, parameters="30M", peak_memory="600 MiB")`."""
    from assay.integrations.model_budget import ModelBudget

    file = pytestconfig.getoption("assay_budget")
    directory = pytestconfig.invocation_params.dir
    return ModelBudget(
        pytestconfig.rootpath, directory / file if file else None, update=pytestconfig.getoption("assay_update")
    )
