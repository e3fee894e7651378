"""The state that a gradient is taken at: ten programs that each turn on one rule.

Gradients called by hand are taken at the present content of memory; those of a tape at the content that each launch
saw. Expected values are central differences of the whole program, or calculus.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from recorded_support import gradients, memory_of, near
from stackgrad.ad import Tape
from stackgrad.runtime.session import RUNTIME
from state_programs import ARCHES, START, N, Program, Run, differences, make

pytestmark = pytest.mark.parametrize("arch", ARCHES)


def agrees(arch: str, program: Program, at: np.ndarray = START) -> Run:
    """The gradient under a tape is right, twice; the primals are those of a run without one."""
    run = Run(arch, program)
    expected = differences(run, at)
    final = (run.value(at), run.f.x.to_numpy(), run.f.c.to_numpy())
    for _ in range(2):
        np.testing.assert_allclose(run.gradient(at), expected, rtol=2e-6, atol=1e-9)
        assert run.f.loss[None] == final[0]
        np.testing.assert_array_equal(run.f.x.to_numpy(), final[1])
        np.testing.assert_array_equal(run.f.c.to_numpy(), final[2])
    return run


def refused_by_hand(run: Run, *fragments: str) -> None:
    """The gradient of the first kernel, called by hand, is refused, with this file and these parts of the message."""
    run.value(START)
    with pytest.raises(sg.NotDifferentiable) as caught:
        run.kernels[0].grad()
    text = str(caught.value)
    for fragment in (__file__, "^", "cure:", "sg.ad.Tape", *fragments):
        assert fragment in text, text


# ---- one kernel that overwrites what its gradient reads -----------------------------------------------------


def test_a_bound_that_is_read_looped_over_and_cleared(arch: str) -> None:
    def program(f: SimpleNamespace) -> list[Any]:
        x, c = f.x, f.c

        @sg.kernel
        def consume():
            for i in x:
                v = x[i]
                for _ in range(c[i]):
                    v = sg.sin(v)
                x[i] = v * v
                c[i] = 0

        return [consume, consume]

    run = agrees(arch, program)
    assert not run.f.c.to_numpy().any()
    refused_by_hand(run, "'c'", "overwrite")


def test_a_while_loop_on_the_element_that_it_shrinks(arch: str) -> None:
    def program(f: SimpleNamespace) -> list[Any]:
        x = f.x

        @sg.kernel
        def halve():
            for i in x:
                while x[i] > 1.0:
                    x[i] *= 0.5

        return [halve]

    at = np.array([3.0, 0.7, 17.0, 1.5, 8.5])
    run = agrees(arch, program, at)
    np.testing.assert_array_equal(run.f.x.grad.to_numpy(), 2 * at * 0.25 ** np.array([2, 0, 5, 1, 4]))
    refused_by_hand(run, "'x'", "overwrite")


def test_a_permutation_in_place(arch: str) -> None:
    """Along the cycles of a table, in a serial loop, with a factor that depends on what is moved."""

    def program(f: SimpleNamespace) -> list[Any]:
        x, to = f.x, sg.field(sg.i32, (N,))
        to.from_numpy(np.array([2, 4, 3, 0, 1], np.int32))

        @sg.kernel
        def permute():
            for _ in range(1):
                for start in range(2):
                    held = x[start]
                    at = to[start]
                    while at != start:
                        moved = x[at]
                        x[at] = held * moved + held
                        held = moved
                        at = to[at]
                    x[start] = held * held

        return [permute]

    refused_by_hand(agrees(arch, program), "'x'")


# ---- several launches ---------------------------------------------------------------------------------------


class Particles:
    """Four steps: particles to a grid that is cleared before, the grid halved, and back. Row s of x is step s."""

    steps = 4

    def __init__(self) -> None:
        x = self.x = sg.field(sg.f64, (self.steps + 1, N), needs_grad=True)
        grid = self.grid = sg.field(sg.f64, (3,), needs_grad=True)
        loss = self.loss = sg.field(sg.f64, (), needs_grad=True)

        @sg.kernel
        def p2g(s: sg.i32):
            for i in range(N):
                grid[i % 3] += sg.sin(x[s, i])

        @sg.kernel
        def damp():
            for g in grid:
                grid[g] = 0.5 * grid[g]

        @sg.kernel
        def g2p(s: sg.i32):
            for i in range(N):
                x[s + 1, i] = x[s, i] + 0.1 * grid[i % 3] * grid[(i + 1) % 3]

        @sg.kernel
        def total():
            for i in range(N):
                loss[None] += x[Particles.steps, i] ** 2

        self.p2g, self.damp, self.g2p, self.total = p2g, damp, g2p, total

    def rebuild(self, s: int) -> None:
        """The grid as step s saw it."""
        self.grid.fill(0)
        self.p2g(s)
        self.damp()

    def forward(self, start: np.ndarray) -> float:
        self.x.from_numpy(np.concatenate([start[None], np.zeros((self.steps, N))]))
        self.loss[None] = 0
        for s in range(self.steps):
            self.rebuild(s)
            self.g2p(s)
        self.total()
        return float(self.loss[None])


def test_a_grid_that_is_cleared_and_rebuilt_each_step_with_gradients_called_by_hand(arch: str) -> None:
    """The backward pass rebuilds the grid of each step before it calls the gradients of that step."""
    sg.init(arch=arch, default_fp=sg.f64)
    p = Particles()
    p.forward(START)
    sg.ad.clear_all_gradients()
    p.loss.grad[None] = 1
    p.total.grad()
    for s in reversed(range(p.steps)):
        p.rebuild(s)
        p.grid.grad.fill(0)
        p.g2p.grad(s)
        p.damp.grad()
        p.p2g.grad(s)
    found = p.x.grad.to_numpy()[0]
    moved = [[p.forward(START + sign * 1e-6 * np.eye(N)[k]) for sign in (1, -1)] for k in range(N)]
    np.testing.assert_allclose(found, [(a - b) / 2e-6 for a, b in moved], rtol=1e-6)


def test_two_kernels_that_overwrite_one_field(arch: str) -> None:
    def program(f: SimpleNamespace) -> list[Any]:
        x, y = f.x, f.y
        shared = sg.field(sg.f64, (N,), needs_grad=True)

        @sg.kernel
        def squares():
            for i in x:
                shared[i] = x[i] * x[i]

        @sg.kernel
        def sines():
            for i in x:
                shared[i] = sg.sin(x[i]) * shared[i]

        @sg.kernel
        def use():
            for i in x:
                y[i] += shared[i] * shared[(i + 1) % N]

        return [squares, use, sines, use, squares, use]

    run = agrees(arch, program)
    assert run.tape.used_bytes >= 2 * 8 * N, "what two gradients of `use` read was overwritten"


def test_a_bound_that_changes_between_forward_and_backward(arch: str) -> None:
    """By a kernel and by the host, under the tape and after it."""
    f = make(arch)
    x, y, c, loss = f.x, f.y, f.c, f.loss

    @sg.kernel
    def power():
        for i in x:
            v = 1.0
            for _ in range(c[i]):
                v = v * x[i]
            y[i] += v

    @sg.kernel
    def more():
        for i in c:
            c[i] += 2

    @sg.kernel
    def total():
        for i in y:
            loss[None] += y[i]

    x.from_numpy(START)
    c.from_numpy(np.array([1, 2, 0, 3, 2], np.int32))
    with Tape(loss, retain=True) as tape:
        power()
        more()
        power()
        c.fill(1)
        total()
        c.fill(7)
    counts = np.array([1, 2, 0, 3, 2])
    expected = sum(n * START ** np.maximum(n - 1, 0) for n in (counts, counts + 2))
    changes = [{"c": n.astype(np.int32), "y.grad": np.ones(N)} for n in (counts + 2, counts)]
    known = gradients(power.ir(), memory_of(x=x, y=y) | {"x.grad": np.zeros(N)}, changes)
    near(known, "x.grad", x.grad.to_numpy(), expected)
    assert c.to_numpy().tolist() == [7] * N and tape.used_bytes == 2 * 4 * N
    tape.grad()
    near(known, "x.grad", x.grad.to_numpy(), expected)


def test_a_thousand_steps_indexed_by_time_save_nothing(arch: str) -> None:
    steps = 1000
    sg.init(arch=arch, default_fp=sg.f64)
    s, loss = sg.field(sg.f64, (steps + 1, 2), needs_grad=True), sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def step(t: sg.i32):
        for i in range(2):
            s[t + 1, i] = s[t, i] + 0.01 * s[t, i] * (1.0 - s[t, i] - 0.5 * s[t, 1 - i])

    @sg.kernel
    def last():
        loss[None] += s[steps, 0] + 2.0 * s[steps, 1]

    a = np.array([0.3, 0.8])
    s[0, 0], s[0, 1] = a
    with Tape(loss, budget_bytes=0) as tape:
        for t in range(steps):
            step(t)
        last()
    slope = np.eye(2)
    for _ in range(steps):
        rate = 1 - a - 0.5 * a[::-1]
        slope = (np.eye(2) + 0.01 * (np.diag(rate - a) - 0.5 * np.diag(a)[:, ::-1])) @ slope
        a = a + 0.01 * a * rate
    assert tape.used_bytes == 0
    np.testing.assert_allclose(s.to_numpy()[steps], a, rtol=1e-12)
    np.testing.assert_allclose(s.grad.to_numpy()[0], np.array([1.0, 2.0]) @ slope, rtol=1e-11)


def test_particles_that_scatter_to_a_grid(arch: str) -> None:
    """Under a tape over three steps, each of which clears the grid; weights and cells depend on the particle."""

    def program(f: SimpleNamespace) -> list[Any]:
        x, grid = f.x, sg.field(sg.f64, (4,), needs_grad=True)

        @sg.kernel
        def clear():
            for g in grid:
                grid[g] = 0.0

        @sg.kernel
        def scatter():
            for i in x:
                base = int(x[i] * 2.0)
                part = x[i] * 2.0 - base
                for j in range(2):
                    weight = part if j == 1 else 1.0 - part
                    grid[(base + j) % 4] += weight * x[i] * x[i]

        @sg.kernel
        def gather():
            for i in x:
                base = int(x[i] * 2.0)
                x[i] += 0.05 * grid[base % 4] * grid[(base + 1) % 4]

        return [clear, scatter, gather] * 3

    agrees(arch, program, np.array([0.3, 0.7, 1.1, 0.55, 0.9]))


# ---- tapes that do not end well -----------------------------------------------------------------------------


def overwriting(f: SimpleNamespace) -> list[Any]:
    """A kernel whose gradient reads x, and one that overwrites x."""
    x, loss = f.x, f.loss

    @sg.kernel
    def read():
        for i in x:
            loss[None] += x[i] * x[i]

    @sg.kernel
    def grow():
        for i in x:
            x[i] += 1.0

    return [read, grow]


def test_a_tape_over_its_budget(arch: str) -> None:
    """The launch that needs too much does not run; the message names array, kernels, lines, sizes and the cure."""
    run = Run(arch, overwriting)
    run.start(START)
    with pytest.raises(sg.TapeError) as caught, Tape(run.f.loss, budget_bytes=2 * 8 * N + 1):
        for _ in range(3):
            for kernel in run.kernels:
                kernel()
    sizes = "field 'x' takes 40 bytes, 80 of 81 are in use"
    for part in ("over its budget", "kernel grow", "kernel read", sizes, "budget_bytes"):
        assert part in str(caught.value), str(caught.value)
    assert str(caught.value).count(f"{__file__}:") == 3, "the launch and both kernels"
    np.testing.assert_array_equal(run.f.x.to_numpy(), START + 1.0 + 1.0)
    assert not run.f.x.grad.to_numpy().any() and not RUNTIME.tapes


def test_an_exception_in_the_body(arch: str) -> None:
    """It leaves the block as it is; nothing runs backward, memory stays, and the next tape is right."""
    run = Run(arch, overwriting)
    run.start(START)
    with pytest.raises(ZeroDivisionError), Tape(run.f.loss):
        run.kernels[0]()
        run.kernels[1]()
        run.f.x.grad.fill(3.0)
        raise ZeroDivisionError
    np.testing.assert_array_equal(run.f.x.to_numpy(), START + 1.0)
    assert (run.f.x.grad.to_numpy() == 3.0).all() and not RUNTIME.tapes
    np.testing.assert_array_equal(run.gradient(START), 2 * START + 2 * (START + 1.0))


# ---- memory of a tape ---------------------------------------------------------------------------------------


def test_budget_and_use_can_be_read_at_any_time(arch: str) -> None:
    """budget_bytes may be set and read; used_bytes grows with each launch that overwrites, and stays readable."""
    run = Run(arch, overwriting)
    run.start(START)
    seen = []
    with Tape(run.f.loss, budget_bytes=1000) as tape:
        assert tape.budget_bytes == 1000
        tape.budget_bytes = 3 * 8 * N
        for _ in range(3):
            seen.append(tape.used_bytes)
            for kernel in run.kernels:
                kernel()
    assert seen == [0, 8 * N, 2 * 8 * N] and tape.used_bytes == 3 * 8 * N
    assert tape.budget_bytes == 3 * 8 * N
    np.testing.assert_array_equal(run.f.x.grad.to_numpy(), 2 * (START + 2.0) + 2 * (START + 1.0) + 2 * START)


def test_what_a_kernel_overwrites_itself_counts_too(arch: str) -> None:
    f = make(arch)
    x = f.x
    x.from_numpy(START)

    @sg.kernel
    def step():
        for i in x:
            x[i] = sg.sin(x[i])

    with Tape(f.loss) as tape:
        step()
        assert tape.used_bytes == 8 * N
