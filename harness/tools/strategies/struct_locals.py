"""Turn locals of a task into members of one struct, which is declared at the start of the task.

Values that loops carry then live in members. At times the struct is assigned as a whole, or holds another struct.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..model import nodes as m
from ..model.walk import map_nodes, walk
from .draw import Chooser
from .values_of import Kinds, assigned_names, zero

MOST = 4
"""Largest number of members of a struct."""
Members = Mapping[str, m.Expr]
"""Expressions of members that replace locals, by the name of the local."""


def with_struct_locals(draw: Chooser, program: m.Program, kinds: Kinds) -> m.Program:
    """Return the program with some locals of each task turned into members of a struct.

    Args:
        draw: Source of the random choices.
        program: A program of `Kernels`.
        kinds: Types of the program's locals and parameters.
    """
    body = list(program.kernel.body)
    types: list[m.StructType] = []
    for k, stmt in enumerate(body):
        if isinstance(stmt, m.For) and not isinstance(stmt.domain, m.Unrolled):
            names = _local(program.kernel.body, stmt, kinds)
            if names:
                body[k] = _with_struct(draw, stmt, [kinds[n] for n in names], types)
    kernel = replace(program.kernel, body=tuple(body))
    return replace(program, kernel=kernel, structs=(*program.structs, *types))


def _local(body: m.StmtBlock, task: m.For, kinds: Kinds) -> list[str]:
    """Return the names of a task's locals that no other task uses and that can become struct members."""
    outside = {n.name for s in body if s is not task for n in walk(s) if isinstance(n, m.Name)}
    made = {n.name for n in walk(task) if isinstance(n, m.Walrus)}
    return [n for n in assigned_names(task.body) if n in kinds and n not in outside | made]


def _with_struct(draw: Chooser, task: m.For, locals_: list[m.Param], types: list[m.StructType]) -> m.For:
    """Return a task with some locals turned into struct members. Append the new struct types to `types`."""
    chosen = locals_[:1] + [p for p in locals_[1:] if draw.boolean(0.7)]
    chosen = chosen[:MOST]
    number = sum(kind.name.startswith("State") for kind in types)
    struct = m.Name(f"st{number}")
    inner = chosen[1:] if len(chosen) > 1 and draw.boolean(0.3) else []
    members = [p for p in chosen if p not in inner]
    path: dict[str, m.Expr] = {p.name: m.Member(struct, p.name) for p in members}
    values: list[m.Expr] = [zero(p) for p in members]
    if inner:
        kind = m.StructType(f"Inner{number}", tuple(inner), draw.boolean())
        types.append(kind)
        path |= {p.name: m.Member(m.Member(struct, "inside"), p.name) for p in inner}
        members = [*members, m.Param("inside", struct=kind.name)]
        values.append(m.Make(kind.name, tuple(map(zero, inner))))
    kind = m.StructType(f"State{number}", tuple(members), draw.boolean())
    types.append(kind)
    body = map_nodes(task.body, lambda node: _as_member(node, path))
    if draw.boolean(0.6):
        body = _assigned_whole(draw, body, struct, kind)
    start = m.Assign((struct,), (m.Make(kind.name, tuple(values), draw.boolean()),))
    return replace(task, body=(start, *body))


def _as_member(node: Any, path: Members) -> Any:
    if isinstance(node, m.Name):
        return path.get(node.name, node)
    if isinstance(node, m.Declare) and node.name in path:
        return m.Assign((path[node.name],), (node.value,))  # type: ignore[arg-type]
    return node


def _assigned_whole(draw: Chooser, body: m.StmtBlock, struct: m.Name, kind: m.StructType) -> m.StmtBlock:
    """Return a block with some assignments `s.a = e` replaced by ones of the whole struct, `s = S(a=e, b=s.b)`."""

    def whole(node: Any) -> Any:
        if isinstance(node, m.Assign) and len(node.targets) == len(node.values) == 1:
            target = node.targets[0]
            if isinstance(target, m.Member) and target.base == struct and draw.boolean(0.4):
                return m.Assign((struct,), (_with_one(struct, kind, target.name, node.values[0]),))
        return node

    return map_nodes(body, whole)  # type: ignore[no-any-return]


def _with_one(struct: m.Name, kind: m.StructType, name: str, value: m.Expr) -> m.Make:
    """Return an expression that constructs a copy of a struct with one member replaced by a value."""
    parts = (value if p.name == name else m.Member(struct, p.name) for p in kind.members)
    return m.Make(kind.name, tuple(parts), named=True)
