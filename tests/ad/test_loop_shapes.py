"""Test loops that other systems differentiate wrongly, against gradients in closed form."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg


def test_triangular_sweep(machine, backward):
    """acc += w x[k] for k < j < n: x[k] counts once for every j above it."""
    x, w, y, n = machine.real([0.5, 1.5, -2.0, 0.25]), machine.real([3.0]), machine.real([1.0, 1.0]), machine.ints(4)

    @sg.kernel
    def run():
        for i in range(2):
            acc = 0.0
            for j in range(n[None]):
                for k in range(j):
                    acc += x[k] * w[0]
            y[i] = acc

    gx, gw = backward(run, {y: [1.0, 2.0]}, [x, w])
    counts = np.array([3.0, 2.0, 1.0, 0.0])
    gx.near(3 * 3.0 * counts)
    gw.near([3 * counts @ x.to_numpy()])


@pytest.mark.rotating
@pytest.mark.parametrize("trips", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("struct_for", [False, True])
def test_loop_inside_a_runtime_branch(machine, backward, trips, struct_for):
    """if flag: v = x; v = v²/2 + x, n times; y += v. Lanes differ, some skip the loop."""
    x, y = machine.real([0.3, 0.7, -0.2]), machine.real([1.0, 1.0, 1.0])
    flag, n = machine.ints([1, 0, 1]), machine.ints(trips)
    if struct_for:

        @sg.kernel
        def run():
            for i in x:
                if flag[i] == 1:
                    v = x[i]
                    for _ in range(n[None]):
                        v = 0.5 * v * v + x[i]
                    y[i] += v
    else:

        @sg.kernel
        def run():
            for i in range(3):
                if flag[i] == 1:
                    v = x[i]
                    for _ in range(n[None]):
                        v = 0.5 * v * v + x[i]
                    y[i] += v

    def slope(x):
        v, d = x, 1.0
        for _ in range(trips):
            v, d = 0.5 * v * v + x, v * d + 1.0
        return d

    (gx,) = backward(run, {y: 1.0}, [x])
    gx.near([slope(0.3), 0.0, slope(-0.2)])


@pytest.mark.parametrize("guarded", [False, True])
def test_load_before_the_loop(machine, backward, guarded):
    """p = a[i]; q += p c[j]: the adjoint of p gathers all iterations."""
    a, c, f, n = machine.real([2.0, -1.0]), machine.real([1.0, 0.5, 0.25]), machine.real([0.0, 0.0]), machine.ints(3)
    if guarded:

        @sg.kernel
        def run():
            for i in range(2):
                p = a[i]
                q = 0.0
                if p > 0.0:
                    for j in range(n[None]):
                        q += p * c[j]
                f[i] = q
    else:

        @sg.kernel
        def run():
            for i in range(2):
                p = a[i]
                q = 0.0
                for j in range(n[None]):
                    q += p * c[j]
                f[i] = q

    ga, gc = backward(run, {f: 1.0}, [a, c])
    ga.near([1.75, 0.0 if guarded else 1.75])
    gc.near(np.full(3, 2.0 if guarded else 1.0))


def test_condition_on_what_the_branch_writes(machine, backward):
    """Short circuits and elif chains whose conditions read the variable that the branches change."""
    x, y, n = machine.real([0.4, 1.7, 3.0]), machine.real([0.0] * 3), machine.ints(5)

    @sg.kernel
    def run():
        for i in range(3):
            v = x[i]
            for j in range(n[None]):
                if v > 0.5 and j % 2 == 0:
                    v = v * 0.5
                elif v < 0.3 or j == 3:
                    v = v * 3.0 + x[i]
                else:
                    v = v - 0.1 * x[i]
            y[i] = v

    def slope(x):
        v, d = x, 1.0
        for j in range(5):
            if v > 0.5 and j % 2 == 0:
                v, d = v * 0.5, d * 0.5
            elif v < 0.3 or j == 3:
                v, d = v * 3.0 + x, d * 3.0 + 1.0
            else:
                v, d = v - 0.1 * x, d - 0.1
        return d

    (gx,) = backward(run, {y: 1.0}, [x])
    gx.near([slope(v) for v in (0.4, 1.7, 3.0)])


def test_sibling_loops_through_a_field(machine, backward):
    """The second loop reads what the first one stored."""
    x, y = machine.real([1.0, 2.0, 3.0]), machine.real([0.5, -1.0, 2.0])
    a, b, n = machine.real([0.0] * 3), machine.real([0.0] * 3), machine.ints(3)

    @sg.kernel
    def run():
        for _ in range(1):
            for j in range(n[None]):
                a[j] = x[j] * x[j]
            for j in range(n[None]):
                b[j] = a[j] * y[j]

    gx, gy = backward(run, {b: [1.0, 2.0, 3.0], a: 0.0}, [x, y])
    gx.near([1.0, -8.0, 36.0])
    gy.near([1.0, 8.0, 27.0])


def test_statements_between_sibling_loops(machine, backward):
    """A trip count and a factor that stand between two loops, and a nested bound made of them."""
    x, y, n = machine.real([0.5, 0.8]), machine.real([0.0, 0.0]), machine.ints([2, 3])

    @sg.kernel
    def run():
        for i in range(2):
            s = 1.0
            for _ in range(2):
                s = s * x[i]
            t = n[i]
            f = s + x[i]
            for _j in range(2):
                for _k in range(t):
                    s += f * s * 0.125
            y[i] = s

    def slope(x, t):
        s, d = x * x, 2 * x
        f, e = s + x, d + 1.0
        for _ in range(2 * t):
            s, d = s + 0.125 * f * s, d + 0.125 * (e * s + f * d)
        return d

    (gx,) = backward(run, {y: 1.0}, [x])
    gx.near([slope(0.5, 2), slope(0.8, 3)])


def invariant_slope(x, n):
    c = [1.0, 0.5, 0.3][:n]
    a, b = 2 * x, np.sin(x)
    da, db = 2.0, np.cos(x)
    ab = da * b + a * db
    z, dz = a, da
    for _ in range(n):
        z, dz = z * a + b, dz * a + z * da + db
    inner = sum(sum(c[:k]) for k in range(n))
    return da * sum(c) + db * sum(c) + 4 * x**3 * sum(c) + ab * inner + da * sum(c[1:]) + ab * sum(c) + dz


def test_loop_invariant_values(machine, backward):
    """A local computed before a dynamic loop: product, sine, square, nested, guarded, in a function, per lane."""
    x, c = machine.real([0.5, -0.3]), machine.real([1.0, 0.5, 0.3])
    y, n = machine.real(np.zeros((7, 2))), machine.ints([3, 2])

    @sg.func
    def weighted(a, count):
        s = 0.0
        for k in range(count):
            s += a * c[k]
        return s

    @sg.kernel
    def run():
        for i in range(2):
            a = x[i] * 2.0
            b = sg.sin(x[i])
            q = x[i] * x[i]
            for k in range(n[i]):
                y[0, i] += a * c[k]
                y[1, i] += b * c[k]
                y[2, i] += q * q * c[k]
                for m in range(k):
                    y[3, i] += a * b * c[m]
                if k > 0:
                    y[4, i] += a * c[k]
            y[5, i] = weighted(a * b, n[i])
            z = a
            for _k in range(n[i]):
                z = z * a + b
            y[6, i] = z

    (gx,) = backward(run, {y: 1.0}, [x])
    gx.near([invariant_slope(0.5, 3), invariant_slope(-0.3, 2)])


@pytest.mark.parametrize("extra", [0, 1])
def test_bound_from_an_index_of_the_box(machine, backward, extra):
    """for i, j in ndrange(N, 4): for k in range(j + extra)."""
    x, y = machine.real([0.5, 1.5, 2.5, 3.5]), machine.real(np.zeros((3, 4)))

    @sg.kernel
    def run():
        for i, j in sg.ndrange(3, 4):
            s = 1.0
            for k in range(j + extra):
                s += x[k] * x[k]
            y[i, j] = s

    (gx,) = backward(run, {y: 1.0}, [x])
    counts = np.array([sum(k < j + extra for j in range(4)) for k in range(4)])
    gx.near(3 * 2 * x.to_numpy() * counts)


def test_bounds_by_subtraction_and_negative_begins(machine, backward):
    """range(n - j), range(6 - a[i]), range(b, e) with b < 0: depths are exact whatever the bounds are made of."""
    x, y, n = machine.real([0.9, 0.8, 0.7]), machine.real(np.zeros((3, 3))), machine.ints(4)
    a, begin, end = machine.ints([6, 2, 9]), machine.ints([-3, -1, 2]), machine.ints([1, -1, 4])

    @sg.kernel
    def run():
        for i in range(3):
            u = x[i]
            for j in range(n[None]):
                for _k in range(n[None] - j):
                    u = u * x[i]
            y[0, i] = u
            v = x[i]
            for _k in range(6 - a[i]):
                v = v * x[i]
            y[1, i] = v
            w = x[i]
            for _k in range(begin[i], end[i]):
                w = w * x[i]
            y[2, i] = w

    powers = np.array([[11, 11, 11], [1, 5, 1], [5, 1, 3]])
    (gx,) = backward(run, {y: 1.0}, [x])
    base = x.to_numpy().astype(float)
    gx.near((powers * base ** (powers - 1)).sum(0))


@pytest.mark.expensive
def test_no_read_that_the_kernel_does_not_do(machine, backward):
    """A huge loop gated to the four elements that the bounds array has: nothing else may be read to find the depth."""
    lanes = 60_000_000 if machine.backend == "cpu" else 3_000_000
    x, y, a = machine.real([0.5, 0.6, 0.7, 0.8]), machine.real([0.0] * 4), machine.ints([1, 2, 3, 4])

    @sg.kernel
    def run():
        for i in range(lanes):
            if i < 4:
                v = x[i]
                for _j in range(a[i]):
                    v = v * x[i]
                y[i] = v

    (gx,) = backward(run, {y: 1.0}, [x])
    base = x.to_numpy().astype(float)
    gx.near(np.arange(2, 6) * base ** np.arange(1, 5))


@pytest.mark.rotating
@pytest.mark.parametrize(("begin", "end", "step"), [(0, 7, 1), (0, 7, 3), (1, 8, 3), (7, 0, -2), (6, 0, -2), (3, 3, 1)])
def test_descending_loop_left_early(machine, backward, begin, end, step):
    """for k in reversed(range(..)): v = v x[k]; leave once v is small. The last trips are the first indices."""
    values = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.95, 0.85, 0.75])
    x, y = machine.real(values), machine.real([0.0, 0.0])

    @sg.kernel
    def run():
        for i in range(2):
            v = 1.0 + i
            for k in reversed(range(begin, end, step)):
                if v < 0.45:
                    break
                v = v * x[k]
            y[i] = v

    (gx,) = backward(run, {y: [1.0, 3.0]}, [x])
    want = np.zeros(8)
    for i, seed in ((0, 1.0), (1, 3.0)):
        v, used = 1.0 + i, []
        for k in reversed(range(begin, end, step)):
            if v < 0.45:
                break
            v *= values[k]
            used.append(k)
        for k in used:
            want[k] += seed * v / values[k]
    gx.near(want)
