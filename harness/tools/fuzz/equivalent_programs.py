"""Make twins: programs with the meaning of another program, written differently.

    unrolled      for j in range(3): ...        for j in static(range(3)): ...
    recomputed    v = f(u); for ...: ... v ...  v = f(u); for ...: v = f(u); ... v ...

Both twins compute the same values to the last bit, and the same gradient up to rounding, in another way: a loop needs
adstacks where an unrolled loop has a value for each copy, and a value from before a loop is kept where the twin
computes it again. The third twin is the program's other rendering (`lowerings.kernel_of`), in which each vector is a
set of scalars.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ....compiler.ir.types import i32
from ..model import Program
from ..model import nodes as m
from ..model.walk import blocks, walk
from .edits import EditPath, parts_with_paths, replace_at

MOST_COPIES = 4
"""Largest number of trips of a loop that is unrolled; more would make the text long, but the twin no better."""


def unroll_loops(program: Program) -> Program | None:
    """Return the program with its innermost countable serial loops unrolled, or None if it has none.

    A loop is countable if the text alone gives its trip count. The index stays a typed number, so that constants are
    not folded differently from the loop.
    """
    body = program.kernel.body
    found = {path for path, _ in _serial_loops(body) if _counted(_at(body, path))}
    # Only the innermost loops are unrolled, so that no path changes on the way.
    for path in (p for p in found if not any(q != p and q[: len(p)] == p for q in found)):
        body = replace_at(body, path, _without_loop(_at(body, path)))
    return replace(program, kernel=replace(program.kernel, body=body)) if found else None


def _serial_loops(body: m.StmtBlock, path: EditPath = (), inside: bool = False) -> Iterator[tuple[EditPath, m.For]]:
    """Yield the `for` loops that are nested in another loop or a branch, each with its path in the program.

    Args:
        body: The block to search.
        path: Path of the block.
        inside: True if the block lies in a serial loop, a branch or a task.
    """
    for k, stmt in enumerate(body):
        serial = inside or isinstance(stmt, (m.If, m.While)) or isinstance(stmt, m.For) and stmt.serialize
        if isinstance(stmt, m.For) and inside:
            yield (*path, k), stmt
        for name in ("then", "orelse", "body"):
            inner = getattr(stmt, name, ())
            if inner in blocks(stmt):
                yield from _serial_loops(inner, (*path, k, name), serial or isinstance(stmt, m.For))


def _at(node: object, path: EditPath) -> m.For:
    for step in path:
        node = node[step] if isinstance(step, int) else getattr(node, step)  # type: ignore[index]
    assert isinstance(node, m.For)
    return node


def _counted(loop: m.For) -> bool:
    """Return True if the bounds of a loop are literals that give a small trip count greater than 0."""
    d = loop.domain
    if not isinstance(d, m.Range) or d.stride:
        return False
    ends = isinstance(d.end, m.Number) and (d.begin is None or isinstance(d.begin, m.Number))
    return ends and 0 < len(_numbers(loop)) <= MOST_COPIES


def _numbers(loop: m.For) -> range:
    d = loop.domain
    assert isinstance(d, m.Range) and isinstance(d.end, m.Number)
    begin = int(d.begin.value) if isinstance(d.begin, m.Number) else 0
    numbers = range(begin, int(d.end.value), d.step)
    return numbers[::-1] if d.reverse else numbers


def _without_loop(loop: m.For) -> m.For:
    numbers, (name,) = _numbers(loop), loop.indices
    body = _typed(loop.body, name)
    return m.For(loop.indices, m.Unrolled(numbers.start, numbers.stop, numbers.step), body)


def _typed(body: m.StmtBlock, name: str) -> m.StmtBlock:
    """Return a loop body in which each read of the index is cast to the type of the index."""
    found = [path for path, node in parts_with_paths(body) if node == m.Name(name)]
    for path in found:
        body = replace_at(body, path, m.Cast(m.Name(name), i32))
    return body


# ---- values made again --------------------------------------------------------------------------------------------


def recompute_values(program: Program) -> Program | None:
    """Return the program with an assignment from before a loop repeated in every trip, or None if there is none."""
    written = {m.root(t).field for t in _targets(program.kernel.body) if isinstance(m.root(t), m.Element)}  # type: ignore[attr-defined]
    body, changed = _recompute(program.kernel.body, written, False)
    return replace(program, kernel=replace(program.kernel, body=body)) if changed else None


def _recompute(body: m.StmtBlock, written: set[str], inside: bool) -> tuple[m.StmtBlock, bool]:
    """Return a block that repeats assignments before loops inside the loops, and True if anything changed.

    Args:
        body: The block to change.
        written: Names of arrays that the program writes.
        inside: True if the block lies in a loop.
    """
    made: list[m.Stmt] = []
    changed = False
    for stmt in body:
        for name in ("then", "orelse", "body"):
            if blocks(stmt) and hasattr(stmt, name):
                inner, deeper = _recompute(getattr(stmt, name), written, inside or isinstance(stmt, m.For))
                stmt, changed = replace(stmt, **{name: inner}), changed or deeper
        if inside and isinstance(stmt, (m.For, m.While)):
            again = _repeatable(made, stmt, written)
            stmt, changed = replace(stmt, body=(*again, *stmt.body)), changed or bool(again)
        made.append(stmt)
    return tuple(made), changed


_PURE = (
    m.Name,
    m.Number,
    m.Binary,
    m.Unary,
    m.Call,
    m.Cast,
    m.Choice,
    m.Compare,
    m.Element,
    m.Vector,
    m.Matrix,
    m.Method,
    m.Swizzle,
    m.Slice,
    m.Part,
    m.Filled,
    m.Convert,
    m.Make,
    m.Member,
)


def _repeatable(before: list[m.Stmt], loop: m.For | m.While, written: set[str]) -> list[m.Stmt]:
    """Return the last assignment before a loop that each trip could repeat, as a list of at most one.

    Args:
        before: The statements before the loop.
        loop: The loop whose trips would repeat the assignment.
        written: Names of arrays that the program writes.
    """
    changed = _changed((loop,))
    for stmt in reversed(before):
        if isinstance(stmt, m.Assign) and len(stmt.targets) == 1 and isinstance(stmt.targets[0], m.Name):
            nodes = list(walk(stmt.values))
            names = {n.name for n in nodes if isinstance(n, m.Name)}
            pure = all(isinstance(n, _PURE) and not (isinstance(n, m.Element) and n.field in written) for n in nodes)
            mine = stmt.targets[0].name
            if pure and mine not in names and not changed & {mine, *names}:
                return [stmt]
        changed |= _changed((stmt,))
    return []


def _changed(body: m.StmtBlock) -> set[str]:
    """Return the names of locals that a block assigns."""
    places = {m.root(target) for target in _targets(body)}
    return {p.name for p in places if isinstance(p, m.Name)} | {
        n.name for n in walk(body) if isinstance(n, (m.Declare, m.Walrus))
    }


def _targets(body: m.StmtBlock) -> Iterator[m.Expr]:
    """Yield the target of every assignment and update in a block."""
    for n in walk(body):
        if isinstance(n, m.Assign):
            yield from n.targets
        elif isinstance(n, (m.Augment, m.AtomicCall)):
            yield n.target


TWINS: Mapping[str, Callable[[Program], Program | None]] = {"unrolled": unroll_loops, "recomputed": recompute_values}
"""Functions by name that return a program's twin, or None if it has no twin of this kind."""
