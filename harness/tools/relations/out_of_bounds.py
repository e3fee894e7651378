"""Check that a launch with an index moved out of bounds raises OutOfBounds and writes no memory outside arrays.

    load x[i]      →    load x[i + shape(x, 0)]    or x[-1 - i], x[i + 2^20], x[shape(x, 0)], x[i - 1], x[i + 1]
    within i, n    →    within i + n, n            a position within a local vector, or an index of a view

The reference decides whether the changed kernel, or its gradient, reaches the index at all. Backends run as they do for
users, on arrays between walls (harness/testing/guard_pages.py). Values are not compared, because a launch that ends
with an error leaves only what was written so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ....backends.launching.launcher import Launcher
from ....compiler.analysis.index_checks import indices_of
from ....compiler.driver import FORWARD, Lowering, run_passes
from ....compiler.errors import NotDifferentiable, OutOfBounds, Unsupported
from ....compiler.ir import nodes as n
from ....compiler.ir.build import Builder
from ....compiler.ir.kernels import Kernel
from ....compiler.ir.statement import Block, Stmt, Value
from ....compiler.ir.types import ArrayType, i32, i64
from ....compiler.ir.walk import map_blocks, next_id, walk_kernel
from ....reference.backend import ReferenceBackend
from ...testing.compare import Verdict
from ...testing.executors import CHECKED
from ...testing.guard_pages import GuardedArrays
from ...testing.outcome import Arrays, OkOutcome, Outcome, TrapOutcome, attempt
from ..fuzz.lowerings import Lowerings, before_arrays
from ..fuzz.reference_run import FUEL
from ..fuzz.result import JudgedComparison
from . import STRAY
from .chain import DRAWS, LaunchChain, RelationExecutor
from .judging import RelationQuestion

Access = n.Load | n.Store | n.Atomic
IndexedStmt = Access | n.Within
IndexPlace = tuple[IndexedStmt, int]
"""A statement with an index, and the number of the index among those of the statement."""
Way = Callable[[Builder, IndexedStmt, int], Value]
"""A function that emits a changed index of a statement."""
FAR = 1 << 20
KINDS = ("local", "view", "local", "view", "array")
"""Kinds of indices to choose from, see `index_places`; a kernel has many more accesses of arrays than positions."""
TRIES = 3
"""Most indices that are moved, one after the other, until one leads outside."""
EXPECTED = OutOfBounds.__name__


def check(chain: LaunchChain, on: RelationExecutor, draw: int, forward: bool) -> Iterator[JudgedComparison]:
    """Yield the verdicts on a kernel in which one index was moved out of bounds.

    Args:
        chain: A chain of the kernel.
        on: The executor; the reference itself is not judged.
        draw: Number that selects the index and the way in which it is changed.
        forward: True to check the forward kernel too.
    """
    if on.name == "reference" or not has_indices(chain.kernel):
        return
    kernel, expected = _reached(chain, draw)
    made = Lowerings(kernel)
    if forward:
        question = RelationQuestion("forward", STRAY, on.name)
        yield from _compare(question, expected, made.optimized, chain.initial, chain, on)
    if chain.seeds:
        try:
            lean = made.lean
        except (NotDifferentiable, Unsupported):
            return
        memory = {**chain.initial, **before_arrays(lean, chain.initial), **chain.seeds}
        expected = _launch(lean, GuardedArrays.of(memory), chain, _reference())
        yield from _compare(RelationQuestion("reverse", STRAY, on.name), expected, lean, memory, chain, on)


def _reached(chain: LaunchChain, draw: int) -> tuple[Kernel, Outcome]:
    """Return a kernel with an index moved out of bounds, and how a forward launch of it ends on the reference.

    Half of the indices of drawn programs are never reached, so this function moves another one, at most TRIES in all,
    until a launch ends with an index outside.
    """
    for number in range(draw, draw + TRIES):
        kernel = strayed(chain.kernel, number)
        expected = _launch(_unproved(kernel), GuardedArrays.of(chain.initial), chain, _reference())
        if isinstance(expected, TrapOutcome) and expected.kind == EXPECTED:
            break
    return kernel, expected


def _reference() -> RelationExecutor:
    return RelationExecutor("reference", ReferenceBackend(fuel=FUEL), CHECKED)


def _unproved(kernel: Kernel) -> Lowering:
    """Return the forward kernel with all index checks kept, also those that the compiler proved unnecessary."""
    return Lowering(run_passes(kernel, [(name, apply) for name, apply in FORWARD if name != "drop_checks"]))


def _compare(
    question: RelationQuestion,
    expected: Outcome,
    lowered: Lowering,
    memory: Arrays,
    chain: LaunchChain,
    on: RelationExecutor,
) -> Iterator[JudgedComparison]:
    """Launch a kernel with an index moved out of bounds on an executor, and yield the verdict on its error.

    The executor must raise OutOfBounds if the reference does, and must not trap if the reference runs to its end. There
    is no verdict if the reference ends otherwise.

    Args:
        question: What is judged.
        expected: How the launch ends on the reference.
        lowered: The kernel as the executor runs it.
        memory: The arrays by name.
        chain: The chain that gives the scalar arguments.
        on: The executor that is checked.
    """
    if (
        isinstance(expected, TrapOutcome)
        and expected.kind != EXPECTED
        or not isinstance(expected, OkOutcome | TrapOutcome)
    ):
        return
    given = GuardedArrays.of(memory)
    found = _launch(lowered, given, chain, on)
    yield question.answer(*_verdict(expected, found, given.is_whole))


def _verdict(expected: Outcome, found: Outcome, is_whole: bool) -> tuple[Verdict, str]:
    """Return the verdict on the outcome of an executor's launch, and the reason for the verdict.

    Args:
        expected: Outcome of the reference.
        found: Outcome of the executor.
        is_whole: True if the executor left the walls around the arrays untouched.
    """
    if not is_whole:
        return "disagree", "memory in front of an array was written"
    if isinstance(expected, TrapOutcome) and not (isinstance(found, TrapOutcome) and found.kind == EXPECTED):
        end = str(found) if isinstance(found, TrapOutcome) else "its end"
        return "disagree", f"came to {end}, the reference ended with {expected}"
    if isinstance(expected, OkOutcome) and isinstance(found, TrapOutcome):
        return "disagree", f"ended with {found}, the reference ran to its end"
    return "ok", ""


def _launch(lowered: Lowering, memory: GuardedArrays, chain: LaunchChain, on: RelationExecutor) -> Outcome:
    def run() -> Arrays:
        Launcher(lowered, on.backend, on.options).run(memory.arrays, chain.scalars, DRAWS)
        return memory.arrays

    return attempt(run)


# ---- kernels with an index astray ---------------------------------------------------------------------------


def strayed(kernel: Kernel, draw: int) -> Kernel:
    """Return the kernel with one index moved out of bounds; it must have an index.

    Args:
        kernel: The kernel.
        draw: Number that selects a kind of index, an index of this kind, and a way to change it.
    """
    found = index_places(kernel)
    kinds = [found[kind] for kind in KINDS if found[kind]]
    draw, kind = divmod(draw, len(kinds))
    draw, number = divmod(draw, len(kinds[kind]))
    stmt, axis = kinds[kind][number]
    ways = WAYS if _may_stay_inside(kernel, stmt) else WAYS[:SURE]
    b = Builder(next_id(kernel))
    b.loc = stmt.loc
    index = ways[draw % len(ways)](b, stmt, axis)
    if isinstance(stmt, n.Within):
        return _replaced(kernel, stmt, (*b.take(), replace(stmt, index=index)))
    changed = replace(stmt, indices=(*stmt.indices[:axis], index, *stmt.indices[axis + 1 :]))
    return _replaced(kernel, stmt, (*b.take(), changed))


def index_places(kernel: Kernel) -> dict[str, list[IndexPlace]]:
    """Return the indices that can be moved, by what they are: "array", "local" or "view".

    An index of an "array" is one axis of an access. A position within a local vector or matrix has an extent that the
    text of the kernel fixes; the extent of a view is an argument or is computed.
    """
    types = kernel.array_types()
    fixed = {stmt.result for stmt in walk_kernel(kernel) if isinstance(stmt, n.Const)}
    found: dict[str, list[IndexPlace]] = {"array": [], "local": [], "view": []}
    for stmt in walk_kernel(kernel):
        if isinstance(stmt, n.Within):
            kind = "local" if stmt.extent in fixed else "view"
        elif isinstance(stmt, Access) and isinstance(types.get(stmt.array), ArrayType):
            kind = "array"
        else:
            continue
        found[kind] += [(stmt, axis) for axis, index in enumerate(indices_of(stmt)) if index.type in (i32, i64)]
    return found


def has_indices(kernel: Kernel) -> bool:
    """Return True if a kernel has an index that can be moved."""
    return any(index_places(kernel).values())


def has_positions(kernel: Kernel) -> bool:
    """Return True if a kernel has a position within a local vector, or an index of a view."""
    places = index_places(kernel)
    return bool(places["local"] or places["view"])


def _may_stay_inside(kernel: Kernel, stmt: IndexedStmt) -> bool:
    """Return True if a small shift of an index does no harm where it stays inside.

    This holds for loads of arrays that nothing writes.
    """
    written = {s.array for s in walk_kernel(kernel) if isinstance(s, n.Store | n.Atomic)}
    return isinstance(stmt, n.Load) and stmt.array not in written


def _replaced(kernel: Kernel, old: Stmt, new: Block) -> Kernel:
    """Return the kernel with the first occurrence of a statement replaced."""
    left = [old]

    def visit(block: Block) -> Block:
        out: list[Stmt] = []
        for stmt in block:
            if left and stmt is old:
                left.clear()
                out += new
            else:
                out.append(map_blocks(stmt, visit))
        return tuple(out)

    tasks = tuple(replace(task, bounds=visit(task.bounds), body=visit(task.body)) for task in kernel.tasks)
    return replace(kernel, tasks=tasks)


def _extent(b: Builder, stmt: IndexedStmt, axis: int) -> Value:
    """Emit the extent that one index of a statement is compared with, in the type of the index, and return it."""
    dtype = indices_of(stmt)[axis].type
    return b.cast(stmt.extent, dtype) if isinstance(stmt, n.Within) else b.shape(stmt.array, axis, dtype)


def _beyond(b: Builder, stmt: IndexedStmt, axis: int) -> Value:
    """Emit index + extent for one axis of an access, and return the value."""
    return b.op("add", indices_of(stmt)[axis], _extent(b, stmt, axis))


def _moved(by: int) -> Way:
    """Return a function that emits index + `by` for one axis of an access."""

    def way(b: Builder, stmt: IndexedStmt, axis: int) -> Value:
        index = indices_of(stmt)[axis]
        return b.op("add", index, b.const(by, index.type))

    return way


def _mirrored(b: Builder, stmt: IndexedStmt, axis: int) -> Value:
    """Emit -1 - index for one axis of an access, and return the value."""
    index = indices_of(stmt)[axis]
    return b.op("sub", b.const(-1, index.type), index)


SURE = 4
"""Number of the first WAYS, which lead outside from every index inside, so no two iterations can meet in an element."""

WAYS: tuple[Way, ...] = (_beyond, _mirrored, _moved(FAR), _extent, _moved(-1), _moved(1))
"""Functions that change an index.

The extent itself is the nearest index outside. Behind the end of a view lies mostly more of its array, so that no other
check notices a wrong extent there.
"""
