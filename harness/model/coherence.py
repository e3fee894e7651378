"""What the parts of a stored program owe each other, which no part shows: names that exist, content that fits.

`check` is what a text from elsewhere passes after every field of it was found to be of its kind. What a compiler finds
wrong with a kernel is not looked for here: that is an outcome like any other.
"""
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from ..plain_data import Malformed
from . import nodes as m
from .walk import walk_program

MOST_NUMBERS = 1 << 21
"""Numbers of all inputs of a program."""
MOST_NODES = 1 << 17
"""Nodes of a program when calls are inlined and loops unrolled."""


def check(program: m.Program) -> None:
    """Raises Malformed for a program that does not hang together, or that is far larger than its text."""
    _names(program)
    for place, field in enumerate(program.fields):
        _at(f".fields[{place}]", lambda f=field: _field(f))  # type: ignore[misc]
    _at(".inputs", lambda: _inputs(program))
    _at(".kernel", lambda: _members(program))
    _at(".kernel", lambda: _size(program))


def _at(place: str, look: Callable[[], None]) -> None:
    try:
        look()
    except Malformed as error:
        error.place.append(place)
        raise


def _names(program: m.Program) -> None:
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
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise Malformed(f"{twice[0]} names two {what}", "give each a name of its own")


def _field(field: m.Field) -> None:
    if len(field.shape) > 2 or len(field.element) > 2:
        raise Malformed("it has more than two axes", "write at most two")
    if field.offset and len(field.offset) != len(field.shape):
        raise Malformed("its offset has other axes than its shape", "write one number for each axis")
    if math.prod(field.storage) > MOST_NUMBERS:
        raise Malformed(f"it holds more than {MOST_NUMBERS} numbers", "make it smaller")
    for view in field.views:
        if len(field.shape) != 1 or view.first + view.size > field.shape[0]:
            raise Malformed(f"the view {view.name} leaves it", "let views lie within an array of one axis")


def _inputs(program: m.Program) -> None:
    inputs, known = program.inputs, {f.name: f for f in program.fields}
    for name, pairs in (("arrays", inputs.arrays), ("seeds", inputs.seeds)):
        _once([n for n, _ in pairs], name)
        for field, content in pairs:
            if field not in known:
                raise Malformed(f"{name} has {field}, which is no field", "name fields of the program")
            if len(content) != math.prod(known[field].storage):
                reason = f"{field} has {len(content)} numbers in {name}"
                raise Malformed(reason, f"its shape needs {math.prod(known[field].storage)}")
    if sum(len(c) for _, c in (*inputs.arrays, *inputs.seeds)) > MOST_NUMBERS:
        raise Malformed(f"there are more than {MOST_NUMBERS} numbers", "make the arrays smaller")
    _same("arrays", {n for n, _ in inputs.arrays}, set(known), "field")
    _once([n for n, _ in inputs.scalars], "scalars")
    _same("scalars", {n for n, _ in inputs.scalars}, {e for p in program.arguments for e in p.entries}, "argument")


def _same(name: str, found: set[str], wanted: set[str], what: str) -> None:
    for other in sorted(found ^ wanted):
        reason = f"{name} lacks {other}" if other in wanted else f"{name} has {other}, which is no {what}"
        raise Malformed(reason, f"give each {what} its content")


def _members(program: m.Program) -> None:
    """Attributes are members of structs: no attribute of a Python object can be meant."""
    known = {p.name for s in program.structs for p in s.members}
    known |= {part for f in program.fields for part in f.name.split(".")[1:]}
    for node in walk_program(program):
        if isinstance(node, m.Member) and node.name not in known:
            raise Malformed(f"{node.name} is no member of a type of the program", "declare it")


def _size(program: m.Program) -> None:
    """The nodes that a frontend makes of the text."""
    sizes: dict[str, int] = {}
    for function in program.kernel.functions:
        sizes[function.name] = _weight(function.body, sizes)
    if _weight(program.kernel.body, sizes) > MOST_NODES:
        raise Malformed(
            f"inlined and unrolled it has more than {MOST_NODES} nodes", "unroll less, or call fewer functions"
        )


def _weight(node: Any, sizes: dict[str, int]) -> int:
    """Nodes at and below, those of unrolled loops once for each iteration, those of functions once for each call."""
    own = 1 + sizes.get(node.function, 0) if isinstance(node, m.Invoke) else 1
    inside = sum(_weight(part, sizes) for part in _parts(node))
    return own + inside * _trips(node)


def _trips(node: Any) -> int:
    if isinstance(node, m.Comprehension):
        return node.count
    if isinstance(node, m.For) and isinstance(node.domain, m.Unrolled):
        return len(range(node.domain.begin, node.domain.end, node.domain.step or 1))
    return 1


def _parts(node: Any) -> Iterator[Any]:
    if isinstance(node, tuple):
        yield from node
    elif is_dataclass(node):
        yield from (getattr(node, f.name) for f in fields(node))
