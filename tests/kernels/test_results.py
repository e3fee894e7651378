"""Results of kernels: types, several values, early returns, defaults and keywords; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import stackgrad as sg

vec3 = sg.types.vector(3, sg.f64)
mat2 = sg.types.matrix(2, 2, sg.f32)


@sg.dataclass
class Particle:
    pos: vec3  # type: ignore[valid-type]
    mass: sg.f32  # type: ignore[valid-type]
    kind: sg.i32  # type: ignore[valid-type]


@sg.kernel
def number(a: sg.i32, b: sg.f64 = 2.0) -> sg.f64:  # type: ignore[valid-type, assignment]
    return a * b


@sg.kernel
def early(a: sg.i32) -> sg.i32:  # type: ignore[valid-type]
    if a > 10:
        return 1
    if a > 5:
        return 2
    b = a
    while b < 100:
        b *= 2
        if b == 48:
            return b
    return -a


@sg.kernel
def several(a: sg.i64) -> tuple[sg.i64, sg.f32, bool]:  # type: ignore[valid-type]
    return a + 1, a / 2, a > 3


@sg.kernel
def matrix(v: vec3, m: mat2) -> mat2:  # type: ignore[valid-type]
    return v[0] * m.transpose()


@sg.kernel
def moved(p: Particle, by: vec3) -> Particle:  # type: ignore[valid-type]
    q = p
    q.pos += by * p.mass
    q.kind = 7
    return q


def test_numbers_keywords_and_defaults() -> None:
    assert number(3) == 6.0 and number(b=0.5, a=4) == 2.0 and number(3, 1) == 3.0
    assert type(number(3)) is float and type(early(3)) is int


def test_early_returns() -> None:
    assert [early(a) for a in (11, 6, 3, 5)] == [1, 2, 48, -5]


def test_several_values_of_several_types() -> None:
    assert several(2**40) == (2**40 + 1, float(2**39), True)
    assert [type(v) for v in several(1)] == [int, float, bool]


def test_a_matrix_from_a_vector_and_a_matrix() -> None:
    made = matrix(sg.Vector([2.0, 0.0, 0.0]), [[1, 2], [3, 4]])
    assert made.to_numpy().dtype == np.float32 and np.array_equal(made.to_numpy(), [[2, 6], [4, 8]])


def test_structs_in_and_out() -> None:
    p = Particle(pos=vec3(1, 2, 3), mass=2.0, kind=1)
    q = moved(p, [1.0, 0.0, 0.5])
    assert np.array_equal(q.pos.to_numpy(), [3, 2, 4]) and (q.mass, q.kind) == (2.0, 7)
    assert np.array_equal(p.pos.to_numpy(), [1, 2, 3]) and p.kind == 1


def test_a_result_after_a_parallel_loop() -> None:
    x, total = sg.field(sg.f64, 100), sg.field(sg.f64, ())
    x.fill(0.5)

    @sg.kernel
    def mean(limit: sg.i32) -> sg.f64:  # type: ignore[valid-type]
        if limit == 0:
            return -1.0
        total[None] = 0.0
        for i in x:
            total[None] += x[i]
        return total[None] / limit

    assert mean(100) == 0.5 and mean(0) == -1.0 and total[None] == 50


def test_a_tape_records_a_kernel_with_a_result() -> None:
    x, loss = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)
    x.fill(3)

    @sg.kernel
    def k() -> sg.f64:  # type: ignore[valid-type]
        for i in x:
            loss[None] += x[i] * x[i]
        return loss[None]

    with sg.ad.Tape(loss):
        assert k() == 27.0
    assert x.grad.to_numpy().tolist() == [6] * 3


def _missing() -> Any:
    @sg.kernel  # noqa: RET503
    def k(a: sg.i32) -> sg.i32:  # type: ignore[valid-type, return]
        if a > 1:
            return 1

    return k


def _unannotated() -> Any:
    @sg.kernel
    def k(a: sg.i32):  # type: ignore[no-untyped-def, valid-type]
        return a

    return k


def _empty() -> Any:
    @sg.kernel
    def k(a: sg.i32) -> sg.i32:  # type: ignore[valid-type]
        if a > 1:
            return  # noqa: RET502
        return 1

    return k


def _count() -> Any:
    @sg.kernel
    def k(a: sg.i32) -> tuple[sg.i32, sg.i32]:  # type: ignore[valid-type]
        return a, a, a

    return k


def _vector() -> Any:
    @sg.kernel
    def k(a: sg.i32) -> vec3:  # type: ignore[valid-type]
        return a, a

    return k


def _parallel() -> Any:
    @sg.kernel
    def k(a: sg.i32) -> sg.i32:  # type: ignore[valid-type]
        for i in range(a):
            if i == 3:
                return i
        return 0

    return k


def _annotation() -> Any:
    @sg.kernel
    def k(a: sg.i32) -> list:  # type: ignore[valid-type, type-arg]
        return a

    return k


@pytest.mark.parametrize(
    ("make", "words", "cure"),
    [
        (_missing, "the kernel `k` can end without returning a value", "on every path"),
        (_unannotated, "its signature does not say which", "-> sg.f32"),
        (_empty, "returns no value here", "on every path"),
        (_count, "its annotation promises 2 values", "annotation says"),
        (_parallel, "`return` inside a parallel loop", "continue"),
        (_annotation, "the annotation `-> list` is no type of a result", "scalar"),
    ],
)
def test_refused_returns_are_located(make: Any, words: str, cure: str) -> None:
    with pytest.raises(sg.StackgradError) as caught:
        make()(2)
    text = str(caught.value)
    assert words in text and cure in text and "test_results.py:" in text and "^" in text


def test_a_vector_that_does_not_fit_is_located() -> None:
    with pytest.raises(sg.KernelTypeError, match="test_results.py:"):
        _vector()(2)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (([1.0, 2.0], [[1, 2], [3, 4]]), "the parameter v: cannot take"),
        ((vec3(1, 2, 3), 5), "the parameter m: cannot take"),
        ((vec3(1, 2, 3), [[1, 2], [3, "a"]]), "the parameter m: cannot take"),
    ],
)
def test_values_that_do_not_fit(args: tuple[Any, ...], words: str) -> None:
    with pytest.raises(sg.KernelTypeError, match=words):
        matrix(*args)


def test_a_struct_that_does_not_fit() -> None:
    with pytest.raises(sg.KernelTypeError, match="the parameter p: cannot take"):
        moved({"pos": [1, 2, 3]}, [1, 2, 3])
    with pytest.raises(sg.KernelTypeError, match="in its member kind"):
        moved({"pos": [1.0, 2.0, 3.0], "mass": 1.0, "kind": 0.5}, [1.0, 2.0, 3.0])


def test_options_of_the_decorator() -> None:
    @sg.kernel(pure=True)
    def pure(a: sg.i32) -> sg.i32:  # type: ignore[valid-type]
        return a

    @sg.kernel(fastcache=True)
    def cached(a: sg.i32) -> sg.i32:  # type: ignore[valid-type]
        return a

    assert (pure(2), cached(3)) == (2, 3)
    with pytest.raises(sg.UsageError, match="no option 'fast'"):
        sg.kernel(fast=True)


def test_gradient_of_vector_arguments_leaves_them_alone() -> None:
    x = sg.field(sg.f64, 3, needs_grad=True)

    @sg.kernel
    def k(v: vec3):  # type: ignore[no-untyped-def, valid-type]
        for i in range(3):
            x[i] = x[i] * v[i]

    x.fill(1)
    k(vec3(1, 2, 3))
    x.grad.fill(1)
    k.grad(vec3(1, 2, 3))
    assert np.array_equal(x.to_numpy(), [1, 2, 3]) and np.array_equal(x.grad.to_numpy(), [1, 2, 3])


def test_results_given_as_a_tuple_of_types() -> None:
    @sg.kernel
    def k(a: sg.f64) -> (sg.i32, vec3):  # type: ignore[valid-type, syntax]
        return 1, vec3(a, 2 * a, 0)

    count, vector = k(1.5)
    assert count == 1 and vector.to_numpy().tolist() == [1.5, 3, 0]
