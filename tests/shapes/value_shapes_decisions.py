# ruff: noqa: B007 - loops that only count
"""Define shapes of values: branches, booleans, states, integers, selections, functions with kinks."""

from __future__ import annotations

import stackgrad as sg
from shape_table import ints, real, shape


@shape("values", "a variable assigned in one arm only")
def assigned_in_one_arm(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            u = 1.0
            for j in range(n[i]):
                if v < 0.8:
                    u = v * v
                v = v + 0.3 * u
            y[i] += u * v

    return k


@shape("values", "a variable assigned in another arm in each trip, used behind the branch")
def assigned_in_changing_arms(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                u = v
                if j == 0:
                    u = sg.exp(-v)
                elif j == 2:
                    u = v * v
                    v = v + 0.1
                v = v * 0.7 + u
            y[i] += v

    return k


@shape("values", "conditions with `and`, `or` on what the branches write")
def condition_on_what_is_written(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                if v > 0.52 and j % 2 == 0:
                    v = v * 0.5
                elif v < 0.31 or j == 3:
                    v = v * 3.0 + x[i]
                else:
                    v = v - 0.1 * x[i] * v
            y[i] += v

    return k


@shape("values", "a boolean that the trips turn over")
def boolean_turns(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            up = True
            for j in range(n[i]):
                if up:
                    v = v + 0.4 * v * v
                else:
                    v = v - 0.2 * sg.sin(v)
                up = not up
            y[i] += v

    return k


@shape("values", "a boolean that once set stays set")
def boolean_latch(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            crossed = False
            for j in range(n[i]):
                crossed = crossed or v > 0.9
                if crossed:
                    v = v * 0.8
                else:
                    v = v * 1.5
            if crossed:
                v = v * v
            y[i] += v

    return k


@shape("values", "a machine of three states, driven by the value")
def state_machine(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            state = 0
            for j in range(2 * n[i]):
                if state == 0:
                    v = v * 1.4
                    if v > 1.0:
                        state = 1
                elif state == 1:
                    v = v * v * 0.5
                    state = 2
                else:
                    v = v + 0.2 * x[i]
                    if v > 0.65:
                        state = 0
            y[i] += v * (1 + state)

    return k


@shape("values", "an integer carried through the loop as factor and as index")
def carried_integer(x, y, n, w):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            m = 1
            for j in range(n[i]):
                v = v * w[m % 7] + 0.1 * m
                m = (5 * m + 3) % 16
            y[i] += v

    return k


@shape("values", "a counter that grows by two, as index", n=ints([3, 0, 3, 1, 2]))
def counter_by_two(x, y, n, w):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            c = 0
            while c < 2 * n[i]:
                v = sg.sin(v * w[c])
                c += 2
            y[i] += v

    return k


@shape("values", "the largest value so far, and where it was", c=real([0.6, 3.0, 1.1, 0.0, -2.0, 2.0]))
def largest_so_far(x, y, n, c):
    @sg.kernel
    def k():
        for i in x:
            best = -1e20
            at = 0
            for j in range(n[i]):
                if c[j] != 0.0:
                    v = x[i] * c[j] * (j + 1)
                    if v > best:
                        best = v
                        at = j
            if n[i] > 0:
                y[i] += best * best + c[at]

    return k


@shape("values", "`min` and `max` in a recurrence")
def clamped(x, y, n, w):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                v = sg.min(sg.max(v * 1.7 + w[j] * 0.3, -0.4), 1.33 + 0.1 * x[i])
            y[i] += v

    return k


@shape("values", "`select` and a ternary on the value")
def selected(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                u = sg.select(v > 0.6, v * v, v + 0.3)
                v = u * 0.9 if j % 2 == 0 else sg.sin(u)
            y[i] += v

    return k


@shape("values", "products from 1, none to several factors")
def product_from_one(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            r = 1.0
            for _ in range(n[i]):
                r = r * x[i]
            y[i] += r

    return k


@shape("values", "a quotient and `sin`, both carried")
def quotient_and_sin(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            a = 1.0
            b = 1.0
            for _ in range(n[i]):
                a = a / (0.5 + x[i])
                b = sg.sin(b * x[i])
            y[i] += a + b

    return k


@shape("values", "a power whose base and exponent are carried")
def power_carried(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = 1.0 + x[i]
            e = 0.5
            for j in range(n[i]):
                v = v**e + 0.2
                e = e * 0.9 + 0.1 * v
            y[i] += v * e

    return k


@shape("values", "a division by zero in a branch that is not taken", x=real([0.0, 0.7, 0.0, 1.1, 0.5]))
def division_not_taken(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            r = 0.5 * x[i]
            for j in range(n[i]):
                if x[i] > 0.1:
                    r = x[i] + r
                    r = 1.0 / r + x[i] / r
            y[i] += r

    return k


@shape("values", "casts to integers inside the recurrence")
def cast_to_integer(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i] * 3.0
            for j in range(n[i]):
                whole = int(v)
                v = v * 1.3 - whole * 0.4
                v = v + sg.floor(v) * x[i]
            y[i] += v

    return k


@shape("values", "a mean and a variance, updated one number after another")
def running_variance(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            mean = 0.0
            m2 = 0.0
            for j in range(n[i]):
                a = x[(i + j) % 5]
                d = a - mean
                mean += d / (j + 1)
                m2 += d * (a - mean)
            y[i] += m2 + mean

    return k


@shape("values", "`log` of a sum of exponentials with a running maximum")
def running_logsumexp(x, y, n, w):
    @sg.kernel
    def k():
        for i in x:
            top = -30.0
            s = 0.0
            for j in range(n[i] + 1):
                a = x[i] * w[j]
                higher = sg.max(top, a)
                s = s * sg.exp(top - higher) + sg.exp(a - higher)
                top = higher
            y[i] += top + sg.log(s)

    return k


@shape("values", "a linear recurrence with constant coefficients")
def linear_recurrence(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            u = 1.0
            for j in range(n[i]):
                v, u = 0.95 * v + 0.01 * u, 0.5 * u - 0.25 * v + 0.3
            y[i] += v * u

    return k


@shape("values", "a sum of all lanes, made and used in one kernel")
def reduced_local(x, y):
    @sg.kernel
    def k():
        total = 0.0
        for i in x:
            total += x[i] * x[i]
        mean = total / 5
        for i in x:
            y[i] += (x[i] - mean) * (x[i] - mean)

    return k


@shape("values", "a local of the kernel that a serial loop changes and parallel loops use")
def kernel_local_between_loops(x, y, n):
    @sg.kernel
    def k():
        c = 0.5
        for i in x:
            y[i] += c * x[i]
        sg.loop_config(serialize=True)
        for j in range(n[0]):
            c = c * x[j] + 0.2
        for i in x:
            y[i] += c * c * x[i]

    return k


@shape("values", "random numbers in a recurrence: the gradient makes the same ones again")
def random_recurrence(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                v = v * (0.5 + sg.random()) + 0.1 * x[i]
                v = sg.sin(v)
            y[i] += v

    return k


@shape(
    "values",
    "loads in two nested branches, one on the trip and one on what is loaded",
    w=real([1.5, -0.5, 0.8, 0.25, -1.2]),
)
def loads_in_nested_branches(x, y, n, w):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                if j > 0:
                    if w[i] > 0.0:
                        v = v * w[i] + x[(i + j) % 5]
                    v = v * 0.9
            y[i] += v

    return k
