"""This module holds TRAITS: predicates on a program, each naming a possible cause of a peer's wrong gradient.

The traits of a reduced program tell its family from other families. After reduction nothing is left that could be
removed without removing the failure, so each remaining trait takes part in it. Two programs with the same traits may
still fail for two reasons: families are rather too few than too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import lru_cache

from ..model import Program
from ..model import nodes as m
from ..model.walk import walk
from ..strategies.facts import LOOPS, ProgramFacts
from ..strategies.shapes import SHAPES

Predicate = Callable[[ProgramFacts], bool]


def _changed(stmt: m.Stmt) -> set[str]:
    """Return the names of the locals that a statement assigns."""
    names: set[str] = set()
    for n in walk(stmt):
        places = n.targets if isinstance(n, m.Assign) else (n.target,) if isinstance(n, m.Augment) else ()
        names |= {place.name for p in places if isinstance(place := m.root(p), m.Name)}
        names |= {n.name} if isinstance(n, (m.Declare, m.Walrus)) else set()
    return names


def _reads(node: object) -> Iterator[m.Expr | m.Stmt | m.Domain]:
    """Yield all nodes at and below a node whose values are read: all except the targets of assignments."""
    if isinstance(node, tuple):
        for item in node:
            yield from _reads(item)
    elif isinstance(node, m.Assign):
        yield from (n for target in node.targets for n in _inside(target))
        yield from _reads(node.values)
    elif isinstance(node, (m.Expr, m.Stmt, m.Domain)):
        yield node
        for f in fields(node):
            yield from _reads(getattr(node, f.name))


def _inside(place: m.Expr) -> Iterator[m.Expr | m.Stmt | m.Domain]:
    """Yield the nodes in the indices of an assignment's target, whose values are read."""
    if isinstance(place, (m.Element, m.Part)):
        yield from _reads(place.indices)
    if isinstance(place, (m.Part, m.Swizzle, m.Slice, m.Member)):
        yield from _inside(place.base)


def _read(node: object) -> set[str]:
    """Return the names that are read in a node."""
    return {n.name for n in _reads(node) if isinstance(n, m.Name)}


def _indices(f: ProgramFacts) -> set[str]:
    return {name for n in f.nodes if isinstance(n, m.For) for name in n.indices}


def _before_loop(f: ProgramFacts) -> bool:
    """Return True if a serial loop reads but does not assign a local that is assigned before the loop."""
    known = {name for s, _ in f.placed for name in _changed(s)} - _indices(f)
    return any((_read(s) & known) - _changed(s) for s, _ in f.serial)


def _carried(f: ProgramFacts) -> bool:
    """Return True if a serial loop computes a local from the value that the local had in the previous trip."""
    for s, _ in f.serial:
        for n in walk(s):
            if isinstance(n, m.Augment) and isinstance(m.root(n.target), m.Name):
                return True
            if isinstance(n, m.Assign):
                targets = {r.name for t in n.targets if isinstance(r := m.root(t), m.Name)}
                if targets & _read(n.values):
                    return True
    return False


def _passed_on(f: ProgramFacts) -> bool:
    """Return True if a serial loop reads a local before assigning it, and so reads the value of the previous trip."""
    return any(_read_first(s.body) for s, _ in f.serial if isinstance(s, m.For))


def _read_first(body: m.StmtBlock) -> bool:
    made: set[str] = set()
    later = [(_read(s), _changed(s)) for s in body]
    everything = set().union(*(c for _, c in later)) if later else set()
    for read, changed in later:
        if (read & everything) - made:
            return True
        made |= changed
    return False


def _branch_in_loop(f: ProgramFacts) -> bool:
    return any(isinstance(n, m.If) for s, _ in f.serial for n in walk(s))


def _atomic(*ops: str) -> Predicate:
    symbols = {"*": "mul"}

    def found(f: ProgramFacts) -> bool:
        calls = [n.op for n in f.nodes if isinstance(n, m.AtomicCall)]
        calls += [symbols.get(n.op, "") for n in f.nodes if isinstance(n, m.Augment) and _in_memory(n.target)]
        return any(op in calls for op in ops)

    return found


def _ranges(f: ProgramFacts) -> list[m.Range]:
    return [s.domain for s, _ in f.serial if isinstance(s, m.For) and isinstance(s.domain, m.Range)]


def _bound_by_difference(f: ProgramFacts) -> bool:
    """Return True if a serial loop ends at a difference whose right side is not a literal."""
    return any(
        isinstance(n, m.Binary) and n.op == "-" and not isinstance(n.right, m.Number)
        for d in _ranges(f)
        for n in walk(d.end)
    )


def _begins_elsewhere(f: ProgramFacts) -> bool:
    """Return True if a serial loop begins at a number other than zero."""
    return any(d.begin is not None and d.begin != m.Number(0) for d in _ranges(f))


def _serial_at_top(f: ProgramFacts) -> bool:
    return any(isinstance(s, m.For) and s.serialize for s, _ in f.serial)


def _in_memory(place: m.Expr) -> bool:
    return isinstance(m.root(place), m.Element)


def _stored_and_read(f: ProgramFacts) -> bool:
    """Return True if the kernel stores and reads elements of one array."""
    written = {
        r.field for n in f.nodes if isinstance(n, m.Assign) for t in n.targets if isinstance(r := m.root(t), m.Element)
    }
    return any(isinstance(n, m.Element) and n.field in written for n in _reads(f.program.kernel.body))


def _constant_stored(f: ProgramFacts) -> bool:
    """Return True if a literal is stored to an array element."""
    stores = [n for n in f.nodes if isinstance(n, m.Assign) and len(n.targets) == len(n.values)]
    return any(_in_memory(t) and isinstance(v, m.Number) for n in stores for t, v in zip(n.targets, n.values))


def _inner_assignment(f: ProgramFacts) -> bool:
    """Return True if a branch outside all serial loops assigns a local."""
    branches = [(s, outer) for s, outer in f.placed if isinstance(s, m.If)]
    return any(_changed(s) and all(o in f.tasks for o in outer if isinstance(o, LOOPS)) for s, outer in branches)


def _index_in_arithmetic(f: ProgramFacts) -> bool:
    """Return True if a computation uses the index of a serial loop as a number."""
    inner = {name for s, _ in f.serial if isinstance(s, m.For) for name in s.indices}
    used = [n for n in f.nodes if isinstance(n, (m.Cast, m.Binary, m.Call))]
    return any(isinstance(x, m.Name) and x.name in inner for n in used for x in _outside_places(n))


def _outside_places(node: object) -> Iterator[object]:
    """Yield the expressions at and below an expression, except those inside indices."""
    if isinstance(node, tuple):
        for item in node:
            yield from _outside_places(item)
    elif isinstance(node, m.Expr):
        yield node
        if not isinstance(node, (m.Element, m.Part)):
            for f in fields(node):
                yield from _outside_places(getattr(node, f.name))


def _dynamic_part(f: ProgramFacts) -> bool:
    """Return True if a local vector is indexed by a value that is known only at launch."""
    parts = [n for n in f.nodes if isinstance(n, m.Part) and not isinstance(m.root(n), m.Element)]
    return any(not all(isinstance(k, m.Number) for k in n.indices) for n in parts)


_VECTORS = (m.Vector, m.Matrix, m.Filled, m.Comprehension)


def _vectors(f: ProgramFacts) -> set[str]:
    """Return the names of locals that hold a vector or matrix at some time, and of arrays of vectors or matrices."""
    found = {field.name for field in f.program.fields if field.element}
    assigned = [n for n in f.nodes if isinstance(n, m.Assign) and len(n.targets) == len(n.values)]
    while True:
        # An assignment may pass a vector on, so names are added until none is new.
        more = {
            r.name
            for n in assigned
            for t, v in zip(n.targets, n.values)
            if isinstance(r := m.root(t), m.Name) and (r is not t or _is_vector(v, found))
        }
        if more <= found:
            return found
        found |= more


def _is_vector(value: m.Expr, known: set[str]) -> bool:
    """Return True if the value of an expression is a vector or matrix, and not a scalar that is computed from one."""
    if isinstance(value, (*_VECTORS, m.Swizzle, m.Slice)):
        return True
    if isinstance(value, (m.Name, m.Element)):
        return (value.name if isinstance(value, m.Name) else value.field) in known
    if isinstance(value, m.Method):
        return value.name in ("cross", "outer", "normalized", "transpose", "inverse") and _is_vector(value.base, known)
    operands = [value.arg] if isinstance(value, m.Unary) else []
    operands += [value.base] if isinstance(value, m.Convert) else []
    operands += [value.left, value.right] if isinstance(value, m.Binary) else []
    operands += [value.then, value.orelse] if isinstance(value, m.Choice) else []
    operands += [*value.args] if isinstance(value, m.Call) else []
    return any(_is_vector(operand, known) for operand in operands)


def _vector_carried(f: ProgramFacts) -> bool:
    """Return True if a serial loop changes a vector or matrix, as a whole or in part."""
    vectors = _vectors(f)
    return any(_changed(s) & vectors for s, _ in f.serial)


TRAITS: dict[str, Predicate] = {
    "a value from before a loop": _before_loop,
    "a value carried by a loop": _carried,
    "a value of the iteration before": _passed_on,
    "nested loops": SHAPES["nest of depth 2"],
    "a loop under a branch": SHAPES["gated loop"],
    "loops side by side": SHAPES["sibling loops"],
    "a bound by an outer index": SHAPES["triangular loop"],
    "a bound read from memory": SHAPES["data-dependent loop"],
    "a bound by a difference": _bound_by_difference,
    "a loop that begins elsewhere": _begins_elsewhere,
    "a serial loop at the top": _serial_at_top,
    "a branch in a loop": _branch_in_loop,
    "a branch that assigns": _inner_assignment,
    "an entry at a dynamic index": _dynamic_part,
    "a vector changed in a loop": _vector_carried,
    "an atomic min or max": _atomic("min", "max"),
    "an atomic product": _atomic("mul"),
    "the value of an atomic": SHAPES["value of an atomic"],
    "an element stored and read": _stored_and_read,
    "a constant stored": _constant_stored,
    "an unrolled loop": SHAPES["unrolled loop"],
    "an index in arithmetic": _index_in_arithmetic,
}
"""Predicates by the name of the trait, most telling first."""


@lru_cache(2048)
def traits(program: Program) -> frozenset[str]:
    """Return the names of a program's traits or, if it has none, those of its operations."""
    facts = ProgramFacts(program)
    found = frozenset(name for name, test in TRAITS.items() if test(facts))
    return found or frozenset(f"the derivative of {op}" for op in _operations(facts))


def _operations(f: ProgramFacts) -> Iterator[str]:
    for n in f.nodes:
        if isinstance(n, m.Call):
            yield n.function
        elif isinstance(n, (m.Binary, m.Unary)):
            yield n.op
        elif isinstance(n, (m.Cast, m.Choice, m.Logic, m.Method, m.Invoke)):
            yield type(n).__name__.lower()
