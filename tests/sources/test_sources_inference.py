"""Inferred inputs: the model must run on them, wherever they come from."""

from __future__ import annotations

import copy
import random

import pytest
import torch
from opening import open_model
from torch import nn
from versions import require

from assay.errors import InputsError
from assay.sources.inputs import find_inputs


def inferred(module, **options):
    inputs = find_inputs(None, open_model(module), **options)
    assert inputs.how.startswith("inferred: ")
    assert "\n" not in inputs.how
    return inputs


def shapes(module):
    """The shapes of the inferred inputs, after checking that the module runs on them."""
    inputs = inferred(module)
    module.eval()(*inputs.args, **inputs.kwargs)
    return [tuple(tensor.shape) for tensor in (*inputs.args, *inputs.kwargs.values())]


def convolutional(channels, side, kernel=3):
    """A classifier whose last layer accepts only images of `side` × `side` pixels."""
    left = ((side - kernel + 1) // 2) ** 2 * 8
    return nn.Sequential(
        nn.Conv2d(channels, 8, kernel), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(left, 10)
    )


class Named(nn.Module):
    def __init__(self, forward, **layers):
        super().__init__()
        self._forward = forward
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x):
        return self._forward(self, x)


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (nn.Conv2d(3, 4, 3), [(1, 3, 224, 224)]),
        (nn.Conv1d(5, 4, 3), [(1, 5, 1024)]),
        (nn.Conv3d(2, 4, 3), [(1, 2, 16, 112, 112)]),
        (nn.ConvTranspose2d(100, 4, 3), [(1, 100, 1, 1)]),
        (nn.Linear(7, 2), [(1, 7)]),
        (nn.Embedding(50, 4), [(1, 128)]),
        (nn.LSTM(6, 4), [(16, 1, 6)]),
        (nn.LSTM(6, 4, batch_first=True), [(1, 16, 6)]),
        (nn.GRU(6, 4, batch_first=True), [(1, 16, 6)]),
        (nn.RNN(6, 4), [(16, 1, 6)]),
        (nn.GRUCell(6, 4), [(1, 6)]),
        (nn.BatchNorm2d(6), [(1, 6, 64, 64)]),
        (nn.LayerNorm((4, 5)), [(1, 16, 4, 5)]),
        (nn.Bilinear(4, 4, 2), [(1, 4), (1, 4)]),
        (nn.MultiheadAttention(8, 2, batch_first=True), [(1, 16, 8)] * 3),
        (nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8), 1, enable_nested_tensor=False), [(16, 1, 8)]),
        (nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), [(1, 16, 8)]),
        (nn.Transformer(8, 2, 1, 1, 8, batch_first=True), [(1, 16, 8)] * 2),
        (nn.Sequential(nn.Dropout(), nn.ReLU(), nn.Linear(9, 2)), [(1, 9)]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_the_first_layer_that_takes_data_determines_the_shape(module, expected):
    assert shapes(module) == expected


@pytest.mark.parametrize(("channels", "side"), [(1, 28), (3, 32), (3, 64), (3, 224), (4, 84), (3, 50)])
def test_the_image_size_that_a_classifier_requires_is_found(channels, side):
    assert shapes(convolutional(channels, side)) == [(1, channels, side, side)]


def test_the_description_names_the_layer():
    model = nn.Sequential()
    model.conv1 = nn.Conv2d(3, 4, 3)
    assert inferred(model).how == "inferred: 1x3x224x224:float32 from the first convolution 'conv1'"
    assert inferred(nn.Linear(3, 4)).how == "inferred: 1x3:float32 from the model, which is a linear layer"


def test_layers_registered_in_another_order_are_found_by_trial():
    def forward(self, x):
        return self.head(self.stem(x).mean((2, 3)))

    assert shapes(Named(forward, head=nn.Linear(8, 2), stem=nn.Conv2d(3, 8, 3))) == [(1, 3, 224, 224)]


def test_ids_are_valid_for_the_embedding_and_its_learned_positions():
    def forward(self, x):
        return self.tokens(x) + self.pos_emb(torch.arange(x.shape[1]))

    module = Named(forward, tokens=nn.Embedding(11, 4), pos_emb=nn.Embedding(20, 4))
    inputs = inferred(module)
    module(*inputs.args)
    assert inputs.args[0].shape == (1, 16)
    assert inputs.args[0].max() < 11


def test_the_length_that_a_position_table_requires_is_found():
    def forward(self, x):
        return self.tokens(x) + self.table

    module = Named(forward, tokens=nn.Embedding(11, 4), table=nn.Parameter(torch.zeros(1, 40, 4)))
    assert shapes(module) == [(1, 40)]


class TwoTexts(nn.Module):
    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Embedding(100, 4), nn.Embedding(7, 4)

    def forward(self, input_ids, decoder_input_ids, *, attention_mask):
        return self.source(input_ids).sum() + self.target(decoder_input_ids).sum() * attention_mask.sum()


def test_parameter_names_determine_the_inputs():
    inputs = inferred(TwoTexts())
    TwoTexts()(*inputs.args, **inputs.kwargs)
    assert inputs.kwargs["attention_mask"].unique().tolist() == [1]


class Diffusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3)
        self.time = nn.Embedding(1000, 4)

    def forward(self, x, t, scale=1.0):
        return self.conv(x) + self.time(t)[:, :, None, None]


def test_a_timestep_is_one_integer():
    assert shapes(Diffusion()) == [(1, 4, 224, 224), (1,)]


class NoLayers(nn.Module):
    def forward(self, pixel_values):
        return pixel_values * 2


class Nothing(nn.Module):
    def forward(self):
        return torch.ones(1)


class Unknown(nn.Module):
    def forward(self, query, weird):
        return query + weird


def test_parameter_names_can_be_enough():
    assert shapes(NoLayers()) == [(1, 3, 224, 224)]


def test_a_model_without_parameters_gets_no_inputs():
    assert inferred(Nothing()).args == ()


def test_if_inference_fails_the_error_explains_how_to_give_inputs():
    with pytest.raises(InputsError, match=r"Unknown cannot be inferred: give the inputs as file.py::function"):
        find_inputs(None, open_model(Unknown()))


class WithExample(nn.Module):
    example_input_array = torch.ones(3, 4)

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(x)


class WithProperty(WithExample):
    example_input_array = None

    @property
    def dummy_inputs(self):
        return {"x": torch.ones(5, 4)}


class WithBrokenProperty(WithExample):
    @property
    def example_input_array(self):
        raise RuntimeError("not yet")


def test_the_models_own_example_comes_first():
    assert shapes(WithExample()) == [(3, 4)]
    assert inferred(WithExample()).how == "inferred: 3x4:float32 from example_input_array"
    assert list(inferred(WithProperty()).kwargs) == ["x"]


def test_an_example_that_raises_is_ignored():
    assert shapes(WithBrokenProperty()) == [(1, 4)]


def test_the_input_size_in_the_settings_is_used():
    module = nn.Conv2d(3, 4, 3)
    module.pretrained_cfg = {"input_size": (3, 99, 77)}
    assert shapes(module) == [(1, 3, 99, 77)]


def test_floats_have_the_models_dtype():
    assert inferred(nn.Linear(4, 2, dtype=torch.bfloat16)).args[0].dtype is torch.bfloat16
    assert inferred(nn.Linear(4, 2), dtype="f16").args[0].dtype is torch.float16


def test_a_traced_graph_has_the_input_sizes():
    traced = torch.jit.trace(nn.Conv2d(3, 4, 3), torch.ones(2, 3, 11, 11))
    assert shapes(traced) == [(2, 3, 11, 11)]


@pytest.mark.parametrize("make", [torch.jit.script, lambda module: torch.jit.trace(module, torch.ones(1, 1, 28, 28))])
def test_the_inputs_of_a_saved_script_are_inferred_from_its_layers(tmp_path, make):
    if make is not torch.jit.script:
        require("torch", "2.6", "traced convolutions on the meta device")
    make(convolutional(1, 28)).save(tmp_path / "m.pt")
    opened = open_model(tmp_path / "m.pt", trust=True)
    inputs = find_inputs(None, opened)
    assert opened.module(*inputs.args).shape == (1, 10)


def test_an_exported_graph_has_the_input_sizes():
    module = torch.export.export(nn.Linear(4, 2), (torch.ones(6, 4),)).module()
    inputs = inferred(module)
    assert module(*inputs.args).shape == (6, 2)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.head = nn.Linear(4 * 30 * 30, 2)
        self.calls = []

    def forward(self, x):
        self.calls.append(1)
        print("running")  # noqa: T201
        random.random()
        return self.head(self.norm(self.conv(torch.nn.functional.dropout(x))).flatten(1))


def test_a_trial_does_not_change_the_model_or_the_random_state(capsys):
    module = Counting().train()
    before = copy.deepcopy(module.state_dict())
    states = torch.random.get_rng_state(), random.getstate()
    assert inferred(module).args[0].shape == (1, 3, 32, 32)
    assert module.calls == []
    assert module.training
    assert torch.equal(states[0], torch.random.get_rng_state())
    assert states[1] == random.getstate()
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert capsys.readouterr().out == ""


class Uncopyable(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def __deepcopy__(self, memo):
        raise RuntimeError("one of a kind")

    def forward(self, x):
        return self.conv(x)


def test_a_model_that_cannot_be_copied_gets_the_likeliest_inputs():
    assert shapes(Uncopyable()) == [(1, 3, 224, 224)]
