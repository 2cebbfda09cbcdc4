"""Detection and segmentation networks written by hand: boxes, masks and points."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo_models.registry import Inputs, Shelf

shelf = Shelf()
entries = shelf.entries


def _images(side: int = 32) -> Inputs:
    return (torch.randn(1, 3, side, side, generator=torch.Generator().manual_seed(0)),)


def _double(inside: int, outside: int) -> nn.Sequential:
    second = nn.Conv2d(outside, outside, 3, padding=1)
    return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.ReLU(True), second, nn.ReLU(True))


class UNet(nn.Module):
    def __init__(self, widths: tuple[int, ...] = (8, 16, 32)) -> None:
        super().__init__()
        pairs = list(zip((3, *widths), widths, strict=False))
        self.down = nn.ModuleList(_double(inside, outside) for inside, outside in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in reversed(pairs[1:]))
        self.mix = nn.ModuleList(_double(2 * a, a) for a, _ in reversed(pairs[1:]))
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for block in self.down:
            x = block(functional.max_pool2d(x, 2) if kept else x)
            kept.append(x)
        for up, mix, skip in zip(self.up, self.mix, reversed(kept[:-1]), strict=True):
            x = mix(torch.cat([up(x), skip], 1))
        return self.head(x)


@shelf("segmentation")
def unet() -> tuple[nn.Module, Inputs]:
    return UNet(), _images()


class DeepLab(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 2, 1)
        self.rates = nn.ModuleList(nn.Conv2d(16, 8, 3, padding=rate, dilation=rate) for rate in (1, 2, 4))
        self.head = nn.Conv2d(24, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.stem(x))
        y = self.head(torch.cat([rate(y) for rate in self.rates], 1))
        return functional.interpolate(y, x.shape[-2:], mode="bilinear", align_corners=False)


@shelf("segmentation")
def deeplab() -> tuple[nn.Module, Inputs]:
    return DeepLab(), _images()


@shelf("segmentation")
def unet_3d() -> tuple[nn.Module, Inputs]:
    body = (nn.Conv3d(1, 4, 3, padding=1), nn.InstanceNorm3d(4), nn.LeakyReLU(), nn.MaxPool3d(2))
    return nn.Sequential(*body, nn.ConvTranspose3d(4, 2, 2, 2)), (torch.randn(1, 1, 8, 8, 8),)


class Pyramid(nn.Module):
    """A feature pyramid with one shared head over its levels, as one-stage detectors have it."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList([nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 3, 2, 1), nn.Conv2d(16, 32, 3, 2, 1)])
        self.lateral = nn.ModuleList(nn.Conv2d(width, 16, 1) for width in (8, 16, 32))
        self.classes, self.boxes = nn.Conv2d(16, 12, 3, padding=1), nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, x: Tensor) -> list[dict[str, Tensor]]:
        levels = []
        for stage, lateral in zip(self.stages, self.lateral, strict=True):
            x = functional.relu(stage(x))
            levels.append(lateral(x))
        for i in (1, 0):
            levels[i] = levels[i] + functional.interpolate(levels[i + 1], scale_factor=2.0)
        return [{"classes": self.classes(level), "boxes": self.boxes(level).exp()} for level in levels]


@shelf("detection")
def retinanet() -> tuple[nn.Module, Inputs]:
    return Pyramid(), _images()


class Yolo(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = (3, 8, 16, 32)
        self.body = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.SiLU())
                for a, b in itertools.pairwise(widths)
            )
        )
        self.head = nn.Conv2d(32, 3 * 9, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.head(self.body(x))
        b, _, h, w = y.shape
        y = y.view(b, 3, 9, h, w).permute(0, 1, 3, 4, 2).contiguous()
        grid = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(h), indexing="xy"), -1)
        y[..., :2] = (y[..., :2].sigmoid() + grid) * 8
        return y.view(b, -1, 9)


@shelf("detection")
def yolo() -> tuple[nn.Module, Inputs]:
    return Yolo().eval(), _images()


class Suppressing(nn.Module):
    """Keeps the best boxes one by one, as non-maximum suppression does."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(4, 1)

    def forward(self, boxes: Tensor) -> Tensor:
        order = self.score(boxes).squeeze(-1).argsort(descending=True)
        kept: list[int] = []
        while order.numel():
            kept.append(int(order[0]))
            low = torch.maximum(boxes[order[0], :2], boxes[order[1:], :2])
            high = torch.minimum(boxes[order[0], 2:], boxes[order[1:], 2:])
            order = order[1:][(high - low).clamp(min=0).prod(-1) < 0.1]
        return boxes[kept]


@shelf("detection")
def suppression() -> tuple[nn.Module, Inputs]:
    corners = torch.rand(20, 2, generator=torch.Generator().manual_seed(0))
    return Suppressing(), (torch.cat([corners, corners + 0.4], -1),)


class DetectionTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 8, 8)
        self.transformer = nn.Transformer(16, 2, 1, 1, 32, batch_first=True)
        self.queries = nn.Parameter(torch.zeros(1, 5, 16))
        self.classes, self.boxes = nn.Linear(16, 4), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        memory = self.patches(x).flatten(2).transpose(1, 2)
        y = self.transformer(memory, self.queries.expand(x.shape[0], -1, -1))
        return {"classes": self.classes(y), "boxes": self.boxes(y).sigmoid()}


@shelf("detection")
def query_detector() -> tuple[nn.Module, Inputs]:
    return DetectionTransformer().eval(), _images()


class PointNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.transform = nn.Sequential(nn.Conv1d(3, 16, 1), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten())
        self.matrix = nn.Linear(16, 9)
        self.features = nn.Sequential(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU())
        self.head = nn.Linear(32, 10)

    def forward(self, points: Tensor) -> Tensor:
        matrix = self.matrix(self.transform(points)).view(-1, 3, 3)
        return self.head(self.features(torch.bmm(matrix, points)).max(-1).values)


@shelf("point cloud")
def pointnet() -> tuple[nn.Module, Inputs]:
    return PointNet().eval(), (torch.randn(2, 3, 64),)


class EdgeConv(nn.Module):
    """Features of each point's nearest neighbours, found by distance."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, points: Tensor) -> Tensor:
        nearest = torch.cdist(points, points).topk(4, largest=False).indices
        neighbours = points[torch.arange(len(points))[:, None, None], nearest]
        here = points.unsqueeze(2).expand_as(neighbours)
        return self.mlp(torch.cat([here, neighbours - here], -1)).amax(2)


@shelf("point cloud")
def edge_conv() -> tuple[nn.Module, Inputs]:
    return EdgeConv(), (torch.randn(2, 32, 3),)


class Keypoints(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 5, 1))

    def forward(self, x: Tensor) -> Tensor:
        heat = self.body(x)
        share = heat.flatten(2).softmax(-1).view_as(heat)
        rows, columns = torch.arange(heat.shape[2]), torch.arange(heat.shape[3])
        return torch.stack([(share.sum(3) * rows).sum(-1), (share.sum(2) * columns).sum(-1)], -1)


@shelf("detection")
def soft_keypoints() -> tuple[nn.Module, Inputs]:
    return Keypoints(), _images()
