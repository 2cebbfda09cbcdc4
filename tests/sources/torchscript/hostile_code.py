"""Code that never ends, or needs more memory than there is."""

from __future__ import annotations

from functools import partial

import archives
from archives import forward
from hostile import Case

HUGE = 1 << 40
ENDLESS = 1 << 62


def cases() -> list[Case]:
    """One case per row of the tables."""
    return [*_programs(LOOPS, "loop"), *_programs(GROWTH, "growth"), *_programs(SIZES, "size"), *_nested(), *_calls()]


def _programs(table: dict[str, tuple[str, str]], kind: str) -> list[Case]:
    return [program(f"{kind}-{name}", why, body, valid=name not in REFUSED) for name, (why, body) in table.items()]


def program(name: str, why: str, body: str, before: str = "", valid: bool = True) -> Case:
    """A case whose forward method consists of `body`."""
    return Case(name, why, partial(archives.write, code=forward(body, before)), valid)


def _repeat(times: int, body: str, before: str = "", result: str = "x") -> str:
    lines = "".join(f"\n  {line}" for line in body.splitlines())
    return f"{before}for _i in range({times}):{lines}\nreturn {result}"


LOOPS = {
    "endless": ("an endless loop", "_0 = True\nwhile _0:\n  x = torch.add(x, 1)\n  _0 = True\nreturn x"),
    "endless-numbers": (
        "an endless loop without tensors",
        "_0 = True\nn = 0\nwhile _0:\n  n = torch.add(n, 1)\n  _0 = torch.ge(n, 0)\nreturn x",
    ),
    "long": ("2^62 steps", _repeat(ENDLESS, "x = torch.add(x, 1)")),
    "long-empty": ("2^62 steps that do nothing", _repeat(ENDLESS, "pass")),
    "long-backwards": ("2^62 steps downwards", f"for _i in range({ENDLESS}, 0, -1):\n  pass\nreturn x"),
    "nested": (
        "10^24 steps in six loops",
        "".join(f"{'  ' * depth}for _{depth} in range(10000):\n" for depth in range(6)) + f"{'  ' * 6}pass\nreturn x",
    ),
    "until-a-value": (
        "a loop until a computed value changes, which it never does",
        "_0 = True\nwhile _0:\n  _0 = bool(torch.eq(torch.sum(torch.mul(x, 0)), 0))\nreturn x",
    ),
    "slow-ops": (
        "24,000 ops whose shapes take milliseconds each",
        _repeat(24_000, "y = torch.upsample_bilinear2d(x, [30, 30], False, None, None)"),
    ),
    "slow-attention": (
        "an endless loop of attention",
        "_0 = True\nwhile _0:\n"
        "  x = torch.scaled_dot_product_attention(x, x, x, None, 0., True)\n  _0 = True\nreturn x",
    ),
    "many-ops": ("ten million ops", _repeat(10_000_000, "x = torch.relu(x)")),
}

_LONG_LIST = "l = torch.add(torch.mul([1], 32767), [2])\n"

GROWTH = {
    "list": (
        "a list that doubles 62 times",
        _repeat(62, "l = torch.add(l, l)", "l = annotate(List[Tensor], [x])\n"),
    ),
    "list-extended": (
        "a list that is extended by itself",
        _repeat(62, "torch.extend(l, l)", "l = annotate(List[int], [1])\n"),
    ),
    "list-repeated": ("a list repeated 2^62 times", f"l = torch.mul([1, 2], {ENDLESS})\nreturn x"),
    "list-appended": (
        "a list that grows in a long loop",
        _repeat(HUGE, "_0 = torch.append(l, x)", "l = annotate(List[Tensor], [])\n"),
    ),
    "list-of-lists": (
        "lists that hold the previous list twice, exponential when followed",
        "l0 = [x, x]\n" + "\n".join(f"l{i} = [l{i - 1}, l{i - 1}]" for i in range(1, 60)) + "\nreturn x",
    ),
    "tuple-of-tuples": (
        "tuples that hold the previous tuple twice",
        "t0 = (x, x)\n" + "\n".join(f"t{i} = (t{i - 1}, t{i - 1})" for i in range(1, 30)) + "\nreturn x",
    ),
    "list-nested": ("a list that holds the previous one", _repeat(HUGE, "l = [l]", "l = [1]\n")),
    "list-sorted": ("a long list that is sorted over and over", _repeat(HUGE, "l = sorted(l)", _LONG_LIST)),
    "list-searched": (
        "a long list that is searched over and over",
        _repeat(HUGE, "n = torch.index(l, 2)", _LONG_LIST),
    ),
    "list-to-tensor": ("a long list that becomes a tensor", _repeat(HUGE, "t = torch.tensor(l)", _LONG_LIST)),
    "list-concatenated": (
        "a long list of tensors that is concatenated over and over",
        _repeat(HUGE, "y = torch.cat(l)", "l = torch.mul([x], 32768)\n"),
    ),
    "recurrent": (
        "a recurrent layer over sixty thousand steps",
        _repeat(
            HUGE,
            "y = torch.gru(torch.zeros([60000, 1, 1]), torch.zeros([1, 1, 1]), w, True, 1, 0., False, False, False)",
            "w = [torch.zeros([3, 1]), torch.zeros([3, 1]), torch.zeros([3]), torch.zeros([3])]\n",
        ),
    ),
    "known-sorted": (
        "a million known numbers that are sorted over and over",
        _repeat(HUGE, "t, i = torch.sort(torch.arange(1000000))"),
    ),
    "dict": (
        "a dict that grows in a long loop",
        _repeat(HUGE, "torch._set_item(d, _i, x)", "d = annotate(Dict[int, Tensor], {})\n"),
    ),
    "string": ("a string that doubles 62 times", _repeat(62, "s = torch.add(s, s)", 's = "hostile"\n')),
    "string-joined": (
        "a string joined from itself",
        _repeat(62, "s = torch.join(s, [s, s, s])", 's = "hostile"\n'),
    ),
    "string-replaced": (
        "a string whose letters are replaced by itself",
        _repeat(62, 's = torch.replace(s, "a", s)', 's = "aa"\n'),
    ),
    "format-width": ("a format with a huge width", 's = torch.format("{:>9999999999}", 1)\nreturn x'),
    "format-doubling": ("formats that double", _repeat(62, 's = torch.format("{}{}", s, s)', 's = "ab"\n')),
    "percent-width": ("a percent format with a huge width", 's = torch.percentFormat("%9999999999d", 1)\nreturn x'),
    "tensor": ("a tensor that doubles 200 times", _repeat(200, "x = torch.cat([x, x])")),
    "tensor-stacked": ("a tensor with ever more dimensions", _repeat(10_000, "x = torch.stack([x, x])")),
    "number-squared": ("a number squared 62 times", _repeat(62, "n = torch.mul(n, n)", "n = 3\n")),
    "number-power": ("powers of powers", "n = torch.pow(10, torch.pow(10, 9))\nreturn x"),
    "number-shift": ("a shift by 2^40", f"n = torch.__lshift__(1, {HUGE})\nreturn x"),
    "matrix-power": (
        "powers of a matrix of known numbers",
        _repeat(HUGE, f"y = torch.matrix_power(t, {ENDLESS})", "t = torch.ones([400, 400], dtype=4)\n"),
    ),
    "number-factorial": ("the factorial of 10^9", "n = torch.factorial(1000000000)\nreturn x"),
    "known-values": (
        "a known tensor that doubles",
        _repeat(62, "t = torch.cat([t, t])", "t = torch.tensor([1, 2])\n", "torch.add(x, int(torch.sum(t)))"),
    ),
}


def _filled(expression: str) -> str:
    """A program that needs the values of a huge tensor."""
    return f"t = {expression}\nn = int(torch.sum(t))\nreturn torch.add(x, n)"


_DEFAULTS = "dtype=None, layout=None, device=None, pin_memory=False"

SIZES = {
    "zeros": ("a huge factory", f"return torch.zeros([{HUGE}])"),
    "zeros-on-cpu": (
        "a huge factory on a device",
        f'return torch.zeros([{HUGE}], dtype=6, layout=0, device=torch.device("cpu"))',
    ),
    "zeros-summed": ("the values of a huge tensor", _filled(f"torch.zeros([{HUGE}], dtype=4)")),
    "overflow": ("a factory whose size overflows", "return torch.zeros([4611686018427387904, 8])"),
    "negative": ("a factory with a negative size", "return torch.zeros([-5, 8])"),
    "new-full": ("a huge tensor like another", f"return torch.new_full(x, [{HUGE}], 1.)"),
    "arange": ("a huge range with values", _filled(f"torch.arange({HUGE})")),
    "linspace": ("a huge linspace", f"return torch.linspace(0, 1, {HUGE})"),
    "eye": ("a huge identity", f"return torch.eye({1 << 22})"),
    "tril-indices": ("the indices of a huge triangle", f"return torch.tril_indices({1 << 22}, {1 << 22})"),
    "repeat": ("a known value repeated", _filled(f"torch.repeat(torch.tensor([1]), [{HUGE}])")),
    "repeat-interleave": (
        "known repeats of a row",
        f"return torch.repeat_interleave(x, torch.tensor([{HUGE}]), 0)",
    ),
    "expand": (
        "a known value expanded and copied",
        _filled(f"torch.contiguous(torch.expand(torch.tensor([1]), [{HUGE}]))"),
    ),
    "expand-summed": ("the sum of an expanded value", _filled(f"torch.expand(torch.tensor([1]), [{HUGE}])")),
    "one-hot": ("a known value as one of 2^40", _filled(f"torch.one_hot(torch.tensor([0]), {HUGE})")),
    "broadcast": (
        "the product of two long known vectors",
        "a = torch.arange(4096)\nb = torch.mul(torch.unsqueeze(a, 1), a)\n"
        "c = torch.mul(torch.unsqueeze(b, 2), a)\nreturn torch.add(x, int(torch.sum(c)))",
    ),
    "pad": ("a huge padding", f"return torch.constant_pad_nd(x, [{HUGE}, {HUGE}], 0)"),
    "interpolate": ("a huge image", "return torch.upsample_nearest2d(x, [1048576, 1048576], None, None)"),
    "unfold": ("ten million windows", "return torch.unfold(torch.zeros([10000000]), 0, 1, 1)"),
    "as-strided": ("a view far beyond its storage", f"return torch.as_strided(x, [{HUGE}, {HUGE}], [1, 1])"),
    "unbind": ("ten million tensors", "l = torch.unbind(torch.zeros([10000000]))\nreturn l[0]"),
    "split": ("a split into 2^40 tensors", f"l = torch.split(torch.zeros([{HUGE}]), 1)\nreturn l[0]"),
    "chunk": ("2^40 chunks", f"l = torch.chunk(torch.zeros([{HUGE}]), {HUGE})\nreturn l[0]"),
    "tensor-split": (
        "a split into ten million tensors",
        "l = torch.tensor_split(torch.zeros([100]), 10000000)\nreturn l[0]",
    ),
    "unbind-of-unbind": (
        "a million tensors, in steps that are each small",
        "for a in range(1000):\n  l = torch.unbind(torch.zeros([4000]))\nreturn x",
    ),
    "dimensions": (
        "a view with ten thousand dimensions",
        "return torch.view(x, torch.mul([1], 10000))",
    ),
    "convolution": (
        "a huge kernel",
        "return torch.conv2d(x, torch.zeros([1048576, 3, 1024, 1024]), None, [1, 1], [4096, 4096])",
    ),
    "of-a-size": (
        "a huge tensor made from the scalar of a size",
        f"n = ops.prim.NumToTensor(torch.size(x, 0))\nreturn torch.add(x, torch.sum(torch.repeat(n, [{HUGE}])))",
    ),
    "one-hot-of-a-size": (
        "2^40 classes for the scalar of a size",
        f"n = ops.prim.NumToTensor(torch.size(x, 0))\nreturn torch.add(x, torch.sum(torch.one_hot(n, {HUGE})))",
    ),
    "packed-sequence": (
        "the packed sequence of 12 billion numbers",
        "return torch._pack_padded_sequence(torch.zeros([5000, 5000, 500]), torch.full([5000], 5000), True)[0]",
    ),
    "quantized-layers": (
        "packed weights of ever other shapes",
        _repeat(
            1000,
            "w = torch.quantize_per_tensor(torch.zeros([2048, torch.add(2048, _i)]), 1., 0, 12)\n"
            "p = torch.append(l, ops.quantized.linear_prepack(w, None))",
            "l = annotate(List[__torch__.torch.classes.quantized.LinearPackedParamsBase], [])\n",
        ),
    ),
    "combinations-few": ("all pairs of three thousand", "return torch.combinations(torch.arange(3000))"),
    "multinomial": ("2^40 random choices", f"return torch.multinomial(torch.ones([4]), {HUGE}, True)"),
    "combinations": ("all triples of ten thousand", "return torch.combinations(torch.arange(10000), 3)"),
    "sleep": ("a kernel that waits", "torch._cuda_sleep(1000000000000)\nreturn x"),
}
REFUSED = ("sleep", "tuple-of-tuples", "list-nested")
"""Rows that torch.jit does not load: an unknown op, a type of 2^30 parts, and a variable of two types."""


def _deep(inside: str, outside: str, depth: int, start: str = "x") -> str:
    return inside * depth + start + outside * depth


def _nested() -> list[Case]:
    blocks = "".join(f"{'  ' * depth}if torch.eq(1, 1):\n" for depth in range(90))
    elifs = "if torch.eq(1, 2):\n  x = x\n" + "elif torch.eq(1, 2):\n  x = x\n" * 20_000 + "return x"
    return [
        program(
            "nested-calls", "5,000 calls inside each other", f"return {_deep('torch.neg(', ')', 5000)}", valid=False
        ),
        program("nested-parentheses", "100,000 parentheses", f"return {_deep('(', ')', 100_000)}", valid=False),
        program(
            "nested-lists", "a list of lists, 20,000 deep", f"l = {_deep('[', ']', 20_000)}\nreturn x", valid=False
        ),
        program("nested-signs", "a number with 100,000 signs", f"n = {'-' * 100_000}1\nreturn x", valid=False),
        program("nested-nots", "50,000 negations", f"b = {'not ' * 50_000}True\nreturn x", valid=False),
        program("nested-attributes", "200,000 attributes", f"return x{'.a' * 200_000}", valid=False),
        program("nested-subscripts", "100,000 subscripts", f"return x{'[0]' * 100_000}", valid=False),
        program("nested-powers", "50,000 powers", f"n = {'2**' * 50_000}2\nreturn x", valid=False),
        program("nested-sums", "a sum of 100,000 terms", f"return {'x + ' * 100_000}x", valid=False),
        program(
            "nested-types",
            "a type 5,000 deep",
            f"l = annotate({_deep('List[', ']', 5000, 'int')}, [])\nreturn x",
            valid=False,
        ),
        program("nested-blocks", "90 blocks", f"{blocks}{'  ' * 90}x = torch.neg(x)\nreturn x", valid=False),
        program("nested-elifs", "20,000 branches", elifs, valid=False),
        program("nested-functions", "functions inside functions", _functions(200), valid=False),
    ]


def _functions(depth: int) -> str:
    heads = "".join(f"{'  ' * level}def f{level}(x: Tensor) -> Tensor:\n" for level in range(depth))
    return f"{heads}{'  ' * depth}return x\nreturn f0(x)"


def _calls() -> list[Case]:
    function = "def {}(x: Tensor) -> Tensor:\n  {}\n"
    doubling = "".join(
        function.format(f"f{i}", f"return __torch__.f{i + 1}(__torch__.f{i + 1}(x))") for i in reversed(range(60))
    )
    first = function.format("f60", "return torch.neg(x)")
    chain = "".join(function.format(f"f{i}", f"return __torch__.f{i + 1}(x)") for i in reversed(range(5000)))
    mutual = function.format("f", "return __torch__.g(x)") + function.format("g", "return __torch__.f(x)")
    return [
        program(
            "calls-doubling", "2^60 calls without recursion", "return __torch__.f0(x)", first + doubling, valid=False
        ),
        program(
            "calls-chain",
            "a chain of 5,000 functions",
            "return __torch__.f0(x)",
            function.format("f5000", "return x") + chain,
            valid=False,
        ),
        program(
            "calls-self",
            "a function that calls itself",
            "return __torch__.f(x)",
            function.format("f", "return __torch__.f(x)"),
            valid=False,
        ),
        program("calls-mutual", "two functions that call each other", "return __torch__.f(x)", mutual, valid=False),
        program("calls-forward", "a module that calls itself", "return (self).forward(x, )", valid=False),
    ]
