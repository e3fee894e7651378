"""Test integer and boolean operations against Python's integers: all values of 8-bit types, edge values of others."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from stackgrad.compiler.ir.ops import OPS, result_type
from stackgrad.compiler.ir.types import INTEGERS, Scalar, i32
from stackgrad.reference.scalar import NUMPY, cast
from table_rows import each_row

pytestmark = pytest.mark.usefixtures("silent")


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
    "unique": lambda x, y, t: x,
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
    """Return every value of an 8-bit type, or edge values of another type."""
    info = np.iinfo(t.dtype)
    if t.bits == 8:
        return list(range(info.min, info.max + 1))
    around = [0, 1, 2, 3, 5, 7, 31, 32, 33, 63, 64, 65, info.max, info.max - 1, info.min, info.min + 1, info.max // 2]
    around += [-x for x in around if t.is_signed and x < info.max]
    return sorted({x for x in around if info.min <= x <= info.max})


def test_integer_models_cover_all_integer_operations() -> None:
    taking = {name for name, row in OPS.items() if name != "select" and row.types((i32,) * row.arity) is not None}
    assert taking == set(BINARY) | set(UNARY)


@pytest.mark.expensive
@each_row("t", INTEGERS, ids=str)
@each_row("name", BINARY)
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


@each_row("t", INTEGERS, ids=str)
@each_row("name", UNARY)
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


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("bit_and", [0, 0, 0, 1]),
        ("bit_or", [0, 1, 1, 1]),
        ("bit_xor", [0, 1, 1, 0]),
        ("logical_and", [0, 0, 0, 1]),
        ("logical_or", [0, 1, 1, 1]),
        ("cmp_lt", [0, 1, 0, 0]),
        ("cmp_eq", [1, 0, 0, 1]),
        ("cmp_ge", [1, 0, 1, 1]),
    ],
)
def test_booleans(name: str, table: list[int]) -> None:
    x, y = np.array([False, False, True, True]), np.array([False, True, False, True])
    assert NUMPY[name](x, y).tolist() == [bool(b) for b in table]


@pytest.mark.parametrize("name", ["bit_not", "logic_not"])
def test_not_of_booleans(name: str) -> None:
    assert NUMPY[name](np.array([False, True])).tolist() == [True, False]


@each_row("source", INTEGERS, ids=str)
@each_row("target", INTEGERS, ids=str)
def test_integer_to_integer_keeps_the_low_bits(source: Scalar, target: Scalar) -> None:
    x = samples(source)
    assert cast(np.array(x, source.dtype), source, target).tolist() == [wrap(v, target) for v in x]
