"""Fields whose indices begin elsewhere than at 0: on the host, in kernels, in loops over them, in reverse mode."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
import stackgrad as sg

pytestmark = pytest.mark.usefixtures("arch")
POINTS = list(itertools.product(range(-3, 1), range(2, 5)))


def test_indices_run_from_the_offset() -> None:
    x = sg.field(sg.i32, (4, 3), offset=(-3, 2))
    seen = sg.field(sg.i32, (4, 3), offset=(-3, 2))
    total = sg.field(sg.i32, ())

    @sg.kernel
    def k(a: sg.i32, b: sg.i32):
        for i, j in x:
            seen[i, j] = 100 * i + j
            total[None] += x[i, j]
        for _ in range(1):
            x[a, b] = 7
            x[-3, 4] += 1
            x[sg.Vector([0, 2])] = 9

    for n, point in enumerate(POINTS):
        x[point] = n
    k(-1, 3)
    assert x.shape == (4, 3)
    assert {p: seen[p] for p in POINTS} == {(i, j): 100 * i + j for i, j in POINTS}
    assert seen.to_numpy().tolist() == [[100 * i + j for j in range(2, 5)] for i in range(-3, 1)]
    assert total[None] == sum(range(12))
    assert [x[-1, 3], x[-3, 4], x[0, 2]] == [7, 3, 9]
    assert list(sg.grouped(x))[0] == (-3, 2)


def test_loops_over_them_alone_and_grouped() -> None:
    x, found = sg.field(sg.i32, (4, 3), offset=(-3, 2)), sg.field(sg.i32, 4)

    @sg.kernel
    def k():
        for I in x:
            x[I] += I[0] + 10 * I[1]
        for I in sg.grouped(x):
            sg.atomic_min(found[0], I[0])
            sg.atomic_max(found[1], I[1])
        for _ in range(1):
            for i, j in x:
                found[2] += i - i + j - j + 1
            found[3] = x.shape[0]

    k()
    assert x.to_numpy().tolist() == [[i + 10 * j for j in range(2, 5)] for i in range(-3, 1)]
    assert found.to_numpy().tolist() == [-3, 4, 12, 4]


def test_vectors_and_structs() -> None:
    v = sg.Vector.field(2, sg.f64, 3, offset=(-1,))
    w = sg.Vector.field(2, sg.f64, 3, offset=5, layout=sg.Layout.SOA)
    s = sg.Struct.field({"p": sg.types.vector(2, sg.f64), "n": sg.i32}, 3, offset=(10,))

    @sg.kernel
    def k():
        for i in v:
            v[i] = [i, 2 * i]
        for i in w:
            w[i].y += v[i - 6][1]
        for i in s:
            s[i].p = w[i - 5]
            s.n[i] = i

    v[-1] = [4.0, 5.0]
    w[7] = [1.0, 1.0]
    s[11].n = 3
    s[12] = {"p": [0.5, 0.5], "n": 6}
    assert (v[-1][0], w[7].x, s[11].n, s.n[12], s[12].p[1]) == (4.0, 1.0, 3, 6, 0.5)
    k()
    assert v.to_numpy().tolist() == [[-1, -2], [0, 0], [1, 2]]
    assert w.to_numpy().tolist() == [[0, -2], [0, 0], [1, 3]]
    assert s.p.to_numpy().tolist() == w.to_numpy().tolist()
    assert [s[i].n for i in (10, 11, 12)] == [10, 11, 12]
    with pytest.raises(sg.OutOfBounds):
        s[0]


def placed(how: str):
    if how == "factory":
        x = sg.field(sg.f64, (4, 3), offset=(-3, 2), needs_grad=True)
    elif how == "with gradient":
        x = sg.field(sg.f64)
        sg.root.dense(sg.ij, (4, 3)).place(x, x.grad, offset=(-3, 2))
    else:
        x = sg.field(sg.f64)
        sg.root.dense(sg.ij, (4, 3)).place(x, offset=(-3, 2))
        sg.root.lazy_grad()
    return x


@pytest.mark.parametrize("how", ["factory", "with gradient", "lazy"])
def test_gradients_have_the_offset_too(how) -> None:
    x, loss = placed(how), sg.field(sg.f64, (), needs_grad=True)
    a = np.arange(12.0).reshape(4, 3)
    x.from_numpy(a)

    @sg.kernel
    def stencil():
        for i, j in x:
            if i > -3:
                loss[None] += x[i, j] * x[i - 1, j] * i

    with sg.ad.Tape(loss):
        stencil()
    expected = np.zeros((4, 3))
    for i, j in POINTS:
        if i > -3:
            expected[i + 3, j - 2] += a[i + 2, j - 2] * i
            expected[i + 2, j - 2] += a[i + 3, j - 2] * i
    np.testing.assert_allclose(x.grad.to_numpy(), expected)
    assert x.grad[-1, 4] == expected[2, 2]

    @sg.kernel
    def descend():
        for i, j in x:
            x[i, j] -= 0.5 * x.grad[i, j]

    descend()
    np.testing.assert_allclose(x.to_numpy(), a - 0.5 * expected)


def test_forward_mode() -> None:
    x, y = sg.field(sg.f64, 3, offset=-1, needs_dual=True), sg.field(sg.f64, (), needs_dual=True)
    x.from_numpy(np.array([2.0, 3.0, 4.0]))

    @sg.kernel
    def k():
        for i in x:
            y[None] += (i + 2) * x[i] ** 2

    with sg.ad.FwdMode(y, x, [1.0, 10.0, 100.0]):
        k()
    assert y.dual[None] == 4.0 + 2 * 60.0 + 3 * 800.0


def test_as_arguments() -> None:
    """Of templates and of annotations that take any array; another offset is another specialization."""
    fields = [sg.field(sg.i32, 3, offset=o) for o in (-1, 4, 0)]

    @sg.kernel
    def by_template(x: sg.template()):
        for i in x:
            x[i] += i

    @sg.kernel
    def by_tensor(x: sg.Tensor):
        for i in x:
            x[i] += 10 * i

    @sg.kernel
    def by_ndarray(x: sg.types.ndarray(sg.i32, ndim=1)):
        for i in x:
            x[i] += 100 * i

    for x, first in zip(fields, (-1, 4, 0)):
        for k in (by_template, by_tensor, by_ndarray):
            k(x)
            k(x)
        assert x.to_numpy().tolist() == [222 * (first + n) for n in range(3)]


def test_copies_and_pickles() -> None:
    x, y = sg.field(sg.f32, 3, offset=2), sg.field(sg.f32, 3)
    x.from_numpy(np.array([1, 2, 3], np.float32))
    y.copy_from(x)
    again = pickle.loads(pickle.dumps(x))
    assert (y[0], again[2], again[4]) == (1.0, 1.0, 3.0)


def test_indices_outside() -> None:
    x = sg.field(sg.f32, 3, offset=-2)
    with pytest.raises(sg.OutOfBounds, match=r"index 1 of axis 0 .*indices begin at \(-2,\)"):
        x[1] = 1.0
    with pytest.raises(sg.OutOfBounds):
        x[-3]

    @sg.kernel
    def k():
        for _ in range(1):
            x[-3] = 1.0

    with pytest.raises(sg.KernelTypeError, match="the index -3 is below -2"):
        k()


@pytest.mark.parametrize(("offset", "message"), [((1, 2), "with 1 axes"), ((1.5,), "not made of integers")])
def test_offsets_that_are_none(offset, message) -> None:
    with pytest.raises(sg.FieldError, match=message):
        sg.field(sg.f32, 3, offset=offset)
    with pytest.raises(sg.FieldError, match="needs a shape"):
        sg.field(sg.f32, offset=offset)


def test_an_offset_of_zeros_is_none() -> None:
    """The kernel is the same as that of a field without one."""
    x, y = sg.field(sg.f32, 3, offset=(0,)), sg.field(sg.f32, 3)
    assert x.offset == y.offset == ()
