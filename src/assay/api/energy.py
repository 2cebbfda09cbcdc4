"""`assay.energy_meter` and `assay.measure_energy`: the energy of your own code, read from this machine's sensors."""

from __future__ import annotations

from collections.abc import Callable

from assay.api.arguments import check_callable, check_number, check_whole
from assay.document.machine import Replay
from assay.errors import ReadError, UsageError
from assay.machine.energy import CounterGroup, EnergyMeter, counters_of_device, replay
from assay.machine.hardware import CPU, CUDA


def energy_meter(device: str = "cpu") -> EnergyMeter:
    """Measure the energy and power of a `with` block.

    Args:
        device: `"cpu"`, or `"cuda"` for the first GPU.

    Returns:
        A context manager. After the block, its `energy` is in joules and its `power_w` in watts. Both are unknown if
        the block is shorter than two updates of the energy counter. Its `thermal` has the temperature of the device
        and whether it was throttled.

    Raises:
        UsageError: `device` is neither `"cpu"` nor `"cuda"`.
        ReadError: This machine has no energy sensor for the device.
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
    """Measure the energy of one call of `run`, by calling it long enough for a coarse energy counter.

    Args:
        run: The function to measure. It is called many times, without arguments.
        device: `"cpu"`, or `"cuda"` for the first GPU.
        synchronize: Waits for the work that `run` started, such as `torch.cuda.synchronize`. Default: no waiting.
        window_s: Seconds to keep the device busy in each repetition.
        repeats: Number of repetitions; the result is their median with its spread.

    Returns:
        The energy per call in joules (total and above idle), the power in watts, the time per call in seconds, and
        the temperature of the device and whether it was throttled.

    Raises:
        UsageError: An argument is not valid.
        ReadError: This machine has no energy sensor for the device.
    """
    check_callable("run", run)
    check_callable("synchronize", synchronize, optional=True)
    check_number("window_s", window_s, 0)
    check_whole("repeats", repeats)
    wait = synchronize or (lambda: None)
    return replay(run, _sensors(device), synchronize=wait, window_s=window_s, repeats=repeats)


def _sensors(device: str) -> CounterGroup:
    if device not in (CPU, CUDA):
        raise UsageError(f"unknown device {device!r}: expected {CPU} or {CUDA}")
    sensors = counters_of_device(device)
    if isinstance(sensors, str):
        raise ReadError(f"cannot measure energy on {device}: {sensors}")
    return sensors
