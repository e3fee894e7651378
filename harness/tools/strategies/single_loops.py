"""Put updates of fields without axes into loops `for I in grouped(s)`, which run once with an empty index."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..model import nodes as m
from ..model.walk import locals_of, map_nodes, walk
from .draw import Chooser

SHARE = 0.6
"""Share of the updates that get a loop."""
_OF_THEIR_PLACE = (m.Walrus, m.Random, m.AtomicCall, m.Invoke)
"""Expressions that may mean something else in a loop or in a task of their own."""


def with_single_loops(draw: Chooser, program: m.Program) -> m.Program:
    """Return the program in which loops over a field without axes hold some updates of the field."""
    fields = {f.name for f in program.fields if not (f.shape or f.element or f.struct or f.views or f.argument)}
    taken = locals_of(program.kernel.body) | {name for f in program.fields for name in f.names}
    index = m.Name(next(name for k in range(len(taken) + 1) if (name := f"I{k}") not in taken))

    def change(node: Any) -> Any:
        if not isinstance(node, m.Augment) or any(isinstance(n, _OF_THEIR_PLACE) for n in walk(node.value)):
            return node
        target = node.target
        if not isinstance(target, m.Element) or target.field not in fields or not draw.boolean(SHARE):
            return node
        body = replace(node, target=replace(target, indices=(index,)))
        return m.For((index.name,), m.Grouped(m.Over(target.field)), (body,))

    kernel = program.kernel
    return replace(program, kernel=replace(kernel, body=map_nodes(kernel.body, change)))
