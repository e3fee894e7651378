"""This module constructs size expressions in simplified form: sums as linear forms, decided conditions removed.

Invariant: the value of a simplified expression equals the value of the plain node in every state in which the plain
node has a value, and the simplified expression reads no element that the plain node does not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

from ..analysis.intervals import (
    INFINITY,
    Interval,
    NumberInterval,
    floor_quotient,
    greatest_sum,
    join,
    least_sum,
    product,
    remainder,
    times,
)
from .expressions import FALSE, OVER, TRUE, ZERO, SizeExpr, assume_least, const, node, read, variable_of

Terms = dict[SizeExpr, int]
"""The factor of each term of a sum."""


def value_of(expr: SizeExpr) -> int | None:
    """Return the integer that the expression has for all arguments, or None if it is not constant."""
    return int(expr.low) if expr.low == expr.high and expr.kind == "const" else None


# ---- sums and products --------------------------------------------------------------------------------------


def linear(expr: SizeExpr) -> tuple[int, Terms]:
    """Return an expression as a linear form: its constant, and its terms with their integer factors."""
    known = value_of(expr)
    if known is not None:
        return known, {}
    if expr.kind == "sum":
        constant, *factors = [int(d) for d in expr.data]  # type: ignore[call-overload]
        return constant, dict(zip(expr.args, factors))
    return 0, {expr: 1}


def from_linear(constant: int, terms: Terms) -> SizeExpr:
    """Return the expression of a linear form: the sum of a constant and of terms with integer factors."""
    left = sorted(((t, f) for t, f in terms.items() if f), key=lambda tf: tf[0].key)
    if not left:
        return const(constant)
    if len(left) == 1 and constant == 0 and left[0][1] == 1:
        return left[0][0]
    within = _sum_interval(constant, left)
    return node("sum", tuple(t for t, _ in left), (constant, *(f for _, f in left)), *within)


def _sum_interval(constant: int, terms: Iterable[tuple[SizeExpr, int]]) -> NumberInterval:
    """Return the interval of a linear form: a constant and terms with integer factors."""
    within = [(term.interval, factor) for term, factor in terms]
    return Interval(least_sum(constant, within), greatest_sum(constant, within))


def add(*parts: SizeExpr) -> SizeExpr:
    """Return the sum of the parts as a simplified size expression."""
    constant, terms = 0, Terms()
    for part in parts:
        more, found = linear(part)
        constant += more
        for term, factor in found.items():
            terms[term] = terms.get(term, 0) + factor
    return assume_least(from_linear(constant, terms), sum(p.low for p in parts))


def scale(expr: SizeExpr, factor: int) -> SizeExpr:
    """Return a size expression for `factor` times `expr`."""
    if factor == 1:
        return expr
    constant, terms = linear(expr)
    made = from_linear(constant * factor, {t: f * factor for t, f in terms.items()})
    return assume_least(made, times(expr.low if factor > 0 else expr.high, factor))


def sub(a: SizeExpr, b: SizeExpr) -> SizeExpr:
    """Return a size expression for the difference a - b."""
    return add(a, scale(b, -1))


def mul(a: SizeExpr, b: SizeExpr) -> SizeExpr:
    """Return the product of a and b as a simplified size expression."""
    for known, other in ((value_of(a), b), (value_of(b), a)):
        if known is not None:
            return scale(other, known)
    factors = sorted((*_factors(a), *_factors(b)), key=lambda f: f.key)
    low, high = reduce(product, (factor.interval for factor in factors))
    if len(factors) == 2 and factors[0] == factors[1]:
        # A square is not negative.
        low = max(low, 0)
    return node("product", tuple(factors), (), low, high)


def _factors(expr: SizeExpr) -> tuple[SizeExpr, ...]:
    """Return the factors of a product node, or a tuple of the expression itself for any other node."""
    return expr.args if expr.kind == "product" else (expr,)


# ---- division -----------------------------------------------------------------------------------------------


def floordiv(a: SizeExpr, b: SizeExpr) -> SizeExpr:
    """Return a size expression for a/b, rounded down. It has no value where b is 0."""
    known, divisor = value_of(a), value_of(b)
    if divisor == 1:
        return a
    if known is not None and divisor:
        return const(known // divisor)
    return node("floordiv", (a, b), (), *floor_quotient(a.interval, b.interval))


def mod(a: SizeExpr, b: SizeExpr) -> SizeExpr:
    """Return a size expression for the remainder of a/b, with the sign of b. It has no value where b is 0."""
    known, divisor = value_of(a), value_of(b)
    if known is not None and divisor:
        return const(known % divisor)
    if b.low > 0 and a.low >= 0 and a.high < b.low:
        return a
    return node("mod", (a, b), (), *remainder(a.interval, b.interval))


# ---- extremes -----------------------------------------------------------------------------------------------


def maximum(*parts: SizeExpr) -> SizeExpr:
    """Return the maximum of the parts as a simplified size expression."""
    return _extreme("max", parts, lambda a, b: a.low >= b.high)


def minimum(*parts: SizeExpr) -> SizeExpr:
    """Return the minimum of the parts as a simplified size expression."""
    return _extreme("min", parts, lambda a, b: a.high <= b.low)


def _extreme(kind: str, parts: Iterable[SizeExpr], beats: Callable[[SizeExpr, SizeExpr], bool]) -> SizeExpr:
    """Return the maximum or minimum of the parts, without parts that cannot change the result by their bounds.

    Args:
        kind: "max" or "min".
        parts: The expressions.
        beats: Return True if the bounds alone show that the second expression is not needed beside the first.
    """
    flat = dict.fromkeys(p for part in parts for p in (part.args if part.kind == kind else (part,)))
    kept: list[SizeExpr] = []
    for part in flat:
        if not any(_beats(kind, beats, k, part) for k in kept):
            kept = [k for k in kept if not _beats(kind, beats, part, k)] + [part]
    if len(kept) == 1:
        return kept[0]
    pick = max if kind == "max" else min
    low, high = pick(k.low for k in kept), pick(k.high for k in kept)
    return node(kind, tuple(sorted(kept, key=lambda k: k.key)), (), low, high)


def _beats(kind: str, beats: Callable[[SizeExpr, SizeExpr], bool], a: SizeExpr, b: SizeExpr) -> bool:
    """Return True if expression b cannot change the maximum or minimum of a and b, so that a suffices."""
    if beats(a, b):
        return True
    low, high = _difference(a, b)
    return low >= 0 if kind == "max" else high <= 0


def _difference(a: SizeExpr, b: SizeExpr) -> NumberInterval:
    """Return the interval of a - b, in which equal terms cancel."""
    constant, terms = linear(a)
    less, others = linear(b)
    terms = dict(terms)
    for term, factor in others.items():
        terms[term] = terms.get(term, 0) - factor
    return _sum_interval(constant - less, ((t, f) for t, f in terms.items() if f))


# ---- conditions ---------------------------------------------------------------------------------------------


def negate(c: SizeExpr) -> SizeExpr:
    """Return the negation of a condition as a size expression."""
    if c.kind == "const":
        return FALSE if c.data[0] else TRUE
    if c.kind == "not":
        return c.args[0]
    if c.kind == "positive":
        return positive(sub(const(1), c.args[0]))
    if c.kind in ("and", "or"):
        return (any_of if c.kind == "and" else all_of)(*(negate(a) for a in c.args))
    return node("not", (c,), (), 0, 1)


def all_of(*parts: SizeExpr) -> SizeExpr:
    """Return the condition that all parts hold; parts after the first false one are not evaluated."""
    return _junction("and", parts, FALSE, TRUE)


def any_of(*parts: SizeExpr) -> SizeExpr:
    """Return the condition that at least one part holds; parts after the first true one are not evaluated."""
    return _junction("or", parts, TRUE, FALSE)


def _junction(kind: str, parts: Iterable[SizeExpr], decisive: SizeExpr, neutral: SizeExpr) -> SizeExpr:
    """Return the simplified `and` or `or` of the parts: `decisive` if one equals it, else without `neutral` parts."""
    kept: dict[SizeExpr, None] = {}
    for part in parts:
        for p in part.args if part.kind == kind else (part,):
            if p == decisive:
                return decisive
            if p != neutral:
                kept[p] = None
    if not kept:
        return neutral
    return next(iter(kept)) if len(kept) == 1 else node(kind, tuple(kept), (), 0, 1)


def positive(x: SizeExpr) -> SizeExpr:
    """Return the condition 0 < x."""
    if x.low > 0 or x.high <= 0:
        return TRUE if x.low > 0 else FALSE
    if x.kind == "max":
        return any_of(*(positive(a) for a in x.args))
    if x.kind == "min":
        return all_of(*(positive(a) for a in x.args))
    if x.kind == "product" and all(a.low >= 0 for a in x.args):
        return all_of(*(positive(a) for a in x.args))
    if x.kind == "when":
        return select_condition(x.args[0], positive(x.args[1]), positive(x.args[2]))
    if x.kind == "sum" and _has_no_negative(x):
        return any_of(*(positive(a) for a in x.args))
    return node("positive", (x,), (), 0, 1)


def _has_no_negative(x: SizeExpr) -> bool:
    """Return True if x is a sum without a constant whose terms and factors are not negative."""
    constant, terms = linear(x)
    return constant == 0 and all(f > 0 and t.low >= 0 for t, f in terms.items())


def zero(x: SizeExpr) -> SizeExpr:
    """Return the condition that x is 0."""
    if x.low > 0 or x.high < 0:
        return FALSE
    if x.low == x.high == 0:
        return TRUE
    # Of x and -x one is chosen by its text, so that both give the same node.
    other = scale(x, -1)
    return node("zero", (min(x, other, key=lambda e: e.key),), (), 0, 1)


def select_condition(c: SizeExpr, a: SizeExpr, b: SizeExpr) -> SizeExpr:
    """Return the condition that equals a where c holds, and b elsewhere."""
    if c in (TRUE, FALSE) or a == b:
        return b if c == FALSE else a
    return any_of(all_of(c, a), all_of(negate(c), b))


def compare(operation: str, a: SizeExpr, b: SizeExpr) -> SizeExpr:
    """Return the condition that compares two reals by `operation`: cmp_lt, cmp_le, cmp_eq or cmp_ne."""
    return node("compare", (a, b), (operation,), 0, 1)


def select_value(c: SizeExpr, a: SizeExpr, b: SizeExpr) -> SizeExpr:
    """Return the expression that equals a where the condition c holds, and b elsewhere."""
    if c in (TRUE, FALSE) or a == b:
        return b if c == FALSE else a
    if c.kind == "not":
        return select_value(c.args[0], b, a)
    if b.kind == "when" and b.args[0] == c:
        b = b.args[2]
    if a.kind == "when" and a.args[0] == c:
        a = a.args[1]
    if a.kind == "when" and a.args[2] == b:
        return select_value(all_of(c, a.args[0]), a.args[1], b)
    if a.high <= 0 and b.high <= 0 and -INFINITY < min(a.low, b.low) < 0:
        # A choice of numbers below zero is the negative of a choice of numbers above zero, for which more rules apply.
        return scale(select_value(c, scale(a, -1), scale(b, -1)), -1)
    return node("when", (c, a, b), (), *join(a.interval, b.interval))


# ---- over ranges --------------------------------------------------------------------------------------------


def range_node(kind: str, variable: int, begin: SizeExpr, end: SizeExpr, body: SizeExpr) -> SizeExpr:
    """Return the unsimplified node of the sum (`total`) or maximum (`largest`) of `body` over a range.

    Args:
        kind: "total" or "largest".
        variable: Number of the index of the range, by which `body` refers to it.
        begin: First index.
        end: The index after the last one.
        body: The expression that is summed, or whose largest value is taken.
    """
    if end.high <= begin.low or body == ZERO or kind == "largest" and body.high <= 0:
        return ZERO
    count = max(end.high - begin.low, 0)
    high = max(times(body.high, count) if kind == "total" else body.high, 0)
    low = min(times(body.low, count), 0) if kind == "total" else max(0, body.low if begin.high < end.low else 0)
    return node(kind, (begin, end, body), (variable,), low, high)


# ---- substitution -------------------------------------------------------------------------------------------


def substitute(expr: SizeExpr, variable: int, by: SizeExpr) -> SizeExpr:
    """Return the expression with the loop index `variable` replaced by `by`, simplified again."""
    if variable not in expr.free:
        return expr
    if expr.kind == "var":
        return by
    if expr.kind in OVER:
        number = variable_of(expr)
        begin, end = (substitute(a, variable, by) for a in expr.args[:2])
        body = expr.args[2] if number == variable else substitute(expr.args[2], variable, by)
        return range_node(expr.kind, number, begin, end, body)
    return rebuild(expr, [substitute(a, variable, by) for a in expr.args])


def rebuild(expr: SizeExpr, args: list[SizeExpr]) -> SizeExpr:
    """Return a simplified node like `expr` with new arguments; sums and maxima over a range are not allowed."""
    if expr.kind == "sum":
        constant, *factors = [int(d) for d in expr.data]  # type: ignore[call-overload]
        return add(const(constant), *(scale(a, f) for a, f in zip(args, factors)))
    if expr.kind == "product":
        made = args[0]
        for factor in args[1:]:
            made = mul(made, factor)
        return made
    if expr.kind == "read":
        return read(str(expr.data[0]), expr.data[1], args)  # type: ignore[arg-type]
    if expr.kind == "compare":
        return compare(str(expr.data[0]), *args)
    return _MAKERS[expr.kind](*args)


_MAKERS: dict[str, Callable[..., SizeExpr]] = {
    "floordiv": floordiv,
    "mod": mod,
    "max": maximum,
    "min": minimum,
    "when": select_value,
    "positive": positive,
    "zero": zero,
    "not": negate,
    "and": all_of,
    "or": any_of,
}
