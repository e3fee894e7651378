"""This module makes the counting kernel, which finds the depth of each adstack and the number of rows.

    adstack_push s, %3      →      set c, c + 1; set m, max(m, c)
    adstack_pop s           →      set c, c - 1
    end of the body         →      atomic max $depths[k], m;  atomic add $totals[k], m
                                   atomic add $rows[3·task + slab], m > 0

A counting kernel is the slice of a grad kernel that decides control flow. A pass makes it, and it is an ordinary kernel
that every backend runs. Where no push can follow a pop, pops are left out, so that the reverse sweep, which only pops,
disappears. Then the top of an adstack, as far as pushes depend on it, is what was pushed last, which a local keeps. Of
adstacks that always have one depth, only the first is counted. If control flow reads an array that the task itself
writes, these stores stay and the launcher lets them write to copies.
"""

from __future__ import annotations

from dataclasses import replace

from ..analysis.equal_depths import leaders
from ..errors import Diagnostic, Unsupported
from ..ir import nodes as n
from ..ir.build import Builder
from ..ir.kernels import Kernel, Param, Task
from ..ir.roles import ARRAY_WRITES, LOOPS, STACK_READS
from ..ir.statement import Block, Stmt, Value
from ..ir.types import ArrayType, i64
from ..ir.walk import NESTED, blocks, map_blocks, next_id, used_values, walk, walk_kernel
from ..passes.dead_code import remove_dead_code
from .count_limit import limit_counting
from .uniform import collapse_uniform

DEPTHS, ROWS, TOTALS = "$depths", "$rows", "$totals"
OUTPUTS = (DEPTHS, ROWS, TOTALS)
"""Arrays that a counting kernel fills.

DEPTHS holds for each adstack its depth in the deepest iteration. ROWS holds for each task and slab the number of
iterations that need a row. TOTALS holds for each adstack the sum of its depths over all iterations.
"""
SLABS = 3
"""Number of slabs: reals, integers and flags."""


def stacks(kernel: Kernel) -> list[n.StackAlloca]:
    """Return the declarations of the adstacks of a kernel, in order of text."""
    return [s for s in walk_kernel(kernel) if isinstance(s, n.StackAlloca)]


def stack_names(kernel: Kernel) -> list[str]:
    """Return the names of all adstacks in textual order. The k-th adstack has element k of the array `$depths`."""
    return [s.stack for s in stacks(kernel)]


def slab_of(stack: n.StackAlloca) -> int:
    """Return the number of the slab of an adstack: 0 for reals, 1 for integers, 2 for flags."""
    return 0 if stack.dtype.is_real else 2 if stack.dtype.is_bool else 1


def count_stacks(kernel: Kernel, sliced: Kernel | None = None) -> Kernel | None:
    """Return the counting kernel of a kernel, or None if no adstack of the kernel needs counting.

    Args:
        kernel: A kernel of stage adjoint.
        sliced: The result of `count_slice` for the kernel, if it is known.

    Raises:
        Unsupported: A depth depends on what an adstack holds, and an adstack has no capacity of its own.
    """
    sliced = sliced if sliced is not None else count_slice(kernel)
    return None if sliced is None else collapse_uniform(sliced, (ROWS, TOTALS), OUTPUTS)


def count_within(kernel: Kernel, counting: Kernel) -> Kernel:
    """Return the counting kernel with a parameter `$room` that limits the depths that an iteration may count."""
    return limit_counting(counting, _slots(kernel), DEPTHS)


def _slots(kernel: Kernel) -> dict[str, tuple[int, int]]:
    """Return, for each counted adstack, its number and the total slot size of all adstacks of equal depth."""
    numbers = {name: k for k, name in enumerate(stack_names(kernel))}
    found: dict[str, tuple[int, int]] = {}
    for task in kernel.tasks:
        first = leaders(task.body)
        for stack in walk(task.body):
            if isinstance(stack, n.StackAlloca):
                leader = first[stack.stack]
                size = stack.dtype.size * (2 if stack.adjoint else 1)
                found[leader] = numbers[leader], size + found.get(leader, (0, 0))[1]
    return found


def count_slice(kernel: Kernel) -> Kernel | None:
    """Return the counting kernel before equal iterations are merged to one; None if the kernel has no adstacks.

    Raises:
        Unsupported: A depth depends on what an adstack holds, and an adstack has no capacity of its own.
    """
    declared = stacks(kernel)
    if not declared:
        return None
    counter = _CountingRewriter(kernel, declared)
    tasks = tuple(counter.task(k, t) for k, t in enumerate(kernel.tasks))
    outputs = tuple(Param(name, ArrayType(i64, 1)) for name in OUTPUTS)
    counting = replace(kernel, name=f"{kernel.name}.count", params=kernel.params + outputs, tasks=tasks)
    sliced = _slice(counting)
    left = [s for s in walk_kernel(sliced) if isinstance(s, STACK_READS)]
    if left and any(s.capacity is None for s in declared):
        raise Unsupported(
            [
                Diagnostic(
                    f"the depth of an adstack depends on the content of adstack '{s.stack}'",
                    "give the adstacks a capacity",
                    kernel.span(s.loc),
                )
                for s in left
            ]
        )
    return None if left else sliced


def counters(kernel: Kernel) -> dict[str, tuple[str, str]]:
    """Return, for each local that counts the height or depth of an adstack, its role and the adstack.

    The role is "count" for the present height and "depth" for the greatest height.
    """
    return {f"{role}.{name}": (role, name) for name in stack_names(kernel) for role in ("count", "depth")}


def shadowed_arrays(counting: Kernel, params: set[str]) -> frozenset[str]:
    """Return the array parameters to which the counting kernel stores; the launcher passes copies of these arrays."""
    written = {s.array for s in walk_kernel(counting) if isinstance(s, ARRAY_WRITES)}
    return frozenset(written & params)


class _CountingRewriter:
    """This class replaces the adstack statements of tasks by statements that count heights and depths."""

    def __init__(self, kernel: Kernel, declared: list[n.StackAlloca]) -> None:
        self.next_id = next_id(kernel)
        self.numbers = {s.stack: k for k, s in enumerate(declared)}
        self.types = {s.stack: s.dtype for s in declared}
        self.slabs = {s.stack: slab_of(s) for s in declared}
        self.leaders: dict[str, str] = {}
        self.refilled: set[str] = set()

    def task(self, number: int, task: Task) -> Task:
        """Return the task with counters in place of adstacks; each iteration ends with a report of its counts."""
        own = [s.stack for s in walk(task.body) if isinstance(s, n.StackAlloca)]
        if not own:
            return task
        exact = _pushes_after_pops(task.body)
        self.refilled = {name for name in own if exact and _is_refilled(task.body, name, False)[0]}
        b = Builder(self.next_id)
        self.leaders = leaders(task.body)
        for name in own:
            if self.leaders[name] == name:
                b.local(f"count.{name}", i64)
                b.local(f"depth.{name}", i64)
            b.local(f"top.{name}", self.types[name])
        self.next_id = b.next_id
        body = b.take() + self._block(task.body, exact)
        return replace(task, body=body + self._results(number, own))

    def _results(self, number: int, own: list[str]) -> Block:
        """Return the statements at the end of an iteration that add its depths and rows to the output arrays."""
        b = Builder(self.next_id)
        zero = b.const(0, i64)
        needs: dict[int, Value] = {}
        for name in own:
            depth = b.get(f"depth.{self.leaders[name]}", i64)
            slot = b.const(self.numbers[name], i64)
            b.atomic("max", DEPTHS, (slot,), depth)
            b.atomic("add", TOTALS, (slot,), depth)
            used = b.op("cmp_gt", depth, zero)
            slab = self.slabs[name]
            needs[slab] = b.op("logical_or", needs[slab], used) if slab in needs else used
        for slab, used in needs.items():
            b.atomic("add", ROWS, (b.const(SLABS * number + slab, i64),), b.cast(used, i64))
        self.next_id = b.next_id
        return b.take()

    def _block(self, block: Block, exact: bool) -> Block:
        """Return a block in which counters take the place of adstacks.

        Pops count for those adstacks only to which pushes follow. The top of an adstack is what was pushed last, unless
        `exact` is true: then some push follows a pop, and could depend on what lies below.
        """
        out: list[Stmt] = []
        for stmt in block:
            if isinstance(stmt, n.StackPush):
                out += (*self._move(stmt.stack, 1), n.Set(f"top.{stmt.stack}", stmt.value, loc=stmt.loc))
            elif isinstance(stmt, n.StackTop) and not exact:
                out.append(n.Get(stmt.result, f"top.{stmt.stack}", loc=stmt.loc))
            elif isinstance(stmt, n.StackPop):
                out += self._move(stmt.stack, -1) if stmt.stack in self.refilled else ()
            elif isinstance(stmt, n.StackAlloca):
                out += self._reset(stmt.stack)
            elif not isinstance(stmt, n.StackAccumulate):
                out.append(map_blocks(stmt, lambda inner: self._block(inner, exact)))
        return tuple(out)

    def _move(self, stack: str, by: int) -> Block:
        """Return the statements that count a push or a pop, if the adstack is counted."""
        if self.leaders[stack] != stack:
            return ()
        b = Builder(self.next_id)
        count = b.op("add", b.get(f"count.{stack}", i64), b.const(by, i64))
        if by < 0:
            count = b.op("max", count, b.const(0, i64))
        b.set(f"count.{stack}", count)
        if by > 0:
            b.set(f"depth.{stack}", b.op("max", b.get(f"depth.{stack}", i64), count))
        self.next_id = b.next_id
        return b.take()

    def _reset(self, stack: str) -> Block:
        """Return the statements that set the height counter of an adstack to 0."""
        if self.leaders[stack] != stack:
            return ()
        b = Builder(self.next_id)
        b.set(f"count.{stack}", b.const(0, i64))
        self.next_id = b.next_id
        return b.take()


def _pushes_after_pops(block: Block, popped: bool = False) -> bool:
    """Return True if one iteration may push to an adstack after a pop or a repeated declaration of any adstack."""
    for stmt in block:
        nest = type(stmt) in NESTED
        inside = set(map(type, walk((stmt,)))) if nest else {type(stmt)}
        drops = n.StackPop in inside or nest and n.StackAlloca in inside
        if n.StackPush in inside:
            loops = isinstance(stmt, LOOPS)
            if popped or loops and drops or any(_pushes_after_pops(inner) for inner in blocks(stmt)):
                return True
        popped = popped or drops
    return False


def _is_refilled(block: Block, stack: str, popped: bool) -> tuple[bool, bool]:
    """Return whether a push to an adstack may follow a pop of it, and whether its last change may be a pop.

    Args:
        block: The statements.
        stack: The adstack. Its declaration empties it, so that earlier pops count no more.
        popped: True if a pop may have happened before the block.
    """
    for stmt in block:
        if isinstance(stmt, n.StackPush) and stmt.stack == stack and popped:
            return True, True
        if isinstance(stmt, (n.StackPop, n.StackAlloca)) and stmt.stack == stack:
            popped = isinstance(stmt, n.StackPop)
        inner = blocks(stmt)
        for _ in range(2 if isinstance(stmt, LOOPS) else 1):
            after = popped
            for one in inner:
                refilled, left = _is_refilled(one, stack, popped)
                if refilled:
                    return True, True
                after = after or left
            popped = after
    return False, popped


def _slice(kernel: Kernel) -> Kernel:
    """Return the slice of the kernel on which its counters depend, without stores to arrays that it never loads."""
    kept = frozenset({*OUTPUTS} | {t.name for t in kernel.temps})
    written = {s.array for s in walk_kernel(kernel) if isinstance(s, ARRAY_WRITES)}
    while True:
        sliced = remove_dead_code(_without_stores(kernel, kept))
        left = list(walk_kernel(sliced))
        used = used_values(left)
        read = {s.array for s in left if isinstance(s, n.Load) or isinstance(s, n.Atomic) and s.result in used}
        # An array that the slice reads and the kernel writes must be written, which may make the slice read more.
        wanted = kept | (read & written)
        if wanted == kept:
            return sliced
        kept = wanted


def _without_stores(kernel: Kernel, kept: frozenset[str]) -> Kernel:
    """Return the kernel without stores to arrays outside `kept`. Atomics on these arrays become loads.

    The atomics come back if the slice turns out to read their array.
    """

    def visit(block: Block) -> Block:
        out: list[Stmt] = []
        for stmt in block:
            if isinstance(stmt, (n.Print, n.Assert)) or isinstance(stmt, n.Store) and stmt.array not in kept:
                continue
            if isinstance(stmt, n.Atomic) and stmt.array not in kept:
                out.append(n.Load(stmt.result, stmt.array, stmt.indices, loc=stmt.loc))
            else:
                out.append(map_blocks(stmt, visit))
        return tuple(out)

    return replace(kernel, tasks=tuple(replace(t, body=visit(t.body)) for t in kernel.tasks))
