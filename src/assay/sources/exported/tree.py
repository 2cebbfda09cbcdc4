"""The modules and module calls of an exported program, from the paths and stacks in its file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from assay.checkpoint.formats.pt2_schema import GraphModule
from assay.document.rows import Call, Module, TensorType
from assay.messages import plural
from assay.sources.exported.graph import Program

UNKNOWN_CLASS = "(unknown)"
"""The class of a module in which no op ran: the file records classes only with ops."""

_REPEAT = re.compile(r"@\d+$")
_SLICE = re.compile(r"\.slice\((?:None|0), [^)]*\)")
_LIVE_ROOT = re.compile(r"^L\['self'\]\.?")


class Frame(NamedTuple):
    """One module on the stack of an op: its path, call and class."""

    path: str
    repeat: str
    """`@1`, `@2`, … for repeated calls of a module, if the file numbers them."""
    class_path: str


class Tree(NamedTuple):
    """The modules, their calls, and for each step the index of its call."""

    modules: list[Module]
    calls: list[Call]
    call_of: list[int]
    notes: tuple[str, ...]


def build(module: GraphModule, program: Program, tensors: Mapping[str, int]) -> Tree:
    """The tree of all modules in the file."""
    stacks = [frames(step.stack) for step in program.steps]
    classes = {frame.path: frame.class_path for stack in stacks for frame in stack}
    listed = [_REPEAT.sub("", call.fqn) for call in module.module_call_graph]
    paths = _with_parents([*listed, *classes, *(name.rpartition(".")[0] for name in tensors)])
    index = {path: position for position, path in enumerate(paths)}
    own: dict[str, dict[str, int]] = {path: {} for path in paths}
    for name, row in tensors.items():
        path, _, local = name.rpartition(".")
        own[path][local] = row
    modules = [_module(path, index, classes.get(path), own[path]) for path in paths]
    calls, call_of = _calls(stacks, index)
    unknown = sum(row.class_name == UNKNOWN_CLASS for row in modules)
    modules_text = plural(unknown, "module")
    notes = (f"class unknown for {modules_text} in which no op ran: the file does not record it",) if unknown else ()
    return Tree(modules, _with_types(calls, call_of, program), call_of, notes)


@lru_cache(maxsize=4096)
def frames(stack: str) -> tuple[Frame, ...]:
    """Parse the modules around an op, outermost first, from `key,path,class;key,path,class`."""
    parts = [_split(part) for part in stack.split(";") if part]
    result = [_frame(part) for part in parts if len(part) == 3]
    return tuple(result) if result and result[0].path == "" else (Frame("", "", ""), *result)


def _frame(part: list[str]) -> Frame:
    key, path, class_path = part
    path = _SLICE.sub("", _REPEAT.sub("", _LIVE_ROOT.sub("", path)))
    match = _REPEAT.search(key)
    return Frame(path, match.group() if match else "", class_path)


def _split(part: str) -> list[str]:
    """The three fields of a stack entry; commas inside brackets belong to a field."""
    fields, depth = [""], 0
    for character in part:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            fields.append("")
        else:
            fields[-1] += character
    return fields


def _with_parents(paths: Iterable[str]) -> list[str]:
    """Each path once, after its parents; the root comes first."""
    unique: dict[str, None] = {"": None}
    for path in paths:
        parts = path.split(".")
        for end in range(1, len(parts) + 1):
            unique.setdefault(".".join(parts[:end]))
    return list(unique)


def _module(path: str, index: Mapping[str, int], class_path: str | None, own: dict[str, int]) -> Module:
    return Module(
        path=path,
        class_name=class_path.rpartition(".")[2] if class_path else UNKNOWN_CLASS,
        class_path=class_path or "",
        parent=index[path.rpartition(".")[0]] if path else None,
        tensors=own,
    )


def _calls(stacks: list[tuple[Frame, ...]], index: Mapping[str, int]) -> tuple[list[Call], list[int]]:
    """The calls in order of their first op, and each step's innermost call.

    If the file numbers repeated calls, the numbers are used. Otherwise a module that appears again after another
    module has run counts as a new call.
    """
    numbered = any(frame.repeat for stack in stacks for frame in stack)
    calls = [Call(0, None)]
    call_numbers: dict[tuple[int, str, str], int] = {}
    call_of: list[int] = []
    previous: list[int] = []
    for stack in stacks:
        current = [0]
        for depth, frame in enumerate(stack[1:], 1):
            key = (current[-1], frame.path, frame.repeat)
            still_open = depth < len(previous) and call_numbers.get(key) == previous[depth]
            if key not in call_numbers or not (numbered or still_open):
                call_numbers[key] = len(calls)
                calls.append(Call(index[frame.path], current[-1]))
            current.append(call_numbers[key])
        call_of.append(current[-1])
        previous = current
    return calls, call_of


def _with_types(calls: list[Call], call_of: list[int], program: Program) -> list[Call]:
    """The calls with their inputs (tensors made outside) and outputs (tensors used outside)."""
    inputs: list[dict[int, None]] = [{} for _ in calls]
    outputs: list[dict[int, None]] = [{} for _ in calls]
    made_in: dict[int, int] = {}
    for step, call in zip(program.steps, call_of, strict=True):
        around = _enclosing(calls, call)
        for _, value in step.tensors:
            if program.values[value].role not in ("activation", "input"):
                continue
            inside = set(_enclosing(calls, made_in[value])) if value in made_in else set()
            for outer in around:
                if outer not in inside:
                    inputs[outer].setdefault(value)
            for other in inside.difference(around):
                outputs[other].setdefault(value)
        made_in.update(dict.fromkeys(step.outputs, call))
    for value in program.outputs:
        for other in _enclosing(calls, made_in[value]) if value in made_in else ():
            outputs[other].setdefault(value)
    inputs[0] = dict.fromkeys(value for _, value in program.inputs)
    outputs[0] = dict.fromkeys(program.outputs)
    return [
        Call(row.module, row.parent, _types(inputs[number], program), _types(outputs[number], program))
        for number, row in enumerate(calls)
    ]


def _enclosing(calls: list[Call], call: int) -> list[int]:
    """The call and all calls that enclose it, innermost first."""
    result = [call]
    while (parent := calls[result[-1]].parent) is not None:
        result.append(parent)
    return result


def _types(values: Iterable[int], program: Program) -> tuple[TensorType, ...]:
    return tuple(program.values[value].type for value in values)
