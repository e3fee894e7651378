"""Integers that a loop counts in equal steps: known from the number of the iteration, so never saved.

    set k, init                                  t = init + iteration * c
    while .. { t = get k; ..; set k, t + c }
    u = get k                                    u = init + trips * c

The one store to k may sit in the arm of a branch whose other arm ends the loop: then every iteration but the last has
run it, and the head of an iteration still finds k so. After such a loop k is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..ir import nodes as n
from ..ir.nodes import Block, Value
from ..ir.walk import walk
from .structure import Path, Structure, inner_blocks


@dataclass(frozen=True)
class Counter:
    """init + sign * times * step. init None: 0. times: the trip count of the loop; None: the iteration of `loop`."""

    loop: Path
    init: Value | None
    step: Value
    sign: int
    times: Value | None = None

    def inputs(self, structure: Structure) -> tuple[Value, ...]:
        """The values that it is computed from."""
        holder = structure.holder(self.loop)
        begin = (holder.begin,) if self.times is None and isinstance(holder, n.For) and not holder.stop else ()
        found = (self.init, self.step, self.times, *begin)
        return tuple(v for v in found if v is not None)


def find_counters(structure: Structure) -> dict[Value, Counter]:
    """Results of `get`s that are counters: at the head of a loop body, or behind the loop."""
    found: dict[Value, Counter] = {}
    for path in structure.blocks:
        if not path or path[-1][1] != "body":
            continue
        loop = structure.holder(path)
        if isinstance(loop, n.While) or isinstance(loop, n.For) and not loop.descending:
            _enter(structure, path, loop, found)
    return found


def _enter(structure: Structure, path: Path, loop: n.For | n.While, found: dict[Value, Counter]) -> None:
    heads = [s for s in structure.blocks[path] if isinstance(s, n.Get) and s.result.type.is_int]
    sets = _sets(path, structure.blocks[path]) if heads else []
    if isinstance(loop, n.While):
        sets += [(s, path, -1) for s in walk(loop.condition) if isinstance(s, n.Set)]
    ends = all(_is_true(structure, s.value) for s, _, _ in sets if s.var == loop.stop)
    stop = loop.stop if ends else None  # else what one branch sets another may take back
    for head in heads:
        own = [(s, at) for s, at, _ in sets if s.var == head.var]
        if len(own) != 1 or head.var == loop.stop:
            continue
        (store, at), known = own[0], _entry(structure, path, head.var)
        step = _step(structure, path, head.result, store.value)
        if step is None or known is None or not _runs_before_each_next(structure, path, at, stop):
            continue
        init = known if isinstance(known, Value) else None
        found[head.result] = Counter(path, init, *step)
        if at == path and loop.trips is not None:
            after = _first_get_after(structure, path, head.var)
            if after is not None:
                found[after] = Counter(path, init, *step, times=loop.trips)


def _sets(path: Path, block: Block) -> list[tuple[n.Set, Path, int]]:
    """All sets below a block, each with its block and position."""
    found = []
    for position, stmt in enumerate(block):
        if isinstance(stmt, n.Set):
            found.append((stmt, path, position))
        for name, inner in inner_blocks(stmt):
            found += _sets((*path, (position, name)), inner)
    return found


def _step(structure: Structure, path: Path, head: Value, value: Value) -> tuple[Value, int] | None:
    """(c, sign) if value is head + c or head - c with c from outside the loop, or a constant."""
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
    return isinstance(structure.made.get(value), n.Const)


def _runs_before_each_next(structure: Structure, path: Path, at: Path, stop: str | None) -> bool:
    """Whether each iteration that another one follows executes block `at`: other arms on the way end the loop.

    stop: the flag of the loop if it is only ever set, None if the loop has none.
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
    made = structure.made.get(value)
    return isinstance(made, n.Const) and bool(made.value)


def _entry(structure: Structure, path: Path, var: str) -> Value | bool | None:
    """What the variable holds where the loop is entered: a value, True for the zero of its declaration, else None."""
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
        if path and not isinstance(structure.holder(path), n.If):
            return None
    return None


def _writes(stmt: n.Stmt, var: str) -> bool:
    return any(isinstance(s, n.Set) and s.var == var for _, b in inner_blocks(stmt) for s in walk(b))


def _first_get_after(structure: Structure, path: Path, var: str) -> Value | None:
    """The read of the variable behind the loop, in the block that holds the loop, before anything writes it."""
    rest: Iterator[n.Stmt] = iter(structure.blocks[path[:-1]][path[-1][0] + 1 :])
    for stmt in rest:
        if isinstance(stmt, n.Get) and stmt.var == var:
            return stmt.result
        if isinstance(stmt, (n.Set, n.Local)) and stmt.var == var or _writes(stmt, var):
            return None
    return None
