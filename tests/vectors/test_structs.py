"""Structs in kernels: local ones, nested ones, as arguments and results of functions, with methods."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from vectors_support import real, vectors, written

pytestmark = pytest.mark.backends("reference", "cpu")

vec2 = sg.types.vector(2, sg.f64)


@sg.dataclass
class Body:
    pos: vec2
    vel: vec2
    mass: sg.f64

    @sg.func
    def energy(self):
        return 0.5 * self.mass * self.vel.norm_sqr()

    @sg.func
    def step(self, dt):
        self.pos += dt * self.vel
        self.vel.y -= dt * 9.81

    @sg.func
    def moved(self, dt):
        return Body(pos=self.pos + dt * self.vel, vel=self.vel, mass=self.mass)


Pair = sg.types.struct(first=Body, second=Body, count=sg.i32)


@pytest.fixture(autouse=True)
def double(backend):
    backend.init(default_fp=sg.f64)


def out(n):
    return sg.field(sg.f64, shape=n)


def test_literals_and_members(backend):
    y = out(9)

    @sg.kernel
    def k():
        b = Body(pos=[1, 2], vel=vec2(3.0), mass=4)
        b.pos.x += 10.0
        b.vel = b.pos.yx
        c = b
        c.mass = 5.0
        empty = Body()
        y[0], y[1], y[2], y[3], y[4], y[5] = *b.pos, *b.vel, b.mass, c.mass
        y[6] = Body(vec2(1.0), vec2(2.0), 3.0).vel[1]
        y[7] = empty.pos.sum() + empty.mass
        y[8] = c.vel.dot(b.pos)

    np.testing.assert_array_equal(written(k, y), [11, 2, 2, 11, 4, 5, 2, 0, 44])


def test_structs_without_a_named_type(backend):
    y = out(4)

    @sg.kernel
    def k():
        s = sg.Struct({"a": 1.0, "v": [2.0, 3.0]})
        t = sg.Struct(inner=s, n=4)
        t.inner.v[1] += t.n
        y[0], y[1], y[2], y[3] = s.a, t.inner.v.x, t.inner.v.y, s.v.y

    np.testing.assert_array_equal(written(k, y), [1, 2, 7, 3])


def test_nested_structs(backend):
    y = out(4)

    @sg.kernel
    def k():
        p = Pair(first=Body(mass=1.0), second=Body(pos=vec2(5.0, 6.0)), count=2)
        p.first = p.second
        p.second.pos[0] = 7.0
        p.first, p.second = p.second, p.first
        y[0], y[1], y[2], y[3] = p.first.pos.x, p.second.pos.x, p.first.mass, p.count

    np.testing.assert_array_equal(written(k, y), [7, 5, 0, 2])


def test_methods(backend):
    y, s = out(4), Body.field(shape=3)
    s.vel.from_numpy(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    s.mass.fill(2.0)

    @sg.kernel
    def k():
        for i in s:
            s[i].step(0.5)
        for i in range(1):
            b = s[1]
            b.step(1.0)
            c = b.moved(1.0)
            y[0] = s[i].energy()
            y[1], y[2] = c.pos
            y[3] = b.vel.y

    found = written(k, y)
    vel = np.array([[1, 2], [3, 4], [5, 6]]) - [0, 0.5 * 9.81]
    np.testing.assert_allclose(s.pos.to_numpy(), 0.5 * np.array([[1, 2], [3, 4], [5, 6]]))
    np.testing.assert_allclose(s.vel.to_numpy(), vel)
    pos = 0.5 * np.array([3, 4]) + vel[1]
    last = vel[1] - [0, 9.81]
    np.testing.assert_allclose(found, [(vel[0] ** 2).sum(), *(pos + last), last[1]])


@sg.func
def heavier(a, b):
    if a.mass > b.mass:
        return a
    c = b
    c.mass += 1.0
    return c


def test_functions_take_and_give_structs(backend):
    y = out(3)

    @sg.kernel
    def k():
        a = Body(pos=vec2(1.0), mass=2.0)
        b = Body(pos=vec2(3.0), mass=5.0)
        c = heavier(a, b)
        d = a if c.mass > 100.0 else b
        y[0], y[1], y[2] = c.mass, c.pos.x, d.mass

    np.testing.assert_array_equal(written(k, y), [6, 3, 5])


@pytest.mark.backends("cpu")
def test_structs_carried_through_a_loop_have_gradients(backend, gradcheck):
    x, v, loss = vectors(2, 3), vectors(2, 3, seed=4), sg.field(sg.f64, shape=(), needs_grad=True)
    n = sg.field(sg.i32, shape=())
    n[None] = 4

    @sg.kernel
    def k():
        for i in x:
            b = Body(pos=x[i], vel=v[i], mass=1.0)
            for j in range(n[None]):
                b.vel += 0.1 * b.pos.yx * b.pos
                b.step(0.05)
                if j == 2:
                    b = b.moved(0.1)
            loss[None] += b.energy() + b.pos.x

    gradcheck(k)


def test_constants_of_the_host(backend):
    y, b = out(3), Body(pos=[1, 2], vel=[3, 4], mass=5)
    x = real(2)

    @sg.kernel
    def k():
        for i in range(1):
            c = b
            c.pos *= 2
            y[0], y[1], y[2] = *c.pos, c.energy() * x[i]

    np.testing.assert_allclose(written(k, y), [2, 4, 62.5 * x[0]])
