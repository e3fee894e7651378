"""Draw statements without loops: locals, elements, atomics, branches and exits of loops.

Every method returns a list of statements, so that one production may write several.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ....compiler.ir.types import f16, f64, i32, promote
from ..model import nodes as m
from ..model.nodes import Number, Stmt
from .atomics import FIXED
from .expressions import Integer
from .functions import LITERALS, call, mul
from .state import DrawnField, IntInterval
from .vectors import Vectors

SMALL = IntInterval(i32, 0, 4)
"""Interval of integer locals that are assigned again; every new value is brought back into it."""


STORES = (*("store", "add", "linear") * 4, *("atomic", "read", "in place") * 2, "old", "old", "old", "old", "old")
"""Kinds of statements on the own element of an iteration."""
UPDATES = ("scale", "bounded", "decay", "sum", "bounded", "scale", "difference", "rare")
UPDATES_IN_LOOPS = (*("bounded",) * 12, "scale", "scale", "decay", "sum", "rare", "difference")
"""Kinds of updates in loops, with more of those that require every iteration's value in the reverse sweep."""


_EXTREMES = {0: ("max", "min"), 1: ("min", "min", "max"), -1: ("max", "max", "min")}
"""Kinds of atomic extremes by the side of zero on which all values lie, mostly those that a wrong zero would win."""


class Statements(Vectors):
    """Draw statements that are valid at the current point of a program."""

    def simple(self) -> list[Stmt]:
        """Return a random simple statement, without a loop or branch around other statements."""
        return self.draw.choice(self.simples())()

    def simples(self) -> list[Callable[[], list[Stmt]]]:
        """Return the methods of this class that draw a statement without nested blocks."""
        return [
            self.new_real,
            self.update_real,
            self.new_real,
            self.update_real,
            self.update_real,
            self.write_element,
            self.new_integer,
            self.update_integer,
            self.write_element,
            self.swap,
            self.new_flag,
            self.annotated,
            self.several,
            self.from_function,
            self.check,
            self.fallback,
            self.new_flag,
            self.several,
        ]

    def recurrence(self) -> list[Stmt]:
        """Return an update of a real local, which a loop repeats as a recurrence."""
        return self.update_real()

    # -- locals ---------------------------------------------------------------------------------------------

    def new_real(self) -> list[Stmt]:
        """Return the declaration of a new real local with a random value or literal."""
        if self.draw.boolean(0.1):
            number = Number(self.draw.choice(LITERALS))
            return [m.Assign((self.declare_real(self.main),), (number,))]
        value, dtype = self.real()
        return [m.Assign((self.declare_real(dtype),), (value,))]

    def annotated(self) -> list[Stmt]:
        """Return the declaration of a new real local with a type annotation."""
        value, _ = self.real()
        dtype = self.draw.choice((self.main, f64, self.main, f16 if self.wild else f64))
        return [m.Declare(self.declare_real(dtype).name, dtype, value)]

    def new_integer(self) -> list[Stmt]:
        """Return the declaration of a new integer local whose values stay in a small interval."""
        e, w = self.integer()
        value = e if w.low >= SMALL.low and w.high <= SMALL.high else self.within(e, w, SMALL.high + 1)
        return [m.Assign((self.declare_int(replace(SMALL, dtype=w.dtype)),), (value,))]

    def new_flag(self) -> list[Stmt]:
        """Return an assignment of a random condition to a new or existing boolean local."""
        condition = m.Cast(self.condition(), None, "bool")
        found = [f for f in self.names.flags if f not in self.names.fixed]
        if found and self.draw.boolean():
            return [m.Assign((m.Name(self.draw.choice(found)),), (condition,))]
        name = self.fresh("flag")
        self.names.flags = (*self.names.flags, name)
        return [m.Assign((m.Name(name),), (condition,))]

    def _free_real(self) -> str | None:
        found = self.assignable(self.names.reals)
        return self.draw.choice(found) if found else None

    def update_real(self) -> list[Stmt]:
        """Return a random update of a real local, whose values keep a magnitude of about one."""
        name = self._free_real()
        if name is None:
            return self.new_real()
        target, dtype = m.Name(name), self.names.reals[name]
        kinds = UPDATES_IN_LOOPS if self.loops and self.loops[-1] == "serial" else UPDATES
        kind = self.draw.choice(kinds)
        # The update is v = 0.9 v + 0.25 e.
        if kind == "decay":
            e, _ = self.bounded(self.real())
            return [m.Assign((target,), (m.Binary("+", mul(Number(0.9), target), mul(Number(0.25), e)),))]
        # The update is v = f(v e) with a bounded f such as tanh.
        if kind == "bounded":
            e, p = self.real()
            inner = m.Binary(self.draw.choice("*+-"), target, e)
            return [m.Assign((target,), (self.bounded((inner, promote(dtype, p)))[0],))]
        if kind == "scale":
            return [m.Augment(target, "*", self.bounded(self.real(1))[0])]
        if kind == "rare":
            op, number = self.draw.choice((("/", 1.5), ("%", 2.0), ("//", 0.5), ("**", 2)))
            return [m.Augment(target, op, Number(number))]
        e, _ = self.bounded(self.real())
        return [m.Augment(target, "+" if kind == "sum" else "-", mul(Number(0.5), e))]

    def update_integer(self) -> list[Stmt]:
        """Return a random update of an integer local, whose values stay in the local's interval."""
        found = self.assignable(self.names.ints)
        if not found:
            return self.new_integer()
        name = self.draw.choice(found)
        e, w = self.integer()
        if self.draw.boolean(0.2):
            op, number = self.draw.choice((("//", 2), ("%", 3), ("&", 3), (">>", 1)))
            return [m.Augment(m.Name(name), op, Number(number))]
        return [m.Assign((m.Name(name),), (self.within(e, w, SMALL.high + 1),))]

    def swap(self) -> list[Stmt]:
        """Return `a, b = b, a` for two locals of the same type, in some cases with another value for b."""
        found = self.assignable(self.names.reals)
        pairs = [(a, b) for a in found for b in found if a < b and self.names.reals[a] == self.names.reals[b]]
        if not pairs:
            return self.update_real()
        a, b = map(m.Name, self.draw.choice(pairs))
        second = a if self.draw.boolean(0.7) else self.bounded(self.real(1))[0]
        return [m.Assign((a, b), (b, second))]

    def fallback(self) -> list[Stmt]:
        """Return two or three `if` statements, with separate conditions, that assign the same value to one local."""
        found = self.assignable(self.names.reals)
        if not found:
            return self.new_real()
        target = self.draw.choice(found)
        same = [u for u, dtype in self.names.reals.items() if u != target and dtype == self.names.reals[target]]
        value = m.Name(self.draw.choice(same)) if same and self.draw.boolean(0.75) else self.literal()
        step = m.Assign((m.Name(target),), (value,))
        return [m.If(self.condition(), (step,)) for _ in range(self.draw.choice((2, 2, 3)))]

    def several(self) -> list[Stmt]:
        """Return statements that declare two new locals at once, from two values, `frexp` or a walrus."""
        kind = self.draw.choice(("values", "walrus", "frexp"))
        (a, p), (b, q) = self.real(1), self.real(1)
        if kind == "values":
            return [m.Assign((self.declare_real(p), self.declare_real(q)), (a, b))]
        if kind == "walrus":
            inner = m.Walrus(self.fresh("v"), a)
            value = m.Binary("+", inner, b)
            self.names.reals[inner.name] = p
            return [m.Assign((self.declare_real(promote(p, q)),), (value,))]
        mantissa, exponent = self.declare_real(p), self.declare_int(IntInterval(i32, -200, 200), "exp")
        # The interval of the exponent is not usable for a loop or an index, so the name is not offered as an integer.
        del self.names.ints[exponent.name]
        return [m.Assign((mantissa, exponent), (m.Call("frexp", (a,)),))]

    def from_function(self) -> list[Stmt]:
        """Return a statement that assigns the results of a function call to new locals."""
        if not self.functions:
            return self.new_real()
        function = self.draw.choice(self.functions)
        args = self.arguments_of(function)
        if function.shape:
            target = self.declare_vector(function.shape, self.main)
            return [m.Assign((target,), (m.Invoke(function.name, args),))]
        targets = tuple(self.declare_real(self.main) for _ in range(function.results))
        return [m.Assign(targets, (m.Invoke(function.name, args),))]

    def check(self) -> list[Stmt]:
        """Return an assertion that holds; in programs of the profile `wild`, sometimes one that may fail."""
        if self.wild and self.draw.boolean(0.15):
            return [m.Assert(self.condition(), "a condition that may fail")]
        e, w = self.integer(1)
        return [m.Assert(m.Compare((">=",), (e, Number(w.low))), "an interval that always holds")]

    # -- memory ---------------------------------------------------------------------------------------------

    def write_element(self) -> list[Stmt]:
        """Return a store to this iteration's own element, or an atomic on any element."""
        own = [self.arrays[a] for a in sorted(self.access.own) if not self.arrays[a].element]
        scattered = [self.arrays[a] for a in sorted(self.access.scatter) if not self.arrays[a].element]
        choices: list[tuple[Callable[[DrawnField], list[Stmt]], DrawnField]] = []
        choices += [(self.store_own, a) for a in own if self.own(a) is not None]
        choices += [(self.scatter, a) for a in scattered if self.reachable(a)]
        if not choices:
            return self.update_real()
        write, array = self.draw.choice(choices)
        return write(array)

    def store_own(self, array: DrawnField) -> list[Stmt]:
        """Return a statement that stores, updates or reads the element that only this iteration touches."""
        indices = self.own(array)
        assert indices is not None
        element = m.Element(array.name, indices)
        if not array.dtype.is_real:
            return [self._own_integer(element, array)]
        kind = self.draw.choice(STORES)
        if kind == "old":
            old = self.old_value(element, array.dtype)
            return [m.Assign((self.declare_real(array.dtype),), (old,))]
        e, p = self.bounded(self.real())
        if kind == "store":
            return [m.Assign((element,), (e,))]
        if kind == "read":
            return [m.Assign((self.declare_real(array.dtype),), (self.bounded((element, array.dtype))[0],))]
        if kind == "in place":
            product = m.Binary("*", element, mul(Number(0.5), e))
            return [m.Assign((element,), (self.bounded((product, p))[0],))]
        if kind == "linear":
            return [m.Assign((element,), (m.Binary("+", mul(Number(0.5), element), e),))]
        if kind == "atomic":
            return [m.Evaluate(m.AtomicCall("add", element, e))]
        return [m.Augment(element, self.draw.choice("+-"), e)]

    def _own_integer(self, element: m.Element, array: DrawnField) -> Stmt:
        e, w = self.integer()
        small = self.within(e, w, SMALL.high + 1)
        if self.draw.boolean(0.3):
            old = call("max", self.old_integer(element, m.Cast(small, array.dtype)), Number(0))
            target = self.declare_int(replace(SMALL, dtype=array.dtype))
            return m.Assign((target,), (call("min", old, Number(SMALL.high)),))
        return m.Assign((element,), (small,))

    def scatter(self, array: DrawnField) -> list[Stmt]:
        """Return an atomic on an element that other iterations may also update.

        A task uses only one kind of atomic for an array.
        """
        element = m.Element(array.name, self.place(array))
        kind = self.access.atomics.setdefault(array.name, self._atomic_kind(array))
        if not array.dtype.is_real:
            return [self._scatter_integer(element, kind, self.integer())]
        if kind in ("min", "max"):
            return [m.Evaluate(m.AtomicCall(kind, element, self._contender()))]
        value, _ = self.bounded(self.real())
        if self.draw.boolean(0.2):
            return [m.Evaluate(m.AtomicCall(self.draw.choice(("add", "sub")), element, value))]
        return [m.Augment(element, self.draw.choice(("+", "+", "-")), value)]

    def _contender(self) -> m.Expr:
        """Return a random operand of an atomic min or max, mostly one that is exact in floating point.

        The winner is known by comparison with the extreme itself, which is always within the error bound of a rounded
        value.
        """
        arrays = [a for a in self.readable(real=True) if a.dtype == self.main]
        if not arrays or self.draw.boolean(0.15):
            return self.bounded(self.real())[0]
        array = self.draw.choice(arrays)
        element = m.Element(array.name, self.place(array))
        if self.side:
            return call("abs", element) if self.side > 0 else m.Unary("-", call("abs", element))
        return call("abs", element) if self.draw.boolean(0.3) else element

    def _atomic_kind(self, array: DrawnField) -> str:
        if array.name == "e":
            return self.draw.choice(_EXTREMES[self.side])
        if array.dtype.is_real:
            return "add"
        return self.draw.choice(("add", "min", "max", "or", "and", "xor", "mul", "exchange", "cas"))

    def _scatter_integer(self, element: m.Element, kind: str, value: Integer) -> Stmt:
        if kind in FIXED:
            return m.Evaluate(FIXED[kind](element))
        symbol = {"add": "+", "or": "|", "and": "&", "xor": "^", "mul": "*"}.get(kind)
        if symbol and self.draw.boolean():
            return m.Augment(element, symbol, value[0])
        return m.Evaluate(m.AtomicCall(kind, element, value[0]))

    # -- branches and exits -----------------------------------------------------------------------------------

    def branch(self, depth: int = 1) -> list[Stmt]:
        """Return a random `if`, in some cases with `elif`, `else`, or a walrus in its condition."""
        before = self._condition_with_name() if self.draw.boolean(0.25) else self.condition()
        then = self.some(depth)
        orelse: tuple[Stmt, ...] = ()
        if self.draw.boolean(0.35):
            orelse = self.some(depth)
        elif self.draw.boolean(0.25):
            with self.only_reading():
                second = self.condition()
            orelse = (m.If(second, self.some(depth), self.some(depth) if self.draw.boolean() else ()),)
        return [m.If(before, then, orelse)]

    def _condition_with_name(self) -> m.Expr:
        a, dtype = self.real(1)
        made = m.Walrus(self.fresh("v"), a)
        self.names.reals[made.name] = dtype
        return m.Compare((">",), (made, self.literal()))

    def some(self, depth: int) -> tuple[Stmt, ...]:
        """Return one or two random statements for the body of a branch, sometimes branches again."""
        with self.block():
            body: list[Stmt] = []
            for _ in range(self.draw.choice((1, 1, 2))):
                nested = depth > 0 and self.draw.boolean(0.2)
                body += self.branch(depth - 1) if nested else self.simple()
            if self.draw.boolean(0.05):
                body.insert(0, m.Pass())
        return tuple(body)

    def exit(self) -> list[Stmt]:
        """Return a `break` or `continue` under a condition, in some cases inside of two branches."""
        words: list[Stmt] = [m.Break(), m.Continue()]
        if self.loops and self.loops[-1] == "parallel":
            words = [m.Continue()]
        if not self.loops:
            return self.simple()
        leave: tuple[Stmt, ...] = (self.draw.choice(words),)
        with self.block():
            if self.draw.boolean(0.4):
                condition = self.condition(0)
                with self.block():
                    leave = (*(self.simple() if self.draw.boolean(0.4) else ()), *leave)
                leave = (*(self.simple() if self.draw.boolean(0.3) else ()), m.If(condition, leave))
        return [m.If(self.condition(), leave)]
