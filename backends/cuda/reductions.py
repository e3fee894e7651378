"""This module handles updates of one element by all iterations: each thread keeps a sum, a block makes one update.

    for i: loss[None] += f(x[i])      →      own = 0; for i of the thread: own += f(x[i]); block: loss[None] += sum

holds of add, min and max where the index is fixed by the launch (constants, arguments, extents), nothing reads the old
value, and the task does nothing else to the array than updates by the same operation. The neutral element of real sums
is -0.0, so that a sum over no updates changes nothing, not even the sign of a zero; a block whose sum is the neutral
element makes no update, for there may be no element.

Deterministic code writes the sums of all blocks down, a word of the state for each, and one more entry point adds them
up in their order. A task whose updates cannot be kept, and whose order would show, is left to one thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...compiler.analysis.affine import Affine, IndexForms, apart
from ...compiler.analysis.index_facts import IndexFacts
from ...compiler.ir import nodes as n
from ...compiler.ir.nodes import Task
from ...compiler.ir.types import Scalar
from ...compiler.ir.walk import used_values, walk, walk_task
from ..base import Options
from ..codegen import ir
from ..codegen.emit import Emitter
from ..codegen.index_forms import value_of
from ..codegen.types import I32, I64, bits_type, const, memory_type
from ..llvm import atomics
from ..llvm.function import Additions
from . import warp

PARTIALS = 2048
"""Number of blocks whose sums a deterministic launch can write down; further blocks take no part."""

REDUCED = ("add", "min", "max")


Forms = tuple[tuple[Affine, Scalar], ...]
"""Forms of the indices of an update, each with the type of the index."""


@dataclass(frozen=True)
class Sum:
    """Represent the updates of one element.

    Attributes:
        op: Name of the operation.
        array: Name of the array.
        dtype: Type of the element.
        forms: Affine forms of the indices.
        updates: The updates.
    """

    op: str
    array: str
    dtype: Scalar
    forms: Forms
    updates: tuple[n.Atomic, ...]


def sums(task: Task, options: Options) -> tuple[Sum, ...]:
    """Return the updates of a task that threads can keep; a debug build has none."""
    # A debug build compares every index in its turn, so threads keep no updates.
    if not task.is_parallel or options.debug:
        return ()
    inside = list(walk_task(task))
    forms, used, facts = IndexForms(task), used_values(inside), IndexFacts(task)
    others = {s.array for s in inside if isinstance(s, (n.Load, n.Store))}
    found: dict[tuple[str, str, Forms], list[n.Atomic]] = {}
    every: list[tuple[str, str, Forms]] = []
    for stmt in walk(task.body):
        if isinstance(stmt, n.Atomic):
            key = stmt.op, stmt.array, tuple((forms.form(v), v.type) for v in stmt.indices)
            every.append(key)
            exact = all(map(facts.widens_exactly, stmt.indices))
            if exact and _suits(stmt.op, stmt.value.type) and stmt.result not in used and _is_fixed(key[2]):
                found.setdefault(key, []).append(stmt)
    return tuple(
        Sum(*key[:2], updates[0].value.type, key[2], tuple(updates))
        for key, updates in found.items()
        if key[1] not in others and all(_commute(key, other) for other in every)
    )


def _commute(a: tuple[str, str, Forms], b: tuple[str, str, Forms]) -> bool:
    """Return True if two updates may change places: they are of one kind, or of two elements."""
    return a[:2] == b[:2] or a[1] != b[1] or any(apart(p, q) for (p, _), (q, _) in zip(a[2], b[2]))


def _suits(op: str, t: Scalar) -> bool:
    """Return True if threads can keep updates by this operation on this type."""
    return op in REDUCED and t.bits in (32, 64)


def _is_fixed(forms: Forms) -> bool:
    """Return True if a launch fixes the indices, by arguments and extents alone."""
    return all(isinstance(s, tuple) for form, _ in forms for s in form.symbols())


def neutral(op: str, t: Scalar) -> float | int:
    """Return the value whose update changes nothing."""
    if op == "add":
        return -0.0 if t.is_real else 0
    if t.is_real:
        return math.inf if op == "min" else -math.inf
    low, high = (-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1) if t.is_signed else (0, (1 << t.bits) - 1)
    return high if op == "min" else low


class Private(Additions):
    """Add to the code of a task the sums that each thread keeps.

    Attributes:
        sums: Sums that threads keep.
        numbered: Arrays whose elements have the numbers of the iterations; see own_index.py.
        cells: Register with this thread's part of each sum.
    """

    def __init__(self, found: tuple[Sum, ...], numbered: frozenset[str] = frozenset()) -> None:
        self.sums, self.numbered = found, numbered
        self.cells: list[ir.Value] = []

    def begin(self, e: Emitter) -> None:
        """Give each sum a register that holds the neutral element."""
        e.numbered = self.numbered
        for s in self.sums:
            t = memory_type(s.dtype)
            cell = e.alloca(t)
            e.b.store(const(t, neutral(s.op, s.dtype)), cell)
            self.cells.append(cell)
            e.private.update(dict.fromkeys(s.updates, cell))

    def end(self, e: Emitter) -> None:
        """Combine the parts of all threads of the block, and publish the sums."""
        for s, cell in zip(self.sums, self.cells):
            own = e.b.load(cell, memory_type(s.dtype))
            total = warp.reduce_block(e.m, e.b, s.op, s.dtype, own)
            self.publish(e, s, total)

    def publish(self, e: Emitter, s: Sum, total: ir.Value) -> None:
        """Let one thread of the block update the element, or write the sum down."""
        if not e.m.options.deterministic:
            self._update(e, s, total)
            return
        b, block = e.b, warp.special(e.m, e.b, "ctaid.x")
        first = b.icmp_unsigned("==", warp.special(e.m, b, "tid.x"), const(I32, 0))
        with b.if_then(b.and_(first, b.icmp_unsigned("<", block, const(I32, PARTIALS)))):
            b.store(total, b.gep(_partials(e, self.sums.index(s)), b.zext(block, I64), I64))
            b.store(b.zext(warp.special(e.m, b, "nctaid.x"), I64), e.temp(e.m.layout.partials[e.task]))

    def _update(self, e: Emitter, s: Sum, total: ir.Value) -> None:
        """Let one thread update the element, unless the sum is neutral."""
        b, t = e.b, memory_type(s.dtype)
        first = b.icmp_unsigned("==", warp.special(e.m, b, "tid.x"), const(I32, 0))
        with b.if_then(b.and_(first, _differs(e, total, const(t, neutral(s.op, s.dtype))))):
            check_element(e, s, e.flow.trap_if)
            atomics.update(e, s.op, s.dtype, element(e, s), total, atomic=True)


class Finish(Private):
    """Add to the code of a task without iterations the sums that blocks have written down."""

    def end(self, e: Emitter) -> None:
        """Combine the sums of all blocks, and update the elements."""
        for s in self.sums:
            found = self._of_this_thread(e, self.sums.index(s), s)
            self._update(e, s, warp.reduce_block(e.m, e.b, s.op, s.dtype, found))

    def _of_this_thread(self, e: Emitter, place: int, s: Sum) -> ir.Value:
        """Return the combination of words number, number + threads, ... in this order."""
        b, t = e.b, memory_type(s.dtype)
        written = b.load(e.temp(e.m.layout.partials[e.task]), I64)
        most = const(I64, PARTIALS)
        count = b.select(b.icmp_unsigned("<", written, most), written, most)
        number, threads = (b.zext(warp.special(e.m, b, name), I64) for name in ("tid.x", "ntid.x"))
        words, before = _partials(e, place), b.block
        head, body, done = (b.function.append_basic_block(name) for name in ("words", "word", "summed"))
        b.branch(head)
        b.position_at_end(head)
        k, total = b.phi(I64), b.phi(t)
        k.add_incoming(number, before)
        total.add_incoming(const(t, neutral(s.op, s.dtype)), before)
        b.cbranch(b.icmp_unsigned("<", k, count), body, done)
        b.position_at_end(body)
        more = atomics.combine(e, s.op, s.dtype, total, b.load(b.gep(words, k, I64), t))
        k.add_incoming(b.add(k, threads), b.block)
        total.add_incoming(more, b.block)
        b.branch(head)
        b.position_at_end(done)
        return total


def _partials(e: Emitter, place: int) -> ir.Value:
    """Return the address of the sums of blocks, which lie behind the number of blocks."""
    return e.temp(e.m.layout.partials[e.task] + 8 * (1 + place * PARTIALS))


def _differs(e: Emitter, total: ir.Value, nothing: ir.Value) -> ir.Value:
    """Return the condition that a sum is not the neutral element."""
    b = e.b
    # Bits are compared: -0.0 is not 0.0.
    if not isinstance(total.type, ir.IntType):
        word = bits_type(total.type)
        total, nothing = b.bitcast(total, word), b.bitcast(nothing, word)
    return b.icmp_unsigned("!=", total, nothing)


def element(e: Emitter, s: Sum) -> ir.Value:
    """Return the address of the element, from what the launch fixes."""
    temp = e.m.layout.temps.get(s.array)
    if temp is not None:
        return e.temp(temp[0])
    array = e.m.layout.arrays[s.array]
    return e.b.gep(e.slot_address(array.address_at), linear_index(e, s), memory_type(array.type.dtype))


def check_element(e: Any, s: Sum, trap_if: Callable[[ir.Value, int, ir.Value, ir.Value], None]) -> None:
    """End the launch if the element is outside its array; the updates themselves have compared no index.

    Args:
        e: Emitter of this generator, or an object with its methods.
        s: Sum whose element is checked.
        trap_if: Ends the launch where a condition holds.
    """
    if s.array in e.m.layout.temps or not e.m.options.bounds:
        return
    for axis, (form, t) in enumerate(s.forms):
        index = e.to_i64(e.from_i64(value_of(e, form), t), t)
        extent = e.slot(e.m.layout.arrays[s.array].shape_at + 8 * axis)
        outside = e.b.icmp_unsigned(">=", index, extent)
        trap_if(outside, e.m.site("index", e.task, s.updates[0], axis), index, extent)


def linear_index(e: Any, s: Sum) -> ir.Value:
    """Return the number of the element in its array.

    Args:
        e: Emitter of this generator, or an object with its methods.
        s: Sum of the element.
    """
    array, b = e.m.layout.arrays[s.array], e.b
    linear: ir.Value = const(I64, 0)
    for axis, (form, t) in enumerate(s.forms):
        index = e.to_i64(e.from_i64(value_of(e, form), t), t)
        linear = b.add(b.mul(linear, e.slot(array.shape_at + 8 * axis)), index) if axis else index
    return linear
