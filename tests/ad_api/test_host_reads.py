"""Test warnings for values with a derivative that the host reads: one for each line, and none for harmless reads."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.harness.testing.executors import present_backends


@pytest.fixture(params=["reference", "cpu", "vulkan"], autouse=True)
def arch(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "vulkan" and not present_backends(["vulkan"])[0]:
        pytest.skip("no Vulkan device")
    sg.init(arch=request.param, default_fp=sg.f64)
    yield request.param
    sg.reset()


class Means:
    """Represent a program: m = mean of x; v holds vectors of x; c is constant, n an integer; loss = sum (x - mu)^2."""

    def __init__(self) -> None:
        self.x, self.m, self.loss, self.c = (sg.field(sg.f64, k, needs_grad=True) for k in (3, (), (), ()))
        self.v = sg.Vector.field(2, sg.f64, 3, needs_grad=True)
        self.plain, self.n = sg.field(sg.f64, ()), sg.field(sg.i32, ())
        self.x.from_numpy(np.array([0.25, 0.5, 0.75]))
        x, m, loss, c, v, plain, n = self.x, self.m, self.loss, self.c, self.v, self.plain, self.n

        @sg.kernel
        def mean():
            for i in x:
                m[None] += x[i] / 3.0

        @sg.kernel
        def fan():
            for i in x:
                v[i] = [x[i], 2.0]

        @sg.kernel
        def constants():
            c[None] = 2.0
            plain[None] = x[0]
            n[None] = 3

        self.mean, self.fan, self.constants = mean, fan, constants
        self.use(x, m, loss)

    def use(self, x: Any, m: Any, loss: Any) -> None:
        """Add kernels that return results, and kernels that take values which the host has read."""

        @sg.kernel
        def result() -> sg.f64:
            return x[0] + x[1]

        @sg.kernel
        def count() -> sg.i32:
            return sg.cast(x[0] * 8.0, sg.i32)

        @sg.kernel
        def spread(mu: sg.f64):
            for i in x:
                loss[None] += (x[i] - mu) ** 2

        @sg.kernel
        def clear():
            m[None] = 0.0

        self.result, self.count, self.spread, self.clear = result, count, spread, clear


Said = list[warnings.WarningMessage]


def said(block: Callable[[Means], Any], p: Means, forward: bool = False, **options: Any) -> Said:
    """Return the warnings that a block issues under a tape or in forward mode."""
    seeds = {"seed": np.ones(3)}
    mode = sg.ad.FwdMode(p.loss, p.x, **seeds) if forward else sg.ad.Tape(p.loss, **options)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with mode:
            block(p)
    return found


def through_a_number(p: Means) -> None:
    p.mean()
    p.spread(p.m[None])


def through_a_result(p: Means) -> None:
    p.spread(p.result())


def through_numpy(p: Means) -> None:
    p.mean()
    p.c.from_numpy(p.m.to_numpy())


def through_a_field(p: Means) -> None:
    p.mean()
    p.c.from_numpy(p.m)


def through_an_entry(p: Means) -> None:
    p.fan()
    p.spread(p.v[1][0])


def through_a_vector(p: Means) -> None:
    p.fan()
    p.v[0] = p.v[1] * 2.0


def through_a_copy(p: Means) -> None:
    p.mean()
    p.c.copy_from(p.m)
    p.spread(p.c[None])


def through_a_view(p: Means) -> None:
    p.mean()
    p.spread(float(p.m.to_numpy(copy=None)))


ACTIVE = [
    through_a_number,
    through_a_result,
    through_numpy,
    through_a_field,
    through_an_entry,
    through_a_vector,
    through_a_copy,
    through_a_view,
]


@pytest.mark.rotating
@pytest.mark.parametrize("forward", [False, True], ids=["tape", "forward"])
@pytest.mark.parametrize("block", ACTIVE)
def test_what_is_active_is_told_with_both_lines(block: Callable[[Means], Any], forward: bool) -> None:
    found = [w for w in said(block, Means(), forward) if w.category is sg.ad.LostGradientWarning]
    assert len(found) == 1, [str(w.message) for w in found]
    text, code = str(found[0].message), block.__code__
    lines = range(code.co_firstlineno, code.co_firstlineno + 4)
    assert found[0].filename == __file__ and found[0].lineno in lines, "the read in the user's program"
    launched = int(text.split(f", launched at {__file__}:")[1].split(",")[0])
    assert launched in lines and "as a number of the host it has no derivative" in text
    assert "cure: " in text and "sg.ad.no_grad" in text


@pytest.mark.parametrize("block", [b for b in ACTIVE if b is not through_a_view])
def test_under_validation_it_is_an_error(block: Callable[[Means], Any]) -> None:
    with pytest.raises(sg.TapeError, match="as a number of the host it has no derivative"):
        said(block, Means(), validation=True)


def reads_before_the_launch(p: Means) -> None:
    p.spread(p.m[None])
    p.mean()


def reads_an_input(p: Means) -> None:
    p.mean()
    p.spread(p.x[0])
    p.x.to_numpy()


def reads_constants(p: Means) -> None:
    p.constants()
    p.spread(p.c[None] + p.plain[None] + p.n[None])
    p.count()


def reads_what_the_host_wrote(p: Means) -> None:
    p.mean()
    p.m[None] = 2.0
    p.spread(p.m[None])


def reads_what_a_launch_replaced(p: Means) -> None:
    p.mean()
    p.clear()
    p.spread(p.m[None])


def reads_another_element(p: Means) -> None:
    p.fan()
    assert p.v[1].n == 2
    p.v[1][0] = 2.0
    p.v[1].x = 2.0


def reads_in_no_grad(p: Means) -> None:
    p.mean()
    sg.ad.no_grad(lambda: (p.m[None], p.result()))()


def drops_a_result(p: Means) -> None:
    p.result()


def reads_gradients(p: Means) -> None:
    p.mean()
    p.x.grad.to_numpy()


def reads_what_a_constant_was_copied_to(p: Means) -> None:
    p.mean()
    p.clear()
    p.c.copy_from(p.m)
    p.spread(p.c[None])


HARMLESS = [
    reads_before_the_launch,
    reads_an_input,
    reads_constants,
    reads_what_the_host_wrote,
    reads_what_a_launch_replaced,
    reads_another_element,
    reads_in_no_grad,
    drops_a_result,
    reads_gradients,
    reads_what_a_constant_was_copied_to,
]


@pytest.mark.rotating
@pytest.mark.parametrize("forward", [False, True], ids=["tape", "forward"])
@pytest.mark.parametrize("block", HARMLESS)
def test_harmless_reads_are_not_told(block: Callable[[Means], Any], forward: bool) -> None:
    p = Means()
    assert not [str(w.message) for w in said(block, p, forward)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p.loss[None], p.m[None], p.result(), p.v.to_numpy(), p.v[0][0]


def test_once_for_each_place() -> None:
    def block(p: Means) -> None:
        for _ in range(5):
            p.mean()
            p.m[None]
            p.m.to_numpy()

    assert len(said(block, Means())) == 2


def test_inside_two_tapes_it_is_told_once() -> None:
    p = Means()
    inner = sg.field(sg.f64, (), needs_grad=True)

    def block(p: Means) -> None:
        with sg.ad.Tape(inner):
            p.mean()
            p.m[None]

    assert len(said(block, p)) == 1


def test_gradients_of_ones_own_read_what_they_want() -> None:
    p = Means()

    @sg.ad.grad_replaced
    def own() -> None:
        p.mean()
        p.spread(p.m[None])

    @sg.ad.grad_for(own)
    def back() -> None:
        p.x.grad.fill(p.m[None])

    assert not said(lambda p: own(), p)
    assert np.allclose(p.x.grad.to_numpy(), p.m[None], rtol=1e-15)


def test_long_chains_are_taken_for_active() -> None:
    a, b, loss = (sg.field(sg.f64, k, needs_grad=True) for k in ((), (), ()))

    @sg.kernel
    def step():
        b[None] = a[None] * 2.0

    def block(p: Means) -> None:
        for _ in range(40):
            step()
            a.copy_from(b)
        a[None]

    p = Means()
    p.loss = loss
    assert len(said(block, p)) == 1
