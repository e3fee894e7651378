"""The table of arguments says what the text has, and a text that has something else is not taken."""

from __future__ import annotations

import re

import pytest
from metal_support import Make
from stackgrad.backends.metal.arguments import BLOCK_INDEX, EntryArgument, arguments
from stackgrad.backends.metal.program import MetalProgram
from stackgrad.compiler.errors import InternalError

TEXT = """kernel k(x: f32[2] grad, s: f64, y: f32[1] grad) {
  bounds { %0: i32 = const 0 %1: i32 = shape x, 0 } parallel %2: i32 in %0 .. %1 {
    %3: f32 = load y[%2] %4: f32 = sin %3 %5: f32 = atomic add x.grad[%2, %2], %4 } }"""


def test_what_an_entry_point_takes(make: Make) -> None:
    task = make(TEXT).entries[-1]
    block, thread, groups = task.arguments
    assert block == EntryArgument(block.name, block.type, f"buffer({BLOCK_INDEX})") and block.type.startswith(
        "constant "
    )
    assert (thread.type, thread.attribute) == ("uint3", "thread_position_in_grid")
    assert (groups.type, groups.attribute) == ("uint3", "threadgroups_per_grid")


def test_slots_are_those_that_the_text_reads(make: Make) -> None:
    """Every constant offset from the block's address that an entry point uses lies in a slot of the table."""
    made = make(TEXT)
    covered = {at for s in made.slots for at in range(s.at, s.at + max(s.bytes, 8))}
    seen = 0
    for entry in made.entries:
        block = entry.arguments[0].name
        for at in re.findall(rf"\b{block}\._m0 \+ (\d+)ul", entry.text):
            seen += 1
            assert int(at) in covered, at
    assert seen > 5


def test_slots_do_not_overlap(make: Make) -> None:
    found = make(TEXT).slots
    assert all(a.at + a.bytes <= b.at for a, b in zip(found, found[1:]))
    held = [slot.holds for slot in found]
    for text in ("address of x: f32[2]", "address of x.grad: f32[2]", "extent 1 of x", "scalar s: f64"):
        assert any(text in line for line in held), text


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("[[buffer(0)]]", "[[buffer(1)]]", "is none that the host gives"),
        ("uint3 gl_GlobalInvocationID", "uint2 gl_GlobalInvocationID", "is none that the host gives"),
        ("[[thread_position_in_grid]]", "[[texture(0)]]", "is none that the host gives"),
        ("kernel void task_0", "kernel void task_9", "0 entry points task_0"),
        ("    ulong _m0;", "    uint _m0;", "is not one address"),
        (", uint3 gl_NumWorkGroups", ", uint3 [2] gl_NumWorkGroups", "cannot be read"),
    ],
)
def test_other_arguments_are_not_taken(make: Make, before: str, after: str, reason: str) -> None:
    made: MetalProgram = make(TEXT)
    text = made.entries[-1].text
    assert arguments(text, "task_0") == made.entries[-1].arguments and before in text
    with pytest.raises(InternalError, match=re.escape(reason)):
        arguments(text.replace(before, after, 1), "task_0")
