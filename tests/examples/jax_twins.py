"""Define the losses of the examples as JAX functions of the unknowns, written from the examples' formulas.

Each maker takes the module of an example and the arguments of its `build`. The pendulums' trip counts need concrete
values; the others may be compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
Loss = Callable[..., Any]


def norm(x: Any, axis: int = -1, keepdims: bool = False) -> Any:
    return jnp.sqrt((x * x).sum(axis, keepdims=keepdims))


def mass_spring_walker(m: ModuleType, steps: int) -> Loss:
    points, pairs = m.body()
    a, b = np.array(pairs).T
    rest = np.linalg.norm(points[a] - points[b], axis=1)

    def loss(amplitude: Any, phase: Any) -> Any:
        x, v = jnp.asarray(points), jnp.zeros(points.shape)
        for t in range(steps):
            d = x[b] - x[a]
            length = norm(d)
            parting = ((v[b] - v[a]) * d).sum(1) / length
            muscle = m.STRENGTH * jnp.tanh(amplitude) * jnp.sin(m.FREQUENCY * t * m.DT + phase)
            pull = m.STIFFNESS * (length - rest * (1.0 + muscle)) + m.DAMPING * parting
            force = (pull / length)[:, None] * d
            v = v + m.DT * (jnp.zeros(x.shape).at[a].add(force).at[b].add(-force) + np.array([0.0, m.GRAVITY]))
            v = jnp.where((x[:, 1] + m.DT * v[:, 1] < 0.0)[:, None], 0.0, v)
            x = x + m.DT * v
        return -(x[:, 0] - points[:, 0]).mean()

    return loss


def wave(m: ModuleType, cells: int, steps: int, gauges: int) -> Loss:
    angle = 2.0 * np.pi * np.arange(gauges) / gauges
    at = (cells / 2 + 0.4 * cells * np.stack([np.cos(angle), np.sin(angle)])).astype(np.int32)

    def inside(u: Any) -> Any:
        return jnp.pad(u[1:-1, 1:-1], 1)

    def bend(u: Any) -> Any:
        around = sum(jnp.roll(u, by, axis) for by in (-1, 1) for axis in (0, 1))
        return inside(around - 4.0 * u)

    def heard(start: Any) -> Any:
        u = [inside(start)]
        u.append(u[0] + 0.5 * m.COURANT**2 * bend(u[0]))
        for t in range(1, steps):
            u.append(2.0 * u[t] - u[t - 1] + m.COURANT**2 * bend(u[t]))
        return jnp.stack([one[at[0], at[1]] for one in u])

    record = heard(jnp.asarray(m.drop(cells)))
    return lambda start: ((heard(start) - record) ** 2).sum() / gauges


def rnn(m: ModuleType, sequences: int) -> Loss:
    rng = np.random.default_rng(7)
    lengths = rng.integers(*m.LENGTHS, sequences, endpoint=True)
    entries = rng.uniform(-1.0, 1.0, (lengths.sum(), m.INPUTS))
    texts = np.split(entries, np.cumsum(lengths)[:-1])

    def loss(W: Any, U: Any, b: Any, V: Any, c: Any) -> Any:
        total = 0.0
        for text in texts:
            h = jnp.zeros(m.HIDDEN)
            for x in text:
                h = jnp.tanh(W @ h + U @ x + b)
            answer = sum(m.FADE**k * (x[0] + 0.5 * x[1]) for k, x in enumerate(text[::-1]))
            total = total + (V @ h + c - answer) ** 2 / sequences
        return total

    return loss


def pendulum_chain(m: ModuleType, chains: int, duration: float) -> Loss:
    couplings = np.linspace(*m.COUPLINGS, chains)

    def end(w: Any, k: float) -> Any:
        a, left = jnp.zeros(3), duration
        while left > 0.0:
            h = jnp.minimum(left, m.LONGEST / (1.0 + abs(w).max()))
            bend = jnp.stack([a[1] - a[0], a[0] - 2.0 * a[1] + a[2], a[1] - a[2]])
            w = w + h * (k * bend - jnp.sin(a) - m.DAMPING * w)
            a = a + h * w
            left = left - h
        return a

    def loss(kick: Any) -> Any:
        ends = [end(kick[c], couplings[c]) for c in range(chains)]
        return sum(((a - np.array(m.TARGET)) ** 2).sum() for a in ends) / chains

    return loss


def rigid_chain(m: ModuleType, arms: int) -> Loss:
    """Return the loss of the example, computed with rotation matrices in place of quaternions."""
    rng = np.random.default_rng(11)
    joints = rng.integers(*m.JOINTS, arms, endpoint=True)
    rng.normal(0.0, 0.1, joints.sum())
    places = rng.normal(size=(arms, 3))
    places *= rng.uniform(0.5, 0.8, (arms, 1)) * m.REACH / np.linalg.norm(places, axis=1, keepdims=True)
    first = np.concatenate([[0], np.cumsum(joints)])

    def turn(k: int, angle: Any) -> Any:
        c, s = jnp.cos(angle), jnp.sin(angle)
        about_x, about_y = [[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]], [[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]]
        rows = about_y if k % 2 else about_x
        return jnp.stack([jnp.stack([jnp.asarray(e, jnp.float64) for e in row]) for row in rows])

    def loss(angle: Any) -> Any:
        total = m.PRICE * (angle**2).sum() / arms
        for a in range(arms):
            q, hand = jnp.eye(3), jnp.zeros(3)
            for k in range(first[a], first[a + 1]):
                q = q @ turn(k, angle[k])
                hand = hand + q[:, 2] * m.REACH / joints[a]
            total = total + ((hand - places[a]) ** 2).sum() / arms
        return total

    return loss


def cloth(m: ModuleType, n: int, steps: int, height: float) -> Loss:
    cell = m.WIDTH / (n - 1)
    i, j = (g.ravel() for g in np.meshgrid(np.arange(n), np.arange(n), indexing="ij"))
    ends = [
        (p, k * n + l, cell * np.hypot(k - i[p], l - j[p]))
        for p in range(n * n)
        for k, l in ((i[p] + di, j[p] + dj) for di, dj in m.NEIGHBORS)
        if 0 <= k < n and 0 <= l < n
    ]
    a, b, rest = (np.array(column) for column in zip(*ends))
    corners = [0, n - 1, n * (n - 1), n * n - 1]

    def loss(throw: Any, pull: Any) -> Any:
        x = jnp.asarray(np.stack([i * cell, j * cell, np.full(n * n, height)], 1))
        v = jnp.broadcast_to(throw, x.shape)
        for _ in range(steps):
            d = x[b] - x[a]
            length = norm(d, keepdims=True)
            r = d / length
            parting = (r * (v[b] - v[a])).sum(1, keepdims=True)
            force = (m.STIFFNESS * (length - rest[:, None]) + m.DAMPING * parting) * r
            acceleration = (np.array([0.0, 0.0, m.GRAVITY]) - m.DRAG * v).at[a].add(force)
            v = v + m.DT * acceleration.at[np.array(corners)].add(pull.reshape(4, 3))
            x = x + m.DT * v
            out = x - np.array(m.BALL)
            depth = m.RADIUS - norm(out, keepdims=True)
            normal = out / norm(out, keepdims=True)
            inward = jnp.minimum((v * normal).sum(1, keepdims=True), 0.0)
            v = jnp.where(depth > 0.0, v - inward * normal, v)
            x = jnp.where(depth > 0.0, x + depth * normal, x)
        return ((x[(n // 2) * n + n // 2] - np.array(m.GOAL)) ** 2).sum()

    return loss


def smoke(m: ModuleType, cells: int, steps: int, sweeps: int) -> Loss:
    grid = np.stack(np.meshgrid(np.arange(cells), np.arange(cells), indexing="ij"), 2)
    wanted, puff = m.puff(cells, (0.6, 0.5)), m.puff(cells, (0.4, 0.4))

    def sample(values: Any, place: Any) -> Any:
        corner = jnp.floor(jax.lax.stop_gradient(place))
        weight = place - corner
        low = corner.astype(int) % cells
        high = (low + 1) % cells
        weight = weight.reshape(*weight.shape, *(1,) * (values.ndim - 2))
        u, w = weight[:, :, 0], weight[:, :, 1]
        left = values[low[..., 0], low[..., 1]] * (1 - w) + values[low[..., 0], high[..., 1]] * w
        right = values[high[..., 0], low[..., 1]] * (1 - w) + values[high[..., 0], high[..., 1]] * w
        return left * (1 - u) + right * u

    def across(p: Any, axis: int) -> Any:
        return jnp.roll(p, -1, axis) - jnp.roll(p, 1, axis)

    def loss(v: Any) -> Any:
        s = jnp.asarray(puff)
        for _ in range(steps):
            w = sample(v, grid - m.DT * v)
            p, flow = jnp.zeros((cells, cells)), across(w[..., 0], 0) + across(w[..., 1], 1)
            for _ in range(sweeps):
                p = 0.25 * (sum(jnp.roll(p, by, axis) for by in (-1, 1) for axis in (0, 1)) - 0.5 * flow)
            v = w - 0.5 * jnp.stack([across(p, 0), across(p, 1)], 2)
            s = sample(s, grid - m.DT * v)
        return ((s - wanted) ** 2).sum() / cells**2

    return loss


TWINS: dict[str, Callable[..., Loss]] = {
    f.__name__: f for f in (mass_spring_walker, wave, rnn, pendulum_chain, rigid_chain, cloth, smoke)
}
