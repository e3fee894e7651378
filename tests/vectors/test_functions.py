# ruff: noqa: F841 - a parameter taken by reference is read by the caller
"""Vectors as arguments and results of functions: by value, early returns, annotations, defaults."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from vectors_support import matrices, vectors, written

pytestmark = pytest.mark.backends("reference", "cpu")

vec2, mat2 = sg.types.vector(2, sg.f64), sg.types.matrix(2, 2, sg.f64)


@pytest.fixture(autouse=True)
def double(backend):
    backend.init(default_fp=sg.f64)


@sg.func
def doubled(v):
    v *= 2
    v[0] += 1.0
    return v


@sg.func
def clipped(v: vec2, limit=1.0) -> vec2:
    if v.norm() < limit:
        return v
    if v.x > 3.0:
        return vec2(3, v.y)
    return v.normalized() * limit


@sg.func
def both(m: mat2, v):
    return m @ v, m.determinant()


@sg.func
def walk(v, n):
    for i in range(n):
        v = v.yx * 0.5
        if v.x < 0.1:
            return v, i
    return v, -1


def test_arguments_go_by_value(backend):
    y, x = sg.Vector.field(2, sg.f64, shape=2), vectors(2)

    @sg.kernel
    def k():
        v = x[None]
        y[0] = doubled(v)
        y[1] = v

    x0 = x.to_numpy()
    np.testing.assert_allclose(written(k, y), [x0 * 2 + [1, 0], x0])


def test_early_returns(backend):
    y = sg.Vector.field(2, sg.f64, shape=4)

    @sg.kernel
    def k():
        for i in y:
            y[i] = clipped(sg.Vector([i * 1.25, 0.25]))

    def plain(v):
        if np.hypot(*v) < 1:
            return v
        return [3, v[1]] if v[0] > 3 else np.array(v) / np.hypot(*v)

    np.testing.assert_allclose(written(k, y), [plain([i * 1.25, 0.25]) for i in range(4)], rtol=1e-14)


def test_several_results(backend):
    y, x, m = sg.field(sg.f64, shape=6), vectors(2), matrices(2, 2)

    @sg.kernel
    def k():
        v, d = both(m[None], x[None])
        y[0], y[1], y[2] = *v, d
        w, at = walk(x[None], 10)
        y[3], y[4], y[5] = *w, at

    v, matrix = x.to_numpy(), m.to_numpy()
    steps, w = 0, v[::-1] * 0.5
    while w[0] >= 0.1:
        steps, w = steps + 1, w[::-1] * 0.5
    np.testing.assert_allclose(written(k, y), [*(matrix @ v), np.linalg.det(matrix), *w, steps], rtol=1e-13)


@pytest.mark.expensive
@pytest.mark.backends("cpu")
def test_early_returns_have_gradients(backend, gradcheck):
    x, loss = vectors(2, 6, low=-2.0, high=6.0), sg.field(sg.f64, shape=(), needs_grad=True)

    @sg.kernel
    def k():
        for i in x:
            w, at = walk(clipped(x[i], 1.5), 6)
            loss[None] += w.x * w.x + 3.0 * w.y * at

    gradcheck(k)


@sg.func
def push(v: sg.template(), s: sg.template(), amount):
    v += amount
    v.x *= 2
    s = v.sum()


def test_templates_go_by_reference(backend):
    x, y = vectors(2, 2), sg.field(sg.f64, shape=3)
    before = x.to_numpy()

    @sg.kernel
    def k():
        v, s = sg.Vector([1.0, 2.0]), 0.0
        push(v, s, 3.0)
        push(x[1], s=y[0], amount=1.0)
        y[1], y[2] = v.x, s

    after = before[1] + 1
    after[0] *= 2
    np.testing.assert_allclose(written(k, y), [after.sum(), 8, 13])
    np.testing.assert_allclose(x.to_numpy(), [before[0], after])


@sg.func
def rotated(items):
    items[0], items[1] = items[1], items[0]
    items[0] *= 2
    return items


def test_sequences_as_arguments_and_results(backend):
    x, y = vectors(2), sg.Vector.field(2, sg.f64, shape=3)

    @sg.kernel
    def k():
        pair = [x[None], x[None] + 1]
        turned = rotated(pair)
        y[0], y[1] = turned
        y[2] = pair[0]

    v = x.to_numpy()
    np.testing.assert_allclose(written(k, y), [2 * (v + 1), v, v])


@sg.func
def emptied(v, b):
    v.fill(0.5)
    sg.atomic_add(b[0], 1.0)
    return v + b


def test_parameters_changed_by_methods_are_copies(backend):
    x, y = vectors(2), sg.Vector.field(2, sg.f64, shape=2)

    @sg.kernel
    def k():
        v = x[None]
        y[0] = emptied(v, v)
        y[1] = v

    v = x.to_numpy()
    np.testing.assert_allclose(written(k, y), [v + [1.5, 0.5], v])
