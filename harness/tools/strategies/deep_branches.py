"""Put an update under deeply nested branches or into a long `elif` chain, to exceed limits of some drivers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..model import nodes as m
from ..model.nodes import Number, Stmt
from ..model.walk import map_nodes, nested_statements
from .draw import Chooser

DEPTHS, LINKS = (12, 50, 78), (30, 60)
"""Numbers of nested branches and of links of a chain.

Python's limit is 100 nested blocks, which includes the blocks around the branches.
"""


def with_deep_branches(draw: Chooser, program: m.Program) -> m.Program:
    """Return the program with one update of its kernel put under many conditions on a loop index."""
    found = list(_updates(program.kernel.body))
    if not found:
        return program
    update, index = draw.choice(found)
    made = draw.choice((_nest, _nest, _chain))(draw, update, index)
    swapped = _swapped(update, made)
    return replace(program, kernel=replace(program.kernel, body=map_nodes(program.kernel.body, swapped)))


def _updates(body: m.StmtBlock) -> Iterator[tuple[m.Augment, str]]:
    """Yield each update inside a loop that is not unrolled, with the name of the innermost loop index."""
    for stmt, outer in nested_statements(body):
        loops = [loop for loop in outer if isinstance(loop, m.For)]
        indices = [name for loop in loops if isinstance(loop.domain, (m.Range, m.Box)) for name in loop.indices]
        if isinstance(stmt, m.Augment) and indices and not any(isinstance(loop.domain, m.Unrolled) for loop in loops):
            yield stmt, indices[-1]


def _swapped(old: Stmt, new: Stmt) -> Callable[[Any], Any]:
    return lambda node: new if node is old else node


def _condition(op: str, index: str, divisor: int, remainder: int) -> m.Expr:
    return m.Compare((op,), (m.Binary("%", m.Name(index), Number(divisor)), Number(remainder)))


def _nest(draw: Chooser, update: Stmt, index: str) -> Stmt:
    """Return a deep nest of branches around an update, whose conditions hold for most iterations.

    Half way out, the update may stand a second time, after the inner branches.
    """
    depth, divisor = draw.choice(DEPTHS), draw.integer(5, 97)
    body: tuple[Stmt, ...] = (update,)
    for level in range(depth):
        # The remainders are three of the divisor's, so most iterations pass all branches.
        body = (m.If(_condition("!=", index, divisor, divisor - 1 - level % 3), body),)
        if level == depth // 2 and draw.boolean():
            body = (*body, update)
    return body[0] if len(body) == 1 else m.If(_condition(">=", index, divisor, 0), body)


def _chain(draw: Chooser, update: Stmt, index: str) -> Stmt:
    """Return a long `elif` chain that has the update in an early branch, in its last branch and in `else`."""
    links, between = draw.choice(LINKS), draw.integer(0, 3)
    orelse: tuple[Stmt, ...] = (update,)
    for link in reversed(range(links)):
        body: Stmt = update if link in (between, links - 1) else m.Pass()
        orelse = (m.If(_condition("==", index, 2 * links, link), (body,), orelse),)
    return orelse[0]
