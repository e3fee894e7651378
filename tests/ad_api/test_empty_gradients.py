"""The gradient of a kernel without real arrays is empty: a call checks its arguments, but launches nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg

CALLS = 8
"""More calls than the trampoline waits for before a launch stands ready."""


class Integers:
    """Hold integer fields, and kernels that use integer arrays alone.

    Attributes:
        calls: Kernels by name, each with arguments.
    """

    def __init__(self) -> None:
        self.x, self.y, self.count = sg.field(sg.i32, 5), sg.field(sg.i32, 5), sg.field(sg.i64, ())
        self.x.from_numpy(np.array([0, 3, 1, 7, 2], np.int32))
        self.calls: dict[str, tuple[Any, tuple[Any, ...]]] = {**self._plain(), **self._with_reals(), **self._others()}

    def _plain(self) -> dict[str, tuple[Any, tuple[Any, ...]]]:
        """Return kernels that compute with integers alone."""
        x, y, count = self.x, self.y, self.count

        @sg.kernel
        def remainders():
            for i in x:
                y[i] = x[i] % 3

        @sg.kernel
        def adds(by: sg.i32):
            for i in x:
                sg.atomic_add(y[i], by)
                count[None] += 1

        return {"remainders": (remainders, ()), "adds": (adds, (4,))}

    def _with_reals(self) -> dict[str, tuple[Any, tuple[Any, ...]]]:
        """Return kernels that compute with reals, and store integers."""
        x, y = self.x, self.y

        @sg.kernel
        def grows(limit: float):
            for i in x:
                weight, steps = 1.0, 0
                while steps < x[i]:
                    weight *= 1.5
                    steps += 1
                    if weight > limit:
                        break
                y[i] = steps

        @sg.kernel
        def draws():
            for i in y:
                y[i] = int(sg.random() * 100.0)

        return {"grows": (grows, (4.0,)), "draws": (draws, ())}

    def _others(self) -> dict[str, tuple[Any, tuple[Any, ...]]]:
        """Return kernels whose arrays are arguments, or that have no array."""

        @sg.kernel
        def takes(a: sg.types.ndarray(), b: sg.types.ndarray(dtype=sg.i64, ndim=1)):
            for i in a:
                b[i] += a[i] * a[i]

        @sg.kernel
        def nothing():
            pass

        return {"takes": (takes, (self.x, np.ones(5, np.int64))), "nothing": (nothing, ())}

    def content(self) -> list[Any]:
        """Return what all fields hold."""
        return [field.to_numpy().tolist() for field in (self.x, self.y, self.count)]


KINDS = ("remainders", "adds", "grows", "draws", "takes", "nothing")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", [True, False], ids=["after launches", "alone"])
def test_nothing_changes_and_nothing_is_launched(kind: str, first: bool) -> None:
    program = Integers()
    kernel, args = program.calls[kind]
    for _ in range(CALLS if first else 0):
        kernel(*args)
    before = program.content()
    with sg.profile() as profile:
        for _ in range(CALLS):
            assert kernel.grad(*args) is None
    assert program.content() == before
    assert not profile.kernels, "an empty gradient is no launch"
    kernel(*args)
    assert kernel.grad(*args) is None


@pytest.mark.parametrize("kind", KINDS)
def test_beside_a_tape(kind: str) -> None:
    program = Integers()
    kernel, args = program.calls[kind]
    z, loss = sg.field(sg.f64, 3, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)
    z.fill(2.0)

    @sg.kernel
    def total():
        for i in z:
            loss[None] += z[i] ** 2

    with sg.ad.Tape(loss):
        kernel(*args)
        total()
        kernel(*args)
    assert z.grad.to_numpy().tolist() == [4.0, 4.0, 4.0]
    kernel.grad(*args)
    assert z.grad.to_numpy().tolist() == [4.0, 4.0, 4.0]


def misuses(program: Integers) -> list[Callable[[], Any]]:
    """Return calls of gradients whose arguments no launch takes."""
    adds, takes = program.calls["adds"][0], program.calls["takes"][0]
    return [
        lambda: adds.grad(),
        lambda: adds.grad("4"),
        lambda: adds.grad(4, 5),
        lambda: takes.grad(program.x, np.ones(5, np.int32)),
        lambda: takes.grad(program.x, 3),
    ]


@pytest.mark.parametrize("number", range(5))
def test_arguments_are_checked(number: int) -> None:
    program = Integers()
    misuse = misuses(program)[number]
    with pytest.raises(sg.CallError):
        misuse()
    program.calls["adds"][0].grad(4)
    with pytest.raises(sg.CallError):
        misuse()


def test_a_real_array_needs_a_gradient() -> None:
    program, w = Integers(), sg.field(sg.f64, 5)
    x, y = program.x, program.y

    @sg.kernel
    def rounds():
        for i in x:
            y[i] = int(w[i]) + x[i]

    with pytest.raises(sg.NotDifferentiable, match="missing gradient: no array that kernel rounds uses has one"):
        rounds.grad()
