"""Test writes that are constant to a tape: they end the adjoints of values that earlier launches used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg


class Squares:
    """Represent a program b_i = a_i^2; c_i = 7, which may be b itself; loss = sum b_i^2.

    If no write replaces b, the gradient is 4 a^3.
    """

    def __init__(self) -> None:
        self.a, self.b = (sg.field(sg.f64, 3, needs_grad=True) for _ in range(2))
        self.loss = sg.field(sg.f64, (), needs_grad=True)
        self.chosen = sg.field(sg.i32, ())
        a, b, loss, chosen = self.a, self.b, self.loss, self.chosen
        self.a.from_numpy(np.array([1.0, 2.0, 3.0]))
        self.chosen[None] = 1

        @sg.kernel
        def square():
            for i in a:
                b[i] = a[i] * a[i]

        @sg.kernel
        def replace():
            for i in b:
                if i == chosen[None]:
                    b[i] = 7.0 * b[i]

        @sg.kernel
        def shift():
            for i in b:
                b[i] += 7.0

        @sg.kernel
        def total():
            for i in b:
                loss[None] += b[i] * b[i]

        self.square, self.replace, self.shift, self.total = square, replace, shift, total

    def gradient(self, *between: Callable[[], Any]) -> list[float]:
        with sg.ad.Tape(self.loss):
            self.square()
            for call in between:
                call()
            self.total()
        return self.a.grad.to_numpy().tolist()


FREE = [4.0, 32.0, 108.0]


def test_writes_of_the_host_end_adjoints() -> None:
    p = Squares()
    assert p.gradient() == FREE
    assert p.gradient(lambda: p.b.__setitem__(1, 5.0)) == [4, 0, 108]
    assert p.gradient(lambda: p.b.fill(5.0)) == [0, 0, 0]
    assert p.gradient(lambda: p.b.from_numpy(np.ones(3))) == [0, 0, 0]
    assert p.gradient(lambda: p.b.copy_from(p.b)) == FREE
    assert p.gradient(sg.ad.no_grad(lambda: p.b.copy_from(p.b))) == [0, 0, 0]
    assert p.gradient(lambda: p.b[1], lambda: p.b.to_numpy()) == FREE


def test_launches_that_take_no_part_end_adjoints_of_what_they_store() -> None:
    p = Squares()

    @sg.ad.no_grad
    def constant(kernel: Any) -> None:
        kernel()

    def cleared() -> None:
        p.chosen[None] = 0

    assert p.gradient(lambda: constant(p.replace)) == [4, 0, 108]
    assert p.gradient(lambda: constant(p.replace), cleared, lambda: constant(p.shift)) == [4 * 8, 0, 12 * 16]
    assert p.chosen[None] == 0, "which elements were stored is known from the state at the launch"


def test_the_host_writes_in_a_function_without_gradient() -> None:
    p = Squares()
    fill = sg.ad.no_grad(p.b.fill)
    assert p.gradient(lambda: fill(2.0)) == [0, 0, 0]


def test_a_function_with_a_gradient_of_its_own_ends_nothing() -> None:
    p = Squares()

    @sg.ad.grad_replaced
    def doubled() -> None:
        p.b.from_numpy(2 * p.b.to_numpy())

    @sg.ad.grad_for(doubled)
    def doubled_grad() -> None:
        p.b.grad.from_numpy(2 * p.b.grad.to_numpy())

    assert p.gradient(doubled) == [4 * g for g in FREE]


def test_arguments_declared_without_gradient() -> None:
    a, b = (sg.ndarray(sg.f64, 3, needs_grad=True) for _ in range(2))
    loss = sg.field(sg.f64, (), needs_grad=True)
    a.fill(2)

    @sg.kernel
    def square(a: sg.types.ndarray(), b: sg.types.ndarray()):
        for i in a:
            b[i] = a[i] * a[i]

    @sg.kernel
    def first(b: sg.types.ndarray(dtype=sg.f64, ndim=1, needs_grad=False)):
        b[0] = 7.0

    @sg.kernel
    def total(b: sg.types.ndarray()):
        for i in b:
            loss[None] += b[i] * b[i]

    with sg.ad.Tape(loss):
        square(a, b)
        first(b)
        total(b)
    assert a.grad.to_numpy().tolist() == [0, 32, 32]


def test_inputs_set_inside_keep_their_gradient() -> None:
    """What nothing used before is an input: the derivative is that at the content written."""
    p = Squares()
    first = sg.ad.no_grad(lambda: p.replace())
    with sg.ad.Tape(p.loss):
        p.a.fill(2)
        p.square()
        p.total()
    assert p.a.grad.to_numpy().tolist() == [32, 32, 32]
    with sg.ad.Tape(p.loss):
        first()
        p.total()
    assert p.b.grad.to_numpy().tolist() == [8, 56, 8]


def test_inputs_of_each_step_set_by_the_host() -> None:
    """Step t reads u[t], which the host sets right before: each has its own gradient."""
    u, x = (sg.field(sg.f64, 5, needs_grad=True) for _ in range(2))

    @sg.kernel
    def step(t: int):
        for _ in range(1):
            x[t + 1] = x[t] * 0.5 + u[t] ** 2

    for _ in range(2):
        x.fill(0)
        with sg.ad.Tape(x, seed=[0.0, 0.0, 0.0, 0.0, 1.0]):
            for t in range(4):
                u[t] = t + 1.0
                step(t)
        assert u.grad.to_numpy().tolist() == [2 * 0.125, 4 * 0.25, 6 * 0.5, 8, 0]


def test_sums_begun_again() -> None:
    """The gradient of a sum only reads the adjoint of its result, which ends where the sum is set to 0 all the same."""
    x, s, loss = (sg.field(sg.f64, n, needs_grad=True) for n in (3, (), ()))
    x.from_numpy(np.array([1.0, 2.0, 3.0]))

    @sg.kernel
    def total():
        for i in x:
            s[None] += x[i] ** 2

    @sg.kernel
    def add():
        for _ in range(1):
            loss[None] += s[None]

    @sg.kernel
    def clear():
        for _ in range(1):
            s[None] = 0.0

    def write() -> None:
        s[None] = 0.0

    constant = sg.ad.no_grad(lambda: clear())
    view = s.to_numpy(copy=False)
    for between in (write, sg.ad.no_grad(write), constant, clear, lambda: view.fill(0.0)):
        with sg.ad.Tape(loss):
            total()
            between()
            total()
            add()
        assert x.grad.to_numpy().tolist() == [2, 4, 6]
    assert loss[None] == 14
    with sg.ad.Tape(loss):
        add()
        loss[None] = 1.0
    assert s.grad[None] == 0, "the loss is constant in the end"


@pytest.mark.parametrize("layout", [sg.Layout.AOS, sg.Layout.SOA])
def test_entries_of_vectors(layout: Any) -> None:
    a, b = (sg.Vector.field(3, sg.f64, shape=2, needs_grad=True, layout=layout) for _ in range(2))
    m, n = (sg.Matrix.field(2, 2, sg.f64, shape=2, needs_grad=True, layout=layout) for _ in range(2))
    loss = sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def copy():
        for i in a:
            b[i] = a[i]
            n[i] = m[i]

    @sg.kernel
    def total():
        for i in b:
            loss[None] += b[i].sum() + n[i].sum()

    with sg.ad.Tape(loss):
        copy()
        b[0][1] = 5.0
        b[1].xz = [1.0, 2.0]
        n[0][0, 1] = 1.0
        n[1][1, :] = [1.0, 2.0]
        total()
    assert a.grad.to_numpy().tolist() == [[1, 0, 1], [0, 1, 0]]
    assert m.grad.to_numpy().tolist() == [[[1, 0], [1, 1]], [[1, 1], [0, 0]]]
    with sg.ad.Tape(loss):
        copy()
        b[1] = [1.0, 2.0, 3.0]
        n[0].fill(3.0)
        total()
    assert a.grad.to_numpy().tolist() == [[1, 1, 1], [0, 0, 0]]
    assert m.grad.to_numpy().tolist() == [[[0, 0], [0, 0]], [[1, 1], [1, 1]]]


def test_launches_in_an_inner_tape_are_part_of_the_outer_program() -> None:
    p = Squares()
    inner = sg.field(sg.f64, (), needs_grad=True)
    b, a = p.b, p.a

    @sg.kernel
    def again():
        for i in a:
            b[i] = 3.0 * a[i]
            inner[None] += b[i]

    def inside() -> None:
        with sg.ad.Tape(inner):
            again()
        assert a.grad.to_numpy().tolist() == [3, 3, 3]

    assert p.gradient(inside) == [18, 36, 54]
    with sg.ad.Tape(p.loss) as tape:
        inside()
    with pytest.raises(sg.TapeError, match="another one inside cannot be replayed"):
        tape.replay()


def test_a_launch_may_overwrite_what_decides_its_stores() -> None:
    """Which elements it replaced depends on what it overwrote itself; the tape keeps that."""
    p = Squares()
    b, chosen = p.b, p.chosen

    @sg.kernel
    def forget():
        for i in b:
            if i == chosen[None]:
                b[i] = 0.0
        for _ in range(1):
            chosen[None] = 2

    constant = sg.ad.no_grad(lambda: forget())
    first = int(p.chosen[None])
    expected = p.gradient(lambda: None)
    expected[first] = 0
    p.chosen[None] = first
    assert p.gradient(lambda: constant()) == expected
    assert p.chosen[None] == 2


def test_a_launch_that_raised_leaves_no_gradient(arch: str) -> None:
    """It wrote a part of b, and nobody knows which."""
    sg.init(arch=arch, default_fp=sg.f64, debug=True)
    p = Squares()
    a, b = p.a, p.b

    @sg.kernel
    def half():
        for _ in range(1):
            for i in range(3):
                assert i < 2
                b[i] = 3.0 * a[i]

    def tried() -> None:
        with pytest.raises(sg.StackgradError):
            half()

    with pytest.raises(sg.TapeError, match="half.* raised inside the tape"):
        p.gradient(tried)
    assert p.gradient() == FREE
