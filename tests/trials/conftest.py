"""Changes whose effects are known, for tests of trials."""

from __future__ import annotations

import pytest
from trial_changes import CHANGES, ENABLED, known_costs


@pytest.fixture
def known_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The changes of `trial_changes`, and its comparison, in this process and its children."""
    import assay.trials.change as registry

    registry._load()
    monkeypatch.setenv(ENABLED, "1")
    monkeypatch.setattr("assay.trials.worker.compare", known_costs)
    for change in CHANGES:
        monkeypatch.setitem(registry._CHANGES, change.name, change)
