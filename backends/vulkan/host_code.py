"""This module generates host code `launch(block)`, which submits a kernel's tasks without Python.

It usually does not wait.

It has the form of a CPU launch, so that everything that launches on a CPU also launches on Vulkan. It fills the next
entry of the kernel's ring (ring.py) with the argument block and the number of workgroups of each entry point, and
submits the command buffer that was recorded for that entry. The block holds addresses of the host; the ring entry gets
the device's addresses (arena.py).

Invariant: `launch` is called with the interpreter's lock held, and nothing else submits to the queue; so the queue, the
words of the device and the ring have one user at a time, and no further lock is needed. It waits only if the ring entry
is still in use, which is when the device is that many launches of one kernel behind.

A task has as many groups as its iterations need where the host can count them, and none where it has no iterations. In
these cases the host also writes the box, and no shader computes bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...compiler.ir.kernels import Kernel
from ..base import Options
from ..codegen import ir
from ..codegen.builder import IRBuilder
from ..codegen.emit import ArithEmitter, ModuleState
from ..codegen.layout import BlockLayout
from ..codegen.target import CPU
from ..codegen.types import I1, I8, I32, I64, PTR, const
from ..device.countable import is_countable
from ..llvm.errors import FAILED, OK
from ..llvm.function import bounds_function, box_volume
from ..llvm.module import Generated
from ..spirv.selection import BUSY, ROUNDS
from ..spirv.shaders import local_size

(SUBMIT, QUEUE, VALUE, DONE, PENDING, REGIONS, WAIT, DEVICE, WAIT_INFO, WANTED, CLOSED, TABLE) = range(12)
"""Numbers of the words of a device; TABLE is their count.

* SUBMIT, WAIT: addresses of vkQueueSubmit and vkWaitSemaphores.
* QUEUE, DEVICE: handles of the queue and of the device.
* VALUE: value of the timeline behind the last submission. DONE: value that it is known to have reached.
* PENDING: 1 if launches may be in flight.
* REGIONS: address of the table of regions: their number, then REGION words of each.
* WAIT_INFO: address of the structure that WAIT is given; this structure waits for the value WANTED.
* CLOSED: reason why nothing is to be submitted any more, a code of Vulkan's, or 0.
"""

REGION = 3
"""Words of a region in the table: begin and end for the host, and the offset from there to the device's address."""

R_TABLE, R_NEXT, RING = range(3)
"""Numbers of the words of a ring: address of the device's words, number of the next slot; the slots come behind."""

S_VALUE, S_HOST, S_INFO, SLOT = range(4)
"""Numbers of the words of a slot: timeline value when it is free, address for the host, address of the submission."""

GROUPS = 12
"""Bytes of the numbers of groups of an entry, in a slot."""

SUMMING = 1 << 17
"""Greatest number of threads of a task that keep sums, because their subgroups update one element one after another.

On an H200, 24,576 more of these threads took 42 µs.
"""

Entries = Sequence[tuple[str, int | None]]
"""The type of entry points in order, each with the task whose iterations it runs (None: one thread)."""

_UNKNOWN = (1 << 63) - 1
_NULL = ir.LLVMValue(PTR, "null")


def is_host_bound(kernel: Kernel, task: int, options: Options) -> bool:
    """Return True if the host computes the box of a task. In debug builds the device does, to report traps."""
    return not options.debug and is_countable(kernel.tasks[task])


def needed_entries(kernel: Kernel, entries: Entries, options: Options) -> list[tuple[str, int | None]]:
    """Return the entry points without those that compute a box, where the host computes the box itself."""
    kinds = ((name.partition("_"), task, name) for name, task in entries)
    return [
        (name, task)
        for (kind, _, index), task, name in kinds
        if kind != "bounds" or not is_host_bound(kernel, int(index), options)
    ]


def host_code(
    kernel: Kernel,
    layout: BlockLayout,
    entries: Entries,
    counts_at: int,
    slots: int,
    most: int,
    options: Options,
    summed: frozenset[int] = frozenset(),
) -> Generated:
    """Return LLVM IR of the function `launch(block)` for the host.

    Args:
        kernel: kernel without exits
        layout: layout of the whole block, of which an entry of the ring gets `passed` bytes
        entries: entry points in order of dispatch
        counts_at: offset of the workgroup counts in a ring entry
        slots: number of entries of the ring
        most: greatest number of threads of a task
        options: options of the build
        summed: tasks whose threads keep sums
    """
    m = ModuleState(kernel, Options(), CPU, layout)
    function = ir.LLVMFunction(m.module, "launch", I32, [PTR], ("nounwind",))
    _LaunchWriter(m, function, most, options, summed).emit(entries, counts_at, slots)
    return Generated(kernel, str(m.module), layout, (), m.options)


class _LaunchWriter:
    """Write the body of the host function `launch(block)` of a kernel."""

    def __init__(
        self, m: ModuleState, function: ir.LLVMFunction, most: int, options: Options, summed: frozenset[int]
    ) -> None:
        self.m, self.most, self.options, self.summed = m, most, options, summed
        self.b = IRBuilder(function.append_basic_block("entry"))
        self.block = function.args[0]
        self._groups: dict[int, ir.LLVMValue] = {}
        self._counts: dict[int, ir.LLVMValue] = {}

    def emit(self, entries: Entries, counts_at: int, slots: int) -> None:
        """Write the body of the launch function: fill the next entry of the ring and submit it."""
        m, b = self.m, self.b
        counts = [self._groups_of_entry(name, task) for name, task in entries]
        if counts and all(task is not None for _, task in entries):
            self._leave_if_none(counts)
        ring = b.load(self._at(m.layout.driver_at), PTR)
        claim = m.helper("sg.claim", PTR, [PTR, PTR], _claim)
        slot = b.call(claim, [ring, self.block_error()])
        with b.if_then(b.icmp_unsigned("==", slot, _NULL)):
            b.ret(const(I32, FAILED))
        self._fill(slot, ring)
        for k, count in enumerate(counts):
            place = self._beside(slot, counts_at + GROUPS * k)
            b.store(b.trunc(count, I32), place)
        submit = m.helper("sg.submit", I32, [PTR, PTR], lambda e, f: _submit(e, f, slots))
        b.ret(b.call(submit, [ring, self.block_error()]))

    def block_error(self) -> ir.LLVMValue:
        """Return the address in the block at which `launch` stores an error code of the driver."""
        return self._at(self.m.layout.driver_error_at)

    def _at(self, offset: int) -> ir.LLVMValue:
        """Return the address at a byte offset in the argument block."""
        return self.b.gep(self.block, const(I64, offset), I8)

    def _beside(self, slot: ir.LLVMValue, offset: int) -> ir.LLVMValue:
        """Return the address at a byte offset in a ring entry."""
        return self.b.gep(slot, const(I64, offset), I8)

    def _leave_if_none(self, counts: Sequence[ir.LLVMValue]) -> None:
        """Emit a return from `launch` that is taken, without a submission, if no entry point has a workgroup."""
        b = self.b
        some: ir.LLVMValue = const(I64, 0)
        for count in counts:
            some = b.or_(some, count)
        with b.if_then(b.icmp_unsigned("==", some, const(I64, 0))):
            b.ret(const(I32, OK))

    def _fill(self, slot: ir.LLVMValue, ring: ir.LLVMValue) -> None:
        """Emit a copy of the argument block to a ring entry, with host addresses replaced by device addresses."""
        m, b = self.m, self.b
        copy = m.declare("llvm.memcpy.p0.p0.i64", ir.VOID, [PTR, PTR, I64, I1])
        b.call(copy, [slot, self.block, const(I64, m.layout.passed), const(I1, 0)])
        regions = _word(b, _word(b, ring, R_TABLE, PTR), REGIONS, PTR)
        find = m.helper("sg.on_device", I64, [PTR, I64], _on_device)
        for array in m.layout.arrays.values():
            found = b.call(find, [regions, b.load(self._at(array.address_at), I64)])
            b.store(found, self._beside(slot, array.address_at))

    # -- groups ---------------------------------------------------------------------------------------------

    def _groups_of(self, index: int) -> ir.LLVMValue:
        """Return the number of workgroups of a task, emitting its computation the first time."""
        if index not in self._groups:
            self._groups[index] = self._counted(index)
        return self._groups[index]

    def _groups_of_entry(self, name: str, task: int | None) -> ir.LLVMValue:
        """Return the number of workgroups of an entry point, which is 0 if it writes a list that is not needed."""
        if task is None:
            return const(I64, 1)
        if not name.startswith("select_"):
            return self._groups_of(task)
        b = self.b
        unwanted = b.icmp_unsigned("==", b.load(self._at(self.m.layout.room_at[task]), I64), const(I64, 0))
        return b.select(unwanted, const(I64, 0), self._whole_groups(task, self._deciding(task)))

    def _deciding(self, index: int) -> ir.LLVMValue:
        """Return the greatest number of threads of the shader that lists a task's iterations that pass the gate."""
        b, few = self.b, const(I64, min(BUSY, self.most))
        part = b.udiv(self._iterations(index), const(I64, ROUNDS[-1]))
        least = self.m.declare("llvm.umin.i64", I64, [I64, I64])
        return b.call(least, [b.select(b.icmp_unsigned(">", part, few), part, few), const(I64, self.most)])

    def _counted(self, index: int) -> ir.LLVMValue:
        """Return the number of workgroups of a task, with its threads limited by its adstacks and thread sums."""
        held: ir.LLVMValue = const(I64, min(self.most, SUMMING) if index in self.summed else self.most)
        if any(s.task == index for s in self.m.layout.stacks):
            held = self.b.load(self._at(self.m.layout.threads_at[index]), I64)
        return self._whole_groups(index, held)

    def _whole_groups(self, index: int, most: ir.LLVMValue) -> ir.LLVMValue:
        """Return the number of workgroups that covers all iterations of a task with at most `most` threads."""
        b, size = self.b, const(I64, local_size(self.m.kernel.tasks[index]))
        least = self.m.declare("llvm.umin.i64", I64, [I64, I64])
        count = b.call(least, [self._iterations(index), most])
        return b.udiv(b.add(count, b.sub(size, const(I64, 1))), size)

    def _iterations(self, index: int) -> ir.LLVMValue:
        """Return the number of iterations of a task, emitting its computation the first time."""
        if index not in self._counts:
            self._counts[index] = self._count(index)
        return self._counts[index]

    def _count(self, index: int) -> ir.LLVMValue:
        """Emit the computation of a task's box and return its iterations, or _UNKNOWN if the host cannot count them."""
        b, task = self.b, self.m.kernel.tasks[index]
        if not is_host_bound(self.m.kernel, index, self.options):
            return const(I64, _UNKNOWN)
        status = b.call(bounds_function(self.m, index, task), [self.block])
        fine = b.icmp_unsigned("==", status, const(I32, OK))
        found = box_volume(b, self.block, self.m.layout.boxes[index], len(task.indices))
        return b.select(fine, found, const(I64, 0))


def _word(b: IRBuilder, base: ir.LLVMValue, number: int, t: ir.Type = I64) -> ir.LLVMValue:
    """Load the 64-bit word at index `number` after the address `base`."""
    return b.load(b.gep(base, const(I64, number), I64), t)


def _put(b: IRBuilder, base: ir.LLVMValue, number: int, value: ir.LLVMValue) -> None:
    """Store a value to the 64-bit word at index `number` after the address `base`."""
    b.store(value, b.gep(base, const(I64, number), I64))


def _slot(b: IRBuilder, ring: ir.LLVMValue) -> ir.LLVMValue:
    """Return the address of the control words of a ring's next entry."""
    at = b.add(b.mul(_word(b, ring, R_NEXT), const(I64, SLOT)), const(I64, RING))
    return b.gep(ring, at, I64)


def _claim(e: ArithEmitter, function: ir.LLVMFunction) -> None:
    """Write the body of sg.claim(ring, error), which waits for the ring's next entry and returns its address.

    On an error, the function stores its code and returns null.
    """
    b = e.b
    ring, error = function.args
    table, slot = _word(b, ring, R_TABLE, PTR), _slot(b, ring)
    closed = _word(b, table, CLOSED)
    with b.if_then(b.icmp_unsigned("!=", closed, const(I64, 0))):
        b.store(closed, error)
        b.ret(_NULL)
    value = _word(b, slot, S_VALUE)
    with b.if_then(b.icmp_unsigned(">", value, _word(b, table, DONE))):
        _put(b, table, WANTED, value)
        call = [_word(b, table, DEVICE), _word(b, table, WAIT_INFO), const(I64, -1)]
        code = b.call_pointer(_word(b, table, WAIT, PTR), I32, call)
        with b.if_then(b.icmp_unsigned("!=", code, const(I32, 0))):
            b.store(b.sext(code, I64), error)
            b.ret(_NULL)
        _put(b, table, DONE, value)
    b.ret(_word(b, slot, S_HOST, PTR))


def _submit(e: ArithEmitter, function: ir.LLVMFunction, slots: int) -> None:
    """Write the body of sg.submit(ring, error), which submits the claimed entry with the next timeline value."""
    b = e.b
    ring, error = function.args
    table, slot = _word(b, ring, R_TABLE, PTR), _slot(b, ring)
    before, known = _word(b, table, VALUE), _word(b, slot, S_VALUE)
    value = b.add(before, const(I64, 1))
    _put(b, table, VALUE, value)
    _put(b, slot, S_VALUE, value)
    _put(b, table, PENDING, const(I64, 1))
    call = [_word(b, table, QUEUE), const(I32, 1), _word(b, slot, S_INFO), const(I64, 0)]
    code = b.call_pointer(_word(b, table, SUBMIT, PTR), I32, call)
    with b.if_then(b.icmp_unsigned("!=", code, const(I32, 0))):
        # Nothing was submitted, so no wait may expect the new value.
        _put(b, table, VALUE, before)
        _put(b, slot, S_VALUE, known)
        b.store(b.sext(code, I64), error)
        b.ret(const(I32, FAILED))
    following = b.add(_word(b, ring, R_NEXT), const(I64, 1))
    is_last = b.icmp_unsigned("==", following, const(I64, slots))
    _put(b, ring, R_NEXT, b.select(is_last, const(I64, 0), following))
    b.ret(const(I32, OK))


def _on_device(e: ArithEmitter, function: ir.LLVMFunction) -> None:
    """Write the body of sg.on_device(regions, address), which returns the device address of a host address.

    An address in no region, such as that of an array without bytes, is returned unchanged.
    """
    b = e.b
    regions, address = function.args
    names = ("next", "look", "inside", "below", "above", "missing")
    following, look, inside, below, above, missing = (function.append_basic_block(name) for name in names)
    # A binary search over the regions, which are sorted by address.
    low, high = b.alloca(I64), b.alloca(I64)
    b.store(const(I64, 0), low)
    b.store(b.load(regions, I64), high)
    b.branch(following)
    b.position_at_end(following)
    first, last = b.load(low, I64), b.load(high, I64)
    middle = b.lshr(b.add(first, last), const(I64, 1))
    b.cbranch(b.icmp_unsigned("<", first, last), look, missing)
    b.position_at_end(look)
    region = b.gep(regions, b.add(b.mul(middle, const(I64, REGION)), const(I64, 1)), I64)
    b.cbranch(b.icmp_unsigned("<", address, _word(b, region, 0)), below, above)
    b.position_at_end(below)
    b.store(middle, high)
    b.branch(following)
    b.position_at_end(above)
    b.store(b.add(middle, const(I64, 1)), low)
    b.cbranch(b.icmp_unsigned("<", address, _word(b, region, 1)), inside, following)
    b.position_at_end(inside)
    b.ret(b.add(address, _word(b, region, 2)))
    b.position_at_end(missing)
    b.ret(address)
