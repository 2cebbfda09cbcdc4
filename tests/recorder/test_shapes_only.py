"""A pass on shapes that was asked for: ops that need data follow policies, and nothing runs with data instead."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import assay
from assay.recorder import passes

RAN = []
"""The devices on which the custom kernels ran."""


def suppress(boxes, scores, threshold):
    RAN.append(boxes.device.type)
    return scores.argsort(descending=True)[: boxes.shape[0] // 2]


def pool(features, boxes, scale, height, width, ratio, aligned):
    RAN.append(boxes.device.type)
    return features.new_zeros(boxes.shape[0], features.shape[1], height, width)


def refuse(*_):
    raise NotImplementedError("this kernel needs a CPU tensor")


@pytest.fixture(scope="module", autouse=True)
def libraries():
    """Ops with the names and arguments of torchvision's, without meta kernels; one library that refuses meta."""
    definitions = {
        "torchvision": [
            ("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", suppress),
            (
                "roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, "
                "int sampling_ratio, bool aligned) -> Tensor",
                pool,
            ),
        ],
        "othernms": [("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", suppress)],
        "picky": [("select(Tensor x) -> Tensor", refuse)],
        "choosy": [("pick(Tensor x) -> Tensor", lambda x: x.flatten().nonzero())],
    }
    kept = []
    for namespace, ops in definitions.items():
        library = torch.library.Library(namespace, "FRAGMENT")
        kept.append(library)
        for schema, kernel in ops:
            name = schema.partition("(")[0]
            if not hasattr(getattr(torch.ops, namespace), name):
                library.define(schema)
            library.impl(name, kernel, "CPU")
            library.impl(name, refuse, "Meta")
    yield
    for library in kept:
        library._destroy()


class Detector(nn.Module):
    """A backbone, boxes for every position, suppression, and a head on the regions that are left."""

    def __init__(self, namespace):
        super().__init__()
        self.backbone = nn.Conv2d(3, 5, 3, padding=1)
        self.head = nn.Linear(5 * 4, 7)
        self.namespace = namespace

    def forward(self, image):
        features = self.backbone(image)
        boxes = features.flatten(2).transpose(1, 2)[0]
        kept = getattr(torch.ops, self.namespace).nms(boxes[:, :4], boxes[:, 4], 0.5)
        regions = nn.functional.pad(boxes[kept][:, :4], (1, 0))
        pooled = torch.ops.torchvision.roi_align(features, regions, 1.0, 2, 2, 0, False)
        return self.head(pooled.flatten(1))


@pytest.mark.parametrize("namespace", ["torchvision", "othernms"])
def test_a_detector_runs_on_shapes_with_every_box_kept(namespace):
    RAN.clear()
    document = assay.observe(Detector(namespace), (torch.randn(1, 3, 4, 6),), mode="meta")
    assert document.complete
    assert document.run.mode == "meta"
    assert RAN == []
    (head,) = [call for call in document.calls if document.modules[call.module].path == "head"]
    assert head.inputs[0].shape == (24, 20)
    assert any("24 boxes" in line for line in document.run.assumptions)


class Picky(nn.Module):
    """Runs one large convolution, then an op that needs data."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return torch.ops.picky.select(self.conv(x))


@pytest.mark.parametrize("mode", ["meta", "fake"])
def test_a_pass_on_shapes_is_never_replaced_by_one_with_data(mode):
    document = assay.observe(Picky(), (torch.randn(1, 3, 8, 8),), mode=mode)
    assert document.run.mode == mode
    assert document.run.failure.op == "picky.select.default"
    assert document.run.failure.error.startswith("cannot run on shapes only: ")
    assert "--real" in document.run.failure.error
    assert not any("pass was used instead" in line for line in document.run.assumptions)


class Settles(nn.Module):
    """Needs values after its only product."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width, bias=False)

    def forward(self, x):
        x = self.layer(x)
        while x.norm().item() > 1e-3:
            x = x / 2
        return x


def test_made_up_weights_are_used_unless_the_pass_on_shapes_was_large(monkeypatch):
    with torch.device("meta"):
        model = Settles(8)
    assert passes.observe(model, (torch.ones(5, 8),), {}).mode == "made-up"
    monkeypatch.setattr(passes, "MADE_UP_FLOPS", 2 * 5 * 8 * 8 - 1)
    refused = passes.observe(model, (torch.ones(5, 8),), {})
    assert refused.mode == "meta"
    assert refused.failure is not None
    assert passes.observe(model, (torch.ones(5, 8),), {}, mode="real").mode == "made-up"


def test_an_error_of_the_model_itself_keeps_its_text():
    result = passes.observe(nn.Linear(4, 4), (torch.randn(2, 5),), {}, mode="meta")
    assert "shapes only" not in result.failure.error
    assert "expected … x 4" in result.failure.error


def test_an_op_whose_shape_depends_on_data_is_not_run_on_made_up_values():
    class Picks(nn.Module):
        def forward(self, x):
            return torch.ops.choosy.pick(x).float()

    result = passes.observe(Picks(), (torch.rand(4),), {}, mode="meta")
    assert "cannot run on shapes only" in result.failure.error
    assert "depends on data" in result.failure.error
