"""Draw statements that use local arrays: ring buffers, histories, lookup tables, scratch space.

    v = x[i]; h = Vector.zero(f64, 6)
    for j in range(c[i]):
        old = h[j % 6]; h[j % 6] = sin(v*old)
        t = Vector.zero(f64, 4)
        ...
    for j in range(6): v = tanh(v*h[5 - j])

A few arrays live through the section, and at times an array lives through one iteration of the section's loop.
Statements store elements, replace them and use their old values, exchange, move and sum them. Invariant: integer
contents keep an interval, so that they can serve as indices and trip counts; real contents are of order one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....compiler.ir.types import i32
from ..model import nodes as m
from ..model.nodes import Expr, Number, Stmt
from .functions import LITERALS, add, call, mul
from .loops import Loops
from .state import IntInterval

SIZES = (3, 2, 4, 3, 9, 4, 2, 6, 3, 10, 5, 12)
"""Numbers of elements of an array; beyond `local_arrays.FEW` the frontend keeps the array in memory too."""
KINDS = ("real", "whole", "real", "coefficients", "real", "whole")
"""Kinds of contents of an array; coefficients are reals that no input with a gradient touches."""
INNER = 3
"""Largest number of trips of a loop over elements inside another loop."""


@dataclass(frozen=True)
class ScopedArray:
    """Represent a local array that drawn statements may use, with its size and the interval of its integers.

    Attributes:
        whole: Interval of integer contents; None for reals.
        constant: True if the contents are coefficients.
    """

    name: str
    size: int
    whole: IntInterval | None = None
    constant: bool = False

    def at(self, index: Expr) -> m.Part:
        """Return the expression that reads the array at an index."""
        return m.Part(m.Name(self.name), (index,))


Statement = Callable[[ScopedArray], list[Stmt]]


class LocalArrays(Loops):
    """Draw random statements that use local arrays, such as ring buffers and lookup tables.

    Attributes:
        held: The arrays in scope.
        running: The real local that collects the values of the arrays.
    """

    held: tuple[ScopedArray, ...] = ()
    running: m.Name

    def history(self, start: Expr) -> tuple[list[Stmt], m.Name]:
        """Return random statements of one lane on local arrays, and the real local with their result."""
        kept, self.running = self.held, self.declare_real(self.main)
        self.fix(self.running.name)
        made: list[Stmt] = [m.Assign((self.running,), (start,))]
        for _ in range(self.draw.choice((1, 2, 2))):
            made += self._new_array()
        made += self._as_while() if self.draw.boolean(0.3) else [self._main_loop()]
        if self.draw.boolean(0.6):
            made.append(self._afterwards())
        self.held = kept
        return made, self.running

    # -- arrays ---------------------------------------------------------------------------------------------

    def _new_array(self) -> list[Stmt]:
        """Return the declaration of a new local array, initialized mostly with zeros."""
        kind, size = self.draw.choice(KINDS), self.draw.choice(SIZES)
        dtype = i32 if kind == "whole" else self.main
        whole = IntInterval(i32, 0, self.draw.choice((size, 3)) - 1) if kind == "whole" else None
        name = self.fresh("h")
        self.kinds[name] = m.Param(name, dtype, (size,))
        self.held = (*self.held, ScopedArray(name, size, whole, kind == "coefficients"))
        first: Expr = m.Filled("zero", (size,), dtype)
        if self.draw.boolean(0.4):
            first = m.Vector(tuple(self._first_content(whole, kind) for _ in range(size)), dtype)
        return [m.Assign((m.Name(name),), (first,))]

    def _first_content(self, whole: IntInterval | None, kind: str) -> Expr:
        if whole:
            return Number(self.draw.integer(0, whole.high))
        return self.literal() if kind == "coefficients" or self.draw.boolean(0.7) else self.real(0)[0]

    def _array(self, whole: bool = False) -> ScopedArray | None:
        """Return a random local array of reals, or of integers if `whole`, or None if none is in scope."""
        found = [h for h in self.held if (h.whole is not None) is whole]
        return self.draw.choice((*found, *found[-1:])) if found else None

    # -- loops ----------------------------------------------------------------------------------------------

    def _main_loop(self) -> Stmt:
        """Return the main loop of statements on local arrays, in some cases inside of another loop."""
        if self.draw.boolean(0.2):
            domain, indices = self._range()
            with self.block("serial", indices=indices):
                body = self._body(nested=True)
            return m.For(tuple(indices), domain, tuple(body))
        return self._loop(self._domain_of_main, lambda: self._body(nested=False))

    def _as_while(self) -> list[Stmt]:
        """Return the main loop of statements on local arrays as a `while` loop with a counter."""
        counter, most = self.declare_int(IntInterval(i32, 0, 3), "n"), self.draw.integer(2, 3)
        self.fix(counter.name)
        test: Expr = m.Compare(("<",), (counter, Number(most)))
        if self.draw.boolean(0.3):
            with self.only_reading():
                test = m.Logic("and", (test, self.condition()))
        kept = self.held
        with self.block("serial", indices={counter.name: IntInterval(i32, 0, most)}):
            body = self._body(nested=False)
        self.held = kept
        step = m.Augment(counter, "+", Number(1))
        return [m.Assign((counter,), (Number(0),)), m.While(test, (step, *body))]

    def _domain_of_main(self) -> tuple[m.Domain, dict[str, IntInterval]]:
        if self.draw.boolean(0.6):
            return self._range()
        count = self.draw.choice((2, 3, 4))
        return m.Range(None, Number(count)), {self.fresh("j"): IntInterval(i32, 0, count - 1)}

    def _loop(
        self, domain: Callable[[], tuple[m.Domain, dict[str, IntInterval]]], body: Callable[[], list[Stmt]]
    ) -> Stmt:
        chosen, indices = domain()
        kept = self.held
        with self.block("serial", indices=indices):
            made = body()
        self.held = kept
        return m.For(tuple(indices), chosen, tuple(made))

    def _body(self, nested: bool) -> list[Stmt]:
        """Return a loop body with a few random statements on local arrays, in some cases with a new array."""
        kept = self.held
        made = self._scratch() if self.draw.boolean(0.55) else []
        if nested:
            made.append(self._loop(self._domain_of_main, lambda: self._body(nested=False)))
        for _ in range(self.draw.choice((2, 2, 3))):
            made += self._statement()
        if self.draw.boolean(0.5):
            made += self.exit()
        if self.draw.boolean(0.5):
            made += self._some_use()
        self.held = kept
        return made

    def _scratch(self) -> list[Stmt]:
        """Return the declaration of a local array inside of a loop body, mostly with statements that use it.

        Mostly it is filled and read at once, so that its contents differ between iterations.
        """
        made = self._new_array()
        held = self.held[-1]
        if held.whole is None and not held.constant and self.draw.boolean(0.75):
            made += [*self._filled(held), *self._uses(held.at(self._place(held)))]
        return made

    def _over(self, held: ScopedArray) -> tuple[m.Domain, dict[str, IntInterval]]:
        """Return a loop domain over indices of a local array, and its index with its interval."""
        name = self.fresh("j")
        # The first index is that of the parallel loop, which does not bound elements.
        outer = [k for k in self.names.indices[1:] if self.names.ints[k].high <= held.size]
        if outer and self.draw.boolean(0.35):
            end = m.Name(index := self.draw.choice(outer))
            return m.Range(None, end), {name: IntInterval(i32, 0, max(self.names.ints[index].high - 1, 0))}
        count = min(held.size, INNER if len(self.names.indices) > 1 else held.size)
        domain = m.Range(None, Number(count), reverse=self.draw.boolean(0.3))
        return domain, {name: IntInterval(i32, 0, count - 1)}

    def _afterwards(self) -> Stmt:
        """Return a loop after the main loop that reads a local array, often in reverse order."""
        held = self._array() or self.held[0]
        name = self.fresh("j")
        with self.block("serial", indices={name: IntInterval(i32, 0, held.size - 1)}):
            index: Expr = m.Name(name)
            if self.draw.boolean():
                index = m.Binary("-", Number(held.size - 1), index)
            body = self._uses(held.at(index) if held.whole is None else self._input_at(held, index))
            if self.draw.boolean(0.4):
                body += self._statement()
        return m.For((name,), m.Range(None, Number(held.size)), tuple(body))

    # -- elements -------------------------------------------------------------------------------------------

    def _place(self, held: ScopedArray) -> Expr:
        """Return a random index expression that is in bounds of a local array."""
        kinds = ("index", "index", "index", "shifted", "mirrored", "number", "data", "named", "named", "named")
        kind = self.draw.choice(kinds)
        names = self.names.indices[1:]
        if names and kind in ("index", "shifted", "mirrored"):
            name = names[-1] if self.draw.boolean(0.7) else self.draw.choice(names)
            return self._moved(kind, m.Name(name), self.names.ints[name], held.size)
        if kind == "named" and (whole := self._array(whole=True)):
            assert whole.whole
            return self.within(self._named(whole), whole.whole, held.size)
        if kind == "data":
            return self.within(*self.integer(0), held.size)
        return Number(self.draw.integer(0, held.size - 1))

    def _moved(self, kind: str, index: Expr, whole: IntInterval, size: int) -> Expr:
        """Return an array index made of a loop index: kept in bounds, shifted cyclically, or counted from the end.

        Args:
            kind: 'index', 'shifted' or 'mirrored'.
            index: The loop index.
            whole: Interval of the values of the loop index.
            size: Number of elements of the array.
        """
        if kind == "shifted":
            return m.Binary("%", add(index, Number(self.draw.integer(1, size))), Number(size))
        inside = index if whole.high < size else m.Binary("%", index, Number(size))
        return inside if kind == "index" else m.Binary("-", Number(size - 1), inside)

    def _named(self, whole: ScopedArray) -> Expr:
        names = self.names.indices[1:]
        index: Expr = Number(self.draw.integer(0, whole.size - 1))
        if names and self.draw.boolean(0.7):
            index = self._moved("index", m.Name(names[-1]), self.names.ints[names[-1]], whole.size)
        return whole.at(index)

    def _input_at(self, whole: ScopedArray, index: Expr) -> Expr:
        """Return the element of an input array at an index that is read from a local array of integers."""
        assert whole.whole
        table = self.arrays["w"]
        if "w" not in self.access.readable:
            return m.Cast(whole.at(index), self.main)
        return m.Element("w", (self.within(whole.at(index), whole.whole, self.extent(table.axes[0])),))

    def _operand(self) -> Expr:
        """Return a random operand: an element of a local array, an input at an index from such an array, or a real."""
        kind = self.draw.choice(("element", "element", "element", "named", "named", "real"))
        if kind == "element" and (held := self._array()):
            return held.at(self._place(held))
        if kind == "named" and (whole := self._array(whole=True)):
            return self._input_at(whole, self._place(whole))
        return self.bounded(self.real(1))[0]

    # -- statements -----------------------------------------------------------------------------------------

    def _statement(self) -> list[Stmt]:
        """Return one random statement, or a few, on local arrays."""
        whole, held = self._array(whole=True), self._array()
        if whole and (held is None or self.draw.boolean(0.4)):
            return self._of_integers(whole)
        if held is None:
            return self._some_use()
        if held.constant and self.draw.boolean(0.8):
            return self._of_coefficients(held)
        kinds: tuple[Statement, ...] = (
            self._stored,
            self._replaced,
            self._changed_element,
            self._replaced,
            self._exchanged,
            self._summed,
            self._moved_along,
            self._filled,
            self._guarded,
            self._replaced,
            self._summed,
        )
        return self.draw.choice(kinds)(held)

    def _some_use(self) -> list[Stmt]:
        return self._uses(self._operand())

    def _uses(self, first: Expr) -> list[Stmt]:
        """Return a random update of the local with the result by the operand `first`, used once or twice."""
        v, kind = self.running, self.draw.choice(("product", "product", "two", "twice", "sum"))
        if kind == "sum":
            return [m.Augment(v, self.draw.choice("+-"), mul(Number(0.5), self._safe(first)))]
        second = first if kind == "twice" else self._operand()
        inner = mul(v, first) if kind == "product" else add(v, mul(first, second))
        return [m.Assign((v,), (self._safe(add(inner, second) if kind == "product" else inner),))]

    def _safe(self, e: Expr) -> Expr:
        return call(self.draw.choice(("sin", "tanh", "cos")), e)

    def _stored(self, held: ScopedArray) -> list[Stmt]:
        value = self.running if self.draw.boolean(0.4) else self._safe(add(self.running, self._operand()))
        return [m.Assign((held.at(self._place(held)),), (value,))]

    def _replaced(self, held: ScopedArray) -> list[Stmt]:
        """Return statements that replace an array element and then use its old value, as in a ring buffer."""
        element, old = held.at(self._place(held)), self.declare_real(self.main)
        self.fix(old.name)
        new = self._safe(self.draw.choice((add(old, self.running), mul(old, self.running), self.running)))
        later = [m.Assign((element,), (new,)), *self._uses(old)]
        return [m.Assign((old,), (element,)), *(later if self.draw.boolean(0.85) else later[::-1])]

    def _changed_element(self, held: ScopedArray) -> list[Stmt]:
        """Return one or two updates of an array element that depend on its old value."""
        element = held.at(self._place(held))
        change = m.Assign((element,), (self._safe(m.Binary(self.draw.choice("*+"), element, self._operand())),))
        if self.draw.boolean(0.3):
            return [change, m.Augment(element, self.draw.choice("*+-"), self._safe(self._operand()))]
        return [change]

    def _exchanged(self, held: ScopedArray) -> list[Stmt]:
        a, b = held.at(self._place(held)), held.at(self._place(held))
        return [m.Assign((a, b), (b, a))]

    def _summed(self, held: ScopedArray) -> list[Stmt]:
        """Return a loop that sums array elements, as a matrix product does, and may store the sum to an element."""
        total = self.declare_real(self.main)
        self.fix(total.name)

        def step() -> list[Stmt]:
            factor = self._safe(self._operand()) if self.draw.boolean() else self._operand()
            return [m.Augment(total, self.draw.choice("++-"), mul(held.at(m.Name(self.names.indices[-1])), factor))]

        loop = self._loop(lambda: self._over(held), step)
        start = m.Assign((total,), (Number(0.0) if self.draw.boolean(0.7) else self.running,))
        if self.draw.boolean():
            return [start, loop, m.Assign((held.at(self._place(held)),), (self._safe(total),))]
        return [start, loop, *self._uses(self._safe(total))]

    def _moved_along(self, held: ScopedArray) -> list[Stmt]:
        """Return a loop that moves array elements up by one, and a store of the section's result to element 0."""
        name, last = self.fresh("j"), min(held.size - 1, INNER)
        index = m.Name(name)
        target, source = (m.Binary("-", Number(last - k), index) for k in (0, 1))
        body = m.Assign((held.at(target),), (held.at(source),))
        return [m.For((name,), m.Range(None, Number(last)), (body,)), m.Assign((held.at(Number(0)),), (self.running,))]

    def _filled(self, held: ScopedArray) -> list[Stmt]:
        """Return a loop that stores bounded multiples of the section's result so far to array elements."""

        def step() -> list[Stmt]:
            index = m.Name(self.names.indices[-1])
            weight = add(Number(0.5), mul(Number(0.25), m.Cast(index, self.main)))
            return [m.Assign((held.at(index),), (self._safe(mul(weight, self.running)),))]

        return [self._loop(lambda: self._over(held), step)]

    def _guarded(self, held: ScopedArray) -> list[Stmt]:
        """Return a store or update of an array element under a random condition."""
        condition = self.condition()
        with self.block():
            kind = self.draw.choice((self._stored, self._replaced, self._changed_element))
            body = kind(held)
        return [m.If(condition, tuple(body))]

    # -- what has no derivative -----------------------------------------------------------------------------

    def _of_integers(self, whole: ScopedArray) -> list[Stmt]:
        """Return statements that increase elements of an integer array, exchange them, or change them in a loop."""
        kind = self.draw.choice(("loop", "one", "exchange", "loop", "loop"))
        if kind == "exchange":
            return self._exchanged(whole)
        if kind == "one":
            return [self._turned(whole, self._place(whole))]
        step = lambda: [self._turned(whole, m.Name(self.names.indices[-1]))]  # noqa: E731
        return [self._loop(lambda: self._over(whole), step)]

    def _turned(self, whole: ScopedArray, index: Expr) -> Stmt:
        """Return an update of an integer element by a random number, modulo the count of its possible values."""
        assert whole.whole
        more = self.integer(0)[0] if self.draw.boolean(0.3) else self._some_index()
        return m.Assign((whole.at(index),), (m.Binary("%", add(whole.at(index), more), Number(whole.whole.high + 1)),))

    def _some_index(self) -> Expr:
        names = self.names.indices[1:]
        return add(m.Name(self.draw.choice(names)), Number(self.draw.integer(0, 2))) if names else Number(1)

    def _of_coefficients(self, held: ScopedArray) -> list[Stmt]:
        """Return statements that set coefficients in a local array from a loop index, mostly added to old values."""
        number = mul(Number(self.draw.choice(LITERALS)), m.Cast(self._some_index(), self.main))

        def changed(index: Expr) -> Stmt:
            old = mul(Number(0.5), held.at(index))
            return m.Assign((held.at(index),), (self._safe(add(old, number) if self.draw.boolean(0.7) else number),))

        if self.draw.boolean(0.25):
            return [changed(self._place(held))]
        return [self._loop(lambda: self._over(held), lambda: [changed(m.Name(self.names.indices[-1]))])]
