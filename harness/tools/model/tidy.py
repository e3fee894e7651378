"""Remove unused parts of programs, and replace views of an array by separate arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from . import nodes as m
from .walk import fields_used, walk


def tidy(program: m.Program) -> m.Program:
    """Return the program without uncalled functions and without unused types, fields, views and arguments."""
    kept = _called(program.kernel)
    kernel = replace(program.kernel, functions=kept)
    bodies = (kernel.body, *(f.body for f in kept))
    used = set().union(*(fields_used(b) for b in bodies))
    fields = tuple(_with_used_views(f, used) for f in program.fields if f.names & used)
    names = {n.name for b in bodies for n in walk(b) if isinstance(n, m.Name)}
    names |= {n.stride for b in bodies for n in walk(b) if isinstance(n, m.Range)}
    inputs, own = program.inputs, {f.name for f in fields}
    return replace(
        program,
        kernel=kernel,
        fields=fields,
        arguments=tuple(p for p in program.arguments if p.name in names),
        inputs=m.Inputs(
            tuple((n, c) for n, c in inputs.arrays if n in own),
            tuple((n, v) for n, v in inputs.scalars if n.partition(".")[0] in names),
            tuple((n, c) for n, c in inputs.seeds if n in own),
        ),
        structs=_types(program, _named(fields, kept, bodies)),
    )


def _called(kernel: m.Kernel) -> tuple[m.Function, ...]:
    """Return the functions that the kernel calls, directly or through other functions."""
    called = {n.function for n in walk(kernel.body) if isinstance(n, m.Invoke)}
    kept: list[m.Function] = []
    # A function stands after those that it calls, so in reverse order its callers come first.
    for function in reversed(kernel.functions):
        if function.name in called:
            kept.insert(0, function)
            called |= {n.function for n in walk(function.body) if isinstance(n, m.Invoke)}
    return tuple(kept)


def _with_used_views(field: m.Field, used: set[str]) -> m.Field:
    return replace(field, views=tuple(v for v in field.views if v.name in used)) if field.views else field


def _named(fields: Iterable[m.Field], functions: Iterable[m.Function], bodies: Iterable[m.StmtBlock]) -> set[str]:
    """Return the names of the struct types that the program uses."""
    found = {f.struct for f in fields} | {p.struct for f in functions for p in f.params}
    return found | {n.struct for b in bodies for n in walk(b) if isinstance(n, m.Make)}


def _types(program: m.Program, named: set[str]) -> tuple[m.StructType, ...]:
    """Return the struct types of the given names and, recursively, the types of their members."""
    kept: list[m.StructType] = []
    # A type stands after those of its members, so in reverse order it comes before them.
    for kind in reversed(program.structs):
        if kind.name in named:
            kept.insert(0, kind)
            named |= {p.struct for p in kind.members}
    return tuple(kept)


# ---- views ------------------------------------------------------------------------------------------------------


def without_views(program: m.Program, base: m.Field) -> m.Program:
    """Return the program with a separate field in place of each view of the array `base`."""
    fields: list[m.Field] = []
    for f in program.fields:
        fields += [_own(base, v) for v in base.views] if f is base else [f]
    inputs = program.inputs
    arrays, seeds = (_cut(base, pairs) for pairs in (inputs.arrays, inputs.seeds))
    return replace(program, fields=tuple(fields), inputs=replace(inputs, arrays=arrays, seeds=seeds))


def _own(base: m.Field, view: m.View) -> m.Field:
    return m.Field(view.name, base.dtype, (view.size,), base.grad, base.element)


def _cut(base: m.Field, pairs: tuple[tuple[str, m.Content], ...]) -> Any:
    """Return (name, contents) pairs, with the contents of the array `base` divided among its views."""
    width = 1
    for extent in base.element:
        width *= extent
    found: list[tuple[str, m.Content]] = []
    for name, content in pairs:
        if name != base.name:
            found.append((name, content))
            continue
        found += [(v.name, content[v.first * width : (v.first + v.size) * width]) for v in base.views]
    return tuple(found)
