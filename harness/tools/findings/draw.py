"""This module draws programs that a peer accepts: programs of the common generator in the language that peers share.

The gradient of a peer has rules of its own about the form of a kernel. A program that breaks them costs a launch and
decides nothing. So such a program is rewritten if it stays valid, and otherwise not drawn. What a program computes
remains random.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any

from ....compiler.ir.types import Scalar, f64
from ..model import Program
from ..model import nodes as m
from ..model.dialects import NotInDialect
from ..model.source import render_source
from ..model.tidy import tidy, without_views
from ..model.walk import nested_statements, rebuilt_program, walk, walk_program
from ..strategies.draw import RandomChooser
from .kernels import KernelsForPeers

STEPS = 1_000_003
"""Distance of the seeds that are tried for one program. It is prime, so that tries of neighboring seeds do not meet."""

IN_ARGUMENTS = 0.95
"""Share of programs whose memory is passed as arrays, which a peer fills without compiling anything."""

_EXITS = (m.While, m.Break, m.Continue)
"""Statements that no peer differentiates."""

_WITHOUT_RULE = frozenset(
    {
        "round",
        "sgn",
        "inv",
        "rcp",
        "popcnt",
        "clz",
        "ffs",
        "frexp",
        "bit_not",
        "isnan",
        "isinf",
        "stop_grad",
        "assume_unique",
        "volatile_load",
    }
)
"""Functions that peers do not have, or for which they have no derivative."""


def sample_for_peers(seed: int, peers: Iterable[str]) -> Program:
    """Return a program that these peers are expected to differentiate, the same for the same seed."""
    names = tuple(peers)
    tries = 0
    while True:
        draw = RandomChooser(f"peers {seed + tries * STEPS}")
        program = to_double(to_common_language(KernelsForPeers(draw).program()))
        if takes(program) and all(_said(program, name) for name in names):
            return with_arguments(program) if draw.boolean(IN_ARGUMENTS) else program
        tries += 1


def to_common_language(program: Program) -> Program:
    """Return the program without constructs that some peers lack: views, and loops that do not count up by one.

    Each loop is made to count up by 1, between the same ends, and each view becomes an array of its own.
    """
    made = tidy(rebuilt_program(program, _upward))
    for field in made.fields:
        if field.views:
            made = without_views(made, field)
    return made


def _upward(node: object) -> object:
    """Return a range that counts up by one between the ends of the given range; return any other node unchanged."""
    if not isinstance(node, m.Range) or (node.step == 1 and not node.reverse and not node.stride):
        return node
    begin = node.begin or m.Number(0)
    if node.step > 0:
        return m.Range(node.begin, node.end)
    return m.Range(_next(node.end), _next(begin))


def _next(e: m.Expr) -> m.Expr:
    if isinstance(e, m.Number):
        return m.Number(e.value + 1)
    return m.Binary("+", e, m.Number(1))


def takes(program: Program) -> bool:
    """Return True if the program uses only language constructs that peers can differentiate."""
    nodes = list(walk_program(program))
    if any(isinstance(n, (*_EXITS, m.Random, m.BitCast)) for n in nodes):
        return False
    called = {n.function for n in nodes if isinstance(n, m.Call)}
    if called & _WITHOUT_RULE or program.kernel.result is not None:
        return False
    grads = [f for f in program.fields if f.grad]
    lanes = all(0 not in f.storage for f in program.fields)
    whole = any(f.struct for f in program.fields)
    formed = _loops_alone(program) and _returns_last(program)
    return bool(grads) and lanes and not whole and formed and stores_once(program)


def stores_once(program: Program) -> bool:
    """Return True if no two statements of the program store to the same element, judged by its text alone.

    Peers demand that all changes of an element except the first be atomic, and promise nothing otherwise.
    """
    stored = [
        (t, outer)
        for s, outer in nested_statements(program.kernel.body)
        if isinstance(s, m.Assign)
        for t in s.targets
        if isinstance(m.root(t), m.Element)
    ]
    if len({t for t, _ in stored}) < len(stored):
        return False
    loops = [(t, s) for t, outer in stored for k, s in enumerate(outer) if isinstance(s, m.For) and (k or s.serialize)]
    return all(_names(t) & set(s.indices) for t, s in loops)


def _targets(node: object) -> tuple[m.Expr, ...]:
    """Return the target expressions of an assignment, update or atomic, or an empty tuple for other nodes."""
    if isinstance(node, m.Assign):
        return node.targets
    return (node.target,) if isinstance(node, (m.Augment, m.AtomicCall)) else ()


def _names(place: m.Expr) -> set[str]:
    return {n.name for n in walk(place) if isinstance(n, m.Name)}


def _loops_alone(program: Program) -> bool:
    """Return True if every statement at the top level of the kernel is a loop."""
    body = program.kernel.body
    if any(isinstance(n, m.Return) for n in body):
        return False
    loops = [s for s in body if isinstance(s, m.For)]
    if any(isinstance(s.domain, m.Unrolled) for s in loops):
        return False
    return len(loops) == len(body)


def _returns_last(program: Program) -> bool:
    """Return True if no function of the program has a `return` before its last statement."""
    for function in program.kernel.functions:
        returns = [n for n in walk_program(_alone(program, function)) if isinstance(n, m.Return)]
        if len(returns) > 1 or (returns and function.body[-1] is not returns[0]):
            return False
    return True


def _alone(program: Program, function: m.Function) -> Program:
    return replace(program, kernel=replace(program.kernel, body=function.body, functions=()))


def _said(program: Program, name: str) -> bool:
    try:
        render_source(program, name)
    except NotInDialect:
        return False
    return True


def to_double(program: Program) -> Program:
    """Return the program with f64 in place of all other real types."""
    made: Program = _in_double(program)
    return made


def _in_double(node: Any) -> Any:
    if isinstance(node, Scalar):
        return f64 if node.is_real else node
    if isinstance(node, tuple):
        return tuple(map(_in_double, node))
    if not is_dataclass(node) or isinstance(node, (m.Inputs, type)):
        return node
    return replace(node, **{f.name: _in_double(getattr(node, f.name)) for f in fields(node)})


def with_arguments(program: Program) -> Program:
    """Return the program with its fields passed to the kernel as array arguments, where peers accept that.

    Memory that functions use stays a field, and so do vectors of which single entries are changed, which peers do not
    accept as arguments. A single number becomes an array of one element.
    """
    inside = {
        n.field
        for f in program.kernel.functions
        for n in walk_program(_alone(program, f))
        if isinstance(n, (m.Element, m.Extent, m.Over))
    }
    given = {f.name for f in program.fields if f.name not in inside and not f.offset and not f.dtype.is_bool}
    given -= {
        r.field
        for n in walk_program(program)
        for t in _targets(n)
        if isinstance(r := m.root(t), m.Element) and r is not t
    }
    single = {f.name for f in program.fields if f.name in given and not f.shape}

    def placed(node: object) -> object:
        found = isinstance(node, m.Element) and node.field in single and not node.indices
        return m.Element(node.field, (m.Number(0),)) if found else node  # type: ignore[attr-defined]

    made = rebuilt_program(program, placed)
    kept = tuple(replace(f, argument=f.name in given, shape=(1,) if f.name in single else f.shape) for f in made.fields)
    return replace(made, fields=kept)
