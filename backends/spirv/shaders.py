"""Turn a kernel into one module of shaders, with one entry point per serial task and up to three per parallel task.

`bounds_N` (one thread) stores begin and extent of each axis of task N in the argument block. `select_N` lists the
iterations that pass the gate of a task, if it has a gate (selection.py). `task_N` runs the task: each thread takes the
iterations first, first + stride, ... of the box in row-major order, or of the list, on the adstack row of its number.
After an error has been recorded, every shader does nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

from ...compiler.ir import nodes as n
from ...compiler.ir.depth import with_stack_room
from ...compiler.ir.kernels import Kernel, Task
from ...compiler.ir.roles import LOOPS
from ...compiler.ir.statement import Block, Stmt
from ...compiler.ir.walk import walk
from ...compiler.passes.flatten_branches import flatten_branches
from ...compiler.passes.lower_exits import lower_exits
from .. import limits
from ..base import Options
from ..codegen import ir
from ..codegen.emit import Site
from ..codegen.launch_conditions import write_where_inside
from ..codegen.layout import BlockLayout
from . import access, adstack, blocks, control, for_loops, memory, prints
from . import opcodes as op
from .bindings import Bindings
from .coarsening import ABREAST, can_coarsen, lower_abreast
from .code import I1, I32, I64, ArithmeticWriter
from .emit import ArithEmitter, Emitter, ModuleState, ShaderFeatures
from .module import EntryPoint
from .payne_hanek import two_over_pi
from .quirks import MOST_NESTING, NESTING
from .reductions import ThreadSums
from .selection import GROUP, IterationSource, gated, lay_out_lists, write_list
from .statements import lower_block

assert adstack and blocks and control and memory and prints and for_loops, "they add their rows to LOWER"

PROBE = 2
"""The value that the host writes to `request_at` where a driver limits loops: a number of trips."""

LOCAL_SIZE = GROUP
"""Threads of a workgroup of a parallel task without blocks."""


def local_size(task: Task) -> int:
    """Return the number of threads of a workgroup of a parallel task."""
    return task.block or LOCAL_SIZE


@dataclass(frozen=True)
class Shaders:
    """Hold the SPIR-V module of a kernel, with the layout and site table that a launcher needs.

    Attributes:
        kernel: kernel as it was compiled, without exits
        words: words of the module
        layout: layout of the argument block
        sites: places in the program at which a shader may report an error
        entries: names of the entry points in order of dispatch, each with the task whose iterations it runs (None: one
            thread)
        capabilities: names of the capabilities of the module
        tail: bytes that must follow the argument block
        bindings: bindings of storage buffers, where memory is not reached by address
        summed: tasks whose threads keep sums
    """

    kernel: Kernel
    words: tuple[int, ...]
    layout: BlockLayout
    sites: tuple[Site, ...]
    entries: tuple[tuple[str, int | None], ...]
    capabilities: tuple[str, ...]
    tail: bytes = b""
    bindings: Bindings | None = None
    summed: frozenset[int] = frozenset()

    @property
    def code(self) -> bytes:
        """Return the SPIR-V module as bytes."""
        return b"".join(word.to_bytes(4, "little") for word in self.words)


@with_stack_room
def generate(kernel: Kernel, options: Options, features: ShaderFeatures | None = None) -> Shaders:
    """Return the shaders of a kernel, which must be of stage tasks, structured or adjoint.

    Args:
        kernel: kernel to be compiled
        options: options of the build
        features: features of the device; None for those of a usual device

    Raises:
        Unsupported: if the kernel needs what a declared limit excludes
    """
    limits.check(kernel, "vulkan")
    features = features or ShaderFeatures()
    kernel = _prepared(kernel, features)
    m = _state(kernel, options, features)
    entries: list[tuple[str, int | None]] = []
    summed: list[int] = []
    for index, task in enumerate(kernel.tasks):
        if task.is_parallel:
            _bounds(m, index, task)
            entries.append((f"bounds_{index}", None))
            if index in m.layout.list_at:
                _select(m, index, task)
                entries.append((f"select_{index}", index))
            summed += [index] * _parallel(m, index, task)
            entries.append((f"task_{index}", index))
        else:
            _serial(m, index, task)
            entries.append((f"task_{index}", None))
    tail = struct.pack(f"<{len(two_over_pi())}I", *two_over_pi()) if m.reduces else b""
    words, capabilities = tuple(m.module.words()), tuple(m.module.capabilities)
    return Shaders(
        kernel, words, m.layout, tuple(m.sites), tuple(entries), capabilities, tail, m.bindings, frozenset(summed)
    )


def _prepared(kernel: Kernel, features: ShaderFeatures) -> Kernel:
    """Return the kernel as shaders need it: without break, continue and return, and not too deeply nested."""
    kernel = lower_exits(kernel)
    return _with_a_task(flatten_branches(kernel, NESTING, MOST_NESTING) if features.quirks.shallow else kernel)


def _with_a_task(kernel: Kernel) -> Kernel:
    """Return the kernel, with an empty task if it has none, because a module needs an entry point."""
    return kernel if kernel.tasks else replace(kernel, tasks=(Task(()),))


def _state(kernel: Kernel, options: Options, features: ShaderFeatures) -> ModuleState:
    """Return the initial state of code generation for a kernel, with room for iteration lists in its layout."""
    m = ModuleState(kernel, options, features)
    lay_out_lists(m)
    return m


@with_stack_room
def layout_of(kernel: Kernel, options: Options, features: ShaderFeatures) -> tuple[Kernel, BlockLayout]:
    """Return the kernel without break, continue and return, and the layout of its argument block."""
    kernel = _prepared(kernel, features)
    return kernel, _state(kernel, options, features).layout


def _open(m: ModuleState, name: str, task: int, local_size: int) -> Emitter:
    """Begin the shader of a task and return its emitter. The shader returns at once if an error is recorded."""
    code = m.code(name, ir.VOID, ())
    m.module.entries.append(EntryPoint(code.id, name, local_size))
    e = Emitter(m, code, task)
    e.checks = m.checks.of(m.kernel.tasks[task])
    record: ir.LLVMValue = e.slot_address(m.layout.error_at)
    if m.features.shared_errors:
        record = access.load(code, record, I64)
    failed: ir.LLVMValue = access.load(code, record, I32)
    if m.kernel.tasks[task].block and name == f"task_{task}":
        failed = _agreed(e, failed)
    with code.if_then(code.icmp_unsigned("!=", failed, code.const(I32, 0))):
        code.ret_void()
    return e


def _agreed(e: Emitter, word: ir.LLVMValue) -> ir.LLVMValue:
    """Emit code by which all threads of a workgroup take the word of the first one, so that they leave together."""
    b = e.b
    number = access.first_of(b, "thread", op.GLOBAL_INVOCATION_ID)
    local = b.urem(number, e.word(local_size(e.m.kernel.tasks[e.task])))
    place = b.module.fresh()
    b.emit(
        "AccessChain",
        b.module.pointer(op.WORKGROUP, b.module.type(I32)),
        place,
        b.module.shared("failed", I32, 1),
        b.const(I32, 0).id,
    )
    with b.if_then(b.icmp_unsigned("==", local, e.word(0))):
        b.emit("Store", place, b.value(word).id)
    blocks.meet(e)
    return b.result_of(I32, "Load", place)


def _start(e: Emitter, block: Block) -> None:
    """Emit a reset of the iteration's draw counter to 0 if the block draws random numbers."""
    if any(isinstance(stmt, n.Random) for stmt in walk(block)):
        e.draws = e.draws or e.b.scalar(I32)
        e.draws.set(e.b.const(I32, 0))


def _close(e: Emitter, block: Block = ()) -> None:
    """Emit the end of a shader; if its code `block` has loops, first test for drivers that end loops too early."""
    # Threads of a parallel task stride over iterations, so its shader has a loop in any case.
    if e.m.features.quirks.loop_limit and (e.m.kernel.tasks[e.task].is_parallel or any(map(_loops, walk(block)))):
        _see_that_loops_run(e)
    e.b.ret_void()
    e.b.close()


def _loops(stmt: Stmt) -> bool:
    """Return True if the statement is a loop."""
    return isinstance(stmt, LOOPS)


def _see_that_loops_run(e: Emitter) -> None:
    """Emit a loop with a known number of trips, and an error report if the driver leaves this loop too early."""
    b = e.b
    # The number of trips is read from the block, so that a driver cannot know it while it compiles the shader.
    trips, done, seen = e.slot(e.m.layout.request_at), b.scalar(I64), b.scalar(I64)
    done.set(e.word(0))
    seen.set(e.word(0))

    def body() -> None:
        seen.set(b.add(seen.get(), e.word(3)))

    b.loop(lambda: b.icmp_unsigned("<", done.get(), trips), body, lambda: done.set(b.add(done.get(), e.word(1))))
    wrong = b.icmp_unsigned("!=", seen.get(), b.mul(trips, e.word(3)))
    e.trap_if(wrong, e.m.site("loops", e.task, n.Return()), e.word(0), e.word(0))


def _bounds(m: ModuleState, index: int, task: Task) -> None:
    """Write the shader that computes the box of a task and stores it in the argument block."""
    e = _open(m, f"bounds_{index}", index, 1)
    b = e.b
    _start(e, task.bounds)
    lower_block(e, task.bounds)
    for axis, (low, high) in enumerate(zip(task.begin, task.end)):
        begin, end = e.index(low), e.index(high)
        less = (b.icmp_signed if low.type.is_signed else b.icmp_unsigned)("<", begin, end)
        at = m.layout.boxes[index] + 16 * axis
        access.store(b, begin, e.slot_address(at))
        access.store(b, b.select(less, b.sub(end, begin), e.word(0)), e.slot_address(at + 8))
    _close(e)


def _serial(m: ModuleState, index: int, task: Task) -> None:
    """Write the shader of a serial task."""
    e = _open(m, f"task_{index}", index, 1)
    _start(e, task.body)
    lower_block(e, task.body)
    _close(e, task.body)


BoxBounds = list[tuple[ir.LLVMValue, ir.LLVMValue]]
"""The type of a box: begin and extent of each axis."""


def _box(e: Emitter) -> tuple[BoxBounds, ir.LLVMValue]:
    """Return the box of the task and its number of iterations, computed at the head of the shader."""
    at, total = e.m.layout.boxes[e.task], e.word(1)
    axes = range(len(e.m.kernel.tasks[e.task].indices))
    box: BoxBounds = [(e.slot(at + 16 * axis), e.slot(at + 16 * axis + 8)) for axis in axes]
    with e.b.at_head():
        for _, extent in box:
            total = e.b.mul(total, extent)
    return box, total


def _select(m: ModuleState, index: int, task: Task) -> None:
    """Write the shader that lists the numbers of the iterations of a task that pass its gate."""
    e = _open(m, f"select_{index}", index, LOCAL_SIZE)
    gate, deciding = gated(task)
    part = replace(task, body=deciding)
    e.checks = m.checks.of(part)
    (box, total), b = _box(e), e.b
    with b.at_head():
        first, threads = _threads(e)

    def passes(number: ir.LLVMValue) -> ir.LLVMValue:
        e.iteration = number
        for value, (begin, _), step in zip(task.indices, box, _decoded(e, box)):
            e.values[value] = e.from_i64(b.add(begin, step), value.type)
        _start(e, deciding)
        lower_block(e, deciding)
        cond = e.operand(gate.cond)
        return cond if gate.opens else b.xor(cond, b.const(I1, True))

    write_list(e, part, first, threads, total, passes)
    _close(e)


def _parallel(m: ModuleState, index: int, task: Task) -> bool:
    """Write the shader of a parallel task, and return True if its threads sum updates of shared elements."""
    e = _open(m, f"task_{index}", index, local_size(task))
    box, volume = _box(e)
    numbers, kept = IterationSource(e, volume), ThreadSums(e, task)
    each = lambda: lower_block(e, task.body)  # noqa: E731

    def run() -> None:
        _over(
            e,
            box,
            numbers.total,
            task.body,
            lambda place: numbers.number(e, place),
            each,
            not task.block and can_coarsen(e, task.body),
        )

    write_where_inside(e, task, run)
    kept.publish(e)
    _close(e)
    return bool(kept.sums)


def _over(
    e: Emitter,
    box: BoxBounds,
    total: ir.LLVMValue,
    block: Block,
    number: Callable[[ir.LLVMValue], ir.LLVMValue],
    each: Callable[[], None],
    abreast: bool = False,
) -> None:
    """Emit the loop in which one thread of a parallel task runs its share of the iterations.

    `number` returns the iteration at a place, `each` writes its body; draws of `block` count from 0. If `abreast`,
    several iterations take the statements of the block side by side.
    """
    b, task = e.b, e.m.kernel.tasks[e.task]
    with b.at_head():
        first, stride = _threads(e)
    place = b.scalar(I64)
    place.set(first)

    def start(at: ir.LLVMValue) -> None:
        e.iteration = number(at)
        for value, (begin, _), step in zip(task.indices, box, _decoded(e, box)):
            e.values[value] = e.from_i64(b.add(begin, step), value.type)

    def body() -> None:
        start(place.get())
        _start(e, block)
        each()

    if abreast:
        with b.at_head():
            far, whole = (b.mul(stride, e.word(k)) for k in (ABREAST - 1, ABREAST))
            strides = [b.mul(stride, e.word(k)) for k in range(ABREAST)]
        b.loop(
            lambda: b.icmp_unsigned("<", b.add(place.get(), far), total),
            lambda: lower_abreast(e, block, [b.add(place.get(), k) for k in strides], start),
            lambda: place.set(b.add(place.get(), whole)),
        )
    b.loop(lambda: b.icmp_unsigned("<", place.get(), total), body, lambda: place.set(b.add(place.get(), stride)))


def _threads(e: Emitter) -> tuple[ir.LLVMValue, ir.LLVMValue]:
    """Return the first iteration of this thread and the number of threads, and set the thread's row of adstacks."""
    b, first = e.b, access.first_of(e.b, "thread", op.GLOBAL_INVOCATION_ID)
    # The row of a thread is its number in this dispatch, which may be a part of the task.
    e.row = first
    if e.m.bindings is None:
        threads = b.mul(access.first_of(b, "groups", op.NUM_WORKGROUPS), e.word(local_size(e.m.kernel.tasks[e.task])))
    else:
        before, threads = access.chunk(b)
        first = b.add(first, before)
    if e.m.in_order(e.task):
        # Only thread 0 runs a task in order; all others begin behind the last iteration.
        behind_all = e.word((1 << 63) - 1)
        first, threads = b.select(b.icmp_unsigned("==", first, e.word(0)), first, behind_all), e.word(1)
    return first, threads


def _decoded(e: Emitter, box: BoxBounds) -> list[ir.LLVMValue]:
    """Return the position of the iteration along each axis, decoded from its row-major number."""
    b = e.b
    places: list[ir.LLVMValue] = [e.iteration]
    # A box that has iterations has no extent of 0, so no division by zero occurs.
    for _, extent in reversed(box[1:]):
        whole = b.call(e.m.helper("sg.quotient", I64, [I64, I64], _quotient), [places[0], extent])
        places[0:1] = [whole, b.sub(places[0], b.mul(whole, extent))]
    return places


def _quotient(e: ArithEmitter, function: ArithmeticWriter) -> None:
    """Write the body of the function that divides two unsigned 64-bit integers, in 32 bits if both fit."""
    b, (x, y) = function, function.args
    out = b.scalar(I64)
    # Both numbers mostly fit 32 bits, and devices divide those in a tenth of the instructions.
    small = b.icmp_unsigned("==", b.lshr(b.or_(x, y), e.word(32)), e.word(0))
    b.if_else(
        small, lambda: out.set(b.zext(b.udiv(b.trunc(x, I32), b.trunc(y, I32)), I64)), lambda: out.set(b.udiv(x, y))
    )
    b.ret(out.get())
