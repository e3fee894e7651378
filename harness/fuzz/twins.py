"""Twins: programs that mean what another one means, written differently.

    unrolled      for j in range(3): ...        for j in static(range(3)): ...
    recomputed    v = f(u); for ...: ... v ...  v = f(u); for ...: v = f(u); ... v ...

Both compute the same values to the last bit, and the same gradient up to rounding, by other ways: a loop needs adstacks
where the unrolled one has a value for each copy, and a value from before a loop is kept where the other is made again.
The third twin is the program's other rendering (`lowerings.kernel_of`), in which a vector is scalars by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from ...compiler.ir.types import i32
from ..model import Program
from ..model import nodes as m
from ..model.walk import blocks, walk
from .edits import Path, places, put

MOST_COPIES = 4
"""Iterations that are unrolled; more would make the text long, not the twin better."""


def unrolled(program: Program) -> Program | None:
    """With every serial loop over a few numbers of the text unrolled that holds no other such; None if there is none.

    The index stays a typed number, so that nothing is folded otherwise than the loop computes it.
    """
    body = program.kernel.body
    found = {path for path, _ in _serial_loops(body) if _counted(_at(body, path))}
    for path in (p for p in found if not any(q != p and q[: len(p)] == p for q in found)):
        body = put(body, path, _without_loop(_at(body, path)))
    return replace(program, kernel=replace(program.kernel, body=body)) if found else None


def _serial_loops(body: m.Block, path: Path = (), inside: bool = False) -> Iterator[tuple[Path, m.For]]:
    for k, stmt in enumerate(body):
        serial = inside or isinstance(stmt, (m.If, m.While)) or isinstance(stmt, m.For) and stmt.serialize
        if isinstance(stmt, m.For) and inside:
            yield (*path, k), stmt
        for name in ("then", "orelse", "body"):
            inner = getattr(stmt, name, ())
            if inner in blocks(stmt):
                yield from _serial_loops(inner, (*path, k, name), serial or isinstance(stmt, m.For))


def _at(node: object, path: Path) -> m.For:
    for step in path:
        node = node[step] if isinstance(step, int) else getattr(node, step)  # type: ignore[index]
    assert isinstance(node, m.For)
    return node


def _counted(loop: m.For) -> bool:
    """Whether the text alone says how often a loop runs."""
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


def _typed(body: m.Block, name: str) -> m.Block:
    """The index as a number of its type wherever it is read."""
    found = [path for path, node in places(body) if node == m.Name(name)]
    for path in found:
        body = put(body, path, m.Cast(m.Name(name), i32))
    return body


# ---- values made again --------------------------------------------------------------------------------------------


def recomputed(program: Program) -> Program | None:
    """With a value from before a loop made again in every iteration; None if no loop has such a value."""
    written = {m.root(t).field for t in _targets(program.kernel.body) if isinstance(m.root(t), m.Element)}  # type: ignore[attr-defined]
    body, changed = _recompute(program.kernel.body, written, False)
    return replace(program, kernel=replace(program.kernel, body=body)) if changed else None


def _recompute(body: m.Block, written: set[str], inside: bool) -> tuple[m.Block, bool]:
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
    """The last assignment before a loop that gives the same value in every iteration of it, if there is one."""
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


def _changed(body: m.Block) -> set[str]:
    """Names of locals that a block assigns."""
    places = {m.root(target) for target in _targets(body)}
    return {p.name for p in places if isinstance(p, m.Name)} | {
        n.name for n in walk(body) if isinstance(n, (m.Declare, m.Walrus))
    }


def _targets(body: m.Block) -> Iterator[m.Expr]:
    """Everything that a block assigns or updates."""
    for n in walk(body):
        if isinstance(n, m.Assign):
            yield from n.targets
        elif isinstance(n, (m.Augment, m.AtomicCall)):
            yield n.target


TWINS: Mapping[str, Callable[[Program], Program | None]] = {"unrolled": unrolled, "recomputed": recomputed}
"""By name: the twin of a program, or None if it has none of this kind."""
