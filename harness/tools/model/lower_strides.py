"""Lower ranges whose step is known only at launch, as loops over trip numbers k with the index begin + k·step."""

from __future__ import annotations

from collections.abc import Callable

from ....compiler.ir.statement import Value
from ....compiler.ir.types import i64
from . import nodes as m
from .lowering import Lowerer, index_type

IndexOf = Callable[[Value], Value]


def lower_range(t: Lowerer, domain: m.Range) -> tuple[Value, IndexOf]:
    """Return the number of trips of a range and a function that computes the index of trip k.

    The number of trips is max(0, ceil((end - begin)/step)) in 64 bits, and 0 for a step of 0.
    """
    ends = [t.expr(domain.begin or m.Number(0)), t.expr(domain.end)]
    step = t.value(t.expr(m.Name(domain.stride)))
    wide = i64 in [index_type(t.type_of(e)) for e in (*ends, step)]
    begin, end = (t.value(e, i64) for e in ends)
    dtype = i64 if wide else index_type(step.type)

    def index_of(k: Value) -> Value:
        b = t.builder
        return b.cast(b.op("add", begin, b.op("mul", k, t.value(step, i64))), dtype)

    return _count(t, begin, end, t.value(step, i64)), index_of


def _count(t: Lowerer, begin: Value, end: Value, step: Value) -> Value:
    """Emit max(0, ceil((end - begin)/step)), the number of trips of a range; it is 0 for a step of 0."""
    b = t.builder
    zero, one = b.const(0, i64), b.const(1, i64)
    # A step of 0 makes an empty loop; the division uses 1 in its place.
    none = b.op("cmp_eq", step, zero)
    divisor = b.op("select", none, one, step)
    sign = b.op("select", b.op("cmp_lt", step, zero), b.const(-1, i64), one)
    distance = b.op("add", b.op("sub", end, begin), b.op("sub", divisor, sign))
    return b.op("select", none, zero, b.op("max", b.op("floordiv", distance, divisor), zero))
