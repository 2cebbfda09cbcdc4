"""`assay memory`: formats, arguments of the recorder, devices, KV caches, and the batch search."""

from __future__ import annotations

import csv
import io
import json
import re

import msgspec
import pytest
from handmade import conv_stack

from assay.document.document import KeyValueCache
from assay.document.rows import Storage

MODEL = """
import torch
from torch import nn


def load_model():
    print("loading")
    return nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024))


def get_inputs():
    return torch.randn(2, 1024)
"""


def document():
    storages = [Storage(4, 0, None, "parameter"), Storage(1 << 20, 0, 3), Storage(1 << 19, 2, None)]
    cached = conv_stack(cache=KeyValueCache(3200, 2, 10, 4))
    return msgspec.structs.replace(cached, storages=storages)


def test_json_has_values_with_their_provenance(cli):
    result = cli("memory", "m", "--format", "json", document=document())
    data = json.loads(result.out)
    assert (result.code, data["model_class"]) == (0, "Sequential")
    peak = data["memory"]["inference"]
    assert peak["moving"] == {"value": 3 << 19, "how": peak["moving"]["how"]}
    assert peak["moving"]["how"]["type"] == "counted"
    assert peak["alive"] == [1 << 20, 1 << 20, 3 << 19, 1 << 19, 1 << 19, 1 << 19]
    assert peak["peak"]["module"] == "2"
    assert data["memory"]["training"] is None
    assert data["memory"]["training_peak"]["how"]["type"] == "unknown"


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_row_formats_have_plain_bytes(cli, form):
    out = cli("memory", "m", "--format", form, document=document()).out
    rows = (
        list(csv.DictReader(io.StringIO(out))) if form == "csv" else [json.loads(line) for line in out.splitlines()]
    )
    by_name = {row["what"]: row for row in rows}
    assert int(by_name["inference: alive at the peak"]["bytes"]) == 3 << 19
    assert by_name["training: peak"]["bytes"] in ("", None)


def test_markdown_has_a_heading_for_each_part(cli):
    out = cli("memory", "m", "--format", "md", document=document()).out
    assert re.search(r"^## .*[Mm]emory$", out, re.M)
    assert "| parameters |" in out


def test_text_plots_the_timeline(cli):
    out = cli("memory", "m", document=document()).out
    assert "1.5 MiB┤" in out
    assert "Activations peak at 1.5 MiB" in out


def test_options_reach_the_recorder_and_the_optimizer(cli):
    result = cli("memory", "m", "--backward", "--optimizer", "sgd-momentum", "--meta", document=document())
    assert (result.received["backward"], result.received["mode"]) == (True, "meta")
    assert "sgd-momentum: momentum" in result.out
    assert cli("memory", "m", document=document()).received["backward"] is False


def test_fit_checks_each_device(cli):
    out = cli("memory", "m", "--fit", "rtx4090,1GiB", "--format", "json", document=document()).out
    fits = json.loads(out)["fits"]
    assert [(fit["device"], fit["fits"]) for fit in fits] == [("RTX 4090", True), ("1GiB", False)]
    assert fits[0]["how"]["type"] == "modelled"


def test_fit_on_several_devices_states_what_they_share(cli):
    out = cli("memory", "m", "--fit", "8xH100,T4", document=document()).out
    assert "Does it fit? (inference, bytes per device)\n" in out
    assert "8xH100 SXM  sharded " in out
    assert "\n8 devices, tensor-parallel: parameters, gradients and optimizer state are divided by 8; " in out
    data = json.loads(cli("memory", "m", "--fit", "8xH100,T4", "--format", "json", document=document()).out)
    assert [fit.get("parallelism") for fit in data["fits"]] == ["sharded", "tensor-parallel", None]
    assert [fit.get("count", 1) for fit in data["fits"]] == [8, 8, 1]


def test_a_requested_cache_counts_towards_the_fit(cli):
    arguments = ["--kv", "batch=4,length=1000", "--fit", "T4", "--format", "json"]
    with_cache = json.loads(cli("memory", "m", *arguments, document=document()).out)
    without = json.loads(cli("memory", "m", *arguments[2:], document=document()).out)
    assert with_cache["cache_at"]["batch 4, length 1,000"]["value"] == 4 * 1000 * 160
    assert with_cache["fits"][0]["needed"] - without["fits"][0]["needed"] == 4 * 1000 * 160 - 3200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--optimizer", "adamx"], "unknown optimizer 'adamx': expected one of sgd, "),
        (["--fit", "H1000"], "unknown device 'H1000': did you mean H100 SXM"),
        (["--kv", "batch=8"], "expected sizes such as batch=8,length=32768, got 'batch=8'"),
        (["--kv", "batch=0,length=3"], "expected sizes such as batch=8,length=32768"),
        (["--batch-search"], "--batch-search requires --fit"),
    ],
)
def test_wrong_usage_is_refused_before_anything_runs(cli, arguments, message):
    result = cli("memory", "m", *arguments, document=document())
    assert (result.code, result.out, result.received) == (2, "", {})
    assert message in result.err
    assert result.err.count("\n") == 1


def test_kv_is_refused_for_a_model_without_a_cache(cli):
    result = cli("memory", "m", "--kv", "batch=1,length=2", document=conv_stack())
    assert result.code == 2
    assert "returned no KV cache" in result.err


def test_the_largest_batch_is_found(process, in_place):
    (in_place / "m.py").write_text(MODEL)
    arguments = ["--inputs", "m.py::get_inputs", "--fit", "2GiB", "--batch-search", "--format", "json"]
    result = process("memory", "m.py::load_model", *arguments)
    assert result.returncode == 0, result.stderr
    data = json.loads(result.stdout)
    search = data["largest_batch"]["2GiB"]
    # Weights and biases are constant; each sample adds its input and, at the peak, the input and output of the ReLU.
    weights, row = 4 * (2 * 1024 * 4096 + 4096 + 1024), 4 * (1024 + 4096 + 4096)
    assert search["batch"] == (search["budget"] - weights) // row
    assert search["peak_bytes"] == weights + row * search["batch"]
    assert search["captures"] < 40


def test_with_backward_both_largest_batches_are_found(process, in_place):
    (in_place / "m.py").write_text(
        "import torch\n\ndef load():\n    return torch.nn.GRU(8, 64, batch_first=True)\n\n"
        "def get_inputs():\n    return torch.zeros(2, 3, 8)\n"
    )
    arguments = ["--inputs", "m.py::get_inputs", "--fit", "1100MiB", "--batch-search", "--backward"]
    result = process("memory", "m.py::load", *arguments, "--format", "json")
    data = json.loads(result.stdout)
    step, inference = data["largest_batch"]["1100MiB"], data["largest_inference_batch"]["1100MiB"]
    assert 0 < step["batch"] < inference["batch"]
    assert max(step["peak_bytes"], inference["peak_bytes"]) <= step["budget"]


def test_the_largest_batch_of_several_devices_is_found(process, in_place):
    (in_place / "m.py").write_text(MODEL)
    arguments = ["--inputs", "m.py::get_inputs", "--fit", "2x1100MiB", "--batch-search", "--format", "json"]
    result = process("memory", "m.py::load_model", *arguments)
    assert result.returncode == 0, result.stderr
    searches = json.loads(result.stdout)["largest_batch"]
    assert list(searches) == ["2x1100MiB, sharded", "2x1100MiB, tensor-parallel"]
    weights, row = 4 * (2 * 1024 * 4096 + 4096 + 1024), 4 * (1024 + 4096 + 4096)
    for search in searches.values():
        assert search["batch"] == (search["budget"] - weights // 2) // row


def test_a_saved_document_cannot_be_searched(process, in_place):
    from assay.document import files

    files.save(document(), in_place / "d.assay.json")
    assert process("memory", "d.assay.json").returncode == 0
    result = process("memory", "d.assay.json", "--fit", "T4", "--batch-search")
    assert result.returncode == 2
    assert "give the model itself" in result.stderr


def test_a_terminal_without_utf8_gets_ascii_plots(process, in_place):
    from assay.document import files

    files.save(document(), in_place / "d.assay.json")
    drawn = {name: process("memory", "d.assay.json", PYTHONIOENCODING=name).stdout for name in ("utf-8", "ascii")}
    assert "█" in drawn["utf-8"]
    assert "█" not in drawn["ascii"]
    assert "#" in drawn["ascii"]


@pytest.mark.parametrize("form", ["table", "json", "csv", "md", "jsonl"])
def test_a_roofline_is_reported_in_every_format(cli, form):
    result = cli("cost", "m", "--device", "H100", "--format", form, document=conv_stack())
    assert "torch" in result.out
    assert (result.out if form == "table" else result.err).removeprefix("assay: ").startswith("At least ")
    if form == "json":
        assert json.loads(result.out)["device"] == "H100 SXM"
