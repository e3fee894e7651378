"""Combine fields of equal shape into a field of structs, whose elements tasks may read and write as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..model import nodes as m
from ..model.walk import map_nodes, rebuilt_program, walk
from .draw import Chooser
from .values_of import indexed_fields

OWNER, TYPE, ELEMENT = "P0", "Particle", "el0"
LEAVING = (m.Continue, m.Return)
"""Statements that would skip the end of an iteration."""


def with_struct_fields(draw: Chooser, program: m.Program) -> m.Program:
    """Return the program with two to four of its fields combined into a field of structs.

    Some tasks then hold the element of their iteration in a local.
    """
    members = _chosen(draw, program)
    if len(members) < 2:
        return program
    kind = m.StructType(TYPE, tuple(m.Param(f.name, f.dtype, f.element) for f in members), draw.boolean())
    program = rebuilt_program(_joined(program, members, kind), _renamed({f.name for f in members}))
    body = tuple(_with_element(s) if draw.boolean(0.6) else s for s in program.kernel.body)
    return replace(program, kernel=replace(program.kernel, body=body))


def _chosen(draw: Chooser, program: m.Program) -> list[m.Field]:
    """Return up to four fields of equal shape that can become members of one struct type."""
    used = indexed_fields(program)
    able = [f for f in program.fields if f.shape and f.name in used and not (f.argument or f.struct)]
    if not able:
        return []
    first = draw.choice(able)
    # Members of one type must all have a gradient, or none of them, as far as they are real.
    grads = {f.grad for f in (first,) if f.dtype.is_real}
    found = [first]
    for f in able:
        if f is not first and f.shape == first.shape and (not f.dtype.is_real or grads <= {f.grad}) and len(found) < 4:
            grads |= {f.grad} if f.dtype.is_real else set()
            found.append(f)
    return found


def _joined(program: m.Program, members: list[m.Field], kind: m.StructType) -> m.Program:
    """Return the program with the chosen fields declared as members of one struct type; expressions stay the same."""
    names = {f.name: f"{OWNER}.{f.name}" for f in members}
    others = tuple(f for f in program.fields if f.name not in names)
    inputs = program.inputs
    fields = (*others, *(replace(f, name=names[f.name], struct=TYPE) for f in members))
    order = [f.name for f in fields]

    def content(pairs: tuple[tuple[str, m.Content], ...]) -> tuple[tuple[str, m.Content], ...]:
        return tuple(sorted(((names.get(n, n), c) for n, c in pairs), key=lambda pair: order.index(pair[0])))

    arrays, seeds = content(inputs.arrays), content(inputs.seeds)
    return replace(
        program, fields=fields, inputs=replace(inputs, arrays=arrays, seeds=seeds), structs=(*program.structs, kind)
    )


def _renamed(names: set[str]) -> Any:
    def change(node: Any) -> Any:
        if isinstance(node, m.Element) and node.field in names:
            return m.Member(replace(node, field=OWNER), node.field)
        if isinstance(node, (m.Extent, m.Over)) and node.field in names:
            return replace(node, field=OWNER)
        return node

    return change


# ---- elements in locals -------------------------------------------------------------------------------------------


def _with_element(stmt: m.Stmt) -> m.Stmt:
    """Return a task that first loads its element, a struct, into a local, and stores the local back at the end.

    A task that touches other elements, uses atomics on its element, or may leave an iteration early after a write stays
    unchanged.
    """
    if not isinstance(stmt, m.For) or isinstance(stmt.domain, m.Unrolled):
        return stmt
    nodes = list(walk(stmt.body))
    element, local = m.Element(OWNER, tuple(map(m.Name, stmt.indices))), m.Name(ELEMENT)
    used = [n for n in nodes if isinstance(n, m.Element) and n.field == OWNER]
    atomic = any(isinstance(n, m.AtomicCall) and m.root(n.target) == element for n in nodes)
    if not used or set(used) != {element} or atomic:
        return stmt
    written = any(m.root(t) == element for t in _targets(nodes))
    if written and any(isinstance(n, LEAVING) for n in nodes):
        return stmt
    body = map_nodes(stmt.body, lambda node: local if node == element else node)
    end = (m.Assign((element,), (local,)),) if written else ()
    return replace(stmt, body=(m.Assign((local,), (element,)), *body, *end))


def _targets(nodes: list[Any]) -> list[m.Expr]:
    found: list[m.Expr] = []
    for n in nodes:
        found += n.targets if isinstance(n, m.Assign) else (n.target,) if isinstance(n, m.Augment) else ()
    return found
