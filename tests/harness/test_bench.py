"""The benchmark that sets libraries side by side: what it prints, and that every work runs and checks its gradient."""

from __future__ import annotations

import json
import sys
import time

import pytest
import stackgrad as sg
from stackgrad.harness.tools.bench import __main__ as command
from stackgrad.harness.tools.bench import device_works, process
from stackgrad.harness.tools.bench.device_works import DEVICE_WORKS
from stackgrad.harness.tools.bench.run import SampleColumn, measure
from stackgrad.harness.tools.bench.works import FRESH, WORKS, TimedWork, check_gradient


@pytest.mark.expensive
def test_table_and_file(tmp_path, capsys):
    """One sample of one work, with a library that is not there."""
    assert command.main(["launch", "--repeat", "1", "--peers", "no_such_library", "--json", str(tmp_path / "f")]) == 0
    printed = capsys.readouterr().out
    assert "no argument" in printed and "µs" in printed
    assert "no_such_library: ModuleNotFoundError" in printed
    found = json.loads((tmp_path / "f").read_text())
    samples = found["works"]["launch"]["three ndarrays"]["stackgrad"]["samples"]
    assert len(samples) == 1 and samples[0] > 0


def test_unknown_work(capsys):
    assert command.main(["no_such_work"]) == 2
    assert "there are: launch" in capsys.readouterr().err


def test_factor_is_theirs_by_ours():
    figures = {"grad": {"stackgrad": SampleColumn("µs", [2.0, 1.0, 3.0]), "other": SampleColumn("µs", [10.0])}}
    (line,) = command.rows("w", figures)
    assert "stackgrad 2 µs [1]" in line and "other 10 µs [10] (5.0x)" in line


@pytest.mark.rotating
@pytest.mark.parametrize("name", sorted(set(WORKS) - FRESH - {"sweep", "varied_sweep", "skewed_sweep", "gated"}))
def test_works_run_here(name):
    """Works check their own gradients while they are set up."""
    sg.init(arch=sg.cpu)
    for timed in WORKS[name](sg).values():
        timed.call()
        assert timed.figure is None or timed.figure() > 0


@pytest.mark.rotating
@pytest.mark.parametrize("name", ["device_launch", "device_grid", "device_tasks"])
def test_works_of_gpus_run_on_a_cpu_too(name):
    """Their gradients are checked; the figures mean something on a GPU only."""
    found = measure(name, ["stackgrad"], {"stackgrad": sys.executable}, 1, 1)
    assert found and all(one["stackgrad"].samples for one in found.values()), found
    assert set(DEVICE_WORKS) >= {name, "device_sweep", "device_gated", "device_loss"}


def test_a_gpu_is_busy_before_it_is_timed(monkeypatch):
    calls = []
    monkeypatch.setattr(process, "BUSY", (0.02, 0.0))
    for is_first, some in ((True, True), (False, False)):
        calls.clear()
        process.keep_gpu_busy(TimedWork(lambda: calls.append(time.sleep(0.001))), is_first)
        assert (len(calls) > 1) == some
    process.keep_gpu_busy(TimedWork(lambda: calls.append(1), figure=lambda: 1.0), True)
    assert not calls


def test_wrong_gradients_are_not_timed():
    import numpy as np

    with pytest.raises(ArithmeticError, match="gradient is wrong"):
        check_gradient(np.array([1.0, 2.0]), np.array([1.0, 2.1]), "w")


@pytest.mark.expensive
def test_fresh_works_take_a_process_a_sample():
    found = measure("warm_cache", ["stackgrad"], {"stackgrad": sys.executable}, 1, 1)
    assert len(found["grad"]["stackgrad"].samples) == 1


class Driver:
    """Represent a CUDA driver that records calls; contexts are numbers, and the function `refuses` returns an error."""

    def __init__(self, current: int, refuses: str = "") -> None:
        self.current, self.refuses, self.calls = current, refuses, []

    def __getattr__(self, name):
        def call(*args):
            self.calls.append(name)
            if name == "cuCtxGetCurrent":
                args[0]._obj.value = self.current
            if name == "cuDevicePrimaryCtxRetain":
                args[0]._obj.value = 7
            if name == "cuCtxSetCurrent":
                self.current = None if args[0] is None else args[0].value
            return int(name == self.refuses)

        return call


def test_a_copy_is_timed_in_a_context_of_its_own_where_there_is_none():
    driver = Driver(current=3)
    with device_works._context(driver):
        assert driver.calls == ["cuCtxGetCurrent"]
    driver = Driver(current=0, refuses="cuCtxGetCurrent")  # nobody has called cuInit
    with device_works._context(driver):
        assert driver.current == 7
    assert driver.current is None and driver.calls[-1] == "cuDevicePrimaryCtxRelease_v2"
    with pytest.raises(OSError, match="no device"), device_works._context(Driver(0, "cuInit")):
        pass
