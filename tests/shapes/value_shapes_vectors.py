# ruff: noqa: B007 - loops that only count
"""Define shapes of values: vectors, matrices, quaternions and structs as locals."""

from __future__ import annotations

import stackgrad as sg
from shape_table import ints, real, shape

PAIRS = real([[0.3, 0.7], [0.4, 1.1], [0.5, 0.9], [0.2, 0.6], [0.8, -0.3]], rank=1)
TRIPLES = real([[0.3, 0.7, -0.2], [0.4, 1.1, 0.5], [0.5, 0.9, 0.1], [0.2, 0.6, 0.9], [0.8, -0.3, 0.4]], rank=1)
QUATERNIONS = real(
    [[1.0, 0.1, 0.2, 0.3], [0.5, 0.5, -0.4, 0.2], [0.9, 0.0, 0.3, -0.1], [0.2, 0.8, 0.1, 0.4], [0.7, -0.2, 0.6, 0.3]],
    rank=1,
)
SQUARES = real(
    [
        [[0.3, 0.7], [0.4, 0.2]],
        [[0.5, 0.1], [-0.2, 0.6]],
        [[0.8, 0.3], [0.4, 0.9]],
        [[0.1, 0.2], [0.3, 0.4]],
        [[0.6, -0.5], [0.4, 0.3]],
    ],
    rank=2,
)
SYMMETRIC = real(
    [[[4.0, 0.7, 0.4], [0.7, 3.0, 0.2], [0.4, 0.2, 5.0]], [[3.0, -0.5, 0.6], [-0.5, 4.0, 0.1], [0.6, 0.1, 2.0]]], rank=2
)


@shape("values", "a vector before the loop, its elements in each trip", p=PAIRS)
def vector_before_loop(p, y, n, w):
    @sg.kernel
    def k():
        for i in p:
            a = sg.sin(p[i]) * 2.0
            for j in range(n[i]):
                y[i] += a[0] * w[j] + a[1] * a[0]

    return k


@shape("values", "a matrix before the loop, a product with it in each trip", m=SQUARES)
def matrix_before_loop(m, y, n, w):
    @sg.kernel
    def k():
        for i in m:
            a = m[i] @ m[i]
            s = 0.0
            for j in range(n[i]):
                s += (a @ sg.Vector([w[j], 1.0])).norm_sqr()
            y[i] += s

    return k


@shape("values", "a vector carried through the loop, rebuilt from its own components")
def vector_rebuilt(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = sg.Vector([x[i], 0.5 * x[i]])
            for _ in range(n[i]):
                v = sg.Vector([v[0] * v[1] + x[i], v[0] - v[1] * x[i]])
            y[i] += v[0] + 2.0 * v[1]

    return k


@shape("values", "a vector whose components are updated one after another, each reading the others")
def vector_components_updated(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = sg.Vector([0.1, x[i]])
            for _ in range(n[i]):
                v[0] = v[0] + x[i] * v[1]
                v[1] = v[1] + 0.5 * v[0]
            y[i] += v[0] * v[1]

    return k


@shape("values", "a vector times its own squared norm", p=PAIRS)
def vector_times_norm(p, y, n):
    @sg.kernel
    def k():
        for i in p:
            q = sg.Vector([0.5, 0.5])
            q[0] = p[i].x
            for _ in range(n[i]):
                q *= 0.8 + 0.2 * q.norm_sqr()
                q[1] = p[i].y * q[0]
            y[i] += q[0] - q[1]

    return k


@shape(
    "values",
    "a vector times its product with itself, and times one of its components",
    p=real([[0.3, 0.7], [0.4, 0.6], [0.5, 0.5], [0.2, 0.6], [0.8, -0.3]], rank=1),
)
def vector_times_itself(p, y, n):
    @sg.kernel
    def k():
        for i in p:
            v = p[i]
            for _ in range(n[i]):
                v = v * v.dot(v)
                v = v * (v[0] + 0.9)
            y[i] += v.sum()

    return k


@shape("values", "`v = A @ v` where A holds inputs", m=SQUARES, p=PAIRS)
def matrix_times_vector(m, p, y, n):
    @sg.kernel
    def k():
        for i in m:
            a = m[i]
            v = p[i]
            for _ in range(n[i]):
                v = a @ v + 0.1 * p[i]
            y[i] += v[0] * v[1]

    return k


@shape("values", "`A = A @ A`", m=SQUARES)
def matrix_squared(m, y, n):
    @sg.kernel
    def k():
        for i in m:
            a = m[i]
            for _ in range(n[i] % 4):
                a = a @ a + 0.3 * m[i]
            y[i] += a[0, 1] + a.trace()

    return k


@shape("values", "a matrix rebuilt from its transpose and its determinant", m=SQUARES)
def matrix_rebuilt(m, y, n):
    @sg.kernel
    def k():
        for i in m:
            a = m[i]
            for _ in range(n[i]):
                a = 0.5 * a.transpose() + sg.Matrix([[a[1, 1], -a[0, 1]], [0.2, a.determinant()]])
            y[i] += (a * m[i]).sum()

    return k


@shape("values", "a quaternion that turns", q=QUATERNIONS, omega=TRIPLES, n=ints([2, 0, 3, 1, 2]))
def quaternion(q, omega, y, n):
    @sg.func
    def product(a, b):
        return sg.Vector(
            [
                a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
                a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
                a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
                a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
            ]
        )

    @sg.kernel
    def k():
        for i in q:
            r = q[i]
            for _ in range(n[i]):
                r = r + 0.1 * product(r, sg.Vector([0.0, omega[i].x, omega[i].y, omega[i].z]))
                r = r / r.norm()
            y[i] += r[0] * r[1] + 2.0 * r[3]

    return k


@shape("values", "a struct rebuilt from its own members", p=PAIRS, x=real([0.3, 0.7, 0.4, 1.1, 0.5]))
def struct_rebuilt(p, x, y, n):
    body = sg.types.struct(pos=sg.types.vector(2, x.dtype), speed=x.dtype)

    @sg.kernel
    def k():
        for i in p:
            b = body(pos=p[i], speed=x[i])
            for _ in range(n[i]):
                b = body(pos=b.pos.yx * b.speed, speed=b.speed * 0.9 + 0.1 * b.pos.x)
            y[i] += b.pos.dot(p[i]) + b.speed

    return k


@shape("values", "a struct whose members are updated one after another", p=PAIRS)
def struct_updated(p, x, y, n):
    body = sg.types.struct(pos=sg.types.vector(2, x.dtype), vel=sg.types.vector(2, x.dtype))

    @sg.kernel
    def k():
        for i in p:
            b = body(pos=p[i], vel=p[i].yx)
            for j in range(n[i]):
                b.vel -= 0.1 * b.pos * x[i]
                b.pos += 0.1 * b.vel
                b.vel.x *= 1.0 - 0.05 * b.pos.y
            y[i] += b.pos.x * b.vel.y

    return k


@shape("values", "a vector read at an index that the loop gives")
def dynamic_read(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            t = sg.Vector([x[i], 0.5 * x[i], 1.2])
            s = 1.0
            for j in range(n[i]):
                s = s * sg.sin(t[j % 3]) + t[(j + 1) % 3]
            y[i] += s

    return k


@shape("values", "a ring buffer: written and read at indices that the loop gives")
def ring_buffer(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            t = sg.Vector([x[i], 0.5, x[i] * x[i]])
            for j in range(n[i]):
                t[j % 3] = sg.sin(t[(j + 1) % 3]) + 0.5 * t[j % 3] * t[(j + 2) % 3]
            y[i] += t[0] + 2.0 * t[1] - t[2]

    return k


@shape("values", "a local vector that a loop fills and a second one uses backward")
def filled_then_used(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            t = sg.Vector([0.0, 0.0, 0.0, 0.0])
            for j in range(4):
                t[j] = sg.sin(x[i] * (j + 1))
            v = x[i]
            for j in range(min(n[i], 4)):
                v = v * t[3 - j] + t[j] * t[j]
            y[i] += v

    return k


@shape("values", "running sums in a local vector, in place")
def prefix_sums(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            t = sg.Vector([x[i], x[i] * x[i], 0.3, sg.sin(x[i])])
            for j in range(1, min(n[i], 4)):
                t[j] = t[j] + t[j - 1] * t[j - 1]
            y[i] += t[3] * t[1] + t[2]

    return k


@shape(
    "values",
    "a triangular factorization of a local matrix, with dynamic rows and columns",
    m=SYMMETRIC,
    n=ints([3, 2]),
    y=real([2.0, -1.0]),
    calls=((),),
)
def triangular_factorization(m, y, n):
    @sg.kernel
    def k():
        for i in m:
            a = m[i]
            for j in range(n[i]):
                for r in range(j, 3):
                    for c in range(j):
                        a[r, j] = a[r, j] - a[r, c] * a[j, c]
                d = sg.sqrt(a[j, j])
                for r in range(j, 3):
                    a[r, j] = a[r, j] / d
            y[i] += a[0, 0] + 2.0 * a[1, 0] - a[2, 1] + a[1, 1] * a[2, 0] + a[2, 2]

    return k


@shape(
    "values",
    "substitution in a triangular system, each entry from the ones before",
    m=SYMMETRIC,
    b=real([[0.3, 0.7, -0.2], [0.4, 1.1, 0.5]], rank=1),
    n=ints([3, 2]),
    y=real([2.0, -1.0]),
)
def substitution(m, b, y, n):
    @sg.kernel
    def k():
        for i in m:
            v = b[i]
            for r in range(n[i]):
                for c in range(r):
                    v[r] -= m[i][r, c] * v[c]
                v[r] = v[r] / m[i][r, r]
            y[i] += v[0] * v[1] + v[2] * v[2]

    return k


@shape("values", "entries of a local vector put in order by swaps")
def sorted_by_swaps(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            t = sg.Vector([x[i], 0.62, 0.9 * x[i] * x[i]])
            for a in range(2):
                for b in range(2 - a):
                    if t[b] > t[b + 1]:
                        s = t[b]
                        t[b] = t[b + 1]
                        t[b + 1] = s
            for j in range(min(n[i], 3)):
                y[i] += t[j] * t[j] * (j + 1)

    return k


@shape("values", "an entry of a local vector, read, overwritten, and read through another index")
def entry_read_then_overwritten(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            t = sg.Vector([x[i], 0.4, 0.8])
            for j in range(n[i]):
                a = t[j % 3]
                t[j % 3] = sg.cos(a)
                t[(j + n[i]) % 3] = a * a + t[(2 * j) % 3]
            y[i] += t[0] * t[1] + t[2]

    return k


@shape("values", "a local vector that each trip makes anew", n=ints([2, 0, 3, 1, 2]))
def vector_of_each_trip(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            for j in range(n[i]):
                t = sg.Vector([v, v * v, 0.5])
                for m in range(j + 1):
                    t[m % 3] = t[m % 3] * t[(m + 1) % 3] + 0.2
                v = sg.sin(t[0]) + t[1] * t[2]
            y[i] += v

    return k


@shape("values", "a vector of integers as counters and indices")
def integer_vector(x, y, n, w):
    @sg.kernel
    def k():
        for i in x:
            count = sg.Vector([0, 1, 2])
            v = x[i]
            for j in range(n[i]):
                count[j % 3] += 2
                v = v * w[count[(j + 1) % 3] % 7] + 0.1 * count[0]
            y[i] += v

    return k
