"""This module emits the loop over chunks of iterations, which lists and runs the iterations that pass a gate.

    for each chunk of the block:
        decide    each thread tests the gate of 8, 4 or 1 iterations, 32 apart, so that warps read neighbors
        list      write the offsets of the passing iterations, in order, to memory that the block shares
        run       k = thread, thread + threads, ... < length of the list

The gate is decided again where the iterations run, so the early test may let an iteration pass that does nothing.

Invariant: all threads of a block come to each chunk, so that barriers are met; a thread in which an iteration failed
runs no further iterations.
"""

from __future__ import annotations

from ..codegen import ir
from ..codegen.types import I1, I32, I64, const
from ..llvm.emit import Emitter
from ..llvm.function import IterationRun
from . import warp


class ChunkLoop:
    """Emit the loop of a thread block over chunks of neighboring iterations, of which those that pass a gate run.

    Attributes:
        start: Number of the chunk's first iteration.
        size: Number of its iterations.
        passing: Number of its iterations that pass, an i32.
        decide: Function that decides the gate of one iteration.
    """

    start: ir.Phi
    size: ir.LLVMValue
    passing: ir.LLVMValue

    def __init__(self, decide: ir.LLVMFunction) -> None:
        """Store the function that computes the gate of an iteration; see decision_function."""
        self.decide = decide

    def open(self, e: Emitter, count: ir.LLVMValue, blocks: ir.LLVMValue) -> IterationRun:
        """Emit the start of the loop over chunks; return the range of a chunk's list that the current thread runs.

        Args:
            e: Emitter of the function.
            count: Number of iterations of the task.
            blocks: Number of blocks that take part.
        """
        b = e.b
        self._alive = e.alloca(I1)
        b.store(const(I1, True), self._alive)
        self._place(e, count, blocks)
        before = b.block
        self._head, chunk, self._over = (e.flow.append(name) for name in ("chunks", "chunk", "ran"))
        # An iteration that fails does not leave the function, so that its thread still meets the barriers.
        e.failed, self._latch = e.flow.append("failed"), e.flow.append("chunked")
        e.flow.go(self._head)
        self.start = b.phi(I64)
        self.start.add_incoming(self._first, before)
        b.cbranch(b.icmp_unsigned("<", self.start, count), chunk, self._over)
        b.position_at_end(chunk)
        rest = b.sub(count, self.start)
        self.size = b.select(b.icmp_unsigned("<", rest, self._width), rest, self._width)
        self.passing = self._decide(e)
        self._is_all = b.icmp_unsigned("==", self.passing, b.trunc(self._width, I32))
        # A thread in which something failed runs no iteration of later chunks.
        mine = b.select(b.load(self._alive, I1), self.passing, const(I32, 0))
        thread, threads = (b.zext(warp.special_register(e.m, b, name), I64) for name in ("tid.x", "ntid.x"))
        return thread, b.zext(mine, I64), threads

    def _place(self, e: Emitter, count: ir.LLVMValue, blocks: ir.LLVMValue) -> None:
        """Emit code that computes the chunk size, the first chunk of a thread block, and the distance to the next."""
        b = e.b
        threads, block = (b.zext(warp.special_register(e.m, b, name), I64) for name in ("ntid.x", "ctaid.x"))
        # A thread has no more iterations of a chunk than leave a chunk for each block, or the most.
        grid = b.mul(threads, blocks)
        rounds: ir.LLVMValue = const(I64, warp.ROUNDS[0])
        for fewer in warp.ROUNDS[1:]:
            is_enough = b.icmp_unsigned("<=", count, b.mul(grid, const(I64, fewer)))
            rounds = b.select(is_enough, const(I64, fewer), rounds)
        self._rounds, self._width = rounds, b.mul(threads, rounds)
        self._stride = b.mul(grid, rounds)
        takes_part = b.icmp_unsigned("<", block, blocks)
        self._first = b.select(takes_part, b.mul(block, self._width), count)

    def _decide(self, e: Emitter) -> ir.LLVMValue:
        """Emit the gate tests of one chunk, for each allowed chunk size; return the number of iterations that pass."""
        b, joined = e.b, e.flow.append("decided")
        found = []
        for rounds in warp.ROUNDS[:-1]:
            this, fewer = e.flow.append("decide"), e.flow.append("fewer")
            b.cbranch(b.icmp_unsigned("==", self._rounds, const(I64, rounds)), this, fewer)
            b.position_at_end(this)
            found.append((self._decide_all(e, rounds), b.block))
            b.branch(joined)
            b.position_at_end(fewer)
        found.append((self._decide_all(e, warp.ROUNDS[-1]), b.block))
        e.flow.go(joined)
        passing = b.phi(I32)
        for value, block in found:
            passing.add_incoming(value, block)
        return passing

    def _decide_all(self, e: Emitter, rounds: int) -> ir.LLVMValue:
        """Emit the gate tests and the list of passing iterations; each thread tests `rounds` iterations."""
        b, size = e.b, e.b.trunc(self.size, I32)
        last, at, passes = b.sub(size, const(I32, 1)), warp.first_asked(e.m, b, rounds), []
        for _ in range(rounds):
            # Iterations behind the last one are read as the last one, and do not pass: so all reads can be in flight at
            # once.
            is_there = b.icmp_unsigned("<", at, size)
            number = b.add(self.start, b.zext(b.select(is_there, at, last), I64))
            assert e.box is not None
            found = b.call(self.decide, [e.argument_block, e.box, number])
            passes.append(b.and_(is_there, b.icmp_unsigned("==", found, const(I32, 1))))
            at = b.add(at, warp.lanes(e.m, b))
        return warp.list_block(e.m, b, passes)

    def number(self, e: Emitter, place: ir.LLVMValue) -> ir.LLVMValue:
        """Return the iteration number stored at a position of the chunk's list."""
        found = warp.list_number(e.m, e.b, e.b.trunc(place, I32), self._is_all)
        return e.b.add(self.start, e.b.zext(found, I64))

    def close(self, e: Emitter) -> None:
        """Emit the end of the loop over chunks; code emitted later runs after the loop."""
        b, failed = e.b, e.failed
        assert failed is not None
        e.flow.go(self._latch)
        self.start.add_incoming(b.add(self.start, self._stride), self._latch)
        b.branch(self._head)
        b.position_at_end(failed)
        b.store(const(I1, False), self._alive)
        b.branch(self._latch)
        e.failed = None
        b.position_at_end(self._over)
