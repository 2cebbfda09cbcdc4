"""Opening a damaged file of any format gives a checkpoint or a ReadError; `make fuzz` tries many more inputs."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from checkpoint_files import dict_pickle, numbers, storage_pickle, tensor_pickle, text, torch_file
from fuzz_inputs import FOUND, OPENED, REFUSED, damaged, fuzz, preload, seeds_in
from fuzz_seeds import SEEDS, write_seeds

from assay.checkpoint.formats.script_code import CodeBudget
from assay.checkpoint.open import open_checkpoint
from assay.errors import ReadError

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")

INPUTS = 200


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    write_seeds(folder)
    seeds = {seed.format: seed for seed in seeds_in(folder)}
    preload(seeds.values())
    return seeds


@pytest.mark.parametrize("format", SEEDS)
def test_a_damaged_file_is_a_checkpoint_or_a_read_error(seeds, format):
    counts = fuzz(seeds[format], "test", range(INPUTS))
    assert not counts.findings
    assert counts.results[OPENED] + counts.results[REFUSED] == INPUTS


def test_the_inputs_follow_from_the_seed(seeds):
    first, second = (damaged(seeds["torch-zip"], "a", 5) for _ in range(2))
    assert first == second
    assert first not in (damaged(seeds["torch-zip"], "b", 5), damaged(seeds["torch-zip"], "a", 6), seeds["torch-zip"])


def _raise():
    raise KeyError("secret")


def _spin():
    while True:
        pass


FAULTS = {
    "KeyError": _raise,
    "more than 2 s": _spin,
    "MB of memory": lambda: np.ones(40 << 20).sum(),
    "MemoryError": lambda: np.ones(40 << 30),
    "forbidden: os.mkdir": lambda: os.mkdir("canary"),
    "forbidden: exec": lambda: eval(compile("1", "<pickle>", "eval")),  # noqa: S307
    "forbidden: import": lambda: __import__("antigravity"),
    "forbidden: open": lambda: Path("w").write_text(""),
    "signal 9": lambda: os.kill(os.getpid(), 9),
}


@pytest.mark.parametrize("what", FAULTS)
def test_every_kind_of_finding_is_found_and_the_rest_is_tried(seeds, what):
    def examine(path, number):
        if number == 3:
            FAULTS[what]()
        return OPENED

    counts = fuzz(seeds["json-other"], "test", range(6), examine)
    assert [finding.number for finding in counts.findings] == [3]
    assert what in counts.findings[0].what
    assert counts.results == {OPENED: 5, REFUSED: 0, FOUND: 1}
    assert "antigravity" not in sys.modules


def error_for(path):
    with pytest.raises(ReadError) as caught:
        open_checkpoint(path)
    return str(caught.value)


def test_an_index_of_no_shards(tmp_path):
    path = tmp_path / "model.safetensors.index.json"
    path.write_text('{"weight_map": {}}')
    assert error_for(path).endswith("is an index of no shards: its weight_map is empty")


def test_a_storage_offset_that_is_nested_deeply(tmp_path):
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage_pickle() + b")" + b"\x85" * 5000 + numbers((4,))
    path = torch_file(tmp_path / "a.pt", dict_pickle(w=tensor + numbers((1,)) + b"\x89)tR"))
    assert "tensor w: its storage offset tuple is not" in error_for(path)


def test_scripted_constants_in_another_directory(tmp_path):
    path = torch_file(tmp_path / "a.pt", dict_pickle(w=tensor_pickle()), extra=[("other/constants.pkl", b"")])
    assert error_for(path).endswith("is damaged: it lacks archive/constants.pkl")


def test_warnings_of_python_about_scripted_code_are_not_printed():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CodeBudget(1 << 20).parse(b"x = 1if 2 else 3\nassert (1, 2)\n'\\d'\n")


def test_pieces_of_a_distributed_tensor_that_are_no_list(tmp_path):
    def instance(**fields):
        pairs = b"".join(text(name) + value for name, value in fields.items())
        return b"cx\nX\n)\x81}(" + pairs + b"ub"

    tensor = instance(size=numbers((2,)), chunks=b"cx\nX\n")
    table = b"}(" + text("w") + tensor + b"u"
    (tmp_path / ".metadata").write_bytes(b"\x80\x02" + instance(state_dict_metadata=table) + b".")
    with pytest.raises(ReadError, match=r"a distributed checkpoint without tensors in its \.metadata"):
        open_checkpoint(tmp_path)


def test_keys_that_are_objects_are_named_by_their_plain_arguments(tmp_path):
    """As those of enums; their other contents may be too deep, or too many, to be shown."""
    keys = (b"cx\nColor\n(K" + bytes([index]) + b")" + b"\x85" * 5000 + b"tR" for index in range(2))
    body = b"".join(key + tensor_pickle() for key in keys)
    checkpoint = open_checkpoint(torch_file(tmp_path / "a.pt", b"\x80\x02}(" + body + b"u."))
    assert [entry.names for entry in checkpoint.entries] == [("x.Color(0)", "x.Color(1)")]
