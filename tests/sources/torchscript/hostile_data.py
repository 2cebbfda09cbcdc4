"""Archives and pickles that are damaged on purpose, or far larger than they look."""

from __future__ import annotations

import zipfile
from functools import partial
from pathlib import Path

import archives
from archives import (
    FORWARD,
    MODULE,
    TRUE,
    Made,
    Text,
    call,
    dict_of,
    forward,
    get,
    instance,
    list_of,
    number,
    pickled,
    put,
    state,
    tensor,
    text,
    tuple_of,
)
from hostile import Case
from hostile_names import MARK

SAME = forward("return x")
USES = forward("return torch.add(x, self.w)", fields="  w : Tensor\n")
SUBMODULES = MODULE + "  a : __torch__.M\n  b : __torch__.M\n" + FORWARD + "    return x\n"
SETSTATE = (
    MODULE.replace("M(", "N(")
    + "  def __setstate__(self: __torch__.N,\n    state: Any) -> NoneType:\n"
    + "    for _i in range(150000):\n      pass\n    return None\n"
    + SAME
)
SYSTEM = call("posix", "system", text(f"touch {MARK}"))
HUGE = 1 << 40


def cases() -> list[Case]:
    """Every case of this file."""
    return [*_objects(), *_tensors(), *_names(), *_members(), *_inputs(), *_sources()]


def _data(name: str, why: str, value: Made, code: str = SAME) -> Case:
    def data() -> bytes:
        return pickled(value() if callable(value) else value)

    return Case(f"data-{name}", why, partial(archives.write, code=code, data=data))


def _objects() -> list[Case]:
    levels = 60
    shared = b"".join(b"c__torch__\nM\n)\x81" + put(level) + b"}(" + text("a") for level in range(levels))
    leaf = instance("M", state()) + put(levels)
    closed = b"".join(text("b") + get(level + 1) + b"ub" for level in reversed(range(levels)))
    itself = b"c__torch__\nM\n)\x81" + put(0) + dict_of(state(a=get(0), b=get(0))) + b"b"
    return [
        _data("global", "a pickle that runs a command", SYSTEM),
        _data("global-inside", "a command as an attribute", instance("M", state(w=SYSTEM)), USES),
        _data("cycle", "a module that contains itself", itself, SUBMODULES),
        _data("shared", "modules that contain the next one twice: 2^60 paths", shared + leaf + closed, SUBMODULES),
        _data("many-shared", "a million names of one module", _many_shared),
        _data("many-modules", "200,000 submodules", _many_modules),
        _data("setstate", "200 submodules that count for long when restored", _restored(200), SETSTATE),
        _data("missing-class", "an object of a class that has no code", instance("Missing", state())),
        _data("no-module", "a number instead of a module", number(3)),
        _data("no-state", "a module without attributes", b"c__torch__\nM\n)\x81"),
        _data("wrong-type", "a string where a tensor is declared", instance("M", state(w=text("w"))), USES),
        _data("missing-attribute", "a declared attribute that is missing", instance("M", state()), USES),
        _data("deep", "lists inside lists, 200,000 deep", b"]" * 200_000 + b"a" * 199_999),
        _data("unfinished", "a pickle that ends early", b"c__torch__\nM\n)\x81}("),
        _data(
            "type-tag",
            "a type that is code",
            call("torch.jit._pickle", "restore_type_tag", list_of(), text(f"{SYSTEM!r}")),
        ),
        _data("doubled", "lists that hold the previous one twice", _doubled(60)),
    ]


def _many_shared() -> bytes:
    shared = {f"m{i}": get(0) for i in range(1_000_000)}
    return instance("M", {"m": instance("M", {}) + put(0), **shared})


def _many_modules() -> bytes:
    return instance("M", {f"m{i}": instance("M", {}) for i in range(200_000)})


def _restored(count: int) -> bytes:
    child = b"c__torch__\nN\n)\x81" + tuple_of(TRUE) + b"b"
    return instance("M", {f"m{i}": child for i in range(count)})


def _doubled(levels: int) -> bytes:
    value = b"]" + put(0)
    for level in range(levels):
        value += b"0](" + get(level) + get(level) + b"e" + put(level + 1)
    return instance("M", {"l": value})


def _tensors() -> list[Case]:
    rows = {
        "shape": ("a shape far beyond its storage", tensor((HUGE,))),
        "shape-overflow": ("a shape that overflows", tensor((1 << 62, 8), (8, 1))),
        "shape-negative": ("a negative size", tensor((-4,))),
        "shape-huge-number": ("a size of 800 bits", tensor((1 << 800,))),
        "strides-negative": ("a negative stride", tensor((4,), (-1,))),
        "strides-huge": ("a stride that overflows", tensor((4,), (1 << 62,))),
        "strides-missing": ("fewer strides than sizes", tensor((2, 2), (1,))),
        "strides-zero": ("2^40 elements in one", tensor((HUGE,), (0,))),
        "offset": ("an offset beyond the storage", tensor((4,), (1,), offset=HUGE)),
        "storage-missing": ("a storage that is not in the file", tensor((4,), key="7")),
        "storage-huge": ("a storage that claims 2^40 elements", tensor((HUGE,), numel=HUGE)),
        "storage-path": ("a storage with a path as its name", tensor((4,), key="../../etc/passwd")),
        "dimensions": ("ten thousand dimensions", tensor((1,) * 10_000, (1,) * 10_000)),
    }
    return [_data(name, why, instance("M", state(w=value)), USES) for name, (why, value) in rows.items()]


def _names() -> list[Case]:
    names = {
        "markup": "[red]x[/red]",
        "escape": "\x1b[31m\x1b]0;title\x07",
        "newline": "a\nerror: forged",
        "bidi": "\u202eevil\u200b",
        "html": "<script>alert(1)</script>",
        "path": "../../../tmp/x",
        "dots": "a.b..c.",
        "empty": "",
        "dunder": "__class__",
        "dict": "__dict__",
        "modules": "_modules",
        "forward": "forward",
        "surrogates": "\U0001f4a9" * 1000,
    }
    fields = {name: instance("M", state()) for name in names.values()}
    return [
        *(
            _data(f"name-{label}", "a strange attribute name", instance("M", {name: fields[name]}))
            for label, name in names.items()
        ),
        _data("name-long", "a name of 10 MB", lambda: instance("M", {"n" * 10_000_000: TRUE})),
        _data("class-long", "a class name of 10 MB", lambda: instance("C" * 10_000_000, state())),
        _data("class-escape", "a class name with escapes", instance("\x1b[31m[red]<b>", state())),
        _data("class-of-torch", "an object of a class of torch", instance("Module", state(), "torch.nn")),
        _data("class-deep", "a class name with 100,000 parts", instance("M", state(), "__torch__" + ".a" * 100_000)),
    ]


def _members() -> list[Case]:
    def members(name: str, why: str, **others: bytes | None) -> Case:
        return Case(
            f"member-{name}",
            why,
            partial(archives.write, code=forward("return torch.add(x, CONSTANTS.c0)"), **others),
        )

    deep = pickled(b"(" * 100_000)
    return [
        members("no-constants", "no constants.pkl", constants_pkl=None),
        members("short-constants", "a constant that is missing"),
        members("damaged-constants", "constants that are no pickle", constants_pkl=b"hostile"),
        members("constants-global", "constants that run a command", constants_pkl=pickled(SYSTEM)),
        members("constants-text", "a constant that is no tensor", constants_pkl=pickled(tuple_of(text("x")))),
        members(
            "constants-huge",
            "a constant without its storage",
            constants_pkl=pickled(tuple_of(tensor((HUGE,), numel=HUGE))),
        ),
        members("constants-many", "a million constants", constants_pkl=_many_numbers),
        members("constants-deep", "constants nested 100,000 deep", constants_pkl=deep),
        members("no-data", "no data.pkl", data=None, data_pkl=None),
        members("version", "a version of 4,000 digits", version=b"9" * 4000),
        members("version-text", "a version that is no number", version=b"\x1b[31mhostile"),
        members("byteorder", "an unknown byte order", byteorder=b"middle"),
        Case("member-bomb", "200 MB of source in 1 MB", partial(archives.write, code=lambda: b"#" * (200 << 20))),
        Case(
            "member-bomb-of-statements",
            "64 MB of statements",
            partial(archives.write, code=lambda: forward("x = x\n" * 6_000_000)),
        ),
        Case("member-two-sources", "two source files of one name", _two_sources),
        Case("member-overlapping", "a header that lies about sizes", _lying),
        Case("member-many", "20,000 source files", _many_files),
        Case("member-paths", "source files outside the archive", _paths),
    ]


def _many_numbers() -> bytes:
    return pickled(tuple_of(*[b"K\x01"] * 1_000_000))


def _two_sources(path: Path) -> None:
    archives.write(path, SAME)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("hostile/code/__torch__/.py", SAME)
        archive.writestr("hostile/code//__torch__.py", forward(f"{MARK}()\nreturn x"))


def _lying(path: Path) -> None:
    """The central directory claims that the source is 4 GB long."""
    archives.write(path, SAME)
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02", data.index(b"PK\x01\x02") + 4)
    data[at + 24 : at + 28] = (0xFFFFFFF0).to_bytes(4, "little")
    path.write_bytes(bytes(data))


def _many_files(path: Path) -> None:
    archives.write(path, SAME, **{f"code____torch____m{i}.py": b"" for i in range(20_000)})


def _paths(path: Path) -> None:
    archives.write(path, SAME, **{"code__..__..__..__x.py": SAME.encode(), "code____tmp__x.py": b"\xff\xfe\0"})


def _inputs() -> list[Case]:
    def inputs(name: str, why: str, value: bytes) -> Case:
        return Case(f"inputs-{name}", why, partial(archives.write, code=SAME, traced_inputs_pkl=pickled(value)))

    def traced(*values: bytes) -> bytes:
        return dict_of({"forward": list_of(*values)})

    return [
        inputs("global", "inputs that run a command", SYSTEM),
        inputs("huge", "an input of 4 TB", traced(tensor((HUGE,), numel=HUGE))),
        inputs("overflow", "an input whose size overflows", traced(tensor((1 << 62, 8), (8, 1)))),
        inputs("negative", "an input of negative size", traced(tensor((-1, 3), (3, 1)))),
        inputs("many", "a million inputs", traced(*[b"K\x01"] * 1_000_000)),
        inputs("none", "no input at all", traced()),
        inputs("no-forward", "inputs of another method", dict_of({"encode": list_of()})),
        inputs("text", "a text instead of inputs", text("hostile")),
        inputs("cycle", "a list that contains itself", dict_of({"forward": b"]" + put(0) + get(0) + b"a"})),
        inputs("object", "an object of the file as input", traced(instance("M", state()))),
        inputs("deep", "an input nested 100,000 deep", b"]" * 100_000 + b"a" * 99_999),
        inputs("damaged", "inputs that end early", b"}(("),
    ]


def _sources() -> list[Case]:
    function = "def f{}(x: Tensor) -> Tensor:\n  return x\n"
    rows: dict[str, tuple[str, Text]] = {
        "two-classes": ("two classes of one name", SAME + SAME.replace("return x", "return torch.neg(x)")),
        "no-class": ("no class at all", "def f(x: Tensor) -> Tensor:\n  return x\n"),
        "no-forward": ("a module without forward", MODULE),
        "empty": ("an empty source file", ""),
        "functions": ("100,000 functions", lambda: "".join(map(function.format, range(100_000))) + SAME),
        "classes": ("20,000 classes", lambda: "".join(MODULE.replace("M(", f"M{i}(") for i in range(20_000)) + SAME),
        "line": ("a line of 15 MB", lambda: forward(f'y = "{"a" * (15 << 20)}"\nreturn x')),
        "comment": ("a comment of 15 MB", lambda: f"#{'a' * (15 << 20)}\n{SAME}"),
        "name": ("a name of 10 MB", lambda: forward(f"{'a' * 10_000_000} = x\nreturn x")),
        "list": ("a list of two million numbers", lambda: forward(f"l = [{'1, ' * 2_000_000}]\nreturn x")),
        "statements": ("300,000 statements", lambda: forward("x = torch.neg(x)\n" * 300_000 + "return x")),
        "dense": ("30,000 short statements", lambda: forward("if False:\n" + "  a.a=a.a\n" * 30_000 + "return x")),
        "indented": ("200,000 spaces", SAME + " " * 200_000 + "x = 1\n"),
        "tabs": ("tabs and form feeds", SAME.replace("    return", "\t\f  return")),
        "nul": ("a NUL in the source", SAME.encode() + b"\0"),
        "latin-1": ("bytes that are no UTF-8", SAME.encode() + b"# \xff\xfe\n"),
        "coding": ("another encoding", b"# -*- coding: rot13 -*-\n" + SAME.encode()),
        "bom": ("a byte order mark", b"\xef\xbb\xbf" + SAME.encode()),
        "utf-16": ("UTF-16", SAME.encode("utf-16")),
        "continued": ("100,000 continued lines", forward("x = \\\n" * 100_000 + "x\nreturn x")),
        "open-bracket": ("a bracket that is never closed", forward("return torch.neg(" + "x, " * 100_000)),
        "open-string": ("a text that is never closed", forward('return """')),
        "look-alikes": ("names that normalise to others", forward("ｏｐｅｎ = x\nreturn 𝓈ℯ𝓁𝒻.forward(ｏｐｅｎ)")),
    }
    return [Case(f"source-{name}", why, partial(archives.write, code=code)) for name, (why, code) in rows.items()]
