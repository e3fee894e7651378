"""sin and cos as default code for GPUs has them: within 4 ulps, never beyond 1, edges kept."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import stackgrad as sg
from on_emulator import runtime


def evaluate(function: Any, values: np.ndarray) -> np.ndarray:
    with runtime():
        x, y = sg.field(sg.f32, len(values)), sg.field(sg.f32, len(values))
        x.from_numpy(values)

        @sg.kernel
        def run():
            for i in x:
                y[i] = function(x[i])

        run()
        return y.to_numpy().copy()


def operands() -> np.ndarray:
    """Bit patterns of the whole range, neighbours of multiples of pi/2, moderate numbers."""
    rng = np.random.default_rng(1)
    spread = np.arange(77, 1 << 32, 1 << 17, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = (np.arange(-3000, 3000) * np.pi / 2).astype(np.float32)
    some = [rng.uniform(-w, w, 1 << 13).astype(np.float32) for w in (1e-3, 1, 10, 100, 3e4)]
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 32768.0, 32770.0, 1e-45, -1e-45], np.float32)
    return np.concatenate([spread, near, np.nextafter(near, np.float32(9)), *some, edges])


@pytest.mark.parametrize("function, exact", [(sg.sin, np.sin), (sg.cos, np.cos)], ids=["sin", "cos"])
def test_errors(function: Any, exact: Any) -> None:
    values = operands()
    got = evaluate(function, values)
    with np.errstate(invalid="ignore"):
        want = exact(values.astype(np.float64))
        wrong = np.abs(got - want) / np.spacing(np.abs(want.astype(np.float32)))
    same = (got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want)
    wrong[same] = 0
    worst = int(np.argmax(wrong))
    assert wrong[worst] <= 4, f"{values[worst]}: {got[worst]}, not {want[worst]}"
    zero = want == 0
    assert np.array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


def test_no_result_is_beyond_one() -> None:
    """Every number whose sine might be rounded beyond it: 1.56 to a little more than pi/2."""
    low, high = (int(np.array([x], np.float32).view(np.int32)[0]) for x in (1.56, 1.5745))
    values = np.arange(low, high, dtype=np.int32).view(np.float32)
    assert np.abs(evaluate(sg.sin, values)).max() == 1.0
    shifted = (np.arange(-400, 400)[:, None] * np.pi + np.linspace(-1e-3, 1e-3, 200)).ravel().astype(np.float32)
    assert np.abs(evaluate(sg.cos, shifted)).max() == 1.0
