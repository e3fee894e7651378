# ruff: noqa: B007 - loops that only count
"""The derivatives of the dialect: what its programs say, with the values that calculus gives, on each executor."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import stackgrad as sg

pytestmark = pytest.mark.usefixtures("arch")
A = np.array([1.0, -2.0, 0.5])


def real(shape=(), **options):
    return sg.field(sg.f64, shape, **options)


def filled(**options):
    """A field of the numbers A."""
    made = real(3, **options)
    made.from_numpy(A)
    return made


# ---- storage --------------------------------------------------------------------------------------------------------


def test_needs_grad_and_needs_dual() -> None:
    x = real((2, 3), needs_grad=True, needs_dual=True)
    assert x.grad.shape == x.dual.shape == (2, 3) and x.grad.dtype == x.dual.dtype == sg.f64
    with pytest.raises(sg.UsageError):
        _ = real(3).dual.shape


def test_lazy_dual() -> None:
    x, y = sg.field(sg.f64), sg.field(sg.f64)
    sg.root.dense(sg.i, 3).place(x)
    sg.root.place(y)
    sg.root.lazy_dual()
    x.from_numpy(A)

    @sg.kernel
    def k():
        for i in x:
            y[None] += x[i] ** 2

    with sg.ad.FwdMode(loss=y, param=x, seed=[1.0, 1.0, 1.0]):
        k()
    assert y.dual[None] == pytest.approx(2 * A.sum())


def test_pickles_have_no_gradients() -> None:
    x = filled(needs_grad=True)
    y = pickle.loads(pickle.dumps(x))
    assert y.to_numpy().tolist() == A.tolist() and not y.needs_grad


def test_tensors_of_both_backends() -> None:
    for backend in (sg.Backend.FIELD, sg.Backend.NDARRAY):
        x = sg.tensor(sg.f64, (3,), backend=backend, needs_grad=True)
        loss = sg.tensor(sg.f64, (1,), backend=backend, needs_grad=True)

        @sg.kernel
        def k(x: sg.Tensor, loss: sg.Tensor):
            for i in x:
                loss[0] += x[i] ** 3

        x.from_numpy(A)
        with sg.ad.Tape(loss):
            k(x, loss)
        np.testing.assert_allclose(x.grad.to_numpy(), 3 * A**2)


def test_annotations_of_ndarrays_with_gradients() -> None:
    @sg.kernel
    def needed(a: sg.types.ndarray(sg.f64, 1, needs_grad=True), b: sg.types.ndarray(sg.f64, 1, needs_grad=True)):
        for i in a:
            b[i] = a[i] ** 2

    @sg.kernel
    def found(a: sg.types.ndarray(dtype=sg.f64, ndim=1), b: sg.types.ndarray()):
        for i in a:
            b[i] = a[i] ** 2

    @sg.kernel
    def ignored(a: sg.types.ndarray(sg.f64, 1, needs_grad=False), b: sg.types.ndarray(sg.f64, 1)):
        for i in a:
            b[i] = a[i] ** 2

    for k, factor in ((needed, 2.0), (found, 2.0), (ignored, 0.0)):
        x, y = (sg.ndarray(sg.f64, (3,), needs_grad=True) for _ in range(2))
        x.from_numpy(A)
        k(x, y)
        y.grad.fill(1.0)
        k.grad(x, y)
        np.testing.assert_allclose(x.grad.to_numpy(), factor * A)
    plain = sg.ndarray(sg.f64, (3,))
    with pytest.raises(sg.StackgradError):
        needed(plain, plain)


# ---- kernel.grad ----------------------------------------------------------------------------------------------------


def test_gradients_accumulate_and_consumed_ones_are_cleared() -> None:
    x, y, z = filled(needs_grad=True), real(3, needs_grad=True), real((), needs_grad=True)

    @sg.kernel
    def store():
        for i in x:
            y[i] = 2.0 * x[i]

    @sg.kernel
    def add():
        for i in x:
            z[None] += 3.0 * x[i]

    store()
    y.grad.fill(1.0)
    store.grad()
    assert x.grad.to_numpy().tolist() == [2.0] * 3 and y.grad.to_numpy().tolist() == [0.0] * 3
    z.grad[None] = 1.0
    add.grad()
    add.grad()
    assert x.grad.to_numpy().tolist() == [8.0] * 3 and z.grad[None] == 1.0


def test_gradient_of_a_method() -> None:
    @sg.data_oriented
    class Model:
        def __init__(self):
            self.x, self.y = filled(needs_grad=True), real((), needs_grad=True)

        @sg.kernel
        def loss(self):
            for i in self.x:
                self.y[None] += self.x[i] ** 2

    model = Model()
    model.loss()
    model.y.grad[None] = 1.0
    model.loss.grad()
    np.testing.assert_allclose(model.x.grad.to_numpy(), 2 * A)


# ---- Tape -----------------------------------------------------------------------------------------------------------


def squares(x, loss):
    @sg.kernel
    def k():
        for i in x:
            loss[None] += x[i] ** 2

    return k


def test_losses() -> None:
    x, loss = filled(needs_grad=True), real((), needs_grad=True)
    k = squares(x, loss)
    for _ in range(2):
        with sg.ad.Tape(loss=loss):
            k()
        np.testing.assert_allclose(x.grad.to_numpy(), 2 * A)
    for wrong in (None, real((), needs_grad=False), filled(needs_grad=True)):
        with pytest.raises(sg.UsageError), sg.ad.Tape(loss=wrong):
            pass


def test_two_equal_tapes_over_ndarrays_give_the_same_gradient() -> None:
    x, loss = sg.ndarray(sg.f64, (3,), needs_grad=True), sg.ndarray(sg.f64, (1,), needs_grad=True)

    @sg.kernel
    def k(x: sg.types.ndarray(dtype=sg.f64, ndim=1), loss: sg.types.ndarray(dtype=sg.f64, ndim=1)):
        for i in x:
            loss[0] += x[i] ** 2

    x.from_numpy(A)
    for _ in range(2):
        with sg.ad.Tape(loss):
            k(x, loss)
        np.testing.assert_allclose(x.grad.to_numpy(), 2 * A)


def test_options_of_a_tape() -> None:
    x, loss = filled(needs_grad=True), real((), needs_grad=True)
    k = squares(x, loss)
    with sg.ad.Tape(loss, validation=True, grad_check=[x]):
        k()
    with sg.ad.Tape(loss, clear_gradients=False):
        k()
    np.testing.assert_allclose(x.grad.to_numpy(), 4 * A)


def test_a_tape_checks_the_gradient_it_is_told_to() -> None:
    x, loss = filled(needs_grad=True), real((), needs_grad=True)

    @sg.kernel
    def double():
        for i in x:
            loss[None] += 2.0 * x[i]

    @sg.kernel
    def triple():
        for i in x:
            loss[None] += 3.0 * x[i]

    @sg.ad.grad_replaced
    def wrong():
        double()

    @sg.ad.grad_for(wrong)
    def gradient_of_wrong():
        triple.grad()

    with pytest.raises(sg.ad.GradCheckError), sg.ad.Tape(loss, grad_check=[x]):
        wrong()


def test_host_writes_inside_a_tape() -> None:
    x, y, loss = filled(needs_grad=True), real((), needs_grad=True), real((), needs_grad=True)

    @sg.kernel
    def first():
        for i in x:
            y[None] += x[i]

    @sg.kernel
    def second():
        loss[None] += y[None] ** 2

    with sg.ad.Tape(loss):
        y[None] = 10.0
        first()
        second()
    np.testing.assert_allclose(x.grad.to_numpy(), 2 * (10.0 + A.sum()) * np.ones(3))


def test_nothing_runs_backward_when_the_body_raised() -> None:
    x, loss = filled(needs_grad=True), real((), needs_grad=True)
    k = squares(x, loss)
    with pytest.raises(ZeroDivisionError), sg.ad.Tape(loss):
        k()
        _ = 1 / 0
    assert x.grad.to_numpy().tolist() == [0.0] * 3


def test_replaced_gradients_and_no_gradients() -> None:
    x, loss = filled(needs_grad=True), real((), needs_grad=True)
    k = squares(x, loss)

    @sg.ad.grad_replaced
    def twice():
        k()
        k()

    @sg.ad.grad_for(twice)
    def gradient():
        k.grad()

    @sg.ad.no_grad
    def once():
        k()

    with sg.ad.Tape(loss):
        twice()
        once()
    np.testing.assert_allclose(x.grad.to_numpy(), 2 * A)


def test_clear_all_gradients() -> None:
    x, y = filled(needs_grad=True, needs_dual=True), sg.Vector.field(2, sg.f64, shape=3, needs_grad=True)
    x.grad.fill(1.0)
    x.dual.fill(1.0)
    y.grad.fill(1.0)
    sg.ad.clear_all_gradients()
    assert not x.grad.to_numpy().any() and not y.grad.to_numpy().any() and x.dual.to_numpy().all()
    sg.ad.clear_all_gradients(gradient_type=sg.ad.SNodeGradType.DUAL)
    assert not x.dual.to_numpy().any()


def test_stop_grad() -> None:
    x, loss = filled(needs_grad=True), real((), needs_grad=True)

    @sg.kernel
    def k():
        for i in x:
            loss[None] += x[i] * sg.stop_grad(x[i])

    with sg.ad.Tape(loss):
        k()
    np.testing.assert_allclose(x.grad.to_numpy(), A)


# ---- FwdMode --------------------------------------------------------------------------------------------------------


def test_forward_mode() -> None:
    x, loss = filled(needs_dual=True), real((), needs_dual=True)
    k = squares(x, loss)
    with sg.ad.FwdMode(loss=loss, param=x, seed=[1.0, 0.5, 2.0]):
        k()
    assert loss.dual[None] == pytest.approx(2 * A @ [1.0, 0.5, 2.0])
    with pytest.raises(sg.UsageError), sg.ad.FwdMode(loss=loss, param=x):
        pass


def test_forward_mode_over_ndarrays_and_vectors() -> None:
    x, loss = sg.ndarray(sg.f64, (3,)), sg.ndarray(sg.f64, (1,))

    @sg.kernel
    def k(x: sg.types.ndarray(dtype=sg.f64, ndim=1), loss: sg.types.ndarray(dtype=sg.f64, ndim=1)):
        for i in x:
            loss[0] += x[i] ** 2

    x.from_numpy(A)
    with sg.ad.FwdMode(loss=loss, param=x, seed=[1.0, 0.0, 2.0]):
        k(x, loss)
    np.testing.assert_allclose(loss.dual.to_numpy(), [2 * A @ [1.0, 0.0, 2.0]])
    v, total = sg.Vector.field(2, sg.f64, shape=3, needs_dual=True), real((), needs_dual=True)

    @sg.kernel
    def squared():
        for i in v:
            total[None] += v[i].norm_sqr()

    v.fill(1.0)
    with sg.ad.FwdMode(loss=total, param=v, seed=np.ones((3, 2))):
        squared()
    assert total.dual[None] == 12.0
