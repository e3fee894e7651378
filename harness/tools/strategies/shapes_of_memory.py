"""This module defines predicates on how a program stores its numbers: in structs, views, offset fields or atomics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ..model import nodes as m
from ..model.walk import locals_of, walk
from .facts import LOOPS, ProgramFacts


def _targets(nodes: Iterable[object]) -> Iterator[m.Expr]:
    for n in nodes:
        if isinstance(n, m.Assign):
            yield from n.targets
        elif isinstance(n, m.Augment):
            yield n.target


def _member(place: m.Expr) -> bool:
    return any(isinstance(n, m.Member) for n in walk(place))


def _member_in_loop(f: ProgramFacts) -> bool:
    """Return True if a serial loop assigns a member of a local struct."""
    changed = [t for s, _ in f.serial for t in _targets(walk(s))]
    return any(isinstance(m.root(t), m.Name) and _member(t) for t in changed)


def _whole_struct(f: ProgramFacts) -> bool:
    """Return True if a loop assigns a whole struct, or if an assignment copies a whole field element of structs."""
    structs = {field.owner for field in f.program.fields if field.struct}
    made = [n for s, _ in f.serial for n in walk(s) if isinstance(n, m.Assign) and isinstance(n.values[0], m.Make)]
    wholes = [e for n in f.nodes if isinstance(n, m.Assign) for e in (*n.targets, *n.values)]
    return bool(made) or any(isinstance(e, m.Element) and e.field in structs for e in wholes)


def _functions(f: ProgramFacts) -> bool:
    """Return True if a struct is passed to a function."""
    return any(isinstance(n, m.Invoke) and any(isinstance(a, m.Make) for a in n.args) for n in f.nodes)


def _strides(f: ProgramFacts) -> bool:
    return any(isinstance(n, m.Range) and n.stride for n in f.nodes)


def _several_views(f: ProgramFacts) -> bool:
    return any(len(field.views) > 1 for field in f.program.fields)


def _kind(*ops: str) -> Callable[[ProgramFacts], bool]:
    return lambda f: any(isinstance(n, m.AtomicCall) and n.op in ops for n in f.nodes)


def _returned(f: ProgramFacts) -> bool:
    """Return True if the old value that an atomic returns is used."""
    dropped = {id(n.value) for n in f.nodes if isinstance(n, m.Evaluate)}
    return any(isinstance(n, m.AtomicCall) and id(n) not in dropped for n in f.nodes)


def _indexed(f: ProgramFacts) -> set[str]:
    """Return the names of local vectors that are indexed by a value known only at launch."""
    found = [n for n in f.nodes if isinstance(n, m.Part) and isinstance(n.base, m.Name)]
    return {n.base.name for n in found if not all(isinstance(k, m.Number) for k in n.indices)}  # type: ignore[attr-defined]


def _array_of_a_loop(f: ProgramFacts) -> bool:
    """Return True if a serial loop initializes a local array in each of its trips."""
    made = [n for s, _ in f.serial for n in walk(s) if isinstance(n, m.Assign) and n.targets[0] in _names(_indexed(f))]
    return any(isinstance(n.values[0], (m.Filled, m.Vector)) for n in made)


def _bodies(f: ProgramFacts) -> Iterator[m.StmtBlock]:
    """Return the body of each serial loop of the program."""
    return (s.body for s, _ in f.serial if isinstance(s, LOOPS))


def _read_in_its_iteration(f: ProgramFacts) -> bool:
    """Return True if a loop body initializes a local array, stores to it in an inner loop, and then reads it."""
    arrays = _indexed(f)
    for body in _bodies(f):
        made = {
            n.targets[0].name
            for n in body
            if isinstance(n, m.Assign)
            and isinstance(n.targets[0], m.Name)
            and isinstance(n.values[0], (m.Filled, m.Vector))
        } & arrays
        stored = {
            r.name
            for n in body
            if isinstance(n, m.For)
            for t in _targets(walk(n))
            if isinstance(t, m.Part) and isinstance(r := m.root(t), m.Name)
        }
        read = {
            r.name
            for n in body
            if isinstance(n, m.Assign)
            for v in n.values
            for p in walk(v)
            if isinstance(p, m.Part) and isinstance(r := m.root(p), m.Name)
        }
        if made & stored & read:
            return True
    return False


def _started(f: ProgramFacts) -> bool:
    """Return True if a loop body sets a local to zero and then changes it in an inner loop or branch."""
    zero = (m.Number(0.0),)
    for body in _bodies(f):
        names = {n.targets[0] for n in body if isinstance(n, m.Assign) and n.values == zero}
        inner = [t for n in body if isinstance(n, (m.For, m.If)) for t in _targets(walk(n))]
        if names.intersection(inner):
            return True
    return False


def _extreme_of_one_side(f: ProgramFacts) -> bool:
    """Return True if a minimum is taken of positive values or a maximum of negative values.

    The extreme lies in memory or in a local of the kernel.
    """
    calls = [(n.op, n.value) for n in f.nodes if isinstance(n, m.AtomicCall)]
    for n in f.nodes:
        if isinstance(n, m.Assign) and isinstance(last := n.values[0], m.Call) and last.args[:1] == n.targets:
            calls.append((last.function, last.args[-1]))
    return any(op in ("min", "max") and _is_beyond_zero(op, value) for op, value in calls)


def _is_beyond_zero(kind: str, value: m.Expr) -> bool:
    if kind == "max":
        return isinstance(value, m.Unary) and value.op == "-" and _is_beyond_zero("min", value.arg)
    return isinstance(value, m.Call) and value.function == "abs"


def _names(names: Iterable[str]) -> set[m.Expr]:
    return {m.Name(name) for name in names}


def _whole_numbers(f: ProgramFacts) -> bool:
    """Return True if a program has a local array of integers."""
    return any(isinstance(n, (m.Filled, m.Vector)) and n.dtype is not None and n.dtype.is_int for n in f.nodes)


def _made(f: ProgramFacts) -> Iterator[set[str]]:
    """Yield the set of local names of the kernel, then that of each function."""
    kernel = f.program.kernel
    return map(locals_of, (kernel.body, *(function.body for function in kernel.functions)))


def _named_like_fields(f: ProgramFacts) -> bool:
    fields = {name for field in f.program.fields for name in field.names}
    return any(not made.isdisjoint(fields) for made in _made(f))


def _named_like_functions(f: ProgramFacts) -> bool:
    functions = {function.name for function in f.program.kernel.functions}
    return any(not made.isdisjoint(functions) for made in _made(f))


MEMORY_SHAPES: dict[str, Callable[[ProgramFacts], bool]] = {
    "struct": lambda f: f.has(m.Make),
    "struct changed in a loop": _member_in_loop,
    "struct in a struct": lambda f: any(p.struct for kind in f.program.structs for p in kind.members),
    "vector in a struct": lambda f: any(p.shape for kind in f.program.structs for p in kind.members),
    "struct as a whole": _whole_struct,
    "struct given to a function": _functions,
    "field of structs": lambda f: any(field.struct for field in f.program.fields),
    "field with an offset": lambda f: any(field.offset for field in f.program.fields),
    "negative first index": lambda f: any(min(field.offset, default=0) < 0 for field in f.program.fields),
    "view": lambda f: any(field.views for field in f.program.fields),
    "views of one array": _several_views,
    "step of the launch": _strides,
    "atomic exchange": _kind("exchange"),
    "atomic cas": _kind("cas"),
    "value of an atomic": _returned,
    "local array": lambda f: bool(_indexed(f)),
    "local array of a loop": _array_of_a_loop,
    "local array read in its iteration": _read_in_its_iteration,
    "local array of integers": _whole_numbers,
    "local started in an iteration": _started,
    "extreme of one side": _extreme_of_one_side,
    "local named like a field": _named_like_fields,
    "local named like a function": _named_like_functions,
}
"""Predicates by the name of their property, as in SHAPES."""
