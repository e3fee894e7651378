"""This module emits the bounds of traced loops: types of their indices, trip counts of ranges with a step."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.statement import Value
from ..ir.types import Scalar, i32, i64
from . import type_inference
from .context import Tracer
from .diagnostics import PoisonError, ProblemError
from .domains import AxisBounds, LoopDomain
from .operands import Operand, Static, integer_of


def index_type(t: Tracer, bounds: AxisBounds) -> Scalar:
    """Return the type of a loop index: i32, or i64 if a bound needs it; report a bound that is no integer."""
    dtype = i32
    for operand in (bounds.begin, bounds.end):
        found = integer_of(operand)
        if found is not None:
            dtype = dtype if type_inference.fits(found, i32) else i64
            continue
        try:
            own = t.type_of(operand)
            type_inference.check_bound(own)
        except ProblemError as problem:
            t.report(problem, bounds.node)
        except PoisonError:
            pass
        else:
            dtype = i64 if i64 in (dtype, type_inference.index_type(own)) else i32
    return dtype


def bound_value(t: Tracer, operand: Operand, dtype: Scalar) -> Value:
    """Return a loop bound converted to the index type, or 0 after a reported mistake, if the operand is no integer."""
    usable = isinstance(operand, Value) and operand.type.is_int or integer_of(operand) is not None
    return t.value(operand if usable else Static(0), dtype)


def strided(t: Tracer, domain: LoopDomain, stride: Value) -> tuple[Value, Callable[[Value], Value]]:
    """Return the trip count of a strided loop as i64, and a function from a trip number k to the loop index.

    A step of zero gives no trips. A range downward has as many trips as the range upward between the negated bounds. In
    a parallel loop, the trips are iterations.
    """
    (bounds,) = domain.bounds(t)
    op, const = t.builder.op, t.builder.const
    dtype = i64 if i64 in (index_type(t, bounds), type_inference.index_type(stride.type)) else i32
    begin, end = bound_value(t, bounds.begin, dtype), bound_value(t, bounds.end, dtype)
    step, zero = t.builder.cast(stride, i64), const(0, i64)
    distance = op("sub", t.builder.cast(end, i64), t.builder.cast(begin, i64))
    distance = op("select", op("cmp_lt", step, zero), op("neg", distance), distance)
    # The divisor is at least 1, so that a step of zero does not trap.
    size = op("max", op("abs", step), const(1, i64))
    trips = op("floordiv", op("add", distance, op("sub", size, const(1, i64))), size)
    trips = op("select", op("cmp_eq", step, zero), zero, op("max", trips, zero))
    pace = t.builder.cast(stride, dtype)
    return trips, lambda k: op("add", begin, op("mul", t.builder.cast(k, dtype), pace))


def as_value(t: Tracer, bound: int | Value, dtype: Scalar) -> Value:
    """Return a bound as a value of a type: a constant if the bound is known."""
    return t.builder.cast(bound, dtype) if isinstance(bound, Value) else t.builder.const(bound, dtype)


def trip_count(t: Tracer, begin: Value, end: Value, step: int) -> Value:
    """Return the number of trips of a range with i64 bounds, max(0, ceil((end - begin)/step)), as i64."""
    op, size = t.builder.op, t.builder.const(abs(step), i64)
    distance = op("sub", end, begin) if step > 0 else op("sub", begin, end)
    rounded = op("add", distance, t.builder.const(abs(step) - 1, i64))
    return op("max", op("floordiv", rounded, size), t.builder.const(0, i64))
