"""Attention scores that are not computed until something other than attention reads them.

Within `FusedAttention`, the product of queries and keys is a tensor without data that notes what is done to it:
scaling, masks, softmax. Multiplied by values, it becomes one call of scaled_dot_product_attention. Anything else that
reads it runs the original ops. This costs about 0.1 ms per call of a module on the host, whatever the sizes.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode


@dataclass(eq=False)
class ScoresFate:
    """Where scores were made, and what became of them."""

    module: Any
    fused: bool = False
    read: bool = False


@dataclass(eq=False)
class ScoresOrigin:
    """Lives as long as scores, or anything deferred that was made from them."""

    fate: ScoresFate


@dataclass(frozen=True)
class PendingScores:
    """What was done to the product of queries and keys so far."""

    origin: ScoresOrigin
    query: Any
    key: Any
    """Both with rows of features, as scaled_dot_product_attention takes them."""
    replay: tuple[Any, Any, Any]
    """The last op with its arguments, among them the pending scores before it."""
    scale: float = 1.0
    bias: Any = None
    weights: bool = False
    """Whether softmax was applied."""


class DeferredScores(torch.Tensor):  # type: ignore[misc]
    """Scores or weights of attention without data."""

    pending: PendingScores

    @staticmethod
    def made(pending: PendingScores, shape: Any, dtype: Any) -> Any:
        """Deferred scores of this shape."""
        device = pending.query.device
        scores = torch.Tensor._make_wrapper_subclass(DeferredScores, shape, dtype=dtype, device=device)
        scores.pending = pending
        return scores

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The result of a function: deferred as well, fused, or computed from the original scores."""
        kwargs = kwargs or {}
        name = func.__self__.__name__ if func.__name__ == "__get__" else func.__name__
        if name in ("shape", "dtype", "device", "ndim", "requires_grad", "size", "dim", "numel", "is_floating_point"):
            return super().__torch_function__(func, types, args, kwargs)
        with torch._C.DisableTorchFunctionSubclass():  # steps read only shapes and dtypes of deferred scores
            result = next_scores(func, args, kwargs)
        return result if result is not None else func(*computed(args), **computed(kwargs))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The result of an op on the original scores."""
        return func(*computed(args), **computed(kwargs or {}))

    def __repr__(self) -> str:
        return f"DeferredScores({tuple(self.shape)})"


def computed(value: Any) -> Any:
    """Nested values with deferred scores replaced by the original ones."""

    def compute(scores: Any) -> Any:
        pending = scores.pending if isinstance(scores, DeferredScores) else scores
        pending.origin.fate.read = True
        func, args, kwargs = pending.replay
        return func(*computed(args), **computed(kwargs))

    return torch.utils._pytree.tree_map_only((DeferredScores, PendingScores), compute, value)


@cache
def known_steps() -> dict[str, Any]:
    """What can be done to deferred scores, by the name of the torch function."""
    steps: dict[str, Any] = dict.fromkeys(("mul", "rmul", "imul", "multiply"), scaled)
    steps |= dict.fromkeys(("div", "truediv", "itruediv", "true_divide", "divide"), divided)
    steps |= dict.fromkeys(("add", "radd", "iadd"), shifted) | dict.fromkeys(("to", "type_as"), cast)
    steps |= {"masked_fill": masked, "where": selected, "softmax": softmaxed, "dropout": dropped, "contiguous": same}
    return steps | {"matmul": attended, "bmm": attended, "einsum": attended_by_letters}


def next_scores(func: Any, args: Any, kwargs: Any) -> Any:
    """Deferred scores after `func`, or attention if it multiplies them by values; None if it is neither."""
    name = func.__name__.strip("_")
    step = known_steps().get(name)
    try:
        result = None if step is None else step(*args, **kwargs)
    except TypeError:  # arguments that the step does not know
        return None
    if not isinstance(result, PendingScores):
        return result
    first = next(each for each in args if isinstance(each, DeferredScores))
    if name in ("dropout", "contiguous"):
        return first
    pending = replace(result, replay=(func, tuple(first.pending if each is first else each for each in args), kwargs))
    inplace = (func.__name__.endswith("_") and not func.__name__.endswith("__")) or func.__name__.startswith("__i")
    if inplace:
        first.pending = pending
        return first
    dtype = kwargs.get("dtype") or (first.dtype if name not in ("to", "type_as") else result.query.dtype)
    return DeferredScores.made(pending, first.shape, dtype)


def is_deferred(value: Any, weights: bool) -> bool:
    """Whether it is deferred scores before softmax, or weights after it."""
    return isinstance(value, DeferredScores) and value.pending.weights is weights


def is_mask(mask: Any, scores: Any) -> bool:
    """Whether a tensor can be broadcast to the shape of the scores."""
    if not isinstance(mask, torch.Tensor) or isinstance(mask, DeferredScores) or mask.dim() > scores.dim():
        return False
    sizes = zip(reversed(mask.shape), reversed(scores.shape), strict=False)
    return all(own in (1, size) for own, size in sizes)


def scaled(scores: Any, other: Any) -> Any:
    """Scores times a number."""
    scores, other = (scores, other) if isinstance(scores, DeferredScores) else (other, scores)
    if not is_deferred(scores, False) or not isinstance(other, (int, float)):
        return None
    pending = scores.pending
    bias = None if pending.bias is None else pending.bias * other
    return replace(pending, scale=pending.scale * other, bias=bias)


def divided(scores: Any, other: Any) -> Any:
    """Scores divided by a number."""
    return scaled(scores, 1 / other) if isinstance(other, (int, float)) and other else None


def shifted(scores: Any, other: Any) -> Any:
    """Scores with a mask or bias added."""
    scores, other = (scores, other) if isinstance(scores, DeferredScores) else (other, scores)
    if not is_deferred(scores, False) or not is_mask(other, scores) or other.dtype != scores.dtype:
        return None
    bias = scores.pending.bias
    return replace(scores.pending, bias=other if bias is None else bias + other)


def masked(scores: Any, mask: Any, value: Any) -> Any:
    """Scores with a large negative number where the mask is true."""
    value = value.item() if isinstance(value, torch.Tensor) and value.device.type == "cpu" else value
    if not is_deferred(scores, False) or not isinstance(value, (int, float)) or value > -1e4:
        return None
    if not is_mask(mask, scores) or mask.dtype != torch.bool:
        return None
    bias = scores.pending.bias
    zeros = torch.zeros((), dtype=scores.dtype, device=mask.device) if bias is None else bias
    return replace(scores.pending, bias=torch.where(mask, value, zeros).to(scores.dtype))


def selected(condition: Any, scores: Any, other: Any) -> Any:
    """Scores with a large negative number where the condition is false."""
    return masked(scores, ~condition, other)


def softmaxed(scores: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """The weights that softmax makes of scores."""
    if not is_deferred(scores, False) or dim not in (-1, scores.dim() - 1) or not isinstance(_stacklevel, int):
        return None
    if dtype not in (None, scores.dtype, torch.float32):
        return None
    return replace(scores.pending, weights=True)


def dropped(weights: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """The same weights if dropout does nothing."""
    return same(weights) if not training or p == 0 else None


def same(scores: Any) -> Any:
    """The same scores."""
    return scores.pending if isinstance(scores, DeferredScores) else None


def cast(weights: Any, dtype: Any) -> Any:
    """The weights in the dtype of the queries."""
    dtype = dtype.dtype if isinstance(dtype, torch.Tensor) else dtype
    return weights.pending if is_deferred(weights, True) and dtype == weights.pending.query.dtype else None


def attended(weights: Any, value: Any) -> Any:
    """Attention: the values weighted."""
    if not is_deferred(weights, True) or isinstance(value, DeferredScores):
        return None
    pending, query = weights.pending, weights.pending.query
    fits = value.dim() == query.dim() and value.shape[:-1] == pending.key.shape[:-1]
    if not fits or value.dtype != query.dtype or weights.dtype != value.dtype:
        return None
    pending.origin.fate.fused = True
    tensors = [query, pending.key, value]
    if pending.bias is not None:
        missing = query.dim() - pending.bias.dim()
        tensors.append(pending.bias.reshape(*[1] * missing, *pending.bias.shape).expand(*weights.shape))
    attend = nn.functional.scaled_dot_product_attention
    if query.dim() != 3:
        return attend(*tensors, scale=pending.scale)
    # Kernels take four dimensions; what follows a product of three may need it to be contiguous.
    return attend(*(tensor[None] for tensor in tensors), scale=pending.scale)[0].contiguous()


def letters_of(equation: Any, count: int) -> Any:
    """The letters of both operands and of the result of an einsum; None if one of them repeats a letter."""
    if not isinstance(equation, str) or "." in equation or "->" not in equation:
        return None
    operands, result = equation.replace(" ", "").split("->")
    parts = [*operands.split(","), result]
    distinct = all(len(set(part)) == len(part) for part in parts)
    return parts if len(parts) == count + 1 and distinct else None


def attended_by_letters(equation: Any, weights: Any, value: Any) -> Any:
    """Attention written as an einsum of weights and values."""
    parts = letters_of(equation, 2)
    if parts is None or not is_deferred(weights, True):
        return None
    own, other, result = parts
    lead, row, column = own[:-2], own[-2], own[-1]
    feature = "".join(letter for letter in other if letter not in own)
    if len(feature) != 1 or sorted(other) != sorted(lead + column + feature):
        return None
    if sorted(result) != sorted(lead + row + feature):
        return None
    output = attended(weights, value.permute(*[other.index(letter) for letter in lead + column + feature]))
    made = lead + row + feature
    return None if output is None else output.permute(*[made.index(letter) for letter in result])


def product_operands(func: Any, args: Any, kwargs: Any) -> Any:
    """Queries and keys of a product that may be the scores of attention; None if it cannot be."""
    if kwargs or any(isinstance(each, DeferredScores) for each in args):
        return None
    if func.__name__ == "einsum" and len(args) == 3:
        parts = letters_of(args[0], 2)
        if parts is None:
            return None
        left, right, result = parts
        lead, row, column = result[:-2], result[-2:-1], result[-1:]
        feature = "".join(letter for letter in left if letter not in result)
        wanted = [lead + row + feature, lead + column + feature]
        if len(feature) != 1 or [sorted(left), sorted(right)] != [sorted(each) for each in wanted]:
            return None
        query = args[1].permute(*[left.index(letter) for letter in wanted[0]])
        key = args[2].permute(*[right.index(letter) for letter in wanted[1]])
    elif func.__name__ in ("matmul", "__matmul__", "bmm") and len(args) == 2 and args[1].dim() > 2:
        query, key = args[0], args[1].transpose(-2, -1)
    else:
        return None
    same_lead = query.dim() > 2 and query.shape[:-2] == key.shape[:-2] and query.shape[-1] == key.shape[-1]
    return (query, key) if same_lead and query.dtype == key.dtype and query.is_floating_point() else None


class FusedAttention(TorchFunctionMode):  # type: ignore[misc]
    """Within it, attention made of single ops becomes scaled_dot_product_attention."""

    module: Any = None
    """The module that runs, if someone keeps track."""
    notes: list[Any] | None = None
    """Collects the fate of all scores and references to their origins, if it is a list."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The result of a function; scores that are not computed yet if it may be the start of attention."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        operands = product_operands(func, args, kwargs) if name.strip("_") in ("matmul", "bmm", "einsum") else None
        if operands is None:
            return func(*args, **kwargs)
        query, key = operands
        origin = ScoresOrigin(ScoresFate(self.module))
        pending = PendingScores(origin, query, key, (func, args, kwargs))
        if self.notes is not None:
            self.notes.append((origin.fate, weakref.ref(origin)))
        return DeferredScores.made(pending, (*query.shape[:-1], key.shape[-2]), query.dtype)


DEFERRED_SCORES = (
    ScoresFate,
    ScoresOrigin,
    PendingScores,
    DeferredScores,
    *(
        computed,
        known_steps,
        next_scores,
        is_deferred,
        is_mask,
        scaled,
        divided,
        shifted,
        masked,
        selected,
        softmaxed,
        dropped,
    ),
    *(same, cast, attended, letters_of, attended_by_letters, product_operands, FusedAttention),
)
"""The parts of a change that uses `FusedAttention`."""
DEFERRED_SCORES_IMPORTS = (
    "import weakref",
    "from dataclasses import dataclass, replace",
    "from functools import cache",
    "from torch.overrides import TorchFunctionMode",
)
