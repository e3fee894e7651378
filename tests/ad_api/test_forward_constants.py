"""Test that values are constant to forward mode if they are constant to reverse mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg

ONES = np.ones(3)


class Cubes:
    """Represent a program z = x^3, y = z, whose tangent along ones is 3 x^2 unless something between ends it."""

    def __init__(self) -> None:
        self.x, self.y, self.z = (sg.field(sg.f64, 3, needs_grad=True) for _ in range(3))
        self.x.from_numpy(np.array([1.0, 2.0, 3.0]))
        x, y, z = self.x, self.y, self.z

        @sg.kernel
        def cube():
            for i in x:
                z[i] = x[i] ** 3

        @sg.kernel
        def copy():
            for i in x:
                y[i] = z[i]

        @sg.kernel
        def add():
            for i in x:
                z[i] += x[i]

        self.cube, self.copy, self.add = cube, copy, add

    def tangent(self, *between: Callable[[], Any], seed: Any = ONES) -> list[Any]:
        with sg.ad.FwdMode(self.y, self.x, seed=seed) as mode:
            self.cube()
            for call in between:
                call()
            self.copy()
        found: list[Any] = mode.jacobian().tolist()
        return found

    def both(self, *between: Callable[[], Any]) -> list[Any]:
        """Return the tangent; it equals the gradient, because no element depends on another one."""
        found = self.tangent(*between)
        self.x.grad.fill(0)
        with sg.ad.Tape(self.y, seed=ONES):
            self.cube()
            for call in between:
                call()
            self.copy()
        assert self.x.grad.to_numpy().tolist() == found
        return found


def test_writes_of_the_host() -> None:
    p = Cubes()
    assert p.both() == [3, 12, 27]
    assert p.both(lambda: p.z.__setitem__(1, 5.0)) == [3, 0, 27]
    assert p.both(lambda: p.z.fill(2)) == [0, 0, 0]
    assert p.both(lambda: p.z.from_numpy(ONES)) == [0, 0, 0]
    batch = p.tangent(lambda: p.z.__setitem__(1, 5.0), seed=np.eye(3))
    assert batch == [[3, 0, 0], [0, 0, 0], [0, 0, 27]]


def test_functions_without_gradient() -> None:
    p = Cubes()
    assert p.both(p.add) == [4, 13, 28]
    assert p.both(sg.ad.no_grad(lambda: p.add())) == [3, 12, 27]
    assert p.both(sg.ad.no_grad(lambda: p.cube())) == [0, 0, 0]
    assert p.both(p.add) == [4, 13, 28], "the mode is as before"


def test_a_function_without_gradient_that_raises() -> None:
    p = Cubes()

    @sg.ad.no_grad
    def fails() -> None:
        raise RuntimeError("mine")

    def tried() -> None:
        with pytest.raises(RuntimeError, match="mine"):
            fails()

    assert p.both(tried) == [3, 12, 27]


def test_inputs_set_inside_keep_their_tangent() -> None:
    p = Cubes()
    with sg.ad.FwdMode(p.y, p.x, seed=ONES):
        p.x.fill(2)
        p.cube()
        p.copy()
    assert p.y.dual.to_numpy().tolist() == [12, 12, 12]


def test_arguments_declared_without_gradient() -> None:
    a, b, c = (sg.ndarray(sg.f64, 3, needs_grad=True) for _ in range(3))
    a.fill(2)

    @sg.kernel
    def scale(a: sg.types.ndarray(), b: sg.types.ndarray()):
        for i in a:
            b[i] = 3.0 * a[i]

    number = sg.types.ndarray(dtype=sg.f64, ndim=1, needs_grad=False)

    @sg.kernel
    def mixed(a: number, b: sg.types.ndarray(), c: sg.types.ndarray()):
        a[0] = 1.0
        for i in a:
            c[i] = a[i] * b[i]

    def run() -> None:
        scale(a, b)
        mixed(a, b, c)
        mixed(b, a, c)

    with sg.ad.FwdMode(c, a, seed=ONES):
        run()
    with sg.ad.Tape(c, seed=ONES):
        run()
    assert c.dual.to_numpy().tolist() == a.grad.to_numpy().tolist() == [0, 6, 6]
