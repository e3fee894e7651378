"""This module lists the arguments of a Metal entry point and the words of the argument block that the host fills.

An entry point takes one buffer: the address of the argument block (8 bytes, in the constant address space), at index 0.
Metal fills every other argument: positions of threads. All memory is reached by addresses that stand in the block, so
the arguments do not tell Metal of it, and the host declares it resident (useResource, or a residency set).

The arguments are read back from the text, so the table says what was translated, not what should have been.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ...compiler.errors import InternalError
from ...compiler.ir.kernels import Kernel
from ..codegen.layout import BlockLayout

BLOCK_INDEX = 0
"""Index of the only buffer."""

FILLED = {
    "thread_position_in_grid": "uint3",
    "threadgroups_per_grid": "uint3",
    "thread_position_in_threadgroup": "uint3",
    "threadgroup_position_in_grid": "uint3",
    "thread_index_in_threadgroup": "uint",
    "thread_index_in_simdgroup": "uint",
    "threads_per_simdgroup": "uint",
}
"""Arguments that Metal fills, with their types."""


@dataclass(frozen=True)
class EntryArgument:
    """Represent an argument of a Metal entry point: its name, type and attribute.

    Attributes:
        name: name of the argument in the Metal text
        type: type of the argument in the Metal text
        attribute: `buffer(0)`, or what Metal fills the argument with
    """

    name: str
    type: str
    attribute: str


@dataclass(frozen=True)
class BlockSlot:
    """Represent a range of bytes of the argument block and the meaning of its contents.

    Attributes:
        at: offset of the first byte in the block
        bytes: number of bytes
        holds: what the host writes there, or reads from there
    """

    at: int
    bytes: int
    holds: str


_SIGNATURE = re.compile(r"^kernel void (?P<name>\w+)\((?P<arguments>.*)\)$", re.MULTILINE)
_ARGUMENT = re.compile(r"(?P<type>[\w&* ]+?) ?(?P<name>\w+) \[\[(?P<attribute>\w+(?:\(\d+\))?)\]\](?:, |$)")


def arguments(text: str, entry: str) -> tuple[EntryArgument, ...]:
    """Return the arguments of an entry point, parsed from the Metal source text.

    Raises:
        InternalError: if they are not what the host gives
    """
    signatures = [m for m in _SIGNATURE.finditer(text) if m["name"] == entry]
    if len(signatures) != 1:
        raise InternalError(f"the text has {len(signatures)} entry points {entry}")
    given = signatures[0]["arguments"]
    found = [EntryArgument(m["name"], m["type"], m["attribute"]) for m in _ARGUMENT.finditer(given)]
    if ", ".join(f"{a.type} {a.name} [[{a.attribute}]]" for a in found) != given:
        raise InternalError(f"arguments of {entry} cannot be read: {given}")
    for argument in found:
        _see(argument, text)
    return tuple(found)


def _see(argument: EntryArgument, text: str) -> None:
    """Raise InternalError if the host cannot supply an argument with this attribute and type."""
    expected = FILLED.get(argument.attribute)
    if argument.attribute == f"buffer({BLOCK_INDEX})":
        name = argument.type.removeprefix("constant ").removesuffix("&")
        expected = f"constant {name}&"
        if not re.search(rf"^struct {name}\n{{\n    ulong \w+;\n}};$", text, re.MULTILINE):
            raise InternalError(f"{name}, which buffer {BLOCK_INDEX} holds, is not one address")
    if argument.type != expected:
        raise InternalError(f"argument {argument} is none that the host gives")


def slots(kernel: Kernel, layout: BlockLayout, tail: int) -> tuple[BlockSlot, ...]:
    """Return the fields of the argument block in order of their byte offsets.

    Args:
        kernel: kernel without exits
        layout: layout of the block
        tail: bytes of the table that follows the block
    """
    found = [
        BlockSlot(layout.error_at, 24, "error: statement + 1 in 4 bytes, and two numbers; 0 before the first entry"),
        BlockSlot(layout.draws_at, 8, "key of random numbers: seed and launch, 4 bytes each"),
        *_of_stacks(layout),
        *_of_parameters(layout),
    ]
    for name, (at, t) in layout.temps.items():
        found.append(BlockSlot(at, 8, f"temporary {name}: {t}; 0 before the first entry"))
    for task, at in layout.boxes.items():
        axes = len(kernel.tasks[task].indices)
        found.append(
            BlockSlot(at, 16 * axes, f"begin and extent of each axis of task {task}; bounds_{task} writes them")
        )
    if tail:
        found.append(BlockSlot(layout.size, tail, "words of 2/pi, which reduce large arguments; behind the slots"))
    return tuple(sorted(dict.fromkeys(found), key=lambda slot: slot.at))


def _of_stacks(layout: BlockLayout) -> Iterator[BlockSlot]:
    """Yield the fields of the argument block that describe adstacks: slabs, rows, offsets and capacities."""
    for slab, at in layout.slabs.items():
        yield BlockSlot(at, 8, f"address of the {slab} slab of adstacks")
    for (task, slab), at in layout.rows.items():
        yield BlockSlot(at, 8, f"rows of task {task} in the {slab} slab: one for each thread")
    for stack in layout.stacks:
        of = f"stack {stack.alloca.stack} of task {stack.task}"
        yield BlockSlot(stack.offset_at, 8, f"bytes before {of} in a row")
        yield BlockSlot(stack.capacity_at, 8, f"slots of {of}, of {stack.slot_bytes} bytes")


def _of_parameters(layout: BlockLayout) -> Iterator[BlockSlot]:
    """Yield the fields of the argument block that hold array addresses, shapes and scalar arguments."""
    for array in layout.arrays.values():
        for axis in range(array.type.ndim):
            yield BlockSlot(array.shape_at + 8 * axis, 8, f"extent {axis} of {array.name.removesuffix('.grad')}")
        yield BlockSlot(array.address_at, 8, f"address of {array.name}: {array.type}")
    for name, (at, t) in layout.scalars.items():
        yield BlockSlot(at, 8, f"scalar {name}: {t}")
