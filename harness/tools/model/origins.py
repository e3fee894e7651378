"""Change the index offsets of some fields of a program and its accesses to them, so that results stay the same.

    x[i]                →    x[i + o]
    for i in x: f(i)    →    for i in x: f(i - o)

Here o is the new first index of the field minus the old one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from . import nodes as m
from .walk import map_nodes, rebuilt_program

Offset = tuple[int, ...]


def move_origins(program: m.Program, offsets: Mapping[str, Offset]) -> m.Program:
    """Return the program with other first indices of some fields, and with all accesses adapted to them.

    Args:
        program: The program to change.
        offsets: New first index of each axis, by the name that the kernel uses for the field.
    """
    old = {f.owner: f.offset or (0,) * len(f.shape) for f in program.fields}
    by = {name: tuple(b - a for a, b in zip(old[name], new)) for name, new in offsets.items()}
    made = rebuilt_program(program, lambda node: _changed(node, by))
    fields = tuple(replace(f, offset=_stated(offsets.get(f.owner, f.offset))) for f in program.fields)
    return replace(made, fields=fields)


def _stated(offset: Offset) -> Offset:
    """Return an offset in the form in which fields store it: () if all its numbers are zero."""
    return offset if any(offset) else ()


def _changed(node: Any, by: Mapping[str, Offset]) -> Any:
    if isinstance(node, m.Element) and node.field in by:
        return replace(node, indices=_shifted(node.indices, by[node.field]))
    if isinstance(node, m.For):
        domain = node.domain.domain if isinstance(node.domain, m.Grouped) else node.domain
        if isinstance(domain, m.Over) and domain.field in by:
            return _loop(node, by[domain.field])
    return node


def _shifted(indices: tuple[m.Expr, ...], by: Offset) -> tuple[m.Expr, ...]:
    """Return indices shifted by the given offset; a sole index for several axes is shifted as a vector."""
    if len(indices) == len(by):
        return tuple(_sum(index, m.Number(k)) for index, k in zip(indices, by))
    return (_sum(indices[0], m.Vector(tuple(map(m.Number, by)))),)


def _sum(index: m.Expr, by: m.Number | m.Vector) -> m.Expr:
    if isinstance(by, m.Number) and by.value == 0:
        return index
    if isinstance(index, m.Number) and isinstance(by, m.Number):
        return m.Number(index.value + by.value)
    return _simple(m.Binary("+", index, by))


def _simple(node: m.Binary) -> m.Expr:
    """Return e in place of (e ± a) ± b if a and b cancel, and any other expression unchanged."""
    inner = node.left
    if not isinstance(inner, m.Binary) or inner.op not in ("+", "-"):
        return node
    first, second = _added(inner), _added(node)
    cancel = bool(first) and len(first) == len(second) and all(a + b == 0 for a, b in zip(first, second))
    return inner.left if cancel else node


def _added(node: m.Binary) -> tuple[int, ...]:
    """Return the integers that index expressions `e + k` or `e - k` add to e, or () if they are not constant."""
    items = node.right.items if isinstance(node.right, m.Vector) else (node.right,)
    if not all(isinstance(k, m.Number) and type(k.value) is int for k in items):
        return ()
    sign = 1 if node.op == "+" else -1
    return tuple(sign * k.value for k in items)  # type: ignore[attr-defined]


def _loop(loop: m.For, by: Offset) -> m.For:
    """Return a loop over a field whose first indices moved by `by`, with a body that still uses the old indices."""
    # A single name for several axes is an index vector, so the shift is a vector too.
    one = len(loop.indices) < len(by) or isinstance(loop.domain, m.Grouped)
    shifts = (m.Vector(tuple(map(m.Number, by))),) if one and len(by) > 1 else tuple(map(m.Number, by))
    before = {name: m.Binary("-", m.Name(name), k) for name, k in zip(loop.indices, shifts) if k != m.Number(0)}

    names = tuple(map(m.Name, before))

    def back(node: Any) -> Any:
        if isinstance(node, m.Name):
            return before.get(node.name, node)
        moves = isinstance(node, m.Binary) and node.op in ("+", "-") and isinstance(node.left, m.Binary)
        return _simple(node) if moves and node.left.left in names else node

    return replace(loop, body=map_nodes(loop.body, back))
