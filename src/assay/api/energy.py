"""`assay.energy_meter` and `assay.measure_energy`: what a sensor of this machine reports about your own code."""

from __future__ import annotations

from collections.abc import Callable

from assay.document.machine import Replay
from assay.errors import ReadError
from assay.machine.energy import CounterGroup, EnergyMeter, of_device, replay


def energy_meter(device: str = "cpu") -> EnergyMeter:
    """A `with` block whose energy and power are read from a sensor: `meter.energy` and `meter.power_w` afterwards.

    A block too short for two steps of the counter has an unknown figure. Raises `ReadError` without a sensor.

    Args:
        device: `"cpu"`, or `"cuda"` for the first GPU.
    """
    return EnergyMeter(_sensors(device))


def measure_energy(
    run: Callable[[], object],
    device: str = "cpu",
    *,
    synchronize: Callable[[], object] | None = None,
    window_s: float = 2.0,
    repeats: int = 3,
) -> Replay:
    """The energy of one call of `run`, from calling it for so long that the steps of the counter do not matter.

    Raises `ReadError` without a sensor.

    Args:
        run: What to measure; called many times.
        device: `"cpu"`, or `"cuda"` for the first GPU.
        synchronize: Waits for whatever `run` started, such as `torch.cuda.synchronize`.
        window_s: Seconds to keep the device busy for each repetition.
        repeats: Repetitions; the figure is their median with its spread.
    """
    wait = synchronize or (lambda: None)
    return replay(run, _sensors(device), synchronize=wait, window_s=window_s, repeats=repeats)


def _sensors(device: str) -> CounterGroup:
    found = of_device(device)
    if isinstance(found, str):
        raise ReadError(f"no energy can be measured on {device}: {found}")
    return found
