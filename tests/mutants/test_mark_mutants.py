"""Test mutants of marks: each accepts a wrong gradient by hand, or refuses a right one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.compiler.ad import marks
from stackgrad.compiler.ir.types import i64
from stackgrad.harness.tools.mutants import patched

_Writer = marks._MarkWriter
RIGHT, MEETS = (0, 1, 2, 3), (0, 1, 2, 0)
"""Elements that a walk stores: each once, or the first one again in the last trip, after it was read."""
AT_ONCE = (3, 3)
"""A walk whose last store comes directly after a read of the element."""


def refused(places: tuple[int, ...]) -> bool:
    """Return True if the gradient of a walk over these places, which stores and reads x, is refused by hand."""
    sg.init(arch=sg.reference, default_fp=sg.f64)
    x, y = (sg.field(sg.f64, shape=4, needs_grad=True) for _ in range(2))
    p = sg.field(sg.i32, shape=len(places))
    p.from_numpy(np.array(places, np.int32))

    @sg.kernel
    def walk():
        for _ in range(1):
            for t in range(p.shape[0]):
                x[p[t]] = 0.5 * y[t]
                y[t] = x[p[t]] * x[p[t]]

    walk()
    try:
        walk.grad()
    except sg.NotDifferentiable:
        return True
    return False


def _never(self, *args):
    """Look at no marks."""


def _shifted(by: int) -> Callable[..., None]:
    """Return a writer of marks whose numbers are too great by this."""
    right = _Writer._mark

    def wrong(self, b, indices, when):
        right(self, b, indices, b.op("add", when, b.const(by, i64)))

    return wrong


def _first(self, b, indices, when):
    """Mark the first store only."""
    b.atomic("max", self.marks, (*indices, b.const(1, i64)), b.op("sub", b.const(marks.FIRST, i64), when))


PLANTS = {
    "no look": ("_look", _never, MEETS),
    "one early": ("_mark", _shifted(-1), AT_ONCE),
    "two late": ("_mark", _shifted(2), RIGHT),
    "first store alone": ("_mark", _first, MEETS),
}
"""The method of the writer of marks, what stands in its place, and the places on which it is wrong."""


@pytest.mark.parametrize("name", PLANTS)
def test_a_mistake_in_marks_shows(name: str) -> None:
    method, wrong, places = PLANTS[name]
    with patched(_Writer, method, wrong):
        assert refused(places) == (places == RIGHT)
    assert refused(places) == (places != RIGHT)
