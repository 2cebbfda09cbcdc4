"""The fixture of tests that use the changes of `trial_changes`."""

from __future__ import annotations

import pytest
from trial_changes import CHANGES, ENABLED, known_costs


@pytest.fixture
def known_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the changes of `trial_changes`, and its comparison, in this process and its children."""
    import assay.trials.change as registry

    registry._load()
    monkeypatch.setenv(ENABLED, "1")
    monkeypatch.setattr("assay.trials.worker.compare", known_costs)
    monkeypatch.setattr(registry, "_CHANGES", {change.name: change for change in CHANGES})
