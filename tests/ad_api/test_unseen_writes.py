"""Test that values written through a NumPy view of an array are constant, like the host's writes to a field."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.autodiff.tape_state import StateLog
from stackgrad.autodiff.unannounced_writes import ExpectedContents

FREE = [4.0, 32.0, 108.0]
Tensor: Any = sg.types.ndarray()
Do = Callable[[], Any]


def nothing() -> None:
    pass


class Program:
    """Represent a program y = x^2, y = 3 y in place, loss = sum of y^2."""

    def __init__(self, kind: str) -> None:
        def array(shape: Any) -> Any:
            return (sg.field if kind == "field" else sg.ndarray)(sg.f64, shape, needs_grad=True)

        x, y, loss = array(3), array(3), array(())

        @sg.kernel
        def square(x: Tensor, y: Tensor):
            for i in x:
                y[i] = x[i] * x[i]

        @sg.kernel
        def triple(y: Tensor):
            for i in y:
                y[i] = 3.0 * y[i]

        @sg.kernel
        def total(y: Tensor, loss: Tensor):
            for i in y:
                loss[None] += y[i] * y[i]

        self.x, self.y, self.loss = x, y, loss
        self.square, self.triple = lambda: square(x, y), lambda: triple(y)
        self.total = lambda: total(y, loss)
        self.reset()

    def reset(self) -> None:
        self.x.from_numpy(np.array([1.0, 2.0, 3.0]))

    def gradient(self, *steps: Do, **options: Any) -> list[float]:
        self.reset()
        with sg.ad.Tape(self.loss, **options):
            for step in steps:
                step()
        found: list[float] = self.x.grad.to_numpy().tolist()
        return found

    def tangent(self, *steps: Do) -> list[float]:
        """Return the derivative of the loss along each unit vector, by forward mode."""
        self.reset()
        self.loss.fill(0)
        with sg.ad.FwdMode(self.loss, self.x, seed=np.eye(3)) as mode:
            for step in steps:
                step()
        found: list[float] = mode.jacobian().tolist()
        return found

    def both(self, *steps: Do) -> list[float]:
        found = self.gradient(*steps)
        assert self.tangent(*steps) == found
        return found


@pytest.fixture(params=["field", "ndarray"])
def p(request: pytest.FixtureRequest, arch: str) -> Program:
    return Program(request.param)


def view_of(array: Any, how: str) -> np.ndarray:
    if how == "view":
        return array.to_numpy(copy=False)
    if how == "dlpack":
        return np.from_dlpack(array)
    array.to_dlpack()  # NumPy takes capsules as read-only: a library that does not writes through the pointer in it
    memory = array.memory
    place = memory.__array_interface__["data"][0]
    return np.frombuffer((ctypes.c_char * memory.nbytes).from_address(place), memory.dtype)


@pytest.mark.parametrize("how", ["view", "dlpack", "capsule"])
def test_between_two_launches(p: Program, how: str) -> None:
    view = view_of(p.y, how)
    assert p.both(p.square, p.total) == FREE
    assert p.both(p.square, lambda: view.__setitem__(1, 5.0), p.total) == [4, 0, 108]
    assert p.both(p.square, lambda: view.fill(5.0), p.total) == [0, 0, 0]


def test_exactly_the_elements_that_changed(p: Program) -> None:
    """The first and the last one: not what lies between."""
    view = p.y.to_numpy(copy=False)
    assert p.both(p.square, lambda: view.__setitem__(slice(None, None, 2), 5.0), p.total) == [0, 32, 0]


def test_exported_inside(p: Program) -> None:
    def write() -> None:
        p.y.to_numpy(copy=False)[2] = 1.0

    assert p.both(p.square, write, p.total) == [4, 32, 0]


def test_before_the_first_use(p: Program) -> None:
    """Inputs keep their gradients: the derivative is that at the content written."""
    view = p.x.to_numpy(copy=False)

    def write() -> None:
        view[...] = [3.0, 2.0, 1.0]

    assert p.both(write, p.square, p.total) == [108, 32, 4]


def test_after_the_last_use(p: Program) -> None:
    """What the loss no longer holds has no derivative; what nothing uses any more does no harm."""
    x, y, loss = (array.to_numpy(copy=False) for array in (p.x, p.y, p.loss))
    assert p.both(p.square, p.total, lambda: (x.fill(7.0), y.fill(7.0))) == FREE
    assert p.both(p.square, p.total, lambda: loss.__setitem__((), 7.0)) == [0, 0, 0]
    p.reset()
    with sg.ad.Tape(p.loss):
        p.square()
        p.total()
        p.loss[None] = 7.0
    assert p.x.grad.to_numpy().tolist() == [0, 0, 0], "as in sight"


def test_an_input_between_two_uses(p: Program) -> None:
    """Its gradient is that by the content it had when it was first used, as with writes in sight."""
    view = p.x.to_numpy(copy=False)
    unseen = p.both(p.square, p.total, lambda: view.__setitem__(0, 9.0), p.square, p.total)
    assert unseen == p.gradient(p.square, p.total, lambda: p.x.__setitem__(0, 9.0), p.square, p.total)
    assert unseen == [4, 64, 216]


def test_the_same_value_cannot_be_seen(p: Program) -> None:
    view = p.y.to_numpy(copy=False)
    assert p.both(p.square, lambda: view.__setitem__(1, 4.0), p.total) == FREE
    assert p.gradient(p.square, lambda: p.y.__setitem__(1, 4.0), p.total) == [4, 0, 108], "in sight it is"


def test_bits_are_compared(p: Program) -> None:
    """A NaN that stays is no change; a zero that turns negative is one."""
    view = p.y.to_numpy(copy=False)

    def not_a_number() -> None:
        view[0] = np.nan

    found = p.gradient(p.square, not_a_number, p.triple, p.triple, p.total)
    assert found == [0, 81 * 32, 81 * 108]
    p.reset = lambda: p.x.fill(0.0)  # type: ignore[method-assign]
    with sg.ad.Tape(p.y, seed=np.ones(3)):
        p.square()
        view[1] = -0.0
    p.x.fill(1.0)
    with sg.ad.Tape(p.y, seed=np.ones(3)):
        p.square()
        view[1] = np.nextafter(1.0, 2.0)
    assert p.x.grad.to_numpy().tolist() == [2, 0, 2]


def test_two_launches_between(p: Program) -> None:
    """The write ends adjoints where it happened: launches before it see nothing, those after it all."""
    view = p.y.to_numpy(copy=False)
    write = lambda: view.__setitem__(1, 5.0)  # noqa: E731
    assert p.both(p.square, p.triple, write, p.triple, p.total) == [81 * 4, 0, 81 * 108]
    assert p.both(p.square, write, p.triple, p.triple, p.total) == [81 * 4, 0, 81 * 108]
    assert p.y.grad.to_numpy().tolist() == [0, 0, 0]


def test_two_writes_and_one_in_sight(p: Program) -> None:
    view = p.y.to_numpy(copy=False)

    def writes() -> None:
        view[0] = 5.0
        p.y[1] = 6.0
        view[1] = 7.0

    assert p.both(p.square, writes, p.total) == [0, 0, 108]
    assert p.both(p.square, lambda: p.y.__setitem__(1, 6.0), p.triple, writes, p.total) == [0, 0, 9 * 108]
    assert p.both(p.square, lambda: p.y.__setitem__(1, 6.0), p.triple, p.total) == [36, 0, 9 * 108]


def test_elements_that_launches_do_not_reach() -> None:
    """Step t uses x[t], u[t] and x[t + 1]; u[t] is set through a view right before: an input each time."""
    u, x = (sg.field(sg.f64, 5, needs_grad=True) for _ in range(2))
    view = u.to_numpy(copy=False)

    @sg.kernel
    def step(t: int):
        for _ in range(1):
            x[t + 1] = x[t] * 0.5 + u[t] ** 2

    with sg.ad.Tape(x, seed=[0.0, 0.0, 0.0, 0.0, 1.0]):
        for t in range(4):
            view[t] = t + 1.0
            step(t)
    assert u.grad.to_numpy().tolist() == [2 * 0.125, 4 * 0.25, 6 * 0.5, 8, 0]


def test_functions_with_a_gradient_of_their_own(p: Program) -> None:
    """What they write through a view is theirs; what was written before they run is not."""
    view = p.y.to_numpy(copy=False)

    @sg.ad.grad_replaced
    def doubled() -> None:
        view[...] *= 2.0

    @sg.ad.grad_for(doubled)
    def doubled_grad() -> None:
        p.y.grad.from_numpy(2 * p.y.grad.to_numpy())

    assert p.gradient(p.square, doubled, p.total) == [4 * g for g in FREE]
    assert p.gradient(p.square, lambda: view.__setitem__(1, 5.0), doubled, p.total) == [16, 0, 4 * 108]
    assert p.gradient(p.square, doubled, lambda: view.__setitem__(1, 5.0), p.total) == [16, 0, 4 * 108]


def test_functions_without_gradient(p: Program) -> None:
    view = p.y.to_numpy(copy=False)
    write = sg.ad.no_grad(lambda: view.__setitem__(1, 5.0))
    triple = sg.ad.no_grad(lambda: p.triple())
    assert p.both(p.square, write, p.total) == [4, 0, 108]
    assert p.both(p.square, triple, p.total) == [0, 0, 0]


def test_a_kernel_that_is_given_the_view(p: Program) -> None:
    """To the kernel it is a NumPy array without a gradient, to the tape a write that nobody announced."""
    view = p.y.to_numpy(copy=False)

    @sg.kernel
    def clear(a: sg.types.ndarray()):
        for i in a:
            if i > 0:
                a[i] = 0.5

    assert p.both(p.square, lambda: clear(view), p.total) == [4, 0, 0]


def test_inner_tapes(p: Program) -> None:
    view = p.y.to_numpy(copy=False)
    inner: list[list[float]] = []

    def inside() -> None:
        with sg.ad.Tape(p.loss):
            p.square()
            view[0] = 5.0
            p.total()
        inner.append(p.x.grad.to_numpy().tolist())

    out = sg.field(sg.f64, (), needs_grad=True)
    y = p.y

    @sg.kernel
    def again(y: Tensor):
        for i in y:
            out[None] += y[i] ** 2

    with sg.ad.Tape(out):
        inside()
        view[1] = 5.0
        again(y)
    assert inner == [[0, 32, 108]] and p.x.grad.to_numpy().tolist() == [0, 0, 108]


def test_replays_and_gradients_again(p: Program) -> None:
    """A replay repeats launches, and not what the host wrote."""
    view = p.y.to_numpy(copy=False)
    with sg.ad.Tape(p.loss) as tape:
        p.square()
        view[1] = 5.0
        p.total()
    assert p.x.grad.to_numpy().tolist() == [4, 0, 108]
    tape.replay()
    assert p.x.grad.to_numpy().tolist() == FREE


def test_second_derivatives(p: Program) -> None:
    """The Hessian of sum of x^4, without the element whose square was replaced."""
    view = p.y.to_numpy(copy=False)

    def run() -> None:
        p.loss.fill(0)
        p.square()
        view[1] = 5.0
        p.total()

    found = sg.ad.hessian(p.loss, p.x, run)
    assert np.asarray(found).reshape(3, 3).tolist() == [[12, 0, 0], [0, 0, 0], [0, 0, 108]]


def test_a_check_of_the_tape_refuses(p: Program) -> None:
    view = p.y.to_numpy(copy=False)
    with pytest.raises(sg.TapeError, match="the host writes .* inside a tape with grad_check"):
        p.gradient(p.square, lambda: view.__setitem__(1, 5.0), p.total, grad_check=[p.x])


@pytest.mark.parametrize("layout", [sg.Layout.AOS, sg.Layout.SOA])
def test_vectors(layout: Any) -> None:
    a, b = (sg.Vector.field(3, sg.f64, shape=2, needs_grad=True, layout=layout) for _ in range(2))
    loss = sg.field(sg.f64, (), needs_grad=True)
    view = b.to_numpy(copy=False)

    @sg.kernel
    def copy():
        for i in a:
            b[i] = a[i]

    @sg.kernel
    def total():
        for i in b:
            loss[None] += b[i].sum()

    with sg.ad.Tape(loss):
        copy()
        view[0, 1] = 5.0
        view[1] = [1.0, 0.0, 2.0]
        total()
    assert a.grad.to_numpy().tolist() == [[1, 0, 1], [0, 1, 0]], "the zero was one before"


def test_one_copy_of_each_exported_array(p: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """They count against the budget; what was never exported is neither copied nor compared."""
    made: list[Any] = []
    remember = ExpectedContents.remember

    def counted(self: ExpectedContents, array: Any, boxes: Any = None) -> None:
        if array not in self:
            made.append(array)
        remember(self, array, boxes)

    monkeypatch.setattr(ExpectedContents, "remember", counted)
    p.gradient(p.square, p.triple, p.triple, p.total)
    assert made == []
    p.y.to_numpy(copy=False)
    p.gradient(p.square, p.triple, p.triple, p.total)
    assert made == [p.y]
    with pytest.raises(sg.TapeError, match="over its budget: others can write it unseen"):
        p.gradient(p.square, budget_bytes=p.y.memory.nbytes - 1)
    assert StateLog(1).shared is not StateLog(1).shared
