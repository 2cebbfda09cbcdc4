"""Recorded calls of every module, compared with torch and with hand-written hooks."""

from __future__ import annotations

import copy
import dataclasses
import io
import math
import threading
from collections import namedtuple

import pytest
import torch
from torch import nn

import assay
from assay.errors import UsageError

SIDES = ("in", "out")
NAMES = ("shape", "dtype", "device", "min", "max", "mean", "std", "requires_grad", "has_grad", "memory_bytes")


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Sequential(nn.Linear(8, 8), nn.Tanh()))


def record(model, *args, **kwargs):
    with assay.record_forward_stats(model) as recording:
        model(*args, **kwargs)
    return recording


class Apply(nn.Module):
    """A module whose forward is the given function; by default it returns its first argument."""

    def __init__(self, function=lambda *args, **kwargs: args[0]):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def expected_stats(tensor: torch.Tensor) -> dict:
    wide = tensor.detach().double()
    return {
        "shape": tuple(tensor.shape),
        "dtype": tensor.dtype,
        "device": tensor.device,
        "min": wide.min().item(),
        "max": wide.max().item(),
        "mean": wide.mean().item(),
        "std": wide.std().item(),
        "requires_grad": tensor.requires_grad,
        "has_grad": tensor.is_leaf and tensor.grad is not None,
        "memory_bytes": tensor.numel() * tensor.element_size(),
    }


@pytest.mark.parametrize("grad", [True, False])
def test_every_attribute_matches_what_hooks_see(grad):
    model, x = small(), torch.randn(3, 4)
    expected: dict[str, list] = {name: [] for name, _ in model.named_modules()}

    def before(name):
        return lambda module, args: expected[name].append([expected_stats(args[0])])

    def after(name):
        return lambda module, args, out: expected[name][-1].append(expected_stats(out))

    handles = [module.register_forward_pre_hook(before(name)) for name, module in model.named_modules()]
    handles += [module.register_forward_hook(after(name)) for name, module in model.named_modules()]
    with torch.set_grad_enabled(grad):
        for _ in range(2):
            record(model, x)
    for handle in handles:
        handle.remove()
    for name, module in model.named_modules():
        assert len(module.forward_stats) == len(expected[name]) == 2
        for call, sides in zip(module.forward_stats, expected[name], strict=True):
            for side, figures in zip(SIDES, sides, strict=True):
                got = {key: getattr(call, f"{side}_{key}") for key in NAMES}
                assert got == pytest.approx(figures, rel=1e-5, abs=1e-7)


DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int64,
    torch.bool,
]


@pytest.mark.parametrize("dtype", [*DTYPES, torch.uint16, torch.uint32, torch.float8_e4m3fn])
@pytest.mark.parametrize("count", [1, 2, 1000, 300_001])
def test_values_of_every_dtype(dtype, count):
    torch.manual_seed(1)
    x = (torch.randn(count) * 40).abs().to(dtype)
    model = Apply()
    record(model, x)
    call, wide = model.forward_stats[-1], x.double()
    assert (call.in_min, call.in_max) == (wide.min().item(), wide.max().item())
    assert call.in_mean == pytest.approx(wide.mean().item(), rel=1e-6)
    if count == 1:
        assert call.in_std is None
    else:
        assert call.in_std == pytest.approx(wide.std().item(), rel=1e-5)
    assert call.nan is call.inf is False


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e-19, 1.0, 1e15, 1e37])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_the_deviation_is_accurate_at_any_scale_and_shift(scale, shift):
    torch.manual_seed(2)
    x = ((torch.randn(200_000, dtype=torch.float64) + shift) * min(scale, 1e37 / (shift + 1))).float()
    model = Apply()
    record(model, x)
    assert model.forward_stats[-1].in_std == pytest.approx(x.double().std().item(), rel=1e-4)
    assert model.forward_stats[-1].in_mean == pytest.approx(x.double().mean().item(), rel=1e-4, abs=scale * 1e-6)


def test_half_precision_does_not_overflow():
    x = torch.full((100_000,), 60_000.0, dtype=torch.float16)
    x[0] = -60_000
    model = Apply()
    record(model, x)
    assert model.forward_stats[-1].in_mean == pytest.approx(x.double().mean().item())
    assert model.forward_stats[-1].in_std == pytest.approx(x.double().std().item(), rel=1e-5)


def test_integers_are_exact():
    x = torch.tensor([2**62 + 1, -(2**62) - 3])
    model = Apply()
    record(model, x)
    assert (model.forward_stats[0].in_min, model.forward_stats[0].in_max) == (-(2**62) - 3, 2**62 + 1)


VIEWS = {
    "transposed": lambda x: x.transpose(0, 2),
    "channels last": lambda x: x[None].to(memory_format=torch.channels_last),
    "sliced": lambda x: x[:, ::2, 1:],
    "expanded": lambda x: x[:1].expand(5, -1, -1),
    "flipped": lambda x: x.flip(0).mT,
    "scalar": lambda x: x[0, 0, 0],
}


@pytest.mark.parametrize("view", VIEWS)
def test_views_are_read_correctly(view):
    x = VIEWS[view](torch.arange(60, dtype=torch.float32).reshape(3, 4, 5) ** 2)
    model = Apply()
    record(model, x)
    call = model.forward_stats[0]
    assert (call.in_min, call.in_max) == (x.min().item(), x.max().item())
    assert call.in_mean == pytest.approx(x.double().mean().item())
    assert call.in_std == (None if x.numel() == 1 else pytest.approx(x.double().std().item()))


def test_complex_tensors_have_a_mean_but_no_min_or_max():
    x = torch.randn(50, dtype=torch.complex64)
    model = Apply()
    record(model, x.conj())
    call = model.forward_stats[0]
    assert call.in_min is call.in_max is None
    assert call.in_mean == pytest.approx(x.conj().mean().item(), rel=1e-5)
    assert call.in_std == pytest.approx(x.std().item(), rel=1e-5)
    bad = torch.tensor([complex(math.inf, -math.inf), 1])
    record(model, bad)
    assert (model.forward_stats[1].nan, model.forward_stats[1].inf) == (False, True)


UNKNOWN = {
    "meta": lambda: torch.empty(3, device="meta"),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "compressed": lambda: torch.eye(3).to_sparse_csr(),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", UNKNOWN)
def test_tensors_without_values_are_unknown_with_a_reason(kind):
    x = UNKNOWN[kind]()
    model = Apply()
    record(model, x)
    call = model.forward_stats[0]
    assert call.in_shape == tuple(x.shape)
    assert [call.in_min, call.in_max, call.in_mean, call.in_std, call.nan, call.inf] == [None] * 6
    assert call.inputs[0].why
    if kind == "sparse":
        assert call.in_memory_bytes == 3 * 4 + 2 * 3 * 8


def test_an_empty_tensor_has_no_statistics():
    model = Apply()
    record(model, torch.empty(0, 3))
    call = model.forward_stats[0]
    assert [call.in_min, call.in_max, call.in_mean, call.in_std, call.in_memory_bytes] == [None] * 4 + [0]
    assert call.nan is False


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_nested_and_quantized_tensors_are_read():
    parts = [torch.randn(2, 3), torch.randn(4, 3)]
    flat = torch.cat([part.flatten() for part in parts])
    for layout in (torch.strided, torch.jagged):
        model = Apply()
        record(model, torch.nested.nested_tensor(parts, layout=layout))
        assert model.forward_stats[0].in_max == pytest.approx(flat.max().item())
        assert model.forward_stats[0].in_std == pytest.approx(flat.std().item(), rel=1e-5)
    quantized = torch.quantize_per_tensor(torch.linspace(-1, 1, 50), 0.1, 0, torch.qint8)
    record(model, quantized)
    assert model.forward_stats[1].in_mean == pytest.approx(quantized.dequantize().mean().item(), abs=1e-7)


def test_values_are_those_at_the_time_of_the_call():
    x = torch.ones(5)
    model = nn.Sequential(Apply(), Apply(lambda value: value.mul_(3)), Apply())
    record(model, x)
    first, second, third = (layer.forward_stats[0] for layer in model)
    assert [first.in_max, first.out_max, second.in_max, second.out_max, third.in_max] == [1, 1, 1, 3, 3]
    assert (model.forward_stats[0].in_max, model.forward_stats[0].out_max) == (1, 3)


def test_values_in_inference_mode_are_those_at_the_time_of_the_call():
    model = nn.Sequential(Apply(torch.clone), Apply(lambda value: value.mul_(3)), Apply())
    with torch.inference_mode():
        record(model, torch.ones(5))
    assert [layer.forward_stats[0].in_max for layer in model] == [1, 1, 3]


def test_a_new_tensor_in_reused_memory_is_read_again():
    class Churn(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Apply()

        def forward(self, x):
            return [float(self.inner(x.new_full((1000,), float(i)))[0]) for i in range(50)]

    model = Churn()
    record(model, torch.zeros(1))
    assert [call.in_max for call in model.inner.forward_stats] == list(range(50))


def test_a_tensor_between_two_modules_is_read_once(monkeypatch):
    from assay.forward_stats import on_cpu

    seen = []
    original = on_cpu.values
    monkeypatch.setattr(on_cpu, "values", lambda tensor, count: seen.append(count) or original(tensor, count))
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Flatten(0), nn.Tanh())
    record(model, torch.randn(3, 4))
    assert seen == [12, 24, 24, 24]  # the output of Flatten is a view


Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Holder:
    logits: torch.Tensor
    rest: list


def test_every_tensor_is_found_with_its_path():
    a, b, c, d = (torch.full((2,), float(i)) for i in range(4))
    model = Apply(lambda *args, **kwargs: Holder(a, [{"x": b, 3: c}, Pair(1, d), "text"]))
    record(model, 5, [a, (b, Pair(c, None))], mask={"deep": d, "a key": a})
    call = model.forward_stats[0]
    paths = ["args[1][0]", "args[1][1][0]", "args[1][1][1].left", "kwargs.mask.deep", "kwargs.mask['a key']"]
    assert [tensor.path for tensor in call.inputs] == paths
    assert [tensor.max for tensor in call.inputs] == [0, 1, 2, 3, 0]
    assert [tensor.path for tensor in call.outputs] == [
        "out.logits",
        "out.rest[0].x",
        "out.rest[0][3]",
        "out.rest[1].right",
    ]
    assert (call.in_max, call.out_max) == (0, 0)


def test_the_fields_of_a_model_output_are_named():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, vocab_size=20
    )
    model = transformers.BertModel(config).eval()
    with torch.no_grad():
        record(model, input_ids=torch.arange(6)[None])
    call = model.forward_stats[-1]
    assert call.inputs[0].path == "kwargs.input_ids"
    assert {tensor.path for tensor in call.outputs} >= {"out.last_hidden_state", "out.pooler_output"}


def test_a_container_that_contains_itself_is_read():
    loop = [torch.ones(1)]
    loop.append(loop)
    model = Apply(lambda value: None)
    record(model, loop)
    assert model.forward_stats[0].inputs
    assert model.forward_stats[0].outputs == ()
    assert model.forward_stats[0].out_shape is None


def test_a_container_that_raises_does_not_break_the_call():
    class Hostile(dict):
        def items(self):
            raise RuntimeError("no")

    model = Apply(lambda value: 7)
    with assay.record_forward_stats(model):
        assert model(Hostile(a=torch.ones(1))) == 7
    assert model.forward_stats[0].inputs == ()


def test_a_generator_is_not_consumed():
    model = Apply(lambda n: (torch.ones(1) * i for i in range(n)))
    with assay.record_forward_stats(model):
        assert [int(value) for value in model(3)] == [0, 1, 2]
    assert len(model.forward_stats) == 1


# --- NaN and infinities


def test_the_first_module_that_produces_a_nan_is_reported():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(Apply(), Apply(lambda x: x / 0 * 0)), nn.Tanh())
    recording = record(model, torch.ones(1, 2))
    assert recording.first_nan.module_path == recording.first_nonfinite.module_path == "1.1"
    assert recording.first_inf is None
    assert [model[0].forward_stats[0].nan, model[1].forward_stats[0].nan, model[2].forward_stats[0].nan] == [
        False,
        True,
        True,
    ]
    assert model[2].forward_stats[0].produced_nan is False


def test_an_infinite_mask_is_not_blamed_on_the_module_that_receives_it():
    mask = torch.tensor([0.0, -math.inf])
    model = nn.Sequential(Apply(lambda x: x * 1), Apply(lambda x: x - x), Apply(lambda x: x + 1))
    recording = record(model, mask)
    assert recording.first_inf is None
    assert recording.first_nan.module_path == "1"


def test_nan_and_infinity_together():
    model = Apply()
    record(model, torch.tensor([math.nan, math.inf, 1.0]))
    call = model.forward_stats[0]
    assert (call.nan, call.inf) == (True, True)
    assert math.isnan(call.in_min)
    assert math.isnan(call.in_std)
    assert record(Apply(), torch.ones(2)).first_nonfinite is None


# --- the state of the model afterwards


def state(model):
    return [
        {key: (id(value), dict(value) if isinstance(value, dict) else None) for key, value in module.__dict__.items()}
        for module in model.modules()
    ]


def test_the_model_is_left_as_it_was():
    model = small()
    before, call, keys = state(model), nn.Module.__call__, list(model.state_dict())
    record(model, torch.randn(2, 4))
    assert nn.Module.__call__ is call
    assert list(model.state_dict()) == keys
    assay.clear_forward_stats(model)
    assert state(model) == before


class Stop(BaseException):
    pass


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, Stop])
@pytest.mark.parametrize("where", ["forward", "hook", "body"])
def test_everything_is_restored_after_an_error(error, where):
    def fail(*_):
        raise error

    model, call = nn.Sequential(Apply(), Apply()), nn.Module.__call__
    if where == "forward":
        model[1].function = fail
    elif where == "hook":
        model[1].register_forward_hook(fail)
    before = state(model)

    def body():
        with assay.record_forward_stats(model):
            model(torch.ones(2))
            fail()

    with pytest.raises(error):
        body()
    assert nn.Module.__call__ is call
    assert len(model[0].forward_stats) == 1
    if where != "body":
        assert model[1].forward_stats[0].error == model.forward_stats[0].error == error.__name__
        assert model[1].forward_stats[0].out_shape is None
    assay.clear_forward_stats(model)
    assert state(model) == before
    model[1].function = lambda x: x
    model[1]._forward_hooks.clear()
    record(model, torch.ones(2))
    assert model.forward_stats[-1].outermost
    assert not model[1].forward_stats[-1].outermost


def test_an_uncalled_module_gets_no_list_and_a_lazy_one_is_recorded():
    class Lazy(nn.Module):
        def __init__(self):
            super().__init__()
            self.unused = nn.Linear(1, 1)

        def forward(self, x):
            if "late" not in self._modules:
                self.late = nn.Sequential(nn.Linear(2, 2))
            stranger = nn.Linear(2, 2)
            return stranger(self.late(x))

    model = Lazy()
    record(model, torch.ones(1, 2))
    assert "forward_stats" not in model.unused.__dict__
    assert model.late.forward_stats[0].module_path == "late"
    assert model.late[0].forward_stats[0].module_path == "late.0"
    assert model.forward_stats[0].calls_inside == 2


def test_copies_and_files_do_not_share_records():
    model, x = small(), torch.randn(2, 4)
    record(model, x)
    twin = copy.deepcopy(model)
    record(twin, x)
    assert (len(model[0].forward_stats), len(twin[0].forward_stats)) == (1, 2)
    file = io.BytesIO()
    torch.save(model, file)
    assert b"assay" not in file.getvalue()
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert loaded[0].forward_stats == []
    record(loaded, x)
    assert len(loaded[0].forward_stats) == 1
    assay.clear_forward_stats(loaded)
    assert "forward_stats" not in loaded[0].__dict__


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_recorded_model_can_be_scripted_traced_and_copied_while_recording():
    model, x = small().eval(), torch.randn(2, 4)
    record(model, x)
    scripted = torch.jit.script(model)
    record(scripted, x)
    assert scripted.__dict__["forward_stats"][0].out_mean == pytest.approx(model.forward_stats[0].out_mean)
    assert torch.equal(torch.fx.symbolic_trace(model)(x), model(x))
    with assay.record_forward_stats(model):
        twin = copy.deepcopy(model)
        twin(x)
    assert len(twin.forward_stats) == 1


def test_an_existing_attribute_is_an_error_before_anything_changes():
    class Taken(nn.Module):
        forward_stats = "mine"

    model = nn.Sequential(nn.Tanh(), Taken())
    before, call = state(model), nn.Module.__call__
    with (
        pytest.raises(UsageError, match="1 already has an attribute `forward_stats`"),
        assay.record_forward_stats(model),
    ):
        pass
    assert state(model) == before
    assert nn.Module.__call__ is call


def test_keep_limits_the_list():
    model = nn.Tanh()
    with assay.record_forward_stats(model, keep=3):
        for i in range(10):
            model(torch.full((1,), float(i)))
    assert [call.in_max for call in model.forward_stats] == [7, 8, 9]
    for bad in (0, -1, True, 1.5):
        with pytest.raises(UsageError, match="invalid keep"):
            assay.record_forward_stats(model, keep=bad)


def test_recording_without_values():
    model = small()
    with assay.record_torch_module_forward_stats(model, values=False):
        model(torch.full((2, 4), math.nan))
    call = model.forward_stats[0]
    assert call.in_shape == (2, 4)
    assert [call.in_min, call.out_std, call.nan] == [None] * 3
    assert call.inputs[0].why == "recorded with values=False"
    assert call.time_s > 0


def test_objects_without_modules_and_a_second_use_are_errors():
    with pytest.raises(UsageError, match="contains no modules"):
        assay.record_forward_stats({"a": 1})
    recording = assay.record_forward_stats(small())
    with recording:
        pass
    with pytest.raises(UsageError, match="used only once"):
        recording.__enter__()


# --- ways of running a model


def test_all_calls_of_a_shared_module_are_in_one_list():
    shared = nn.Linear(4, 4)
    model = nn.Sequential(shared, nn.Tanh(), shared)
    record(model, torch.randn(1, 4))
    assert len(shared.forward_stats) == 2
    assert {call.module_path for call in shared.forward_stats} == {"0"}


def test_recursive_calls_are_recorded_and_marked():
    class Recursive(nn.Module):
        def forward(self, x, n):
            return self(x, n - 1) + 1 if n else x

    model = Recursive()
    record(model, torch.zeros(1), 3)
    assert [call.out_max for call in model.forward_stats] == [0, 1, 2, 3]
    assert [call.recursive for call in model.forward_stats] == [True, True, True, False]


def test_nested_recordings_record_a_call_once():
    model, x = small(), torch.randn(1, 4)
    with assay.record_forward_stats(model):
        with assay.record_forward_stats(model[0], values=False):
            model(x)
        model(x)
    assert len(model.forward_stats) == len(model[0].forward_stats) == 2
    assert [call.in_min is None for call in model[0].forward_stats] == [True, False]
    assert [call.module_path for call in model[0].forward_stats] == ["", "0"]
    assert [call.outermost for call in model[0].forward_stats] == [False, False]


def test_recordings_may_end_in_any_order():
    model, call = nn.Tanh(), nn.Module.__call__
    first, second = assay.record_forward_stats(model), assay.record_forward_stats(model)
    first.__enter__()
    second.__enter__()
    first.__exit__()
    model(torch.ones(1))
    second.__exit__()
    model(torch.ones(1))
    assert len(model.forward_stats) == 1
    assert nn.Module.__call__ is call


def test_objects_that_contain_modules():
    class Pipeline:
        def __init__(self):
            self.unet = nn.Sequential(nn.Tanh())
            self.parts = {"vae": nn.ReLU(), "more": [nn.Sigmoid()]}
            self.itself = self

        @property
        def trap(self):
            raise AssertionError("a property ran")

    pipe = Pipeline()
    with assay.record_forward_stats(pipe):
        pipe.parts["more"][0](pipe.parts["vae"](pipe.unet(torch.ones(1))))
    paths = [module.forward_stats[0].module_path for module in (pipe.unet, pipe.unet[0], *pipe.parts["more"])]
    assert paths == ["unet", "unet.0", "parts.more.0"]
    assay.clear_forward_stats(pipe)
    assert "forward_stats" not in pipe.unet.__dict__


def test_replicas_in_threads_record_on_the_original():
    model = small()
    with assay.record_forward_stats(model):
        replicas = [model._replicate_for_data_parallel() for _ in range(4)]
        for replica in replicas:
            replica._modules = model._modules
        threads = [threading.Thread(target=replica, args=(torch.randn(2, 4),)) for replica in replicas]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(model.forward_stats) == len(model[0].forward_stats) == 4
    assert all(call.outermost for call in model.forward_stats)


def test_a_dispatch_mode_does_not_see_the_statistics():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            Counting.seen += 1
            return func(*args, **(kwargs or {}))

    model, x = small(), torch.randn(2, 4)
    with torch.no_grad(), Counting():
        model(x)
    bare, Counting.seen = Counting.seen, 0
    with torch.no_grad(), Counting(), torch.device("cpu"):
        record(model, x)
    assert Counting.seen == bare
    assert model.forward_stats[0].in_min == x.min().item()


def test_autocast_vmap_and_gradients():
    model, x = small(), torch.randn(3, 4, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        record(model, x)
    assert model[0].forward_stats[0].out_dtype is torch.bfloat16
    with assay.record_forward_stats(model):
        model(x).sum().backward()
    plain = x.grad.clone()
    x.grad = None
    model.zero_grad()
    model(x).sum().backward()
    assert torch.equal(x.grad, plain)
    record(model, x)
    assert [call.in_has_grad for call in model.forward_stats] == [False, False, True]
    each = nn.Sequential(nn.Linear(4, 2))
    with assay.record_forward_stats(each):
        torch.func.vmap(each)(x)
    assert each.forward_stats[0].inputs[0].why


def test_recording_does_not_change_random_numbers():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    x = torch.randn(8, 4)
    torch.manual_seed(3)
    bare = model(x)
    torch.manual_seed(3)
    with assay.record_forward_stats(model):
        assert torch.equal(model(x), bare)


def test_a_compiled_model_is_one_call():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.randn(2, 4)
    compiled = torch.compile(model, backend="eager")
    with assay.record_forward_stats(compiled):
        out = compiled(x)
    assert torch.equal(out, model(x))
    assert len(compiled.forward_stats) == 1
    assert compiled.forward_stats[0].out_max == pytest.approx(out.max().item())
