"""Folders with config.json and weights: the module tree comes from the config, the numbers from the files."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import folders
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
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
    assert (marks["model.norm.weight"], marks["model.layers.#.mlp.down_proj.weight ×2"]) == ("yes", "yes")
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


def test_transformers_unties_copies_that_differ_and_the_advice_states_how_many_more_parameters(tmp_path) -> None:
    require("transformers", "5.0", "weights that are not tied if they differ")
    model = folders.gpt2()
    folder = folders.write(tmp_path / "net", model, {**model.state_dict(), "lm_head.weight": torch.ones(100, 32)})
    report = assay.check(folder, select=["W301"])
    loaded = transformers.GPT2LMHeadModel.from_pretrained(folder)
    more = sum(each.numel() for each in loaded.parameters()) - parameters(report.document).count
    assert more == 100 * 32
    assert f"{more:,} parameters more" in report.findings[0].advice


def test_stored_tensors_have_the_roles_of_the_model(loaded) -> None:
    """Parts of merged tensors and unequal copies too; what the model does not have has none."""
    document = loaded.report.document
    kinds = {"parameter": loaded.model.named_parameters, "buffer": loaded.model.named_buffers}
    known = {name: role for role, named in kinds.items() for name, _ in named(remove_duplicate=False)}
    known |= {
        part: known[name] for name, parts in document.weights_fit.stored_as.items() if name in known for part in parts
    }
    for row in document.weights.tensors:
        assert row.role == next((known[name] for name in row.names if name in known), "")
    if not document.weights_fit.summary:
        count = sum(each.numel() for each in loaded.model.parameters())
        assert document.weights.by_role["parameter"].count == count


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
    fit, unread = report.document.weights_fit, report.document.weights_fit.unread
    assert (fit.missing, fit.summary) == ((), "")
    assert "is missing" in report.document.weights.failures[0]
    assert report.findings == []
    subject = explorer_subject(str(folder))
    assert subject.document.weights_fit.unread == unread != ()
    assert not any("do not fit" in note for note in subject.notes)
    path, _, name = unread[0].rpartition(".")
    assert "not read" in subject.inspector.tensor(path, name).problem
    assert in_files(subject)[unread[0]] == "not read"
    tree = BY_ID["tree"].make(subject).column("missing")
    assert (tree.on, tree.title, tree.values[0]) == (True, "not read", len(unread))
    assert "not read" in explorer_subject(report.document).inspector.tensor(path, name).problem


def test_the_part_that_a_merged_tensor_lacks_is_named(tmp_path) -> None:
    require("transformers", "5.0", "merged experts")
    folder = folders.saved(tmp_path / "net", folders.mixtral(), "one")
    tensors, lost = load_file(folder / "model.safetensors"), "model.layers.0.block_sparse_moe.experts.{}.w1.weight"
    for number in (1, 3):
        del tensors[lost.format(number)]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    report = assay.check(folder, select=["W301"])
    fit, merged = report.document.weights_fit, "model.layers.0.mlp.experts.gate_up_proj"
    assert (fit.missing, fit.conflicts) == ((merged,), ())
    assert fit.missing_parts == {merged: (lost.format(1), lost.format(3))}
    (finding,) = report.findings
    assert lost.format("1,3") in finding.title
    assert finding.severity == "warning"


def test_experts_of_another_shape_are_not_missing(tmp_path) -> None:
    require("transformers", "5.0", "merged experts")
    folder = folders.saved(tmp_path / "net", folders.mixtral(), "one")
    tensors = load_file(folder / "model.safetensors")
    halved = {name: each[:24].clone() if ".w1." in name or ".w3." in name else each for name, each in tensors.items()}
    save_file(halved, folder / "model.safetensors", {"format": "pt"})
    fit = assay.check(folder, select=["W301"]).document.weights_fit
    assert fit.missing == ()
    assert {each.name for each in fit.conflicts} == {f"model.layers.{at}.mlp.experts.gate_up_proj" for at in (0, 1)}


BESIDE = (
    "model.fp16.safetensors",
    "consolidated.safetensors",
    "model-00001-of-00002.safetensors",
    "adapter_model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
)


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("has_config", [True, False])
def test_the_standard_file_is_read_and_others_are_left_aside(tmp_path, name, has_config) -> None:
    folder = folders.saved(tmp_path / "net", folders.llama(), "one")
    shutil.copy(folder / "model.safetensors", folder / name)
    if not has_config:
        (folder / "config.json").unlink()
    report = assay.check(folder, select=["W301"])
    weights = report.document.weights
    assert (weights.failures, report.findings) == ((), [])
    assert len(weights.tensors) == len(folders.llama().state_dict())
    noted = [] if name.endswith(".json") else [f"other weight files in the directory were not read: {name}"]
    assert list(weights.notes) == noted
    assert has_config is False or list(explorer_subject(str(folder)).notes)[1:] == noted


def test_the_file_that_transformers_would_load_is_read(tmp_path) -> None:
    names = ("model.safetensors", "model-1.safetensors", "pytorch_model.bin", "pytorch_model-1.bin")
    for name in names:
        (save_file if name.endswith(".safetensors") else torch.save)({name: torch.ones(1)}, tmp_path / name)
    indices = {"model-1.safetensors": "model.safetensors", "pytorch_model-1.bin": "pytorch_model.bin"}
    for shard, stem in indices.items():
        (tmp_path / f"{stem}.index.json").write_text(json.dumps({"weight_map": {shard: shard}}))
    for name in names:
        assert [row.names[0] for row in assay.analyze_weights(tmp_path).tensors] == [name]
        (tmp_path / (f"{indices[name]}.index.json" if name in indices else name)).unlink()


def test_tensors_in_several_files_are_noted_once(tmp_path) -> None:
    folder = folders.saved(tmp_path / "net", folders.llama(), "one")
    (folder / "model.safetensors").rename(folder / "a.safetensors")
    shutil.copy(folder / "a.safetensors", folder / "b.safetensors")
    report = assay.check(folder, select=["W301"])
    count = len(folders.llama().state_dict())
    assert report.document.weights.failures == ()
    assert report.document.weights.notes == (f"more than one file has {count} tensors, such as lm_head.weight",)
    assert report.findings == []


def in_files(subject) -> dict[str, str]:
    sheet = BY_ID["parameters"].make(subject)
    return dict(zip(sheet.paths, sheet.column("stored").values, strict=True))


def gain_of(folder) -> tuple[list[str], float, float]:
    """The tensors of the plan of bit widths, and what it gains: bytes and their share."""
    (finding,) = assay.check(folder, measure=False, select=["W209"]).findings
    return [row.name for row in finding.plan], finding.gain.amount.value, finding.gain.share.value


def test_gains_count_only_tensors_of_the_model(tmp_path) -> None:
    model = big()
    names, gained, share = gain_of(folders.write(tmp_path / "whole", model, model.state_dict()))
    extra = {**model.state_dict(), "model.layers.7.mlp.up_proj.weight": torch.randn(512, 256), "foo": torch.randn(9)}
    assert gain_of(folders.write(tmp_path / "extra", model, extra)) == (names, gained, share)
    assert share == pytest.approx(gained / sum(each.numel() * 4 for each in model.parameters()))


def test_the_share_of_a_gain_is_of_all_weights_of_the_model(tmp_path) -> None:
    model, tensors = big(), dict(big().state_dict())
    del tensors["model.layers.0.mlp.up_proj.weight"]
    names, gained, share = gain_of(folders.write(tmp_path / "net", model, tensors))
    assert "model.layers.0.mlp.up_proj.weight" not in names
    assert share == pytest.approx(gained / sum(each.numel() * 4 for each in model.parameters()))


def test_unequal_copies_of_a_tied_tensor_are_gained_once(tmp_path) -> None:
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=256, n_layer=1, n_head=2, vocab_size=512))
    tensors = {**model.state_dict(), "lm_head.weight": torch.randn(512, 256)}
    folder = folders.write(tmp_path / "net", model, tensors)
    names, gained, share = gain_of(folder)
    assert "transformer.wte.weight" in names
    assert "lm_head.weight" not in names
    assert share == pytest.approx(gained / sum(each.numel() * 4 for each in model.parameters()))


def big():
    """A Llama with matrices that are worth a plan."""
    torch.manual_seed(0)
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 256, "intermediate_size": 512}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, vocab_size=100))


def test_the_explorer_marks_tied_tensors_whose_copies_differ(tmp_path) -> None:
    model = folders.gpt2()
    equal = folders.write(tmp_path / "equal", model, model.state_dict())
    subject = explorer_subject(str(equal))
    assert subject.document.weights_fit.untied == ()
    assert in_files(subject)["transformer.wte.weight"] == "yes"
    tensors = {**model.state_dict(), "lm_head.weight": torch.ones(100, 32)}
    subject = explorer_subject(str(folders.write(tmp_path / "net", model, tensors)))
    assert subject.document.weights_fit.untied == (("transformer.wte.weight", "lm_head.weight"),)
    assert in_files(subject)["transformer.wte.weight"] == "copies differ"
    assert [finding.code for finding in subject.document.findings if finding.code[0] == "W"] == ["W301"]


def test_a_folder_without_weights_is_called_so(tmp_path) -> None:
    folder = folders.saved(tmp_path / "net", folders.llama(), "one")
    (folder / "model.safetensors").unlink()
    assert "no values of weights: the folder holds none" in explorer_subject(str(folder)).notes


def test_a_model_of_a_part_of_the_config_is_built(tmp_path) -> None:
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = {**sizes, "vocab_size": 100, "max_position_embeddings": 16, "bos_token_id": 1, "eos_token_id": 2}
    vision = {**sizes, "image_size": 32, "patch_size": 8}
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)
    model = transformers.CLIPModel(config)
    folder = folders.write(tmp_path / "net", model, model.state_dict(), architectures=["CLIPTextModel"])
    report = assay.check(folder, select=["W301"])
    expected, info = transformers.CLIPTextModel.from_pretrained(folder, output_loading_info=True)
    assert report.document.modules[0].class_name == "CLIPTextModel"
    assert parameters(report.document).count == sum(each.numel() for each in expected.parameters())
    assert report.document.weights_fit.missing == ()
    assert set(report.document.weights_fit.extra) == set(info["unexpected_keys"])


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
    assert all(
        finding.advice.startswith("Load the weights with a library that supports gptq") for finding in findings
    )


def test_the_figures_of_a_quantized_folder_are_stated_to_be_those_of_the_model_without_it(
    tmp_path, monkeypatch
) -> None:
    from assay.api.weights.joined import without_pass
    from assay.sources.open import open_source

    model = folders.llama()
    packed = {name.replace("up_proj.weight", "up_proj.qweight"): each for name, each in model.state_dict().items()}
    settings = {"quant_method": "gptq", "bits": 4}
    folder = folders.write(tmp_path / "net", model, packed, quantization_config=settings)
    expected = "config names the quantization method gptq: figures are those of the unquantized float32 model"
    subject = explorer_subject(str(folder))
    for document in (
        assay.check(folder, select=["W301"]).document,
        assay.observe(folder, mode="meta"),
        assay.analyze(folder).document,
        without_pass(open_source(folder), "no inputs found"),
        subject.document,
    ):
        assert expected in document.run.assumptions
    assert "the stored weights are quantized (gptq), the model that is shown is not" in subject.notes
    assert not any("do not fit" in note for note in subject.notes)
    plain = folders.saved(tmp_path / "plain", model, "one")
    assert not any("quantization" in one for one in assay.observe(plain, mode="meta").run.assumptions)


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
