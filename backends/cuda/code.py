"""This module makes the LLVM IR of a kernel for NVIDIA GPUs: its entry points, in the order in which they run.

Every entry point takes the first `layout.passed` bytes of the argument block by value and writes none of them: all
functions that read the block are inlined into it, so that its words are kernel parameters, never memory of a thread. It
does nothing once the halted word is set, or the kernel has returned.

    zero                the state is cleared (no code: the host does it)
    KERNEL_bounds_N     one thread stores the box of a task that writes what its bounds read
    KERNEL_select_N     the numbers of passing iterations go to a list
    KERNEL_listed_N     the task over that list, or over all its iterations if the list has no room for what passes
    KERNEL_packed_N     the task over those of its iterations that pass a gate, chunk by chunk
    KERNEL_task_N       the task over all its iterations; a serial task is for one thread
    KERNEL_finish_N     one block adds up the sums of the blocks, in a fixed order

A launch runs either select and listed, or task; a task that has packed has none of these. Threads take iterations in
strides of the grid; the adstack row of a thread is its number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from ...compiler.errors import Unsupported
from ...compiler.ir import nodes as n
from ...compiler.ir.kernels import Kernel, Task
from ...compiler.ir.roles import ARRAY_WRITES
from ...compiler.ir.walk import walk
from ..base import Options
from ..codegen import ir
from ..codegen.builder import IRBuilder
from ..codegen.emit import ModuleState, Site
from ..codegen.gates import gate_of
from ..codegen.launch_conditions import EntryConditions, needs_comparisons, write_both_forms
from ..codegen.layout import BlockLayout, TaskState, lay_out_for_device, stack_allocas
from ..codegen.reductions import element_sums
from ..codegen.sharing import is_order_visible
from ..codegen.target import NVPTX
from ..codegen.types import I1, I8, I32, I64, PTR, VOID, const, pointer
from ..limits import check
from ..llvm.errors import RETURNED
from ..llvm.function import bounds_function, box_volume, task_function
from . import blocks, warp
from .chunks import ChunkLoop
from .coarsening import coarsening_factor, may_write_late
from .own_index import own_arrays
from .reductions import PARTIALS, FinishSums, PrivateSums
from .selection import CompactedTask, ListedTask, gate_function, packed_gates, select_function

assert blocks, "it adds its rows to LOWER"

ZERO, BOUNDS, SELECT, LISTED, PACKED = "zero", "bounds", "select", "listed", "packed"
TASK, FINISH = "task", "finish"

TOGETHER = (SELECT, PACKED)
"""Entries whose threads need each other: either all threads of a block run, or none."""

PARAMETERS = 32_764
"""Most bytes of parameters of an entry point."""


@dataclass(frozen=True)
class LaunchStep:
    """Represent one step of a launch: an entry point, or an action of the host (`task` -1, empty `name`)."""

    kind: str
    task: int
    name: str


@dataclass(frozen=True)
class DeviceCode:
    """Represent the generated LLVM IR of a kernel before optimization, with its layout, sites and entry points."""

    kernel: Kernel
    text: str
    layout: BlockLayout
    sites: tuple[Site, ...]
    options: Options
    entries: tuple[LaunchStep, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the kernel's entry points, in the order in which a launch starts them."""
        return tuple(entry.name for entry in self.entries if entry.name)


def generate(kernel: Kernel, options: Options) -> DeviceCode:
    """Return the generated LLVM IR of a kernel for NVIDIA GPUs, with its layout, sites and entry points.

    Raise Unsupported if limits.py rules the kernel out or it has too many parameters.
    """
    check(kernel, NVPTX.name)
    layout = layout_of(kernel, options)
    if layout.passed > PARAMETERS:
        raise Unsupported(
            f"kernel {kernel.name}: its arguments and adstacks take {layout.passed} bytes of parameters, and a GPU "
            f"takes {PARAMETERS}",
            "split the kernel, or pass scalars in one array",
        )
    state = ModuleState(kernel, options, NVPTX, layout)
    entries = [LaunchStep(ZERO, -1, "")] if layout.state_size else []
    for index, task in enumerate(kernel.tasks):
        entries += _TaskEntriesWriter(state, index, task).emit()
    return DeviceCode(kernel, str(state.module), layout, tuple(state.sites), options, tuple(entries))


def layout_of(kernel: Kernel, options: Options) -> BlockLayout:
    """Return the layout of the argument block and of the device state of a kernel compiled with these options."""
    tasks = {k: _state(task, options) for k, task in enumerate(kernel.tasks) if task.is_parallel}
    return lay_out_for_device(kernel, tasks, lists=not options.deterministic)


def _state(task: Task, options: Options) -> TaskState:
    """Return which data of a task lie in device memory: its bounds, an iteration list, partial sums."""
    # A list comes in any order, so deterministic launches have none.
    listed = not options.deterministic and any(stack_allocas(task)) and gate_of(task) is not None
    words = len(element_sums(task, options)) * PARTIALS if options.deterministic else 0
    return TaskState(_writes_its_bounds(task), listed, words + bool(words))


def _writes_its_bounds(task: Task) -> bool:
    """Return True if a task writes arrays that its bounds read, so that the bounds must be stored before it starts."""
    inside = list(walk(task.bounds))
    if any(isinstance(s, (n.Random, n.Atomic, n.Store)) for s in inside):
        return True
    read = {s.array for s in inside if isinstance(s, n.Load)}
    return any(isinstance(s, ARRAY_WRITES) and s.array in read for s in walk(task.body))


# ---- one entry point ----------------------------------------------------------------------------------------


class _EntryWriter:
    """Write one GPU entry point whose code returns at once if an earlier task failed or ended the kernel."""

    def __init__(self, m: ModuleState, name: str, together: bool = False) -> None:
        by_value = ir.Type(f"ptr byval([{max(m.layout.passed, 8)} x i8]) align 8")
        function = ir.LLVMFunction(m.module, name, VOID, [by_value], head="ptx_kernel")
        m.module.lines.enter(function, None)
        self.m, self.b = m, IRBuilder(function.append_basic_block("entry"))
        self.block = ir.LLVMValue(PTR, function.args[0].ref)
        self.leave = function.append_basic_block("exit")
        IRBuilder(self.leave).ret_void()
        halted = self.b.load(self.address(m.layout.halted_at), I64)
        self.go_on_if_zero(warp.broadcast_block(m, self.b, halted) if together else halted)
        if m.layout.returned_at >= 0:
            self.go_on_if_zero(self.b.load(self.state(m.layout.returned_at), I64))

    def address(self, at: int) -> ir.LLVMValue:
        """Emit a load of the address that the argument block holds at a byte offset."""
        place = self.b.gep(self.block, const(I64, at), I8, inbounds=True)
        return self.b.load(place, pointer(NVPTX.space))

    def state(self, at: int) -> ir.LLVMValue:
        """Return the address of the word at a byte offset of the device state."""
        return self.b.gep(self.address(self.m.layout.state_at), const(I64, at), I8, inbounds=True)

    def go_on_if(self, cond: ir.LLVMValue) -> None:
        """Emit a branch to the exit of the entry point unless the condition holds."""
        go_on = self.b.function.append_basic_block("go")
        self.b.cbranch(cond, go_on, self.leave)
        self.b.position_at_end(go_on)

    def go_on_if_zero(self, word: ir.LLVMValue) -> None:
        """Emit a branch to the exit of the entry point unless the word is 0."""
        self.go_on_if(self.b.icmp_unsigned("==", word, const(word.type, 0)))

    def close(self) -> None:
        self.b.branch(self.leave)


class _TaskEntriesWriter:
    """Emit the GPU entry points of one task, which compute its box and list, and run or sum up its iterations."""

    def __init__(self, m: ModuleState, index: int, task: Task) -> None:
        self.m, self.index, self.task = m, index, task
        self.axes = len(task.indices)
        self.bounds = bounds_function(m, index, task) if task.is_parallel else None
        self.sums = element_sums(task, m.options)
        self.gate = None if self.in_order or task.block else packed_gates(m.kernel, index, m.options)

    def name(self, kind: str) -> str:
        prefix = re.sub(r"\W", "_", self.m.kernel.name)
        return f"{prefix}_{kind}_{self.index}"

    def emit(self) -> list[LaunchStep]:
        """Write all entry points of the task, and return the steps of a launch that start these, in order."""
        found: list[tuple[str, Callable[[_EntryWriter], None]]] = []
        if self.index in self.m.layout.boxes:
            found.append((BOUNDS, self._store_box))
        if self.index in self.m.layout.length_at:
            found += [(SELECT, self._select), (LISTED, self._run_listed)]
        if self.gate is not None:
            found.append((PACKED, self._run_packed))
        else:
            found.append((TASK, self._run if self.task.is_parallel else self._run_once))
        if self.index in self.m.layout.partials:
            found.append((FINISH, self._finish))
        for kind, write in found:
            entry = _EntryWriter(self.m, self.name(kind), kind in TOGETHER)
            write(entry)
            entry.close()
        return [LaunchStep(kind, self.index, self.name(kind)) for kind, _ in found]

    # -- boxes ----------------------------------------------------------------------------------------------

    def _compute_box(self, entry: _EntryWriter) -> ir.LLVMValue:
        """Emit the computation of the task's box and return its address; on failure the entry point ends."""
        assert self.bounds is not None
        box = entry.b.alloca(I64, 2 * self.axes)
        status = entry.b.call(self.bounds, [entry.block, box])
        entry.go_on_if_zero(status)
        return box

    def _store_box(self, entry: _EntryWriter) -> None:
        entry.go_on_if_zero(warp.thread(self.m, entry.b))
        box = self._compute_box(entry)
        for word in range(2 * self.axes):
            at = self.m.layout.boxes[self.index] + 8 * word
            entry.b.store(self._word(entry.b, box, word), entry.state(at))

    def _word(self, b: IRBuilder, memory: ir.LLVMValue, word: int) -> ir.LLVMValue:
        return b.load(b.gep(memory, const(I64, 8 * word), I8, inbounds=True), I64)

    def _box(self, entry: _EntryWriter) -> ir.LLVMValue:
        """Return the address of the task's box in thread memory: computed now, or copied from the device state."""
        if self.index not in self.m.layout.boxes:
            return self._compute_box(entry)
        b, box = entry.b, entry.b.alloca(I64, 2 * self.axes)
        stored = entry.state(self.m.layout.boxes[self.index])
        for word in range(2 * self.axes):
            b.store(self._word(b, stored, word), b.gep(box, const(I64, 8 * word), I8, inbounds=True))
        return box

    # -- tasks ----------------------------------------------------------------------------------------------

    def _threads(self, entry: _EntryWriter) -> tuple[ir.LLVMValue, ir.LLVMValue]:
        """Return (first iteration of this thread, number of threads that run the task)."""
        b, layout = entry.b, self.m.layout
        thread, threads = warp.thread(self.m, b), warp.threads(self.m, b)
        limits: list[ir.LLVMValue] = []
        if any(stack.task == self.index for stack in layout.stacks):
            at = const(I64, layout.threads_at[self.index])
            limits.append(b.load(b.gep(entry.block, at, I8, inbounds=True), I64))
        if self.index in layout.partials:
            width = b.zext(warp.special_register(self.m, b, "ntid.x"), I64)
            limits.append(b.mul(width, const(I64, PARTIALS)))
        if self.in_order:
            limits.append(const(I64, 1))
        # Threads beyond the limits get a first iteration behind all: they stay, because a block adds up what all its
        # threads have.
        first = thread
        for most in limits:
            first = b.select(b.icmp_unsigned("<", thread, most), first, const(I64, (1 << 63) - 1))
            threads = b.select(b.icmp_unsigned("<", threads, most), threads, most)
        return first, threads

    @property
    def in_order(self) -> bool:
        """Return True if one thread must run the whole task, because results must not depend on an order of updates."""
        if not self.m.options.deterministic:
            return False
        kept = {stmt for s in self.sums for stmt in s.updates}
        return is_order_visible(self.task, self.m.sharing(self.index).plain, kept)

    def _run(self, entry: _EntryWriter) -> None:
        """Emit the entry point that runs a parallel task over all iterations."""
        thread, threads = self._threads(entry)
        b, box = entry.b, self._box(entry)
        call = [entry.block, box, thread, box_volume(b, box, 0, self.axes), threads, thread]
        own = frozenset() if self.m.options.debug or self.task.block else own_arrays(self.task)
        if own:
            linear, other, done = (b.function.append_basic_block(name) for name in ("linear", "other", "ran"))
            b.cbranch(self._is_linear(entry, box, own), linear, other)
            b.position_at_end(linear)
            self._call(entry, "linear", own, call)
            b.branch(done)
            b.position_at_end(other)
        self._call(entry, TASK, frozenset(), call)
        if own:
            b.branch(done)
            b.position_at_end(done)

    def _call(self, entry: _EntryWriter, name: str, numbered: frozenset[str], call: list[ir.LLVMValue]) -> None:
        """Emit the call that runs the iterations of the task; for a short task, choose between two versions.

        One version lacks the index checks that launch conditions decide; it runs if these conditions hold. A task is
        short if a thread runs several of its iterations together (coarsening.py).
        """
        b, checks = entry.b, self.m.checks.of(self.task, learns=not may_write_late(self.task))
        if not checks.launches or coarsening_factor(self.m, self.task) == 1:
            b.call(self._over_all(name, numbered), call)
            return
        write_both_forms(
            b,
            needs_comparisons(EntryConditions(self.m, b, entry.block, checks)),
            lambda inside: b.call(self._over_all(f"inside.{name}" if inside else name, numbered, inside), call),
        )

    def _over_all(self, name: str, numbered: frozenset[str], inside: bool | None = None) -> ir.LLVMFunction:
        """Return a function that runs all iterations; each thread takes every n-th, n being the number of threads.

        `inside` is True for the version without the index checks that launch conditions decide, False for the version
        with them, and None if the task has one version.
        """
        additions = PrivateSums(self.sums, numbered)
        additions.inside = bool(inside)
        # The counterpart runs seldom, and takes one iteration at a time, as it must not cost registers.
        additions.copies = 1 if inside is False else coarsening_factor(self.m, self.task)
        additions.late = additions.copies > 1 and may_write_late(self.task)
        return task_function(self.m, self.index, self.task, name=name, additions=additions)

    def _is_linear(self, entry: _EntryWriter, box: ir.LLVMValue, own: frozenset[str]) -> ir.LLVMValue:
        """Return the condition that the box starts at 0 and has the extents of every array in `own`.

        Then the number of an iteration is also the number of its element in each of these arrays.
        """
        b = entry.b
        # The extent of the first axis is not compared, because no number of an element depends on it.
        is_so: ir.LLVMValue = const(I1, True)
        for axis in range(self.axes):
            begin, extent = self._word(b, box, 2 * axis), self._word(b, box, 2 * axis + 1)
            is_so = b.and_(is_so, b.icmp_unsigned("==", begin, const(I64, 0)))
            for name in sorted(own) if axis else ():
                at = self.m.layout.arrays[name].shape_at + 8 * axis
                is_so = b.and_(is_so, b.icmp_unsigned("==", self._word(b, entry.block, at // 8), extent))
        return is_so

    def _select(self, entry: _EntryWriter) -> None:
        b, box = entry.b, self._box(entry)
        blocks, zero = b.zext(warp.special_register(self.m, b, "nctaid.x"), I64), const(I64, 0)
        run = select_function(self.m, self.index, self.task)
        b.call(run, [entry.block, box, zero, box_volume(b, box, 0, self.axes), blocks, zero])

    def _run_packed(self, entry: _EntryWriter) -> None:
        """Write the entry point that runs, chunk by chunk, the iterations that pass the gate."""
        assert self.gate is not None
        b, box, zero = entry.b, self._box(entry), const(I64, 0)
        # Blocks beyond those that can write sums down take no part.
        blocks: ir.LLVMValue = b.zext(warp.special_register(self.m, b, "nctaid.x"), I64)
        if self.index in self.m.layout.partials:
            most = const(I64, PARTIALS)
            blocks = b.select(b.icmp_unsigned("<", blocks, most), blocks, most)
        chunks = ChunkLoop(gate_function(self.m, self.index, self.gate))
        run = task_function(self.m, self.index, self.task, name=PACKED, additions=CompactedTask(self.sums, chunks))
        b.call(run, [entry.block, box, zero, box_volume(b, box, 0, self.axes), blocks, zero])

    def _run_listed(self, entry: _EntryWriter) -> None:
        """Emit the entry point that runs the listed iterations, or every iteration if the list is incomplete."""
        thread, threads = self._threads(entry)
        b, box, layout = entry.b, self._box(entry), self.m.layout
        length = b.load(entry.state(layout.length_at[self.index]), I64)
        room = b.load(b.gep(entry.block, const(I64, layout.room_at[self.index]), I8, inbounds=True), I64)
        complete = b.icmp_unsigned("<=", length, room)
        count = b.select(complete, length, box_volume(b, box, 0, self.axes))
        run = task_function(self.m, self.index, self.task, name=LISTED, additions=ListedTask(self.sums))
        b.call(run, [entry.block, box, thread, count, threads, thread])

    def _finish(self, entry: _EntryWriter) -> None:
        """Emit the entry point that adds up the partial sums that thread blocks have stored."""
        entry.go_on_if_zero(warp.special_register(self.m, entry.b, "ctaid.x"))
        zero, one = const(I64, 0), const(I64, 1)
        run = task_function(
            self.m, self.index, replace(self.task, body=()), name=FINISH, additions=FinishSums(self.sums)
        )
        box = entry.b.alloca(I64, 2 * self.axes)
        entry.b.call(run, [entry.block, box, zero, zero, one, zero])

    def _run_once(self, entry: _EntryWriter) -> None:
        b = entry.b
        thread = warp.thread(self.m, b)
        entry.go_on_if_zero(thread)
        run = task_function(self.m, self.index, self.task)
        one, zero = const(I64, 1), const(I64, 0)
        status = b.call(run, [entry.block, ir.LLVMValue(PTR, "null"), zero, one, one, zero])
        if self.m.layout.returned_at >= 0:
            with b.if_then(b.icmp_unsigned("==", status, const(I32, RETURNED))):
                b.store(const(I64, 1), entry.state(self.m.layout.returned_at))
