"""Slice a program: remove the statements on which one of its results does not depend.

A slice is the boldest edit of the reducer: one run replaces one run for every statement that has nothing to do with the
failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..model import Program
from ..model import nodes as m
from ..model.tidy import tidy
from ..model.walk import walk

_EXITS = (m.Break, m.Continue, m.Return)


def slices(program: Program) -> Iterator[Program]:
    """Yield variants of the program without the statements on which one result, or no result, depends."""
    counted = [name for name, seeds in program.inputs.seeds if any(seeds)]
    for name in counted:
        yield _slice(program, {name})
    if len(counted) != 1:
        yield _slice(program, set(counted))


def _slice(program: Program, results: set[str]) -> Program:
    needed = {name for f in program.fields if f.name in results for name in f.names}
    # The needed names grow until no kept statement names another one.
    while True:
        body = _kept(program.kernel.body, needed)
        found = needed | {name for n in walk(body) for name in _named(n)}
        if found == needed:
            break
        needed = found
    seeds = tuple((n, s if n in results else (0.0,) * len(s)) for n, s in program.inputs.seeds)
    kernel = replace(program.kernel, body=body)
    return tidy(replace(program, kernel=kernel, inputs=replace(program.inputs, seeds=seeds)))


def _kept(block: m.StmtBlock, needed: set[str]) -> m.StmtBlock:
    made: list[m.Stmt] = []
    for stmt in block:
        if isinstance(stmt, m.If):
            inner = replace(stmt, then=_kept(stmt.then, needed), orelse=_kept(stmt.orelse, needed))
            made += [inner] if inner.then or inner.orelse or _written(stmt.condition) & needed else []
        elif isinstance(stmt, (m.For, m.While)):
            body = _kept(stmt.body, needed)
            made += [replace(stmt, body=body)] if any(not isinstance(s, _EXITS) for s in body) else []
        elif isinstance(stmt, _EXITS) or _written(stmt) & needed:
            made.append(stmt)
    return tuple(made)


def _written(node: Any) -> set[str]:
    """Return the names of locals and arrays to which a node assigns values."""
    places: list[m.Expr] = []
    names: set[str] = set()
    for n in walk(node):
        if isinstance(n, m.Assign):
            places += n.targets
        elif isinstance(n, (m.Augment, m.AtomicCall)):
            places.append(n.target)
        elif isinstance(n, (m.Declare, m.Walrus)):
            names.add(n.name)
    return names | {name for place in places for name in _named(m.root(place))}


def _named(n: Any) -> Iterator[str]:
    if isinstance(n, m.Name):
        yield n.name
    elif isinstance(n, (m.Element, m.Extent, m.Over)):
        yield n.field
