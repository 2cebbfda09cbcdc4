"""Folders with config.json and weights: the module tree comes from the config, the numbers from the files."""

from __future__ import annotations

from types import SimpleNamespace

import folders
import pytest
import torch
import transformers
from versions import require

import assay
from assay.analysis.parameters import parameters
from assay.api.explore.subjects import explorer_subject
from assay.document.weights_fit import ShapeConflict
from assay.views.tui.tabs import BY_ID

MODELS = (folders.bert, folders.llama, folders.gpt2, folders.vit, folders.t5, folders.mixtral)
UP = "model.layers.{}.mlp.up_proj.weight"


def changed_llama() -> dict[str, torch.Tensor]:
    """The tensors of a Llama: one missing, one of another shape, one extra."""
    tensors = dict(folders.llama().state_dict())
    del tensors[UP.format(0)]
    return {**tensors, UP.format(1): torch.ones(3, 32), "foo.weight": torch.arange(3.0)}


def without(prefix: str, model) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): each for name, each in model.state_dict().items()}


def legacy(model) -> dict[str, torch.Tensor]:
    """The tensors under the names of the first checkpoints of BERT."""
    pairs = model.state_dict().items()
    return {n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("Norm.bias", "Norm.beta"): t for n, t in pairs}


VARIANTS = {
    "changed": (folders.llama, lambda model: changed_llama()),
    "no prefix": (folders.llama, lambda model: without("model.", model)),
    "base model": (folders.bert, lambda model: model.bert.state_dict()),
    "legacy names": (folders.bert, legacy),
    "another model": (folders.bert, lambda model: folders.llama().state_dict()),
    "stored twice": (folders.gpt2, lambda model: model.state_dict()),
    "old mask": (folders.gpt2, lambda model: {**model.state_dict(), "transformer.h.0.attn.bias": torch.ones(4)}),
}


@pytest.fixture(scope="module", params=[*VARIANTS, *((make, form) for make in MODELS for form in ("one", "sharded"))])
def loaded(request, tmp_path_factory):
    """A folder, and what transformers itself loads from it and reports about it."""
    require("transformers", "5.0", "reports of what was loaded, in this form")
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("folders") / "net"
    if isinstance(request.param, str):
        make, change = VARIANTS[request.param]
        model = make()
        folders.write(path, model, change(model))
    else:
        model = request.param[0]()
        folders.saved(path, model, request.param[1])
    again, info = type(model).from_pretrained(path, output_loading_info=True, ignore_mismatched_sizes=True)
    return SimpleNamespace(path=path, model=again, info=info, report=assay.check(path, measure=False))


def test_the_misfits_are_those_that_transformers_reports(loaded) -> None:
    document = loaded.report.document
    first = {name: tensor.names[0] for tensor in document.tensors for name in tensor.names}
    fit = document.weights_fit
    assert set(fit.missing) == {first[name] for name in loaded.info["missing_keys"]}
    assert set(fit.extra) == set(loaded.info["unexpected_keys"])
    assert {each.name for each in fit.conflicts} == {key[0] for key in loaded.info["mismatched_keys"]}
    assert fit.prefix == ""
    found = [finding for finding in loaded.report.findings if finding.code == "W301"]
    assert len(found) == bool(fit.missing) + bool(fit.extra) + bool(fit.conflicts)


def test_parameters_are_counted_as_the_model_counts_them(loaded) -> None:
    document = loaded.report.document
    expected = sum(each.numel() for each in loaded.model.parameters())
    assert parameters(document).count == expected
    own = [row for row in document.tensors if row.role == "parameter"]
    assert len(own) == len(list(loaded.model.parameters()))
    if not loaded.info["missing_keys"] and not loaded.info["unexpected_keys"]:
        fitting = [row for row in document.weights.tensors if ".attn.bias" not in row.names[0]]
        assert sum(row.count for row in fitting) == expected


def test_statistics_have_the_names_of_the_model(loaded) -> None:
    state = loaded.model.state_dict()
    skipped = {*loaded.info["unexpected_keys"], *(key[0] for key in loaded.info["mismatched_keys"])}
    for row in loaded.report.document.weights.tensors:
        if row.names[0] in state and row.names[0] not in skipped:
            assert row.mean == pytest.approx(state[row.names[0]].double().mean().item(), abs=1e-7)
    shared = {name for row in loaded.report.document.weights.tensors for name in row.names}
    merged = {name for name in loaded.report.document.weights_fit.stored_as if name not in shared}
    expected = {name for name, _ in loaded.model.named_parameters()}
    assert expected <= shared | merged | set(loaded.report.document.weights_fit.missing)


def test_the_explorer_reads_every_tensor_of_the_model_from_the_files(loaded) -> None:
    subject, state = explorer_subject(str(loaded.path)), loaded.model.state_dict()
    fit = subject.document.weights_fit
    absent = {*fit.missing, *(each.name for each in fit.conflicts)}
    assert subject.document.cost.forward.flops
    for module in subject.document.modules:
        for local, at in module.tensors.items():
            name = f"{module.path}.{local}" if module.path else local
            detail = subject.inspector.tensor(module.path, local)
            if name in state and subject.document.tensors[at].names[0] not in absent:
                value = state[name].double()
                assert detail.mean == pytest.approx(value.mean().item(), abs=1e-7)
                assert detail.std == pytest.approx(value.std(unbiased=False).item(), abs=1e-7)
                assert (detail.min, detail.max) == (value.min().item(), value.max().item())
                assert detail.zeros == int((value == 0).sum())


def test_no_values_are_read_before_they_are_shown(tmp_path, monkeypatch) -> None:
    folder = folders.saved(tmp_path / "net", folders.llama(), "sharded")
    read = []
    monkeypatch.setattr("assay.checkpoint.reading.RangeReader.__call__", lambda self, chunk: read.append(chunk))
    explorer_subject(str(folder))
    assert not read


def test_the_explorer_marks_what_does_not_fit(tmp_path) -> None:
    folder = folders.write(tmp_path / "net", folders.llama(), changed_llama())
    subject = explorer_subject(str(folder))
    assert "1 missing, 1 of another shape, 1 not in the model" in " ".join(subject.notes)
    missing = subject.inspector.tensor("model.layers.0.mlp.up_proj", "weight")
    assert "not in the files" in missing.problem
    sheet = BY_ID["parameters"].make(subject)
    marks = dict(zip(sheet.paths, sheet.column("stored").values, strict=True))
    assert (marks[UP.format(0)], marks[UP.format(1)], marks["foo.weight"]) == ("missing", "3×32", "extra")
    assert subject.inspector.tensor(*sheet.tensor(list(sheet.paths).index("foo.weight"))).max == 2
    tree = BY_ID["tree"].make(subject).column("missing")
    assert tree.on
    assert tree.values[0] == 1


def test_a_tied_tensor_whose_copies_differ_is_reported(tmp_path) -> None:
    model = folders.gpt2()
    tensors = {**model.state_dict(), "lm_head.weight": torch.ones(100, 32)}
    report = assay.check(folders.write(tmp_path / "net", model, tensors), select=["W301"])
    assert [set(names) for names in report.document.weights_fit.untied] == [
        {"lm_head.weight", "transformer.wte.weight"}
    ]
    assert "different values under each name" in report.findings[0].title


def test_a_prefix_that_no_loader_knows_is_reported(tmp_path) -> None:
    model = folders.bert()
    tensors = {f"module.{name}": each for name, each in model.state_dict().items()}
    report = assay.check(folders.write(tmp_path / "net", model, tensors), select=["W301"])
    fit = report.document.weights_fit
    assert (fit.prefix, fit.missing, fit.extra) == ("+module.", (), ())
    assert [finding.title.partition(":")[0] for finding in report.findings] == [
        "names in the files start with module."
    ]


def test_a_lost_shard_is_a_failure_and_no_misfit(tmp_path) -> None:
    folder = folders.saved(tmp_path / "net", folders.llama(), "sharded")
    next(folder.glob("model-00003*")).unlink()
    report = assay.check(folder, select=["W301"])
    assert report.document.weights_fit.missing
    assert "is missing" in report.document.weights.failures[0]
    assert report.findings == []


def test_the_shape_in_the_files_is_stated(tmp_path) -> None:
    folder = folders.write(tmp_path / "net", folders.llama(), changed_llama())
    assert assay.check(folder).document.weights_fit.conflicts == (ShapeConflict(UP.format(1), (48, 32), (3, 32)),)


def test_another_dtype_in_the_files_is_reported(tmp_path) -> None:
    model = folders.llama()
    halves = {name: each.bfloat16() for name, each in model.state_dict().items()}
    folder = folders.write(tmp_path / "net", model, halves)
    (finding,) = assay.check(folder, select=["W301"]).findings
    assert "stored as bfloat16, but float32 in the model" in finding.title
    assert not assay.check(folder, select=["W301"], dtype="bfloat16").findings


def test_quantized_files_are_no_reason_to_worry(tmp_path) -> None:
    model = folders.llama()
    packed = {name.replace("up_proj.weight", "up_proj.qweight"): each for name, each in model.state_dict().items()}
    settings = {"quant_method": "gptq", "bits": 4}
    folder = folders.write(tmp_path / "net", model, packed, quantization_config=settings)
    findings = assay.check(folder, select=["W301"]).findings
    assert findings
    assert {finding.severity for finding in findings} == {"note"}
    assert all("quantized with gptq" in finding.title for finding in findings)


def test_weights_of_a_checkpoint_beside_another_model_are_compared_too(tmp_path) -> None:
    folder = folders.write(tmp_path / "net", folders.llama(), changed_llama())
    report = assay.check(
        transformers.LlamaForCausalLM(folders.llama().config),
        {"input_ids": torch.ones(1, 4, dtype=torch.int64)},
        weights=folder / "model.safetensors",
        measure=False,
        select=["W301"],
    )
    assert report.document.weights_fit.missing == (UP.format(0),)
    assert report.document.weights_fit.extra == ("foo.weight",)


def test_a_model_whose_inputs_are_unknown_still_has_its_tree_and_weights(tmp_path, monkeypatch) -> None:
    from assay.errors import InputsError

    def unknown(*args, **kwargs):
        raise InputsError("no inputs found")

    monkeypatch.setattr("assay.sources.inputs.find_inputs", unknown)
    folder = folders.saved(tmp_path / "net", folders.llama(), "one")
    for document in (assay.check(folder).document, assay.analyze(folder).document):
        assert document.modules[0].class_name == "LlamaForCausalLM"
        assert document.weights.tensors
        assert document.weights_fit is not None
        assert "no inputs found" in document.run.assumptions[0]
