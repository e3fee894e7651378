"""This module turns the error records that native code writes into exceptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...compiler.analysis.equal_depths import lockstep
from ...compiler.errors import (
    CURE_OF_INDEX,
    AdstackOverflow,
    Diagnostic,
    DivisionByZero,
    InternalError,
    KernelAssertionError,
    OutOfBounds,
    StackgradError,
)
from ...compiler.ir import nodes as n
from ...compiler.ir.kernels import Kernel
from ...compiler.ir.names import shown_name
from ...compiler.ir.printer import headline
from ...compiler.ir.statement import Value
from ...compiler.ir.texts import index_message
from ...compiler.ir.walk import walk
from ..codegen.emit import Site
from ..codegen.layout import StackLayout


def exception(
    kernel: Kernel, sites: Sequence[Site], record: tuple[int, int, int], stacks: Sequence[tuple[StackLayout, int]]
) -> StackgradError:
    """Return the exception for an error record.

    Args:
        kernel: Kernel that was launched.
        sites: Site table of the code.
        record: Number of the site, and the two numbers of the error.
        stacks: Every adstack with its published capacity.
    """
    number, first, second = record
    if not 0 <= number < len(sites):
        return InternalError(f"kernel {kernel.name}: an error record without a site: {record}")
    site = sites[number]
    if site.kind in ("overflow", "room"):
        site = _overflowed(kernel, site, first, stacks)
    kind, reason, cure = _WORDING[site.kind](site, first, second, stacks)
    head = headline(site.stmt)
    text = f"{reason}\n    at `{head}` of kernel {kernel.name}, task {site.task}"
    return kind(Diagnostic(text, cure, kernel.span(site.stmt.loc)).render())


_Wording = tuple[type[StackgradError], str, str]


def _index(site: Site, first: int, second: int, stacks: Sequence[tuple[StackLayout, int]]) -> _Wording:
    if isinstance(site.stmt, n.Within):
        return OutOfBounds, index_message(site.stmt.message, _number(site.stmt.index, first), second), CURE_OF_INDEX
    array, value = shown_name(site.stmt.array), site.stmt.indices[site.axis]  # type: ignore[attr-defined]
    reason = f"index {_number(value, first)} is outside axis {site.axis} of {array}, which has {second} elements"
    return OutOfBounds, reason, CURE_OF_INDEX


def _number(value: Value, word: int) -> int:
    """Return an index as a number, given the word of 64 bits that the error record holds for it."""
    return word if value.type.is_signed else word & ((1 << 64) - 1)


def _element(site: Site, first: int, second: int, stacks: Sequence[tuple[StackLayout, int]]) -> _Wording:
    array, value = site.stmt.var, site.stmt.index  # type: ignore[attr-defined]
    reason = f"index {_number(value, first)} is outside local array {array}, which has {second} elements"
    return OutOfBounds, reason, CURE_OF_INDEX


def _division(site: Site, first: int, second: int, stacks: Sequence[tuple[StackLayout, int]]) -> _Wording:
    return DivisionByZero, "integer division or modulo by zero", "guard the division with an if"


def _assert(site: Site, first: int, second: int, stacks: Sequence[tuple[StackLayout, int]]) -> _Wording:
    assert isinstance(site.stmt, n.Assert)
    return KernelAssertionError, f"assertion failed: {site.stmt.message}", ""


def _overflowed(kernel: Kernel, site: Site, depth: int, stacks: Sequence[tuple[StackLayout, int]]) -> Site:
    """Return the site of a push onto the adstack that is full, which may be another one than the reported stack."""
    assert isinstance(site.stmt, n.StackPush)
    body, name = kernel.tasks[site.task].body, site.stmt.stack
    groups = lockstep(body)
    # The push that reports was compared with the least capacity of all stacks that always have its depth.
    small = {s.alloca.stack for s, capacity in stacks if s.task == site.task and capacity < depth}
    full = [stack for stack, group in groups.items() if group == groups[name] and stack in small]
    if not full or name in full:
        return site
    pushes = [s for s in walk(body) if isinstance(s, n.StackPush) and s.stack == full[0]]
    return replace(site, stmt=pushes[0])


def _overflow(site: Site, first: int, second: int, stacks: Sequence[tuple[StackLayout, int]]) -> _Wording:
    assert isinstance(site.stmt, n.StackPush)
    name = site.stmt.stack
    mine, second = next(s for s in stacks if s[0].alloca.stack == name and s[0].task == site.task)
    history = f", the history of {mine.alloca.variable}," if mine.alloca.variable else ""
    published = ", ".join(f"{stack.alloca.stack} {capacity}" for stack, capacity in stacks)
    deeper = f"a push made it {first}" if site.kind == "overflow" else f"the loop of the push made it {first}"
    reason = (
        f"adstack {name}{history} overflowed: it holds {second} values and {deeper}"
        f"\n    published capacities: {published}"
    )
    if mine.alloca.capacity is None:
        cure = "write what loop bounds depend on through the runtime, so that depths are counted anew, and launch again"
    else:
        cure = "declare the stack without a capacity: it is found before the launch then"
    return AdstackOverflow, reason, cure


def _empty(site: Site, first: int, second: int, stacks: Sequence[tuple[StackLayout, int]]) -> _Wording:
    assert isinstance(site.stmt, n.StackPop)
    reason = f"the loop of the pop takes {first} values off adstack {site.stmt.stack}, which holds {second}"
    return AdstackOverflow, reason, "a stack must not be popped when it is empty"


_WORDING = {
    "index": _index,
    "element": _element,
    "division": _division,
    "assert": _assert,
    "overflow": _overflow,
    "room": _overflow,
    "empty": _empty,
}
