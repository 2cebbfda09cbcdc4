"""How the bare numbers of a profile were obtained: values in lists state it once for the whole column."""

from __future__ import annotations

from msgspec.structs import replace

from assay.document.profile import Profile
from assay.document.provenance import Measured, Provenance

_STEP = Measured("monotonic clock around each backward op, lower quartile; kernel times on an accelerator")
_DERIVED: dict[str, Provenance] = {
    "step.modules": _STEP,
    "step.outside_s": _STEP,
    "thread_points.kinds": Measured("as `kinds.total_s`, with this number of threads"),
    "thread_points.efficiency": Measured("time with one thread ÷ (threads × time)"),
    "thread_points.kind_efficiency": Measured("time with one thread ÷ (threads × time)"),
    "sweeps.points.throughput": Measured("size ÷ time of a pass"),
    "energy.covered": Measured("time of the ops with known energy ÷ time of all ops"),
    "system": Measured("samples of the monitor"),
}
"""By the path of the column in `Profile`; a path covers everything below it."""


def with_columns(profile: Profile) -> Profile:
    """The profile with the provenance of those columns that it has."""
    present = {path: how for path, how in _DERIVED.items() if getattr(profile, path.partition(".")[0])}
    return replace(profile, columns={**profile.columns, **present})
