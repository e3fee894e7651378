"""Launches that stand ready in machine code: the same results, counters and versions as from Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from launch_fast_support import Steps, add, arrays, grow, looks, native_of, natively, near_sines, repeat
from stackgrad.backends.host.trampoline import trampoline


@pytest.fixture(autouse=True)
def on_the_cpu(fresh_runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience without end: a busy machine interrupts a launch at will."""
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    monkeypatch.setattr(trampoline(), "patience", 1 << 62)


@pytest.fixture
def s() -> Steps:
    return Steps()


def test_launches_are_native_after_a_few_and_counted_exactly(s: Steps) -> None:
    for _ in range(50):
        s.run()
        s.seed()
        s.run.grad()
    s.check(4)
    s.check_grad(4)
    assert native_of(s.run).launched > 40 and native_of(s.run, True).launched > 40
    stats = s.run.stats()
    assert (stats.launches, stats.grad_launches, looks(stats), stats.cache_hits) == (50, 50, 1, 49)
    assert stats.bytes["real"] > 0


def test_a_new_bound_is_counted_once(s: Steps) -> None:
    repeat(s.run.grad)
    for times in (7, 2, 9):
        s.n[None] = times
        s.seed()
        before = s.run.stats()
        s.run.grad()
        s.check_grad(times)
        repeat(s.run.grad)
        after = s.run.stats()
        assert looks(after) == looks(before) + 1
    with natively(s.run, 3, is_grad=True):
        repeat(s.run.grad, 3)


def test_every_write_to_the_bound_is_seen(s: Steps) -> None:
    writes = [lambda: s.n.fill(3), lambda: s.n.from_numpy(np.array(5, np.int32)), lambda: s.n.__setitem__(None, 6)]
    for write, times in zip(writes, (3, 5, 6)):
        repeat(s.run.grad)
        write()
        s.seed()
        s.run.grad()
        s.check_grad(times)


def test_memory_that_others_can_write_is_never_taken_as_unchanged(s: Steps) -> None:
    repeat(s.run.grad)
    view = s.n.to_numpy(copy=False)
    for times in (3, 8):
        view[()] = times
        s.seed()
        with natively(s.run, 0, is_grad=True):
            s.run.grad()
        s.check_grad(times)


def test_a_kernel_that_writes_the_bound_of_another(s: Steps) -> None:
    n = s.n

    @sg.kernel
    def raise_bound():  # type: ignore[no-untyped-def]
        n[None] += 1

    repeat(raise_bound)
    repeat(s.run.grad)
    with natively(raise_bound, 1):
        raise_bound()
    s.seed()
    s.run.grad()
    s.check_grad(n[None])


def test_numbers_of_a_call(s: Steps) -> None:
    for times, factor in ((3, 1.5), (3, 0.5), (4, 2), (0, 1.0), (3, True), (np.int64(2), np.float32(0.5))):
        repeat(lambda t=times, f=factor: s.scaled(t, f))  # type: ignore[misc]
        s.check(int(times), float(factor))
        s.seed()
        s.scaled.grad(times, factor)
        s.check_grad(int(times), float(factor))


@pytest.mark.parametrize("value", [-0.0, 0.0, float("nan"), float("inf"), 1e300, 5e-324, 3, -(2**62), 2**70, True])
def test_reals_arrive_as_from_python(value: Any) -> None:
    single, double = sg.field(sg.f32, ()), sg.field(sg.f64, ())

    @sg.kernel
    def store(a: sg.f32, b: sg.f64):  # type: ignore[no-untyped-def, valid-type]
        single[None] = a
        double[None] = b

    found = []
    for _ in range(6):
        single.fill(-7)
        store(value, value)
        found.append((single.to_numpy().tobytes(), double.to_numpy().tobytes()))
    assert len(set(found)) == 1
    with np.errstate(over="ignore"):
        assert found[0] == (np.float32(value).tobytes(), np.float64(value).tobytes())


@pytest.mark.parametrize("dtype", [sg.i8, sg.u8, sg.i16, sg.u16, sg.i32, sg.u32, sg.i64, sg.u64])
def test_integers_at_their_limits(dtype: Any) -> None:
    out, limits = sg.field(dtype, ()), np.iinfo(dtype.dtype)

    @sg.kernel
    def store(a: dtype):  # type: ignore[no-untyped-def, valid-type]
        out[None] = a

    repeat(lambda: store(1))
    for value in (limits.min, 0, 1, limits.max, True, np.uint8(3)):
        store(value)
        assert out[None] == int(value)
    for value in (limits.min - 1, limits.max + 1, 2**200, -(2**200), 1.5, "x", None):
        with pytest.raises(sg.KernelTypeError, match="the parameter a"):
            store(value)
    with pytest.raises(sg.KernelTypeError, match="takes 1 arguments, got 2"):
        store(1, 2)
    with pytest.raises(sg.KernelTypeError, match="takes 1 arguments, got 0"):
        store()
    with natively(store, 1):
        store(5)
    store(a=6)
    assert out[None] == 6


def test_booleans() -> None:
    out = sg.field(sg.i32, ())

    @sg.kernel
    def store(a: sg.u1):  # type: ignore[no-untyped-def, valid-type]
        out[None] = 2 if a else 3

    for value in [True, False] * 5:
        store(value)
        assert out[None] == (2 if value else 3)
    assert native_of(store).launched > 4


# ---- arrays ---------------------------------------------------------------------------------------------------------


def test_other_arrays_of_the_same_kind_are_native_too() -> None:
    repeat(lambda: add(*arrays()))
    for size in (16, 3, 1, 40, 0):
        a, b, c = arrays(size=size)
        with natively(add, 1):
            add(a, b, c)
        np.testing.assert_array_equal(c.to_numpy(), a.to_numpy() + b.to_numpy())


def test_numpy_arrays_are_read_as_they_are_now() -> None:
    a, b, c = np.arange(12.0), np.ones(12), np.zeros(12)
    repeat(lambda: add(a, b, c))
    with natively(add, 1):
        add(a, b, c)
    short = np.zeros(5)
    with natively(add, 1):
        add(a[:5], b[7:], short)
    np.testing.assert_array_equal(short, np.arange(5.0) + 1)
    a.shape = (12, 1)
    with pytest.raises(sg.KernelTypeError, match="an array with 2 axes"):
        add(a, b, c)


@pytest.mark.parametrize(
    "make",
    [lambda: np.zeros(24)[::2], lambda: np.zeros(12, np.float32), lambda: np.zeros(12, ">f8"), lambda: _frozen()],
)
def test_numpy_arrays_that_do_not_fit_are_refused_as_from_python(make: Any) -> None:
    a, b, c = np.arange(12.0), np.ones(12), np.zeros(12)
    with pytest.raises(sg.KernelTypeError) as from_python:
        add(a, b, make()) if make().dtype == np.float64 else grow(a, make(), "x")
    repeat(lambda: add(a, b, c))
    wrong = make()
    if wrong.dtype == np.float32:  # another specialization
        add(a.astype(np.float32), b.astype(np.float32), wrong)
        return
    with natively(add, 0), pytest.raises(sg.KernelTypeError) as natively_known:
        add(a, b, wrong)
    if wrong.dtype == np.float64:
        assert str(natively_known.value) == str(from_python.value)


def _frozen() -> np.ndarray:
    made = np.zeros(12)
    made.flags.writeable = False
    return made


def test_the_same_memory_under_two_names() -> None:
    a, b, c = np.arange(12.0), np.ones(12), np.zeros(12)
    repeat(lambda: add(a, b, c))
    with pytest.raises(sg.ArgumentError, match="are the same memory"):
        add(c[:6], b[:6], c[3:9])
    with natively(add, 0):
        add(a, b, a)
        np.testing.assert_array_equal(a, np.arange(12.0) + 1)
    x, y, z = arrays()
    repeat(lambda: add(x, y, z))
    expected = x.to_numpy() * 2
    with natively(add, 0):
        add(x, x, x)
    np.testing.assert_array_equal(x.to_numpy(), expected)
    with natively(add, 1):
        add(x, y, z)


def test_an_argument_that_the_kernel_uses_anyway() -> None:
    own, other = arrays(2)

    @sg.kernel
    def copy(a: sg.types.ndarray(ndim=1)):  # type: ignore[no-untyped-def, valid-type]
        for i in range(a.shape[0]):
            own[i] = a[i] + 1

    repeat(lambda: copy(other))
    with natively(copy, 0):
        copy(own)
    with natively(copy, 1):
        copy(other)
    np.testing.assert_array_equal(own.to_numpy(), other.to_numpy() + 1)


def test_bounds_in_an_ndarray() -> None:
    (x, y), (n,) = arrays(2, needs_grad=True), arrays(1, dtype=sg.i32)
    for round_ in range(3):
        n.fill(round_ + 2)
        for _ in range(6):
            x.grad.fill(0.0)
            y.grad.fill(1.0)
            grow(x, y, n)
            grow.grad(x, y, n)
        near_sines(x.to_numpy(), round_ + 2, y=y.to_numpy(), slope=x.grad.to_numpy())
    stats = grow.stats()
    assert stats.grad_launches == 18 and looks(stats) == 3 and stats.cache_hits == 15


def test_bounds_in_an_array_that_has_no_version_are_counted_each_time() -> None:
    x, y = arrays(2, needs_grad=True)
    n = np.full(16, 3, np.int32)
    for times in (3, 3, 3, 3, 3, 5, 2):
        n[:] = times
        x.grad.fill(0.0)
        y.grad.fill(1.0)
        grow.grad(x, y, n)
        near_sines(x.to_numpy(), times, slope=x.grad.to_numpy())
    assert looks(grow.stats()) == 7


def test_written_arrays_get_new_versions() -> None:
    a, b, c = arrays()
    repeat(lambda: add(a, b, c))
    seen = {a.version, b.version, c.version}
    kept = a.version, b.version
    for _ in range(20):
        with natively(add, 1):
            add(a, b, c)
        assert c.version not in seen
        seen.add(c.version)
    assert (a.version, b.version) == kept
