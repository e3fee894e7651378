"""The scalar table, at exactly the points that its rows name, and exhaustively where the types are small."""
from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from stackgrad.compiler.ir.ops import OPS, result_type
from stackgrad.compiler.ir.types import INTEGERS, REALS, SCALARS, Scalar, f16, f32, f64, i8, i32, i64, u1, u8, u64
from stackgrad.reference.scalar import (
    NUMPY,
    bit_cast,
    cast,
    evaluate,
    evaluate_bit_cast,
    evaluate_cast,
)

NAN, INF = math.nan, math.inf
EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, INF, -INF, NAN, 3.0, 1e-7, 6e4)


@pytest.fixture(autouse=True)
def no_warnings() -> Any:
    """Everything here must be silent."""
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        yield


def same(a: Any, b: Any) -> bool:
    """Equal, zeros by sign, NaN to NaN."""
    a, b = float(a), float(b)
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


def made(values: Any, t: Scalar) -> Any:
    """An array of the type; values that do not fit are rounded or wrapped without a word."""
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


@pytest.mark.parametrize(("name", "types"), typings(), ids=lambda x: x if isinstance(x, str) else str(x[-1]))
def test_dtype_and_shape(name: str, types: tuple[Scalar, ...]) -> None:
    """Vectors, matrices, 0-d arrays, NumPy scalars and mixtures of them; the right dtype, no warning."""
    result = result_type(name, types)
    assert result is not None
    edges = [np.array([x for x in EDGES if math.isfinite(x) and x >= 0]), np.array([0, 1, 127, 3])]
    edges += [np.array(EDGES)] if types[-1].is_real else []
    for edge in edges:
        vectors = [made(edge, t) for t in types]
        for shaped in (
            vectors, [v.reshape(1, -1) for v in vectors], [np.array(v[0]) for v in vectors], [v[1] for v in vectors],
            [vectors[0], *(v[1] for v in vectors[1:])], [vectors[0][1], *vectors[1:]],
        ):  # fmt: skip
            out = NUMPY[name](*shaped)
            assert out.dtype == result.dtype
            assert out.shape == np.broadcast_shapes(*(np.shape(v) for v in shaped))


# ---- integers, against Python's unbounded ones --------------------------------------------------------------


def wrap(x: int, t: Scalar) -> int:
    x &= (1 << t.bits) - 1
    return x - (1 << t.bits) if t.is_signed and x >> (t.bits - 1) else x


def power(x: int, y: int, t: Scalar) -> int:
    if y >= 0:
        return pow(x, y, 1 << t.bits)
    return {1: 1, -1: 1 if y % 2 == 0 else -1}.get(x, 0)


def sar(x: int, count: int, t: Scalar) -> int:
    return ((x & ((1 << t.bits) - 1)) - (1 << t.bits if x & (1 << (t.bits - 1)) else 0)) >> (count % t.bits)


BINARY: dict[str, Callable[[int, int, Scalar], int]] = {
    "add": lambda x, y, t: x + y,
    "sub": lambda x, y, t: x - y,
    "mul": lambda x, y, t: x * y,
    "floordiv": lambda x, y, t: x // y if y else 0,
    "mod": lambda x, y, t: x % y if y else 0,
    "pow": power,
    "min": lambda x, y, t: min(x, y),
    "max": lambda x, y, t: max(x, y),
    "bit_and": lambda x, y, t: x & y,
    "bit_or": lambda x, y, t: x | y,
    "bit_xor": lambda x, y, t: x ^ y,
    "bit_shl": lambda x, y, t: x << (y % t.bits),
    "bit_shr": lambda x, y, t: (x & ((1 << t.bits) - 1)) >> (y % t.bits),
    "bit_sar": sar,
    "cmp_lt": lambda x, y, t: x < y,
    "cmp_le": lambda x, y, t: x <= y,
    "cmp_gt": lambda x, y, t: x > y,
    "cmp_ge": lambda x, y, t: x >= y,
    "cmp_eq": lambda x, y, t: x == y,
    "cmp_ne": lambda x, y, t: x != y,
}
UNARY: dict[str, Callable[[int, Scalar], int]] = {
    "neg": lambda x, t: -x,
    "abs": lambda x, t: abs(x),
    "sgn": lambda x, t: (x > 0) - (x < 0),
    "bit_not": lambda x, t: ~x,
    "popcnt": lambda x, t: (x & ((1 << t.bits) - 1)).bit_count(),
    "clz": lambda x, t: t.bits - (x & ((1 << t.bits) - 1)).bit_length(),
    "ffs": lambda x, t: (x & -x).bit_length(),
}


def samples(t: Scalar) -> list[int]:
    """Every value of an 8-bit type; of others the edges."""
    info = np.iinfo(t.dtype)
    if t.bits == 8:
        return list(range(info.min, info.max + 1))
    around = [0, 1, 2, 3, 5, 7, 31, 32, 33, 63, 64, 65, info.max, info.max - 1, info.min, info.min + 1, info.max // 2]
    around += [-x for x in around if t.is_signed and x < info.max]
    return sorted({x for x in around if info.min <= x <= info.max})


def test_integer_models_cover_all_integer_operations() -> None:
    taking = {name for name, row in OPS.items() if name != "select" and row.types((i32,) * row.arity) is not None}
    assert taking == set(BINARY) | set(UNARY)


@pytest.mark.parametrize("t", INTEGERS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary_integers(name: str, t: Scalar) -> None:
    pairs = list(itertools.product(samples(t), repeat=2))
    x, y = (np.array(c, t.dtype) for c in zip(*pairs, strict=True))
    result = result_type(name, (t, t))
    assert result is not None
    expected = [BINARY[name](a, b, t) for a, b in pairs]
    wrapped = expected if result.is_bool else [wrap(v, t) for v in expected]
    assert NUMPY[name](x, y).tolist() == wrapped
    for k in range(0, len(pairs), 97):  # one pair at a time: NumPy scalars take other paths than arrays
        assert NUMPY[name](x[k], y[k]) == wrapped[k]


@pytest.mark.parametrize("t", INTEGERS, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary_integers(name: str, t: Scalar) -> None:
    x = np.array(samples(t), t.dtype)
    expected = [UNARY[name](a, t) for a in samples(t)]
    if name not in ("popcnt", "clz", "ffs"):
        expected = [wrap(v, t) for v in expected]
    assert NUMPY[name](x).tolist() == expected
    assert [int(NUMPY[name](a)) for a in x] == expected


@pytest.mark.parametrize("name", [name for name, row in OPS.items() if row.traps])
def test_traps_are_the_zero_divisors(name: str) -> None:
    x, y = np.array([5, 0, -7, 1], np.int32), np.array([0, 0, 2, -1], np.int32)
    traps = NUMPY[name].traps
    assert traps is not None
    assert traps(x, y).tolist() == [True, True, False, False]
    assert traps(np.int32(1), y).tolist() == [True, True, False, False]
    assert bool(traps(np.int32(1), np.int32(0)))
    assert not traps(x.astype(np.float32), y.astype(np.float32)).any()


def test_only_declared_operations_trap() -> None:
    assert {name for name in NUMPY if NUMPY[name].traps} == {name for name, row in OPS.items() if row.traps}


@pytest.mark.parametrize(("name", "table"), [
    ("bit_and", [0, 0, 0, 1]), ("bit_or", [0, 1, 1, 1]), ("bit_xor", [0, 1, 1, 0]), ("logical_and", [0, 0, 0, 1]),
    ("logical_or", [0, 1, 1, 1]), ("cmp_lt", [0, 1, 0, 0]), ("cmp_eq", [1, 0, 0, 1]), ("cmp_ge", [1, 0, 1, 1]),
])  # fmt: skip
def test_booleans(name: str, table: list[int]) -> None:
    x, y = np.array([False, False, True, True]), np.array([False, True, False, True])
    assert NUMPY[name](x, y).tolist() == [bool(b) for b in table]


@pytest.mark.parametrize("name", ["bit_not", "logic_not"])
def test_not_of_booleans(name: str) -> None:
    assert NUMPY[name](np.array([False, True])).tolist() == [True, False]


# ---- reals --------------------------------------------------------------------------------------------------

AT = [
    ("neg", (0.0,), -0.0), ("neg", (-0.0,), 0.0), ("neg", (INF,), -INF),
    ("abs", (-0.0,), 0.0), ("abs", (-INF,), INF), ("abs", (NAN,), NAN),
    ("sgn", (-2.5,), -1.0), ("sgn", (2.5,), 1.0), ("sgn", (NAN,), NAN), ("sgn", (-0.0,), 0.0), ("sgn", (INF,), 1.0),
    ("floor", (-0.5,), -1.0), ("floor", (-0.0,), -0.0), ("floor", (NAN,), NAN), ("floor", (-INF,), -INF),
    ("ceil", (-0.5,), -0.0), ("ceil", (0.5,), 1.0), ("ceil", (INF,), INF),
    ("round", (-0.5,), -0.0), ("round", (0.5,), 0.0), ("round", (1.5,), 2.0), ("round", (2.5,), 2.0),
    ("sqrt", (-1.0,), NAN), ("sqrt", (-0.0,), -0.0), ("sqrt", (INF,), INF),
    ("rsqrt", (0.0,), INF), ("rsqrt", (-0.0,), -INF), ("rsqrt", (-1.0,), NAN), ("rsqrt", (INF,), 0.0),
    ("rsqrt", (4.0,), 0.5),
    ("inv", (0.0,), INF), ("inv", (-0.0,), -INF), ("inv", (-INF,), -0.0), ("rcp", (-0.0,), -INF), ("rcp", (4.0,), 0.25),
    ("exp", (1e3,), INF), ("exp", (-1e3,), 0.0), ("exp", (-INF,), 0.0), ("exp", (NAN,), NAN),
    ("log", (0.0,), -INF), ("log", (-0.0,), -INF), ("log", (-1.0,), NAN), ("log", (INF,), INF),
    ("sin", (INF,), NAN), ("sin", (-0.0,), -0.0), ("cos", (-INF,), NAN), ("cos", (-0.0,), 1.0), ("tan", (INF,), NAN),
    ("tan", (-0.0,), -0.0), ("asin", (1.5,), NAN), ("acos", (-1.5,), NAN), ("acos", (1.0,), 0.0),
    ("tanh", (INF,), 1.0), ("tanh", (-INF,), -1.0), ("tanh", (-0.0,), -0.0),
    ("frexp_mantissa", (8.0,), 0.5), ("frexp_mantissa", (-3.0,), -0.75), ("frexp_mantissa", (-0.0,), -0.0),
    ("frexp_mantissa", (NAN,), NAN), ("frexp_mantissa", (-INF,), -INF),
    ("frexp_exponent", (8.0,), 4), ("frexp_exponent", (-3.0,), 2), ("frexp_exponent", (0.0,), 0),
    ("frexp_exponent", (NAN,), 0), ("frexp_exponent", (INF,), 0), ("frexp_exponent", (0.375,), -1),
    ("div", (1.0, -0.0), -INF), ("div", (0.0, 0.0), NAN), ("div", (-1.0, INF), -0.0),
    ("floordiv", (-7.0, 2.0), -4.0), ("floordiv", (7.0, -2.0), -4.0), ("floordiv", (1.0, 0.0), INF),
    ("floordiv", (0.0, 0.0), NAN),
    ("mod", (-7.0, 3.0), 2.0), ("mod", (7.0, -3.0), -2.0), ("mod", (7.0, 3.0), 1.0), ("mod", (1.0, 0.0), NAN),
    ("mod", (6.0, -3.0), -0.0), ("mod", (-6.0, 3.0), 0.0), ("mod", (INF, 2.0), NAN), ("mod", (NAN, 2.0), NAN),
    ("pow", (NAN, 0.0), 1.0), ("pow", (0.0, -1.0), INF), ("pow", (-0.0, -1.0), -INF), ("pow", (-8.0, 0.5), NAN),
    ("pow", (-2.0, 3.0), -8.0), ("pow", (1.0, NAN), 1.0),
    ("atan2", (0.0, 1.0), 0.0), ("atan2", (-0.0, 1.0), -0.0), ("atan2", (0.0, 0.0), 0.0),
    ("min", (NAN, 1.0), NAN), ("min", (1.0, NAN), NAN), ("min", (-0.0, 0.0), -0.0), ("min", (0.0, -0.0), -0.0),
    ("min", (-INF, 1.0), -INF), ("min", (0.0, 0.0), 0.0),
    ("max", (NAN, 1.0), NAN), ("max", (1.0, NAN), NAN), ("max", (-0.0, 0.0), 0.0), ("max", (0.0, -0.0), 0.0),
    ("max", (-0.0, -0.0), -0.0),
    ("cmp_lt", (-0.0, 0.0), 0), ("cmp_lt", (NAN, 0.0), 0), ("cmp_lt", (0.0, NAN), 0), ("cmp_lt", (1.0, 2.0), 1),
    ("cmp_le", (0.0, -0.0), 1), ("cmp_le", (NAN, NAN), 0), ("cmp_gt", (NAN, 0.0), 0), ("cmp_gt", (2.0, 1.0), 1),
    ("cmp_ge", (NAN, 0.0), 0), ("cmp_ge", (0.0, -0.0), 1), ("cmp_eq", (NAN, NAN), 0), ("cmp_eq", (-0.0, 0.0), 1),
    ("cmp_ne", (NAN, NAN), 1), ("cmp_ne", (-0.0, 0.0), 0),
]  # fmt: skip


@pytest.mark.parametrize("t", REALS, ids=str)
@pytest.mark.parametrize(("name", "args", "expected"), AT, ids=lambda x: str(x))
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


@pytest.mark.parametrize("source", INTEGERS, ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_integer_to_integer_keeps_the_low_bits(source: Scalar, target: Scalar) -> None:
    x = samples(source)
    assert cast(np.array(x, source.dtype), source, target).tolist() == [wrap(v, target) for v in x]


@pytest.mark.parametrize(("source", "values", "expected"), [
    (f32, [0.0, -0.0, NAN, 1e-40, INF, 0.5], [0, 0, 1, 1, 1, 1]),
    (i8, [0, -1, 2], [0, 1, 1]),
    (u64, [0, 1 << 63], [0, 1]),
])
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


@pytest.mark.parametrize(("op", "args", "t", "expected"), [
    ("add", (2**31 - 1, 1), i32, -(2**31)), ("add", (0.1, 0.2), f32, 0.30000001192092896), ("add", (255, 2), u8, 1),
    ("sin", (0.5,), f32, 0.4794255495071411), ("floordiv", (-(2**31), -1), i32, -(2**31)), ("mod", (-7, 3), i64, 2),
    ("cmp_lt", (1, 2), i32, True), ("sqrt", (-1.0,), f64, NAN), ("add", (6e4, 6e4), f16, INF),
    ("inv", (0.0,), f32, INF), ("bit_not", (True,), u1, False), ("min", (0.0, -0.0), f32, -0.0), ("clz", (1,), u64, 63),
    ("mul", (2**63, 3), u64, 2**63),
])  # fmt: skip
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
