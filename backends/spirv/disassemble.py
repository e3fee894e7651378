"""A module as text, one instruction a line, in the form of SPIR-V's own assembler, so that `spirv-as` reads it.

Functions have their names, everything else the number of its id.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence

from . import opcodes as op

Named = Callable[[int], str]
Special = Callable[[list[int], Named], Iterator[str]]

_NAMES = {number: name for name, number in op.OPCODES.items()}
_CAPABILITIES = {number: name for name, number in op.CAPABILITIES.items()}
_MODES = {number: name for name, number in op.EXECUTION_MODES.items()}
_STORAGE = {
    op.INPUT: "Input",
    op.FUNCTION: "Function",
    op.PUSH_CONSTANT: "PushConstant",
    op.PHYSICAL: "PhysicalStorageBuffer",
    op.STORAGE_BUFFER: "StorageBuffer",
}
_DECORATIONS = {
    op.BLOCK: "Block",
    op.ARRAY_STRIDE: "ArrayStride",
    op.BUILT_IN: "BuiltIn",
    op.ALIASED: "Aliased",
    op.BINDING: "Binding",
    op.DESCRIPTOR_SET: "DescriptorSet",
    op.OFFSET: "Offset",
    op.NO_CONTRACTION: "NoContraction",
}
_BUILT_INS = {op.NUM_WORKGROUPS: "NumWorkgroups", op.GLOBAL_INVOCATION_ID: "GlobalInvocationId"}
_GLSL = {
    2: "RoundEven",
    3: "Trunc",
    4: "FAbs",
    8: "Floor",
    9: "Ceil",
    31: "Sqrt",
    50: "Fma",
    73: "FindILsb",
    75: "FindUMsb",
}

_UNTYPED = frozenset(
    {
        "ExtInstImport",
        "TypeVoid",
        "TypeBool",
        "TypeInt",
        "TypeFloat",
        "TypeVector",
        "TypeArray",
        "TypeStruct",
        "TypePointer",
        "TypeRuntimeArray",
        "TypeFunction",
        "Label",
    }
)
"""Instructions that give a result without a type."""

_VOID = frozenset(
    {
        "Name",
        "Extension",
        "MemoryModel",
        "EntryPoint",
        "ExecutionMode",
        "Capability",
        "Decorate",
        "MemberDecorate",
        "Store",
        "LoopMerge",
        "SelectionMerge",
        "Branch",
        "BranchConditional",
        "Return",
        "ReturnValue",
        "FunctionEnd",
    }
)
"""Instructions that give none."""


def instructions(words: Sequence[int]) -> Iterator[tuple[str, list[int]]]:
    """(name, operands) of each instruction of a module, header aside."""
    at = 5
    while at < len(words):
        count = words[at] >> 16
        yield _NAMES[words[at] & 0xFFFF], list(words[at + 1 : at + count])
        at += count


def disassemble(words: Sequence[int]) -> str:
    """The text of a module."""
    ids = {o[0]: "%" + _text(o[1:])[0].replace(".", "_") for name, o in instructions(words) if name == "Name"}
    widths: dict[int, tuple[str, int]] = {}
    lines = ["; SPIR-V", "; Version: 1.5"]
    for name, operands in instructions(words):
        if name in ("TypeInt", "TypeFloat"):
            widths[operands[0]] = name, operands[1]
        lines.append(_line(name, operands, ids, widths))
    return "\n".join(lines) + "\n"


def _line(name: str, operands: list[int], ids: dict[int, str], widths: dict[int, tuple[str, int]]) -> str:
    def named(number: int) -> str:
        return ids.get(number, f"%{number}")

    result, rest = "", operands
    if name in _UNTYPED:
        result, rest = f"{named(operands[0])} = ", operands[1:]
        words = [*_operands(name, rest, named)]
    elif name in _VOID:
        words = [*_operands(name, rest, named)]
    else:
        result, rest = f"{named(operands[1])} = ", operands[2:]
        last = [_number(rest, *widths[operands[0]])] if name == "Constant" else _operands(name, rest, named)
        words = [named(operands[0]), *last]
    return f"{result}Op{name}" + "".join(f" {word}" for word in words)


def _operands(name: str, rest: list[int], named: Named) -> Iterator[str]:
    """What stands behind the result: literals by name, everything else as ids."""
    special = _SPECIAL.get(name)
    yield from special(rest, named) if special else map(named, rest)


def _number(words: list[int], kind: str, width: int) -> str:
    pattern = sum(word << 32 * k for k, word in enumerate(words))
    if kind == "TypeInt":
        return str(pattern)
    code = "<d" if width == 64 else "<f"
    value = struct.unpack(code, pattern.to_bytes(width // 8, "little"))[0]
    if value != value or value in (float("inf"), float("-inf")):
        top = 128 if width == 32 else 1024
        sign = "-" if pattern >> (width - 1) else ""
        return f"{sign}0x1.8p+{top}" if value != value else f"{sign}0x1p+{top}"
    return float(value).hex()


def _text(words: list[int]) -> tuple[str, int]:
    """A literal string, and how many words it takes."""
    data = struct.pack(f"<{len(words)}I", *words)
    end = data.index(0)
    return data[:end].decode(), end // 4 + 1


def _decorated(rest: list[int], named: Named) -> Iterator[str]:
    yield from (_DECORATIONS[rest[0]], *(_BUILT_INS[k] if rest[0] == op.BUILT_IN else str(k) for k in rest[1:]))


def _entry(rest: list[int], named: Named) -> Iterator[str]:
    text, used = _text(rest[2:])
    yield from ("GLCompute", named(rest[1]), f'"{text}"', *map(named, rest[2 + used :]))


def _accessed(ids: int) -> Special:
    """So many ids, and a memory operand."""

    def write(rest: list[int], named: Named) -> Iterator[str]:
        yield from map(named, rest[:ids])
        yield from ("Aligned", str(rest[-1])) if len(rest) > ids else ()

    return write


_GROUP_OPERATIONS = ("Reduce", "InclusiveScan", "ExclusiveScan")


def _grouped(rest: list[int], named: Named) -> Iterator[str]:
    """A scope; a group operation if a value follows both."""
    yield named(rest[0])
    yield from (_GROUP_OPERATIONS[rest[1]], named(rest[2])) if len(rest) > 2 else map(named, rest[1:])


_SPECIAL: dict[str, Special] = {
    "Name": lambda rest, named: iter((named(rest[0]), f'"{_text(rest[1:])[0]}"')),
    "Extension": lambda rest, named: iter((f'"{_text(rest)[0]}"',)),
    "ExtInstImport": lambda rest, named: iter((f'"{_text(rest)[0]}"',)),
    "ExtInst": lambda rest, named: iter((named(rest[0]), _GLSL[rest[1]], *map(named, rest[2:]))),
    "MemoryModel": lambda rest, named: iter(("PhysicalStorageBuffer64" if rest[0] else "Logical", "GLSL450")),
    "EntryPoint": _entry,
    "ExecutionMode": lambda rest, named: iter((named(rest[0]), _MODES[rest[1]], *map(str, rest[2:]))),
    "Capability": lambda rest, named: iter((_CAPABILITIES[rest[0]],)),
    "Decorate": lambda rest, named: iter((named(rest[0]), *_decorated(rest[1:], named))),
    "MemberDecorate": lambda rest, named: iter((named(rest[0]), str(rest[1]), *_decorated(rest[2:], named))),
    "TypeInt": lambda rest, named: map(str, rest),
    "TypeFloat": lambda rest, named: map(str, rest),
    "TypeVector": lambda rest, named: iter((named(rest[0]), str(rest[1]))),
    "TypePointer": lambda rest, named: iter((_STORAGE[rest[0]], named(rest[1]))),
    "Variable": lambda rest, named: iter((_STORAGE[rest[0]],)),
    "Function": lambda rest, named: iter(("None", named(rest[1]))),
    "CompositeExtract": lambda rest, named: iter((named(rest[0]), str(rest[1]))),
    **{name: _grouped for name in op.OPCODES if name.startswith("GroupNonUniform")},
    "Load": _accessed(1),
    "Store": _accessed(2),
    "LoopMerge": lambda rest, named: iter((named(rest[0]), named(rest[1]), "None")),
    "SelectionMerge": lambda rest, named: iter((named(rest[0]), "None")),
}
"""Operands of instructions that have others than ids."""
