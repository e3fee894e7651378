"""Test kernels whose conflicts depend on data, so that marks find them at a launch, and indices claimed to be unique.

Gradients of accepted launches are compared with dual numbers on the kernel as written, or with differences.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.compiler.ad import marks
from stackgrad.compiler.driver import prepare_reverse
from stackgrad.compiler.ir.nodes import Atomic
from stackgrad.compiler.ir.walk import walk_kernel

_spec = importlib.util.spec_from_file_location("dependence_support", Path(__file__).with_name("dependence_support.py"))
assert _spec and _spec.loader
support = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(support)
ints, judge, real, refused, taped = support.ints, support.judge, support.real, support.refused, support.taped
NUMBERS = support.NUMBERS


@pytest.fixture(autouse=True, params=support.BACKENDS)
def machine(request):
    support.start(request.param)


# ---- marks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(5, 3, 0, 1, 4, 2), (0, 1, 2, 3, 4, 5)])
def test_a_permutation_in_place(order):
    """x[p[i]] = f(x[p[i]]): right under a tape; by hand the old content is gone."""
    x, p = real(*NUMBERS[:6]), ints(*order)

    @sg.kernel
    def run():
        for i in range(6):
            x[p[i]] = sg.sin(x[p[i]]) * x[p[i]]

    taped(run, x, x)


def test_a_permutation_with_duplicates():
    x, p = real(*NUMBERS[:6]), ints(0, 1, 2, 3, 1, 5)

    @sg.kernel
    def run():
        for i in range(6):
            x[p[i]] = 0.5 * x[p[i]]

    refused(run, "iteration 1 of this parallel loop reads x[1], which iteration 4 writes")


def test_two_halves_by_indices():
    """x[q[i]] from x[p[i]]: right by hand while no index is in both; looked at again when an index array changes."""
    x, p, q = real(*NUMBERS), ints(0, 2, 4, 6, 0), ints(1, 3, 5, 7, 1)
    q.from_numpy(np.array([1, 3, 5, 7, 1], np.int32))

    @sg.kernel
    def run():
        for i in range(4):
            x[q[i]] = x[p[i]] * x[p[i]]

    judge(run)
    run.grad()
    run.grad()
    assert run.program().reverse().stats.markings == 1
    q[2] = 2
    with pytest.raises(sg.NotDifferentiable, match=r"iteration 1 .* reads x\[2\], which iteration 2 writes"):
        run.grad()
    q[2] = 5
    run.grad()
    assert run.program().reverse().stats.markings == 3


def test_pairs_from_both_ends():
    """Of (i, n - 1 - i) one is read and one written: right for one half of the range, a conflict for all of it."""
    x = real(*NUMBERS)

    @sg.kernel
    def run(m: sg.i32):
        for i in range(m):
            x[i] = x[7 - i] * x[7 - i]

    judge(run, 4)
    with pytest.raises(sg.NotDifferentiable, match=r"reads x\[\d\], which iteration \d writes"):
        run.grad(8)


def test_a_gather_with_duplicates():
    x, y, p = real(*NUMBERS), real(*[0.0] * 8), ints(0, 0, 3, 3, 3, 1, 7, 0)

    @sg.kernel
    def run():
        for i in x:
            y[i] = x[p[i]] * x[p[i]]

    judge(run)
    assert run.program().reverse().lowered.marking is None


def test_particles_to_a_grid():
    x, m, grid = real(0.2, 1.4, 1.6, 2.9), real(1.0, 2.0, 0.5, 0.7), real(*[0.0] * 5)

    @sg.kernel
    def run():
        for i in x:
            base = sg.cast(x[i], sg.i32)
            f = x[i] - base
            grid[base] += m[i] * (1.0 - f) * (1.0 - f)
            grid[base + 1] += m[i] * f * f

    judge(run)
    assert run.program().reverse().lowered.marking is None


def test_a_write_after_the_read_in_one_iteration():
    """x[p[i]] is read, x[q[i]] overwritten afterwards: by hand it is right while they differ; under a tape always."""
    x, y, p, q = real(*NUMBERS[:6]), real(0.0, 0.0, 0.0), ints(0, 1, 2), ints(3, 4, 5)

    @sg.kernel
    def run():
        for i in range(3):
            y[i] = x[p[i]] * x[p[i]]
            x[q[i]] = 0.0

    judge(run)
    p[1] = 4
    with pytest.raises(sg.NotDifferentiable, match=r"value of x\[4\] read here in iteration 1, which the kernel over"):
        run.grad()
    x.from_numpy(np.array(NUMBERS[:6]))
    taped(run, x, y)


def test_the_order_within_an_iteration_counts():
    """A write before the read does no harm."""
    x, y, p, q = real(*NUMBERS[:6]), real(0.0, 0.0, 0.0), ints(0, 4, 2), ints(3, 4, 5)

    @sg.kernel
    def run():
        for i in range(3):
            x[q[i]] = y[i] + 0.5
            y[i] = x[p[i]] * x[p[i]]

    judge(run)


def test_a_later_loop_that_overwrites():
    x, y, p, q = real(*NUMBERS[:6]), real(0.0, 0.0, 0.0), ints(0, 1, 2), ints(3, 4, 5)

    @sg.kernel
    def run():
        for i in range(3):
            y[i] = x[p[i]] * x[p[i]]
        for i in range(3):
            x[q[i]] = 1.0

    judge(run)
    q[0] = 1
    with pytest.raises(sg.NotDifferentiable, match=r"value of x\[1\] read here in iteration 1"):
        run.grad()


def test_indices_that_are_overwritten_too():
    """Which elements it was cannot be found again: refused before any launch."""
    x, p = real(*NUMBERS), ints(*range(8))

    @sg.kernel
    def run():
        for i in range(8):
            x[p[i]] = x[7 - i] * 0.5
            p[i] = 0

    loss = sg.field(sg.f64, (), needs_grad=True)
    with pytest.raises(sg.NotDifferentiable, match="value of 'p' read here"):
        run.grad()
    with pytest.raises(sg.NotDifferentiable, match=r"different elements[^$]*sg\.assume_unique"), sg.ad.Tape(loss):
        run()


def test_marks_in_branches_and_loops():
    """Only what runs is marked."""
    x, p, n = real(*NUMBERS), ints(0, 1, 2, 3, 4, 5, 6, 7), ints(0, 1, 2, 1)

    @sg.kernel
    def run():
        for i in range(4):
            for k in range(n[i]):
                if p[i] != 1:
                    x[p[i + 4]] = x[p[i]] * x[p[k]] + x[p[i]]

    judge(run)


def halves_by_indices():
    x, p, q = real(*NUMBERS[:6]), ints(2, 0, 1), ints(5, 3, 4)

    @sg.kernel
    def run():
        for i in range(3):
            x[q[i]] = x[p[i]] * x[p[i]]

    return run


def halves_in_loops():
    x, p, q = real(*NUMBERS[:6]), ints(2, 0, 1), ints(5, 3, 4)

    @sg.kernel
    def run():
        for i in range(3):
            for k in range(i + 1):
                x[q[i]] = sg.sin(x[p[i]]) * (k + 1)

    return run


def test_an_index_outside_is_one_of_the_marked_array():
    """Looked at by the marking kernel first, whose own arrays no user has seen."""
    sg.init(arch=sg.runtime.session.RUNTIME.settings.arch, default_fp=sg.f64, debug=True)
    x, y = sg.field(sg.f64, (2, 5), needs_grad=True), sg.field(sg.f64, 5, needs_grad=True)
    p, q = ints(0, 1, 7, 3, 4), ints(1, 1, 1, 1, 1)

    @sg.kernel
    def run(n: sg.i32):
        for i in range(n):
            x[q[i], p[i]] = sg.sin(x[0, p[i]]) * y[i]

    with pytest.raises(sg.OutOfBounds, match=r"index 7 .*outside") as caught:
        run.grad(5)
    words = str(caught.value)
    assert "outside axis 1 of x," in words or "of axis 1 is outside `x`" in words, words
    assert "test_marks.py:" in words


@pytest.mark.parametrize(
    ("limit", "program", "least", "reason"),
    [
        ("ITERATIONS", halves_by_indices, 3, "this parallel loop has more than 2 iterations"),
        ("ACCESSES", halves_in_loops, 7, "an iteration of this parallel loop has 6 accesses or more"),
        ("ELEMENTS", halves_by_indices, 7, "x has 6 elements"),
    ],
)
def test_more_than_marks_have_room_for(monkeypatch, limit, program, least, reason):
    """Numbers that do not fit are an error at the read, before anything is written; those that do are right."""
    monkeypatch.setattr(marks, limit, least)
    run = program()
    judge(run)
    monkeypatch.setattr(marks, limit, least - 1)
    run = program()
    refused(run, reason, "which is more than can be looked at before the launch", "at elements of x is not known")


# ---- claims ---------------------------------------------------------------------------------------------------


def test_a_claim_needs_neither_marks_nor_atomics():
    """An element claimed to be the iteration's own is kept in a local, as y[i] is."""
    x, y, p = real(*NUMBERS[:4]), real(*[0.0] * 4), ints(3, 1, 0, 2)

    @sg.kernel
    def run():
        for i in range(4):
            j = sg.assume_unique(p[i])
            y[j] = x[j]
            for _ in range(3):
                y[j] = sg.sin(y[j]) * 1.5

    judge(run)
    lowered = prepare_reverse(run.ir())
    assert lowered.marking is None
    assert not any(isinstance(s, Atomic) for s in walk_kernel(lowered.kernel))


def test_a_claim_on_two_indices_together():
    x, p, q = real(np.linspace(0.2, 0.9, 6).reshape(2, 3)), ints(0, 0, 1, 1), ints(0, 2, 2, 0)

    @sg.kernel
    def run():
        for i in range(4):
            a, b = sg.assume_unique(p[i], q[i])
            x[a, b] = 0.5 * x[a, b]

    judge(run)
    assert prepare_reverse(run.ir()).marking is None


def test_a_claim_that_does_not_hold():
    """Found on the reference and under debug, by hand and under a tape."""
    sg.init(arch=sg.cpu, default_fp=sg.f64, debug=True) if sg.runtime.session.RUNTIME.settings.arch == "cpu" else None
    x, y, p = real(*NUMBERS[:4]), real(*[0.0] * 4), ints(3, 1, 0, 1)

    @sg.kernel
    def run():
        for i in range(4):
            j = sg.assume_unique(p[i])
            y[j] = x[i] * x[i]

    refused(run, "sg.assume_unique does not hold: iterations 1 and 3", "both touch y[1]")
    p[3] = 2
    judge(run)
    run.grad()


@pytest.mark.parametrize("needs_grad", [False, True])
def test_a_claim_is_looked_at_after_each_launch_under_debug(needs_grad):
    """Whether a gradient is taken or not; else, and where the program makes no claim, nothing is looked at."""
    arch = sg.runtime.session.RUNTIME.settings.arch

    def start(debug):
        sg.init(arch=arch, default_fp=sg.f64, debug=debug)
        x, z, p = sg.field(sg.f64, 4, needs_grad=needs_grad), sg.field(sg.i32, 4), ints(3, 1, 0, 1)

        @sg.kernel
        def run(n: sg.i32):
            for i in range(n):
                j = sg.assume_unique(p[i])
                if x[i] >= 0.0:
                    z[j] = i

        return run, x, p

    run, x, p = start(debug=True)
    for _ in range(2):
        with pytest.raises(sg.KernelAssertionError, match="1 and 3 .* both touch z.1.") as caught:
            run(4)
        assert "test_marks.py:" in str(caught.value) and "leave out the claim" in str(caught.value)
    run(3)
    x[3] = -1.0
    run(4)  # only what runs is marked
    x[3], p[3] = 1.0, 2
    run(4)
    run, _, _ = start(debug=False)
    run(4)


def test_one_part_of_a_claim_is_not_enough():
    x, p, q = real(*NUMBERS[:3]), ints(0, 0, 1, 1), ints(0, 2, 2, 0)

    @sg.kernel
    def run():
        for i in range(4):
            a, b = sg.assume_unique(p[i], q[i])
            x[a] = 0.5 * x[a] + b

    with pytest.raises(sg.NotDifferentiable, match=r"iteration 0 .* reads x\[0\], which iteration 1 writes"):
        run.grad()


def test_claims_are_about_integers():
    x = real(*NUMBERS)

    @sg.kernel
    def run():
        for i in x:
            x[i] = sg.assume_unique(x[i])

    with pytest.raises(sg.KernelTypeError, match="takes integers"):
        run()
