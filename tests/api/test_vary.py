"""Scaling formulas of real models: closed forms, and comparison with fresh captures at other sizes."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

import assay
from assay.analysis.memory import memory_of
from assay.api.options import RunOptions
from assay.api.vary import scaling_formulas, vary
from assay.cli.cost_vary import cost_vary
from assay.cli.options import Output
from assay.cli.stderr import Messages
from assay.errors import UsageError
from assay.sources.inputs import find_inputs
from assay.sources.open import open_source
from assay.sources.resizing import axes, resized
from assay.views.json.files import encode
from assay.views.json.laws import laws_file
from assay.views.layout import as_text
from assay.views.text.laws import law_table

transformers = pytest.importorskip("transformers")

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}


def llama(**options):
    config = {**SMALL, "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 256, **options}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**config)).eval()


def gpt2():
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128, "vocab_size": 300}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)).eval()


def bert():
    config = transformers.BertConfig(**SMALL, vocab_size=300, max_position_embeddings=128)
    return transformers.BertModel(config).eval()


def t5():
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 2000}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes)).eval()


def vit():
    return transformers.ViTModel(transformers.ViTConfig(**SMALL, image_size=32, patch_size=8)).eval()


def ids(batch, seq, *names):
    return {name: torch.arange(batch * seq).reshape(batch, seq) % 300 for name in names or ("input_ids",)}


def figures(document):
    """The costs of one capture, by name."""
    totals = document.cost.forward
    columns = ("macs", "matrix_flops", "needed_flops", "pointwise_flops", "ops")
    traffic = ("read_parameters", "read_activations", "written")
    return {
        **{name: getattr(totals, name) for name in (*columns, *traffic)},
        "peak_activations": memory_of(document).inference.moving.value,
        **({"cache": document.run.cache.bytes} if document.run.cache else {}),
    }


def assert_exact(laws, model, make, points):
    for point in points:
        shown = figures(assay.observe(model, ((), make(**point)), mode="meta"))
        assert set(laws) == set(shown)
        predicted = laws.at(**point)
        assert {name: value for name, value in predicted.items() if value is not None} == {
            name: shown[name] for name, value in predicted.items() if value is not None
        }
        assert predicted["macs"] == shown["macs"]


LANGUAGE = {"llama": (llama, ("input_ids",)), "gpt2": (gpt2, ("input_ids",)), "bert": (bert, ("input_ids",))}
LANGUAGE["t5"] = (t5, ("input_ids", "decoder_input_ids"))


@pytest.mark.parametrize("name", LANGUAGE)
def test_formulas_of_language_models_agree_with_fresh_captures(name):
    build, names = LANGUAGE[name]
    model = build()
    laws = vary(model)
    assert laws.refused == {}
    assert laws.mode == "meta"
    assert max(point["seq"] for point in laws.points) <= laws.limits.get("seq", 4096)
    points = [{"batch": 5, "seq": 13}, {"batch": 1, "seq": 100}, {"batch": 33, "seq": 77}, {"batch": 3, "seq": 1}]
    assert not any(point in laws.points for point in points)
    assert_exact(laws, model, lambda batch, seq: ids(batch, seq, *names), points)
    # Every formula holds from 8 positions on; only a single position is a special case.
    assert None not in laws.at(batch=5, seq=13).values()


def test_reads_of_a_small_embedding_are_limited_by_its_size():
    model = llama()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    laws = vary(model)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    parts = laws["read_parameters"].parts
    assert [part.how for part in parts] == ["only", "min"]
    assert str(parts[1]) == "min(128·batch·seq, 38,400)"
    at_limit, above = laws["read_parameters"](batch=2, seq=150), laws["read_parameters"](batch=2, seq=151)
    assert at_limit == above == laws["read_parameters"](batch=64, seq=256)


@pytest.mark.parametrize("rows", [50, 200, 5000])
def test_embeddings_of_any_size_get_a_formula(rows):
    model = nn.Embedding(rows, 4)
    law = vary(model, torch.zeros(2, 128, dtype=torch.long))["read_parameters"]
    for batch, seq in ((1, 1), (3, 21), (1, 199), (9, 256)):
        ids = torch.zeros(batch, seq, dtype=torch.long)
        assert law(batch=batch, seq=seq) == assay.observe(model, ids).cost.forward.read_parameters


def test_a_vision_model_by_its_batch():
    model = vit()
    laws = vary(model, over=("batch",))
    shown = figures(assay.observe(model, torch.randn(11, 3, 32, 32), mode="meta"))
    assert laws.at(batch=11) == shown


def test_a_linear_layer_in_closed_form():
    laws = vary(nn.Linear(24, 40), torch.randn(3, 8, 24))
    assert str(laws["macs"]) == "960·batch·seq"
    assert str(laws["matrix_flops"]) == "1,920·batch·seq"
    assert str(laws["pointwise_flops"]) == "40·batch·seq"
    assert str(laws["read_parameters"]) == str(4 * 40 * 25).replace("4000", "4,000")
    assert str(laws["read_activations"]) == "96·batch·seq"
    assert str(laws["written"]) == "160·batch·seq"
    assert str(laws["peak_activations"]) == "160·batch·seq"
    assert str(laws["ops"]) == "1"


class Attention(nn.Module):
    def forward(self, x):
        heads = x.unflatten(-1, (4, 8)).transpose(1, 2)
        return nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)


def test_causal_attention_in_closed_form():
    laws = vary(Attention(), torch.randn(2, 16, 32))
    assert str(laws["macs"]) == "64·batch·seq²"
    assert str(laws["needed_flops"]) == "64·batch·seq² + 64·batch·seq"


def test_a_convolution_in_its_height_and_width():
    laws = vary(nn.Conv2d(3, 8, 5, padding=2), torch.randn(2, 3, 32, 16), over=("batch", "height", "width"))
    assert str(laws["macs"]) == f"{8 * 3 * 25}·batch·height·width"
    assert laws.base == {"batch": 2, "height": 32, "width": 16}


def test_the_formula_of_a_stride_holds_only_for_its_multiples():
    model = nn.Conv2d(3, 8, 3, stride=2, padding=1)
    laws = vary(model, torch.randn(1, 3, 32, 32), over=("height",))
    law = laws["macs"]
    assert law.condition == "height a multiple of 2"
    assert law(height=33) is None
    shown = assay.observe(model, torch.randn(1, 3, 50, 32)).cost.forward.macs
    assert law(height=50) == shown


class Sorted(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return torch.sort(self.linear(x), dim=1).values


def test_n_log_n_gets_no_formula_and_the_rest_keep_theirs():
    laws = vary(Sorted(), torch.randn(2, 16, 8))
    assert str(laws["macs"]) == "64·batch·seq"
    assert laws["pointwise_flops"] is None
    assert laws.refused == {"pointwise_flops": "not a polynomial of degree ≤ 3: torch.sort"}
    assert laws.at(batch=2, seq=9)["pointwise_flops"] is None


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(60, 8)
        self.cell = nn.LSTMCell(8, 8)

    def forward(self, ids):
        state = None
        for step in self.table(ids).unbind(1):
            state = self.cell(step, state)
        return state[0]


def test_a_loop_over_positions_grows_with_their_number():
    model = Steps()
    laws = vary(model, torch.zeros(2, 8, dtype=torch.long))
    assert laws["ops"](batch=1, seq=20) - laws["ops"](batch=1, seq=10) == 10
    for batch, seq in ((3, 11), (2, 90)):
        shown = figures(assay.observe(model, torch.zeros(batch, seq, dtype=torch.long)))
        assert laws["macs"](batch=batch, seq=seq) == shown["macs"]
        assert laws["read_parameters"](batch=batch, seq=seq) == shown["read_parameters"]
    # Other lengths run other ops, so the peak is unknown beyond the sizes that were compared.
    peak = laws["peak_activations"]
    assert peak is None or peak(batch=1, seq=100_000) is None


class Twofold(nn.Module):
    """Few positions are dominated by a wide layer, many by the pairs between them."""

    def __init__(self):
        super().__init__()
        self.wide = nn.Linear(4, 512)

    def forward(self, x):
        return self.wide(x).sum() + (x @ x.transpose(1, 2)).sum()


def test_a_peak_that_moves_is_the_maximum_of_two_formulas():
    model = Twofold()
    laws = vary(model, torch.randn(1, 16, 4))
    assert [part.how for part in laws["peak_activations"].parts] == ["max"]
    for batch, seq in ((1, 40), (3, 511), (2, 513), (1, 3000)):
        document = assay.observe(model, torch.empty(batch, seq, 4, device="meta"), mode="meta")
        assert laws["peak_activations"](batch=batch, seq=seq) == memory_of(document).inference.moving.value


class NeedsData(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        if x.data_ptr() == 0:
            raise RuntimeError("no data")
        return self.linear(x)


def test_a_model_that_needs_data_is_run_with_data():
    laws = vary(NeedsData(), torch.randn(2, 8, 4))
    assert laws.mode == "real"
    assert str(laws["macs"]) == "16·batch·seq"


def test_given_points_are_used():
    chosen = {"batch": (2, 4, 5), "seq": (8, 12, 16, 40)}
    laws = vary(nn.Linear(8, 8), torch.randn(2, 8, 8), points=chosen)
    assert {point["seq"] for point in laws.points} == set(chosen["seq"])
    assert {point["batch"] for point in laws.points} == set(chosen["batch"])
    assert str(laws["macs"]) == "64·batch·seq"
    with pytest.raises(UsageError, match="points were given for height"):
        vary(nn.Linear(8, 8), torch.randn(2, 8, 8), points={"height": (1, 2)})


def test_a_training_step_has_its_own_formulas():
    laws = vary(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), torch.randn(4, 8), over=("batch",),
                backward=True)  # fmt: skip
    # The gradient of each weight costs as much as the forward pass; the first layer's input needs no gradient.
    assert str(laws["macs"]) == "192·batch"
    assert str(laws["backward_macs"]) == f"{192 + 64}·batch"
    assert laws["training_peak_activations"] is not None


def inputs(*args, **kwargs):
    return find_inputs((args, kwargs), assay.open(nn.Linear(1, 1)))


def test_all_dimensions_of_the_same_length_are_resized():
    given = inputs(
        input_ids=torch.arange(12).reshape(2, 6),
        attention_mask=torch.ones(2, 1, 6, 6, dtype=torch.bool),
        position_ids=torch.arange(6),
        decoder_input_ids=torch.zeros(2, 3, dtype=torch.long),
        pixels=torch.zeros(2, 3, 8, 8),
        scale=torch.tensor(2.0),
    )
    changed = resized(given, batch=3, seq=8).kwargs
    shapes = {name: tuple(value.shape) for name, value in changed.items()}
    assert shapes == {
        "input_ids": (3, 8),
        "attention_mask": (3, 1, 8, 8),
        "position_ids": (8,),
        "decoder_input_ids": (3, 8),
        "pixels": (3, 3, 8, 8),
        "scale": (),
    }
    assert changed["input_ids"][2].tolist() == [0, 1, 2, 3, 4, 5, 0, 1]


@pytest.mark.parametrize(
    ("shape", "name", "expected"),
    [
        ((1, 8, 3, 16, 16), "frames", (1, 5, 3, 16, 16)),
        ((1, 3, 8, 16, 16), "frames", (1, 3, 5, 16, 16)),
        ((1, 80, 300), "frames", (1, 80, 5)),
        ((1, 16000), "frames", (1, 5)),
        ((1, 3, 32, 16), "height", (1, 3, 5, 16)),
        ((1, 3, 32, 16), "width", (1, 3, 32, 5)),
        ((4, 7, 3), "seq", (4, 5, 3)),
    ],
)
def test_dimensions_by_name(shape, name, expected):
    assert tuple(resized(inputs(torch.zeros(shape)), **{name: 5}).args[0].shape) == expected


@pytest.mark.parametrize(
    ("shapes", "names", "message"),
    [
        ([(1, 3, 8, 8)], ["depth"], r"cannot vary 'depth': expected batch.*args\[0\] 1x3x8x8"),
        ([(1, 3, 8, 8)], ["seq"], r"cannot vary seq: no input is a sequence .*1x3x8x8"),
        ([(2, 6, 4), (2, 6, 6, 3)], ["seq"], "seq is ambiguous"),
        ([(1, 8, 8, 16, 16)], ["frames"], "frames are ambiguous"),
        ([(1, 8)], ["seq", "frames"], "same dimension"),
        ([(1, 8)], ["seq", "seq"], "at most once"),
        ([()], ["batch"], "cannot vary batch"),
    ],
)
def test_an_ambiguous_or_missing_dimension_is_refused_with_the_shapes(shapes, names, message):
    with pytest.raises(UsageError, match=message):
        axes(inputs(*map(torch.zeros, shapes)), names)


def test_a_fixed_dimension_is_refused_with_the_models_error():
    with pytest.raises(UsageError, match=r"seq cannot be varied: the model fails at batch=1, seq=56"):
        vary(nn.Linear(8, 4), torch.randn(5, 8))


def test_the_table_and_the_file_agree():
    laws = vary(Sorted(), torch.randn(2, 16, 8))
    point = {"batch": 8, "seq": 4096}
    table = as_text(law_table(laws, [point]))
    assert "64·batch·seq" in table
    assert f"{64 * 8 * 4096:,}" in table
    file = json.loads(encode(laws_file(laws, [point])))
    entries = {entry["quantity"]: entry for entry in file["laws"]}
    assert entries["macs"]["parts"] == [
        {"how": "only", "of": [[{"coefficient": 64, "powers": point | {"batch": 1, "seq": 1}}]]}
    ]
    assert entries["macs"]["values"] == [{"at": point, "value": 64 * 8 * 4096, "compared": False}]
    assert entries["pointwise_flops"]["law"] is None
    assert "torch.sort" in entries["pointwise_flops"]["refused"]


MODEL = """
import torch

def load_model():
    print("loading")
    return torch.nn.Linear(8, 4)

def get_inputs():
    return torch.zeros(2, 16, 8)
"""


@pytest.fixture
def command(tmp_path, capsys):
    """A function that runs the command on the file of a small model."""
    path = tmp_path / "net.py"
    path.write_text(MODEL)
    inputs = f"{path}::get_inputs"

    def call(format, at=(), vary="batch,seq", **options):
        output = Output(format, options.get("output"), False, "never", options.get("save"))
        code = cost_vary(Messages(), f"{path}::load_model", inputs, RunOptions(), output, vary=vary, at=at)
        return code, *capsys.readouterr()

    return call


def test_the_command_prints_formulas_and_values(command):
    code, out, err = command("csv", ["batch=3,seq=5"])
    assert code == 0
    assert out.splitlines()[0] == 'quantity,law,"batch=3, seq=5",holds'
    assert "MACs,32·batch·seq,480,all tested sizes" in out
    assert "seq is dim 1 of args[0]" in err
    assert "loading" in err


def test_the_command_warns_about_sizes_beyond_those_compared(command):
    _, out, err = command("json", ["batch=3,seq=500000"])
    assert json.loads(out)["laws"][0]["values"][0]["value"] == 32 * 3 * 500000
    assert "batch=3, seq=500000 is outside the sizes checked" in err


@pytest.mark.parametrize("at", ["batch=3", "batch=3,seq=x", "batch=3,seq=0", "batch=3,seq=4,seq=5", "nonsense"])
def test_an_invalid_point_is_refused_before_any_work(command, at):
    with pytest.raises(UsageError, match="expected batch=N,seq=N"):
        command("table", [at])


def test_saving_several_captures_is_refused(command, tmp_path):
    with pytest.raises(UsageError, match="--vary cannot be combined with --save"):
        command("table", save=tmp_path / "d.assay.json")


def test_every_recorded_size_is_reported():
    seen = []
    laws = scaling_formulas(
        open_source(nn.Linear(4, 4)), torch.ones(2, 4), RunOptions(), ["batch"], None, seen.append
    )
    recorded = [each.stage for each in seen if each.unit == "pass"]
    assert len(recorded) >= len(laws.points)
    assert {f"recording at batch={point['batch']}" for point in laws.points} <= set(recorded)
