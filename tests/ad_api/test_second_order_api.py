"""Test `jvp`, `vjp`, `jacobian`, `hvp` and `hessian`: shapes, lists, batches, contents of fields, mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stackgrad as sg

jax.config.update("jax_enable_x64", True)
X, W = np.array([0.3, -0.7, 1.1]), np.array([[0.4, -1.2], [0.9, 0.2]])


class Model:
    """Represent a program y[i, j] = sin(x[i] * w[j % 2, i % 2]) + x[i]^2 * s; loss = sum of y^3; w has matrices."""

    def __init__(self) -> None:
        self.x = sg.field(sg.f64, 3, name="x", needs_grad=True)
        self.w = sg.Matrix.field(2, 2, sg.f64, shape=(), name="w", needs_grad=True)
        self.y = sg.Vector.field(2, sg.f64, shape=3, name="y", needs_grad=True)
        self.s = sg.field(sg.f64, (), name="s", needs_grad=True)
        self.loss = sg.field(sg.f64, (), name="loss", needs_grad=True)
        x, w, y, s, loss = self.x, self.w, self.y, self.s, self.loss

        @sg.kernel
        def steps():
            for i in x:
                for j in sg.static(range(2)):
                    y[i][j] = sg.sin(x[i] * w[None][j, i % 2]) + x[i] ** 2 * s[None]

        @sg.kernel
        def total():
            for i in y:
                loss[None] += y[i][0] ** 3 + y[i][1] ** 3

        self.steps, self.total = steps, total
        self.begin()

    def begin(self) -> None:
        self.x.from_numpy(X)
        self.w.from_numpy(W)
        self.s[None] = 0.6

    def run(self) -> None:
        self.steps()
        self.total()


def outputs(x: Any, w: Any, s: Any) -> Any:
    rows = [[jnp.sin(x[i] * w[j, i % 2]) + x[i] ** 2 * s for j in range(2)] for i in range(3)]
    return jnp.stack([jnp.stack(row) for row in rows])


def loss_of(x: Any, w: Any, s: Any = 0.6) -> Any:
    return (outputs(x, w, s) ** 3).sum()


def close(found: Any, want: Any) -> None:
    assert np.shape(found) == np.shape(want)
    np.testing.assert_allclose(found, want, 1e-10, 1e-12)


def directions(count: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng, front = np.random.default_rng(2), () if count is None else (count,)
    return rng.normal(size=(*front, 3)), rng.normal(size=(*front, 2, 2)), rng.normal(size=(*front, 3, 2))


@pytest.mark.expensive
def test_jvp_and_vjp() -> None:
    m, (v, u, w) = Model(), directions()
    value, want = jax.jvp(lambda x, w: outputs(x, w, 0.6), (X, W), (v, u))
    close(sg.ad.jvp(m.y, [m.x, m.w], m.run, [v, u]), want)
    close(m.y.to_numpy(), value)
    found = sg.ad.jvp([m.y, m.loss], m.x, m.run, v)
    assert [np.shape(one) for one in found] == [(3, 2), ()]
    pulled = jax.vjp(lambda x, w: outputs(x, w, 0.6), X, W)[1](w)
    close(sg.ad.vjp(m.y, m.x, m.run, w), pulled[0])
    both = sg.ad.vjp([m.y], [m.x, m.w], m.run, [w])
    close(both[0], pulled[0])
    close(both[1], pulled[1])
    close(m.w.grad.to_numpy(), pulled[1])


def test_batches() -> None:
    m, (v, u, w) = Model(), directions(4)
    each = [sg.ad.jvp(m.y, [m.x, m.w], m.run, [v[k], u[k]]) for k in range(4)]
    close(sg.ad.jvp(m.y, [m.x, m.w], m.run, [v, u]), each)
    found = sg.ad.vjp(m.y, m.w, m.run, w)
    close(found, [sg.ad.vjp(m.y, m.w, m.run, one) for one in w])
    close(sg.ad.vjp([m.y, m.loss], m.w, m.run, [w, np.zeros(4)]), found)


@pytest.mark.rotating
@pytest.mark.parametrize("mode", ["forward", "reverse", "auto"])
def test_jacobian(mode: Any) -> None:
    m = Model()
    want = jax.jacobian(lambda x, w: outputs(x, w, 0.6), (0, 1))(X, W)
    found = sg.ad.jacobian([m.y, m.loss], [m.x, m.w], m.run, mode, batch=3)
    for block, expected in zip(found[0], want):
        close(block, expected)
    for block, expected in zip(found[1], jax.grad(loss_of, (0, 1))(X, W)):
        close(block, expected)
    close(sg.ad.jacobian(m.y, m.x, m.run, mode), want[0])
    close(m.x.to_numpy(), X)


def test_a_jacobian_of_fields_without_gradients_runs_forward() -> None:
    x, y = sg.field(sg.f64, 3), sg.field(sg.f64, ())
    x.from_numpy(X)

    @sg.kernel
    def total():
        for i in x:
            y[None] += x[i] ** 2

    close(sg.ad.jacobian(y, x, total, batch=2), 2 * X)
    close(y.to_numpy(), (X**2).sum())
    with pytest.raises(sg.TapeError, match="has no gradient"):
        sg.ad.jacobian(y, x, total, "reverse")
    with pytest.raises(sg.GradientError):
        _ = x.dual


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_the_state_is_an_output(mode: Any) -> None:
    """A field overwritten in place keeps its content on entry, and each batch begins with it."""
    x = sg.field(sg.f64, 3, needs_grad=True)

    def once(x: Any) -> Any:
        return jnp.stack([x[0] * x[0] + 0.1 * x[0], *(x[i] * x[i] + 0.1 * x[0] for i in (1, 2))])

    @sg.kernel
    def step():
        """Compute all elements from x[0], and overwrite x[0] last."""
        for _ in range(1):
            for k in range(3):
                x[2 - k] = x[2 - k] * x[2 - k] + 0.1 * x[0]

    def twice() -> None:
        step()
        step()

    x.from_numpy(X)
    close(sg.ad.jacobian(x, x, twice, mode, batch=2), jax.jacobian(lambda x: once(once(x)))(X))
    close(x.to_numpy(), once(once(X)))


def test_hvp_of_several_parameters() -> None:
    m, (v, u, _) = Model(), directions()
    want = jax.jvp(jax.grad(loss_of, (0, 1)), (X, W), (v, u))[1]
    found = sg.ad.hvp(m.loss, [m.x, m.w], m.run, [v, u])
    for one, expected in zip(found, want):
        close(one, expected)
    found = sg.ad.hvp(m.loss, [m.x, m.w], m.run, {m.w: u})
    for one, expected in zip(found, jax.jvp(lambda w: jax.grad(loss_of, (0, 1))(X, w), (W,), (u,))[1]):
        close(one, expected)
    close(sg.ad.hvp(m.loss, m.w, m.run, u[None])[0], jax.jvp(jax.grad(lambda w: loss_of(X, w)), (W,), (u,))[1])


@pytest.mark.expensive
def test_hessian_blocks() -> None:
    m = Model()
    want = jax.hessian(loss_of, (0, 1))(X, W)
    found = sg.ad.hessian(m.loss, [m.x, m.w], m.run, batch=5)
    for p in range(2):
        for q in range(2):
            close(found[p][q], want[p][q])
    close(sg.ad.hessian(m.loss, m.s, m.run), jax.hessian(loss_of, 2)(X, W, 0.6))
    both = sg.ad.hessian(m.loss, [m.s, m.x], m.run, batch=3)  # the last batch is a single direction
    close(both[0][1], jax.jacobian(jax.grad(loss_of, 2))(X, W, 0.6))
    close(both[1][0], both[0][1])


def test_weights_and_seeds() -> None:
    m, (v, _, w) = Model(), directions()

    def want(x: Any) -> Any:
        return 2.0 * (w * outputs(x, W, 0.6)).sum() - loss_of(x, W)

    found = sg.ad.hvp([m.y, m.loss], m.x, m.run, v, weights=[2.0, -1.0], seed=[w, 1.0])
    close(found, jax.jvp(jax.grad(want), (X,), (v,))[1])


def test_state_afterwards() -> None:
    """Primals and gradients are as a tape leaves them, and no field keeps a tangent that it had not."""
    m = Model()
    with sg.ad.Tape(m.loss):
        m.run()
    want = [t.to_numpy().copy() for t in (m.y, m.loss, m.x.grad, m.w.grad)]
    assert sg.ad.hvp(m.loss, m.x, m.run, np.ones((5, 3))).shape == (5, 3)
    for t, before in zip((m.y, m.loss, m.x.grad, m.w.grad), want):
        close(t.to_numpy(), before)
    for t in (m.x, m.loss, m.y, m.x.grad):
        with pytest.raises(sg.GradientError):
            _ = t.dual


def test_saved_state_counts_its_tangents() -> None:
    """Two directions need three times the bytes of a plain tape, and the budget holds for all of them."""
    x, loss = sg.field(sg.f64, 8, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def square():
        for i in x:
            x[i] = x[i] * x[i]

    @sg.kernel
    def total():
        for i in x:
            loss[None] += x[i] ** 2

    def run() -> None:
        square()
        square()
        total()

    x.fill(1.1)
    with sg.ad.Tape(loss) as tape:
        run()
    x.fill(1.1)
    with sg.ad.FwdMode(x.grad, x, np.ones((2, 8))) as mode, sg.ad.Tape(loss) as second:
        run()
    assert second.used_bytes == 3 * tape.used_bytes > 0
    np.testing.assert_allclose(mode.jacobian(), np.full((2, 8), 56 * 1.1**6), 1e-12)
    with pytest.raises(sg.TapeError, match="over its budget"):
        sg.ad.hvp(loss, x, run, np.ones((2, 8)), budget_bytes=tape.used_bytes)


# ---- mistakes -----------------------------------------------------------------------------------------------

MISTAKES: dict[str, Callable[[Model], Any]] = {
    "has 3 elements, so the direction must be given": lambda m: sg.ad.hvp(m.loss, m.x, m.run, None),
    r"the seed of field 'x' has shape \(2,\)": lambda m: sg.ad.hvp(m.loss, m.x, m.run, [1.0, 2.0]),
    "the parameter int has no gradient": lambda m: sg.ad.hvp(m.loss, 3, m.run, 1.0),
    "the parameter field 'plain' has no gradient": lambda m: sg.ad.hvp(
        m.loss, sg.field(sg.f64, (), name="plain"), m.run, 1.0
    ),
    r"the loss field 'y' has shape \(3, 2\), not one element": lambda m: sg.ad.hvp(m.y, m.x, m.run, X),
    r"the seed of field 'y' has shape \(3,\)": lambda m: sg.ad.vjp(m.y, m.x, m.run, X),
    "there is no mode 'sideways'": lambda m: sg.ad.jacobian(m.y, m.x, m.run, "sideways"),  # type: ignore[arg-type]
    "a batch of 0 directions": lambda m: sg.ad.hessian(m.loss, m.x, m.run, batch=0),
    "the loss is a field, not float": lambda m: sg.ad.jvp(1.0, m.x, m.run, X),
}


@pytest.mark.rotating
@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes(words: str) -> None:
    m = Model()
    with pytest.raises((sg.TapeError, sg.OptionError), match=words) as caught:
        MISTAKES[words](m)
    assert "cure" in str(caught.value)
    m.begin()
    assert np.isfinite(sg.ad.hvp(m.loss, m.x, m.run, X)).all()


def test_not_inside_a_tape_or_a_mode() -> None:
    m = Model()
    with sg.ad.FwdMode(m.loss, m.x, X), pytest.raises(sg.TapeError, match="in forward mode"):
        sg.ad.hvp(m.loss, m.x, m.run, X)
    with sg.ad.Tape(m.loss), pytest.raises(sg.TapeError, match="inside a tape"):
        sg.ad.jvp(m.loss, m.x, m.run, X)


def test_kernels_that_forward_mode_refuses_are_refused_with_their_line() -> None:
    x, top = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def noisy():
        for i in x:
            sg.atomic_max(top[None], x[i] * sg.random(sg.f64))

    with pytest.raises(sg.NotDifferentiable, match="random numbers would be others") as caught:
        sg.ad.hvp(top, x, noisy, X)
    assert "test_second_order_api.py" in str(caught.value) and "cure" in str(caught.value)


def test_an_exception_leaves_no_mode_behind() -> None:
    m = Model()

    def fail() -> None:
        m.steps()
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        sg.ad.hvp(m.loss, m.x, fail, X)
    with pytest.raises(sg.GradientError):
        _ = m.x.dual
    m.begin()
    want = jax.jvp(jax.grad(lambda x: loss_of(x, W)), (X,), (X,))[1]
    close(sg.ad.hvp(m.loss, m.x, m.run, X), want)
