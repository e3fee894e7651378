"""Rows are taken by the iterations that need one, whatever the gate looks like; gradients are those on paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from gate_kernels import GATES, Data, check_gradient
from stackgrad.backends.base import Options
from stackgrad.backends.llvm import task_threads
from stackgrad.runtime.session import Runtime

FRACTIONS, COUNTS = (0.0, 0.05, 0.5, 1.0), (0, 1, 2, 3, 1000)


@pytest.fixture(autouse=True)
def given_back() -> Iterator[None]:
    yield
    sg.reset()


def choose(count: int, fraction: float) -> np.ndarray:
    """So many of the places, rounded up, at random."""
    chosen = np.zeros(count, bool)
    places = np.random.default_rng(count).permutation(count)
    chosen[places[: int(np.ceil(fraction * count))]] = True
    return chosen


WAYS = {
    "branching": Options(lanes=0),
    "threads": Options(lanes=0, threads=2),
    "lanes": Options(lanes=4, threads=2),
    "debug": Options(debug=True),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Options:
    """How the kernels run; threads share a task of any size."""
    for name, number in (("ENOUGH", 0), ("SHARE", 1), ("CHUNK", 1)):
        monkeypatch.setattr(task_threads, name, number)
    options = replace(WAYS[request.param], precise=False)
    monkeypatch.setattr(Runtime, "options", property(lambda _: options))
    return options


@pytest.mark.rotating
@pytest.mark.parametrize("real", [sg.f32, sg.f64], ids=["f32", "f64"])
@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.__name__)
def test_rows_and_gradients(gate: Callable[[Data], Any], real: Any, way: Options) -> None:
    sg.init(arch=sg.cpu, default_fp=real, debug=way.debug)
    data = Data(real)
    kernel = gate(data)
    for count in COUNTS:
        trips = 1 + np.arange(count, dtype=np.int32) % 7
        for fraction in FRACTIONS:
            chosen = choose(count, fraction)
            data.fill(chosen, trips)
            check_gradient(kernel, data, chosen, trips)
            check_rows(real, chosen, trips, way)


def check_rows(real: Any, chosen: np.ndarray, trips: np.ndarray, way: Options) -> None:
    """One real slab with the steps of those that pass, and nothing anywhere if none does."""
    uses = [use for use in sg.adstack_report().tasks if use.stride]
    size, deepest = (4 if real is sg.f32 else 8), trips[chosen].max(initial=0)
    if not chosen.any():
        assert not uses
        return
    (use,) = uses
    assert (use.slab, use.passing, use.threads, use.lanes) == ("real", chosen.sum(), way.threads, way.lanes or 1)
    assert use.rows == use.threads * use.lanes
    assert (use.stride, use.content) == (size * deepest, size * trips[chosen].sum())
