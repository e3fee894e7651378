"""This module computes sums and maxima of expressions over a range, in closed form where possible.

    sum($i in b .. e: k*$i + r)            →  k*(sum of b .. e - 1) + r*(e - b)
    max($i in b .. e: k*$i + r)            →  max(k*b + r, k*(e - 1) + r)
    sum($i in b .. e: if($i < t, x, y))    →  sum($i in b .. min(e, t): x) + sum($i in max(b, t) .. e: y)

A range without a closed form is enumerated. This happens only where the body needs an element, or a product of indices,
at each point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .algebra import (
    Terms,
    add,
    all_of,
    any_of,
    floordiv,
    from_linear,
    linear,
    maximum,
    minimum,
    mod,
    mul,
    positive,
    range_node,
    scale,
    select_value,
    sub,
    substitute,
    value_of,
)
from .expressions import ONE, ZERO, SizeExpr, assume_least, const

MOST = 400
"""Largest number of nodes of an expression; a range is enumerated rather than cut into more pieces."""

Bounds = Mapping[int, tuple[SizeExpr, SizeExpr]]
"""Begin and end of the loops around, by the number of their index."""


def range_length(begin: SizeExpr, end: SizeExpr, around: Bounds) -> SizeExpr:
    """Return the length of a range; 0 if the range is empty."""
    length = sub(end, begin)
    return assume_least(length, 0) if least(length, around) >= 0 else maximum(ZERO, length)


def least(expr: SizeExpr, around: Bounds) -> float:
    """Return a lower bound of a linear form, found by inserting the ends of the loop ranges, innermost loop first."""
    best = expr.low
    while expr.free:
        number = max(expr.free)
        found = split_linear(expr, number)
        factor = None if found is None else value_of(found[0])
        if not factor or number not in around:
            break
        begin, end = around[number]
        expr = substitute(expr, number, begin if factor > 0 else sub(end, ONE))
        best = max(best, expr.low)
    return best


def split_linear(expr: SizeExpr, number: int) -> tuple[SizeExpr, SizeExpr] | None:
    """Return (k, r) with expr = k*index + r, both independent of the index, or None if expr is not linear."""
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


def _slope(term: SizeExpr, number: int) -> tuple[SizeExpr, SizeExpr] | None:
    """Return (k, r) with term = k*index + r for one term of a linear form, or None if the term is not linear."""
    if term.kind == "var":
        return ONE, ZERO
    if term.kind != "product":
        return None
    inside = [f for f in term.args if number in f.free]
    if len(inside) != 1:
        return None
    found = split_linear(inside[0], number)
    if found is None:
        return None
    others = ONE
    for factor in term.args:
        others = others if factor is inside[0] else mul(others, factor)
    return mul(found[0], others), mul(found[1], others)


class ClosedForms:
    """This class finds closed forms of sums and maxima of size expressions over a range of one loop index.

    Attributes:
        kind: "total" or "largest".
        number: Number of the index.
        around: Begin and end of the loops around.
    """

    def __init__(self, kind: str, number: int, around: Bounds) -> None:
        self.kind = kind
        self.number = number
        self.around = around

    def close(self, begin: SizeExpr, end: SizeExpr, body: SizeExpr) -> SizeExpr:
        """Return the sum or maximum of the body over begin .. end, in closed form if a small one exists."""
        plain = range_node(self.kind, self.number, begin, end, body)
        if plain.args == () or plain.size > MOST:
            return plain
        closed = self._closed(begin, end, body)
        return plain if closed is None or closed.size > MOST else assume_least(closed, plain.low)

    def _closed(self, begin: SizeExpr, end: SizeExpr, body: SizeExpr) -> SizeExpr | None:
        """Return the closed form of a sum or maximum over a range, or None if there is none."""
        if self.number not in body.free:
            return self._constant(begin, end, body)
        if body.kind == "when":
            return self._choice(begin, end, *body.args)
        if body.kind in ("max", "min"):
            return self._extreme(begin, end, body)
        found = split_linear(body, self.number)
        if found is not None:
            return self._linear(begin, end, *found)
        if body.kind == "product":
            return self._product(begin, end, body)
        return self._terms(begin, end, body) if body.kind == "sum" else None

    def _nonempty(self, begin: SizeExpr, end: SizeExpr, value: SizeExpr) -> SizeExpr:
        """Return `value` if the range is not empty, and 0 if it is empty."""
        return select_value(positive(range_length(begin, end, self.around)), value, ZERO)

    def _constant(self, begin: SizeExpr, end: SizeExpr, body: SizeExpr) -> SizeExpr:
        """Return the closed form of a sum or maximum whose body does not depend on the index."""
        if self.kind == "largest":
            return self._nonempty(begin, end, maximum(ZERO, body))
        product = mul(range_length(begin, end, self.around), body)
        # An empty range reads nothing, so a body that reads an element needs the condition.
        return self._nonempty(begin, end, product) if body.reads else product

    def _linear(self, begin: SizeExpr, end: SizeExpr, slope: SizeExpr, rest: SizeExpr) -> SizeExpr:
        """Return the closed form of a sum or maximum whose body is slope * index + rest."""
        first, last = (add(mul(slope, at), rest) for at in (begin, sub(end, ONE)))
        if self.kind == "largest":
            return self._nonempty(begin, end, maximum(ZERO, first, last))
        count, ends = range_length(begin, end, self.around), add(first, last)
        if value_of(mod(count, const(2))) == 0:
            product = mul(floordiv(count, const(2)), ends)
        # If the number of values is odd, the sum of the first and the last value is even, so its half is exact.
        else:
            odd = mul(mod(count, const(2)), floordiv(ends, const(2)))
            product = add(mul(floordiv(count, const(2)), ends), odd)
        return self._nonempty(begin, end, product) if product.reads else product

    def _extreme(self, begin: SizeExpr, end: SizeExpr, body: SizeExpr) -> SizeExpr | None:
        """Return the closed form for a body max(...) or min(...), rewritten as a conditional; None if there is none."""
        if body.kind == "max" and self.kind == "largest":
            return maximum(*(self.close(begin, end, part) for part in body.args))
        make = maximum if body.kind == "max" else minimum
        first, rest = body.args[0], make(*body.args[1:])
        ahead = sub(first, rest) if body.kind == "max" else sub(rest, first)
        return self._choice(begin, end, positive(ahead), first, rest)

    def _product(self, begin: SizeExpr, end: SizeExpr, body: SizeExpr) -> SizeExpr | None:
        """Return the closed form for a product, with factors free of the index taken out; None if there are none."""
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

    def _terms(self, begin: SizeExpr, end: SizeExpr, body: SizeExpr) -> SizeExpr | None:
        """Return the sum of closed forms of those terms that have one, plus one sum over a range of all other terms."""
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
        return add(closed, range_node("total", self.number, begin, end, from_linear(0, left)))

    # -- choices --------------------------------------------------------------------------------------------

    def _choice(self, begin: SizeExpr, end: SizeExpr, c: SizeExpr, x: SizeExpr, y: SizeExpr) -> SizeExpr | None:
        """Return the closed form for a conditional body by splitting the range at the condition; None if impossible."""
        if self.number not in c.free:
            made = select_value(c, self.close(begin, end, x), self.close(begin, end, y))
            return self._nonempty(begin, end, made) if c.reads else made
        # A condition that reads no element may be evaluated first.
        if c.kind in ("and", "or"):
            first, *others = sorted(c.args, key=lambda part: part.reads)
            if c.kind == "and":
                return self._choice(begin, end, first, select_value(all_of(*others), x, y), y)
            return self._choice(begin, end, first, x, select_value(any_of(*others), x, y))
        found = split_linear(c.args[0], self.number) if c.kind in ("positive", "zero") else None
        slope = None if found is None else value_of(found[0])
        if found is None or not slope:
            return None
        pieces = _pieces(c.kind, slope, found[1], begin, end, x, y)
        if pieces is None:
            return None
        join: Callable[..., SizeExpr] = add if self.kind == "total" else maximum
        made = join(*(self.close(b, e, value) for b, e, value in pieces))
        return self._nonempty(begin, end, made) if found[1].reads else made


def _pieces(
    kind: str, slope: int, rest: SizeExpr, begin: SizeExpr, end: SizeExpr, x: SizeExpr, y: SizeExpr
) -> list[tuple[SizeExpr, SizeExpr, SizeExpr]] | None:
    """Return the pieces (begin, end, value) into which a condition splits a range, or None if there is no split.

    Args:
        kind: "positive" for the condition 0 < slope * index + rest, "zero" for its equality with 0.
        slope: The factor of the index, not 0.
        rest: The part of the condition without the index.
        begin: First index.
        end: The index after the last one.
        x: The value where the condition holds.
        y: The value elsewhere.
    """
    if kind == "positive":
        # The condition 0 < k*i + r holds from i = floor(-r/k) + 1 on.
        if slope > 0:
            at = add(floordiv(scale(rest, -1), const(slope)), ONE)
            return [(begin, minimum(end, at), y), (maximum(begin, at), end, x)]
        # The condition holds before i = ceil(r/-k).
        at = scale(floordiv(scale(rest, -1), const(-slope)), -1)
        return [(begin, minimum(end, at), x), (maximum(begin, at), end, y)]
    if abs(slope) != 1:
        return None
    at = scale(rest, -slope)
    after = add(at, ONE)
    return [(begin, minimum(end, at), y), (maximum(begin, at), minimum(end, after), x), (maximum(begin, after), end, y)]


def range_sum(number: int, begin: SizeExpr, end: SizeExpr, body: SizeExpr, around: Bounds) -> SizeExpr:
    """Return the sum of the body over the index range begin .. end.

    Args:
        number: Number of the index.
        begin: First index.
        end: The index after the last one.
        body: The expression to sum.
        around: Begin and end of the loops around.
    """
    return ClosedForms("total", number, around).close(begin, end, body)


def range_maximum(number: int, begin: SizeExpr, end: SizeExpr, body: SizeExpr, around: Bounds) -> SizeExpr:
    """Return the maximum of the body, at least 0, over the index range begin .. end.

    Args:
        number: Number of the index.
        begin: First index.
        end: The index after the last one.
        body: The expression.
        around: Begin and end of the loops around.
    """
    return ClosedForms("largest", number, around).close(begin, end, body)
