"""Rename locals of a program so that they hide objects outside of their function, such as fields or functions.

In Python, such a local hides the object outside. A local gets a name only if its function does not use the object of
that name, so that Python itself could run the text.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..model import nodes as m
from ..model.walk import fields_used, locals_of, map_nodes, walk
from .draw import Chooser

SHARE = 0.6
"""Share of the locals that are renamed, as long as there are names."""


def with_outer_names(draw: Chooser, program: m.Program) -> m.Program:
    """Return the program after renaming some locals of the kernel and of its functions."""
    kernel, given = program.kernel, _given(program)
    fields = {name for f in program.fields for name in f.names}
    outside = fields | {f.name for f in kernel.functions} | {s.name for s in program.structs} | given

    def renamed(body: m.StmtBlock, own: set[str]) -> m.StmtBlock:
        return _renamed(draw, body, locals_of(body) - own, sorted(outside - own - _used(body)))

    functions = tuple(replace(f, body=renamed(f.body, {p.name for p in f.params})) for f in kernel.functions)
    return replace(program, kernel=replace(kernel, functions=functions, body=renamed(kernel.body, given)))


def _given(program: m.Program) -> set[str]:
    """Return the names of the kernel's parameters: numbers, arrays and views."""
    arrays = (f for f in program.fields if f.argument or f.views)
    return {p.name for p in program.arguments} | {name for f in arrays for name in f.names}


def _used(body: m.StmtBlock) -> set[str]:
    """Return the names that a block uses, including its locals."""
    nodes = list(walk(body))
    found = fields_used(body) | locals_of(body) | {n.name for n in nodes if isinstance(n, m.Name)}
    found |= {n.function for n in nodes if isinstance(n, m.Invoke)} | {n.struct for n in nodes if isinstance(n, m.Make)}
    return found | {n.stride for n in nodes if isinstance(n, m.Range)}


def _renamed(draw: Chooser, body: m.StmtBlock, names: set[str], free: list[str]) -> m.StmtBlock:
    taken: dict[str, str] = {}
    for name in sorted(names):
        if free and draw.boolean(SHARE):
            taken[name] = free.pop(draw.integer(0, len(free) - 1))

    def change(node: Any) -> Any:
        if isinstance(node, m.For):
            return replace(node, indices=tuple(taken.get(name, name) for name in node.indices))
        if isinstance(node, (m.Name, m.Declare, m.Walrus, m.Comprehension)):
            return replace(node, name=taken.get(node.name, node.name))
        return node

    return map_nodes(body, change) if taken else body
