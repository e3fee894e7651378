"""A frozen dataclass of fields is taken apart once, however many calls give it beside new arrays."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from stackgrad.launch.matching import ArrayMatcher, ObjectMatcher
from stackgrad.runtime.usage_errors import StaleFieldError


@pytest.fixture(autouse=True)
def on_the_cpu(fresh_runtime: None) -> None:
    sg.init(arch=sg.cpu, default_fp=sg.f64)


@dataclasses.dataclass(frozen=True)
class Inner:
    """Two fields, and a number of the program."""

    z: sg.template()  # type: ignore[valid-type]
    factor: float


@dataclasses.dataclass(frozen=True)
class Frozen:
    """Fields, and fields inside."""

    x: sg.template()  # type: ignore[valid-type]
    y: sg.template()  # type: ignore[valid-type]
    inner: Inner


@dataclasses.dataclass
class Open:
    """A dataclass whose members may be replaced."""

    x: sg.template()  # type: ignore[valid-type]


def frozen(size: int, factor: float = 2.0) -> Frozen:
    """Return a frozen dataclass of new fields."""
    return Frozen(sg.field(sg.f64, size), sg.field(sg.f64, size), Inner(sg.field(sg.f64, size), factor))


@sg.kernel
def load(things: sg.template(), given: sg.types.ndarray(ndim=1)):  # type: ignore[no-untyped-def, valid-type]
    for i in things.x:
        things.x[i] = given[i] * things.inner.factor + things.inner.z[i]
        things.y[i] = things.x[i]


@sg.kernel
def load_open(things: sg.template(), given: sg.types.ndarray(ndim=1)):  # type: ignore[no-untyped-def, valid-type]
    for i in things.x:
        things.x[i] = given[i]


def check(things: Any, size: int, value: float) -> None:
    load(things, np.full(size, value))
    np.testing.assert_array_equal(things.y.to_numpy(), np.full(size, things.inner.factor * value))


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_members_are_matched_once(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Any] = []
    take = ArrayMatcher.take
    monkeypatch.setattr(
        ArrayMatcher, "take", lambda self, value, call: (counted.append(value), take(self, value, call))
    )
    one, other = frozen(size), frozen(size, 3.0)
    check(one, size, 1.0)
    check(other, size, 1.0)
    counted.clear()
    for k in range(6):
        check(one, size, float(k))
        check(other, size, float(k))
    assert all(isinstance(value, np.ndarray) for value in counted), "only the new arrays are looked at"


def test_what_may_change_is_taken_apart_each_time() -> None:
    things = Open(sg.field(sg.f64, 3))
    for k in range(6):
        things.x = sg.field(sg.f64, 3)
        load_open(things, np.full(3, float(k)))
        np.testing.assert_array_equal(things.x.to_numpy(), np.full(3, float(k)))


def test_shared_arrays_are_found() -> None:
    x = sg.field(sg.f64, 3)
    things = Frozen(x, x, Inner(x, 2.0))
    for k in range(6):
        x.fill(0.0)
        load(things, np.full(3, float(k)))
        np.testing.assert_array_equal(x.to_numpy(), np.full(3, 2.0 * k))


def test_objects_die() -> None:
    for k in range(20):
        things = frozen(2, float(k))
        check(things, 2, 1.0)
        gone = [weakref.ref(things), weakref.ref(things.x)]
        del things
        gc.collect()
        assert [refer() for refer in gone] == [None, None]
    matchers = load.cache().matchers
    assert isinstance(matchers[0], ObjectMatcher) and not matchers[0].frozen.known


def test_a_destroyed_field_is_refused() -> None:
    things = frozen(2)
    check(things, 2, 1.0)
    check(things, 2, 1.0)
    sg.init(arch=sg.cpu, default_fp=sg.f64)
    with pytest.raises(StaleFieldError):
        check(things, 2, 1.0)
