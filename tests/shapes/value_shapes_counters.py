# ruff: noqa: B007 - loops that only count
"""Define shapes of values: integers that count, and local vectors at indices made of them."""

from __future__ import annotations

import stackgrad as sg
from shape_table import ints, shape


@shape("values", "a counter that some trips skip by `continue`")
def counter_skipped(x, y, n, w):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            c = 0
            for j in range(n[i] + 2):
                if j % 3 == 1:
                    continue
                v = v * w[c % 7] + sg.sin(v)
                c += 1
            y[i] += v * c

    return k


@shape("values", "a counter that goes up and down by what the value is")
def counter_up_and_down(x, y, n, w):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            c = 3
            for j in range(n[i]):
                v = v * w[c] + 0.4
                if v > 0.8:
                    c -= 1
                else:
                    c = min(c + 1, 6)
                if c < 0:
                    c = 0
            y[i] += v

    return k


@shape("values", "a counter of an outer loop that an inner loop moves on", n=ints([3, 0, 2, 1, 3]))
def counter_of_two_loops(x, y, n, w):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            c = 0
            for a in range(n[i]):
                for b in range(a):
                    v = v * w[c % 7] + v * v
                    c += 1
                c += 2
                v = sg.sin(v + 0.1 * c)
            y[i] += v

    return k


@shape("values", "two counters, one read before and one after it moves")
def counters_before_and_after(x, y, n, w):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            a = 0
            b = 6
            while a < n[i]:
                v = v * w[a] + 0.2
                a += 1
                b -= 1
                v = v * v + w[b] * x[i]
            y[i] += v * (a - b)

    return k


@shape("values", "an integer power: squares by the bits of the exponent", n=ints([13, 0, 6, 1, 5]))
def power_by_bits(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            r = 1.0
            b = x[i]
            e = n[i]
            while e > 0:
                if e & 1 == 1:
                    r = r * b
                b = b * b
                e = e >> 1
            y[i] += r

    return k


@shape("values", "the steps of Euclid's algorithm as trips", n=ints([12, 7, 18, 5, 3]))
def euclid(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            a = n[i]
            b = 8
            while b != 0:
                v = sg.sin(v) * (1.0 + 0.1 * (a // b))
                r = a % b
                a = b
                b = r
            y[i] += v * a

    return k


@shape("values", "two entries of a local vector swapped at indices that may be equal")
def entries_swapped(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            t = sg.Vector([x[i], 0.4, 1.2])
            for j in range(n[i]):
                a = j % 3
                b = (2 * j) % 3
                s = t[a]
                t[a] = t[b] * 0.9
                t[b] = s * s + 0.1
            y[i] += t[0] + 2.0 * t[1] - t[2]

    return k


@shape("values", "a local vector at indices that a vector of integers holds")
def entries_indirect(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            p = sg.Vector([2, 0, 1])
            t = sg.Vector([x[i], 0.4, 1.2])
            for j in range(n[i]):
                t[p[j % 3]] = t[p[(j + 1) % 3]] * t[j % 3] + 0.2
                p[j % 3] = (p[j % 3] + 1) % 3
            y[i] += t[0] * t[1] - t[2]

    return k


@shape("values", "a stack in a local vector: pushed and popped by the value", n=ints([4, 0, 6, 1, 3]))
def stack_in_vector(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            t = sg.Vector([0.0, 0.0, 0.0, 0.0])
            top = 0
            v = x[i]
            for j in range(n[i]):
                if top < 3 and v < 0.9:
                    t[top] = v * v
                    top += 1
                    v = v * 1.3
                elif top > 0:
                    top -= 1
                    v = sg.sin(t[top]) + 0.3 * v
            y[i] += v + t[0]

    return k


@shape("values", "a local vector changed in one arm and read behind the branch, in a `while` with `break`")
def vector_in_one_arm(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            t = sg.Vector([x[i], 0.5])
            c = 0
            while c < n[i]:
                if t[c % 2] > 0.6:
                    t[(c + 1) % 2] *= t[c % 2]
                    if t[0] * t[1] < 0.05:
                        break
                c += 1
                t[c % 2] = t[c % 2] + 0.3 * t[0]
            y[i] += t[0] * t[1] * (c + 1)

    return k


@shape("values", "a function that changes a local vector and gives it back, in a loop")
def vector_through_function(x, y, n):
    @sg.func
    def turned(t, j):
        t[j % 3] = t[(j + 1) % 3] * t[(j + 2) % 3] + 0.3
        return t * 0.9

    @sg.kernel
    def k():
        for i in x:
            t = sg.Vector([x[i], 0.7, 1.1])
            for j in range(n[i]):
                u = t
                t = turned(t, j)
                t[0] += 0.1 * u[j % 3]
            y[i] += t.norm_sqr()

    return k
