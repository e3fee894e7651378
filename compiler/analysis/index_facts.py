"""This module collects facts about the integers of a task, from ranges, loops, conditions and operations.

    i in b .. e: b <= i < e    if i > 0: i - 1 >= 0    r = a mod m, m >= 1: 0 <= r < m    s = min(a, b): s <= a, s <= b

A fact is taken from arithmetic only if that arithmetic cannot leave its type: the form of a value equals the value
modulo 2^bits, but a fact is about whole numbers.
"""

from __future__ import annotations

from ..ir import nodes as n
from ..ir.kernels import Task
from ..ir.statement import Value
from ..ir.types import i32, i64
from ..ir.walk import walk_task
from .affine import Affine, IndexForms, RemainderSymbol, Symbol, add
from .inequalities import EXTENT, WIDE_EXTENT, FactSet
from .interval_rules import operation_interval, rounded_interval
from .intervals import Interval, NumberInterval, meet, point, type_interval

ONE = Affine(1)
BranchPath = frozenset[tuple[Value, bool]]
"""A path is a set of conditions with the truth value that each has at a place."""


class ResolvedForms(IndexForms):
    """Compute affine forms in which a local that is set only once is replaced by the value set.

    Attributes:
        kept: for the result of a `get`, the affine form that was assigned to the local, and the conditions under which
            it was assigned.
    """

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.kept: dict[Value, tuple[Affine, BranchPath]] = {}

    def resolved(self, form: Affine, path: BranchPath) -> Affine:
        """Return the affine form with locals replaced by the values assigned to them under the same conditions."""
        for symbol, c in form.terms:
            known = self.kept.get(symbol) if isinstance(symbol, Value) else None
            if known is not None and known[1] <= path:
                without = Affine(form.constant, tuple(t for t in form.terms if t[0] != symbol))
                return self.resolved(add(without, known[0], c), path)
        return form


class IndexFacts(FactSet):
    """Hold the facts, such as ranges and inequalities, that are known about the integers of one task.

    Attributes:
        forms: forms of the values of the task.
        ends: begin and end of the index of each loop.
    """

    def __init__(self, task: Task) -> None:
        super().__init__(self._range, self._alternatives)
        self.forms = ResolvedForms(task)
        self.ends: dict[Value, tuple[Affine, Affine]] = {}
        self._wide = {
            ("shape", s.array, s.axis) for s in walk_task(task) if isinstance(s, n.Shape) and s.result.type.bits == 64
        }
        self._arguments = {s.name: type_interval(s.result.type) for s in walk_task(task) if isinstance(s, n.Arg)}
        self._known_ranges: dict[Symbol, NumberInterval] = {}

    def _range(self, symbol: Symbol) -> NumberInterval:
        """Return the interval of a symbol; intervals are computed once."""
        known = self._known_ranges.get(symbol)
        if known is None:
            known = self._known_ranges[symbol] = self._find_range(symbol)
        return known

    def _find_range(self, symbol: Symbol) -> NumberInterval:
        if isinstance(symbol, tuple):
            if symbol[0] != "shape":
                # An argument that the task does not read itself may have any integer type.
                return self._arguments.get(symbol[1], Interval(-(2**63), 2**64))
            return WIDE_EXTENT if symbol in self._wide else EXTENT
        if not isinstance(symbol, Value):
            return Interval(0, symbol.modulus - 1)
        if symbol in self.ends:
            return self._index_range(symbol, *self.ends[symbol])
        stmt = self.forms.made.get(symbol)
        if isinstance(stmt, n.Op) and stmt.result.type.is_int:
            return operation_interval(stmt, [self._operand_range(v) for v in stmt.args])
        return type_interval(symbol.type)

    def _index_range(self, index: Value, begin: Affine, end: Affine) -> NumberInterval:
        """Return the interval of a loop's index, which the loop's bounds narrow only if they cannot wrap."""
        found = type_interval(index.type)
        if self.is_faithful(begin, index):
            found = meet(found, Interval(self.least(begin), found.high))
        if self.is_faithful(end, index):
            found = meet(found, Interval(found.low, self.most(end) - 1))
        return found

    def _operand_range(self, value: Value) -> NumberInterval:
        """Return the interval of an operand: a constant, or all numbers of its type."""
        form = self.forms.form(value)
        return type_interval(value.type) if form.terms else rounded_interval(point(form.constant), value.type)

    def is_faithful(self, form: Affine, like: Value) -> bool:
        """Return True if an affine form never leaves the range of `like`'s type, so that none of its terms wraps."""
        low, high = type_interval(like.type)
        return low <= self.least(form) and self.most(form) <= high

    def _alternatives(self, symbol: Symbol) -> tuple[Affine, ...]:
        """Return the affine forms of the operands of a `select`, `min` or `max`, or () for any other symbol."""
        stmt = self.forms.made.get(symbol) if isinstance(symbol, Value) else None
        if not isinstance(stmt, n.Op) or stmt.op not in ("select", "min", "max") or not stmt.result.type.is_int:
            return ()
        forms = tuple(self.value(v) for v in stmt.args[-2:])
        return tuple(f for f in forms if f is not None) if None not in forms else ()

    def value(self, value: Value) -> Affine | None:
        """Return the affine form that equals a value as a whole number; None if computing the value may wrap."""
        form = self.forms.form(value)
        if form.terms == ((value, 1),):
            return form
        return form if self.is_exact(form, value) else None

    def bound(self, index: Value, begin: Affine, end: Affine, step: int) -> None:
        """Record the range of a loop index: begin <= index < end, or end < index <= begin for a negative step."""
        # A loop downward visits end + 1 to begin.
        low, high = (begin, end) if step > 0 else (add(end, ONE), add(begin, ONE))
        self.ends[index] = low, high
        here = Affine(0, ((index, 1),))
        if self.is_faithful(low, index):
            self.learn(add(here, low, -1))
        if self.is_faithful(high, index):
            self.learn(add(add(high, ONE, -1), here, -1))

    def assume(self, cond: Value, taken: bool) -> None:
        """Record the facts about integers that follow if a condition is true (`taken`) or false.

        Args:
            cond: the condition.
            taken: truth value of the condition at the current place.
        """
        stmt = self.forms.made.get(cond)
        if not isinstance(stmt, n.Op):
            return
        if stmt.op in ("logic_not", "bit_not"):
            self.assume(stmt.args[0], not taken)
        elif stmt.op == ("logical_and" if taken else "logical_or"):
            for arg in stmt.args:
                self.assume(arg, taken)
        elif stmt.op in _COMPARED and stmt.args[0].type.is_int:
            a, b = (self.value(v) for v in stmt.args)
            if a is not None and b is not None:
                for sign, slack in _COMPARED[stmt.op][taken]:
                    # The fact is difference - slack >= 0.
                    difference = add(b, a, -1) if sign > 0 else add(a, b, -1)
                    self.learn(Affine(difference.constant - slack, difference.terms))

    def operation(self, stmt: n.Op) -> None:
        """Record how the result of a remainder, minimum, maximum or quotient compares with its operands."""
        if stmt.op not in ("mod", "min", "max", "floordiv") or stmt.result.type not in (i32, i64):
            return
        here = Affine(0, ((stmt.result, 1),))
        if self.forms.form(stmt.result) != here:
            return
        a, b = (self.value(v) for v in stmt.args)
        if stmt.op == "mod" and b is not None and self.holds(add(b, ONE, -1)):
            self.learn(here)
            self.learn(add(add(b, ONE, -1), here, -1))
        elif stmt.op in ("min", "max"):
            for form in (a, b):
                if form is not None:
                    self.learn(add(form, here, -1) if stmt.op == "min" else add(here, form, -1))
        elif stmt.op == "floordiv" and a is not None and b is not None and not b.terms and b.constant > 0:
            # The quotient q of a // b satisfies b*q <= a, and q <= a if a is not negative.
            times = Affine(0, ((stmt.result, b.constant),))
            self.learn(add(a, times, -1))
            if self.holds(a):
                self.learn(here)
                self.learn(add(a, here, -1))

    def widens_exactly(self, value: Value) -> bool:
        """Return True if a 64-bit index was computed without 32-bit arithmetic that may wrap."""
        if value.type != i64:
            return True
        stmt = self.forms.made.get(value)
        if isinstance(stmt, n.Cast):
            return self.value(stmt.arg) is not None and self.widens_exactly(stmt.arg)
        if isinstance(stmt, n.Within):
            return self.widens_exactly(stmt.index)
        if isinstance(stmt, n.Op) and self.forms.form(value).terms != ((value, 1),):
            return all(self.widens_exactly(v) for v in stmt.args)
        return True

    def is_exact(self, form: Affine, index: Value) -> bool:
        """Return True if a 32-bit or 64-bit integer equals its affine form as a whole number.

        A form that contains a remainder as a symbol counts as not exact, because the type of the dividend is not known.
        """
        if index.type not in (i32, i64) or any(isinstance(s, RemainderSymbol) for s, _ in form.terms):
            return False
        return self.is_faithful(form, index) and self.widens_exactly(index)


_COMPARED: dict[str, dict[bool, tuple[tuple[int, int], ...]]] = {
    "cmp_lt": {True: ((1, 1),), False: ((-1, 0),)},
    "cmp_le": {True: ((1, 0),), False: ((-1, 1),)},
    "cmp_gt": {True: ((-1, 1),), False: ((1, 0),)},
    "cmp_ge": {True: ((-1, 0),), False: ((1, 1),)},
    "cmp_eq": {True: ((1, 0), (-1, 0)), False: ()},
    "cmp_ne": {True: (), False: ((1, 0), (-1, 0))},
}
"""For each comparison of a with b and its outcome: (1, k) means b - a - k >= 0, (-1, k) means a - b - k >= 0."""
