"""How one module differs from another, in words: `act is GELU, not SiLU`.

`path` is where the two modules are inside the larger ones that are compared; empty for those themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from assay import units
from assay.analysis.training_mode import mode_name
from assay.document.rows import Call, Module, Tensor
from assay.messages import plural

_LONGEST_VALUE = 20
"""Settings with longer values are named without them."""


def class_difference(path: str, module: Module, other: Module) -> str:
    """`act is GELU, not SiLU`; with full names if the classes share their names."""
    names = module.class_name, other.class_name
    one, two = names if names[0] != names[1] else (module.class_path, other.class_path)
    return f"{path or 'class'} is {one}, not {two}"


def mode_difference(module: Module) -> str:
    """The mode of a module, if that of the other differs."""
    return f"in {mode_name(module.training)} mode"


def name_differences(path: str, names: Mapping[str, object], usual: Mapping[str, object]) -> Iterator[str]:
    """The names that only one of the two has: `also has bias`."""
    for verb, some in (("also has", names.keys() - usual.keys()), ("lacks", usual.keys() - names.keys())):
        if some:
            yield f"{verb} {joined(path, min(some))}" if len(some) == 1 else f"{verb} {len(some)} parts"


def setting_differences(path: str, module: Module, other: Module) -> Iterator[str]:
    """The settings with other values, and whether only one of the two is shared."""
    for name in {**module.config, **other.config} if module.config != other.config else ():
        mine, usual = str(module.config.get(name)), str(other.config.get(name))
        if mine != usual:
            known = max(len(mine), len(usual)) <= _LONGEST_VALUE
            yield f"{joined(path, name)} {f'is {mine}, not {usual}' if known else 'differs'}"
    if bool(module.aliases) != bool(other.aliases):
        yield joined(path, "is shared" if module.aliases else "is not shared", " ")


def tensor_differences(
    path: str, own: Mapping[str, Tensor], usual: Mapping[str, Tensor], learning: list[bool]
) -> Iterator[str]:
    """Differences between the tensors, by local name; `learning` collects those that only one of them trains."""
    yield from name_differences(path, own, usual)
    for name in [name for name in own if name in usual]:
        mine, other = own[name], usual[name]
        if mine.type.shape != other.type.shape:
            yield f"{joined(path, name)} is {units.shape(mine.type.shape)}, not {units.shape(other.type.shape)}"
        if mine.type.dtype != other.type.dtype:
            yield f"{mine.type.dtype}, not {other.type.dtype}"
        if (len(mine.names) > 1) != (len(other.names) > 1):
            yield f"{joined(path, name)} is {'' if len(mine.names) > 1 else 'not '}tied"
        if mine.requires_grad != other.requires_grad:
            learning.append(mine.requires_grad)


def learning_difference(learning: Sequence[bool]) -> Iterator[str]:
    """`frozen` or `trainable`, for the parameters that `tensor_differences` collected."""
    if learning:
        number = "" if len(learning) > 1 else "one parameter "
        yield f"{number}{'trainable' if learning[0] else 'frozen'}"


def call_differences(
    path: str, calls: Sequence[Call], usual: Sequence[Call], *, outputs: bool = True
) -> Iterator[str]:
    """Differences in the number of calls and, if `outputs`, in the shapes that the first one returned."""
    if len(calls) != len(usual):
        yield joined(path, f"called {plural(len(calls), 'time')}, not {len(usual)}", " ")
    if not outputs or not calls or not usual:
        return
    shapes, typical = ([each.shape for each in some[0].outputs] for some in (calls, usual))
    if shapes != typical:
        yield joined(path, f"output is {units.shapes(shapes)}, not {units.shapes(typical)}", " ")


def joined(path: str, name: str, separator: str = ".") -> str:
    """The name inside `path`."""
    return f"{path}{separator}{name}" if path else name
