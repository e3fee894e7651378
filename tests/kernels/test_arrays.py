"""Array arguments: what is taken, what a specialization depends on, gradients, what a mistake says."""

from __future__ import annotations

import sys
import types
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import stackgrad as sg

HERE = "test_arrays.py:"


@sg.kernel
def scale(x: sg.types.ndarray(ndim=1), y: sg.types.ndarray(ndim=1), factor: sg.f64):  # type: ignore[valid-type, no-untyped-def]
    for i in range(x.shape[0]):
        y[i] += factor * x[i] * x[i]


@sg.kernel
def typed(x: sg.types.ndarray(sg.f64, ndim=2)):  # type: ignore[valid-type, no-untyped-def]
    for i, j in x:
        x[i, j] += 10 * i + j


@sg.kernel
def wants_gradient(x: sg.types.ndarray(needs_grad=True)):  # type: ignore[valid-type, no-untyped-def]
    for i in x:
        x[i] = 2 * x[i]


@sg.kernel
def vectors(v: sg.types.ndarray(sg.types.vector(3, sg.f64), ndim=1), out: sg.types.ndarray()):  # type: ignore[valid-type, no-untyped-def]
    for i in v:
        out[i] = v[i].norm_sqr()


def test_numpy_arrays_in_place() -> None:
    x, y = np.arange(4.0), np.ones(4)
    scale(x, y, 2.0)
    assert np.array_equal(y, 1 + 2 * np.arange(4.0) ** 2)
    scale(y=y, x=x, factor=1.0)
    assert np.array_equal(y, 1 + 3 * np.arange(4.0) ** 2)


def test_one_specialization_for_each_type_and_rank() -> None:
    for n in (2, 3, 5):
        scale(np.ones(n), np.zeros(n), 1.0)
    assert len(scale.programs) == 1
    scale(np.ones(3, np.float32), np.zeros(3, np.float64), 1.0)
    scale(np.ones(3, np.int32), np.zeros(3, np.float32), 1.0)
    assert len(scale.programs) == 3
    assert scale.stats().launches == 5


def test_fields_and_ndarrays_are_one_kind_for_an_array_parameter() -> None:
    x, y = sg.field(sg.f64, 3), sg.ndarray(sg.f64, 3)
    x.fill(3)
    scale(x, y, 1.0)
    scale(np.ones(3), np.zeros(3), 1.0)
    assert np.array_equal(y.to_numpy(), [9, 9, 9])
    assert len(scale.programs) == 1


def test_gradient_through_ndarrays() -> None:
    x, y = sg.ndarray(sg.f64, 3, needs_grad=True), sg.ndarray(sg.f64, 3, needs_grad=True)
    x.from_numpy(np.array([1.0, 2.0, 3.0]))
    scale(x, y, 0.5)
    y.grad.fill(1)
    scale.grad(x, y, 0.5)
    assert np.array_equal(x.grad.to_numpy(), [1, 2, 3])
    assert y.grad.to_numpy().tolist() == [1] * 3


def test_tape_over_two_launches_on_different_arrays() -> None:
    loss = sg.field(sg.f64, (), needs_grad=True)
    xs = [sg.ndarray(sg.f64, 3, needs_grad=True) for _ in range(2)]
    ys = [sg.ndarray(sg.f64, 3, needs_grad=True) for _ in range(2)]

    @sg.kernel
    def total(y: sg.types.ndarray()):  # type: ignore[valid-type, no-untyped-def]
        for i in y:
            loss[None] += y[i] * y[i]

    for k, x in enumerate(xs):
        x.from_numpy(np.arange(3.0) + k)
    with sg.ad.Tape(loss):
        for x, y in zip(xs, ys):
            scale(x, y, 2.0)
            total(y)
    for x in xs:
        value = x.to_numpy()
        assert np.array_equal(x.grad.to_numpy(), 2 * (2 * value**2) * 4 * value)
    assert len(scale.programs) == 1


def test_tape_copies_what_it_reads_of_foreign_arrays() -> None:
    loss, y = sg.field(sg.f64, (), needs_grad=True), sg.ndarray(sg.f64, 3, needs_grad=True)
    w = np.array([1.0, 2.0, 3.0])
    y.fill(2)

    @sg.kernel
    def dot(w: sg.types.ndarray(), y: sg.types.ndarray()):  # type: ignore[valid-type, no-untyped-def]
        for i in y:
            loss[None] += w[i] * y[i]

    with sg.ad.Tape(loss):
        dot(w, y)
        w[:] = 100
    assert np.array_equal(y.grad.to_numpy(), [1, 2, 3]) and w[0] == 100


def test_vector_elements_of_numpy_arrays() -> None:
    v, out = np.arange(6.0).reshape(2, 3), np.zeros(2)
    vectors(v, out)
    assert np.array_equal(out, (v * v).sum(axis=1))


def test_vector_ndarrays_and_their_gradient() -> None:
    v, out = sg.Vector.ndarray(3, sg.f64, 2, needs_grad=True), sg.ndarray(sg.f64, 2, needs_grad=True)
    v.from_numpy(np.arange(6.0).reshape(2, 3))
    vectors(v, out)
    out.grad.fill(1)
    vectors.grad(v, out)
    assert np.array_equal(v.grad.to_numpy(), 2 * np.arange(6.0).reshape(2, 3))


def test_jax_arrays_are_read_and_never_written() -> None:
    x, y = jnp.arange(4, dtype=jnp.float32), np.zeros(4, np.float32)
    scale(x, y, 1.0)
    assert np.array_equal(y, np.arange(4.0) ** 2)
    with pytest.raises(sg.KernelTypeError, match="stores to y, and a JAX array cannot be written"):
        scale(y, x, 1.0)


class Tensor:
    """What the runtime asks of a torch tensor on the CPU."""

    __module__ = "torch"

    def __init__(
        self, data: np.ndarray, requires_grad: bool = False, device: str = "cpu", is_leaf: bool = True
    ) -> None:
        self.data = data
        self.is_leaf, self.retains_grad = is_leaf, False
        self.requires_grad = requires_grad
        self.grad: Tensor | None = None
        self.device = types.SimpleNamespace(type=device)
        self.shape, self.ndim = data.shape, data.ndim

    def is_contiguous(self) -> bool:
        return bool(self.data.flags.c_contiguous)

    def detach(self) -> Tensor:
        return Tensor(self.data)

    def numpy(self) -> np.ndarray:
        assert not self.requires_grad
        return self.data

    def new_zeros(self, shape: Any) -> Tensor:
        return Tensor(np.zeros(shape, self.data.dtype))


def test_torch_tensors_and_their_gradients_without_importing_torch() -> None:
    x, y = Tensor(np.arange(3.0), requires_grad=True), Tensor(np.zeros(3), requires_grad=True)
    scale(x, y, 1.0)
    assert np.array_equal(y.data, [0, 1, 4])
    assert x.grad is not None and y.grad is not None and not x.grad.data.any()
    y.grad.data[:] = 1
    scale.grad(x, y, 1.0)
    assert np.array_equal(x.grad.data, [0, 2, 4])
    assert "torch" not in sys.modules


def test_torch_tensors_that_keep_no_gradient_have_none() -> None:
    x, y = Tensor(np.ones(3), True, is_leaf=False), Tensor(np.zeros(3))
    scale(x, y, 2.0)
    assert x.grad is None and np.array_equal(y.data, [2, 2, 2])


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (Tensor(np.ones(3), device="cuda"), "the torch tensor is on"),
        (Tensor(np.ones((3, 2))[:, 0]), "not contiguous"),
        (Tensor(np.ones(3)), "does not require a gradient"),
        (Tensor(np.ones(3), True, is_leaf=False), "keeps no gradient"),
    ],
)
def test_torch_tensors_that_do_not_fit(tensor: Tensor, words: str) -> None:
    with pytest.raises(sg.KernelTypeError, match=words):
        wants_gradient(tensor)


MISTAKES: list[tuple[Any, Any, str, str]] = [
    (typed, np.ones((2, 2), np.float32), "the parameter x: an array of f32 is given where f64", "x.astype(numpy.f"),
    (typed, np.ones(2), "an array with 1 axis is given where 2 is asked for", "ndim"),
    (typed, np.ones((4, 4))[:, ::2], "not C-contiguous and writable", "numpy.array"),
    (typed, [[1.0]], "list [[1.0]] is no array", "NumPy array"),
    (typed, 1.0, "float 1.0 is no array", "give a field"),
    (typed, np.ones((2, 2), complex), "arrays of complex128 do not exist in kernels", "astype"),
    (typed, np.ones((2, 2), ">f8"), "arrays of >f8 do not exist in kernels", "astype"),
    (wants_gradient, np.ones(2), "a NumPy array has no gradient", "needs_grad=True"),
    (vectors, np.ones((2, 2)), "does not hold a vector of 3", "(3,)"),
]


@pytest.mark.parametrize(("kernel", "value", "words", "cure"), MISTAKES)
def test_misfits_point_at_the_def(kernel: Any, value: Any, words: str, cure: str) -> None:
    args = (value, np.zeros(2)) if kernel is vectors else (value,)
    for call in (kernel, kernel.grad):
        with pytest.raises(sg.KernelTypeError) as caught:
            call(*args)
        text = str(caught.value)
        assert words in text and cure in text.partition("cure:")[2] and HERE in text and "def " in text


def test_a_field_without_gradient_where_one_is_needed() -> None:
    with pytest.raises(sg.KernelTypeError, match="has no gradient"):
        wants_gradient(sg.field(sg.f64, 3, name="x"))
    with pytest.raises(sg.KernelTypeError, match="has no gradient"):
        wants_gradient(sg.ndarray(sg.f64, 3))


def test_read_only_numpy_arrays_are_refused() -> None:
    x = np.ones((2, 2))
    x.flags.writeable = False
    with pytest.raises(sg.KernelTypeError, match="not C-contiguous and writable"):
        typed(x)


def test_the_same_array_twice_is_one_array() -> None:
    x = sg.field(sg.f64, 3, needs_grad=True)
    x.fill(3)
    scale(x, x, 1.0)
    assert np.array_equal(x.to_numpy(), [12, 12, 12])
    with pytest.raises(sg.NotDifferentiable, match="the gradient needs the value of 'x' read here"):
        scale.grad(x, x, 1.0)


def test_an_array_and_its_gradient_as_arguments() -> None:
    x = sg.field(sg.f64, 3, needs_grad=True)
    x.fill(2)
    for first, second in ((x, x.grad), (x.grad, x)):
        x.grad.fill(1)
        scale(first, second, 1.0)
    assert np.array_equal(x.grad.to_numpy(), [1, 1, 1]) and np.array_equal(x.to_numpy(), [3, 3, 3])


def test_a_captured_field_as_argument() -> None:
    shared = sg.field(sg.f64, 3)
    shared.fill(2)

    @sg.kernel
    def grow(x: sg.types.ndarray()):  # type: ignore[valid-type, no-untyped-def]
        for i in x:
            x[i] += shared[i]

    other = np.zeros(3)
    grow(other)
    grow(shared)
    grow(other)
    assert np.array_equal(shared.to_numpy(), [4, 4, 4]) and np.array_equal(other, [6, 6, 6])


def test_overlapping_numpy_arrays_are_refused() -> None:
    memory = np.ones(5)
    with pytest.raises(sg.UsageError, match="the same memory"):
        scale(memory[:3], memory[2:], 1.0)


def test_extents_are_not_known_when_the_kernel_is_traced() -> None:
    @sg.kernel
    def unrolled(x: sg.types.ndarray(ndim=1)):  # type: ignore[valid-type, no-untyped-def]
        for i in sg.static(range(x.shape[0])):
            x[i] = 1.0

    with pytest.raises(sg.KernelTypeError, match="shape"):
        unrolled(np.ones(3))


def test_capture_sees_launches_on_arguments() -> None:
    x, y = np.ones(3), sg.ndarray(sg.f64, 3, needs_grad=True)
    with sg.capture.capture() as captured:
        scale(x, y, 2.0)
        scale.grad(x, y, 2.0)
    forward, reverse = captured.launches
    assert (forward.kind, reverse.kind) == ("forward", "reverse")
    assert np.array_equal(forward.before["y"], [0, 0, 0]) and np.array_equal(forward.after["y"], [2, 2, 2])


def test_init_makes_ndarrays_stale_and_kernels_new(arch: str) -> None:
    old = sg.ndarray(sg.f64, 3)
    scale(old, old, 1.0)
    sg.init(arch=arch, default_fp=sg.f64)
    with pytest.raises(sg.UsageError, match="before the last"):
        scale(old, np.ones(3), 1.0)
    scale(np.ones(3), np.ones(3), 1.0)
    assert len(scale.programs) == 1
