"""Folders with a config.json: which class is built, without weights, and which code runs."""

from __future__ import annotations

import json
import sys

import pytest
import torch
import transformers
from opening import open_model

from assay.errors import ReadError, TrustError, UserCodeError

TINY = {
    "model_type": "bert",
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "vocab_size": 50,
}


@pytest.fixture
def folder(tmp_path):
    def write(**fields):
        (tmp_path / "config.json").write_text(json.dumps({**TINY, **fields}))
        return tmp_path

    return write


def test_the_architecture_chooses_the_class(folder):
    opened = open_model(folder(architectures=["BertForMaskedLM"]))
    assert type(opened.module) is transformers.BertForMaskedLM
    assert opened.model.on_meta
    assert not opened.module.training
    assert all(parameter.is_meta for parameter in opened.module.parameters())
    assert opened.model.config.hidden_size == 16
    assert opened.origin.kind == "config"


def test_without_an_architecture_the_plain_model_is_built(folder):
    assert type(open_model(str(folder())).module) is transformers.BertModel


def test_the_config_file_itself_can_be_given(folder):
    path = folder() / "config.json"
    assert type(open_model(path).module) is transformers.BertModel
    assert type(open_model(path.rename(path.with_name("other.json"))).module) is transformers.BertModel


def test_an_architecture_without_a_model_type_is_enough(folder):
    path = folder(architectures=["BertForMaskedLM"], model_type=None)
    assert type(open_model(path).module) is transformers.BertForMaskedLM


def test_the_dtype_of_the_config_is_kept(folder):
    module = open_model(folder(dtype="bfloat16")).module
    assert next(module.parameters()).dtype is torch.bfloat16


def test_the_default_device_does_not_change(folder):
    open_model(folder())
    assert torch.ones(1).device.type == "cpu"


def test_the_config_of_a_live_transformers_model_is_used(folder):
    opened = open_model(transformers.BertModel(transformers.BertConfig(**TINY)))
    assert opened.model.config.vocab_size == 50
    assert opened.model.on_meta is False


def test_a_folder_without_a_config_is_an_error(tmp_path):
    with pytest.raises(ReadError, match=r"a directory without a model: expected config.json"):
        open_model(tmp_path)


@pytest.mark.parametrize("fields", [{"model_type": "unknown_type"}, {"model_type": None}, {"model_type": ["bert"]}])
def test_an_unknown_model_type_is_an_error(folder, fields):
    with pytest.raises(ReadError, match="not a config that transformers"):
        open_model(folder(architectures=["UnknownModel"], **fields))


@pytest.mark.parametrize("fields", [{"architectures": 5}, {"architectures": ["Own"], "auto_map": ["own.Own"]}])
@pytest.mark.parametrize("trust", [False, True])
def test_fields_of_the_wrong_type_are_an_error(folder, fields, trust):
    with pytest.raises(ReadError, match=r"is damaged: (architectures|auto_map) must be"):
        open_model(folder(**fields), trust=trust).model  # noqa: B018


def test_a_model_that_cannot_be_built_is_an_error(folder):
    with pytest.raises(UserCodeError, match=r"building .* with transformers"):
        open_model(folder(num_attention_heads=3))


@pytest.mark.parametrize("content", ["[]", "3", '"text"', "{"])
def test_a_config_that_is_not_an_object_is_an_error(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ReadError):
        open_model(tmp_path)


REMOTE = {
    "model_type": "own",
    "architectures": ["OwnModel"],
    "auto_map": {"AutoConfig": "own_code.OwnConfig", "AutoModel": "own_code.OwnModel"},
}
CODE = """
import pathlib
import torch
from transformers import PretrainedConfig, PreTrainedModel
pathlib.Path(MARK).touch()
class OwnConfig(PretrainedConfig):
    model_type = "own"
    width: int = 3
class OwnModel(PreTrainedModel):
    config_class = OwnConfig
    def __init__(self, config):
        super().__init__(config)
        self.layer = torch.nn.Linear(config.width, 2)
        self.post_init()
    def forward(self, x):
        return self.layer(x)
"""


@pytest.mark.parametrize("fields", [REMOTE, {**REMOTE, "model_type": "bert"}, {**REMOTE, "architectures": None}])
def test_code_next_to_the_config_runs_only_if_trusted(folder, tmp_path, fields):
    (tmp_path / "own_code.py").write_text(CODE.replace("MARK", repr(str(tmp_path / "ran"))))
    with pytest.raises(TrustError, match=r"own_code\.OwnModel.*--trust"):
        open_model(folder(**fields))
    assert not (tmp_path / "ran").exists()


def test_trusted_code_runs(folder, tmp_path, monkeypatch):
    (tmp_path / "own_code.py").write_text(CODE.replace("MARK", repr(str(tmp_path / "ran"))))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    opened = open_model(folder(**REMOTE, width=7), trust=True)
    assert opened.module.layer.in_features == 7
    assert opened.model.on_meta


def test_a_built_in_architecture_needs_no_trust(folder, tmp_path):
    path = folder(architectures=["BertModel"], auto_map=REMOTE["auto_map"])
    assert type(open_model(path).module) is transformers.BertModel


def test_code_in_another_repository_is_never_fetched(folder):
    fields = {**REMOTE, "auto_map": {"AutoModel": "someone/else--own_code.OwnModel"}}
    with pytest.raises(ReadError, match="in another repository"):
        open_model(folder(**fields), trust=True)


def test_the_error_for_missing_transformers_names_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ReadError, match=r"pip install torch-assay\[hf\]"):
        open_model(folder())
