"""The limit of a GPU's memory from the environment, with a GPU of 1,000 bytes in place of torch's."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from assay.errors import UsageError
from assay.recorder import cuda_memory
from assay.timing import resident


@pytest.fixture
def gpu(monkeypatch):
    """The limits that were set, by the index of the GPU."""
    limits: dict[int, float] = {}
    fakes = {
        "set_per_process_memory_fraction": lambda fraction, device: limits.update({device: fraction}),
        "get_device_properties": lambda device: SimpleNamespace(total_memory=1000),
        "current_device": lambda: 2,
        "mem_get_info": lambda device: (900, 1000),
        "memory_reserved": lambda device: 100,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    return limits


@pytest.mark.parametrize(("fraction", "allowed", "free"), [("", None, 900), ("0.5", 500, 400), ("1", 1000, 900)])
def test_what_may_be_used_and_what_is_free(gpu, monkeypatch, fraction, allowed, free):
    monkeypatch.setenv("PYTORCH_CUDA_MEMORY_FRACTION", fraction)
    assert cuda_memory.allowed_bytes(torch.device("cuda:1")) == allowed
    assert cuda_memory.allowed_bytes(torch.device("cpu")) is None
    assert resident.free("cuda:1").value == free


def test_torch_is_limited_on_the_gpus_of_the_model_only(gpu, monkeypatch):
    devices = [torch.device(name) for name in ("cpu", "cuda", "cuda:1", "cuda:1")]
    cuda_memory.limit(devices)
    assert gpu == {}
    monkeypatch.setenv("PYTORCH_CUDA_MEMORY_FRACTION", "0.25")
    cuda_memory.limit(devices)
    assert gpu == {1: 0.25, 2: 0.25}


def test_more_than_allowed_leaves_nothing_free(gpu, monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_MEMORY_FRACTION", "0.05")
    assert resident.free("cuda:0").value == 0


def test_a_value_that_is_not_valid_is_refused(gpu, monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_MEMORY_FRACTION", "80%")
    with pytest.raises(UsageError, match=r"PYTORCH_CUDA_MEMORY_FRACTION=80% is not valid: expected a number above 0"):
        cuda_memory.limit([torch.device("cuda")])
