# ruff: noqa: B007, F401, F811 - loops that only count; the fixture `arch` is imported
"""Programs with blocks: tiles, gradients, loops of several axes, control flow around barriers."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from blocks_support import arch, filled, launched_twice, parts, spread, whole

block, subgroup = sg.simt.block, sg.simt.subgroup


@pytest.mark.rotating
@pytest.mark.parametrize("n", [1, 5, 8, 13])
def test_a_product_of_matrices_by_tiles(arch: str, n: int) -> None:
    tile = 4
    tiles = -(-n // tile)
    a, b = (np.random.default_rng(k).integers(-4, 5, (n, n)).astype(float) for k in (1, 2))
    x, y, z = (sg.field(sg.f64, (n, n), needs_grad=True) for _ in range(3))

    @sg.kernel
    def k():
        sg.loop_config(block_dim=tile * tile)
        for e in range(tiles * tiles * tile * tile):
            left = block.SharedArray((tile, tile), sg.f64)
            right = block.SharedArray((tile, tile), sg.f64)
            t, at = block.thread_idx(), block.block_idx()
            row, column = t // tile, t % tile
            i, j = at // tiles * tile + row, at % tiles * tile + column
            total = 0.0
            for m in range(tiles):
                left[row, column] = x[i, m * tile + column] if i < n and m * tile + column < n else 0.0
                right[row, column] = y[m * tile + row, j] if m * tile + row < n and j < n else 0.0
                block.sync()
                for q in range(tile):
                    total += left[row, q] * right[q, column]
                block.sync()
            if i < n and j < n:
                z[i, j] = total

    x.from_numpy(a)
    y.from_numpy(b)
    (found,) = launched_twice(k, z)
    assert np.array_equal(found, a @ b)
    seed = np.random.default_rng(3).integers(-4, 5, (n, n)).astype(float)
    z.grad.from_numpy(seed)
    k.grad()
    # All numbers are small integers, so that sums in any order are exact.
    assert np.array_equal(x.grad.to_numpy(), seed @ b.T) and np.array_equal(y.grad.to_numpy(), a.T @ seed)


@pytest.mark.rotating
@pytest.mark.parametrize("n", [1, 2, 3, 70])
def test_gradients_of_exchanges(arch: str, n: int) -> None:
    """Integers keep all sums exact: adjoints of a shuffle, a sum, a scan and a maximum."""
    a, seed = whole(n, 1, 9), np.random.default_rng(7).integers(-3, 4, n).astype(float)
    x, y = filled(a, needs_grad=True), filled(a, needs_grad=True)

    @sg.kernel
    def k():
        sg.loop_config(block_dim=64)
        for i in range(n):
            other = subgroup.shuffle_xor(x[i] * x[i], 1)
            y[i] = other * x[i] + subgroup.reduce_add(x[i]) * x[i] + block.inclusive_add(x[i])

    k()
    y.grad.from_numpy(seed)
    k.grad()
    wanted = np.zeros(n)
    for i in range(n):
        first, end = i // 64 * 64, min(i // 64 * 64 + 64, n)
        base = first + (i - first) // 32 * 32
        stop = min(base + 32, end)
        j = i ^ 1 if (i ^ 1) < stop else i
        wanted[j] += seed[i] * 2 * a[j] * a[i]
        wanted[i] += seed[i] * (a[j] ** 2 + a[base:stop].sum())
        wanted[base:stop] += seed[i] * a[i]
        wanted[first : i + 1] += seed[i]
    assert np.array_equal(x.grad.to_numpy(), wanted)


@pytest.mark.expensive
def test_the_adjoint_of_a_maximum_goes_to_the_greatest(arch: str) -> None:
    a = np.array([3.0, 9.0, 4.0, 1.0, 5.0])
    x, loss = filled(a, needs_grad=True), sg.field(sg.f64, (), needs_grad=True)

    @sg.kernel
    def k():
        for i in range(5):
            loss[None] += subgroup.reduce_max(x[i]) * (i + 1)

    with sg.ad.Tape(loss):
        k()
    assert loss[None] == 9 * 15 and np.array_equal(x.grad.to_numpy(), [0, 15, 0, 0, 0])


def test_a_loop_of_several_axes_and_a_struct(arch: str) -> None:
    y = sg.field(sg.i32, (5, 7))

    @sg.kernel
    def k():
        sg.loop_config(block_dim=8)
        for i, j in y:
            y[i, j] = block.reduce_max(10 * i + j)

    k()
    values = np.add.outer(10 * np.arange(5), np.arange(7)).ravel()
    assert np.array_equal(y.to_numpy().ravel(), spread(parts(values, 8), np.max))


def test_bounds_that_the_loop_overwrites(arch: str) -> None:
    n, y = sg.field(sg.i32, ()), sg.field(sg.i32, 40)
    n[None] = 37

    @sg.kernel
    def k():
        sg.loop_config(block_dim=32)
        for i in range(n[None]):
            y[i] = block.reduce_add(1)
            if i == 0:
                n[None] = 3

    k()
    assert y.to_numpy().tolist() == [32] * 32 + [5] * 5 + [0] * 3 and n[None] == 3


def test_uniform_control_flow_around_barriers(arch: str) -> None:
    rounds, x = sg.field(sg.i32, ()), filled(whole(70))

    @sg.kernel
    def k():
        sg.loop_config(block_dim=8)
        for i in range(64):
            pad = block.SharedArray(8, sg.f64)
            v = x[i]
            for r in range(rounds[None]):
                if r % 2 == 0:
                    pad[block.thread_idx()] = v
                    block.sync()
                    v = pad[(block.thread_idx() + 1) % 8]
                    block.sync()
                else:
                    v += subgroup.reduce_add(v)
            x[i] = v

    rounds[None] = 3
    k()
    a = whole(70)
    wanted = a.copy()
    for g in range(0, 64, 8):
        v = np.roll(a[g : g + 8], -1)
        wanted[g : g + 8] = np.roll(v + v.sum(), -1)
    assert np.array_equal(x.to_numpy(), wanted)


def test_threads_with_an_early_end(arch: str) -> None:
    """A `continue` behind the last barrier, and reductions into a local outside the loop."""
    x, found = filled(whole(50)), sg.field(sg.f64, ())

    @sg.kernel
    def k():
        total = 0.0
        sg.loop_config(block_dim=16)
        for i in range(50):
            most = block.reduce_max(x[i])
            if x[i] < most:
                continue
            total += 1.0
        found[None] = total

    k()
    assert found[None] == sum((g == g.max()).sum() for g in parts(whole(50), 16))
