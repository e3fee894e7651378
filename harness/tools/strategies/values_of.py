"""This module finds the names that a program assigns and indexes, for rewritings that move values into structs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..model import nodes as m
from ..model.nodes import Param
from ..model.walk import walk, walk_program

Kinds = Mapping[str, Param]
"""Types by name, only of names that the generator declared."""


def assigned_names(body: Any) -> list[str]:
    """Return the names of locals that a block assigns, in the order of the text."""
    found: list[str] = []
    for node in walk(body):
        places: Iterable[m.Expr] = ()
        if isinstance(node, m.Assign):
            places = node.targets
        elif isinstance(node, m.Augment):
            places = (node.target,)
        names = [p.name for p in map(m.root, places) if isinstance(p, m.Name)]
        found += names + ([node.name] if isinstance(node, m.Declare) else [])
    return list(dict.fromkeys(found))


def zero(member: Param) -> m.Expr:
    """Return an expression for a zero of the type and shape of a struct member."""
    assert member.dtype is not None
    if member.shape:
        return m.Filled("zero", member.shape, member.dtype)
    return m.Number(0.0 if member.dtype.is_real else 0)


def indexed_fields(program: m.Program) -> set[str]:
    """Return the names of the fields whose elements the program accesses, as opposed to only their extents."""
    return {n.field for n in walk_program(program) if isinstance(n, m.Element)}
