"""A program with views: what it prints is the same here and on every peer that is installed."""

from __future__ import annotations

import pytest
from stackgrad.harness.tools.peers import Peer, is_installed

PROGRAM = """
import json
import numpy as np
import {package} as ti

ti.init(arch=ti.cpu)


@ti.func
def grow(v: ti.BufferView[ti.f32], by):
    for i in range(v.size):
        v[i] += by


@ti.kernel
def parts(v: ti.BufferView[ti.f32], w: ti.BufferView, first: ti.i32, size: ti.i32):
    for k in range(1):
        part = v[first : first + size]
        grow(part, 10.0)
        grow(v.subview(offset=1, size=2), 100.0)
        grow(v[first:], 1000.0)
        w[0] = part.size
        w[1] = v.shape[0]
        w[2] = w.size
        ti.atomic_add(w[3], ti.cast(v[first], ti.i32))


@ti.kernel
def made(a: ti.types.ndarray(ti.f32, 1), first: ti.i32, size: ti.i32) -> ti.i32:
    part = ti.BufferView(a, first, size)
    for i in range(part.size):
        part[i] *= 2.0
    return part.offset + part.shape[0]


@ti.kernel
def vectors(v: ti.BufferView[ti.types.vector(2, ti.f32)]):
    for i in range(v.size):
        v[i] = ti.Vector([1.0, 2.0]) * i
        v[i][1] += 5.0


x, y, z = ti.ndarray(ti.f32, (9,)), ti.ndarray(ti.i32, (6,)), ti.Vector.ndarray(2, ti.f32, (4,))
x.from_numpy(np.arange(9, dtype=np.float32))
parts(ti.BufferView(x, 1, 6), y[2:], 2, 3)
parts(x[3:][1:], y[:4], 0, 1)
found = made(x, 2, 4)
vectors(z[1:3])
view = x[-7:8]
ends = [view.offset, view.size, x[:100].size, x[5:2].size, view.subview(1, 2).offset, list(view.shape)]
errors = []
for make in (lambda: ti.BufferView(x, 8, 2), lambda: ti.BufferView(x, -1, 2), lambda: x[::2], lambda: view[0],
             lambda: ti.BufferView(view, 0, 1), lambda: view.subview(3, 9)):
    try:
        make()
        errors.append("none")
    except (TypeError, ValueError) as error:
        errors.append("Type or Value")
print(json.dumps([x.to_numpy().tolist(), y.to_numpy().tolist(), z.to_numpy().tolist(), found, ends, errors]))
"""

EXPECTED = [
    [0, 1, 204, 2226, 4048, 4230, 2106, 1007, 1008],
    [1, 5, 4, 2030, 4, 1113],
    [[0, 0], [0, 5], [1, 7], [0, 0]],
    6,
    [2, 6, 9, 0, 3, [6]],
    ["Type or Value"] * 6,
]
"""What Quadrants 1.3 prints."""

PACKAGES = [name for name in ("stackgrad", "quadrants") if is_installed(name)]


@pytest.mark.parametrize("package", PACKAGES)
def test_views(package: str) -> None:
    with Peer("stackgrad", limit=120.0) as process:
        assert process.ask(PROGRAM.format(package=package)) == EXPECTED
