"""Draw random scalar expressions: reals of magnitude about one, integers with known intervals, and conditions.

Each method names its productions in one flat list, simplest first, so that a program shrinks to leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from ....compiler.ir.types import Scalar, f32, f64, i32, i64, promote
from ..model import nodes as m
from ..model.nodes import Expr, Number
from .functions import LITERALS, RAW_NAMES, SAFE, SMOOTH_NAMES, add, call, mul, strip_cast
from .state import DrawnField, DrawnSignature, GeneratorState, IntInterval

Typed = tuple[Expr, Scalar]
Integer = tuple[Expr, IntInterval]


class Expressions(GeneratorState):
    """Draw scalar expressions that are valid at the current point of a program."""

    # -- reals ----------------------------------------------------------------------------------------------

    def real(self, depth: int | None = None) -> Typed:
        """Return a random floating-point expression and its type.

        Args:
            depth: Number of levels that the expression may have; None draws it.
        """
        depth = self.depth if depth is None else depth
        if depth <= 0 or not self.draw.boolean(0.6):
            return self.leaf()
        return self.draw.choice(self.productions())(depth - 1)

    def productions(self) -> list[Callable[[int], Typed]]:
        """Return the methods that draw compound floating-point expressions, frequent ones several times as a weight."""
        return [
            self._sum,
            self._function,
            self._product,
            self._function,
            self._sum,
            self._scaled,
            self._extremum,
            self._choice,
            self._quotient,
            self._function,
            self._mixed,
            self._invoke,
            self._rare,
            self._function,
        ]

    def leaf(self) -> Typed:
        """Return a simple floating-point expression and its type: a local, element, argument or converted integer."""
        arrays = self.readable(real=True)
        kinds = ["local"] * 4 * bool(self.names.reals) + ["element"] * 3 * bool(arrays) + ["argument", "integer"]
        kind = self.draw.choice(kinds + ["index"] * 2 * bool(self.names.indices))
        if kind == "index":
            index = m.Name(self.names.indices[-1])
            return mul(Number(0.25), m.Cast(index, self.main, self.draw.choice(("type", "cast")))), self.main
        if kind == "local":
            name = self.draw.choice(list(self.names.reals))
            return m.Name(name), self.names.reals[name]
        if kind == "element":
            array = self.draw.choice(arrays)
            element = m.Element(array.name, self.place(array))
            return call("volatile_load", element) if self.draw.boolean(0.02) else element, array.dtype
        if kind == "argument" and not self.in_function:
            return self.argument("real")
        return m.Cast(self.integer(1)[0], self.main, self.draw.choice(("type", "cast"))), self.main

    def argument(self, kind: str) -> Typed:
        """Return the name and type of a floating-point kernel argument, and declare the argument at its first use."""
        name = "alpha"
        self.arguments.setdefault(name, self.main)
        return m.Name(name), self.main

    def literal(self) -> Number:
        """Return a random floating-point literal."""
        return Number(self.draw.choice(LITERALS))

    def bounded(self, typed: Typed) -> Typed:
        """Return sin, cos or tanh of an expression, so that the value stays in -1 .. 1."""
        return call(self.draw.choice(("sin", "tanh", "cos")), typed[0]), typed[1]

    def _sum(self, depth: int) -> Typed:
        (a, p), (b, q) = self.real(depth), self.real(depth)
        return m.Binary(self.draw.choice("+-"), a, b), promote(p, q)

    def _scaled(self, depth: int) -> Typed:
        (a, p), number = self.real(depth), self.literal()
        return m.Binary(self.draw.choice("*+-"), *((number, a) if self.draw.boolean() else (a, number))), p

    def _product(self, depth: int) -> Typed:
        (a, p), (b, q) = self.real(depth), self.real(depth - 1)
        return mul(self.bounded((a, p))[0], b), promote(p, q)

    def _function(self, depth: int) -> Typed:
        a, p = self.real(depth)
        if self.wild and self.draw.boolean(0.4):
            return call(self.draw.choice(RAW_NAMES), a), p
        return SAFE[self.draw.choice(SMOOTH_NAMES)](a), p

    def _extremum(self, depth: int) -> Typed:
        items = [self.real(depth - 1) for _ in range(self.draw.choice((2, 2, 3)))]
        dtype = reduce(promote, (t for _, t in items))
        return m.Call(self.draw.choice(("min", "max")), tuple(e for e, _ in items)), dtype

    def _choice(self, depth: int) -> Typed:
        condition = self.condition(depth)
        (a, p), (b, q) = self.real(depth), self.real(depth - 1)
        if self.draw.boolean(0.3):
            return call("select", condition, a, b), promote(p, q)
        return m.Choice(condition, a, b), promote(p, q)

    def _quotient(self, depth: int) -> Typed:
        (a, p), (b, q) = self.real(depth), self.real(depth - 1)
        if self.wild and self.draw.boolean():
            return m.Binary(self.draw.choice(("/", "//", "%", "**")), a, b), promote(p, q)
        return m.Binary("/", a, add(Number(2.5), call("sin", b))), promote(p, q)

    def _mixed(self, depth: int) -> Typed:
        """Return a sum, difference or product of a random floating-point and a random integer expression."""
        (a, p), (k, _) = self.real(depth), self.integer(1)
        return m.Binary(self.draw.choice("*+-"), *((a, k) if self.draw.boolean() else (k, a))), p

    def _invoke(self, depth: int) -> Typed:
        found = [f for f in self.functions if f.results == 1 and not f.shape]
        if not found:
            return self._function(depth)
        return m.Invoke((f := self.draw.choice(found)).name, self.arguments_of(f)), self.main

    def arguments_of(self, function: DrawnSignature) -> tuple[Expr, ...]:
        """Return random argument expressions for a call of a function of the program."""
        with self.only_reading():
            return tuple(self._argument_of(function, kind) for kind in function.params)

    def _argument_of(self, function: DrawnSignature, kind: str) -> Expr:
        if kind == "int":
            e, w = self.integer()
            e = self.within(e, w, 5)
            return strip_cast(e) if function.annotated else e
        if function.annotated and self.draw.boolean(0.2):
            return self.literal()
        return self.real(1)[0]

    def _rare(self, depth: int) -> Typed:
        """Return an expression of a rare kind: a type conversion, a random draw or a library function.

        A random number or a function of `mathematics` may stand in its place.
        """
        a, p = self.real(depth)
        kind = self.draw.choice(("wide", "random", "float", "bits", "random", "of types", *("functions",) * 4))
        if kind == "random" and not self.in_function:
            dtype = self.draw.choice((None, f32, f64))
            return m.Random(dtype, self.draw.choice(("random", "randn"))), dtype or self.main
        if kind == "functions":
            return self.mathematics((a, p))
        if kind == "bits" and self.wild:
            bits = m.Binary("&", m.BitCast(m.Cast(a, f32), i32), Number(0x3FFFFFFF))
            return m.BitCast(bits, f32), f32
        if kind == "float":
            return m.Cast(a, None, "float"), self.main
        dtype = f64 if kind == "wide" else promote(self.main, p)
        return m.Cast(a, dtype, self.draw.choice(("type", "cast"))), dtype

    def mathematics(self, typed: Typed) -> Typed:
        """Return a call of a rare library function, such as `clamp`, `mix` or `stop_grad`, and its type."""
        a, p = typed
        kind = self.draw.choice(("clamp", "mix", "stop_grad", "fract", "smoothstep", "one", "zero", "stop_grad"))
        if kind == "clamp":
            return call("math.clamp", a, Number(-0.75), Number(1.25)), p
        if kind == "mix":
            b, q = self.real(0)
            return call("math.mix", a, call("sin", a), b), promote(p, q)
        if kind == "smoothstep":
            return call("math.smoothstep", Number(-0.5), Number(1.5), a), p
        if kind == "stop_grad":
            return mul(call("stop_grad", call("cos", a)), a), p
        if kind in ("zero", "one"):
            return add(call("sin", a), call(kind, a)), p
        return call("math.fract", mul(a, Number(1.5))), p

    # -- integers -------------------------------------------------------------------------------------------

    def integer(self, depth: int | None = None) -> Integer:
        """Return an integer expression that is not negative, and its interval.

        Args:
            depth: Number of levels that the expression may have; None draws it.
        """
        depth = self.depth if depth is None else depth
        if depth <= 0 or not self.draw.boolean(0.55):
            return self._integer_leaf()
        productions: list[Callable[[int], Integer]] = [
            self._capped,
            self._plus,
            self._half,
            self._modulo,
            self._distance,
            self._bits,
            self._of_real,
            self._pick,
            self._counted,
        ]
        return self.draw.choice(productions)(depth - 1)

    def _integer_leaf(self) -> Integer:
        kinds = ["number", "local", "local", "element", "element", "argument", "extent"]
        kind = self.draw.choice(kinds)
        if kind == "local" and self.names.ints:
            name = self.draw.choice(list(self.names.ints))
            return m.Name(name), self.names.ints[name]
        arrays = [a for a in self.readable(real=False) if a.content is not None]
        if kind == "element" and arrays:
            array = self.draw.choice(arrays)
            assert array.content is not None
            return m.Element(array.name, self.place(array)), IntInterval(array.dtype, *array.content)
        if kind == "argument" and not self.in_function:
            self.arguments.setdefault("count", IntInterval(i32, 0, 4))
            return m.Name("count"), IntInterval(i32, 0, 4)
        if kind == "extent" and "w" in self.access.readable:
            return m.Extent("w", 0), IntInterval(i32, self.table, self.table)
        value = self.draw.choice((2, 1, 3, 0, 4, 2, 3))
        return m.Cast(Number(value), i32, "type"), IntInterval(i32, value, value)

    def _capped(self, depth: int) -> Integer:
        e, w = self.integer(depth)
        linear = add(mul(Number(2), e), Number(1))
        return call("min", linear, Number(6)), IntInterval(w.dtype, min(2 * w.low + 1, 6), min(2 * w.high + 1, 6))

    def _plus(self, depth: int) -> Integer:
        (a, p), (b, q) = self.integer(depth), self.integer(depth - 1)
        return add(a, b), IntInterval(promote(p.dtype, q.dtype), p.low + q.low, p.high + q.high)

    def _half(self, depth: int) -> Integer:
        e, w = self.integer(depth)
        return m.Binary(self.draw.choice(("//", ">>")), e, Number(2)), IntInterval(w.dtype, 0, max(w.high // 2, 0))

    def _modulo(self, depth: int) -> Integer:
        (a, p), (b, q) = self.integer(depth), self.integer(depth - 1)
        divisor = self.draw.integer(2, 5)
        name = self.draw.choice(("%", "raw_mod"))
        total, number = add(a, b), Number(divisor)
        made = m.Binary("%", total, number) if name == "%" else call(name, total, number)
        return made, IntInterval(promote(p.dtype, q.dtype), 0, divisor - 1)

    def _distance(self, depth: int) -> Integer:
        (a, p), (b, q) = self.integer(depth), self.integer(depth - 1)
        return call("abs", m.Binary("-", a, b)), IntInterval(promote(p.dtype, q.dtype), 0, max(p.high, q.high))

    def _bits(self, depth: int) -> Integer:
        (a, p), (b, q) = self.integer(depth), self.integer(depth - 1)
        dtype, most = promote(p.dtype, q.dtype), (1 << max(p.high, q.high).bit_length()) - 1
        op = self.draw.choice(("&", "|", "^", "<<", "~"))
        if op == "<<":
            return m.Binary("<<", a, Number(1)), IntInterval(p.dtype, 0, 2 * p.high)
        # The value of -1 - ~a is a.
        if op == "~":
            return m.Binary("-", Number(-1), m.Unary("~", a)), p
        return m.Binary(op, a, b), IntInterval(dtype, 0, most)

    def _of_real(self, depth: int) -> Integer:
        """Return an integer in 0 .. 2 that is converted from a random real expression."""
        a, _ = self.bounded(self.real(depth))
        scaled = mul(Number(2.5), call("abs", a))
        kind = self.draw.choice(("int", "type", "floor", "wide"))
        if kind == "floor":
            return m.Call("floor", (scaled,), i32), IntInterval(i32, 0, 2)
        if kind == "int":
            return m.Cast(scaled, None, "int"), IntInterval(i32, 0, 2)
        dtype = i64 if kind == "wide" else i32
        return m.Cast(scaled, dtype, "type"), IntInterval(dtype, 0, 2)

    def _pick(self, depth: int) -> Integer:
        condition, (a, p), (b, q) = self.condition(0), self.integer(depth), self.integer(depth - 1)
        whole = IntInterval(promote(p.dtype, q.dtype), min(p.low, q.low), max(p.high, q.high))
        return m.Choice(condition, a, b), whole

    def _counted(self, depth: int) -> Integer:
        e, w = self.integer(depth)
        name = self.draw.choice(("popcnt", "ffs", "clz", "bit_shr", "raw_div"))
        # The operand is brought into 0 .. 7, whose 29 leading zero bits are subtracted.
        if name == "clz":
            small = m.Binary("&", m.Cast(e, i32), Number(7))
            return m.Binary("-", call("clz", small), Number(29)), IntInterval(i32, 0, 3)
        if name in ("popcnt", "ffs"):
            return call(name, e), IntInterval(i32, 0, w.high.bit_length())
        second = Number(1 if name == "bit_shr" else 2)
        return call(name, e, second), IntInterval(w.dtype, 0, w.high // 2)

    def trips(self, most: int = 4) -> Expr:
        """Return a random trip count of at most `most`, which is not 0 if it is a literal."""
        if self.draw.boolean(0.2):
            return Number(self.draw.integer(1, most))
        e, w = self.integer(0) if self.draw.boolean(0.4) else self.integer()
        return strip_cast(e if w.high <= most else self.within(e, w, most + 1))

    def within(self, e: Expr, w: IntInterval, extent: int) -> Expr:
        """Return an integer expression that is mapped into 0 .. extent - 1 by `%` or `min`."""
        if w.high < extent:
            return e
        return self.draw.choice((m.Binary("%", e, Number(extent)), call("min", e, Number(extent - 1))))

    # -- places ---------------------------------------------------------------------------------------------

    def place(self, array: DrawnField) -> tuple[Expr, ...]:
        """Return random indices of an array element, which are always in bounds."""
        if self.group and array.axes == ("lane", "column")[: len(self.lane)] and self.draw.boolean(0.6):
            return (self._shifted() if self.n and self.draw.boolean(0.4) else m.Name(self.group),)
        return tuple(self._index(axis) for axis in array.axes)

    def _shifted(self) -> Expr:
        """Return the index vector of a neighbor of this iteration's element, which wraps around at the ends."""
        extents = (self.n, self.extent("column"))[: len(self.lane)]
        offset = m.Vector(tuple(Number(self.draw.integer(0, 1)) for _ in extents))
        return m.Binary("%", add(m.Name(self.group), offset), m.Vector(tuple(map(Number, extents))))

    def _index(self, axis: str) -> Expr:
        extent = self.extent(axis)
        if axis == "lane" and self.lane and not (extent and self.draw.boolean(0.25)):
            return m.Name(self.lane[0])
        if axis == "column" and len(self.lane) > 1:
            return m.Name(self.lane[1])
        if axis != "lane" and self.loops and self.names.indices and self.draw.boolean(0.35):
            inner = self.names.indices[-1]
            return strip_cast(self.within(m.Name(inner), self.names.ints[inner], extent))
        # The elements of `c` lie in 0 .. table - 1, so they are valid indices of a table.
        if axis == "table" and self.lane and "c" in self.access.readable and self.draw.boolean(0.5):
            return m.Element("c", (m.Name(self.lane[0]),))
        if self.draw.boolean(0.6):
            return strip_cast(self.within(*self.integer(1), extent))
        return Number(self.draw.integer(0, extent - 1))

    def own(self, array: DrawnField) -> tuple[Expr, ...] | None:
        """Return the indices of the element that only this iteration touches, or None if it has no such element."""
        names = tuple(m.Name(name) for name in self.lane)
        if self.group and array.axes == ("lane", "column")[: len(names)] and self.draw.boolean():
            return (m.Name(self.group),)
        if array.axes == ("lane", "column") and len(names) == 1:
            return (*names, Number(self.draw.integer(0, 2)))
        return names if len(array.axes) == len(names) and array.axes[:1] == ("lane",) else None

    # -- conditions -----------------------------------------------------------------------------------------

    def condition(self, depth: int = 1) -> Expr:
        """Return a random boolean expression."""
        productions: list[Callable[[int], Expr]] = [
            self._reals_compared,
            self._integers_compared,
            self._reals_compared,
            self._flag,
            self._chained,
            self._logic,
            self._negated,
            self._parity,
            self._classified,
        ]
        return self.draw.choice(productions if depth > 0 else productions[:4])(depth - 1)

    def _reals_compared(self, depth: int) -> Expr:
        a, _ = self.real(1)
        b = self.literal() if self.draw.boolean(0.6) else self.real(1)[0]
        return m.Compare((self.draw.choice(("<", ">", "<=", ">=")),), (a, b))

    def _integers_compared(self, depth: int) -> Expr:
        a, b = self.integer(1)[0], self.integer(1)[0]
        return m.Compare((self.draw.choice(("<", "==", "!=", ">", "<=", ">=")),), (a, b))

    def _flag(self, depth: int) -> Expr:
        if self.names.flags and self.draw.boolean(0.7):
            return m.Name(self.draw.choice(self.names.flags))
        if "p" in self.access.readable and self.lane:
            return m.Element("p", (m.Name(self.lane[0]),))
        return m.Cast(self.integer(1)[0], None, "bool")

    def _chained(self, depth: int) -> Expr:
        ops = self.draw.choice((("<", "<"), ("<=", "<"), (">", "<=")))
        return m.Compare(ops, (self.literal(), self.real(1)[0], self.real(1)[0]))

    def _logic(self, depth: int) -> Expr:
        first = self.condition(depth)
        with self.only_reading():
            rest = tuple(self.condition(depth) for _ in range(self.draw.choice((1, 1, 2))))
        return m.Logic(self.draw.choice(("and", "or")), (first, *rest))

    def _negated(self, depth: int) -> Expr:
        return m.Unary(self.draw.choice(("not", "not", "~") if self.wild else ("not",)), self.condition(depth))

    def _parity(self, depth: int) -> Expr:
        return m.Binary("%", self.integer(1)[0], Number(2))

    def _classified(self, depth: int) -> Expr:
        a, _ = self.real(1)
        return call(self.draw.choice(("isnan", "isinf")), a)
