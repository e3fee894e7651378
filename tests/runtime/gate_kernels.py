"""Define kernels whose iterations push values after passing a gate, with gates of every kind.

Each computes y[i] = v of the recurrence v = 1.25 sin(v), v = x[i], trips[i] times in the iterations that pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import stackgrad as sg
from recorded_support import gradient, memory_of, near

LONGEST, SPARE = 1000, 24
"""Iterations at most, and elements that the arrays have beyond those."""


class Data:
    """Fields of the kernels, longer than any launch; `live` > 0, `code` == 1 and `wide` > 0 open the gates.

    `shifted` holds the values of `live` three elements further on; `where` is a permutation: `scattered[where[i]]` is
    the value that decides about iteration i.
    """

    def __init__(self, real: Any) -> None:
        size = LONGEST + SPARE
        self.real = real
        self.x, self.y = (sg.field(real, size, needs_grad=True) for _ in range(2))
        self.live, self.shifted, self.scattered = (sg.field(real, size) for _ in range(3))
        self.wide = sg.field(sg.f64, size)
        self.code, self.where, self.trips = (sg.field(sg.i32, size) for _ in range(3))
        self.count = sg.field(sg.i32, ())

    def fill(self, chosen: np.ndarray, trips: np.ndarray) -> None:
        """Set which iterations pass the gates; iterations beyond the launch pass, to notice out-of-range work."""
        size, dtype = LONGEST + SPARE, np.float32 if self.real is sg.f32 else np.float64
        beyond = np.ones(size, bool)
        beyond[: len(chosen)] = chosen
        signs = np.where(beyond, 0.5, -0.5)
        self.x.from_numpy(np.linspace(0.1, 1.4, size).astype(dtype))
        self.live.from_numpy(signs.astype(dtype))
        self.shifted.from_numpy(np.roll(signs, 3).astype(dtype))
        where = np.random.default_rng(5).permutation(size)
        scattered = np.empty(size)
        scattered[where] = signs
        self.where.from_numpy(where.astype(np.int32))
        self.scattered.from_numpy(scattered.astype(dtype))
        self.wide.from_numpy(np.where(beyond, 1e-300, 0.0))
        self.code.from_numpy(beyond.astype(np.int32))
        all_trips = np.full(size, 50, np.int32)
        all_trips[: len(trips)] = trips
        self.trips.from_numpy(all_trips)
        self.count[None] = len(chosen)

    def memory(self) -> dict[str, np.ndarray]:
        """Return the memory that a kernel starts from; `gate` is the argument of the kernel that takes an array."""
        fields = {name: field for name, field in vars(self).items() if name != "real"}
        return memory_of(gate=self.live, **fields)


def nothing_else(x: Any, y: Any, gate: Any, trips: Any) -> Any:
    """Return a kernel over given fields whose iterations do nothing outside the gate, gate[i] > 0."""

    @sg.kernel
    def k() -> None:
        for i in gate:
            if gate[i] > 0:
                v = x[i]
                for _ in range(trips[i]):
                    v = 1.25 * sg.sin(v)
                y[i] = v

    return k


def over_a_field(d: Data) -> Any:
    x, y, live, trips, count = d.x, d.y, d.live, d.trips, d.count

    @sg.kernel
    def k() -> None:
        for i in range(count[None]):
            v = x[i]
            if live[i] > 0:
                for _ in range(trips[i]):
                    v = 1.25 * sg.sin(v)
            y[i] = v

    return k


def over_integers(d: Data) -> Any:
    x, y, code, trips, count = d.x, d.y, d.code, d.trips, d.count

    @sg.kernel
    def k() -> None:
        for i in range(count[None]):
            v = x[i]
            if code[i] == 1:
                for _ in range(trips[i]):
                    v = 1.25 * sg.sin(v)
            y[i] = v

    return k


def over_doubles(d: Data) -> Any:
    """Return a kernel whose gate compares f64 values that would be 0 in single precision."""
    x, y, wide, trips, count = d.x, d.y, d.wide, d.trips, d.count

    @sg.kernel
    def k() -> None:
        for i in range(count[None]):
            v = x[i]
            if wide[i] > 0:
                for _ in range(trips[i]):
                    v = 1.25 * sg.sin(v)
            y[i] = v

    return k


def over_an_ndarray(d: Data) -> Any:
    x, y, trips, count = d.x, d.y, d.trips, d.count

    @sg.kernel
    def k(gate: sg.types.ndarray(ndim=1)):  # type: ignore[valid-type, no-untyped-def]
        for i in range(count[None]):
            v = x[i]
            if gate[i] > 0:
                for _ in range(trips[i]):
                    v = 1.25 * sg.sin(v)
            y[i] = v

    return k


def in_the_else_branch(d: Data) -> Any:
    x, y, live, trips, count = d.x, d.y, d.live, d.trips, d.count

    @sg.kernel
    def k() -> None:
        for i in range(count[None]):
            v = x[i]
            if live[i] < 0:
                v = v + 0.0
            else:
                for _ in range(trips[i]):
                    v = 1.25 * sg.sin(v)
            y[i] = v

    return k


def over_a_conjunction(d: Data) -> Any:
    x, y, live, code, trips, count = d.x, d.y, d.live, d.code, d.trips, d.count

    @sg.kernel
    def k() -> None:
        for i in range(count[None]):
            v = x[i]
            if live[i] > 0 and not code[i] == 0 and (x[i] > 0 or live[i] > 7):  # noqa: SIM201
                for _ in range(trips[i]):
                    v = 1.25 * sg.sin(v)
            y[i] = v

    return k


def over_a_disjunction(d: Data) -> Any:
    x, y, live, wide, trips, count = d.x, d.y, d.live, d.wide, d.trips, d.count

    @sg.kernel
    def k() -> None:
        for i in range(count[None]):
            v = x[i]
            if wide[i] > 0 or live[i] > 0.25:
                for _ in range(trips[i]):
                    v = 1.25 * sg.sin(v)
            y[i] = v

    return k


def nested(d: Data) -> Any:
    x, y, live, code, trips, count = d.x, d.y, d.live, d.code, d.trips, d.count

    @sg.kernel
    def k() -> None:
        for i in range(count[None]):
            v = x[i]
            if code[i] > 0:  # noqa: SIM102
                if x[i] > 0:
                    w = v
                    if live[i] > 0:
                        for _ in range(trips[i]):
                            w = 1.25 * sg.sin(w)
                    v = w
            y[i] = v

    return k


def at_a_shifted_index(d: Data) -> Any:
    x, y, shifted, trips, count = d.x, d.y, d.shifted, d.trips, d.count

    @sg.kernel
    def k() -> None:
        for i in range(count[None]):
            v = x[i]
            if shifted[i + 3] > 0:
                for _ in range(trips[i]):
                    v = 1.25 * sg.sin(v)
            y[i] = v

    return k


def at_an_indirect_index(d: Data) -> Any:
    x, y, scattered, where, trips, count = d.x, d.y, d.scattered, d.where, d.trips, d.count

    @sg.kernel
    def k() -> None:
        for i in range(count[None]):
            v = x[i]
            if scattered[where[i]] > 0:
                for _ in range(trips[i]):
                    v = 1.25 * sg.sin(v)
            y[i] = v

    return k


def with_locals_inside(d: Data) -> Any:
    x, y, live, trips, count = d.x, d.y, d.live, d.trips, d.count

    @sg.kernel
    def k() -> None:
        for i in range(count[None]):
            y[i] = x[i]
            if live[i] > 0:
                v = x[i]
                for _ in range(trips[i]):
                    v = 1.25 * sg.sin(v)
                y[i] = v

    return k


def with_the_loop_outside(d: Data) -> Any:
    """Return a kernel whose gate is tested in every trip of a loop around it."""
    x, y, live, trips, count = d.x, d.y, d.live, d.trips, d.count

    @sg.kernel
    def k() -> None:
        for i in range(count[None]):
            v = x[i]
            for _ in range(trips[i]):
                if live[i] > 0:
                    v = 1.25 * sg.sin(v)
            y[i] = v

    return k


def over_the_value_itself(d: Data) -> Any:
    """Return a kernel that adds and subtracts `live`, so that its gate is a real value with a derivative."""
    x, y, live, trips, count = d.x, d.y, d.live, d.trips, d.count

    @sg.kernel
    def k() -> None:
        for i in range(count[None]):
            v = x[i]
            if v * live[i] > 0:
                for _ in range(trips[i]):
                    v = 1.25 * sg.sin(v)
            y[i] = v

    return k


GATES: tuple[Callable[[Data], Any], ...] = (
    over_a_field,
    over_integers,
    over_doubles,
    over_an_ndarray,
    in_the_else_branch,
    over_a_conjunction,
    over_a_disjunction,
    nested,
    at_a_shifted_index,
    at_an_indirect_index,
    with_locals_inside,
    with_the_loop_outside,
    over_the_value_itself,
)


def slopes(x: np.ndarray, trips: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return dy/dx in double precision, the product of 1.25 cos(v) over the steps."""
    v, d = x.astype(float), np.ones(len(x))
    for step in range(trips.max(initial=0)):
        live = chosen & (trips > step)
        d = np.where(live, 1.25 * np.cos(v) * d, d)
        v = np.where(live, 1.25 * np.sin(v), v)
    return d


def check_gradient(kernel: Any, d: Data, chosen: np.ndarray, trips: np.ndarray) -> None:
    """Run kernel and gradient, and assert that the gradient is that of the closed form, and 0 outside the launch."""
    args = (d.live.to_numpy(),) if "gate" in kernel.__wrapped__.__code__.co_varnames[:1] else ()
    kernel(*args)
    d.x.grad.fill(0)
    d.y.grad.fill(1)
    before = d.memory()
    kernel.grad(*args)
    expected = np.zeros(before["x"].size)
    expected[: len(chosen)] = slopes(before["x"][: len(chosen)], trips, chosen)
    near(gradient(kernel.ir(), before), "x.grad", d.x.grad.to_numpy(), expected)
