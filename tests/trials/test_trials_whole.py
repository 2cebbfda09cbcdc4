"""Real changes, compared for real, in real child processes; no expectation depends on how fast anything was."""

from __future__ import annotations

from trial_changes import Costly

from assay.api.attempt import AttemptOptions, attempt
from assay.api.options import RunOptions
from assay.document.trials import FASTER, INCONCLUSIVE, SAME, SKIPPED, SLOWER

NAMES = ["inference_mode", "batch=4", "channels_last", "fuse_qkv"]


def test_changes_are_applied_compared_and_measured():
    results = attempt(Costly(), "1x4", RunOptions(), AttemptOptions(tuple(NAMES), seconds=0.05))
    by_name = {each.name: each for each in results}
    assert sorted(by_name) == sorted(NAMES)
    for name in ("inference_mode", "batch=4"):
        result = by_name[name]
        assert result.verdict in (FASTER, SLOWER, SAME, INCONCLUSIVE), result.detail
        assert result.outputs.tensors == 1
        assert result.rounds > 0
        assert result.prepare.value > 0
    assert by_name["inference_mode"].outputs.identical
    assert by_name["batch=4"].items == 4
    assert [by_name[name].verdict for name in ("channels_last", "fuse_qkv")] == [SKIPPED, SKIPPED]
