# ruff: noqa: B020, F821, F823, F841 - globals are those of the fixture `outside`; what Python would refuse is the point
"""Names that a function reads, or updates, although it makes a local of them further on, or made one in a block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stackgrad as sg

pytestmark = pytest.mark.usefixtures("outside")
V = np.array([0.3, 0.4, 0.5])
factor = 5.0


@sg.func
def twice(a):
    return 2.0 * a


def marked_line(function: Any, mark: str) -> int | None:
    """The line of a function that ends in this comment; None if it has no such line."""
    lines = Path(__file__).read_text().splitlines()
    first = function.__code__.co_firstlineno
    end = next(k for k, text in enumerate(lines[first:], first) if not text.strip())
    return next((k for k in range(first, end + 1) if lines[k - 1].endswith(f"# {mark}")), None)


def read_before():
    for i in x:
        y[i] = act[i] + act[i]  # read
        act = x[i]  # assigned
        loss[None] += act * y[i]


def read_on_its_own_right():
    for i in x:
        act = act[i] * x[i]  # read
        loss[None] += act


def looped_over():
    for act in act:  # read
        loss[None] += x[act] ** 2


def called_before():
    for i in x:
        y[i] = twice(V[0])  # read
        twice = x[i]  # assigned
        loss[None] += twice * y[i]


def read_in_each_unrolled_iteration():
    for i in x:
        for _ in sg.static(range(2)):
            loss[None] += act[i] * x[i]  # read
            act = 100.0  # assigned
            loss[None] += act


def beside_a_branch_that_is_not_there():
    if sg.static(factor < 0.0):
        act = 1.0  # assigned
    for i in x:
        loss[None] += act[i] * x[i]  # read


def in_a_static_expression():
    for i in range(sg.static(act.shape[0])):  # read
        act = x[i]  # assigned
        loss[None] += act


def the_package():
    for i in sg.static(range(3)):  # read
        sg = x[i]  # assigned
        loss[None] += sg


@sg.func
def reads_before(i):
    v = act[i]  # read
    act = 2.0  # assigned
    return v * act


def in_a_function():
    for i in x:
        loss[None] += reads_before(i) * x[i] + reads_before(i)


READ_BEFORE = [
    (read_before, "act", 20 * V),
    (read_on_its_own_right, "act", 10 * V),
    (looped_over, "act", 2 * V),
    (called_before, "twice", np.full(3, 2 * V[0])),
    (read_in_each_unrolled_iteration, "act", 20 * V),
    (beside_a_branch_that_is_not_there, "act", 10 * V),
    (in_a_static_expression, "act", np.ones(3)),
    (the_package, "sg", np.ones(3)),
    (in_a_function, "act", 20 * V),
]


@pytest.mark.parametrize(("function", "name", "slope"), READ_BEFORE, ids=[f.__name__ for f, _, _ in READ_BEFORE])
def test_is_read_before_it_is_a_local(function: Any, name: str, slope: np.ndarray) -> None:
    """The global is read, with one warning: carets under the first read, the line that assigns, a cure."""
    k = sg.kernel(function)
    with pytest.warns(sg.KernelWarning) as found, sg.ad.Tape(loss):
        k()
    np.testing.assert_allclose(x.grad.to_numpy(), slope, rtol=1e-12)
    (text,) = [str(one.message) for one in found]
    source = reads_before.function if function is in_a_function else function
    read = marked_line(source, "read")
    head, code, carets, cure = text.splitlines()
    assert head.startswith(f"{__file__}:{read}:")
    assert f"line {marked_line(source, 'assigned') or read} makes it a local of `{source.__name__}`" in head
    at = carets.index("^")
    assert code[at : at + carets.count("^")] == name
    assert "give the local another name" in cure


def test_a_local_that_nothing_reads_is_told_of() -> None:
    """A field that is meant to be overwritten as a whole would silently stay as it is."""

    @sg.kernel
    def k():
        act = 0.0  # here
        for i in x:
            loss[None] += x[i]

    with pytest.warns(sg.KernelWarning, match="`act` is a local of `k` that nothing reads") as found:
        k()
    assert len(found) == 1 and "write `act[i] = ...`" in str(found[0].message)


@pytest.mark.filterwarnings("ignore::stackgrad.KernelWarning")
def test_a_global_that_is_read_before_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    k = sg.kernel(read_before)
    k()
    other = sg.field(sg.f64, 3)
    other.fill(1.0)
    monkeypatch.setitem(globals(), "act", other)
    loss[None] = 0.0
    k()
    assert y.to_numpy().tolist() == [2.0] * 3 and loss[None] == pytest.approx(2 * V.sum())


# ---- what is refused ------------------------------------------------------------------------------------------------


def used_after_its_branch():
    for i in x:
        if x[i] > 0.35:
            act = 3.0
        loss[None] += act[i]  # here


def used_in_the_other_branch():
    for i in x:
        if x[i] > 0.35:
            act = 3.0
            loss[None] += act
        else:
            loss[None] += act[i]  # here


def used_in_the_next_loop():
    for i in x:
        act = x[i]
        loss[None] += act
    for i in x:
        loss[None] += act[i]  # here


def used_after_an_unrolled_loop():
    for i in x:
        for _ in sg.static(range(2)):
            act = x[i]
            loss[None] += act
        loss[None] += act[i]  # here


def used_in_the_other_choice():
    for i in x:
        loss[None] += (act := x[i]) if x[i] > 0.35 else act[i]  # here


def updated():
    for i in x:
        act += x[i]  # here


def updated_view():
    for i in x:
        part += x[i]  # here


def updated_number():
    for i in x:
        factor += x[i]  # here


def updated_function():
    for i in x:
        twice *= x[i]  # here


AFTER = "first assigned inside the block at line"
EARLY = "is used before it has a value"
REFUSED = [
    (used_after_its_branch, AFTER, "if `act` outside of `used_after_its_branch` is meant"),
    (used_in_the_other_branch, AFTER, "or the local another name"),
    (used_in_the_next_loop, AFTER, "or the local another name"),
    (used_after_an_unrolled_loop, AFTER, "or the local another name"),
    (used_in_the_other_choice, AFTER, "or the local another name"),
    (updated, EARLY, "write `act[i]` for an element of the field"),
    (updated_view, EARLY, "write `part[i]` for an element of the view"),
    (updated_number, EARLY, "assign `factor` first"),
    (updated_function, EARLY, "assign `twice` first"),
]


@pytest.mark.parametrize(("function", "reason", "cure"), REFUSED, ids=[f.__name__ for f, _, _ in REFUSED])
def test_is_refused(function: Any, reason: str, cure: str) -> None:
    with pytest.raises(sg.KernelNameError) as caught:
        sg.kernel(function)()
    (found,) = caught.value.diagnostics
    assert reason in found.reason and cure in found.cure
    assert found.span is not None and found.span.line == marked_line(function, "here")
