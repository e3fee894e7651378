"""Test the entries of BOUNDS by samples: results of operands within their errors stay within the bound.

For operands x with errors e, points x' of the box (ends, center, random ones) are put through the operation in f64
(longdouble for f64), moved by the permitted ulps, and compared with the result of the reference at x.
"""

from __future__ import annotations

import numpy as np
import pytest
from stackgrad.compiler.ir.ops import COMPARISONS, OPS, result_type
from stackgrad.compiler.ir.types import SCALARS, f16, f32, f64
from stackgrad.harness.testing.bounds.roundoff import FORMATS, SLACK, plan_operation
from stackgrad.harness.testing.bounds.rules import BOUNDS, ZERO
from stackgrad.reference.scalar import NUMPY
from table_rows import each_row

SMOOTH = [name for name in OPS if BOUNDS[name].kind in ("rounded", "approximated", "kept") and name != "select"]
STEPS = ("floor", "ceil", "round", "sgn", "floordiv")
COUNT, POINTS = 1500, 24
EDGES = (0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 1e-3, -2.5, np.pi / 2, 0.999, 1e4)


def operands(op, dtype, rng):
    """Return operands with errors: safe operands, edge values, and numbers near these; errors from none to large."""
    columns, errors = [], []
    for low, high in OPS[op].safe:
        safe = rng.uniform(low, high, COUNT)
        edge = rng.choice(EDGES, COUNT) * (1 + rng.choice([0, 1e-3, -1e-3, 1e-7], COUNT))
        x = np.where(rng.random(COUNT) < 0.6, safe, edge).astype(dtype.dtype)
        share = 10.0 ** rng.uniform(-9, 0, COUNT)
        e = np.where(rng.random(COUNT) < 0.2, 0.0, (np.abs(x.astype(float)) + 1e-4) * share)
        columns.append(x)
        errors.append(e)
    return columns, errors


def evaluated(op, dtype, points, precise=False):
    """Return results in a higher precision than the type's, if NumPy has one; in f64 for precise code."""
    if dtype is f64 and not precise and op in ("add", "sub", "mul", "div", "sqrt", "inv"):
        return NUMPY[op].meaning(*(p.astype(np.longdouble) for p in points))
    return NUMPY[op].meaning(*points)


def box_points(xs, es, dtype, rng):
    """Return points of the box of operands within their errors, as columns [point][case]."""
    for k in range(POINTS):
        t = [rng.choice([-1.0, 1.0], COUNT) if k < 8 else rng.uniform(-1, 1, COUNT) for _ in xs]
        moved = [x.astype(float) + e * s for x, e, s in zip(xs, es, t)]
        rounded = [m.astype(dtype.dtype).astype(float) for m in moved]
        inside = [np.abs(r - x.astype(float)) <= e for r, x, e in zip(rounded, xs, es)]
        yield [np.where(i, r, x.astype(float)) for i, r, x in zip(inside, rounded, xs)]


@each_row("dtype", [f16, f32, f64], ids=str)
@each_row("precise", [True, False], ids=["precise", "contracting"])
@each_row("op", SMOOTH)
def test_bound_holds(op, precise, dtype):
    rng = np.random.default_rng(sum(map(ord, op)))
    with np.errstate(all="ignore"):
        xs, es = operands(op, dtype, rng)
        result = NUMPY[op].meaning(*xs)
        bound = plan_operation(op, dtype, precise).of(xs, es, result) * SLACK
        bound = np.broadcast_to(bound, COUNT)
        approximated = BOUNDS[op].kind == "approximated" and not (op == "rcp" and precise)
        permitted = OPS[op].ulps if approximated else 0.0
        fmt = FORMATS[dtype.name]
        for points in box_points(xs, es, dtype, rng):
            other = evaluated(op, dtype, points, precise)
            if BOUNDS[op].kind == "rounded" and precise or op == "rcp" and precise:
                other = other.astype(np.float32).astype(dtype.dtype) if dtype is f16 else other.astype(dtype.dtype)
            if op == "floordiv" and precise:
                other = NUMPY[op].meaning(*(p.astype(dtype.dtype) for p in points))
            last = np.float32 if dtype is f16 else dtype.dtype  # an f16 result is an f32 result rounded
            unit = np.spacing(np.abs(other).astype(last)).astype(float)
            shift = permitted * unit * rng.choice([-1, 0, 1], COUNT)
            shift = np.where(np.isfinite(shift) & ~((other == 0) & (result == 0)), shift, 0.0)
            if dtype is f16 and permitted:
                other, shift = (other + shift).astype(np.float16), 0.0
            gap = np.abs((other - result) + shift)
            alike = (other == result) | np.isnan(other) & np.isnan(result)
            held = np.where(np.isfinite(other) & np.isfinite(result), gap <= bound + 1e-3 * fmt.tiny, alike)
            wrong = ~held & (bound < np.inf) & (np.abs(other) < fmt.most)
            show = [np.flatnonzero(wrong)[:3], [x[wrong][:3] for x in xs], [e[wrong][:3] for e in es]]
            assert not wrong.any(), (show, other[wrong][:3], result[wrong][:3], bound[wrong][:3])


@pytest.mark.parametrize("op", [op for op in SMOOTH if op not in STEPS and op != "mod"])
def test_bound_is_tight_where_safe(op):
    """For small errors at safe operands the bound is finite and at most a few times what is reached."""
    rng = np.random.default_rng(1)
    xs = [rng.uniform(low, high, COUNT) for low, high in OPS[op].safe]
    es = [np.abs(x) * 1e-6 for x in xs]
    with np.errstate(all="ignore"):
        result = NUMPY[op].meaning(*xs)
        bound = plan_operation(op, f64, False).of(xs, es, result)
        reached = np.zeros(COUNT)
        for points in box_points(xs, es, f64, rng):
            reached = np.maximum(reached, np.abs(NUMPY[op].meaning(*points) - result))
    if op != "frexp_mantissa":
        assert np.isfinite(bound).mean() > 0.99
    ratio = (bound / np.maximum(reached, 1e-12 * np.abs(result)))[np.isfinite(bound)]
    assert np.median(ratio) < 2.0


@pytest.mark.parametrize(
    ("op", "xs", "es"),
    [
        ("floor", (2.0,), (1e-7,)),
        ("ceil", (1.9999999,), (1e-6,)),
        ("round", (2.5,), (1e-7,)),
        ("sgn", (0.0,), (1e-30,)),
        ("div", (1.0, 1e-3), (0.0, 1.1e-3)),
        ("inv", (0.1,), (0.2,)),
        ("sqrt", (1e-8,), (1e-7,)),
        ("log", (0.5,), (0.5,)),
        ("rsqrt", (0.0,), (1e-9,)),
        ("tan", (1.57079,), (1e-4,)),
        ("asin", (0.9999999,), (1e-6,)),
        ("acos", (-1.0,), (1e-9,)),
        ("atan2", (0.0, -1.0), (1e-9, 0.0)),
        ("atan2", (1e-9, 1e-9), (1e-8, 0.0)),
        ("pow", (1e-9, 0.5), (1e-8, 0.0)),
        ("pow", (-2.0, 2.0), (0.0, 1e-9)),
        ("mod", (6.0, 3.0), (1e-7, 0.0)),
        ("floordiv", (6.0, 3.0), (1e-7, 0.0)),
        ("frexp_mantissa", (1.0,), (1e-7,)),
        ("exp", (88.7,), (1.0,)),
        ("mul", (3e38, 1.1), (1e37, 0.0)),
    ],
)
def test_jumps_and_poles_have_infinite_error(op, xs, es):
    args = [np.float32(x) for x in xs]
    with np.errstate(all="ignore"):
        assert np.isinf(plan_operation(op, f32, True).of(args, [np.float64(e) for e in es], NUMPY[op](*args)))


@pytest.mark.parametrize(
    ("op", "xs"),
    [
        ("div", (1.0, 0.0)),
        ("div", (0.0, 0.0)),
        ("log", (0.0,)),
        ("log", (-1.0,)),
        ("sqrt", (-1.0,)),
        ("inv", (-0.0,)),
        ("rsqrt", (0.0,)),
        ("asin", (2.0,)),
        ("sin", (np.inf,)),
        ("sub", (np.inf, np.inf)),
        ("mul", (np.inf, 0.0)),
        ("pow", (0.0, -1.0)),
        ("pow", (-2.0, 0.5)),
        ("max", (np.nan, 1.0)),
        ("mod", (1.0, 0.0)),
    ],
)
def test_exact_singularities_are_certain(op, xs):
    """1/0 with exact operands is an infinity everywhere, 0/0 a NaN."""
    args = [np.array([x, x], np.float32) for x in xs]
    with np.errstate(all="ignore"):
        e = plan_operation(op, f32, True).of(args, [np.array([0.0, 0.0])] * len(xs), NUMPY[op](*args))
    assert not np.any(e)


@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons(op):
    plan, x = plan_operation(op, f32, True), np.array([1.0, 1.0, 1.0, np.inf, np.nan], np.float32)
    y = np.array([1.0, 1.0 + 2.0**-23, 2.0, 5.0, 1.0], np.float32)
    e = np.array([0.0, 1e-7, 1e-7, 1e-7, 0.0])
    found = plan.of([x, y], [e, e], NUMPY[op](x, y))
    assert found.tolist() == [0.0, np.inf, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(("dtype", "exact", "rounded"), [(f32, (3.0, 5.0), (0.1, 0.7)), (f64, (3.0, 5.0), (0.1, 0.7))])
@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_what_is_not_rounded_stays_exact(op, dtype, exact, rounded):
    """Contraction takes roundings away; where there is none it changes nothing."""
    for numbers, is_exact in ((exact, True), (rounded, False)):
        args, zero = [dtype.dtype.type(x) for x in numbers], [np.float64(0.0)] * 2
        e = plan_operation(op, dtype, False).of(args, zero, NUMPY[op](*args))
        assert (e == 0) == (is_exact or NUMPY[op](*args) == NUMPY[op](*(np.longdouble(a) for a in args)))
        assert plan_operation(op, dtype, True).of(args, zero, NUMPY[op](*args)) == 0


def test_every_row_types():
    """Rows for integers and booleans: uncertain in, uncertain out; certain in, certain out."""
    for op, row in OPS.items():
        for kind in (np.int32, np.bool_):
            dtype = {np.int32: "i32", np.bool_: "u1"}[kind]
            same = [SCALARS[dtype]] * row.arity
            types = (SCALARS["u1"], *same[1:]) if op == "select" else tuple(same)
            if result_type(op, types) is None:
                continue
            args = [np.array([t.dtype.type(1)]) for t in types]
            plan, out = plan_operation(op, types[-1], True), NUMPY[op](*args)
            assert not np.any(plan.of(args, [np.zeros(1)] * len(args), out))
            some = [np.array([np.inf])] * len(args)
            assert np.isinf(plan.of(args, some, out)).all(), op


@each_row("precise", [True, False], ids=["precise", "contracting"])
@each_row("dtype", [f16, f32, f64], ids=str)
@each_row("op", SMOOTH)
def test_what_nothing_is_known_of_stays_so(op, dtype, precise):
    """An operand with infinite error beside exact ones, whose zero error is or is not the one told by identity: where
    the result depends on that operand its error is infinite, and it is never NaN.
    """
    rng, arity = np.random.default_rng(5), OPS[op].arity
    xs = [rng.uniform(low, high, 8).astype(dtype.dtype) for low, high in OPS[op].safe]
    with np.errstate(all="ignore"):
        result = NUMPY[op].meaning(*xs)
    for known in (np.zeros(8), np.zeros(()), ZERO):
        for at in range(arity):
            es = [np.full(8, np.inf) if k == at else known for k in range(arity)]
            with np.errstate(all="ignore"):
                e = np.broadcast_to(plan_operation(op, dtype, precise).of(xs, es, result), 8)
            assert not np.isnan(e).any()
            bounded_by_range = {"sin": 2.0, "cos": 2.0, "tanh": 2.0}.get(op)
            assert (e >= (bounded_by_range or np.inf)).all()


@pytest.mark.parametrize("dtype", [f16, f32, f64], ids=str)
@pytest.mark.parametrize("op", ["sin", "tan", "asin", "tanh", "atan2", "pow"])
def test_ulps_of_subnormals(op, dtype):
    """Where x is returned nearly as it is: an executor may be off by the ulps of the row there too, the reference by
    its own half, and nothing is off where x is zero.
    """
    tiny = FORMATS[dtype.name].tiny
    x = (np.array([0.0, 1.0, 2.0, 7.0, 100.0]) * tiny).astype(dtype.dtype)
    args = [x] if OPS[op].arity == 1 else [x, np.ones(5, dtype.dtype)]
    with np.errstate(all="ignore"):
        result = NUMPY[op].meaning(*args)
        e = plan_operation(op, dtype, True).of(args, [ZERO] * len(args), result)
    permitted = 0.5 if dtype is f16 else OPS[op].ulps
    assert e[0] == 0 and (e[1:] >= (permitted + 0.5) * tiny).all() and (e[1:] < 40 * tiny).all()
