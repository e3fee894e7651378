"""This module emits the functions of a task: one computes its box, one runs a range of its iterations.

`sg.bounds.N(block)` stores begin and extent of each axis in the block. `sg.task.N(block, first, last, stride, row)`
runs iterations first, first + stride, ... < last of the box in row-major order, on adstack row `row`. Both return a
status (errors.py). On a CPU one function runs all tasks (dispatch.py); a GPU gets entry points instead, which call
`sg.bounds.N(block, box)` and `sg.task.N(block, box, first, last, stride, row)`: there the box is memory of the thread.
"""

from __future__ import annotations

from collections.abc import Callable

from ...compiler.analysis.fixed_locals import fixed_locals
from ...compiler.ir.kernels import Task
from ...compiler.ir.nodes import Random
from ...compiler.ir.statement import Block
from ...compiler.ir.walk import walk
from ..codegen import ir
from ..codegen.builder import IRBuilder
from ..codegen.emit import ModuleState
from ..codegen.index_checks import end_deferred
from ..codegen.launch_conditions import write_where_inside
from ..codegen.types import I1, I8, I32, I64, PTR, const, pointer
from .branching import adstack, memory
from .branching.control import Branching
from .branching.statements import LOWER
from .emit import Emitter
from .errors import OK, RETURNED

assert adstack and memory, "they add their rows to LOWER"


IterationRun = tuple[ir.LLVMValue, ir.LLVMValue, ir.LLVMValue]
"""Places of iterations: first, first + stride, ... < last, in this order: (first, last, stride)."""


class TaskExtension:
    """Add target-specific code to a task's function, such as before its first iteration; this base class adds none.

    Attributes:
        copies: Number of copies of the body, for iterations that run together.
        late: The iterations of a group load before any of them writes.
        inside: The function runs only in launches whose extents and arguments make comparisons of indices needless.
        twice: The loop is written once more, for launches that need no comparisons of indices.
    """

    copies = 1
    late = False
    inside = False
    twice = False

    def begin(self, e: Emitter) -> None:
        """Emit code that runs before the first iteration."""

    def enter(self, e: Emitter, run: IterationRun) -> IterationRun:
        """Return the range of iterations that the task's loop runs; a loop opened here is closed by `leave`."""
        return run

    def number(self, e: Emitter, place: ir.LLVMValue) -> ir.LLVMValue:
        """Return the iteration number for a position in the range of iterations that the task's loop runs."""
        return place

    def after(self, e: Emitter) -> None:
        """Emit code that runs after the body of an iteration that did not end early."""

    def leave(self, e: Emitter) -> None:
        """Emit code that runs after the task's loop over a range of iterations, such as the end of an outer loop."""

    def end(self, e: Emitter) -> None:
        """Emit the code that the extension adds at the end of a task's function, if no iteration failed."""


NOTHING = TaskExtension()


class VersionedLoop(TaskExtension):
    """Emit a task's loop twice: with all index checks, and without those that launch conditions prove unnecessary."""

    twice = True


TWICE = VersionedLoop()


def _function(m: ModuleState, name: str, numbers: int, inline: bool = True) -> ir.LLVMFunction:
    """Return a new LLVM function for a task; if `inline` is true, it is inlined into its only caller."""
    places = [PTR, PTR] if m.layout.device else [pointer(m.target.space)]
    params = [*places, *[I64] * numbers]
    attributes = ("nounwind", "alwaysinline") if inline else ("nounwind", "noinline")
    return ir.LLVMFunction(m.module, name, I32, params, attributes, "internal")


def _open(
    m: ModuleState, function: ir.LLVMFunction, index: int, task: Task, body: Block, leave: Callable[[Emitter], None]
) -> Emitter:
    """Return an emitter for a function that runs this block of a task.

    Args:
        m: Module that gets the function.
        function: Function to write.
        index: Index of the task.
        task: Task that the block belongs to.
        body: Statements of the function.
        leave: Emits what a `return` does.
    """
    e = Emitter(m, function, index)
    e.checks = m.checks.of(task)
    e.fixed = dict.fromkeys(fixed_locals(body))
    if m.layout.device:
        e.box = function.args[1]
    e.flow = Branching(e, LOWER, lambda: leave(e))
    if any(isinstance(stmt, Random) for stmt in walk(body)):
        e.draws = e.alloca(I32)
    return e


def _start_iteration(e: Emitter) -> None:
    """Reset the number of draws at the start of an iteration."""
    if e.draws is not None:
        e.b.store(const(I32, 0), e.draws)


def _end(e: Emitter, status: int) -> None:
    """Emit a return of the function's status, unless the current basic block has ended already."""
    if not e.b.block.is_terminated:
        e.b.ret(const(I32, status))


def bounds_function(m: ModuleState, index: int, task: Task) -> ir.LLVMFunction:
    """Define the function that computes the box of a parallel task: begin and extent of each axis."""
    function = _function(m, f"sg.bounds.{index}", 0)
    e = _open(m, function, index, task, task.bounds, lambda e: _end(e, OK))
    _start_iteration(e)
    e.flow.block(task.bounds)
    for axis, (low, high) in enumerate(zip(task.begin, task.end)):
        begin, end = e.index(low), e.index(high)
        less = (e.b.icmp_signed if low.type.is_signed else e.b.icmp_unsigned)("<", begin, end)
        extent = e.b.select(less, e.b.sub(end, begin), const(I64, 0))
        e.b.store(begin, _box_place(e, axis, 0))
        e.b.store(extent, _box_place(e, axis, 1))
    _end(e, OK)
    e.finish()
    return function


def _box_place(e: Emitter, axis: int, part: int) -> ir.LLVMValue:
    """Return the address where begin (part 0) or extent (part 1) of an axis is stored."""
    at = 16 * axis + 8 * part
    if e.box is None:
        return e.slot_pointer(e.m.layout.boxes[e.task] + at)
    return e.b.gep(e.box, const(I64, at), I8, inbounds=True)


def task_function(
    m: ModuleState, index: int, task: Task, inline: bool = True, name: str = "task", additions: TaskExtension = NOTHING
) -> ir.LLVMFunction:
    """Define the function that runs the body of a task over a range of its iterations.

    Args:
        m: Module that gets the function.
        index: Index of the task.
        task: Task to write.
        inline: The function is called once, and not through its address.
        name: Part of the function's name.
        additions: Code that the target adds around the iterations.
    """
    function = _function(m, f"sg.{name}.{index}", 4, inline)
    if task.is_parallel:
        _parallel(m, function, index, task, additions)
        return function
    e = _open(m, function, index, task, task.body, lambda e: _end(e, RETURNED))
    e.row = function.args[-1]
    _start_iteration(e)
    e.flow.block(task.body)
    _end(e, OK)
    e.finish()
    return function


def _parallel(m: ModuleState, function: ir.LLVMFunction, index: int, task: Task, additions: TaskExtension) -> None:
    """Emit the body of the function of a parallel task."""
    *_, first, last, stride, row = function.args
    latch: list[ir.BasicBlock] = []
    e = _open(m, function, index, task, task.body, lambda e: e.flow.jump(latch[-1]))
    e.row = row
    # Where ends of the launch are put off, a comparison does not end it before what follows.
    e.checks = m.checks.of(task, learns=not additions.late)
    if additions.inside:
        e.checks = e.checks.where_inside()
    additions.begin(e)
    if additions.copies > 1:
        first = _groups(e, task, additions, latch, first)
    run = additions.enter(e, (first, last, stride))
    if additions.twice:
        write_where_inside(e, task, lambda: _one_by_one(e, task, additions, latch, run))
    else:
        _one_by_one(e, task, additions, latch, run)
    additions.leave(e)
    additions.end(e)
    _end(e, OK)
    e.finish()


def _one_by_one(
    e: Emitter, task: Task, additions: TaskExtension, latch: list[ir.BasicBlock], run: IterationRun
) -> None:
    """Emit a loop over a range of iterations, one at a time."""
    first, last, stride = run
    header, body, done, after = (e.flow.append(name) for name in ("iterations", "iteration", "done", "next"))
    latch.append(after)
    before, b = e.b.block, e.b
    e.flow.go(header)
    k = b.phi(I64)
    k.add_incoming(first, before)
    b.cbranch(b.icmp_unsigned("<", k, last), body, done)
    b.position_at_end(body)
    point = _iteration(e, task, additions, k, header)
    e.flow.go(after)
    if point:
        point.step(first, before, after)
    k.add_incoming(b.add(k, stride), after)
    b.branch(header)
    b.position_at_end(done)


def decision_function(
    m: ModuleState, index: int, task: Task, name: str, decide: Callable[[Emitter], ir.LLVMValue]
) -> ir.LLVMFunction:
    """Define a GPU function `sg.NAME.N(block, box, number)`, which computes a gate for one iteration.

    The function returns 1 if the condition holds after the body of that iteration, 0 if not, and FAILED if it has
    recorded an error. An index outside does not end the launch in this function, so that the reads of many iterations
    are in flight together: the iteration passes, and ends the launch where it runs.

    Args:
        m: Module that gets the function.
        index: Index of the task.
        task: Slice of the task that computes the condition.
        name: Part of the function's name.
        decide: Emits the condition after the body.
    """
    function = _function(m, f"sg.{name}.{index}", 1)
    e = _open(m, function, index, task, task.body, lambda e: _end(e, 0))
    e.checks = m.checks.of(task, learns=False)
    e.deferred, e.strayed = [], e.alloca(I1)
    e.b.store(const(I1, False), e.strayed)
    _iteration(e, task, NOTHING, function.args[2], e.b.block)
    if not e.b.block.is_terminated:
        e.b.ret(e.b.zext(e.b.or_(decide(e), e.b.load(e.strayed, I1)), I32))
    e.finish()
    return function


def _iteration(
    e: Emitter, task: Task, additions: TaskExtension, k: ir.LLVMValue, header: ir.BasicBlock
) -> _Odometer | None:
    """Emit the code of one iteration: set its indices, run the task's body, then the extension's code `after`.

    Return the counter of its indices, or None if they are computed by division.
    """
    e.iteration = additions.number(e, k)
    box = [e.bound(axis, 1) for axis in range(len(task.indices))]
    point = _Odometer(e, box, header) if _counts_up(e.m, task) else None
    places = point.places if point else _decode(e.b, box, e.iteration)
    for axis, (value, place) in enumerate(zip(task.indices, places)):
        e.set_index(value, e.b.add(e.bound(axis, 0), place))
    _start_iteration(e)
    e.flow.block(task.body)
    if not e.b.block.is_terminated:
        additions.after(e)
    return point


def _groups(
    e: Emitter, task: Task, additions: TaskExtension, latch: list[ir.BasicBlock], first: ir.LLVMValue
) -> ir.LLVMValue:
    """Emit a loop over groups of iterations whose loads overlap; return the first iteration that fills no group."""
    last, stride = e.function.args[-3:-1]
    b, before = e.b, e.b.block
    header, group, left = (e.flow.append(name) for name in ("groups", "group", "left"))
    e.flow.go(header)
    k = b.phi(I64)
    k.add_incoming(first, before)
    b.cbranch(b.icmp_unsigned("<", b.add(k, b.mul(stride, const(I64, additions.copies - 1))), last), group, left)
    b.position_at_end(group)
    at: ir.LLVMValue = k
    e.late = [] if additions.late else None
    e.deferred = [] if additions.late else None
    for _ in range(additions.copies):
        latch.append(e.flow.append("next"))
        _iteration(e, task, additions, at, header)
        e.flow.go(latch[-1])
        at = b.add(at, stride)
    writes, ends, e.late, e.deferred = e.late, e.deferred, None, None
    # An index outside ends the launch before any iteration of the group writes.
    end_deferred(e, ends or [])
    for write in writes or ():
        write()
    k.add_incoming(at, b.block)
    b.branch(header)
    b.position_at_end(left)
    return k


def _decode(b: IRBuilder, box: list[ir.LLVMValue], k: ir.LLVMValue) -> list[ir.LLVMValue]:
    """Return the index along each axis, computed from the row-major number of an iteration."""
    # A box that has iterations has no extent of 0, so that no division fails.
    places = [k]
    for extent in reversed(box[1:]):
        places[0:1] = [b.udiv(places[0], extent), b.urem(places[0], extent)]
    return places


def _counts_up(m: ModuleState, task: Task) -> bool:
    """Return True if the indices of a task are incremented with carry, which is cheaper than dividing (CPUs only)."""
    return len(task.indices) > 1 and not m.target.entries


class _Odometer:
    """Keep the indices of an iteration like an odometer: the last axis counts up and carries into the one before."""

    def __init__(self, e: Emitter, box: list[ir.LLVMValue], header: ir.BasicBlock) -> None:
        self.e, self.box = e, box
        self.places = [IRBuilder(header).phi(I64) for _ in box]

    def step(self, first: ir.LLVMValue, before: ir.BasicBlock, latch: ir.BasicBlock) -> None:
        """Emit the increment of the indices in the latch, and the indices of the first iteration before the loop."""
        b = self.e.b
        carry: ir.LLVMValue = const(I64, 1)
        for place, extent in reversed(list(zip(self.places, self.box))):
            moved = b.add(place, carry)
            full = b.icmp_unsigned("==", moved, extent)
            place.add_incoming(b.select(full, const(I64, 0), moved), latch)
            carry = b.zext(full, I64)
        head = IRBuilder(before)
        # The box may be empty before the loop, so an extent of 0 is replaced to keep the divisions defined.
        some = [head.select(head.icmp_unsigned("==", x, const(I64, 0)), const(I64, 1), x) for x in self.box]
        for place, start in zip(self.places, _decode(head, some, first)):
            place.add_incoming(start, before)


def iteration_count(b: IRBuilder, m: ModuleState, block: ir.LLVMValue, index: int, axes: int) -> ir.LLVMValue:
    """Return the number of iterations of a parallel task, from the box in the argument block."""
    return box_volume(b, block, m.layout.boxes[index], axes)


def box_volume(b: IRBuilder, memory: ir.LLVMValue, start: int, axes: int) -> ir.LLVMValue:
    """Return the number of iterations of a box whose bounds are stored in `memory` from byte `start` on."""
    out: ir.LLVMValue = const(I64, 1)
    for axis in range(axes):
        at = const(I64, start + 16 * axis + 8)
        out = b.mul(out, b.load(b.gep(memory, at, I8, inbounds=True), I64))
    return out
