"""The modules of a TorchScript file, whose `forward` is interpreted; whatever watches modules can watch them."""

from __future__ import annotations

import ast
import inspect
import keyword
from collections.abc import Iterator
from typing import Any, ClassVar

from torch import nn

from assay.errors import ReadError
from assay.sources.torchscript.frozen import layers_in_code
from assay.sources.torchscript.interpreter import METHOD, MISSING, Interpreter
from assay.sources.torchscript.program import Function, ScriptClass
from assay.sources.torchscript.values import ModuleTensor


class InterpretedModule(nn.Module):  # type: ignore[misc]  # torch is not read by the type checker
    """A module whose methods are code of a file. It is never run with data."""

    script_class: ClassVar[ScriptClass]
    interpreter: ClassVar[Interpreter]

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["script_attributes"] = {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Interpret the method `forward`, or the one that the file's code calls."""
        method = kwargs.pop(METHOD, None) or main_method(self.script_class)
        return self.interpreter.run(self, method, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        """Constants and plain attributes of the file, for code that looks at a layer's settings."""
        attributes = self.__dict__.get("script_attributes", {})
        return attributes[name] if name in attributes and not name.startswith("__") else super().__getattr__(name)

    def layers_in_code(self) -> Iterator[tuple[str, Any]]:
        """What stands for the layers of a frozen file, which has no modules."""
        function = self.script_class.methods.get(main_method(self.script_class))
        return layers_in_code(function, self.interpreter.constants) if function is not None else iter(())

    def attribute(self, name: str) -> Any:
        """What the file's code reads as `self.name`; `MISSING` if there is no such attribute."""
        for table in (self._parameters, self._buffers, self._modules, self.script_attributes):
            if name in table:
                return self._resolved(table[name])
        return self.training if name == "training" else MISSING

    def _resolved(self, value: Any) -> Any:
        """The value of an attribute, with the module's own tensors in a list of them."""
        if isinstance(value, list) and any(isinstance(item, ModuleTensor) for item in value):
            return [self.attribute(item.name) if isinstance(item, ModuleTensor) else item for item in value]
        return value

    def set_attribute(self, name: str, value: Any) -> None:
        """What the file's code does by `self.name = value`."""
        if name == "training" and isinstance(value, bool):
            self.training = value
            return
        for table in (self._parameters, self._buffers):
            if name in table:
                table[name] = value
                return
        self.script_attributes[name] = value


def main_method(cls: ScriptClass) -> str:
    """The method that a call of the module runs: `forward`, or the first overload of it."""
    return next((name for name in ("forward", "forward__0") if name in cls.methods), "forward")


def module_class(cls: ScriptClass, interpreter: Interpreter) -> type[InterpretedModule]:
    """The Python class of the modules of `cls`, with the name and module of the original one."""
    module, _, name = cls.original_name.rpartition(".")
    fields = {"__module__": module or "__main__", "script_class": cls, "interpreter": interpreter}
    return type(name, (InterpretedModule,), fields)


def callable_class(cls: type[InterpretedModule]) -> type[InterpretedModule]:
    """`cls` with a `forward` that has the signature of the file's, for the outermost module."""
    function = cls.script_class.methods.get(main_method(cls.script_class))
    if function is None:
        return cls

    def forward(self: InterpretedModule, *args: Any, **kwargs: Any) -> Any:
        return InterpretedModule.forward(self, *args, **kwargs)

    forward.__signature__ = _signature(function)  # type: ignore[attr-defined]
    return type(cls.__name__, (cls,), {"__module__": cls.__module__, "forward": forward})


def _signature(function: Function) -> inspect.Signature:
    parameters = function.node.args
    names = [each.arg for each in parameters.args]
    types = [ast.unparse(each.annotation) if each.annotation is not None else "" for each in parameters.args]
    if any(keyword.iskeyword(name) for name in names) or len(set(names)) < len(names):
        raise ReadError(f"the parameters of {function.name} are not valid names")
    first_default = len(names) - len(parameters.defaults)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature(
        [
            inspect.Parameter(
                name, kind, annotation=declared, default=... if position >= first_default else inspect.Parameter.empty
            )
            for position, (name, declared) in enumerate(zip(names, types, strict=True))
        ]
    )
