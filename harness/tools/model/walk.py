"""Visit the nodes of a program, visit its statements with their enclosing statements, or replace nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, replace
from functools import cache
from typing import Any

from . import nodes as m


@cache
def _names(cls: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls))


def walk(node: Any) -> Iterator[m.Expr | m.Stmt | m.Domain]:
    """Yield every expression, statement and domain at and below a node or a tuple of nodes, outer before inner."""
    if isinstance(node, tuple):
        for item in node:
            yield from walk(item)
    elif isinstance(node, (m.Expr, m.Stmt, m.Domain)):
        yield node
        for name in _names(type(node)):  # type: ignore[arg-type]
            yield from walk(getattr(node, name))


def walk_program(program: m.Program) -> Iterator[m.Expr | m.Stmt | m.Domain]:
    """Yield every node of the functions and of the kernel."""
    for function in program.kernel.functions:
        yield from walk(function.body)
    yield from walk(program.kernel.body)


def blocks(stmt: m.Stmt) -> tuple[m.StmtBlock, ...]:
    """Return the nested blocks of a statement, such as the branches of an `if` or the body of a loop."""
    if isinstance(stmt, m.If):
        return stmt.then, stmt.orelse
    return (stmt.body,) if isinstance(stmt, (m.For, m.While)) else ()


def nested_statements(
    block: Iterable[m.Stmt], outer: tuple[m.Stmt, ...] = ()
) -> Iterator[tuple[m.Stmt, tuple[m.Stmt, ...]]]:
    """Yield every statement with the statements that enclose it, outermost first."""
    for stmt in block:
        yield stmt, outer
        for inner in blocks(stmt):
            yield from nested_statements(inner, (*outer, stmt))


def map_nodes(node: Any, change: Callable[[Any], Any]) -> Any:
    """Return a node or tuple of nodes in which `change` was applied to every node, inner nodes first.

    Unchanged parts are the same objects as before.

    Args:
        node: A node or a tuple of nodes; anything else is returned as it is.
        change: A function from an expression, statement or domain to its replacement.
    """
    if isinstance(node, tuple):
        items = [map_nodes(item, change) for item in node]
        # Unchanged tuples are kept, so that equal parts stay the same objects.
        return node if all(a is b for a, b in zip(items, node)) else tuple(items)
    if not isinstance(node, (m.Expr, m.Stmt, m.Domain)):
        return node
    new = {name: map_nodes(getattr(node, name), change) for name in _names(type(node))}  # type: ignore[arg-type]
    same = all(item is getattr(node, name) for name, item in new.items())
    return change(node if same else replace(node, **new))


def rebuilt_program(program: m.Program, change: Callable[[Any], Any]) -> m.Program:
    """Return a program in which `change` was applied to every node of its functions and its kernel."""
    kernel = program.kernel
    functions = tuple(replace(f, body=map_nodes(f.body, change)) for f in kernel.functions)
    return replace(program, kernel=replace(kernel, body=map_nodes(kernel.body, change), functions=functions))


def fields_used(body: Any) -> set[str]:
    """Return the names of the fields and views that a node uses: elements, extents, or loops over the field."""
    return {n.field for n in walk(body) if isinstance(n, (m.Element, m.Extent, m.Over))}


def locals_of(body: Any) -> set[str]:
    """Return the names that a block defines: locals, loop indices, and comprehension indices."""
    nodes = list(walk(body))
    found = {t.name for n in nodes if isinstance(n, m.Assign) for t in n.targets if isinstance(t, m.Name)}
    found |= {n.name for n in nodes if isinstance(n, (m.Declare, m.Walrus, m.Comprehension))}
    return found | {name for n in nodes if isinstance(n, m.For) for name in n.indices}
