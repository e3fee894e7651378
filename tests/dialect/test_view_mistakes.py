"""Mistakes with views: on the host, at launches, in kernels and while they run. Each has its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.compiler.errors import LocatedError

pytestmark = pytest.mark.usefixtures("arch")

MISTAKES = {
    "neither is negative": lambda x: sg.BufferView(x, -1, 2),
    "of -2 elements from 1 on": lambda x: sg.BufferView(x, 1, -2),
    "ends beyond the array, which has 6": lambda x: sg.BufferView(x, 4, 3),
    "ends beyond the view, which has 2": lambda x: x[4:].subview(1, 2),
    "one axis, not of shape (2, 3)": lambda x: sg.BufferView(sg.field(sg.f64, (2, 3)), 0, 1),
    "a slice is of an array with one axis": lambda x: sg.ndarray(sg.f64, (2, 3))[0:1],
    "has no step, and the slice has 2": lambda x: x[::2],
    "not of a view": lambda x: sg.BufferView(x[1:], 0, 1),
    "not of list": lambda x: sg.BufferView([1.0, 2.0], 0, 1),
    "'a' and size 1 of a view are integers": lambda x: sg.BufferView(x, "a", 1),
    "indexed by slices outside": lambda x: x[1:][0],
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_on_the_host(words: str) -> None:
    """An error at the line of the caller, of the classes that programs of the dialect expect."""
    with pytest.raises(sg.ViewError) as caught:
        MISTAKES[words](sg.ndarray(sg.f64, 6))
    text = str(caught.value)
    assert words in text and f"{__file__}:{MISTAKES[words].__code__.co_firstlineno}:" in text and "cure" in text
    assert isinstance(caught.value, (ValueError, TypeError)) and isinstance(caught.value, sg.StackgradError)


@pytest.mark.parametrize(
    ("give", "words"),
    [
        (lambda: sg.ndarray(sg.f32, 4), "ScalarNdarray .* is no view"),
        (lambda: np.zeros(4, np.float32), "ndarray .* is no view"),
        (lambda: sg.BufferView(np.zeros(4), 1, 2), "an array of f64 is given where f32 is asked for"),
        (lambda: sg.ndarray(sg.i32, 4)[1:], "an array of i32 is given where f32 is asked for"),
        (lambda: sg.Vector.ndarray(2, sg.f32, 4)[1:], "elements are a vector of 2 of f32, f32 is asked for"),
        (lambda: 3, "int 3 is no view"),
    ],
)
def test_launched_with_something_else(give: Any, words: str) -> None:
    @sg.kernel
    def k(v: sg.BufferView[sg.f32]):
        v[0] = 1.0

    with pytest.raises(sg.KernelTypeError, match=f"(?s)kernel k: the parameter v: {words}.*cure: ") as caught:
        k(give())
    assert f"{__file__}:{k.__wrapped__.__code__.co_firstlineno + 1}:" in str(caught.value)


@sg.func
def of_ints(v: sg.BufferView[sg.i32]):
    v[0] = 1


@sg.func
def of_any(v: sg.BufferView):
    v[0] = 1


def located(k: Any, *args: Any) -> None:
    """Each line of a kernel that ends in a comment, and no other, has an error with these words and a cure."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    first = k.__wrapped__.__code__.co_firstlineno + 2
    last = next(at for at in range(first, len(lines)) if not lines[at - 1].strip())
    expected = {at: lines[at - 1].rpartition("  # ")[2] for at in range(first, last) if "  # " in lines[at - 1]}
    with pytest.raises(LocatedError) as caught:
        k(*args)
    found = {d.span.line: d for d in caught.value.diagnostics if d.span is not None}
    assert len(expected) >= 10 and set(found) == set(expected)
    for at, words in expected.items():
        assert words in found[at].reason and found[at].cure, (words, found[at])


def test_mistakes_with_a_view() -> None:
    @sg.kernel
    def k(v: sg.BufferView[sg.f64], n: sg.i32):
        w = v[1:]
        w = v[2:]  # `w` has a value already, and views are not stored
        v[-1] = 0.0  # the index of `v[-1]` is -1, and views do not count from the end
        v[0, 1] = 0.0  # the view `v` has 1 axis, but is indexed with 2
        v[0.5] = 0.0  # the index of `v[0.5]` is an integer, not a real number
        v[2:4][2] = 0.0  # the index 2 is outside the view `v`, which has 2 elements
        v += 1  # the view `v` cannot be assigned as a whole
        w.length = 1  # a view has no attribute `length`
        of_ints(v)  # the parameter `v` is a view of i32, not of f64
        of_any(n)  # the parameter `v` is a view, not a value of type i32
        n + w  # a number is expected here, not the view `w`
        sg.static(v[0])  # elements and parts of a view are taken outside of `static`
        sg.static(v.size)  # where a view begins and ends is known at launch only

    located(k, sg.ndarray(sg.f64, 4)[:], 1)


def test_mistakes_in_making_one() -> None:
    x, flat = sg.field(sg.f64, 4), sg.field(sg.f64, (2, 2))

    @sg.kernel
    def k(v: sg.BufferView, n: sg.i32):
        v[0:4:2][0] = 0.0  # a slice of a view has no step
        v[-2:][0] = 0.0  # a bound of a view is -2, and views do not count from the end
        v[3:1][0] = 0.0  # the slice ends 2 before it begins
        v[2:4][1:3][0] = 0.0  # the view of 2 elements from 1 on ends beyond `v`, which has 2
        sg.BufferView(v, 0, 1)[0] = 0.0  # a view is made of an array, not of a view
        sg.BufferView(n, 0, 1)[0] = 0.0  # a view is made of an ndarray or field, not of a value of type i32
        sg.BufferView(flat, 0, 1)[0] = 0.0  # a view is of an array with one axis, and `flat` has 2
        sg.BufferView(x, -1, 1)[0] = 0.0  # the offset of a view is -1, and views do not count from the end
        sg.BufferView(x, n, -1)[0] = 0.0  # the size of a view is -1, and views do not count from the end
        sg.BufferView(x, 2, 3)[0] = 0.0  # the view of 3 elements from 2 on ends beyond `x`, which has 4
        sg.BufferView(x, 2)[0] = 0.0  # `BufferView` takes 3 arguments, 2 given

    located(k, sg.ndarray(sg.f64, 4)[:], 1)


def test_another_gradient_than_asked_for() -> None:
    @sg.kernel
    def k(v: sg.BufferView):
        for i in v:
            v[i] = v.grad[i]

    @sg.kernel
    def plain(v: sg.BufferView):
        for i in v:
            v[i] = i

    with pytest.raises(sg.KernelTypeError, match="has no gradient"):
        k(sg.ndarray(sg.f64, 3)[1:])
    with pytest.raises(sg.ViewError, match="has no gradient"):
        assert sg.ndarray(sg.f64, 3)[1:].grad
    with pytest.raises(sg.NotDifferentiable, match="missing gradient"):
        plain.grad(sg.ndarray(sg.f64, 3)[1:])


# ---- launches -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize(
    ("first", "size", "index", "fails"),
    [(2, 3, 2, False), (2, 3, 3, True), (2, 3, -1, True), (0, 0, 0, True), (5, 1, 0, False)],
)
def test_an_index_outside_is_an_error(arch: str, first: int, size: int, index: int, fails: bool, debug: bool) -> None:
    """Outside of the view, also where the array has such an element."""
    sg.init(arch=arch, debug=debug)
    x = sg.ndarray(sg.f32, 6)

    @sg.kernel
    def k(v: sg.BufferView[sg.f32], j: sg.i32):
        for i in range(1):
            v[i + j] = 1.0

    if not fails:
        k(sg.BufferView(x, first, size), index)
        assert np.flatnonzero(x.to_numpy()).tolist() == [first + index]
        return
    line = k.__wrapped__.__code__.co_firstlineno + 3
    words = rf"mistakes.py:{line}:\d+: index {index} is outside the view `v`, which has {size} elements"
    with pytest.raises(sg.OutOfBounds, match=words) as caught:
        k(sg.BufferView(x, first, size), index)
        sg.sync()
    assert isinstance(caught.value, AssertionError) and not x.to_numpy().any()


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize(
    ("first", "size", "words"),
    [
        (2, 2, ""),
        (-1, 2, "not inside `a`: it begins at -1, and one of its size has to begin below 5"),
        (4, -1, "index 0 is outside the view `.*`, which has 0 elements"),
        (4, -3, "index 0 is outside the view"),
        (5, 2, "not inside `a`: it begins at 5, and one of its size has to begin below 5"),
        (0, 8, "begin below 0"),
        (-(2**31), 2, "begins at -2147483648"),
        (2**31 - 1, 2**31 - 1, "begins at 2147483647"),
    ],
)
def test_a_part_outside_is_an_error(arch: str, first: int, size: int, words: str, debug: bool) -> None:
    sg.init(arch=arch, debug=debug)
    x = sg.ndarray(sg.f32, 6)

    @sg.kernel
    def k(a: sg.types.ndarray(), first: sg.i32, size: sg.i32):
        for _ in range(1):
            w = sg.BufferView(a, first, size)
            w[0] = 1.0

    @sg.kernel
    def of_a_view(a: sg.BufferView, first: sg.i32, size: sg.i32):
        for _ in range(1):
            a.subview(first, size)[0] = 1.0

    for run, whole in ((k, x), (of_a_view, x[:])):
        if words:
            with pytest.raises(sg.OutOfBounds, match=words):
                run(whole, first, size)
                sg.sync()
        else:
            run(whole, first, size)
    assert x.to_numpy().any() != bool(words)
