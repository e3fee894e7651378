# ruff: noqa: B007, F401, F811 - loops that only count; the fixture `arch` is imported
"""Shared arrays, barriers and subgroups compute what NumPy computes, on every backend."""

from __future__ import annotations

import numpy as np
import pytest
import stackgrad as sg
from blocks_support import EXTENTS, arch, filled, launched_twice, parts, spread, whole

block, subgroup, warp = sg.simt.block, sg.simt.subgroup, sg.simt.warp


@pytest.mark.rotating
@pytest.mark.parametrize("dtype", [sg.f32, sg.f64], ids=str)
@pytest.mark.parametrize("n", EXTENTS)
def test_a_block_reduces_in_shared_memory(arch: str, n: int, dtype: sg.types.ScalarType) -> None:
    x, total = filled(whole(n), dtype), sg.field(dtype, ())

    @sg.kernel
    def k():
        sg.loop_config(block_dim=64)
        for i in range(n):
            pad = block.SharedArray((64,), dtype)
            t = block.thread_idx()
            pad[t] = x[i]
            block.sync()
            d = 32
            while d > 0:
                v = pad[t + d] if t + d < 64 else sg.cast(0.0, dtype)
                block.sync()
                pad[t] += v
                block.sync()
                d = d // 2
            if t == 0:
                total[None] += pad[0]

    launched_twice(k, total)
    assert total[None] == whole(n).sum()


@pytest.mark.rotating
@pytest.mark.parametrize("n", EXTENTS)
def test_scans_and_reductions(arch: str, n: int) -> None:
    a = whole(n)
    x, y, z, e, m = (filled(a) for _ in range(5))

    @sg.kernel
    def k():
        sg.loop_config(block_dim=64)
        for i in range(n):
            y[i] = subgroup.inclusive_add(x[i])
            z[i] = block.inclusive_add(x[i])
            e[i] = subgroup.exclusive_add_tiled(x[i], 3)
            m[i] = subgroup.reduce_max(x[i])

    if not n:
        k()
        return
    found = launched_twice(k, y, z, e, m)
    cumulated = [np.concatenate([np.cumsum(g) for g in parts(a, 64, width)]) for width in (32, 0)]
    before = np.concatenate([np.cumsum(g) - g for g in parts(a, 64, 8)])
    for got, wanted in zip(found, (*cumulated, before, spread(parts(a, 64, 32), np.max))):
        assert np.array_equal(got, wanted)


@pytest.mark.rotating
@pytest.mark.parametrize("n", [1, 50, 100])
def test_blocks_that_are_no_multiple_of_a_subgroup(arch: str, n: int) -> None:
    a = whole(n)
    x, y, z = (filled(a) for _ in range(3))

    @sg.kernel
    def k():
        sg.loop_config(block_dim=48)
        for i in range(n):
            y[i] = subgroup.reduce_add(x[i])
            z[i] = block.reduce_min(x[i])

    found = launched_twice(k, y, z)
    assert np.array_equal(found[0], spread(parts(a, 48, 32), np.sum))
    assert np.array_equal(found[1], spread(parts(a, 48), np.min))


@pytest.mark.rotating
@pytest.mark.parametrize("fold", ["add", "mul", "min", "max", "and", "or", "xor"])
def test_every_reduction(arch: str, fold: str) -> None:
    a = whole(40, 1, 4).astype(np.int32)
    x, r, i_, e = (filled(a, sg.i32) for _ in range(4))
    reduce, inclusive, exclusive = (
        getattr(subgroup, f"{kind}_{fold}") for kind in ("reduce_all", "inclusive", "exclusive")
    )

    @sg.kernel
    def k():
        for i in x:
            r[i] = reduce(x[i])
            i_[i] = inclusive(x[i])
            e[i] = exclusive(x[i])

    found = launched_twice(k, r, i_, e)
    ufunc = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}.get(fold) or getattr(
        np, f"bitwise_{fold}"
    )
    limits = np.iinfo(np.int32)
    start = {"mul": 1, "min": limits.max, "max": limits.min, "and": -1}.get(fold, 0)
    scans = [ufunc.accumulate(g, dtype=np.int32) for g in parts(a, 128, 32)]
    assert np.array_equal(found[0], np.concatenate([np.full(len(s), s[-1]) for s in scans]))
    assert np.array_equal(found[1], np.concatenate(scans))
    assert np.array_equal(found[2], np.concatenate([[start, *s[:-1]] for s in scans]))


@pytest.mark.parametrize("fold", ["add", "min", "max"])
def test_every_tiled_reduction(arch: str, fold: str) -> None:
    a = whole(70)
    x, r, s = (filled(a) for _ in range(3))
    reduce, inclusive = getattr(subgroup, f"reduce_all_{fold}_tiled"), getattr(subgroup, f"inclusive_{fold}_tiled")

    @sg.kernel
    def k():
        for i in x:
            r[i] = reduce(x[i], 2)
            s[i] = inclusive(x[i], sg.static(4))

    found = launched_twice(k, r, s)
    ufunc = {"add": np.add, "min": np.minimum, "max": np.maximum}[fold]
    assert np.array_equal(found[0], spread(parts(a, 128, 4), ufunc.reduce))
    assert np.array_equal(found[1], np.concatenate([ufunc.accumulate(g) for g in parts(a, 128, 16)]))


def test_shuffles(arch: str) -> None:
    a = whole(40)
    x = filled(a)
    up, down, xor, at, first, last = (filled(a) for _ in range(6))

    @sg.kernel
    def k():
        for i in x:
            up[i] = subgroup.shuffle_up(x[i], 2)
            down[i] = subgroup.shuffle_down(x[i], 2)
            xor[i] = subgroup.shuffle_xor(x[i], 1)
            at[i] = subgroup.shuffle(x[i], (subgroup.invocation_id() + 5) % subgroup.size())
            first[i] = subgroup.broadcast_first(x[i])
            last[i] = subgroup.broadcast(x[i], 7)

    found = launched_twice(k, up, down, xor, at, first, last)
    lane, base = np.arange(40) % 32, np.arange(40) // 32 * 32

    def source(wanted: np.ndarray) -> np.ndarray:
        there = (wanted >= 0) & (wanted < np.minimum(32, 40 - base))
        return a[np.where(there, base + wanted, np.arange(40))]

    wanted = (lane - 2, lane + 2, lane ^ 1, (lane + 5) % 32, lane * 0, lane * 0 + 7)
    assert all(np.array_equal(got, source(w)) for got, w in zip(found, wanted))


def test_shuffles_of_vectors_and_other_types(arch: str) -> None:
    v = sg.Vector.field(3, sg.f32, 8)
    h, b, w = sg.field(sg.f16, 8), sg.field(sg.u8, 8), sg.field(sg.i64, 8)

    @sg.kernel
    def k():
        for i in range(8):
            v[i] = subgroup.shuffle_xor(sg.Vector([i, 2 * i, 3 * i]), 3)
            h[i] = subgroup.shuffle_xor(sg.cast(i, sg.f16), 1)
            b[i] = subgroup.shuffle_xor(sg.cast(i, sg.u8), 1)
            w[i] = subgroup.shuffle_xor(sg.cast(i, sg.i64) << 40, 1)

    k()
    lane = np.arange(8)
    assert np.array_equal(v.to_numpy(), np.outer(lane ^ 3, [1, 2, 3]))
    assert np.array_equal(h.to_numpy(), lane ^ 1) and np.array_equal(b.to_numpy(), lane ^ 1)
    assert np.array_equal(w.to_numpy(), (lane ^ 1) << 40)


@pytest.mark.expensive
def test_votes(arch: str) -> None:
    n = 70
    x = sg.field(sg.i32, n)
    some, every, equal, count, any_, all_ = (sg.field(sg.i32, n) for _ in range(6))
    mask, match, lanes = (sg.field(sg.u32, n) for _ in range(3))

    @sg.kernel
    def k():
        sg.loop_config(block_dim=64)
        for i in range(n):
            some[i] = subgroup.any_true(x[i] > 1)
            every[i] = subgroup.all_true_tiled(x[i] < 2, 1)
            equal[i] = subgroup.all_equal_tiled(x[i] // 2, 2)
            mask[i] = subgroup.ballot(x[i] == 1)
            count[i] = block.sync_count_nonzero(x[i])
            any_[i] = block.sync_any_nonzero(x[i] > 2)
            all_[i] = block.sync_all_nonzero(x[i] + 1)
            match[i] = warp.match_any(0xFFFFFFFF, x[i])
            lanes[i] = warp.active_mask()

    a = np.arange(n) % 3
    x.from_numpy(a.astype(np.int32))
    k()

    def bits(truth: np.ndarray) -> int:
        return int(sum(1 << int(k) for k in np.flatnonzero(truth)))

    groups = parts(a, 64, 32)
    assert np.array_equal(some.to_numpy(), spread(groups, lambda g: (g > 1).any()))
    assert np.array_equal(every.to_numpy(), spread(parts(a, 64, 2), lambda g: (g < 2).all()))
    assert np.array_equal(equal.to_numpy(), spread(parts(a, 64, 4), lambda g: len(set(g // 2)) == 1))
    assert np.array_equal(mask.to_numpy(), spread(groups, lambda g: bits(g == 1)))
    assert np.array_equal(count.to_numpy(), spread(parts(a, 64), np.count_nonzero))
    assert np.array_equal(any_.to_numpy(), 0 * a) and np.array_equal(all_.to_numpy(), 0 * a + 1)
    assert np.array_equal(match.to_numpy(), np.concatenate([[bits(g == v) for v in g] for g in groups]))
    assert np.array_equal(lanes.to_numpy(), spread(groups, lambda g: (1 << len(g)) - 1))


def test_names_of_cuda(arch: str) -> None:
    a = whole(40).astype(np.int32)
    x, y, z, u = (filled(a, sg.i32) for _ in range(4))
    f = filled(a, sg.f32)

    @sg.kernel
    def k():
        for i in x:
            y[i] = warp.shfl_down_i32(0xFFFFFFFF, x[i], 1) + warp.any_nonzero(-1, x[i]) - warp.all_nonzero(-1, x[i] + 1)
            f[i] = warp.shfl_sync_f32(0xFFFFFFFF, x[i] * 0.5, 3)
            warp.sync(0xFFFFFFFF)
            sg.simt.grid.memfence()
            block.mem_sync()
            z[i] = warp.unique(-1, x[i] * 0)
            u[i] = block.global_thread_idx() + block.block_idx() + block.block_dim()

    k()
    down = np.concatenate([np.append(g[1:], g[-1]) for g in parts(a, 128, 32)])
    assert np.array_equal(y.to_numpy(), down)
    assert np.array_equal(f.to_numpy(), spread(parts(a * 0.5, 128, 32), lambda g: g[3]))
    assert np.array_equal(z.to_numpy(), a * 0 + 1) and np.array_equal(u.to_numpy(), np.arange(40) + 128)


def test_places_of_lanes(arch: str) -> None:
    n = 70
    place = sg.field(sg.i32, (4, n))
    masks = sg.field(sg.u32, (5, n))

    @sg.kernel
    def k():
        sg.loop_config(block_dim=64)
        for i in range(n):
            place[0, i] = subgroup.invocation_id()
            place[1, i] = subgroup.subgroup_id()
            place[2, i] = subgroup.elect()
            place[3, i] = subgroup.log2_group_size() + block.thread_idx()
            masks[0, i] = subgroup.lanemask_eq()
            masks[1, i] = subgroup.lanemask_lt()
            masks[2, i] = subgroup.lanemask_le()
            masks[3, i] = subgroup.lanemask_gt()
            masks[4, i] = subgroup.lanemask_ge()

    k()
    thread = np.arange(n) % 64
    lane = thread % 32
    assert np.array_equal(place.to_numpy(), [lane, thread // 32, lane == 0, thread + 5])
    eq = np.uint64(1) << lane.astype(np.uint64)
    full = np.uint64(0xFFFFFFFF)
    assert np.array_equal(masks.to_numpy(), [eq, eq - 1, 2 * eq - 1, full ^ (2 * eq - 1), full ^ (eq - 1)])


@pytest.mark.rotating
@pytest.mark.parametrize("dtype", [sg.f32, sg.f64, sg.i32, sg.u64], ids=str)
def test_iterations_update_one_shared_element(arch: str, dtype: sg.types.ScalarType) -> None:
    n = 150
    bins, low, high = sg.field(dtype, 4), sg.field(dtype, ()), sg.field(dtype, ())
    low.fill(1000)

    @sg.kernel
    def k():
        sg.loop_config(block_dim=64)
        for i in range(n):
            pad = block.SharedArray(4, dtype)
            ends = block.SharedArray((2, 1), dtype)
            if block.thread_idx() == 0:
                ends[0, 0] = 1000
            block.sync()
            pad[i % 4] += i
            sg.atomic_min(ends[0, 0], i)
            sg.atomic_max(ends[1, 0], i)
            block.sync()
            if block.thread_idx() < 4:
                bins[block.thread_idx()] += pad[block.thread_idx()]
                sg.atomic_min(low[None], ends[0, 0])
                sg.atomic_max(high[None], ends[1, 0])

    k()
    assert np.array_equal(bins.to_numpy(), [np.arange(k, n, 4).sum() for k in range(4)])
    assert (low[None], high[None]) == (0, n - 1)
