"""Test `stop_grad`, which makes values and loads of fields constant to every derivative, also in JAX."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.compiler.driver import prepare_forward, prepare_tangent
from stackgrad.compiler.ir.parser import parse_kernel
from stackgrad.compiler.passes.widen import widen
from stackgrad.harness.testing.oracles import dual, jax_oracle

X = np.array([1.0, 2.0, 3.0])


class Program:
    def __init__(self) -> None:
        self.x = sg.field(sg.f64, 3, needs_grad=True, name="x")
        self.v = sg.Vector.field(2, sg.f64, shape=3, needs_grad=True)
        self.y = sg.field(sg.f64, (), needs_grad=True)
        self.x.from_numpy(X)
        self.v.from_numpy(np.arange(6.0).reshape(3, 2))


def test_values() -> None:
    p = Program()
    x, y = p.x, p.y

    @sg.kernel
    def k():
        for i in x:
            y[None] += sg.stop_grad(sg.sin(x[i])) * x[i]

    with sg.ad.Tape(y):
        k()
    np.testing.assert_allclose(x.grad.to_numpy(), np.sin(X))
    assert y[None] == pytest.approx(float((np.sin(X) * X).sum()))


def test_a_field_in_a_block() -> None:
    """From the call to the end of the block, and nowhere else."""
    p = Program()
    x, y = p.x, p.y

    @sg.kernel
    def k():
        for i in x:
            before = x[i] ** 2
            if i > 0:
                sg.stop_grad(x)
                for _ in range(2):
                    before += x[i] ** 2
            y[None] += before + x[i]

    with sg.ad.Tape(y):
        k()
    np.testing.assert_allclose(x.grad.to_numpy(), 2 * X + 1)
    assert y[None] == pytest.approx(float((X**2).sum() + 2 * (X[1:] ** 2).sum() + X.sum()))


def test_a_field_in_a_function() -> None:
    """It ends with the function."""
    p = Program()
    x, y = p.x, p.y

    @sg.func
    def frozen(i):
        sg.stop_grad(x)
        return x[i]

    @sg.kernel
    def k():
        for i in x:
            y[None] += frozen(i) * x[i]

    with sg.ad.Tape(y):
        k()
    np.testing.assert_allclose(x.grad.to_numpy(), X)


def test_vectors() -> None:
    p = Program()
    v, y = p.v, p.y

    @sg.kernel
    def value():
        for i in v:
            y[None] += sg.stop_grad(v[i]).dot(v[i])

    @sg.kernel
    def whole():
        for i in v:
            sg.stop_grad(v)
            y[None] += v[i].dot(v[i])

    with sg.ad.Tape(y):
        value()
    np.testing.assert_allclose(v.grad.to_numpy(), v.to_numpy())
    with sg.ad.Tape(y):
        whole()
    assert not v.grad.to_numpy().any()


def test_writes_go_on() -> None:
    """Only loads are constants: what is stored to the field still has a gradient."""
    p = Program()
    x, y, z = p.x, p.y, sg.field(sg.f64, 3, needs_grad=True)

    @sg.kernel
    def store():
        for i in x:
            sg.stop_grad(z)
            z[i] = x[i] * 2

    @sg.kernel
    def total():
        for i in z:
            y[None] += z[i]

    with sg.ad.Tape(y):
        store()
        total()
    np.testing.assert_allclose(x.grad.to_numpy(), [2, 2, 2])


def test_forward_mode() -> None:
    p = Program()
    x, y = p.x, p.y

    @sg.kernel
    def k():
        for i in x:
            y[None] += sg.stop_grad(x[i]) * x[i]

    with sg.ad.FwdMode(y, x, seed=[1.0, 10.0, 100.0]):
        k()
    assert y.dual[None] == pytest.approx(321.0)


def test_outside_of_kernels_and_integers() -> None:
    n = sg.field(sg.i32, ())

    @sg.kernel
    def k():
        n[None] = sg.stop_grad(n[None] + 2) * sg.stop_grad(3)

    k()
    assert n[None] == 6 and sg.stop_grad(2.5) == 2.5


def test_what_it_does_not_take() -> None:
    p = Program()
    y = p.y

    @sg.kernel
    def k():
        y[None] = sg.stop_grad("x")

    with pytest.raises(sg.KernelTypeError, match="`stop_grad` takes values and fields"):
        k()


TEXT = """kernel k(x: f32[0] grad, y: f32[0] grad) {
  serial {
    %0: f32 = load x[]
    %1: u32 = bit_cast %0
    %2: f32 = bit_cast %1
    %3: f32 = bit_cast %0
    %4: f32 = mul %2, %0
    %5: f32 = mul %3, %4
    store y[], %5
  }
}"""


def test_every_executor_agrees() -> None:
    """y = [x] [x] x with [x] constant: y' = x^2, by bits and back as by the cast to its own type."""
    kernel, three = parse_kernel(TEXT), {"x": np.array(3.0), "y": np.array(0.0)}
    ones = {"x": np.array(1.0)}
    assert jax_oracle.vjp(kernel, three, {}, {"y": np.array(1.0)})["x"] == 9
    assert dual.jvp(kernel, three, {}, ones)[1]["y"] == 9
    lowered = prepare_tangent(kernel, ["x", "y"])
    assert "bit_cast" in str(prepare_forward(kernel).kernel.tasks) or lowered.kernel.params
    x, y = (sg.field(sg.f32, (), needs_grad=True) for _ in range(2))
    x[None] = 3
    with sg.ad.Tape(y):
        sg.kernel_from_text(TEXT)(x=x, y=y)
    assert y[None] == 27 and x.grad[None] == 9


def test_it_has_a_twin_in_double_precision() -> None:
    """Bits of a real have none; the cast to its own type reads no bits."""
    text = TEXT.replace("%1: u32 = bit_cast %0", "%1: f32 = bit_cast %0")
    assert "f32" not in str(widen(parse_kernel(text)).tasks)
