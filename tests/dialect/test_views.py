"""Views of a part of an array: elements, parts of parts, what they may be of, and where they come from."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import stackgrad as sg

pytestmark = pytest.mark.usefixtures("arch")

TYPES = pytest.mark.parametrize("dtype", [sg.f32, sg.f64, sg.i32], ids=str)
SIZES = pytest.mark.parametrize("n", [0, 1, 2, 3, 1000])


def filled(dtype: Any, n: int, **options: Any) -> Any:
    """An ndarray of 0, 1, 2, ..."""
    made = sg.ndarray(dtype, n, **options)
    made.from_numpy(np.arange(n).astype(dtype.dtype))
    return made


@TYPES
@SIZES
def test_elements_of_a_view(dtype: Any, n: int) -> None:
    """Read, written, updated; two parts of one array at once; other parts without another compilation."""

    @sg.kernel
    def k(a: sg.BufferView[dtype], b: sg.BufferView[dtype]):
        for i in range(a.size):
            b[i] = 2 * a[i]
        for i in range(a.size):
            b[i] += a[i]
            sg.atomic_max(b[0], 1)

    x = filled(dtype, 3 * n + 2)
    expected = x.to_numpy()
    for first, second in ((0, n + 1), (n + 1, 2 * n + 2), (2 * n + 2, 1)):
        k(sg.BufferView(x, first, n), x[second : second + n])
        expected[second : second + n] = 3 * expected[first : first + n]
        if n:
            expected[second] = max(expected[second], 1)
        np.testing.assert_array_equal(x.to_numpy(), expected)
    assert len(k.programs) == 1


@sg.kernel
def numbered(v: sg.BufferView):
    for i in range(v.size):
        v[i] = 10 * (i + 1)


@sg.kernel
def extents(v: sg.BufferView[sg.f64]) -> sg.types.vector(3, sg.i32):
    return sg.Vector([v.size, v.shape[0], v.offset])


def test_what_a_view_is_of() -> None:
    """Of ndarrays, fields, NumPy arrays, adjoints, and of one array after another."""
    x, field, array = sg.ndarray(sg.f64, 6, needs_grad=True), sg.field(sg.f64, 6, offset=-2), np.zeros(6)
    for whole in (x, field, array, x.grad, x):
        numbered(sg.BufferView(whole, 2, 3))
        content = whole if whole is array else whole.to_numpy()
        assert content.tolist() == [0, 0, 10, 20, 30, 0]
    assert list(extents(x[4:])) == [2, 2, 4]
    assert x[2:5].grad.arr is x.grad and x[2:5].get_ndarray() is x


def test_views_of_views() -> None:
    x = filled(sg.f64, 12)

    @sg.func
    def bump(v: sg.BufferView[sg.f64], by):
        inner = v[1:]
        for i in inner:
            inner[i] += by

    @sg.kernel
    def k(v: sg.BufferView, a: sg.i32, b: sg.i32):
        bump(v[a:b], 100)
        bump(v.subview(offset=a, size=b - a)[1:], 1000)
        for i in sg.grouped(v[: v.size - 6]):
            v[i] = -1
        first, second = v[0:1], v[1:2]
        for q in sg.static((first, second)):
            q[0] -= 1

    k(x[2:][1:10], 3, 7)
    assert x.to_numpy().tolist() == [0, 1, 2, -2, -2, -1, 6, 107, 1108, 1109, 10, 11]
    part = x[-10:8][1:]
    assert (part.offset, part.size, part.shape) == (3, 5, (5,))
    assert (x[5:2].size, x[:100].size, part.subview(2, 3).offset) == (0, 12, 5)


def test_made_in_a_kernel() -> None:
    """Of arguments, fields, adjoints; at numbers of the launch; unrolled; in branches and loops."""
    x = filled(sg.f64, 10, needs_grad=True)
    field = sg.field(sg.f64, 8)

    @sg.kernel
    def k(a: sg.types.ndarray(), first: sg.i64, n: sg.i32) -> sg.i64:
        w = sg.BufferView(a, first, n)
        for i in range(w.size):
            w[i] *= 10
        for i in range(3):
            row = sg.BufferView(field, 2 * i, size=2)
            row[0] = i
            row[1] = w[i]
        for q in sg.static(range(2)):
            end = sg.BufferView(arr=field, offset=6 + q, size=1)
            end[0] = -q
        if n > 2:
            adjoint = w[1:].grad
            adjoint[0] = 7
        return w.offset + w.size

    assert k(x, 4, 3) == 7
    assert x.to_numpy().tolist() == [0, 1, 2, 3, 40, 50, 60, 7, 8, 9]
    assert x.grad.to_numpy().tolist() == [0, 0, 0, 0, 0, 7, 0, 0, 0, 0]
    assert field.to_numpy().tolist() == [0, 40, 1, 50, 2, 60, 0, -1]


def test_vectors_and_structs() -> None:
    x = sg.Vector.ndarray(2, sg.f64, 4)
    s = sg.Struct.field({"p": sg.types.vector(2, sg.f64), "n": sg.i32}, 4)

    @sg.kernel
    def k(v: sg.BufferView[sg.types.vector(2, sg.f64)]):
        for i in v:
            v[i] = [i, 1]
            v[i].y += 1
        t = sg.BufferView(s, 1, 2)
        for i in t:
            t[i].n = i + 5
            t.p[i] = v[i] + v.n
        for _ in range(1):
            v[1][0] = v.size

    k(x[1:3])
    assert x.to_numpy().tolist() == [[0, 0], [0, 2], [2, 2], [0, 0]]
    assert s.n.to_numpy().tolist() == [0, 5, 6, 0]
    assert s.p.to_numpy().tolist() == [[0, 0], [2, 4], [3, 4], [0, 0]]


def test_in_classes_dataclasses_tuples_and_as_templates() -> None:
    x, y = filled(sg.f64, 6), sg.field(sg.f64, 6)

    @dataclass
    class Pair:
        a: sg.BufferView[sg.f64]
        b: sg.BufferView

    @sg.data_oriented
    class Holder:
        def __init__(self, part):
            self.part = part

        @sg.kernel
        def add(self):
            for i in range(self.part.size):
                self.part[i] += 1

    @sg.kernel
    def copy(p: Pair):
        for i in range(p.a.size):
            p.b[i] = p.a[i]

    @sg.kernel
    def both(p: sg.template(), q: sg.template()):
        for i in q[0]:
            p[i] = q[0][i] + q[1]

    for first in (1, 3):
        copy(Pair(x[first : first + 2], sg.BufferView(y, first - 1, 2)))
    assert y.to_numpy().tolist() == [1, 2, 3, 4, 0, 0] and len(copy.programs) == 1
    holder = Holder(sg.BufferView(y, 4, 2))
    holder.add()
    holder.part = sg.BufferView(y, 5, 1)
    holder.add()
    assert y.to_numpy().tolist() == [1, 2, 3, 4, 1, 2]
    for first in (0, 2):
        both(sg.BufferView(y, first, 2), (x[first + 2 : first + 4], 10))
    assert y.to_numpy().tolist() == [12, 13, 14, 15, 1, 2] and len(both.programs) == 1


def test_captured_by_a_kernel() -> None:
    y = sg.field(sg.i32, 5)
    part = sg.BufferView(y, 1, 3)

    @sg.kernel
    def k():
        for i in range(sg.static(part.size)):
            part[i] = i + part.offset

    k()
    assert y.to_numpy().tolist() == [0, 1, 2, 3, 0]


def test_a_view_keeps_its_array_and_kernels_keep_neither() -> None:
    x = sg.ndarray(sg.f64, 5)
    view, alive = x[1:3], weakref.ref(x)
    numbered(view)
    numbered(view)
    del x
    gc.collect()
    assert alive() is not None and view.arr.to_numpy().tolist() == [0, 10, 20, 0, 0]
    del view
    gc.collect()
    assert alive() is None


def test_arguments_are_checked_again_at_every_launch() -> None:
    """A call with the array of the last one is remembered; its offset, size and kind are those of the new call."""
    x, array = sg.ndarray(sg.f64, 5), np.zeros(6)
    numbered(x[0:1])
    numbered(x[3:5])
    assert x.to_numpy().tolist() == [10, 0, 0, 10, 20]
    with pytest.raises(sg.KernelTypeError, match="is no view"):
        numbered(x)
    late = sg.BufferView(array, 3, 3)
    array.resize(4, refcheck=False)
    with pytest.raises(sg.KernelTypeError, match="the parameter v: a view of 3 elements from 3 on is given"):
        numbered(late)
    sg.init(default_fp=sg.f64)
    with pytest.raises(sg.UsageError, match=r"before the last sg.init"):
        numbered(sg.BufferView(x, 0, 1))


def test_annotations() -> None:
    @sg.kernel
    def by_default(v: sg.BufferView[float]):
        v[0] = 2.5

    @sg.kernel
    def by_text(v: "sg.BufferView[sg.f64]"):  # noqa: UP037
        v[0] += 1

    x = sg.ndarray(sg.f64, 3)
    by_default(x[1:])
    by_text(x[1:])
    assert x.to_numpy().tolist() == [0, 3.5, 0]
    with pytest.raises(sg.FieldError, match="not clamped"):
        sg.BufferView[sg.f32, "clamp"]
    with pytest.raises(sg.FieldError, match="no boundary 'wrap'"):
        sg.BufferView[sg.f32, "wrap"]
    assert sg.BufferView[sg.f32, "unsafe"] == sg.BufferView[sg.f32]
