"""Segmentation and other dense predictions."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchscript_models.images import images
from torchscript_models.registry import Inputs, Shelf

shelf = Shelf()
entries = shelf.entries
BOTH = ("scripted", "traced")


class DoubleConv(nn.Module):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(inside, outside, 3, padding=1),
            nn.BatchNorm2d(outside),
            nn.ReLU(inplace=True),
            nn.Conv2d(outside, outside, 3, padding=1),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.double_conv(x)


class Up(nn.Module):
    def __init__(self, inside: int, outside: int, bilinear: bool) -> None:
        super().__init__()
        bigger = nn.Upsample(scale_factor=2.0, mode="bilinear", align_corners=True)
        self.up: nn.Module = bigger if bilinear else nn.ConvTranspose2d(inside, inside, 2, 2)
        self.conv = DoubleConv(inside + outside, outside)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        x1 = self.up(x1)
        rows, columns = x2.size(2) - x1.size(2), x2.size(3) - x1.size(3)
        x1 = functional.pad(x1, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self, bilinear: bool) -> None:
        super().__init__()
        self.inc = DoubleConv(3, 16)
        self.down1 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(16, 32))
        self.down2 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(32, 64))
        self.up1 = Up(64, 32, bilinear)
        self.up2 = Up(32, 16, bilinear)
        self.outc = nn.Conv2d(16, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        return self.outc(self.up2(self.up1(x3, x2), x1))


@shelf("segmentation", *BOTH)
def unet() -> tuple[nn.Module, Inputs]:
    return UNet(bilinear=True), images(66)


@shelf("segmentation", *BOTH)
def unet_transposed() -> tuple[nn.Module, Inputs]:
    return UNet(bilinear=False), images(64)


def _backbone() -> nn.ModuleDict:
    return nn.ModuleDict(
        {
            "stem": nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU()),
            "layer1": nn.Sequential(nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()),
            "layer2": nn.Sequential(nn.Conv2d(32, 64, 3, 1, 2, dilation=2), nn.ReLU()),
        }
    )


class FCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = _backbone()
        self.classifier = nn.Sequential(
            nn.Conv2d(64, 16, 3, padding=1), nn.ReLU(), nn.Dropout(0.1), nn.Conv2d(16, 21, 1)
        )
        self.aux_classifier = nn.Conv2d(32, 21, 1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        size = x.shape[-2:]
        features: dict[str, Tensor] = {}
        for name, layer in self.backbone.items():
            x = layer(x)
            features[name] = x
        result: dict[str, Tensor] = {}
        out = self.classifier(features["layer2"])
        result["out"] = functional.interpolate(out, size=size, mode="bilinear", align_corners=False)
        aux = self.aux_classifier(features["layer1"])
        result["aux"] = functional.interpolate(aux, size=size, mode="bilinear", align_corners=False)
        return result


@shelf("segmentation", *BOTH)
def fcn() -> tuple[nn.Module, Inputs]:
    return FCN(), images(64)


class ASPPPooling(nn.Sequential):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__(nn.AdaptiveAvgPool2d(1), nn.Conv2d(inside, outside, 1, bias=False), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        size = x.shape[-2:]
        for mod in self:
            x = mod(x)
        return functional.interpolate(x, size=size, mode="bilinear", align_corners=False)


class ASPP(nn.Module):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        rates = (nn.Conv2d(inside, outside, 3, padding=rate, dilation=rate) for rate in (2, 4, 6))
        self.convs = nn.ModuleList([nn.Conv2d(inside, outside, 1), *rates, ASPPPooling(inside, outside)])
        self.project = nn.Conv2d(5 * outside, outside, 1)

    def forward(self, x: Tensor) -> Tensor:
        results = []
        for conv in self.convs:
            results.append(conv(x))
        return self.project(torch.cat(results, dim=1))


class DeepLab(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(*_backbone().values())
        self.head = nn.Sequential(ASPP(64, 16), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 21, 1))

    def forward(self, x: Tensor) -> Tensor:
        out = self.head(self.backbone(x))
        return functional.interpolate(out, size=x.shape[-2:], mode="bilinear", align_corners=False)


@shelf("segmentation", *BOTH)
def deeplab() -> tuple[nn.Module, Inputs]:
    return DeepLab(), images(64)


class FeaturePyramid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bottom = nn.ModuleList(
            [nn.Conv2d(3, 16, 3, 2, 1), nn.Conv2d(16, 32, 3, 2, 1), nn.Conv2d(32, 64, 3, 2, 1)]
        )
        self.inner_blocks = nn.ModuleList([nn.Conv2d(width, 24, 1) for width in (16, 32, 64)])
        self.layer_blocks = nn.ModuleList([nn.Conv2d(24, 24, 3, padding=1) for _ in range(3)])

    def get_result_from_inner_blocks(self, x: Tensor, idx: int) -> Tensor:
        num_blocks = len(self.inner_blocks)
        if idx < 0:
            idx += num_blocks
        out = x
        for i, module in enumerate(self.inner_blocks):
            if i == idx:
                out = module(x)
        return out

    def get_result_from_layer_blocks(self, x: Tensor, idx: int) -> Tensor:
        out = x
        for i, module in enumerate(self.layer_blocks):
            if i == idx:
                out = module(x)
        return out

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        x: list[Tensor] = []
        for layer in self.bottom:
            image = torch.relu(layer(image))
            x.append(image)
        last_inner = self.get_result_from_inner_blocks(x[-1], -1)
        results = [self.get_result_from_layer_blocks(last_inner, len(x) - 1)]
        for idx in range(len(x) - 2, -1, -1):
            lateral = self.get_result_from_inner_blocks(x[idx], idx)
            top_down = functional.interpolate(last_inner, size=lateral.shape[-2:], mode="nearest")
            last_inner = lateral + top_down
            results.insert(0, self.get_result_from_layer_blocks(last_inner, idx))
        results.append(functional.max_pool2d(results[-1], kernel_size=1, stride=2, padding=0))
        return {str(index): level for index, level in enumerate(results)}


@shelf("segmentation", *BOTH)
def feature_pyramid() -> tuple[nn.Module, Inputs]:
    return FeaturePyramid(), images(64)


class AnchorHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 4, 1)
        self.score = nn.Conv2d(16, 3, 1)
        self.boxes = nn.Conv2d(16, 12, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = torch.relu(self.stem(x))
        n, _, h, w = features.shape
        scores = self.score(features).permute(0, 2, 3, 1).reshape(n, -1)
        deltas = self.boxes(features).view(n, -1, 4, h, w).permute(0, 3, 4, 1, 2).reshape(n, -1, 4)
        ys = torch.arange(0, h, dtype=torch.float32, device=x.device) * 4
        xs = torch.arange(0, w, dtype=torch.float32, device=x.device) * 4
        grid_y, grid_x = torch.meshgrid(ys, xs, indexing="ij")
        anchors = torch.stack((grid_x, grid_y, grid_x + 16, grid_y + 16), dim=-1).reshape(-1, 1, 4)
        boxes = (anchors.expand(-1, 3, 4).reshape(1, -1, 4) + deltas).clamp(min=0, max=64)
        top, chosen = scores.sigmoid().topk(20, dim=1)
        return boxes.gather(1, chosen.unsqueeze(-1).expand(-1, -1, 4)), top


@shelf("detection", *BOTH)
def anchor_head() -> tuple[nn.Module, Inputs]:
    return AnchorHead(), images(64)


class SuperResolution(nn.Module):
    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor
        self.conv1 = nn.Conv2d(1, 32, 5, padding=2, padding_mode="reflect")
        self.conv2 = nn.Conv2d(32, factor**2, 3, padding="same")

    def forward(self, x: Tensor) -> Tensor:
        residual = functional.pixel_shuffle(self.conv2(torch.relu(self.conv1(x))), self.factor)
        return residual + functional.interpolate(x, scale_factor=float(self.factor), mode="bicubic")


@shelf("segmentation", *BOTH)
def super_resolution() -> tuple[nn.Module, Inputs]:
    return SuperResolution(3), images(32, 1)


class SpatialTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.localisation = nn.Sequential(nn.Conv2d(3, 8, 7, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.theta = nn.Linear(32, 6)
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        theta = self.theta(self.localisation(x)).view(-1, 2, 3)
        grid = functional.affine_grid(theta, x.size(), align_corners=False)
        return self.conv(functional.grid_sample(x, grid, align_corners=False))


@shelf("segmentation", *BOTH, counted=False)
def spatial_transformer() -> tuple[nn.Module, Inputs]:
    return SpatialTransformer(), images(32)
