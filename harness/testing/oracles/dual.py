"""This module runs a kernel on dual numbers: forward mode on the IR itself, one iteration and one statement at a time.

Every value is a pair (primal, tangent) in float64. The primal follows docs/ir.md; the tangent passes through the same
memory, locals, branches and exits. Nothing is transformed, saved or reversed, so the identity
    <cotangent, J tangent> = <vjp(cotangent), tangent>
compares a reverse transform with an execution that shares none of its parts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....backends.base import Draws
from ....compiler.errors import DivisionByZero, KernelAssertionError, OutOfBounds, StackgradError
from ....compiler.ir import nodes as n
from ....compiler.ir.depth import with_stack_room
from ....compiler.ir.kernels import Kernel, Task
from ....compiler.ir.ops import OPS
from ....compiler.ir.statement import Block, Stmt, Value
from ....compiler.ir.table import Table
from ....compiler.ir.types import ArrayType, Scalar
from .common import HOLES, carriers, require_supported, uniform
from .dual_ops import apply, bit_cast, cast, wrap

Dual = tuple[Any, Any]
ZERO = np.float64(0.0)


@dataclass(frozen=True)
class BlockExit:
    """Represent an early exit from a block by `break`, `continue` or `return`, with the frames still to leave.

    Attributes:
        depth: the number of frames still to leave, 1 for the innermost only; None for all frames.
        resumes: True if the loop goes on with its next trip.
    """

    depth: int | None
    resumes: bool = False

    def outer(self) -> BlockExit | None:
        """Return the exit as the next outer frame sees it, or None if it leaves no further frame."""
        if self.depth is None:
            return self
        return BlockExit(self.depth - 1, self.resumes) if self.depth > 1 else None


@dataclass
class DualArray:
    """Represent an array with its tangent, which is None if stores to the array stop the derivative."""

    value: np.ndarray
    tangent: np.ndarray | None = None

    def read(self, at: tuple[int, ...]) -> Dual:
        """Return the value and the tangent of an element."""
        value = self.value[at]
        exact = value if self.value.dtype.kind == "f" else value.item()
        return exact, ZERO if self.tangent is None else self.tangent[at]

    def write(self, at: tuple[int, ...], new: Dual) -> None:
        """Store a value and its tangent; the tangent is dropped if the array carries none."""
        self.value[at] = new[0]
        if self.tangent is not None:
            self.tangent[at] = new[1]


def _blank(shape: tuple[int, ...], dtype: Scalar, carries: bool) -> DualArray:
    stored = np.float64 if dtype.is_real else dtype.dtype
    return DualArray(np.zeros(shape, stored), np.zeros(shape) if carries else None)


@dataclass
class Iteration:
    """Represent one iteration of a task on dual numbers: its values, locals and draws, and the shared memory.

    Attributes:
        memory: arrays and temporaries by name, shared by all iterations.
        key: the seed and the number of the launch, for random draws.
        task: the number of the task.
        number: the number of the iteration.
        values: the pair of each IR value.
        locals: the pair of each local.
        arrays: the local arrays by name.
        drawn: the number of draws so far.
    """

    kernel: Kernel
    memory: dict[str, DualArray]
    scalars: Mapping[str, Any]
    key: tuple[int, int]
    task: int = 0
    number: int = 0
    values: dict[Value, Dual] = field(default_factory=dict)
    locals: dict[str, Dual] = field(default_factory=dict)
    arrays: dict[str, DualArray] = field(default_factory=dict)
    drawn: int = 0

    def block(self, body: Block) -> BlockExit | None:
        """Execute the statements of a block; return the early exit that ended it, or None if it ran to its end."""
        for stmt in body:
            leave = EXECUTE[type(stmt).__name__](self, stmt)
            if leave is not None:
                return leave
        return None

    def place(self, stmt: Any, memory: DualArray, indices: Sequence[Value]) -> tuple[int, ...]:
        """Return the indices of an access as numbers. Raise OutOfBounds if one is outside of the array.

        Raises:
            OutOfBounds: an index is outside the array.
        """
        at = tuple(int(self.values[v][0]) for v in indices)
        if not all(0 <= i < extent for i, extent in zip(at, memory.value.shape)):
            name = getattr(stmt, "array", None) or stmt.var
            raise self.trap(OutOfBounds, stmt, f"index {list(at)} is outside {name} of shape {memory.value.shape}")
        return at

    def trap(self, kind: type[StackgradError], stmt: Stmt, reason: str) -> StackgradError:
        """Return an exception of this class whose message has the source location of a statement."""
        span = self.kernel.span(stmt.loc)
        return kind(f"{span.render()}: {reason}" if span else f"kernel {self.kernel.name}: {reason}")


@with_stack_room
def jvp(
    kernel: Kernel,
    arrays: Mapping[str, np.ndarray],
    scalars: Mapping[str, Any],
    tangents: Mapping[str, np.ndarray],
    draws: Draws = Draws(),  # noqa: B008 (immutable)
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the final arrays and their final tangents (float64), for tangents of the initial arrays.

    Absent tangents are zero. Memory carries a tangent if its type has an adjoint, if it is named in `tangents`, or if
    it is a temporary; a store to any other array drops the tangent. Parallel tasks run in row-major order.

    Raises:
        OutOfBounds, KernelAssertionError, DivisionByZero: the kernel traps.
        Unsupported: the kernel is an adjoint kernel.
        ValueError: an argument does not fit its parameter.
    """
    require_supported(kernel, arrays, scalars)
    memory = _memory(kernel, arrays, tangents)
    with np.errstate(all="ignore"):
        for number, task in enumerate(kernel.tasks):
            if _task(Iteration(kernel, memory, scalars, (draws.seed, draws.launch), number), task):
                break
    names = [p.name for p in kernel.params if isinstance(p.type, ArrayType)]
    moved = {k: memory[k].tangent for k in names}
    return {k: memory[k].value for k in names}, {k: t for k, t in moved.items() if t is not None}


def _memory(
    kernel: Kernel, arrays: Mapping[str, np.ndarray], tangents: Mapping[str, np.ndarray]
) -> dict[str, DualArray]:
    carrying = carriers(kernel, tangents)
    memory = {t.name: _blank((), t.dtype, t.name in carrying) for t in kernel.temps}
    for param in kernel.params:
        if isinstance(param.type, ArrayType):
            shape = np.shape(arrays[param.name])
            made = memory[param.name] = _blank(shape, param.type.dtype, param.name in carrying)
            made.value[...] = arrays[param.name]
            if param.name in tangents and made.tangent is not None:
                if np.shape(tangents[param.name]) != shape:
                    raise ValueError(f"the tangent of {param.name} needs shape {shape}")
                made.tangent[...] = tangents[param.name]
    return memory


def _task(run: Iteration, task: Task) -> bool:
    """Run all iterations of a task on dual numbers; return True if a `return` in it has ended the kernel."""
    if not task.is_parallel:
        return run.block(task.body) is not None
    run.block(task.bounds)
    ends = zip(task.begin, task.end)
    box = itertools.product(*(range(run.values[b][0], run.values[e][0]) for b, e in ends))
    for number, point in enumerate(box):
        values = {index: (at, ZERO) for index, at in zip(task.indices, point)}
        Iteration(run.kernel, run.memory, run.scalars, run.key, run.task, number, values).block(task.body)
    return False


EXECUTE: Table[str, Callable[[Iteration, Any], BlockExit | None]] = Table(
    "EXECUTE", n.STATEMENTS, HOLES, about="how the oracle of dual numbers runs the statement"
)


# ---- values -------------------------------------------------------------------------------------------------


@EXECUTE.row("Const")
def _const(run: Iteration, stmt: n.Const) -> None:
    run.values[stmt.result] = cast(stmt.value, stmt.result.type, stmt.result.type), ZERO


@EXECUTE.row("Arg")
def _arg(run: Iteration, stmt: n.Arg) -> None:
    dtype = stmt.result.type
    run.values[stmt.result] = cast(dtype(run.scalars[stmt.name]), dtype, dtype), ZERO


@EXECUTE.row("Shape")
def _shape(run: Iteration, stmt: n.Shape) -> None:
    run.values[stmt.result] = run.memory[stmt.array].value.shape[stmt.axis], ZERO


@EXECUTE.row("Op")
def _op(run: Iteration, stmt: n.Op) -> None:
    args = [run.values[v] for v in stmt.args]
    if OPS[stmt.op].traps and stmt.result.type.is_int and args[-1][0] == 0:
        raise run.trap(DivisionByZero, stmt, f"{stmt.op} of integers by zero")
    types = tuple(v.type for v in stmt.args)
    run.values[stmt.result] = apply(stmt.op, types, stmt.result.type, args)


@EXECUTE.row("Cast")
def _cast(run: Iteration, stmt: n.Cast) -> None:
    value, tangent = run.values[stmt.arg]
    moves = stmt.arg.type.is_real and stmt.result.type.is_real
    run.values[stmt.result] = cast(value, stmt.arg.type, stmt.result.type), tangent if moves else ZERO


@EXECUTE.row("Within")
def _within(run: Iteration, stmt: n.Within) -> None:
    index, extent = int(run.values[stmt.index][0]), int(run.values[stmt.extent][0])
    if not 0 <= index < extent:
        raise run.trap(OutOfBounds, stmt, f"index {index} is outside 0 to {extent - 1}")
    run.values[stmt.result] = run.values[stmt.index]


@EXECUTE.row("BitCast")
def _bit_cast(run: Iteration, stmt: n.BitCast) -> None:
    run.values[stmt.result] = bit_cast(run.values[stmt.arg][0], stmt.arg.type, stmt.result.type), ZERO


@EXECUTE.row("Random")
def _random(run: Iteration, stmt: n.Random) -> None:
    dtype = stmt.result.type
    task = run.task if stmt.task is None else stmt.task
    drawn = uniform(dtype, run.key, task, np.array([run.number]), np.array([run.drawn]))[0]
    run.values[stmt.result] = np.float64(drawn) if dtype.is_real else drawn.item(), ZERO
    run.drawn += 1


# ---- memory and locals --------------------------------------------------------------------------------------


@EXECUTE.row("Load")
def _load(run: Iteration, stmt: n.Load) -> None:
    memory = run.memory[stmt.array]
    run.values[stmt.result] = memory.read(run.place(stmt, memory, stmt.indices))


@EXECUTE.row("Store")
def _store(run: Iteration, stmt: n.Store) -> None:
    memory = run.memory[stmt.array]
    memory.write(run.place(stmt, memory, stmt.indices), run.values[stmt.value])


@EXECUTE.row("Atomic")
def _atomic(run: Iteration, stmt: n.Atomic) -> None:
    memory, new = run.memory[stmt.array], run.values[stmt.value]
    at, dtype = run.place(stmt, memory, stmt.indices), stmt.value.type
    old = run.values[stmt.result] = memory.read(at)
    if stmt.expected is not None:
        same = same_bits(old[0], run.values[stmt.expected][0])
        memory.write(at, new if same else old)
        return
    memory.write(at, new if stmt.op == "exchange" else apply(stmt.op, (dtype, dtype), dtype, [old, new]))


def same_bits(x: Any, y: Any) -> bool:
    """Return True if two numbers of one type have the same bit pattern; all NaNs count as the same."""
    return bool(np.isnan(x) and np.isnan(y) or x == y and np.signbit(x) == np.signbit(y))


@EXECUTE.row("Local")
def _local(run: Iteration, stmt: n.Local) -> None:
    run.locals[stmt.var] = _blank((), stmt.dtype, carries=False).read(())


@EXECUTE.row("Get")
def _get(run: Iteration, stmt: n.Get) -> None:
    run.values[stmt.result] = run.locals[stmt.var]


@EXECUTE.row("Set")
def _set(run: Iteration, stmt: n.Set) -> None:
    run.locals[stmt.var] = run.values[stmt.value]


@EXECUTE.row("LocalArray")
def _local_array(run: Iteration, stmt: n.LocalArray) -> None:
    run.arrays[stmt.var] = _blank((stmt.size,), stmt.dtype, stmt.dtype.is_real)


@EXECUTE.row("GetElement")
def _get_element(run: Iteration, stmt: n.GetElement) -> None:
    memory = run.arrays[stmt.var]
    run.values[stmt.result] = memory.read(run.place(stmt, memory, (stmt.index,)))


@EXECUTE.row("SetElement")
def _set_element(run: Iteration, stmt: n.SetElement) -> None:
    memory = run.arrays[stmt.var]
    memory.write(run.place(stmt, memory, (stmt.index,)), run.values[stmt.value])


# ---- control ------------------------------------------------------------------------------------------------


@EXECUTE.row("If")
def _if(run: Iteration, stmt: n.If) -> BlockExit | None:
    return run.block(stmt.then if run.values[stmt.cond][0] else stmt.orelse)


def _body(run: Iteration, stmt: Any, trips: int) -> tuple[bool, BlockExit | None]:
    """Run one trip of a loop on dual numbers; return True to go on, or False and the exit for outer frames."""
    if stmt.trips is not None:
        run.values[stmt.trips] = wrap(trips, stmt.trips.type), ZERO
    leave = run.block(stmt.body)
    # A `continue` of this loop only ends the trip.
    if leave is not None and not (leave.resumes and leave.depth == 1):
        return False, leave.outer()
    return not (stmt.stop and run.locals[stmt.stop][0]), None


@EXECUTE.row("For")
def _for(run: Iteration, stmt: n.For) -> BlockExit | None:
    visited = range(run.values[stmt.begin][0], run.values[stmt.end][0], stmt.step)
    if stmt.trips is not None:
        run.values[stmt.trips] = 0, ZERO
    for trips, index in enumerate(reversed(visited) if stmt.descending else visited, 1):
        run.values[stmt.index] = wrap(index, stmt.index.type), ZERO
        go_on, leave = _body(run, stmt, trips)
        if not go_on:
            return leave
    return None


@EXECUTE.row("While")
def _while(run: Iteration, stmt: n.While) -> BlockExit | None:
    if stmt.trips is not None:
        run.values[stmt.trips] = 0, ZERO
    for trips in itertools.count(1):
        leave = run.block(stmt.condition)
        if leave is not None:
            return leave.outer()
        if not run.values[stmt.test][0]:
            return None
        go_on, leave = _body(run, stmt, trips)
        if not go_on:
            return leave
    return None


@EXECUTE.row("Scope")
def _scope(run: Iteration, stmt: n.Scope) -> BlockExit | None:
    leave = run.block(stmt.body)
    return leave.outer() if leave is not None else None


@EXECUTE.row("Break")
def _break(run: Iteration, stmt: n.Break) -> BlockExit:
    return BlockExit(stmt.depth)


@EXECUTE.row("Continue")
def _continue(run: Iteration, stmt: n.Continue) -> BlockExit:
    return BlockExit(stmt.depth, resumes=True)


@EXECUTE.row("Return")
def _return(run: Iteration, stmt: n.Return) -> BlockExit:
    return BlockExit(None)


# ---- effects ------------------------------------------------------------------------------------------------


@EXECUTE.row("Assert")
def _assert(run: Iteration, stmt: n.Assert) -> None:
    if not run.values[stmt.cond][0]:
        raise run.trap(KernelAssertionError, stmt, stmt.message)


@EXECUTE.row("Print")
def _print(run: Iteration, stmt: n.Print) -> None:
    """Print nothing, because an oracle only computes arrays."""
