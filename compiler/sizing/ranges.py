"""Sums and largest values over a range, in closed form where the body allows it.

    sum($i in b .. e: k*$i + r)            →  k*(sum of b .. e - 1) + r*(e - b)
    max($i in b .. e: k*$i + r)            →  max(k*b + r, k*(e - 1) + r)
    sum($i in b .. e: if($i < t, x, y))    →  sum($i in b .. min(e, t): x) + sum($i in max(b, t) .. e: y)

What stays is an enumeration: only where the body needs an element, or a product of indices, at each point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .algebra import (
    Terms,
    add,
    both,
    either,
    floordiv,
    from_linear,
    linear,
    maximum,
    minimum,
    mod,
    mul,
    over,
    positive,
    scale,
    sub,
    substitute,
    value_of,
    when,
)
from .expressions import ONE, ZERO, Expr, assume, const

MOST = 400
"""Nodes of an expression after which a range is enumerated rather than cut into more pieces."""

Bounds = Mapping[int, tuple[Expr, Expr]]
"""Begin and end of loops around, by the id of their index."""


def trips(begin: Expr, end: Expr, around: Bounds) -> Expr:
    """The length of a range; 0 if it is empty."""
    length = sub(end, begin)
    return assume(length, 0) if least(length, around) >= 0 else maximum(ZERO, length)


def least(expr: Expr, around: Bounds) -> float:
    """A lower bound of a linear form, from the ends of the loops whose indices are in it, innermost first."""
    best = expr.low
    while expr.free:
        number = max(expr.free)
        found = split(expr, number)
        factor = None if found is None else value_of(found[0])
        if not factor or number not in around:
            break
        begin, end = around[number]
        expr = substitute(expr, number, begin if factor > 0 else sub(end, ONE))
        best = max(best, expr.low)
    return best


def split(expr: Expr, number: int) -> tuple[Expr, Expr] | None:
    """(k, r) with expr = k*index + r, both free of the index; None if it is not of that form."""
    if number not in expr.free:
        return ZERO, expr
    constant, terms = linear(expr)
    slope, rest = ZERO, Terms()
    for term, factor in terms.items():
        if number not in term.free:
            rest[term] = factor
            continue
        part = _slope(term, number)
        if part is None:
            return None
        slope = add(slope, scale(part[0], factor))
        more, found = linear(scale(part[1], factor))
        constant += more
        for t, f in found.items():
            rest[t] = rest.get(t, 0) + f
    return slope, from_linear(constant, rest)


def _slope(term: Expr, number: int) -> tuple[Expr, Expr] | None:
    """(k, r) of one term."""
    if term.kind == "var":
        return ONE, ZERO
    if term.kind != "product":
        return None
    inside = [f for f in term.args if number in f.free]
    if len(inside) != 1:
        return None
    found = split(inside[0], number)
    if found is None:
        return None
    others = ONE
    for factor in term.args:
        others = others if factor is inside[0] else mul(others, factor)
    return mul(found[0], others), mul(found[1], others)


class Closer:
    """Closes ranges of one index. kind: total or largest. around: the loops outside."""

    def __init__(self, kind: str, number: int, around: Bounds) -> None:
        self.kind = kind
        self.number = number
        self.around = around

    def close(self, begin: Expr, end: Expr, body: Expr) -> Expr:
        """The value over begin .. end."""
        plain = over(self.kind, self.number, begin, end, body)
        if plain.args == () or plain.size > MOST:
            return plain
        closed = self._closed(begin, end, body)
        return plain if closed is None or closed.size > MOST else assume(closed, plain.low)

    def _closed(self, begin: Expr, end: Expr, body: Expr) -> Expr | None:
        if self.number not in body.free:
            return self._constant(begin, end, body)
        if body.kind == "when":
            return self._choice(begin, end, *body.args)
        if body.kind in ("max", "min"):
            return self._extreme(begin, end, body)
        found = split(body, self.number)
        if found is not None:
            return self._linear(begin, end, *found)
        if body.kind == "product":
            return self._product(begin, end, body)
        return self._terms(begin, end, body) if body.kind == "sum" else None

    def _nonempty(self, begin: Expr, end: Expr, value: Expr) -> Expr:
        return when(positive(trips(begin, end, self.around)), value, ZERO)

    def _constant(self, begin: Expr, end: Expr, body: Expr) -> Expr:
        if self.kind == "largest":
            return self._nonempty(begin, end, maximum(ZERO, body))
        product = mul(trips(begin, end, self.around), body)
        return self._nonempty(begin, end, product) if body.reads else product

    def _linear(self, begin: Expr, end: Expr, slope: Expr, rest: Expr) -> Expr:
        first, last = (add(mul(slope, at), rest) for at in (begin, sub(end, ONE)))
        if self.kind == "largest":
            return self._nonempty(begin, end, maximum(ZERO, first, last))
        count, ends = trips(begin, end, self.around), add(first, last)
        if value_of(mod(count, const(2))) == 0:
            product = mul(floordiv(count, const(2)), ends)
        else:  # the sum of the ends is even if their number is odd
            odd = mul(mod(count, const(2)), floordiv(ends, const(2)))
            product = add(mul(floordiv(count, const(2)), ends), odd)
        return self._nonempty(begin, end, product) if product.reads else product

    def _extreme(self, begin: Expr, end: Expr, body: Expr) -> Expr | None:
        if body.kind == "max" and self.kind == "largest":
            return maximum(*(self.close(begin, end, part) for part in body.args))
        make = maximum if body.kind == "max" else minimum
        first, rest = body.args[0], make(*body.args[1:])
        ahead = sub(first, rest) if body.kind == "max" else sub(rest, first)
        return self._choice(begin, end, positive(ahead), first, rest)

    def _product(self, begin: Expr, end: Expr, body: Expr) -> Expr | None:
        outside = [f for f in body.args if self.number not in f.free]
        if not outside or self.kind == "largest" and any(f.low < 0 for f in outside):
            return None
        inside = ONE
        for factor in body.args:
            inside = inside if self.number not in factor.free else mul(inside, factor)
        made = self.close(begin, end, inside)
        for factor in outside:
            made = mul(made, factor)
        return self._nonempty(begin, end, made) if any(f.reads for f in outside) else made

    def _terms(self, begin: Expr, end: Expr, body: Expr) -> Expr | None:
        """A sum, term by term: those that close, and the others together."""
        if self.kind == "largest":
            return None
        constant, terms = linear(body)
        closed, left = ZERO, Terms()
        for term, factor in terms.items():
            made = self.close(begin, end, term)
            if made.kind == "total" and made.args[2] == term:
                left[term] = factor
            else:
                closed = add(closed, scale(made, factor))
        if not closed.size > 1 and not constant:
            return None
        closed = add(closed, self._constant(begin, end, const(constant)))
        return add(closed, over("total", self.number, begin, end, from_linear(0, left)))

    # -- choices --------------------------------------------------------------------------------------------

    def _choice(self, begin: Expr, end: Expr, c: Expr, x: Expr, y: Expr) -> Expr | None:
        if self.number not in c.free:
            made = when(c, self.close(begin, end, x), self.close(begin, end, y))
            return self._nonempty(begin, end, made) if c.reads else made
        if c.kind in ("and", "or"):  # what reads no element may be looked at first
            first, *others = sorted(c.args, key=lambda part: part.reads)
            if c.kind == "and":
                return self._choice(begin, end, first, when(both(*others), x, y), y)
            return self._choice(begin, end, first, x, when(either(*others), x, y))
        found = split(c.args[0], self.number) if c.kind in ("positive", "zero") else None
        slope = None if found is None else value_of(found[0])
        if found is None or not slope:
            return None
        pieces = _pieces(c.kind, slope, found[1], begin, end, x, y)
        if pieces is None:
            return None
        join: Callable[..., Expr] = add if self.kind == "total" else maximum
        made = join(*(self.close(b, e, value) for b, e, value in pieces))
        return self._nonempty(begin, end, made) if found[1].reads else made


def _pieces(
    kind: str, slope: int, rest: Expr, begin: Expr, end: Expr, x: Expr, y: Expr
) -> list[tuple[Expr, Expr, Expr]] | None:
    """The range cut where the condition changes: (begin, end, value) of each piece."""
    if kind == "positive":
        if slope > 0:  # 0 < k*i + r  from  floor(-r/k) + 1  on
            at = add(floordiv(scale(rest, -1), const(slope)), ONE)
            return [(begin, minimum(end, at), y), (maximum(begin, at), end, x)]
        at = scale(floordiv(scale(rest, -1), const(-slope)), -1)  # before ceil(r/-k)
        return [(begin, minimum(end, at), x), (maximum(begin, at), end, y)]
    if abs(slope) != 1:
        return None
    at = scale(rest, -slope)
    after = add(at, ONE)
    return [(begin, minimum(end, at), y), (maximum(begin, at), minimum(end, after), x), (maximum(begin, after), end, y)]


def total(number: int, begin: Expr, end: Expr, body: Expr, around: Bounds) -> Expr:
    """The sum of the body over begin .. end of an index."""
    return Closer("total", number, around).close(begin, end, body)


def largest(number: int, begin: Expr, end: Expr, body: Expr, around: Bounds) -> Expr:
    """The largest value of the body over begin .. end of an index, at least 0."""
    return Closer("largest", number, around).close(begin, end, body)
