"""Code that reaches for what lies outside the file: other namespaces, Python's builtins, files, hidden attributes."""

from __future__ import annotations

from functools import partial

import archives
from archives import FORWARD, MODULE, forward
from hostile import Case
from hostile_code import program

MARK = "executed"
"""The file that hostile code would create."""
OPEN = f'open("{MARK}", "w")'

EXPRESSIONS = {
    "from-file": f'ops.aten.from_file("{MARK}", True, 16)',
    "torch-from-file": f'torch.from_file("{MARK}", True, 16)',
    "aten-save": f'ops.aten.save(x, "{MARK}")',
    "torch-save": f'torch.save(x, "{MARK}")',
    "torch-load": f'torch.load("{MARK}")',
    "jit-load": f'torch.jit.load("{MARK}")',
    "hub-load": 'torch.hub.load("a/b", "c")',
    "load-library": f'torch.ops.load_library("{MARK}")',
    "ops-load-library": f'ops.load_library("{MARK}")',
    "classes": "torch.classes.evil.Evil()",
    "classes-path": "ops.classes.load_library(x)",
    "torch-os": f'torch.os.system("touch {MARK}")',
    "torch-sys": "torch.sys.exit(0)",
    "torch-module": "torch.utils.cpp_extension.load(x)",
    "library": "ops.mylib.evil(x)",
    "prim-python": "ops.prim.PythonOp(x)",
    "prim-unknown": "ops.prim.CallFunction(x)",
    "prims": "ops.prims.iota(1099511627776)",
    "profiler": 'ops.profiler._record_function_enter("x", None)',
    "inductor": "ops.inductor._alloc_from_pool(x, 0, 6, [1099511627776], [1])",
    "c10d": "ops.c10d.send(x)",
    "rpc": 'ops.rpc.rpc_sync("a", x)',
    "collective": 'ops._c10d_functional.all_reduce(x, "sum", "0")',
    "higher-order": "ops.higher_order.cond(x)",
    "set-data": "torch.set_data(x, x)",
    "data-pointer": "torch.data_ptr(x)",
    "storage": "torch.set_(x, x, 1099511627776, [1099511627776], [1])",
    "warn": 'ops.aten.warn("hostile")',
    "eval": f"eval('{OPEN}')",
    "exec": f"exec('{OPEN}')",
    "open": OPEN,
    "import": f'__import__("os").system("touch {MARK}")',
    "compile": 'compile("1", "x", "eval")',
    "globals": "globals()",
    "vars": "vars(x)",
    "input": "input()",
    "breakpoint": "breakpoint()",
    "exit": "exit(0)",
    "getattr-class": 'getattr(x, "__class__")',
    "getattr-of-self": 'getattr(self, "__init__")',
    "setattr": 'setattr(self, "forward", x)',
    "class-of-tensor": "x.__class__",
    "bases": "().__class__.__bases__",
    "subclasses": '"".__class__.__mro__[1].__subclasses__()',
    "globals-of-method": "self.forward.__globals__",
    "init-of-self": "self.__init__.__globals__",
    "class-of-ops": "ops.__class__",
    "class-of-op": "ops.aten.add.__class__",
    "class-of-torch": "torch.__dict__",
    "class-of-file": "__torch__.__class__",
    "class-of-constants": "CONSTANTS.__class__",
    "format-attribute": 'torch.format("{0.__class__.__init__.__globals__}", x)',
    "numpy": "x.numpy()",
    "cuda": "torch.cuda(x)",
    "device": 'torch.zeros([4], dtype=None, layout=None, device=torch.device("cuda:99"))',
    "f-string": f"f'{{{OPEN}}}'",
    "lambda": "(lambda: x)()",
    "walrus": "(x := x)",
    "await": "await x",
    "comprehension": "[i for i in range(4611686018427387904)]",
    "generator": "sum(i for i in range(4611686018427387904))",
    "starred": "torch.cat(*[x])",
    "unpacked": "torch.add(x, **{'other': x})",
    "bytes": "torch.add(x, b'1')",
    "ellipsis": "torch.add(x, ...)",
    "literal": f"torch.add(x, {'9' * 100_000})",
    "float-literal": "torch.add(x, 1e999999999)",
    "imaginary": "torch.add(x, 1e999j)",
    "escaped-string": 'torch.format("\\x1b[31m\\u202e[red]{}", x)',
    "missing-constant": "torch.add(x, CONSTANTS.c7)",
    "negative-constant": "torch.add(x, CONSTANTS.c99999999999999999999)",
    "missing-attribute": "self.missing",
    "missing-function": "__torch__.missing(x)",
    "missing-class": "__torch__.Missing.__new__(__torch__.Missing)",
    "missing-name": "y",
    "call-of-a-tensor": "x(x)",
    "call-of-a-string": '"a"(x)',
    "wrong-arguments": "torch.add(x)",
    "many-arguments": f"torch.add({'x, ' * 100_000})",
    "keyword": "torch.add(x, __class__=x)",
    "out": "torch.add(x, x, out=x)",
    "raise": 'ops.prim.RaiseException("\\x1b[31mhostile\\n[red]")',
}
STATEMENTS = {
    "import-statement": "import os",
    "from-import": "from os import system",
    "global": "global x",
    "delete": "del self",
    "assert": f"assert {OPEN}",
    "raise-statement": "raise SystemExit(0)",
    "try": "try:\n  x = x\nexcept:\n  x = x",
    "with-open": f"with {OPEN} as f:\n  pass",
    "augmented": "x += x",
    "class-in-function": f"class C:\n  {OPEN}",
    "async": "async def f():\n  pass",
    "yield": "yield x",
    "assign-self": "self = x",
    "assign-attribute": "self.__class__ = x",
    "assign-torch": "torch = x",
    "assign-subscript": 'self.__dict__["forward"] = x',
    "assign-many": ", ".join(f"a{i}" for i in range(10_000)) + " = x",
    "annotation": f"y: {OPEN} = x",
    "default": f"def f(x={OPEN}):\n  return x",
    "decorator": f"@{OPEN}\ndef f(x):\n  return x",
    "match": "match x:\n  case _:\n    pass",
}
CLASSES = {
    "class-body": MODULE + f"  y = {OPEN}\n",
    "class-body-call": MODULE + f"  {OPEN}\n",
    "class-annotation": MODULE + f"  y : {OPEN}\n",
    "class-final": MODULE + f"  y : Final[int] = {OPEN}\n",
    "class-annotations": MODULE + f"  __annotations__[{OPEN}] = int\n",
    "class-base": MODULE.replace("(Module)", f"({OPEN})"),
    "class-metaclass": MODULE.replace("(Module)", f"(Module, metaclass={OPEN})"),
    "class-decorator": f"@{OPEN}\n{MODULE}",
    "class-slots": MODULE + '  __slots__ = ["__dict__"]\n',
    "class-parameters": MODULE.replace("__parameters__ = []", f"__parameters__ = [{OPEN}]"),
    "class-nested": MODULE + f"  class N:\n    {OPEN}\n",
    "class-of-itself": MODULE.replace("(Module)", "(__torch__.M)"),
    "class-constructor": MODULE + f"  def __init__(self):\n    {OPEN}\n",
    "class-setstate": MODULE + "  def __setstate__(self: __torch__.M,\n    state: Any) -> NoneType:\n"
    "    _0 = True\n    while _0:\n      _0 = True\n    return None\n",
    "class-enum": f"class E(Enum):\n  A = {OPEN}\n" + MODULE,
    "class-tuple": f"class T(NamedTuple):\n  a : {OPEN}\n" + MODULE,
}
SIGNATURES = {
    "default-argument": FORWARD.replace("x: Tensor)", f"x: Tensor={OPEN})"),
    "type-of-argument": FORWARD.replace("x: Tensor)", f"x: {OPEN})"),
    "type-of-result": FORWARD.replace("-> Tensor", f"-> {OPEN}"),
    "decorated-method": f"  @{OPEN}\n" + FORWARD,
    "no-self": FORWARD.replace("self: __torch__.M,\n    x: Tensor", ""),
    "any-arguments": FORWARD.replace("x: Tensor)", "*x)"),
    "many-parameters": FORWARD.replace("x: Tensor)", ", ".join(f"x{i}: Tensor" for i in range(20_000)) + ")"),
    "two-forwards": FORWARD + "    return x\n" + FORWARD,
}


def cases() -> list[Case]:
    """One case per row of the tables."""
    return [
        *(
            _row(f"name-{name}", f"evaluates {body[:60]}", f"y = {body}\nreturn x")
            for name, body in EXPRESSIONS.items()
        ),
        *(_row(f"statement-{name}", f"runs {body[:60]}", f"{body}\nreturn x") for name, body in STATEMENTS.items()),
        *(_source(name, "code in a class", f"{head}{FORWARD}    return x\n") for name, head in CLASSES.items()),
        *(_source(name, "code in a signature", f"{MODULE}{head}    return x\n") for name, head in SIGNATURES.items()),
        _source("module-statement", "code outside any class", f"{OPEN}\n{forward('return x')}"),
        _source("module-import", "an import outside any class", f"import {MARK}\n{forward('return x')}"),
    ]


def _row(name: str, why: str, body: str) -> Case:
    return program(name, why, body, valid=False)


def _source(name: str, why: str, code: str) -> Case:
    return Case(name, why, partial(archives.write, code=code))
