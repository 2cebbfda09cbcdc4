"""Reading the model of a TorchScript file without running any of its code outside the interpreter."""

from __future__ import annotations

from typing import Any

from assay.checkpoint.formats.archive import ZipArchive
from assay.checkpoint.formats.torch_zip import prefix_of, unpickle
from assay.checkpoint.formats.torchscript import CONSTANTS
from assay.checkpoint.pickle.represented import dtype_name
from assay.checkpoint.pickle.values import RawStorage, TensorValue
from assay.errors import InputsError, ReadError
from assay.messages import one_line
from assay.sources.needs import is_tensor, need
from assay.sources.opened import Model
from assay.sources.tensors import TensorSpec, make
from assay.sources.torchscript.program import ScriptProgram
from assay.sources.torchscript.refusal import leaves_exceed

_TRACED = "traced_inputs.pkl"


def read(archive: ZipArchive) -> Model:
    """The model of a file, on the meta device, with the inputs that it was traced with, if it was."""
    need("torch")
    from assay.sources.torchscript.interpreter import Interpreter
    from assay.sources.torchscript.modules import main_method
    from assay.sources.torchscript.objects import ObjectTree
    from assay.sources.torchscript.tensors import FileTensors

    try:
        program = ScriptProgram(archive)
        interpreter = Interpreter(program, _constants(archive))
        tree = ObjectTree(program, interpreter, FileTensors(archive, "data/"))
        module = tree.root(unpickle(archive).value)
        method = main_method(module.script_class)
    except (ReadError, RecursionError) as error:
        reason = "it nests too deep" if isinstance(error, RecursionError) else str(error)
        raise ReadError(f"the model in {one_line(archive.region.path)} cannot be read: {reason}") from error
    return _with_traced_inputs(Model(module, interpreted=True), archive, method, "meta")


def with_traced_inputs(model: Model, archive: ZipArchive) -> Model:
    """A trusted model with inputs of the shapes that it was traced with, if it was."""
    return _with_traced_inputs(model, archive, "forward", "cpu")


def _constants(archive: ZipArchive) -> dict[str, Any]:
    """The tensors that the code calls `CONSTANTS.c0`, by `c0`."""
    from assay.sources.torchscript.tensors import FileTensors

    name = f"{CONSTANTS.lower()}.pkl"
    if prefix_of(archive) + name not in archive.members:
        return {}
    values = unpickle(archive, name, "constants/").value
    tensors = FileTensors(archive, "constants/", constants=True)
    items = enumerate(values) if isinstance(values, (tuple, list)) else ()
    return {f"c{position}": tensors.tensor(value) for position, value in items if isinstance(value, TensorValue)}


def _with_traced_inputs(model: Model, archive: ZipArchive, method: str, device: str) -> Model:
    """The model with tensors of the shapes and types that `method` was traced with, if the file has them."""
    if prefix_of(archive) + _TRACED not in archive.members:
        return model
    try:
        made = _traced_inputs(archive, method, device)
    except ReadError:  # a hint: the inputs can also be given
        return model._replace(inputs_from="those it was traced with cannot be read")
    if made is None:
        return model
    leaves = need("torch").utils._pytree.tree_leaves(made)
    integers = any(is_tensor(each) and not _has_fractions(each) for each in leaves)
    traced = "the shapes it was traced with"
    return model._replace(inputs=(made, {}), inputs_from=f"{traced}, integers are ones" if integers else traced)


def _traced_inputs(archive: ZipArchive, method: str, device: str) -> tuple[Any, ...] | None:
    """The arguments that `method` was traced with, with made-up values; None if it was not traced."""
    stored = unpickle(archive, _TRACED, records=None).value
    values = stored.get(method, ()) if isinstance(stored, dict) else None
    if not isinstance(values, (list, tuple)) or leaves_exceed(values, _MOST_INPUTS):
        raise ReadError(f"{_TRACED} does not hold inputs")
    made = tuple([_input(value, device) for value in values])
    if any(each is NotImplemented for each in made):
        raise ReadError(f"{_TRACED} holds other values than tensors and numbers")
    return made or None


_PLAIN = (bool, int, float, str, type(None))
_MOST_INPUTS = 1000
_MOST_KNOWN = 1 << 16
"""Integers of larger inputs have no values."""


def _input(value: Any, device: str) -> Any:
    """One argument of a traced call, with made-up values: its stored ones are never read."""
    if isinstance(value, TensorValue):
        return _tensor(value, device)
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, dict):
        items = {key: _input(item, device) for key, item in value.items()}
        return NotImplemented if any(item is NotImplemented for item in items.values()) else items
    if isinstance(value, (list, tuple)):
        made = [_input(item, device) for item in value]
        return NotImplemented if any(item is NotImplemented for item in made) else type(value)(made)
    return NotImplemented


def _tensor(value: TensorValue, device: str) -> Any:
    """Integers are ones, which is a valid id, mask and length; floating-point numbers are normal, if not on meta."""
    torch = need("torch")
    name = dtype_name(value.dtype) or (value.storage.dtype if isinstance(value.storage, RawStorage) else "")
    dtype = getattr(torch, name, None)
    try:
        tensor = torch.empty(tuple(value.shape), dtype=dtype, device="meta")
        if not _has_fractions(tensor):
            return torch.ones_like(tensor, device="cpu" if tensor.numel() <= _MOST_KNOWN else device)
        spec = TensorSpec(tuple(tensor.shape), name)
        return tensor if device == "meta" else make([spec], device)[0][0]
    except (RuntimeError, TypeError, ValueError, OverflowError, InputsError):
        return NotImplemented


def _has_fractions(tensor: Any) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())
