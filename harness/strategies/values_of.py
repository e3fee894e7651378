"""Kinds: what the locals and parameters of a program hold, as members of structs that may hold it too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..model import nodes as m
from ..model.nodes import Param
from ..model.walk import walk, walk_program

Kinds = Mapping[str, Param]
"""By name; only of names that the generator made by a declaration."""


def assigned(body: Any) -> list[str]:
    """Names that statements of a block assign, in the order of the text."""
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
    """Zeros of the type of a member."""
    assert member.dtype is not None
    if member.shape:
        return m.Filled("zero", member.shape, member.dtype)
    return m.Number(0.0 if member.dtype.is_real else 0)


def indexed(program: m.Program) -> set[str]:
    """Names of fields of which elements occur; of others the kernel knows the extents alone."""
    return {n.field for n in walk_program(program) if isinstance(n, m.Element)}
