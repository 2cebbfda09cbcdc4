"""Transformers of torch.nn, and decoders written by hand."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchscript_models.registry import Inputs, Shelf

shelf = Shelf()
entries = shelf.entries
BOTH = ("scripted", "traced")


@shelf("attention", *BOTH)
def transformer_encoder() -> tuple[nn.Module, Inputs]:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (torch.randn(2, 10, 32),)


@shelf("attention", *BOTH)
def transformer_encoder_norm_first() -> tuple[nn.Module, Inputs]:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 2, nn.LayerNorm(32), enable_nested_tensor=False), (torch.randn(2, 10, 32),)


@shelf("attention", *BOTH)
def transformer_decoder() -> tuple[nn.Module, Inputs]:
    layer = nn.TransformerDecoderLayer(32, 4, 64)
    return nn.TransformerDecoder(layer, 2), (torch.randn(7, 2, 32), torch.randn(10, 2, 32))


@shelf("attention", *BOTH)
def transformer() -> tuple[nn.Module, Inputs]:
    model = nn.Transformer(32, 4, 2, 2, 64, batch_first=True)
    return model, (torch.randn(2, 9, 32), torch.randn(2, 6, 32))


class MaskedEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.head = nn.Linear(32, 50)

    def forward(self, tokens: Tensor) -> Tensor:
        size = tokens.size(1)
        mask = torch.triu(torch.full((size, size), float("-inf")), diagonal=1)
        x = self.embed(tokens) * math.sqrt(32)
        return self.head(self.layer(x, src_mask=mask, src_key_padding_mask=tokens == 0))


@shelf("attention", *BOTH)
def masked_encoder() -> tuple[nn.Module, Inputs]:
    return MaskedEncoder(), (torch.randint(1, 50, (2, 8)),)


class SelfAttention(nn.Module):
    def __init__(self, weights: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, add_bias_kv=weights)
        self.weights = weights

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.attention(x, x, x, need_weights=self.weights)


@shelf("attention", "scripted")
def multihead_attention() -> tuple[nn.Module, Inputs]:
    return SelfAttention(weights=False), (torch.randn(6, 2, 32),)


@shelf("attention", *BOTH)
def multihead_attention_with_weights() -> tuple[nn.Module, Inputs]:
    return SelfAttention(weights=True), (torch.randn(6, 2, 32),)


class CrossAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, kdim=24, vdim=20, batch_first=True)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return self.attention(query, key, value)[0]


@shelf("attention", *BOTH)
def cross_attention() -> tuple[nn.Module, Inputs]:
    return CrossAttention(), (torch.randn(2, 5, 32), torch.randn(2, 9, 24), torch.randn(2, 9, 20))


class PositionalEncoding(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        position = torch.arange(64).unsqueeze(1)
        frequency = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(64, width)
        table[:, 0::2] = torch.sin(position * frequency)
        table[:, 1::2] = torch.cos(position * frequency)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[: x.size(1)]


class CausalAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.size()
        q, k, v = self.c_attn(x).split(c, dim=2)
        q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))


class NanoGpt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(64, 32)
        self.encoding = PositionalEncoding(32)
        self.h = nn.ModuleList(CausalAttention(32, 4) for _ in range(3))
        self.ln_f = nn.LayerNorm(32)
        self.lm_head = nn.Linear(32, 64, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.encoding(self.wte(idx))
        for block in self.h:
            x = x + block(x)
        x = self.ln_f(x)
        loss: Tensor | None = None
        if targets is not None:
            logits = self.lm_head(x)
            loss = functional.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        else:
            logits = self.lm_head(x[:, [-1], :])
        return logits, loss


@shelf("attention", "scripted")
def nano_gpt() -> tuple[nn.Module, Inputs]:
    return NanoGpt(), (torch.randint(0, 64, (2, 16)),)


@shelf("attention", *BOTH)
def nano_gpt_with_loss() -> tuple[nn.Module, Inputs]:
    return NanoGpt(), (torch.randint(0, 64, (2, 16)), torch.randint(0, 64, (2, 16)))


class CachedAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        if past is not None:
            k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(c // self.heads)
        y = torch.matmul(torch.softmax(scores, -1), v)
        return self.out(y.transpose(1, 2).reshape(b, t, c)), (k, v)


class Generator(nn.Module):
    """Generates with a cache of keys and values, one list item per layer."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.embed = nn.Embedding(40, 32)
        self.layers = nn.ModuleList(CachedAttention(32, 4) for _ in range(2))
        self.head = nn.Linear(32, 40)

    def step(self, tokens: Tensor, cache: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        x = self.embed(tokens)
        new: list[tuple[Tensor, Tensor]] = []
        for index, layer in enumerate(self.layers):
            past: tuple[Tensor, Tensor] | None = None
            if len(cache) > 0:
                past = cache[index]
            y, present = layer(x, past)
            x = x + y
            new.append(present)
        return self.head(x[:, -1]).argmax(-1, keepdim=True), new

    def forward(self, prompt: Tensor) -> Tensor:
        cache: list[tuple[Tensor, Tensor]] = []
        token, cache = self.step(prompt, cache)
        generated = [token]
        for _ in range(self.steps - 1):
            token, cache = self.step(token, cache)
            generated.append(token)
        return torch.cat(generated, dim=1)


@shelf("attention", *BOTH)
def generator_with_cache() -> tuple[nn.Module, Inputs]:
    return Generator(4), (torch.randint(0, 40, (1, 6)),)


class RotaryAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv, self.o = nn.Linear(32, 32, False), nn.Linear(32, 32, False), nn.Linear(32, 32, False)
        self.register_buffer("frequency", 1.0 / (10000 ** (torch.arange(0, 8, 2) / 8)))

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
        return x * cos + turned * sin

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        angles = torch.outer(torch.arange(t, device=x.device, dtype=torch.float32), self.frequency)
        angles = torch.cat((angles, angles), dim=-1)
        q = self.rotate(self.q(x).view(b, t, 4, 8).transpose(1, 2), angles.cos(), angles.sin())
        k, v = self.kv(x).view(b, t, 4, 8).transpose(1, 2).chunk(2, dim=1)
        k = self.rotate(k, angles.cos(), angles.sin()).repeat_interleave(2, dim=1)
        y = functional.scaled_dot_product_attention(q, k, v.repeat_interleave(2, dim=1), is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, t, -1))


@shelf("attention", *BOTH)
def rotary_grouped_attention() -> tuple[nn.Module, Inputs]:
    return RotaryAttention(), (torch.randn(2, 12, 32),)


class Experts(nn.Module):
    """A mixture of experts whose routing depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(16, 4)
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.router(x).softmax(-1).topk(2, dim=-1)
        out = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            share = (weights * (chosen == index)).sum(-1, keepdim=True)
            out = out + expert(x) * share
        return out


@shelf("attention", *BOTH)
def mixture_of_experts() -> tuple[nn.Module, Inputs]:
    return Experts(), (torch.randn(10, 16),)


class SelectiveScan(nn.Module):
    """A state space layer: a loop over time with a state per channel."""

    def __init__(self) -> None:
        super().__init__()
        self.in_proj = nn.Linear(16, 64)
        self.conv = nn.Conv1d(32, 32, 4, groups=32, padding=3)
        self.x_proj = nn.Linear(32, 2 + 8 + 8, bias=False)
        self.dt_proj = nn.Linear(2, 32)
        self.a_log = nn.Parameter(torch.zeros(32, 8))
        self.d = nn.Parameter(torch.ones(32))
        self.out_proj = nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        length = x.size(1)
        hidden, gate = self.in_proj(x).chunk(2, dim=-1)
        hidden = functional.silu(self.conv(hidden.transpose(1, 2))[..., :length].transpose(1, 2))
        step, b, c = self.x_proj(hidden).split([2, 8, 8], dim=-1)
        step = functional.softplus(self.dt_proj(step))
        decay = torch.exp(step.unsqueeze(-1) * -torch.exp(self.a_log))
        drive = step.unsqueeze(-1) * b.unsqueeze(2) * hidden.unsqueeze(-1)
        state = torch.zeros_like(drive[:, 0])
        outputs: list[Tensor] = []
        for t in range(length):
            state = decay[:, t] * state + drive[:, t]
            outputs.append(torch.einsum("bdn,bn->bd", state, c[:, t]))
        y = torch.stack(outputs, dim=1) + hidden * self.d
        return self.out_proj(y * functional.silu(gate))


@shelf("attention", *BOTH)
def selective_scan() -> tuple[nn.Module, Inputs]:
    return SelectiveScan(), (torch.randn(2, 6, 16),)
