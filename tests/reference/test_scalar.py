"""Test the scalar table: its types, and its results for reals at the points that its entries name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from stackgrad.compiler.ir.ops import OPS, result_type
from stackgrad.compiler.ir.types import REALS, SCALARS, Scalar, f16, f64, u1
from stackgrad.reference.scalar import NUMPY
from table_rows import each_row

NAN, INF = math.nan, math.inf
pytestmark = pytest.mark.usefixtures("silent")
EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, INF, -INF, NAN, 3.0, 1e-7, 6e4)


def same(a: Any, b: Any) -> bool:
    """Return True if values are equal, including the signs of zeros and NaN."""
    a, b = float(a), float(b)
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


def made(values: Any, t: Scalar) -> Any:
    """Return an array of the type; values that do not fit are rounded or wrapped without a warning."""
    with np.errstate(all="ignore"):
        return np.array(values).astype(t.dtype)


def apply(name: str, *args: Any, dtype: Scalar) -> Any:
    return NUMPY[name](*(made([a], dtype) for a in args))[0]


# ---- the table ----------------------------------------------------------------------------------------------


def test_every_operation_has_a_row() -> None:
    assert NUMPY.missing() == []
    assert not NUMPY.holes


def typings() -> list[tuple[str, tuple[Scalar, ...]]]:
    found = []
    for name, row in OPS.items():
        for t in SCALARS.values():
            types = (u1, t, t) if name == "select" else (t,) * row.arity
            if result_type(name, types) is not None:
                found.append((name, types))
    return found


@each_row(("name", "types"), typings(), ids=lambda x: x if isinstance(x, str) else str(x[-1]))
def test_dtype_and_shape(name: str, types: tuple[Scalar, ...]) -> None:
    """Vectors, matrices, 0-d arrays, NumPy scalars and mixtures of them; the right dtype, no warning."""
    result = result_type(name, types)
    assert result is not None
    edges = [np.array([x for x in EDGES if math.isfinite(x) and x >= 0]), np.array([0, 1, 127, 3])]
    edges += [np.array(EDGES)] if types[-1].is_real else []
    for edge in edges:
        vectors = [made(edge, t) for t in types]
        for shaped in (
            vectors,
            [v.reshape(1, -1) for v in vectors],
            [np.array(v[0]) for v in vectors],
            [v[1] for v in vectors],
            [vectors[0], *(v[1] for v in vectors[1:])],
            [vectors[0][1], *vectors[1:]],
        ):
            out = NUMPY[name](*shaped)
            assert out.dtype == result.dtype
            assert out.shape == np.broadcast_shapes(*(np.shape(v) for v in shaped))


# ---- reals --------------------------------------------------------------------------------------------------

AT = [
    ("neg", (0.0,), -0.0),
    ("neg", (-0.0,), 0.0),
    ("neg", (INF,), -INF),
    ("abs", (-0.0,), 0.0),
    ("abs", (-INF,), INF),
    ("abs", (NAN,), NAN),
    ("sgn", (-2.5,), -1.0),
    ("sgn", (2.5,), 1.0),
    ("sgn", (NAN,), NAN),
    ("sgn", (-0.0,), 0.0),
    ("sgn", (INF,), 1.0),
    ("floor", (-0.5,), -1.0),
    ("floor", (-0.0,), -0.0),
    ("floor", (NAN,), NAN),
    ("floor", (-INF,), -INF),
    ("ceil", (-0.5,), -0.0),
    ("ceil", (0.5,), 1.0),
    ("ceil", (INF,), INF),
    ("round", (-0.5,), -0.0),
    ("round", (0.5,), 0.0),
    ("round", (1.5,), 2.0),
    ("round", (2.5,), 2.0),
    ("sqrt", (-1.0,), NAN),
    ("sqrt", (-0.0,), -0.0),
    ("sqrt", (INF,), INF),
    ("rsqrt", (0.0,), INF),
    ("rsqrt", (-0.0,), -INF),
    ("rsqrt", (-1.0,), NAN),
    ("rsqrt", (INF,), 0.0),
    ("rsqrt", (4.0,), 0.5),
    ("inv", (0.0,), INF),
    ("inv", (-0.0,), -INF),
    ("inv", (-INF,), -0.0),
    ("rcp", (-0.0,), -INF),
    ("rcp", (4.0,), 0.25),
    ("exp", (1e3,), INF),
    ("exp", (-1e3,), 0.0),
    ("exp", (-INF,), 0.0),
    ("exp", (NAN,), NAN),
    ("log", (0.0,), -INF),
    ("log", (-0.0,), -INF),
    ("log", (-1.0,), NAN),
    ("log", (INF,), INF),
    ("sin", (INF,), NAN),
    ("sin", (-0.0,), -0.0),
    ("cos", (-INF,), NAN),
    ("cos", (-0.0,), 1.0),
    ("tan", (INF,), NAN),
    ("tan", (-0.0,), -0.0),
    ("asin", (1.5,), NAN),
    ("acos", (-1.5,), NAN),
    ("acos", (1.0,), 0.0),
    ("tanh", (INF,), 1.0),
    ("tanh", (-INF,), -1.0),
    ("tanh", (-0.0,), -0.0),
    ("frexp_mantissa", (8.0,), 0.5),
    ("frexp_mantissa", (-3.0,), -0.75),
    ("frexp_mantissa", (-0.0,), -0.0),
    ("frexp_mantissa", (NAN,), NAN),
    ("frexp_mantissa", (-INF,), -INF),
    ("frexp_exponent", (8.0,), 4),
    ("frexp_exponent", (-3.0,), 2),
    ("frexp_exponent", (0.0,), 0),
    ("frexp_exponent", (NAN,), 0),
    ("frexp_exponent", (INF,), 0),
    ("frexp_exponent", (0.375,), -1),
    ("div", (1.0, -0.0), -INF),
    ("div", (0.0, 0.0), NAN),
    ("div", (-1.0, INF), -0.0),
    ("floordiv", (-7.0, 2.0), -4.0),
    ("floordiv", (7.0, -2.0), -4.0),
    ("floordiv", (1.0, 0.0), INF),
    ("floordiv", (0.0, 0.0), NAN),
    ("mod", (-7.0, 3.0), 2.0),
    ("mod", (7.0, -3.0), -2.0),
    ("mod", (7.0, 3.0), 1.0),
    ("mod", (1.0, 0.0), NAN),
    ("mod", (6.0, -3.0), -0.0),
    ("mod", (-6.0, 3.0), 0.0),
    ("mod", (INF, 2.0), NAN),
    ("mod", (NAN, 2.0), NAN),
    ("pow", (NAN, 0.0), 1.0),
    ("pow", (0.0, -1.0), INF),
    ("pow", (-0.0, -1.0), -INF),
    ("pow", (-8.0, 0.5), NAN),
    ("pow", (-2.0, 3.0), -8.0),
    ("pow", (1.0, NAN), 1.0),
    ("atan2", (0.0, 1.0), 0.0),
    ("atan2", (-0.0, 1.0), -0.0),
    ("atan2", (0.0, 0.0), 0.0),
    ("min", (NAN, 1.0), NAN),
    ("min", (1.0, NAN), NAN),
    ("min", (-0.0, 0.0), -0.0),
    ("min", (0.0, -0.0), -0.0),
    ("min", (-INF, 1.0), -INF),
    ("min", (0.0, 0.0), 0.0),
    ("max", (NAN, 1.0), NAN),
    ("max", (1.0, NAN), NAN),
    ("max", (-0.0, 0.0), 0.0),
    ("max", (0.0, -0.0), 0.0),
    ("max", (-0.0, -0.0), -0.0),
    ("cmp_lt", (-0.0, 0.0), 0),
    ("cmp_lt", (NAN, 0.0), 0),
    ("cmp_lt", (0.0, NAN), 0),
    ("cmp_lt", (1.0, 2.0), 1),
    ("cmp_le", (0.0, -0.0), 1),
    ("cmp_le", (NAN, NAN), 0),
    ("cmp_gt", (NAN, 0.0), 0),
    ("cmp_gt", (2.0, 1.0), 1),
    ("cmp_ge", (NAN, 0.0), 0),
    ("cmp_ge", (0.0, -0.0), 1),
    ("cmp_eq", (NAN, NAN), 0),
    ("cmp_eq", (-0.0, 0.0), 1),
    ("cmp_ne", (NAN, NAN), 1),
    ("cmp_ne", (-0.0, 0.0), 0),
]


@each_row("t", REALS, ids=str)
@each_row(("name", "args", "expected"), AT, ids=lambda x: str(x))
def test_real_edges(name: str, args: tuple[float, ...], expected: float, t: Scalar) -> None:
    assert same(apply(name, *args, dtype=t), expected)
    assert same(NUMPY[name](*(made(a, t)[()] for a in args)), expected)


@pytest.mark.parametrize("t", REALS, ids=str)
def test_atan2_branches(t: Scalar) -> None:
    pi = t.dtype.type(math.pi)
    for y, x, expected in ((0.0, -0.0, pi), (-0.0, -0.0, -pi), (-0.0, -1.0, -pi), (0.0, -1.0, pi)):
        assert apply("atan2", y, x, dtype=t) == expected


def test_floordiv_is_the_floor_of_the_rounded_quotient() -> None:
    """1/0.1 rounds up to 10 in f64, though 0.1 is slightly more than a tenth."""
    assert apply("floordiv", 1.0, 0.1, dtype=f64) == 10.0


def test_mod_is_exact_for_great_quotients() -> None:
    """The quotient has 37 bits: its product with y, rounded, would miss the remainder by more than y."""
    x, y = np.float32(1e10), np.float32(0.1)
    exact = np.float32(int(float(x) * 2**27) % int(float(y) * 2**27) / 2**27)
    assert NUMPY["mod"](x, y) == exact


def test_mod_has_the_sign_of_the_divisor() -> None:
    rng = np.random.default_rng(5)
    x, y = (rng.uniform(-1e3, 1e3, 10_000).astype(np.float32) for _ in range(2))
    rest = NUMPY["mod"](x, y)
    assert (np.signbit(rest) == np.signbit(y)).all()
    assert (np.abs(rest) <= np.abs(y)).all()


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "exp", "log", "asin", "acos", "tanh", "rsqrt"])
def test_f32_is_the_rounded_f64(name: str) -> None:
    low, high = OPS[name].safe[0]
    x = np.random.default_rng(1).uniform(low, high, 5_000).astype(np.float32)
    python = (lambda v: 1 / math.sqrt(v)) if name == "rsqrt" else getattr(math, name)
    expected = np.array([python(float(v)) for v in x]).astype(np.float32)
    assert np.abs(NUMPY[name](x).view(np.int32) - expected.view(np.int32)).max() <= 1
    assert (NUMPY[name](x) == expected).mean() > 0.9999


@pytest.mark.parametrize("name", [n for n, r in OPS.items() if r.arity == 1 and r.types((f16,)) == f16])
def test_f16_is_the_rounded_f32(name: str) -> None:
    """All 65536 halves."""
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    got = NUMPY[name](halves)
    with np.errstate(all="ignore"):
        expected = NUMPY[name](halves.astype(np.float32)).astype(np.float16)
    assert np.array_equal(got, expected, equal_nan=True)
    assert (np.signbit(got) == np.signbit(expected))[~np.isnan(expected)].all()


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "atan2", "mod", "floordiv"])
def test_binary_f16_is_the_rounded_f32(name: str) -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, 65536, 50_000).astype(np.uint16).view(np.float16) for _ in range(2))
    with np.errstate(all="ignore"):
        expected = NUMPY[name](x.astype(np.float32), y.astype(np.float32)).astype(np.float16)
    assert np.array_equal(NUMPY[name](x, y), expected, equal_nan=True)


def test_frexp_of_subnormals() -> None:
    tiny = np.float32(2.0**-149)
    assert NUMPY["frexp_mantissa"](tiny) == 0.5
    assert NUMPY["frexp_exponent"](tiny) == -148


def test_select_hides_the_other_alternative() -> None:
    c, a, b = np.array([True, False]), np.array([1.0, NAN], np.float32), np.array([NAN, 2.0], np.float32)
    assert NUMPY["select"](c, a, b).tolist() == [1.0, 2.0]
