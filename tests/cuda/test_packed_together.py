"""Test that all threads of a block reach each barrier, and, by mutants, that each barrier is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import stackgrad as sg
from grids import DRIVERS, chosen, device
from on_emulator import runtime
from stackgrad.backends.cuda import code
from stackgrad.backends.cuda.driver import DriverError
from stackgrad.harness.testing.emulated_cuda.driver import EmulatedDriver
from stackgrad.harness.testing.emulated_cuda.fibers import AVAILABLE
from stackgrad.harness.tools.mutants import blocks

MUTATED = {mutant.name: mutant for mutant in (*blocks.MUTANTS, *blocks.OF_MANY_WARPS)}


def is_wrong() -> bool:
    """Return True if the sum over half of 2,300 iterations is wrong."""
    driver = EmulatedDriver(blocks=True, most=256, strict=False)
    with runtime(driver, default_fp=sg.f64):
        gate, y, total = sg.field(sg.i32, 2300), sg.field(sg.f64, 2300), sg.field(sg.f64, ())

        @sg.kernel
        def k() -> None:
            for i in gate:
                if gate[i] > 0:
                    v = 0.0
                    for _ in range(gate[i]):
                        v += 1.0
                    y[i] += v
                    total[None] += v

        passes = chosen(2300, 0.5)
        gate.from_numpy(passes.astype(np.int32))
        k()
        try:
            sg.sync()
        except DriverError as error:
            assert error.code == 700
            return True
        return not np.array_equal(y.to_numpy(), passes) or total[None] != passes.sum()


@pytest.mark.skipif(not AVAILABLE, reason="the C library switches contexts on Linux alone")
@pytest.mark.parametrize("name", MUTATED)
def test_a_mutant_changes_a_result_and_leaves_nothing_behind(name: str) -> None:
    with MUTATED[name].planted():
        assert is_wrong()
    assert not is_wrong()


def body_fails(divisor: sg.Field, y: sg.Field) -> sg.Kernel:
    @sg.kernel
    def k() -> None:
        for i in divisor:
            if y[i] > 2:
                v = 0
                for _ in range(y[i]):
                    v += 100 // divisor[i]
                y[i] = v

    return k


def gate_fails(divisor: sg.Field, y: sg.Field) -> sg.Kernel:
    @sg.kernel
    def k() -> None:
        for i in divisor:
            if y[i] // divisor[i] > 2:
                v = 0
                for _ in range(y[i]):
                    v += 100
                y[i] = v

    return k


@pytest.mark.parametrize("name", DRIVERS)
@pytest.mark.parametrize("form", [body_fails, gate_fails], ids=lambda form: form.__name__)
def test_all_threads_meet_where_some_have_failed(
    form: Callable[[sg.Field, sg.Field], sg.Kernel], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only debug builds look whether something fails, and they run in place if they may."""
    right = code.packed_gates
    monkeypatch.setattr(code, "packed_gates", lambda k, n, options: right(k, n, replace(options, debug=False)))
    with device(name, debug=True) as driver:
        divisor, y = sg.field(sg.i32, 1500), sg.field(sg.i32, 1500)
        kernel = form(divisor, y)
        for zeros in ([700], [], [0, 1, 128, 1499]):
            values, content = np.ones(1500, np.int32), np.where(np.arange(1500) % 3, 0, 5).astype(np.int32)
            values[zeros], content[zeros] = 0, 5
            divisor.from_numpy(values)
            y.from_numpy(content)
            if zeros:
                with pytest.raises(sg.DivisionByZero):
                    kernel()
            else:
                kernel()
                np.testing.assert_array_equal(y.to_numpy(), 100 * content)
        assert {entry for entry, *_ in driver.launches} == {"k_packed_0"}


@pytest.mark.parametrize("name", DRIVERS)
def test_a_list_is_made_by_all_threads_where_a_gate_fails(name: str) -> None:
    with device(name, debug=True, default_fp=sg.f64) as driver:
        gate, place = sg.field(sg.i32, 900), sg.field(sg.i32, 900)
        x, y = (sg.field(sg.f64, 900, needs_grad=True) for _ in range(2))

        @sg.kernel
        def k() -> None:
            for i in place:
                if gate[place[i]] > 0:
                    v = x[i]
                    for _ in range(3):
                        v = sg.sin(v)
                    y[i] = v

        passes = chosen(900, 0.1)
        x.fill(0.0)
        gate.from_numpy(passes.astype(np.int32))
        for last in (899, 900, 899):
            where = np.arange(900, dtype=np.int32)
            where[-1] = last
            place.from_numpy(where)
            x.grad.fill(0.0)
            y.grad.fill(1.0)
            if last == 900:
                with pytest.raises(sg.OutOfBounds):
                    k.grad()
            else:
                k.grad()
                np.testing.assert_array_equal(x.grad.to_numpy(), passes)
        assert "k_grad_select_0" in {entry for entry, *_ in driver.launches}
