"""This module draws kernels for peers: short programs in forms that peers can differentiate.

A peer takes a tenth of a second for the smallest kernel, so kernels that it would refuse are not drawn at all: no
`while`, no exits, no serial code beside loops, real numbers of one type. Small kernels tell more than large ones: one
mistake of a peer hides the next, and small kernels are reduced sooner. Bounds of loops take all forms, also differences
and negative numbers. Loops at the top of the kernel are sometimes serial, from element to element of an array.
"""

from __future__ import annotations

from collections.abc import Callable

from ....compiler.ir.types import i32
from ..model import nodes as m
from ..model.nodes import Expr, Number, Stmt
from ..strategies import SMOOTH
from ..strategies.draw import Chooser
from ..strategies.functions import add, mul
from ..strategies.kernels import Kernels
from ..strategies.loops import Serial
from ..strategies.state import DrawnField, IntInterval

NOT_GIVEN = ("p", "h", "l", "a")
"""Arrays whose types say nothing about a gradient, and which cost a peer another kernel to fill."""

CHAINS = 0.1
"""Share of sections that are a serial loop from element to element."""

OWN_ARRAYS = 0.12
"""Share of sections about local arrays."""

PRODUCTS = 0.04
"""Share of sections that multiply elements which several iterations share."""

FUNCTIONS = 0.25
"""Share of the functions of common programs that are drawn; peers inline functions."""

MOST = 4
"""Largest number of trips of a loop."""

PLAIN_BOUNDS = 0.85
"""Share of serial loops whose bounds are sums of names, numbers and elements.

Peers bound the number of values they save by such bounds, and refuse what they cannot bound.
"""


class KernelsForPeers(Kernels):
    """Draw short random programs with bounded values, limited to forms that peers can differentiate.

    `bounding` is True while a bound of the plain kind is drawn.
    """

    rich_share = 0.0
    vectorial_share = 0.3
    extents = (2, 3, 2, 4, 1, 2, 3, 4, 5)
    bounding = False

    def __init__(self, draw: Chooser) -> None:
        super().__init__(draw, SMOOTH)
        self.result = False
        for name in NOT_GIVEN:
            del self.arrays[name]

    def _new_function(self) -> None:
        if self.draw.boolean(FUNCTIONS):
            super()._new_function()

    def _section(self) -> list[Stmt]:
        """Return the statements of one part of a program: a parallel loop, or a serial loop along an array."""
        self._open_serial()
        others = ((CHAINS, self._chain), (OWN_ARRAYS, self.own_arrays), (PRODUCTS, self._shared_product))
        for share, section in others:
            if self.draw.boolean(share) and (found := section()):
                return found
        return [self._task(None)]

    def _domain(self) -> tuple[m.Domain, dict[str, IntInterval]]:
        """Return the domain of a parallel loop that counts up by one, and its index names with their intervals."""
        lane, n = self.fresh("i"), Number(self.n)
        index = {lane: IntInterval(i32, 0, self.n - 1)}
        kind = self.draw.choice(("over", "range", "over", "range", "extent", "from", "box", "matrix"))
        if kind in ("box", "matrix"):
            columns = {self.fresh("i"): IntInterval(i32, 0, 2)}
            return m.Over("g") if kind == "matrix" else m.Box(((None, n), (None, Number(3)))), index | columns
        domains = {"over": m.Over("x"), "range": m.Range(None, n), "extent": m.Range(None, m.Extent("x", 0))}
        return domains.get(kind) or m.Range(self.trips(1), n), index

    def exit(self) -> list[Stmt]:
        """Return a simple statement in place of a loop exit such as `break`, which peers do not differentiate."""
        return self.simple()

    def _as_while(self) -> list[Stmt]:
        """Return a `for` loop in place of a `while` loop, which peers do not differentiate."""
        return [self._main_loop()]

    # -- along an array ---------------------------------------------------------------------------------------

    def _chain(self) -> list[Stmt]:
        """Return a serial loop that computes each array element from its predecessor, or no statement."""
        found = [n for n in ("y", "z", "o") if self.extent(self.arrays[n].axes[0]) > 2]
        array = self._open(self.draw.choice(found)) if found else None
        if array is None:
            return []
        extent, name = self.extent(array.axes[0]), self.fresh("i")
        whole = self.draw.boolean(0.4)
        with self.block("serial", indices={name: IntInterval(i32, 0, extent - 1)}):
            body = self._links(array, m.Name(name), whole)
        if whole:
            domain: m.Domain = m.Over("w" if array.axes == ("table",) else "x")
            body = [m.If(m.Compare((">",), (m.Name(name), Number(0))), tuple(body))]
        else:
            domain = m.Range(None, Number(extent - 1))
        return [m.For((name,), domain, tuple(body), serialize=True)]

    def _links(self, array: DrawnField, i: m.Name, whole: bool) -> list[Stmt]:
        """Return a loop body that computes one array element from the element before it.

        If `whole` is True, the loop runs over all elements, else over all but the last.
        """
        here, there = (m.Binary("-", i, Number(1)), i) if whole else (i, add(i, Number(1)))
        source, target = (m.Element(array.name, (k,)) for k in (here, there))
        made: list[Stmt] = [m.Assign((self.declare_real(self.main),), (source,))]
        if self.draw.boolean(0.4):
            made += self.loop(1) if self.draw.boolean() else self.simple()
        last = m.Name(list(self.names.reals)[-1])
        value, _ = self.bounded((mul(last, self.real(1)[0]), self.main))
        if self.draw.boolean(0.3):
            return [*made, m.Augment(target, "+", value)]
        return [*made, m.Assign((target,), (value,))]

    # -- serial loops -----------------------------------------------------------------------------------------

    def loop(self, depth: int) -> list[Stmt]:
        """Return a `for` loop that contains further loops as far as `depth` allows."""
        kind = self.draw.choice((*("for",) * 10, "box", "unrolled"))
        if kind == "unrolled" and depth == 1:
            return self._unrolled()
        return self._for(depth, self._box() if kind == "box" and depth == 1 else self._range())

    def _range(self) -> Serial:
        """Return a random range for a serial loop, with the loop's index and the interval of its values.

        It is counted by the text, data, arguments, outer indices or differences; it may start below zero or be empty.
        """
        kinds: list[Callable[[], tuple[m.Range, int, int]]] = [
            self._up_to(self._literal),
            self._up_to(self._literal),
            self._up_to(self._by_data),
            self._up_to(self._by_data),
            self._up_to(self._counted_range),
            self._up_to(self._between),
            self._up_to(self._triangular),
            self._up_to(self._triangular),
            self._up_to(self._empty),
            self._falling,
            self._falling,
            self._below_zero,
        ]
        self.bounding = self.draw.boolean(PLAIN_BOUNDS)
        with self.only_reading():
            domain, least, most = self.draw.choice(kinds)()
        self.bounding = False
        return domain, {self.fresh("j"): IntInterval(i32, least, max(most, least))}

    def _up_to(self, kind: Callable[[], tuple[m.Range, int]]) -> Callable[[], tuple[m.Range, int, int]]:
        def made() -> tuple[m.Range, int, int]:
            domain, most = kind()
            begins = domain.begin
            return domain, min(0, self._least(begins)) if begins is not None else 0, most

        return made

    def _least(self, e: Expr) -> int:
        """Return a lower bound of the expression with which a range begins, from the intervals of known names."""
        if isinstance(e, m.Name) and e.name in self.names.ints:
            return self.names.ints[e.name].low
        return min((self.names.ints[n].low for n in self.names.indices), default=0)

    def _count(self, most: int = MOST) -> tuple[Expr, IntInterval]:
        """Return a small integer expression, such as an outer index, argument or literal, and its interval."""
        kind = self.draw.choice(("index", "index", "data", "data", "argument"))
        names = [n for n in self.names.indices if self.names.ints[n].high <= most]
        if kind == "index" and names:
            name = self.draw.choice(names)
            return m.Name(name), self.names.ints[name]
        found = [a for a in self.readable(real=False) if a.content and a.content[1] <= most]
        if kind != "argument" and found:
            array = self.draw.choice(found)
            return m.Element(array.name, self.place(array)), IntInterval(i32, *(array.content or (0, 0)))
        if most < MOST or self.in_function:
            number = self.draw.integer(1, most)
            return Number(number), IntInterval(i32, number, number)
        self.arguments.setdefault("count", IntInterval(i32, 0, MOST))
        return m.Name("count"), IntInterval(i32, 0, MOST)

    def trips(self, most: int = MOST) -> Expr:
        """Return a trip count; while a simple bound is drawn, only a literal or a small integer expression."""
        if not self.bounding:
            return super().trips(most)
        return Number(self.draw.integer(1, most)) if self.draw.boolean(0.35) else self._count(most)[0]

    def place(self, array: DrawnField) -> tuple[Expr, ...]:
        """Return the indices of an array element; while a simple bound is drawn, only outer indices or literals."""
        if not self.bounding:
            return super().place(array)
        return tuple(self._plain_index(self.extent(axis)) for axis in array.axes)

    def _plain_index(self, extent: int) -> Expr:
        known = [n for n in self.names.indices if self.names.ints[n].low >= 0 and self.names.ints[n].high < extent]
        if known and self.draw.boolean(0.7):
            return m.Name(self.draw.choice(known))
        return Number(self.draw.integer(0, extent - 1))

    def _falling(self) -> tuple[m.Range, int, int]:
        """Return a range that ends at a trip count minus a small integer, and its least and greatest index."""
        less, known = self._count()
        if self.draw.boolean(0.6):
            most = max(self.draw.choice((known.high, MOST)), 1)
            return m.Range(None, m.Binary("-", Number(most), less)), 0, most - known.low - 1
        return m.Range(None, m.Binary("-", self.trips(MOST), less)), 0, MOST - known.low - 1

    def _below_zero(self) -> tuple[m.Range, int, int]:
        """Return a range whose begin is or may be negative, with its least and greatest index."""
        offset = self.draw.integer(1, 3)
        if self.draw.boolean(0.3):
            return m.Range(Number(-offset), self.trips(2)), -offset, 1
        first, known = self._count()
        return m.Range(m.Binary("-", first, Number(offset)), self.trips(2)), known.low - offset, 1

    def within(self, e: Expr, w: IntInterval, extent: int) -> Expr:
        """Return an expression that maps the integer `e` into 0 .. extent - 1."""
        return m.Binary("%", e, Number(extent)) if w.low < 0 else super().within(e, w, extent)

    def _moved(self, kind: str, index: Expr, whole: IntInterval, size: int) -> Expr:
        if whole.low < 0:
            index, whole = self.within(index, whole, size), IntInterval(i32, 0, size - 1)
        return super()._moved(kind, index, whole, size)
