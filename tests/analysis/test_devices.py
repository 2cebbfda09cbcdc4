"""The table of devices, and the names by which a device can be found."""

from __future__ import annotations

import pytest

from assay.analysis.devices import (
    GIB,
    device_to_compute_on,
    device_with_memory,
    devices,
    find_device,
    parse_devices,
)
from assay.errors import UsageError

PRECISIONS = {"fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8"}


@pytest.mark.parametrize("device", devices(), ids=lambda device: device.name)
def test_values_are_complete_and_plausible(device):
    assert device.source
    assert "://" not in device.source
    assert 4 <= device.memory_gib <= 1024
    assert device.bandwidth_gb_s is None or 100 <= device.bandwidth_gb_s <= 20_000
    assert set(device.tflops) <= PRECISIONS
    assert all(0 < tera < 20_000 for tera in device.tflops.values())
    assert device.tdp_w is None or 10 <= device.tdp_w <= 3000


@pytest.mark.parametrize("device", devices(), ids=lambda device: device.name)
def test_narrower_is_never_slower(device):
    ladder = [device.tflops[name] for name in ("fp64", "fp32", "tf32", "bf16", "fp8") if name in device.tflops]
    assert ladder == sorted(ladder)


def test_no_two_devices_share_a_name():
    names = [name.replace(" ", "").lower() for device in devices() for name in (device.name, *device.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("h100", "H100 SXM"), ("RTX4090", "RTX 4090"), ("rtx-4090", "RTX 4090"), ("tpu_v5e", "TPU v5e")],
)
def test_spaces_hyphens_and_case_do_not_matter(name, expected):
    assert find_device(name).name == expected


def test_values_of_known_devices():
    h100 = find_device("H100 SXM")
    assert (h100.memory_bytes, h100.bandwidth, h100.peak("bf16")) == (80 * GIB, 3.35e12, 989.4e12)
    assert find_device("V100").peak("bf16") is None


@pytest.mark.parametrize("size", ["24GiB", "80 GB", "24"])
def test_a_memory_size_is_no_device_to_compute_on(size):
    with pytest.raises(UsageError, match=f"^no device in '{size}': a roofline needs a device by name, such as H100"):
        device_to_compute_on(size)
    assert device_to_compute_on("H100") == find_device("H100")


def test_an_unknown_name_in_a_list_is_answered_with_what_the_list_accepts():
    with pytest.raises(UsageError, match="expected a name such as H100 or a size such as 24GiB; ") as caught:
        parse_devices("zzz")
    assert len(str(caught.value)) < 160


def test_an_unknown_name_suggests_similar_ones():
    with pytest.raises(UsageError, match=r"unknown device 'RTX 4091': did you mean RTX 4090"):
        find_device("RTX 4091")
    with pytest.raises(UsageError, match="unknown device '24': for a memory size, write 24GiB"):
        find_device("24")
    with pytest.raises(UsageError, match="unknown device 'zzz': expected a name such as H100; `assay memory"):
        find_device("zzz")


def test_this_machine_must_be_measured_first():
    with pytest.raises(UsageError, match="assay machine"):
        find_device("this")


@pytest.mark.parametrize(
    ("text", "size"), [("24GiB", 24 * GIB), ("24 gb", 24 * 10**9), ("512MiB", 512 << 20), ("1.5TiB", 3 << 39)]
)
def test_a_size_is_a_device_too(text, size):
    assert device_with_memory(text).memory_bytes == size


def test_lists_of_devices():
    assert [group.name for group in parse_devices("H100, 24GiB")] == ["H100 SXM", "24GiB"]
    assert [group.device for group in parse_devices("all")] == list(devices())
    with pytest.raises(UsageError, match="no device in ' , '"):
        parse_devices(" , ")


@pytest.mark.parametrize(
    ("text", "name", "count"),
    [
        ("8xH100", "H100 SXM", 8), ("2x24GiB", "24GiB", 2), ("4 × RTX 4090", "RTX 4090", 4), 
        ("8Xh100", "H100 SXM", 8), ("1xL4", "L4", 1),
    ],
)  # fmt: skip
def test_several_equal_devices(text, name, count):
    (group,) = parse_devices(text)
    assert (group.device.name, group.count) == (name, count)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("8xH10", "unknown device 'H10': did you mean H100 SXM"),
        ("0xH100", "no device in '0xH100': expected at least 1"),
        ("8x", "unknown device '8x': expected"),
        ("9" * 5000 + "xH100", "unknown device '999"),
    ],
)
def test_unusable_groups_are_refused(text, message):
    with pytest.raises(UsageError, match=message):
        parse_devices(text)
