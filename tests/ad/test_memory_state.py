"""Test which contents a gradient by hand reads: which kernels are right without a tape, and which are refused."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg


def test_own_element_overwritten_in_a_loop(machine, backward):
    """y[i] = x[i]; y[i] = sin(y[i]), n times: the element is the iteration's own, so its history is kept."""
    x, y, n = machine.real([0.4, 1.1]), machine.real([5.0, 5.0]), machine.ints(3)

    @sg.kernel
    def run():
        for i in range(2):
            y[i] = x[i]
            for _ in range(n[None]):
                y[i] = sg.sin(y[i])

    def slope(v):
        d = 1.0
        for _ in range(3):
            v, d = np.sin(v), d * np.cos(v)
        return d

    (gx,) = backward(run, {y: 1.0}, [x])
    gx.near([slope(0.4), slope(1.1)])
    assert not y.grad.to_numpy().any()


def test_store_then_load(machine, backward):
    """A value stored and read back: the element still holds it when the gradient is taken."""
    x, a, b = machine.real([0.5, 2.0]), machine.real([0.0, 0.0]), machine.real([0.0, 0.0])

    @sg.kernel
    def run():
        for i in range(2):
            a[i] = x[i] * x[i]
            b[i] = a[i] * a[i]

    (gx,) = backward(run, {b: 1.0, a: 0.0}, [x])
    gx.near([4 * 0.125, 4 * 8.0])


def test_time_indexed_recurrence_in_a_serial_loop(machine, backward):
    """s[t + 1] = s[t]² c: the write of step t + 1 never hits what step t read."""
    c, s = machine.real([0.9]), machine.real([0.8, 0.0, 0.0, 0.0])
    n = machine.ints(3)

    @sg.kernel
    def run():
        for _ in range(1):
            for t in range(n[None]):
                s[t + 1] = s[t] * s[t] * c[0]

    gc, gs = backward(run, {s: [0.0, 0.0, 0.0, 1.0]}, [c, s])
    gc.near([7 * 0.8**8 * 0.9**6])
    gs.near([8 * 0.8**7 * 0.9**7, 0.0, 0.0, 0.0])


def test_overwritten_output_gets_no_gradient(machine, backward):
    """y = x; y = 2 x: the first store has no influence; constants stored drop the adjoint too."""
    x, y, z = machine.real([3.0]), machine.real([0.0]), machine.real([7.0])

    @sg.kernel
    def run():
        for i in range(1):
            y[i] = x[i] * 5.0
            y[i] = x[i] * 2.0
            z[i] = 1.0

    (gx, gz) = backward(run, {y: 1.0}, [x, z])
    assert gx == [2.0]
    z.grad.fill(4.0)
    run.grad()
    assert z.grad.to_numpy()[0] == 0.0


def test_kernel_level_locals_and_reductions(machine, backward):
    """A mean made by a parallel reduction, then a variance that reads it, in one kernel."""
    x, loss, n = machine.real([1.0, 2.0, 4.0, 7.0]), machine.real(0.5), machine.ints(4)

    @sg.kernel
    def run():
        total = 0.0
        for i in x:
            total += x[i]
        mean = total / n[None]
        for i in x:
            loss[None] += (x[i] - mean) * (x[i] - mean)

    (gx,) = backward(run, {loss: 1.0}, [x])
    gx.near(2 * (x.to_numpy() - 3.5))


def test_atomic_extremes(machine, backward):
    """The winner takes the adjoint; an initial value that won keeps it; a tie is handed out once."""
    x, top, low = machine.real([1.0, 3.0, 2.0, 3.0]), machine.real([0.0, 10.0]), machine.real([9.0])

    @sg.kernel
    def run():
        for i in x:
            sg.atomic_max(top[0], x[i] * 2.0)
            sg.atomic_max(top[1], x[i])
            sg.atomic_min(low[0], x[i])

    (gx,) = backward(run, {top: [1.0, 5.0], low: 1.0}, [x])
    assert gx[0] == 1.0 and gx[2] == 0.0
    assert sorted([gx[1], gx[3]]) == [0.0, 2.0]
    np.testing.assert_array_equal(top.grad.to_numpy(), [0.0, 5.0])


def refused(run, *fragments):
    with pytest.raises(sg.NotDifferentiable) as caught:
        run.grad()
    message = str(caught.value)
    assert "test_memory_state.py:" in message and "^" in message and "cure:" in message
    for fragment in fragments:
        assert fragment in message


def test_read_then_overwritten_is_refused(machine):
    """The gradient needs the old content, which is gone: error naming both lines."""
    x, b = machine.real([1.0]), machine.real([10.0])
    out = machine.real([0.0])

    @sg.kernel
    def run():
        for i in range(1):
            out[i] = x[i] * b[i]
            b[i] += 100.0

    run()
    refused(run, "'b'", "overwrite")


def test_in_place_scaling_is_refused_only_if_the_old_value_matters(machine, backward):
    """x = x·2 reads nothing back; x = x·x needs the value it destroyed."""
    x = machine.real([3.0])

    @sg.kernel
    def double():
        for i in x:
            x[i] = x[i] * 2.0

    @sg.kernel
    def square():
        for i in x:
            x[i] = x[i] * x[i]

    double()
    x.grad.fill(1.0)
    double.grad()
    assert x.grad.to_numpy()[0] == 2.0
    square()
    refused(square, "'x'")


def test_dependence_between_parallel_iterations_names_its_distance(machine):
    """s[i + 2] = s[i]² in a parallel loop is a race; in a serial loop it is a recurrence."""
    s = machine.real([0.5] * 8)

    @sg.kernel
    def run():
        for i in range(6):
            s[i + 2] = s[i] * s[i]

    refused(run, "i + 2", "not independent")


def test_overwritten_bound_is_refused(machine):
    """A trip count that the kernel itself changes afterwards."""
    x, y, n = machine.real([2.0]), machine.real([0.0]), machine.ints(3)

    @sg.kernel
    def run():
        for i in range(1):
            v = x[i]
            for _ in range(n[None]):
                v = v * x[i]
            y[i] = v
            n[None] = 1

    run()
    refused(run, "'n'")


def test_old_value_of_an_atomic_is_refused(machine):
    """What an atomic returned depends on the order of iterations."""
    x, s, y = machine.real([1.0, 2.0]), machine.real([0.0]), machine.real([0.0, 0.0])

    @sg.kernel
    def run():
        for i in x:
            old = sg.atomic_add(s[0], x[i])
            y[i] = old * 2.0

    run()
    refused(run, "old value")


def test_disjoint_constant_rows(machine, backward):
    """Row 0 is read, row 1 written, in two loops of one kernel, by constant and by argument."""
    x = machine.real([[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]])

    @sg.kernel
    def run(t: sg.i32):
        for i in range(2):
            x[t + 1, i] = x[t, i] * x[t, i]
        for i in range(2):
            x[t + 2, i] = x[t + 1, i] * x[t, i]

    run(0)
    x.grad.from_numpy(np.array([[0, 0], [0, 0], [1, 1]], x.dtype.dtype))
    run.grad(0)
    np.testing.assert_array_equal(x.grad.to_numpy()[0], 3 * np.array([1.0, 4.0]))
