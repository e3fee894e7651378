"""Test mutants of tapes: each makes the gradient, or the final contents, of a small program wrong."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.autodiff import overwrites, watched_boxes
from stackgrad.autodiff.tape_state import LaunchRecord, SavedContent, StateLog
from stackgrad.autodiff.watched_boxes import WatchedBoxes
from stackgrad.harness.tools.mutants import patched
from stackgrad.launch.saved_boxes import SavedBox

X = np.array([0.5, -0.3, 0.8, 0.25])
Found = tuple[np.ndarray, np.ndarray]
"""The gradient by x, and what x holds at the end."""


def fields() -> tuple[Any, Any, Any]:
    """x, y and the loss."""
    sg.init(arch=sg.reference, default_fp=sg.f64)
    x, y = (sg.field(sg.f64, shape=4, needs_grad=True) for _ in range(2))
    x.from_numpy(X)
    return x, y, sg.field(sg.f64, shape=(), needs_grad=True)


def overwritten_between() -> tuple[Found, Found]:
    """loss = sum sin x + sum sin 2x, where x is doubled in place between the two."""
    x, _, loss = fields()

    @sg.kernel
    def add():
        for i in x:
            loss[None] += sg.sin(x[i])

    @sg.kernel
    def double():
        for i in x:
            x[i] = 2.0 * x[i]

    with sg.ad.Tape(loss=loss):
        add()
        double()
        add()
    return (x.grad.to_numpy(), x.to_numpy()), (np.cos(X) + 2 * np.cos(2 * X), 2 * X)


def partly_overwritten() -> tuple[Found, Found]:
    """loss = sum x², then the first three elements become constants."""
    x, _, loss = fields()

    @sg.kernel
    def add():
        for i in x:
            loss[None] += x[i] * x[i]

    @sg.kernel
    def clear():
        for i in range(3):
            x[i] = 1.0

    with sg.ad.Tape(loss=loss):
        add()
        clear()
        add()
    return (x.grad.to_numpy(), x.to_numpy()), (np.array([*2 * X[:3], 4 * X[3]]), np.array([1.0, 1.0, 1.0, X[3]]))


def in_place() -> tuple[Found, Found]:
    """x = sin x in one kernel, whose gradient needs x as it was."""
    x, _, loss = fields()

    @sg.kernel
    def change():
        for i in x:
            x[i] = sg.sin(x[i]) * x[i]

    @sg.kernel
    def add():
        for i in x:
            loss[None] += x[i]

    with sg.ad.Tape(loss=loss):
        change()
        add()
    return (x.grad.to_numpy(), x.to_numpy()), (np.cos(X) * X + np.sin(X), np.sin(X) * X)


def replaced_by_the_host() -> tuple[Found, Found]:
    """y = x², of which the host replaces two elements: only the others carry a gradient."""
    x, y, loss = fields()

    @sg.kernel
    def square():
        for i in x:
            y[i] = x[i] * x[i]

    @sg.kernel
    def add():
        for i in x:
            loss[None] += y[i]

    with sg.ad.Tape(loss=loss):
        square()
        y[0] = 3.0
        y[2] = 3.0
        add()
    return (x.grad.to_numpy(), x.to_numpy()), (np.array([0.0, 2 * X[1], 0.0, 2 * X[3]]), X)


def replaced_by_a_constant_launch() -> tuple[Found, Found]:
    """The same, where a launch that is not differentiated replaces all of y."""
    x, y, loss = fields()

    @sg.kernel
    def square():
        for i in x:
            y[i] = x[i] * x[i]

    @sg.kernel
    def refill():
        for i in x:
            y[i] = 3.0

    @sg.kernel
    def add():
        for i in x:
            loss[None] += y[i] + x[i]

    @sg.ad.no_grad
    def outside():
        refill()

    with sg.ad.Tape(loss=loss):
        square()
        outside()
        add()
    return (x.grad.to_numpy(), x.to_numpy()), (np.ones(4), X)


def drawn() -> tuple[Found, Found]:
    """y = x times a random number: the gradient is that number."""
    x, y, loss = fields()

    @sg.kernel
    def scale():
        for i in x:
            y[i] = x[i] * sg.random()

    @sg.kernel
    def add():
        for i in x:
            loss[None] += y[i]

    with sg.ad.Tape(loss=loss):
        scale()
        add()
    return (x.grad.to_numpy(), x.to_numpy()), (y.to_numpy() / X, X)


def reads_its_gradient() -> tuple[Found, Found]:
    """loss = sum x g² + sum x (g + 1)² + sum x², where g is x.grad, which is raised by 1 between the launches."""
    x, _, loss = fields()

    @sg.kernel
    def weigh():
        for i in x:
            loss[None] += x[i] * x.grad[i] ** 2

    @sg.kernel
    def square():
        for i in x:
            loss[None] += x[i] ** 2

    @sg.kernel
    def more():
        for i in x:
            x.grad[i] += 1.0

    x.grad.fill(2.0)
    with sg.ad.Tape(loss=loss, clear_gradients=False):
        weigh()
        more()
        weigh()
        square()
    return (x.grad.to_numpy(), x.to_numpy()), (3.0 + 4.0 + 9.0 + 2 * X, X)


def _first_copy(self: StateLog, backward: Any, name: str) -> Any:
    return self._gradients.setdefault(name, self.copied(backward.arrays, name, None, ""))  # type: ignore[call-overload]


def _narrowed() -> AbstractContextManager[None]:
    right = SavedBox.of.__func__  # type: ignore[attr-defined]

    def wrong(cls: type[SavedBox], array: np.ndarray, box: Any) -> SavedBox:
        first = box and slice(box[0].start, max(box[0].start, box[0].stop - 1))
        return right(cls, array, box and (first, *box[1:]))  # type: ignore[no-any-return]

    return patched(SavedBox, "of", classmethod(wrong))


def _other_draws(self: LaunchRecord) -> None:
    draws = replace(self.draws, launch=self.draws.launch + 1)
    self.binding.launch_grad(self.scalars, draws, self._replaced, taped=True)


def _restored_as_it_is(self: SavedBox) -> np.ndarray:
    return self.array.copy()


Plant = Callable[[], AbstractContextManager[None]]
MISTAKES: dict[str, tuple[Callable[[], tuple[Found, Found]], Plant]] = {
    "nothing is saved where boxes meet": (
        overwritten_between,
        lambda: patched(WatchedBoxes, "endangered", lambda self, writes: ([], None)),
    ),
    "boxes of elements never meet": (
        partly_overwritten,
        lambda: patched(watched_boxes, "intersect_boxes", lambda a, b: None),
    ),
    "the box that is saved is too small": (partly_overwritten, _narrowed),
    "saved content is not swapped in": (overwritten_between, lambda: patched(SavedBox, "swap", lambda self: None)),
    "the swap is not undone": (overwritten_between, lambda: patched(SavedContent, "redo", lambda self: None)),
    "the state before the launch is that after it": (
        in_place,
        lambda: patched(SavedBox, "restored", _restored_as_it_is),
    ),
    "a gradient that is read is that of the backward pass": (
        reads_its_gradient,
        lambda: patched(SavedBox, "restored", _restored_as_it_is),
    ),
    "all launches find the gradient of the first": (
        reads_its_gradient,
        lambda: patched(StateLog, "unseen_content", _first_copy),
    ),
    "what the host writes keeps the adjoints of what it replaced": (
        replaced_by_the_host,
        lambda: patched(overwrites.HostWrite, "run", lambda self: None),
    ),
    "the host ends adjoints of nothing": (
        replaced_by_the_host,
        lambda: patched(StateLog, "host_write", lambda self, array, box: None),
    ),
    "a constant launch keeps the adjoints of what it replaced": (
        replaced_by_a_constant_launch,
        lambda: patched(overwrites.ConstantLaunch, "run", lambda self: None),
    ),
    "the gradient draws the numbers of the next launch": (drawn, lambda: patched(LaunchRecord, "run", _other_draws)),
}


def agree(found: Found, exact: Found) -> bool:
    return all(np.allclose(a, b, rtol=1e-12, atol=1e-12) for a, b in zip(found, exact))


@pytest.mark.parametrize("name", MISTAKES)
def test_the_mistake_shows(name: str) -> None:
    program, plant = MISTAKES[name]
    assert agree(*program())
    with plant():
        try:
            wrong = not agree(*program())
        except sg.StackgradError as error:  # the runtime's own check of versions
            wrong = "is not what it was" in str(error)
    assert wrong
    assert agree(*program())
