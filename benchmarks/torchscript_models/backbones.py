"""Vision transformers, ConvNeXt and MLP-Mixer."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchscript_models.images import images
from torchscript_models.registry import Inputs, Shelf

shelf = Shelf()
entries = shelf.entries
BOTH = ("scripted", "traced")


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1)
        x = functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer_scale = nn.Parameter(torch.ones(width, 1, 1) * 1e-6)
        self.dwconv = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.pwconv1 = nn.Linear(width, 4 * width)
        self.act = nn.GELU()
        self.pwconv2 = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.dwconv(x).permute(0, 2, 3, 1)
        y = self.pwconv2(self.act(self.pwconv1(self.norm(y))))
        return x + self.layer_scale * y.permute(0, 3, 1, 2)


@shelf("vision", *BOTH)
def convnext() -> tuple[nn.Module, Inputs]:
    stem = nn.Sequential(nn.Conv2d(3, 32, 4, 4), LayerNorm2d(32))
    body = (stem, ConvNextBlock(32), ConvNextBlock(32), LayerNorm2d(32), nn.Conv2d(32, 64, 2, 2), ConvNextBlock(64))
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)), images(64)


class EncoderBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, input: Tensor) -> Tensor:
        torch._assert(input.dim() == 3, f"Expected (batch, length, width), got {input.shape}")
        x = self.ln_1(input)
        x, _ = self.self_attention(x, x, x, need_weights=False)
        x = x + input
        return x + self.mlp(self.ln_2(x))


class VisionTransformer(nn.Module):
    def __init__(self, width: int = 48, heads: int = 4, depth: int = 3, patch: int = 8) -> None:
        super().__init__()
        self.patch_size = patch
        self.conv_proj = nn.Conv2d(3, width, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embedding = nn.Parameter(torch.zeros(1, 65, width))
        self.layers = nn.Sequential(*(EncoderBlock(width, heads) for _ in range(depth)))
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, 100)

    def _process_input(self, x: Tensor) -> Tensor:
        n, _, h, w = x.shape
        torch._assert(h % self.patch_size == 0, "Wrong image height!")
        x = self.conv_proj(x)
        return x.reshape(n, x.size(1), (h // self.patch_size) * (w // self.patch_size)).permute(0, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self._process_input(x)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], dim=1)
        return self.head(self.ln(self.layers(x + self.pos_embedding))[:, 0])


@shelf("vision", *BOTH)
def vit() -> tuple[nn.Module, Inputs]:
    return VisionTransformer(), images(64)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.heads = heads
        self.fused = fused
        self.scale = (width // heads) ** -0.5
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        if self.fused:
            x = functional.scaled_dot_product_attention(q, k, v)
        else:
            x = ((q * self.scale) @ k.transpose(-2, -1)).softmax(dim=-1) @ v
        return self.proj(x.transpose(1, 2).reshape(b, n, c))


class TimmBlock(nn.Module):
    def __init__(self, width: int, fused: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, 4, fused)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchTransformer(nn.Module):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.patch_embed = nn.Conv2d(3, 64, 8, 8)
        self.blocks = nn.ModuleList(TimmBlock(64, fused) for _ in range(3))
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(dim=1))


@shelf("vision", *BOTH)
def deit_fused() -> tuple[nn.Module, Inputs]:
    return PatchTransformer(fused=True), images(64)


@shelf("vision", *BOTH)
def deit() -> tuple[nn.Module, Inputs]:
    return PatchTransformer(fused=False), images(64)


def window_partition(x: Tensor, window: int) -> Tensor:
    b, h, w, c = x.shape
    x = x.view(b, h // window, window, w // window, window, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, window * window, c)


class ShiftedWindowAttention(nn.Module):
    def __init__(self, width: int, heads: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        rows = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        relative = (rows[:, :, None] - rows[:, None, :]).permute(1, 2, 0) + window - 1
        self.register_buffer("relative_position_index", relative[..., 0] * (2 * window - 1) + relative[..., 1])

    def _bias(self) -> Tensor:
        area = self.window * self.window
        table = self.relative_position_bias_table[self.relative_position_index.view(-1)]
        return table.view(area, area, -1).permute(2, 0, 1).unsqueeze(0)

    def _mask(self, x: Tensor, h: int, w: int) -> Tensor:
        mask = x.new_zeros((1, h, w, 1))
        slices = ((0, -self.window), (-self.window, -self.shift), (-self.shift, 0))
        count = 0
        for top, bottom in slices:
            for left, right in slices:
                mask[:, top : (bottom if bottom != 0 else h), left : (right if right != 0 else w)] = count
                count += 1
        windows = window_partition(mask, self.window).squeeze(-1)
        difference = windows.unsqueeze(1) - windows.unsqueeze(2)
        return difference.masked_fill(difference != 0, -100.0).masked_fill(difference == 0, 0.0)

    def forward(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        shifted = torch.roll(x, shifts=(-self.shift, -self.shift), dims=(1, 2)) if self.shift > 0 else x
        windows = window_partition(shifted, self.window)
        qkv = self.qkv(windows).reshape(windows.size(0), windows.size(1), 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attention = (q * (c // self.heads) ** -0.5).matmul(k.transpose(-2, -1)) + self._bias()
        if self.shift > 0:
            mask = self._mask(x, h, w)
            attention = attention.view(b, -1, self.heads, attention.size(-2), attention.size(-1))
            attention = (attention + mask.unsqueeze(1).unsqueeze(0)).flatten(0, 1)
        out = functional.softmax(attention, dim=-1).matmul(v).transpose(1, 2).reshape_as(windows)
        out = self.proj(out).view(b, h // self.window, w // self.window, self.window, self.window, c)
        out = out.permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return torch.roll(out, shifts=(self.shift, self.shift), dims=(1, 2)) if self.shift > 0 else out


class SwinBlock(nn.Module):
    def __init__(self, width: int, shift: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = ShiftedWindowAttention(width, 4, 4, shift)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchMerging(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.reduction = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h, w = x.shape[-3:-1]
        x = functional.pad(x, (0, 0, 0, w % 2, 0, h % 2))
        parts = [x[..., 0::2, 0::2, :], x[..., 1::2, 0::2, :], x[..., 0::2, 1::2, :], x[..., 1::2, 1::2, :]]
        return self.reduction(torch.cat(parts, -1))


class Swin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 32, 4, 4)
        self.stage1 = nn.Sequential(SwinBlock(32, 0), SwinBlock(32, 2))
        self.merge = PatchMerging(32)
        self.stage2 = nn.Sequential(SwinBlock(64, 0), SwinBlock(64, 2))
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x).permute(0, 2, 3, 1)
        x = self.stage2(self.merge(self.stage1(x)))
        return self.head(x.mean(dim=[1, 2]))


@shelf("vision", *BOTH)
def swin() -> tuple[nn.Module, Inputs]:
    return Swin(), images(64)


class MixerBlock(nn.Module):
    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.channels = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 8, 8)
        self.blocks = nn.Sequential(MixerBlock(64, 32), MixerBlock(64, 32))
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.stem(x).flatten(2).transpose(1, 2))
        return self.head(x.mean(1))


@shelf("vision", *BOTH)
def mlp_mixer() -> tuple[nn.Module, Inputs]:
    return Mixer(), images(64)
