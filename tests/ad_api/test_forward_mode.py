"""Test `FwdMode` on whole programs: seeds, several parameters, batches, vectors and ndarrays, lifetimes, mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stackgrad as sg

jax.config.update("jax_enable_x64", True)
X = np.array([0.3, -0.7, 1.1, 0.4])


class Program:
    """Represent a program in which y[i] is sin applied i times to x[i] * w; loss = sum of y squared."""

    def __init__(self, dtype: Any = sg.f64, **options: Any) -> None:
        options = options or {"needs_grad": True}
        self.x = sg.field(dtype, 4, name="x", **options)
        self.w = sg.field(dtype, (), name="w", **options)
        self.y = sg.field(dtype, 4, name="y", **options)
        self.loss = sg.field(dtype, (), name="loss", **options)
        x, w, y, loss = self.x, self.w, self.y, self.loss

        @sg.kernel
        def steps():
            for i in x:
                v = x[i] * w[None]
                for _ in range(i):
                    v = sg.sin(v)
                y[i] = v

        @sg.kernel
        def total():
            for i in y:
                loss[None] += y[i] ** 2

        self.steps, self.total = steps, total
        x.from_numpy(X)
        w[None] = 1.3

    def run(self) -> None:
        self.loss[None] = 0
        self.steps()
        self.total()


def outputs(x: Any, w: Any) -> Any:
    def powers(i: int, v: Any) -> Any:
        for _ in range(i):
            v = jnp.sin(v)
        return v

    return jnp.stack([powers(i, x[i] * w) for i in range(4)])


def loss_of(x: Any, w: Any) -> Any:
    return (outputs(x, w) ** 2).sum()


@pytest.mark.parametrize("options", [{"needs_grad": True}, {"needs_dual": True}])
def test_one_direction(options: dict[str, bool]) -> None:
    p, v = Program(**options), np.array([1.0, 2.0, -1.0, 0.5])
    with sg.ad.FwdMode(p.loss, p.x, seed=v):
        p.run()
    _, want = jax.jvp(lambda x: loss_of(x, 1.3), (X,), (v,))
    assert p.loss.dual[None] == pytest.approx(float(want), rel=1e-12)
    assert p.x.dual.to_numpy().tolist() == [0, 0, 0, 0]


def test_default_seed_of_a_number() -> None:
    p = Program()
    with sg.ad.FwdMode(loss=p.loss, param=p.w):
        p.run()
    assert p.loss.dual[None] == pytest.approx(float(jax.grad(loss_of, 1)(X, 1.3)), rel=1e-12)


def test_several_parameters_and_losses() -> None:
    p, v = Program(), np.array([0.1, 0.2, 0.3, 0.4])
    with sg.ad.FwdMode([p.loss, p.y], [p.x, p.w], seed=[v, [2.0]]):
        p.run()
    _, want = jax.jvp(lambda x, w: (loss_of(x, w), outputs(x, w)), (X, 1.3), (v, 2.0))
    np.testing.assert_allclose(p.loss.dual.to_numpy(), want[0], 1e-12)
    np.testing.assert_allclose(p.y.dual.to_numpy(), want[1], 1e-12)


def test_a_seed_is_kept_in_double() -> None:
    p, tiny = Program(), 1 + 2.0**-40
    with sg.ad.FwdMode(p.y, p.w, seed=tiny):
        p.steps()
    assert p.y.dual[0] == X[0] * tiny


@pytest.mark.expensive
def test_batch() -> None:
    p, seeds = Program(), np.random.default_rng(0).standard_normal((6, 4))
    with sg.ad.FwdMode([p.loss, p.y], p.x, seed=seeds) as mode:
        p.run()
    jacobian = np.asarray(jax.jacobian(lambda x: outputs(x, 1.3))(X))
    np.testing.assert_allclose(mode.jacobian(p.y), seeds @ jacobian.T, 1e-12)
    np.testing.assert_allclose(mode.jacobian(p.loss), seeds @ np.asarray(jax.grad(loss_of)(X, 1.3)), 1e-12)
    assert p.loss.dual[None] == mode.jacobian(p.loss)[0]


def test_batch_starts_each_direction_from_the_same_content() -> None:
    """In place: x = x * x, twice."""
    x = sg.field(sg.f64, 3, needs_grad=True)
    x.from_numpy(np.array([1.5, 2.0, 3.0]))

    @sg.kernel
    def square():
        for i in x:
            x[i] = x[i] * x[i]

    with sg.ad.FwdMode(x, x, seed=np.eye(3)) as mode:
        square()
        square()
    np.testing.assert_allclose(x.to_numpy(), np.array([1.5, 2.0, 3.0]) ** 4)
    np.testing.assert_allclose(mode.jacobian(), np.diag(4 * np.array([1.5, 2.0, 3.0]) ** 3))


def test_vectors_and_layouts() -> None:
    for layout in (sg.Layout.AOS, sg.Layout.SOA):
        v = sg.Vector.field(2, sg.f64, shape=3, needs_grad=True, layout=layout)
        m = sg.Matrix.field(2, 2, sg.f64, shape=(), needs_grad=True)
        out = sg.Vector.field(2, sg.f64, shape=3, needs_grad=True, layout=layout)
        v.from_numpy(np.arange(6.0).reshape(3, 2))
        m.from_numpy(np.array([[1.0, 2.0], [3.0, 5.0]]))

        @sg.kernel
        def multiply():
            for i in v:  # noqa: B023
                out[i] = m[None] @ v[i]  # noqa: B023

        rng = np.random.default_rng(1)
        dv, dm = rng.standard_normal((3, 2)), rng.standard_normal((2, 2))
        with sg.ad.FwdMode(out, [v, m], seed=[dv, dm]):
            multiply()
        want = dv @ m.to_numpy().T + v.to_numpy() @ dm.T
        np.testing.assert_allclose(out.dual.to_numpy(), want, 1e-12)


def test_ndarrays() -> None:
    @sg.kernel
    def scale(x: sg.types.ndarray(), y: sg.types.ndarray(), by: sg.f64):
        for i in range(x.shape[0]):
            y[i] = x[i] ** 2 * by

    x, y = sg.ndarray(sg.f64, 3, needs_grad=True), sg.ndarray(sg.f64, 3, needs_grad=True)
    x.from_numpy(np.array([1.0, 2.0, 3.0]))
    scale(x, y, 2.0)
    for seed in ([1.0, 0, 0], [0, 1.0, 1.0]):
        with sg.ad.FwdMode(y, x, seed=seed):
            scale(x, y, 2.0)
        np.testing.assert_allclose(y.dual.to_numpy(), 4 * x.to_numpy() * seed)


def test_single_precision() -> None:
    p = Program(sg.f32)
    with sg.ad.FwdMode(p.loss, p.x, seed=np.ones(4)):
        p.run()
    _, want = jax.jvp(lambda x: loss_of(x, 1.3), (X,), (np.ones(4),))
    assert p.loss.dual[None] == pytest.approx(float(want), rel=1e-5)


def test_stores_overwrite_tangents() -> None:
    """A second store replaces the tangent of the first one."""
    p = Program()
    with sg.ad.FwdMode(p.y, p.w):
        p.steps()
        p.steps()
    np.testing.assert_allclose(p.y.dual.to_numpy(), jax.jacobian(outputs, 1)(X, 1.3), 1e-12)


def test_initial_tangents_are_cleared_or_kept() -> None:
    p = Program(needs_dual=True)
    for clear, want in ((True, 0.0), (False, 7.0)):
        p.loss.dual[None] = 7.0
        with sg.ad.FwdMode(p.loss, p.w, clear_gradients=clear):
            pass
        assert p.loss.dual[None] == want


def test_random_draws_are_those_of_the_launch() -> None:
    x, y = (sg.field(sg.f64, 4, needs_grad=True) for _ in range(2))
    x.from_numpy(X)

    @sg.kernel
    def noisy():
        for i in x:
            y[i] = x[i] * sg.random()

    with sg.ad.FwdMode(y, x, seed=np.ones(4)):
        noisy()
    np.testing.assert_allclose(y.dual.to_numpy() * X, y.to_numpy(), 1e-14)
    assert len(set(y.dual.to_numpy())) == 4


def test_forward_mode_inside_a_tape() -> None:
    p = Program()
    with sg.ad.Tape(p.loss), sg.ad.FwdMode(p.loss, p.x, seed=np.ones(4)):
        p.steps()
        p.total()
    assert p.loss.dual[None] == pytest.approx(p.x.grad.to_numpy().sum(), rel=1e-12)


def test_duals_that_were_lent_are_returned() -> None:
    p = Program()
    with sg.ad.FwdMode(p.loss, p.x, seed=np.ones(4)):
        p.run()
    assert not p.y.needs_dual
    with pytest.raises(sg.GradientError):
        _ = p.y.dual


def test_an_exception_ends_the_mode() -> None:
    p = Program()
    with pytest.raises(RuntimeError, match="mine"), sg.ad.FwdMode(p.loss, p.w):
        raise RuntimeError("mine")
    p.run()
    assert p.loss.dual[None] == 0


MISTAKES: dict[str, Callable[[Program], Any]] = {
    "has 4 elements, so the direction must be given": lambda p: sg.ad.FwdMode(p.loss, p.x),
    r"the seed of field 'x' has shape \(3,\)": lambda p: sg.ad.FwdMode(p.loss, p.x, seed=[1, 2, 3]),
    "seed does not fit 2 parameters": lambda p: sg.ad.FwdMode(p.loss, [p.x, p.w], seed=np.ones(4)),
    "the seeds have 2 directions, one direction": lambda p: sg.ad.FwdMode(
        p.loss, [p.x, p.w], seed=[np.ones((2, 4)), 1.0]
    ),
    "the parameter is a field, not int": lambda p: sg.ad.FwdMode(p.loss, 3),
    "the loss is a field, not NoneType": lambda p: sg.ad.FwdMode(None, p.w),
    "of i32, which has no tangent": lambda p: sg.ad.FwdMode(p.loss, sg.field(sg.i32, ())),
    "is given twice": lambda p: sg.ad.FwdMode(p.loss, [p.w, p.w], seed=[1.0, 1.0]),
    "no array of numbers": lambda p: sg.ad.FwdMode(p.loss, p.w, seed="up"),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes(words: str) -> None:
    with pytest.raises(sg.TapeError, match=words) as caught:
        MISTAKES[words](Program())
    assert "cure" in str(caught.value)


def test_modes_do_not_nest() -> None:
    p = Program()
    with sg.ad.FwdMode(p.loss, p.w):
        with pytest.raises(sg.TapeError, match="on already"):
            sg.ad.FwdMode(p.loss, p.x, seed=np.ones(4)).__enter__()
        with pytest.raises(sg.TapeError, match="forward mode"):
            sg.ad.Tape(p.loss, grad_check=[p.x]).__enter__()
