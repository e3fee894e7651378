"""Check that the parts of a stored program are consistent: used names exist, and contents have the fields' shapes.

`check` runs on a text from elsewhere after each of its fields was found to be of the right kind. Errors that a compiler
finds in a kernel are not looked for in this module, because a refusal is an outcome as any other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from ..plain_data import MalformedDataError
from . import nodes as m
from .walk import blocks, walk_program

MOST_NUMBERS = 1 << 21
"""Largest number of numbers that all inputs of a program may hold together."""
MOST_NODES = 1 << 17
"""Largest number of nodes that a program may have once calls are inlined and loops are unrolled."""

MOST_MEMBERS = 256
"""Largest number of scalars that one struct type may have, counting those of nested structs."""
MOST_BLOCKS = 120
"""Largest depth of nested blocks.

Python takes 100, and a rendered file has some blocks of its own. An `elif` counts as no further block.
"""
LEAST: dict[type, dict[str, int]] = {
    m.Compare: {"operands": 2, "ops": 1},
    m.Logic: {"operands": 2},
    m.Call: {"args": 1},
    m.Vector: {"items": 1},
    m.Matrix: {"rows": 1},
    m.Part: {"indices": 1},
    m.Box: {"axes": 1},
    m.Assign: {"targets": 1, "values": 1},
    m.For: {"indices": 1},
    m.Make: {"values": 1},
}
"""The smallest number of items that a list must have so that its node can be written as text."""


def check(program: m.Program) -> None:
    """Raise MalformedDataError if parts of a program are inconsistent, or if its inlined size is too large.

    Raises:
        MalformedDataError: The error names the part of the program and a cure.
    """
    _names(program)
    _at(".structs", lambda: _types(program))
    for place, field in enumerate(program.fields):
        _at(f".fields[{place}]", lambda f=field: _field(f))  # type: ignore[misc]
    _at(".inputs", lambda: _inputs(program))
    _at(".kernel", lambda: _lists(program))
    _at(".kernel", lambda: _blocks(program))
    _at(".kernel", lambda: _members(program))
    _at(".kernel", lambda: _orders(program))
    _at(".kernel", lambda: _size(program))


def _at(place: str, look: Callable[[], None]) -> None:
    """Run the check `look` of the part `place` of the program; if the check fails, name that part in the error."""
    try:
        look()
    except MalformedDataError as error:
        error.place.append(place)
        raise


def _names(program: m.Program) -> None:
    """Raise MalformedDataError if two fields, types, functions or arguments of the program have the same name."""
    owners = {f.owner for f in program.fields if "." in f.name}
    members = [f.name for f in program.fields if "." in f.name]
    found = [f.name for f in program.fields if "." not in f.name] + [v.name for f in program.fields for v in f.views]
    found += [*owners, *(p.name for p in program.arguments), *(s.name for s in program.structs)]
    found += [program.kernel.name, *(f.name for f in program.kernel.functions)]
    _once(found, "things of the program")
    _once(members, "members of fields")
    for kind in program.structs:
        _once([p.name for p in kind.members], f"members of {kind.name}")


def _once(names: Iterable[str], what: str) -> None:
    """Raise MalformedDataError if a name occurs twice in a list of names.

    Args:
        names: The names to compare.
        what: The kind of thing that the names stand for, for the message.
    """
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise MalformedDataError(f"{twice[0]} names two {what}", "give each a name of its own")


def _types(program: m.Program) -> None:
    """Raise MalformedDataError if a struct type uses a later type, or if a field of structs lacks a member.

    A struct type may contain only types that stand before it. Every name of a type must be declared, and a field of
    structs must have one field for each member of its type.
    """
    paths: dict[str, list[str]] = {}
    for kind in program.structs:
        found = []
        for p in kind.members:
            if p.struct:
                found += [f"{p.name}.{path}" for path in _known(p.struct, paths)]
            elif p.dtype is None:
                raise MalformedDataError(f"{p.name} of {kind.name} has no type", "give it one")
            else:
                found.append(p.name)
        if not found or len(found) > MOST_MEMBERS:
            raise MalformedDataError(f"the type {kind.name} has {len(found)} members", f"write 1 to {MOST_MEMBERS}")
        paths[kind.name] = found
    used = [p.struct for f in program.kernel.functions for p in f.params] + [p.struct for p in program.arguments]
    for name in filter(None, (*used, *(n.struct for n in walk_program(program) if isinstance(n, m.Make)))):
        _known(name, paths)
    for owner in {f.owner for f in program.fields}:
        own = [f for f in program.fields if f.owner == owner]
        kinds = {f.struct for f in own}
        wanted = {f"{owner}.{path}" for path in _known(min(kinds), paths)} if kinds != {""} else {owner}
        if len(kinds) > 1 or {f.name for f in own} != wanted:
            raise MalformedDataError(f"the fields of {owner} are not those of its type", "write one for each member")


def _known(name: str, paths: dict[str, list[str]]) -> list[str]:
    """Return the paths of all members of the type `name`. Raise MalformedDataError if no such type was declared."""
    if name not in paths:
        raise MalformedDataError(
            f"{name or 'a field'} has no type that is known so far", "declare types before they are used"
        )
    return paths[name]


def _field(field: m.Field) -> None:
    """Raise MalformedDataError if the axes, offset, size or views of a field are inconsistent."""
    if len(field.shape) > 2 or len(field.element) > 2:
        raise MalformedDataError("it has more than two axes", "write at most two")
    if field.offset and len(field.offset) != len(field.shape):
        raise MalformedDataError("its offset has other axes than its shape", "write one number for each axis")
    if math.prod(field.storage) > MOST_NUMBERS:
        raise MalformedDataError(f"it holds more than {MOST_NUMBERS} numbers", "make it smaller")
    for view in field.views:
        if len(field.shape) != 1 or view.first + view.size > field.shape[0]:
            raise MalformedDataError(f"the view {view.name} leaves it", "let views lie within an array of one axis")


def _inputs(program: m.Program) -> None:
    """Raise MalformedDataError unless the inputs give values to exactly the fields and arguments of the program."""
    inputs, known = program.inputs, {f.name: f for f in program.fields}
    for name, pairs in (("arrays", inputs.arrays), ("seeds", inputs.seeds)):
        _once([n for n, _ in pairs], name)
        for field, content in pairs:
            if field not in known:
                raise MalformedDataError(f"{name} has {field}, which is no field", "name fields of the program")
            if len(content) != math.prod(known[field].storage):
                reason = f"{field} has {len(content)} numbers in {name}"
                raise MalformedDataError(reason, f"its shape needs {math.prod(known[field].storage)}")
    if sum(len(c) for _, c in (*inputs.arrays, *inputs.seeds)) > MOST_NUMBERS:
        raise MalformedDataError(f"there are more than {MOST_NUMBERS} numbers", "make the arrays smaller")
    _same("arrays", {n for n, _ in inputs.arrays}, set(known), "field")
    _once([n for n, _ in inputs.scalars], "scalars")
    _same("scalars", {n for n, _ in inputs.scalars}, {e for p in program.arguments for e in p.entries}, "argument")


def _same(name: str, found: set[str], wanted: set[str], what: str) -> None:
    """Raise MalformedDataError if two sets of names differ.

    Args:
        name: The part of the inputs that is checked.
        found: The names for which the inputs have values.
        wanted: The names that need values.
        what: The kind of thing that the names stand for, for the message.
    """
    for other in sorted(found ^ wanted):
        reason = f"{name} lacks {other}" if other in wanted else f"{name} has {other}, which is no {what}"
        raise MalformedDataError(reason, f"give each {what} its content")


def _lists(program: m.Program) -> None:
    """Raise MalformedDataError if a list in a node of the program is too short or has a wrong length."""
    for node in walk_program(program):
        for name, least in LEAST.get(type(node), {}).items():
            if len(getattr(node, name)) < least:
                raise MalformedDataError(f"{name} of a {type(node).__name__} are too few", f"write {least} or more")
        if isinstance(node, m.Compare) and len(node.operands) != len(node.ops) + 1:
            raise MalformedDataError("a comparison has other operators than operands", "write one operator fewer")
        if isinstance(node, m.Matrix) and {len(row) for row in node.rows} != {len(node.rows[0]) or 1}:
            raise MalformedDataError("rows of a matrix differ in length", "write as many entries in each")


def _blocks(program: m.Program) -> None:
    bodies = [program.kernel.body, *(f.body for f in program.kernel.functions)]
    if max(map(_depth, bodies)) > MOST_BLOCKS:
        raise MalformedDataError(f"more than {MOST_BLOCKS} blocks are in each other", "nest fewer loops and branches")


def _depth(block: m.StmtBlock) -> int:
    """Return the depth of the nested blocks of a program. An `elif`, an `If` that is a whole alternative, adds none."""
    deepest = 1
    for stmt in block:
        found = blocks(stmt)
        if isinstance(stmt, m.If) and len(stmt.orelse) == 1 and isinstance(stmt.orelse[0], m.If):
            deepest = max(deepest, 1 + _depth(stmt.then), _depth(stmt.orelse))
        elif found:
            deepest = max(deepest, *(1 + _depth(inner) for inner in found))
    return deepest


def _members(program: m.Program) -> None:
    """Raise MalformedDataError if an attribute is no struct member, because it could access a Python object."""
    known = {p.name for s in program.structs for p in s.members}
    known |= {part for f in program.fields for part in f.name.split(".")[1:]}
    for node in walk_program(program):
        if isinstance(node, m.Member) and node.name not in known:
            raise MalformedDataError(f"{node.name} is no member of a type of the program", "declare it")


def _orders(program: m.Program) -> None:
    """Raise MalformedDataError if the keyword `axes` of a box is no permutation of the numbers of its axes."""
    for node in walk_program(program):
        if isinstance(node, m.Box) and node.order and sorted(node.order) != list(range(len(node.axes))):
            raise MalformedDataError(f"{node.order} is no order of {len(node.axes)} axes", "name each axis once")


def _size(program: m.Program) -> None:
    """Raise MalformedDataError if the program has more than MOST_NODES nodes after inlining and unrolling."""
    sizes: dict[str, int] = {}
    for function in program.kernel.functions:
        sizes[function.name] = _weight(function.body, sizes)
    if _weight(program.kernel.body, sizes) > MOST_NODES:
        raise MalformedDataError(
            f"inlined and unrolled it has more than {MOST_NODES} nodes", "unroll less, or call fewer functions"
        )


def _weight(node: Any, sizes: dict[str, int]) -> int:
    """Return the number of nodes that a node and its parts have after inlining and unrolling.

    The nodes of an unrolled loop count once for each iteration, and those of a function once for each call.

    Args:
        node: A node, or a tuple of nodes.
        sizes: Number of nodes of each function that is already measured.
    """
    own = 1 + sizes.get(node.function, 0) if isinstance(node, m.Invoke) else 1
    inside = sum(_weight(part, sizes) for part in _parts(node))
    return own + inside * _trips(node)


def _trips(node: Any) -> int:
    """Return how many copies of a node's parts the frontend makes: 1, or more in unrolled loops and comprehensions."""
    if isinstance(node, m.Comprehension):
        return node.count
    if isinstance(node, m.For) and isinstance(node.domain, m.Unrolled):
        return len(range(node.domain.begin, node.domain.end, node.domain.step or 1))
    return 1


def _parts(node: Any) -> Iterator[Any]:
    """Yield the direct parts of a node: the values of all its attributes, or the items if it is a tuple."""
    if isinstance(node, tuple):
        yield from node
    elif is_dataclass(node):
        yield from (getattr(node, f.name) for f in fields(node))
