"""Locals of a program that are named like what is outside of their function: fields, functions, types, arguments.

Python's rule makes them locals all the same. A name is taken only where the function uses nothing of that name, so
that Python itself could run the text.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..model import nodes as m
from ..model.walk import fields_used, locals_of, rebuilt, walk
from .draw import Draw

SHARE = 0.6
"""Of the locals for which there is a name."""


def with_outer_names(draw: Draw, program: m.Program) -> m.Program:
    """Some locals of the kernel and of its functions."""
    kernel, given = program.kernel, _given(program)
    fields = {name for f in program.fields for name in f.names}
    outside = fields | {f.name for f in kernel.functions} | {s.name for s in program.structs} | given

    def renamed(body: m.Block, own: set[str]) -> m.Block:
        return _renamed(draw, body, locals_of(body) - own, sorted(outside - own - _used(body)))

    functions = tuple(replace(f, body=renamed(f.body, {p.name for p in f.params})) for f in kernel.functions)
    return replace(program, kernel=replace(kernel, functions=functions, body=renamed(kernel.body, given)))


def _given(program: m.Program) -> set[str]:
    """Parameters of the kernel."""
    arrays = (f for f in program.fields if f.argument or f.views)
    return {p.name for p in program.arguments} | {name for f in arrays for name in f.names}


def _used(body: m.Block) -> set[str]:
    """Names that a block uses, its locals among them."""
    nodes = list(walk(body))
    found = fields_used(body) | locals_of(body) | {n.name for n in nodes if isinstance(n, m.Name)}
    found |= {n.function for n in nodes if isinstance(n, m.Invoke)} | {n.struct for n in nodes if isinstance(n, m.Make)}
    return found | {n.stride for n in nodes if isinstance(n, m.Range)}


def _renamed(draw: Draw, body: m.Block, names: set[str], free: list[str]) -> m.Block:
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

    return rebuilt(body, change) if taken else body  # type: ignore[no-any-return]
