"""Traced kernels, run on the reference, write what plain Python writes when it runs the same function."""

from __future__ import annotations

import math

import numpy as np
import pytest
import stackgrad as sg
from frontend_support import Field, agree, execute, integers, number, real, traced


def test_recurrence_with_a_bound_read_from_a_field() -> None:
    x, y, n = real(0.3, -1.2, 2.0), real(0, 0, 0), number(7)

    def k():
        for i in range(3):
            v = x[i]
            for j in range(n[None]):
                v = v * 0.95 + 0.01 * math.sin(v) - j
            y[i] = v

    agree(k)


def test_triangular_and_sibling_loops() -> None:
    x, y = real(0.1, 0.2, 0.3, 0.4), real(0, 0, 0, 0)

    def k():
        for i in range(4):
            total = 0.0
            for j in range(i):
                for m in range(j, 4):
                    total += x[j] * x[m]
            for j in range(4 - i):
                total -= x[j]
            y[i] = total

    agree(k)


@pytest.mark.parametrize(("begin", "end"), [(0, 7), (5, -3), (-4, 4), (3, 3), (6, 0)])
@pytest.mark.parametrize("parallel", [True, False])
def test_ranges_with_steps(begin: int, end: int, parallel: bool) -> None:
    out, seen = integers(*[0] * 40), integers(0)

    def outer(a: sg.i32, b: sg.i32):
        for i in range(a, b, 2):
            out[i + 10] += i + 20
        for i in range(a, b, -2):
            out[i + 10] += i + 40
        for i in range(a, b, -1):
            out[i + 10] += i + 60
        for i in range(b, a, 3):
            out[i + 10] += 1
        for i in range(-3, 8, 3):
            out[i + 10] += 5
        for i in range(8, -3, -3):
            out[i + 10] += 7

    def inner(a: sg.i32, b: sg.i32):
        for _ in range(1):
            for i in range(a, b, 2):
                out[i + 10] = i + seen[0]
                seen[0] += 1
            for i in range(a, b, -1):
                out[i + 10] += i * 3 + seen[0]
                seen[0] += 1
            for i in reversed(range(-2, 5)):
                out[i + 10] += seen[0] * i
                seen[0] += 1

    agree(outer if parallel else inner, begin, end)


def test_parallel_range_at_the_ends_of_i32() -> None:
    out = integers(0, 0, 0, dtype=sg.i64)

    def k(a: sg.i32, b: sg.i32):
        for i in range(a, b, 1 << 30):
            out[0] += i
        for i in range(b, a, -(1 << 30)):
            out[1] += i
        for i in range(b, b - 2, -1):
            out[2] += i

    agree(k, -(1 << 31), (1 << 31) - 1)


def test_struct_for_and_ndrange() -> None:
    grid, out = Field(sg.f64, (3, 4)), Field(sg.f64, (3, 4))

    def k():
        for i, j in grid:
            grid[i, j] = i * 10 + j
        for i, j in sg.ndrange((1, 3), 4):
            out[i, j] = grid[i, j] - grid[i - 1, 3 - j]
        for _ in range(1):
            for j, m in sg.ndrange(3, (0, 2)):
                out[j, m] += 1.0
            for j, m in grid:
                if m == 3:
                    break
                out[j, m] += 0.25

    made = traced(k)
    assert [len(t.indices) for t in made.kernel.tasks] == [2, 2, 1]
    execute(k)
    expected = np.add.outer(np.arange(3) * 10.0, np.arange(4))
    np.testing.assert_array_equal(grid.data, expected)
    difference = np.zeros((3, 4))
    difference[1:] = expected[1:] - expected[:-1, ::-1]
    difference[:, :2] += 1.0
    difference[0, :3] += 0.25  # `break` leaves the whole loop over the field
    np.testing.assert_array_equal(out.data, difference)


def test_ndrange_of_a_shape() -> None:
    grid = Field(sg.i32, (2, 3))

    def k():
        for i, j in sg.ndrange(*grid.shape):
            grid[i, j] = i * grid.shape[1] + j + len(grid.shape)

    agree(k)


def test_while_break_continue() -> None:
    out, start = integers(*[0] * 8), integers(1, 2, 3, 6, 7, 9, 12, 27)

    def k():
        for i in range(8):
            v, steps = start[i], 0
            while v != 1:
                v = v // 2 if v % 2 == 0 else 3 * v + 1
                steps += 1
                if steps > 50:
                    break
            out[i] = steps
        for i in range(8):
            for j in range(10):
                if j % 2 == i % 2:
                    continue
                if j > i:
                    break
                out[i] += j
        for i in range(8):
            if i == 3:
                continue
            out[i] += 1000

    agree(k)


def test_while_true() -> None:
    out = integers(0, 0, 0)

    def k():
        for i in range(3):
            v = 0
            while True:
                v += i + 1
                if v > 10:
                    break
            out[i] = v

    agree(k)


def test_branches_and_short_circuits() -> None:
    x, out = real(-2.0, -0.5, 0.0, 0.5, 2.0), integers(0, 0, 0, 0, 0)

    def k():
        for i in range(5):
            if x[i] < -1:
                out[i] = 1
            elif -1 <= x[i] < 0 or x[i] == 0:
                out[i] = 2
            elif not (x[i] > 1 and i != 3):
                out[i] = 3
            else:
                out[i] = 4
            if 0 < i < 4 and x[i - 1] < x[i] < x[i + 1]:
                out[i] += 10
            if i == 0 or x[i - 1] > 0:
                out[i] += 100

    agree(k)


def test_right_operand_is_skipped() -> None:
    """An index outside its array would trap on the reference, an integer division by zero too."""
    x, out = real(1.0, 2.0), integers(0, 0, 0)

    def k():
        for i in range(3):
            if i < 2 and x[i] > 0.0:
                out[i] = 1
            if i == 2 or x[i] < 0.0:
                out[i] = 2
            out[i] += 6 // i if i != 0 else 50

    agree(k)


def test_right_operand_with_an_effect() -> None:
    out = integers(0, 0)

    def k():
        for _ in range(1):
            for j in range(4):
                if j > 1 and sg.atomic_add(out[0], 1) >= 0:
                    out[1] += 1

    execute(k)
    assert list(out.data) == [2, 2]


def test_swaps_tuples_and_augmented_assignment() -> None:
    x, y = real(0.5, 1.5), real(0, 0, 0, 0)

    def k():
        for _ in range(1):
            a, b = x[0], x[1]
            for _ in range(5):
                a, b = b, a + b
            y[0] = a
            (c, d), e = (b, 2.0), 3
            c *= d
            c **= 2
            c /= e
            c //= 0.5
            c %= 7
            y[1] = c
            y[2] = y[3] = d - e
            y[2] *= 3
            y[3] //= 2.0
            x[0], x[1] = x[1], x[0]

    agree(k)


def test_augmented_local_reads_before_the_right_side() -> None:
    out = integers(0)

    def k():
        for i in range(1):
            v = 1
            v += (v := 10) * 2
            out[i] = v

    agree(k)
