"""This module makes a kernel with a known order of atomic updates, for gradients that depend on this order.

    slot = atomic add count[], 1;  y[slot] = x[i]     →     ..; $returned0[i] = slot;  y[$returned0[i]] = x[i]

The order of the iterations of a parallel loop is not defined, so the gradient must be that of the order which the
launch took. A tape may launch another kernel with the same meaning, whose order is known. Each parallel loop that
contains an update in question is changed in one of these ways:

* *recorded*: the result of an atomic is stored to an array with one element for each iteration, and all readers read it
  there. The loop stays parallel. This is not possible if the result carries a gradient, or if an iteration may execute
  the atomic more than once.
* *apart*: the extremes of an array that a later loop overwrites are taken in an array of their own, where the final
  value lasts. The loop stays parallel.
* *serial*: the loop visits its points in row-major order.

Invariant: the kernel that is made takes an order that the given kernel may take.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from operator import is_not

from ..analysis.affine import single_iteration
from ..ir import nodes as n
from ..ir.build import Builder
from ..ir.kernels import Kernel, Param, Task
from ..ir.roles import ACCESSES, LOOPS
from ..ir.statement import Block, Stmt, Value
from ..ir.types import ArrayType, i64
from ..ir.walk import map_blocks, next_id, rename_block, used_values, walk, walk_kernel, walk_task
from ..passes.number_draws import number_draws
from ..passes.promote_elements import RECORD
from ..passes.split_tasks import split_tasks
from .activity import Activity, find_activity
from .before_copies import redirect_to_copies
from .copier import Copier
from .order_dependence import LAST
from .own_arrays import own_arrays
from .serialize import serialize

Access = n.Load | n.Store | n.Atomic
EXTENTS, APART = "$extents", "$apart"


@dataclass(frozen=True)
class OrderedKernel:
    """Represent a kernel that records or fixes the order of its atomic updates, for gradients that read this order.

    Attributes:
        kernel: The kernel, of stage tasks.
        records: For each array that records the results of an atomic, the number of its task. The array has one element
            for each iteration of the task.
        apart: For each array that is added for extremes, the array of the kernel whose place it takes there; both have
            the same shape.
        extents: A kernel that fills `$extents` with the extents of the arrays in `records`, axis by axis in order; None
            if there are no such arrays.
    """

    kernel: Kernel
    records: dict[str, int] = field(default_factory=dict)
    apart: dict[str, str] = field(default_factory=dict)
    extents: Kernel | None = None

    def without(self, unread: Iterable[str]) -> OrderedKernel:
        """Return the ordered kernel without the given record arrays; readers then use the atomics' results directly."""
        gone = set(unread)
        return self if not gone else _with_extents(_forget(self.kernel, gone), _left(self.records, gone), self.apart)


def make_ordered_kernel(kernel: Kernel, serial: bool = False) -> OrderedKernel | None:
    """Return a kernel whose order of updates is known, or None if no parallel loop depends on this order.

    Args:
        kernel: A kernel of stage source.
        serial: True if loops may only be made serial.

    Raises:
        NotDifferentiable: A loop that must be serial draws random numbers.
        Unsupported: The kernel cannot be split into tasks.
    """
    kernel = number_draws(split_tasks(kernel))
    made = _OrderingPass(kernel, serial)
    if not made.run():
        return None
    params = kernel.params + tuple(made.params)
    return _with_extents(replace(kernel, params=params, tasks=tuple(made.tasks)), made.records, made.apart)


class _OrderingPass:
    """Rewrite the tasks of one kernel so that the order of their atomic updates is known."""

    def __init__(self, kernel: Kernel, serial: bool) -> None:
        self.kernel = kernel
        self.serial = serial
        self.activity: Activity = find_activity(kernel)
        self.records: dict[str, int] = {}
        self.apart: dict[str, str] = {}
        self.tasks: list[Task] = []
        self.params: list[Param] = []
        self.next_id = next_id(kernel)

    def run(self) -> bool:
        """Build the tasks of the ordered kernel in `tasks`, and return True if they differ from the kernel's tasks."""
        for t, task in enumerate(self.kernel.tasks):
            names = {array: f"{APART}{len(self.apart) + k}" for k, array in enumerate(self._extremes(t))}
            self.apart |= {own: array for array, own in names.items()}
            self.tasks += (self._copy(array, own, task.loc) for array, own in names.items())
            self.tasks.append(
                self._task(t, replace(task, body=redirect_to_copies(task.body, names)) if names else task)
            )
            self.tasks += (self._copy(own, array, task.loc) for array, own in names.items())
        return len(self.tasks) != len(self.kernel.tasks) or any(map(is_not, self.tasks, self.kernel.tasks))

    # -- extremes -----------------------------------------------------------------------------------------------

    def _extremes(self, t: int) -> list[str]:
        """Return the arrays that task `t` updates by min only, or by max only, and that a later task overwrites."""
        types, found = self.kernel.array_types(), []
        for array in dict.fromkeys(s.array for s in self._atomics(t) if s.op in ("min", "max")):
            ways = {s.op if isinstance(s, n.Atomic) else "" for s in self._accesses(t) if s.array == array}
            carries = array in self.activity.arrays and types[array].grad
            if carries and len(ways) == 1 and self._is_overwritten(array, t):
                found.append(array)
        return found

    def _accesses(self, t: int) -> list[Access]:
        """Return the loads, stores and atomics of task t."""
        return [s for s in walk_task(self.kernel.tasks[t]) if isinstance(s, ACCESSES)]

    def _atomics(self, t: int) -> list[n.Atomic]:
        """Return the atomic updates of task `t`."""
        return [s for s in self._accesses(t) if isinstance(s, n.Atomic)]

    def _is_overwritten(self, array: str, t: int) -> bool:
        """Return True if a later task stores to the array or updates it."""
        later = (s for p in range(t + 1, len(self.kernel.tasks)) for s in self._accesses(p))
        return any(not isinstance(s, n.Load) and s.array == array for s in later)

    def _copy(self, source: str, target: str, loc: int) -> Task:
        """Return a task that copies an array to a new one of its shape, and add the new array's parameter."""
        # One of the two is an array of the kernel, and the other one is a key of `apart`.
        array = source if source not in self.apart else target
        kind = self.kernel.array_types()[array]
        if source == array:
            self.params.append(Param(target, kind))
        b = Builder(self.next_id)
        b.loc = loc
        zeros = tuple(b.const(0, i64) for _ in range(kind.ndim))
        ends = tuple(b.shape(array, axis, i64) for axis in range(kind.ndim))
        bounds, indices = b.take(), tuple(b.fresh(i64) for _ in range(kind.ndim))
        b.store(target, indices, b.load(source, indices, kind.dtype))
        self.next_id = b.next_id
        return Task(b.take(), indices, bounds, zeros, ends, loc=loc)

    # -- one task -----------------------------------------------------------------------------------------------

    def _task(self, t: int, task: Task) -> Task:
        """Return the task as it is, as a serial task, or with results of its atomics stored to record arrays."""
        if not task.is_parallel or single_iteration(task):
            return task
        own = own_arrays(task)
        shared = [s for s in walk(task.body) if isinstance(s, n.Atomic) and s.array not in own]
        used = used_values(walk(task.body))
        recorded = self._recorded(t, task, used) if shared else []
        unclear = next((s for s in shared if s not in recorded and self._decides(s, used)), None)
        if unclear is not None:
            return serialize(self.kernel, task, unclear, "a tape runs")
        wanted = [s for s in recorded if s.array not in own]
        return self._record(task, wanted) if wanted else task

    def _decides(self, atomic: n.Atomic, used: set[Value]) -> bool:
        """Return True if the iteration order may change the value that an atomic stores, or its result, if used."""
        if atomic.result in used or self.serial and atomic.op in LAST:
            return True
        if atomic.array not in self.activity.arrays:
            return False
        return atomic.op in (*LAST, "mul")

    # -- records ------------------------------------------------------------------------------------------------

    def _recorded(self, t: int, task: Task, used: set[Value]) -> list[n.Atomic]:
        """Return the atomics of a task whose results are to be stored to record arrays, which fixes their order.

        An iteration executes each of them at most once, and its result carries no gradient.
        """
        if self.serial or not self._is_countable(t):
            return []
        active = self.activity
        return [
            s
            for s in _outside_loops(task.body)
            if s.result in used and s.result not in active.values and (s.op == "add" or s.array not in active.arrays)
        ]

    def _is_countable(self, t: int) -> bool:
        """Return True if the number of iterations of task `t` can be computed before the launch."""
        written = {s.array for p in range(t + 1) for s in self._accesses(p) if not isinstance(s, n.Load)}
        return not any(isinstance(s, n.Load) and s.array in written for s in walk(self.kernel.tasks[t].bounds))

    def _record(self, task: Task, atomics: list[n.Atomic]) -> Task:
        """Return the task with results of the given atomics stored to record arrays, from which readers load them."""
        b = Builder(self.next_id)
        kept: dict[Value, tuple[str, Value]] = {}
        for atomic in atomics:
            name = f"{RECORD}{len(self.records)}"
            self.records[name] = len(self.tasks)
            self.params.append(Param(name, ArrayType(atomic.value.type, len(task.indices))))
            kept[atomic.result] = name, b.fresh(atomic.value.type)
        begin = _again(task, task.begin, b, f"record{len(self.tasks)}.")
        head = b.take()

        def keep(block: Block) -> Block:
            out: list[Stmt] = []
            for stmt in block:
                out.append(map_blocks(stmt, keep))
                if isinstance(stmt, n.Atomic) and stmt.result in kept:
                    name, value = kept[stmt.result]
                    b.loc = stmt.loc
                    at = tuple(b.op("sub", i, first) for i, first in zip(task.indices, begin))
                    b.store(name, at, stmt.result)
                    b.emit(n.Load(value, name, at, loc=stmt.loc))
                    out += b.take()
            return tuple(out)

        body = head + keep(rename_block(task.body, {old: value for old, (_, value) in kept.items()}))
        self.next_id = b.next_id
        return replace(task, body=body)


def _outside_loops(block: Block) -> Iterator[n.Atomic]:
    """Yield the atomics of a block that are not inside a serial loop."""
    for stmt in block:
        if isinstance(stmt, n.Atomic):
            yield stmt
        elif not isinstance(stmt, LOOPS):
            for _, inner in _inner(stmt):
                yield from _outside_loops(inner)


def _inner(stmt: Stmt) -> list[tuple[str, Block]]:
    """Return each nested block of a statement, with the name of the attribute that holds the block."""
    return [(name, getattr(stmt, name)) for name, role in n.ROLES[type(stmt)] if role == "block"]


def _again(task: Task, values: tuple[Value, ...], b: Builder, prefix: str) -> tuple[Value, ...]:
    """Emit a copy of the statements of a task's bounds, and return the copies of `values`, which they compute.

    The names of locals in the copy begin with `prefix`.
    """
    copier = Copier(b.next_id, {}, {}, prefix)
    for stmt in copier.bounds(task):
        b.emit(stmt)
    b.next_id = copier.next_id
    return copier.renamed(values)


# ---- what the runtime is told -------------------------------------------------------------------------------------


def _with_extents(kernel: Kernel, records: dict[str, int], apart: dict[str, str]) -> OrderedKernel:
    """Return the ordered kernel with a second kernel that computes the extents of the record arrays."""
    if not records:
        return OrderedKernel(kernel, {}, apart)
    b, row = Builder(next_id(kernel)), 0
    for k, task in enumerate(kernel.tasks[t] for t in records.values()):
        b.loc = task.loc
        ends = [b.cast(v, i64) for v in _again(task, (*task.end, *task.begin), b, f"extents{k}.")]
        for end, begin in zip(ends, ends[len(task.indices) :]):
            extent = b.op("max", b.op("sub", end, begin), b.const(0, i64))
            b.store(EXTENTS, (b.const(row, i64),), extent)
            row += 1
    body = b.take()
    used = {s.array for s in walk(body) if isinstance(s, (n.Load, n.Shape))}
    params = tuple(p for p in kernel.params if not isinstance(p.type, ArrayType) or p.name in used)
    params += (Param(EXTENTS, ArrayType(i64, 1)),)
    extents = replace(kernel, name=f"{kernel.name}.extents", params=params, temps=(), tasks=(Task(body),))
    return OrderedKernel(kernel, records, apart, extents)


def _left(records: dict[str, int], gone: set[str]) -> dict[str, int]:
    """Return the record arrays, those that store results of atomics, whose names are not in `gone`."""
    return {name: t for name, t in records.items() if name not in gone}


def _forget(kernel: Kernel, gone: set[str]) -> Kernel:
    """Return the kernel without the record arrays in `gone`. Readers use the results of the atomics directly."""
    # The store to a record and the load from it have the same index values, which no other record has.
    source = {s.indices: s for s in walk_kernel(kernel) if isinstance(s, n.Store) and s.array in gone}
    again = {
        s.result: source[s.indices].value for s in walk_kernel(kernel) if isinstance(s, n.Load) and s.array in gone
    }

    def visit(block: Block) -> Block:
        left = (s for s in block if not (isinstance(s, (n.Load, n.Store)) and s.array in gone))
        return tuple(map_blocks(s, visit) for s in left)

    tasks = tuple(replace(t, body=rename_block(visit(t.body), again)) for t in kernel.tasks)
    return replace(kernel, params=tuple(p for p in kernel.params if p.name not in gone), tasks=tasks)
