"""This module emits sums over iterations: each thread sums up privately, then a thread block makes one update.

    for i: loss[None] += f(x[i])      →      own = 0; for i of the thread: own += f(x[i]); block: loss[None] += sum

A block whose sum is the neutral element makes no update, because there may be no element.

Deterministic code writes the sums of all blocks down, a word of the state for each, and one more entry point adds them
up in their order. A task whose updates cannot be kept, and whose order would show, is left to one thread.
"""

from __future__ import annotations

from ..codegen import ir
from ..codegen.reductions import ElementSum, check_element, linear_index, neutral_element
from ..codegen.types import I32, I64, bits_type, const, memory_type
from ..llvm import atomics
from ..llvm.emit import Emitter
from ..llvm.function import TaskExtension
from . import warp

PARTIALS = 2048
"""Number of blocks whose sums a deterministic launch can write down; further blocks take no part."""


class PrivateSums(TaskExtension):
    """Sum up atomic updates of a task in a variable of each thread, and update the elements after the last iteration.

    Attributes:
        sums: Sums that threads keep.
        numbered: Arrays whose elements have the numbers of the iterations; see own_index.py.
        cells: Register with this thread's part of each sum.
    """

    def __init__(self, found: tuple[ElementSum, ...], numbered: frozenset[str] = frozenset()) -> None:
        self.sums, self.numbered = found, numbered
        self.cells: list[ir.LLVMValue] = []

    def begin(self, e: Emitter) -> None:
        """Emit a private variable of the thread for each sum, set to the neutral element of the operation."""
        e.numbered = self.numbered
        for s in self.sums:
            t = memory_type(s.dtype)
            cell = e.alloca(t)
            e.b.store(const(t, neutral_element(s.op, s.dtype)), cell)
            self.cells.append(cell)
            e.private.update(dict.fromkeys(s.updates, cell))

    def end(self, e: Emitter) -> None:
        """Emit the combination of each sum over the threads of a block, and the update of its element."""
        for s, cell in zip(self.sums, self.cells):
            own = e.b.load(cell, memory_type(s.dtype))
            total = warp.reduce_block(e.m, e.b, s.op, s.dtype, own)
            self.publish(e, s, total)

    def publish(self, e: Emitter, s: ElementSum, total: ir.LLVMValue) -> None:
        """Emit the update of the element by the block's sum, or, for deterministic results, a store of this sum."""
        if not e.m.options.deterministic:
            self._update(e, s, total)
            return
        b, block = e.b, warp.special_register(e.m, e.b, "ctaid.x")
        first = b.icmp_unsigned("==", warp.special_register(e.m, b, "tid.x"), const(I32, 0))
        with b.if_then(b.and_(first, b.icmp_unsigned("<", block, const(I32, PARTIALS)))):
            b.store(total, b.gep(_partials(e, self.sums.index(s)), b.zext(block, I64), I64))
            b.store(b.zext(warp.special_register(e.m, b, "nctaid.x"), I64), e.temp(e.m.layout.partials[e.task]))

    def _update(self, e: Emitter, s: ElementSum, total: ir.LLVMValue) -> None:
        """Emit the update of the element by the first thread of the block, unless the sum is the neutral element."""
        b, t = e.b, memory_type(s.dtype)
        first = b.icmp_unsigned("==", warp.special_register(e.m, b, "tid.x"), const(I32, 0))
        with b.if_then(b.and_(first, _differs(e, total, const(t, neutral_element(s.op, s.dtype))))):
            check_element(e, s, e.flow.trap_if)
            atomics.update(e, s.op, s.dtype, element(e, s), total, atomic=True)


class FinishSums(PrivateSums):
    """Emit the last step of deterministic sums: combine the stored sums of all thread blocks."""

    def end(self, e: Emitter) -> None:
        """Emit code that combines the stored sums of all thread blocks, and updates the elements with the results."""
        for s in self.sums:
            found = self._of_this_thread(e, self.sums.index(s), s)
            self._update(e, s, warp.reduce_block(e.m, e.b, s.op, s.dtype, found))

    def _of_this_thread(self, e: Emitter, place: int, s: ElementSum) -> ir.LLVMValue:
        """Emit a thread's share of the final sum: with n threads, the sum of every n-th stored block sum."""
        b, t = e.b, memory_type(s.dtype)
        written = b.load(e.temp(e.m.layout.partials[e.task]), I64)
        most = const(I64, PARTIALS)
        count = b.select(b.icmp_unsigned("<", written, most), written, most)
        number, threads = (b.zext(warp.special_register(e.m, b, name), I64) for name in ("tid.x", "ntid.x"))
        words, before = _partials(e, place), b.block
        head, body, done = (b.function.append_basic_block(name) for name in ("words", "word", "summed"))
        b.branch(head)
        b.position_at_end(head)
        k, total = b.phi(I64), b.phi(t)
        k.add_incoming(number, before)
        total.add_incoming(const(t, neutral_element(s.op, s.dtype)), before)
        b.cbranch(b.icmp_unsigned("<", k, count), body, done)
        b.position_at_end(body)
        more = atomics.combine(e, s.op, s.dtype, total, b.load(b.gep(words, k, I64), t))
        k.add_incoming(b.add(k, threads), b.block)
        total.add_incoming(more, b.block)
        b.branch(head)
        b.position_at_end(done)
        return total


def _partials(e: Emitter, place: int) -> ir.LLVMValue:
    """Return the address of the memory in which each thread block stores its partial sum."""
    return e.temp(e.m.layout.partials[e.task] + 8 * (1 + place * PARTIALS))


def _differs(e: Emitter, total: ir.LLVMValue, nothing: ir.LLVMValue) -> ir.LLVMValue:
    """Return the condition that a sum is not the neutral element."""
    b = e.b
    # Bits are compared: -0.0 is not 0.0.
    if not isinstance(total.type, ir.IntType):
        word = bits_type(total.type)
        total, nothing = b.bitcast(total, word), b.bitcast(nothing, word)
    return b.icmp_unsigned("!=", total, nothing)


def element(e: Emitter, s: ElementSum) -> ir.LLVMValue:
    """Return the address of the sum's element, computed from arguments and extents of the launch."""
    temp = e.m.layout.temps.get(s.array)
    if temp is not None:
        return e.temp(temp[0])
    array = e.m.layout.arrays[s.array]
    return e.b.gep(e.slot_address(array.address_at), linear_index(e, s), memory_type(array.type.dtype))
