"""Yield smaller programs that a reducer may try in place of a program, those with the largest changes first.

An edit does not know whether its result has valid types: the frontend refuses a result that has not, and the reducer
goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from ..model import Program
from ..model import nodes as m
from ..model.origins import move_origins
from ..model.single_loops import without_single_loops
from ..model.tidy import tidy, without_views
from ..model.walk import map_nodes, walk
from .slices import slices

EditPath = tuple[str | int, ...]
_NUMBERS: tuple[m.Number, ...] = (m.Number(1), m.Number(0))
"""Numbers that may replace an expression; if one real does not keep the failure, another hardly will."""


# ---- places -------------------------------------------------------------------------------------------------


def parts_with_paths(node: Any, path: EditPath = ()) -> Iterator[tuple[EditPath, Any]]:
    """Yield every node and tuple at and below a node, outer before inner, each with its path."""
    yield path, node
    if isinstance(node, tuple):
        for k, item in enumerate(node):
            yield from parts_with_paths(item, (*path, k))
    elif is_dataclass(node) and not isinstance(node, type):
        for f in fields(node):
            yield from parts_with_paths(getattr(node, f.name), (*path, f.name))


def replace_at(node: Any, path: EditPath, new: Any) -> Any:
    """Return a copy of a program node in which the part at the path is replaced by `new`.

    Args:
        node: A node or a tuple of nodes.
        path: Names of attributes and positions in tuples, from the node to the part.
        new: The part to put at the path.
    """
    if not path:
        return new
    head, rest = path[0], path[1:]
    if isinstance(head, int):
        return (*node[:head], replace_at(node[head], rest, new), *node[head + 1 :])
    return replace(node, **{head: replace_at(getattr(node, head), rest, new)})


def _blocks(program: Program) -> Iterator[tuple[EditPath, m.StmtBlock]]:
    """Return every block of statements, the largest first."""
    found = [
        (p, n) for p, n in parts_with_paths(program.kernel) if isinstance(n, tuple) and n and isinstance(n[0], m.Stmt)
    ]
    return iter(sorted(found, key=lambda pair: -sum(1 for _ in walk(pair[1]))))


def _at(program: Program, path: EditPath, new: Any) -> Program:
    return tidy(replace(program, kernel=replace_at(program.kernel, path, new)))


# ---- statements ---------------------------------------------------------------------------------------------


def deletions(program: Program) -> Iterator[Program]:
    """Yield variants of the program without some neighboring statements, from whole blocks to single statements."""
    blocks = list(_blocks(program))
    longest = max((len(block) for _, block in blocks), default=0)
    while longest:
        for path, block in blocks:
            if len(block) >= longest:
                for start in range(0, len(block), longest):
                    yield _at(program, path, block[:start] + block[start + longest :])
        longest //= 2


def hoists(program: Program) -> Iterator[Program]:
    """Yield variants of the program in which the statements of its body replace one compound statement."""
    for path, block in _blocks(program):
        for k, stmt in enumerate(block):
            for inner in _bodies(stmt):
                yield _at(program, path, block[:k] + inner + block[k + 1 :])


def _bodies(stmt: m.Stmt) -> Iterator[m.StmtBlock]:
    if isinstance(stmt, m.If):
        yield from (b for b in (stmt.then, stmt.orelse) if b)
    elif isinstance(stmt, m.While):
        yield _without_exits(stmt.body)
    elif isinstance(stmt, m.For):
        body = _without_exits(stmt.body)
        yield body
        yield (*(m.Assign((m.Name(i),), (m.Number(0),)) for i in stmt.indices), *body)


def _without_exits(body: m.StmtBlock) -> m.StmtBlock:
    """Return a loop body without every statement that is, or contains, a `break` or `continue`."""
    return tuple(s for s in body if not any(isinstance(n, m.Break | m.Continue) for n in walk(s)))


def plainer(program: Program) -> Iterator[Program]:
    """Yield programs with one statement simplified, such as an `if` without its `else` or a loop of one trip."""
    for path, node in parts_with_paths(program.kernel):
        if isinstance(node, m.If) and node.orelse:
            yield _at(program, path, replace(node, orelse=()))
        elif isinstance(node, m.Range):
            simple = m.Range(None, node.end)
            if node != simple:
                yield _at(program, path, simple)
            for trips in (1, 2):
                if node.end != m.Number(trips):
                    yield _at(program, path, m.Range(None, m.Number(trips)))
        elif isinstance(node, m.Augment):
            yield _at(program, path, m.Assign((node.target,), (node.value,)))
        elif isinstance(node, m.Assign) and len(node.targets) == len(node.values) > 1:
            for target, value in zip(node.targets, node.values):
                yield _at(program, path, m.Assign((target,), (value,)))


def decorated_functions(program: Program) -> Iterator[Program]:
    """Yield the program with a decorator on every function, if some have none."""
    kernel = program.kernel
    if any(not f.decorated for f in kernel.functions):
        functions = tuple(replace(f, decorated=True) for f in kernel.functions)
        yield replace(program, kernel=replace(kernel, functions=functions))


def inline_locals(program: Program) -> Iterator[Program]:
    """Yield variants of the program in which a local's assigned value replaces its name in the rest of the block."""
    for path, block in _blocks(program):
        for k, stmt in enumerate(block):
            if isinstance(stmt, m.Assign) and len(stmt.targets) == 1 and isinstance(stmt.targets[0], m.Name):
                rest = _in_place_of(block[k + 1 :], stmt.targets[0], stmt.values[0])
                yield _at(program, path, block[:k] + rest)


def _in_place_of(block: m.StmtBlock, name: m.Name, value: m.Expr) -> m.StmtBlock:
    """Return a block in which an expression replaces every occurrence of a local's name."""
    made: m.StmtBlock = map_nodes(block, lambda node: value if node == name else node)
    return made


# ---- expressions --------------------------------------------------------------------------------------------


def simplifications(program: Program) -> Iterator[Program]:
    """Yield variants of the program with one expression replaced by a number or an operand, large expressions first."""
    found = [
        (p, n)
        for p, n in parts_with_paths(program.kernel)
        if isinstance(n, m.Expr) and not isinstance(n, m.Number) and not _is_target(p)
    ]
    for path, node in sorted(found, key=lambda pair: -sum(1 for _ in walk(pair[1]))):
        for new in _replacements(path, node):
            yield _at(program, path, new)


def _is_target(path: EditPath) -> bool:
    """Return True if a path leads to the target of an assignment, and not only to an index inside a target."""
    return "target" in path[-1:] or "targets" in path[-2:-1]


def _replacements(path: EditPath, node: m.Expr) -> Iterator[m.Expr]:
    """Yield the simpler expressions to try in place of an expression: 1, 0, and its own operands.

    A loop keeps at least one trip, because an empty loop hides the effects of its body. In an expression such as v[0],
    v is not replaced by a number, because a number has no parts.
    """
    if path[-1] == "base":
        yield from (e for e in _operands(node) if not isinstance(e, m.Number))
    else:
        yield from (*_NUMBERS[: 1 if path[-1] == "end" else None], *_operands(node))


def _operands(node: m.Expr) -> Iterator[m.Expr]:
    for f in fields(node):
        content = getattr(node, f.name)
        yield from (e for e in (content if isinstance(content, tuple) else (content,)) if isinstance(e, m.Expr))


# ---- fields and inputs --------------------------------------------------------------------------------------


def smaller_inputs(program: Program) -> Iterator[Program]:
    """Yield variants of the program with smaller extents, and with inputs that are all 0, all 1, or rounded."""
    sizes = ([v.size for v in f.views] if f.views else f.shape for f in program.fields)
    extents = sorted({extent for axes in sizes for extent in axes}, reverse=True)
    for old in extents:
        for new in (1, 2, old // 2):
            if 0 < new < old:
                yield _resized(program, old, new)
    for change in (lambda v: type(v)(0), lambda v: type(v)(1), _rounder):
        for name, content in program.inputs.arrays:
            yield _with_content(program, "arrays", name, tuple(map(change, content)))
        for name, content in program.inputs.seeds:
            yield _with_content(program, "seeds", name, tuple(map(change, content)))
        for name, value in program.inputs.scalars:
            yield _with_content(program, "scalars", name, change(value))
    for name, content in (*program.inputs.arrays, *program.inputs.seeds):
        for k, value in enumerate(content):
            if value:
                kind = "arrays" if (name, content) in program.inputs.arrays else "seeds"
                yield _with_content(program, kind, name, (*content[:k], type(value)(0), *content[k + 1 :]))


def _rounder(value: bool | int | float) -> bool | int | float:
    if isinstance(value, float) and value - value == 0.0 and abs(value) < 1e6:
        return round(value * 2) / 2
    return value


def _with_content(program: Program, kind: str, name: str, content: Any) -> Program:
    """Return the program with other input numbers for one array, cotangent or argument.

    Args:
        program: The program to change.
        kind: 'arrays', 'seeds' or 'scalars'.
        name: Name of the array or argument.
        content: The numbers to put in place of the old ones.
    """
    pairs = tuple((n, content if n == name else c) for n, c in getattr(program.inputs, kind))
    return replace(program, inputs=replace(program.inputs, **{kind: pairs}))


def _resized(program: Program, old: int, new: int) -> Program:
    """Return the program with every axis of extent `old` shortened to the extent `new`."""

    def cut(name: str, content: m.Content) -> m.Content:
        field = program.field(name)
        shape = _cut_down(field, old, new).storage
        whole = np.array(content, object).reshape(field.storage)
        return tuple(np.array(whole[tuple(map(slice, shape))], object).reshape(-1))

    fields_ = tuple(_cut_down(f, old, new) for f in program.fields)
    arrays = tuple((name, cut(name, c)) for name, c in program.inputs.arrays)
    seeds = tuple((name, cut(name, c)) for name, c in program.inputs.seeds)
    return replace(program, fields=fields_, inputs=replace(program.inputs, arrays=arrays, seeds=seeds))


def _cut_down(field: m.Field, old: int, new: int) -> m.Field:
    """Return a field with axes of extent `old` cut to `new`; in a field that has views, only the views are cut."""
    if field.views:
        return replace(field, views=tuple(replace(v, size=new if v.size == old else v.size) for v in field.views))
    return replace(field, shape=tuple(new if extent == old else extent for extent in field.shape))


def plain_memory(program: Program) -> Iterator[Program]:
    """Yield variants of the program: without loops over fields without axes, with indices from 0, without views."""
    single = without_single_loops(program)
    if single != program:
        yield single
    shifted = {f.owner: (0,) * len(f.shape) for f in program.fields if f.offset}
    for chosen in (shifted, *({name: zeros} for name, zeros in shifted.items())):
        if chosen:
            yield move_origins(program, chosen)
    for field in program.fields:
        if field.views:
            yield without_views(program, field)


EDITS: tuple[Callable[[Program], Iterator[Program]], ...] = (
    slices,
    deletions,
    plain_memory,
    decorated_functions,
    hoists,
    deletions,
    inline_locals,
    plainer,
    deletions,
    simplifications,
    inline_locals,
    deletions,
    smaller_inputs,
)
"""Edits in the order in which they are tried; the reducer repeats all as long as one succeeds."""
