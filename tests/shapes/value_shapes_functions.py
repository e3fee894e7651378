# ruff: noqa: B007 - loops that only count
"""Define shapes of values: functions of numbers that a loop carries or that a trip computes; random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import stackgrad as sg
from shape_table import INPUTS, real, shape


@shape("values", "steps: `round`, `floor`, `sgn` have the slope 0, and what stands beside them goes on")
def steps(x, y, n):
    @sg.kernel
    def k():
        for i in x:
            v = 1.7 * x[i]
            for j in range(n[i]):
                v = 0.9 * v + 0.1 * sg.round(3.0 * v) + 0.2 * sg.floor(v) - 0.05 * sg.math.sign(v)
            y[i] += v * v

    return k


@shape("values", "random numbers that decide how often a loop runs")
def random_decides_trips(x, y):
    @sg.kernel
    def k():
        for i in x:
            v = x[i]
            while sg.random() > 0.4:
                v = sg.sin(v) + 0.3 * sg.random() * v
            y[i] += v

    return k


# ---- one function, carried and read ----------------------------------------------------------------------------

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "tanh": sg.tanh,
    "exp": sg.exp,
    "tan": sg.tan,
    "sqrt": sg.sqrt,
    "log": sg.log,
    "rsqrt": sg.rsqrt,
    "asin": sg.asin,
    "acos": sg.acos,
    "abs": sg.abs,
}


def carried(name: str, f: Callable[[Any], Any]) -> None:
    def make(x, y, n):
        @sg.kernel
        def k():
            for i in x:
                v = x[i]
                for _ in range(n[i]):
                    v = f(v) * 0.25 + 0.5 * x[i] + rest
                y[i] += v

        return k

    rest = 0.6 if name == "log" else 0.05  # what log is taken of stays positive
    make.__name__ = f"{name}_carried"
    small = real([0.3, 0.7, 0.4, 0.9, 0.5])
    shape("values", f"`{name}` of what the loop carries", x=small if name in ("asin", "acos") else INPUTS["x"])(make)


def read(name: str, f: Callable[[Any], Any]) -> None:
    def make(x, y, n):
        @sg.kernel
        def k():
            for i in x:
                s = 0.0
                for j in range(n[i]):
                    a = x[i] * (0.1 * j + 0.4)
                    s += f(a)
                y[i] += s

        return k

    make.__name__ = f"{name}_read"
    shape("values", f"`{name}` of a value made in the trip")(make)


for _name, _f in FUNCTIONS.items():
    carried(_name, _f)
for _name in ("tanh", "exp", "tan", "sqrt", "log", "rsqrt"):
    read(_name, FUNCTIONS[_name])
