"""This module computes affine forms of index expressions, and decides if two of them can be equal.

A form is `constant + sum of coefficient * symbol`. Symbols are loop indices, arguments (by name), shapes and, for
everything that is not affine, the value itself. Two forms over the same symbols differ by a known distance if the rest
cancels.

Only i32 and i64 arithmetic is affine. Forms of i32 are taken modulo 2^32, which still distinguishes elements, because
no axis has 2^31 of them. Narrow and unsigned numbers may wrap while the indices are still inside the array, so they are
not affine.

A remainder of an expression that a launch fixes (`t % 2`) is also a symbol, which keeps the form it is the remainder
of. Hence `x[t % 2]` and `x[(t + 1) % 2]` are known to differ: t and t + 1 differ modulo 2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..ir import nodes as n
from ..ir.cached import cached_property
from ..ir.kernels import Task
from ..ir.statement import Stmt, Value
from ..ir.types import i32, i64
from ..ir.walk import RESULTS, operands, walk_task


@dataclass(frozen=True)
class RemainderSymbol:
    """Represent the remainder of an affine form by a constant, which counts as a symbol in another affine form.

    Attributes:
        form: the affine form that is divided; a launch fixes all of its symbols.
        modulus: constant divisor, at least 2.
    """

    form: Affine
    modulus: int


@dataclass(frozen=True)
class UniqueClaim:
    """Represent the claim `sg.assume_unique`: no two iterations have the same values of all indices of a group.

    Attributes:
        group: number of the group of indices that the program claims together.
    """

    group: int


Symbol = Value | tuple[str, str] | tuple[str, str, int] | RemainderSymbol


@dataclass(frozen=True)
class Affine:
    """Represent the affine form constant + sum(coefficient * symbol) of an integer.

    Attributes:
        constant: constant term.
        terms: pairs of symbol and coefficient, in a fixed order; no coefficient is zero.
    """

    constant: int
    terms: tuple[tuple[Symbol, int], ...] = ()

    def coefficient(self, symbol: Symbol) -> int:
        """Return the coefficient of a symbol in this affine form; 0 if the form does not contain the symbol."""
        return dict(self.terms).get(symbol, 0)

    def symbols(self) -> frozenset[Symbol]:
        """Return the set of symbols that occur in this affine form."""
        return frozenset(s for s, _ in self.terms)

    def without(self, symbols: frozenset[Symbol]) -> Affine:
        """Return this affine form without the terms of the given symbols."""
        return Affine(self.constant, tuple((s, c) for s, c in self.terms if s not in symbols))


def surely_differ(a: Affine, b: Affine) -> bool:
    """Return True if two affine forms surely differ, by a constant or modulo a common modulus."""
    difference = subtract(a, b)
    # A value may differ between iterations, so only symbols that a launch fixes can prove a difference.
    if any(isinstance(s, Value) for s in difference.symbols()):
        return False
    if not difference.terms:
        return difference.constant != 0
    moduli = {s.modulus for s in difference.symbols() if isinstance(s, RemainderSymbol)}
    return any(_nonzero_modulo(difference, m) for m in moduli)


def _nonzero_modulo(form: Affine, modulus: int) -> bool:
    """Return True if an affine form is surely not a multiple of the modulus.

    A remainder modulo m counts as its form, because r · (f mod m) equals r · f modulo m.
    """
    total = Affine(form.constant)
    for symbol, c in form.terms:
        inner = isinstance(symbol, RemainderSymbol) and symbol.modulus == modulus
        total = _combine(total, symbol.form if inner else Affine(0, ((symbol, 1),)), c)  # type: ignore[union-attr]
    return all(c % modulus == 0 for _, c in total.terms) and total.constant % modulus != 0


def _combine(a: Affine, b: Affine, scale: int) -> Affine:
    """Return the affine form a + scale * b, with terms in a fixed order so that equal forms compare equal."""
    terms = dict(a.terms)
    for symbol, c in b.terms:
        terms[symbol] = terms.get(symbol, 0) + scale * c
    # The order of the terms is fixed so that equal forms compare equal; zero coefficients cancel.
    kept = tuple(sorted(((s, c) for s, c in terms.items() if c), key=lambda t: repr(t[0])))
    return Affine(a.constant + scale * b.constant, kept)


def add(a: Affine, b: Affine, scale: int = 1) -> Affine:
    """Return the affine form a + scale * b."""
    return _combine(a, b, scale)


def subtract(a: Affine, b: Affine) -> Affine:
    """Return the affine form a - b."""
    return _combine(a, b, -1)


class IndexForms:
    """Compute the affine forms of the values of one task on demand."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._forms: dict[Value, Affine] = {}

    @cached_property
    def made(self) -> dict[Value, Stmt]:
        """Return a mapping from each value of the task to the statement that defines it.

        The table is built when the first form is asked for, because often no form is needed.
        """
        return {v: s for s in walk_task(self._task) for v in RESULTS[type(s)](s)}

    @cached_property
    def _claims(self) -> dict[Value, UniqueClaim]:
        """Return a mapping from each result of a `unique` statement to its claim."""
        groups = {v: s.args[1] for v, s in self.made.items() if isinstance(s, n.Op) and s.op == "unique"}
        numbers = {v: self.made.get(group) for v, group in groups.items()}
        return {v: UniqueClaim(int(s.value)) for v, s in numbers.items() if isinstance(s, n.Const)}

    def claim(self, value: Value) -> UniqueClaim | None:
        """Return the claim that the program makes about a value with `unique`, or None if it makes none."""
        return self._claims.get(value)

    def parts(self, group: int) -> set[Value]:
        """Return the values that make up the index tuple `group`, which is claimed to be unique."""
        return {v for v, claim in self._claims.items() if claim.group == group}

    def form(self, value: Value) -> Affine:
        """Return the affine form of an integer value; a value that is not affine is a symbol of its own."""
        pending = [] if value in self._forms else [value]
        # Operands come first, without recursion: chains of sums may be longer than Python's stack.
        while pending:
            stmt = self.made.get(pending[-1])
            inputs = operands(stmt) if isinstance(stmt, (n.Op, n.Cast, n.Within)) else ()
            missing = [v for v in inputs if v not in self._forms]
            if not missing:
                self._forms[pending[-1]] = self._find(pending[-1])
                pending.pop()
            pending += missing
        return self._forms[value]

    def _find(self, value: Value) -> Affine:
        stmt = self.made.get(value)
        if isinstance(stmt, n.Const) and not value.type.is_real:
            return Affine(int(stmt.value))
        if isinstance(stmt, n.Arg):
            return Affine(0, ((("arg", stmt.name), 1),))
        if isinstance(stmt, n.Shape):
            return Affine(0, ((("shape", stmt.array, stmt.axis), 1),))
        if isinstance(stmt, n.Cast) and _keeps_value(stmt):
            return self.form(stmt.arg)
        if isinstance(stmt, n.Within):
            return self.form(stmt.index)
        if isinstance(stmt, n.Op):
            found = self._op(stmt)
            if found:
                return found
        return Affine(0, ((value, 1),))

    def _op(self, stmt: n.Op) -> Affine | None:
        if stmt.result.type not in (i32, i64):
            return None
        found = self._arithmetic(stmt)
        return _modulo(found) if found and stmt.result.type == i32 else found

    def _arithmetic(self, stmt: n.Op) -> Affine | None:
        if stmt.op in ("add", "sub"):
            return _combine(self.form(stmt.args[0]), self.form(stmt.args[1]), 1 if stmt.op == "add" else -1)
        if stmt.op == "neg":
            return _combine(Affine(0), self.form(stmt.args[0]), -1)
        if stmt.op == "mul":
            a, b = (self.form(v) for v in stmt.args)
            # A product is affine only if one factor is constant.
            if not a.terms:
                return _combine(Affine(0), b, a.constant)
            if not b.terms:
                return _combine(Affine(0), a, b.constant)
        return self._remainder(stmt)

    def _remainder(self, stmt: n.Op) -> Affine | None:
        """Return the affine form of `a mod m`, or of `a and 2^k - 1`, if `a` is constant in a launch, else None."""
        if stmt.op not in ("mod", "bit_and"):
            return None
        a, m = (self.form(v) for v in stmt.args)
        modulus = m.constant + (stmt.op == "bit_and")
        if m.terms or modulus < 2 or any(isinstance(s, Value) for s in a.symbols()):
            return None
        # Only a mask of the form 2^k - 1 computes a remainder.
        if stmt.op == "bit_and" and modulus & m.constant:
            return None
        return Affine(0, ((RemainderSymbol(a, modulus), 1),))


def _modulo(form: Affine) -> Affine:
    """Return an affine form with all its numbers reduced modulo 2^32 into the range of i32."""
    small = [(s, (c + 2**31) % 2**32 - 2**31) for s, c in form.terms]
    return Affine((form.constant + 2**31) % 2**32 - 2**31, tuple((s, c) for s, c in small if c))


def _keeps_value(cast: n.Cast) -> bool:
    """Return True if a cast between integer types never changes the number."""
    source, target = cast.arg.type, cast.result.type
    # A negative number has no counterpart in an unsigned type.
    if not (source.is_int and target.is_int) or source.is_signed and not target.is_signed:
        return False
    return target.bits - target.is_signed >= source.bits - source.is_signed


def extents(task: Task) -> tuple[tuple[Affine, Affine], ...]:
    """Return the begin and the end of each axis of the box of a parallel task."""
    # The values of the box are made in the bounds. The body, which may be large, is not walked: analyses of pairs of
    # accesses ask for the box once for each pair.
    forms = IndexForms(replace(task, body=()))
    return tuple((forms.form(b), forms.form(e)) for b, e in zip(task.begin, task.end))


def single_iteration(task: Task) -> bool:
    """Return True if the box of the task is known to have at most one point."""
    return all(not e.terms and not b.terms and e.constant - b.constant <= 1 for b, e in extents(task))


def same_indices(a: tuple[Affine, ...], b: tuple[Affine, ...]) -> bool:
    """Return True if two index tuples are equal in each iteration: all their affine forms are equal."""
    return len(a) == len(b) and all(x == y for x, y in zip(a, b))


def _tells_apart(coefficient: int, symbol: Value, task: Task) -> bool:
    """Return True if coefficient * symbol, with wrapping, differs for any two iterations with different symbols.

    In 32 bits, 2^k times i repeats after 2^(32 - k) values of i. For k <= 4 this is neglected: an index that wraps so
    late is assumed to be outside its array before.
    """
    # The exponent of the largest power of two that divides the coefficient.
    repeats = (coefficient & -coefficient).bit_length() - 1
    if repeats <= 4:
        return True
    if symbol not in task.indices:
        return False
    begin, end = extents(task)[task.indices.index(symbol)]
    return not begin.terms and not end.terms and end.constant - begin.constant <= 2 ** (32 - repeats)


def is_own(indices: tuple[Affine, ...], task: Task, forms: IndexForms | None = None) -> bool:
    """Return True if different iterations of a parallel task surely have different index tuples.

    That holds if every axis of the box is the only varying symbol of some index: (i, 3, j + 1) is own in a box over (i,
    j). It also holds if the indices contain all parts of a tuple that the program claims to be unique.

    Args:
        indices: forms of the indices of one access.
        task: the parallel task.
        forms: forms of the task, which know its claims; None to ignore claims.
    """
    alone: set[Value] = set()
    for index in indices:
        # Arguments and shapes have one value in all iterations and cannot distinguish them.
        varying = [s for s in index.symbols() if isinstance(s, Value)]
        if len(varying) == 1 and _tells_apart(index.coefficient(varying[0]), varying[0], task):
            alone.add(varying[0])
    if set(task.indices) <= alone:
        return True
    if forms is None:
        return False
    groups = {c.group for v in alone if (c := forms.claim(v)) is not None}
    return any(forms.parts(group) <= alone for group in groups)
