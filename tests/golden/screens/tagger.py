"""A small tagger with repeated blocks, a tied weight, a layer with two names, an unused one and a constant weight."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Self-attention with one projection for queries, keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output_projection = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.query_key_value(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.output_projection(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a feed-forward network, each added to its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, 4)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))


class Tagger(nn.Module):
    """Two tags per token, from four blocks over embedded tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(512, 128)
        self.blocks = nn.ModuleList(Block(128) for _ in range(4))
        self.convolution = nn.Conv1d(128, 128, 3, padding=1)
        self.convolution_norm = nn.BatchNorm1d(128)
        self.activation = nn.ReLU()
        self.spare_projection = nn.Linear(128, 128)
        self.tag_classifier_for_every_token_of_the_sentence = nn.Linear(128, 2)
        self.language_model_head = nn.Linear(128, 512, bias=False)
        self.language_model_head.weight = self.embedding.weight
        self.final_norm = self.convolution_norm
        nn.init.constant_(self.tag_classifier_for_every_token_of_the_sentence.weight, 0.5)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        x = self.activation(self.convolution(self.activation(x).transpose(1, 2)))
        x = self.convolution_norm(x).transpose(1, 2)
        return self.tag_classifier_for_every_token_of_the_sentence(x), self.language_model_head(x)


def load() -> Tagger:
    """The tagger with fixed weights."""
    torch.manual_seed(0)
    return Tagger().eval()
