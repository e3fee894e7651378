"""Define programs with a scalar loss of one parameter, each with its twin in JAX, for tests of second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import stackgrad as sg

jax.config.update("jax_enable_x64", True)
X = np.array([0.35, 0.8, 1.15, 0.2, 0.65])
N = X.size


@dataclass
class Case:
    """Represent a program: fields x and loss, `run` for its launches, its JAX `twin`, `start` for other fields."""

    x: Any
    loss: Any
    run: Callable[[], Any]
    twin: Callable[[Any], Any]
    content: np.ndarray = field(default_factory=lambda: X.copy())
    start: Callable[[], Any] = lambda: None

    def begin(self, content: np.ndarray | None = None) -> None:
        """Set the initial contents of all fields."""
        self.start()
        self.x.from_numpy(self.content if content is None else content)

    def gradient(self, content: np.ndarray | None = None) -> np.ndarray:
        """Return the gradient of the loss by a plain tape."""
        self.begin(content)
        with sg.ad.Tape(self.loss):
            self.run()
        found: np.ndarray = self.x.grad.to_numpy().copy()
        return found


PROGRAMS: dict[str, Callable[[Any], Case]] = {}


def program(make: Callable[[Any], Case]) -> Callable[[Any], Case]:
    PROGRAMS[make.__name__] = make
    return make


def reals(dtype: Any, *shapes: Any) -> list[Any]:
    return [sg.field(dtype, shape, needs_grad=True) for shape in shapes]


def numbers(content: Any) -> Any:
    made = sg.field(sg.i32, len(content))
    made.from_numpy(np.asarray(content, np.int32))
    return made


@program
def dynamic_loop(dtype: Any) -> Case:
    x, loss = reals(dtype, N, ())
    count = numbers([0, 3, 1, 5, 2])

    @sg.kernel
    def run():
        for i in x:
            v = x[i]
            for _ in range(count[i]):
                v = sg.sin(v) * 1.3 + x[0] * v * v * 0.2
            loss[None] += v * v

    def twin(x: Any) -> Any:
        total = 0.0
        for i, n in enumerate([0, 3, 1, 5, 2]):
            v = x[i]
            for _ in range(n):
                v = jnp.sin(v) * 1.3 + x[0] * v * v * 0.2
            total = total + v * v
        return total

    return Case(x, loss, run, twin)


@program
def while_and_break(dtype: Any) -> Case:
    x, loss = reals(dtype, N, ())

    @sg.kernel
    def run():
        for i in x:
            v, k = x[i], 0
            while v < 2.0:
                k += 1
                if k == 2:
                    continue
                v = v * (1.2 + x[i] * x[i]) + 0.1
                if k > 3 and v > 1.4:
                    break
            loss[None] += v**3

    def twin(x: Any) -> Any:
        total = 0.0
        for i in range(N):
            v, k = x[i], 0
            while v < 2.0:
                k += 1
                if k == 2:
                    continue
                v = v * (1.2 + x[i] * x[i]) + 0.1
                if k > 3 and v > 1.4:
                    break
            total = total + v**3
        return total

    return Case(x, loss, run, twin)


@program
def slices_of_a_sparse_matrix(dtype: Any) -> Case:
    """Return a product with a sparse matrix, whose loop bounds and columns come from other arrays."""
    x, y, loss = reals(dtype, N, 4, ())
    start, column = numbers([0, 2, 2, 5, 9]), numbers([1, 4, 0, 1, 1, 3, 2, 4, 0])

    @sg.kernel
    def product():
        for i in y:
            s = 0.5
            for j in range(start[i], start[i + 1]):
                s = s * 0.9 + x[column[j]] * s + sg.tanh(x[column[j]])
            y[i] = s

    @sg.kernel
    def total():
        for i in y:
            loss[None] += y[i] * y[i]

    def run() -> None:
        product()
        total()

    def twin(x: Any) -> Any:
        total = 0.0
        rows, columns = [0, 2, 2, 5, 9], [1, 4, 0, 1, 1, 3, 2, 4, 0]
        for i in range(4):
            s = 0.5
            for j in range(rows[i], rows[i + 1]):
                s = s * 0.9 + x[columns[j]] * s + jnp.tanh(x[columns[j]])
            total = total + s * s
        return total

    return Case(x, loss, run, twin)


@program
def overwritten_in_place(dtype: Any) -> Case:
    """Return a program in which each gradient needs contents that its launch or a later one overwrites."""
    x, loss = reals(dtype, N, ())

    @sg.kernel
    def grow():
        for i in x:
            x[i] = sg.exp(0.4 * x[i]) * x[i] + 0.1

    @sg.kernel
    def shrink():
        for i in x:
            while x[i] > 0.7:
                x[i] = x[i] * (0.45 + 0.1 * x[i])

    @sg.kernel
    def total():
        for i in x:
            loss[None] += x[i] ** 2 * x[(i + 1) % N]

    def run() -> None:
        grow()
        shrink()
        grow()
        total()

    def twin(x: Any) -> Any:
        def grown(v: Any) -> Any:
            return jnp.exp(0.4 * v) * v + 0.1

        done = []
        for i in range(N):
            v = grown(x[i])
            while v > 0.7:
                v = v * (0.45 + 0.1 * v)
            done.append(grown(v))
        return sum(done[i] ** 2 * done[(i + 1) % N] for i in range(N))

    return Case(x, loss, run, twin)


@program
def time_steps(dtype: Any) -> Case:
    """Return a simulation that stores u[t] for each step and overwrites a force; x is the initial velocity."""
    steps, h = 6, 0.2
    x, u, v, f, loss = reals(dtype, N, (steps + 1, N), (steps + 1, N), N, ())

    @sg.kernel
    def begin():
        for i in x:
            u[0, i] = 0.3 * i
            v[0, i] = x[i]

    @sg.kernel
    def force(t: sg.i32):
        for i in x:
            f[i] = -sg.sin(u[t, i]) - 0.3 * u[t, i] * u[t, (i + 1) % N]

    @sg.kernel
    def advance(t: sg.i32):
        for i in x:
            v[t + 1, i] = v[t, i] + h * f[i]
            u[t + 1, i] = u[t, i] + h * v[t + 1, i]

    @sg.kernel
    def total():
        for i in x:
            loss[None] += (u[steps, i] - 1.0) ** 2

    def run() -> None:
        begin()
        for t in range(steps):
            force(t)
            advance(t)
        total()

    return Case(x, loss, run, lambda x: stepped(x, steps, h))


def stepped(v: Any, steps: int, h: float) -> Any:
    """Return the loss of `time_steps`, computed in JAX."""
    u = 0.3 * jnp.arange(N)
    for _ in range(steps):
        v = v + h * (-jnp.sin(u) - 0.3 * u * jnp.roll(u, -1))
        u = u + h * v
    return ((u - 1.0) ** 2).sum()


@program
def overwriting_steps(dtype: Any) -> Case:
    """Return a simulation whose launches overwrite both the state and a scratch field."""
    x, y, s, loss = reals(dtype, N, N, N, ())

    @sg.kernel
    def copy():
        for i in x:
            y[i] = x[i]

    @sg.kernel
    def mix():
        for i in y:
            s[i] = y[i] * y[(i + 1) % N] + sg.cos(y[i])

    @sg.kernel
    def update(a: sg.f64):
        for i in y:
            y[i] = a * s[i] + 0.5 * y[i] * s[(i + 2) % N]

    @sg.kernel
    def total():
        for i in y:
            loss[None] += y[i] ** 2

    def run() -> None:
        copy()
        for k in range(4):
            mix()
            update(0.6 + 0.1 * k)
        total()

    def twin(x: Any) -> Any:
        y = x
        for k in range(4):
            s = y * jnp.roll(y, -1) + jnp.cos(y)
            y = (0.6 + 0.1 * k) * s + 0.5 * y * jnp.roll(s, -2)
        return (y**2).sum()

    return Case(x, loss, run, twin)
