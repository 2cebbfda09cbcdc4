"""The tree of modules and objects that data.pkl describes."""

from __future__ import annotations

import ast
from typing import Any

from assay.checkpoint.pickle.values import Blob, Stub, TensorParts, TensorValue
from assay.checkpoint.pickle.walking import SCRIPTED
from assay.errors import ReadError
from assay.sources.torchscript import quantized
from assay.sources.torchscript.interpreter import Interpreter
from assay.sources.torchscript.modules import InterpretedModule, callable_class, module_class
from assay.sources.torchscript.program import ENUM, MODULE, NAMED_TUPLE, ScriptClass, ScriptProgram
from assay.sources.torchscript.refusal import Refusal
from assay.sources.torchscript.tensors import FileTensors
from assay.sources.torchscript.values import ModuleTensor, Opaque, ScriptObject, named_tuple

_PACKED = f"{SCRIPTED}.torch.classes.quantized.LinearPackedParamsBase"
MAX_DEPTH = 150
"""Levels of nested modules and objects."""
MAX_VALUES = 200_000
"""Attributes and items of containers; a list that stands in two places counts twice."""
MAX_MODULES = 20_000


class ObjectTree:
    """Builds the modules and objects of a pickle; an object that stands in several places is built once."""

    def __init__(self, program: ScriptProgram, interpreter: Interpreter, tensors: FileTensors) -> None:
        self._program = program
        self._interpreter = interpreter
        self._tensors = tensors
        self._built: dict[int, Any] = {}
        self._classes: dict[str, type[InterpretedModule]] = {}
        self._values = 0
        self._modules = 0

    def root(self, value: Any) -> InterpretedModule:
        """The outermost module."""
        cls = self._class_of(value) if isinstance(value, Stub) else None
        if cls is None or cls.base != MODULE:
            raise ReadError("its data.pkl does not describe a module of its code")
        self._classes[cls.name] = callable_class(module_class(cls, self._interpreter))
        module: InterpretedModule = self._value(value, 0)
        return module

    def _class_of(self, stub: Stub) -> ScriptClass | None:
        name = stub.class_path
        return self._program.class_named(name) if name.startswith(f"{SCRIPTED}.") else None

    def _value(self, value: Any, depth: int) -> Any:
        self._values += 1
        if depth > MAX_DEPTH:
            raise ReadError(f"its objects nest more than {MAX_DEPTH} levels deep")
        if self._values > MAX_VALUES:
            raise ReadError(f"its objects hold more than {MAX_VALUES:,} values")
        if isinstance(value, TensorParts):
            value = value.parts.get("")
        if isinstance(value, TensorValue):
            return self._tensors.tensor(value)
        if isinstance(value, Stub):
            if id(value) not in self._built:
                self._built[id(value)] = self._object(value, depth)
            return self._built[id(value)]
        if isinstance(value, list):
            return [self._value(item, depth + 1) for item in value]
        if isinstance(value, tuple):
            return tuple([self._value(item, depth + 1) for item in value])
        if isinstance(value, dict):
            return {key: self._value(item, depth + 1) for key, item in value.items()}
        if value is None or isinstance(value, (bool, int, float, complex, str)):
            return value
        return Opaque("a long string" if isinstance(value, Blob) else f"a value of type {type(value).__name__}")

    def _object(self, stub: Stub, depth: int) -> Any:
        cls = self._class_of(stub)
        if cls is None:
            return self._foreign(stub, depth)
        if cls.base == MODULE:
            return self._module(cls, stub, depth)
        if cls.base == ENUM:
            return self._enum(cls, stub)
        if cls.base == NAMED_TUPLE:
            return named_tuple(cls, self._value(stub.args, depth + 1))
        instance = self._built[id(stub)] = ScriptObject(cls)
        self._restore(instance, cls, stub, depth)
        return instance

    def _foreign(self, stub: Stub, depth: int) -> Any:
        """A value of a class that is not in the file's code, such as the packed weights of a quantized layer."""
        if stub.class_path == _PACKED and isinstance(stub.state, tuple):
            return quantized.pack(self._interpreter.tensors, "linear_prepack", *self._value(stub.state, depth + 1))
        return Opaque(f"an object of {stub.class_path}")

    def _enum(self, cls: ScriptClass, stub: Stub) -> Any:
        value = stub.args[0] if isinstance(stub.args, tuple) and stub.args else stub.args
        for name in cls.values:
            member = self._interpreter.enum_member(cls, name)
            if member.value == value:
                return member
        raise ReadError(f"{cls.original_name} has no member of value {value!r}")

    def _module(self, cls: ScriptClass, stub: Stub, depth: int) -> InterpretedModule:
        self._modules += 1
        if self._modules > MAX_MODULES:
            raise ReadError(f"it has more than {MAX_MODULES:,} modules")
        if cls.name not in self._classes:
            self._classes[cls.name] = module_class(cls, self._interpreter)
        module = self._built[id(stub)] = self._classes[cls.name]()
        module.training = "training" in cls.fields  # a frozen file is in evaluation mode, and does not say so
        attributes = module.script_attributes
        for name, node in cls.values.items():
            attributes[name] = self._constant(node)
        self._restore(module, cls, stub, depth)
        return module

    def _constant(self, node: ast.expr) -> Any:
        try:
            return self._interpreter.evaluate(node, {})
        except Refusal as error:
            return Opaque(f"a constant ({error})")

    def _restore(self, instance: Any, cls: ScriptClass, stub: Stub, depth: int) -> None:
        """Set the attributes that the pickle has for an object."""
        if isinstance(stub.state, dict):
            for name, value in stub.state.items():
                if isinstance(instance, InterpretedModule):
                    self._set(instance, cls, str(name), value, depth)
                else:
                    instance.fields[str(name)] = self._value(value, depth + 1)
        elif stub.state is not None and "__setstate__" in cls.methods:
            self._interpreter.call(cls.methods["__setstate__"], (instance, self._value(stub.state, depth + 1)))

    def _set(self, module: InterpretedModule, cls: ScriptClass, name: str, value: Any, depth: int) -> None:
        """Set one attribute of a module: a parameter, buffer, submodule or plain value."""
        if name == "training" and isinstance(value, bool):
            module.training = value
        elif name in cls.parameters and (value is None or isinstance(value, TensorValue)):
            tensor = None if value is None else self._tensors.parameter(value)
            (module.script_attributes if isinstance(tensor, Opaque) else module._parameters)[name] = tensor
        elif name in cls.buffers and (value is None or isinstance(value, TensorValue)):
            module._buffers[name] = None if value is None else self._tensors.tensor(value)
        else:
            self._set_other(module, name, self._value(value, depth + 1))

    def _set_other(self, module: InterpretedModule, name: str, value: Any) -> None:
        if isinstance(value, InterpretedModule):
            module._modules[name] = value
        elif isinstance(value, list):
            own = {id(tensor): each for each, tensor in module._parameters.items()}
            module.script_attributes[name] = [
                ModuleTensor(own[id(item)]) if id(item) in own else item for item in value
            ]
        else:
            module.script_attributes[name] = value
