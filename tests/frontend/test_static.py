"""What is known at compile time: unrolling, picking, lists of fields, constants."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import stackgrad as sg
from frontend_support import Field, agree, body, execute, integers, real, traced
from stackgrad.compiler.ir import nodes as n
from stackgrad.compiler.ir.walk import walk_kernel

x, y = real(1, 2, 3), real(0, 0, 0)
WEIGHTS = (0.25, 0.5, 0.25)
TABLE = np.array([[1, 2], [3, 4]])


@dataclass(frozen=True)
class Config:
    """Constants that a kernel reads by attribute."""

    gain: float = 3.0
    order: int = 2
    name: str = "fast"


config = Config()


def test_unrolled_loop_over_numbers_and_pairs() -> None:
    def k():
        for i in range(1):
            total = 0.0
            for j in sg.static(range(3)):
                total += WEIGHTS[j] * x[j]
            for j, w in sg.static(enumerate(WEIGHTS)):
                total += j * w
            for a, b in sg.static(sg.ndrange(2, (1, 3))):
                total += a * 10 + b
            for row in sg.static(TABLE.tolist()):
                for v in sg.static(row):
                    total += v
            y[i] = total

    agree(k)
    assert not any(isinstance(s, n.For) for s in walk_kernel(traced(k).kernel))


def test_picked_branches() -> None:
    debug, dim = False, 2

    def k():
        if sg.static(debug):
            y[0, 0, 0] = missing  # noqa: F821 - never looked at
        elif sg.static(dim == 2):
            v = 2.0
        else:
            v = 3.0
        y[0] = v
        y[1] = 1.0 if sg.static(dim > 2) else -1.0

    execute(k)
    assert list(y.data[:2]) == [2.0, -1.0]
    assert "if" not in body(k)


def test_lists_of_fields() -> None:
    parts = [real(1, 2), real(3, 4)]
    store = {"a": parts[0], "state": SimpleNamespace(b=parts[1])}

    def k():
        for i in range(2):
            for f in sg.static(parts):
                f[i] += 1.0
            for j in sg.static(range(len(parts))):
                parts[j][i] *= 2.0
            store["a"][i] -= store["state"].b[i]

    made = execute(k)
    assert len(made.arrays) == 2
    assert list(parts[0].data) == [4 - 8, 6 - 10] and list(parts[1].data) == [8, 10]


def test_names_bound_to_static_values() -> None:
    def k():
        out = sg.static(y)
        first, second = sg.static(WEIGHTS[0], WEIGHTS[1])
        count = sg.static(0)
        for j in sg.static(range(3)):
            count = sg.static(count + j)
            out[j] = first + second * count

    execute(k)
    assert list(y.data) == [0.25, 0.75, 1.75]


def test_constants_of_objects() -> None:
    def k():
        y[0] = config.gain * x[1] ** config.order + math.pi
        if sg.static(config.name == "fast"):
            y[1] = TABLE[1, 0] + TABLE.shape[0]
        y[2] = len(WEIGHTS) + len(x.shape) + (1 if config.name is not None else 0)

    agree(k)


def test_arithmetic_of_constants_is_that_of_python() -> None:
    def k():
        y[0] = 7 // 2 + 7 % -4 + 2**10 / 3 - (1 << 4)
        y[1] = min(3, 4) * max(1.5, 2) + abs(-3) + int(2.9) + float(3) + (5 > 3 > 1)
        y[2] = -(2 - 5) + ~4 + round(2.5) + (3 if 1 < 2 else 4) + (not True)

    agree(k)
    assert not any(isinstance(s, n.Op) for s in walk_kernel(traced(k).kernel))


def test_static_arguments_pass_through_functions() -> None:
    @sg.func
    def total(field, size, power):
        v = 0.0
        for j in sg.static(range(size)):
            v += field[j] ** power
        return v

    def k():
        y[0] = total(x, 3, 2)
        y[1] = total(x, power=3, size=2)

    execute(k)
    assert list(y.data[:2]) == [14.0, 9.0]


def test_functions_as_values() -> None:
    @sg.func
    def double(v):
        return v * 2

    @sg.func
    def apply(f, v):
        return f(v)

    operations = [sg.sin, double, math.sqrt]

    def k():
        y[0] = apply(sg.cos, x[0]) + apply(double, x[1])
        for f in sg.static(operations):
            y[1] += f(x[1])

    y.data[:] = 0
    execute(k)
    # three sums and a root of half an ulp on each side, and a sine of 4, an eighth as large as the result
    np.testing.assert_array_max_ulp(y.data[:2], [math.cos(1) + 4, math.sin(2) + 4 + math.sqrt(2)], maxulp=5)


def test_shapes() -> None:
    grid = Field(sg.i32, (2, 5))

    def k():
        rows, columns = grid.shape
        for i in range(grid.shape[0]):
            for j in sg.static(range(grid.shape[1])):
                grid[i, j] = rows * 100 + columns * 10 + grid.shape[-1] + sg.static(len(grid.shape))

    agree(k)
    assert "shape grid, 1" in body(k)


def test_static_print_runs_while_tracing(capsys: pytest.CaptureFixture[str]) -> None:
    def k():
        sg.static_print("dimension", config.order)
        sg.static_assert(config.order == 2)
        y[0] = 1.0

    traced(k)
    assert capsys.readouterr().out == "dimension 2\n"


def test_short_circuit_of_constants_looks_at_one_side() -> None:
    dim = 1

    def k():
        if dim == 2 and y[0, 0] > 1:
            y[0] = 1.0
        if dim == 1 or y[0, 0] > 1:
            y[0] = 2.0

    execute(k)
    assert y.data[0] == 2.0


def test_indices_known_at_compile_time() -> None:
    grid, cell = Field(sg.i32, (2, 3)), (1, 2)

    def k():
        grid[cell] = 5
        for i in range(1):
            for c in sg.static([(0, 0), (1, 1)]):
                grid[c] += i + 1

    execute(k)
    assert grid.data.tolist() == [[1, 0, 0], [0, 1, 5]]


def test_narrow_indices() -> None:
    at, out = integers(2, dtype=sg.u8), integers(0, 0, 0)

    def k():
        out[at[0]] = 1
        out[sg.cast(at[0], sg.u32) - 1] = 2

    execute(k)
    assert list(out.data) == [0, 2, 1]
    types = {s.indices[0].type for s in walk_kernel(traced(k).kernel) if isinstance(s, n.Store)}
    assert types == {sg.i32, sg.i64}
