"""The engines: streaming, failures of single tensors, equal results, the numpy fallback and imports."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import types
import warnings
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import numpy as np
import pytest
from weight_tensors import encoded

from assay import cluster
from assay.checkpoint.statistics import ray_engine
from assay.checkpoint.statistics.chunks import Weight
from assay.checkpoint.statistics.engine import EngineOptions, run, run_here
from assay.errors import ReadError, UsageError


class Immediate(Executor):
    """Runs every task immediately in the caller."""

    def submit(self, fn, /, *args, **kwargs):
        future: Future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - as every executor does
            future.set_exception(error)
        return future


@pytest.fixture
def model():
    generator = np.random.default_rng(4)
    weights, raw = [], b""
    for place, (dtype, shape) in enumerate(
        [
            ("bfloat16", (64, 700)),
            ("float32", (300, 80)),
            ("int64", (10,)),
            ("float16", (9, 9, 3, 3)),
            ("float64", (40, 33)),
        ]
    ):
        part = encoded(generator.standard_normal(shape) * 5, dtype)
        weights.append(Weight((f"layers.{place}.weight",), dtype, shape, f"shard{place % 2}", len(raw), len(part)))
        raw += part
    return weights, raw


class Bytes:
    def __init__(self, raw):
        self.raw = raw

    def __call__(self, chunk):
        return self.raw[chunk.offset : chunk.offset + chunk.bytes]


SMALL = EngineOptions(2, chunk_bytes=10_000)
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_every_executor_gives_the_same_result(model):
    weights, raw = model
    read = Bytes(raw)
    expected = dict(run(weights, read))
    assert sorted(expected) == list(range(len(weights)))
    assert dict(run(weights, read, SMALL)) == expected
    assert dict(run(weights, read, SMALL, Immediate())) == expected
    with ThreadPoolExecutor(3) as pool:
        assert dict(run(weights, read, SMALL, pool)) == expected
    assert dict(run_here(weights, read, EngineOptions())) == expected


def test_results_are_yielded_before_everything_is_read(model):
    weights, raw = model
    seen = []

    def read(chunk):
        seen.append(chunk.tensor)
        return raw[chunk.offset : chunk.offset + chunk.bytes]

    first = next(iter(run(weights * 20, read, EngineOptions(1, chunk_bytes=10_000), Immediate())))
    assert first[0] == 0
    assert max(seen) < 20


def test_bytes_are_reported_once(model):
    weights, raw = model
    done = []
    list(run(weights, Bytes(raw), SMALL, on_bytes=done.append))
    assert sum(done) == len(raw)


def test_a_failed_read_is_retried(model):
    weights, raw = model
    left = dict.fromkeys(range(len(weights)), 2)

    def read(chunk):
        if left[chunk.tensor]:
            left[chunk.tensor] -= 1
            raise OSError("the connection was lost")
        return raw[chunk.offset : chunk.offset + chunk.bytes]

    assert dict(run(weights, read)) == dict(run(weights, Bytes(raw)))


@pytest.mark.parametrize("error", [OSError("shard is missing"), ReadError("shard is missing")])
@pytest.mark.parametrize("options", [EngineOptions(2), SMALL])
def test_a_failed_tensor_has_a_problem_and_the_rest_is_analysed(model, error, options):
    weights, raw = model

    def read(chunk):
        if chunk.tensor == 1:
            raise error
        return raw[chunk.offset : chunk.offset + chunk.bytes]

    results, expected = dict(run(weights, read, options)), dict(run(weights, Bytes(raw)))
    assert results[1].problem == "shard is missing"
    assert results[1].mean is None
    assert {place: results[place] for place in (0, 2, 3, 4)} == {place: expected[place] for place in (0, 2, 3, 4)}


def test_a_short_read_is_a_problem(model):
    weights, raw = model
    results = dict(run(weights[:1], lambda chunk: raw[: chunk.bytes - 2], EngineOptions(1)))
    assert "expected 89,600 bytes" in results[0].problem


def test_a_bug_in_the_program_is_not_hidden(model):
    weights, _ = model
    with pytest.raises(ZeroDivisionError):
        list(run(weights, lambda chunk: 1 // 0, EngineOptions(1)))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (Weight(("q",), "gguf:q4_k", (256,), "f", 0, 144), "gguf:q4_k"),
        (Weight(("q",), "float32", (256,), "f", 0, 144), "1,024 bytes"),
        (Weight(("q",), "float32", (2, 2), "f", 0, 16, (2, -1)), "negative"),
        (Weight(("q",), "float32", (2, 2), "f", 0, 16, (9, 1)), "bytes"),
        (Weight(("q",), "float32", (2, 2), "f", 0, 16, problem="missing shard"), "missing shard"),
    ],
)
def test_tensors_that_cannot_be_analysed_are_listed(weight, message):
    [(_, row)] = run([weight], lambda chunk: b"")
    assert message in row.problem
    assert row.count == np.prod(weight.shape)


def test_duplicates_have_equal_content(model):
    weights, raw = model
    twice = [*weights, *weights]
    results = dict(run(twice, Bytes(raw)))
    assert results[0].content == results[5].content
    assert len({results[place].content for place in range(5)}) == 5


def fake_ray(lost=()):
    """A substitute for ray: tasks run immediately, those in `lost` fail."""

    class RayError(Exception):
        pass

    ray = types.ModuleType("ray")
    ray.exceptions = types.SimpleNamespace(RayError=RayError)
    ray.is_initialized = lambda: True
    calls = []

    def remote(**options):
        def wrap(function):
            def submit(*args):
                calls.append((function, args))
                return len(calls) - 1

            return types.SimpleNamespace(remote=submit)

        return wrap

    def get(place):
        if place in lost:
            raise RayError("worker died\nat length")
        function, args = calls[place]
        return function(*args)

    ray.remote, ray.get = remote, get
    ray.wait = lambda places, num_returns: (places[-1:], places[:-1])
    return ray


def test_ray_gives_the_same_result_bit_for_bit(model, monkeypatch):
    weights, raw = model
    monkeypatch.setitem(sys.modules, "ray", fake_ray())
    assert dict(ray_engine.run_on_ray(weights, Bytes(raw), SMALL)) == dict(run(weights, Bytes(raw)))


def test_a_lost_ray_task_loses_only_its_tensors(model, monkeypatch):
    weights, raw = model
    monkeypatch.setitem(sys.modules, "ray", fake_ray(lost=(1,)))
    results = dict(ray_engine.run_on_ray(weights, Bytes(raw)))
    assert results[1].problem == "its Ray task was lost: worker died"
    assert [results[place].problem for place in (0, 2, 3, 4)] == [""] * 4


def test_batches_are_limited_to_one_file_and_a_size():
    weights = [Weight((str(place),), "int8", (10,), file, 0, 10) for place, file in enumerate("aaabb")]
    assert ray_engine.batches(weights) == [[0, 1, 2], [3, 4]]
    assert ray_engine.batches(weights, 20) == [[0, 1], [2], [3, 4]]


def test_the_error_for_a_ray_that_cannot_be_imported_is_one_line(monkeypatch):
    def crash(name):
        raise KeyError("ROCM_PATH")

    monkeypatch.setattr(cluster.importlib, "import_module", crash)
    with pytest.raises(UsageError, match=r"ray could not be imported.*ROCM_PATH"):
        cluster.import_ray()


def test_a_cluster_is_started_without_a_dashboard_logs_or_usage_statistics(monkeypatch):
    seen = {}

    def init(**options):
        warnings.warn("this will change in future versions of Ray", FutureWarning, stacklevel=1)
        seen.update(options, usage=os.environ.get("RAY_USAGE_STATS_ENABLED"))

    ray = types.ModuleType("ray")
    ray.is_initialized, ray.init, ray.shutdown = (lambda: False), init, (lambda: None)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    with cluster.connected_ray(workers=2):
        assert "RAY_USAGE_STATS_ENABLED" not in os.environ
    assert (seen["usage"], seen["include_dashboard"], seen["log_to_driver"]) == ("0", False, False)
    assert seen["logging_level"] == logging.ERROR


def test_neither_torch_nor_ray_is_imported():
    script = (
        "import sys; from assay.checkpoint.statistics import engine, ray_engine\n"
        "print({'torch', 'ray'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    assert ran.stdout.strip() == "set()"


def test_without_the_native_module_the_reference_gives_the_same_statistics(model):
    weights, raw = model
    script = """
import sys
sys.modules["assay.checkpoint.statistics._kernel"] = None
import logging
import os
import pickle
from assay.checkpoint.statistics.engine import run
from assay.checkpoint.statistics.kernel import is_native, name
weights, raw = pickle.loads(sys.stdin.buffer.read())
results = dict(run(weights, lambda chunk: raw[chunk.offset : chunk.offset + chunk.bytes]))
sys.stdout.buffer.write(pickle.dumps((is_native(), name(), results)))
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], input=pickle.dumps(model), capture_output=True, check=True, env=ENVIRONMENT
    )
    native, name, results = pickle.loads(ran.stdout)  # noqa: S301 - written by the process above
    assert (native, name) == (False, "numpy")
    for place, expected in run(weights, Bytes(raw)):
        actual = results[place]
        assert (actual.quantiles, actual.histogram, actual.content) == (
            expected.quantiles,
            expected.histogram,
            expected.content,
        )
        assert actual.distinct == expected.distinct
        for one, other in zip(actual.roundings, expected.roundings, strict=True):
            assert one.exact == other.exact
            assert one.sqnr_db == pytest.approx(other.sqnr_db, abs=1e-3)
