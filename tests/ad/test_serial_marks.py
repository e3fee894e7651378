"""Test serial loops that store and read elements: at a gradient by hand, marks find elements overwritten later.

`later_store`, which executes the accesses in plain Python, decides whether a launch must be refused; dual numbers on
the kernel as written give the expected gradient. Under a tape each of these kernels has its gradient.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import stackgrad as sg

_spec = importlib.util.spec_from_file_location("dependence_support", Path(__file__).with_name("dependence_support.py"))
assert _spec and _spec.loader
support = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(support)
ints, real, taped = support.ints, support.real, support.taped
NUMBERS = support.NUMBERS
SIZES = (0, 1, 2, 3, 40)
F32 = 1e3 * np.finfo(np.float32).eps


@pytest.fixture(autouse=True, params=support.BACKENDS)
def machine(request):
    support.start(request.param)


def judged(kernel, *args, overwritten=None, dtype=sg.f64):
    """Assert that the gradient is right in two launches in a row, or refused with the element and both lines.

    Args:
        kernel: The kernel.
        args: Its arguments.
        overwritten: The element that is overwritten after it was read, as text; None if there is none.
        dtype: The type of the reals.
    """
    if overwritten is None:
        options = {"tolerance": F32} if dtype == sg.f32 else {}
        support.judge(kernel, *args, **options)
        kernel(*args)
        support.judge(kernel, *args, **options)
        return
    kernel(*args)
    fields = [f for f in kernel.cache().last.captured.values() if getattr(f, "needs_grad", False)]
    for field in fields:
        field.grad.fill(3.0)
    with pytest.raises(sg.NotDifferentiable) as caught:
        kernel.grad(*args)
    message = str(caught.value)
    assert f"value of {overwritten} read here" in message, message
    assert "which the kernel overwrites later (line " in message and "cure: " in message, message
    assert "test_serial_marks.py:" in message and "^" in message, message
    assert all((f.grad.to_numpy() == 3.0).all() for f in fields)


def later_store(events):
    """Return the least element that is read before its last store; `events` are pairs ("store" or "read", element)."""
    found = [e for k, (what, e) in enumerate(events) if what == "read" and ("store", e) in events[k + 1 :]]
    return min(found, default=None)


# ---- ranges from memory -----------------------------------------------------------------------------------------


def walk_of_ranges(serial, in_place):
    """Return a kernel that stores x[i] and then y[i] = x[i] x[i] for two ranges, and its arrays."""
    x, y = real(*NUMBERS), real(*[0.5] * 8)
    first, last, root = ints(0, 2), ints(2, 6), ints(0, 0, 2, 2, 2, 2, 0, 0)

    @sg.kernel
    def run():
        sg.loop_config(serialize=serial)
        for r in range(2):
            for i in range(first[r], last[r]):
                if sg.static(in_place):
                    x[i] = x[root[i]] * 0.5
                else:
                    x[i] = 2.0
                y[i] = x[i] * x[i]

    return run, first, x, y


@pytest.mark.rotating
@pytest.mark.parametrize("serial", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
def test_ranges_that_do_not_meet(serial, in_place):
    judged(walk_of_ranges(serial, in_place)[0])


@pytest.mark.rotating
@pytest.mark.parametrize("in_place", [False, True])
def test_ranges_that_meet(in_place):
    """Element 1 is stored twice: refused by hand, right under a tape, and right by hand once they are apart again."""
    run, first, x, y = walk_of_ranges(True, in_place)
    first[1] = 1
    judged(run, overwritten="x[1]")
    x.from_numpy(np.array(NUMBERS))
    taped(run, x, y)
    first[1] = 2
    judged(run)


# ---- walks through tables ---------------------------------------------------------------------------------------


STORES = {"constant": (), "linear": (), "nonlinear": ("source",)}
"""What a walk stores, and the table of the elements whose values the derivative of the store needs."""


def walk(form, dtype, tables):
    """Return a kernel that, in each trip, stores one element of x, computed from another one or not, and reads one."""
    x, y = real(np.resize(NUMBERS, 48), dtype=dtype), real(np.resize((0.5, -0.25), 48), dtype=dtype)
    place, source, look = (ints(t) for t in tables)

    @sg.kernel
    def run(n: sg.i32):
        for _ in range(1):
            for t in range(n):
                if sg.static(form == "constant"):
                    x[place[t]] = 0.75
                elif sg.static(form == "linear"):
                    x[place[t]] = 0.5 * x[source[t]] + 0.25
                else:
                    x[place[t]] = sg.sin(x[source[t]])
                y[t] += x[look[t]] * x[look[t]]

    return run


@pytest.mark.rotating
@pytest.mark.parametrize("dtype", [sg.f64, sg.f32])
@pytest.mark.parametrize("form", STORES)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("seed", range(3))
def test_walks_through_tables(form, n, dtype, seed):
    """Trips store elements once each, with one place drawn twice in some walks; the plain walk tells who is refused."""
    rng = np.random.default_rng([n, seed])
    place = rng.permutation(48)
    if seed == 1 and n > 2:
        place[n - 1] = place[rng.integers(n - 1)]
    source = rng.integers(0, 48, 48)
    # What the trip itself stored, what an earlier one stored, or anything.
    look = place if seed < 2 else np.where(rng.random(48) < 0.9, place[rng.integers(0, np.arange(48) + 1)], source)
    if seed < 2:
        source = np.where(np.arange(48) > 0, place[np.maximum(np.arange(48) - 1, 0)], 47 - place[0])
    events = []
    for t in range(n):
        events += [("read", source[t])] * ("source" in STORES[form]) + [("store", place[t]), ("read", look[t])]
    least = later_store(events)
    judged(
        walk(form, dtype, (place, source, look)), n, overwritten=None if least is None else f"x[{least}]", dtype=dtype
    )


def test_the_walks_are_of_both_kinds():
    """Of the walks above, some are right and some are refused: see `later_store`."""
    assert later_store([("store", 1), ("read", 1), ("store", 2), ("read", 1)]) is None
    assert later_store([("read", 0), ("store", 0)]) == 0
    assert later_store([("store", 1), ("read", 1), ("store", 1)]) == 1


# ---- shapes of loops --------------------------------------------------------------------------------------------


def nested(x, y, p, q):
    """Return a kernel of nested loops in which every trip of the inner loop stores a different element."""

    @sg.kernel
    def run(n: sg.i32):
        for _ in range(1):
            for r in range(n):
                for i in range(2):
                    x[2 * r + i] = x[2 * r + i] * 0.5 + 0.125 * r
                    y[2 * r + i] += sg.sin(x[2 * r + i])

    return run


def inside_a_parallel_loop(x, y, p, q):
    """Return a parallel kernel in which each iteration stores and reads a range of elements of its own."""

    @sg.kernel
    def run(n: sg.i32):
        for r in range(n):
            for t in range(2):
                for i in range(4 * r + p[t], 4 * r + p[t] + 2):
                    x[i] = 0.5 * y[i]
                    y[i] = x[i] * x[i]

    return run


def while_loop(x, y, p, q):
    """Return a kernel in which the trips of a while loop follow a chain of elements, from index to index."""

    @sg.kernel
    def run(n: sg.i32):
        for _ in range(1):
            k = 0
            while k < n:
                x[p[k]] = y[k] + 0.25
                y[k] = x[p[k]] * x[p[0]]
                k += 1

    return run


def chain(x, y, p, q):
    """Return a kernel x[i] = f(x[i - 1]), which stores each element once and reads it afterwards."""

    @sg.kernel
    def run(n: sg.i32):
        for _ in range(1):
            for i in range(1, n):
                x[p[i]] = sg.sin(x[p[i - 1]]) + y[i]

    return run


def a_branch_that_stores(x, y, p, q):
    """Return a kernel that stores an element in one trip only, in a branch."""

    @sg.kernel
    def run(n: sg.i32):
        for _ in range(1):
            for t in range(n):
                if p[t] == 0:
                    x[0] = 0.5 * y[1]
                y[t] += x[0] * x[0]

    return run


def an_atomic(x, y, p, q):
    """Return a kernel that updates elements by atomics, which count as stores."""

    @sg.kernel
    def run(n: sg.i32):
        for r in range(1):
            for t in range(n):
                sg.atomic_add(x[p[t] + r], 0.5 * y[t])
                y[t] += x[p[t]] * x[p[t]]

    return run


def stored_before_the_loop(x, y, p, q):
    """Return a kernel in which all trips read elements that were stored before the loop, or never."""

    @sg.kernel
    def run(n: sg.i32):
        for _ in range(1):
            x[p[7]] = 1.5
            for t in range(n):
                x[p[t]] = x[p[7]] * x[6] * y[t]

    return run


def two_arrays(x, y, p, q):
    """Return a kernel with two arrays, each of which is stored at the indices at which the other is read."""

    @sg.kernel
    def run(n: sg.i32):
        for _ in range(1):
            for t in range(n):
                x[p[t]] = y[q[t]] * y[q[t]]
                y[q[t] // 2] = x[p[t]] * x[p[t]]

    return run


RIGHT = {
    nested: [0, 1, 2, 3, 4],
    inside_a_parallel_loop: [0, 1, 2],
    while_loop: [0, 1, 2, 3, 6],
    chain: [0, 1, 2, 3, 6],
    a_branch_that_stores: [0, 1, 2, 3, 6],
    an_atomic: [0, 1, 2, 3, 6],
    stored_before_the_loop: [0, 1, 2, 3, 6],
    two_arrays: [0, 1, 2, 3, 4],
}
WRONG = {
    inside_a_parallel_loop: ((0, 1, 0, 0, 0, 0, 0, 0), 2, "x[1]"),
    while_loop: ((0, 1, 2, 0, 3, 4, 5, 6), 4, "x[0]"),
    chain: ((0, 1, 2, 0, 3, 4, 5, 6), 4, "x[0]"),
    a_branch_that_stores: ((0, 1, 0, 1, 1, 1, 1, 1), 3, "x[0]"),
    an_atomic: ((0, 1, 2, 1, 3, 4, 5, 6), 4, "x[1]"),
    stored_before_the_loop: ((0, 1, 2, 3, 4, 5, 6, 7), 7, "x[6]"),
    two_arrays: ((0, 1, 2, 0, 3, 4, 5, 6), 4, "x[0]"),
}
"""Tables with which an element is overwritten after it was read, by the program."""


def made(program, table, dtype):
    x, y = real(*NUMBERS, dtype=dtype), real(*[0.5, -0.25, 0.75, 0.4, 0.3, -0.6, 0.2, 0.9], dtype=dtype)
    return program(x, y, ints(*table), ints(4, 5, 6, 7, 0, 0, 0, 0)), x, y


def table_of(program):
    return (0, 2, 0, 0, 0, 0, 0, 0) if program is inside_a_parallel_loop else (0, 1, 2, 3, 4, 5, 6, 7)


@pytest.mark.rotating
@pytest.mark.parametrize("dtype", [sg.f64, sg.f32])
@pytest.mark.parametrize(("program", "n"), [(p, n) for p, sizes in RIGHT.items() for n in sizes])
def test_each_element_is_stored_once(program, n, dtype):
    judged(made(program, table_of(program), dtype)[0], n, dtype=dtype)


@pytest.mark.rotating
@pytest.mark.parametrize("program", WRONG)
def test_an_element_is_overwritten_after_it_was_read(program):
    table, n, element = WRONG[program]
    run, _, _ = made(program, table, sg.f64)
    judged(run, n, overwritten=element)
