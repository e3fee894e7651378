"""This module finds integers that a loop changes by equal steps, so that the trip number determines them.

    set k, init                                  t = init + iteration * c
    while .. { t = get k; ..; set k, t + c }
    u = get k                                    u = init + trips * c

A gradient never saves such an integer. The one store to k may stand in the arm of a branch whose other arm ends the
loop. Then every trip but the last has run the store, and the formula still holds at the head of each trip. After such a
loop the value of k is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..ir import nodes as n
from ..ir.roles import SCALAR_ASSIGNMENTS
from ..ir.statement import Block, Stmt, Value
from ..ir.walk import walk
from .structure import BlockPath, Structure, inner_blocks


@dataclass(frozen=True)
class InductionVariable:
    """Represent an integer that a loop changes by equal steps: init + sign * step * (number of trips before).

    Attributes:
        loop: The body of the loop that changes the integer.
        init: The value at the head of the first trip; None if it is 0.
        step: The size of a step, from outside the loop or constant.
        sign: 1 if a step is added, -1 if a step is subtracted.
        times: The trip count of the loop for a value after the loop; None for a value at the head of a trip, which
            depends on the number of that trip.
    """

    loop: BlockPath
    init: Value | None
    step: Value
    sign: int
    times: Value | None = None

    def inputs(self, structure: Structure) -> tuple[Value, ...]:
        """Return the values from which the induction variable is computed."""
        holder = structure.holder(self.loop)
        begin = (holder.begin,) if self.times is None and isinstance(holder, n.For) and not holder.stop else ()
        found = (self.init, self.step, self.times, *begin)
        return tuple(v for v in found if v is not None)


def find_counters(structure: Structure) -> dict[Value, InductionVariable]:
    """Return the induction variables of a task, each under the result of the `get` that reads it.

    The `get` stands at the head of a loop body or after the loop.
    """
    found: dict[Value, InductionVariable] = {}
    for path in structure.blocks:
        if not path or path[-1][1] != "body":
            continue
        loop = structure.holder(path)
        if isinstance(loop, n.While) or isinstance(loop, n.For) and not loop.descending:
            _enter(structure, path, loop, found)
    return found


def _enter(structure: Structure, path: BlockPath, loop: n.For | n.While, found: dict[Value, InductionVariable]) -> None:
    """Add to `found` the induction variables of one loop."""
    heads = [s for s in structure.blocks[path] if isinstance(s, n.Get) and s.result.type.is_int]
    sets = _sets(path, structure.blocks[path]) if heads else []
    if isinstance(loop, n.While):
        sets += [(s, path, -1) for s in walk(loop.condition) if isinstance(s, n.Set)]
    ends = all(_is_true(structure, s.value) for s, _, _ in sets if s.var == loop.stop)
    # A flag that one branch sets and another one clears does not prove that the loop ends.
    stop = loop.stop if ends else None
    for head in heads:
        own = [(s, at) for s, at, _ in sets if s.var == head.var]
        # With two stores in the loop, the steps of different iterations might differ.
        if len(own) != 1 or head.var == loop.stop:
            continue
        (store, at), known = own[0], _entry(structure, path, head.var)
        step = _step(structure, path, head.result, store.value)
        if step is None or known is None or not _runs_before_each_next(structure, path, at, stop):
            continue
        init = known if isinstance(known, Value) else None
        found[head.result] = InductionVariable(path, init, *step)
        if at == path and loop.trips is not None:
            after = _first_get_after(structure, path, head.var)
            if after is not None:
                found[after] = InductionVariable(path, init, *step, times=loop.trips)


def _sets(path: BlockPath, block: Block) -> list[tuple[n.Set, BlockPath, int]]:
    """Return all `set` statements inside a block, each with its block and position."""
    found = []
    for position, stmt in enumerate(block):
        if isinstance(stmt, n.Set):
            found.append((stmt, path, position))
        for name, inner in inner_blocks(stmt):
            found += _sets((*path, (position, name)), inner)
    return found


def _step(structure: Structure, path: BlockPath, head: Value, value: Value) -> tuple[Value, int] | None:
    """Return (c, sign) if `value` is head + c or head - c with a c that the loop does not change, else None."""
    made = structure.made.get(value)
    if not isinstance(made, n.Op) or made.op not in ("add", "sub") or head not in made.args:
        return None
    a, b = made.args
    step = b if a == head else a
    if made.op == "sub" and a != head or step == head:
        return None
    home = structure.homes[step]
    outside = home == path[: len(home)] and len(home) < len(path)
    return (step, -1 if made.op == "sub" else 1) if outside or _is_constant(structure, step) else None


def _is_constant(structure: Structure, value: Value) -> bool:
    """Return True if the value is a constant."""
    return isinstance(structure.made.get(value), n.Const)


def _runs_before_each_next(structure: Structure, path: BlockPath, at: BlockPath, stop: str | None) -> bool:
    """Return True if each trip after which the loop goes on to another trip executes the block `at`.

    Args:
        structure: The structure of the task.
        path: The body of the loop.
        at: A block inside the body.
        stop: The flag of the loop if the loop only ever sets it; None if there is no such flag.
    """
    for length in range(len(path), len(at)):
        position, name = at[length]
        branch = structure.blocks[at[:length]][position]
        if not isinstance(branch, n.If) or stop is None:
            return False
        other = branch.orelse if name == "then" else branch.then
        if not any(isinstance(s, n.Set) and s.var == stop for s in other):
            return False
    return True


def _is_true(structure: Structure, value: Value) -> bool:
    """Return True if the value is the constant True."""
    made = structure.made.get(value)
    return isinstance(made, n.Const) and bool(made.value)


def _entry(structure: Structure, path: BlockPath, var: str) -> Value | bool | None:
    """Return the value that a variable has before a loop; True stands for its initial zero, None for unknown."""
    while path:
        path, (position, _) = path[:-1], path[-1]
        for stmt in reversed(structure.blocks[path][:position]):
            if isinstance(stmt, n.Local) and stmt.var == var:
                return True
            if isinstance(stmt, n.Set) and stmt.var == var:
                return stmt.value
            if isinstance(stmt, n.Get) and stmt.var == var:
                return stmt.result
            if _writes(stmt, var):
                return None
        # An earlier iteration of an outer loop may have set the variable.
        if path and not isinstance(structure.holder(path), n.If):
            return None
    return None


def _writes(stmt: Stmt, var: str) -> bool:
    """Return True if a nested block of the statement sets the variable."""
    return any(isinstance(s, n.Set) and s.var == var for _, b in inner_blocks(stmt) for s in walk(b))


def _first_get_after(structure: Structure, path: BlockPath, var: str) -> Value | None:
    """Return the result of the first read of a variable after a loop; None if a write comes before any read.

    The read stands in the block that holds the loop.
    """
    rest: Iterator[Stmt] = iter(structure.blocks[path[:-1]][path[-1][0] + 1 :])
    for stmt in rest:
        if isinstance(stmt, n.Get) and stmt.var == var:
            return stmt.result
        if isinstance(stmt, SCALAR_ASSIGNMENTS) and stmt.var == var or _writes(stmt, var):
            return None
    return None
