# ruff: noqa: B007 - loops that only count
"""Define shapes of loops with break, continue and return."""

from __future__ import annotations

import stackgrad as sg
from shape_table import ints, real, shape


@shape("loops", "`break` when the value passes a threshold")
def break_on_value(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = 1.0 + x[i]
            for _ in range(n[i]):
                if v > 2.5:
                    break
                v = v * (1.0 + x[i])
            y[i] += v

    return k


@shape("loops", "`break` after statements of the same trip, with the value used behind the loop")
def break_after_update(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            last = 0.0
            for j in range(n[i]):
                last = v * v
                v = v + last
                if v > 1.5:
                    break
            y[i] = v * last

    return k


@shape("loops", "`break` inside nested branches")
def break_in_nested_branches(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                if j > 0:
                    v = v * 1.3
                    if v > 0.8:
                        v = v * v
                        if j % 2 == 1:
                            break
                        v = v - 0.1 * x[i]
                    else:
                        v = v + x[i]
                v = sg.sin(v)
            y[i] += v

    return k


@shape("loops", "`break` of an inner loop and a flag that ends the outer one")
def break_of_both_loops(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            done = False
            for a in range(n[i]):
                for b in range(a + 1):
                    v = v * (1.0 + 0.2 * x[i])
                    if v > 1.2:
                        done = True
                        break
                if done:
                    break
                v = v + 0.05
            y[i] += v * v

    return k


@shape("loops", "`break` from one arm, `continue` from the other")
def break_or_continue(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(2 * n[i]):
                if j % 3 == 2:
                    v = v * 0.9
                    continue
                if v > 1.6:
                    v = v * v
                    break
                v = v + 0.3 * v * x[i]
            y[i] = v

    return k


@shape("loops", "`continue` that skips the update of some trips")
def continue_skips(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                if j % 2 == 1:
                    continue
                v = v * v + 0.5
            y[i] += v

    return k


@shape("loops", "`continue` as the last statement of a body")
def continue_trailing(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            r = 1.5 * x[i]
            for j in range(n[i]):
                r += x[i] * j
                continue
            y[i] = r * r

    return k


@shape("loops", "`continue` in a `while`, decided by the value")
def continue_in_while(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            t = 0
            while t < n[i] + 1:
                t += 1
                if v > 0.6:
                    v = 0.5 * v * v
                    continue
                v = v + 0.4 * sg.cos(v)
            y[i] += v

    return k


@shape("loops", "`continue` of the outer loop behind an inner loop with `break`")
def continue_after_inner_break(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for a in range(n[i]):
                for b in range(a + 2):
                    v = v + 0.1 * v * b
                    if b == 1:
                        break
                if a == 1:
                    continue
                v = sg.sin(v)
            y[i] += v

    return k


@shape("loops", "`return` from the kernel, before the second of its parallel loops", calls=((0,), (1,)))
def return_from_kernel(x, y, n):
    @sg.kernel
    def k(early: sg.i32):
        for i in x:
            v = x[i]
            for j in range(n[i]):
                v = v * v + x[i]
            y[i] = v * 0.5
        if early == 1:
            return
        for i in x:
            y[i] = y[i] + x[i] * x[i]

    return k


@shape("loops", "`return` from a serial loop of the kernel, in the trip that the values decide")
def return_from_serial_loop(x, total, n):
    @sg.kernel
    def k():
        v = 0.1
        sg.loop_config(serialize=True)
        for i in range(5):
            for j in range(n[i]):
                v = v + x[i] * v * v
                if v > 0.113:
                    total[None] += v
                    return
            v = v + 0.01 * x[i]
        total[None] = v * v

    return k


@shape("loops", "a function that returns from the middle of its loop")
def return_from_loop_of_function(x, y, n):
    @sg.func
    def first_above(v, limit, trips):
        for _ in range(trips):
            v = v * 1.4
            if v > limit:
                return v * v
        return v

    @sg.kernel
    def k():
        for i in x:
            y[i] += first_above(x[i], 0.9, n[i]) * x[i]

    return k


@shape("loops", "a function that returns from two nested loops, called in a loop")
def return_from_nested_loops(x, y, n):
    @sg.func
    def search(v, trips):
        for a in range(trips):
            for b in range(a + 1):
                v = v + 0.3 * v * v
                if v > 1.0:
                    return v - 0.5
            v = v * 0.9
        return v

    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(n[i]):
                v = sg.sin(search(v, 3))
            y[i] = v

    return k


@shape("loops", "a function with a `return` in each arm, called in a loop")
def return_from_arms(x, y, n):
    @sg.func
    def piece(v, j):
        if v > 0.8:
            return 0.5 * v * v
        if j == 2:
            return sg.exp(-v)
        return v + 0.2 * v * v

    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                v = piece(v, j)
            y[i] += v

    return k


@shape("loops", "a trip count that the trips themselves decide, used as the bound of a second loop")
def trips_bound_a_loop(x, y):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            trips = 0
            while v < 1.2:
                v = v * 1.3
                trips += 1
            u = 1.0
            for j in range(trips):
                u = u * (v - 0.1 * j)
            y[i] += u

    return k


@shape("loops", "a loop left by `break` in no lane, in some, in all", b=ints([9, 0, 2, 1, 0]))
def break_by_lane(x, y, n, b):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i] + 1):
                if j == b[i]:
                    break
                v = v * v + 0.3
            y[i] += v

    return k


@shape("loops", "a step so small that `while` runs many trips", x=real([0.9, 0.2, 1.4, 0.6, 0.01]))
def while_runs_long(x, y):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            t = 0.0
            while t < x[i] * x[i]:
                v = v - 0.02 * v * v
                t += 0.05
            y[i] += v

    return k
