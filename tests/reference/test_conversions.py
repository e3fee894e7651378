"""Conversions between types, and the evaluation of constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from stackgrad.compiler.ir.types import INTEGERS, REALS, SCALARS, Scalar, f16, f32, f64, i8, i32, i64, u1, u8, u64
from stackgrad.reference.scalar import bit_cast, cast, evaluate, evaluate_bit_cast, evaluate_cast

NAN, INF = math.nan, math.inf
pytestmark = pytest.mark.usefixtures("silent")


def same(a: Any, b: Any) -> bool:
    """Return True if values are equal, including the signs of zeros and NaN."""
    a, b = float(a), float(b)
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


def made(values: Any, t: Scalar) -> Any:
    """Return an array of the type; values that do not fit are rounded or wrapped without a warning."""
    with np.errstate(all="ignore"):
        return np.array(values).astype(t.dtype)


# ---- conversions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", REALS, ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_real_to_integer_saturates(source: Scalar, target: Scalar) -> None:
    info = np.iinfo(target.dtype)
    values = [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 127.9, -128.9, 255.9, 300.0, -300.0, 6e4, INF, -INF, NAN, 2.0**-20]
    values += [2.0**e * s for e in (31, 32, 63, 64, 80) for s in (1, -1)]
    x = made(values, source)

    def model(v: float) -> int:
        if math.isnan(v):
            return 0
        return max(info.min, min(info.max, int(v))) if math.isfinite(v) else (info.max if v > 0 else info.min)

    expected = [model(float(v)) for v in x]
    assert cast(x, source, target).tolist() == expected
    assert [int(cast(v, source, target)) for v in x] == expected


@pytest.mark.parametrize(
    ("source", "values", "expected"),
    [
        (f32, [0.0, -0.0, NAN, 1e-40, INF, 0.5], [0, 0, 1, 1, 1, 1]),
        (i8, [0, -1, 2], [0, 1, 1]),
        (u64, [0, 1 << 63], [0, 1]),
    ],
)
def test_to_boolean(source: Scalar, values: list[float], expected: list[int]) -> None:
    assert cast(np.array(values, source.dtype), source, u1).tolist() == [bool(b) for b in expected]


def test_from_boolean() -> None:
    for t in SCALARS.values():
        assert cast(np.array([False, True]), u1, t).tolist() == [0, 1]
        assert cast(np.array([False, True]), u1, t).dtype == t.dtype


def test_integer_to_real_rounds_to_even() -> None:
    x = np.array([2**24 + 1, 2**24 + 3, -(2**24) - 1, 2**62 + 2**38], np.int64)
    assert cast(x, i64, f32).tolist() == [2**24, 2**24 + 4, -(2**24), 2**62]
    assert cast(np.array([2**64 - 1], np.uint64), u64, f64).tolist() == [2.0**64]
    assert cast(np.array([2049, 2051, 65519, 65520], np.int32), i32, f16).tolist() == [2048.0, 2052.0, 65504.0, INF]


def test_f64_to_f16_goes_through_f32() -> None:
    """1 + 2^-11 + 2^-30 rounds to the tie 1 + 2^-11 in f32, and from there to even."""
    assert cast(np.array([1 + 2**-11 + 2**-30]), f64, f16).tolist() == [1.0]


def test_bit_cast() -> None:
    assert bit_cast(np.array([1.0, -0.0], np.float32), f32, i32).tolist() == [0x3F800000, -(2**31)]
    assert bit_cast(np.array([-1], np.int8), i8, u8).tolist() == [255]
    assert bit_cast(np.float64(2.0), f64, u64) == 0x4000000000000000
    with pytest.raises(ValueError, match="32 bits are not 64"):
        bit_cast(np.zeros(1, np.float32), f32, f64)


# ---- constants ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "args", "t", "expected"),
    [
        ("add", (2**31 - 1, 1), i32, -(2**31)),
        ("add", (0.1, 0.2), f32, 0.30000001192092896),
        ("add", (255, 2), u8, 1),
        ("sin", (0.5,), f32, 0.4794255495071411),
        ("floordiv", (-(2**31), -1), i32, -(2**31)),
        ("mod", (-7, 3), i64, 2),
        ("cmp_lt", (1, 2), i32, True),
        ("sqrt", (-1.0,), f64, NAN),
        ("add", (6e4, 6e4), f16, INF),
        ("inv", (0.0,), f32, INF),
        ("bit_not", (True,), u1, False),
        ("min", (0.0, -0.0), f32, -0.0),
        ("clz", (1,), u64, 63),
        ("mul", (2**63, 3), u64, 2**63),
    ],
)
def test_evaluate(op: str, args: tuple[Any, ...], t: Scalar, expected: Any) -> None:
    got = evaluate(op, *args, types=(t,) * len(args))
    assert type(got) is type(expected)
    assert same(got, expected)


def test_evaluate_select() -> None:
    assert evaluate("select", True, 1.5, NAN, types=(u1, f32, f32)) == 1.5


def test_evaluate_gives_none_where_it_would_trap() -> None:
    assert evaluate("floordiv", 1, 0, types=(i32, i32)) is None
    assert evaluate("mod", 1, 0, types=(u8, u8)) is None
    assert evaluate("mod", 1.0, 0.0, types=(f32, f32)) is not None


def test_evaluate_refuses_wrong_types() -> None:
    with pytest.raises(ValueError, match=r"sin does not take \(i32\)"):
        evaluate("sin", 1, types=(i32,))


def test_evaluate_conversions() -> None:
    assert evaluate_cast(3.99, f64, i8) == 3
    assert evaluate_cast(1e300, f64, f32) == INF
    assert evaluate_cast(NAN, f32, u1) is True
    assert evaluate_bit_cast(1.0, f32, i32) == 0x3F800000
    assert math.isnan(evaluate_bit_cast(-1, i32, f32))
