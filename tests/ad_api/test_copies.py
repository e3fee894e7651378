"""Test that `copy_from` has a derivative under tapes and in forward mode, for every kind of field."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.harness.testing.executors import present_backends

Make = Callable[[], Any]


@pytest.fixture(params=["reference", "cpu", "vulkan"], autouse=True)
def arch(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "vulkan" and not present_backends(["vulkan"])[0]:
        pytest.skip("no Vulkan device")
    sg.init(arch=request.param, default_fp=sg.f64)
    yield request.param
    sg.reset()


Pair = sg.types.struct(a=sg.f64, v=sg.types.vector(2, sg.f64), n=sg.i32)
PAIRS: dict[str, tuple[Make, Make]] = {
    "scalars": (lambda: sg.field(sg.f64, 3, needs_grad=True), lambda: sg.field(sg.f64, 3, needs_grad=True)),
    "one number": (lambda: sg.field(sg.f64, (), needs_grad=True), lambda: sg.field(sg.f64, (), needs_grad=True)),
    "two axes": (
        lambda: sg.field(sg.f64, (2, 3), needs_grad=True),
        lambda: sg.ndarray(sg.f64, (2, 3), needs_grad=True),
    ),
    "ndarrays": (lambda: sg.ndarray(sg.f64, 3, needs_grad=True), lambda: sg.ndarray(sg.f64, 3, needs_grad=True)),
    "offsets": (
        lambda: sg.field(sg.f64, 3, needs_grad=True, offset=-1),
        lambda: sg.field(sg.f64, 3, needs_grad=True, offset=4),
    ),
    "wider": (lambda: sg.field(sg.f32, 3, needs_grad=True), lambda: sg.field(sg.f64, 3, needs_grad=True)),
    "narrower": (lambda: sg.field(sg.f64, 3, needs_grad=True), lambda: sg.field(sg.f32, 3, needs_grad=True)),
    "halves": (lambda: sg.field(sg.f16, 3, needs_grad=True), lambda: sg.field(sg.f32, 3, needs_grad=True)),
    "to halves": (lambda: sg.field(sg.f32, 3, needs_grad=True), lambda: sg.field(sg.f16, 3, needs_grad=True)),
    "vectors": (
        lambda: sg.Vector.field(2, sg.f64, 3, needs_grad=True),
        lambda: sg.Vector.ndarray(2, sg.f64, 3, needs_grad=True),
    ),
    "layouts": (
        lambda: sg.Vector.field(2, sg.f64, 3, needs_grad=True, layout=sg.Layout.SOA),
        lambda: sg.Vector.field(2, sg.f64, 3, needs_grad=True, layout=sg.Layout.AOS),
    ),
    "matrices": (
        lambda: sg.Matrix.field(2, 3, sg.f64, (2, 2), needs_grad=True, layout=sg.Layout.AOS),
        lambda: sg.Matrix.field(2, 3, sg.f64, (2, 2), needs_grad=True, layout=sg.Layout.SOA),
    ),
    "one column to a vector": (
        lambda: sg.Matrix.field(2, 1, sg.f64, 3, needs_grad=True, layout=sg.Layout.SOA),
        lambda: sg.Vector.field(2, sg.f64, 3, needs_grad=True),
    ),
    "a vector to one column": (
        lambda: sg.Vector.field(2, sg.f64, 3, needs_grad=True),
        lambda: sg.Matrix.field(2, 1, sg.f64, 3, needs_grad=True, layout=sg.Layout.SOA),
    ),
    "empty": (lambda: sg.field(sg.f64, 0, needs_grad=True), lambda: sg.field(sg.f64, 0, needs_grad=True)),
}
"""What is copied from, and to. All numbers below are halves of small integers, which every type holds."""


def content(like: Any, first: float = 0.5) -> np.ndarray:
    """Return multiples of 0.5, from `first` on, in the field's shape and type."""
    shape = like.to_numpy().shape
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) / 2.0 + first).astype(like.dtype.dtype)


@pytest.mark.rotating
@pytest.mark.parametrize("kind", PAIRS)
def test_a_tape_passes_the_adjoint_on_and_ends_it(kind: str) -> None:
    x, y = (make() for make in PAIRS[kind])
    z = PAIRS[kind][1]()
    x.from_numpy(content(x))
    seed = content(z, 1.5)
    with sg.ad.Tape(z, seed=seed.ravel()) as tape:
        y.copy_from(x)
        z.copy_from(y)
    assert z.to_numpy().ravel().tolist() == content(x).ravel().tolist()
    assert x.grad.to_numpy().ravel().tolist() == seed.ravel().tolist()
    assert not y.grad.to_numpy().any() and not z.grad.to_numpy().any(), "adjoints of what is overwritten end"
    assert tape.used_bytes == 0


@pytest.mark.parametrize("kind", PAIRS)
def test_forward_mode_carries_tangents(kind: str) -> None:
    x, y = (make() for make in PAIRS[kind])
    x.from_numpy(content(x))
    seed = content(x, 1.5)
    with sg.ad.FwdMode(y, x, seed=seed.astype(np.float64).ravel()):
        y.copy_from(x)
    assert y.dual.to_numpy().ravel().tolist() == seed.ravel().tolist()


@pytest.mark.parametrize("kind", ["scalars", "layouts", "wider", "ndarrays"])
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_jacobians(kind: str, mode: Any) -> None:
    x, y = (make() for make in PAIRS[kind])
    x.from_numpy(content(x))
    found = sg.ad.jacobian(y, x, lambda: y.copy_from(x), mode)
    size = content(x).size
    assert np.asarray(found).reshape(size, size).tolist() == np.eye(size).tolist()


def test_a_struct_is_copied_by_its_members() -> None:
    x, y = (Pair.field(shape=2, needs_grad=True) for _ in range(2))
    x.a.from_numpy(np.array([1.0, 2.0]))
    x.v.from_numpy(np.array([[1.0, 2.0], [3.0, 4.0]]))
    x.n.from_numpy(np.array([5, 6], np.int32))
    with sg.ad.Tape([y.a, y.v], seed=[np.array([1.0, 2.0]), np.array([[3.0, 4.0], [5.0, 6.0]])]):
        y.copy_from(x)
    assert x.a.grad.to_numpy().tolist() == [1.0, 2.0]
    assert x.v.grad.to_numpy().tolist() == [[3.0, 4.0], [5.0, 6.0]]
    assert y.n.to_numpy().tolist() == [5, 6]


class Cubes:
    """Represent a program y = x, by `copy_from`; loss = sum y^3."""

    def __init__(self, source_grad: bool = True, target_grad: bool = True) -> None:
        self.x = sg.field(sg.f64, 3, needs_grad=source_grad)
        self.y = sg.field(sg.f64, 3, needs_grad=target_grad)
        self.w = sg.field(sg.f64, 3, needs_grad=True)
        self.loss = sg.field(sg.f64, (), needs_grad=True)
        y, w, loss = self.y, self.w, self.loss

        @sg.kernel
        def cube():
            for i in y:
                loss[None] += w[i] * y[i] ** 3

        self.cube = cube
        self.x.from_numpy(np.array([1.0, 2.0, 3.0]))
        self.w.fill(1.0)

    def run(self) -> None:
        self.y.copy_from(self.x)
        self.cube()


@pytest.mark.expensive
def test_second_derivatives() -> None:
    p = Cubes()
    v = np.array([1.0, -1.0, 2.0])
    assert sg.ad.hvp(p.loss, p.x, p.run, v).tolist() == (6 * p.x.to_numpy() * v).tolist()
    assert np.diag(sg.ad.hessian(p.loss, p.x, p.run)).tolist() == [6.0, 12.0, 18.0]
    assert sg.ad.vjp(p.loss, p.x, p.run, 1.0).tolist() == [3.0, 12.0, 27.0]


@pytest.mark.parametrize(("source_grad", "target_grad"), [(True, False), (False, True), (False, False)])
def test_where_one_side_has_no_gradient(source_grad: bool, target_grad: bool) -> None:
    p = Cubes(source_grad, target_grad)
    with sg.ad.Tape(p.loss):
        p.run()
    assert p.w.grad.to_numpy().tolist() == [1.0, 8.0, 27.0]
    assert not source_grad or not p.x.grad.to_numpy().any(), "a derivative ends where there is no adjoint"
    assert not target_grad or not p.y.grad.to_numpy().any(), "the adjoint of what was overwritten ended"


def test_what_a_copy_overwrites_is_kept_for_gradients_that_read_it() -> None:
    p = Cubes()
    p.y.from_numpy(np.array([2.0, 2.0, 2.0]))
    with sg.ad.Tape(p.loss) as tape:
        p.cube()  # reads y = 2
        p.run()  # and then x
        p.y.fill(7.0)
    assert p.y.grad.to_numpy().tolist() == [12.0, 12.0, 12.0]
    assert p.x.grad.to_numpy().tolist() == [3.0, 12.0, 27.0]
    assert tape.used_bytes == 2 * 24 and p.y.to_numpy().tolist() == [7.0, 7.0, 7.0]


def test_a_double_buffer() -> None:
    x, new, loss, t = (sg.field(sg.f64, n, needs_grad=True) for n in (3, 3, (), ()))

    @sg.kernel
    def step():
        for i in x:
            new[i] = x[i] + t[None] * x[i] ** 2

    @sg.kernel
    def total():
        for i in x:
            loss[None] += x[i]

    def run() -> None:
        for _ in range(3):
            step()
            x.copy_from(new)
        total()

    start = np.array([1.0, 2.0, -1.0])
    x.from_numpy(start)
    t[None] = 0.5
    value, by_x, by_t = start, np.ones(3), np.zeros(3)
    for _ in range(3):
        slope = 1 + 2 * 0.5 * value
        value, by_x, by_t = value + 0.5 * value**2, slope * by_x, slope * by_t + value**2
    with sg.ad.Tape(loss):
        run()
    np.testing.assert_allclose(x.grad.to_numpy(), by_x, rtol=1e-13)
    np.testing.assert_allclose(t.grad[None], by_t.sum(), rtol=1e-13)
    x.from_numpy(start)
    loss[None] = 0.0
    with sg.ad.FwdMode(loss, t):
        run()
    np.testing.assert_allclose(loss.dual[None], by_t.sum(), rtol=1e-13)


def test_a_copy_to_itself_is_nothing_unless_it_is_to_be_constant() -> None:
    p = Cubes()

    def gradient(between: Callable[[], Any]) -> list[float]:
        with sg.ad.Tape(p.loss):
            p.y.copy_from(p.x)
            between()
            p.cube()
        return p.x.grad.to_numpy().tolist()

    assert gradient(lambda: p.y.copy_from(p.y)) == [3.0, 12.0, 27.0]
    assert gradient(sg.ad.no_grad(lambda: p.y.copy_from(p.y))) == [0.0, 0.0, 0.0]


def test_a_copy_in_no_grad_is_constant() -> None:
    p = Cubes()
    with sg.ad.Tape(p.loss):
        p.y.copy_from(p.x)
        sg.ad.no_grad(lambda: p.y.copy_from(p.x))()
        p.cube()
    assert p.x.grad.to_numpy().tolist() == [0.0, 0.0, 0.0]


def test_gradients_of_ones_own_copy_back() -> None:
    p = Cubes()

    @sg.ad.grad_replaced
    def copied() -> None:
        p.y.copy_from(p.x)

    @sg.ad.grad_for(copied)
    def back() -> None:
        p.x.grad.copy_from(p.y.grad)
        p.y.grad.fill(0.0)

    with sg.ad.Tape(p.loss):
        copied()
        p.cube()
    assert p.x.grad.to_numpy().tolist() == [3.0, 12.0, 27.0]


def test_tapes_replay_check_and_validate_copies() -> None:
    p = Cubes()
    with sg.ad.Tape(p.loss, validation=True, grad_check=[p.x]) as tape:
        p.run()
    p.x.from_numpy(np.array([2.0, 0.0, 1.0]))
    tape.replay()
    assert p.x.grad.to_numpy().tolist() == [12.0, 0.0, 3.0]


def test_integers_become_reals_by_the_host_and_end_adjoints() -> None:
    p = Cubes()
    whole = sg.field(sg.i64, 3)
    whole.from_numpy(np.array([1, 2, 3]))
    with sg.ad.Tape(p.loss):
        p.y.copy_from(p.x)
        p.y.copy_from(whole)
        p.cube()
    assert p.loss[None] == 36.0 and not p.x.grad.to_numpy().any()


def test_mistakes_are_the_same_under_a_tape() -> None:
    p = Cubes()
    with sg.ad.Tape(p.loss):
        with pytest.raises(sg.FieldError, match=r"has shape \(3,\), the array has \(2,\)"):
            p.x.copy_from(sg.field(sg.f64, 2))
        with pytest.raises(sg.FieldError, match="reals would lose their fraction"):
            sg.field(sg.i32, 3).copy_from(p.x)


def test_a_budget_names_the_copy() -> None:
    p = Cubes()
    told = pytest.raises(sg.TapeError, match="kernel copy_from overwrites what the gradient of kernel cube")
    with told, sg.ad.Tape(p.loss, budget_bytes=8):
        p.cube()
        p.y.copy_from(p.x)
