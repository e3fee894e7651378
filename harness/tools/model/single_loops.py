"""Find and remove loops `for I in grouped(s)` over a field without axes, which run once with an empty index."""

from __future__ import annotations

from typing import Any

from . import nodes as m
from .walk import map_nodes, rebuilt_program


def is_single(program: m.Program, domain: m.Domain) -> bool:
    """Return True if a domain is `grouped(s)` for a field s without axes."""
    if not isinstance(domain, m.Grouped) or not isinstance(domain.domain, m.Over):
        return False
    name = domain.domain.field
    return any(name == f.owner and not f.shape and not f.views for f in program.fields)


def without_single_loops(program: m.Program) -> m.Program:
    """Return the program in which `s[None]` replaces each loop of one statement over a field without axes."""

    def change(node: Any) -> Any:
        if isinstance(node, m.For) and len(node.body) == 1 and is_single(program, node.domain):
            return _with_empty_index(node.body[0], m.Name(node.indices[0]))
        return node

    return rebuilt_program(program, change)


def _with_empty_index(stmt: m.Stmt, index: m.Name) -> m.Stmt:
    def change(node: Any) -> Any:
        return m.Element(node.field) if isinstance(node, m.Element) and node.indices == (index,) else node

    made: m.Stmt = map_nodes(stmt, change)
    return made
