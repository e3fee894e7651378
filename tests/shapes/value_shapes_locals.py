# ruff: noqa: B007 - loops that only count
"""Define shapes of values: scalar locals that are used before, in and after a loop."""

from __future__ import annotations

import stackgrad as sg
from shape_table import shape


@shape("values", "a local made before the loop and added in it")
def before_loop_linear(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            h = 2.0 * x[i]
            s = 0.0
            for _ in range(n[i]):
                s += h
            y[i] += s * s

    return k


@shape("values", "a local made before the loop and multiplied by what the loop reads")
def before_loop_times_memory(x, y, n, w):
    @sg.kernel
    def k():
        for i in x:
            a = x[i] * 2.0
            for j in range(n[i]):
                y[i] += a * w[j]

    return k


@shape("values", "`sin` before the loop, its value in every trip")
def before_loop_sin(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            a = sg.sin(x[i])
            v = x[i]
            for j in range(n[i]):
                v = v * a + a * a
            y[i] += v

    return k


@shape("values", "a local made before two nested loops and used in the inner one")
def before_nested_loops(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            a = x[i] * x[i]
            s = 0.0
            for j in range(n[i]):
                b = a * j
                for m in range(j + 1):
                    s += a * b + sg.cos(b)
            y[i] += s

    return k


@shape("values", "a local made before the loop, used in a branch of it")
def before_loop_in_branch(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            a = sg.exp(x[i])
            v = 0.0
            for j in range(n[i]):
                if j % 2 == 0:
                    v += a * a
                else:
                    v = v * a
            y[i] += v

    return k


@shape("values", "a local made before the loop of a function")
def before_loop_in_function(x, y, n, w):
    @sg.func
    def dot(v, trips):
        a = v * v
        s = 0.0
        for j in range(trips):
            s += a * w[j]
        return s * a

    @sg.kernel
    def k():
        for i in x:
            y[i] += dot(x[i], n[i])

    return k


@shape("values", "a load before the loop, used in each trip")
def load_before_loop(x, y, n, w):
    @sg.kernel
    def k():
        for i in x:
            p = x[i]
            q = 0.0
            for j in range(n[i]):
                q += p * p * w[j]
            y[i] += q

    return k


@shape("values", "a load before the loop, with a branch around the loop that some lanes take")
def load_before_guarded_loop(x, y, n, w):
    @sg.kernel
    def k():
        for i in x:
            p = x[i]
            q = 0.0
            if p > 0.45:
                for j in range(n[i]):
                    q = q * p + w[j]
            y[i] += q

    return k


@shape("values", "a value made before the loop and used behind it")
def before_and_behind(x, y, n, w):
    @sg.kernel
    def k():
        for i in x:
            b = x[i] * x[i]
            acc = 5.0
            for j in range(n[i]):
                acc += w[j] * x[i]
            y[i] = acc * b

    return k


@shape("values", "a value made in the last trip and used behind the loop")
def last_value_behind(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            u = 1.0
            for j in range(n[i]):
                u = sg.sin(v) + 0.1 * j
                v = v * u
            y[i] += u * u * v

    return k


@shape("values", "a sum over the loop, then `cos` of it")
def sum_then_cos(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            t = 0.0
            for j in range(n[i]):
                t += sg.sin(x[i] * (j + 1))
            y[i] += sg.cos(t)

    return k


@shape("values", "the reciprocal of a sum, in a function")
def reciprocal_of_sum(x, y, n):
    @sg.func
    def inverse(trips):
        t = 1.0
        for j in range(trips):
            t += x[j % 5]
        return 1.0 / t

    @sg.kernel
    def k():
        for i in x:
            y[i] += inverse(n[i]) * x[i]

    return k


@shape("values", "one temporary shared by two writes")
def shared_temporary(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            a = 1.0
            b = x[i]
            for _ in range(n[i]):
                r = sg.sqrt(a + b)
                a = a * r
                b = b * r
            y[i] += a + 3.0 * b

    return k


@shape("values", "one temporary, assigned twice in a trip, each value used twice")
def temporary_reassigned(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for _ in range(n[i]):
                t = v * v
                v = t + 0.1 * t * t
                t = sg.cos(v)
                v = v * t + 0.2 * t * t
            y[i] += v

    return k


@shape("values", "the old value, kept in a second name, used after the variable changed")
def old_value_kept(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            s = 0.0
            for _ in range(n[i]):
                q = v
                v = sg.sin(v) + 0.5
                s += q * q * v
            y[i] += s

    return k


@shape("values", "the value of the trip before: a recurrence of three terms")
def previous_value(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            before = 1.0
            now = x[i]
            for j in range(n[i]):
                after = 2.0 * x[i] * now - before
                before = now
                now = after
            y[i] += now * before

    return k


@shape("values", "two values of trips before")
def previous_two_values(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            a = x[i]
            b = 0.5
            c = x[i] * x[i]
            for j in range(n[i]):
                d = sg.sin(a * b) + c
                a = b
                b = c
                c = d
            y[i] += a * b * c

    return k


@shape("values", "a swap in every trip")
def swap(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            a = x[i]
            b = 0.5 + x[i] * x[i]
            for j in range(n[i]):
                a, b = b, a * b + 0.1 * j
            y[i] += a * a - b

    return k


@shape("values", "a swap that the values decide: the larger one first")
def swap_conditional(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            a = x[i]
            b = 0.62
            for j in range(n[i]):
                if a < b:
                    t = a
                    a = b
                    b = t * 1.1
                a = a * 0.9 + b * b * 0.1
            y[i] += a - 2.0 * b

    return k


@shape("values", "a rotation of three variables")
def rotate_three(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            a, b, c = x[i], 0.4, 1.2
            for j in range(n[i]):
                a, b, c = b * c, sg.sin(a), a + 0.1 * c
            y[i] += a + b * c

    return k
