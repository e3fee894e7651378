# ruff: noqa: B007, PIE790, SIM300 - forms that programs of the dialect use
"""Expressions and statements of the dialect, computed like Python computes them, on each executor."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
import stackgrad as sg

INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")


@pytest.fixture(autouse=True)
def executor(arch) -> str:
    return arch


def field(dtype, *values):
    made = sg.field(dtype, len(values))
    made.from_numpy(np.array(values, dtype.dtype))
    return made


# ---- expressions ----------------------------------------------------------------------------------------------------


def test_conditions_and_choices() -> None:
    x, y = field(sg.f64, -1.0, 0.5, 2.0), sg.field(sg.i32, (3, 6))

    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            y[i, 0] = 0.0 <= v < 1.0
            y[i, 1] = 1 if v > 0 else 2 if v < -0.5 else 3
            y[i, 2] = (v > 0.0 and x[i - 1] < 1.0) if i > 0 else False
            y[i, 3] = not (v > 1.0 or v < 0.0)
            if (square := v * v) > 0.3:
                y[i, 4] = int(square * 10)
            y[i, 5] = sg.select(v > 0.0, 7, 8)

    k()
    assert y.to_numpy().tolist() == [[0, 2, 0, 0, 10, 8], [1, 1, 1, 1, 0, 7], [0, 1, 1, 0, 40, 7]]


def test_is_none_and_is_of_static_objects() -> None:
    x, y, nothing = field(sg.f64, 1.0), sg.field(sg.i32, 4), None

    @sg.func
    def weighted(v, w=None):
        if sg.static(w is None):
            return v
        return v * w

    @sg.kernel
    def k():
        for i in range(1):
            if sg.static(nothing is None):
                y[0] = 1
            if x is not None:
                y[1] = 1
            if sg.static(x is x and x is not y):
                y[2] = 1
            y[3] = weighted(2) + weighted(3, 4)

    k()
    assert y.to_numpy().tolist() == [1, 1, 1, 14]


def test_numeric_functions() -> None:
    x, y = field(sg.f64, -2.5, 0.7, 3.5), sg.field(sg.f64, (3, 14))

    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            y[i, 0] = min(v, 1.0, 0.25) + max(v, -1, 2, 3)
            y[i, 1] = abs(v)
            y[i, 2] = round(v)
            y[i, 3] = sg.floor(v) + sg.ceil(v, sg.i32)
            y[i, 4] = int(v)
            y[i, 5] = float(bool(v))
            y[i, 6] = pow(v, 2) + v**3
            y[i, 7] = v // 1.5 + v % 1.5
            y[i, 8] = sg.raw_mod(v, 1.5)
            y[i, 9] = sg.raw_div(int(v), 2)
            y[i, 10] = sg.rsqrt(abs(v)) + sg.inv(v)
            y[i, 11] = math.sqrt(2.0) + math.log2(8) + math.hypot(3, 4) + math.pi
            y[i, 12] = sg.atan2(v, 2.0) + sg.tanh(v) + sg.sgn(v)
            y[i, 13] = sg.zero(v) + 2 * sg.one(v)

    k()
    for row, v in zip(y.to_numpy(), x.to_numpy()):
        expected = [
            min(v, 1.0, 0.25) + max(v, -1, 2, 3),
            abs(v),
            round(v),
            math.floor(v) + math.ceil(v),
            int(v),
            1.0,
            v**2 + v**3,
            v // 1.5 + v % 1.5,
            math.fmod(v, 1.5),
            int(int(v) / 2),
            abs(v) ** -0.5 + 1 / v,
            math.sqrt(2.0) + 3 + 5 + math.pi,
            math.atan2(v, 2.0) + math.tanh(v) + np.sign(v),
            2.0,
        ]
        np.testing.assert_allclose(row, expected, rtol=1e-14)


def wrapped(v, kind):
    """An integer as this type holds it."""
    return np.array(v % 2**kind.bits, f"u{kind.bits // 8}").view(kind.dtype).item()


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits_of_every_width(dtype) -> None:
    kind = getattr(sg, dtype)
    a, b = field(kind, 5, 60, 3), field(kind, 3, 7, 2)
    y = sg.field(kind, (3, 8))

    @sg.kernel
    def k():
        for i in a:
            y[i, 0] = a[i] & b[i]
            y[i, 1] = a[i] | b[i]
            y[i, 2] = a[i] ^ b[i]
            y[i, 3] = ~a[i]
            y[i, 4] = a[i] << 1
            y[i, 5] = a[i] >> 1
            y[i, 6] = sg.bit_shr(~a[i], 1)
            y[i, 7] = a[i] // b[i] + a[i] % b[i]

    k()
    for row, p, q in zip(y.to_numpy().tolist(), a.to_numpy().tolist(), b.to_numpy().tolist()):
        assert row == [
            p & q,
            p | q,
            p ^ q,
            wrapped(~p, kind),
            wrapped(p << 1, kind),
            p >> 1,
            wrapped((~p % 2**kind.bits) >> 1, kind),
            p // q + p % q,
        ]


def test_bits_of_booleans() -> None:
    y = sg.field(sg.u1, 6)

    @sg.kernel
    def k(a: sg.u1, b: sg.u1):
        for i in range(1):
            y[0], y[1], y[2] = a & b, a | b, a ^ b
            y[3] = ~a
            y[4] = a != b
            y[5] = a and not b

    k(True, False)
    assert y.to_numpy().tolist() == [False, True, True, False, True, True]


def test_casts_and_bit_casts() -> None:
    y, z = sg.field(sg.i64, 6), sg.field(sg.f64, 3)

    @sg.kernel
    def k(v: sg.f64):
        for i in range(1):
            y[0] = sg.cast(v, sg.i8)
            y[1] = sg.i32(v)
            y[2] = sg.bit_cast(sg.cast(v, sg.f32), sg.i32)
            y[3] = sg.u8(300)
            y[4] = sg.cast(sg.u32(1), sg.i64) - 2
            y[5] = int(True)
            z[0] = sg.f32(0.1)
            z[1] = sg.bit_cast(sg.bit_cast(v, sg.i64), sg.f64)
            z[2] = sg.f16(0.1)

    k(-3.7)
    assert y.to_numpy().tolist() == [-3, -3, np.float32(-3.7).view(np.int32).item(), 44, -1, 1]
    assert z.to_numpy().tolist() == [float(np.float32(0.1)), -3.7, float(np.float16(0.1))]


@sg.func
def polynomial(x, *coefficients, scale=1.0):
    total = 0.0
    for c in sg.static(range(len(coefficients) - 1, -1, -1)):
        total = total * x + coefficients[c]
    return total * scale


def test_trailing_arguments_of_functions() -> None:
    y = sg.field(sg.f64, 3)

    @sg.kernel
    def k(v: sg.f64):
        for i in range(1):
            y[0] = polynomial(v)
            y[1] = polynomial(v, 1.0, v, 3)
            y[2] = polynomial(v, 2.0, *(v, 1.0), scale=v)

    k(2.0)
    assert y.to_numpy().tolist() == [0.0, 17.0, 20.0]


def test_sequences_are_repeated_and_joined() -> None:
    y = sg.field(sg.f64, 2)

    @sg.kernel
    def k(v: sg.f64):
        for i in range(1):
            a = sg.Vector([0.0] * 2 + [v, 1.0])
            b = sg.Matrix([[v] * 3] * 2)
            y[0] = a.sum() + a[2]
            y[1] = b.sum()

    k(2.0)
    assert y.to_numpy().tolist() == [5.0, 12.0]


def test_casts_of_vectors() -> None:
    x, y = sg.Vector.field(2, sg.f64, 1), sg.Vector.field(2, sg.i32, 1)
    x.from_numpy(np.array([[2.75, -1.5]]))

    @sg.kernel
    def k():
        for p in x:
            base = int(x[p] - 0.5)
            y[p] = base + sg.cast(x[p], sg.i32) + sg.i32(x[p])
            x[p] = x[p] - float(base) - base

    k()
    assert y.to_numpy().tolist() == [[6, -4]] and x.to_numpy().tolist() == [[-1.25, 2.5]]


# ---- memory ---------------------------------------------------------------------------------------------------------


def test_atomics_give_the_old_value() -> None:
    x, y = field(sg.i32, 10, 10, 10, 10, 12, 12, 12, 7), sg.field(sg.i32, 8)

    @sg.kernel
    def k():
        for i in range(1):
            y[0] = sg.atomic_add(x[0], 3)
            y[1] = sg.atomic_sub(x[1], 3)
            y[2] = sg.atomic_min(x[2], 3)
            y[3] = sg.atomic_max(x[3], 30)
            y[4] = sg.atomic_and(x[4], 6)
            y[5] = sg.atomic_or(x[5], 3)
            y[6] = sg.atomic_xor(x[6], 5)
            y[7] = sg.atomic_mul(x[7], 2)

    k()
    assert y.to_numpy().tolist() == [10, 10, 10, 10, 12, 12, 12, 7]
    assert x.to_numpy().tolist() == [13, 7, 3, 30, 4, 15, 9, 14]


def test_atomic_exchange() -> None:
    x, y = field(sg.i32, 0), sg.field(sg.i32, 100)

    @sg.kernel
    def k():
        for i in range(100):
            y[i] = sg.atomic_exchange(x[0], i + 1)
        for i in range(1):
            v = 5
            y[0] += 1000 * sg.atomic_exchange(v, 6) + v

    k()
    found = y.to_numpy().tolist()
    found[0] -= 5006
    assert sorted([*found, x[0]]) == list(range(101))


def test_assignments() -> None:
    x, y = field(sg.f64, 1.0, 2.0), sg.field(sg.f64, 5)

    @sg.kernel
    def k(n: sg.i32):
        """A kernel may have a docstring."""
        for i in range(1):
            a, b = x[0], x[1]
            a, b = b, a
            c = d = a + b
            c -= 0.5
            d *= 2
            d **= 2
            e: sg.f32 = 0.1
            m = n
            m //= 2
            m <<= 3
            y[0], y[1] = a, b
            y[2] = c + d
            y[3] = e
            y[4] = m
            pass

    k(5)
    assert y.to_numpy().tolist() == [2.0, 1.0, 38.5, float(np.float32(0.1)), 16.0]


# ---- text -----------------------------------------------------------------------------------------------------------


def test_print(capfd) -> None:
    n = 3

    @sg.kernel
    def k(v: sg.i32):
        for i in range(1):
            p = sg.Vector([v, 2])
            m = sg.Matrix([[1, v], [3, 4]])
            print("v", v, f"twice {2 * v} of {n:03d}", sep="|")
            print(p, m, (v, 1))

    k(7)
    sg.sync()
    assert capfd.readouterr().out == "v|7|twice 14 of 003\n[7, 2] [[1, 7], [3, 4]] (7, 1)\n"


def test_a_format_of_a_value(capfd) -> None:
    @sg.kernel
    def k(v: sg.i32):
        for i in range(1):
            print(f"v = {v:5d}")

    k(7)
    sg.sync()
    assert capfd.readouterr().out == "v =     7\n"


def test_assertions(arch) -> None:
    sg.init(arch=arch, debug=True)
    bound = 3

    @sg.kernel
    def k(v: sg.i32):
        for i in range(1):
            assert v > 0
            assert v < bound, f"v is {v}, not below {bound}"

    k(2)
    with pytest.raises(AssertionError, match=r"v is \{v\}, not below 3"):
        k(5)
    with pytest.raises(AssertionError, match="assertion failed: v > 0"):
        k(-1)


# ---- random numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_random_and_randn(dtype) -> None:
    kind = getattr(sg, dtype)
    u, g, j = sg.field(kind, 4000), sg.field(kind, 4000), sg.field(sg.i32, 4000)

    @sg.kernel
    def k():
        for i in u:
            u[i] = sg.random(kind)
            g[i] = sg.randn(kind)
            j[i] = sg.random(sg.i32)

    k()
    a, b = u.to_numpy(), g.to_numpy()
    assert 0 <= a.min() and a.max() < 1 and abs(a.mean() - 0.5) < 0.02
    assert np.isfinite(b).all() and abs(b.mean()) < 0.06 and abs(b.std() - 1) < 0.05
    assert abs((np.abs(b) < 1).mean() - math.erf(math.sqrt(0.5))) < 0.03
    assert len(np.unique(j.to_numpy())) > 3990


def test_gradient_beside_random_numbers() -> None:
    x, y, loss = sg.field(sg.f64, 8, needs_grad=True), sg.field(sg.f64, 8), sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def k():
        for i in x:
            noise = sg.randn()
            y[i] = noise
            loss[None] += noise * x[i] ** 2

    x.fill(1.5)
    with sg.ad.Tape(loss):
        k()
    np.testing.assert_allclose(x.grad.to_numpy(), 3.0 * y.to_numpy(), rtol=1e-14)


# ---- outside kernels ------------------------------------------------------------------------------------------------


def test_functions_outside_kernels() -> None:
    assert sg.zero(2.5) == 0.0 and sg.one(3) == 1
    random.seed(1)
    assert abs(sg.randn()) < 10
    v = sg.Vector([-0.5, 1.75])
    assert list(sg.floor(v, sg.i32)) == [-1, 1] and list(sg.cast(v, sg.i32)) == [0, 1]
    assert list(sg.zero(v)) == [0.0, 0.0] and list(sg.one(v)) == [1.0, 1.0] and list(sg.max(v, 0.0)) == [0.0, 1.75]
    assert sg.static(3) == 3 and list(sg.ndrange(2)) == [0, 1]
