"""Draw statements whose gradient depends on the order of memory accesses.

Such sections overwrite elements after reading them, in later tasks or in serial loops; use the old values of atomics;
multiply elements; use extremes again; or store to elements that no two iterations share, which only a launch can tell.
A random statement rarely does any of this twice to the same element. Invariant: parallel loops keep the invariants of
`state`; serial code may read and write the same array, because it runs in the order of the text.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from ....compiler.ir.types import f16, i32
from ..model import nodes as m
from ..model.nodes import Number, Stmt
from .draw import Chooser
from .functions import add, call, mul
from .local_arrays import LocalArrays
from .state import AccessRights, DrawnField, DrawnSignature, IntInterval, ScopedNames

PATTERNS = 0.18
"""Share of sections that are drawn by this module."""
OWN_ARRAYS = 0.085
"""Share of sections about local arrays."""
SHARES = 40, 90
"""Least and greatest number of terms of a sum that half precision could not hold."""
MOST = 3
"""Largest trip count of loops in the sections of this module."""


class Patterns(LocalArrays):
    """Draw groups of statements whose gradient depends on the order of memory accesses.

    Attributes:
        written: Outputs that a task wrote.
        closed: Outputs that no later task may write.
        bodies: Functions of the program.
    """

    def __init__(self, draw: Chooser, profile: str) -> None:
        super().__init__(draw, profile)
        self.written: set[str] = set()
        self.closed: set[str] = set()
        self.bodies: list[m.Function] = []

    def pattern(self) -> list[Stmt]:
        """Return random statements whose gradient depends on the order of memory accesses, or none."""
        kinds: tuple[Callable[[], list[Stmt]], ...] = (
            self._overwritten,
            self._in_memory,
            self._ledger,
            self._old_values,
            self._shared_product,
            self._asking,
            self._extreme_again,
            self._overwritten,
            self._ledger,
            self._asking,
            self._extreme_again,
            self._in_memory,
            self._drawn,
            self._extreme_again,
            self._permuted,
            self._permuted,
            self._permuted,
            self._old_values,
            self._old_values,
            self._many_shares,
        )
        return self.draw.choice(kinds)()

    def _open(self, name: str) -> DrawnField | None:
        """Return an output array and record that it is written, or None if it is empty or may not be written."""
        array = self.arrays[name]
        if name in self.closed or not all(map(self.extent, array.axes)):
            return None
        self.written.add(name)
        return array

    def _lanes(self, body: Callable[[m.Name], list[Stmt]]) -> Stmt:
        """Return a parallel loop over the lanes, with the body that a function makes for the loop index."""
        name = self.fresh("i")
        self.lane = (name,)
        with self.block("parallel", indices={name: IntInterval(i32, 0, max(self.n - 1, 0))}):
            self.fix(*self.names.reals, *self.names.ints, *self.names.flags, *self.names.vectors)
            made = body(m.Name(name))
        self.lane = ()
        return m.For((name,), m.Over("x"), tuple(made))

    def _repeated(self, body: Callable[[m.Name], list[Stmt]]) -> Stmt:
        """Return a serial loop at the top level of the kernel, with the body that a function makes for its index."""
        name = self.fresh("j")
        with self.block("serial", indices={name: IntInterval(i32, 0, MOST)}):
            made = body(m.Name(name))
        return m.For((name,), m.Range(None, Number(self.draw.integer(2, MOST))), tuple(made), serialize=True)

    def _leave(self, value: m.Expr) -> list[Stmt]:
        """Return a statement that adds a value to `s` or to an element of `z`, or none if neither may be written."""
        array = self._open("s") or self._open("z")
        return [m.Augment(m.Element(array.name, self.place(array)), "+", value)] if array else []

    # -- state of before -------------------------------------------------------------------------------------

    def _overwritten(self) -> list[Stmt]:
        """Return tasks that read elements and overwrite them, mostly preceded by a task that changes the elements."""
        array = self._open("y")
        if array is None:
            return []
        made: list[Stmt] = []
        if self.draw.boolean(0.7):
            made.append(self._lanes(lambda i: [self._changed(m.Element("y", (i,)))]))
        made.append(self._lanes(lambda i: self._leave(mul(call("sin", m.Element("y", (i,))), self.real(1)[0]))))
        made.append(self._lanes(lambda i: [self._changed(m.Element("y", (i,)))]))
        return made

    def _changed(self, element: m.Element) -> Stmt:
        """Return a store of a new value to an element; the new value may depend on the old one."""
        value, _ = self.bounded(self.real(1))
        kind = self.draw.choice(("product", "store", "function"))
        if kind == "store":
            return m.Assign((element,), (value,))
        return m.Assign((element,), (mul(element, value) if kind == "product" else call("sin", add(element, value)),))

    def _in_memory(self) -> list[Stmt]:
        """Return a recurrence through elements of a table, or a loop that stores elements and reads them back."""
        if self.draw.boolean():
            return self._walk()
        array = self._open("z")
        if array is None:
            return []

        def body(j: m.Name) -> list[Stmt]:
            source, target = m.Element("z", self.place(array)), m.Element("z", self.place(array))
            value = mul(call("sin", source), add(self.bounded(self.real(1))[0], Number(0.5)))
            return [m.Assign((target,), (value,))]

        return [self._repeated(body)]

    def _walk(self) -> list[Stmt]:
        """Return a serial loop that walks along an array, stores an element in each trip and reads it back.

        The walk stores most elements once. A walk that runs twice stores them again after they were read.
        """
        array = self._open("y")
        if array is None:
            return []
        outer, inner, twice = self.fresh("j"), self.fresh("j"), self.draw.boolean(0.3)
        around = {outer: IntInterval(i32, 0, 2)} if twice else {}
        with self.block("serial", indices={**around, inner: IntInterval(i32, 0, MOST)}):
            element = m.Element("y", (self._permutation(m.Name(inner)),))
            made = [self._changed(element) if self.draw.boolean(0.3) else self._anew(element)]
            made += self._leave(mul(element, element))
        trips = m.Range(None, Number(min(self.n, MOST)))
        walk = m.For((inner,), trips, tuple(made), serialize=not twice)
        return [m.For((outer,), m.Range(None, Number(2)), (walk,), serialize=True) if twice else walk]

    def _anew(self, element: m.Element) -> Stmt:
        """Return a store to an element of a value that does not depend on the old one."""
        return m.Assign((element,), (self.bounded(self.real(1))[0],))

    def _many_shares(self) -> list[Stmt]:
        """Return a task that sums one half-precision number so often that f16 cannot represent its adjoint."""

        def body(i: m.Name) -> list[Stmt]:
            half, total, j = self.declare_real(f16, "h"), self.declare_real(self.main), self.fresh("j")
            term = mul(m.Cast(half, self.main), Number(self.draw.choice((0.0625, 0.01, 0.3))))
            again = m.For((j,), m.Range(None, Number(self.draw.integer(*SHARES))), (m.Augment(total, "+", term),))
            begin = m.Assign((total,), (m.Cast(Number(0.0), self.main),))
            return [m.Declare(half.name, f16, m.Element("x", (i,))), begin, again, *self._leave(total)]

        return [self._lanes(body)]

    def own_arrays(self) -> list[Stmt]:
        """Return a task whose lanes run random statements on local arrays."""

        def body(i: m.Name) -> list[Stmt]:
            made, last = self.history(m.Element("x", (i,)))
            return [*made, *self._leave(last)]

        return [self._lanes(body)]

    # -- atomics ---------------------------------------------------------------------------------------------

    def _ledger(self) -> list[Stmt]:
        """Return nested serial loops whose inner trip count is an integer element that the kernel itself increases."""
        array = self._open("a")
        if array is None:
            return []
        first = self.real(0)[0]
        value = self.declare_real(self.main)
        start = m.Assign((value,), (m.Cast(first, self.main),))

        def body(j: m.Name) -> list[Stmt]:
            element = m.Element("a", self.place(array))
            old: m.Expr = self.old_integer(element, Number(2))
            count = self.declare_int(IntInterval(i32, 0, MOST))
            made: list[Stmt] = [m.Assign((count,), (self._small(old),))]
            if self.draw.boolean():
                made = [m.Augment(element, "+", Number(1)), m.Assign((count,), (self._small(element),))]
            with self.block("serial", indices={(inner := self.fresh("j")): IntInterval(i32, 0, MOST)}):
                step = m.Assign((value,), (call("sin", mul(value, add(self.real(0)[0], Number(1.5)))),))
            return [*made, m.For((inner,), m.Range(None, count), (step,))]

        return [start, self._repeated(body), *self._leave(value)]

    def _small(self, count: m.Expr) -> m.Expr:
        return call("min", call("max", count, Number(0)), Number(MOST))

    def _old_values(self) -> list[Stmt]:
        """Return a serial loop of atomics on real elements, whose old values the loop uses."""
        array = self._open("z")
        if array is None:
            return []
        total = self.declare_real(self.main)
        start = m.Assign((total,), (Number(0.5),))

        def body(j: m.Name) -> list[Stmt]:
            update = self.old_value(m.Element("z", self.place(array)), array.dtype)
            old = self.declare_real(array.dtype)
            return [m.Assign((old,), (update,)), m.Augment(total, "+", call("sin", old))]

        return [start, self._repeated(body), *self._end(total)]

    def _end(self, total: m.Expr) -> list[Stmt]:
        return [m.Augment(m.Element("s"), "+", total)] if self._open("s") else []

    def _shared_product(self) -> list[Stmt]:
        """Return a parallel loop in which several lanes multiply the same elements atomically."""
        array = self._open("z")
        if array is None:
            return []

        def body(i: m.Name) -> list[Stmt]:
            factor = add(Number(1.25), mul(Number(0.5), self.bounded(self.real(1))[0]))
            return [m.Augment(m.Element("z", self.place(array)), "*", factor)]

        return [self._lanes(body)]

    def _extreme_again(self) -> list[Stmt]:
        """Return statements that overwrite or read an atomic extreme, for which the compiler must refuse a gradient.

        Such a program is refused, because its gradient cannot tell which value won.
        """
        if self.n == 0 or self._open("e") is None:
            return []
        self.closed.add("e")
        element = m.Element("e", (Number(self.draw.integer(0, self.table - 1)),))
        return self._stored_again(element) if self.draw.boolean() else self._read_between(element)

    def _challenge(self, element: m.Element, step: m.Expr) -> Stmt:
        """Return an atomic min or max of an element with the input at an index shifted by `step`."""
        kind, sign = self.draw.choice((("max", "+"), ("min", "-")))
        value = m.Binary(sign, m.Element("x", self.place(self.arrays["x"])), step)
        return m.Evaluate(m.AtomicCall(kind, element, value))

    def _stored_again(self, element: m.Element) -> list[Stmt]:
        again = m.Assign((element,), (self.bounded(self.real(1))[0],))
        return [self._lanes(lambda i: [self._challenge(element, Number(2))]), *self._end(call("sin", element)), again]

    def _read_between(self, element: m.Element) -> list[Stmt]:
        total = self.declare_real(self.main)
        start = m.Assign((total,), (Number(0.5),))

        def grow(j: m.Name) -> list[Stmt]:
            step = mul(Number(2), m.Cast(j, self.main))
            return [self._challenge(element, step), m.Augment(total, "+", call("sin", element))]

        return [start, self._repeated(grow), *self._end(total)]

    # -- elements by way of a permutation --------------------------------------------------------------------

    def _permuted(self) -> list[Stmt]:
        """Return a task that stores to elements indexed by a permutation, often with a claim of unique indices."""
        array = self._open(self.draw.choice(("y", "o")))
        if array is None:
            return []
        kinds = (self._at_permuted, self._at_permuted, self._between_permuted)
        made = [self._lanes(partial(self.draw.choice(kinds), array))]
        if self.draw.boolean(0.3):
            made.append(self._lanes(lambda i: self._leave(call("sin", m.Element(array.name, (i,))))))
        return made

    def _at_permuted(self, array: DrawnField, i: m.Name) -> list[Stmt]:
        """Return statements that store to the element at the permuted index, and may update it again."""
        place = self._permutation(i)
        element = m.Element(array.name, (place,))
        made: list[Stmt] = []
        if self.draw.boolean(0.75):
            name = self.declare_int(IntInterval(i32, 0, self.n - 1))
            self.fix(name.name)
            claimed = self.draw.boolean(0.75)
            made = [m.Assign((name,), (call("assume_unique", place) if claimed else place,))]
            element = m.Element(array.name, (name,))
        kind = self.draw.choice(("once", "again", "loop"))
        made.append(self._changed(element))
        if kind == "again":
            made += [m.Augment(element, "+", self.bounded(self.real(1))[0]), self._changed(element)]
        if kind == "loop":
            with self.block("serial", indices={(inner := self.fresh("j")): IntInterval(i32, 0, MOST)}):
                step = self._changed(element)
            made.append(m.For((inner,), m.Range(None, Number(2)), (step,)))
        return made

    def _between_permuted(self, array: DrawnField, i: m.Name) -> list[Stmt]:
        """Return a store at an odd permuted position, of a value computed from the element at the even one before."""
        twice = mul(i, Number(2))
        source, target = (m.Element(array.name, (self._permutation_at(k),)) for k in (twice, add(twice, Number(1))))
        value = mul(call("sin", source), add(self.bounded(self.real(1))[0], Number(0.5)))
        return [m.If(m.Compare(("<",), (i, Number(self.n // 2))), (m.Assign((target,), (value,)),))]

    def _permutation(self, i: m.Name) -> m.Expr:
        """Return an expression for the permuted index of a lane: (a i + b) modulo the lane count, or input data."""
        # Factors without a common divisor with n make i -> a i + b a permutation modulo n.
        factors = [a for a in (1, 2, 3, 5, 7) if math.gcd(a, self.n) == 1]
        if self.draw.boolean():
            return self._permutation_at(i)
        shifted = add(mul(i, Number(self.draw.choice(factors))), Number(self.draw.integer(0, self.n - 1)))
        return m.Binary("%", shifted, Number(self.n))

    def _permutation_at(self, k: m.Expr) -> m.Expr:
        self.arrays.setdefault("t", DrawnField("t", i32, ("lane",), (0, self.n - 1), permutes=True))
        return m.Element("t", (k,))

    # -- draws and conditions --------------------------------------------------------------------------------

    def _drawn(self) -> list[Stmt]:
        """Return two parallel loops, the second of which draws random numbers."""

        def noisy(i: m.Name) -> list[Stmt]:
            number = m.Random(None, self.draw.choice(("random", "randn")))
            return self._leave(mul(number, m.Element("x", (i,))))

        return [self._lanes(lambda i: self._leave(self.bounded(self.real(1))[0])), self._lanes(noisy)]

    def _asking(self) -> list[Stmt]:
        """Return a task with a `while` loop whose condition calls a function that may return early."""
        name = self._early_function()

        def body(i: m.Name) -> list[Stmt]:
            value, count = self.declare_real(self.main), self.declare_int(IntInterval(i32, 0, MOST), "n")
            self.fix(count.name)
            made: list[Stmt] = [m.Assign((value,), (m.Element("x", (i,)),)), m.Assign((count,), (Number(0),))]
            asked = m.Compare(("<",), (m.Invoke(name, (value,)), Number(0.5)))
            test = m.Logic("and", (asked, m.Compare(("<",), (count, Number(MOST)))))
            with self.block("serial"):
                step = [m.Augment(count, "+", Number(1)), *self.recurrence()]
            return [*made, m.While(test, tuple(step)), *self._leave(value)]

        return [self._lanes(body)]

    def _early_function(self) -> str:
        """Add a function with an early return and return its name.

        Either the early result is small and the late result large, or the other way round.
        """
        signature, param = DrawnSignature(self.fresh("f"), ("real",), False), self.fresh("a")
        kept = self.names, self.access, self.in_function
        self.names, self.access, self.in_function = ScopedNames({param: self.main}), AccessRights(), True
        early, late = self.draw.choice(((-1.5, 2.5), (-1.5, 2.5), (2.5, -1.5)))
        test = m.Compare((self.draw.choice("<>"),), (m.Name(param), self.literal()))
        first = m.If(test, (m.Return((add(self.bounded(self.real(1))[0], Number(early)),)),))
        last = m.Return((add(call("sin", m.Name(param)), Number(late)),))
        self.names, self.access, self.in_function = kept
        self.bodies.append(m.Function(signature.name, (m.Param(param),), (first, last)))
        return signature.name
