# ruff: noqa: B007, SIM113 - loops that only count; kernels have no `enumerate`
"""Loops of the dialect: boxes, fields of any rank, index vectors, static loops over objects, options of loops."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg

pytestmark = pytest.mark.usefixtures("arch")


def filled(shape: tuple[int, ...], needs_grad: bool = False) -> sg.Field:
    """An f64 field of the numbers 1, 2, ..."""
    made = sg.field(sg.f64, shape, needs_grad=needs_grad)
    made.from_numpy(np.arange(1.0, np.prod(shape) + 1).reshape(shape))
    return made


# ---- index vectors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (2, 1, 3, 2)])
def test_grouped_field(shape) -> None:
    x, y = filled(shape), sg.field(sg.f64, shape)

    @sg.kernel
    def k():
        for I in sg.grouped(x):
            y[I] = 2.0 * x[I] + I[0]

    k()
    first = np.arange(shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    np.testing.assert_array_equal(y.to_numpy(), 2.0 * x.to_numpy() + first)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_one_index_for_a_field_of_any_rank(shape) -> None:
    x, y = filled(shape), sg.field(sg.f64, shape)

    @sg.kernel
    def k():
        for I in x:
            y[I] = x[I] * x[I]

    k()
    np.testing.assert_array_equal(y.to_numpy(), x.to_numpy() ** 2)


def test_one_name_for_a_field_of_one_axis_is_a_number() -> None:
    y = sg.field(sg.i32, 5)

    @sg.kernel
    def k():
        for i in y:
            y[i] = i * i

    k()
    assert y.to_numpy().tolist() == [0, 1, 4, 9, 16]


def test_index_vectors_are_vectors() -> None:
    x, y = filled((4, 5)), sg.field(sg.f64, (4, 5))

    @sg.kernel
    def k():
        for I in sg.grouped(sg.ndrange((1, 3), (1, 4))):
            total = 0.0
            for offset in sg.static(sg.grouped(sg.ndrange((-1, 2), (-1, 2)))):
                total += x[I + offset]
            y[I] = total - x[I + sg.Vector([1, 0])]

    k()
    a = x.to_numpy()
    expected = np.zeros((4, 5))
    for i in range(1, 3):
        for j in range(1, 4):
            expected[i, j] = a[i - 1 : i + 2, j - 1 : j + 2].sum() - a[i + 1, j]
    np.testing.assert_array_equal(y.to_numpy(), expected)


def test_serial_index_vectors() -> None:
    x, total = filled((3, 4)), sg.field(sg.f64, ())

    @sg.kernel
    def k():
        for _ in range(1):
            s = 0.0
            for I in sg.grouped(x):
                s = s * 0.5 + x[I] * (I.x + 10 * I.y)
            total[None] = s

    k()
    s = 0.0
    for i in range(3):
        for j in range(4):
            s = s * 0.5 + x[i, j] * (i + 10 * j)
    assert total[None] == s


def test_gradient_through_index_vectors() -> None:
    x, loss = filled((3, 4), needs_grad=True), sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def k():
        for I in sg.grouped(x):
            loss[None] += x[I] ** 2 * (1 + I[1])

    with sg.ad.Tape(loss):
        k()
    np.testing.assert_allclose(x.grad.to_numpy(), 2 * x.to_numpy() * (1 + np.arange(4)))


def test_grouped_outside_kernels() -> None:
    assert [tuple(I) for I in sg.grouped(sg.ndrange(2, (1, 3)))] == [(0, 1), (0, 2), (1, 1), (1, 2)]
    x = filled((2, 2))
    I = next(iter(sg.grouped(x)))
    assert x[I + sg.Vector([1, 0])] == 3.0 and x[I * 2 + (0, 1)] == 2.0 and x[I - (-1)] == 4.0
    assert sum(x[tuple(I)] for I in sg.grouped(x)) == 10.0


def test_fields_of_vectors_and_structs_are_looped_over() -> None:
    v = sg.Vector.field(3, sg.f64, shape=(2, 3))
    s = sg.Struct.field({"a": sg.f64, "p": sg.types.vector(2, sg.f64)}, shape=(4,))

    @sg.kernel
    def k():
        for I in sg.grouped(v):
            v[I] = sg.Vector([I[0], I[1], 1.0])
        for i, j in v:
            v[i, j][2] += i + j
        for i in s:
            s[i].a = i
            s[i].p = sg.Vector([i, 2.0 * i])

    k()
    for i in range(2):
        for j in range(3):
            assert list(v[i, j]) == [i, j, 1 + i + j]
    assert s.a.to_numpy().tolist() == [0, 1, 2, 3]
    assert s.p.to_numpy().tolist() == [[0, 0], [1, 2], [2, 4], [3, 6]]


# ---- boxes ----------------------------------------------------------------------------------------------------------


def test_ndrange_with_pairs_and_shapes() -> None:
    x = sg.field(sg.i32, (4, 5))

    @sg.kernel
    def k(n: sg.i32):
        for i, j in sg.ndrange((1, n), x.shape[1]):
            x[i, j] += 1
        for i, j in sg.ndrange(*x.shape):
            x[i, j] += 10

    k(3)
    expected = np.full((4, 5), 10)
    expected[1:3] += 1
    np.testing.assert_array_equal(x.to_numpy(), expected)


def test_nested_ndrange_and_triangular_loop() -> None:
    x, loss = filled((3, 3), needs_grad=True), sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def k():
        for i in range(3):
            p = 1.0
            for j, m in sg.ndrange(3, 2):
                for l in range(j):
                    p = p * (1.0 + 0.1 * x[i, l]) + 0.01 * m
            loss[None] += p

    with sg.ad.Tape(loss):
        k()

    def value(a):
        total = 0.0
        for i in range(3):
            p = 1.0
            for j in range(3):
                for m in range(2):
                    for l in range(j):
                        p = p * (1.0 + 0.1 * a[i, l]) + 0.01 * m
            total += p
        return total

    a, eps = x.to_numpy(), 1e-6
    for i in range(3):
        for j in range(3):
            b, c = a.copy(), a.copy()
            b[i, j] += eps
            c[i, j] -= eps
            assert x.grad[i, j] == pytest.approx((value(b) - value(c)) / (2 * eps), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("step", [2, 3, -1, -2])
def test_range_with_a_constant_step(step) -> None:
    x = sg.field(sg.i32, 12)
    begin, end = (1, 11) if step > 0 else (10, 0)

    @sg.kernel
    def k(a: sg.i32, b: sg.i32):
        for i in range(a, b, step):
            x[i] += 1
        for _ in range(1):
            for i in range(a, b, step):
                x[i] += 10

    k(begin, end)
    expected = np.zeros(12, int)
    expected[list(range(begin, end, step))] = 11
    assert x.to_numpy().tolist() == expected.tolist()


# ---- static loops ---------------------------------------------------------------------------------------------------


@sg.func
def double(v):
    return 2.0 * v


@sg.func
def square(v):
    return v * v


def test_static_loops_over_objects() -> None:
    x, y = filled((3,)), filled((3,))
    names = {"x": x, "y": y}

    @sg.kernel
    def k():
        for i in range(3):
            for f in sg.static([double, square]):
                x[i] = f(x[i])
        for i in range(3):
            for a in sg.static([x, y]):
                a[i] += 1.0
            for n, a in sg.static(list(names.items())):
                if sg.static(n == "y"):
                    a[i] *= 10.0
            for number, (a, w) in sg.static(enumerate(zip([x, y], (0.5, 0.25)))):
                a[i] += w * number

    k()
    assert x.to_numpy().tolist() == [5.0, 17.0, 37.0]
    assert y.to_numpy().tolist() == [20.25, 30.25, 40.25]


def test_static_ranges_and_boxes() -> None:
    x = sg.field(sg.i32, (3, 4))

    @sg.kernel
    def k():
        for i, j in sg.static(sg.ndrange(2, (1, 3))):
            x[i, j] = 10 * i + j
        for i in sg.static(range(2, -1, -1)):
            x[i, 0] += i

    k()
    assert x.to_numpy().tolist() == [[0, 1, 2, 0], [1, 11, 12, 0], [2, 0, 0, 0]]


def test_static_sees_extents_types_and_presence_of_values() -> None:
    y = sg.field(sg.f64, 5)

    @sg.func
    def total(v, weight=None):
        s = 0.0
        for i in sg.static(range(v.n)):
            if sg.static(weight is not None):
                s += weight * v[i]
            else:
                s += v[i]
        return s + sg.static(100 * len(v))

    @sg.kernel
    def k(w: sg.f64):
        for i in range(1):
            v = sg.Vector([1.0, 2.0, 3.0])
            y[0] = total(v)
            y[1] = total(v, w)
            y[2] = sg.static(v.n * 7 + v.m)
            if w is not None:
                y[3] = 1.0
            if sg.static(y.dtype == sg.f64 and len(y.shape) == 1):
                y[4] = 2.0

    k(2.0)
    assert y.to_numpy().tolist() == [306.0, 312.0, 22.0, 1.0, 2.0]


# ---- options --------------------------------------------------------------------------------------------------------


def test_loop_config() -> None:
    x, order = sg.field(sg.i32, 8), sg.field(sg.i32, ())

    @sg.kernel
    def k():
        sg.loop_config(serialize=True)
        for i in range(8):
            x[i] = order[None]
            order[None] += 1
        sg.loop_config(block_dim=64, name="scaled", parallelize=4, block_dim_adaptive=True)
        for i in range(8):
            x[i] *= 2

    k()
    assert x.to_numpy().tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert [task.is_parallel for task in k.ir().tasks] == [False, True]


def test_statements_between_loops_run_once_and_are_differentiated() -> None:
    x, total, loss = filled((4,), needs_grad=True), sg.field(sg.f64, (), needs_grad=True), sg.field(sg.f64, (), True)

    @sg.kernel
    def k():
        total[None] = 0.0
        for i in x:
            total[None] += x[i] ** 2
        scale = 0.5 * total[None]
        loss[None] = scale * scale
        for i in x:
            loss[None] += x[i]

    with sg.ad.Tape(loss):
        k()
    a = x.to_numpy()
    np.testing.assert_allclose(x.grad.to_numpy(), (a @ a) * a + 1.0)
