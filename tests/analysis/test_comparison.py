"""What changed between two documents: of models with one known change, and for any two trees."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
import torch
from handmade import conv_stack, stopped, timed_tree
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from safetensors.torch import save_file
from torch import nn

import assay
from assay.analysis.comparison import Comparison, compare_documents
from assay.analysis.comparison.rows import ADDED, CHANGED, GONE, MOVED, NEW, REMOVED, SAME, STILL_THERE
from assay.analysis.comparison.verdicts import EQUAL, LESS, MORE, NOT_SIGNIFICANT, UNKNOWN
from assay.document.document import Document, InputTensor, Machine, Run
from assay.document.findings import Finding
from assay.document.profile import EnergyProfile, Profile
from assay.document.provenance import Counted, Figure, Measured, Modelled
from assay.document.rows import Module, Tensor, TensorType
from assay.document.timing import ModuleTime, Timing
from assay.document.weights import TensorStatistics, WeightsReport

X = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
MIRRORED = {ADDED: REMOVED, REMOVED: ADDED, NEW: GONE, GONE: NEW, LESS: MORE, MORE: LESS}


class Block(nn.Module):
    def __init__(self, width, act):
        super().__init__()
        self.up, self.act, self.down = nn.Linear(width, 2 * width), act(), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(self.act(self.up(x)))


class Net(nn.Module):
    """Blocks between two layers."""

    def __init__(self, width=8, blocks=3, act=nn.SiLU):
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Linear(8, width)
        self.blocks = nn.ModuleList(Block(width, act) for _ in range(blocks))
        self.head = nn.Linear(width, 8)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def recorded(model: nn.Module, inputs=X, **options) -> Document:
    return assay.observe(model.eval(), inputs, **options)


def compared(before: nn.Module, after: nn.Module) -> Comparison:
    return compare_documents(recorded(before), recorded(after))


def differing(rows):
    """The state of each row that is not the same, by name."""
    return {_name(row.shown): row.state for row in rows if row.state != SAME}


def _name(shown):
    return shown.path if hasattr(shown, "path") else shown.names[0]


def words(rows):
    return {_name(row.shown): row.changes for row in rows if row.changes}


def total(comparison, name):
    return next(row for row in comparison.totals if row.name == name)


def verdicts(comparison):
    return {row.name: row.verdict for row in comparison.totals}


class TestObservedModels:
    def test_a_swapped_activation_is_a_changed_class(self):
        comparison = compared(Net(), Net(act=nn.GELU))
        assert words(comparison.modules) == {f"blocks.{at}.act": ("class is GELU, not SiLU",) for at in range(3)}
        assert set(differing(comparison.modules).values()) == {CHANGED}
        assert differing(comparison.tensors) == {}
        ops = {row.name: (row.state, row.before, row.after) for row in comparison.ops if row.state != SAME}
        assert ops == {
            "torch.nn.functional.silu": (REMOVED, 3, 0),
            "torch.nn.functional.gelu": (ADDED, 0, 3),
        }
        assert verdicts(comparison)["parameters"] == EQUAL
        assert comparison.conditions == []

    def test_an_added_block_is_added_with_all_inside_it(self):
        comparison = compared(Net(), Net(blocks=4))
        inside = [f"blocks.3{name}" for name in ("", ".up", ".act", ".down")]
        assert differing(comparison.modules) == dict.fromkeys(inside, ADDED)
        assert [row.shown.path for row in comparison.modules if row.state == ADDED and not row.covered] == [
            "blocks.3"
        ]
        assert all(row.covered for row in comparison.tensors if row.state == ADDED)
        parameters = sum(each.numel() for each in Block(8, nn.SiLU).parameters())
        row = total(comparison, "parameters")
        before = sum(each.numel() for each in Net().parameters())
        assert (row.before.value, row.difference, row.ratio) == (before, parameters, (before + parameters) / before)
        (added,) = [row for row in comparison.modules if row.shown.path == "blocks.3"]
        assert added.before is None
        assert added.after.parameters == parameters
        flops = total(comparison, "FLOPs per pass")
        assert (comparison.modules[0].before.flops, added.after.flops) == (flops.before.value, flops.difference)

    def test_a_layer_inserted_into_a_sequence_leaves_those_behind_it_as_they_are(self):
        def net(*inserted):
            torch.manual_seed(0)
            return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), *inserted, nn.Linear(16, 4))

        comparison = compared(net(), net(nn.LayerNorm(16), nn.ReLU()))
        states = differing(comparison.modules)
        assert states == {"2": ADDED, "3": ADDED, "4": MOVED}
        (moved,) = [row for row in comparison.modules if row.state == MOVED]
        assert (moved.before.path, moved.after.path) == ("2", "4")
        assert differing(comparison.tensors) == {
            "2.weight": ADDED,
            "2.bias": ADDED,
            "4.weight": MOVED,
            "4.bias": MOVED,
        }
        assert words(comparison.tensors) == {}

    def test_a_wider_layer_changes_settings_shapes_and_outputs(self):
        def net(width):
            return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 4))

        comparison = compared(net(16), net(24))
        assert words(comparison.modules) == {
            "0": (
                "out_features is 24, not 16",
                "weight is 24x8, not 16x8",
                "bias is 24, not 16",
                "output is 2x24, not 2x16",
            ),
            "1": ("output is 2x24, not 2x16",),
            "2": ("in_features is 24, not 16", "weight is 4x24, not 4x16"),
        }
        assert words(comparison.tensors)["0.weight"] == ("24x8, not 16x8",)
        assert total(comparison, "MACs per pass").difference == 2 * 8 * (8 + 4)
        assert verdicts(comparison)["FLOPs per pass"] == MORE

    def test_a_cast_model_has_other_dtypes_and_inputs(self):
        comparison = compare_documents(recorded(Net()), recorded(Net().bfloat16(), X.bfloat16()))
        assert [(row.name, row.affects) for row in comparison.conditions] == [("inputs", "figures of the pass")]
        changed = {name for name, said in words(comparison.modules).items() if said == ("bfloat16, not float32",)}
        assert changed == {name for name, module in Net().named_modules() if isinstance(module, nn.Linear)}
        assert differing(comparison.modules).keys() == changed
        assert set(differing(comparison.tensors).values()) == {CHANGED}
        row = total(comparison, "bytes of weights")
        assert (row.ratio, row.verdict) == (0.5, LESS)

    def test_one_changed_weight_is_found_by_its_digest(self, tmp_path):
        model = Net()
        before = replace(recorded(model), weights=read_weights(model))
        with torch.no_grad():
            model.blocks[1].up.weight[0, 0] += 1
        after = replace(recorded(model), weights=read_weights(model))
        comparison = compare_documents(before, after)
        assert differing(comparison.modules) == {}
        (row,) = [row for row in comparison.tensors if row.state != SAME]
        assert (row.shown.names, row.changes, row.values_equal) == (("blocks.1.up.weight",), ("other values",), False)
        values = model.blocks[1].up.weight.detach()
        assert row.after.std == pytest.approx(values.std(correction=0).item(), rel=1e-4)
        assert row.after.max == values.max().item()
        assert row.before.mean == pytest.approx(values.mean().item() - 1 / values.numel(), rel=1e-4)
        others = [each for each in comparison.tensors if each is not row]
        assert all(each.values_equal for each in others)

    def test_tied_weights_are_reported_on_both_tensors(self):
        before, after = Net(), Net()
        after.head.weight = after.stem.weight
        comparison = compared(before, after)
        assert words(comparison.tensors) == {"stem.weight": ("tied",), "head.weight": ("now tied to stem.weight",)}
        assert differing(comparison.tensors) == {"stem.weight": CHANGED, "head.weight": REMOVED}
        assert words(comparison.modules) == {"stem": ("weight is tied",), "head": ("weight is tied",)}
        assert total(comparison, "parameters").difference == -64
        back = compared(after, before)
        assert words(back.tensors)["head.weight"] == ("was tied to stem.weight",)

    def test_a_shared_module_is_reported_as_the_same_as_the_other(self):
        before, after = Net(), Net()
        after.blocks[1].up = after.blocks[0].up
        comparison = compared(before, after)
        assert words(comparison.modules)["blocks.1.up"] == ("now the same module as blocks.0.up",)
        assert differing(comparison.modules)["blocks.1.up"] == REMOVED
        assert "is shared" in words(comparison.modules)["blocks.0.up"]

    def test_a_module_listed_under_another_of_its_names_is_the_same(self):
        class Shared(nn.Module):
            def __init__(self, *names):
                super().__init__()
                inner, act = nn.Linear(8, 8), nn.ReLU()
                for name in names:
                    self.add_module(name, inner)
                    self.add_module(f"{name}_act", act)

            def forward(self, x):
                return self.a_act(self.a(self.b_act(self.b(x))))

        comparison = compared(Shared("a", "b"), Shared("b", "a"))
        assert differing(comparison.modules) == {}
        assert differing(comparison.tensors) == {}

    def test_a_wrapped_model_has_moved_as_a_whole(self):
        class Wrapper(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.module = inner

            def forward(self, x):
                return self.module(x)

        comparison = compared(Net(), Wrapper(Net()))
        uncovered = [(row.state, row.shown.path) for row in comparison.modules if not row.covered]
        assert uncovered == [(ADDED, ""), (MOVED, "module")]
        assert Counter(row.state for row in comparison.modules) == {ADDED: 1, MOVED: len(list(Net().modules()))}
        assert all(row.state == MOVED for row in comparison.tensors)

    def test_a_renamed_part_has_moved_and_what_changed_inside_it_is_found(self):
        class Renamed(nn.Module):
            def __init__(self, name, act):
                super().__init__()
                self.add_module(name, nn.Sequential(nn.Linear(8, 16), act(), nn.Linear(16, 4)))
                self.head = nn.Linear(4, 2)

            def forward(self, x):
                inner, head = self.children()
                return head(inner(x))

        comparison = compared(Renamed("encoder", nn.ReLU), Renamed("backbone", nn.GELU))
        assert differing(comparison.modules) == {
            "backbone": MOVED,
            "backbone.0": MOVED,
            "backbone.1": CHANGED,
            "backbone.2": MOVED,
        }
        assert words(comparison.modules) == {"backbone.1": ("class is GELU, not ReLU",)}

    def test_frozen_parameters_and_training_mode_are_reported_once(self):
        after = Net()
        after.stem.requires_grad_(False)
        before, frozen = recorded(Net()), assay.observe(after.train(), X)
        comparison = compare_documents(before, frozen)
        assert words(comparison.modules) == {"": ("in training mode",), "stem": ("frozen",)}
        assert words(comparison.tensors) == {"stem.weight": ("frozen",), "stem.bias": ("frozen",)}
        assert verdicts(comparison)["trainable parameters"] == LESS

    def test_the_outputs_of_other_inputs_are_not_compared(self):
        comparison = compare_documents(recorded(Net()), recorded(Net(), torch.randn(5, 8)))
        assert differing(comparison.modules) == {}
        assert [(row.name, row.before, row.after) for row in comparison.conditions] == [
            ("inputs", "args[0] 2x8 float32", "args[0] 5x8 float32")
        ]
        assert total(comparison, "MACs per pass").ratio == 2.5

    def test_a_saved_document_is_the_same_as_the_original(self, tmp_path):
        document = replace(recorded(Net()), weights=read_weights(Net()))
        path = tmp_path / "net.assay.json"
        assay.save(document, path)
        assert compare_documents(document, assay.load(path)).identical

    def test_checkpoints_are_compared_tensor_by_tensor(self, tmp_path):
        save_file({"a": torch.ones(4), "b": torch.zeros(2, 3)}, tmp_path / "one.safetensors")
        save_file({"a": torch.ones(4), "b": torch.zeros(2, 4), "c": torch.ones(1)}, tmp_path / "two.safetensors")
        documents = [assay.analyze(tmp_path / name).document for name in ("one.safetensors", "two.safetensors")]
        comparison = compare_documents(*documents)
        assert differing(comparison.tensors) == {"b": CHANGED, "c": ADDED}
        assert words(comparison.tensors) == {"b": ("2x4, not 2x3",)}
        assert [row.values_equal for row in comparison.tensors] == [True, None, None]
        assert total(comparison, "parameters").difference == 3
        assert verdicts(comparison)["FLOPs per pass"] == UNKNOWN


def read_weights(model: nn.Module) -> WeightsReport:
    return assay.analyze(model, X).document.weights


class TestConditions:
    def test_conditions_come_in_the_order_of_what_they_affect(self):
        before = conv_stack()
        other = Machine("3.12", "2.9.0", "Linux", "cuda", "H100")
        image = TensorType((8, 3, 224, 224), "float32")
        after = replace(
            before, machine=other, run=replace(before.run, inputs=(InputTensor("x", image),), mode="fake")
        )
        comparison = compare_documents(before, after)
        assert [row.name for row in comparison.conditions] == [
            "inputs",
            "mode of the pass",
            "device",
            "torch",
            "Python",
        ]
        assert {row.affects for row in comparison.conditions[:2]} == {"figures of the pass"}
        assert not comparison.identical

    def test_an_unknown_condition_does_not_differ(self):
        assert compare_documents(replace(conv_stack(), machine=Machine()), conv_stack()).conditions == []

    def test_a_pass_that_stopped_is_a_condition_and_its_calls_are_not_compared(self):
        after = stopped()
        comparison = compare_documents(conv_stack(), replace(after, calls=after.calls[:4], ops=after.ops[:3]))
        (row,) = comparison.conditions
        assert (row.name, row.before, row.after) == ("forward pass", "complete", "stopped in 3: shapes do not fit")
        assert differing(comparison.modules) == {}

    def test_threads_and_other_load_are_conditions_of_profiles(self):
        before, after = (replace(conv_stack(), profile=Profile(threads=threads)) for threads in (1, 8))
        assert [(row.name, row.after) for row in compare_documents(before, after).conditions] == [("threads", "8")]
        assert compare_documents(conv_stack(), after).conditions == []


def measured(value, low=None, high=None) -> Figure:
    return Figure(value, Measured("clock", 3, range=None if low is None else (low, high)))


class TestTotals:
    @pytest.mark.parametrize(
        ("before", "after", "verdict"),
        [
            (measured(1.0, 0.9, 1.1), measured(2.0, 1.2, 2.2), MORE),
            (measured(2.0, 1.2, 2.2), measured(1.0, 0.9, 1.1), LESS),
            (measured(1.0, 0.9, 1.3), measured(2.0, 1.2, 2.2), NOT_SIGNIFICANT),
            (measured(1.0), measured(2.0), UNKNOWN),
            (measured(1.0), measured(1.0), EQUAL),
        ],
    )
    def test_a_time_differs_only_if_its_ranges_do_not_overlap(self, before, after, verdict):
        documents = (Document(timing=Timing(whole=figure)) for figure in (before, after))
        row = total(compare_documents(*documents), "time of a pass")
        assert row.verdict == verdict
        assert row.difference == after.value - before.value
        assert (row.before, row.after) == (before, after)

    @pytest.mark.parametrize(
        ("how", "verdict"),
        [
            (Modelled("a model", interval=(0.5, 2.0)), NOT_SIGNIFICANT),
            (Modelled("a model", error=0.1), MORE),
            (Modelled("a formula"), MORE),
            (Counted("exactly"), MORE),
        ],
    )
    def test_a_modelled_energy_differs_beyond_its_interval(self, how, verdict):
        documents = (
            Document(profile=Profile(energy=EnergyProfile(whole=Figure(value, how)))) for value in (1.0, 1.5)
        )
        assert total(compare_documents(*documents), "energy of a pass").verdict == verdict

    def test_unknown_stays_unknown(self):
        comparison = compare_documents(Document(), conv_stack())
        for row in comparison.totals:
            assert (row.difference, row.ratio, row.verdict) == (None, None, UNKNOWN), row.name
        row = total(comparison, "time of a pass")
        assert row.before.how.why == "the pass was not timed"
        assert total(comparison, "peak memory of inference").after.value is None  # no storages were recorded

    def test_counts_beyond_the_precision_of_floats_are_compared_exactly(self):
        def document(elements):
            kind = TensorType((elements,), "float32")
            return Document(tensors=[Tensor(("w",), "parameter", kind, 4 * elements)])

        row = total(compare_documents(document(2**53), document(2**53 + 1)), "parameters")
        assert (row.verdict, row.difference) == (MORE, 1)

    def test_ops_of_unknown_cost_are_noted(self):
        document = conv_stack()
        unknown = replace(document.kinds[2], target="mylib.relu.default", name="mylib.relu")
        after = replace(document, kinds=[*document.kinds[:2], unknown, document.kinds[3]])
        comparison = compare_documents(document, after)
        assert total(comparison, "FLOPs per pass").note == "without 0 ops of unknown cost before and 2 after"
        assert total(comparison, "bytes moved per pass").note == ""


class TestModuleTimes:
    def test_a_module_is_faster_or_slower_beyond_its_ranges(self):
        before, after = timed_tree({"": 1, "a:A": 2, "b:B": 3}), timed_tree({"": 1, "a:A": 4, "b:B": 3})

        def with_ranges(document, ranges):
            rows = [
                ModuleTime(1, row.total_s, row.self_s, low, high)
                for row, (low, high) in zip(document.timing.modules, ranges, strict=True)
            ]
            return replace(document, timing=replace(document.timing, modules=rows))

        before = with_ranges(before, [(5, 9), (1, 3), (2, 4)])
        after = with_ranges(after, [(7, 9), (4, 5), (2, 4)])
        rows = {row.shown.path: row for row in compare_documents(before, after).modules}
        assert {path: row.time_verdict for path, row in rows.items()} == {
            "": NOT_SIGNIFICANT,
            "a": MORE,
            "b": EQUAL,
        }
        assert (rows["a"].before.time_s, rows["a"].after.time_s) == (0.002, 0.004)
        untimed = replace(after, timing=None)
        assert {row.time_verdict for row in compare_documents(before, untimed).modules} == {""}


class TestFindings:
    def test_findings_are_new_gone_or_still_there(self):
        one = Finding("A1", "warning", "3 of x", "do", modules=(1,))
        titles = Finding("B1", "note", "the same title", "do", modules=(2,))
        gone = Finding("C1", "error", "gone", "do", modules=(3,))
        before = replace(conv_stack(), findings=[one, titles, gone])
        after = replace(
            conv_stack(),
            findings=[
                replace(titles, modules=(2, 3)),
                replace(one, title="4 of x"),
                replace(gone, modules=(4,), title="new"),
            ],
        )
        rows = compare_documents(before, after).findings
        assert [(row.state, row.code, row.title, row.before, row.after) for row in rows] == [
            (STILL_THERE, "B1", "the same title", 1, 0),
            (STILL_THERE, "A1", "4 of x", 0, 1),
            (NEW, "C1", "new", None, 2),
            (GONE, "C1", "gone", 2, None),
        ]

    def test_a_finding_about_a_moved_module_is_still_there(self):
        before = tree_document({"a": "A", "a.b": "B"}, tensors={"a.b": (4,)})
        after = tree_document({"new": "N", "c": "A", "c.b": "B"}, tensors={"c.b": (4,)})
        finding = Finding("A1", "note", "about a.b", "do", modules=(2,))
        of_moved, of_other = (
            replace(finding, title=title, modules=(at,)) for title, at in (("moved", 3), ("new", 2))
        )
        comparison = compare_documents(
            replace(before, findings=[finding]), replace(after, findings=[of_other, of_moved])
        )
        assert [(row.state, row.title) for row in comparison.findings] == [(NEW, "new"), (STILL_THERE, "moved")]


def tree_document(classes, tensors=None, config=None) -> Document:
    """A document with these modules by path, parents first, without the root."""
    modules, rows, index_of = [Module("", "Root", "m.Root", None)], [], {"": 0}
    for path, name in classes.items():
        own = {}
        if path in (tensors or {}):
            shape = tensors[path]
            own["weight"] = len(rows)
            rows.append(Tensor((f"{path}.weight",), "parameter", TensorType(shape, "float32"), 4))
        settings = {"n": config[path]} if config and path in config else {}
        index_of[path] = len(modules)
        modules.append(Module(path, name, f"m.{name}", index_of[path.rpartition(".")[0]], settings, own))
    return Document(modules=modules, tensors=rows, run=Run("meta"))


@st.composite
def documents(draw):
    """A small tree with few names and classes, so that two of them have much in common."""
    paths: list[str] = []
    for _ in range(draw(st.integers(0, 9))):
        parent = draw(st.sampled_from(["", *paths]))
        path = f"{parent}.{draw(st.sampled_from('ab012'))}".lstrip(".")
        if path not in paths:
            paths.append(path)
    classes = {path: draw(st.sampled_from("PQ")) for path in paths}
    shapes = {path: draw(st.sampled_from([(2,), (3,)])) for path in paths if draw(st.booleans())}
    config = {path: draw(st.integers(0, 1)) for path in paths}
    findings = [
        Finding(code, "note", title, "do", modules=(at,))
        for code, title, at in draw(
            st.lists(st.tuples(st.sampled_from("CD"), st.sampled_from("tu"), st.integers(0, len(paths))), max_size=4)
        )
    ]
    return replace(tree_document(classes, shapes, config), findings=findings)


class TestProperties:
    @given(documents())
    def test_a_document_does_not_differ_from_itself(self, document):
        again = msgspec.json.decode(msgspec.json.encode(document), type=Document)
        comparison = compare_documents(document, again)
        assert comparison.identical
        assert not any(row.changes for row in (*comparison.modules, *comparison.tensors))
        assert all(row.before.index == row.after.index for row in comparison.modules)

    @given(documents(), documents())
    def test_every_module_and_tensor_is_in_exactly_one_row(self, before, after):
        comparison = compare_documents(before, after)
        rows = comparison.modules
        assert sorted(row.before.index for row in rows if row.before) == list(range(len(before.modules)))
        assert sorted(row.after.index for row in rows if row.after) == list(range(len(after.modules)))
        for row in rows:
            assert (row.state == ADDED) == (row.before is None)
            assert (row.state == REMOVED) == (row.after is None)
            if row.state in (SAME, MOVED):
                one, two = before.modules[row.before.index], after.modules[row.after.index]
                assert (one.class_path, one.config) == (two.class_path, two.config)
                assert (one.path == two.path) == (row.state == SAME)
        names = Counter(row.before.names for row in comparison.tensors if row.before)
        assert names == Counter(tensor.names for tensor in before.tensors)
        names = Counter(row.after.names for row in comparison.tensors if row.after)
        assert names == Counter(tensor.names for tensor in after.tensors)

    @given(documents(), documents())
    def test_the_other_direction_is_the_mirror_image(self, before, after):
        there, back = compare_documents(before, after), compare_documents(after, before)

        def pairs(rows, before, after):
            return Counter(
                (
                    row.state,
                    getattr(row, before) and _name(getattr(row, before)),
                    getattr(row, after) and _name(getattr(row, after)),
                    len(row.changes),
                )
                for row in rows
            )

        def mirrored(rows):
            return Counter({(MIRRORED.get(state, state), *rest): count for (state, *rest), count in rows.items()})

        for rows, others in ((there.modules, back.modules), (there.tensors, back.tensors)):
            assert mirrored(pairs(rows, "before", "after")) == pairs(others, "after", "before")
        for row, other in zip(there.totals, back.totals, strict=True):
            assert (row.before, row.after) == (other.after, other.before)
            assert MIRRORED.get(row.verdict, row.verdict) == other.verdict
            assert row.difference is None or row.difference == -other.difference
        states = Counter((MIRRORED.get(row.state, row.state), row.code) for row in there.findings)
        assert states == Counter((row.state, row.code) for row in back.findings)

    @given(documents(), st.sampled_from(["x", "a.b", "module"]))
    def test_a_document_under_another_prefix_has_moved(self, document, prefix):
        """All of it, if its root is recognised inside the other document."""
        inner = {f"{prefix}.{each.path}".rstrip("."): each for each in document.modules}
        modules = [Module("", "Wrapper", "m.Wrapper", None)]
        index_of = {"": 0}
        for depth in range(1, prefix.count(".") + 1):
            path = ".".join(prefix.split(".")[:depth])
            index_of[path] = len(modules)
            modules.append(Module(path, "Between", "m.Between", depth - 1))
        added = len(modules)
        for path, each in inner.items():
            index_of[path] = len(modules)
            modules.append(replace(each, path=path, parent=index_of[path.rpartition(".")[0]]))
        tensors = [replace(each, names=tuple(f"{prefix}.{name}" for name in each.names)) for each in document.tensors]
        comparison = compare_documents(document, replace(document, modules=modules, tensors=tensors))
        assert Counter(row.state for row in comparison.modules) == {ADDED: added, MOVED: len(document.modules)}
        assert all(row.state == MOVED for row in comparison.tensors)
        assert [row.shown.path for row in comparison.modules if row.state == MOVED and not row.covered] == [prefix]


def test_values_are_unknown_without_digests():
    kind = TensorType((2,), "float32")
    document = Document(tensors=[Tensor(("w",), "parameter", kind, 8)])
    row = TensorStatistics(("w",), "float32", (2,), 8, 2, std=1.0, content="")
    before, after = (replace(document, weights=WeightsReport(tensors=[replace(row, std=std)])) for std in (1.0, 2.0))
    (change,) = compare_documents(before, after).tensors
    assert (change.values_equal, change.state) == (None, SAME)
    assert (change.before.std, change.after.std) == (1.0, 2.0)
