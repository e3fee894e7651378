"""Arithmetic, conversions and atomics: traced kernels write what plain Python writes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import stackgrad as sg
from frontend_support import Field, agree, execute, integers, real
from stackgrad.compiler.frontend.trace import FrontendOptions


@pytest.mark.parametrize("a", [-7, -1, 3, 8])
@pytest.mark.parametrize("b", [-3, 2, 5])
def test_integer_arithmetic(a: int, b: int) -> None:
    out, ratio = integers(*[0] * 14), real(0, 0)

    def k(p: sg.i32, q: sg.i32):
        for _ in range(1):
            out[0] = p // q
            out[1] = p % q
            out[2] = p * q - p + q
            out[3] = p**3
            out[4] = p & q
            out[5] = p | q
            out[6] = p ^ q
            out[7] = ~p
            out[8] = p << 3
            out[9] = p >> 1
            out[10] = -p
            out[11] = abs(p) + min(p, q, 1) - max(p, q)
            out[12] = sg.raw_div(p, q)
            out[13] = sg.raw_mod(p, q)
            ratio[0] = p / q
            ratio[1] = (p + 0.5) % q + (p + 0.5) // q

    agree(k, a, b)


def test_mathematics() -> None:
    x, out = real(0.3, 0.9), real(*[0.0] * 30)

    def k():
        for i in range(1):
            a, b = x[0], x[1]
            out[0] = sg.sin(a) + math.cos(b) + np.tan(a)
            out[1] = sg.asin(a) + sg.acos(b) + sg.atan2(a, b)
            out[2] = sg.tanh(a) + math.exp(b) + sg.log(b)
            out[3] = math.sqrt(a) + sg.rsqrt(b)
            out[4] = abs(a - b) + sg.abs(b - a) + math.fabs(a - b)
            out[5] = sg.floor(a * 10) + sg.ceil(b * 10) + sg.round(a * 5)
            out[6] = round(b * 3) + math.floor(a * 7) + math.ceil(-b) + np.floor(-a)
            out[7] = min(a, b) + max(a, 1, b)
            out[8] = pow(a, 3) + sg.pow(b, a) + a**2 + a**b
            out[9] = sg.sgn(a - b) + sg.inv(a) + sg.rcp(b)
            out[10] = sg.select(a > b, a, b) + np.where(a < b, 1.0, 2.0)
            m, e = sg.frexp(a * 100)
            out[11] = m + e
            out[12] = int(b * 10) + float(i) + sg.cast(b * 9, sg.i32) + int(True)
            out[13] = sg.raw_mod(-b, a) + math.fmod(b, a)
            out[14] = sg.select(sg.isnan(a), 1.0, 2.0) + math.pi * math.e
            out[15] = math.sqrt(2.0) * sg.sin(1) + max(1, 2)

    agree(k)


def test_bits() -> None:
    out = integers(*[0] * 8)

    def k(v: sg.i32):
        for _ in range(1):
            out[0] = sg.popcnt(v)
            out[1] = sg.clz(v)
            out[2] = sg.ffs(v)
            out[3] = sg.bit_shr(v, 4)
            out[4] = sg.bit_cast(1.5, sg.i64) != 0

    agree(k, 0x00F0)
    execute(k, -256)
    assert list(out.data[:5]) == [24, 0, 9, 0x0FFFFFF0, 1]


def test_conversions_saturate_and_wrap() -> None:
    out, small, wide = integers(0, 0, 0), integers(0, 0, dtype=sg.u8), integers(0, dtype=sg.i64)

    def k(big: sg.f64, odd: sg.i32):
        for _ in range(1):
            out[0] = int(big)
            out[1] = int(1e30)
            out[2] = sg.i32(-1e30)
            small[0] = odd
            small[1] = 300
            wide[0] = 1 << 40

    execute(k, 1e20, 259)
    top = (1 << 31) - 1
    assert list(out.data) == [top, top, -top - 1]
    assert list(small.data) == [3, 44] and wide.data[0] == 1 << 40


def test_first_type_of_a_local_stays() -> None:
    out = real(0, 0)

    def k():
        for i in range(2):
            v = 0
            v += 1.75
            w = 1.0
            w = 3
            out[i] = v + w / 2

    made = execute(k)
    assert list(out.data) == [2.5, 2.5]
    (warning,) = made.warnings
    assert "real value" in warning.reason and "`v`" in warning.reason and warning.span
    assert warning.span.text.strip() == "v += 1.75"


def test_boolean_locals_and_arithmetic() -> None:
    x, out = real(0.5, -0.5), integers(0, 0)

    def k():
        for i in range(2):
            positive = x[i] > 0
            flag = positive and i == 0
            out[i] = positive + flag + (x[i] > -1) * 10
            if flag or not positive:
                out[i] += 100
            out[i] += int(positive ^ True) + int(positive & flag)

    agree(k)


def test_random_draws() -> None:
    x, n = real(*[0] * 50), integers(*[0] * 50)

    def k():
        for i in range(50):
            x[i] = sg.random()
            n[i] = sg.random(int) % 10

    execute(k)
    assert len(set(x.data)) == 50 and ((x.data >= 0) & (x.data < 1)).all() and len(set(n.data)) > 3


def test_gradient_arrays() -> None:
    x = real(1, 2, 3, needs_grad=True)

    def k():
        for i in x:
            x.grad[i] += 2 * x[i]

    made = execute(k)
    assert made.arrays == {"x": x, "x.grad": x.grad}
    assert x.grad is not None and list(x.grad.data) == [2, 4, 6]


def test_types_of_mixed_operands() -> None:
    out = Field(sg.f32, 6)

    def k(i: sg.i64, h: sg.f16, u: sg.u8, d: sg.f64):
        out[0] = i + h
        out[1] = u + 1
        out[2] = u - 2
        out[3] = d + h
        out[4] = i / 3
        out[5] = u // 2

    execute(k, 3, 0.5, 1, 0.25, options=FrontendOptions())
    np.testing.assert_array_equal(out.data, [3.5, 2, -1, 0.75, 1.0, 0])


def test_atomics_give_the_old_value_and_work_on_locals() -> None:
    out, total = integers(0, 0, 0), real(5.0)

    def k():
        for _ in range(1):
            local = 7
            out[0] = sg.atomic_min(local, 3) * 10 + local
            out[1] = sg.atomic_max(out[0], 500)
            out[2] = sg.atomic_xor(local, 1) + local
            sg.atomic_sub(total[0], 1.5)
            sg.atomic_mul(total[0], 2)

    execute(k)
    assert list(out.data) == [500, 73, 5] and total.data[0] == 7.0
