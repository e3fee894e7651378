"""This module emits `launch(block)`: host code that starts a kernel's entry points by driver calls, without Python.

It has the form of a CPU launch, so that everything that launches on a CPU launches on a GPU, and it neither waits nor
takes locks. The driver's table, whose address the block holds, is shared by all kernels, so that a changed stream
reaches ready launches. The first part of the block is passed by value, so the block may be written again as
soon as `launch` is over.

Invariant: an entry is started with as many threads as there are iterations where the host can count them, and not at
all where there are none; the entry computes its bounds itself in any case, so a count is never trusted for more. All
entries are planned before the first one is started, which one call of the driver may do for all (graph_replay.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from ...compiler.ir.kernels import Kernel, Task
from ..base import Options
from ..codegen import ir
from ..codegen.builder import IRBuilder
from ..codegen.emit import ArithEmitter, ModuleState
from ..codegen.layout import BlockLayout
from ..codegen.target import CPU
from ..codegen.types import I8, I32, I64, PTR, const
from ..device.countable import is_countable
from ..device.policy import BUSY, WARP
from ..llvm.errors import FAILED, OK
from ..llvm.function import bounds_function, box_volume
from ..llvm.module import Generated
from .driver_table import LAUNCH_KERNEL, MEMSET, MOST, PENDING, RECORD, STREAM
from .graph_replay import MOST_ENTRIES, PLAIN, EntryKey, grid_of_word, launch_order, replay_function
from .warp import ROUNDS

Entries = Mapping[EntryKey, str]
"""Names of entry points by kind and task; see layout.ENTRIES."""

_UNKNOWN = (1 << 63) - 1


def host_code(kernel: Kernel, layout: BlockLayout, entries: Entries, width: int) -> Generated:
    """Return LLVM IR of the host function `launch(block)`, which starts the kernel's entry points.

    Args:
        kernel: Kernel to launch.
        layout: Byte offsets into the argument block.
        entries: Names of the entry points.
        width: Most threads of a block.
    """
    m = ModuleState(kernel, Options(), CPU, layout)
    function = ir.LLVMFunction(m.module, "launch", I32, [PTR], ("nounwind",))
    _LaunchWriter(m, function, entries, width).emit()
    return Generated(kernel, str(m.module), layout, (), m.options)


class _LaunchWriter:
    """Emit the body of the host function `launch`, which returns as soon as the driver refuses a call."""

    def __init__(self, m: ModuleState, function: ir.LLVMFunction, entries: Entries, width: int) -> None:
        self.m, self.function, self.width = m, function, width
        self.keys = launch_order(m.layout, entries)
        self.b = IRBuilder(function.append_basic_block("entry"))
        self.block = function.args[0]
        self.plan = self.b.alloca(I64, max(len(self.keys), 1))
        self.refused: list[tuple[ir.LLVMValue, ir.BasicBlock]] = []
        self.failed = function.append_basic_block("refused")

    def emit(self) -> None:
        """Emit the whole body of `launch`: compute the launch plan, then replay a graph or start the entry points."""
        b = self.b
        self.table = b.load(self._at(self.m.layout.driver_at), PTR)
        self.stream = self._table(STREAM)
        for place in range(len(self.keys)):
            b.store(const(I64, 0), self._planned(place))
        for index, task in enumerate(self.m.kernel.tasks):
            self._plan(index, task)
        if len(self.keys) <= MOST_ENTRIES:
            self._replay()
        self._launch()
        self._pending()
        b.ret(const(I32, OK))
        self._refuse()

    def _refuse(self) -> None:
        """Emit the code for refused driver calls: it stores the error code in the block and returns FAILED."""
        b = self.b
        b.position_at_end(self.failed)
        if self.refused:
            code = b.phi(I32)
            for value, source in self.refused:
                code.add_incoming(value, source)
            b.store(b.sext(code, I64), self._at(self.m.layout.driver_error_at))
            self._pending()
        b.ret(const(I32, FAILED))

    # -- words ----------------------------------------------------------------------------------------------

    def _at(self, offset: int) -> ir.LLVMValue:
        """Return the address of the byte at an offset in the argument block."""
        return self.b.gep(self.block, const(I64, offset), I8)

    def _planned(self, place: int) -> ir.LLVMValue:
        """Return the address of the launch plan's word for an entry point (graph_replay.py)."""
        return self.b.gep(self.plan, const(I64, place), I64)

    def _slot(self, offset: int) -> ir.LLVMValue:
        """Emit a load of a word of the argument block and return the word."""
        return self.b.load(self._at(offset), I64)

    def _table(self, word: int, t: ir.Type = I64) -> ir.LLVMValue:
        """Emit a load of a word of the driver's table and return the word."""
        return self.b.load(self.b.gep(self.table, const(I64, word), I64), t)

    def _pending(self) -> None:
        """Emit a store to the driver's table which says that launches may be in flight."""
        # The word is set after the launches: a thread that waits meanwhile, and clears it, learns that there is more to
        # wait for.
        self.b.store(const(I64, 1), self.b.gep(self.table, const(I64, PENDING), I64))

    def _least(self, x: ir.LLVMValue, y: ir.LLVMValue) -> ir.LLVMValue:
        """Return the lesser of two unsigned numbers."""
        return self.b.call(self.m.declare("llvm.umin.i64", I64, [I64, I64]), [x, y])

    # -- calls ----------------------------------------------------------------------------------------------

    def _unless_refused(self, code: ir.LLVMValue) -> None:
        """Emit a branch that ends the launch if the driver call returned an error code."""
        b = self.b
        go_on = self.function.append_basic_block("started")
        self.refused.append((code, b.block))
        b.cbranch(b.icmp_unsigned("==", code, const(I32, 0)), go_on, self.failed)
        b.position_at_end(go_on)

    def _clear(self) -> None:
        """Emit the driver call that sets the device state of this launch to zero."""
        size = self.m.layout.state_size
        if size:
            arguments = [self._slot(self.m.layout.state_at), const(I8, 0), const(I64, size), self.stream]
            self._unless_refused(self.b.call_pointer(self._table(MEMSET, PTR), I32, arguments))

    def _lap(self, laps: ir.LLVMValue, number: int) -> None:
        """Emit code that records the time on the stream if the launch is profiled.

        Args:
            laps: Address of the handles of events, or 0.
            number: Number of the event.
        """
        b = self.b
        with b.if_then(b.icmp_unsigned("!=", laps, const(I64, 0))):
            event = b.load(b.gep(b.inttoptr(laps, PTR), const(I64, number), I64), I64)
            self._unless_refused(b.call_pointer(self._table(RECORD, PTR), I32, [event, self.stream]))

    def _replay(self) -> None:
        """Emit a call of `sg.replay`, and a return from `launch` unless the result says to launch without a graph."""
        b = self.b
        code = b.call(replay_function(self.m, self.keys), [self.block, self.table, self.stream, self.plan])
        with b.if_then(b.icmp_signed("!=", code, const(I32, PLAIN))):
            self._unless_refused(code)
            self._pending()
            b.ret(const(I32, OK))

    def _launch(self) -> None:
        """Emit the driver calls that start the entry points of the launch plan one by one."""
        self._clear()
        laps = self._slot(self.m.layout.laps_at)
        self._lap(laps, 0)
        start = self.m.helper("sg.start", I32, [PTR, PTR, I64, I64, I64], _start)
        for index in range(len(self.m.kernel.tasks)):
            for place, key in enumerate(self.keys):
                if key[1] == index:
                    function = self._slot(self.m.layout.functions[key])
                    shape = self.b.load(self._planned(place), I64)
                    call = [self.block, self._table(LAUNCH_KERNEL, PTR), self.stream, function, shape]
                    self._unless_refused(self.b.call(start, call))
            self._lap(laps, index + 1)

    # -- plans ----------------------------------------------------------------------------------------------

    def _start(self, kind: str, index: int, threads: ir.LLVMValue, width: ir.LLVMValue | None = None) -> None:
        """Emit a store to the launch plan: start an entry point on `threads` threads, or not at all if that is 0."""
        if (kind, index) not in self.keys:
            return
        b, one = self.b, const(I64, 1)
        width = width or const(I64, self.width)
        blocks = b.udiv(b.add(threads, b.sub(width, one)), width)
        shape = b.or_(blocks, b.shl(width, const(I64, 32)))
        none = b.icmp_unsigned("==", threads, const(I64, 0))
        b.store(b.select(none, const(I64, 0), shape), self._planned(self.keys.index((kind, index))))

    def _plan(self, index: int, task: Task) -> None:
        """Emit stores to the launch plan that say which entry points of a task run, and on how many threads."""
        one = const(I64, 1)
        self._start("bounds", index, one, one)
        if not task.is_parallel:
            self._start("task", index, one, one)
            return
        count, layout = self._count(index, task), self.m.layout
        most = self._table(MOST)
        width: ir.LLVMValue = const(I64, self.width)
        held = most
        if any(s.task == index for s in layout.stacks):
            held = self._slot(layout.threads_at[index])
            width = self._fitting(held)
        if index in layout.list_at:
            self._choose(index, self._by_chunks(count, most), self._least(count, held), width)
        else:
            self._start("packed", index, self._by_chunks(count, most))
            own = const(I64, task.block) if task.block else width
            self._start("task", index, self._least(count, held), own)
        self._start("finish", index, one)

    def _by_chunks(self, count: ir.LLVMValue, most: ir.LLVMValue) -> ir.LLVMValue:
        """Return the number of threads, at most `most`, with which a task runs its iterations chunk by chunk.

        Each thread tests several iterations if that leaves enough threads to keep the GPU busy.
        """
        b, threads = self.b, count
        for rounds in reversed(ROUNDS):
            each = b.udiv(b.add(count, const(I64, rounds - 1)), const(I64, rounds))
            enough = b.udiv(most, const(I64, BUSY))
            threads = b.select(b.icmp_unsigned(">=", each, enough), each, threads)
        return self._least(threads, most)

    def _fitting(self, rows: ir.LLVMValue) -> ir.LLVMValue:
        """Return the number of threads per block, chosen so that the launch has no more threads than rows."""
        b = self.b
        rest = b.urem(rows, const(I64, self.width))
        narrow = self._least(rows, const(I64, WARP))
        return b.select(b.icmp_unsigned("==", rest, const(I64, 0)), const(I64, self.width), narrow)

    def _choose(self, index: int, all_threads: ir.LLVMValue, threads: ir.LLVMValue, width: ir.LLVMValue) -> None:
        """Emit code that decides whether a gated task runs over a list of passing iterations or over all of them."""
        b = self.b
        listed, plain, done = (self.function.append_basic_block(name) for name in ("listed", "plain", "chosen"))
        room = self._slot(self.m.layout.room_at[index])
        b.cbranch(b.icmp_unsigned("!=", room, const(I64, 0)), listed, plain)
        b.position_at_end(listed)
        self._start("select", index, all_threads)
        self._start("listed", index, self._least(threads, room), width)
        b.branch(done)
        b.position_at_end(plain)
        self._start("task", index, threads, width)
        b.branch(done)
        b.position_at_end(done)

    def _count(self, index: int, task: Task) -> ir.LLVMValue:
        """Emit code that counts the iterations of a task; a count that the host cannot compute is a huge number."""
        # If the host cannot count, or fails, the number is very large, and the device reports the failure.
        if not is_countable(task):
            return const(I64, _UNKNOWN)
        b, axes = self.b, len(task.indices)
        box = IRBuilder(self.function.blocks[0]).alloca(I64, 2 * axes) if axes else b.alloca(I64)
        status = b.call(bounds_function(self.m, index, task), [self.block, box])
        fine = b.icmp_unsigned("==", status, const(I32, OK))
        return b.select(fine, box_volume(b, box, 0, axes), const(I64, _UNKNOWN))


def _start(e: ArithEmitter, function: ir.LLVMFunction) -> None:
    """Define `sg.start`, which starts one entry point by cuLaunchKernel; a plan word of 0 starts nothing."""
    b = e.b
    block, launch, stream, handle, shape = function.args
    with b.if_then(b.icmp_unsigned("==", shape, const(I64, 0))):
        b.ret(const(I32, 0))
    params = b.alloca(PTR)
    b.store(block, params)
    b.ret(b.call_pointer(launch, I32, [handle, *grid_of_word(b, shape), const(I32, 0), stream, params, const(I64, 0)]))
