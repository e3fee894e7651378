"""This module defines properties of programs as predicates, and measures how many drawn programs have each.

A predicate looks only at the program and not at how it was drawn, so it also judges a corpus or a reduced program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ....compiler.ir.types import f16, f32, f64, i64
from ..model import nodes as m
from ..model.single_loops import is_single
from ..model.walk import walk
from .facts import LOOPS, ProgramFacts
from .shapes_of_memory import MEMORY_SHAPES


def _bounds(s: m.Stmt) -> list[m.Expr]:
    """Return the expressions that decide the trip count of a loop: bounds of ranges, or the condition of a `while`."""
    if isinstance(s, m.While):
        return [s.condition]
    domain = s.domain if isinstance(s, m.For) else None
    if isinstance(domain, m.Range):
        return [e for e in (domain.begin, domain.end) if e is not None]
    return [e for axis in domain.axes for e in axis if e is not None] if isinstance(domain, m.Box) else []


def _siblings(f: ProgramFacts) -> bool:
    """Return True if a block contains two serial loops one after the other."""
    blocks = [b for s, _ in f.placed for b in _blocks_of(s)] + [g.body for g in f.program.kernel.functions]
    return any(sum(isinstance(s, LOOPS) for s in block) > 1 for block in blocks)


def _blocks_of(s: m.Stmt) -> list[m.StmtBlock]:
    if isinstance(s, m.If):
        return [s.then, s.orelse]
    return [s.body] if isinstance(s, LOOPS) else []


def _triangular(f: ProgramFacts) -> bool:
    for s, outer in f.placed:
        indices = {name for o in outer if isinstance(o, m.For) for name in o.indices}
        if isinstance(s, m.For) and any(isinstance(n, m.Name) and n.name in indices for n in walk(tuple(_bounds(s)))):
            return True
    return False


def _data_dependent(f: ProgramFacts) -> bool:
    return any(isinstance(n, m.Element) for s, _ in f.serial for n in walk(tuple(_bounds(s))))


def _nested_break(f: ProgramFacts) -> bool:
    """Return True if a `break` is inside of two nested branches of its loop."""
    return any(isinstance(s, m.Break) and [type(o) for o in outer[-2:]] == [m.If, m.If] for s, outer in f.placed)


def _deep_branches(f: ProgramFacts) -> bool:
    """Return True if a statement lies inside more than ten `if`s; an `elif` counts as nested in the one before it."""
    return any(sum(isinstance(o, m.If) for o in outer) > 10 for _, outer in f.placed)


def _early_return(f: ProgramFacts) -> bool:
    return any(isinstance(s, m.Return) and outer for body in f.functions for s, outer in body)


def _value_before_loop(f: ProgramFacts) -> bool:
    """Return True if a serial loop reads but does not assign a local that was computed before the loop."""
    made = {t.name for n in f.nodes if isinstance(n, m.Assign) for t in n.targets if isinstance(t, m.Name)}
    for s, _ in f.serial:
        inside = list(walk(s))
        changed = {t.name for n in inside if isinstance(n, m.Assign) for t in n.targets if isinstance(t, m.Name)}
        changed |= {n.target.name for n in inside if isinstance(n, m.Augment) and isinstance(n.target, m.Name)}
        if any(isinstance(n, m.Name) and n.name in made - changed for n in inside):
            return True
    return False


def _in_place(f: ProgramFacts) -> bool:
    """Return True if a statement computes an element from its old value, or updates it at the iteration's own index."""
    lanes = {name for t in f.tasks for name in t.indices}
    stores = [s for s in f.nodes if isinstance(s, m.Assign) and isinstance(s.targets[0], m.Element)]
    if any(n == s.targets[0] for s in stores for n in walk(s.values)):
        return True
    updated = [s.target for s in f.nodes if isinstance(s, m.Augment) and isinstance(s.target, m.Element)]
    return any(e.indices and all(isinstance(i, m.Name) and i.name in lanes for i in e.indices) for e in updated)


def _gather(f: ProgramFacts) -> bool:
    return f.repeated("c") and any(isinstance(n, m.Element) and _through_c(n) for n in f.nodes)


def _through_c(e: m.Element) -> bool:
    return any(isinstance(i, m.Element) and i.field == "c" for i in e.indices)


def _scatter(f: ProgramFacts) -> bool:
    """Return True if several iterations update the same element by atomics."""
    lanes = max((len(c) for name, c in f.contents.items() if name in "xyod"), default=0)
    return lanes > 1 and any((f.repeated("c") if _through_c(e) else _constant(e)) for e in f.atomics)


def _constant(e: m.Element) -> bool:
    return all(isinstance(i, m.Number) for i in e.indices)


def _reduction(f: ProgramFacts) -> bool:
    """Return True if a parallel loop updates a local that is assigned outside of the loop."""
    outside = {
        t.name for s in f.program.kernel.body if isinstance(s, m.Assign) for t in s.targets if isinstance(t, m.Name)
    }
    return any(
        isinstance(n, m.Augment)
        and isinstance(n.target, m.Name)
        and n.target.name in outside
        or isinstance(n, m.Assign)
        and isinstance(n.targets[0], m.Name)
        and n.targets[0].name in outside
        for task in f.tasks
        for n in walk(task.body)
    )


def _zero_trips(f: ProgramFacts) -> bool:
    """Return True if the program has a loop over a constant range that makes no trip."""
    for n in f.nodes:
        if isinstance(n, m.Range) and isinstance(n.end, m.Number) and isinstance(n.begin or m.Number(0), m.Number):
            begin = n.begin.value if isinstance(n.begin, m.Number) else 0
            if len(range(int(begin), int(n.end.value), n.step)) == 0:
                return True
    return False


def _swap(f: ProgramFacts) -> bool:
    return any(isinstance(n, m.Assign) and len(n.values) == 2 and n.targets == n.values[::-1] for n in f.nodes)


def _gated(f: ProgramFacts) -> bool:
    """Return True if a serial loop is inside of a branch."""
    return any(isinstance(s, LOOPS) and any(isinstance(o, m.If) for o in outer) for s, outer in f.placed)


def _recurrence(f: ProgramFacts) -> bool:
    """Return True if a loop assigns to a local a value computed from its old value."""
    for s, _ in f.serial:
        for n in walk(s):
            if isinstance(n, m.Assign) and isinstance(n.targets[0], m.Name):
                calls = [c for v in n.values for c in walk(v) if isinstance(c, m.Call)]
                if any(n.targets[0] in list(walk(c)) for c in calls):
                    return True
    return False


def _of_type(*types: object) -> Callable[[ProgramFacts], bool]:
    return lambda f: any(field.dtype in types for field in f.program.fields)


def _node(*classes: type) -> Callable[[ProgramFacts], bool]:
    return lambda f: f.has(*classes)


def _assigned(nodes: Iterable[object]) -> Iterator[m.Expr]:
    for n in nodes:
        if isinstance(n, m.Assign):
            yield from n.targets
        elif isinstance(n, m.Augment):
            yield n.target


def _vector_names(nodes: Iterable[object]) -> set[str]:
    """Return the names that are indexed or sliced like vectors, or whose methods are called."""
    parts = (m.root(n.base) for n in nodes if isinstance(n, (m.Part, m.Swizzle, m.Slice, m.Method)))
    return {base.name for base in parts if isinstance(base, m.Name)}


def _vector_in_loop(f: ProgramFacts) -> bool:
    """Return True if a serial loop changes a vector, as a whole or in part."""
    names = _vector_names(f.nodes)
    changed = {m.root(target) for s, _ in f.serial for target in _assigned(walk(s))}
    return any(isinstance(place, m.Name) and place.name in names for place in changed)


def _vector_function(f: ProgramFacts) -> bool:
    """Return True if a function takes or returns a vector."""
    functions = f.program.kernel.functions
    return any(g.shape or {p.name for p in g.params} & _vector_names(walk(g.body)) for g in functions)


def _vector_atomics(f: ProgramFacts) -> bool:
    elements = {field.name for field in f.program.fields if field.element}
    return any(isinstance(n, m.Augment) and _field(n.target) in elements for n in f.nodes)


def _field(place: m.Expr) -> str:
    found = m.root(place)
    return found.field if isinstance(found, m.Element) else ""


def _index_vector(f: ProgramFacts) -> bool:
    ranks = {name: len(field.shape) for field in f.program.fields for name in field.names}
    loops = [n for n in f.nodes if isinstance(n, m.For) and len(n.indices) == 1]
    return any(
        isinstance(s.domain, m.Grouped) or isinstance(s.domain, m.Over) and ranks[s.domain.field] > 1 for s in loops
    )


def _permuted(f: ProgramFacts) -> bool:
    """Return True if a store uses a permuted index: input data, or a multiple of the lane modulo the extent."""
    elements = [e for e in _assigned(f.nodes) if isinstance(e, m.Element) and e.field in ("y", "o")]
    names = {
        t.name
        for s in f.nodes
        if isinstance(s, m.Assign) and _permutes(s.values[0])
        for t in s.targets
        if isinstance(t, m.Name)
    }
    places = [e.indices[0] for e in elements if len(e.indices) == 1]
    return any(_permutes(p) or isinstance(p, m.Name) and p.name in names for p in places)


def _permutes(e: m.Expr) -> bool:
    if isinstance(e, m.Call) and e.function == "assume_unique":
        return True
    return isinstance(e, m.Element) and e.field == "t" or isinstance(e, m.Binary) and e.op == "%"


def _multiplies(f: ProgramFacts) -> bool:
    return any(isinstance(n, m.Binary) and n.op == "@" for n in f.nodes)


def _matrices(f: ProgramFacts) -> bool:
    """Return True if anything in the program is a matrix; without one, every `@` is a dot product of vectors."""
    if any(len(field.element) == 2 for field in f.program.fields) or f.has(m.Matrix):
        return True
    outer = any(isinstance(n, m.Method) and n.name == "outer_product" for n in f.nodes)
    return outer or any(isinstance(n, m.Filled) and len(n.shape) == 2 for n in f.nodes)


def _calls(*names: str) -> Callable[[ProgramFacts], bool]:
    return lambda f: any(isinstance(n, (m.Call, m.Method)) and _called(n).startswith(names) for n in f.nodes)


def _called(n: m.Call | m.Method) -> str:
    return n.function if isinstance(n, m.Call) else n.name


SHAPES: dict[str, Callable[[ProgramFacts], bool]] = {
    "sibling loops": _siblings,
    "triangular loop": _triangular,
    "data-dependent loop": _data_dependent,
    "nest of depth 2": lambda f: f.depth >= 2,
    "nest of depth 3": lambda f: f.depth >= 3,
    "gated loop": _gated,
    "while": _node(m.While),
    "negative step": lambda f: any(isinstance(n, m.Range) and n.step < 0 for n in f.nodes),
    "reversed range": lambda f: any(isinstance(n, m.Range) and n.reverse for n in f.nodes),
    "zero-trip loop": _zero_trips,
    "deep branches": _deep_branches,
    "unrolled loop": _node(m.Unrolled),
    "several axes": lambda f: any(isinstance(n, m.For) and len(n.indices) > 1 for n in f.nodes),
    "loop over a field without axes": lambda f: any(
        isinstance(n, m.For) and is_single(f.program, n.domain) for n in f.nodes
    ),
    "break in nested if": _nested_break,
    "break": _node(m.Break),
    "continue": _node(m.Continue),
    "return of the kernel": lambda f: any(isinstance(s, m.Return) for s, _ in f.kernel),
    "early return in a function": _early_return,
    "function without decorator": lambda f: any(not g.decorated for g in f.program.kernel.functions),
    "recurrence": _recurrence,
    "value before a loop, used in it": _value_before_loop,
    "own element in place": _in_place,
    "gather with duplicates": _gather,
    "scatter with duplicates": _scatter,
    "atomic min or max": lambda f: any(isinstance(n, m.AtomicCall) and n.op in ("min", "max") for n in f.nodes),
    "no lanes": lambda f: any(0 in field.shape for field in f.program.fields),
    "several tasks": lambda f: len(f.tasks) > 1,
    "reduction into a local of the kernel": _reduction,
    "serial loop of the kernel": lambda f: any(isinstance(n, m.For) and n.serialize for n in f.nodes),
    "swap": _swap,
    "ternary": _node(m.Choice),
    "short circuit": _node(m.Logic),
    "chained comparison": lambda f: any(isinstance(n, m.Compare) and len(n.ops) > 1 for n in f.nodes),
    "cast": _node(m.Cast),
    "walrus": _node(m.Walrus),
    "argument": lambda f: bool(f.program.arguments),
    "boolean local": lambda f: any(
        isinstance(n, m.Assign) and isinstance(n.values[0], m.Cast) and n.values[0].spelling == "bool" for n in f.nodes
    ),
    "vectors": _node(m.Vector, m.Matrix, m.Comprehension, m.Part, m.Method),
    "field of vectors": lambda f: any(field.element for field in f.program.fields),
    "matrix": lambda f: _multiplies(f) and _matrices(f),
    "vector @ vector": lambda f: _multiplies(f) and not _matrices(f),
    "vector changed in a loop": _vector_in_loop,
    "entry at a dynamic index": lambda f: any(
        isinstance(n, m.Part) and not all(isinstance(i, m.Number) for i in n.indices) for n in f.nodes
    ),
    "part of a vector assigned": lambda f: any(isinstance(e, (m.Part, m.Swizzle, m.Slice)) for e in _assigned(f.nodes)),
    "swizzle or slice": _node(m.Swizzle, m.Slice),
    "norm": _calls("norm"),
    "product of vectors": _calls("dot", "cross", "outer"),
    "comprehension": _node(m.Comprehension),
    "function of vectors": _vector_function,
    "atomic on a vector": _vector_atomics,
    "index vector": _index_vector,
    "array argument": lambda f: any(field.argument for field in f.program.fields),
    "result of the kernel": lambda f: f.program.kernel.result is not None,
    "random number": _node(m.Random),
    "stop_grad": _calls("stop_grad"),
    "store through a permutation": _permuted,
    "claim of unique indices": _calls("assume_unique"),
    "function written in the language": _calls("math."),
    "i64": _of_type(i64),
    "f16": _of_type(f16),
    "f32": _of_type(f32),
    "f64": _of_type(f64),
    **MEMORY_SHAPES,
}
"""Every predicate by the name of its property."""


def shapes(program: m.Program) -> frozenset[str]:
    """Return the names of the properties that a program has."""
    facts = ProgramFacts(program)
    return frozenset(name for name, test in SHAPES.items() if test(facts))


def coverage(samples: Iterable[m.Program]) -> dict[str, float]:
    """Return, for each property, the share of the programs that have it."""
    found = [shapes(p) for p in samples]
    return {name: sum(name in s for s in found) / max(len(found), 1) for name in SHAPES}


def coverage_table(samples: Iterable[m.Program]) -> str:
    """Return the result of `coverage` as text, most frequent property first."""
    rates = sorted(coverage(samples).items(), key=lambda item: -item[1])
    return "\n".join(f"{rate:7.1%}  {name}" for name, rate in rates)
